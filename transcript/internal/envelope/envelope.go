// Package envelope tells which bytes of an agent program's output are the agent's own top-level text.
//
// An envelope is a Source: it receives the stream in pieces of any size, passes the agent's own text on to a Sink,
// message by message, and reports what the stream told beside it. Every way of cutting the stream into pieces yields
// the same messages, remarks and report. Time is linear in the stream and memory is bounded, whatever the
// stream; nothing in it is an error, and what is broken or not known becomes a remark. A Source and its Sink are used
// by one goroutine at a time.
package envelope

import "signalbox"

// Source is an envelope: it receives the stream and passes the agent's own text on.
type Source interface {
	// Push takes the next piece, of which it keeps nothing.
	Push(p []byte)
	// Close ends the stream, and with it the turn.
	Close()
	// Report tells what the stream said so far beside the text; Dropped is not for it to know.
	Report() signalbox.StreamReport
}

// Sink receives the agent's own text, message by message.
type Sink interface {
	// Push takes the next piece of the text, of which it must keep nothing.
	Push(p []byte)
	// BeginMessage ends the message before, if any, and begins the next on a new line.
	BeginMessage()
	// FreshLine begins a new line within the message unless the text stands at the start of one.
	FreshLine()
	EndMessage()
	EndTurn()
	// Remark passes on a diagnostic about the stream; it stands where the text stands.
	Remark(reason signalbox.Reason, raw, detail string)
	// Mark remembers the present state; the function it returns brings it back. Until that is called, or Settle,
	// what is pushed may have to be taken back.
	Mark() (restore func())
	// Settle makes final what was pushed since the first mark.
	Settle()
}

// New returns the envelope of that format, which must be one of signalbox.Formats.
func New(format signalbox.Format, out Sink) Source {
	switch format {
	case signalbox.FormatAuto:
		return &auto{out: out}
	case signalbox.FormatPlain:
		return &plain{out: out}
	}
	return newDecoder(format, out)
}
