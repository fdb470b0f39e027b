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
	// EndSpeech says that the agent turns to something else: what it said so far is whole, though the message may
	// go on, on a new line.
	EndSpeech()
	EndMessage()
	EndTurn()
	// Remark passes on a diagnostic about the stream; it stands where the text stands.
	Remark(reason signalbox.Reason, raw, detail string)
	// Mark remembers the present state; the function it returns brings it back. Until that is called, or Settle,
	// what is pushed may have to be taken back.
	Mark() (restore func())
	// Settle makes final what was pushed since the first mark.
	Settle()
	// Skip moves the position on over bytes of a plain stream that are no text.
	Skip(n int)
}

// New returns the envelope of that format, which must be one of signalbox.Formats.
func New(format signalbox.Format, out Sink) Source {
	source := newSource(format, out)
	skip := func(int) {}
	switch s := source.(type) {
	case *plain:
		skip = out.Skip
	case *auto:
		skip = func(n int) { s.skipped = n }
	}
	return &unmarked{Source: source, skip: skip}
}

func newSource(format signalbox.Format, out Sink) Source {
	switch format {
	case signalbox.FormatAuto:
		return &auto{out: out}
	case signalbox.FormatPlain:
		return &plain{out: out}
	}
	return newDecoder(format, out)
}

const byteOrderMark = "\uFEFF"

// unmarked takes a byte order mark off the stream's start: some shells write one when they redirect, and it would
// push the first signal off column 0.
type unmarked struct {
	Source
	skip    func(n int)
	matched int // bytes of the mark seen, all of them when that is settled
}

func (u *unmarked) Push(p []byte) {
	for u.matched < len(byteOrderMark) && len(p) > 0 {
		if p[0] != byteOrderMark[u.matched] {
			u.settle()
			break
		}
		p = p[1:]
		if u.matched++; u.matched == len(byteOrderMark) {
			u.skip(u.matched)
		}
	}
	if len(p) > 0 {
		u.Source.Push(p)
	}
}

// settle passes on what began like the mark and is none.
func (u *unmarked) settle() {
	held := byteOrderMark[:u.matched]
	u.matched = len(byteOrderMark)
	if held != "" {
		u.Source.Push([]byte(held))
	}
}

func (u *unmarked) Close() {
	if u.matched < len(byteOrderMark) {
		u.settle()
	}
	u.Source.Close()
}
