package rules

import (
	"fmt"

	"signalbox"
)

// RefusedError means that what a session said does not count. It is recorded.
type RefusedError struct {
	Reason signalbox.Reason
	Msg    string
}

func (e *RefusedError) Error() string { return e.Msg }

// refusal is something said that does not count.
type refusal struct {
	signal   string
	epoch  uint64
	blob   signalbox.Hash
	times  int
	reason signalbox.Reason
	detail string
}

// refuse records a refusal, unless the session said the same before, was refused for the same reason, and has not said
// it ten times as often since: an agent cannot flood the ledger.
func (d *decider) refuse(session *Session, work string, r refusal, code signalbox.Code, hint string) error {
	times, recorded := max(r.times, 1), 0
	for _, before := range session.Refused {
		if before.Reason == r.reason && before.Said == r.signal {
			recorded, d.answer.Seq = before.Count, before.Seq
		}
	}
	if recorded == 0 || times/10 >= recorded {
		d.answer.Seq = d.record(work, session.ID, session.Actor,
			SignalRefused{r.signal, r.reason, r.detail, r.epoch, times, r.blob})
	}
	return &signalbox.Error{Code: code, Err: &RefusedError{r.reason, r.detail}, Hint: hint}
}

// stale refuses what was said under a lease that is not the live one. The work is nil if the session never had the
// lease it named.
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
		r.detail = fmt.Sprintf("stale lease: epoch %d of work '%s' is over, and nobody holds the work", r.epoch, work)
	case live.Epoch == r.epoch:
		r.detail = fmt.Sprintf("stale lease: epoch %d of work '%s' is not session '%s''s", r.epoch, work, session.ID)
	default:
		r.detail = fmt.Sprintf("stale lease: epoch %d of work '%s' is over, epoch %d is live", r.epoch, work, live.Epoch)
	}
	return d.refuse(session, work, r, signalbox.CodeConflict, "claim the work again; what was said under the old lease moved nothing")
}
