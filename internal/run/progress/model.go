package progress

import (
	"time"

	tea "charm.land/bubbletea/v2"
)

const (
	// framesPerSecond is how often the terminal is written to at most.
	framesPerSecond = 15
	// betweenTicks is how often the board is drawn while somebody is at work.
	betweenTicks = 200 * time.Millisecond
	// beforeRest is how long nothing must be able to go on before the terminal is given back.
	beforeRest = time.Second
)

// What happens to a screen, beside keys and changes of the window.
type (
	looked struct{ view view }  // the ledger has moved
	ticked struct{}             // some time has passed, and somebody is at work
	warned struct{}             // something was written to standard error
	rested struct{ seq uint64 } // some time has passed since nothing could go on
	over   struct{ err error }  // there is nothing more to show
)

// screenModel is the state of a screen.
type screenModel struct {
	screen        *screen
	view          view
	drawing       drawing
	width, height int
	now           time.Time // stands still while nobody is at work
	ticking       bool
	resting       bool  // whether rested is on its way
	interrupted   bool  // by keys
	settled       bool  // it ended because nothing can go on
	broken        error // why the ledger cannot be followed
}

func (m *screenModel) Init() tea.Cmd {
	m.now = time.Now()
	return tea.Batch(tea.RequestBackgroundColor, m.next())
}

// next asks for what is to happen by itself.
func (m *screenModel) next() tea.Cmd { return tea.Batch(m.tick(), m.rest()) }

// rest asks for the end if nothing can go on, and still cannot in a while.
func (m *screenModel) rest() tea.Cmd {
	if m.resting || !m.view.rests() {
		return nil
	}
	m.resting = true
	seen := m.view.seq
	return tea.Tick(beforeRest, func(time.Time) tea.Msg { return rested{seen} })
}

// tick asks for one more tick if somebody is at work and none is on its way.
func (m *screenModel) tick() tea.Cmd {
	if m.ticking || m.view.running == 0 {
		return nil
	}
	m.ticking = true
	return tea.Tick(betweenTicks, func(time.Time) tea.Msg { return ticked{} })
}

func (m *screenModel) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tea.BackgroundColorMsg:
		m.screen.dark = msg.IsDark()
		m.drawing.paint = paletteFor(m.screen.colours, m.screen.dark)
	case looked:
		m.view, m.now = msg.view, time.Now()
		return m, m.next()
	case ticked:
		m.ticking = false
		m.drawing.frame++
		m.view, _ = m.screen.look()
		m.now = time.Now()
		return m, m.next()
	case rested:
		m.resting = false
		if m.view.seq != msg.seq || m.drawing.asks {
			return m, m.rest()
		}
		m.settled = true
		return m, tea.Quit
	case warned:
		m.view.warning = onScreen(m.screen.o.Stderr.last())
	case over:
		m.broken = msg.err
		return m, tea.Quit
	case tea.KeyPressMsg:
		return m.press(msg.String())
	}
	return m, nil
}

func (m *screenModel) press(key string) (tea.Model, tea.Cmd) {
	if key == "q" || key == "ctrl+c" {
		if m.drawing.asks {
			m.interrupted = true
			return m, tea.Quit
		}
		m.drawing.asks = true
		return m, nil
	}
	if key == "?" && !m.drawing.asks {
		m.drawing.legend = !m.drawing.legend
	}
	m.drawing.asks = false
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
