package rules

import (
	"fmt"
	"time"

	"signalbox"
)

// exhausted returns which part of the budget is used up and by how much, "" if none is.
func (b Budget) exhausted(s Spent) string {
	switch {
	case b.Tokens > 0 && s.Tokens >= b.Tokens:
		return fmt.Sprintf("%d of %d tokens", s.Tokens, b.Tokens)
	case b.CostMicros > 0 && s.CostMicros >= b.CostMicros:
		return fmt.Sprintf("cost $%s of $%s", dollars(s.CostMicros), dollars(b.CostMicros))
	case b.Time > 0 && s.Time >= b.Time:
		return fmt.Sprintf("time %s of %s", s.Time.Round(time.Second), b.Time)
	}
	return ""
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

// askTaskBudget asks the human if a task has spent its budget.
func (d *decider) askTaskBudget(w *Work, spent Spent, p *Policy, session, actor string) {
	if p == nil {
		return
	}
	budget, setting := w.Task.budget(p)
	if used := budget.exhausted(spent.minus(w.Task.Granted)); used != "" {
		d.ask(w.ID, session, actor, AskedBudget, signalbox.Hash{},
			"%s has spent its budget: %s (%s). Continue with the same amount again? You can also raise the setting and run the plan again.", w.ID, used, setting)
	}
}

// askRunBudget asks the human if the run has spent its budget.
func (d *decider) askRunBudget(spent Spent, p *Policy, session, actor string) {
	if p == nil {
		return
	}
	if used := p.Run.exhausted(spent.minus(d.s.delivery.Granted)); used != "" {
		d.ask("", session, actor, AskedBudget, signalbox.Hash{},
			"the run has spent its budget: %s (budget.run in signalbox.yaml). Continue with the same amount again? You can also raise the setting and run the plan again.", used)
	}
}

// raiseBudgets answers the open questions about budgets that are no longer spent under a new policy, and ends the pauses that
// refusals caused.
func (d *decider) raiseBudgets(p *Policy, actor string) {
	if s := &d.s.delivery; p.Run.exhausted(s.Spent.minus(s.Granted)) == "" {
		d.answerBudget("", s.NoBudget, actor)
	}
	for _, w := range d.s.works {
		if w.Task == nil || w.Done() {
			continue
		}
		if budget, _ := w.Task.budget(p); budget.exhausted(w.Task.Spent.minus(w.Task.Granted)) == "" {
			d.answerBudget(w.ID, w.Task.NoBudget, actor)
		}
	}
}

// answerBudget continues work, or the run if work is "", because its budget was raised.
func (d *decider) answerBudget(work string, paused bool, actor string) {
	for _, q := range d.s.delivery.Questions {
		if q.Open() && q.Kind == AskedBudget && q.Work == work {
			d.record(work, "", actor, QuestionAnswered{Question: q.ID, Answer: "the budget was raised", Withdrawn: true, NoGrant: true})
		}
	}
	if paused {
		d.record(work, "", actor, Resumed{})
	}
}
