package progress

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/show"
	"signalbox/internal/testkit/must"
	"signalbox/internal/text"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// compareGolden compares text with a file of testdata.
func compareGolden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".txt")
	got = strings.TrimRight(got, "\n") + "\n"
	if *update {
		must.Succeed(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	must.Succeed(t, err)
	if diff := cmp.Diff(strings.ReplaceAll(string(want), "\r\n", "\n"), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

// playBegins is when every play begins.
var playBegins = time.Date(2026, 3, 1, 9, 14, 0, 0, time.UTC)

// play is a run without anybody at work: a test says what happens.
type play struct {
	t     *testing.T
	s     *rules.State
	now   time.Time
	heard func([]signalbox.Event) // hears what each command recorded, if not nil
	count int
	held  map[string]rules.Answer // the session that holds each task
}

func newPlay(t *testing.T, policy rules.Policy, tasks ...rules.PlanTask) *play {
	p := &play{t: t, s: &rules.State{}, now: playBegins, held: map[string]rules.Answer{}}
	if policy.Limits == (rules.Limits{}) {
		policy.Limits = rules.DefaultLimits()
	}
	for _, role := range rules.DispatchRoles() {
		policy.Roles = append(policy.Roles, rules.RoleSlots{Role: role, Slots: 3})
	}
	p.do(rules.OpenBox{Box: "box-1", Actor: "op"})
	p.do(rules.Configure{Policy: policy, Actor: "op"})
	load := rules.LoadPlan{Plan: signalbox.Hash{1}, Name: "counter", Tasks: tasks, Actor: "op"}
	for len(tasks) > 0 && !p.do(load).Plan.Loaded {
	}
	return p
}

func (p *play) do(c rules.Command) rules.Answer {
	p.t.Helper()
	p.now = p.now.Add(time.Second)
	d := rules.Decide(p.s, p.now, c)
	for i := range d.Events {
		d.Events[i].Seq = p.s.Seq() + 1
		if err := p.s.Apply(&d.Events[i]); err != nil {
			p.t.Fatalf("%#v: %v", c, err)
		}
	}
	if p.heard != nil && len(d.Events) > 0 {
		p.heard(d.Events)
	}
	if d.Err != nil {
		p.t.Fatalf("%#v: %v", c, d.Err)
	}
	return d.Answer
}

// start dispatches the next thing for a role, which must be about work.
func (p *play) start(role signalbox.Role, work string) {
	p.t.Helper()
	p.count++
	session := "s-" + string(rune('a'+p.count/26)) + string(rune('a'+p.count%26))
	answer := p.do(rules.Dispatch{Roles: []signalbox.Role{role}, Session: session, Actor: "crew",
		Lease: "l-" + session})
	if answer.Work != work {
		p.t.Fatalf("dispatched %s for %s, not %s", role, answer.Work, work)
	}
	p.held[work] = answer
	if role != signalbox.RoleCI && role != signalbox.RoleMerger {
		p.do(rules.StartAgent{Session: session, Epoch: answer.Lease.Epoch, Agent: "claude"})
	}
}

// hear reports a signal of the session that holds the work.
func (p *play) hear(work, signal string, said rules.SignalFields) {
	p.t.Helper()
	a := p.held[work]
	p.do(rules.ReportSignal{Session: a.Session, Epoch: a.Lease.Epoch, Signal: signal, Named: work,
		Fields: said})
}

// say is hear for the end of a turn that cost something.
func (p *play) say(work, signal string, said rules.SignalFields) {
	p.t.Helper()
	a := p.held[work]
	p.do(rules.ReportSignal{Session: a.Session, Epoch: a.Lease.Epoch, Signal: signal, Named: work,
		Fields: said,
		Turn: &rules.Turn{Spent: rules.Spent{Tokens: 2100, CostMicros: 70_000,
			Time: time.Second}}})
}

// check reports the checks of the work. The named ones failed.
func (p *play) check(work string, failed ...string) {
	p.t.Helper()
	p.start(signalbox.RoleCI, work)
	rows := []rules.CheckRow{{Check: "test", Environment: "linux", Passed: true},
		{Check: "vet", Environment: "linux", Passed: true}}
	for i := range rows {
		for _, name := range failed {
			if rows[i].Check == name {
				rows[i].Passed, rows[i].Exit = false, 1
			}
		}
	}
	a := p.held[work]
	commit := "3f2a91c000000000000000000000000000000000"
	if work[0] == 'B' && p.s.Base() != "" {
		commit = p.s.Base()
	}
	p.do(rules.ReportChecks{Session: a.Session, Epoch: a.Lease.Epoch, Commit: commit, Rows: rows})
}

// redBase runs the baseline, in which a check fails for a cause.
func (p *play) redBase(check, cause string) {
	p.t.Helper()
	p.start(signalbox.RoleCI, "B-1")
	a := p.held["B-1"]
	p.do(rules.ReportChecks{Session: a.Session, Epoch: a.Lease.Epoch,
		Commit: "3f2a91c000000000000000000000000000000000",
		Rows:   []rules.CheckRow{{Check: check, Environment: "linux", Exit: 127, Cause: cause}}})
}

func (p *play) merge(work string) {
	p.t.Helper()
	p.start(signalbox.RoleMerger, work)
	a := p.held[work]
	p.do(rules.PrepareMerge{Session: a.Session, Epoch: a.Lease.Epoch,
		Commit: "3f2a91c0ffee0000000000000000000000000000"})
	p.do(rules.ReportMerge{Session: a.Session, Epoch: a.Lease.Epoch,
		Commit: "3f2a91c0ffee0000000000000000000000000000"})
}

// develop brings work as far as its review.
func (p *play) develop(work string) {
	p.t.Helper()
	p.start(signalbox.RoleDeveloper, work)
	p.say(work, "ready_for_review", rules.SignalFields{})
	p.check(work)
}

// approve brings work from its review to its end.
func (p *play) approve(work string) {
	p.t.Helper()
	p.start(signalbox.RoleCritic, work)
	p.say(work, "review_passed", rules.SignalFields{})
	p.start(signalbox.RoleAuditor, work)
	p.say(work, "audit_passed", rules.SignalFields{})
	p.merge(work)
}

func planned(id, title string, blockedBy ...string) rules.PlanTask {
	return rules.PlanTask{ID: id, Title: title, BlockedBy: blockedBy}
}

// boxWithPlan is a real box with a plan of one task.
func boxWithPlan(t *testing.T) *box.Box {
	t.Helper()
	dir := t.TempDir()
	opts := &box.Options{KeyFile: filepath.Join(dir, "box.key")}
	created, err := box.Init(t.Context(), filepath.Join(dir, box.FolderName), "ann", opts)
	must.Succeed(t, err)
	b, err := box.Open(t.Context(), created.Dir, opts)
	must.Succeed(t, err)
	t.Cleanup(func() { b.Close() })
	for _, c := range []rules.Command{
		rules.Configure{Policy: rules.Policy{Slots: 1, Limits: rules.DefaultLimits()}, Actor: "op"},
		rules.LoadPlan{Plan: signalbox.Hash{1}, Name: "counter",
			Tasks: []rules.PlanTask{planned("T1", "guard the counter")}, Actor: "op"},
	} {
		if _, err := b.Engine.Do(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// lines is a writer that tells of each thing written.
type lines struct {
	mu      sync.Mutex
	text    bytes.Buffer
	written chan struct{}
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	l.text.Write(b)
	l.mu.Unlock()
	select {
	case l.written <- struct{}{}:
	default:
	}
	return len(b), nil
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// showing runs a display until stop is called, which returns what Show returned.
func showing(d Display) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.Show(ctx) }()
	return func() error {
		cancel()
		return <-ended
	}
}

func TestJSONProgressStreamsEveryEvent(t *testing.T) {
	b := boxWithPlan(t)
	out := &lines{written: make(chan struct{}, 1)}
	from := b.Engine.Tail().Seq
	stop := showing(New(b, Options{JSON: true, From: from, Out: out}))
	if _, err := b.Engine.Do(t.Context(),
		rules.Order{What: rules.OrderPause, Reason: "lunch \u202e", Actor: "ann"}); err != nil {
		t.Fatal(err)
	}
	<-out.written
	// Written just before the end, this one must be shown too.
	if _, err := b.Engine.Do(t.Context(),
		rules.Order{What: rules.OrderResume, Actor: "ann"}); err != nil {
		t.Fatal(err)
	}
	must.Succeed(t, stop())
	var types []string
	for line := range strings.Lines(out.String()) {
		var e struct {
			Seq  uint64
			Type string
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil ||
			e.Seq != from+uint64(len(types))+1 || strings.Contains(line, "\u202e") {
			t.Errorf("%q: %v", line, err)
		}
		types = append(types, e.Type)
	}
	if diff := cmp.Diff([]string{"Paused", "Resumed"}, types); diff != "" {
		t.Error(diff)
	}
}

func TestOutcomeOfARealBox(t *testing.T) {
	b := boxWithPlan(t)
	var words strings.Builder
	if err := Outcome(&words, b, rules.Status{}, playBegins, 0); err != nil ||
		!strings.Contains(words.String(), "guard the counter") ||
		!strings.Contains(words.String(), "0 of 1 task done") {
		t.Errorf("%q, %v", &words, err)
	}
}

func TestPlainProgressShowsARealBox(t *testing.T) {
	b := boxWithPlan(t)
	out := &lines{written: make(chan struct{}, 1)}
	stop := showing(New(b, Options{Title: "counter", From: b.Engine.Tail().Seq, Out: out}))
	<-out.written
	if _, err := b.Engine.Do(t.Context(), rules.Order{What: rules.OrderPause, Work: "T1",
		Reason: "lunch", Actor: "ann"}); err != nil {
		t.Fatal(err)
	}
	must.Succeed(t, stop())
	if got := out.String(); !strings.Contains(got, "counter: 1 task, 0 done") ||
		strings.Count(got, "\n") != 2 || !strings.Contains(got, "T1   paused by ann") {
		t.Errorf("%q", got)
	}
}

func TestProgressEndsWhenTheReaderIsGone(t *testing.T) {
	b := boxWithPlan(t)
	for _, o := range []Options{{JSON: true, Out: closedPipe{}}, {Plain: true, Out: closedPipe{}}} {
		if err := New(b, o).Show(t.Context()); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

type closedPipe struct{}

func (closedPipe) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestNewChooses(t *testing.T) {
	for want, given := range map[string][]Options{
		"*progress.jsonDisplay": {{JSON: true}, {JSON: true, Plain: true, Terminal: io.Discard}},
		"*progress.plainDisplay": {{}, {Plain: true, Terminal: io.Discard},
			{Terminal: io.Discard, Getenv: environment("CI", "1")},
			{Terminal: io.Discard, Getenv: environment("TERM", "dumb")}},
		"*progress.screen": {{Terminal: io.Discard},
			{Terminal: io.Discard, Getenv: environment("TERM", "xterm")}},
	} {
		for i, o := range given {
			if got := fmt.Sprintf("%T", New(nil, o)); got != want {
				t.Errorf("%s %d: %s", want, i, got)
			}
		}
	}
}

// environment has one variable.
func environment(name, value string) func(string) string {
	return func(asked string) string { return map[string]string{name: value}[asked] }
}

func TestSidelineKeepsWhatIsWrittenMeanwhile(t *testing.T) {
	var out bytes.Buffer
	side := NewDeferredWriter(&out)
	io.WriteString(side, "note: before\n")
	heard := 0
	side.hold(func() { heard++ })
	io.WriteString(side, "warning: meanwhile\n")
	if out.String() != "note: before\n" || heard != 1 || side.last() != "warning: meanwhile" {
		t.Errorf("%q, heard %d, last %q", &out, heard, side.last())
	}
	side.release()
	io.WriteString(side, "note: after\n")
	if want := "note: before\nwarning: meanwhile\nnote: after\n"; out.String() != want {
		t.Errorf("%q", &out)
	}
}

func TestWordsForNumbers(t *testing.T) {
	for got, want := range map[string]string{
		text.Duration(-time.Second): "0s", text.Duration(59900 * time.Millisecond): "59s",
		text.Duration(98 * time.Second):            "1m38s",
		text.Duration(2*time.Hour + 5*time.Minute): "2h05m",
		text.Duration(50 * time.Hour):              "2d02h", show.Tokens(950): "950",
		show.Tokens(12_345):  "12.3k",
		show.Tokens(999_949): "999.9k", show.Tokens(999_950): "1.0M",
		show.Dollars(0): "$0.00", show.Dollars(1234): "$0.0012", show.Dollars(420_000): "$0.42",
		text.Ordinal(1): "1st", text.Ordinal(2): "2nd", text.Ordinal(3): "3rd",
		text.Ordinal(4): "4th", text.Ordinal(11): "11th",
		text.Ordinal(12): "12th", text.Ordinal(22): "22nd", text.Ordinal(111): "111th",
		text.Count(1, "task"): "1 task", text.Count(0, "task"): "0 tasks",
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
