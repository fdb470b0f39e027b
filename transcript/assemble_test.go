package transcript

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"signalbox/internal/testkit/property"
)

var lineStarts = []string{"READY_FOR_REVIEW", "ready for review", "FILE CONFLICT", "file-conflict",
	"CHECKPOINT", "Expert_Request", "```", "~~~", "---DELEGATION",
	"{", "-", "*", "**", "1.", "12)", "123.", "1234.", "2026-01-01", ">", "#", " ", "  ", "    ",
	"        ", "\t", "\"", "(", "[", "🚦", "é", "x", "if a {", "\x00",
	"\xff", "_", "`", "DELE", "read", "task", "", "\r", "<", "<si", "<SIGNAL", "<s", "a<b",
	"return x", "<think>", "</THINK", "<re", "</sc", "<reasoning", "</Scratchpad"}

var tagStart = regexp.MustCompile(`(?i)<si|</?(think|reasoning|scratchpad)`)

func drawLine(t *rapid.T) string {
	return strings.Join(rapid.SliceOfN(rapid.SampledFrom(lineStarts), 0, 12).Draw(t, "parts"), "")
}

// The lines after the first do not matter.
func TestSuspiciousIgnoresLaterLines(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		line, next := drawLine(t), drawLine(t)
		if suspicious([]byte(line)) != suspicious([]byte(line+"\n"+next)) {
			t.Errorf("%q gives another result when %q follows", line, next)
		}
	})
}

// A line is skipped only if it does not matter, whatever surrounds it.
func TestSkipOrdinaryLines(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		lines := rapid.SliceOfN(rapid.Custom(drawLine), 1, 20).Draw(t, "lines")
		p := []byte(strings.Join(lines, "\n"))
		wantBytes, wantLines := 0, 0
		for _, line := range lines[:len(lines)-1] {
			if suspicious([]byte(line)) || tagStart.MatchString(line) {
				break
			}
			wantBytes += len(line) + 1
			wantLines++
		}
		if bytes, lines := skipOrdinaryLines(p); bytes != wantBytes || lines != wantLines {
			t.Fatalf("%q: skipped %d bytes and %d lines, want %d and %d", p, bytes, lines,
				wantBytes, wantLines)
		}
	})
}

func TestStartsWithName(t *testing.T) {
	for _, name := range lineNames {
		for _, written := range []string{name, strings.ToLower(name),
			strings.ReplaceAll(name, "_", "-")} {
			if !startsWithName([]byte(written)) {
				t.Errorf("%q is not recognized as a name", written)
			}
		}
	}
	for _, word := range []string{"reading", "tasks", "file", "filename", "READY_FOR_REVIEWS",
		"checkpointed", "DELEGATION", "exp"} {
		if startsWithName([]byte(word)) {
			t.Errorf("%q is taken for a name", word)
		}
	}
}
