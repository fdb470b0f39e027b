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
	story := b.story(height - len(lines) - len(foot))
	for !d.final && len(lines)+len(story)+len(foot) < height { // what the user has to look at stays where it is
		lines = append(lines, "")
	}
	lines = slices.Concat(lines, story, foot)
	if len(lines) > height && height > 0 {
		lines = lines[:height]
	}
	return strings.Join(lines, "\n")
}

// maxOffset is how far the lanes of a board can be scrolled.
func maxOffset(v view, width, height int, d drawing) int {
	b := boardOf{v: v, d: d, width: max(width, minWidth)}
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
	legend bool // whether the user wants to know what the signs mean
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

// maxStory is how many events a screen shows at most.
const maxStory = 40

// story is what happened last, between blank lines, in what room the lanes leave.
func (b *boardOf) story(room int) []string {
	shown := b.v.story[len(b.v.story)-max(min(len(b.v.story), maxStory, room-2), 0):]
	if len(shown) == 0 {
		return nil
	}
	return slices.Concat([]string{""}, b.tale(shown), []string{""})
}

// tale draws events, each on a line.
func (b *boardOf) tale(events []event) (lines []string) {
	ids := 0
	for _, e := range events {
		ids = max(ids, min(lipgloss.Width(e.work), 10))
	}
	for _, e := range events {
		lead := ""
		if b.width >= 72 {
			lead = e.clock + "  "
		}
		lines = append(lines, " "+b.faint(cut(lead+fit(e.work, ids)+"  "+e.text, b.width-2)))
	}
	return lines
}

// again is what has changed for the user since a board was left on the terminal: what happened, and what is asked now.
func again(v view, before []event, width, height int, d drawing) string {
	if len(before) > 0 {
		if last := slices.Index(v.story, before[len(before)-1]); last >= 0 {
			v.story = v.story[last+1:]
		}
	}
	b := boardOf{v, d, max(width, minWidth), time.Time{}}
	foot := b.foot(height)
	return strings.Join(slices.Concat(b.story(height-len(foot)), foot), "\n")
}

// foot is what the user has to know or do: questions, notices, and the keys.
func (b *boardOf) foot(height int) []string {
	var lines []string
	if len(b.v.questions) > 0 {
		lines = b.box(max(height/3, 4))
	}
	room := 3
	for i, notice := range b.v.notices {
		if room == 0 {
			break
		}
		for _, text := range wrap(notice, b.width-2, max(room-(len(b.v.notices)-1-i), 1)) {
			lines, room = append(lines, " "+b.warn(text)), room-1
		}
	}
	if b.v.warning != "" {
		for _, text := range wrap(b.v.warning, b.width-2, 2) {
			lines = append(lines, " "+b.warn(text))
		}
	}
	return append(lines, b.keys()...)
}

// legend is what the signs on the lanes mean, and shortLegend the most of it.
var legend = [...]string{"◎ ready", "○ waits for others", "? asks", "‖ parked or paused", "! held back", "✕ cancelled", "↺1 reworks", "!1 mishaps"}

const shortLegend = "◎ ready  ○ waits for others  ? asks  ‖ parked  ! held back  ↺ reworks"

// keys says what the user can press.
func (b *boardOf) keys() []string {
	switch {
	case b.d.rests:
		return []string{" " + b.faint(b.shortened("nothing runs; this goes on by itself when something can · ctrl-c stops, the work is kept",
			"nothing runs now; it goes on by itself · ctrl-c stops, the work is kept", "goes on by itself when it can · ctrl-c stops", "waits · ctrl-c stops"))}
	case b.d.final:
		return nil
	case b.d.asks:
		return []string{" " + b.bad(b.shortened("stop? agents are ended, the work is kept: q or ctrl-c again stops, any other key goes on",
			"stop? the work is kept: q again stops, any other key goes on", "q again stops, another key goes on"))}
	case b.d.legend:
		return b.explained()
	}
	keys := "q stops · ↑ ↓ scroll"
	return []string{" " + b.faint(b.shortened(keys+"     "+strings.Join(legend[:], "  "), keys+"     "+shortLegend, keys+" · ? what the signs mean", keys))}
}

// explained is the legend, with no sign apart from its meaning.
func (b *boardOf) explained() (lines []string) {
	text := ""
	for _, sign := range append(legend[:], "· ? hides this") {
		if text != "" && lipgloss.Width(text+"  "+sign) > b.width-2 {
			lines, text = append(lines, " "+b.faint(text)), ""
		}
		text = strings.TrimLeft(text+"  "+sign, " ")
	}
	return append(lines, " "+b.faint(text))
}

// shortened is the first of some texts that fits; the last is cut.
func (b *boardOf) shortened(texts ...string) string {
	for _, text := range texts {
		if lipgloss.Width(text) <= b.width-2 {
			return text
		}
	}
	return cut(texts[len(texts)-1], b.width-2)
}

// wanted is how much waits for the user.
func (b *boardOf) wanted() string {
	questions, merges := 0, 0
	for _, q := range b.v.questions {
		if q.id == "" {
			merges++
		} else {
			questions++
		}
	}
	var parts []string
	if questions > 0 {
		parts = append(parts, count(questions, "question")+" for you")
	}
	if merges > 0 {
		parts = append(parts, count(merges, "merge")+" to approve")
	}
	return strings.Join(parts, ", ")
}

// box has the open questions and what answers them.
func (b *boardOf) box(room int) []string {
	inner := b.width - 4
	shown := b.v.questions[:max(min(len(b.v.questions), (room-2)/2), 1)]
	title := " " + b.wanted() + " "
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
