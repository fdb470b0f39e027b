package fault

import (
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"signalbox/internal/core/rules"
)

// joinedPlan is a plan for several processes.
var joinedPlan = planOf("T1", "T2", "T3", "T4: T1", "T5: T2", "T6: T4, T5")

// TestRunJoined runs several processes on one box. Each task is completed once, and the others take
// over from a killed one.
func TestRunJoined(t *testing.T) {
	t.Parallel()
	inParallel(t, map[string]func(*testing.T){
		"together":                      func(t *testing.T) { testJoinedTogether(t, backends[0]) },
		"together on postgres":          func(t *testing.T) { testJoinedTogether(t, backends[1]) },
		"one is killed":                 func(t *testing.T) { testJoinedKilled(t, false) },
		"one is killed with its agents": func(t *testing.T) { testJoinedKilled(t, true) },
	})
}

func testJoinedTogether(t *testing.T, on backend) {
	for range sized(1, 5) {
		s := newFixture(t, scenario{plan: joinedPlan, script: goodAgents, settings: partsCheck,
			on: on})
		worker := s.start(t, "worker", "--roles", "developer", "--plain")
		first, second := s.startRun(t), s.startRun(t)
		first.end(0)
		second.end(0)
		if worker.hasEnded() {
			t.Error("the worker ended before it was interrupted")
		}
		check(t, worker.cmd.Process.Signal(syscall.SIGINT))
		worker.end(0) // 0 because the plan is complete
		events := s.checkDone(t, tasksIn(joinedPlan)...)
		s.checkParts(t, tasksIn(joinedPlan)...)
		if n := len(all[rules.PlanLoaded](events, rules.TypePlanLoaded, "")); n != 1 {
			t.Errorf("the plan was loaded %d times", n)
		}
	}
}

// ownerOf returns the crew that a session belongs to.
func ownerOf(session string) string {
	owner, _, _ := strings.Cut(session, ".")
	return owner
}

// testJoinedKilled kills a run whose agents are working. Another run must stop these agents and
// take over their work.
func testJoinedKilled(t *testing.T, agentsToo bool) {
	s := newFixture(t, scenario{plan: joinedPlan, settings: partsCheck, script: `
on developer * attempt 1:
    touch $DIARY/here-{task}
    wait for $DIARY/never
` + goodAgents})
	victim := s.startRun(t)
	victim.until("its agents had started", func() bool {
		there, _ := filepath.Glob(s.diary.file("here-*"))
		return len(there) == 3
	})
	before := s.owners()
	successor := s.startRun(t)
	successor.until("it was up", func() bool { return len(s.owners()) > len(before) })
	check(t, victim.cmd.Process.Kill())
	<-victim.ended
	if agentsToo {
		s.killAll()
	}
	successor.until("the agents of the killed run were stopped", func() bool {
		return !slices.ContainsFunc(s.processes(),
			func(p agentProcess) bool { return slices.Contains(before, ownerOf(p.session)) })
	})
	// Otherwise the first developers of later tasks would wait for this file.
	s.diary.create(t, "never")
	successor.end(0)
	events := s.checkDone(t, tasksIn(joinedPlan)...)
	s.checkParts(t, tasksIn(joinedPlan)...)
	for _, e := range events {
		if slices.Contains(before, ownerOf(e.Session)) && e.Type == rules.TypeSignalHeard {
			t.Errorf("event %d: a signal of the killed run was accepted: %s", e.Seq, e.Data)
		}
	}
}

// TestRunChangedPlan stops a run, changes its plan, and runs it again. Completed tasks stay
// completed; the others follow the new plan.
func TestRunChangedPlan(t *testing.T) {
	t.Parallel()
	s := newFixture(t, scenario{plan: planOf("T1", "T2: T1", "T3: T1", "T4: T1", "T5: T2"), settings: "grace: 1s\n" + partsCheck, script: `
on developer T2,T3,T4 attempt 1:
    touch $DIARY/here-{task}
    hang

on developer T3 attempt 2+:
    expect "another text"
    run mkdir -p part && echo good >part/T3.txt
    signal READY_FOR_REVIEW: {task}
` + goodAgents})
	run := s.startRun(t)
	run.until("three agents had started", func() bool {
		there, _ := filepath.Glob(s.diary.file("here-*"))
		return len(there) == 3
	})
	check(t, run.cmd.Process.Signal(syscall.SIGINT))
	run.end(130)
	s.checkNoProcesses(t)
	s.checkClean(t)
	if held := s.leased(t); len(held) > 0 {
		t.Errorf("%v are still leased", held)
	}
	first := s.events(t)
	if n := len(all[rules.AgentFailed](first, rules.TypeAgentFailed, "")); n != 0 {
		t.Errorf("%d stopped agents were recorded as failed", n)
	}

	changed := planOf("T1", "T2: T1", "T3: T1", "T6: T3", "T7")
	changed = strings.Replace(changed, "Write part/T3.txt.",
		"Write part/T3.txt, with another text.", 1)
	changed = strings.Replace(changed, "Write part/T1.txt.", "Write part/T1.txt, which was done.",
		1)
	s.write(t, s.plan, changed)
	run = s.startRun(t)
	run.end(0)
	for _, line := range []string{"added: T6, T7", "changed: T3", "removed: T4, T5",
		"changed after it was completed, and not run again: T1"} {
		if !strings.Contains(run.output(), line) {
			t.Errorf("the output lacks %q:\n%s", line, run.output())
		}
	}
	events := s.checkDone(t, "T1", "T2", "T3", "T6", "T7")
	s.checkParts(t, "T1", "T2", "T3", "T6", "T7")
	for _, e := range events[len(first):] {
		if e.Work == "T1" && e.Type != rules.TypeTaskReplanned {
			t.Errorf("event %d: %s of completed work", e.Seq, e.Type)
		}
		if (e.Work == "T4" || e.Work == "T5") && e.Type == rules.TypeLeaseGranted {
			t.Errorf("event %d: %s was started, which is no longer in the plan", e.Seq, e.Work)
		}
	}
}
