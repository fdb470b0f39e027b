package config

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"signalbox"
	"signalbox/internal/testkit/must"
)

func mustParse(t *testing.T, text string) *Config {
	t.Helper()
	c, err := Parse([]byte(text))
	if err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
	return c
}

func TestNothingSetIsDefault(t *testing.T) {
	for _, text := range []string{"", "\n", "# nothing\n", "---\n", "---\n# nothing\n...\n", "{}",
		"null", "~\n", "\ufeff",
		"slots:\nagent:\nlimits:\nroles:\nchecks:\nenvironments:\nbudget: {run: , task: {cost: }}\nlease:\n", "agent: ''\nworkspace: ''"} {
		if diff := cmp.Diff(Default(), mustParse(t, text)); diff != "" {
			t.Errorf("%q (-default +got):\n%s", text, diff)
		}
	}
}

func TestDefaultRoles(t *testing.T) {
	c := Default()
	for role, want := range map[signalbox.Role]Role{
		signalbox.RoleDeveloper: {Slots: 3, Timeout: 2 * time.Hour,
			Checkpoint: 5 * time.Minute},
		signalbox.RoleCritic:          {Slots: 2, Timeout: 2 * time.Hour},
		signalbox.RoleAuditor:         {Slots: 2, Timeout: 2 * time.Hour},
		signalbox.RoleBusinessAnalyst: {Slots: 1, Timeout: 2 * time.Hour},
		signalbox.RoleRemediation:     {Slots: 1, Timeout: 2 * time.Hour},
		signalbox.RoleHealthAuditor:   {Slots: 1, Timeout: 2 * time.Hour},
		signalbox.RoleExpert:          {Slots: 2, Timeout: 2 * time.Hour},
		signalbox.RoleExpertCreator:   {Slots: 1, Timeout: 2 * time.Hour},
	} {
		if got := c.RoleOf(role); !cmp.Equal(got, want) {
			t.Errorf("%s: %+v, want %+v", role, got, want)
		}
	}
	if c.Analyst() {
		t.Error("the business analyst plays without being configured")
	}
}

// TestRoles checks that settings of a role that are not set have defaults.
func TestRoles(t *testing.T) {
	c := mustParse(t, `
roles:
  developer: {slots: 4, checkpoint: 0s}
  critic: {timeout: 1h, agent: codex}
  business-analyst:
  expert: {slots: 7}
experts:
  - name: db
  - {name: ui, slots: 1, timeout: 1m}
`)
	for role, want := range map[signalbox.Role]Role{
		signalbox.RoleDeveloper:       {Slots: 4, Timeout: 2 * time.Hour},
		signalbox.RoleCritic:          {Slots: 2, Timeout: time.Hour, Agent: AgentList{"codex"}},
		signalbox.RoleBusinessAnalyst: {Slots: 1, Timeout: 2 * time.Hour},
		signalbox.RoleExpert:          {Slots: 7, Timeout: 2 * time.Hour},
	} {
		if got := c.RoleOf(role); !cmp.Equal(got, want) {
			t.Errorf("%s: %+v, want %+v", role, got, want)
		}
	}
	if !c.Analyst() {
		t.Error("the business analyst is configured and does not play")
	}
	want := []Expert{{Name: "db", Slots: 7, Timeout: 2 * time.Hour}, {Name: "ui", Slots: 1, Timeout: time.Minute}}
	if diff := cmp.Diff(want, c.Experts); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	c = mustParse(t, "roles: {developer: {slots: 4}}")
	if diff := cmp.Diff(Role{Slots: 4, Timeout: 2 * time.Hour, Checkpoint: 5 * time.Minute},
		c.RoleOf(signalbox.RoleDeveloper)); diff != "" {
		t.Errorf("only slots (-want +got):\n%s", diff)
	}
	inCode := &Config{Roles: map[signalbox.Role]Role{signalbox.RoleCritic: {Agent: AgentList{"x"}}}}
	if diff := cmp.Diff(Role{Agent: AgentList{"x"}, Slots: 2, Timeout: 2 * time.Hour},
		inCode.RoleOf(signalbox.RoleCritic)); diff != "" {
		t.Errorf("without Parse (-want +got):\n%s", diff)
	}
}

func TestAgentsFor(t *testing.T) {
	c := mustParse(t, `
agent: mine
agents:
  mine: {command: [my-agent]}
  claude: {preset: claude, model: opus}
roles:
  critic: {agent: gemini}
  auditor: {agent: claude}
  expert: {agent: codex}
  remediation: {agent: [mine, codex, claude]}
experts:
  - {name: db, agent: opencode}
  - {name: ui}
`)
	mine := Agent{Command: []string{"my-agent"}, Format: signalbox.FormatAuto, Prompt: PromptStdin}
	for _, tt := range []struct {
		role   signalbox.Role
		expert string
		names  string
		agent  Agent // the first
	}{
		{signalbox.RoleDeveloper, "", "mine", mine},
		{signalbox.RoleDeveloper, "db", "mine", mine},
		{signalbox.RoleCritic, "", "gemini", Agent{Preset: "gemini"}},
		{signalbox.RoleAuditor, "", "claude", Agent{Preset: "claude", Model: "opus"}},
		{signalbox.RoleExpert, "db", "opencode", Agent{Preset: "opencode"}},
		{signalbox.RoleExpert, "ui", "codex", Agent{Preset: "codex"}},
		{signalbox.RoleExpert, "created", "codex", Agent{Preset: "codex"}},
		{signalbox.RoleRemediation, "", "mine codex claude", mine},
	} {
		names := c.AgentsFor(tt.role, tt.expert)
		if diff := cmp.Diff(tt.agent, c.AgentNamed(names[0])); strings.Join(names,
			" ") != tt.names || diff != "" {
			t.Errorf("%s %s: %s, want %s (-want +got):\n%s", tt.role, tt.expert, names, tt.names,
				diff)
		}
	}
	if names := Default().AgentsFor(signalbox.RoleCritic, ""); len(names) != 1 ||
		names[0] != "claude" || Default().AgentNamed("claude").Preset != "claude" {
		t.Errorf("by default: %s", names)
	}
	if e, ok := c.ExpertNamed("db"); !ok || e.Agent[0] != "opencode" {
		t.Errorf("expert db: %+v, %t", e, ok)
	}
	if e, ok := c.ExpertNamed("created"); ok {
		t.Errorf("expert created: %+v", e)
	}
}

// TestValues has values that are not read as YAML would type them.
func TestValues(t *testing.T) {
	c := mustParse(t, `
slots: "0_7"
agents:
  mine:
    command: [sleep, 1.10, 010, true, "{prompt}"]
    prompt: argument
    interactive: "true"
    env: {PORT: 8080, VERSION: 1.10, EMPTY: ""}
checks:
  - &base {name: one, command: &make "make -k", timeout: 1m}
  - name: 2
    command: *make
environments: [{name: local, env: {A: b}}, {name: other place, run: [ssh, host]}]
budget: {run: {cost: 0.000001, tokens: 5_000}, task: {cost: "12.5", time: 90m}}
protected: ["**/*_test.go", go.mod, '[a-c]?/\[x']
protected_existing: [tests]
grace: 0s
`)
	want := Default()
	want.Slots = 7
	want.Agents = map[string]Agent{"mine": {Command: []string{"sleep", "1.10", "010", "true",
		"{prompt}"}, Format: "auto", Prompt: "argument",
		Interactive: true, Env: map[string]string{"PORT": "8080", "VERSION": "1.10", "EMPTY": ""}}}
	want.Checks = []Check{{Name: "one", Command: "make -k", Timeout: time.Minute},
		{Name: "2", Command: "make -k", Timeout: 10 * time.Minute}}
	want.Environments = []Environment{{Name: "local", Env: map[string]string{"A": "b"}},
		{Name: "other place", Run: []string{"ssh", "host"}}}
	want.Budget = Budgets{Run: Budget{CostMicros: 1, Tokens: 5000},
		Task: Budget{CostMicros: 12_500_000, Time: 90 * time.Minute}}
	want.Protected = []string{"**/*_test.go", "go.mod", `[a-c]?/\[x`}
	want.ProtectedExisting = []string{"tests"}
	want.Grace = 0
	if diff := cmp.Diff(want, c); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestPromptDefault checks that the placeholders in a command determine how the prompt is passed.
func TestPromptDefault(t *testing.T) {
	for command, want := range map[string]string{
		`[x]`: PromptStdin, `[x, "--text={prompt}"]`: PromptArgument,
		`[x, "@{prompt_file}"]`: PromptFile, `[x, "{model}"]`: PromptStdin,
	} {
		if got := mustParse(t, "agents: {mine: {command: "+command+
			"}}").Agents["mine"].Prompt; !cmp.Equal(got, want) {
			t.Errorf("%s: %s, want %s", command, got, want)
		}
	}
	if a := mustParse(t,
		`agents: {mine: {command: [x, -m, "{model}"], model: big}}`).Agents["mine"]; a.Model != "big" {
		t.Errorf("model %q", a.Model)
	}
}

// TestEveryLimitIsChecked sets each limit to an invalid value.
func TestEveryLimitIsChecked(t *testing.T) {
	for i, name := range fieldNames(reflect.TypeFor[Limits]()) {
		value := "0"
		switch kind := reflect.TypeFor[Limits]().Field(i).Type; {
		case kind == reflect.TypeFor[time.Duration]():
			value = "0s"
		case kind == reflect.TypeFor[Size](): // of these, 0 means no limit
			value = "1"
		case kind == reflect.TypeFor[Cores]():
			value = "0.001"
		case name == "processes":
			value = "-1"
		}
		_, err := Parse([]byte("limits: {" + name + ": " + value + "}"))
		if err == nil || !strings.Contains(err.Error(), " limits."+name+": "+value+" is ") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func TestNotes(t *testing.T) {
	c := mustParse(t, "slots: 2\nroles: {developer: {}, critic: {slots: 9}, auditor: {slots: 1}}\nexperts: [{name: db, slots: 4}, {name: ui}]\n"+
		"agents: {a: {preset: claude, base_url: 'http://h/v1/'}, b: {preset: claude, base_url: 'http://h'}, c: {preset: codex, base_url: 'http://h/v1'}}\n")
	want := []string{"roles.critic.slots: 9 is more than slots, which is 2 for all agents",
		"experts.db.slots: 4 is more than slots, which is 2 for all agents",
		"agents.a.base_url: claude adds the version: write the address without /v1"}
	if diff := cmp.Diff(want, c.Notes()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if notes := Default().Notes(); notes != nil {
		t.Errorf("by default: %q", notes)
	}
}

func TestLoadPrompt(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		must.Succeed(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	write(FileName, "roles:\n  critic:\n    prompt: critic.md\n")
	prompt := filepath.Join(dir, "critic.md")
	_, err := Load(dir)
	wrong := (*signalbox.Error)(nil)
	want := filepath.Join(dir, FileName) +
		": line 3, column 13: roles.critic.prompt: there is no file " + prompt
	if !errors.As(err, &wrong) || wrong.Error() != want ||
		!strings.HasPrefix(wrong.Hint, "write the path of a file") {
		t.Errorf("no file: %v, want %s", err, want)
	}
	write("critic.md", "Be kind.")
	c, err := Load(dir)
	if err != nil || c.RoleOf(signalbox.RoleCritic).Prompt != prompt {
		t.Errorf("a relative path: %+v, %v", c, err)
	}
	write(FileName, "roles: {critic: {prompt: .}}\n")
	if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), "there is no file ") {
		t.Errorf("a folder: %v", err)
	}
	write(FileName, "slot: 3\n")
	if _, err := Load(dir); !errors.As(err, &wrong) || wrong.Hint != "did you mean slots?" ||
		wrong.Code != signalbox.CodeUsage {
		t.Errorf("a misspelling: %v, %+v", err, wrong)
	}
}

func TestAgentLists(t *testing.T) {
	c := mustParse(t, "agent: [claude, codex]\nroles: {critic: {agent: gemini}}\nexperts: [{name: db, agent: [opencode, claude]}]")
	for _, tt := range []struct {
		role   signalbox.Role
		expert string
		want   AgentList
	}{
		{signalbox.RoleDeveloper, "", AgentList{"claude", "codex"}},
		{signalbox.RoleCritic, "", AgentList{"gemini"}},
		{signalbox.RoleExpert, "db", AgentList{"opencode", "claude"}},
		{signalbox.RoleExpert, "ui", AgentList{"claude", "codex"}},
	} {
		if diff := cmp.Diff(tt.want, c.AgentsFor(tt.role, tt.expert)); diff != "" {
			t.Errorf("%s %s (-want +got):\n%s", tt.role, tt.expert, diff)
		}
	}
	for text, want := range map[string]string{
		"agent: [claude, codx]":                       `there is no agent "codx"`,
		"agent: [claude, claude]":                     `"claude" is named twice`,
		"roles: {critic: {agent: [codex, nobody]}}":   `there is no agent "nobody"`,
		"experts: [{name: x, agent: [codex, codex]}]": `"codex" is named twice`,
	} {
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

func TestResumeSetting(t *testing.T) {
	for text, want := range map[string]struct {
		off  bool
		args []string
	}{
		"preset: claude":                              {},
		"preset: claude, resume: true":                {},
		"preset: claude, resume: false":               {off: true},
		"command: [x], format: claude, resume: false": {off: true},
		`command: [x], resume: [-r, "{session}"]`: {args: []string{"-r",
			"{session}"}},
		`command: [x], format: codex, resume: "--session={session}"`: {args: []string{"--session={session}"}},
	} {
		r := mustParse(t, "agents: {a: {"+text+"}}").Agents["a"].Resume
		if r.Off() != want.off || !cmp.Equal(r.Args(), want.args, cmpopts.EquateEmpty()) {
			t.Errorf("%s: %v, %q", text, r.Off(), r.Args())
		}
	}
	for text, want := range map[string]string{
		`preset: claude, resume: [-r, "{session}"]`:              "not valid together with preset",
		`command: [x], resume: [--continue]`:                     "there is no {session} placeholder",
		`command: [x], resume: true`:                             "there is no {session} placeholder",
		`command: [x], format: plain, resume: [-r, "{session}"]`: "plain output does not name the session",
	} {
		if _, err := Parse([]byte("agents: {a: {" + text + "}}")); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
