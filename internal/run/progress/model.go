package progress

import (
	"time"

	tea "charm.land/bubbletea/v2"

	"signalbox/internal/run/show"
)

const (
	// framesPerSecond limits how often the terminal is written to.
	framesPerSecond = 15
	// tickInterval is how often the board is drawn while an agent is at work.
	tickInterval = 200 * time.Millisecond
	// confirmTime is how long the question whether to stop is open. A key that is pressed later is not an answer to it.
	confirmTime = 10 * time.Second
)

// Messages to a screen, besides keys and changes of the window.
type (
	viewMsg    struct{ view view } // the ledger changed
	tickMsg    struct{}            // time passed while an agent is at work
	warnMsg    struct{}            // something was written to standard error
	confirmMsg struct{ n int }     // confirmTime has passed since the user was asked for the nth time whether to stop
	endMsg     struct{ err error } // there is nothing more to show
)

// screenModel is the state of a screen.
type screenModel struct {
	screen        *screen
	view          view
	drawing       drawing
	width, height int
	now           time.Time // does not advance while no agent is at work
	ticking       bool
	confirms      int   // how often the user was asked whether to stop
	interrupted   bool  // by keys
	broken        error // why the ledger cannot be followed
}

func (m *screenModel) Init() tea.Cmd {
	m.now = time.Now()
	return tea.Batch(tea.RequestBackgroundColor, m.tick())
}

// tick starts a timer if an agent is at work and none is running.
func (m *screenModel) tick() tea.Cmd {
	if m.ticking || m.view.running == 0 {
		return nil
	}
	m.ticking = true
	return tea.Tick(tickInterval, func(time.Time) tea.Msg { return tickMsg{} })
}

func (m *screenModel) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tea.BackgroundColorMsg:
		m.screen.dark = msg.IsDark()
		m.drawing.paint = show.NewPalette(m.screen.colours, m.screen.dark)
	case viewMsg:
		m.view, m.now = msg.view, time.Now()
		return m, m.tick()
	case tickMsg:
		m.ticking = false
		m.drawing.frame++
		m.view, _ = m.screen.view()
		m.now = time.Now()
		return m, m.tick()
	case confirmMsg:
		if msg.n == m.confirms {
			m.drawing.confirmStop = false
		}
	case warnMsg:
		m.view.warning = onScreen(m.screen.o.Stderr.last())
	case endMsg:
		m.broken = msg.err
		return m, tea.Quit
	case tea.KeyPressMsg:
		return m.press(msg.String())
	}
	return m, nil
}

func (m *screenModel) press(key string) (tea.Model, tea.Cmd) {
	if key == "q" || key == "ctrl+c" {
		if m.drawing.confirmStop || m.screen.o.Watch {
			m.interrupted = true
			return m, tea.Quit
		}
		m.drawing.confirmStop = true
		m.confirms++
		asked := m.confirms
		return m, tea.Tick(confirmTime, func(time.Time) tea.Msg { return confirmMsg{asked} })
	}
	if key == "ctrl+z" && canSuspend() {
		return m, tea.Suspend
	}
	if key == "?" && !m.drawing.confirmStop {
		m.drawing.legend = !m.drawing.legend
	}
	m.drawing.confirmStop = false
	last := maxOffset(m.view, m.width, m.height, m.drawing)
	offset, page := min(m.drawing.offset, last), max(m.height/2, 1)
	switch key {
	case "up", "k":
		offset--
	case "down", "j":
		offset++
	case "pgup":
		offset -= page
	case "pgdown", "space":
		offset += page
	case "home", "g":
		offset = 0
	case "end", "G":
		offset = last
	}
	m.drawing.offset = min(max(offset, 0), last)
	return m, nil
}

func (m *screenModel) View() tea.View {
	v := tea.NewView("")
	v.AltScreen = true
	if m.width > 0 {
		v.SetContent(board(m.view, m.width, m.height, m.now, m.drawing))
	}
	return v
}
