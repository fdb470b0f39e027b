package rules

import (
	"fmt"
	"slices"
	"time"

	"signalbox"
)

// exhausted returns which part of the budget is used up and by how much, "" if none is.
func (b Budget) exhausted(s Spent) string {
	mark := ""
	if s.EstimatedTokens > 0 {
		mark = ", estimated"
	}
	switch {
	case b.Tokens > 0 && s.Tokens >= b.Tokens:
		return fmt.Sprintf("%d of %d tokens%s", s.Tokens, b.Tokens, mark)
	case b.CostMicros > 0 && s.CostMicros >= b.CostMicros:
		return fmt.Sprintf("cost $%s of $%s%s", dollars(s.CostMicros), dollars(b.CostMicros), mark)
	case b.Time > 0 && s.Time >= b.Time:
		return fmt.Sprintf("time %s of %s", s.Time.Round(time.Second), b.Time)
	}
	return ""
}

// overrun describes by how much the last answer exceeded the budget. It is "" if the budget is not
// exceeded, or was used up before that answer.
func (b Budget) overrun(spent, last Spent) string {
	describe := func(limit, spent, last int64, format func(int64) string) string {
		left := limit - (spent - last)
		if limit == 0 || spent <= limit || left <= 0 {
			return ""
		}
		return fmt.Sprintf("It was overrun by %s: the last answer used %s, and %s were left. ",
			format(spent-limit), format(last), format(left))
	}
	if b.Tokens > 0 && spent.Tokens >= b.Tokens { // as in exhausted
		return describe(b.Tokens, spent.Tokens, last.Tokens,
			func(n int64) string { return fmt.Sprintf("%d tokens", n) })
	}
	return describe(b.CostMicros, spent.CostMicros, last.CostMicros,
		func(n int64) string { return "$" + dollars(n) })
}

// dollars formats millionths of a dollar, with cents, and with more digits only where they matter.
func dollars(micros int64) string {
	if micros%10_000 == 0 || micros >= 1_000_000 {
		return fmt.Sprintf("%d.%02d", micros/1_000_000, micros%1_000_000/10_000)
	}
	return fmt.Sprintf("%d.%06d", micros/1_000_000, micros%1_000_000)
}

// budget returns the budget of a task, and the setting that it comes from.
func (t *Task) budget(p *Policy) (b Budget, setting string) {
	if !t.Budget.IsZero() {
		return t.Budget, "**Budget** of the task in the plan"
	}
	return p.Task, "budget.task in signalbox.yaml"
}

// isBudgetSpent reports whether a task has spent its budget under a policy.
func (t *Task) isBudgetSpent(p *Policy) bool {
	budget, _ := t.budget(p)
	return budget.exhausted(t.Spent.minus(t.Granted)) != ""
}

const howToContinue = "Continue with the same amount again? You can also raise the setting and run the plan again."

// askIfSpent asks the human if a budget is spent, and reports whether it is. last is what was used
// since the last report, and q what is known of the question.
func (d *decider) askIfSpent(b Budget, spent, last Spent, who, setting, work, session, actor string,
	q QuestionAsked) bool {
	used := b.exhausted(spent)
	if used == "" {
		return false
	}
	q.Kind, q.Text = AskedBudget, fmt.Sprintf("%s has spent its budget: %s (%s). %s"+howToContinue,
		who, used, setting, b.overrun(spent, last))
	d.askQuestion(work, session, actor, q)
	return true
}

// askTaskBudget asks the human if a task has spent its budget with what a turn has used more, and
// reports whether it has.
func (d *decider) askTaskBudget(w *Work, more Spent, session, actor string) bool {
	budget, setting := w.Task.budget(d.s.run.Policy)
	return d.askIfSpent(budget, w.Task.Spent.Plus(more).minus(w.Task.Granted), more, w.ID,
		setting, w.ID,
		session, actor, QuestionAsked{})
}

// askTurnBudget is askTaskBudget for a turn.
func (h report) askTurnBudget(spent Spent) bool {
	return h.askIfSpent(h.s.run.Policy.Turn, spent, spent.minus(h.w.Task.Running), fmt.Sprintf("a turn of the %s on %s", h.role,
		h.w.ID), "budget.turn in signalbox.yaml", h.w.ID, h.session, h.actor,
		QuestionAsked{Cap: CapTurn, Spent: spent})
}

// askRoleBudget is askTaskBudget for a role.
func (d *decider) askRoleBudget(role signalbox.Role, more Spent, session, actor string) bool {
	r := d.s.roleSpent(role)
	return d.askIfSpent(d.s.run.Policy.budget(role), r.Spent.Plus(more).minus(r.Granted),
		more, "the role "+string(role), fmt.Sprintf("roles.%s.budget in signalbox.yaml", role), "",
		session, actor, QuestionAsked{Cap: CapRole, Role: role})
}

// askRunBudget is askTaskBudget for the run.
func (d *decider) askRunBudget(more Spent, session, actor string) bool {
	if d.s.run.Policy == nil {
		return false
	}
	return d.askIfSpent(d.s.run.Policy.Run, d.s.run.Spent.Plus(more).minus(d.s.run.Granted),
		more, "the run", "budget.run in signalbox.yaml", "", session, actor, QuestionAsked{})
}

// raiseBudgets answers the open questions about budgets that are no longer spent under a new
// policy, and ends the pauses that refusals caused.
func (d *decider) raiseBudgets(p *Policy, actor string) {
	if s := &d.s.run; p.Run.exhausted(s.Spent.minus(s.Granted)) == "" {
		d.answerBudget("", "", s.NoBudget, actor)
	}
	for _, r := range d.s.run.Roles {
		if p.budget(r.Role).exhausted(r.Spent.minus(r.Granted)) == "" {
			d.answerBudget("", r.Role, r.Paused, actor)
		}
	}
	for _, w := range d.s.works {
		if w.Task != nil && !w.Done() && !w.Task.isBudgetSpent(p) && !d.s.isTurnSpent(w.ID, p) {
			d.answerBudget(w.ID, "", w.Task.NoBudget, actor)
		}
	}
}

// isTurnSpent reports whether the last question about a budget of the work is about a turn that
// exceeded what the policy allows.
func (s *delivery) isTurnSpent(work string, p *Policy) bool {
	for _, q := range slices.Backward(s.run.Questions) {
		if q.Kind == AskedBudget && q.Work == work {
			return q.Cap == CapTurn && p.Turn.exhausted(q.Spent) != ""
		}
	}
	return false
}

// answerBudget continues work, or a role or the run if work is "", because its budget was raised.
func (d *decider) answerBudget(work string, role signalbox.Role, paused bool, actor string) {
	for _, q := range d.s.run.Questions {
		if q.Open() && q.Kind == AskedBudget && q.Work == work && q.Role == role {
			d.record(work, "", actor,
				QuestionAnswered{Question: q.ID, Answer: "the budget was raised", Withdrawn: true,
					NoGrant: true})
		}
	}
	if paused {
		d.record(work, "", actor, Resumed{Role: role})
	}
}
