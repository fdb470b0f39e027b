package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/config"
	"signalbox/internal/core/box"
	"signalbox/internal/sandbox"
	"signalbox/internal/testkit/must"
)

// TestCommands checks that an agent with a tree is not listed: it has no program that could be
// missing.
func TestCommands(t *testing.T) {
	c, err := config.Parse([]byte(`
models: {main: {provider: openai, model: m}}
agents: {mine: {command: [my-agent, go]}, careful: {tree: critic.lua}}
agent: mine
roles: {critic: {agent: careful}, auditor: {agent: codex}}
`))
	must.Succeed(t, err)
	want := []box.AgentCommand{{Name: "mine", Argv: []string{"my-agent", "go"}},
		{Name: "codex", Argv: []string{"codex"}, Install: "npm install -g @openai/codex"}}
	if diff := cmp.Diff(want, Commands(c)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestChecks checks every fault besides missing programs. Each wanted line has the health, the
// name, and a part of the detail and of the fix.
func TestChecks(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"good.lua": `return BT.tree("a", { root = BT.llm_call("think", {}) })`, "bad.lua": `return BT.tree("a", { root = BT.action("x", { fn = "unknown" }) })`} {
		must.Succeed(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	const local = "base_url: 'http://127.0.0.1:1/v1'"
	for name, tt := range map[string]struct {
		text string
		want []string
	}{
		"nothing": {"{}", nil},
		"key": {"models: {a: {provider: openai, model: m}}",
			[]string{"ok|model a|m of openai; OPENAI_API_KEY is set", "ok|oracle|model a"}},
		"no key": {"models: {a: {provider: anthropic, model: m}}",
			[]string{"problem|model a|ANTHROPIC_API_KEY is not set|set ANTHROPIC_API_KEY",
				"ok|oracle|model a"}},
		"own key": {"models: {a: {provider: openai, model: m, key_env: MINE}}",
			[]string{"problem|model a|MINE is not set|set MINE", "ok|oracle|"}},
		"reachable":          {"models: {a: {provider: openai, model: m, base_url: 'http://up:99/v1'}}", []string{"ok|model a|m at http://up:99/v1", "ok|oracle|"}},
		"port of the scheme": {"models: {a: {provider: openai, model: m, base_url: 'https://up/v1'}}", []string{"ok|model a|m at https://up/v1", "ok|oracle|"}},
		"proxy":              {"models: {a: {provider: openai, model: m, base_url: 'http://inside/v1'}}", []string{"ok|model a|through the proxy proxy:3128", "ok|oracle|"}},
		"unreachable": {"models: {a: {provider: openai, model: m, " + local + "}}",
			[]string{"problem|model a|cannot reach http://127.0.0.1:1/v1: refused|start the server",
				"ok|oracle|"}},
		"unused model": {"models: {a: {provider: openai, model: m}, b: {provider: openai, model: m, " + local + "}}\noracle: {model: a}",
			[]string{"ok|model a|", "warning|model b|cannot reach", "ok|oracle|model a"}},
		"ambiguous model": {"models: {a: {provider: openai, model: m}, b: {provider: openai, model: m}}",
			[]string{"ok|model a|", "ok|model b|",
				"warning|oracle|there are 2 models|add oracle: {model: a}"}},
		"model of an agent": {"models: {a: {provider: openai, model: m}, b: {provider: openai, model: m, " + local + "}}\noracle: {model: a}\n" +
			"agents: {w: {tree: good.lua, model: b, tools: [read_file]}}\nagent: w",
			[]string{"ok|model a|", "problem|model b|cannot reach",
				"ok|agent w|tree good.lua, model b, read-only tools and read_file", "ok|oracle|"}},
		"agent without a role": {"models: {a: {provider: openai, model: m}}\nagents: {w: {tree: bad.lua}}", []string{"ok|model a|", "ok|oracle|"}},
		"bad tree": {"models: {a: {provider: openai, model: m}}\nagents: {w: {tree: bad.lua}}\nroles: {critic: {agent: w}}",
			[]string{"ok|model a|", "problem|agent w|unknown|signalbox tree check", "ok|oracle|"}},
		"bad oracle": {"models: {a: {provider: openai, model: m}}\noracle: {tree: bad.lua}",
			[]string{"ok|model a|", "problem|oracle|unknown|signalbox tree check"}},
		"bad subagent": {"models: {a: {provider: openai, model: m}}\noracle: {subagents: {s: {tree: bad.lua}}}",
			[]string{"ok|model a|", "problem|oracle|unknown|signalbox tree check"}},
		"servers": {"oracle: {servers: {a: {command: [no-such-program]}, b: {url: 'http://127.0.0.1:1/mcp'}, c: {url: 'http://up/mcp'}, d: {command: [x], env: {A: '${GONE}'}}}}",
			[]string{"warning|server a|no-such-program was not found|install it",
				"warning|server b|cannot reach", "ok|server c|http://up/mcp",
				"problem|server d|GONE is not set|set GONE"}},
		"server of the only agent": {"agents: {g: {preset: codex, " + local + "}}\nagent: g",
			[]string{"problem|base_url g|nothing answers at http://127.0.0.1:1/v1, which " +
				"agents.g.base_url names: refused|start the server, or correct agents.g.base_url in "}},
		"server of an agent that another replaces": {"agents: {g: {preset: codex, " + local + "}}\nagent: [g, codex]",
			[]string{"warning|base_url g|nothing answers at"}},
		"server of all agents": {"agents: {g: {preset: codex, " + local + "}, h: {preset: codex, " + local + "}}\nagent: [g, h]",
			[]string{"problem|base_url g|nothing answers at", "problem|base_url h|nothing answers at"}},
		"server of the critic": {"agents: {g: {preset: codex, " + local + "}}\nagent: codex\nroles: {critic: {agent: g}}",
			[]string{"problem|base_url g|nothing answers at"}},
		"server of an agent, up": {"agents: {g: {preset: codex, base_url: 'http://up:99/v1'}}\nagent: g", []string{"ok|base_url g|http://up:99/v1"}},
		"settings": {"agents: {g: {preset: gemini, base_url: 'http://up/v1/'}, c: {preset: codex, base_url: 'http://up/v1'}}",
			[]string{"warning|settings|agents.g.base_url: gemini adds the version: write the address without /v1"}},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.NewReplacer("good.lua", filepath.Join(dir, "good.lua"), "bad.lua",
				filepath.Join(dir, "bad.lua")).Replace(tt.text)
			c, err := config.Parse([]byte(text))
			must.Succeed(t, err)
			up := map[string]bool{"up:99": true, "up:443": true, "up:80": true}
			k := &checker{config: c,
				dial: func(_ context.Context, _, address string) (net.Conn, error) {
					if !up[address] {
						return nil, errors.New("refused")
					}
					here, there := net.Pipe()
					there.Close()
					return here, nil
				},
				lookup: func(name string) (string, bool) {
					key := map[string]string{"OPENAI_API_KEY": "k"}
					return key[name], key[name] != ""
				},
				proxy: func(r *http.Request) (*url.URL, error) {
					if r.URL.Host == "inside" {
						return url.Parse("http://proxy:3128")
					}
					return nil, nil
				}}
			got := k.checks(t.Context())
			if len(got) != len(tt.want) {
				t.Fatalf("%+v, want %q", got, tt.want)
			}
			for i, want := range tt.want {
				part := strings.Split(want+"|", "|")
				if string(got[i].Health) != part[0] || got[i].Name != part[1] ||
					!strings.Contains(got[i].Detail, part[2]) ||
					!strings.Contains(got[i].Fix, part[3]) ||
					(part[3] == "") != (got[i].Fix == "") && part[0] == "ok" {
					t.Errorf("%+v, want %s", got[i], want)
				}
			}
		})
	}
}

// TestRefuseAgents checks that an agent that a run would refuse is a problem.
func TestRefuseAgents(t *testing.T) {
	c, err := config.Parse(
		[]byte("agent: mine\nagents: {mine: {command: [no-such-program]}, gone: {command: [no-such-program]}}\nroles: {critic: {agent: gone}}"))
	must.Succeed(t, err)
	checks := []box.Check{{Name: "agent mine", Health: box.Healthy, Detail: "found"},
		{Name: "agent gone", Health: box.Warning, Detail: "unchanged"},
		{Name: "agent", Health: box.Healthy}}
	refuseAgents(c, checks)
	if checks[0].Health != box.Problem || !strings.Contains(checks[0].Detail, "not found") ||
		checks[0].Fix == "" {
		t.Errorf("%+v", checks[0])
	}
	if checks[1].Detail != "unchanged" || checks[2].Health != box.Healthy {
		t.Errorf("%+v", checks[1:])
	}
}

// TestTemplates checks that a template that a run would refuse is a problem, for every role.
func TestTemplates(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"good.md": "{{.Work}} {{template \"signals\" .}}",
		"bad.md": "{{if .Again}}{{.Worke}}{{end}}", "open.md": "{{if}}",
		"keyless.md": "{{.Work}}"} {
		must.Succeed(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	for _, role := range config.AgentRoles() {
		for text, want := range map[string]string{
			"roles: {ROLE: {prompt: good.md}}":                 "ok|prompt ROLE|good.md",
			"roles: {ROLE: {prompt: good.md}}\nkeyed: true":    "ok|prompt ROLE|good.md",
			"roles: {ROLE: {prompt: keyless.md}}":              "ok|prompt ROLE|keyless.md",
			"roles: {ROLE: {prompt: keyless.md}}\nkeyed: true": "problem|prompt ROLE|does not show the key|.Signals",
			"roles: {ROLE: {prompt: bad.md}}":                  "problem|prompt ROLE|can't evaluate field Worke|fix the template",
			"roles: {ROLE: {prompt: open.md}}":                 "problem|prompt ROLE|missing value for if|fix the template",
			"roles: {ROLE: {prompt: none.md}}":                 "problem|prompt ROLE|none.md|name an existing file",
			"roles: {ROLE: {slots: 1}}":                        "",
		} {
			c, err := config.Parse([]byte(strings.ReplaceAll(text, "ROLE", string(role))))
			must.Succeed(t, err)
			got := ""
			for _, check := range templates(c, dir) {
				got += fmt.Sprintf("%s|%s|%s|%s", check.Health, check.Name, check.Detail, check.Fix)
			}
			for part := range strings.SplitSeq(strings.ReplaceAll(want, "ROLE", string(role)),
				"|") {
				if !strings.Contains(got, part) || want == "" && got != "" {
					t.Errorf("%s, %s: %s, want %s", role, text, got, want)
				}
			}
		}
	}
}

// TestOraclePrompts checks that prompts that the oracle would refuse are a problem.
func TestOraclePrompts(t *testing.T) {
	dir := t.TempDir()
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "identity.md"), []byte("{{.Nothing}}"),
		0o600))
	c, err := config.Parse([]byte("models: {a: {provider: openai, model: m}}"))
	must.Succeed(t, err)
	c.Oracle.Prompts = dir
	if got := newChecker(c).oracle(t.Context()); got.Health != box.Problem ||
		!strings.Contains(got.Detail, "identity") || got.Fix == "" {
		t.Errorf("%+v", got)
	}
}

// withoutNamespaces is a system that cannot hide a folder in another one that may be used.
var withoutNamespaces = sandbox.Support{System: "linux", Landlock: 6, Seccomp: true, Groups: true}

// TestSandboxOfWorktrees checks that a system without namespaces is fine for worktrees, where no
// folder must be hidden, and that it is not for a shared folder, which contains the box. Looking
// changes nothing.
func TestSandboxOfWorktrees(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, box.FolderName)
	command := exec.Command("git", "init", "-q", root)
	command.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
	if output, err := command.CombinedOutput(); err != nil {
		t.Skipf("git init: %v\n%s", err, output)
	}
	must.Succeed(t, os.Mkdir(dir, 0o700))
	t.Setenv("HOME", t.TempDir()) // not in a folder of the system, where it would have to be hidden
	for workspace, want := range map[string]box.Health{config.WorkspaceWorktree: box.Healthy,
		config.WorkspaceShared: box.Problem} {
		c, err := config.Parse(
			[]byte("agent: mine\nagents: {mine: {command: [sh]}}\nchecks: [{name: unit, command: make}]\nworkspace: " + workspace))
		must.Succeed(t, err)
		if got := sandboxes(t.Context(), c, root, dir, withoutNamespaces); len(got) != 1 ||
			got[0].Health != want {
			t.Errorf("%s: %+v", workspace, got)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("the box has %v, %v", entries, err)
	}
}
