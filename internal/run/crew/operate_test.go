package crew

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"signalbox"
	"signalbox/internal/core/engine"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/turnprompt"
	"signalbox/internal/testkit/must"
)

func TestPauseAndResume(t *testing.T) {
	s := set(t, scene{plan: task("T1") + task("T2"), script: `
on developer T1:
    wait for continue
    signal READY_FOR_REVIEW: {task}
`})
	s.do(rules.Order{What: rules.OrderPause, Work: "T2", Actor: "me"})
	r := s.begin()
	await[rules.AgentStarted](s, "T1", 1)
	s.do(rules.Order{What: rules.OrderPause, Actor: "me"})
	s.write("project/continue", "")
	s.until("the developer is done",
		func() bool { return s.work("T1").Phase == signalbox.PhaseCIPending && s.work("T1").Lease == nil })
	if st := s.status(); st.Standing != rules.StandingPaused {
		t.Errorf("the run is %s", st.Standing)
	}
	s.do(rules.Order{What: rules.OrderResume, Actor: "me"})
	s.until("T1 is completed",
		func() bool { return s.work("T1").Phase == signalbox.PhaseCompleted })
	if n := len(all[rules.AgentStarted](s, "T2")); n != 0 {
		t.Error("T2 was started although it is paused")
	}
	s.do(rules.Order{What: rules.OrderResume, Work: "T2", Actor: "me"})
	r.complete("T1", "T2")
}

// The agent of cancelled work is ended with everything it started. A retry starts again.
func TestCancelAndRetry(t *testing.T) {
	s := set(t, scene{plan: task("T1") + task("T2", "**Blocked By**: T1"), script: `
on developer T1 attempt 1:
    run sleep 600 >/dev/null 2>&1 &
    signal CHECKPOINT: {task}
    hang
`})
	r := s.begin()
	s.awaitCheckpoint("T1")
	s.do(rules.Order{What: rules.OrderCancel, Work: "T1", Actor: "me", Reason: "no longer wanted"})
	o := r.end()
	if o.Standing != rules.StandingStuck || len(o.Reasons) != 1 ||
		o.Reasons[0] != "T2 waits for T1; T1 is cancelled (no longer wanted)" {
		t.Errorf("the run ended %s: %v", o.Standing, o.Reasons)
	}
	if left := runningProcesses(s.box.Dir); left != nil {
		t.Errorf("processes are still running: %v", left)
	}
	s.do(rules.Order{What: rules.OrderRetry, Work: "T1", Actor: "me"})
	s.run()
	s.wantCompleted("T1", "T2")
}

func TestCancelTheRun(t *testing.T) {
	s := set(t, scene{plan: task("T1"),
		script: "on developer T1 attempt 1:\n    signal CHECKPOINT: {task}\n    hang\n"})
	r := s.begin()
	s.awaitCheckpoint("T1")
	s.do(rules.Order{What: rules.OrderCancel, Actor: "me"})
	if o := r.end(); o.Standing != rules.StandingStuck {
		t.Errorf("the run ended %s", o.Standing)
	}
	s.do(rules.Order{What: rules.OrderRetry, Actor: "me"})
	s.run()
	s.wantCompleted("T1")
}

// awaitCheckpoint waits for a checkpoint of an agent, which its script sends when it has reached
// the interesting point.
func (s *stage) awaitCheckpoint(work string) {
	s.t.Helper()
	s.until("the agent of "+work+" reports",
		func() bool { return len(all[rules.ProgressReported](s, work)) > 0 })
}

// A crew that is stopped ends its agents and releases their work. The next crew continues from what
// they did.
func TestStoppedAndContinued(t *testing.T) {
	s := set(t, scene{git: true, plan: task("T1") + task("T2"), script: `
on developer T1 attempt 1:
    write half.txt half
    signal CHECKPOINT: {task}
    hang
on developer T1 attempt 2:
    run test -f half.txt && echo whole > whole.txt
    signal READY_FOR_REVIEW: {task}
`})
	why := errors.New("enough for today")
	r := s.begin()
	s.awaitCheckpoint("T1")
	r.stop(why)
	<-r.over
	if !errors.Is(r.err, context.Canceled) {
		t.Errorf("the run ended with %v", r.err)
	}
	if w := s.work("T1"); w.Lease != nil || w.Phase != signalbox.PhaseImplementation {
		t.Errorf("T1 is in %s, held by %+v", w.Phase, w.Lease)
	}
	if left := runningProcesses(s.box.Dir); left != nil {
		t.Errorf("processes are still running: %v", left)
	}
	if n := len(all[rules.AgentFailed](s, "")); n != 0 {
		t.Error("stopping counts as a failure")
	}
	s.run()
	s.wantCompleted("T1", "T2")
	s.file("whole.txt")
}

// slowAppend is a journal whose first lease takes a while to be stored.
type slowAppend struct {
	journal.Journal
	once             sync.Once
	started, storing chan struct{}
}

func (j *slowAppend) Append(ctx context.Context, expected uint64, events []signalbox.Event) error {
	if slices.ContainsFunc(events,
		func(e signalbox.Event) bool { return e.Type == rules.TypeLeaseGranted }) {
		j.once.Do(func() { close(j.started) })
		<-j.storing
	}
	return j.Journal.Append(ctx, expected, events)
}

// A crew that is stopped while its first lease is being recorded does not know that it gets one.
// The next crew releases it.
func TestStoppedWhileClaiming(t *testing.T) {
	s := set(t, scene{plan: task("T1")})
	b := s.open()
	b.Engine.Close()
	slow := &slowAppend{Journal: b.Journal, started: make(chan struct{}),
		storing: make(chan struct{})}
	var err error
	if b.Engine, err = engine.Open(t.Context(), slow, nil); err != nil {
		t.Fatal(err)
	}
	r := s.beginIn(b, Options{})
	<-slow.started
	r.halt()
	close(slow.storing)
	s.await("the lease is recorded",
		func() bool { return s.box.Engine.Refresh(t.Context()) == nil && s.status().Running > 0 })
	s.run()
	s.wantCompleted("T1")
}

// Two crews share the work of a box, and nothing is done twice.
func TestTwoCrews(t *testing.T) {
	s := set(t, scene{git: true, plan: task("T1") + task("T2") + task("T3") + task("T4"), script: `
on developer *:
    write {task}.txt x
    signal READY_FOR_REVIEW: {task}
`})
	one, two := s.begin(), s.beginIn(s.open(), Options{Actor: "other"})
	for _, r := range []*running{one, two} {
		r.complete()
	}
	must.Succeed(t, s.box.Engine.Refresh(t.Context()))
	s.wantCompleted("T1", "T2", "T3", "T4")
	if n := len(all[rules.AgentStarted](s, "")); n != 12 {
		t.Errorf("%d agents were started, want 12", n)
	}
	if got := strings.Fields(s.git("ls-files")); strings.Join(got,
		" ") != "T1.txt T2.txt T3.txt T4.txt" {
		t.Errorf("the base has %v", got)
	}
}

// A crew with one role leaves the other roles to other crews.
func TestCrewOfOneRole(t *testing.T) {
	s := set(t, scene{plan: task("T1")})
	critics := s.beginIn(s.box, Options{Roles: []signalbox.Role{signalbox.RoleCritic}, Stay: true})
	others := s.beginIn(s.box,
		Options{Roles: []signalbox.Role{signalbox.RoleDeveloper, signalbox.RoleCI,
			signalbox.RoleAuditor}})
	others.end()
	s.wantCompleted("T1")
	critics.halt()
	for _, granted := range all[rules.LeaseGranted](s, "T1") {
		if byCritics := strings.HasPrefix(granted.Session, critics.crew.owner.ID()+
			"."); byCritics != (granted.Body.Role == signalbox.RoleCritic) {
			t.Errorf("the wrong crew got the role %s", granted.Body.Role)
		}
	}
}

// With Stay a crew waits for more work when everything is done.
func TestStay(t *testing.T) {
	s := set(t, scene{plan: task("T1"), options: Options{Stay: true}})
	r := s.begin()
	s.until("T1 is completed",
		func() bool { return s.work("T1").Phase == signalbox.PhaseCompleted && s.work("T1").Lease == nil })
	s.load(task("T1") + task("T2"))
	s.until("T2 is completed",
		func() bool { return s.work("T2").Phase == signalbox.PhaseCompleted })
	select {
	case <-r.over:
		t.Error("Run returned")
	default:
	}
	r.halt()
	s.wantCompleted("T1", "T2")
}

func TestLeaveQuestions(t *testing.T) {
	s := set(t, scene{plan: task("T1") + task("T2", "**Blocked By**: T1"), options: Options{LeaveQuestions: true}, script: `
on developer T1 attempt 1:
    signal SEEKING_DIVINE_CLARIFICATION
        Question: Why?
`})
	o := s.begin().end()
	if o.Standing != rules.StandingAsking || len(o.Questions) != 1 ||
		strings.Join(o.Reasons, "; ") != "T1 waits for an answer to Q-1; T2 waits for that" {
		t.Errorf("the run ended %s: %q", o.Standing, o.Reasons)
	}
	s.do(rules.AnswerQuestion{Question: "Q-1", Answer: "Because.", Actor: "me"})
	s.run()
	wantIn(t, s.prompts("T1", "developer")[1], "Because.")
}

// A changed plan is picked up by the next run; completed tasks are not done again.
func TestPlanChanged(t *testing.T) {
	s := set(t, scene{plan: task("T1") + task("T2", "**Blocked By**: T1")})
	s.run()
	changed := strings.Replace(task("T1"), "The task T1", "Another title", 1) + task("T2",
		"**Blocked By**: T1") + task("T3", "**Blocked By**: T1")
	change := s.load(changed)
	if strings.Join(change.Added, " ") != "T3" || strings.Join(change.Stale, " ") != "T1" ||
		len(change.Changed) > 0 {
		t.Errorf("change: %+v", change)
	}
	s.run()
	s.wantCompleted("T1", "T2", "T3")
	s.wantStarted("T1", "developer", 1)
	if again := s.load(changed); len(again.Added)+len(again.Changed)+len(again.Removed) > 0 {
		t.Errorf("loading the same plan changed something: %+v", again)
	}
}

// A worktree that cannot be saved is not a verdict about the work, and the agent is told.
func TestWorkspaceFailure(t *testing.T) {
	s := set(t, scene{git: true, plan: task("T1"), options: Options{LeaveQuestions: true}, script: `
on developer T1:
    run git init -q inner && echo x > inner/file
    signal READY_FOR_REVIEW: {task}
`})
	s.begin().end()
	if q := all[rules.QuestionAsked](s, "T1"); len(q) != 1 {
		t.Fatalf("questions: %+v", q)
	}
	wantIn(t, s.prompts("T1", "developer")[1], "Your changes cannot be saved",
		"contains another git repository: inner")
}

// Leases are renewed while an agent works. The TTL is long enough for a slow machine: a third of it
// passes before the renewal, and two thirds are left for it. TestLeaseRenewal checks the times.
func TestLeaseIsRenewed(t *testing.T) {
	s := set(t, scene{plan: task("T1"), settings: "lease: {ttl: 60s}\n", script: `
on developer T1:
    wait for continue
    signal READY_FOR_REVIEW: {task}
`})
	r := s.begin()
	await[rules.LeaseRenewed](s, "T1", 1)
	s.write("project/continue", "")
	r.complete("T1")
	granted, renewed := all[rules.LeaseGranted](s, "T1")[0].Body,
		all[rules.LeaseRenewed](s, "T1")[0].Body
	if !renewed.Expires.After(granted.Expires) {
		t.Errorf("granted until %s, renewed until %s", granted.Expires, renewed.Expires)
	}
	s.wantStarted("T1", "developer", 1)
}

// A template that is invalid or missing is found before any agent is started.
func TestInvalidTemplate(t *testing.T) {
	s := set(t, scene{plan: task("T1"), settings: "roles: {critic: {prompt: mine.md}}\n",
		files: map[string]string{".signalbox/mine.md": "{{.Nothing}}"}})
	if _, err := New(t.Context(), s.box, s.project, nil); err == nil ||
		!strings.Contains(err.Error(), "can't evaluate field Nothing") {
		t.Errorf("error %v", err)
	}
	must.Succeed(t, os.Remove(filepath.Join(s.box.Dir, "mine.md")))
	if _, err := New(t.Context(), s.box, s.project, nil); err == nil ||
		!strings.Contains(err.Error(), "mine.md") {
		t.Errorf("error %v", err)
	}
}

// A prompt has a note in place of a redacted text.
func TestRedactedText(t *testing.T) {
	s := set(t, scene{plan: task("T1")})
	if _, err := s.box.Engine.Redact(t.Context(), rules.RedactBlob{Blob: s.work("T1").Task.Text,
		Actor: "me", Reason: "secret"}); err != nil {
		t.Fatal(err)
	}
	text, err := turnprompt.Show(t.Context(), s.box, "main", signalbox.RoleDeveloper, "T1", false)
	must.Succeed(t, err)
	wantIn(t, string(text), "(this text was redacted)", "    READY_FOR_REVIEW: T1\n")
	s.run()
	s.wantCompleted("T1")
}
