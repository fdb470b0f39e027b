package transcript

import (
	"io"
	"unicode/utf8"

	"signalbox"
	"signalbox/transcript/internal/envelope"
	"signalbox/transcript/internal/lines"
)

// ResolveSeed resolves a turn as the original coordinator's parse_signal did, for those who depend on it: of the
// nineteen patterns the first in table order that matches anywhere in the agent's own text wins. Roles, fences and
// keys do not matter, and an argument may stand on a later line than its signal.
func ResolveSeed(r io.Reader, opts *Options) (signalbox.Signal, error) {
	m := newSeedMatcher()
	src := envelope.New(opts.orDefault().Format, m)
	err := readAll(r, func(p []byte) bool {
		src.Push(p)
		return true
	})
	src.Close()
	return m.first(), err
}

// seedMatcher follows the nineteen patterns through a text, as Python's re module reads them.
type seedMatcher struct {
	matches [len19]*signalbox.Signal
	open    []seedArgument // signals whose argument is being read

	partial []byte // a rune that a piece has cut
	head    []byte // the line so far, up to the longest pattern
	off     int64
	lineOff int64
	line    int
	last    byte
}

// seedArgument is a signal with an argument; the pattern is \s*(\S+).
type seedArgument struct {
	row  int
	sig  signalbox.Signal
	arg  []byte
	text []byte
}

const (
	len19       = 19
	maxSeedHead = 40
)

func newSeedMatcher() *seedMatcher { return &seedMatcher{line: 1, last: '\n'} }

func (m *seedMatcher) Push(p []byte) {
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

func (m *seedMatcher) rune(r rune, b []byte) {
	m.arguments(r, b)
	m.off += int64(len(b))
	if r == '\n' {
		m.wholeLine()
		m.head, m.lineOff, m.line = m.head[:0], m.off, m.line+1
		return
	}
	if len(m.head) <= maxSeedHead {
		if m.head = append(m.head, b...); r == ':' {
			m.beginArgument()
		}
	}
}

// wholeLine matches the patterns that end with the line.
func (m *seedMatcher) wholeLine() {
	for i, row := range lineRows {
		if row.Argument == signalbox.NoArgument && m.matches[i] == nil && string(m.head) == row.Text {
			sig := m.signal(i)
			sig.Raw = row.Text
			m.matches[i] = &sig
		}
	}
}

func (m *seedMatcher) beginArgument() {
	for i, row := range lineRows {
		if row.Argument != signalbox.NoArgument && m.matches[i] == nil && string(m.head) == row.Text+":" {
			m.open = append(m.open, seedArgument{row: i, sig: m.signal(i), text: []byte(row.Text + ":")})
		}
	}
}

func (m *seedMatcher) signal(i int) signalbox.Signal {
	return signalbox.Signal{Dialect: signalbox.DialectLine, Name: lineRows[i].Name, Handler: lineRows[i].Handler,
		Offset: m.lineOff, Line: m.line}
}

// arguments gives a rune to the signals whose argument is being read.
func (m *seedMatcher) arguments(r rune, b []byte) {
	open := m.open[:0]
	for _, a := range m.open {
		space := isPythonSpace(r)
		if space && len(a.arg) > 0 {
			m.endArgument(a)
			continue
		}
		if len(a.text) < maxLine {
			a.text = append(a.text, b...)
		}
		if !space && len(a.arg) < maxLine {
			a.arg = append(a.arg, b...)
		}
		open = append(open, a)
	}
	m.open = open
}

func (m *seedMatcher) endArgument(a seedArgument) {
	if m.matches[a.row] == nil && len(a.arg) > 0 {
		a.sig.TaskID, a.sig.Raw = lines.Valid(a.arg), lines.Valid(a.text)
		m.matches[a.row] = &a.sig
	}
}

// isPythonSpace is what \s matches in a Python pattern on text.
func isPythonSpace(r rune) bool {
	switch {
	case '\t' <= r && r <= '\r', 0x1C <= r && r <= ' ', r == 0x85, r == 0xA0, r == 0x1680,
		0x2000 <= r && r <= 0x200A, r == 0x2028, r == 0x2029, r == 0x202F, r == 0x205F, r == 0x3000:
		return true
	}
	return false
}

// first ends the text and returns the match that counts.
func (m *seedMatcher) first() signalbox.Signal {
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

func (m *seedMatcher) FreshLine() {
	if m.last != '\n' {
		m.Push([]byte{'\n'})
	}
}

func (m *seedMatcher) BeginMessage() { m.FreshLine() }
func (m *seedMatcher) EndMessage()   {}
func (m *seedMatcher) EndTurn()      {}

func (m *seedMatcher) Remark(signalbox.Reason, string, string) {}

func (m *seedMatcher) EndSpeech() { m.FreshLine() }
func (m *seedMatcher) Settle()    {}
func (m *seedMatcher) Skip(n int) { m.off, m.lineOff = m.off+int64(n), m.lineOff+int64(n) }

func (m *seedMatcher) Mark() (restore func()) {
	saved := *m
	saved.partial = append([]byte(nil), m.partial...)
	saved.head = append([]byte(nil), m.head...)
	saved.open = nil
	for _, a := range m.open {
		a.arg, a.text = append([]byte(nil), a.arg...), append([]byte(nil), a.text...)
		saved.open = append(saved.open, a)
	}
	return func() { *m = saved }
}
