package progress

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"charm.land/lipgloss/v2"

	"signalbox/internal/core/rules"
	"signalbox/internal/run/inspect"
	"signalbox/internal/show"
	"signalbox/internal/text"
)

// layout holds the widths of the columns.
type layout struct {
	ids, title, step, who int
	names                 []string
	first                 stage
}

// layoutFor divides the width: the track is the same for all lanes, and the title and the status
// share the rest.
func (b *boardPainter) layoutFor(lanes []lane) layout {
	l := layout{ids: 2, step: 6, first: stageImplement}
	names := []string{"DRAFT", "IMPL", "CHECK", "REV", "AUDIT", "MERGE", "DONE"}
	switch {
	case b.width >= 130:
		l.step, names = 11, []string{"DRAFT", "IMPLEMENT", "CHECKS", "REVIEW", "AUDIT", "MERGE",
			"DONE"}
	case b.width >= 100:
		l.step, names = 8, []string{"DRAFT", "IMPL", "CHECKS", "REVIEW", "AUDIT", "MERGE", "DONE"}
	case b.width < 72:
		l.step, names = 2, []string{"D", "I", "C", "R", "A", "M", "✓"}
	}
	if b.v.drafts {
		l.first = stageDraft
		if b.width < 100 {
			l.step = min(l.step, 5)
			names = []string{"DRFT", "IMPL", "CHCK", "REV", "AUD", "MRG", "DONE"}
			if b.width < 72 {
				l.step, names = 2, []string{"D", "I", "C", "R", "A", "M", "✓"}
			}
		}
	}
	l.names = names[l.first:]
	for _, lane := range lanes {
		l.ids = max(l.ids, min(lipgloss.Width(lane.id), 10))
	}
	rest := b.width - 1 - l.ids - 2 - 2 - l.track() - 2 - 1
	longest := 0
	for _, lane := range lanes {
		longest = max(longest, lipgloss.Width(lane.title))
	}
	l.title = min(max(rest-max(rest*5/12, 18), 0), max(longest, 16))
	if l.title < minTitle { // what it waits for says more
		l.title = 0
	}
	l.who = rest - l.title
	return l
}

// minTitle is the width below which a title is left out.
const minTitle = 6

// track returns the width of the track.
func (l layout) track() int { return l.step*(len(l.names)-1) + 1 }

// lanes draws the tasks: all in the order of the plan if there is room, otherwise the most urgent
// ones and how many more there are.
func (b *boardPainter) lanes(room int) []string {
	if len(b.v.lanes) == 0 {
		text := "no tasks"
		if b.v.standing == rules.StandingEmpty {
			text = b.v.withoutPlan
		}
		return []string{"", " " + b.faint(show.Cut(text, b.width-2))}[:min(2, room)]
	}
	l := b.layoutFor(b.v.lanes)
	lines := []string{b.columns(l)}
	if b.fits(room) {
		for _, lane := range b.v.lanes {
			lines = append(lines, b.drawOne(l, lane)...)
		}
		return lines
	}
	lanes := b.ordered(room)
	offset, shown := b.offsetIn(room), 0
	for _, lane := range lanes[offset:] {
		free := room - 1 - len(lines) // the last line counts the rest
		if free <= 0 {
			break
		}
		drawn := b.drawOne(l, lane)
		lines, shown = append(lines, drawn[:min(len(drawn), free)]...), shown+1
	}
	hidden := slices.Concat(lanes[:offset], lanes[offset+shown:])
	return append(lines, " "+b.faint(show.Cut(more(hidden, offset), b.width-2)))
}

// fits reports whether there is room for all lanes and the names of the columns.
func (b *boardPainter) fits(room int) bool {
	lines := 1
	for _, lane := range b.v.lanes {
		lines += lane.height()
	}
	return lines <= room
}

// ordered returns the lanes in the order in which they are drawn: that of the plan if all fit,
// otherwise the most urgent ones first.
func (b *boardPainter) ordered(room int) []lane {
	if b.fits(room) {
		return b.v.lanes
	}
	lanes := slices.Clone(b.v.lanes)
	slices.SortStableFunc(lanes, func(x, y lane) int { return cmp.Compare(urgency(x), urgency(y)) })
	return lanes
}

// offsetIn returns how many lanes are scrolled away, so that the selected one is visible.
func (b *boardPainter) offsetIn(room int) int {
	if b.fits(room) {
		return 0
	}
	lanes := b.ordered(room)
	offset := min(b.d.offset, max(len(lanes)-(room-2), 0), len(lanes)-1)
	at := slices.IndexFunc(lanes, func(l lane) bool { return l.id == b.d.selected })
	if at < 0 {
		return offset
	}
	offset = min(offset, at)
	lines := func(lanes []lane) (n int) {
		for _, l := range lanes {
			n += l.height()
		}
		return n
	}
	for offset < at && lines(lanes[offset:at+1]) > room-2 {
		offset++
	}
	return offset
}

// urgency orders lanes if there is no room for all.
func urgency(l lane) int {
	switch l.is {
	case inspect.Asking, inspect.NeedsApproval:
		return 0
	case inspect.Working:
		return 1
	case inspect.Parked, inspect.InRemediation, inspect.InRequest:
		return 2
	case inspect.Ready:
		return 3
	case inspect.Waiting, inspect.Paused:
		return 4
	}
	return 5
}

// more summarises the lanes that are not shown.
func more(hidden []lane, above int) string {
	counts := map[string]int{}
	for _, l := range hidden {
		switch l.is {
		case inspect.Completed:
			counts["done"]++
		case inspect.Cancelled:
			counts["cancelled"]++
		case inspect.Working, inspect.Parked:
			counts["running"]++
		default:
			counts["waiting"]++
		}
	}
	var parts []string
	for _, what := range []string{"running", "waiting", "done", "cancelled"} {
		if counts[what] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[what], what))
		}
	}
	text := fmt.Sprintf("… %d more: %s", len(hidden), strings.Join(parts, ", "))
	if above > 0 {
		text += fmt.Sprintf(" (%d above)", above)
	}
	return text
}

// columns draws the names of the stages.
func (b *boardPainter) columns(l layout) string {
	var names strings.Builder
	for i, name := range l.names {
		if i == len(l.names)-1 {
			names.WriteString(name)
			break
		}
		names.WriteString(fit(name, l.step))
	}
	return strings.TrimRight(strings.Repeat(" ", 1+l.ids+2+l.title+2)+b.faint(names.String()), " ")
}

// hasActivity reports whether there is an activity to show.
func (l lane) hasActivity() bool {
	return l.is == inspect.Working && (l.note != "" || l.percent > 0)
}

// canTell and canRework report whether words for an agent of the task, or findings that send it
// back, would be accepted.

func (l lane) canTell() bool {
	return l.kind != "" && l.kind != rules.KindBaseline && l.at < stageMerge &&
		l.is != inspect.Cancelled
}

func (l lane) canRework() bool {
	return (l.kind == rules.KindTask || l.kind == rules.KindRemediation) && l.at < stageDone &&
		l.is != inspect.Cancelled
}

// steerKeys lists the keys that give words to a task's agents.
func (v *view) steerKeys(id string) (keys []string) {
	for _, l := range v.lanes {
		if l.id != id {
			continue
		}
		if l.canTell() {
			keys = append(keys, "t tell")
		}
		if l.canRework() {
			keys = append(keys, "r rework")
		}
	}
	return keys
}

// height returns how many lines the lane has.
func (l lane) height() int {
	if l.hasActivity() {
		return 2
	}
	return 1
}

// drawOne draws a task's track, and below it what its agent does.
func (b *boardPainter) drawOne(l layout, lane lane) []string {
	id, title := fit(lane.id, l.ids), fit(lane.title, l.title)
	if lane.is == inspect.Completed || lane.is == inspect.Cancelled {
		id, title = b.faint(id), b.faint(title)
	} else {
		id = b.strong(id)
	}
	mark := " "
	if lane.id == b.d.selected {
		mark = b.strong("▸")
	}
	line := mark + id + "  " + title + "  " + b.trackOf(l, lane) + "  " + b.whoOf(lane, l.who)
	lines := []string{strings.TrimRight(line, " ")}
	if lane.hasActivity() {
		said := lane.note
		if lane.percent > 0 {
			said = fmt.Sprintf("%d%% %s", lane.percent, said)
		}
		indent := 1 + l.ids + 2
		lines = append(lines, strings.Repeat(" ", indent)+b.faint("╰ "+
			show.Cut(said, b.width-indent-3)))
	}
	return lines
}

// spinner turns while an agent is at work.
var spinner = [...]string{"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"}

func (b *boardPainter) trackOf(l layout, lane lane) string {
	if lane.kind == rules.KindExpert || lane.kind == rules.KindBaseline {
		return b.singleStop(l, lane)
	}
	var track strings.Builder
	for at := l.first; at <= stageDone; at++ {
		switch {
		case at == lane.at:
			track.WriteString(b.stop(lane))
		case at < lane.at:
			track.WriteString(b.good("●"))
		default:
			track.WriteString(b.faint("·"))
		}
		if at == stageDone {
			break
		}
		if at < lane.at {
			track.WriteString(b.good(strings.Repeat("━", l.step-1)))
		} else {
			track.WriteString(b.faint(strings.Repeat("─", l.step-1)))
		}
	}
	return track.String()
}

// singleStop draws the track of work with a single stage: a request to an expert, or the baseline
// checks.
func (b *boardPainter) singleStop(l layout, lane lane) string {
	before := l.step * int(lane.at-l.first)
	return strings.Repeat(" ", before) + b.stop(lane) + strings.Repeat(" ", l.track()-before-1)
}

// stop draws the sign at the stage of a task.
func (b *boardPainter) stop(lane lane) string {
	switch lane.is {
	case inspect.Working:
		if b.d.final {
			return b.busy("◉")
		}
		return b.busy(spinner[b.d.frame%len(spinner)])
	case inspect.Asking, inspect.NeedsApproval:
		return b.warn("?")
	case inspect.InRemediation:
		return b.bad("!")
	case inspect.Parked, inspect.InRequest:
		return b.warn("‖")
	case inspect.Paused:
		return b.warn("‖")
	case inspect.Cancelled:
		return b.bad("✕")
	case inspect.Completed:
		return b.good("✓")
	case inspect.Waiting:
		return b.faint("○")
	}
	return b.strong("◎")
}

// whoOf draws who is at work and for how long, or what the task waits for, and how often something
// failed.
func (b *boardPainter) whoOf(lane lane, width int) string {
	marks := ""
	if lane.reworks > 0 {
		marks += fmt.Sprintf(" ↺%d", lane.reworks)
	}
	if lane.failures > 0 {
		marks += fmt.Sprintf(" !%d", lane.failures)
	}
	width -= lipgloss.Width(marks)
	if lane.is == inspect.Working {
		return b.busy(b.atWork(lane, width)) + b.warn(marks)
	}
	text, paint := b.waitingFor(lane)
	return paint(show.Cut(text, width)) + b.warn(marks)
}

// atWork returns who is at work and for how long. The time is never cut off.
func (b *boardPainter) atWork(lane lane, width int) string {
	age := " " + b.age(lane.since)
	if who := fmt.Sprintf("%s (%s)", lane.who, text.Ordinal(lane.attempt)); lane.attempt > 1 &&
		lipgloss.Width(who+age) <= width {
		return who + age
	}
	return show.Cut(lane.who, width-lipgloss.Width(age)) + age
}

func (b *boardPainter) waitingFor(lane lane) (string, func(string) string) {
	switch lane.is {
	case inspect.Asking, inspect.NeedsApproval, inspect.InRequest:
		return lane.note, b.warn
	case inspect.InRemediation:
		return "blocked by " + lane.note, b.bad
	case inspect.Parked:
		return "waiting for " + lane.note, b.warn
	case inspect.Waiting:
		return "blocked by " + lane.note, b.faint
	case inspect.Paused:
		return "paused", b.warn
	case inspect.Cancelled:
		return "cancelled", b.bad
	case inspect.Completed:
		return text.Duration(lane.took), b.faint
	}
	return "ready", b.strong
}

func (b *boardPainter) age(since time.Time) string {
	if since.IsZero() {
		return ""
	}
	return text.Duration(b.now.Sub(since))
}
