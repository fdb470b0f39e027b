package rules

import (
	"cmp"

	"signalbox"
)

// Order is a command of the operator about a task, or about the whole run if Work is "".
type Order struct {
	What          OrderKind
	Work          string
	Reason, Actor string
	// Commit is the commit that the operator approves. If the work has another one by now, the
	// order is refused. "" means the one it has.
	Commit string
	// From is the phase in which a retry restarts the task: the one that it has reached, or an
	// earlier one; see RetryPhases. "" means the one that it has reached.
	From signalbox.Phase
	// Note is what a retry tells the next agent, and Body the blob with it if it is long; see
	// LongText. "" means nothing.
	Note string
	Body signalbox.Hash
}

// OrderKind is what the operator orders.
type OrderKind string

const (
	OrderPause   OrderKind = "pause"   // dispatch nothing more; running agents may finish
	OrderResume  OrderKind = "resume"  // end a pause
	OrderCancel  OrderKind = "cancel"  // stop the work, including running agents
	OrderRetry   OrderKind = "retry"   // restart: reset failure counts and withdraw open questions
	OrderApprove OrderKind = "approve" // allow the merge
)

func (c Order) decide(d *decider) error {
	if err := cmp.Or(checkIDs("actor", c.Actor), checkText("reason", c.Reason),
		c.checkRetry()); err != nil {
		return err
	}
	if c.Work == "" {
		return c.run(d)
	}
	w, err := d.work(c.Work)
	if err != nil {
		return err
	}
	if w.Task == nil {
		return refusef(signalbox.CodeFailed,
			"for work opened by hand use signalbox work release and unblock",
			"work '%s' does not belong to a plan", w.ID)
	}
	if w.Phase == signalbox.PhaseCompleted {
		return refusef(signalbox.CodeFailed,
			"completed work is not done again; add a new task to the plan",
			"work '%s' is completed", w.ID)
	}
	d.answer.Work, d.answer.Phase = w.ID, w.Phase
	switch c.What {
	case OrderPause, OrderResume:
		return c.pauseTask(d, w)
	case OrderCancel:
		return c.cancelTask(d, w)
	case OrderRetry:
		return c.retryTask(d, w)
	case OrderApprove:
		return c.approve(d, w)
	}
	return c.unknown()
}

// pauseTask pauses a task, or ends its pause.
func (c Order) pauseTask(d *decider, w *Work) error {
	pause := c.What == OrderPause
	switch {
	case w.Task.Cancelled != "":
		return refusef(signalbox.CodeFailed, "signalbox retry "+w.ID+" undoes that",
			"work '%s' is cancelled (%s)", w.ID, w.Task.Cancelled)
	case pause == w.Task.Paused:
		d.answer.Repeated = true
	case pause:
		d.answer.Seq = d.record(w.ID, "", c.Actor, Paused{Reason: c.Reason})
	default:
		d.answer.Seq = d.record(w.ID, "", c.Actor, Resumed{})
		if len(w.Task.Questions) == 0 {
			d.askTaskBudget(w, Spent{}, "", c.Actor)
		}
	}
	return nil
}

func (c Order) cancelTask(d *decider, w *Work) error {
	if w.Task.Kind == KindBaseline &&
		(w.Phase == signalbox.PhaseBlocked || len(w.Task.Failing) > 0) {
		return refusef(signalbox.CodeFailed,
			"repair the base, or accept it when you are asked: signalbox questions",
			"checks fail on the base, and cancelling '%s' would hide it", w.ID)
	}
	if d.answer.Repeated = w.Task.Cancelled != ""; d.answer.Repeated {
		return nil
	}
	d.cancel(w, c.Actor, cmp.Or(c.Reason, "cancelled by "+c.Actor))
	if w.Task.Kind == KindRemediation {
		d.endRemediation(w, c.Actor)
	}
	return nil
}

func (c Order) retryTask(d *decider, w *Work) error {
	if w.Task.Kind == KindRemediation && w.Task.Cancelled != "" {
		return refusef(signalbox.CodeFailed, "a new one starts when it is needed",
			"remediation '%s' is over", w.ID)
	}
	if err := c.checkFrom(w); err != nil {
		return err
	}
	d.retry(w, c.Actor, c.Reason, c.From)
	c.recordNote(d, w)
	d.askTaskBudget(w, Spent{}, "", c.Actor)
	restarted := withPhase(w, d.answer.Phase)
	task := *w.Task
	task.Cancelled, task.Audited, restarted.Task = "", task.Audited && c.From == "", &task
	d.answer.Approval = d.s.WaitsForApproval(restarted)
	return nil
}

// maxRetried is how many tasks one order restarts, because the size of an append is limited. Repeat
// the order while Answer.Again is set.
const maxRetried = 100

func (c Order) approve(d *decider, w *Work) error {
	switch {
	case w.Task.Cancelled != "":
		return refusef(signalbox.CodeFailed, "undo that first with signalbox retry "+w.ID,
			"work '%s' is cancelled (%s)", w.ID, w.Task.Cancelled)
	case c.Commit != "" && c.Commit != w.Task.Commit:
		return refusef(signalbox.CodeConflict,
			"read the new commit, and approve that: signalbox diff "+w.ID,
			"work '%s' has changed: its commit is %.7s, not %.7s", w.ID, w.Task.Commit, c.Commit)
	case w.Task.Approved:
		d.answer.Repeated = true
	case !w.Task.Audited || w.Phase != signalbox.PhaseReadyForMerge:
		return refusef(signalbox.CodeFailed, "approve it when it is ready to merge",
			"work '%s' is in %s and does not wait for approval", w.ID, w.Phase)
	default:
		d.answer.Seq = d.record(w.ID, "", c.Actor, MergeApproved{w.Task.Commit})
	}
	d.answer.Commit = w.Task.Commit
	return nil
}

// run carries out an order about the whole run.
func (c Order) run(d *decider) error {
	switch c.What {
	case OrderPause:
		if d.answer.Repeated = d.s.run.Paused; !d.answer.Repeated {
			d.answer.Seq = d.record("", "", c.Actor, Paused{Reason: c.Reason})
		}
	case OrderResume:
		return c.resumeRun(d)
	case OrderCancel:
		c.cancelRun(d)
	case OrderRetry:
		c.retryRun(d)
	case OrderApprove:
		return refusef(signalbox.CodeUsage, "name a task", "merges are approved one at a time")
	default:
		return c.unknown()
	}
	return nil
}

func (c Order) resumeRun(d *decider) error {
	s := &d.s.run
	if s.Cancelled != "" {
		return refusef(signalbox.CodeFailed, "signalbox retry undoes that",
			"the run is cancelled (%s)", s.Cancelled)
	}
	d.answer.Repeated = !s.Paused
	if s.Paused {
		d.answer.Seq = d.record("", "", c.Actor, Resumed{})
		if !d.s.runOnHold() {
			d.askRunBudget(Spent{}, "", c.Actor)
		}
	}
	for _, r := range s.Roles {
		if r.Paused {
			d.answer.Repeated, d.answer.Seq = false,
				d.record("", "", c.Actor, Resumed{Role: r.Role})
			d.askRoleBudget(r.Role, Spent{}, "", c.Actor)
		}
	}
	return nil
}

func (c Order) cancelRun(d *decider) {
	if d.answer.Repeated = d.s.run.Cancelled != ""; d.answer.Repeated {
		return
	}
	d.answer.Seq = d.record("", "", c.Actor, Cancelled{cmp.Or(c.Reason, "cancelled by "+c.Actor)})
	for _, w := range d.s.works {
		if w.Task != nil {
			d.revokeLease(w, c.Actor, "the run is cancelled")
		}
	}
}

// retryRun continues the run, and restarts the tasks that are blocked.
func (c Order) retryRun(d *decider) {
	s := &d.s.run
	d.answer.Seq = d.record("", "", c.Actor, Retried{Note: c.Reason})
	d.retryAgents(c.Actor, "retry")
	d.withdrawSetup(c.Actor)
	if !d.s.runOnHold() {
		d.askRunBudget(Spent{}, "", c.Actor)
	}
	for _, r := range s.Roles {
		if r.Paused {
			d.askRoleBudget(r.Role, Spent{}, "", c.Actor)
		}
	}
	n := 0
	for _, w := range d.s.works {
		if w.Task == nil || w.Phase != signalbox.PhaseBlocked || w.Task.Cancelled != "" ||
			w.Task.Remedy != "" {
			continue
		}
		if n == maxRetried {
			d.answer.Again = true
			return
		}
		d.retry(w, c.Actor, c.Reason, "")
		d.askTaskBudget(w, Spent{}, "", c.Actor)
		n++
	}
}

func (c Order) unknown() error {
	return refusef(signalbox.CodeUsage, "the orders are pause, resume, cancel, retry and approve",
		"there is no order %q", c.What)
}

// revokeLease ends the live lease of work, if there is one.
func (d *decider) revokeLease(w *Work, actor, reason string) {
	if lease := d.liveLease(w); lease != nil {
		d.record(w.ID, lease.Session, actor, LeaseReleased{lease.Epoch, reason})
	}
}

// cancel cancels a task and revokes its lease.
func (d *decider) cancel(w *Work, actor, reason string) {
	d.withdrawQuestions(w, actor, "")
	d.answer.Seq = d.record(w.ID, "", actor, Cancelled{reason})
	d.revokeLease(w, actor, reason)
	for _, x := range d.s.works { // its requests to experts are no longer needed
		if x.Task != nil && x.Task.Kind == KindExpert && x.Task.Asker == w.ID && !x.Done() {
			d.cancel(x, actor, w.ID+" is cancelled")
		}
	}
}

// withdrawQuestions closes the open questions about a task, except one; "" means all of them.
func (d *decider) withdrawQuestions(w *Work, actor, except string) {
	for _, q := range remove(w.Task.Questions, except) {
		d.record(w.ID, "", actor, QuestionAnswered{Question: q, Withdrawn: true})
	}
}

// retry restarts a task in a phase that RetryPhases has, or in the one that it has reached if from
// is "".
func (d *decider) retry(w *Work, actor, reason string, from signalbox.Phase) {
	d.withdrawQuestions(w, actor, "")
	d.answer.Seq = d.record(w.ID, "", actor, Retried{reason, from})
	d.revokeLease(w, actor, "retry")
	at := w.Phase
	if at == signalbox.PhaseBlocked && (w.Task.Remedy == "" || from != "") {
		at = w.BlockedFrom
		d.record(w.ID, "", actor, PhaseChanged{w.Phase, at})
	}
	if to := w.retryTarget(from); from != "" && to != at {
		d.record(w.ID, "", actor, PhaseChanged{at, to})
		at = to
	}
	if d.answer.Work == w.ID {
		d.answer.Phase = at
	}
}
