package chunk

import (
	"strings"
	"unicode/utf8"

	"signalbox"
	"signalbox/transcript"
)

// Filter makes content and signals of a model's reply, which is one message of plain text.
//
// It holds back what may still become a signal (at most transcript.MaxTurnBlock bytes), the start of a line that may be
// a fence (as much again, twice), white space that may be the reply's end, and a rune of which a part is missing. All
// else comes out of the call that brought it. Bytes that are not UTF-8 come out as U+FFFD.
type Filter struct {
	strip    *transcript.StripStream
	harmless harmless
	scanner  *transcript.Scanner

	rune []byte // the start of a rune
	out  strings.Builder
}

// NewFilter returns a Filter for one reply. With a key, only signals that carry it count; content is without signals
// either way. An empty key asks for none.
func NewFilter(key string) *Filter {
	f := &Filter{scanner: transcript.NewScanner(&transcript.Options{Format: transcript.FormatPlain, Key: key})}
	f.harmless.out = f.valid
	f.strip = transcript.NewStripStream(stripped{f})
	return f
}

// stripped takes what is left of the reply without its signals.
type stripped struct{ f *Filter }

func (s stripped) Write(p []byte) (int, error) {
	s.f.harmless.write(p)
	return len(p), nil
}

// Push takes the next piece of the reply. It returns the content that became certain, "" if none did, and the turn
// signals that did, in order: the one that counts, and those that were refused with their reasons. A signal becomes certain
// when its line ends, if not before.
func (f *Filter) Push(p []byte) (content string, signals []signalbox.Signal) {
	f.strip.Write(p) // stripped does not fail
	signals = turnSignals(f.scanner.Push(p))
	return f.take(), signals
}

// Close ends the reply and returns the rest. The Filter is of no use after it.
func (f *Filter) Close() (content string, signals []signalbox.Signal) {
	f.strip.Close()
	f.harmless.close()
	f.writeValid(string(f.rune))
	f.rune = nil
	return f.take(), turnSignals(f.scanner.Close())
}

func (f *Filter) take() string {
	text := f.out.String()
	f.out.Reset()
	return text
}

// turnSignals are those of the turn dialect. They are copied: the scanner uses its slice again.
func turnSignals(all []signalbox.Signal) (turns []signalbox.Signal) {
	for _, s := range all {
		if s.Dialect == signalbox.DialectTurn {
			turns = append(turns, s)
		}
	}
	return turns
}

// valid adds text to the content up to its last whole rune.
func (f *Filter) valid(p []byte) {
	for len(f.rune) > 0 && len(p) > 0 {
		f.rune = append(f.rune, p[0])
		p = p[1:]
		f.wholeRunes()
	}
	n := len(p) - cutRune(p)
	if utf8.Valid(p[:n]) {
		f.out.Write(p[:n])
	} else {
		f.writeValid(string(p[:n]))
	}
	f.rune = append(f.rune, p[n:]...)
}

// wholeRunes adds the runes held back that are whole, or cannot become so.
func (f *Filter) wholeRunes() {
	for len(f.rune) > 0 && utf8.FullRune(f.rune) {
		c, n := utf8.DecodeRune(f.rune)
		f.out.WriteRune(c)
		f.rune = f.rune[:copy(f.rune, f.rune[n:])]
	}
}

// writeValid adds text, each byte that is not UTF-8 as U+FFFD.
func (f *Filter) writeValid(text string) {
	for _, c := range text {
		f.out.WriteRune(c)
	}
}

// cutRune returns how many bytes at the end of p begin a rune and do not end it.
func cutRune(p []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(p); n++ {
		if tail := p[len(p)-n:]; utf8.RuneStart(tail[0]) {
			if utf8.FullRune(tail) {
				return 0
			}
			return n
		}
	}
	return 0
}
