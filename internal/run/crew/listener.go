package crew

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/agent"
	"signalbox/internal/run/exitsignal"
	"signalbox/internal/text"
	"signalbox/transcript"
)

// maxTranscript bounds how much of a turn's output is stored. Output beyond it is still scanned for
// signals.
const maxTranscript = 64 << 20

// listener receives the output of an agent's program: it stores it, finds the signals, and reports
// the urgent ones at once.
type listener struct {
	run         *agentRun
	format      signalbox.Format
	interactive bool
	key         string // that signals must have; "" if they need none
	dir         string // the agent's workspace

	// guards the fields below, which the supervisor reads while the program writes
	mu       sync.Mutex
	scanner  *transcript.Scanner
	file     *os.File
	bytes    int64
	heard    time.Time // when the last output arrived
	refusals retries
	tail     []byte // the end of the output
	err      error  // of file

	claims    claims
	publisher publisher
	answered  int   // how many of the signals an interactive agent got an answer to
	partial   int64 // offset of the last signal that was seen before it was complete, or -1
	closed    bool  // the output is complete
	abandoned bool  // the session ended before the output did
	stream    signalbox.StreamReport
	turns     int // how often the stream reported the end of a turn
	// checkpointTurn is the turn of the last checkpoint, from 1, and checkpointAt the offset of
	// that checkpoint.
	checkpointTurn int
	checkpointAt   int64
	// progressTurn is the turn of the last checkpoint or request for a file that acted, from 1.
	progressTurn int
	recorded     *checkpoint // the last one that was recorded; nil if none was
	parked       bool        // the agent asked for something that it must wait for

	resumable    bool   // the program can continue its sessions
	conversation string // the session of the program that was reported

	errors bytes.Buffer // the end of standard error

	counted signalbox.Usage // the usage that the supervisor was told of

	// capacity 1 each; refused means that its service has refused to serve it for long enough
	checkpointed, turnEnded, mustPark, used, refused chan struct{}
}

// createTranscript creates the file for the output of a turn. It has no name if it is secret, or if
// another process still reads the file with that name.
func createTranscript(name string, secret bool) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return nil, err
	}
	os.Remove(name) // that of the turn before, if it could not be removed
	if !secret {
		if file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600); err == nil {
			return file, nil
		}
	}
	file, err := os.CreateTemp(filepath.Dir(name), "transcript-*")
	if err == nil {
		os.Remove(file.Name()) // so that nothing is left behind even if this process is killed
	}
	return file, err
}

func newListener(run *agentRun, format signalbox.Format, interactive bool,
	key string) (*listener, error) {
	file, err := createTranscript(agent.LiveTranscript(run.crew.box.Dir, run.id), key != "")
	if err != nil {
		return nil, err
	}
	return &listener{
		run: run, format: format, interactive: interactive, key: key,
		claims:    claims{role: run.role, work: run.work},
		publisher: publisher{run: run, format: format, key: key},
		scanner: transcript.NewScanner(&transcript.Options{Format: format, Key: key,
			Excerpt: tailSize}), file: file, partial: -1,
		checkpointed: make(chan struct{}, 1), turnEnded: make(chan struct{}, 1),
		mustPark: make(chan struct{}, 1), used: make(chan struct{}, 1),
		refused: make(chan struct{}, 1),
		heard:   time.Now(),
	}, nil
}

// noteLife notes that the program has printed something, but not that it only repeats a request which
// its service does not answer. The caller holds mu.
func (l *listener) noteLife() {
	if l.stream.Retrying == "" {
		l.heard, l.refusals = time.Now(), retries{}
	}
}

// silence returns how long the program has printed nothing. streams reports whether its format
// prints progress as it happens; a plain program may keep its output until the end.
func (l *listener) silence() (silent time.Duration, streams bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	format := l.formatNow()
	return time.Since(l.heard), format != signalbox.FormatAuto && format != signalbox.FormatPlain &&
		format != ""
}

// repeats returns what the program says about a request that it only repeats, "" if it does not.
func (l *listener) repeats() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stream.Retrying
}

// formatNow returns the format of the output, FormatAuto if it is not known yet. The caller holds
// mu.
func (l *listener) formatNow() signalbox.Format {
	if l.format == signalbox.FormatAuto || l.format == "" {
		return cmp.Or(l.stream.Format, signalbox.FormatAuto)
	}
	return l.format
}

func (l *listener) close() {
	l.file.Close()
	os.Remove(l.file.Name())
}

// headSize bounds the start of the agent's text that is recorded, and tailSize the end of it that
// is shown to an agent that is asked again.
const (
	headSize = 1 << 10
	tailSize = 4 << 10
)

// words returns the start and the end of what the agent itself wrote, without the JSON around it.
// The caller holds mu.
func (l *listener) words() (head, tail string) {
	head, tail = l.scanner.Excerpt()
	clean := func(text string) string { return hideKey(strings.ToValidUTF8(text, "\ufffd"), l.key) }
	head = clean(head) // before it is cut, which could leave a part of the key
	return head[:min(len(head), headSize)], clean(tail)
}

// Write receives the next piece of the output. It never fails.
func (l *listener) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if room := maxTranscript - l.bytes; room > 0 && l.err == nil {
		_, l.err = l.file.Write(p[:min(int64(len(p)), room)])
	}
	l.bytes += int64(len(p))
	l.tail = append(l.tail, p[max(0, len(p)-tailSize):]...)
	if len(l.tail) > 2*tailSize {
		l.tail = append(l.tail[:0], l.tail[len(l.tail)-tailSize:]...)
	}
	l.scan(p)
	l.noteLife()
	if message := l.stream.Retrying; message != l.refusals.message {
		l.noteRefusal(message, time.Now())
	}
	l.reportConversation()
	if partial, ok := l.scanner.Pending(); ok && partial.Offset != l.partial {
		l.handlePartial(l.localize(partial))
	}
	if l.stream.Ended || l.interactive && l.expectsAnswer() {
		trySend(l.turnEnded)
	}
	if l.stream.Usage != l.counted || reportsLate(l.stream.Format) {
		l.counted = l.stream.Usage
		trySend(l.used)
	}
	l.publisher.publish(p)
	return len(p), nil
}

// scan finds the signals in the next piece of the output, and notes each end of a turn. The caller
// holds mu.
func (l *listener) scan(p []byte) {
	if l.format == signalbox.FormatPlain { // its turn ends with the stream
		l.collect(l.scanner.Push(p))
		l.stream = l.scanner.Report()
		return
	}
	for line := range bytes.Lines(p) {
		l.collect(l.scanner.Push(line))
		ended := l.stream.Ended
		if l.stream = l.scanner.Report(); l.stream.Ended && !ended {
			l.turns++
			l.claims.endTurn()
		}
	}
}

// submitExit keeps an exit signal for the end of the turn. It reports whether the turn is still
// running, and returns the first exit signal of the turn if that contradicts this one.
func (l *listener) submitExit(signal *signalbox.ExitSignal,
	data []byte) (first *exitsignal.Submitted, running bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, false
	}
	l.heard = time.Now()
	return l.claims.submit(signal, data), true
}

// nearMiss returns what was meant as the signal of a turn that resolved to said, if the signals of
// the turn do not show it. The caller holds mu.
func (l *listener) nearMiss(said signalbox.Signal) (near signalbox.Signal, ok bool) {
	if said.Name != signalbox.NameUnknown || said.Refused != "" || said.Detail != "" {
		return near, false
	}
	if near, ok = l.scanner.NearMiss(l.run.role, l.run.work); !ok {
		return near, false
	}
	if near.Dialect == signalbox.DialectExit && !l.run.crew.opts.ExitSignals {
		near.Refused, near.Detail = signalbox.ReasonUnknownType, transcript.ErrExitDisabled.Error()
	}
	near.Detail = ifMeant(near, near.Detail)
	return l.localize(near), true
}

// idle reports whether an interactive agent may be waiting for input: it is not within a turn, as
// far as its format tells.
func (l *listener) idle() bool {
	_, streams := l.silence()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.interactive && !l.closed && (l.stream.Ended || !streams)
}

// expectsAnswer reports whether an interactive agent sent a verdict, or something that was meant to
// be one, and now waits. The caller holds mu.
func (l *listener) expectsAnswer() bool {
	if pending, ok := l.scanner.Pending(); ok && isVerdict(pending) {
		return true
	}
	return slices.ContainsFunc(l.claims.signals[l.answered:], func(sig signalbox.Signal) bool {
		return isVerdict(sig) || sig.Refused == signalbox.ReasonNearMiss ||
			sig.Refused == signalbox.ReasonMalformed || sig.Refused == signalbox.ReasonWrongKey
	})
}

// verdict reports whether an interactive agent has sent a valid verdict, and if not, whether it
// tried to since the last call, and what to record and to tell the agent.
func (l *listener) verdict() (valid, tried bool, fields rules.SignalFields) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if pending, ok := l.scanner.Pending(); ok && isVerdict(pending) &&
		transcript.RefusalReason(l.localize(pending), l.run.role, l.run.work) == "" {
		return true, true, rules.SignalFields{}
	}
	resolved, _ := l.claims.resolve(slices.Clone(l.claims.signals))
	if near, ok := l.nearMiss(resolved); ok {
		resolved.Detail = near.Detail
	}
	tried = l.expectsAnswer()
	l.answered = len(l.claims.signals)
	head, _ := l.words()
	return resolved.Name != signalbox.NameUnknown, tried,
		rules.SignalFields{Summary: head, Advice: resolved.Detail,
			Confirm: resolved.Refused == signalbox.ReasonTextAfter}
}

// turnOver reports whether a turn that had ended is still the last one. An interactive program
// cannot continue after its input ended.
func (l *listener) turnOver() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stream.Ended || l.interactive
}

// hasEnded reports whether the stream says that the turn has ended.
func (l *listener) hasEnded() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stream.Ended
}

// hasVerdict reports whether the agent has sent a valid verdict, so that its turn should end in a
// moment.
func (l *listener) hasVerdict() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if pending, ok := l.scanner.Pending(); ok && isVerdict(pending) &&
		transcript.RefusalReason(l.localize(pending), l.run.role, l.run.work) == "" {
		return true
	}
	return l.claims.soFar().Name != signalbox.NameUnknown
}

// progressedIn reports whether the agent reported progress or asked for a file in a turn, and not
// since.
func (l *listener) progressedIn(turn int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.turns > 0 && l.progressTurn == turn
}

// turn returns the number of the last turn that ended, from 1.
func (l *listener) turn() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(l.turns, 1) // a plain stream does not report the end of a turn
}

// trySend sends on c unless its buffer is full, in which case the receiver will wake up anyway.
func trySend(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// localize hides the key of a signal, and replaces another id by which the agent may call its work
// by that of the work.
func (l *listener) localize(sig signalbox.Signal) signalbox.Signal {
	sig = hideKeyInSignal(sig, l.key)
	row, _ := signalbox.LineSignalNamed(sig.Name)
	if row.Argument == signalbox.TaskArgument && slices.Contains(l.run.names, sig.TaskID) {
		sig.TaskID = l.run.work
	}
	return sig
}

// collect keeps signals for the end of the turn, and reports the urgent ones at once. The caller
// holds mu.
func (l *listener) collect(signals []signalbox.Signal) {
	for _, sig := range signals {
		sig = l.localize(sig)
		if sig.Dialect == signalbox.DialectExit && sig.Taken() && !l.run.crew.opts.ExitSignals {
			sig.Refused, sig.Detail = signalbox.ReasonUnknownType,
				transcript.ErrExitDisabled.Error()
		}
		l.claims.add(sig)
		row, known := signalbox.LineSignalNamed(sig.Name)
		if !known || !row.Urgent || !sig.Taken() || sig.Dialect != signalbox.DialectLine {
			continue
		}
		switch {
		case sig.Name == signalbox.NameFileConflict && sig.Offset == l.partial &&
			sig.Body == nil: // already reported
		case sig.Name == signalbox.NameFileConflict:
			l.reportFiles(sig)
		case sig.Name != signalbox.NameExpertRequest:
			l.reportUrgent(sig)
		case !l.parked && transcript.RefusalReason(sig, l.run.role, l.run.work) == "":
			// it is reported after the agent's work is saved, so that the expert can see that
			trySend(l.mustPark)
		}
	}
}

// stderr returns a writer that keeps the end of the program's standard error.
func (l *listener) stderr() io.Writer { return stderrTail{l} }

type stderrTail struct{ l *listener }

func (t stderrTail) Write(p []byte) (int, error) {
	t.l.mu.Lock()
	defer t.l.mu.Unlock()
	t.l.noteLife()
	if t.l.errors.Len() > 2*tailSize {
		t.l.errors.Next(t.l.errors.Len() - tailSize)
	}
	t.l.errors.Write(p[max(0, len(p)-tailSize):])
	return len(p), nil
}

// finish stores the transcript and determines the signal of the turn.
func (l *listener) finish(session context.Context, t *turn) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed, l.abandoned = true, session.Err() != nil
	l.collect(l.scanner.Close())
	l.stream = l.scanner.Report()
	if l.err != nil {
		return fmt.Errorf("store the agent's output: %w", l.err)
	}
	var err error
	if t.output, err = l.run.store(l.file); err != nil {
		return err
	}
	t.signal, t.submitted = l.claims.resolve(l.claims.signals)
	if near, ok := l.nearMiss(t.signal); ok && t.cause == "" { // a failure has its own words
		l.claims.signals, t.signal.Detail = append(l.claims.signals, near), near.Detail
	}
	// resolve may not see the remark, because only so many signals are kept
	if l.stream.Mixed != "" && t.signal.Passing() {
		t.signal = signalbox.Signal{Name: signalbox.NameUnknown, Handler: signalbox.HandlerClarify,
			Detail: l.stream.Mixed}
	}
	if objection := l.claims.objection; objection != nil && t.signal.Passing() {
		t.signal = *objection
	}
	if t.stoppedToWait && t.signal.Passing() && t.failure() != "" {
		l.claims.preferRequest(t)
	}
	t.advice = t.signal.Detail
	t.progressed = t.signal.Name == signalbox.NameUnknown && t.signal.Refused == "" &&
		t.advice == "" &&
		slices.ContainsFunc(l.claims.signals, isProgress)
	t.head, t.tail = l.words()
	if words := text.LastLine(t.tail); t.cause != "" && t.advice == "" {
		t.advice = t.limit
		switch {
		case words == "":
		case t.limit == "":
			t.advice = "its last output: " + words
		default:
			t.advice += "; its last output: " + words
		}
	}
	return nil
}
