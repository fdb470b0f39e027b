// Package seed resolves a turn as the original coordinator's parse_signal did: of the nineteen
// patterns, the first in table order that matches anywhere in the text wins. A Matcher is an
// envelope.Sink. It takes a text in pieces of any size, in linear time and bounded memory.
package seed

import (
	"bytes"
	"unicode/utf8"

	"signalbox"
	"signalbox/transcript/internal/envelope"
	"signalbox/transcript/internal/lines"
)

// Matcher matches the nineteen patterns as Python's re module does.
type Matcher struct {
	matches [patterns]*signalbox.Signal
	open    []argument // the arguments being read

	partial []byte // an incomplete rune at the end of the last piece
	head    []byte // the start of the line, at least as long as the longest pattern
	off     int64
	lineOff int64
	line    int
	last    byte
}

// argument is the argument of a signal, matched by \s*(\S+).
type argument struct {
	row  int
	sig  signalbox.Signal
	arg  []byte
	text []byte
}

const (
	patterns    = 19
	maxHead     = 40       // longer than the longest pattern
	maxArgument = 64 << 10 // how many bytes of an argument are kept
)

var rows = signalbox.LineSignals()

// NewMatcher returns a Matcher at the start of a text.
func NewMatcher() *Matcher { return &Matcher{line: 1, last: '\n'} }

// Push implements envelope.Sink.
func (m *Matcher) Push(p []byte) {
	for _, c := range p {
		m.partial = append(m.partial, c)
		if utf8.FullRune(m.partial) {
			r, n := utf8.DecodeRune(m.partial)
			m.rune(r, m.partial[:n])
			m.partial = append(m.partial[:0], m.partial[n:]...)
		}
		m.last = c
	}
}

func (m *Matcher) rune(r rune, b []byte) {
	m.arguments(r, b)
	m.off += int64(len(b))
	if r == '\n' {
		m.wholeLine()
		m.head, m.lineOff, m.line = m.head[:0], m.off, m.line+1
		return
	}
	if len(m.head) <= maxHead {
		if m.head = append(m.head, b...); r == ':' {
			m.startArgument()
		}
	}
}

// wholeLine matches the patterns that end with the line.
func (m *Matcher) wholeLine() {
	for i, row := range rows {
		if row.Argument == signalbox.NoArgument && m.matches[i] == nil &&
			string(m.head) == row.Text {
			sig := m.signal(i)
			sig.Raw = row.Text
			m.matches[i] = &sig
		}
	}
}

func (m *Matcher) startArgument() {
	for i, row := range rows {
		if row.Argument != signalbox.NoArgument && m.matches[i] == nil &&
			string(m.head) == row.Text+":" {
			m.open = append(m.open,
				argument{row: i, sig: m.signal(i), text: []byte(row.Text + ":")})
		}
	}
}

func (m *Matcher) signal(i int) signalbox.Signal {
	return signalbox.Signal{Dialect: signalbox.DialectLine, Name: rows[i].Name,
		Handler: rows[i].Handler,
		Offset:  m.lineOff, Line: m.line}
}

// arguments adds a rune to the arguments being read.
func (m *Matcher) arguments(r rune, b []byte) {
	open := m.open[:0]
	for _, a := range m.open {
		space := isPythonSpace(r)
		if space && len(a.arg) > 0 {
			m.endArgument(a)
			continue
		}
		if len(a.text) < maxArgument {
			a.text = append(a.text, b...)
		}
		if !space && len(a.arg) < maxArgument {
			a.arg = append(a.arg, b...)
		}
		open = append(open, a)
	}
	m.open = open
}

func (m *Matcher) endArgument(a argument) {
	if m.matches[a.row] == nil && len(a.arg) > 0 {
		a.sig.TaskID, a.sig.Raw = lines.Valid(a.arg), lines.Valid(a.text)
		m.matches[a.row] = &a.sig
	}
}

// isPythonSpace reports whether \s matches r in Python.
func isPythonSpace(r rune) bool {
	switch {
	case '\t' <= r && r <= '\r', 0x1C <= r && r <= ' ', r == 0x85, r == 0xA0, r == 0x1680,
		0x2000 <= r && r <= 0x200A, r == 0x2028, r == 0x2029, r == 0x202F, r == 0x205F, r == 0x3000:
		return true
	}
	return false
}

// First ends the text and returns the first match in table order, or an unknown signal.
func (m *Matcher) First() signalbox.Signal {
	m.wholeLine()
	for _, a := range m.open {
		m.endArgument(a)
	}
	for _, match := range m.matches {
		if match != nil {
			return *match
		}
	}
	return signalbox.Signal{Name: signalbox.NameUnknown, Handler: signalbox.HandlerClarify}
}

// StartLine implements envelope.Sink.
func (m *Matcher) StartLine() {
	if m.last != '\n' {
		m.Push([]byte{'\n'})
	}
}

// The other methods of envelope.Sink. Messages are lines like any other, and remarks do not matter.

func (m *Matcher) StartMessage() { m.StartLine() }
func (m *Matcher) EndMessage()   {}
func (m *Matcher) Pause()        { m.StartLine() }
func (m *Matcher) EndTurn()      {}
func (m *Matcher) Commit()       {}

// Locate implements envelope.Sink. It is not called.
func (m *Matcher) Locate([]envelope.Place) {}
func (m *Matcher) Skip(n int)              { m.off, m.lineOff = m.off+int64(n), m.lineOff+int64(n) }

func (m *Matcher) Remark(signalbox.Reason, string, string) {}

// Snapshot implements envelope.Sink.
func (m *Matcher) Snapshot() (restore func()) {
	saved := *m
	saved.partial = bytes.Clone(m.partial)
	saved.head = bytes.Clone(m.head)
	saved.open = nil
	for _, a := range m.open {
		a.arg, a.text = bytes.Clone(a.arg), bytes.Clone(a.text)
		saved.open = append(saved.open, a)
	}
	return func() { *m = saved }
}
