package crew

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/transcript"
)

// maxTranscript is how much of a turn's output is kept. What an agent floods beyond that is heard and dropped.
const maxTranscript = 64 << 20

// hearer takes what an agent's program writes: it keeps it, finds the signals, and acts at once on those that cannot wait.
type hearer struct {
	session     *session
	format      signalbox.Format
	interactive bool

	mu      sync.Mutex // guards what follows, which the overseer looks at while the program writes
	scanner *transcript.Scanner
	file    *os.File
	bytes   int64
	head    []byte // the first of what was written
	tail    []byte // the last of it
	line    []byte // the line that is not whole yet, of a stream of objects that is shown
	err     error  // of the file

	signals  []signalbox.Signal
	answered int               // how many of them an interactive agent has been answered about
	pending  int64             // offset of the last signal that was heard before it was whole, -1 for none
	asks     *signalbox.Signal // the agent asks an expert; that is handed in when what it did is kept
	over     bool              // nothing more is written
	report   signalbox.StreamReport
	waits    bool // the agent asked for something that it has to wait for

	errors bytes.Buffer

	checkpointed, turnOver, parked chan struct{} // each has room for one
}

func newHearer(s *session, format signalbox.Format, interactive bool) (*hearer, error) {
	dir := s.crew.file("tmp")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	file, err := os.CreateTemp(dir, "transcript-*")
	if err != nil {
		return nil, err
	}
	os.Remove(file.Name()) // it is gone with the process, however that ends
	return &hearer{
		session: s, format: format, scanner: transcript.NewScanner(&transcript.Options{Format: format}), file: file, pending: -1, interactive: interactive,
		checkpointed: make(chan struct{}, 1), turnOver: make(chan struct{}, 1), parked: make(chan struct{}, 1),
	}, nil
}

func (h *hearer) close() { h.file.Close() }

// headSize is how much of the beginning is kept in memory, for the record, and tailSize how much of the end, to show to an agent
// that is asked again.
const (
	headSize = 1 << 10
	tailSize = 4 << 10
)

// Write takes the next piece of the output.
func (h *hearer) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if room := maxTranscript - h.bytes; room > 0 && h.err == nil {
		_, h.err = h.file.Write(p[:min(int64(len(p)), room)])
	}
	h.bytes += int64(len(p))
	h.head = append(h.head, p[:min(len(p), headSize-len(h.head))]...)
	h.tail = append(h.tail, p[max(0, len(p)-tailSize):]...)
	if len(h.tail) > 2*tailSize {
		h.tail = append(h.tail[:0], h.tail[len(h.tail)-tailSize:]...)
	}
	h.take(h.scanner.Push(p))
	if early, ok := h.scanner.Pending(); ok && early.Offset != h.pending {
		h.early(early)
	}
	if h.report = h.scanner.Report(); h.report.Ended || h.interactive && h.saidEnough() {
		poke(h.turnOver)
	}
	h.show(p)
	return len(p), nil
}

// early deals with a signal whose fields may still come, or may not: that cannot be told as long as a plain stream is silent.
// The caller holds mu.
func (h *hearer) early(sig signalbox.Signal) {
	h.pending = sig.Offset
	written := h.bytes
	if transcript.Restrict(sig, h.session.role, h.session.work) != "" {
		return
	}
	switch {
	case sig.Name == "file_conflict": // has no fields
		h.act(sig)
	case sig.Name == "checkpoint":
		poke(h.checkpointed)
		time.AfterFunc(h.session.crew.opts.pauses.quiet, func() { h.settle(sig, written) })
	case sig.Name == "expert_request" && h.interactive:
		time.AfterFunc(h.session.crew.opts.pauses.quiet, func() { h.settle(sig, written) })
	}
}

// settle takes a signal as it is if nothing came after it.
func (h *hearer) settle(sig signalbox.Signal, written int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if pending, ok := h.scanner.Pending(); h.over || !ok || pending.Offset != sig.Offset {
		return
	}
	switch {
	case sig.Name == "checkpoint":
		h.act(h.whole(sig))
	case h.bytes != written: // it is still coming
		written := h.bytes
		time.AfterFunc(h.session.crew.opts.pauses.quiet, func() { h.settle(sig, written) })
	default:
		poke(h.parked) // its fields are whole when its input ends, and so does it
	}
}

// whole is a signal with the fields that came so far, as far as the tail shows them. The caller holds mu.
func (h *hearer) whole(sig signalbox.Signal) signalbox.Signal {
	tail := h.tail
	if int64(len(tail)) < h.bytes { // it begins within a line
		tail = tail[bytes.IndexByte(tail, '\n')+1:]
	}
	scanner := transcript.NewScanner(&transcript.Options{Format: h.format})
	for _, found := range slices.Backward(slices.Concat(scanner.Push(tail), scanner.Close())) {
		if found.Name == sig.Name && found.TaskID == sig.TaskID && found.Taken() {
			sig.Title, sig.Body = found.Title, found.Body
			break
		}
	}
	return sig
}

// saidEnough tells whether an interactive agent said a verdict, or something that was meant for one: then it waits for an
// answer. The caller holds mu.
func (h *hearer) saidEnough() bool {
	if pending, ok := h.scanner.Pending(); ok && isVerdict(pending) {
		return true
	}
	return slices.ContainsFunc(h.signals[h.answered:], func(sig signalbox.Signal) bool {
		return isVerdict(sig) || sig.Refused == signalbox.ReasonNearMiss || sig.Refused == signalbox.ReasonMalformed
	})
}

func isVerdict(sig signalbox.Signal) bool {
	row, known := signalbox.LineSignalNamed(sig.Name)
	return sig.Taken() && (known && !row.Urgent || sig.Dialect == signalbox.DialectExit)
}

// verdict tells whether what an interactive agent said so far counts, and else what to tell it.
func (h *hearer) verdict() (counts bool, said rules.SignalFields) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if pending, ok := h.scanner.Pending(); ok && isVerdict(pending) && transcript.Restrict(pending, h.session.role, h.session.work) == "" {
		return true, rules.SignalFields{}
	}
	resolved := resolve(slices.Clone(h.signals), h.session.role, h.session.work)
	h.answered = len(h.signals)
	return resolved.Name != signalbox.NameUnknown, rules.SignalFields{Summary: string(h.head), Advice: resolved.Detail}
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// take keeps signals for the end of the turn, and acts on those that cannot wait.
func (h *hearer) take(signals []signalbox.Signal) {
	for _, sig := range signals {
		if sig.Dialect == signalbox.DialectExit && sig.Taken() && !h.session.crew.opts.ExitSignals {
			sig.Refused, sig.Detail = signalbox.ReasonUnknownType, transcript.ErrExitDisabled.Error()
		}
		if len(h.signals) < 2*transcript.MaxSignals {
			h.signals = append(h.signals, sig)
		}
		row, known := signalbox.LineSignalNamed(sig.Name)
		if !known || !row.Urgent || !sig.Taken() || sig.Dialect != signalbox.DialectLine {
			continue
		}
		switch {
		case sig.Name == "file_conflict" && sig.Offset == h.pending: // acted on already
		case sig.Name != "expert_request":
			h.act(sig)
		case h.asks == nil && !h.waits && transcript.Restrict(sig, h.session.role, h.session.work) == "":
			h.asks = &sig
			poke(h.parked)
		}
	}
}

// act hands in a signal while the agent runs.
func (h *hearer) act(sig signalbox.Signal) {
	s := h.session
	if transcript.Restrict(sig, s.role, s.work) != "" {
		return // it is refused at the end of the turn, with the others
	}
	if sig.Name == "checkpoint" {
		poke(h.checkpointed)
	}
	hear := rules.ReportSignal{Session: s.id, Epoch: s.epoch, Signal: sig.Name, Named: sig.TaskID, Offset: sig.Offset}
	var err error
	if sig.Name == "checkpoint" {
		hear.Fields, err = s.crew.said(sig)
	} else {
		err = s.describe(&hear, sig)
	}
	if err != nil {
		s.crew.log.Warn("cannot take down a signal", "work", s.work, "error", err)
		return
	}
	answer, err := s.order(hear)
	if err != nil && !refused(err) {
		s.crew.log.Warn("cannot record a signal", "work", s.work, "error", err)
	}
	if answer.Parked {
		h.waits = true
		poke(h.parked)
	}
}

// maxLine is how long a line of a stream of objects may be that is shown.
const maxLine = 64 << 10

// show tells whoever looks what the agent just wrote. Of a stream of objects it shows whole ones.
func (h *hearer) show(p []byte) {
	live := h.session.crew.opts.Live
	if live == nil {
		return
	}
	text := ""
	if objects := h.format != signalbox.FormatPlain && bytes.HasPrefix(bytes.TrimSpace(h.head), []byte("{")); h.format == signalbox.FormatPlain || h.format == signalbox.FormatAuto && !objects {
		text = lastLine(string(p[max(0, len(p)-tailSize):]))
	} else {
		text = h.lastObject(p)
	}
	if text != "" {
		live(Activity{h.session.work, h.session.id, h.session.role, text})
	}
}

// lastObject returns the last line that is whole now and begins as an object does, "" if there is none. The caller holds mu.
func (h *hearer) lastObject(p []byte) (text string) {
	for rest := range bytes.Lines(p) {
		if len(h.line) <= maxLine { // a longer one is not shown
			h.line = append(h.line, rest...)
		}
		if !bytes.HasSuffix(rest, []byte("\n")) {
			continue
		}
		if whole := bytes.TrimSpace(h.line); len(whole) <= maxLine && bytes.HasPrefix(whole, []byte("{")) {
			text = string(whole)
		}
		h.line = h.line[:0]
	}
	return text
}

func lastLine(text string) string {
	text = strings.TrimRight(text, " \t\r\n")
	return strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:])
}

// stderr keeps the end of what the program complains about.
func (h *hearer) stderr() io.Writer { return complaints{h} }

type complaints struct{ h *hearer }

func (c complaints) Write(p []byte) (int, error) {
	c.h.mu.Lock()
	defer c.h.mu.Unlock()
	if c.h.errors.Len() > 2*tailSize {
		c.h.errors.Next(c.h.errors.Len() - tailSize)
	}
	c.h.errors.Write(p[max(0, len(p)-tailSize):])
	return len(p), nil
}

// finish ends the stream: it stores the transcript and decides what the turn said.
func (h *hearer) finish(e *ended) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over = true
	h.take(h.scanner.Close())
	h.report = h.scanner.Report()
	if h.err != nil {
		return fmt.Errorf("keep what the agent wrote: %w", h.err)
	}
	if _, err := h.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), orderTime)
	defer cancel()
	var err error
	if e.output, err = h.session.crew.box.Engine.PutBlob(ctx, h.file); err != nil {
		return err
	}
	e.said = resolve(h.signals, h.session.role, h.session.work)
	e.advice = e.said.Detail
	e.head = string(h.head)
	e.tail = strings.ToValidUTF8(string(h.tail[max(0, len(h.tail)-tailSize):]), "\ufffd")
	if e.cause != "" && e.advice == "" {
		e.advice = lastLine(e.tail)
	}
	return nil
}

// refusals are what the turn said that does not count, once for each thing and reason.
func (h *hearer) refusals() []rules.RefusedSignal {
	var list []rules.RefusedSignal
	at := map[string]int{}
	for _, sig := range h.signals {
		switch sig.Refused {
		case "", signalbox.ReasonDrift, signalbox.ReasonRateLimited, signalbox.ReasonInvalidField, signalbox.ReasonSuperseded, signalbox.ReasonDuplicate:
			continue
		}
		said := sig.Name
		if said == "" {
			said = "signal"
		}
		key := said + "\x00" + string(sig.Refused)
		if i, known := at[key]; known {
			list[i].Times++
			continue
		}
		at[key] = len(list)
		detail := sig.Detail
		if sig.TaskID != "" && detail == "" {
			detail = "about " + sig.TaskID
		}
		list = append(list, rules.RefusedSignal{Signal: said, Reason: sig.Refused, Detail: detail, Times: 1})
	}
	return list[:min(len(list), 50)]
}

func (h *hearer) spent(took time.Duration) rules.Spent {
	u := h.report.Usage
	micros := int64(0)
	if u.CostUSD > 0 && u.CostUSD < 1e9 {
		micros = int64(math.Round(u.CostUSD * 1e6))
	}
	return rules.Spent{Tokens: max(0, u.InputTokens) + max(0, u.OutputTokens), CostMicros: micros, Time: took.Round(time.Millisecond)}
}
