package progress

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"signalbox/internal/show"
)

// paneView is what a pane shows of a task.
type paneView int

const (
	paneTranscript paneView = iota
	paneDiff
	paneDetails
	paneHelp // the keys; of no task
)

// tabs are the names of the views of a task.
var tabs = [...]string{paneTranscript: "transcript", paneDiff: "diff", paneDetails: "details"}

// pane is text that the user reads. Its lines are escaped and may have colours of our own.
type pane struct {
	work, title string
	view        paneView
	source      *source // where the lines come from, nil if they are complete
	version     string  // of the task when its text was read
	again       bool    // the next lines replace those that are shown
	failed      string  // why there is no text, or no more
	awaits      string  // what is shown while there is no text yet, "" for "…"

	lines         []string // as they came
	counts        []int    // how many rows each line has
	rows          []string // the lines, wrapped to the width
	top           int      // the first row that is shown
	ends          bool     // the last row is shown, and stays so when lines are added
	width, height int      // of the text
}

// maxPaneLines limits how many lines a pane keeps, and maxLineWidth how much of one it shows.
const (
	maxPaneLines = 10_000
	maxLineWidth = 4_000
)

// tabWidth is the width of a tab on the terminal.
const tabWidth = 4

// add adds lines at the end. The first ones are dropped if there are too many.
func (p *pane) add(lines []string) {
	if p.again {
		p.again, p.lines, p.counts, p.rows = false, nil, nil, nil
	}
	p.lines = append(p.lines, lines...)
	p.wrap(lines)
	if more := len(p.lines) - maxPaneLines; more > 0 {
		dropped := 0
		for _, n := range p.counts[:more] {
			dropped += n
		}
		p.lines, p.counts, p.rows, p.top = slices.Clone(p.lines[more:]),
			slices.Clone(p.counts[more:]), slices.Clone(p.rows[dropped:]), max(p.top-dropped, 0)
	}
	p.scroll(0)
}

// wrap adds the rows of some lines.
func (p *pane) wrap(lines []string) {
	for _, line := range lines {
		rows := p.wrapped(line)
		p.rows, p.counts = append(p.rows, rows...), append(p.counts, len(rows))
	}
}

// resize wraps the lines to another width, and keeps the place.
func (p *pane) resize(width, height int) {
	width, height = max(width, 1), max(height, 1)
	if width != p.width {
		line := 0 // that is shown first
		for rows := 0; line < len(p.counts) && rows+p.counts[line] <= p.top; line++ {
			rows += p.counts[line]
		}
		p.width, p.rows, p.counts, p.top = width, nil, nil, 0
		p.wrap(p.lines)
		for _, n := range p.counts[:line] {
			p.top += n
		}
	}
	p.height = height
	p.scroll(0)
}

// wrapped breaks a line into rows. Each row has the colours that it needs.
func (p *pane) wrapped(line string) []string {
	if p.width == 0 {
		return []string{line}
	}
	line = ansi.Truncate(strings.ReplaceAll(line, "\t", strings.Repeat(" ", tabWidth)),
		maxLineWidth, "…")
	if lipgloss.Width(line) <= p.width {
		return []string{line}
	}
	return strings.Split(lipgloss.Wrap(line, p.width, ""), "\n")
}

// scroll moves the text by a number of rows.
func (p *pane) scroll(by int) {
	last := max(len(p.rows)-p.height, 0)
	if by == 0 && p.ends {
		p.top = last
	}
	p.top = min(max(p.top+by, 0), last)
	p.ends = p.top == last && (p.ends || by != 0)
}

// press handles a key that scrolls, and reports whether it is one.
func (p *pane) press(key string) bool {
	switch key {
	case "up", "k":
		p.scroll(-1)
	case "down", "j":
		p.scroll(1)
	case "pgup", "b", "ctrl+b":
		p.scroll(-max(p.height-1, 1))
	case "pgdown", "space", "f", "ctrl+f":
		p.scroll(max(p.height-1, 1))
	case "home", "g":
		p.scroll(-len(p.rows))
	case "end", "G":
		p.scroll(max(len(p.rows), 1))
	default:
		return false
	}
	return true
}

// draw draws the pane with its title and keys.
func (p *pane) draw(d drawing, width int, foot []string) string {
	lines := []string{p.head(d, width), " " + d.paint.Faint(strings.Repeat("─", max(width-2, 0)))}
	for _, row := range p.rows[p.top:min(p.top+p.height, len(p.rows))] {
		lines = append(lines, " "+row)
	}
	switch {
	case p.failed != "" && len(p.rows) < p.height:
		for _, line := range show.Wrap(p.failed, width-2, max(p.height-len(p.rows), 1)) {
			lines = append(lines, " "+d.paint.Warn(line))
		}
	case len(p.rows) == 0 && p.source != nil:
		for _, line := range show.Wrap(cmp.Or(p.awaits, "…"), width-2, p.height) {
			lines = append(lines, " "+d.paint.Faint(line))
		}
	case len(p.rows) == 0:
		lines = append(lines, " "+d.paint.Faint("nothing"))
	}
	for len(lines) < p.height+paneHead {
		lines = append(lines, "")
	}
	return strings.Join(append(lines[:p.height+paneHead], foot...), "\n")
}

// paneHead is the number of lines above the text.
const paneHead = 2

// head draws the title and which view is open.
func (p *pane) head(d drawing, width int) string {
	var names []string
	for i, name := range tabs {
		switch {
		case p.view == paneHelp:
			continue
		case paneView(i) == p.view:
			name = d.paint.Strong("[" + name + "]")
		default:
			name = d.paint.Faint(name)
		}
		names = append(names, name)
	}
	right := strings.Join(names, " ")
	if width < 60 && p.view != paneHelp {
		right = d.paint.Strong("[" + tabs[p.view] + "]")
	}
	switch place := p.place(); {
	case place == "":
	case right == "":
		right = d.paint.Faint(place)
	default:
		right += d.paint.Faint(" · " + place)
	}
	left := show.Cut(strings.TrimSpace(p.work+"  "+p.title), max(width-3-lipgloss.Width(right), 4))
	return " " + d.paint.Strong(left) + strings.Repeat(" ",
		max(width-2-lipgloss.Width(left)-lipgloss.Width(right), 1)) + right
}

// place returns which part of the text is shown, "" if it is all of it.
func (p *pane) place() string {
	last := len(p.rows) - p.height
	switch {
	case last <= 0:
		return ""
	case p.top >= last:
		return "end"
	case p.top == 0:
		return "top"
	}
	return fmt.Sprintf("%d%%", p.top*100/last)
}
