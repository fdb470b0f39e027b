package fault

import (
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"signalbox"
	"signalbox/internal/core/rules"
)

// joinedPlan is what several work on.
var joinedPlan = planOf("T1", "T2", "T3", "T4: T1", "T5: T2", "T6: T4, T5")

// TestRunJoined has several work on one box: each task is completed once, and who is killed leaves the rest to the others.
func TestRunJoined(t *testing.T) {
	t.Run("together", testJoinedTogether)
	t.Run("one is killed", func(t *testing.T) { testJoinedKilled(t, false) })
	t.Run("one is killed with its agents", func(t *testing.T) { testJoinedKilled(t, true) })
}

func testJoinedTogether(t *testing.T) {
	for range sized(1, 5) {
		s := newStage(t, set{plan: joinedPlan, script: content, settings: partsCheck})
		worker := s.start(t, "worker", "--roles", "developer", "--plain")
		first, second := s.startRun(t), s.startRun(t)
		first.end(0)
		second.end(0)
		if worker.isOver() {
			t.Error("the worker did not stay")
		}
		check(t, worker.cmd.Process.Signal(syscall.SIGINT))
		worker.end(0) // since the plan is complete
		events := s.checkDone(t, tasksIn(joinedPlan)...)
		s.checkParts(t, tasksIn(joinedPlan)...)
		if n := len(all[rules.PlanLoaded](events, "PlanLoaded", "")); n != 1 {
			t.Errorf("the plan was loaded %d times", n)
		}
		t.Logf("%v were at work", crewsIn(events))
	}
}

// crewsIn counts the leases of each crew.
func crewsIn(events []signalbox.Event) map[string]int {
	crews := map[string]int{}
	for _, e := range events {
		if e.Type == rules.TypeLeaseGranted {
			owner, _, _ := strings.Cut(e.Session, ".")
			crews[owner]++
		}
	}
	return crews
}

// testJoinedKilled kills a run while its agents are at work, beside another, which has to end them and do their work.
func testJoinedKilled(t *testing.T, agentsToo bool) {
	s := newStage(t, set{plan: joinedPlan, settings: partsCheck, script: `
on developer * attempt 1:
    touch $DIARY/here-{task}
    wait for $DIARY/never
` + content})
	victim := s.startRun(t)
	victim.until("its agents were there", func() bool {
		there, _ := filepath.Glob(filepath.Join(s.diary, "here-*"))
		return len(there) == 3
	})
	before := s.owners()
	heir := s.startRun(t)
	heir.until("it was up", func() bool { return len(s.owners()) > len(before) })
	check(t, victim.cmd.Process.Kill())
	<-victim.ended
	if agentsToo {
		s.endAll()
	}
	// The tasks that come later would keep the heir waiting.
	s.write(t, filepath.Join(s.diary, "never"), "")
	heir.end(0)
	events := s.checkDone(t, tasksIn(joinedPlan)...)
	s.checkParts(t, tasksIn(joinedPlan)...)
	for _, e := range events {
		if owner, _, _ := strings.Cut(e.Session, "."); slices.Contains(before, owner) && e.Type == rules.TypeSignalHeard {
			t.Errorf("event %d: the dead say %s", e.Seq, e.Data)
		}
	}
}

// TestRunChangedPlan stops a run, changes its plan, and runs it again: what was done stays done, the rest is as the plan says now.
func TestRunChangedPlan(t *testing.T) {
	s := newStage(t, set{plan: planOf("T1", "T2: T1", "T3: T1", "T4: T1", "T5: T2"), settings: "grace: 1s\n" + partsCheck, script: `
on developer T2,T3,T4 attempt 1:
    touch $DIARY/here-{task}
    hang

on developer T3 attempt 2+:
    expect "another text"
    run mkdir -p part && echo good >part/T3.txt
    signal READY_FOR_REVIEW: {task}
` + content})
	run := s.startRun(t)
	run.until("three were at work", func() bool {
		there, _ := filepath.Glob(filepath.Join(s.diary, "here-*"))
		return len(there) == 3
	})
	check(t, run.cmd.Process.Signal(syscall.SIGINT))
	run.end(130)
	s.checkNobody(t)
	s.checkClean(t)
	if held := s.leased(t); len(held) > 0 {
		t.Errorf("%v are still held", held)
	}
	first := s.events(t)
	if n := len(all[rules.AgentFailed](first, "AgentFailed", "")); n != 0 {
		t.Errorf("%d agents that were stopped count as failed", n)
	}

	changed := planOf("T1", "T2: T1", "T3: T1", "T6: T3", "T7")
	changed = strings.Replace(changed, "Write part/T3.txt.", "Write part/T3.txt, with another text.", 1)
	changed = strings.Replace(changed, "Write part/T1.txt.", "Write part/T1.txt, which was done.", 1)
	s.write(t, s.plan, changed)
	run = s.startRun(t)
	run.end(0)
	for _, line := range []string{"added: T6, T7", "changed: T3", "removed: T4, T5", "not done again: T1"} {
		if !strings.Contains(run.said(), line) {
			t.Errorf("it does not say %q:\n%s", line, run.said())
		}
	}
	events := s.checkDone(t, "T1", "T2", "T3", "T6", "T7")
	s.checkParts(t, "T1", "T2", "T3", "T6", "T7")
	for _, e := range events[len(first):] {
		if e.Work == "T1" && e.Type != rules.TypeTaskReplanned {
			t.Errorf("event %d: %s of work that was completed", e.Seq, e.Type)
		}
		if (e.Work == "T4" || e.Work == "T5") && e.Type == rules.TypeLeaseGranted {
			t.Errorf("event %d: somebody is at %s, which the plan does not have any more", e.Seq, e.Work)
		}
	}
}
