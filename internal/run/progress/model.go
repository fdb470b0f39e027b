package progress

import (
	"errors"
	"slices"
	"time"

	tea "charm.land/bubbletea/v2"

	"signalbox/internal/core/rules"
	"signalbox/internal/run/inspect"
	"signalbox/internal/run/inspect/render"
	"signalbox/internal/run/steer"
	"signalbox/internal/show"
)

const (
	// framesPerSecond limits how often the terminal is written to.
	framesPerSecond = 15
	// tickInterval is how often the board is drawn while an agent is at work.
	tickInterval = 200 * time.Millisecond
	// confirmTime is how long the question whether to stop is open. A key that is pressed later is
	// not an answer to it.
	confirmTime = 10 * time.Second
	// saidTime is how long the screen says what a decision did. Later it may not be true any more.
	saidTime = 15 * time.Second
	// typingPause ends what the user types for a form that did not open.
	typingPause = time.Second
)

// Messages to a screen, besides keys and changes of the window.
type (
	viewMsg struct{ view view } // the ledger changed
	tickMsg struct{}            // time passed while an agent is at work
	// the time that the header shows has changed while no agent is at work
	clockMsg struct{}
	warnMsg  struct{} // something was written to standard error
	// confirmTime has passed since the user was asked for the nth time whether to stop
	confirmMsg struct{ n int }
	// saidTime has passed since the screen said for the nth time what a decision did
	saidMsg struct{ n int }
	endMsg  struct{ err error } // there is nothing more to show
)

// screenModel is the state of a screen: the board, and above it a pane that the user reads or a
// form that the user fills in.
type screenModel struct {
	screen        *screen
	view          view
	drawing       drawing
	width, height int
	now           time.Time
	ticking       bool  // a tickMsg will come
	clockTicking  bool  // a clockMsg will come
	confirms      int   // how often the user was asked whether to stop
	sayings       int   // how often the screen said something about what the user did
	interrupted   bool  // by keys
	broken        error // why the ledger cannot be followed
	// typing is when the user pressed a key for a form that did not open, or typed on after it;
	// zero if not. Such text must not act as keys of the board.
	typing time.Time

	pane   *pane             // that is open, nil if none is
	help   *pane             // the keys, above the pane; nil if they are not shown
	form   *form             // that is open, nil if none is
	drafts map[string]string // texts that were written and not sent
}

func (m *screenModel) Init() tea.Cmd {
	m.now = time.Now()
	return tea.Batch(tea.RequestBackgroundColor, m.tick())
}

// tick starts the timer for the next change that no event announces, unless it is running: of what
// an agent does, or else of the time in the header.
func (m *screenModel) tick() tea.Cmd {
	switch {
	case m.view.running > 0 && !m.ticking:
		m.ticking = true
		return tea.Tick(tickInterval, func(time.Time) tea.Msg { return tickMsg{} })
	case m.view.running == 0 && !m.clockTicking && !m.drawing.watch: // a watched run shows no time
		m.clockTicking = true
		return tea.Tick(untilClockChanges(time.Since(m.view.began)),
			func(time.Time) tea.Msg { return clockMsg{} })
	}
	return nil
}

// untilClockChanges returns how long the header shows an elapsed time: it has seconds in the first
// hour, and minutes after that.
func untilClockChanges(elapsed time.Duration) time.Duration {
	unit := time.Second
	if elapsed >= time.Hour {
		unit = time.Minute
	}
	return unit - max(elapsed, 0)%unit
}

func (m *screenModel) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		wider := m.width != msg.Width
		m.width, m.height = msg.Width, msg.Height
		m.fit()
		if wider && m.pane != nil && m.pane.view == paneDetails { // its tables depend on the width
			m.pane.version = ""
			return m, m.reread()
		}
	case tea.BackgroundColorMsg:
		m.screen.dark = msg.IsDark()
		m.drawing.paint = show.NewPalette(m.screen.colours, m.screen.dark)
	case viewMsg:
		m.setView(msg.view)
		m.now = time.Now()
		m.fit()
		return m, tea.Batch(m.tick(), m.reread())
	case tickMsg:
		m.ticking = false
		m.drawing.frame++
		v, _ := m.screen.view()
		m.setView(v)
		m.now = time.Now()
		m.fit()
		return m, m.tick()
	case clockMsg: // the view is as it was: drawing it costs little, making it may not
		m.clockTicking, m.now = false, time.Now()
		return m, m.tick()
	case confirmMsg:
		if msg.n == m.confirms {
			m.drawing.confirmStop = false
		}
	case saidMsg:
		if msg.n == m.sayings && !m.drawing.saidBad {
			m.drawing.said = ""
			m.fit()
		}
	case warnMsg:
		m.view.warning = onScreen(m.screen.o.Stderr.last())
		m.fit()
	case endMsg:
		m.broken = msg.err
		m.closePane()
		return m, tea.Quit
	case linesMsg:
		return m, m.receive(msg)
	case aboutMsg:
		m.inform(msg)
	case decidedMsg:
		m.decided(msg)
		n := m.sayings
		return m, tea.Tick(saidTime, func(time.Time) tea.Msg { return saidMsg{n} })
	case tea.PasteMsg:
		if m.form != nil && m.form.writes() && !m.form.sending {
			m.drawing.confirmStop, m.form.failed = false, ""
			m.form.field.insert(msg.Content)
		}
	case tea.KeyPressMsg:
		return m.press(msg)
	}
	return m, nil
}

// setView replaces the view. What the next key acts on stays the same while it waits for the user,
// also if something else begins to wait above it: a key must not decide about what the user did not
// choose.
func (m *screenModel) setView(v view) {
	if at := m.drawing.target; at < len(m.view.questions) {
		was := m.view.questions[at]
		same := func(q asked) bool { return q.id == was.id && q.work == was.work }
		if i := slices.IndexFunc(v.questions, same); i >= 0 {
			m.drawing.target = i
		}
	}
	m.view = v
}

// fit adapts the board and the pane to the window and to what is shown.
func (m *screenModel) fit() {
	if m.width <= 0 {
		return
	}
	m.drawing.target = min(max(m.drawing.target, 0), max(len(m.view.questions)-1, 0))
	m.drawing.offset = scrolled(m.view, m.width, m.height, m.drawing)
	for _, p := range []*pane{m.pane, m.help} {
		if p != nil {
			p.resize(m.width-2, m.height-paneHead-len(m.paneFoot()))
		}
	}
}

// top returns the pane that is on top, nil if none is open.
func (m *screenModel) top() *pane {
	if m.help != nil {
		return m.help
	}
	return m.pane
}

// press handles a key: of the form, the pane or the board, whichever is on top. The keys that stop
// and suspend the run work everywhere.
func (m *screenModel) press(msg tea.KeyPressMsg) (tea.Model, tea.Cmd) {
	key := msg.String()
	if key == "alt+esc" { // the key twice, quickly
		key = "esc"
	}
	defer m.fit()
	if msg.Text != "" && time.Since(m.typing) < typingPause {
		m.typing = time.Now()
		return m, nil
	}
	m.typing = time.Time{}
	m.drawing.said = ""
	asked := m.drawing.confirmStop
	m.drawing.confirmStop = false
	switch stops := key == "ctrl+c" || key == "q" && m.form == nil && m.top() == nil; {
	case stops && (asked || m.drawing.watch):
		m.interrupted = true
		m.closePane()
		return m, tea.Quit
	case asked && key == "q" && m.form == nil: // in a pane, after ctrl+c
		m.interrupted = true
		m.closePane()
		return m, tea.Quit
	case stops:
		m.drawing.confirmStop = true
		m.confirms++
		n := m.confirms
		return m, tea.Tick(confirmTime, func(time.Time) tea.Msg { return confirmMsg{n} })
	case key == "ctrl+z":
		if canSuspend() {
			return m, tea.Suspend
		}
		return m, nil
	case asked && m.form == nil: // the key only answers that the run continues
		return m, nil
	case m.form != nil:
		return m, m.pressForm(key, msg)
	case m.top() != nil:
		return m, m.pressPane(key)
	}
	return m, m.pressBoard(key)
}

// pressBoard handles a key on the board.
func (m *screenModel) pressBoard(key string) tea.Cmd {
	order := laneOrder(m.view, m.width, m.height, m.drawing)
	at := slices.IndexFunc(order, func(l lane) bool { return l.id == m.drawing.selected })
	page := max(m.height/2, 1)
	switch key {
	case "up", "k":
		if at--; at < -1 {
			at = len(order) - 1
		}
	case "down", "j":
		at++
	case "pgup":
		at -= page
	case "pgdown", "space":
		at += page
	case "home", "g":
		at = 0
	case "end", "G":
		at = len(order) - 1
	case "esc":
		m.drawing.selected = ""
		return nil
	case "tab":
		if n := len(m.view.questions); n > 0 {
			m.drawing.target = (m.drawing.target + 1) % n
			m.drawing.selected = m.view.questions[m.drawing.target].work
		}
		return nil
	case "enter", "l":
		return m.openPane(m.subject(), paneTranscript)
	case "d":
		return m.openPane(m.subject(), paneDiff)
	case "i":
		return m.openPane(m.subject(), paneDetails)
	case "?":
		m.openHelp()
		return nil
	default:
		return m.act(key, m.subject())
	}
	if len(order) > 0 {
		m.choose(order[min(max(at, 0), len(order)-1)].id)
	}
	return nil
}

// choose selects a task. If it waits for the user, that is what the user acts on next.
func (m *screenModel) choose(id string) {
	m.drawing.selected = id
	if i := slices.IndexFunc(m.view.questions, func(q asked) bool { return q.work == id }); i >= 0 {
		m.drawing.target = i
	}
}

// subject returns the task that keys on the board are about: the selected one, or else the one that
// waits for the user, or else the first.
func (m *screenModel) subject() string {
	if slices.ContainsFunc(m.view.lanes, func(l lane) bool { return l.id == m.drawing.selected }) {
		return m.drawing.selected
	}
	if m.drawing.target < len(m.view.questions) && m.view.questions[m.drawing.target].work != "" {
		return m.view.questions[m.drawing.target].work
	}
	for _, l := range m.view.lanes {
		if l.is == inspect.Working {
			return l.id
		}
	}
	if len(m.view.lanes) > 0 {
		return m.view.lanes[0].id
	}
	return ""
}

// act handles the keys with which the user decides something about a task.
func (m *screenModel) act(key, work string) tea.Cmd {
	if m.drawing.readOnly || m.drawing.noKeys {
		return nil
	}
	switch key {
	case "a":
		return m.actOnTarget(work)
	case "x":
		return m.openForm(decision{What: steer.Reject, Work: work})
	case "r":
		return m.openForm(decision{What: steer.Rework, Work: work})
	case "t":
		return m.openForm(decision{What: steer.Tell, Work: work})
	case "p":
		return m.pauseOrResume(work)
	}
	return nil
}

// actOnTarget opens the form for what waits for the user: in a pane, that of its task.
func (m *screenModel) actOnTarget(work string) tea.Cmd {
	at := m.drawing.target
	if m.pane != nil {
		at = slices.IndexFunc(m.view.questions, func(q asked) bool { return q.work == work })
	}
	if at < 0 || at >= len(m.view.questions) {
		return nil
	}
	q := m.view.questions[at]
	if q.id == "" {
		return m.openForm(decision{What: rules.OrderApprove, Work: q.work})
	}
	return m.openForm(decision{What: steer.Answer, Work: q.work, Question: q.id})
}

// pauseOrResume ends the pause of the run, or of a task. If neither is paused, it pauses the run:
// agents that work finish their turn, and p resumes.
func (m *screenModel) pauseOrResume(work string) tea.Cmd {
	switch i := slices.IndexFunc(m.view.lanes,
		func(l lane) bool { return l.id == work && l.is == inspect.Paused }); {
	case m.view.paused:
		return m.screen.carryOut(decision{What: rules.OrderResume})
	case i >= 0:
		return m.screen.carryOut(decision{What: rules.OrderResume, Work: work})
	case m.view.standing == rules.StandingComplete || m.view.standing == rules.StandingEmpty:
		return nil
	}
	return m.screen.carryOut(decision{What: rules.OrderPause})
}

// openPane opens a view of a task.
func (m *screenModel) openPane(work string, view paneView) tea.Cmd {
	if work == "" {
		return nil
	}
	m.closePane()
	m.drawing.selected = work
	m.pane = &pane{work: work, view: view, ends: view == paneTranscript}
	m.pane.title, m.pane.version = m.describe(work)
	if view == paneTranscript && !m.screen.hasTranscript(work) {
		m.pane.awaits = onScreen("no agent has worked on " + work + " yet; its output appears here")
	}
	m.pane.source = m.screen.open(work, view, m.renderOptions())
	m.fit()
	return m.pane.source.next()
}

// renderOptions describes the place for the text of a pane.
func (m *screenModel) renderOptions() render.Options {
	return render.Options{Paint: m.drawing.paint, Width: max(m.width-2, 1)}
}

// describe returns the title of a task, and its version: what it is at.
func (m *screenModel) describe(work string) (title, version string) {
	i := slices.IndexFunc(m.view.lanes, func(l lane) bool { return l.id == work })
	if i < 0 {
		return "", ""
	}
	return m.view.lanes[i].title, m.view.lanes[i].version()
}

// reread reads the text of the pane again if its task has moved. Transcripts follow by themselves.
func (m *screenModel) reread() tea.Cmd {
	p := m.pane
	if p == nil || p.view != paneDiff && p.view != paneDetails {
		return nil
	}
	_, version := m.describe(p.work)
	if version == p.version || p.source != nil {
		return nil
	}
	p.version, p.again = version, true
	p.source = m.screen.open(p.work, p.view, m.renderOptions())
	return p.source.next()
}

// closePane closes the pane and stops reading for it.
func (m *screenModel) closePane() {
	if m.pane != nil && m.pane.source != nil {
		m.pane.source.close()
	}
	m.pane = nil
}

// receive adds lines to the pane that they are for.
func (m *screenModel) receive(msg linesMsg) tea.Cmd {
	p := m.pane
	if p == nil || p.source != msg.from {
		return nil
	}
	if !msg.ended {
		p.add(msg.lines)
		return p.source.next()
	}
	p.source, p.failed = nil, ""
	if err := msg.from.err; err != nil {
		if p.failed = explained(err); errors.Is(err, errTooLong) {
			p.failed = ""
			p.add([]string{m.drawing.paint.Warn("… " + errTooLong.Error())})
		}
		p.again = false
	}
	return nil
}

// pressPane handles a key in a pane.
func (m *screenModel) pressPane(key string) tea.Cmd {
	p := m.top()
	switch key {
	case "esc", "q", "backspace", "left", "h":
		if m.help != nil {
			m.help = nil
			return nil
		}
		m.closePane()
		return nil
	case "?":
		if m.help = nil; p.view != paneHelp {
			m.openHelp()
		}
		return nil
	}
	if p.press(key) || p.view == paneHelp {
		return nil
	}
	switch key {
	case "tab", "right":
		return m.openPane(p.work, (p.view+1)%paneHelp)
	case "shift+tab":
		return m.openPane(p.work, (p.view+paneHelp-1)%paneHelp)
	case "l":
		return m.openPane(p.work, paneTranscript)
	case "d":
		return m.openPane(p.work, paneDiff)
	case "i":
		return m.openPane(p.work, paneDetails)
	}
	return m.act(key, p.work)
}

// openForm opens a form for a decision.
func (m *screenModel) openForm(d decision) tea.Cmd {
	if d.Work == "" && d.Question == "" {
		return nil
	}
	if err := m.screen.refused(d); err != nil { // before anything is written
		m.typing = time.Now()
		m.say(explained(err), true)
		return nil
	}
	m.form = newForm(d, m.drafts[d.draft()])
	return m.screen.prepare(d)
}

// closeForm closes the form. What was written is kept for the next time.
func (m *screenModel) closeForm() {
	if m.drafts == nil {
		m.drafts = map[string]string{}
	}
	if m.form.writes() {
		m.drafts[m.form.draft()] = m.form.field.value()
	}
	m.form = nil
}

// inform shows what the user should know in the form. Without it nothing is approved.
func (m *screenModel) inform(msg aboutMsg) {
	f := m.form
	if f == nil || f.draft() != msg.decision.draft() {
		return
	}
	if msg.err != nil {
		f.about, f.known, f.failed = nil, true, explained(msg.err)
		return
	}
	f.about, f.known, f.Commit = msg.lines, true, msg.commit
}

// pressForm handles a key in a form.
func (m *screenModel) pressForm(key string, msg tea.KeyPressMsg) tea.Cmd {
	f := m.form
	switch {
	case f.sending: // the answer comes in a moment
		return nil
	case key == "esc":
		m.closeForm()
		return nil
	case key == "pgup":
		f.scroll(-1, m.width, m.height, len(m.formFoot()))
		return nil
	case key == "pgdown":
		f.scroll(1, m.width, m.height, len(m.formFoot()))
		return nil
	case f.writes() && key == "ctrl+d":
		d := f.decision
		d.Text = f.field.value()
		f.sending, f.failed = true, ""
		return m.screen.carryOut(d)
	case f.writes():
		f.failed = ""
		f.field.press(msg, fieldWidth(m.width))
		return nil
	}
	switch work := f.Work; key {
	case "y":
		if len(f.about) == 0 {
			return nil
		}
		f.sending, f.failed = true, ""
		return m.screen.carryOut(f.decision)
	case "x":
		return m.openForm(decision{What: steer.Reject, Work: work})
	case "d":
		m.closeForm()
		return m.openPane(work, paneDiff)
	case "up", "k":
		f.scroll(-1, m.width, m.height, len(m.formFoot()))
	case "down", "j":
		f.scroll(1, m.width, m.height, len(m.formFoot()))
	}
	return nil
}

// decided shows what a decision did. If it was refused, the form stays open with the text.
func (m *screenModel) decided(msg decidedMsg) {
	defer m.fit()
	f := m.form
	mine := f != nil && f.sending && f.draft() == msg.decision.draft()
	switch {
	case msg.err == nil && mine:
		m.form = nil
		delete(m.drafts, msg.decision.draft())
		m.say(onScreen(msg.said), false)
	case msg.err == nil:
		m.say(onScreen(msg.said), false)
	case mine:
		f.sending, f.failed = false, explained(msg.err)
	default:
		m.say(explained(msg.err), true)
	}
}

// say shows a line about what the user did, until the next key. If it is not an error, it is shown
// for saidTime at most.
func (m *screenModel) say(words string, bad bool) {
	m.drawing.said, m.drawing.saidBad = words, bad
	m.sayings++
}

func (m *screenModel) View() tea.View {
	v := tea.NewView("")
	v.AltScreen = true
	switch {
	case m.width <= 0:
	case m.form != nil:
		drawn, cursor := m.form.draw(m.drawing, m.width, m.height, m.formFoot())
		v.SetContent(drawn)
		v.Cursor = cursor
	case m.top() != nil:
		v.SetContent(m.top().draw(m.drawing, m.width, m.paneFoot()))
	default:
		v.SetContent(board(m.view, m.width, m.height, m.now, m.drawing))
	}
	return v
}
