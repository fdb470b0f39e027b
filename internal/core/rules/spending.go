package rules

import (
	"slices"
	"time"

	"signalbox"
)

// Cap is a limit of spending. An agent that reaches one is ended.
type Cap string

const (
	CapTurn Cap = "turn"
	CapTask Cap = "task"
	CapRole Cap = "role"
	CapRun  Cap = "run"
	// work continues by itself when the token window ends; otherwise the human is asked
	CapWindow Cap = "window"
)

// Reason says why an agent was ended, for people.
func (c Cap) Reason() string {
	if c == CapWindow {
		return "the token window is used up"
	}
	return "the budget of the " + string(c) + " is spent"
}

// RoleSpent is what the agents of a role have used since the role has a budget.
type RoleSpent struct {
	Role  signalbox.Role `json:"role"`
	Spent Spent          `json:"spent,omitzero"`
	// Granted is what was already spent when the human last extended the budget.
	Granted Spent `json:"granted,omitzero"`
	// Paused means that the human refused to extend it.
	Paused bool `json:"paused,omitempty"`
}

// WindowUse is what agents have used in a token window.
type WindowUse struct {
	Start  time.Time `json:"start"`
	Tokens int64     `json:"tokens,omitempty"`
}

// ReportUsage reports what the running turn of an agent has used so far. If a budget is spent, the
// human is asked, Answer.Cap is set, and Overspent returns the cap for all other sessions that it
// applies to.
type ReportUsage struct {
	Session   string
	Epoch     uint64
	Spent     Spent
	Estimated bool
}

func (c ReportUsage) decide(d *decider) error {
	h, err := d.holderReport(c.Session, c.Epoch, "usage")
	if err != nil {
		return err
	}
	spent := c.Spent.estimated(c.Estimated)
	if spent == h.w.Task.Running {
		d.answer.Repeated = true
		return nil
	}
	d.answer.Seq = h.note(AgentSpent{c.Epoch, c.Spent.estimated(false), c.Estimated})
	asked := h.askBudgets(spent, len(h.w.Task.Questions) > 0)
	p := d.s.run.Policy
	tokens, _ := d.s.Window(d.at)
	tokens += spent.Tokens - h.w.Task.Running.Tokens
	switch before := d.s.Overspent(h.w.ID, h.role, d.at); {
	case asked != "":
		d.answer.Cap = asked
	case before != "":
		d.answer.Cap = before
	case p.Window.Tokens > 0 && tokens >= p.Window.Tokens:
		d.answer.Cap = CapWindow
	}
	return nil
}

// askBudgets asks the human about the budgets that a turn has spent, and returns the first of them.
// done means that the work itself needs no more budget, or already waits for an answer.
func (h report) askBudgets(turn Spent, done bool) (spent Cap) {
	more := turn.minus(h.w.Task.Running)
	for _, budget := range []struct {
		Cap
		ask func() bool
	}{
		{CapTask, func() bool {
			return !done && h.w.Task.Kind != KindBaseline &&
				h.askTaskBudget(h.w, more, h.session, h.actor)
		}},
		// if the turn was ended because of a cap, the question was asked when it was reached
		{CapTurn, func() bool {
			return !done && spent == "" && h.w.Task.Kind != KindBaseline &&
				(h.Turn == nil || h.Turn.Cap == "") && h.askTurnBudget(turn)
		}},
		{CapRole, func() bool {
			return !h.s.roleOnHold(h.role) &&
				h.askRoleBudget(h.role, more, h.session, h.actor)
		}},
		{CapRun, func() bool {
			return !h.s.runOnHold() && h.askRunBudget(more, h.session, h.actor)
		}},
	} {
		if budget.ask() && spent == "" {
			spent = budget.Cap
		}
	}
	return spent
}

// Overspent returns the cap that keeps a session of a role from continuing some work, "" if it may
// continue.
func (s *delivery) Overspent(work string, role signalbox.Role, now time.Time) Cap {
	for _, q := range s.run.Questions {
		switch {
		case !q.Open() || q.Kind != AskedBudget:
		case q.Work != "":
			if q.Work != work {
				continue
			}
			if q.Cap == CapTurn {
				return CapTurn
			}
			return CapTask
		case q.Role == "":
			return CapRun
		case q.Role == role:
			return CapRole
		}
	}
	if !s.WindowEnd(now).IsZero() {
		return CapWindow
	}
	return ""
}

// reportsPerLimit is how often a turn reports its usage on the way to a limit.
const reportsPerLimit = 20

// Allowance returns what the running turn of a role may use in addition to what it has reported,
// and after how much it must report its usage, so that others that share a budget see it. Zero
// means no limit.
func (s *State) Allowance(work string, role signalbox.Role, now time.Time) (left, report Budget) {
	p := s.run.Policy
	w, known := s.Work(work)
	if p == nil || !known || w.Task == nil {
		return Budget{}, Budget{}
	}
	limit := func(b Budget, spent Spent) {
		tighten(&left.Tokens, b.Tokens, b.Tokens-spent.Tokens)
		tighten(&left.CostMicros, b.CostMicros, b.CostMicros-spent.CostMicros)
		tighten(&left.Time, b.Time, b.Time-spent.Time)
		tighten(&report.Tokens, b.Tokens, b.Tokens/reportsPerLimit)
		tighten(&report.CostMicros, b.CostMicros, b.CostMicros/reportsPerLimit)
	}
	limit(p.Turn, w.Task.Running)
	if w.Task.Kind != KindBaseline {
		budget, _ := w.Task.budget(p)
		limit(budget, w.Task.Spent.minus(w.Task.Granted))
	}
	r := s.roleSpent(role)
	limit(p.budget(role), r.Spent.minus(r.Granted))
	limit(p.Run, s.run.Spent.minus(s.run.Granted))
	tokens, _ := s.Window(now)
	limit(Budget{Tokens: p.Window.Tokens}, Spent{Tokens: tokens})
	tighten(&report.Tokens, left.Tokens, left.Tokens)
	tighten(&report.CostMicros, left.CostMicros, left.CostMicros)
	// agents that work at once share it
	tighten(&report.Time, left.Time, left.Time/time.Duration(max(s.slotsInUse().all, 1)))
	return left, report
}

// tighten lowers the amount to the rest of the limit, or to 1 if less is left. An amount or a limit
// of zero means no limit.
func tighten[T ~int64](amount *T, limit, left T) {
	if left = max(left, 1); limit > 0 && (*amount == 0 || left < *amount) {
		*amount = left
	}
}

// addSpent adds what the current turn has used since its last report to everything that has a
// budget.
func (s *State) addSpent(e *signalbox.Event, turn Spent) {
	w, _ := s.Work(e.Work)
	more := turn.minus(w.Task.Running)
	s.changeTask(e.Work, func(_ *Work, t *Task) { t.Spent, t.Running = t.Spent.Plus(more), turn })
	s.run.Spent = s.run.Spent.Plus(more)
	p := s.run.Policy
	if p == nil {
		return
	}
	if !p.budget(w.Lease.Role).IsZero() {
		s.changeRole(w.Lease.Role, func(r *RoleSpent) { r.Spent = r.Spent.Plus(more) })
	}
	if p.Window.Tokens > 0 {
		s.openWindow(e.Time)
		s.run.Window = &WindowUse{s.run.Window.Start, max(0, s.run.Window.Tokens+more.Tokens)}
	}
}

// roleSpent returns what a role has spent, zero if it has no budget.
func (s *delivery) roleSpent(role signalbox.Role) RoleSpent {
	for _, r := range s.run.Roles {
		if r.Role == role {
			return r
		}
	}
	return RoleSpent{Role: role}
}

func (s *delivery) changeRole(role signalbox.Role, change func(*RoleSpent)) {
	changed := s.roleSpent(role)
	change(&changed)
	roles := slices.Clone(s.run.Roles)
	if i := slices.IndexFunc(roles, func(r RoleSpent) bool { return r.Role == role }); i >= 0 {
		roles[i] = changed
	} else {
		roles = append(roles, changed)
	}
	s.run.Roles = roles
}

// roleOnHold reports whether a question about the budget of a role is open, or the human refused to
// extend it.
func (s *delivery) roleOnHold(role signalbox.Role) bool {
	return s.roleSpent(role).Paused ||
		slices.ContainsFunc(s.run.Questions,
			func(q *Question) bool { return q.Open() && q.Work == "" && q.Role == role })
}

// openWindow starts a token window if there is none, or if the last one has ended.
func (s *delivery) openWindow(now time.Time) {
	if p := s.run.Policy; p != nil && p.Window.Tokens > 0 &&
		(s.run.Window == nil || !now.Before(s.run.Window.Start.Add(p.Window.Every))) {
		s.run.Window = &WindowUse{Start: now}
	}
}

// WindowEnd returns when agents may use tokens again, zero if they may now.
func (s *delivery) WindowEnd(now time.Time) time.Time {
	tokens, end := s.Window(now)
	if p := s.run.Policy; p == nil || p.Window.Tokens == 0 || tokens < p.Window.Tokens {
		return time.Time{}
	}
	return end
}

// BudgetUse is what was used of a budget since the human last extended it.
type BudgetUse struct {
	// Cap is CapRun or CapRole, and Role the role.
	Cap    Cap
	Role   signalbox.Role
	Spent  Spent
	Budget Budget
	// Paused means that the human refused to extend the budget of the role.
	Paused bool
}

// Budgets returns the use of the budgets of the run and of the roles that have one.
func (s *delivery) Budgets() []BudgetUse {
	p := s.run.Policy
	if p == nil {
		return nil
	}
	var uses []BudgetUse
	if !p.Run.IsZero() {
		uses = append(uses, BudgetUse{Cap: CapRun, Spent: s.run.Spent.minus(s.run.Granted),
			Budget: p.Run})
	}
	for _, b := range p.RoleBudgets {
		if !b.Budget.IsZero() {
			r := s.roleSpent(b.Role)
			uses = append(uses, BudgetUse{CapRole, b.Role, r.Spent.minus(r.Granted), b.Budget,
				r.Paused})
		}
	}
	return uses
}

// TaskBudget returns the use of the budget of a task; ok is false if it has none.
func (s *delivery) TaskBudget(w *Work) (use BudgetUse, ok bool) {
	if s.run.Policy == nil || w.Task == nil || w.Task.Kind == KindBaseline {
		return BudgetUse{}, false
	}
	budget, _ := w.Task.budget(s.run.Policy)
	return BudgetUse{Cap: CapTask, Spent: w.Task.Spent.minus(w.Task.Granted), Budget: budget},
		!budget.IsZero()
}

// Window returns the tokens that were used in the current token window, and when it ends: zero if
// none has started.
func (s *delivery) Window(now time.Time) (tokens int64, end time.Time) {
	if p, use := s.run.Policy, s.run.Window; p != nil && use != nil &&
		now.Before(use.Start.Add(p.Window.Every)) {
		return use.Tokens, use.Start.Add(p.Window.Every)
	}
	return 0, time.Time{}
}
