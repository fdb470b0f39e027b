package transcript

import (
	"bytes"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"signalbox/internal/testkit/property"
)

var lineStarts = []string{"READY_FOR_REVIEW", "ready for review", "FILE CONFLICT", "file-conflict", "CHECKPOINT", "Expert_Request", "```", "~~~", "---DELEGATION",
	"{", "-", "*", "**", "1.", "12)", "123.", "1234.", "2026-01-01", ">", "#", " ", "  ", "    ", "        ", "\t", "\"", "(", "[", "🚦", "é", "x", "if a {", "\x00",
	"\xff", "_", "`", "DELE", "read", "task", "", "\r", "<", "<si", "<SIGNAL", "<s", "a<b", "return x"}

func drawLine(t *rapid.T) string {
	return strings.Join(rapid.SliceOfN(rapid.SampledFrom(lineStarts), 0, 12).Draw(t, "parts"), "")
}

// suspicious must not depend on what follows the line.
func TestSuspiciousLooksAtOneLine(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		line, next := drawLine(t), drawLine(t)
		if suspicious([]byte(line)) != suspicious([]byte(line+"\n"+next)) {
			t.Errorf("%q is judged otherwise when %q follows", line, next)
		}
	})
}

func TestSkimmerStopsAtLinesThatMatter(t *testing.T) { property.Check(t, checkSkimmer) }

func checkSkimmer(t *rapid.T) {
	lines := rapid.SliceOfN(rapid.Custom(drawLine), 1, 200).Draw(t, "lines")
	p := []byte(strings.Join(lines, "\n") + rapid.SampledFrom([]string{"", "\n"}).Draw(t, "end"))
	var s skimmer
	for i := 0; i < len(p); {
		wantStart, wantPassed := naiveOrdinary(p, i)
		start, passed := s.ordinary(p, i)
		if start != wantStart || passed != wantPassed {
			t.Fatalf("from %d stopped at %d after %d lines, want %d after %d", i, start, passed, wantStart, wantPassed)
		}
		n := bytes.IndexByte(p[start:], '\n')
		if n < 0 {
			break
		}
		i = start + n + 1
	}
}

func naiveOrdinary(p []byte, i int) (start, passed int) {
	for start = i; ; passed++ {
		n := bytes.IndexByte(p[start:], '\n')
		if n < 0 {
			return start, passed
		}
		line := p[start : start+n+1]
		if suspicious(line) || holdsTag(line) {
			return start, passed
		}
		start += n + 1
	}
}

func TestLineEnds(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		var b [block]byte
		copy(b[:], rapid.SliceOfN(rapid.SampledFrom([]byte{'\n', '\v', '\t', 0, 1, 0x8A, 0xFF, 'x'}), block, block).Draw(t, "bytes"))
		var want uint64
		for i, c := range b {
			if c == '\n' {
				want |= 1 << i
			}
		}
		if got := lineEnds(&b); got != want {
			t.Errorf("%q: %b, want %b", b, got, want)
		}
	})
}

func TestNameTable(t *testing.T) {
	for _, name := range lineNames {
		for _, written := range []string{name, strings.ToLower(name), strings.ReplaceAll(name, "_", "-")} {
			if !beginsName([]byte(written)) {
				t.Errorf("%q is not recognised as a name", written)
			}
		}
	}
	for _, word := range []string{"reading", "tasks", "file", "filename", "READY_FOR_REVIEWS", "checkpointed", "DELEGATION", "exp"} {
		if beginsName([]byte(word)) {
			t.Errorf("%q is taken for a name", word)
		}
	}
}
