package progress

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/agent"
	"signalbox/internal/run/steer"
	"signalbox/internal/testkit/must"
)

// hostileWords is what an agent could write to take over a terminal.
const hostileWords = "pwned\x1b]0;title\x07\x1b[2J\u009b2J\u202e\u2066\x7f\b\x0b\u200b."

// operated is a screen of a real box, with a test in place of the terminal and of the crew.
type operated struct {
	t *testing.T
	b *box.Box
	*screenModel
	n int
}

// operate returns the screen of a box in which T1 asks a question and the merge of T2 waits for
// approval.
func operate(t *testing.T) *operated {
	t.Helper()
	dir := t.TempDir()
	opts := &box.Options{KeyFile: filepath.Join(dir, "box.key")}
	created, err := box.Init(t.Context(), filepath.Join(dir, box.FolderName), "ann", opts)
	must.Succeed(t, err)
	must.Succeed(t, os.WriteFile(filepath.Join(created.Dir, "signalbox.yaml"),
		[]byte("workspace: shared\nagent: scripted\nagents:\n  scripted: {command: [scripted], format: plain}\n"), 0o600))
	b, err := box.Open(t.Context(), created.Dir, opts)
	must.Succeed(t, err)
	t.Cleanup(func() { b.Close() })
	o := &operated{t: t, b: b}
	policy := rules.Policy{Slots: 5, Limits: rules.DefaultLimits(), ApproveMerge: true}
	for _, role := range rules.DispatchRoles() {
		policy.Roles = append(policy.Roles, rules.RoleSlots{Role: role, Slots: 3})
	}
	o.do(rules.Configure{Policy: policy, Actor: "ann"})
	o.do(rules.LoadPlan{Plan: signalbox.Hash{1}, Name: "counter",
		Tasks: []rules.PlanTask{planned("T1", "guard \u202e it"),
			planned("T2", "count in hexadecimal")}, Actor: "ann"})
	base := o.dispatch(signalbox.RoleCI)
	o.do(rules.ReportChecks{Session: base.Session, Epoch: base.Lease.Epoch,
		Commit: "c000000000000000000000000000000000000000"})
	o.signal(o.start(signalbox.RoleDeveloper), "divine_clarification",
		rules.SignalFields{Summary: "how many? " + hostileWords})
	o.signal(o.start(signalbox.RoleDeveloper), "ready_for_review", rules.SignalFields{})
	checks := o.dispatch(signalbox.RoleCI)
	o.do(rules.ReportChecks{Session: checks.Session, Epoch: checks.Lease.Epoch,
		Commit: "c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1", Steering: []string{"AGENTS.md"}})
	o.signal(o.start(signalbox.RoleCritic), "review_passed", rules.SignalFields{})
	o.signal(o.start(signalbox.RoleAuditor), "audit_passed", rules.SignalFields{})
	s := screenOn(t, b, &lines{written: make(chan struct{}, 1)}, nil, "")
	s.o.Actor, s.o.Root = "ann", dir
	o.screenModel = &screenModel{screen: s}
	o.refresh()
	o.Update(tea.WindowSizeMsg{Width: 80, Height: 24})
	return o
}

func (o *operated) do(c rules.Command) rules.Answer {
	o.t.Helper()
	answer, err := o.b.Engine.Do(o.t.Context(), c)
	if err != nil {
		o.t.Fatalf("%#v: %v", c, err)
	}
	return answer
}

func (o *operated) dispatch(role signalbox.Role) rules.Answer {
	o.t.Helper()
	o.n++
	session := fmt.Sprintf("w-1.%d", o.n)
	return o.do(rules.Dispatch{Roles: []signalbox.Role{role}, Session: session, Actor: "crew",
		Lease: "l-" + session})
}

func (o *operated) start(role signalbox.Role) rules.Answer {
	o.t.Helper()
	a := o.dispatch(role)
	o.do(rules.StartAgent{Session: a.Session, Epoch: a.Lease.Epoch, Agent: "scripted"})
	return a
}

func (o *operated) signal(a rules.Answer, signal string, said rules.SignalFields) {
	o.t.Helper()
	blob, err := o.b.Engine.PutBlob(o.t.Context(),
		strings.NewReader("words of the "+string(a.Lease.Role)+" "+hostileWords+"\n"))
	must.Succeed(o.t, err)
	o.do(rules.ReportSignal{Session: a.Session, Epoch: a.Lease.Epoch, Signal: signal, Named: a.Work,
		Fields: said, Turn: &rules.Turn{Output: blob}})
}

// refresh shows the state of this moment.
func (o *operated) refresh() {
	v, _ := o.screen.view()
	o.setView(v)
	o.fit()
}

// types presses keys, and does what they cause until nothing is left to do.
func (o *operated) types(keys ...string) *operated {
	o.t.Helper()
	for _, name := range keys {
		if cmd := o.key(name); !o.drawing.confirmStop { // otherwise it is a timer
			o.settle(cmd)
		}
	}
	o.refresh()
	return o
}

// settle carries out commands until there are none. A source is read to its end.
func (o *operated) settle(cmd tea.Cmd) {
	for cmd != nil {
		msg := cmd()
		if _, ok := msg.(tea.BatchMsg); ok {
			o.t.Fatal("several commands at once")
		}
		_, cmd = o.Update(msg)
		if _, ok := msg.(decidedMsg); ok { // then it is a timer
			return
		}
	}
}

// screenText returns what is shown, and fails if it does not fit or is not safe.
func (o *operated) screenText() string {
	o.t.Helper()
	drawn := o.View().Content
	checkSize(o.t, drawn, max(o.width, minWidth), o.height)
	if !isSafe(drawn) {
		o.t.Errorf("unsafe: %q", drawn)
	}
	return drawn
}

// shows fails if the screen does not have some texts.
func (o *operated) shows(texts ...string) {
	o.t.Helper()
	drawn := o.screenText()
	for _, text := range texts {
		if !strings.Contains(drawn, text) {
			o.t.Errorf("%q is missing:\n%s", text, drawn)
		}
	}
}

func (o *operated) question(id string) (q rules.Question) {
	o.b.Engine.View(func(s *rules.State) {
		for _, known := range s.Questions() {
			if known.ID == id {
				q = *known
			}
		}
	})
	return q
}

func TestAnswerOnTheScreen(t *testing.T) {
	o := operate(t)
	o.shows("1 question for you, 1 merge to approve", "▸ press a to answer", "a answer")
	o.types("a")
	o.shows("answer Q-1", "how many? pwned", "ctrl+d sends")
	o.types("t", "w", "o", "enter")
	o.Update(tea.PasteMsg{Content: "pasted\nlines q"})
	if q := o.question("Q-1"); !q.Open() {
		t.Fatal("it is answered before it is sent")
	}
	o.types("ctrl+d")
	if q := o.question("Q-1"); q.Answer != "two\npasted\nlines q" || q.Actor != "ann" {
		t.Errorf("the answer is %q of %q", q.Answer, q.Actor)
	}
	o.shows("answered Q-1; T1 continues", "1 merge to approve")
}

// Nothing that was written is lost: by going back, or because somebody else was faster.
func TestWrittenTextIsKept(t *testing.T) {
	o := operate(t)
	o.types("a", "t", "w", "o", "esc")
	o.shows("1 question for you")
	o.types("a")
	o.shows("┃ two")
	o.do(rules.AnswerQuestion{Question: "Q-1", Answer: "three", Actor: "bob"})
	o.types("ctrl+d")
	o.shows("answer Q-1", "┃ two", "Q-1", "bob")
	if o.form == nil || o.form.failed == "" || o.form.sending {
		t.Errorf("the form is %+v", o.form)
	}
	o.types("x")
	o.shows("┃ twox")
	o.types("esc")
	if o.drafts[decision{What: steer.Answer, Work: "T1", Question: "Q-1"}.draft()] != "twox" {
		t.Errorf("%q", o.drafts)
	}
}

func TestApproveOnTheScreen(t *testing.T) {
	o := operate(t)
	o.types("tab")
	o.shows("▸ press a to look at it and approve it")
	o.types("a")
	o.shows("approve the merge of T2", "commit c1c1c1c1c1",
		"it changes files that steer agents: AGENTS.md", "y approve")
	o.types("z", "a", "q", "esc")
	if len(o.view.questions) != 2 {
		t.Fatal("another key approves")
	}
	o.types("a", "y")
	o.shows("T2: approved commit c1c1c1c")
	if len(o.view.questions) != 1 {
		t.Error("it is not approved")
	}
}

// What a key acts on does not change when something else begins to wait above it.
func TestKeysActOnWhatWasShown(t *testing.T) {
	o := operate(t)
	o.do(rules.AnswerQuestion{Question: "Q-1", Answer: "two", Actor: "ann"})
	o.refresh()
	o.shows("▸ press a to look at it and approve it, x to reject it")
	o.signal(o.start(signalbox.RoleDeveloper), "divine_clarification",
		rules.SignalFields{Summary: "really?"})
	o.refresh()
	o.shows("1 question for you, 1 merge to approve", "x to reject it", "a approve")
	o.types("x")
	o.shows("reject the merge of T2")
	o.types("esc", "a")
	o.shows("approve the merge of T2")
}

// The box offers x only for the task that x is about.
func TestRejectIsOfferedForTheSelectedTask(t *testing.T) {
	o := operate(t)
	o.types("j", "tab", "x")
	o.shows("reject the merge of T2")
	o.types("esc", "tab", "tab")
	o.drawing.selected = "T1"
	o.shows("▸ press a to look at it and approve it ")
	if strings.Contains(o.screenText(), "x to reject it") {
		t.Errorf("it offers x, which is about T1:\n%s", o.screenText())
	}
}

// The key that answers whether to stop does nothing else, and the next one acts at once.
func TestContinueIsAllThatAKeyDoes(t *testing.T) {
	o := operate(t)
	o.types("down", "q")
	o.shows("stop?")
	o.types("x")
	if o.form != nil || o.drawing.confirmStop || o.drawing.said != "" {
		t.Errorf("it did more than continue:\n%s", o.screenText())
	}
	o.types("q")
	o.shows("stop?")
}

// Nothing is approved that could not be shown.
func TestApproveNeedsTheChange(t *testing.T) {
	o := operate(t)
	o.types("tab")
	o.key("a")
	o.inform(aboutMsg{decision: o.form.decision, err: errors.New("git is broken")})
	o.types("y")
	o.shows("approve the merge of T2", "git is broken")
	if len(o.view.questions) != 2 {
		t.Error("it is approved")
	}
}

// Only the commit that was shown is approved.
func TestApproveAnotherCommit(t *testing.T) {
	o := operate(t)
	o.types("tab", "a")
	o.form.Commit = "c9"
	o.types("y")
	o.shows("approve the merge of T2", "not c9")
	if len(o.view.questions) != 2 {
		t.Error("it is approved")
	}
}

func TestSteerOnTheScreen(t *testing.T) {
	o := operate(t)
	o.types("down", "t", "h", "i", "ctrl+d")
	o.shows("T1: the developer ")
	o.types("down", "x", "n", "o", "ctrl+d")
	o.shows("T2: rejected commit c1c1c1c; sent back to the developer")
	o.types("x")
	o.shows("does not wait for approval")
	if o.form != nil {
		t.Error("a form is open for something that is refused")
	}
	o.types("p", "r") // the start of a text for the form
	o.shows("does not wait for approval")
	if o.form != nil || o.view.paused {
		t.Error("text for a form that did not open acts as keys")
	}
	o.types("up", "r", "a", "b", "ctrl+d")
	o.shows("T1: sent back to the developer")
	for work, want := range map[string]string{"T1": "ab", "T2": "no"} {
		o.b.Engine.View(func(s *rules.State) {
			w, _ := s.Work(work)
			if len(w.Task.Findings) != 1 || w.Task.Findings[0].Summary != want {
				t.Errorf("%s: %+v", work, w.Task.Findings)
			}
		})
	}
	o.do(rules.Order{What: rules.OrderPause, Actor: "ann"})
	o.refresh()
	o.shows("the run is paused; press p to resume it", "p resume")
	o.types("p")
	o.shows("the run: resumed")
	o.do(rules.Order{What: rules.OrderPause, Work: "T1", Actor: "ann"})
	o.refresh()
	o.types("p")
	o.shows("T1: resumed")
	o.types("p")
	o.shows("the run: paused")
}

// In a form every key is text, except the ones that its foot names.
func TestKeysInAFormAreText(t *testing.T) {
	o := operate(t)
	o.types("a", "q", "q", "?", "x", "j")
	o.shows("┃ qq?xj")
	o.types("ctrl+c", "q")
	if o.interrupted || o.form.field.value() != "qq?xjq" {
		t.Errorf("%q, interrupted: %t", o.form.field.value(), o.interrupted)
	}
	o.key("ctrl+c")
	o.shows("ctrl-c again to stop")
	if quit := o.key("ctrl+c"); quit == nil || !o.interrupted {
		t.Error("ctrl+c twice does not stop")
	}
}

func TestReadOnTheScreen(t *testing.T) {
	o := operate(t)
	o.types("down", "down")
	o.shows("▸T2")
	o.types("i")
	o.shows("T2  count in hexadecimal", "[details]", "phase", "auditor", "a approve")
	o.types("d")
	o.shows("[diff]", "all tasks work in one folder")
	o.types("?")
	o.shows("keys", "tell its agent")
	o.types("?")
	o.shows("[diff]")
	o.types("q")
	o.shows("▸T2", "q stop")
	if o.interrupted || o.drawing.confirmStop {
		t.Error("q in a pane is about the run")
	}
}

// The transcript of a task says that no agent has worked on it, or where the earlier sessions are.
func TestTranscriptSaysWhatIsNotShown(t *testing.T) {
	o := operate(t)
	o.do(rules.LoadPlan{Plan: signalbox.Hash{2}, Name: "counter",
		Tasks: []rules.PlanTask{planned("T1", "guard it"), planned("T2", "count in hexadecimal"),
			planned("T3", "later", "T2")}, Actor: "ann"})
	o.refresh()
	o.openPane("T3", paneTranscript)
	o.shows("[transcript]", "no agent has worked on T3 yet; its output appears here")
	next := o.openPane("T2", paneTranscript)
	o.receive(next().(linesMsg))
	o.types("g")
	if first := strings.Split(ansi.Strip(o.screenText()),
		"\n")[paneHead]; first != " 2 earlier sessions: signalbox logs T2 --all" {
		t.Errorf("it begins with %q", first)
	}
	o.types("esc")
	next = o.openPane("T1", paneTranscript)
	o.receive(next().(linesMsg))
	if drawn := o.screenText(); strings.Contains(drawn, "earlier") ||
		strings.Contains(drawn, "no agent") {
		t.Errorf("there is one session:\n%s", drawn)
	}
	o.types("esc")
}

// A long transcript opens at once, at its end, and follows the agent.
func TestReadALongTranscript(t *testing.T) {
	o := operate(t)
	o.do(rules.AnswerQuestion{Question: "Q-1", Answer: "two", Actor: "ann"})
	a := o.start(signalbox.RoleDeveloper)
	name := agent.LiveTranscript(o.b.Dir, a.Session)
	must.Succeed(t, os.MkdirAll(filepath.Dir(name), 0o700))
	live, err := os.Create(name)
	must.Succeed(t, err)
	defer live.Close()
	line := []byte(strings.Repeat("x", 99) + "\n")
	block := []byte(strings.Repeat(string(line), 10_000))
	for range 64 {
		if _, err := live.Write(block); err != nil {
			t.Fatal(err)
		}
	}
	io.WriteString(live, "the end "+hostileWords+"\n")
	o.refresh()
	o.types("down") // T1 is first
	next := o.key("enter")
	received := 0
	for !strings.Contains(o.View().Content, "the end pwned") {
		msg := next().(linesMsg)
		if received += len(msg.lines); msg.ended || received > transcriptTail/50 {
			t.Fatalf("%d lines, ended: %t (%v)", received, msg.ended, msg.from.err)
		}
		next = o.receive(msg)
	}
	o.shows("[transcript] diff details · end", "the end pwned")
	io.WriteString(live, "more of it\n")
	for !strings.Contains(o.View().Content, "more of it") {
		next = o.receive(next().(linesMsg))
	}
	o.types("esc")
	if o.pane != nil {
		t.Error("it stays open")
	}
}

// A screen that shows the run of another process decides as that of the run does.
func TestWatchedScreenDecides(t *testing.T) {
	o := operate(t)
	for actor, readOnly := range map[string]bool{"ann": false, "": true} {
		s := &screen{o: Options{Watch: true, Actor: actor}}
		if s.drawing().readOnly != readOnly {
			t.Errorf("actor %q: readOnly is not %t", actor, readOnly)
		}
	}
	o.drawing.watch = true
	o.types("a", "2", "ctrl+d")
	o.shows("Q-1")
	o.types("?")
	o.shows("pause, or resume")
	o.shows("leave; the run continues")
}

// A screen that only shows a run can be read, and decides nothing.
func TestWatchedScreenDecidesNothing(t *testing.T) {
	o := operate(t)
	o.drawing.watch, o.drawing.readOnly = true, true
	o.shows("signalbox answer Q-1 TEXT", "signalbox approve T2", "q leave")
	for _, key := range []string{"a", "x", "r", "t", "p"} {
		if cmd := o.key(key); cmd != nil || o.form != nil {
			t.Errorf("%s does something", key)
		}
	}
	o.types("j", "i")
	o.shows("[details]", "esc back")
	if strings.Contains(o.screenText(), "a answer") || strings.Contains(o.screenText(), "t tell") {
		t.Errorf("it offers keys that do nothing:\n%s", o.screenText())
	}
	o.types("?")
	if strings.Contains(o.screenText(), "tell its agent") {
		t.Error("it explains keys that do nothing")
	}
}

// All views at all sizes keep to the terminal and have nothing that it would obey.
func TestViewsFitAndAreSafe(t *testing.T) {
	o := operate(t)
	for _, tt := range []struct {
		name string // "" if there are times in it
		keys []string
	}{{"selected", []string{"j"}}, {"", []string{"i"}}, {"no-diff", []string{"d"}}, {"help", []string{"?"}}, {"answer", []string{"a"}}, {"written", []string{"a", "x", "y", "enter", "z"}},
		{"approve", []string{"tab", "a"}}, {"reject", []string{"j", "j", "x"}},
		{"stop", []string{"q"}}} {
		keys := tt.keys
		o.types(keys...)
		for width := minWidth; width <= 200; width += 13 {
			for _, height := range []int{12, 13, 24, 50} {
				_, cmd := o.Update(tea.WindowSizeMsg{Width: width, Height: height})
				o.settle(cmd)
				if drawn := o.screenText(); strings.Count(drawn, "\n") != height-1 {
					t.Fatalf("%q at %dx%d has %d lines:\n%s", keys, width, height,
						strings.Count(drawn, "\n")+1, drawn)
				}
			}
		}
		for _, size := range [][2]int{{200, 50}, {80, 24}, {40, 12}} {
			_, cmd := o.Update(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
			o.settle(cmd)
			if tt.name != "" {
				o.now = o.view.began.Add(98 * time.Second)
				o.view.story = nil
				compareGolden(t, fmt.Sprintf("screen-%s-%dx%d", tt.name, size[0], size[1]),
					o.screenText())
			}
		}
		o.types("esc", "esc")
		o.drawing.target = 0
	}
}

// What the user was writing when the run ended is printed, so that it can be sent with a command.
func TestUnsentTextIsPrinted(t *testing.T) {
	o := operate(t)
	stderr := &lines{written: make(chan struct{}, 1)}
	o.screen.o.Stderr = NewDeferredWriter(stderr)
	o.types("a", "t", "w", "o")
	o.Update(endMsg{})
	o.screen.leave(t.Context(), o.screenModel)
	if got := stderr.String(); got != "note: not sent (answer Q-1):\ntwo\n" {
		t.Errorf("%q", got)
	}
}
