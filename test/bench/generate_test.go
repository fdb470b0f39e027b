package main

import (
	"bytes"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox"
	"signalbox/internal/testkit/must"
)

const testSize = 3 * megabyte

func plainText(t *testing.T, g *generator) []byte {
	t.Helper()
	text, err := io.ReadAll(newStream(g, signalbox.FormatPlain))
	must.Succeed(t, err)
	return text
}

// findPatterns tries the patterns only on lines that can match, because they would take seconds on
// the whole text.
func findPatterns(text []byte) (found []string) {
	all := regexp.MustCompile("(?m)" + strings.Join(patterns(), "|"))
	for line := range bytes.Lines(text) {
		if c := line[0]; c >= 'A' && c <= 'Z' && all.Match(line) {
			found = append(found, string(line))
		}
	}
	return found
}

func TestSameSeedSameTranscript(t *testing.T) {
	first, again, other := newGenerator(1, testSize, often), newGenerator(1, testSize, often),
		newGenerator(2, testSize, often)
	text := plainText(t, first)
	if !bytes.Equal(text, plainText(t, again)) {
		t.Error("the same seed gave two transcripts")
	}
	if diff := cmp.Diff(first.planted, again.planted, cmp.AllowUnexported(planted{})); diff != "" {
		t.Errorf("the same seed planted other signals:\n%s", diff)
	}
	if bytes.Equal(text, plainText(t, other)) {
		t.Error("two seeds gave the same transcript")
	}
	if extra := len(text) - testSize; extra < 0 || extra > 64<<10 {
		t.Errorf("the transcript has %d bytes, want about %d", len(text), testSize)
	}
}

func TestPlantedSignalsAreInTheText(t *testing.T) {
	g := newGenerator(seed, testSize, often)
	text := plainText(t, g)
	if want := 12; len(g.planted) != want {
		t.Errorf("planted %d signals, want %d", len(g.planted), want)
	}
	dialects := map[signalbox.Dialect]int{}
	for i, p := range g.planted {
		dialects[p.dialect]++
		end := int64(len(text))
		if i+1 < len(g.planted) {
			end = g.planted[i+1].offset
		}
		if !bytes.Contains(text[p.offset:end], []byte(p.task)) {
			t.Errorf("%+v is not in the text after its offset", p)
		}
	}
	want := map[signalbox.Dialect]int{signalbox.DialectLine: 10, signalbox.DialectExit: 1,
		signalbox.DialectTurn: 1}
	if diff := cmp.Diff(want, dialects); diff != "" {
		t.Errorf("dialects (-want +got):\n%s", diff)
	}
	found := len(findPatterns(text))
	if want := countLineSignals(g.planted, int64(len(text))); found != want {
		t.Errorf("the patterns find %d line signals, planted %d", found, want)
	}
}

func TestLargeTranscriptStaysBelowLimit(t *testing.T) {
	const size = 1000 * megabyte
	if g := newGenerator(seed, size, often); (size-g.nextPlant)/g.every >= maxPlanted {
		t.Errorf("a signal every %d bytes is more than %d signals", g.every, maxPlanted)
	}
}

func TestQuietTranscriptHasNoSignal(t *testing.T) {
	g := newGenerator(seed, testSize, never)
	text := plainText(t, g)
	if len(g.planted) > 0 || bytes.Contains(text, []byte("<signal")) ||
		bytes.Contains(text, []byte("apm2_agent_exit")) {
		t.Error("a quiet transcript has signals")
	}
	if found := findPatterns(text); found != nil {
		t.Errorf("a quiet transcript has %q", found)
	}
}

func TestTranscriptIsRealistic(t *testing.T) {
	text := plainText(t, newGenerator(seed, testSize, often))
	if mean := float64(len(text)) / float64(bytes.Count(text, []byte("\n"))); mean < 40 ||
		mean > 70 {
		t.Errorf("the mean line has %.1f bytes, want 40 to 70", mean)
	}
	if bytes.Contains(text, []byte("~")) {
		t.Error("a placeholder was not filled in")
	}
	for _, want := range []string{"\n## ", "\n- ", "\n1. ", "\n```go\n", "\n```\n", "\ndiff --git ",
		"\n@@ -", "\n{\n", "\n{\"level\"",
		"\n<div", "\n--- PASS", "\n2026-03-", "\n     1\t", "\n\t\t", " < ", "→", "\x1b["} {
		if !bytes.Contains(text, []byte(want)) {
			t.Errorf("the transcript has no %q", want)
		}
	}
	if fences := bytes.Count(append([]byte("\n"), text...), []byte("\n```")); fences%2 != 0 {
		t.Errorf("%d fence lines: one is not closed", fences)
	}
}
