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
	for _, name := range []string{"claude", "codex", "gemini"} {
		want.AgentSettings = append(want.AgentSettings,
			rules.AgentSettings{Agent: name, Settings: agentSettings(c, name)})
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
