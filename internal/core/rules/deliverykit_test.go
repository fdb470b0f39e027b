package rules

import (
	"signalbox"
)

// withAgents is a policy with agents: two for developers, and one for everyone else.
func withAgents(p Policy) Policy {
	for _, r := range p.Roles {
		list := []string{"claude"}
		if r.Role == signalbox.RoleDeveloper {
			list = append(list, "codex")
		}
		p.Agents = append(p.Agents, RoleAgents{Role: r.Role, Agents: list})
	}
	p.Agents = append(p.Agents, RoleAgents{Role: signalbox.RoleExpert, Agents: []string{"claude"}},
		RoleAgents{Role: signalbox.RoleExpert, Expert: "sql", Agents: []string{"gemini", "codex"}})
	for i, name := range []string{"claude", "codex", "gemini"} {
		p.AgentSettings = append(p.AgentSettings, AgentSettings{Agent: name,
			Settings: signalbox.Hash{byte(i + 1)}})
	}
	return p
}

func (b *box) fails(a Answer, cause FailCause, detail string) Decision {
	b.t.Helper()
	return b.try(by(a, ReportFailure{Cause: cause, Detail: detail, Advice: "log in with " +
		a.Agent + " login"}))
}

// setupFault reports that a setup command failed because of the task.
func (b *box) setupFault(a Answer) Decision {
	b.t.Helper()
	return b.decide(by(a, ReportSetup{Cause: "exit status 1", Body: signalbox.Hash{7}, OfTask: true,
		Ran: SetupRan{Command: "modules", Commit: sha("c1"), Exit: 1, Millis: 1200,
			Output: signalbox.Hash{5}}}))
}

// setup reports that a setup command ran in a worktree.
func (b *box) setup(a Answer, passed bool) Decision {
	b.t.Helper()
	c := by(a, ReportSetup{Ran: SetupRan{Command: "modules", Commit: sha("base1"), Passed: passed,
		Millis: 1200,
		Output: signalbox.Hash{5}}})
	if !passed {
		c.Ran.Exit, c.Cause, c.Body = 1, "exit status 1: no route to registry.", signalbox.Hash{7}
	}
	return b.decide(c)
}
