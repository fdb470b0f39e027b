package planload

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/core/rules"
	"signalbox/internal/testkit/must"
)

func TestPolicyOf(t *testing.T) {
	c, err := config.Parse([]byte(`
slots: 7
approve: merge
agent: [claude, codex]
roles: {developer: {slots: 6}, critic: {agent: gemini}, business-analyst: {}}
experts: [{name: database, keywords: [sql], slots: 4, agent: codex}, {name: ui}]
budget: {run: {cost: 2.5}, task: {tokens: 10, time: 1h}}
limits: {reviews: 9, file_wait: 1m}
`))
	must.Succeed(t, err)
	got := PolicyOf(c, false)
	limits := rules.DefaultLimits()
	limits.Reviews, limits.FileWait = 9, time.Minute
	want := rules.Policy{
		Slots: 7, Checks: 2, CheckSet: checkSet(c), ApproveMerge: true, Limits: limits,
		Roles: []rules.RoleSlots{{Role: signalbox.RoleDeveloper, Slots: 6},
			{Role: signalbox.RoleCritic, Slots: 2}, {Role: signalbox.RoleAuditor, Slots: 2},
			{Role: signalbox.RoleBusinessAnalyst, Slots: 1}, {Role: signalbox.RoleRemediation,
				Slots: 1}, {Role: signalbox.RoleHealthAuditor, Slots: 1}},
		Experts: []rules.Expert{{Name: "database", Keywords: []string{"sql"}, Slots: 4},
			{Name: "ui", Slots: 2}},
		Run: rules.Budget{CostMicros: 2_500_000}, Task: rules.Budget{Tokens: 10,
			Time: time.Hour},
	}
	both := []string{"claude", "codex"}
	want.Agents = []rules.RoleAgents{{Role: signalbox.RoleDeveloper, Agents: both},
		{Role: signalbox.RoleCritic, Agents: []string{"gemini"}}, {Role: signalbox.RoleAuditor,
			Agents: both},
		{Role: signalbox.RoleBusinessAnalyst, Agents: both}, {Role: signalbox.RoleRemediation,
			Agents: both}, {Role: signalbox.RoleHealthAuditor, Agents: both},
		{Role: signalbox.RoleExpert, Agents: both}, {Role: signalbox.RoleExpert, Expert: "database",
			Agents: []string{"codex"}}}
	// the author and the auditor are of two vendors by default; the critic is named
	want.Independence, want.Agents[1].Named = rules.IndependenceVendor, true
	for _, a := range [][2]string{{"claude", "anthropic"}, {"codex", "openai"},
		{"gemini", "google"}} {
		want.AgentSettings = append(want.AgentSettings, rules.AgentSettings{Agent: a[0],
			Settings: agentSettings(c, a[0]), Vendor: a[1]})
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	before := agentSettings(c, "claude")
	c.Agents = map[string]config.Agent{"claude": {Preset: "claude",
		Env: map[string]string{"ANTHROPIC_API_KEY": "x"}}}
	if before == agentSettings(c, "claude") {
		t.Error("different settings of an agent have the same digest")
	}
	if other := PolicyOf(&config.Config{Checks: []config.Check{{Name: "test", Command: "true"}}},
		false); other.CheckSet == got.CheckSet {
		t.Error("different checks have the same digest")
	}
	if shared := PolicyOf(config.Default(), true); !shared.Shared || shared.Checks != 1 {
		t.Errorf("shared: %+v", shared)
	}
}

// Other setup commands mean that the checks run on the base again.
func TestSetupIsPartOfTheChecks(t *testing.T) {
	c, with := config.Default(), config.Default()
	with.Setup = []config.Setup{{Name: "modules", Command: "npm ci"}}
	if PolicyOf(c, false).CheckSet == PolicyOf(with, false).CheckSet {
		t.Error("setup commands make no difference")
	}
}

// The digest of a configuration never changes with the program: baselines and accepted failures
// depend on it. Checks that do not run on the base are no part of it.
func TestCheckSetStays(t *testing.T) {
	const mutation = "{name: bite, kind: mutation, command: make test}"
	const plain = "checks: [{name: test, command: make test, timeout: 5m, environments: [box], " +
		"env_pass: [CI]}"
	const more = "\nsetup: [{name: modules, command: npm ci}]\n" +
		"environments: [{name: box, run: [podman, run]}]\n"
	const none = "b424c1d8e394e57e4ba7d6a98b8788f4290f91100c89a89f2dece48fdc18c196"
	const old = "9d7ab4fc7776ad89fe1d49c98ca2caa1f68fcd5251f22cebd00bbd5dc6b020a9"
	for text, want := range map[string]string{"{}": none, "checks: [" + mutation + "]": none,
		plain + "]" + more: old, plain + ", " + mutation + "]" + more: old} {
		c, err := config.Parse([]byte(text))
		must.Succeed(t, err)
		if got := checkSet(c).String(); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
