package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"signalbox"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/config"
	"signalbox/internal/testkit/must"
)

func TestCommandOf(t *testing.T) {
	commandOf := func(a config.Agent) Command {
		command, err := CommandOf(a)
		must.Succeed(t, err)
		return command
	}
	codex := commandOf(config.Agent{Preset: "codex", Args: []string{"--oss"},
		Env: map[string]string{"A": "1"}})
	if n := len(codex.Argv); codex.Argv[n-1] != "-" || codex.Argv[n-2] != "--oss" ||
		codex.Env["A"] != "1" {
		t.Errorf("codex: %+v", codex)
	}
	claude := commandOf(config.Agent{Preset: "claude", Args: []string{"--max-turns", "3"}})
	if n := len(claude.Argv); claude.Argv[n-1] != "3" || claude.Linger == 0 {
		t.Errorf("claude: %+v", claude)
	}
	if _, kept := claude.Env["CLAUDECODE"]; !kept {
		t.Errorf("the environment of the preset is lost: %v", claude.Env)
	}
	tree := commandOf(config.Agent{Tree: "/a.lua"})
	if diff := cmp.Diff([]string{"agent", "--tree", "/a.lua", "--model", "{model}"},
		tree.Argv[1:]); diff != "" {
		t.Errorf("a tree (-want +got):\n%s", diff)
	}
	armed := commandOf(config.Agent{Tree: "/a.lua", Tools: []string{"write", "files__*"}})
	if diff := cmp.Diff([]string{"--tools", "write,files__*"},
		armed.Argv[len(tree.Argv):]); diff != "" {
		t.Errorf("a tree with tools (-want +got):\n%s", diff)
	}
	again, _ := Preset("claude")
	if diff := cmp.Diff(again, commandOf(config.Agent{Preset: "claude"}),
		cmp.Comparer(func(a, b map[string]string) bool { return len(a) == len(b) })); diff != "" {
		t.Errorf("CommandOf changed the preset:\n%s", diff)
	}
}

// An agent that judges ignores settings of the project, if its program can. The human's arguments
// come after that, and an author's program has neither.
func TestJudgesIgnoreTheProject(t *testing.T) {
	for preset, want := range map[string]string{
		"claude":   "--model {model} --setting-sources user --strict-mcp-config --mine",
		"codex":    `-m {model} -c projects={"{workspace}"={trust_level="untrusted"}} -c project_doc_max_bytes=0 --mine -`,
		"gemini":   "--skip-trust -m {model} --mine",
		"opencode": "-m {model} --dir {workspace} --mine",
	} {
		a := config.Agent{Preset: preset, Args: []string{"--mine"}}
		author, err := CommandOf(a)
		must.Succeed(t, err)
		for _, role := range config.AgentRoles() {
			command, err := CommandFor(role, a)
			must.Succeed(t, err)
			if role.IsAuthor() {
				if diff := cmp.Diff(author, command); diff != "" ||
					strings.HasSuffix(strings.Join(command.Argv, " "),
						want) == (preset != "gemini") {
					t.Errorf("%s as %s: %q\n%s", preset, role, command.Argv, diff)
				}
				continue
			}
			if got := strings.Join(command.Argv, " "); !strings.HasSuffix(got, want) {
				t.Errorf("%s as %s: %s", preset, role, got)
			}
			if preset == "opencode" && command.Env["OPENCODE_DISABLE_PROJECT_CONFIG"] != "1" {
				t.Errorf("%s as %s: %v", preset, role, command.Env)
			}
		}
	}
}

// A command of the user's own does not get the variable with which Claude Code bypasses permissions
// for root, so it could not start.
func TestCheckCommandOfClaudeAsRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	dir := t.TempDir()
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "claude"), nil, 0o700))
	t.Setenv("PATH", dir)
	t.Setenv("IS_SANDBOX", "")
	t.Setenv("CLAUDE_CODE_BUBBLEWRAP", "")
	own := config.Agent{Command: []string{"claude", "--dangerously-skip-permissions"},
		Prompt: "stdin"}
	for _, tt := range []struct {
		agent   config.Agent
		mode    string
		refused bool
	}{
		{config.Agent{Preset: "claude"}, "enforce", false},
		{config.Agent{Preset: "claude"}, "warn", true},
		{own, "enforce", true},
		{config.Agent{Command: own.Command, Prompt: own.Prompt,
			Env: map[string]string{"IS_SANDBOX": "1"}}, "enforce", false},
	} {
		c, err := config.Parse([]byte("sandbox: " + tt.mode + "\n"))
		must.Succeed(t, err)
		command, err := CommandOf(tt.agent)
		if err == nil {
			err = CheckCommand(c, tt.agent, command)
		}
		if (err != nil) != tt.refused || err != nil && !strings.Contains(err.Error(), "as root") {
			t.Errorf("%+v, sandbox %s: %v", tt.agent, tt.mode, err)
		}
	}
}

// In the sandbox of the default configuration Claude Code runs as root too, so init names it.
func TestInstalledClaudeAsRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	dir := t.TempDir()
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "claude"), nil, 0o700))
	t.Setenv("PATH", dir)
	t.Setenv("IS_SANDBOX", "")
	t.Setenv("CLAUDE_CODE_BUBBLEWRAP", "")
	if found := Installed(); len(found) != 1 || found[0].Name != "claude" {
		t.Errorf("installed: %+v, want claude", found)
	}
}

// CheckRoles finds a missing program before anything is started.
func TestCheckRoles(t *testing.T) {
	c, err := config.Parse([]byte(`agents:
  here: {command: [sh], prompt: stdin}
  missing: {command: [no-such-program-anywhere], prompt: stdin}
roles: {developer: {agent: here}, critic: {agent: missing}}
`))
	must.Succeed(t, err)
	critic := []signalbox.Role{signalbox.RoleDeveloper, signalbox.RoleCritic}
	if err := CheckRoles(c, critic); err == nil ||
		!strings.Contains(err.Error(), "no-such-program-anywhere") {
		t.Errorf("error %v", err)
	}
	developer := []signalbox.Role{signalbox.RoleDeveloper, signalbox.RoleMerger}
	if err := CheckRoles(c, developer); err != nil {
		t.Errorf("error %v", err)
	}
}
