package fault

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"signalbox"
	"signalbox/internal/core/rules"
)

// killedScenario is a plan of eight tasks in which many things go wrong even without a kill.
var killedScenario = scenario{
	plan: planOf("T1", "T2: T1", "T3: T1", "T4: T1", "T5", "T6: T2, T3", "T7: T4, T5",
		"T8: T6, T7"),
	settings: "grace: 2s\nslots: 4\nexperts:\n  - {name: wise}\n" + partsCheck,
	script: `
on developer T2 attempt 1:
    run mkdir -p part && echo poor >part/T2.txt
    wait 20ms
    signal READY_FOR_REVIEW: {task}

on developer T3 attempt 1:
    wait 20ms
    say **READY_FOR_REVIEW: {task}**

on developer T4 attempt 1:
    wait 20ms
    signal EXPERT_REQUEST
        Target Agent: wise
        Request Type: advice
        Context Snapshot: part T4
        ---DELEGATION PROMPT START---
        How is it done?
        ---DELEGATION PROMPT END---

on developer T7 attempt 1:
    run mkdir -p part && echo half >part/T7.txt && sleep 0.05
    crash

on developer T5:
    run mkdir -p part more && echo good >part/T5.txt && echo again >>more/T5
    wait for $DIARY/open
    wait 30ms
    signal READY_FOR_REVIEW: {task}
        Summary: It is there.

on developer *:
    run mkdir -p part && echo good >part/$SIGNALBOX_WORK.txt
    wait for $DIARY/open
    wait 30ms
    signal READY_FOR_REVIEW: {task}
        Summary: It is there.

on critic T5 attempt 1:
    wait 20ms
    signal REVIEW_FAILED: {task}
        Issues Found:
        - part/T5.txt:1: could be better

on critic *:
    run sleep 0.02
    wait for $DIARY/open
    signal REVIEW_PASSED: {task}

on auditor *:
    wait 20ms
    signal AUDIT_PASSED: {task}

on expert *:
    wait 20ms
    signal EXPERT_ADVICE: {task}
        Summary: Continue.
`,
}

// killedTasks are the tasks of killedScenario.
var killedTasks = []string{"T1", "T2", "T3", "T4", "T5", "T6", "T7", "T8"}

// TestRunKilled kills signalbox run at random moments and restarts it until the plan is complete.
// At every moment the repository is intact, nothing is done twice, and once a run is up no agent of
// an earlier run is alive.
func TestRunKilled(t *testing.T) {
	t.Parallel()
	random := newRand(t)
	for left := sized(4, 120); left > 0; {
		s := newFixture(t, killedScenario)
		kills, events := killAndRestart(t, random, s, min(left, 24), killedTasks)
		left -= max(kills, 1)
		s.checkParts(t, killedTasks...)
		if t.Failed() {
			t.FailNow()
		}
		t.Logf("%d kills, %d events, %d agents (%d outlived their run)", kills, len(events),
			len(s.diary.lines(t, "starts")), len(s.sessions))
	}
}

// clashingScenario is a plan of tasks that all add a line at the end of the same file.
var clashingScenario = scenario{
	files:    map[string]string{"list.txt": "first\n"},
	plan:     planOf("T1", "T2", "T3", "T4"),
	settings: "grace: 2s\nslots: 4\nchecks:\n  - {name: markers, command: '! grep \"^[<>=]\" list.txt'}\n",
	script: `
on developer *:
    run grep -q $SIGNALBOX_WORK list.txt || echo $SIGNALBOX_WORK >>list.txt; sed -i '/^[<=>]/d' list.txt
    wait for $DIARY/open
    wait 30ms
    signal READY_FOR_REVIEW: {task}

on critic *:
    wait 20ms
    signal REVIEW_PASSED: {task}

on auditor *:
    wait 20ms
    signal AUDIT_PASSED: {task}
`,
}

// TestRunKilledInConflicts kills signalbox run while tasks conflict with each other. No line is
// lost, and none is there twice.
func TestRunKilledInConflicts(t *testing.T) {
	t.Parallel()
	random := newRand(t)
	conflicts := 0
	for left := sized(3, 80); left > 0; {
		s := newFixture(t, clashingScenario)
		kills, events := killAndRestart(t, random, s, min(left, 16),
			[]string{"T1", "T2", "T3", "T4"})
		left -= max(kills, 1)
		lines := strings.Split(strings.TrimSpace(s.git(t, "show", "main:list.txt")), "\n")
		slices.Sort(lines)
		if want := []string{"T1", "T2", "T3", "T4", "first"}; !slices.Equal(lines, want) {
			t.Errorf("list.txt has %q", lines)
		}
		for i := range events {
			if events[i].Type == rules.TypeConflictFound {
				conflicts++
			}
		}
		if t.Failed() {
			t.FailNow()
		}
		t.Logf("%d kills, %d events", kills, len(events))
	}
	if conflicts == 0 {
		t.Error("no task was in conflict")
	}
}

// killAndRestart runs the plan and kills the run up to atMost times.
func killAndRestart(t *testing.T, random *rand.Rand, s *fixture, atMost int,
	tasks []string) (kills int, events []signalbox.Event) {
	t.Helper()
	for ; kills < atMost; kills++ {
		s.gate(t, kills > 0 && random.IntN(3) > 0)
		run := s.restart(t)
		if kills == 0 {
			run.until("an agent had started",
				func() bool { return len(s.diary.lines(t, "starts")) > 0 })
			run.kill(killAlone)
		} else if !killAtInstant(t, random, run) {
			break
		}
		s.checkBase(t)
		if random.IntN(2) == 0 {
			s.checkQuiet(t)
		}
		if t.Failed() {
			t.Fatalf("after %d kills", kills+1)
		}
	}
	s.gate(t, true)
	s.restart(t).end(0)
	return kills, s.checkDone(t, tasks...)
}

// gate lets agents proceed, or makes them wait forever, so that agents that survive a kill do not
// end by themselves.
func (f *fixture) gate(t *testing.T, open bool) {
	t.Helper()
	if open {
		f.diary.create(t, "open")
	} else if err := os.Remove(f.diary.file("open")); err != nil &&
		!errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
}

// instants are events after which a process is in the middle of something that must not remain
// unfinished.
var instants = []func(*signalbox.Event) bool{
	granted(signalbox.RoleMerger, ""), granted(signalbox.RoleCI, ""),
	granted(signalbox.RoleDeveloper, ""), granted(signalbox.RoleCritic, ""),
	ofType(rules.TypeMergeRequested, ""), ofType(rules.TypeMerged, ""),
	ofType(rules.TypeAgentStarted, ""), ofType(rules.TypeExpertRequested, ""),
	ofType(rules.TypeReworkOrdered, ""),
	ofType(rules.TypeUnknownSignalRecovery, ""), ofType(rules.TypeTaskPlanned, ""),
	ofType(rules.TypeChecksRan, ""), ofType(rules.TypeSignalHeard, ""),
	ofType(rules.TypeConflictFound, ""),
}

// killAtInstant kills a run after a random time or event, alone or with the processes that work for
// it. It returns false if the run completed before.
func killAtInstant(t *testing.T, random *rand.Rand, run *crewProcess) bool {
	t.Helper()
	s := run.fixture
	lifetime := time.Duration(random.IntN(1500)) * time.Millisecond
	instant := func(*signalbox.Event) bool { return false }
	if random.IntN(2) == 0 {
		instant, lifetime = instants[random.IntN(len(instants))], 5*time.Second
	}
	ctx, cancel := context.WithTimeout(t.Context(), lifetime)
	defer cancel()
	if _, err := run.next(ctx, s.head(t), instant); err == nil {
		// to hit what follows the event
		time.Sleep(time.Duration(random.IntN(40)) * time.Millisecond * time.Duration(
			random.IntN(2)))
	}
	run.kill(killing(random.IntN(3)))
	if run.cmd.ProcessState.Exited() {
		run.end(0)
		return false
	}
	return true
}

// killing selects the processes that are killed with a run.
type killing int

const (
	killAlone      killing = iota
	killGroup              // also its git processes
	killEverything         // also the agents
)

// kill kills a run, and records the sessions whose processes survive.
func (r *crewProcess) kill(who killing) {
	if who == killGroup {
		syscall.Kill(-r.cmd.Process.Pid, syscall.SIGKILL)
	}
	r.cmd.Process.Kill()
	<-r.ended
	if who == killEverything {
		r.fixture.killAll()
	}
	for _, p := range r.fixture.processes() {
		r.fixture.sessions[p.session] = true
	}
}

// head returns the number of events in the ledger.
func (f *fixture) head(t testing.TB) uint64 { return uint64(len(f.events(t))) }

// restart starts the run, waits until it is up, and checks that no agent of an earlier run is
// alive.
func (f *fixture) restart(t *testing.T) *crewProcess {
	t.Helper()
	before := f.owners()
	run := f.startRun(t)
	run.until("it was up", func() bool {
		return run.hasEnded() ||
			slices.ContainsFunc(f.owners(),
				func(id string) bool { return !slices.Contains(before, id) })
	})
	present := f.owners()
	for _, p := range f.processes() {
		owner, _, owned := strings.Cut(p.session, ".")
		if f.sessions[p.session] || owned && !slices.Contains(present, owner) {
			t.Errorf("%+v belongs to an earlier run and is still alive although %v is up", p,
				present)
		}
	}
	if len(present) > 1 {
		t.Errorf("the register still has crews that are dead: %v", present)
	}
	return run
}

// checkQuiet restarts the run while the box is paused, so that nothing is dispatched, and checks
// that it cleans up what the killed run left.
func (f *fixture) checkQuiet(t *testing.T) {
	t.Helper()
	f.must(t, "pause")
	run := f.restart(t)
	if left := f.processes(); len(left) > 0 && !run.hasEnded() {
		t.Errorf("the box is paused, but these processes run: %+v", left)
	}
	f.checkRepository(t, true)
	f.checkBase(t)
	f.checkClean(t)
	for _, w := range f.leased(t) {
		t.Errorf("%s is still leased", w)
	}
	run.cmd.Process.Signal(syscall.SIGINT) // fails if it completed and ended
	<-run.ended
	if status := run.cmd.ProcessState.ExitCode(); status != 130 && status != 0 {
		t.Errorf("interrupted while paused: exit status %d", status)
	}
	f.must(t, "resume")
}

// leased returns the work items that have a live lease.
func (f *fixture) leased(t testing.TB) (held []string) {
	t.Helper()
	holders := map[string]bool{}
	for _, e := range f.events(t) {
		switch e.Type {
		case rules.TypeLeaseGranted:
			holders[e.Work] = true
		case rules.TypeLeaseReleased, rules.TypeLeaseExpired:
			delete(holders, e.Work)
		}
	}
	for work := range holders {
		held = append(held, work)
	}
	return held
}
