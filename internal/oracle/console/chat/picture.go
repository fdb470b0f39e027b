package chat

import (
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
)

// picture is what is drawn below the final text.
//
// Bubble Tea loses the place of a picture that gets fewer rows than the cursor needed: the renderer
// moves its idea of the cursor into the new picture, but not the cursor. So a picture keeps these
// rows until it was drawn with the cursor in another row. Pictures are drawn in another goroutine
// and not all of them, so one is drawn with a mark in the rows that are left over, and whatever is
// written after that was the picture, or a later one.
type picture struct {
	view tea.View
	rows int // the cursor may be in these

	shrink shrinkState
	needed int // like rows, for the pictures since the mark
	drawn  int // how often pictures had been drawn at the time of the mark
	mark   int // the length of the mark
}

type shrinkState int

const (
	resting shrinkState = iota
	wanted              // the cursor needs fewer rows
	marked              // a picture with a mark is being drawn
)

// drawTime is about as long as it takes to draw a picture.
const drawTime = 2 * time.Second / framesPerSecond

// set replaces the picture. It returns a command if the picture can get fewer rows later.
func (p *picture) set(v tea.View, height int) tea.Cmd {
	used, cursor := strings.Count(v.Content, "\n")+1, 1
	if v.Cursor != nil {
		cursor = v.Cursor.Y + 1
	}
	p.rows, p.needed = min(max(p.rows, cursor), height), max(p.needed, cursor)
	if p.rows > used {
		v.Content += strings.Repeat("\n", p.rows-used) + strings.Repeat("\u00a0", p.mark)
	}
	p.view = v
	if p.rows <= used || p.shrink != resting {
		return nil
	}
	p.shrink = wanted
	return p.later()
}

func (p *picture) later() tea.Cmd {
	return tea.Tick(drawTime, func(time.Time) tea.Msg { return shrinkMsg{} })
}

// tryShrink removes the rows that are left over, if the picture was drawn with the cursor in
// another row. Drawn is how often pictures have been drawn.
func (p *picture) tryShrink(drawn int) tea.Cmd {
	switch {
	case p.shrink == wanted:
		p.shrink, p.drawn, p.needed, p.mark = marked, drawn, 1, 1+p.mark%2
		if p.view.Cursor != nil {
			p.needed = p.view.Cursor.Y + 1
		}
	case drawn > p.drawn:
		p.shrink, p.rows, p.mark = resting, p.needed, 0
		return nil
	}
	return p.later()
}

// broken returns how many rows more there are above the cursor if the terminal breaks the lines of
// the picture at a width.
func (p *picture) broken(width int) int {
	if p.view.Cursor == nil {
		return 0
	}
	more := p.view.Cursor.X / width
	for _, line := range strings.Split(p.view.Content, "\n")[:p.view.Cursor.Y] {
		more += max(lipgloss.Width(line)-1, 0) / width
	}
	return more
}
