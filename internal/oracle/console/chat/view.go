package chat

import (
	"fmt"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"signalbox/internal/text"
)

// usualShape leaves the shape of the cursor to the terminal. Bubble Tea encodes a steady cursor of
// a shape n as 2n+2, and 0 is the sequence for the shape that the user has chosen.
const usualShape tea.CursorShape = -1

// draw draws the picture: the end of the answer, waiting questions, the input and a remark.
func (m *model) draw() tea.View {
	if m.leaving {
		return tea.NewView("")
	}
	if m.inputLines == nil {
		m.inputLines, m.inputCursor = m.drawInput()
	}
	input, at := m.inputLines, *m.inputCursor
	cursor := &at
	room := m.pictureRows()
	input = input[:min(len(input), room)]
	room -= len(input)
	var below, gap, waiting []string
	if status := m.statusLine(); status != "" && room > 0 {
		below = append(below, m.palette.Faint(ansi.Truncate(status, m.columns(), "…")))
		room--
	}
	if (m.last != nothing || len(m.tail) > 0) && room > 0 {
		gap = []string{""}
		room--
	}
	for _, q := range m.queue[:min(len(m.queue), room/2)] {
		waiting = append(waiting,
			m.palette.Faint(ansi.Truncate("  next: "+onOneLine(q), m.columns(), "…")))
	}
	room -= len(waiting)
	lines := slices.Concat(m.tail[max(len(m.tail)-room, 0):], waiting, gap)
	cursor.Y += len(lines)
	cursor.Shape, cursor.Blink = usualShape, false
	lines = append(append(lines, input...), below...)
	v := tea.NewView(strings.Join(lines, "\n"))
	v.Cursor = cursor
	return v
}

// drawInput draws the input, or the search.
func (m *model) drawInput() ([]string, *tea.Cursor) {
	if m.search == nil {
		lines := strings.Split(m.input.View(), "\n")
		for i, line := range lines {
			lines[i] = strings.TrimRight(line, " ") // so that a narrower window does not break it
		}
		cursor := m.input.Cursor()
		if cursor.X > m.width-1 {
			cursor.X = m.width - 1
		}
		return lines, cursor
	}
	entry, found := m.search.found()
	label := "search: "
	if !found && m.search.query != "" {
		label = "nothing found: "
	}
	query := ansi.TruncateLeft(m.search.query,
		max(ansi.StringWidth(m.search.query)-(m.columns()-len(label)-1), 0), "")
	lines := []string{m.palette.Faint(label) + query}
	if found {
		lines = append(lines, ansi.Truncate("  "+onOneLine(entry), m.columns(), "…"))
	}
	return lines, tea.NewCursor(len(label)+ansi.StringWidth(query), 0)
}

func (m *model) statusLine() string {
	switch {
	case m.status != "":
		return "  " + m.status
	case m.search != nil:
		return "  Enter takes it, Ctrl-R searches on, Esc ends the search"
	case m.stopping && m.answering:
		return "  stopping; Ctrl-C leaves"
	case m.answering:
		return fmt.Sprintf("  answering, %d s; Ctrl-C stops", m.seconds)
	}
	return ""
}

// onOneLine returns printable text on one line.
func onOneLine(s string) string { return text.Printable(strings.Join(strings.Fields(s), " ")) }

// wrapPlain breaks printable text into lines. Empty text is one empty line.
func wrapPlain(s string, width int) []string { return strings.Split(ansi.Wrap(s, width, ""), "\n") }

// printableLines returns text that a terminal shows as it is, with its line ends.
func printableLines(s string) string {
	var b strings.Builder
	e := text.NewEscaper(&b)
	// cannot fail: it writes to memory
	e.Write([]byte(strings.NewReplacer("\r\n", "\n", "\t", "    ").Replace(s)))
	e.Close()
	return b.String()
}
