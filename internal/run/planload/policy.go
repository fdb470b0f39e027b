package planload

import (
	"crypto/sha256"
	"encoding/json"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/core/rules"
)

// ChecksAtOnce returns how many work items are checked at the same time. In a shared folder they
// would disturb each other.
func ChecksAtOnce(shared bool) int {
	if shared {
		return 1
	}
	return 2
}

// PolicyOf returns the part of a configuration that the rules need.
func PolicyOf(c *config.Config, shared bool) rules.Policy {
	l := c.Limits
	p := rules.Policy{
		Slots: c.Slots, Checks: ChecksAtOnce(shared), CheckSet: checkSet(c), Shared: shared,
		ApproveMerge:  c.Approve == config.ApproveMerge,
		TrustSteering: c.Approve == config.ApproveNever,
		Run:           budgetOf(c.Budget.Run), Task: budgetOf(c.Budget.Task), Turn: budgetOf(c.Budget.Turn),
		Window: rules.TokenWindow{Tokens: c.Budget.Window.Tokens, Every: c.Budget.Window.Every},
		Limits: rules.Limits{Reviews: l.Reviews, Audits: l.Audits, Checks: l.Checks,
			Merges: l.Merges, Incompletes: l.Incompletes, Timeouts: l.Timeouts, Unknown: l.Unknown,
			Waits: l.Waits, FileWaits: l.FileWaits, Remediations: l.Remediations,
			ExpertRequests: l.ExpertRequests, FileWait: l.FileWait},
	}
	if way := c.Deliver.Way(); way != config.DeliverMerge && !shared {
		p.Deliver, p.Stack = way, c.Deliver.Dependents == config.DependentsStack
	}
	for _, role := range config.AgentRoles() {
		set, configured := c.Roles[role]
		if budget := budgetOf(set.Budget); !budget.IsZero() {
			p.RoleBudgets = append(p.RoleBudgets, rules.RoleBudget{Role: role, Budget: budget})
		}
		switch role {
		case signalbox.RoleExpert: // each expert has its own slots
			continue
		case signalbox.RoleExpertCreator, signalbox.RoleBusinessAnalyst:
			if !configured { // they are optional
				continue
			}
		}
		p.Roles = append(p.Roles, rules.RoleSlots{Role: role, Slots: c.RoleOf(role).Slots})
	}
	for _, e := range c.Experts {
		p.Experts = append(p.Experts,
			rules.Expert{Name: e.Name, Keywords: e.Keywords, Slots: e.Slots})
	}
	if value := c.EffectiveIndependence(); value != config.IndependenceNone {
		p.Independence = rules.Independence(value)
	}
	addAgents(&p, c)
	return p
}

// addAgents adds the agents of each role, and of the experts that have their own, to a policy.
func addAgents(p *rules.Policy, c *config.Config) {
	settings := map[string]bool{}
	add := func(role signalbox.Role, expert string, list config.AgentList) {
		independent := p.Independence != rules.IndependenceNone
		judges := role == signalbox.RoleCritic || role == signalbox.RoleAuditor
		p.Agents = append(p.Agents, rules.RoleAgents{Role: role, Expert: expert, Agents: list,
			Named: independent && judges && c.NamesAgent(role)})
		for _, name := range list {
			if !settings[name] {
				settings[name] = true
				s := rules.AgentSettings{Agent: name, Settings: agentSettings(c, name)}
				if independent {
					s.Vendor, s.Model = c.VendorOf(name, ""), c.AgentNamed(name).Model
				}
				p.AgentSettings = append(p.AgentSettings, s)
			}
		}
	}
	for _, r := range p.Roles {
		add(r.Role, "", c.AgentsFor(r.Role, ""))
	}
	add(signalbox.RoleExpert, "", c.AgentsFor(signalbox.RoleExpert, ""))
	for _, e := range c.Experts {
		if len(e.Agent) > 0 {
			add(signalbox.RoleExpert, e.Name, e.Agent)
		}
	}
}

// agentSettings returns a digest of everything that the configuration says about an agent.
func agentSettings(c *config.Config, name string) signalbox.Hash {
	a := c.AgentNamed(name)
	settings := []any{a}
	if a.Tree != "" {
		if _, m, err := c.OracleModel(a.Model); err == nil {
			settings = append(settings, m)
		}
	}
	text, err := json.Marshal(settings)
	if err != nil {
		panic("planload: an agent does not encode: " + err.Error()) // it is strings and numbers
	}
	return sha256.Sum256(text)
}

// checkSet returns a digest of the checks that run on the base, their environments, and what prepares
// the worktrees that they run in.
func checkSet(c *config.Config) signalbox.Hash {
	commands := c.OnlyCommands()
	if len(commands) == 0 && len(c.Checks) > 0 {
		commands = nil // as without checks
	}
	parts := []any{commands, c.Environments}
	if len(c.Setup) > 0 {
		parts = append(parts, c.Setup)
	}
	text, err := json.Marshal(parts)
	if err != nil {
		panic("planload: checks do not encode: " + err.Error()) // they are strings and numbers
	}
	return sha256.Sum256(text)
}

func budgetOf(b config.Budget) rules.Budget {
	return rules.Budget{Tokens: b.Tokens, CostMicros: b.CostMicros, Time: b.Time}
}
