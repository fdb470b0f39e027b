package history

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/inspect"
	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/property"
)

// checkLog explains all work of a log, again and again while the log grows, and compares with what
// the rules and the cost page say.
func checkLog(t testing.TB, log events, every int) {
	t.Helper()
	s, reader := &rules.State{}, new(Reader)
	for i := range log {
		must.Succeed(t, s.Apply(&log[i]))
		if i%every != 0 && i != len(log)-1 {
			continue
		}
		now, so := log[i].Time, log[:i+1]
		if log[i].Type == rules.TypeClockCorrected {
			now = read[rules.ClockCorrected](&log[i]).To
		}
		now = now.Add(time.Second)
		var sum inspect.Usage
		turns := 0
		for w := range s.Works() {
			x := explain(t, reader, so, w.ID, now)
			task := inspect.NewTask(s, w, now)
			checkExplanation(t, so, x, task.Usage, now)
			checkLast(t, s, x, now)
			if x.Turns != task.Attempts || x.Title != w.Title || x.Phase != w.Phase {
				t.Errorf("%s: %d turns, %q, %s; want %d, %q, %s", w.ID, x.Turns, x.Title, x.Phase,
					task.Attempts, w.Title, w.Phase)
			}
			sum.Add(x.Usage)
			turns += x.Turns
		}
		stats, err := reader.Stats(t.Context(), so, uint64(len(so)))
		must.Succeed(t, err)
		for _, a := range stats.Agents {
			sum.Add(inspect.Usage{Tokens: -a.Usage.Tokens, EstimatedTokens: -a.Usage.EstimatedTokens,
				CostMicros: -a.Usage.CostMicros, Seconds: -a.Usage.Seconds,
				UnknownTokens: -a.Usage.UnknownTokens, UnknownCost: -a.Usage.UnknownCost})
			turns -= a.Turns
		}
		if math.Abs(sum.Seconds) < 1e-6 {
			sum.Seconds = 0
		}
		if sum != (inspect.Usage{}) || turns != 0 {
			t.Errorf("at event %d the explanations have %+v and %d turns more than the statistics",
				i+1, sum, turns)
		}
		if t.Failed() {
			t.FailNow()
		}
	}
	var costs inspect.CostReader
	page, err := costs.Read(t.Context(), log, uint64(len(log)))
	must.Succeed(t, err)
	var sum inspect.Usage
	for w := range s.Works() {
		sum.Add(explain(t, reader, log, w.ID, s.Time()).Usage)
	}
	for _, row := range page.Agents {
		sum.CostMicros -= row.CostMicros
		sum.Tokens -= row.Tokens
	}
	if sum.CostMicros != 0 || sum.Tokens != 0 {
		t.Errorf("the explanations have %d µ$ and %d tokens more than the cost page",
			sum.CostMicros, sum.Tokens)
	}
}

// TestRecorded explains the work of all recorded histories.
func TestRecorded(t *testing.T) {
	for name, log := range recorded(t) {
		t.Run(name, func(t *testing.T) { checkLog(t, log, 2) })
	}
}

// TestRandom explains the work of random histories.
func TestRandom(t *testing.T) {
	seen := map[Part]int{}
	property.Check(t, func(r *rapid.T) {
		p := draw(r, t)
		checkLog(t, p.log, 70)
		for w := range p.s.Works() {
			for _, part := range p.explain(w.ID).Parts {
				seen[part.Part]++
			}
		}
	})
	for _, part := range []Part{Development, Rework, Checks, Review, Audit, Merge, Unfinished,
		WaitTasks, WaitSlot, WaitLimit, WaitMachine, WaitHuman, WaitBase} {
		if seen[part] == 0 {
			t.Errorf("no random history has the part %s", part)
		}
	}
}

// TestStory explains a task that waits, is sent back, gets another agent and is approved.
func TestStory(t *testing.T) {
	p := begin(t, func(policy *rules.Policy) { policy.ApproveMerge = true }, task("T1"))
	p.after(time.Minute).check("B-1", true)
	p.begins(signalbox.RoleDeveloper, "T1")
	p.after(10*time.Minute).say("T1", "ready_for_review", 1_000_000, rules.SignalFields{})
	p.check("T1", true)
	p.begins(signalbox.RoleCritic, "T1")
	p.after(5*time.Minute).say("T1", "review_failed", 300_000, rules.SignalFields{
		Summary:  "two problems",
		Findings: []rules.SaidFinding{{Place: "a.go:7", Text: "no lock is held"}, {Text: "no test"}}})
	p.begins(signalbox.RoleDeveloper, "T1")
	a := p.held["T1"]
	p.after(time.Minute)
	p.must(rules.ReportFailure{Session: a.Session, Epoch: a.Lease.Epoch,
		Cause: rules.FailRateLimit, Until: p.now.Add(time.Hour), Turn: turnOf(50_000, "claude")})
	p.begins(signalbox.RoleDeveloper, "T1") // codex
	p.after(12*time.Minute).say("T1", "ready_for_review", 2_000_000, rules.SignalFields{})
	p.check("T1", true)
	p.begins(signalbox.RoleCritic, "T1")
	p.say("T1", "review_passed", 100_000, rules.SignalFields{})
	p.begins(signalbox.RoleAuditor, "T1")
	p.say("T1", "audit_passed", 100_000, rules.SignalFields{})
	p.after(30 * time.Minute)
	p.must(rules.Order{What: rules.OrderApprove, Work: "T1", Actor: "ann"})
	p.merge("T1")

	x := p.explain("T1")
	const want = `T1 task T1
completed in 59m00s: $3.55, 355.0k tokens, 6 turns of agents
most time: waiting for you (51%); most money: rework (56%)

WHERE IT WENT         TIME    SHARE  COST   TOKENS
waiting for you       30m00s  51%    -      -
rework                12m00s  20%    $2.00  200.0k
development           10m00s  17%    $1.00  100.0k
review                5m00s   8%     $0.40  40.0k
unfinished attempts   1m00s   2%     $0.05  5.0k
waiting for the base  1m00s   2%     -      -
audit                 0s      0%     $0.10  10.0k
checks                0s      0%     -      -
merge                 0s      0%     -      -
total                 59m00s  100%   $3.55  355.0k

EVENT  AT        TOOK    COST   WHAT HAPPENED
5      09:00:00  1m00s   -      waited for the checks on the base, B-1
14     09:01:00  10m00s  $1.00  development by claude, claude-large: ready for review
18     09:11:00  0s      -      checks passed (1 of 1)
25     09:11:00  5m00s   $0.30  review by claude, claude-large: review failed
         F1 a.go:7: no lock is held
         F2 no test
34     09:16:00  1m00s   $0.05  unfinished attempt of the developer (round 1, after: review) by claude, claude-large: rate limit
33     09:17:00  -       -      codex took over from claude: rate limit
38     09:17:00  12m00s  $2.00  rework (round 1, after: review) by codex, codex-large: ready for review
42     09:29:00  0s      -      checks passed (1 of 1)
49     09:29:00  0s      $0.10  review by codex, codex-large: review passed
56     09:29:00  0s      $0.10  audit by codex, codex-large: audit passed
57     09:29:00  30m00s  -      waited for you: your approval of the merge
62     09:59:00  0s      -      merged as 0000000

input from a cache: not known
the events: signalbox ledger tail --work T1`
	if got := strings.Join(x.Lines(Options{Zone: time.UTC}), "\n"); got != want {
		t.Errorf("%s", got)
	}
}

// TestBlockers: a task does not wait for one that the plan dropped, and one that was cancelled is
// named as such.
func TestBlockers(t *testing.T) {
	p := begin(t, nil, task("T1"), task("T2"), task("T3"))
	added := p.must(rules.AddTask{Task: rules.PlanTask{Title: "more", Text: signalbox.Hash{8},
		BlockedBy: []string{"T1", "T2"}}, Plan: signalbox.Hash{7}, Actor: "ann"}).Work
	wantWait := func(want string, part Part) {
		t.Helper()
		p.after(time.Minute)
		steps := p.explain(added).Steps
		if last := steps[len(steps)-1]; last.Text != want || last.Part != part {
			t.Errorf("%+v, want %s %s", last, part, want)
		}
	}
	wantWait("T1, T2", WaitTasks)
	p.must(rules.Order{What: rules.OrderCancel, Work: "T2", Reason: "no", Actor: "ann"})
	wantWait("T1, T2 (cancelled)", WaitTasks)
	load := func(tasks ...rules.PlanTask) {
		plan := rules.LoadPlan{Plan: signalbox.Hash{byte(len(tasks)), 1}, Name: "counter",
			ID: "counter", Source: "counter.md", Tasks: tasks, Actor: "op"}
		for !p.must(plan).Plan.Loaded {
		}
	}
	load(task("T2"), task("T3"))
	wantWait("T2 (cancelled)", WaitTasks)
	p.must(rules.Order{What: rules.OrderRetry, Work: "T2", Actor: "ann"})
	wantWait("T2", WaitTasks)
	load(task("T3"))
	p.check("B-1", true)
	wantWait("no session was at work in the whole box", WaitMachine)
	load(task("T1"), task("T3"))
	wantWait("T1", WaitTasks)
}

// slowJournal calls slow before it returns events after half of the log.
type slowJournal struct {
	events
	slow func()
}

func (j slowJournal) Read(ctx context.Context, after uint64, limit int) ([]signalbox.Event, error) {
	if after >= uint64(len(j.events)/2) {
		j.slow()
	}
	return j.events.Read(ctx, after, min(limit, 2))
}

// TestSlowJournal: while one reader waits for the journal, others get what is known already, and
// events that both have read count once.
func TestSlowJournal(t *testing.T) {
	p := begin(t, nil, task("T1"), task("T2"))
	p.check("B-1", true)
	p.begins(signalbox.RoleDeveloper, "T1")
	p.after(time.Minute).say("T1", "ready_for_review", 1_000_000, rules.SignalFields{})
	p.check("T1", true)
	half, whole := uint64(len(p.log)/2), uint64(len(p.log))
	reader, calls := new(Reader), atomic.Int32{}
	ask := func(j inspect.Journal, upTo uint64) (*Explanation, *Stats) {
		x, err := reader.Explain(t.Context(), j, "T1", upTo, p.now)
		st, statsErr := reader.Stats(t.Context(), j, upTo)
		if err := errors.Join(err, statsErr); err != nil { // also where a journal is read
			t.Error(err)
		}
		return x, st
	}
	early, _ := ask(p.log, half)
	slow := slowJournal{events: p.log, slow: func() {
		call := calls.Add(1)
		if again, _ := ask(p.log, half); !cmp.Equal(again, early) {
			t.Errorf("explained again: %s", cmp.Diff(early, again))
		}
		ask(p.log, min(whole, half+uint64(call)))
	}}
	x, st := ask(slow, whole)
	want, err := new(Reader).Stats(t.Context(), p.log, whole)
	must.Succeed(t, err)
	if diff := cmp.Diff(want, st); diff != "" {
		t.Errorf("statistics (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(p.explain("T1"), x); diff != "" {
		t.Errorf("explanation (-want +got):\n%s", diff)
	}
	if n := calls.Load(); n < 4 {
		t.Errorf("the journal was slow %d times", n)
	}
}

// parallelJournal is a long log of which nothing is returned before two ranges are asked for. It
// notes the last event that it returns.
type parallelJournal struct {
	events
	asked atomic.Int32
	both  chan struct{}
	last  atomic.Uint64
}

func (j *parallelJournal) Read(ctx context.Context, after uint64,
	limit int) ([]signalbox.Event, error) {
	if j.asked.Add(1) == 2 {
		close(j.both)
	}
	<-j.both
	list, err := j.events.Read(ctx, after, limit)
	if len(list) > 0 {
		j.last.Store(max(j.last.Load(), list[len(list)-1].Seq))
	}
	return list, err
}

// TestLongLog: ranges are read at the same time, and nothing is read after the work is done.
func TestLongLog(t *testing.T) {
	p := begin(t, nil, task("T1"), task("T2"))
	p.check("B-1", true)
	p.begins(signalbox.RoleDeveloper, "T1")
	p.after(time.Minute).say("T1", "ready_for_review", 1_000_000, rules.SignalFields{})
	p.check("T1", true)
	p.begins(signalbox.RoleCritic, "T1")
	p.say("T1", "review_passed", 100_000, rules.SignalFields{})
	p.begins(signalbox.RoleAuditor, "T1")
	p.say("T1", "audit_passed", 100_000, rules.SignalFields{})
	p.merge("T1")
	done := uint64(len(p.log))
	for n := done + 1; n <= done+2*readAtOnce; n++ {
		p.log = append(p.log, signalbox.Event{Seq: n, Time: p.now, Type: "Other", Data: []byte("{}")})
	}
	whole := uint64(len(p.log))
	j := &parallelJournal{events: p.log, both: make(chan struct{})}
	_, err := new(Reader).Stats(t.Context(), j, whole)
	must.Succeed(t, err)
	j.last.Store(0)
	w, _ := p.s.Work("T1")
	x, err := new(Reader).explainWork(t.Context(), j, w, whole, p.now)
	must.Succeed(t, err)
	if diff := cmp.Diff(p.explain("T1"), x); diff != "" || j.last.Load() != done {
		t.Errorf("read up to event %d, not %d (-want +got):\n%s", j.last.Load(), done, diff)
	}
	w, _ = p.s.Work("T2")
	x, err = new(Reader).explainWork(t.Context(), j, w, whole, p.now)
	must.Succeed(t, err)
	if x.Done || j.last.Load() != whole {
		t.Errorf("read up to event %d, not %d: %+v", j.last.Load(), whole, x)
	}
}

// TestWaitsForAnIndependentAgent: work that no agent may judge waits for the human, unless agents are
// named for the role. An order to retry it is told.
func TestWaitsForAnIndependentAgent(t *testing.T) {
	for named, want := range map[signalbox.Role]string{
		signalbox.RoleAuditor: "waited for you: an agent for the critic of another vendor than its author",
		signalbox.RoleCritic:  "waited: no session was at work in the whole box"} {
		p := begin(t, func(policy *rules.Policy) {
			policy.Independence = rules.IndependenceVendor
			for _, name := range []string{"claude", "codex"} {
				policy.AgentSettings = append(policy.AgentSettings, rules.AgentSettings{Agent: name,
					Settings: signalbox.Hash{name[1]}, Vendor: "anthropic"})
			}
			for i := range policy.Agents {
				policy.Agents[i].Named = policy.Agents[i].Role == named
			}
		}, task("T1"))
		p.check("B-1", true)
		p.begins(signalbox.RoleDeveloper, "T1")
		a := p.held["T1"]
		turn := turnOf(1_000_000, "claude")
		turn.Vendor = "anthropic"
		p.must(rules.ReportSignal{Session: a.Session, Epoch: a.Lease.Epoch,
			Signal: "ready_for_review", Named: "T1", Turn: turn})
		p.check("T1", true)
		p.must(rules.Order{What: rules.OrderRetry, Work: "T1", Actor: "ann"})
		p.after(time.Minute)
		x := p.explain("T1")
		if last := x.Steps[len(x.Steps)-1]; last.InWords() != want {
			t.Errorf("%+v, want %q", last, want)
		}
		if len(x.Events) != 1 || x.Events[0].Text != "retried by ann" {
			t.Errorf("%+v", x.Events)
		}
	}
}

// event is an event as the fold reads it.
func event(t *testing.T, kind, work string, data any) *signalbox.Event {
	t.Helper()
	encoded, err := json.Marshal(data)
	must.Succeed(t, err)
	return &signalbox.Event{Type: kind, Work: work, Data: encoded}
}

// TestCache adds up what turns of a program read from its cache, also if it begins a new count.
func TestCache(t *testing.T) {
	f := newFold("T1")
	for _, now := range []*rules.Thread{nil, {ID: "a", Input: 100, Cached: 40},
		{ID: "a", Input: 150, Cached: 70}, {ID: "a", Input: 200, Cached: 10},
		{ID: "b", Input: 7, Cached: 5}} {
		f.addCache(now)
	}
	if got := *f.x.Cache; got != (Cache{4, 357, 85}) {
		t.Errorf("%+v", got)
	}
}

// TestTokenWindow: work waits until the token window ends, which is earlier after a clock that was
// ahead is corrected.
func TestTokenWindow(t *testing.T) {
	p := begin(t, func(policy *rules.Policy) {
		policy.Window = rules.TokenWindow{Tokens: 50_000, Every: time.Hour}
	}, task("T1"))
	p.check("B-1", true)
	p.begins(signalbox.RoleDeveloper, "T1")
	p.say("T1", "ready_for_review", 1_000_000, rules.SignalFields{})
	p.check("T1", true)
	wantWait := func(want Part) {
		t.Helper()
		steps := p.explain("T1").Steps
		if last := steps[len(steps)-1]; last.Part != want {
			t.Errorf("%+v, want %s", last, want)
		}
	}
	p.after(30 * time.Minute)
	wantWait(WaitLimit)
	p.must(rules.Order{What: rules.OrderPause, Actor: "ann"})
	p.must(rules.Order{What: rules.OrderResume, Actor: "ann"})
	p.must(rules.CorrectClock{To: p.now.Add(-10 * time.Minute), Reason: "ahead", Actor: "op"})
	p.now = p.now.Add(15 * time.Minute)
	wantWait(WaitLimit)
	p.after(10 * time.Minute)
	wantWait(WaitMachine)
}

// TestLimits: of agents that all are down, the one that is back first is named. One that is down in
// one role only stops nothing, and an order to continue the run lifts pauses of roles.
func TestLimits(t *testing.T) {
	p := begin(t, nil, task("T1"))
	p.check("B-1", true)
	for _, pause := range []time.Duration{2 * time.Hour, time.Hour} {
		p.begins(signalbox.RoleDeveloper, "T1")
		a := p.held["T1"]
		p.must(rules.ReportFailure{Session: a.Session, Epoch: a.Lease.Epoch,
			Cause: rules.FailRateLimit, Until: p.now.Add(pause), Turn: turnOf(0, a.Agent)})
	}
	p.after(time.Minute)
	steps := p.explain("T1").Steps
	if last := steps[len(steps)-1]; last.Part != WaitLimit || !strings.HasPrefix(last.Text, "codex: ") {
		t.Errorf("%+v", last)
	}
	f := newFold("T1")
	f.other(event(t, rules.TypeAgentUnavailable, "", rules.AgentUnavailable{Agent: "claude",
		Role: signalbox.RoleCritic}))
	if len(f.box.limits) != 0 {
		t.Errorf("%+v", f.box.limits)
	}
	f.other(event(t, rules.TypePaused, "", rules.Paused{Role: signalbox.RoleCritic}))
	paused := len(f.box.roles)
	f.other(event(t, rules.TypeRetried, "", rules.Retried{}))
	if paused != 1 || len(f.box.roles) != 0 {
		t.Errorf("%d roles, then %+v", paused, f.box.roles)
	}
}

// TestSingleSteps has what the fold does with one event, or one state.
func TestSingleSteps(t *testing.T) {
	f := newFold("T1")
	f.x.Steps = make([]Step, 2)
	f.describe(&open{steps: []int{0, 1}, findings: []string{"F1"}, finished: true}, "done", 9)
	if first, last := f.x.Steps[0], f.x.Steps[1]; first.Text != "parked" || first.Findings != nil ||
		last.Text != "done" || len(last.Findings) != 1 {
		t.Errorf("a session that was parked: %+v", f.x.Steps)
	}
	f = newFold("T1")
	f.planned, f.x.Phase, f.submitted = true, signalbox.PhaseReadyForMerge, &wait{}
	f.request, f.delivered, f.commit = &wait{part: WaitRequest}, "a", "a"
	if w := f.waiting(); w.part != WaitRequest {
		t.Errorf("its pull request is open: %+v", w)
	}
	f.commit = "b"
	if w := f.waiting(); w.part == WaitRequest {
		t.Errorf("the pull request has another commit: %+v", w)
	}
	f.enter(rules.PhaseChanged{From: signalbox.PhaseReadyForMerge, To: signalbox.PhaseReadyForReview})
	if f.submitted != nil {
		t.Error("it is reviewed again, and still submitted")
	}
	if got := percent(0.5, 100) + percent(1, 100) + percent(0, 100) + percent(1, 0); got != "<1%1%0%-" {
		t.Error(got)
	}
}
