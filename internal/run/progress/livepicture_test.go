package progress

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/google/go-cmp/cmp"
)

func numbered(n int) (lines []string) {
	for i := range n {
		lines = append(lines, fmt.Sprintf("line %d", i))
	}
	return lines
}

func TestCropped(t *testing.T) {
	for name, c := range map[string]struct {
		lines                []string
		focus, width, height int
		want                 []string
	}{
		"nothing":      {nil, 0, 80, 24, nil},
		"room for all": {numbered(3), 2, 80, 3, []string{"line 0", "line 1", "line 2"}},
		"the beginning": {numbered(9), 0, 80, 4,
			[]string{"line 0", "line 1", "line 2", "… 6 lines below"}},
		"the middle": {numbered(9), 4, 80, 5, []string{"… 3 lines above", "line 3", "line 4",
			"line 5", "… 3 lines below"}},
		"the end": {numbered(9), 8, 80, 4, []string{"… 6 lines above", "line 6", "line 7",
			"line 8"}},
		"focus on no line": {numbered(9), 99, 80, 4,
			[]string{"… 6 lines above", "line 6", "line 7", "line 8"}},
		"no focus": {numbered(9), -1, 80, 4,
			[]string{"line 0", "line 1", "line 2", "… 6 lines below"}},
		"hardly any height": {numbered(9), 4, 80, 1,
			[]string{"… 4 lines above", "line 4", "… 4 lines below"}},
		"narrow": {[]string{"0123456789abc", "short"}, 0, 12, 24,
			[]string{"0123456789ab", "short"}},
		"hardly any width": {[]string{"0123456789abc"}, 0, 1, 24, []string{"0123456789"}},
		"wide letters":     {[]string{"界界界界界界"}, 0, 11, 24, []string{"界界界界界"}},
	} {
		if diff := cmp.Diff(c.want, cropped(c.lines, c.focus, c.width, c.height)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Whatever the room, what is in focus is in sight, and nothing is larger than the room.
func TestCroppedKeepsFocus(t *testing.T) {
	lines := numbered(30)
	for height := 3; height < 33; height++ {
		for focus := range lines {
			shown := cropped(lines, focus, 40, height)
			if len(shown) > height {
				t.Errorf("%d lines in a height of %d", len(shown), height)
			}
			found := false
			for _, line := range shown {
				found = found || line == lines[focus]
				if lipgloss.Width(line) > 40 {
					t.Errorf("%q is wider than the room", line)
				}
			}
			if !found {
				t.Errorf("line %d is not in sight in a height of %d: %q", focus, height, shown)
			}
		}
	}
}

// watched is a terminal that can be asked what was written to it.
type watched struct {
	mu  sync.Mutex // guards all
	all strings.Builder
}

func (w *watched) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all.Write(b)
}

func (w *watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all.String()
}

// await waits until the terminal shows something. It sends the window size again and again, because
// the program resets it to zero for something that is not a terminal when it is ready, and there is
// no way to know when that is.
func (w *watched) await(p *Picture, want string) {
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for !strings.Contains(w.String(), want) {
		p.program.Send(tea.WindowSizeMsg{Width: 60, Height: 10})
		<-again.C
	}
}

// A picture is shown, replaced, and taken away, and the terminal is as before.
func TestPicture(t *testing.T) {
	terminal := &watched{}
	p := NewPicture(terminal)
	p.Show([]string{"first", "second"}, 0, "tick 1")
	terminal.await(p, "second")
	p.Show([]string{"other"}, 0, "tick 1")
	terminal.await(p, "other")
	p.Close()
	p.Show([]string{"too late"}, 0, "tick 1") // does nothing, and does not wait
	all := terminal.String()
	const taken, given = "\x1b[?1049h", "\x1b[?1049l"
	if !strings.Contains(all, "first") || !strings.Contains(all, "tick 1") ||
		strings.Contains(all, "too late") {
		t.Errorf("it wrote %q", all)
	}
	if strings.Count(all, taken) != 1 || strings.Count(all, given) != 1 ||
		!strings.Contains(all[strings.Index(all, taken):], given) {
		t.Errorf("the terminal was not taken and given back: %q", all)
	}
	if last := all[strings.Index(all, given):]; strings.Contains(last, "other") {
		t.Errorf("the picture is left: %q", last)
	}
}

// A picture can be closed before it is shown.
func TestPictureClosedAtOnce(t *testing.T) {
	p := NewPicture(&watched{})
	p.Close()
	p.Show([]string{"too late"}, 0, "tick 1")
}
