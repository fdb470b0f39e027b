package rules

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"signalbox"
)

// decide accepts an exit signal with four events in one append: the signal, the completed session,
// the phase change and the release of the lease.
func (c Exit) decide(d *decider) error {
	if err := c.Turn.check(); err != nil {
		return err
	}
	session, err := d.sessionNamed(c.Session)
	if err != nil {
		return err
	}
	held, err := c.lease(d, session)
	if err != nil {
		return err
	}
	sent := refusal{signal: signalbox.NameExit, epoch: held.Epoch, blob: c.Blob, times: c.Times}
	if err := d.checkCaller(c.Caller, session, sent); err != nil {
		return err
	}
	if fault := c.fault(); fault != "" {
		d.answer.Work, d.answer.Session = held.Work, session.ID
		hint := "correct the signal and send it again"
		sent.reason, sent.detail = signalbox.ReasonMalformed, fault
		if c.Contradicts != nil {
			sent.reason, hint = signalbox.ReasonAmbiguous,
				"end the turn with a verdict in your own reply"
			first := sent
			first.blob = *c.Contradicts
			d.refuse(session, held.Work, first, signalbox.CodeFailed, "")
		}
		return d.refuse(session, held.Work, sent, signalbox.CodeFailed, hint)
	}
	if held.Work == "" {
		return d.refuseStale(session, nil, nil, sent)
	}
	w, err := d.work(held.Work)
	if err != nil {
		return err
	}
	lease := d.liveLease(w)
	completed := signalbox.SessionCompletedFrom(session.ID, session.Actor, &c.Signal)
	completed.WorkID, completed.LeaseEpoch = w.ID, held.Epoch
	inline := completed
	shortenNotes(&completed)
	if lease == nil || lease.Epoch != held.Epoch {
		// long notes were part of the event once
		if d.repeatedExit(session, completed) || completed.NotesBlob != (signalbox.Hash{}) &&
			d.repeatedExit(session, inline) {
			return nil
		}
		return d.refuseStale(session, w, lease, sent)
	}
	if completed.PhaseCompleted != w.Phase || completed.NextPhase == nil {
		d.answer.Work, d.answer.Phase, d.answer.Session = w.ID, w.Phase, session.ID
		return d.refusePhase(session, w, completed, sent)
	}
	if err := c.checkRef(w); err != nil {
		return err
	}
	if c.Notes != completed.NotesBlob {
		return refusef(signalbox.CodeConflict, "send the signal again",
			"the notes of the signal are not stored: the ledger has changed meanwhile")
	}
	if w.Task != nil {
		c.acceptPlanned(d, session, w, completed)
		return nil
	}
	c.accept(d, completed)
	return nil
}

func (d *decider) refusePhase(session *Session, w *Work, completed signalbox.AgentSessionCompleted,
	sent refusal) error {
	sent.reason = signalbox.ReasonPhaseMismatch
	sent.detail = fmt.Sprintf("phase mismatch: signal says '%s', work is in '%s'",
		completed.PhaseCompleted, w.Phase)
	return d.refuse(session, w.ID, sent, signalbox.CodeFailed,
		fmt.Sprintf("if you completed %s, send the signal again with that phase_completed",
			w.Phase))
}

// confirm records an exit signal beside the line signal of the turn, which decides what follows.
func (c Exit) confirm(session *Session, h report) {
	completed := signalbox.SessionCompletedFrom(h.session, h.actor, &c.Signal)
	completed.WorkID, completed.LeaseEpoch = h.w.ID, h.epoch
	shortenNotes(&completed)
	sent := refusal{signal: signalbox.NameExit, epoch: h.epoch, blob: c.Blob}
	switch fault := c.fault(); {
	case fault != "" || c.Notes != completed.NotesBlob:
		sent.reason = signalbox.ReasonMalformed
		sent.detail = cmp.Or(fault, "the notes of the signal are not stored")
		h.refuse(session, h.w.ID, sent, signalbox.CodeFailed, "")
	case completed.PhaseCompleted != h.w.Phase || completed.NextPhase == nil:
		h.refusePhase(session, h.w, completed, sent)
	default:
		if h.role == signalbox.RoleAuditor { // work that waits for its merge stays where it is
			next := h.s.phaseAfterExit(h.w, h.role, completed.ExitReason)
			completed.NextPhase = &next
		}
		c.recordPlanned(h, completed)
	}
}

func (c Exit) recordPlanned(h report,
	completed signalbox.AgentSessionCompleted) uint64 {
	h.note(SignalHeard{Dialect: signalbox.DialectExit, Signal: signalbox.NameExit,
		Epoch: completed.LeaseEpoch, Blob: c.Blob, Offset: c.Offset})
	return h.note(AgentSessionCompleted{completed})
}

// fault returns why the signal is invalid, or "".
func (c Exit) fault() string {
	fault := c.Fault
	if err := c.Signal.Validate(); fault == "" && err != nil {
		fault = err.Error()
	}
	return strings.ToValidUTF8(fault[:min(len(fault), maxText)], "\ufffd")
}

// The notes of a signal that are longer than maxNotes are stored as a blob, so that they can be
// redacted. The event has their beginning.
const (
	maxNotes     = 4096
	notesPreview = 200
)

// LongNotes returns the notes of a signal if they are so long that they are stored as a blob, and
// their digest. Otherwise it returns zero.
func LongNotes(s *signalbox.ExitSignal) (text []byte, digest signalbox.Hash) {
	if s.Notes == nil || len(*s.Notes) <= maxNotes {
		return nil, digest
	}
	text = []byte(*s.Notes)
	return text, sha256.Sum256(text)
}

// shortenNotes replaces long notes by their beginning and the digest of their blob.
func shortenNotes(completed *signalbox.AgentSessionCompleted) {
	text, digest := LongNotes(&signalbox.ExitSignal{Notes: completed.Notes})
	if text == nil {
		return
	}
	short := preview(string(text))
	completed.Notes, completed.NotesBlob = &short, digest
}

// preview returns the beginning of a text that is stored as a blob.
func preview(text string) string {
	n := notesPreview
	for n > 0 && text[n]&0xc0 == 0x80 { // not within a rune
		n--
	}
	return text[:n] + "…"
}

// lease returns the lease that the signal is sent under. An empty Work means that the session never
// had it.
func (c Exit) lease(d *decider, session *Session) (LeaseRef, error) {
	if c.Epoch != 0 {
		return session.lease(c.Epoch), nil
	}
	live := slices.DeleteFunc(slices.Clone(session.Live), func(epoch uint64) bool {
		return d.expired(d.s.works[d.s.leased[epoch]].Lease)
	})
	switch len(live) {
	case 0:
		// stale, unless the session sent the same signal before
		return session.Held[len(session.Held)-1], nil
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

// repeatedExit repeats the first answer if the session sent the same signal before under the same
// lease. The next phase is not part of the signal, and the record has the one that followed then.
func (d *decider) repeatedExit(session *Session, completed signalbox.AgentSessionCompleted) bool {
	for _, next := range signalbox.Phases() {
		completed.NextPhase = &next
		if exit, found := session.accepted(completed.LeaseEpoch,
			AgentSessionCompleted{completed}); found {
			d.answer.Repeated = true
			d.answerExit(completed, exit.Seq)
			return true
		}
	}
	return false
}

// accepted returns the record of a signal that was accepted under a lease before.
func (session *Session) accepted(epoch uint64, signal body) (ExitRecord, bool) {
	digest := signalbox.Hash(sha256.Sum256(encode(signal)))
	for _, exit := range session.Exits {
		if exit.Epoch == epoch && exit.Digest == digest {
			return exit, true
		}
	}
	return ExitRecord{}, false
}

func (c Exit) accept(d *decider, completed signalbox.AgentSessionCompleted) {
	work, session, actor := completed.WorkID, completed.SessionID, completed.ActorID
	d.record(work, session, actor, SignalHeard{Dialect: signalbox.DialectExit,
		Signal: signalbox.NameExit,
		Epoch:  completed.LeaseEpoch, Blob: c.Blob, Offset: c.Offset, Ref: c.Ref})
	seq := d.record(work, session, actor, AgentSessionCompleted{completed})
	d.record(work, session, actor, PhaseChanged{completed.PhaseCompleted, *completed.NextPhase})
	d.record(work, session, actor, LeaseReleased{Epoch: completed.LeaseEpoch, Reason: "exit"})
	d.answerExit(completed, seq)
}

func (d *decider) answerExit(completed signalbox.AgentSessionCompleted, seq uint64) {
	d.answer.Seq, d.answer.Work, d.answer.Session = seq, completed.WorkID, completed.SessionID
	d.answer.Phase, d.answer.Completed = *completed.NextPhase, &completed
}

// phaseAfterExit returns the phase of planned work after an exit signal. It is not always the one
// of the exit protocol: work that waits for its merge stays where it is, and a role for which the
// signal has no meaning needs a person.
func (s *delivery) phaseAfterExit(w *Work, role signalbox.Role,
	reason signalbox.ExitReason) signalbox.Phase {
	switch {
	case reason != signalbox.ExitCompleted:
		return signalbox.PhaseBlocked
	case role == signalbox.RoleDeveloper:
		return signalbox.PhaseCIPending
	case role == signalbox.RoleCritic:
		return signalbox.PhaseReadyForMerge
	case role == signalbox.RoleAuditor && s.run.Policy.Shared:
		return signalbox.PhaseCompleted
	case role == signalbox.RoleAuditor:
		return w.Phase
	}
	return signalbox.PhaseBlocked
}

// acceptPlanned treats an exit signal about planned work like the equivalent line signal.
func (c Exit) acceptPlanned(d *decider, session *Session, w *Work,
	completed signalbox.AgentSessionCompleted) {
	h := report{decider: d, ReportSignal: ReportSignal{Signal: signalbox.NameExit, Turn: c.Turn},
		w:      w,
		holder: holder{session.ID, session.Actor, session.Role, completed.LeaseEpoch}}
	d.refuseAll(session, w, ReportSignal{Epoch: h.epoch, Blob: c.Blob, Refused: c.Refused})
	h.endTurn(completed.ExitReason == signalbox.ExitCompleted)
	h.heardFromAgent()
	next := d.s.phaseAfterExit(w, h.role, completed.ExitReason)
	completed.NextPhase = &next
	d.answerExit(completed, c.recordPlanned(h, completed))
	notes := noReason
	if completed.Notes != nil {
		notes = *completed.Notes
	}
	switch {
	case completed.ExitReason != signalbox.ExitCompleted:
		h.block(AskedBlocked, completed.NotesBlob, "the %s on %s ended as %s: %s", h.role, w.ID,
			completed.ExitReason, notes)
		h.release(signalbox.NameExit)
	case h.role == signalbox.RoleDeveloper:
		h.dispatchCritic()
	case h.role == signalbox.RoleCritic:
		h.dispatchAuditor()
	case h.role == signalbox.RoleAuditor:
		h.markComplete()
	default:
		h.block(AskedBlocked, completed.NotesBlob,
			"the %s on %s ended with an exit signal instead of a line signal: %s", h.role, w.ID,
			notes)
		h.release(signalbox.NameExit)
	}
	h.askBudget()
}
