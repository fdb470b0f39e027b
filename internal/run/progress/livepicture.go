package progress

import (
	"fmt"
	"io"
	"strings"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
)

// Picture shows lines on a terminal and updates them in place until it is closed. It reads no keys.
type Picture struct {
	program *tea.Program
	ended   chan struct{}
}

// NewPicture starts drawing on a terminal.
func NewPicture(terminal io.Writer) *Picture {
	p := &Picture{ended: make(chan struct{}),
		program: tea.NewProgram(&pictureModel{height: 24, width: 80}, tea.WithOutput(terminal),
			tea.WithInput(nil), tea.WithoutSignalHandler(), tea.WithFPS(framesPerSecond))}
	go func() {
		defer close(p.ended)
		p.program.Run() // best effort: a terminal that cannot draw shows nothing
	}()
	return p
}

// Show replaces the lines. The line with index focus stays visible, and so does the status below
// them.
func (p *Picture) Show(lines []string, focus int, status string) {
	select {
	case <-p.ended:
	default:
		p.program.Send(pictureMsg{lines, focus, status})
	}
}

// Close removes the picture and restores the terminal.
func (p *Picture) Close() {
	p.program.Quit()
	<-p.ended
}

type pictureMsg struct {
	lines  []string
	focus  int
	status string
}

type pictureModel struct {
	pictureMsg
	width, height int
}

func (m *pictureModel) Init() tea.Cmd { return nil }

func (m *pictureModel) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case pictureMsg:
		m.pictureMsg = msg
	}
	return m, nil
}

func (m *pictureModel) View() tea.View {
	lines := cropped(m.lines, m.focus, m.width, m.height-1)
	v := tea.NewView(strings.Join(append(lines,
		lipgloss.NewStyle().MaxWidth(max(m.width, 10)).Render(m.status)), "\n"))
	v.AltScreen = true // restores the terminal afterwards
	return v
}

// cropped returns as many lines as fit, around the one in focus.
func cropped(lines []string, focus, width, height int) []string {
	height = max(height, 3)
	from, to := 0, len(lines)
	if to > height {
		from = min(max(focus-height/2, 0), to-height)
		to = from + height
	}
	var shown []string
	narrow := lipgloss.NewStyle().MaxWidth(max(width, 10))
	for _, line := range lines[from:to] {
		shown = append(shown, narrow.Render(line))
	}
	if from > 0 {
		shown[0] = fmt.Sprintf("… %d lines above", from+1)
	}
	if to < len(lines) {
		shown[len(shown)-1] = fmt.Sprintf("… %d lines below", len(lines)-to+1)
	}
	return shown
}
