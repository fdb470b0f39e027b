// Package envelope extracts the agent's own top-level text from the output of an agent program.
//
// A Source receives the output in pieces of any size and passes the agent's own text on to a Sink,
// message by message. It also reports what else the output says, such as usage and failures.
// However the output is cut, the messages, remarks and report are the same. Time is linear in the
// output and memory is bounded. No input is an error: broken lines and unknown types become
// remarks. A Source and its Sink must not be used concurrently.
package envelope

import (
	"signalbox"
	"signalbox/transcript/internal/lines"
)

// Source extracts text from one stream.
type Source interface {
	// Push takes the next piece of the stream and does not retain it.
	Push(p []byte)
	// Close ends the stream, and with it the turn.
	Close()
	// Report returns what the stream has said so far besides the text. Dropped is not set.
	Report() signalbox.StreamReport
	// Origin returns the program's session and the model that the stream has named so far, each ""
	// if it has not.
	Origin() (session, model string)
}

// Sink receives the agent's own text, message by message.
type Sink interface {
	// Push takes the next piece of the text and must not retain it.
	Push(p []byte)
	// Locate says where the text of the next Push, or what the next Remark is about, is in the
	// stream. It is called if New was told to, and never for plain text, which is the stream.
	Locate(places []Place)
	// StartMessage ends the current message, if any, and starts the next on a new line.
	StartMessage()
	// StartLine starts a new line within the message, unless the text is at the start of one.
	StartLine()
	// Pause is called when the agent does something other than writing. The text so far is
	// complete. The message may continue on a new line.
	Pause()
	EndMessage()
	EndTurn()
	// Remark takes a diagnostic about the stream at the current position.
	Remark(reason signalbox.Reason, raw, detail string)
	// Snapshot saves the state; restore returns to it. Text pushed after Snapshot is tentative
	// until restore or Commit is called.
	Snapshot() (restore func())
	// Commit makes all tentative text final.
	Commit()
	// Skip advances the position by bytes of a plain stream that are not text.
	Skip(n int)
}

// Place says where a part of a text is in the stream: the text from the index Text on, to the next
// place, has its bytes at the position At and the positions that follow. If Size is not 0, that
// part of the text was an escape sequence of that size.
type Place struct {
	Text int
	At   int64
	Size int
}

// New returns a Source for a format, which must be one of signalbox.Formats. If locate is set, it
// tells out where the text is in the stream.
func New(format signalbox.Format, out Sink, locate bool) Source {
	source := newSource(format, out, locate)
	var skip func(n int)
	switch s := source.(type) {
	case *plain:
		skip = out.Skip
	case *auto:
		skip = func(n int) { s.skipped = n }
	case *decoder:
		skip = s.skip
	}
	return &bomRemover{Source: source, skip: skip}
}

func newSource(name signalbox.Format, out Sink, locate bool) Source {
	switch name {
	case signalbox.FormatAuto:
		return &auto{out: out, locate: locate}
	case signalbox.FormatPlain:
		return &plain{out: out}
	}
	return newDecoder(name, out, locate)
}

// bomRemover removes a byte order mark from the start of the stream. Some shells write one when
// they redirect output, and it would move the first signal away from column 0.
type bomRemover struct {
	Source
	skip func(n int)
	// bytes of the mark seen; len(lines.ByteOrderMark) once it is known whether there is one
	matched int
}

func (r *bomRemover) Push(p []byte) {
	for r.matched < len(lines.ByteOrderMark) && len(p) > 0 {
		if p[0] != lines.ByteOrderMark[r.matched] {
			r.pushMatched()
			break
		}
		p = p[1:]
		if r.matched++; r.matched == len(lines.ByteOrderMark) {
			r.skip(r.matched)
		}
	}
	if len(p) > 0 {
		r.Source.Push(p)
	}
}

// pushMatched passes on bytes that look like the start of the mark but are not.
func (r *bomRemover) pushMatched() {
	held := lines.ByteOrderMark[:r.matched]
	r.matched = len(lines.ByteOrderMark)
	if held != "" {
		r.Source.Push([]byte(held))
	}
}

func (r *bomRemover) Close() {
	if r.matched < len(lines.ByteOrderMark) {
		r.pushMatched()
	}
	r.Source.Close()
}
