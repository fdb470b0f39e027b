package crew

import (
	"bytes"
	"slices"
	"time"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/transcript"
)

// reportConversation records the program's own session as soon as it is known, so that it can be
// resumed even if this process is killed. The caller holds mu.
func (l *listener) reportConversation() {
	if !l.resumable || l.conversation != "" {
		return
	}
	id, _ := l.scanner.Origin()
	if l.conversation = id; id == "" || !rules.IsConversation(id) {
		return
	}
	s := l.run
	if _, err := s.try(rules.ReportConversation{Session: s.id, Epoch: s.epoch,
		ID: id}); err != nil && !isRefusal(err) {
		s.crew.log.Warn("cannot record the session of an agent program", "work", s.work, "error",
			err)
	}
}

// handlePartial acts on an urgent signal before its body is complete. A plain stream gives no sign
// that a body has ended, so waiting for the end could delay a checkpoint indefinitely. The caller
// holds mu.
func (l *listener) handlePartial(sig signalbox.Signal) {
	l.partial = sig.Offset
	written := l.bytes
	if transcript.RefusalReason(sig, l.run.role, l.run.work) != "" {
		return
	}
	switch {
	case sig.Name == signalbox.NameFileConflict: // more names may follow on other lines
		l.reportFiles(sig)
	case sig.Name == signalbox.NameCheckpoint:
		l.noteCheckpoint(sig)
		time.AfterFunc(l.run.crew.opts.delays.quiet, func() { l.finishPartial(sig, written) })
	case sig.Name == signalbox.NameExpertRequest:
		time.AfterFunc(l.run.crew.opts.delays.quiet, func() { l.finishPartial(sig, written) })
	}
}

// checkpoint is what is recorded of a checkpoint.
type checkpoint struct {
	offset  int64
	summary string
	percent int
}

// noteCheckpoint tells the supervisor of a checkpoint. It is called again when the body of the
// checkpoint is complete, which may be in a later turn. The caller holds mu.
func (l *listener) noteCheckpoint(sig signalbox.Signal) {
	if l.checkpointTurn == 0 || sig.Offset != l.checkpointAt {
		l.checkpointTurn, l.checkpointAt, l.progressTurn = l.turns+1, sig.Offset, l.turns+1
	}
	trySend(l.checkpointed)
}

// lastCheckpoint returns the turn of the last checkpoint, from 1.
func (l *listener) lastCheckpoint() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.checkpointTurn
}

// finishPartial acts on a partial signal if it is still the last one, once the stream has been
// silent for a while.
func (l *listener) finishPartial(sig signalbox.Signal, written int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if pending, ok := l.scanner.Pending(); l.closed || !ok || pending.Offset != sig.Offset {
		return
	}
	switch {
	case sig.Name == signalbox.NameCheckpoint:
		l.reportUrgent(l.withBody(sig))
	case l.bytes != written: // more of it arrived
		written := l.bytes
		time.AfterFunc(l.run.crew.opts.delays.quiet, func() { l.finishPartial(sig, written) })
	default:
		trySend(l.mustPark) // the program ends, which completes the body
	}
}

// withBody returns a signal with the fields that have arrived so far and are still in the tail. The
// caller holds mu.
func (l *listener) withBody(sig signalbox.Signal) signalbox.Signal {
	tail := l.tail
	if int64(len(tail)) < l.bytes { // it starts within a line
		tail = tail[bytes.IndexByte(tail, '\n')+1:]
	}
	scanner := transcript.NewScanner(&transcript.Options{Format: l.format, Key: l.key})
	for _, found := range slices.Backward(append(slices.Clone(scanner.Push(tail)),
		scanner.Close()...)) {
		if found.Name == sig.Name && found.TaskID == sig.TaskID && found.Taken() {
			found = hideKeyInSignal(found, l.key)
			sig.Title, sig.Body = found.Title, found.Body
			break
		}
	}
	return sig
}

// isProgress reports whether a signal has acted while the agent ran, and is not a result.
func isProgress(sig signalbox.Signal) bool {
	return sig.Taken() && (sig.Name == signalbox.NameCheckpoint ||
		sig.Name == signalbox.NameFileConflict)
}

func isVerdict(sig signalbox.Signal) bool {
	row, known := signalbox.LineSignalNamed(sig.Name)
	return sig.Taken() && (known && !row.Urgent || sig.Dialect == signalbox.DialectExit)
}

// reportFiles asks for each file that a signal names, until the session must wait for one. It is
// called again when the lines below the signal have arrived; asking for the same file twice changes
// nothing. The caller holds mu.
func (l *listener) reportFiles(sig signalbox.Signal) {
	for _, sig.TaskID = range conflictingFiles(sig, l.dir) {
		if !l.parked {
			l.reportUrgent(sig)
		}
	}
}

// reportUrgent reports a signal to the rules while the agent runs. The caller holds mu.
func (l *listener) reportUrgent(sig signalbox.Signal) {
	s := l.run
	if l.abandoned || transcript.RefusalReason(sig, s.role, s.work) != "" {
		return // it is not awaited, or it is recorded as refused at the end of the turn
	}
	if sig.Name == signalbox.NameCheckpoint {
		l.noteCheckpoint(sig)
	} else {
		l.progressTurn = l.turns + 1
	}
	report := rules.ReportSignal{Session: s.id, Epoch: s.epoch, Signal: sig.Name, Named: sig.TaskID, Offset: sig.Offset}
	var err error
	if sig.Name == signalbox.NameCheckpoint {
		report.Fields, err = extract(sig, s.put)
	} else {
		err = addBody(&report, sig, s.put)
	}
	if err != nil {
		s.crew.log.Warn("cannot store a signal", "work", s.work, "error", err)
		return
	}
	submit, found := s.submit, checkpoint{sig.Offset, report.Fields.Summary, report.Fields.Percent}
	if sig.Name == signalbox.NameCheckpoint {
		if l.recorded != nil && found == *l.recorded {
			return // it was recorded before it was known to be complete
		}
		submit = s.try // the agent need not wait until it is recorded
	}
	answer, err := submit(report)
	l.heard = time.Now()
	if sig.Name == signalbox.NameCheckpoint && err == nil && !answer.Repeated {
		l.recorded = &found
	}
	if err != nil && !isRefusal(err) {
		s.crew.log.Warn("cannot record a signal", "work", s.work, "error", err)
	}
	if answer.Parked {
		l.parked = true
		trySend(l.mustPark)
	}
}
