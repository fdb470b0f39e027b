package progress

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"charm.land/lipgloss/v2"

	"signalbox/internal/core/rules"
	"signalbox/internal/show"
	"signalbox/internal/text"
)

// board draws a view in at most height lines, none wider than width.
func board(v view, width, height int, now time.Time, d drawing) string {
	b := boardPainter{v, d, max(width, minWidth), now}
	head, foot := b.head(), b.foot(height)
	lines := slices.Concat(head, b.lanes(b.laneRoom(height)))
	story := b.story(height - len(lines) - len(foot))
	for !d.final && len(lines)+len(story)+len(foot) < height { // keeps the questions at the bottom
		lines = append(lines, "")
	}
	// the foot says what to do
	if over := len(lines) + len(story) + len(foot) - height; over > 0 && height > 0 {
		lines = lines[:max(len(lines)-over, 0)]
	}
	lines = slices.Concat(lines, story, foot)
	if len(lines) > height && height > 0 {
		lines = lines[:height]
	}
	return strings.Join(lines, "\n")
}

// laneRoom returns how many lines of a board are for the lanes.
func (b *boardPainter) laneRoom(height int) int {
	return max(height-len(b.head())-len(b.foot(height)), 1)
}

// scrolled returns the offset at which the selected lane is visible.
func scrolled(v view, width, height int, d drawing) int {
	b := boardPainter{v: v, d: d, width: max(width, minWidth)}
	return b.offsetIn(b.laneRoom(height))
}

// laneOrder returns the lanes in the order in which a board shows them.
func laneOrder(v view, width, height int, d drawing) []lane {
	b := boardPainter{v: v, d: d, width: max(width, minWidth)}
	return b.ordered(b.laneRoom(height))
}

// minWidth is the width of the narrowest board. A narrower terminal cuts it off.
const minWidth = 40

// drawing controls how a board is drawn.
type drawing struct {
	paint       show.Palette
	frame       int    // of the spinner
	offset      int    // of the scrolled lanes
	selected    string // the id of the selected task, "" if there is none
	target      int    // the index of what waits for the user that the next key acts on
	said        string // what the user's last decision did, or why not
	saidBad     bool
	final       bool // the last board, which takes no keys
	confirmStop bool // asks whether to stop the run
	watch       bool // the run is that of another process
	readOnly    bool // the user can decide nothing here
	noKeys      bool // there is no terminal to read keys from
}

type boardPainter struct {
	v     view
	d     drawing
	width int
	now   time.Time
}

func (b *boardPainter) strong(s string) string { return b.d.paint.Strong(s) }
func (b *boardPainter) faint(s string) string  { return b.d.paint.Faint(s) }
func (b *boardPainter) good(s string) string   { return b.d.paint.Good(s) }
func (b *boardPainter) busy(s string) string   { return b.d.paint.Busy(s) }
func (b *boardPainter) warn(s string) string   { return b.d.paint.Warn(s) }
func (b *boardPainter) bad(s string) string    { return b.d.paint.Bad(s) }

// head draws the name of the plan, the totals and the progress bar.
func (b *boardPainter) head() []string {
	v := b.v
	facts := []string{fmt.Sprintf("%d/%d done", v.done, v.tasks)}
	running := fmt.Sprintf("%d running", v.running)
	if v.slots > 0 && b.width >= 90 {
		running += ", " + text.Count(v.slots, "slot")
	}
	facts = append(facts, running)
	if !b.d.watch { // otherwise it is not known when the run began
		facts = append(facts, text.Duration(b.now.Sub(v.began)))
	}
	if v.spent.Tokens > 0 {
		mark := ""
		if v.spent.EstimatedTokens > 0 {
			mark = " (partly estimated)"
		}
		facts = append(facts, show.Sum(show.Tokens(v.spent.Tokens)+" tokens",
			v.spent.UnknownTokens)+mark)
	}
	if v.spent.CostMicros > 0 {
		facts = append(facts, show.Sum(show.Dollars(v.spent.CostMicros), v.spent.UnknownCost))
	}
	sums := strings.Join(facts, " · ")
	room := b.width - 3 - lipgloss.Width(sums)
	if room < 8 {
		return []string{" " + b.strong(show.Cut(v.title, b.width-2)), " " +
			show.Cut(sums, b.width-2), " " +
			b.bar(b.width-2)}
	}
	title := show.Cut(v.title, room)
	gap := strings.Repeat(" ", b.width-2-lipgloss.Width(title)-lipgloss.Width(sums))
	return []string{" " + b.strong(title) + gap + sums, " " + b.bar(b.width-2)}
}

func (b *boardPainter) bar(width int) string {
	full := 0
	if b.v.tasks > 0 {
		full = width * b.v.done / b.v.tasks
	}
	return b.good(strings.Repeat("━", full)) + b.faint(strings.Repeat("─", width-full))
}

// maxStory is the most events that a screen shows.
const maxStory = 40

// story draws the latest events, between blank lines, in the room that the lanes leave.
func (b *boardPainter) story(room int) []string {
	shown := b.v.story[len(b.v.story)-max(min(len(b.v.story), maxStory, room-2), 0):]
	if len(shown) == 0 {
		return nil
	}
	return slices.Concat([]string{""}, b.storyLines(shown), []string{""})
}

// storyLines draws one line for each event.
func (b *boardPainter) storyLines(events []event) (lines []string) {
	ids := 0
	for _, e := range events {
		ids = max(ids, min(lipgloss.Width(e.work), 10))
	}
	for _, e := range events {
		lead := ""
		if b.width >= 72 {
			lead = e.clock + "  "
		}
		lines = append(lines, " "+b.faint(show.Cut(lead+fit(e.work, ids)+"  "+e.text, b.width-2)))
	}
	return lines
}

// minLanes is how many lines the lanes have at least, if notices could take them.
const minLanes = 3

// foot draws what the user must know or do: questions, notices, and the keys.
func (b *boardPainter) foot(height int) []string {
	var questions, end []string
	if len(b.v.questions) > 0 {
		questions = b.box(max(height/3, 4))
	}
	if !b.d.final && b.v.idle() {
		end = b.waiting()
	}
	end = slices.Concat(end, saidLines(b.d, b.width), b.keys())
	room := height - len(b.head()) - minLanes - len(questions) - len(end)
	return slices.Concat(questions, b.notices(room), end)
}

// notices draws the notices and the last warning in at most room lines.
func (b *boardPainter) notices(room int) (lines []string) {
	add := func(text string, most int) {
		for _, line := range wrap(text, b.width-2, most) {
			lines = append(lines, " "+b.warn(line))
		}
	}
	warnings := 0
	if b.v.warning != "" {
		warnings = min(2, max(room-1, 1))
	}
	room = min(3, room-warnings)
	for i, notice := range b.v.notices {
		if len(lines) >= room {
			break
		}
		if notice == pausedNotice && b.acts() {
			notice = "the run is paused; press p to resume it"
		}
		add(notice, max(room-len(lines)-(len(b.v.notices)-1-i), 1))
	}
	if b.v.warning != "" {
		add(b.v.warning, warnings)
	}
	return lines
}

// waiting says that nothing runs, and what makes the run continue.
func (b *boardPainter) waiting() []string {
	switch b.v.standing {
	case rules.StandingAsking, rules.StandingPaused:
		return []string{" " +
			b.strong(b.shortened("waiting for you; then the run continues by itself",
				"waiting for you"))}
	case rules.StandingLimited:
		return []string{" " +
			b.strong(b.shortened("nothing is running; the run resumes by itself",
				"resumes by itself"))}
	}
	return nil
}

// keys lists the keys.
func (b *boardPainter) keys() []string {
	switch {
	case b.d.final:
		return nil
	case b.d.confirmStop:
		return []string{stopLine(b.d, b.width, true)}
	case b.d.noKeys && b.d.watch:
		return []string{b.withLegend("ctrl-c leaves")}
	case b.d.noKeys:
		return []string{b.withLegend("ctrl-c stops, work is kept")}
	}
	var keys []string
	if b.acts() && len(b.v.questions) > 0 {
		keys = append(keys, "a "+b.v.questions[b.target()].verb())
		if len(b.v.questions) > 1 {
			keys = append(keys, "tab next")
		}
	}
	if b.acts() && b.v.paused {
		keys = append(keys, "p resume")
	}
	keys = append(keys, "↑ ↓ select", "enter read")
	if b.acts() {
		keys = append(keys, b.v.steerKeys(b.d.selected)...)
	}
	quit := "q stop"
	if b.d.watch {
		quit = "q leave"
	}
	all := strings.Join(append(keys, quit, "? keys"), " · ")
	if lipgloss.Width(all+shortLegend)+7 <= b.width {
		return []string{b.withLegend(all)}
	}
	return []string{keyLine(b.d, b.width, keys, []string{quit, "? keys"})}
}

// withLegend adds as much of the legend as fits.
func (b *boardPainter) withLegend(keys string) string {
	return " " + b.faint(b.shortened(keys+"     "+strings.Join(legend[:], "  "), keys+"     "+
		shortLegend, keys))
}

// acts reports whether the user can decide things on this board.
func (b *boardPainter) acts() bool { return !b.d.readOnly && !b.d.noKeys && !b.d.final }

// target returns the index of what waits for the user that the next key acts on.
func (b *boardPainter) target() int {
	return min(max(b.d.target, 0), max(len(b.v.questions)-1, 0))
}

// verb says what the user does about it.
func (q asked) verb() string {
	if q.id == "" {
		return "approve"
	}
	return "answer"
}

// shortened returns the first of some texts that fits, or the last one, cut.
func (b *boardPainter) shortened(
	texts ...string) string {
	return show.Shortest(b.width-2, texts...)
}

// wanted counts what waits for the user.
func (b *boardPainter) wanted() string {
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
		parts = append(parts, text.Count(questions, "question")+" for you")
	}
	if merges > 0 {
		parts = append(parts, text.Count(merges, "merge")+" to approve")
	}
	return strings.Join(parts, ", ")
}

// box draws the open questions, with the key or the command that answers them.
func (b *boardPainter) box(room int) []string {
	inner := b.width - 4
	n := max(min(len(b.v.questions), (room-2)/2), 1)
	first := max(b.target()-n+1, 0)
	shown := b.v.questions[first : first+n]
	title := " " + show.Shortest(b.width-4, b.wanted(), text.Count(len(b.v.questions), "thing")+
		" for you") + " "
	title = "╭" + title + strings.Repeat("─", max(b.width-2-lipgloss.Width(title), 0)) + "╮"
	lines := []string{b.warn(title)}
	side := b.warn("│")
	row := func(text string) string {
		return side + " " + text + strings.Repeat(" ", max(inner-lipgloss.Width(text), 0)) + " " +
			side
	}
	spare := room - 2 - 2*len(shown)
	for i, q := range shown {
		lead := strings.TrimSpace(q.id+" "+q.work) + "  "
		texts := wrap(q.text, inner-lipgloss.Width(lead), 1+max(spare, 0))
		spare -= len(texts) - 1
		for i, text := range texts {
			if i > 0 {
				lead = strings.Repeat(" ", lipgloss.Width(lead))
			}
			lines = append(lines, row(b.strong(lead)+text))
		}
		lines = append(lines,
			row(strings.Repeat(" ",
				lipgloss.Width(lead))+b.busy(show.Cut(b.howTo(q, first+i == b.target()),
				inner-lipgloss.Width(lead)))))
	}
	bottom := ""
	if more := len(b.v.questions) - len(shown); more > 0 {
		bottom = fmt.Sprintf(" and %d more: signalbox questions ", more)
		if b.acts() {
			bottom = fmt.Sprintf(" and %d more: tab ", more)
		}
	}
	return append(lines,
		b.warn("╰"+bottom+strings.Repeat("─", max(b.width-2-lipgloss.Width(bottom), 0))+"╯"))
}

// howTo returns how to answer a question or approve a merge: with a key, if the next key is about
// it.
func (b *boardPainter) howTo(q asked, target bool) string {
	switch {
	case !b.acts():
		return q.command
	case !target:
		return "press tab to select it"
	case q.id == "" && b.d.selected != "" && b.d.selected != q.work: // x is about that one
		return "▸ press a to look at it and approve it"
	case q.id == "":
		return "▸ press a to look at it and approve it, x to reject it"
	}
	return "▸ press a to answer"
}

// fit cuts or pads text to a width.
func fit(text string, width int) string { return show.Fit(text, width) }

// wrap breaks printable text into at most n lines, at spaces where there are any.
func wrap(text string, width, n int) []string { return show.Wrap(text, width, n) }
