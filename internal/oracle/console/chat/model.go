package chat

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"charm.land/bubbles/v2/key"
	"charm.land/bubbles/v2/textarea"
	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"signalbox/internal/oracle/chunk"
	"signalbox/internal/oracle/console"
	"signalbox/internal/oracle/console/markdown"
	"signalbox/internal/show"
	"signalbox/internal/text"
)

// Messages to the model, besides keys and changes of the window.
type (
	chunkMsg    struct{ chunk chunk.Chunk }
	answeredMsg struct{ err error }
	frameMsg    struct{}             // it is time to render what arrived
	secondMsg   struct{ answer int } // a second of the answer with this number has passed
	printedMsg  struct{ lines int }
	flushMsg    struct{}
	shrinkMsg   struct{} // the picture may have fewer rows
	leaveMsg    struct{} // the process is asked to end
)

// terminal is what the model needs of an output.
type terminal interface {
	Hold()
	Release()
	Flush()
	Up(rows int)
	Writes() int // how often something was written
}

// kind is what a line above the input is part of.
type kind int

const (
	nothing kind = iota
	question
	answer
	note
)

// maxLines is the number of lines that a textarea can have.
const maxLines = 9_999

// model is the state of a chat. It does no I/O except for the history.
type model struct {
	opts   Options
	screen terminal
	ask    func(question string) (tea.Cmd, context.CancelFunc)
	err    error // the result of the chat

	width, height int
	dark          bool
	palette       show.Palette
	picture

	input   textarea.Model
	history *history
	at      int    // the entry of the history that is shown, len(entries) for the draft
	draft   string // what was typed before looking at the history
	search  *search
	status  string // a remark below the input, until the next key

	// How the input looks, nil if it has changed. It takes long to draw a very long one.
	inputLines  []string
	inputCursor *tea.Cursor

	// The text that becomes final: above is not printed yet, and last is its last line.
	above    []string
	last     kind
	printing bool
	prints   int // how often lines were printed

	// The answer that arrives.
	answering bool
	stopping  bool // it was interrupted
	// another ctrl+c leaves as interrupted, also if the answer has ended meanwhile: the last key
	// stopped it
	twice     bool
	cancel    context.CancelFunc
	answers   int // the number of the answer
	seconds   int
	queue     []string // questions that wait
	turn      int
	body      *markdown.Stream
	thoughts  string
	tail      []string // the part that may change, as it was rendered last
	rendering bool     // a frameMsg is on its way

	leaving bool
	suspend bool          // as soon as nothing is being printed
	resumed chan struct{} // closed after a suspension, nil if there is none
}

func newModel(opts Options, past *history) *model {
	m := &model{opts: opts, history: past, at: len(past.entries), dark: true, width: 80, height: 24}
	m.input = textarea.New()
	m.input.ShowLineNumbers = false
	m.input.SetVirtualCursor(false)
	m.input.DynamicHeight = true
	m.input.MaxContentHeight = 1 << 20 // the limit is that of a question
	m.input.EndOfBufferCharacter = ' '
	m.input.Placeholder = "Ask a question"
	m.input.SetPromptFunc(2, func(info textarea.PromptInfo) string {
		if info.LineNumber == 0 {
			return "> "
		}
		return "  "
	})
	keys := &m.input.KeyMap
	keys.InsertNewline = key.NewBinding(key.WithKeys("alt+enter", "shift+enter", "ctrl+j"))
	keys.Paste.SetEnabled(false) // it would run a program; the terminal pastes
	m.restyle()
	m.input.Focus()
	m.body = markdown.NewStream(m.theme())
	return m
}

func (m *model) theme() markdown.Theme { return markdown.NewTheme(m.opts.Colours, m.dark) }

func (m *model) restyle() {
	m.palette = show.NewPalette(m.opts.Colours, m.dark)
	plain := lipgloss.NewStyle()
	state := textarea.StyleState{Prompt: plain.Bold(true), Placeholder: plain.Faint(true)}
	m.input.SetStyles(textarea.Styles{Focused: state, Blurred: state})
	if m.body != nil {
		m.body.SetTheme(m.theme())
	}
}

func (m *model) Init() tea.Cmd {
	if !m.opts.Colours {
		return nil
	}
	return tea.RequestBackgroundColor
}

func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	var cmd tea.Cmd
	switch msg.(type) {
	case chunkMsg, frameMsg, secondMsg, answeredMsg, printedMsg, flushMsg, shrinkMsg:
	default:
		m.inputLines = nil
	}
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.resize(msg.Width, msg.Height)
	case tea.BackgroundColorMsg:
		m.dark = msg.IsDark()
		m.restyle()
	case tea.KeyPressMsg:
		m.status = ""
		cmd = m.press(msg)
	case tea.PasteMsg:
		m.status = ""
		m.paste(msg.Content)
	case tea.ResumeMsg:
		if m.resumed != nil {
			close(m.resumed)
			m.resumed = nil
		}
	case chunkMsg:
		cmd = m.show(msg.chunk)
	case frameMsg:
		m.rendering = false
		m.render()
	case secondMsg:
		if m.answering && msg.answer == m.answers {
			m.seconds++
			cmd = m.second()
		}
	case answeredMsg:
		cmd = m.answered(msg.err)
	case printedMsg:
		m.above, m.printing = m.above[msg.lines:], false
		m.prints++
		if len(m.above) == 0 {
			m.screen.Release()
			cmd = tea.Tick(2*time.Second/framesPerSecond,
				func(time.Time) tea.Msg { return flushMsg{} })
		}
	case flushMsg:
		m.screen.Flush()
	case shrinkMsg:
		if m.printing { // the lines are being written, too
			cmd = m.later()
			break
		}
		cmd = m.tryShrink(m.screen.Writes() - m.prints)
	case leaveMsg:
		m.leave()
	}
	cmd = tea.Batch(cmd, m.print())
	return m, tea.Batch(cmd, m.set(m.draw(), m.height), m.finish())
}

// View returns the picture.
func (m *model) View() tea.View { return m.view }

// columns is the width of lines. The last column stays empty, because terminals differ in what they
// do after a character there.
func (m *model) columns() int { return max(m.width-1, markdown.MinWidth) }

// resize adapts the picture to the window. If the window becomes narrower, the terminal breaks the
// lines of the picture, so that the picture begins further above the cursor than it did.
func (m *model) resize(width, height int) {
	if width <= 0 || height <= 0 {
		return
	}
	if width < m.width {
		if more := m.broken(width); more > 0 {
			m.screen.Up(more)
		}
	}
	m.width, m.height = width, height
	if m.opts.Hint != "" { // the width was not known before
		for _, line := range wrapPlain(m.opts.Hint, min(m.columns(), 100)) {
			m.add(note, m.palette.Faint(line))
		}
		m.opts.Hint = ""
	}
	m.input.MaxHeight = min(max(m.pictureRows()/2, 1), 10)
	m.input.SetWidth(m.columns())
	m.render()
}

// pictureRows is how many rows the picture may have. The rest of the window is room for lines to be
// printed above it.
func (m *model) pictureRows() int { return max(m.height*2/3, 1) }

// print prints lines above the picture: a part at a time, because what does not fit into the window
// together with the picture would be lost.
func (m *model) print() tea.Cmd {
	if m.printing || len(m.above) == 0 {
		return nil
	}
	n := min(len(m.above), max(m.height-m.pictureRows(), 1))
	m.printing = true
	m.screen.Hold()
	return tea.Sequence(tea.Println(strings.Join(m.above[:n], "\n")),
		func() tea.Msg { return printedMsg{n} })
}

// add adds final lines, with an empty line where something else begins.
func (m *model) add(k kind, lines ...string) {
	if len(lines) == 0 {
		return
	}
	if m.apart(k) {
		m.above = append(m.above, "")
	}
	m.above = append(m.above, lines...)
	m.last = k
}

func (m *model) apart(k kind) bool {
	return m.last == question || m.last == note && k == answer
}

// fail shows an error.
func (m *model) fail(err error) {
	lines := wrapPlain(text.Printable(err.Error()), m.columns()-4)
	for i, line := range lines {
		mark := "    "
		if i == 0 {
			mark = "  ✗ "
		}
		lines[i] = m.palette.Bad(mark + line)
	}
	m.add(note, lines...)
}

// finish ends or suspends the chat when everything is printed.
func (m *model) finish() tea.Cmd {
	switch {
	case m.printing || len(m.above) > 0 || m.shrink != resting:
		return nil
	case m.leaving:
		m.screen.Flush()
		return tea.Quit
	case m.suspend:
		m.suspend = false
		m.screen.Flush()
		if m.resumed != nil { // it is being suspended
			return nil
		}
		m.resumed = make(chan struct{})
		return suspend(m.resumed)
	}
	return nil
}

func (m *model) leave() {
	if m.answering {
		m.cancel()
		m.endText()
		m.err = ErrInterrupted
	}
	m.leaving = true
}

// send sends the question that was typed, or puts it into the queue.
func (m *model) send() tea.Cmd {
	q := strings.TrimSpace(m.input.Value())
	switch {
	case q == "":
		return nil
	case m.opts.MaxQuestion > 0 && len(q) > m.opts.MaxQuestion:
		m.status = fmt.Sprintf("the question is longer than %d bytes", m.opts.MaxQuestion)
		return nil
	}
	err := m.history.Add(q)
	m.input.Reset()
	m.at, m.draft = len(m.history.entries), ""
	if err != nil {
		m.history.name = "" // once is enough
		m.fail(fmt.Errorf("the history is not stored: %w", err))
	}
	if m.answering {
		m.queue = append(m.queue, q)
		return nil
	}
	return m.start(q)
}

func (m *model) start(q string) tea.Cmd {
	var lines []string
	for i, line := range strings.Split(printableLines(q), "\n") {
		for j, part := range wrapPlain(line, m.columns()-2) {
			prompt := "  "
			if i+j == 0 {
				prompt = "> "
			}
			lines = append(lines, m.palette.Strong(prompt+part))
		}
	}
	if m.last != nothing { // also after another question
		m.above = append(m.above, "")
		m.last = nothing
	}
	m.add(question, lines...)
	ask, cancel := m.ask(q)
	m.answering, m.stopping, m.cancel = true, false, cancel
	m.answers++
	m.seconds, m.turn = 0, 0
	return tea.Batch(ask, m.second())
}

func (m *model) second() tea.Cmd {
	number := m.answers
	return tea.Tick(time.Second, func(time.Time) tea.Msg { return secondMsg{number} })
}

// answered ends an answer and starts the next one.
func (m *model) answered(err error) tea.Cmd {
	m.endText()
	m.cancel()
	m.answering = false
	switch {
	case err == nil || m.leaving:
	case m.opts.Fatal != nil && m.opts.Fatal(err):
		m.err = err
		m.leaving = true
		return nil
	default:
		m.fail(err)
	}
	if len(m.queue) == 0 || m.leaving {
		return nil
	}
	next := m.queue[0]
	m.queue = m.queue[1:]
	return m.start(next)
}

// interrupt stops the answer, clears the input, or leaves.
func (m *model) interrupt() {
	switch {
	case m.answering && !m.stopping:
		m.stopping, m.twice = true, true
		m.cancel()
		if len(m.queue) > 0 {
			m.setInput(strings.Join(append(m.queue, m.input.Value()), "\n"))
			m.queue = nil
		}
	case m.answering || m.input.Value() == "":
		m.leave()
		if m.twice {
			m.err = ErrInterrupted
		}
	default:
		m.twice = false
		m.input.Reset()
		m.at, m.draft = len(m.history.entries), ""
	}
}

// show takes up a chunk.
func (m *model) show(c chunk.Chunk) tea.Cmd {
	switch c := c.(type) {
	case chunk.Content:
		m.endThoughts()
		if c.Turn != m.turn {
			m.endText()
			m.turn = c.Turn
		}
		m.body.Write(c.Text)
		return m.renderSoon()
	case chunk.Reasoning:
		if !m.opts.Reasoning {
			return nil
		}
		m.endBody()
		m.thoughts += c.Text
		return m.renderSoon()
	case chunk.System:
		if c.Name == chunk.ReplyRestarted { // the same text comes again
			m.body.Reset()
		}
	}
	m.endText()
	for _, n := range console.Notes(c) {
		line := n.Line(m.columns())
		switch n.Mark {
		case "✗":
			line = m.palette.Bad(line)
		case "!":
			line = m.palette.Warn(line)
		default:
			line = m.palette.Faint(line)
		}
		m.add(note, line)
	}
	return nil
}

// renderSoon limits how often arriving text is rendered.
func (m *model) renderSoon() tea.Cmd {
	if m.rendering {
		return nil
	}
	m.rendering = true
	return tea.Tick(frameInterval, func(time.Time) tea.Msg { return frameMsg{} })
}

// render moves what is final from the answer to the text above, and renders the rest.
func (m *model) render() {
	m.add(answer, m.body.Take(m.columns())...)
	if i := strings.LastIndexByte(m.thoughts, '\n'); i >= 0 {
		m.add(note, m.thoughtLines(m.thoughts[:i])...)
		m.thoughts = m.thoughts[i+1:]
	}
	m.tail = slices.Concat(m.thoughtLines(m.thoughts), m.body.Tail(m.columns()))
	if len(m.tail) > 0 && m.apart(answer) && m.thoughts == "" {
		m.tail = append([]string{""}, m.tail...)
	}
}

func (m *model) thoughtLines(thoughts string) []string {
	if thoughts == "" {
		return nil
	}
	var lines []string
	for line := range strings.SplitSeq(printableLines(thoughts), "\n") {
		for _, part := range wrapPlain(line, m.columns()) {
			lines = append(lines, m.palette.Faint(part))
		}
	}
	return lines
}

// endText makes everything final that has arrived.
func (m *model) endText() {
	m.endThoughts()
	m.endBody()
}

func (m *model) endThoughts() {
	if m.thoughts != "" {
		m.add(note, m.thoughtLines(m.thoughts)...)
		m.thoughts, m.tail = "", nil
	}
}

func (m *model) endBody() {
	m.add(answer, m.body.Close(m.columns())...)
	m.tail = nil
	if m.last == answer {
		m.last = note // another text begins with an empty line
	}
}
