package doctor

import (
	"slices"
	"testing"

	"signalbox/internal/config"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/agent"
	"signalbox/internal/testkit/must"
)

// doctor has a problem with an agent exactly if a run would not start because of it. An agent that
// others take over from is a warning.
func TestDoctorAgreesWithRun(t *testing.T) {
	const agents = "agents: {mine: {command: [sh]}, gone: {command: [no-such-program-anywhere]}}\n"
	for _, tt := range []struct {
		name, settings string
		health         box.Health // of the agent gone
	}{
		{"the only agent", "agent: gone\n", box.Problem},
		{"another takes over", "agent: [gone, mine]\n", box.Warning},
		{"the second of a list", "agent: [mine, gone]\n", box.Warning},
		{"the only one of a role", "agent: [gone, mine]\nroles: {critic: {agent: gone}}\n",
			box.Problem},
		{"an expert", "agent: mine\nexperts: [{name: sql, agent: gone}]\n", box.Warning},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := config.Parse([]byte(agents + tt.settings))
			must.Succeed(t, err)
			var checks []box.Check
			for _, command := range Commands(c) {
				check := box.Check{Name: "agent " + command.Name, Health: box.Healthy}
				if command.Name == "gone" {
					check.Health, check.Detail = box.Problem, "not found"
				}
				checks = append(checks, check)
			}
			refuseAgents(c, checks)
			i := slices.IndexFunc(checks,
				func(check box.Check) bool { return check.Name == "agent gone" })
			if i < 0 || checks[i].Health != tt.health || checks[i].Detail == "" {
				t.Errorf("%+v", checks)
			}
			problem := slices.ContainsFunc(checks,
				func(check box.Check) bool { return check.Health == box.Problem })
			if err := agent.CheckRoles(c, rules.DispatchRoles()); (err != nil) != problem {
				t.Errorf("a run says %v, doctor %+v", err, checks)
			}
		})
	}
}
