package fault

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"signalbox"
)

// killedSet is a plan of eight tasks in which much goes wrong even if nobody is killed.
var killedSet = set{
	plan:     planOf("T1", "T2: T1", "T3: T1", "T4: T1", "T5", "T6: T2, T3", "T7: T4, T5", "T8: T6, T7"),
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
        Summary: Go on.
`,
}

// killedTasks are those of killedSet.
var killedTasks = []string{"T1", "T2", "T3", "T4", "T5", "T6", "T7", "T8"}

// TestRunKilled kills signalbox run at any instant and starts it again, until the plan is complete. Whatever the instant, git
// is whole, nothing is done twice, and no agent of an earlier run is left when the next is up.
func TestRunKilled(t *testing.T) {
	random := newRand(t)
	for left := sized(8, 120); left > 0; {
		s := newStage(t, killedSet)
		kills, events := killAndRestart(t, random, s, min(left, 24))
		left -= max(kills, 1)
		s.checkParts(t, killedTasks...)
		if t.Failed() {
			t.FailNow()
		}
		t.Logf("%d kills, %d events, %d agents, of which %d outlived their run", kills, len(events), len(s.diaryLines(t, "starts")), len(s.sessions))
	}
}

// killAndRestart runs the plan and kills the run at most so many times.
func killAndRestart(t *testing.T, random *rand.Rand, s *stage, atMost int) (kills int, events []signalbox.Event) {
	t.Helper()
	for ; kills < atMost; kills++ {
		s.gate(t, kills > 0 && random.IntN(3) > 0)
		run := s.restart(t)
		if kills == 0 {
			run.until("agents were at work", func() bool { return len(s.diaryLines(t, "starts")) > 0 })
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
	return kills, s.checkDone(t, killedTasks...)
}

// gate lets agents do their work, or has them wait for ever: those that are left by a kill then do not end by themselves.
func (st *stage) gate(t *testing.T, yes bool) {
	t.Helper()
	name := filepath.Join(st.diary, "open")
	if yes {
		st.write(t, name, "")
	} else if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
}

// instants are events right after which something is under way that must not be left by half.
var instants = []func(*signalbox.Event) bool{
	granted(signalbox.RoleMerger, ""), granted(signalbox.RoleCI, ""), granted(signalbox.RoleDeveloper, ""), granted(signalbox.RoleCritic, ""),
	ofType("MergeRequested", ""), ofType("Merged", ""), ofType("AgentStarted", ""), ofType("ExpertRequested", ""), ofType("ReworkOrdered", ""),
	ofType("UnknownSignalRecovery", ""), ofType("TaskPlanned", ""), ofType("ChecksRan", ""), ofType("SignalHeard", ""),
}

// killAtInstant kills a run after some time or after some event, alone or with all that works for it. It returns false if the
// run was complete before.
func killAtInstant(t *testing.T, random *rand.Rand, run *crewProcess) bool {
	t.Helper()
	s := run.stage
	lifetime := time.Duration(random.IntN(1500)) * time.Millisecond
	instant := func(*signalbox.Event) bool { return false }
	if random.IntN(2) == 0 {
		instant, lifetime = instants[random.IntN(len(instants))], 5*time.Second
	}
	ctx, cancel := context.WithTimeout(t.Context(), lifetime)
	defer cancel()
	if _, err := run.next(ctx, s.head(t), instant); err == nil {
		time.Sleep(time.Duration(random.IntN(40)) * time.Millisecond * time.Duration(random.IntN(2))) // to meet what comes of it
	}
	run.kill(killing(random.IntN(3)))
	if run.cmd.ProcessState.Exited() {
		run.end(0)
		return false
	}
	return true
}

// killing is who is killed with a run.
type killing int

const (
	killAlone      killing = iota
	killGroup              // also the gits that it started
	killEverything         // also the agents
)

// kill kills a run, and notes what it leaves behind.
func (r *crewProcess) kill(who killing) {
	if who == killGroup {
		syscall.Kill(-r.cmd.Process.Pid, syscall.SIGKILL)
	}
	r.cmd.Process.Kill()
	<-r.ended
	if who == killEverything {
		r.stage.endAll()
	}
	for _, p := range r.stage.processes() {
		r.stage.sessions[p.session] = true
	}
}

// head is the number of events that the ledger has.
func (st *stage) head(t testing.TB) uint64 { return uint64(len(st.events(t))) }

// restart starts the run, waits until it is up, and checks that no agent of an earlier one is left.
func (st *stage) restart(t *testing.T) *crewProcess {
	t.Helper()
	before := st.owners()
	run := st.startRun(t)
	run.until("it was up", func() bool {
		return run.isOver() || slices.ContainsFunc(st.owners(), func(id string) bool { return !slices.Contains(before, id) })
	})
	present := st.owners()
	for _, p := range st.processes() {
		owner, _, owned := strings.Cut(p.session, ".")
		if st.sessions[p.session] || owned && !slices.Contains(present, owner) {
			t.Errorf("%+v is of an earlier run and still alive, when %v is up", p, present)
		}
	}
	if len(present) > 1 {
		t.Errorf("the register still has the dead: %v", present)
	}
	return run
}

// checkQuiet starts the run while nothing may be dispatched, so that there is nothing but what the killed one left, and
// checks that it is in order.
func (st *stage) checkQuiet(t *testing.T) {
	t.Helper()
	st.must(t, "pause")
	run := st.restart(t)
	if left := st.processes(); len(left) > 0 && !run.isOver() {
		t.Errorf("nothing may run, and these do: %+v", left)
	}
	st.checkWhole(t, true)
	st.checkBase(t)
	st.checkClean(t)
	for _, w := range st.leased(t) {
		t.Errorf("%s is still held", w)
	}
	run.cmd.Process.Signal(syscall.SIGINT) // unless it is complete, and over
	<-run.ended
	if status := run.cmd.ProcessState.ExitCode(); status != 130 && status != 0 {
		t.Errorf("interrupted while paused: exit status %d", status)
	}
	st.must(t, "resume")
}

// leased returns the work that somebody holds.
func (st *stage) leased(t testing.TB) (held []string) {
	t.Helper()
	holders := map[string]bool{}
	for _, e := range st.events(t) {
		switch e.Type {
		case "LeaseGranted":
			holders[e.Work] = true
		case "LeaseReleased", "LeaseExpired":
			delete(holders, e.Work)
		}
	}
	for work := range holders {
		held = append(held, work)
	}
	return held
}
