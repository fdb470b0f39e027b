package rules

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"signalbox"
)

// An accepted exit signal is one append: it is heard, the session is completed, the work moves, and the lease is
// free. All or none.
func (c Exit) decide(d *decider) error {
	session, err := d.session(c.Session)
	if err != nil {
		return err
	}
	held, err := c.lease(d, session)
	if err != nil {
		return err
	}
	said := refusal{signal: signalbox.NameExit, epoch: held.Epoch, blob: c.Blob, times: c.Times}
	if fault := c.fault(); fault != "" {
		d.answer.Work, d.answer.Session = held.Work, session.ID
		said.reason, said.detail = signalbox.ReasonMalformed, fault
		return d.refuse(session, held.Work, said, signalbox.CodeFailed, "mend the signal and send it again")
	}
	if held.Work == "" {
		return d.refuseStale(session, nil, nil, said)
	}
	w, err := d.work(held.Work)
	if err != nil {
		return err
	}
	lease := d.liveLease(w)
	completed := signalbox.SessionCompletedFrom(session.ID, session.Actor, &c.Signal)
	completed.WorkID, completed.LeaseEpoch = w.ID, held.Epoch
	if lease == nil || lease.Epoch != held.Epoch {
		if d.repeatedExit(session, completed) {
			return nil
		}
		return d.refuseStale(session, w, lease, said)
	}
	if completed.PhaseCompleted != w.Phase || completed.NextPhase == nil {
		d.answer.Work, d.answer.Phase, d.answer.Session = w.ID, w.Phase, session.ID
		said.reason = signalbox.ReasonPhaseMismatch
		said.detail = fmt.Sprintf("phase mismatch: signal says '%s', work is in '%s'", completed.PhaseCompleted, w.Phase)
		return d.refuse(session, w.ID, said, signalbox.CodeFailed,
			fmt.Sprintf("send the signal again with phase_completed %s, if that is what was done", w.Phase))
	}
	if w.Task != nil {
		c.acceptPlanned(d, session, w, completed)
		return nil
	}
	c.accept(d, completed)
	return nil
}

// fault returns why the signal is not valid, or "".
func (c Exit) fault() string {
	fault := c.Fault
	if err := c.Signal.Validate(); fault == "" && err != nil {
		fault = err.Error()
	}
	return strings.ToValidUTF8(fault[:min(len(fault), maxText)], "\ufffd")
}

// lease finds the lease that the signal is sent under. The zero Held.Work means that the session never had it.
func (c Exit) lease(d *decider, session *Session) (LeaseRef, error) {
	if c.Epoch != 0 {
		return session.lease(c.Epoch), nil
	}
	live := slices.DeleteFunc(slices.Clone(session.Live), func(epoch uint64) bool {
		return d.expired(d.s.works[d.s.leased[epoch]].Lease)
	})
	switch len(live) {
	case 0:
		return session.Held[len(session.Held)-1], nil // stale, unless it sent this very signal before
	case 1:
		return session.lease(live[0]), nil
	}
	return LeaseRef{}, refusef(signalbox.CodeUsage, "name one of them with --epoch",
		"session '%s' holds %d leases: %d", session.ID, len(live), live)
}

func (session *Session) lease(epoch uint64) LeaseRef {
	i, found := slices.BinarySearchFunc(session.Held, epoch, func(h LeaseRef, epoch uint64) int {
		return cmp.Compare(h.Epoch, epoch)
	})
	if !found {
		return LeaseRef{Epoch: epoch}
	}
	return session.Held[i]
}

// repeated answers a signal that the session sent before under the same lease, with the first result.
func (d *decider) repeatedExit(session *Session, completed signalbox.AgentSessionCompleted) bool {
	digest := signalbox.Hash(sha256.Sum256(encode(AgentSessionCompleted{completed})))
	for _, exit := range session.Exits {
		if exit.Epoch == completed.LeaseEpoch && exit.Digest == digest {
			d.answer.Repeated = true
			d.answerExit(completed, exit.Seq)
			return true
		}
	}
	return false
}

func (c Exit) accept(d *decider, completed signalbox.AgentSessionCompleted) {
	work, session, actor := completed.WorkID, completed.SessionID, completed.ActorID
	d.record(work, session, actor, SignalHeard{Dialect: signalbox.DialectExit, Signal: signalbox.NameExit,
		Epoch: completed.LeaseEpoch, Blob: c.Blob, Offset: c.Offset})
	seq := d.record(work, session, actor, AgentSessionCompleted{completed})
	d.record(work, session, actor, PhaseChanged{completed.PhaseCompleted, *completed.NextPhase})
	d.record(work, session, actor, LeaseReleased{Epoch: completed.LeaseEpoch, Reason: "exit"})
	d.answerExit(completed, seq)
}

func (d *decider) answerExit(completed signalbox.AgentSessionCompleted, seq uint64) {
	d.answer.Seq, d.answer.Work, d.answer.Session = seq, completed.WorkID, completed.SessionID
	d.answer.Phase, d.answer.Completed = *completed.NextPhase, &completed
}

// acceptPlanned takes an exit signal about planned work for the line signal that says the same.
func (c Exit) acceptPlanned(d *decider, session *Session, w *Work, completed signalbox.AgentSessionCompleted) {
	h := report{ReportSignal: ReportSignal{Signal: signalbox.NameExit, Turn: c.Turn}, w: w,
		holder: holder{session.ID, session.Actor, session.Role, completed.LeaseEpoch}}
	d.endTurn(h)
	d.record(w.ID, h.session, h.actor, SignalHeard{Dialect: signalbox.DialectExit, Signal: signalbox.NameExit,
		Epoch: completed.LeaseEpoch, Blob: c.Blob, Offset: c.Offset})
	seq := d.record(w.ID, h.session, h.actor, AgentSessionCompleted{completed})
	d.answerExit(completed, seq)
	notes := "without a word about why"
	if completed.Notes != nil {
		notes = *completed.Notes
	}
	switch {
	case completed.ExitReason != signalbox.ExitCompleted:
		d.block(w, w.Phase, h.holder, AskedBlocked, signalbox.Hash{}, "the %s on %s ended as %s: %s", h.role, w.ID, completed.ExitReason, notes)
		d.release(w.ID, h.holder, signalbox.NameExit)
	case h.role == signalbox.RoleDeveloper:
		d.dispatchCritic(h)
	case h.role == signalbox.RoleCritic:
		d.dispatchAuditor(h)
	case h.role == signalbox.RoleAuditor:
		d.markComplete(h)
	default:
		d.block(w, w.Phase, h.holder, AskedBlocked, signalbox.Hash{}, "the %s on %s ended with an exit signal, which does not say enough: %s", h.role, w.ID, notes)
		d.release(w.ID, h.holder, signalbox.NameExit)
	}
	d.askBudget(h)
}
