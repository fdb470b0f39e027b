package steering

import (
	"os"
	"slices"
	"strings"
	"testing"

	"signalbox/internal/run/agent"
	"signalbox/internal/testkit/must"
)

func TestIs(t *testing.T) {
	for name, want := range map[string]bool{
		".claude/settings.json": true, "a/b/.claude/x": true, ".claude": true, ".CLAUDE/x": true,
		"CLAUDE.md": true, "docs/claude.MD": true,
		".mcp.json": true, ".gemini/.env": true, ".env": true, "sub/.env": true, "GEMINI.md": true,
		".codex/config.toml":       true,
		".opencode/plugin/evil.js": true, "opencode.jsonc": true, "AGENTS.override.md": true,
		".agents/skills/x/SKILL.md": true,
		"CLAUDE.local.md":           true, "\uff23LAUDE.md": true,
		".cl\u200caude/settings.json": true,
		"CLAUDE.md.":                  true, ".gem\u0131ni/x": true,
		"main.go": false, "claude.go": false, "CLAUDE.md.go": false, ".env.example": false,
		".gitignore": false, "agents/x.go": false,
		"opencode/json": false, "env": false, "": false, ".claude-notes": false,
	} {
		if got := Is(name); got != want {
			t.Errorf("%+q: %t, want %t", name, got, want)
		}
	}
}

// TestFilesOfPrograms checks that the table says something about each program that signalbox
// starts.
func TestFilesOfPrograms(t *testing.T) {
	for _, program := range agent.Presets() {
		if !slices.ContainsFunc(Files(),
			func(f File) bool { return slices.Contains(f.Programs, program) }) {
			t.Errorf("there is no file that steers %s", program)
		}
	}
	document, err := os.ReadFile("../../../docs/explanation/security.md")
	must.Succeed(t, err)
	for _, f := range Files() {
		if !strings.Contains(string(document), "`"+f.Name+"`") {
			t.Errorf("docs/explanation/security.md does not name %s", f.Name)
		}
		if strings.Contains(f.Name, "/") || f.What == "" || len(f.Programs) == 0 || !Is(f.Name) ||
			!IsName(f.Name) {
			t.Errorf("%+v", f)
		}
	}
}

func TestNames(t *testing.T) {
	for _, tt := range []struct {
		name, content string
		changed       string
		want          bool
	}{
		{".claude/settings.json",
			`{"hooks":{"command":"$CLAUDE_PROJECT_DIR/scripts/hook.sh --fast"}}`, "scripts/hook.sh",
			true},
		{".claude/settings.json", `{"command":"sh ./scripts/hook.sh; true"}`, "scripts/hook.sh",
			true},
		{".claude/settings.json", `{"command":"../scripts/hook.sh"}`, "scripts/hook.sh", true},
		{".claude/settings.json", `{"command":"\"${CLAUDE_PROJECT_DIR:-.}/scripts/hook.sh\""}`,
			"scripts/hook.sh", true},
		{"a/b/.claude/settings.json", `{"command":"../hook.sh"}`, "a/hook.sh", true},
		{"app/.claude/settings.json", `{"command":"scripts/hook.sh"}`, "app/scripts/hook.sh", true},
		{"app/.claude/settings.json", `{"command":"scripts/hook.sh"}`, "lib/scripts/hook.sh",
			false},
		{".gemini/settings.json", `{"command":"node","args":["tools/mcp.js"]}`, "tools/mcp.js",
			true},
		{".gemini/settings.json", `{"command":"node","args":["tools/mcp"]}`, "tools/mcp.js", true},
		{".gemini/settings.json", `{"command":"node","args":["tools/mcp.js"]}`, "Tools/MCP.js",
			true},
		{".gemini/settings.json", `{"fileName":["RULES.md"]}`, "RULES.md", true},
		{".codex/config.toml", "model_instructions_file = '../docs/rules.txt'", "docs/rules.txt",
			true},
		{"opencode.json", `{"instructions":["docs/*.md","rules/**/*.md"]}`, "docs/a.md", true},
		{"opencode.json", `{"instructions":["docs/*.md","rules/**/*.md"]}`, "rules/a/b.md", true},
		{"opencode.json", `{"instructions":["docs/*.md","rules/**/*.md"]}`, "other/a.md", false},
		{".claude/settings.json",
			`{"allow":["Read(src/**)","Bash(make test)","Edit(src/**/*.go)"]}`, "src/main.go",
			false},
		{".claude/settings.json", `{"allow":["Bash(make test)"]}`, "test", false},
		{"GEMINI.md", "Read @docs/rules.md, and be kind.\n", "docs/rules.md", true},
		{"GEMINI.md", "See @./docs/rules.md.", "docs/rules.md", true},
		{"GEMINI.md", "Dependencies are in @package.json.", "package.json", false},
		{"GEMINI.md", "The program starts in cmd/main.go, docs are in docs/rules.md", "cmd/main.go",
			false},
		{"GEMINI.md", "The program starts in cmd/main.go, docs are in docs/rules.md",
			"docs/rules.md", false},
		{"sub/CLAUDE.md", "@rules.md", "sub/rules.md", true},
		{"sub/CLAUDE.md", "mail me@rules.md", "sub/rules.md", false},
		{"CLAUDE.md", "Read @README first.", "README", true},
		{"CLAUDE.md", "Ask @alice, see @src/main", "alice", true},
		{"CLAUDE.md", "Ask @alice, see @src/main", "alice.go", false},
		{"CLAUDE.md", "Ask @alice, see @src/main", "src/main.go", false},
		{"CLAUDE.md", "@.rules", ".rules", true},
		{"CLAUDE.md", `@docs/my\ own\ rules.md, please`, "docs/my own rules.md", true},
		{"CLAUDE.md", `@docs/my\ own\ rules.md`, "docs/my", false},
		{"CLAUDE.md", "\ufeff@docs/bob's,rules.md#first", "docs/bob's,rules.md", true},
		{"opencode.json", `{"instructions":["docs/{a,b/{c,d}}.md"]}`, "docs/a.md", true},
		{"opencode.json", `{"instructions":["docs/{a,b/{c,d}}.md"]}`, "docs/b/d.md", true},
		{"opencode.json", `{"instructions":["docs/{a,b/{c,d}}.md"]}`, "docs/c.md", false},
		{"opencode.json", `{"instructions":["{docs,rules}/*.md"]}`, "rules/x.md", true},
		{".gemini/settings.json", `{"args":["tools/{a,b}.js"]}`, "tools/b.js", true},
		{".claude/settings.json", `{"command":"${DIR}hook.sh"}`, "hook.sh", true},
		{"opencode.json", `{"instructions":["rules/**"]}`, "rules/a/b.yaml", true},
		{"opencode.json", `{"instructions":["rules/**"]}`, "rules.md/a", false},
		{"opencode.json", `{"instructions":["RULES"]}`, "RULES", true},
		{"opencode.json", `{"instructions":["*/rules/**/x[ab].md"]}`, "a/rules/b/c/xb.md", true},
		{".opencode/opencode.jsonc", "{\"instructions\": [ // ours: ]\n\"rules/*\",\n]}",
			"rules/a.go", true},
		{"opencode.json", `{"instructions":["rules/**"],"watcher":{"ignore":["src/**"]}}`,
			"src/a.go", false},
		{".claude/settings.json", `{"allow":["Edit(docs/**)"]}`, "docs/a.md", false},
		{".claude/hooks/lint.sh", "test -f package.json && . scripts/lib.sh", "package.json",
			false},
		{".opencode/package-lock.json", `{"node_modules/x":{}}`, "node_modules/x", false},
		{".env", "A=scripts/hook.sh", "scripts/hook.sh", false},
		{"main.go", "scripts/hook.sh", "scripts/hook.sh", false},
	} {
		var n Names
		n.Add(tt.name, []byte(tt.content))
		if got := n.Has(tt.changed); got != tt.want {
			t.Errorf("%s with %s names %s: %t, want %t", tt.name, tt.content, tt.changed, got,
				tt.want)
		}
	}
	var n Names
	if n.Add("CLAUDE.md", []byte("@a.md"+strings.Repeat(" ", maxContent))); len(n.Paths()) > 0 {
		t.Error("a huge file was searched")
	}
}

// TestImported checks what a file names that is imported itself.
func TestImported(t *testing.T) {
	for _, tt := range []struct {
		name, changed string
		want          bool
	}{
		{"docs/rules.md", "docs/more.md", true},
		{"docs/rules.txt", "more.md", true},
		{"docs/RULES", "docs/more.md", true},
		{"docs/rules.md", "other/more.md", false},
		{"docs/rules.go", "docs/more.md", false},
	} {
		var n Names
		n.AddImported(tt.name, []byte("See @more.md"))
		if got := n.Has(tt.changed); got != tt.want {
			t.Errorf("%s imports %s: %t, want %t", tt.name, tt.changed, got, tt.want)
		}
	}
}
