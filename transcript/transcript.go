// Package transcript turns what an agent wrote into signals.
//
// An agent's output passes three stages. The envelope (plain text, or the JSON lines of claude, codex, gemini,
// opencode or the oracle) tells which bytes are the agent's own top-level text; only those can carry a signal. The text
// scanner finds lines, code fences and delegation prompts in it. The dialects (line, exit, turn) recognise
// signals there. docs/signals.md states the rules. Strip and Content are about the other half: a reply without its turn
// signals.
//
// All of it is streaming: input may arrive in pieces of any size and every way of cutting it yields the same
// signals. Time is linear in the input and memory is bounded, whatever the input. The package does no I/O but
// reading from an io.Reader, holds no global state, and a Scanner is used by one goroutine at a time.
package transcript

import (
	"errors"
	"io"
	"iter"
	"slices"

	"signalbox"
	"signalbox/transcript/internal/envelope"
)

// Format names the envelope in which an agent program writes.
type Format = signalbox.Format

const (
	FormatAuto     = signalbox.FormatAuto
	FormatPlain    = signalbox.FormatPlain
	FormatClaude   = signalbox.FormatClaude
	FormatCodex    = signalbox.FormatCodex
	FormatGemini   = signalbox.FormatGemini
	FormatOpencode = signalbox.FormatOpencode
	FormatOracle   = signalbox.FormatOracle
)

// Formats returns all formats, auto first.
func Formats() []Format { return signalbox.Formats() }

// Report is what a stream told beside its signals.
type Report = signalbox.StreamReport

// Usage is what a model's work cost, as the agent program reported it.
type Usage = signalbox.Usage

// RateLimit is the agent's service saying that it will not serve it for a while.
type RateLimit = signalbox.RateLimit

// Limits on what is kept of a stream.
const (
	// MaxSignals is how many signals are kept; further ones are counted in Report.Dropped. As many
	// diagnostics are kept beside them.
	MaxSignals = 1000
	// MaxBody is how many bytes of a line signal's body are kept.
	MaxBody = 64 << 10
	// MaxTurnBlock is the size of the largest turn signal.
	MaxTurnBlock = 16 << 10
	// maxLine is the length of the longest line signal.
	maxLine = 64 << 10
)

// Options says how to read a transcript.
type Options struct {
	// Format is the envelope, one of Formats. Zero, or anything else: FormatAuto.
	Format Format
	// Key, when set, must accompany every signal. Zero: signals need no key.
	Key string
}

func (o *Options) orDefault() Options {
	var out Options
	if o != nil {
		out = *o
	}
	if !slices.Contains(Formats(), out.Format) {
		out.Format = FormatAuto
	}
	return out
}

// Scanner recognises signals in a stream that arrives in pieces.
type Scanner struct {
	text   *text
	source envelope.Source
}

// NewScanner returns a Scanner for one stream. A nil opts means the zero Options.
func NewScanner(opts *Options) *Scanner {
	o := opts.orDefault()
	t := newText(o.Key)
	return &Scanner{text: t, source: envelope.New(o.Format, t)}
}

// Push takes the next piece of the stream, of any size, and returns what became certain: taken signals and
// refused ones, in the order of their first byte. The slice is valid until the next call.
func (s *Scanner) Push(p []byte) []signalbox.Signal {
	s.source.Push(p)
	return s.text.release()
}

// Close ends the stream and returns the rest.
func (s *Scanner) Close() []signalbox.Signal {
	s.source.Close()
	rest := s.text.release()
	if s.text.dropped > 0 {
		rest = append(rest, s.text.droppedRemark())
	}
	return rest
}

// Pending returns a line signal that has been heard and whose body may still grow, without its body. In a live
// plain stream that is the only early word of a checkpoint.
func (s *Scanner) Pending() (signalbox.Signal, bool) {
	if s.text.marked { // the text may turn out not to be the agent's own
		return signalbox.Signal{}, false
	}
	for _, e := range s.text.queue {
		if e.open {
			return e.sig, true
		}
	}
	return signalbox.Signal{}, false
}

// Report tells what the stream said so far beside its signals.
func (s *Scanner) Report() Report {
	r := s.source.Report()
	r.Dropped = s.text.dropped
	return r
}

// readSize is how much Signals asks of its reader at once: large enough that calls do not count, small enough
// to stay in a core's cache.
const readSize = 256 << 10

// Signals reads r to its end and yields all that looked like a signal, in order; check Signal.Taken. A read
// error is yielded last. A nil opts means the zero Options.
func Signals(r io.Reader, opts *Options) iter.Seq2[signalbox.Signal, error] {
	return func(yield func(signalbox.Signal, error) bool) {
		s := NewScanner(opts)
		err := readAll(r, func(p []byte) bool { return yieldAll(s.Push(p), yield) })
		if errors.Is(err, errStopped) {
			return
		}
		if yieldAll(s.Close(), yield) && err != nil {
			yield(signalbox.Signal{}, err)
		}
	}
}

func yieldAll(signals []signalbox.Signal, yield func(signalbox.Signal, error) bool) bool {
	for _, sig := range signals {
		if !yield(sig, nil) {
			return false
		}
	}
	return true
}

var errStopped = errors.New("stopped by the caller")

// readAll gives r's bytes to push until the end, an error, or push returning false.
func readAll(r io.Reader, push func([]byte) bool) error {
	buf := make([]byte, readSize)
	for {
		n, err := r.Read(buf)
		if n > 0 && !push(buf[:n]) {
			return errStopped
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
