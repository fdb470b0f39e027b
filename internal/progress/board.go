package progress

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
)

// board draws a view: at most height lines, none wider than width. It does nothing else, so that a view can be drawn and
// looked at in a test.
func board(v view, width, height int, now time.Time, d drawing) string {
	b := boardOf{v, d, max(width, minWidth), now}
	head, foot := b.head(), b.foot(height)
	lines := slices.Concat(head, b.lanes(max(height-len(head)-len(foot), 1)))
	for !d.final && len(lines)+len(foot) < height { // what the user has to look at stays where it is
		lines = append(lines, "")
	}
	lines = append(lines, foot...)
	if len(lines) > height && height > 0 {
		lines = lines[:height]
	}
	return strings.Join(lines, "\n")
}

// maxOffset is how far the lanes of a board can be scrolled.
func maxOffset(v view, width, height int) int {
	b := boardOf{v: v, width: max(width, minWidth)}
	return b.maxOffset(max(height-len(b.head())-len(b.foot(height)), 1))
}

// minWidth is the narrowest board. A narrower terminal cuts it off.
const minWidth = 40

// drawing is how a board is drawn, apart from what is on it.
type drawing struct {
	paint  palette
	frame  int  // of what turns while somebody is at work
	offset int  // how far the lanes are scrolled
	final  bool // the last one, which nobody can press a key at
	rests  bool // it stays until something happens
	asks   bool // whether the user is asked if the run is to end
}

// palette has a style for each meaning. The zero palette has no colours at all.
type palette struct {
	strong, faint, good, busy, warn, bad lipgloss.Style
	on                                   bool
}

func (p palette) with(s lipgloss.Style, text string) string {
	if !p.on || text == "" {
		return text
	}
	return s.Render(text)
}

type boardOf struct {
	v     view
	d     drawing
	width int
	now   time.Time
}

func (b *boardOf) strong(s string) string { return b.d.paint.with(b.d.paint.strong, s) }
func (b *boardOf) faint(s string) string  { return b.d.paint.with(b.d.paint.faint, s) }
func (b *boardOf) good(s string) string   { return b.d.paint.with(b.d.paint.good, s) }
func (b *boardOf) busy(s string) string   { return b.d.paint.with(b.d.paint.busy, s) }
func (b *boardOf) warn(s string) string   { return b.d.paint.with(b.d.paint.warn, s) }
func (b *boardOf) bad(s string) string    { return b.d.paint.with(b.d.paint.bad, s) }

// head is the plan's name, the sums, and how much is done.
func (b *boardOf) head() []string {
	v := b.v
	facts := []string{fmt.Sprintf("%d/%d done", v.done, v.tasks)}
	running := fmt.Sprintf("%d running", v.running)
	if v.slots > 0 && b.width >= 90 {
		running += ", " + count(v.slots, "slot")
	}
	facts = append(facts, running, took(b.now.Sub(v.began)))
	if v.spent.Tokens > 0 {
		facts = append(facts, tokens(v.spent.Tokens)+" tokens")
	}
	if v.spent.CostMicros > 0 {
		facts = append(facts, dollars(v.spent.CostMicros))
	}
	sums := strings.Join(facts, " · ")
	room := b.width - 3 - lipgloss.Width(sums)
	if room < 8 {
		return []string{" " + b.strong(cut(v.title, b.width-2)), " " + cut(sums, b.width-2), " " + b.bar(b.width-2)}
	}
	title := cut(v.title, room)
	gap := strings.Repeat(" ", b.width-2-lipgloss.Width(title)-lipgloss.Width(sums))
	return []string{" " + b.strong(title) + gap + sums, " " + b.bar(b.width-2)}
}

func (b *boardOf) bar(width int) string {
	full := 0
	if b.v.tasks > 0 {
		full = width * b.v.done / b.v.tasks
	}
	return b.good(strings.Repeat("━", full)) + b.faint(strings.Repeat("─", width-full))
}

// foot is what the user has to know or do: questions, notices, and the keys.
func (b *boardOf) foot(height int) []string {
	var lines []string
	if len(b.v.questions) > 0 {
		lines = b.box(max(height/3, 4))
	}
	for _, notice := range b.v.notices[:min(len(b.v.notices), 3)] {
		lines = append(lines, " "+b.warn(cut(notice, b.width-2)))
	}
	if b.v.warning != "" {
		lines = append(lines, " "+b.warn(cut(b.v.warning, b.width-2)))
	}
	switch {
	case b.d.rests:
		lines = append(lines, " "+b.faint(cut("nothing runs; this goes on by itself when something can · ctrl-c stops, the work is kept", b.width-2)))
	case b.d.final:
	case b.d.asks:
		lines = append(lines, " "+b.bad(cut("stop? agents are ended, the work is kept: q or ctrl-c again stops, any other key goes on", b.width-2)))
	default:
		keys := "q stops · ↑ ↓ scroll"
		if b.width >= 100 {
			keys += "     ◎ ready  ○ waits for others  ? asks  ‖ parked  ! held back  ↺ reworks"
		}
		lines = append(lines, " "+b.faint(cut(keys, b.width-2)))
	}
	return lines
}

// box has the open questions and what answers them.
func (b *boardOf) box(room int) []string {
	inner := b.width - 4
	shown := b.v.questions[:max(min(len(b.v.questions), (room-2)/2), 1)]
	title := " " + count(len(b.v.questions), "question") + " for you "
	title = "╭" + title + strings.Repeat("─", max(b.width-2-lipgloss.Width(title), 0)) + "╮"
	lines := []string{b.warn(title)}
	side := b.warn("│")
	row := func(text string) string {
		return side + " " + text + strings.Repeat(" ", max(inner-lipgloss.Width(text), 0)) + " " + side
	}
	spare := room - 2 - 2*len(shown)
	for _, q := range shown {
		lead := strings.TrimSpace(q.id+" "+q.work) + "  "
		texts := wrap(q.text, inner-lipgloss.Width(lead), 1+max(spare, 0))
		spare -= len(texts) - 1
		for i, text := range texts {
			if i > 0 {
				lead = strings.Repeat(" ", lipgloss.Width(lead))
			}
			lines = append(lines, row(b.strong(lead)+text))
		}
		lines = append(lines, row(strings.Repeat(" ", lipgloss.Width(lead))+b.busy(cut(q.command, inner-lipgloss.Width(lead)))))
	}
	bottom := ""
	if more := len(b.v.questions) - len(shown); more > 0 {
		bottom = fmt.Sprintf(" and %d more: signalbox questions ", more)
	}
	return append(lines, b.warn("╰"+bottom+strings.Repeat("─", max(b.width-2-lipgloss.Width(bottom), 0))+"╯"))
}

// cut shortens printable text to a width, at the end of a character.
func cut(text string, width int) string {
	if width <= 0 {
		return ""
	}
	if lipgloss.Width(text) <= width {
		return text
	}
	runes := []rune(text)
	runes = runes[:min(len(runes), 4*width)] // marks that have no width take no more room than that
	tooLong := sort.Search(len(runes), func(n int) bool { return lipgloss.Width(string(runes[:n+1])) > width-1 })
	return string(runes[:tooLong]) + "…"
}

// fit cuts text to a width or fills it up to that.
func fit(text string, width int) string {
	text = cut(text, width)
	return text + strings.Repeat(" ", max(width-lipgloss.Width(text), 0))
}

// wrap breaks printable text into at most n lines, at spaces where there are any.
func wrap(text string, width, n int) []string {
	var lines []string
	for len(lines) < n-1 && lipgloss.Width(text) > width {
		head := strings.TrimSuffix(cut(text, width+1), "…")
		if at := strings.LastIndex(head, " "); at > len(head)/2 {
			head = head[:at]
		}
		if head == "" {
			break
		}
		lines = append(lines, strings.TrimRight(head, " "))
		text = strings.TrimLeft(text[len(head):], " ")
	}
	return append(lines, cut(text, width))
}
