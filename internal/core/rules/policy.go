package rules

import (
	"slices"
	"time"

	"signalbox"
)

// Policy is what the configuration says about how a plan is delivered. It stands in the log, because the same history
// must lead to the same state under whatever configuration somebody has later.
type Policy struct {
	// Slots is how many agents may run at once, and Roles how many of each role. A role that is not listed has none.
	Slots int         `json:"slots"`
	Roles []RoleSlots `json:"roles,omitempty"`
	// Checks is how many checks may run at once, for different work; 0 is one.
	Checks int `json:"checks,omitempty"`
	// CheckSet is the digest of what is checked and where: if it changes, the checks on the base are run anew.
	CheckSet signalbox.Hash `json:"check_set,omitzero"`
	Experts  []Expert       `json:"experts,omitempty"`
	// Shared means that all work happens in one folder, with locks on files; else each task has its own.
	Shared bool `json:"shared,omitempty"`
	// ApproveMerge puts a human's yes before every merge.
	ApproveMerge bool   `json:"approve_merge,omitempty"`
	Limits       Limits `json:"limits"`
	Run          Budget `json:"run_budget,omitzero"`
	Task         Budget `json:"task_budget,omitzero"`
}

// RoleSlots is how many agents of a role may run at once.
type RoleSlots struct {
	Role  signalbox.Role `json:"role"`
	Slots int            `json:"slots"`
}

// Expert is somebody whom agents may ask.
type Expert struct {
	Name     string   `json:"name"`
	Gap      string   `json:"gap,omitempty"`
	Keywords []string `json:"keywords,omitempty"`
	// Slots is how many requests to it run at once; 0 is 2.
	Slots int `json:"slots,omitempty"`
}

// Limits is how often something may happen to a task before a human is asked.
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

// DefaultLimits are the limits where nothing is configured.
func DefaultLimits() Limits {
	return Limits{Reviews: 3, Audits: 3, Checks: 5, Merges: 3, Incompletes: 5, Timeouts: 3, Unknown: 3, Waits: 3, FileWaits: 3,
		Remediations: 10, ExpertRequests: 3, FileWait: 30 * time.Minute}
}

// Budget is what may be spent before a human is asked; what is zero is not limited.
type Budget struct {
	Tokens int64 `json:"tokens,omitempty"`
	// CostMicros is in millionths of a dollar.
	CostMicros int64         `json:"cost_micros,omitempty"`
	Time       time.Duration `json:"time,omitempty"`
}

// IsZero tells whether nothing is limited.
func (b Budget) IsZero() bool { return b == Budget{} }

// spent says what of a budget is used up, "" if nothing is.
func (b Budget) spent(u Spent) string {
	switch {
	case b.Tokens > 0 && u.Tokens >= b.Tokens:
		return "tokens"
	case b.CostMicros > 0 && u.CostMicros >= b.CostMicros:
		return "cost"
	case b.Time > 0 && u.Time >= b.Time:
		return "time"
	}
	return ""
}

// Spent is what agents used.
type Spent struct {
	Tokens     int64         `json:"tokens,omitempty"`
	CostMicros int64         `json:"cost_micros,omitempty"`
	Time       time.Duration `json:"time,omitempty"`
}

func (u Spent) plus(v Spent) Spent {
	return Spent{u.Tokens + v.Tokens, u.CostMicros + v.CostMicros, u.Time + v.Time}
}

func (u Spent) minus(v Spent) Spent {
	return Spent{u.Tokens - v.Tokens, u.CostMicros - v.CostMicros, u.Time - v.Time}
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

// Configure sets the policy. It is recorded only if it differs from the one that stands.
type Configure struct {
	Policy Policy
	Actor  string
}

func (c Configure) decide(d *decider) error {
	if err := checkIDs("actor", c.Actor); err != nil {
		return err
	}
	if fault := policyFault(&c.Policy); fault != "" {
		return refusef(signalbox.CodeUsage, "mend the configuration", "the policy is not valid: %s", fault)
	}
	if c.Policy.equal(d.s.delivery.Policy) {
		d.answer.Repeated = true
		return nil
	}
	before := d.s.delivery.Policy
	d.answer.Seq = d.record("", "", c.Actor, PolicySet{c.Policy})
	if before != nil && before.CheckSet != c.Policy.CheckSet && d.s.delivery.Baselines > 0 && d.s.open[KindBaseline] == 0 {
		d.openBaseline(c.Actor)
	}
	return nil
}

func policyFault(p *Policy) string {
	l := p.Limits
	if slices.Min([]int{p.Slots, l.Reviews, l.Audits, l.Checks, l.Merges, l.Incompletes, l.Timeouts, l.Unknown, l.Waits, l.FileWaits,
		l.Remediations, l.ExpertRequests}) < 1 || l.FileWait < 0 || p.Checks < 0 {
		return "slots and limits are at least 1"
	}
	for _, r := range p.Roles {
		if r.Slots < 0 || r.Role == "" {
			return "a role has no less than no slots"
		}
	}
	for _, e := range p.Experts {
		if fault := idFault(e.Name); fault != "" {
			return fault
		}
	}
	return ""
}
