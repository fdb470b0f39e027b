package progress

import (
	"fmt"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"signalbox/internal/core/rules"
	"signalbox/internal/run/steer"
	"signalbox/internal/show"
)

// decision is what the user decides on a screen.
type decision steer.Decision

// draft is the key under which an unfinished text for the decision is kept.
func (d decision) draft() string { return fmt.Sprint(d.What, " ", d.Work, "/", d.Question) }

// title says what the user decides.
func (d decision) title() string {
	switch d.What {
	case steer.Answer:
		return "answer " + d.Question
	case rules.OrderApprove:
		return "approve the merge of " + d.Work
	case steer.Reject:
		return "reject the merge of " + d.Work
	case steer.Rework:
		return "send " + d.Work + " back: what do you want?"
	}
	return "tell the agent of " + d.Work
}

// form is where the user writes a text, or looks at what is to be approved.
type form struct {
	decision
	about   []string // what the user should know, as escaped lines
	known   bool     // about is complete, or cannot be found out
	top     int      // the first row of about that is shown
	field   field
	sending bool
	failed  string // why it was not carried out
}

// newForm returns a form for a decision, with the text that was written before.
func newForm(d decision, draft string) *form {
	return &form{decision: d, field: newField(draft)}
}

// writes reports whether the user writes a text.
func (f *form) writes() bool { return f.What != rules.OrderApprove }

// formHead is the number of lines above what a form shows.
const formHead = 2

// maxFieldHeight is the most lines of a field that are shown at once.
const maxFieldHeight = 12

// layout returns the heights of what the text is about and of the field.
func (f *form) layout(width, height, foot int) (about, field int) {
	room := max(height-formHead-foot, 1)
	if !f.writes() {
		return room, 0
	}
	field = min(max(len(f.field.rows(fieldWidth(width))), 3), maxFieldHeight, max(room/2, 1))
	return min(max(room-field-1, 0), len(f.rows(max(width-2, 1)))), field
}

// draw draws the form. cursor is where the user writes, nil if nowhere.
func (f *form) draw(d drawing, width, height int,
	foot []string) (drawn string, cursor *tea.Cursor) {
	inner := max(width-2, 1)
	about, field := f.layout(width, height, len(foot))
	lines := []string{" " + d.paint.Strong(show.Cut(f.title(), inner)), " " +
		d.paint.Faint(strings.Repeat("─", inner))}
	rows := f.rows(inner)
	last := max(len(rows)-about, 0)
	top := min(f.top, last)
	shown := rows[top:min(top+about, len(rows))]
	for i, row := range shown {
		if i == len(shown)-1 && top < last {
			row = d.paint.Faint(fmt.Sprintf("… %d more rows: pgdown", last-top+1))
		}
		lines = append(lines, " "+row)
	}
	for len(lines) < formHead+about {
		lines = append(lines, "")
	}
	if f.writes() {
		lines = append(lines, "")
		written, x, y := f.field.draw(fieldWidth(width), field)
		cursor = tea.NewCursor(x+3, y+len(lines))
		for i := range field {
			line := ""
			if i < len(written) {
				line = written[i]
			}
			lines = append(lines, strings.TrimRight(" "+d.paint.Busy("┃")+" "+line, " "))
		}
	}
	for len(lines) < height-len(foot) {
		lines = append(lines, "")
	}
	lines = lines[:min(len(lines), max(height-len(foot), 0))]
	return strings.Join(slices.Concat(lines, foot), "\n"), cursor
}

// fieldWidth returns the width of the text in a field: the last column is for the cursor.
func fieldWidth(width int) int { return max(width-4, 1) }

// rows wraps what the text is about.
func (f *form) rows(width int) (rows []string) {
	if !f.known {
		return []string{"…"}
	}
	for _, line := range f.about {
		rows = append(rows, strings.Split(lipgloss.Wrap(strings.ReplaceAll(line, "\t",
			strings.Repeat(" ", tabWidth)), width, ""), "\n")...)
	}
	return rows
}

// scroll moves what the text is about.
func (f *form) scroll(by, width, height, foot int) {
	about, _ := f.layout(width, height, foot)
	f.top = min(max(f.top+by*max(about-1, 1), 0), max(len(f.rows(max(width-2, 1)))-about, 0))
}
