// Package transcript finds signals in the output of an agent program.
//
// The output passes through three stages. An envelope (plain text, or the JSON lines of claude,
// codex, gemini, opencode or the oracle) selects the agent's own top-level text; nothing else can
// contain a signal. The text is split into lines, and code fences and delegation prompts in it are
// tracked. Then the three dialects (line, exit, turn) are recognized. docs/reference/signals.md has
// the rules.
//
// Use Signals to read a finished transcript and a Scanner to follow a live one. Both return
// everything that looks like a signal; check Signal.Taken. Resolve picks what a whole turn said.
// ParseExit reads one exit signal that did not arrive in a transcript. Strip and Content return a
// model's reply without its turn signals.
//
// Input may arrive in pieces of any size: however it is cut, the signals are the same. No input is
// an error. Time is linear in the input, and memory is bounded whatever the input. The package has
// no global state. The types in it must not be used concurrently.
package transcript

import (
	"errors"
	"io"
	"iter"
	"slices"
	"strings"

	"signalbox"
	"signalbox/transcript/internal/envelope"
)

// Limits of a stream.
const (
	// MaxSignals is how many accepted signals are kept. More are counted in StreamReport.Dropped.
	// As many refused ones are kept besides.
	MaxSignals = 1000
	// MaxBody is how many bytes of the body of a line signal are kept.
	MaxBody = 64 << 10
	// MaxTurnBlock is the size of the largest turn signal.
	MaxTurnBlock = 16 << 10
	// maxLine is the length of the longest line signal.
	maxLine = 64 << 10
)

// Options configures how a transcript is read.
type Options struct {
	// Format is the envelope, one of signalbox.Formats. The zero value, like any other value, means
	// FormatAuto.
	Format signalbox.Format
	// Key is the session's key, which every signal must have. The zero value means that signals
	// need no key.
	Key string
	// Excerpt is how many bytes of the start and of the end of the agent's own text a Scanner keeps
	// for its methods Excerpt and NearMiss. The zero value means none.
	Excerpt int
	// RawOutput keeps all of the agent's own text for the method RawOutput, however much it is. The
	// zero value keeps none.
	RawOutput bool
	// Locate finds where signals are in the stream, and sets Signal.From and Signal.To. The zero
	// value leaves them 0.
	Locate bool
}

func (o *Options) withDefaults() Options {
	var out Options
	if o != nil {
		out = *o
	}
	if !slices.Contains(signalbox.Formats(), out.Format) {
		out.Format = signalbox.FormatAuto
	}
	return out
}

// Scanner finds signals in a stream that arrives in pieces.
type Scanner struct {
	text   *textScanner
	source envelope.Source
}

// NewScanner returns a Scanner for one stream. A nil opts means the zero Options.
func NewScanner(opts *Options) *Scanner {
	o := opts.withDefaults()
	text := newTextScanner(o.Key)
	text.excerpt.size = max(o.Excerpt, 0)
	text.places.wanted, text.keepsOutput = o.Locate, o.RawOutput
	return &Scanner{text: text, source: envelope.New(o.Format, text, o.Locate)}
}

// Push takes the next piece of the stream, of any size, and returns the signals that are complete
// now, accepted and refused, in the order of their first byte. It does not retain p. The result is
// valid until the next call.
func (s *Scanner) Push(p []byte) []signalbox.Signal {
	s.source.Push(p)
	return s.text.take()
}

// Close ends the stream and returns the remaining signals. If the stream is mixed
// (StreamReport.Mixed), a remark about that is among them, whatever the limits, so that Resolve
// takes it into account.
func (s *Scanner) Close() []signalbox.Signal {
	s.source.Close()
	rest := s.text.take()
	if mixed := s.source.Report().Mixed; mixed != "" {
		rest = append(rest, signalbox.Signal{Offset: s.text.lines.offset, Line: s.text.lines.number,
			Refused: signalbox.ReasonMixedFormats, Detail: mixed})
	}
	if s.text.queue.dropped > 0 {
		rest = append(rest, s.text.queue.droppedRemark(s.text.lines.offset, s.text.lines.number))
	}
	return rest
}

// Pending returns the line signal whose body may still grow, without its body. A live plain stream
// gives no sign that a body has ended, so this is the only way to learn of a checkpoint early. Text
// that the agent program may still withdraw is never pending.
func (s *Scanner) Pending() (signalbox.Signal, bool) {
	if s.text.queue.tentative {
		return signalbox.Signal{}, false
	}
	return s.text.queue.open()
}

// Waiting returns the signals that were found and that Push has not returned yet, in the order of
// their first byte, at most MaxSignals and without bodies. Their body may still grow, text that
// follows may refuse them, and the agent program may withdraw them. So they are only for showing
// output as it arrives.
func (s *Scanner) Waiting() []signalbox.Signal { return s.text.queue.found() }

// Excerpt returns the start and the end of the agent's own text so far, each at most as long as
// Options.Excerpt and possibly cut within a rune. Every message starts on a new line. What the
// agent program writes around the text, such as JSON, is not part of it.
func (s *Scanner) Excerpt() (head, tail string) { return s.text.excerpt.text() }

// RawOutput returns the agent's own text so far, if Options.RawOutput is set: all that signals were
// looked for in. In FormatPlain that is the whole stream, except for a byte order mark. Signal.Raw
// is one signal of it. Every message starts on a new line; bytes that are not UTF-8 become U+FFFD.
func (s *Scanner) RawOutput() string { return strings.ToValidUTF8(string(s.text.output), "\ufffd") }

// Report returns what the stream has said so far besides its signals.
func (s *Scanner) Report() signalbox.StreamReport {
	r := s.source.Report()
	r.Dropped = s.text.queue.dropped
	return r
}

// Origin returns the session and the model that the agent program has named so far, each "" if it
// has not. With FormatPlain both are "".
func (s *Scanner) Origin() (session, model string) { return s.source.Origin() }

// Signals reads r to its end and yields everything that looks like a signal, in order; check
// Signal.Taken. A read error is yielded last. A nil opts means the zero Options.
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

// readSize is large enough that the number of calls does not matter, and small enough for a core's
// cache.
const readSize = 256 << 10

// readAll passes the bytes of r to push until the end, an error, or push returns false.
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
