package rules

import (
	"cmp"
	"fmt"

	"signalbox"
)

// RefusedError means that a signal of a session was refused. The refusal is recorded.
type RefusedError struct {
	Reason signalbox.Reason
	Msg    string
}

func (e *RefusedError) Error() string { return e.Msg }

// refusal describes a signal to refuse.
type refusal struct {
	signal string
	epoch  uint64
	blob   signalbox.Hash
	times  int
	reason signalbox.Reason
	detail string
	actor  string // "" means the actor of the session
}

// refuse records a refusal and returns the error for it. So that an agent cannot flood the ledger,
// the same signal refused for the same reason is recorded again only when the session has sent it
// ten times as often.
func (d *decider) refuse(session *Session, work string, r refusal, code signalbox.Code,
	hint string) error {
	times, recorded := max(r.times, 1), 0
	for _, before := range session.Refused {
		if before.Reason == r.reason && before.Said == r.signal {
			recorded, d.answer.Seq = before.Count, before.Seq
		}
	}
	if recorded == 0 || times/10 >= recorded {
		d.answer.Seq = d.record(work, session.ID, cmp.Or(r.actor, session.Actor),
			SignalRefused{r.signal, r.reason, r.detail, r.epoch, times, r.blob})
	}
	return &signalbox.Error{Code: code, Err: &RefusedError{r.reason, r.detail}, Hint: hint}
}

// refuseStale refuses a signal under a lease that is not live. w is nil if the session never had
// the lease it named.
func (d *decider) refuseStale(session *Session, w *Work, live *signalbox.Lease, r refusal) error {
	r.reason = signalbox.ReasonStaleLease
	work := ""
	if w != nil {
		work = w.ID
		d.answer.Work, d.answer.Phase, d.answer.Lease = w.ID, w.Phase, live
	}
	d.answer.Session = session.ID
	switch {
	case w == nil:
		r.detail = fmt.Sprintf("stale lease: session '%s' never held epoch %d", session.ID, r.epoch)
	case live == nil:
		r.detail = fmt.Sprintf(
			"stale lease: epoch %d of work '%s' is over, and no session holds the work", r.epoch,
			work)
	case live.Epoch == r.epoch:
		r.detail = fmt.Sprintf("stale lease: epoch %d of work '%s' does not belong to session '%s'",
			r.epoch, work, session.ID)
	default:
		r.detail = fmt.Sprintf("stale lease: epoch %d of work '%s' is over, epoch %d is live",
			r.epoch, work, live.Epoch)
	}
	return d.refuse(session, work, r, signalbox.CodeConflict,
		"claim the work again; the signal under the old lease was ignored")
}
