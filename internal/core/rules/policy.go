package rules

import (
	"slices"
	"time"

	"signalbox"
)

// Policy is how a plan is delivered, as configured. The log records it, because the same history
// must give the same state even if the configuration changes later.
type Policy struct {
	// Slots is how many agents can run at once, and Roles how many of each role. A role that is not
	// listed has none.
	Slots int         `json:"slots"`
	Roles []RoleSlots `json:"roles,omitempty"`
	// Checks is how many tasks can be checked at once; 0 means 1.
	Checks int `json:"checks,omitempty"`
	// CheckSet is the digest of the configured checks, environments and setup commands. If it
	// changes, the checks run on the base again.
	CheckSet signalbox.Hash `json:"check_set,omitzero" blob:"-"`
	Experts  []Expert       `json:"experts,omitempty"`
	// Shared means that all tasks share one workspace, with locks on files. Otherwise each task has
	// its own workspace.
	Shared bool `json:"shared,omitempty"`
	// ApproveMerge requires a human's approval before every merge.
	ApproveMerge bool `json:"approve_merge,omitempty"`
	// TrustSteering means that a change of files that steer agents needs no approval of its own.
	TrustSteering bool `json:"trust_steering,omitempty"`
	// Deliver is how finished work is delivered: DeliverMerge or one of Deliveries.
	Deliver string `json:"deliver,omitempty"`
	// Stack means that tasks build on the pull requests of tasks they depend on, instead of waiting
	// until those are merged.
	Stack  bool   `json:"stack,omitempty"`
	Limits Limits `json:"limits"`
	Run    Budget `json:"run_budget,omitzero"`
	Task   Budget `json:"task_budget,omitzero"`
	// Turn is for each turn of an agent, and RoleBudgets for all agents of a role together.
	Turn        Budget       `json:"turn_budget,omitzero"`
	RoleBudgets []RoleBudget `json:"role_budgets,omitempty"`
	// Window limits the tokens of all agents in a time.
	Window TokenWindow `json:"token_window,omitzero"`
	// Agents is which agents work in each role, and AgentSettings identifies their settings.
	Agents        []RoleAgents    `json:"agents,omitempty"`
	AgentSettings []AgentSettings `json:"agent_settings,omitempty"`
	// Independence is how much agents that judge work must differ from its authors.
	Independence Independence `json:"independence,omitempty"`
}

// RoleBudget is what all agents of a role may spend.
type RoleBudget struct {
	Role   signalbox.Role `json:"role"`
	Budget Budget         `json:"budget"`
}

// TokenWindow is how many tokens agents may use in a time that starts with the first use. Then they
// wait for its end.
type TokenWindow struct {
	Tokens int64         `json:"tokens,omitempty"`
	Every  time.Duration `json:"every,omitempty"`
}

// RoleSlots is how many agents of a role can run at once.
type RoleSlots struct {
	Role  signalbox.Role `json:"role"`
	Slots int            `json:"slots"`
}

// Expert is an agent that others can ask for advice.
type Expert struct {
	Name     string   `json:"name"`
	Gap      string   `json:"gap,omitempty"`
	Keywords []string `json:"keywords,omitempty"`
	// Slots is how many requests to it can run at once; 0 means 2.
	Slots int `json:"slots,omitempty"`
}

// Limits is how often something may happen to a task before the human is asked.
type Limits struct {
	Reviews        int           `json:"reviews"`
	Audits         int           `json:"audits"`
	Checks         int           `json:"checks"`
	Merges         int           `json:"merges"`
	Incompletes    int           `json:"incompletes"`
	Timeouts       int           `json:"timeouts"`
	Unknown        int           `json:"unknown"`
	Waits          int           `json:"waits"`
	FileWaits      int           `json:"file_waits"`
	Remediations   int           `json:"remediations"`
	ExpertRequests int           `json:"expert_requests"`
	FileWait       time.Duration `json:"file_wait"`
}

// DefaultLimits returns the limits that apply if nothing is configured.
func DefaultLimits() Limits {
	return Limits{Reviews: 3, Audits: 3, Checks: 5, Merges: 3, Incompletes: 5, Timeouts: 3,
		Unknown: 3, Waits: 3, FileWaits: 3,
		Remediations: 10, ExpertRequests: 3, FileWait: 30 * time.Minute}
}

// Budget is what agents may spend before the human is asked. Zero means no limit.
type Budget struct {
	Tokens int64 `json:"tokens,omitempty"`
	// CostMicros is the cost in millionths of a dollar.
	CostMicros int64         `json:"cost_micros,omitempty"`
	Time       time.Duration `json:"time,omitempty"`
}

// IsZero reports whether nothing is limited.
func (b Budget) IsZero() bool { return b == Budget{} }

// Spent is what agents have used.
type Spent struct {
	Tokens     int64         `json:"tokens,omitempty"`
	CostMicros int64         `json:"cost_micros,omitempty"`
	Time       time.Duration `json:"time,omitempty"`
	// EstimatedTokens is how many of Tokens are an estimate, because the program did not report
	// them.
	EstimatedTokens int64 `json:"estimated_tokens,omitempty"`
	// UnknownTokens and UnknownCost are in how many turns tokens or a cost are missing from the
	// above, because nothing reports them and they cannot be computed.
	UnknownTokens int64 `json:"unknown_tokens,omitempty"`
	UnknownCost   int64 `json:"unknown_cost,omitempty"`
}

// Plus returns the sum.
func (s Spent) Plus(other Spent) Spent {
	return Spent{s.Tokens + other.Tokens, s.CostMicros + other.CostMicros, s.Time + other.Time,
		s.EstimatedTokens + other.EstimatedTokens, s.UnknownTokens + other.UnknownTokens,
		s.UnknownCost + other.UnknownCost}
}

func (s Spent) minus(other Spent) Spent {
	return Spent{s.Tokens - other.Tokens, s.CostMicros - other.CostMicros, s.Time - other.Time,
		s.EstimatedTokens - other.EstimatedTokens, s.UnknownTokens - other.UnknownTokens,
		s.UnknownCost - other.UnknownCost}
}

// estimated returns s with all of its tokens marked as an estimate, if they are one.
func (s Spent) estimated(estimate bool) Spent {
	if s.EstimatedTokens = 0; estimate {
		s.EstimatedTokens = s.Tokens
	}
	return s
}

// budget returns the budget of a role, zero if it has none.
func (p *Policy) budget(role signalbox.Role) Budget {
	for _, r := range p.RoleBudgets {
		if r.Role == role {
			return r.Budget
		}
	}
	return Budget{}
}

func (p *Policy) slots(role signalbox.Role) int {
	for _, r := range p.Roles {
		if r.Role == role {
			return r.Slots
		}
	}
	return 0
}

func (p *Policy) equal(q *Policy) bool {
	return p != nil && q != nil && string(marshal(p)) == string(marshal(q))
}

// Configure sets the policy. It is recorded only if it differs from the current one.
type Configure struct {
	Policy Policy
	Actor  string
}

func (c Configure) decide(d *decider) error {
	if err := checkIDs("actor", c.Actor); err != nil {
		return err
	}
	if fault := policyFault(&c.Policy); fault != "" {
		return refusef(signalbox.CodeUsage, "correct the configuration", "invalid policy: %s",
			fault)
	}
	if c.Policy.equal(d.s.run.Policy) {
		d.answer.Repeated = true
		return nil
	}
	before := d.s.run.Policy
	d.answer.Seq = d.record("", "", c.Actor, PolicySet{c.Policy})
	d.raiseBudgets(&c.Policy, c.Actor)
	if before != nil {
		d.reconfigureAgents(before, &c.Policy, c.Actor)
	}
	if before != nil && before.CheckSet != c.Policy.CheckSet {
		d.withdrawSetup(c.Actor)
	}
	if before != nil && before.CheckSet != c.Policy.CheckSet && d.s.run.Baselines > 0 {
		d.checkBase(c.Actor)
	}
	return nil
}

func policyFault(p *Policy) string {
	l := p.Limits
	if slices.Min([]int{p.Slots, l.Reviews, l.Audits, l.Checks, l.Merges, l.Incompletes, l.Timeouts,
		l.Unknown, l.Waits, l.FileWaits,
		l.Remediations, l.ExpertRequests}) < 1 || l.FileWait < 0 || p.Checks < 0 {
		return "slots and limits must be at least 1"
	}
	for _, r := range p.Roles {
		if r.Slots < 0 || r.Role == "" {
			return "the slots of a role must not be negative, and the role must have a name"
		}
	}
	for _, r := range p.RoleBudgets {
		if r.Role == "" {
			return "the role of a budget must have a name"
		}
	}
	if (p.Window.Tokens > 0) != (p.Window.Every > 0) || p.Window.Tokens < 0 {
		return "a token window must have a number of tokens and a time"
	}
	if fault := deliverFault(p); fault != "" {
		return fault
	}
	for _, e := range p.Experts {
		if fault := idFault(e.Name); fault != "" {
			return fault
		}
	}
	return agentsFault(p)
}
