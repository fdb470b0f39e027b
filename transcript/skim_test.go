package transcript

import (
	"bytes"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var lineStarts = []string{"READY_FOR_REVIEW", "ready for review", "FILE CONFLICT", "file-conflict", "CHECKPOINT", "Expert_Request", "```", "~~~", "---DELEGATION",
	"{", "-", "*", "**", "1.", "12)", "123.", "1234.", "2026-01-01", ">", "#", " ", "  ", "    ", "        ", "\t", "\"", "(", "[", "🚦", "é", "x", "if a {", "\x00",
	"\xff", "_", "`", "DELE", "read", "task", "", "\r"}

func drawLine(t *rapid.T) string {
	return strings.Join(rapid.SliceOfN(rapid.SampledFrom(lineStarts), 0, 12).Draw(t, "parts"), "")
}

// The first looks may be wrong in one direction only.
func TestFirstLooksMissNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		line := drawLine(t)
		b := []byte(line + "\n" + strings.Repeat("y", glance))
		if suspicious(b) && !(mayBegin(b) && mayBegin(b[leadingSpaces(b):])) {
			t.Errorf("%q is suspicious, and the first looks say no", line)
		}
	})
}

// suspicious must not depend on what follows the line.
func TestSuspiciousLooksAtOneLine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		line, next := drawLine(t), drawLine(t)
		if suspicious([]byte(line)) != suspicious([]byte(line+"\n"+next)) {
			t.Errorf("%q is judged otherwise when %q follows", line, next)
		}
	})
}

func TestOrdinaryLinesStopsAtSuspiciousLines(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lines := rapid.SliceOfN(rapid.Custom(drawLine), 1, 100).Draw(t, "lines")
		p := []byte(strings.Join(lines, "\n") + "\n")
		end := rapid.IntRange(0, len(p)).Draw(t, "end")
		for i := 0; i < len(p); {
			wantStart, wantPassed := naiveOrdinary(p, i, end)
			start, passed := ordinaryLines(p, i, end)
			if start != wantStart || passed != wantPassed {
				t.Fatalf("from %d stopped at %d after %d lines, want %d after %d", i, start, passed, wantStart, wantPassed)
			}
			n := bytes.IndexByte(p[start:], '\n')
			if n < 0 {
				break
			}
			i = start + n + 1
			end = max(end, i)
		}
	})
}

func naiveOrdinary(p []byte, i, end int) (start, passed int) {
	for start = i; !suspicious(p[start:]); passed++ {
		n := bytes.IndexByte(p[start:], '\n')
		if n < 0 || start+n >= end {
			break
		}
		start += n + 1
	}
	return start, passed
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
