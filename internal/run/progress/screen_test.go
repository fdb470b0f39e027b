package progress

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/agent"
)

// manyTasks is a plan of n tasks whose first three are at work.
func manyTasks(t *testing.T, n int) *play {
	var tasks []rules.PlanTask
	for i := range n {
		task := planned(fmt.Sprintf("T%d", i+1), fmt.Sprintf("task number %d", i+1))
		if i >= 5 {
			task.BlockedBy = []string{fmt.Sprintf("T%d", i-4)}
		}
		tasks = append(tasks, task)
	}
	p := newPlay(t, rules.Policy{Slots: 5}, tasks...)
	p.check("B-1")
	return p
}

// everyState is a run with a task in every state there is.
func everyState(t *testing.T) *play {
	p := newPlay(t, rules.Policy{Slots: 9, Experts: []rules.Expert{{Name: "sqlite"}}},
		planned("T1", "guard the counter"), planned("T2", "count in hexadecimal"),
		planned("T3", "document what it counts and why it does so"),
		planned("T4", "store it"), planned("T5", "show it"), planned("T6", "format it"),
		planned("T7", "ship it", "T6", "T2"),
		planned("T8", "sing about it"), planned("T9", "sell it"), planned("T10", "mend it"))
	p.check("B-1")
	p.develop("T2") // it and T6 unblock most
	p.start(signalbox.RoleCritic, "T2")
	p.develop("T6")
	p.start(signalbox.RoleCritic, "T6")
	p.say("T6", "review_failed", rules.SignalFields{Summary: "not rounded"})
	p.start(signalbox.RoleDeveloper, "T6")
	p.say("T6", "divine_clarification",
		rules.SignalFields{Summary: "how many decimals does a price have, and are they rounded to even or away from zero as in the old program?"})
	p.develop("T1")
	p.approve("T1")
	p.start(signalbox.RoleDeveloper, "T3")
	p.hear("T3", "checkpoint", rules.SignalFields{Summary: "writing the second chapter",
		Percent: 40})
	p.start(signalbox.RoleDeveloper, "T4")
	p.hear("T4", "expert_request", rules.SignalFields{Expert: "sqlite", Request: "advice",
		Summary: "which index?"})
	p.start(signalbox.RoleExpert, "X-1")
	p.start(signalbox.RoleDeveloper, "T5")
	p.say("T5", "ready_for_review", rules.SignalFields{})
	p.start(signalbox.RoleCI, "T5")
	p.do(rules.Order{What: rules.OrderPause, Work: "T8", Actor: "ann"})
	p.do(rules.Order{What: rules.OrderCancel, Work: "T9", Reason: "no customer wants it",
		Actor: "ann"})
	p.start(signalbox.RoleDeveloper, "T10")
	p.say("T10", "infra_blocked", rules.SignalFields{Summary: "the disk is full"})
	p.start(signalbox.RoleRemediation, "R-1")
	return p
}

func (p *play) look(live map[string]string) view {
	return newView(p.s, "counter", playBegins, p.now, live)
}

// checkSize fails if a board does not keep to its size.
func checkSize(t *testing.T, drawn string, width, height int) {
	t.Helper()
	lines := strings.Split(drawn, "\n")
	if len(lines) > height {
		t.Errorf("%d lines, at most %d", len(lines), height)
	}
	for _, line := range lines {
		if w := lipgloss.Width(line); w > width {
			t.Errorf("%d wide, at most %d: %q", w, width, line)
		}
	}
}

func TestBoard(t *testing.T) {
	every := everyState(t)
	v := every.look(map[string]string{every.held["T2"].Session: "reading counter.go",
		every.held["T5"].Session: "test: PASS"})
	for _, size := range [][2]int{{200, 60}, {120, 40}, {80, 24}, {60, 20}} {
		name := fmt.Sprintf("board-every-%dx%d", size[0], size[1])
		drawn := board(v, size[0], size[1], every.now.Add(98*time.Second), drawing{})
		checkSize(t, drawn, size[0], size[1])
		compareGolden(t, name, drawn)
	}
	compareGolden(t, "board-last", board(v, 100, 40, every.now.Add(98*time.Second),
		drawing{final: true}))
	compareGolden(t, "board-stop", board(v, 100, 30, every.now.Add(98*time.Second),
		drawing{confirmStop: true}))
}

func TestBoardOfNothing(t *testing.T) {
	p := newPlay(t, rules.Policy{Slots: 5})
	compareGolden(t, "board-empty", board(p.look(nil), 80, 24, p.now, drawing{}))
}

func TestBoardOfDrafts(t *testing.T) {
	draft := planned("T1", "something about counting")
	draft.Draft = true
	p := newPlay(t, rules.Policy{Slots: 5}, draft, planned("T2", "count", "T1"))
	compareGolden(t, "board-draft", board(p.look(nil), 80, 24, p.now, drawing{}))
}

func TestBoardOfAThousandTasks(t *testing.T) {
	p := manyTasks(t, 1000)
	p.develop("T1")
	p.approve("T1")
	for i := range 3 {
		p.start(signalbox.RoleDeveloper, fmt.Sprintf("T%d", i+2))
	}
	v := p.look(nil)
	// as far as it was scrolled to
	for offset, name := range map[int]string{0: "board-thousand", 500: "board-thousand-scrolled",
		999: "board-thousand-end"} {
		drawn := board(v, 80, 24, p.now, drawing{offset: offset})
		checkSize(t, drawn, 80, 24)
		compareGolden(t, name, drawn)
	}
}

func TestBoardOfHostileAndWideText(t *testing.T) {
	p := newPlay(t, rules.Policy{Slots: 5}, planned("T1", "計数器を守る、そして十六進数で数える、さらに文書を書く"),
		planned("T2", strings.Repeat("very long title ", 50)),
		planned("T3", "👍👍👍👍👍👍👍👍👍👍👍👍👍👍👍"), planned("a-task-with-a-very-long-id-that-is-hard-to-type",
			"x"), planned("T5", "bidi \u202e override"))
	p.check("B-1")
	p.start(signalbox.RoleDeveloper, "T1")
	p.start(signalbox.RoleDeveloper, "T2")
	p.start(signalbox.RoleDeveloper, "T3")
	p.say("T3", "divine_clarification", rules.SignalFields{Summary: strings.Repeat("質問", 200)})
	v := p.look(map[string]string{
		p.held["T1"].Session: "\x1b[2J\x1b]0;title\a\u202e" + strings.Repeat("書", 300),
		p.held["T2"].Session: "e" + strings.Repeat("\u0301", 500) + "\xff\r\n",
	})
	for width := 1; width < 150; width++ {
		drawn := board(v, width, 24, p.now, drawing{})
		checkSize(t, drawn, max(width, minWidth), 24)
		if strings.ContainsFunc(strings.ReplaceAll(drawn, "\n", ""),
			func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }) {
			t.Fatalf("%q", drawn)
		}
	}
	for height := 1; height < 40; height++ {
		checkSize(t, board(v, 80, height, p.now, drawing{}), 80, height)
	}
	compareGolden(t, "board-hostile", board(v, 80, 24, p.now, drawing{}))
}

// While no agent is at work only the time in the header advances, and nothing does where there is
// none.
func TestWaitingScreenOnlyTellsTheTime(t *testing.T) {
	p := newPlay(t, rules.Policy{Slots: 5}, planned("T1", "count"))
	p.check("B-1")
	m := &screenModel{screen: &screen{o: Options{Stderr: &DeferredWriter{}}}, view: p.look(nil)}
	if m.tick() == nil || !m.clockTicking || m.ticking {
		t.Error("the time stands still")
	}
	if m.tick() != nil {
		t.Error("it ticks twice")
	}
	m.now = time.Time{}
	if _, next := m.Update(clockMsg{}); next == nil || m.now.IsZero() {
		t.Error("the time does not advance")
	}
	p.start(signalbox.RoleDeveloper, "T1")
	if _, next := m.Update(viewMsg{p.look(nil)}); next == nil || !m.ticking {
		t.Error("it waits for the clock though somebody works")
	}
	if _, next := m.Update(clockMsg{}); next != nil {
		t.Error("the clock ticks though somebody works")
	}
	for elapsed, want := range map[time.Duration]time.Duration{
		-time.Second:                          time.Second,
		0:                                     time.Second,
		59*time.Minute + 300*time.Millisecond: 700 * time.Millisecond,
		time.Hour:                             time.Minute,
		2*time.Hour + 50*time.Second:          10 * time.Second,
	} {
		if got := untilClockChanges(elapsed); got != want {
			t.Errorf("after %v it ticks in %v, want %v", elapsed, got, want)
		}
	}
}

func TestWatchedScreenTicksWithAgents(t *testing.T) {
	p := newPlay(t, rules.Policy{Slots: 5}, planned("T1", "count"))
	p.check("B-1")
	m := &screenModel{screen: &screen{o: Options{Stderr: &DeferredWriter{}}}, view: p.look(nil),
		drawing: drawing{watch: true}}
	if m.tick() != nil {
		t.Error("it ticks while no agent is at work")
	}
	p.start(signalbox.RoleDeveloper, "T1")
	if _, next := m.Update(viewMsg{p.look(nil)}); next == nil {
		t.Error("it does not tick though somebody works")
	}
	if _, next := m.Update(viewMsg{p.look(nil)}); next != nil {
		t.Error("it ticks twice")
	}
	p.say("T1", "divine_clarification", rules.SignalFields{Summary: "how many?"})
	m.ticking = false
	if _, next := m.Update(viewMsg{p.look(nil)}); next != nil {
		t.Error("it ticks or ends while only a question is open")
	}
}

// keyPress returns the press of a key by its name.
func keyPress(name string) tea.KeyPressMsg {
	named := map[string]rune{"up": tea.KeyUp, "down": tea.KeyDown, "left": tea.KeyLeft,
		"right": tea.KeyRight, "pgup": tea.KeyPgUp, "pgdown": tea.KeyPgDown, "home": tea.KeyHome,
		"end": tea.KeyEnd,
		"esc": tea.KeyEscape, "enter": tea.KeyEnter, "tab": tea.KeyTab,
		"backspace": tea.KeyBackspace, "delete": tea.KeyDelete}
	if code, ok := named[name]; ok {
		return tea.KeyPressMsg{Code: code}
	}
	for prefix, mod := range map[string]tea.KeyMod{"ctrl+": tea.ModCtrl, "alt+": tea.ModAlt} {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			key := keyPress(rest)
			return tea.KeyPressMsg{Code: key.Code, Mod: mod}
		}
	}
	r, _ := utf8.DecodeRuneInString(name)
	return tea.KeyPressMsg{Code: r, Text: name}
}

// key presses a key.
func (m *screenModel) key(name string) tea.Cmd {
	_, cmd := m.press(keyPress(name))
	return cmd
}

func TestKeys(t *testing.T) {
	p := manyTasks(t, 100)
	m := &screenModel{screen: &screen{o: Options{Stderr: &DeferredWriter{}}}, view: p.look(nil),
		width: 80, height: 24}
	for _, step := range []struct{ key, selected string }{{"down", "T1"}, {"pgdown", "T13"}, {"up", "T12"}, {"k", "T11"}, {"pgup", "T1"}, {"up", "T1"}, {"end", "T100"}, {"j", "T100"}, {"home", "T1"},
		{"esc", ""}, {"z", ""}, {"1", ""}} {
		m.key(step.key)
		if m.drawing.selected != step.selected {
			t.Errorf("after %s %q is selected, want %q", step.key, m.drawing.selected,
				step.selected)
		}
		if drawn := board(m.view, 80, 24, p.now, m.drawing); step.selected != "" &&
			!strings.Contains(drawn, "▸"+step.selected+" ") {
			t.Errorf("after %s the selected task is not visible:\n%s", step.key, drawn)
		}
	}
	for _, keys := range [][2]string{{"q", "q"}, {"ctrl+c", "ctrl+c"}, {"q", "ctrl+c"}} {
		m.interrupted = false
		m.key(keys[0])
		if m.key("z"); m.drawing.confirmStop || m.interrupted {
			t.Error("another key does not continue")
		}
		m.key(keys[0])
		if quit := m.key(keys[1]); quit == nil || !m.interrupted {
			t.Errorf("%v does not stop", keys)
		}
		m.drawing.confirmStop = false
	}
}

// What a decision did is not shown for long, because it may soon not be true: the run that continues
// waits for the user again. Why one was refused is shown until the next key.
func TestSayingIsForgotten(t *testing.T) {
	p := manyTasks(t, 2)
	m := &screenModel{screen: &screen{o: Options{Stderr: &DeferredWriter{}}}, view: p.look(nil),
		width: 80, height: 24}
	if _, cmd := m.Update(decidedMsg{said: "first"}); cmd == nil {
		t.Error("no timer was started")
	}
	first := saidMsg{m.sayings}
	m.Update(decidedMsg{said: "second"})
	if m.Update(first); m.drawing.said != "second" {
		t.Errorf("the screen says %q, want the second", m.drawing.said)
	}
	if m.Update(saidMsg{m.sayings}); m.drawing.said != "" {
		t.Errorf("the screen still says %q", m.drawing.said)
	}
	m.Update(decidedMsg{err: errors.New("refused")})
	if m.Update(saidMsg{m.sayings}); m.drawing.said == "" {
		t.Error("why a decision was refused is not shown any more")
	}
}

// The question whether to stop is closed after a while, so that a key that is pressed much later
// does not stop the run.
func TestConfirmationIsForgotten(t *testing.T) {
	p := manyTasks(t, 2)
	m := &screenModel{screen: &screen{o: Options{Stderr: &DeferredWriter{}}}, view: p.look(nil),
		width: 80, height: 24}
	m.key("q")
	first := confirmMsg{m.confirms}
	m.key("z")
	m.key("q")
	if m.Update(first); !m.drawing.confirmStop {
		t.Error("an earlier question closes a later one")
	}
	m.Update(confirmMsg{m.confirms})
	if quit := m.key("q"); m.interrupted || quit == nil || !m.drawing.confirmStop {
		t.Error("a late key is taken as the answer")
	}
}

// Text that is pasted onto the board is not a sequence of keys.
func TestPastedTextIsNoKeys(t *testing.T) {
	p := manyTasks(t, 2)
	m := &screenModel{screen: &screen{o: Options{Stderr: &DeferredWriter{}}}, view: p.look(nil),
		width: 80, height: 24}
	if m.Update(tea.PasteMsg{Content: "qq"}); m.interrupted || m.drawing.confirmStop {
		t.Error("it stops the run")
	}
}

// A screen that watches the run of another process is left at once, and stays while nothing runs.
func TestWatchedScreen(t *testing.T) {
	p := newPlay(t, rules.Policy{Slots: 5}, planned("T1", "count"))
	p.check("B-1")
	p.start(signalbox.RoleDeveloper, "T1")
	p.say("T1", "divine_clarification", rules.SignalFields{Summary: "how many?"})
	m := &screenModel{screen: &screen{o: Options{Watch: true, Stderr: &DeferredWriter{}}},
		view: p.look(nil), width: 80, height: 24, drawing: drawing{watch: true, readOnly: true}}
	if m.Update(viewMsg{p.look(nil)}); m.ticking {
		t.Error("it ticks")
	}
	if drawn := board(m.view, 80, 24, p.now, m.drawing); !strings.Contains(drawn, "q leave") ||
		strings.Contains(drawn, "q stop") {
		t.Errorf("the keys are wrong:\n%s", drawn)
	}
	if quit := m.key("q"); quit == nil || !m.interrupted {
		t.Error("q does not leave")
	}
}

// screenOn is what New returns for a terminal.
func screenOn(t *testing.T, b *box.Box, terminal io.Writer, stderr *DeferredWriter,
	title string) *screen {
	t.Helper()
	s, ok := New(b, Options{Title: title, Out: terminal, Terminal: terminal, Stderr: stderr,
		Getenv: environment("TERM", "xterm")}).(*screen)
	if !ok {
		t.Fatal("no screen for a terminal")
	}
	return s
}

func TestScreenEndsInOrder(t *testing.T) {
	b := boxWithPlan(t)
	out := &lines{written: make(chan struct{}, 1)}
	s := screenOn(t, b, out, nil, "counter")
	stop := showing(s)
	<-out.written
	var agents sync.WaitGroup
	for i := range 4 {
		agents.Go(func() {
			for n := range 1000 {
				s.Live(agent.Activity{Session: fmt.Sprint("s-", i), Text: fmt.Sprint(n)})
			}
		})
	}
	agents.Wait()
	if err := stop(); err != nil {
		t.Error(err)
	}
	if got := out.String(); strings.LastIndex(got, "\x1b[?25h") < strings.LastIndex(got,
		"\x1b[?25l") {
		t.Errorf("the cursor is left hidden: %q", got)
	}
}

func TestScreenKeepsWarningsUntilItEnds(t *testing.T) {
	b := boxWithPlan(t)
	out, stderr := &lines{written: make(chan struct{}, 1)}, &lines{written: make(chan struct{}, 1)}
	s := screenOn(t, b, out, NewDeferredWriter(stderr), "counter")
	stop := showing(s)
	<-out.written
	io.WriteString(s.o.Stderr, "warning: no room\n")
	if meanwhile := stderr.String(); meanwhile != "" {
		t.Errorf("%q while the screen is in use", meanwhile)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if got := stderr.String(); got != "warning: no room\n" {
		t.Errorf("%q afterwards", got)
	}
}

// Everything that a run can wait for leaves the screen alive.
func TestScreenStaysWhileTheRunWaits(t *testing.T) {
	b := boxWithPlan(t)
	if _, err := b.Engine.Do(t.Context(),
		rules.Order{What: rules.OrderPause, Actor: "ann"}); err != nil {
		t.Fatal(err)
	}
	out := &lines{written: make(chan struct{}, 1)}
	s := screenOn(t, b, out, nil, "")
	m := &screenModel{screen: s, width: 80, height: 24}
	m.view, _ = s.view()
	if drawn := board(m.view, 80, 24, time.Now(), m.drawing); !strings.Contains(drawn,
		"the run is paused; press p to resume it") || !strings.Contains(drawn, "waiting for you") {
		t.Error(drawn)
	}
	if cmd := m.Init(); cmd == nil {
		t.Error("it does not ask for the background")
	}
	if _, next := m.Update(viewMsg{m.view}); next != nil {
		t.Error("it does something though the run waits")
	}
}

// A run that is being stopped gives the terminal back before it ends.
func TestScreenEndsWhenTheRunIsStopped(t *testing.T) {
	b := boxWithPlan(t)
	out, stderr := &lines{written: make(chan struct{}, 1)}, &lines{written: make(chan struct{}, 1)}
	s := screenOn(t, b, out, NewDeferredWriter(stderr), "counter")
	stopping := make(chan struct{})
	s.o.Stopping = stopping
	ended := make(chan error, 1)
	go func() { ended <- s.Show(t.Context()) }()
	<-out.written
	io.WriteString(s.o.Stderr, "stopping\n")
	close(stopping)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if got := out.String(); strings.LastIndex(got, "\x1b[?1049l") < strings.LastIndex(got,
		"\x1b[?1049h") || stderr.String() != "stopping\n" {
		t.Errorf("%q, %q", got, stderr)
	}
}

// What a session did before its agent started is not shown as what the agent does.
func TestActivityThatIsOver(t *testing.T) {
	s := screenOn(t, boxWithPlan(t), io.Discard, nil, "")
	s.Live(agent.Activity{Session: "s-1", Text: "setup: tools"})
	if got := s.live["s-1"].Text; got != "setup: tools" {
		t.Errorf("%q", got)
	}
	s.Live(agent.Activity{Session: "s-1"})
	if got, known := s.live["s-1"]; known {
		t.Errorf("%q", got.Text)
	}
}
