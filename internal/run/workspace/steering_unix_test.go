//go:build !windows

package workspace

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/testkit/must"
)

// steeringFiles are those of a base: with links that lead to ordinary files, and settings that name
// one.
var steeringFiles = map[string]string{
	"main.go":               "package main\n",
	".claude/settings.json": `{"hooks":"$CLAUDE_PROJECT_DIR/scripts/hook.sh"}`,
	"scripts/hook.sh":       "base hook\n",
	"scripts/other.sh":      "base other\n", "CLAUDE.md": "base claude\n",
	"sub/CLAUDE.md":           "base sub\n",
	"docs/rules.txt":          "base rules\n",
	"tools/codex/config.toml": "base codex\n", "x/y/far.txt": "base far\n",
	"GEMINI.md": "Read @docs/style.md\n", "docs/style.md": "base style\n",
}

// steeringLinks are the links of the base.
var steeringLinks = map[string]string{"AGENTS.md": "docs/rules.txt", ".codex": "tools/codex",
	"deep": "x/y", "sub/GEMINI.md": "../deep/../y/far.txt", ".gemini": "/nowhere", "plain": "sub"}

func steeringKit(t *testing.T) *kit {
	t.Helper()
	k := newKit(t, steeringFiles)
	for name, target := range steeringLinks {
		link(t, k.dir, target, name)
	}
	must.Succeed(t, os.Chmod(filepath.Join(k.dir, "scripts/hook.sh"), 0o755))
	k.commit("links")
	return k
}

// steeringCases are what a commit can do. edited is what SteeringEdits finds, and files are those
// of the worktree after Steer that a test looks at; "" means that there is no such file.
var steeringCases = []struct {
	name, script, edited string
	files                map[string]string
}{
	{"nothing", "echo x > main.go; echo x > scripts/other.sh; echo x > docs/new.txt; ln -s scripts more", "",
		map[string]string{"main.go": "x\n", "scripts/other.sh": "x\n", "CLAUDE.md": "base claude\n",
			".codex/config.toml": "base codex\n"}},
	{"changed", "echo evil > CLAUDE.md; echo evil > sub/CLAUDE.md", "CLAUDE.md sub/CLAUDE.md",
		map[string]string{"CLAUDE.md": "base claude\n", "sub/CLAUDE.md": "base sub\n"}},
	{"added", "mkdir -p a/b/.opencode/plugin; echo evil > a/b/.opencode/plugin/evil.js; echo evil > .env; echo evil > .mcp.json", ".env .mcp.json a/b/.opencode/plugin/evil.js",
		map[string]string{"a/b/.opencode/plugin/evil.js": "", "a/b/.opencode": "", ".env": "",
			".mcp.json": ""}},
	{"deleted", "rm -r CLAUDE.md sub .claude",
		".claude/settings.json CLAUDE.md sub/CLAUDE.md sub/GEMINI.md x/y/far.txt",
		map[string]string{"CLAUDE.md": "base claude\n", "sub/CLAUDE.md": "base sub\n",
			".claude/settings.json": steeringFiles[".claude/settings.json"]}},
	{"mode", "chmod +x CLAUDE.md", "CLAUDE.md", map[string]string{"CLAUDE.md": "base claude\n"}},
	{"other case", "git rm -q CLAUDE.md; mkdir .Claude; echo evil > .Claude/settings.json; echo evil > claude.md", ".Claude/settings.json CLAUDE.md claude.md",
		map[string]string{".Claude/settings.json": "", "CLAUDE.md": "base claude\n"}},
	{"other forms of Unicode",
		"mkdir .cl\u200baude .Cl\u00adaude; echo evil > .cl\u200baude/settings.json; echo evil > .Cl\u00adaude/x; echo evil > \uff23LAUDE.md; echo evil > \ufeff.mcp.json", ".Cl\u00adaude/x .cl\u200baude/settings.json \ufeff.mcp.json \uff23LAUDE.md",
		map[string]string{".cl\u200baude/settings.json": "", ".Cl\u00adaude/x": "",
			"\uff23LAUDE.md": "", "\ufeff.mcp.json": ""}},
	{"a file that a link leads to",
		"echo evil > docs/rules.txt; echo evil > tools/codex/config.toml",
		".codex/config.toml AGENTS.md docs/rules.txt tools/codex/config.toml",
		map[string]string{"AGENTS.md": "base rules\n", ".codex/config.toml": "base codex\n",
			"docs/rules.txt": "evil\n", "tools/codex/config.toml": "evil\n"}},
	{"a file that two links and a folder above lead to", "echo evil > x/y/far.txt",
		"sub/GEMINI.md x/y/far.txt", map[string]string{"sub/GEMINI.md": "base far\n"}},
	{"a link on the way", "mkdir -p z/y; echo evil > z/y/far.txt; rm deep; ln -s z/y deep",
		"sub/GEMINI.md x/y/far.txt z/y/far.txt", map[string]string{"sub/GEMINI.md": "base far\n"}},
	{"replaced by a link",
		"mkdir e; echo evil > e/settings.json; echo evil > evil.md; rm -r .claude CLAUDE.md; ln -s e .claude; ln -s evil.md CLAUDE.md", ".claude/settings.json CLAUDE.md e/settings.json evil.md",
		map[string]string{".claude/settings.json": steeringFiles[".claude/settings.json"],
			"CLAUDE.md": "base claude\n", "e/settings.json": "evil\n", "evil.md": "evil\n"}},
	{"a new link", "mkdir e; echo evil > e/evil.js; ln -s e .opencode; ln -s main.go opencode.json; ln -s e/../e .agents", ".agents/evil.js .opencode/evil.js e/evil.js main.go opencode.json",
		map[string]string{".opencode": "", "opencode.json": "", ".agents": ""}},
	{"a link to elsewhere", "rm .gemini; ln -s /etc .gemini; ln -s ../../outside .mcp.json",
		".gemini .mcp.json", map[string]string{".gemini": "", ".mcp.json": ""}},
	{"links in circles",
		"ln -s . .claude/loop; ln -s .agents .agents; ln -s .. .codex-plugin; ln -s b .claude/a; ln -s a .claude/b", ".agents .claude/a .claude/b .claude/loop .codex-plugin",
		map[string]string{".claude/loop": "", ".agents": "",
			".claude/settings.json": steeringFiles[".claude/settings.json"]}},
	{"folder above replaced by a link", "mkdir e; echo evil > e/CLAUDE.md; rm -r sub; ln -s e sub",
		"e/CLAUDE.md sub/CLAUDE.md sub/GEMINI.md x/y/far.txt",
		map[string]string{"sub/CLAUDE.md": "", "e/CLAUDE.md": ""}},
	{"folder above replaced by a file", "rm -r sub; echo x > sub",
		"sub/CLAUDE.md sub/GEMINI.md x/y/far.txt", map[string]string{"sub": "x\n"}},
	{"a file that settings name", "echo evil > scripts/hook.sh; echo evil > docs/style.md",
		"docs/style.md scripts/hook.sh",
		map[string]string{"scripts/hook.sh": "base hook\n", "docs/style.md": "base style\n"}},
	{"a file that settings name, through a new link",
		"mkdir e; echo evil > e/hook.sh; rm -r scripts; ln -s e scripts",
		"e/hook.sh scripts/hook.sh",
		map[string]string{"e/hook.sh": "", "scripts/hook.sh": ""}},
	{"attributes", "echo '/CLAUDE.md working-tree-encoding=UTF-16' > .gitattributes; printf '\\377\\376e\\000' > CLAUDE.md", "CLAUDE.md", map[string]string{"CLAUDE.md": "base claude\n"}},
	{"ends of lines", "echo '*.md text eol=crlf' > .gitattributes",
		"AGENTS.md CLAUDE.md GEMINI.md sub/CLAUDE.md sub/GEMINI.md",
		map[string]string{"CLAUDE.md": "base claude\n"}},
}

// commitScript runs a script in a folder and commits everything that it did.
func commitScript(t *testing.T, dir, script string) string {
	t.Helper()
	runShell(t, dir, script)
	gitRun(t, dir, "-c", "core.precomposeUnicode=false", "add", "-A")
	gitRun(t, dir, "commit", "--quiet", "--allow-empty", "-m", "work")
	return gitRun(t, dir, "rev-parse", "HEAD")
}

// TestSteer checks which edits of a commit are found, and that a worktree has the base's files,
// whatever a commit does, also if something was left in the folder since.
func TestSteer(t *testing.T) {
	t.Parallel()
	first := steeringKit(t)
	base := first.base()
	for _, tt := range steeringCases {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			k := first.copied(t)
			commit := commitScript(t, k.dir, tt.script)
			got, err := k.SteeringEdits(t.Context(), base, commit)
			if diff := cmp.Diff(tt.edited, strings.Join(got, " ")); diff != "" || err != nil {
				t.Errorf("%v, edits (-want +got):\n%s", err, diff)
			}
			s := k.scratch(commit)
			for _, round := range []string{"first", "after a program"} {
				if _, err := s.Steer(t.Context(), base); err != nil {
					t.Fatal(err)
				}
				for name, want := range tt.files {
					if got := readInside(t, s.Dir, name); got != want {
						t.Errorf("%s: %s has %q, want %q", round, name, got, want)
					}
				}
				leave(t, s.Dir)
			}
		})
	}
}

// leave leaves what a program could leave in a worktree, to steer those who come later.
func leave(t *testing.T, dir string) {
	t.Helper()
	runShell(t, dir, "mkdir -p n/.gemini built; echo evil > n/.gemini/.env; rm -rf CLAUDE.md .claude .opencode; ln -s built .opencode; echo evil > built/evil.js; ln -s built .claude; echo evil > built/settings.json; echo evil > .env")
}

func (k *kit) scratch(commit string) *Scratch {
	k.t.Helper()
	s, err := k.OpenScratch(k.t.Context(), "T1", commit)
	must.Succeed(k.t, err)
	k.t.Cleanup(func() {
		if err := s.Close(); err != nil {
			k.t.Error(err)
		}
	})
	return s
}

// readInside returns the content of a regular file that no link leads to; "" if there is none.
func readInside(t *testing.T, dir, name string) string {
	t.Helper()
	info, err := os.Lstat(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) || err == nil && isBehindLink(dir, name) {
		return ""
	}
	if err != nil || !info.Mode().IsRegular() {
		t.Fatalf("%s: %v, %v", name, info, err)
	}
	return textOf(t, dir, name)
}

// TestSteerShown checks what the reviewer is told: which files are not as in the commit. An
// ordinary file behind a link is.
func TestSteerShown(t *testing.T) {
	t.Parallel()
	k := steeringKit(t)
	base := k.base()
	s := k.scratch(commitScript(t, k.dir,
		"echo evil > docs/rules.txt; echo evil > scripts/hook.sh; echo x > main.go; chmod +x docs/style.md"))
	shown, err := s.Steer(t.Context(), base)
	must.Succeed(t, err)
	if got := strings.Join(shown, " "); got != "AGENTS.md docs/style.md scripts/hook.sh" {
		t.Error(got)
	}
	if info, err := os.Stat(filepath.Join(s.Dir, "scripts/hook.sh")); err != nil ||
		info.Mode()&0o100 == 0 {
		t.Errorf("the hook cannot be run: %v, %v", info, err)
	}
}

// TestSteerReadOnlyFolders checks that what a setup command left is removed from read-only folders
// too, as those of a module cache are.
func TestSteerReadOnlyFolders(t *testing.T) {
	t.Parallel()
	k := steeringKit(t)
	s := k.scratch(k.base())
	write(t, s.Dir, map[string]string{"mod/a/AGENTS.md": "evil\n", "mod/a/a.go": "x\n",
		"\xff/CLAUDE.md": "evil\n"})
	must.Succeed(t, os.Chmod(filepath.Join(s.Dir, "mod/a"), 0o500))
	if shown, err := s.Steer(t.Context(), k.base()); err != nil || shown != nil {
		t.Fatal(shown, err)
	}
	for _, name := range []string{"mod/a/AGENTS.md", "\xff/CLAUDE.md"} {
		if readInside(t, s.Dir, name) != "" {
			t.Errorf("%q is there", name)
		}
	}
	if readInside(t, s.Dir, "mod/a/a.go") == "" {
		t.Error("the rest is gone")
	}
}

// TestSteerImports checks that imports of imports are those of the base, also through links, and in
// circles.
func TestSteerImports(t *testing.T) {
	t.Parallel()
	k := newKit(t, map[string]string{
		"CLAUDE.md": "@docs/rules.md and @linked/far.md\n", "docs/rules.md": "@more.md\n",
		"docs/more.md": "@rules.md @../NOTES @new.md\n", "NOTES": "base notes\n",
		"x/far.md": "@near.md\n", "x/near.md": "base near\n", "docs/other.md": "@free.md\n",
		"docs/free.md": "base free\n",
	})
	link(t, k.dir, "x", "linked")
	k.commit("link")
	base := k.base()
	script := "for f in docs/more.md NOTES docs/new.md x/near.md docs/free.md; do echo evil > $f; done"
	commit := commitScript(t, k.dir, script)
	got, err := k.SteeringEdits(t.Context(), base, commit)
	want := []string{"NOTES", "docs/more.md", "docs/new.md", "x/near.md"}
	if err != nil || !cmp.Equal(got, want) {
		t.Errorf("%q, %v", got, err)
	}
	s := k.scratch(commit)
	if _, err := s.Steer(t.Context(), base); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"NOTES": "base notes\n", "docs/new.md": "", "x/near.md": "base near\n",
		"docs/free.md": "evil\n",
	} {
		if got := readInside(t, s.Dir, name); got != want {
			t.Errorf("%s has %q, want %q", name, got, want)
		}
	}
}

// TestSteerClosedFolders checks that folders which their owner may not read, enter or change keep
// nothing. Root may do everything, so the test says little when root runs it.
func TestSteerClosedFolders(t *testing.T) {
	t.Parallel()
	first := steeringKit(t)
	base := first.base()
	for _, mode := range []fs.FileMode{0, 0o300, 0o400, 0o500, 0o600} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			k := first.copied(t)
			s := k.scratch(commitScript(t, k.dir, "echo evil > scripts/hook.sh"))
			write(t, s.Dir, map[string]string{"a/b/c/AGENTS.md": "evil\n",
				"a/.claude/b/c": "evil\n"})
			must.Succeed(t, os.Remove(filepath.Join(s.Dir, "sub/CLAUDE.md")))
			for _, dir := range []string{"a/b/c", "a/b", "a/.claude/b", "a/.claude", "a", "sub",
				"scripts", "docs", ".claude", "."} {
				must.Succeed(t, os.Chmod(filepath.Join(s.Dir, dir), mode))
			}
			if _, err := s.Steer(t.Context(), base); err != nil {
				t.Fatal(err)
			}
			for name, want := range map[string]string{
				"a/b/c/AGENTS.md": "", "a/.claude/b/c": "", "sub/CLAUDE.md": "base sub\n",
				"scripts/hook.sh": "base hook\n",
			} {
				if got := readInside(t, s.Dir, name); got != want {
					t.Errorf("%s has %q, want %q", name, got, want)
				}
			}
		})
	}
}

// TestSteerFromRecordedBase checks that it is the given base that counts, and not the branch, which
// has moved.
func TestSteerFromRecordedBase(t *testing.T) {
	t.Parallel()
	k := steeringKit(t)
	base := k.base()
	commit := commitScript(t, k.dir, "echo evil > CLAUDE.md")
	commitScript(t, k.dir, "echo newer > CLAUDE.md")
	s := k.scratch(commit)
	if _, err := s.Steer(t.Context(), base); err != nil ||
		readInside(t, s.Dir, "CLAUDE.md") != "base claude\n" {
		t.Error(readInside(t, s.Dir, "CLAUDE.md"), err)
	}
	if _, err := s.Steer(t.Context(), strings.Repeat("0", 40)); err == nil {
		t.Error("a base that does not exist was accepted")
	}
	if _, err := s.Steer(t.Context(), ""); err == nil {
		t.Error("no base was accepted")
	}
}

// TestSteeringInSubmodules checks that files in submodules count, with what a commit changes by
// using another version of one.
func TestSteeringInSubmodules(t *testing.T) {
	t.Parallel()
	k := newSubmoduleKit(t)
	bump := func(files map[string]string) string {
		t.Helper()
		write(t, k.lib, files)
		k.bump("x\n", true)
		return gitRun(t, k.dir, "rev-parse", "HEAD")
	}
	base := bump(map[string]string{"AGENTS.md": "base lib\n"})
	same := bump(map[string]string{"code.c": "x\n"})
	if got, err := k.SteeringEdits(t.Context(), base, same); err != nil || got != nil {
		t.Errorf("a version with the same instructions: %q, %v", got, err)
	}
	commit := bump(map[string]string{"AGENTS.md": "evil\n", "sub/.env": "evil\n"})
	got, err := k.SteeringEdits(t.Context(), base, commit)
	if want := []string{"vendor/lib/AGENTS.md", "vendor/lib/sub/.env"}; err != nil ||
		!cmp.Equal(got, want) {
		t.Errorf("%q, %v", got, err)
	}
	s := k.scratch(commit)
	if _, err := s.Steer(t.Context(), base); err != nil {
		t.Fatal(err)
	}
	if readInside(t, s.Dir, "vendor/lib/AGENTS.md") != "base lib\n" ||
		readInside(t, s.Dir, "vendor/lib/sub/.env") != "" ||
		readInside(t, s.Dir, "vendor/lib/code.c") == "" {
		t.Error("the worktree does not have the files of the base")
	}
	// Nobody knows what is in a version that is not on this machine.
	k.bump("y\n", false)
	if got, err := k.SteeringEdits(t.Context(), base,
		gitRun(t, k.dir, "rev-parse", "HEAD")); err != nil ||
		!cmp.Equal(got, []string{"vendor/lib", "vendor/lib/AGENTS.md"}) {
		t.Errorf("unknown version: %q, %v", got, err)
	}
	// A submodule that is itself a folder of settings.
	gitRun(t, k.dir, "update-index", "--add", "--cacheinfo", "160000,"+strings.Repeat("1", 40)+
		",.claude")
	gitRun(t, k.dir, "commit", "--quiet", "-m", "settings")
	if got, err := k.SteeringEdits(t.Context(), commit,
		gitRun(t, k.dir, "rev-parse", "HEAD")); err != nil ||
		!strings.Contains(strings.Join(got, " "), ".claude") {
		t.Errorf("settings as a submodule: %q, %v", got, err)
	}
}
