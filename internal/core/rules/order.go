package rules

import "signalbox"

// Order is what an operator orders about a task, or without one about the whole run.
type Order struct {
	What          OrderKind
	Work          string
	Reason, Actor string
}

// OrderKind is one of the things that an operator can order.
type OrderKind string

const (
	OrderPause   OrderKind = "pause"   // nothing more is dispatched; what runs may finish
	OrderResume  OrderKind = "resume"  // ends a pause
	OrderCancel  OrderKind = "cancel"  // nobody is to work on it any more, also not who does now
	OrderRetry   OrderKind = "retry"   // begins anew: what went wrong no longer counts, open questions are withdrawn
	OrderApprove OrderKind = "approve" // a human's yes to the merge
)

func (c Order) decide(d *decider) error {
	if err := firstError(checkIDs("actor", c.Actor), checkText("reason", c.Reason)); err != nil {
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
		return refusef(signalbox.CodeFailed, "work opened by hand has signalbox work release and unblock", "work '%s' is of no plan", w.ID)
	}
	if w.Phase == signalbox.PhaseCompleted {
		return refusef(signalbox.CodeFailed, "completed work is not done again; put a new task into the plan", "work '%s' is completed", w.ID)
	}
	d.answer.Work, d.answer.Phase = w.ID, w.Phase
	switch c.What {
	case OrderPause, OrderResume:
		if w.Task.Cancelled != "" {
			return refusef(signalbox.CodeFailed, "signalbox retry "+w.ID+" takes that back", "work '%s' is cancelled (%s)", w.ID, w.Task.Cancelled)
		}
		if pause := c.What == OrderPause; pause == w.Task.Paused {
			d.answer.Repeated = true
		} else if pause {
			d.answer.Seq = d.record(w.ID, "", c.Actor, Paused{c.Reason})
		} else {
			d.answer.Seq = d.record(w.ID, "", c.Actor, Resumed{})
		}
	case OrderCancel:
		if d.answer.Repeated = w.Task.Cancelled != ""; !d.answer.Repeated {
			d.cancel(w, c.Actor, defaultTo(c.Reason, "cancelled by "+c.Actor))
			if w.Task.Kind == KindRemediation {
				d.endRemediation(w, c.Actor)
			}
		}
	case OrderRetry:
		if w.Task.Kind == KindRemediation && w.Task.Cancelled != "" {
			return refusef(signalbox.CodeFailed, "another begins when something is wrong again", "remediation '%s' is over", w.ID)
		}
		d.retry(w, c.Actor, c.Reason)
	case OrderApprove:
		return c.approve(d, w)
	default:
		return c.unknown()
	}
	return nil
}

// maxRetried is how many tasks one order begins anew; an append has its limits. The order is to be given again while
// Answer.Again is set.
const maxRetried = 100

func (c Order) approve(d *decider, w *Work) error {
	switch {
	case w.Task.Approved:
		d.answer.Repeated = true
	case !w.Task.Audited || w.Phase != signalbox.PhaseReadyForMerge:
		return refusef(signalbox.CodeFailed, "it can be approved when it waits for its merge", "work '%s' is in %s and waits for no approval", w.ID, w.Phase)
	default:
		d.answer.Seq = d.record(w.ID, "", c.Actor, MergeApproved{})
	}
	return nil
}

// run does what is ordered about everything.
func (c Order) run(d *decider) error {
	s := &d.s.delivery
	switch c.What {
	case OrderPause:
		if d.answer.Repeated = s.Paused; !s.Paused {
			d.answer.Seq = d.record("", "", c.Actor, Paused{c.Reason})
		}
	case OrderResume:
		if s.Cancelled != "" {
			return refusef(signalbox.CodeFailed, "signalbox retry takes that back", "the run is cancelled (%s)", s.Cancelled)
		}
		if d.answer.Repeated = !s.Paused; s.Paused {
			d.answer.Seq = d.record("", "", c.Actor, Resumed{})
		}
	case OrderCancel:
		if d.answer.Repeated = s.Cancelled != ""; s.Cancelled == "" {
			d.answer.Seq = d.record("", "", c.Actor, Cancelled{defaultTo(c.Reason, "cancelled by "+c.Actor)})
			for _, w := range d.s.works {
				if w.Task != nil && d.liveLease(w) != nil {
					d.revokeLease(w, c.Actor, "the run is cancelled")
				}
			}
		}
	case OrderRetry:
		d.answer.Seq = d.record("", "", c.Actor, Retried{c.Reason})
		n := 0
		for _, w := range d.s.works {
			if w.Task != nil && w.Phase == signalbox.PhaseBlocked && w.Task.Cancelled == "" && w.Task.Remedy == "" {
				if n == maxRetried {
					d.answer.Again = true
					break
				}
				d.retry(w, c.Actor, c.Reason)
				n++
			}
		}
	case OrderApprove:
		return refusef(signalbox.CodeUsage, "name one task", "each merge is approved for itself")
	default:
		return c.unknown()
	}
	return nil
}

func (c Order) unknown() error {
	return refusef(signalbox.CodeUsage, "orders are pause, resume, cancel, retry and approve", "there is no order %q", c.What)
}

func defaultTo(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

func (d *decider) revokeLease(w *Work, actor, reason string) {
	d.record(w.ID, w.Lease.Session, actor, LeaseReleased{w.Lease.Epoch, reason})
}

// cancel takes a task from whoever holds it, for good.
func (d *decider) cancel(w *Work, actor, reason string) {
	d.withdrawQuestions(w, actor)
	d.answer.Seq = d.record(w.ID, "", actor, Cancelled{reason})
	if lease := d.liveLease(w); lease != nil {
		d.revokeLease(w, actor, reason)
	}
	for _, x := range d.s.works { // nobody waits for the advice any more
		if x.Task != nil && x.Task.Kind == KindExpert && x.Task.Asker == w.ID && !x.Done() {
			d.cancel(x, actor, "who asked is cancelled")
		}
	}
}

// withdraw closes the open questions about a task.
func (d *decider) withdrawQuestions(w *Work, actor string) {
	for _, q := range w.Task.Questions {
		d.record(w.ID, "", actor, QuestionAnswered{Question: q, Withdrawn: true})
	}
}

// retry begins a task anew.
func (d *decider) retry(w *Work, actor, note string) {
	d.withdrawQuestions(w, actor)
	d.answer.Seq = d.record(w.ID, "", actor, Retried{note})
	if lease := d.liveLease(w); lease != nil {
		d.revokeLease(w, actor, "retry")
	}
	if w.Phase == signalbox.PhaseBlocked && w.Task.Remedy == "" {
		d.record(w.ID, "", actor, PhaseChanged{w.Phase, w.BlockedFrom})
		if d.answer.Work == w.ID {
			d.answer.Phase = w.BlockedFrom
		}
	}
}

func (s *State) applyOrder(e *signalbox.Event, body body) {
	if e.Work == "" {
		switch b := body.(type) {
		case Paused:
			s.delivery.Paused = true
		case Resumed:
			s.delivery.Paused = false
		case Cancelled:
			s.delivery.Cancelled = b.Reason
		case Retried:
			s.delivery.Cancelled, s.delivery.Paused, s.delivery.Limited = "", false, nil
		}
		return
	}
	var freed []string
	asker := ""
	s.changeTask(e.Work, func(w *Work, t *Task) {
		switch b := body.(type) {
		case Paused:
			t.Paused = true
		case Resumed:
			t.Paused = false
		case Cancelled:
			t.Cancelled, freed, t.Locks = b.Reason, t.Locks, nil
			asker = t.Asker
		case Retried:
			t.Cancelled, t.Paused = "", false
			t.resetCounts()
		case MergeApproved:
			t.Approved = true
		}
	})
	s.grantFiles(freed)
	if asker != "" { // it need not wait any longer
		s.changeTask(asker, func(_ *Work, t *Task) { t.markReady(e.Work) })
	}
}
