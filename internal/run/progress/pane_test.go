package progress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"unicode"

	"signalbox/internal/show"
)

// numberedLines returns the lines from one number to another.
func numberedLines(from, to int) (lines []string) {
	for i := from; i < to; i++ {
		lines = append(lines, fmt.Sprint("line ", i))
	}
	return lines
}

func TestPaneScrolls(t *testing.T) {
	p := &pane{}
	p.resize(20, 10)
	p.add(numberedLines(0, 100))
	for _, step := range []struct {
		key   string
		top   int
		place string
	}{{"down", 1, "1%"}, {"space", 10, "11%"}, {"b", 1, "1%"}, {"up", 0, "top"}, {"up", 0, "top"}, {"G", 90, "end"}, {"down", 90, "end"}, {"g", 0, "top"}, {"pgdown", 9, "10%"}} {
		if !p.press(step.key) || p.top != step.top || p.place() != step.place {
			t.Errorf("after %s at %d (%s), want %d (%s)", step.key, p.top, p.place(), step.top,
				step.place)
		}
	}
	if p.press("a") {
		t.Error("it takes a key that is not for scrolling")
	}
}

// At its end a pane follows what is added; elsewhere it stays where it is.
func TestPaneFollows(t *testing.T) {
	p := &pane{ends: true}
	p.resize(20, 10)
	p.add(numberedLines(0, 50))
	if p.top != 40 {
		t.Errorf("it starts at %d", p.top)
	}
	p.add(numberedLines(50, 60))
	if p.top != 50 {
		t.Errorf("it follows to %d", p.top)
	}
	p.press("up")
	p.add(numberedLines(60, 70))
	if p.top != 49 {
		t.Errorf("it moves to %d while somebody reads", p.top)
	}
	p.press("end")
	p.add(numberedLines(70, 80))
	if p.top != 70 {
		t.Errorf("it does not follow again: %d", p.top)
	}
}

// The memory of a pane is bounded, however much is added, and the place stays.
func TestPaneKeepsTheLastLines(t *testing.T) {
	p := &pane{}
	p.resize(20, 10)
	p.add(numberedLines(0, maxPaneLines))
	p.scroll(5000)
	p.add(numberedLines(maxPaneLines, maxPaneLines+1000))
	if len(p.lines) != maxPaneLines || len(p.rows) != maxPaneLines || p.rows[p.top] != "line 5000" {
		t.Errorf("%d lines, %d rows, at %q", len(p.lines), len(p.rows), p.rows[p.top])
	}
}

func TestPaneWraps(t *testing.T) {
	paint := show.NewPalette(true, true)
	p := &pane{}
	p.resize(10, 3)
	p.add([]string{"aaa bbb ccc ddd", paint.Bad("eeeeeeeeeeeeeeeeeeee"), "x\ty", "質問質問質問質問", "end"})
	for _, width := range []int{10, 7, 30, 12} {
		p.resize(width, 3)
		for _, row := range p.rows {
			checkSize(t, row, width, 1)
			if strings.Contains(row, "e") && strings.Contains(row, "\x1b") &&
				!strings.HasSuffix(row, "m") {
				t.Errorf("the colour of %q runs on", row)
			}
		}
	}
	p.resize(10, 3)
	p.scroll(2) // the red line
	first := p.rows[p.top]
	p.resize(20, 3)
	if !strings.Contains(p.rows[p.top], "eeeee") || !strings.Contains(first, "eeeee") {
		t.Errorf("the place is lost: from %q to %q", first, p.rows[p.top])
	}
}

// collect reads a source to its end.
func collect(s *source) (lines []string) {
	for batch := range s.batches {
		lines = append(lines, batch...)
	}
	return lines
}

func TestSourcePassesOnLines(t *testing.T) {
	s := newSource(0, func(_ context.Context, w io.Writer, flush func() error) error {
		io.WriteString(w, "one\ntw")
		io.WriteString(w, "o\nthree")
		return errors.New("broken")
	})
	if lines := collect(s); strings.Join(lines, "|") != "one|two|three" || s.err == nil ||
		s.err.Error() != "broken" {
		t.Errorf("%q, %v", lines, s.err)
	}
	s = newSource(5, func(_ context.Context, w io.Writer, _ func() error) error {
		_, err := io.WriteString(w, strings.Repeat("x\n", 100))
		return fmt.Errorf("git: %w", err)
	})
	if lines := collect(s); len(lines) != 5 || !errors.Is(s.err, errTooLong) {
		t.Errorf("%d lines, %v", len(lines), s.err)
	}
}

// A source that is closed stops reading, even if its lines are not taken.
func TestClosedSourceStops(t *testing.T) {
	ended := make(chan error, 1)
	s := newSource(0, func(ctx context.Context, w io.Writer, _ func() error) error {
		var err error
		for err == nil {
			_, err = io.WriteString(w, "x\n")
		}
		ended <- err
		return err
	})
	s.close()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// isSafe reports whether text has nothing that a terminal would obey, besides colours of our own.
func isSafe(drawn string) bool {
	for _, sequence := range []string{"\x1b[m", "\x1b[0m"} {
		drawn = strings.ReplaceAll(drawn, sequence, "")
	}
	return !strings.ContainsFunc(strings.ReplaceAll(drawn, "\n", ""),
		func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) })
}
