package transcript_test

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"signalbox"
	"signalbox/internal/testkit/property"
	"signalbox/transcript"
)

// FuzzStrip checks that Strip removes the turn signals that the scanner finds outside fences and
// code spans, then trailing white space, and nothing else.
func FuzzStrip(f *testing.F) {
	for _, input := range kitInputs(f) {
		f.Add(input)
	}
	f.Fuzz(func(t *testing.T, text string) { checkStrip(t, text) })
}

func TestStripRemovesOnlyTurnSignals(t *testing.T) {
	property.Check(t, func(t *rapid.T) { checkStrip(t, drawText(t)) })
}

func checkStrip(t interface{ Errorf(string, ...any) }, text string) {
	signals, report := scanOnce([]byte(text), plain)
	if len(signals) >= transcript.MaxSignals || report.Dropped > 0 ||
		text != strings.ToValidUTF8(text, "") {
		return // some blocks are not listed, or not as written
	}
	want, rest := "", text
	at := int64(0)
	if bom := "\uFEFF"; strings.HasPrefix(text, bom) {
		rest, at, want = text[len(bom):], int64(len(bom)), bom
	}
	for _, s := range signals {
		block := s.Dialect == signalbox.DialectTurn && s.Name != "" &&
			s.Refused != signalbox.ReasonFenced && s.Refused != signalbox.ReasonQuoted &&
			s.Refused != signalbox.ReasonInvalidField
		if block {
			want += rest[:s.Offset-at]
			rest = rest[s.Offset-at+int64(len(s.Raw)):]
			at = s.Offset + int64(len(s.Raw))
		}
	}
	want = strings.TrimRight(want+rest, " \t\r\n\v\f")
	if got := transcript.Strip(text); got != want {
		t.Errorf("%q\nbecomes %q\nwant    %q", text, got, want)
	}
}

func TestStripIgnoresByteOrderMark(t *testing.T) {
	const mark, block = "\uFEFF", `<signal type="stuck"><blocker>b</blocker></signal>`
	for _, text := range []string{mark + "```\n```\n" + block, mark + "```\n" + block + "\n```\n",
		mark + block, mark + "~~~\n~~~\n" + mark + "```\n" + block} {
		checkStrip(t, text)
		for cut := range len(text) {
			var out strings.Builder
			s := transcript.NewStripStream(&out)
			s.Write([]byte(text[:cut]))
			s.Write([]byte(text[cut:]))
			s.Close()
			if out.String() != transcript.Strip(text) {
				t.Errorf("%q cut at %d becomes %q", text, cut, out.String())
			}
		}
	}
}

func TestStripStreamWriteError(t *testing.T) {
	full := errors.New("disk full")
	s := transcript.NewStripStream(writerFunc(func([]byte) (int, error) { return 0, full }))
	if _, err := s.Write([]byte("some text")); !errors.Is(err, full) {
		t.Errorf("Write: %v", err)
	}
	if err := s.Close(); !errors.Is(err, full) {
		t.Errorf("Close: %v", err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// Text is written immediately, because a reader waits for it.
func TestStripStreamWritesImmediately(t *testing.T) {
	for _, test := range []struct{ text, released string }{
		{"Hello, wor", "Hello, wor"},
		{"Hello <", "Hello"},
		{"a < b and c <sig", "a < b and c"},
		{"a <signals", "a <signals"},
		{"a <signal type=\"x\"> b", "a"},
		{"a <signal type=\"x\"></signal> b", "a  b"},
		{"a\n``", "a"},
		{"a\n`code` b", "a\n`code` b"},
		{"a <signal type=\"x\">" + strings.Repeat("b", transcript.MaxTurnBlock),
			"a <signal type=\"x\">" + strings.Repeat("b", transcript.MaxTurnBlock)},
		{"a" + strings.Repeat(" \n", 3), "a"},
	} {
		var out strings.Builder
		s := transcript.NewStripStream(&out)
		s.Write([]byte(test.text))
		if out.String() != test.released {
			t.Errorf("after %.40q released %.40q, want %.40q", test.text, out.String(),
				test.released)
		}
	}
}

func TestStripWhiteSpaceMemory(t *testing.T) {
	for _, space := range []string{strings.Repeat(" ", 1<<20), strings.Repeat("\r\n", 20_000)} {
		if got := transcript.Strip("a" + space); got != "a" {
			t.Errorf("white space at the end stays: %d bytes", len(got))
		}
		if got := transcript.Strip("a" + space + "b"); got != "a"+space+"b" {
			t.Errorf("white space in the middle is lost: %d bytes", len(got))
		}
	}
}
