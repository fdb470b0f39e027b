package fault

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox"
	"signalbox/internal/core/rules"
)

// TestRunMisbehaving runs agents that misbehave as real ones do. The run must handle each, and
// leave no process behind.
func TestRunMisbehaving(t *testing.T) {
	t.Parallel()
	inParallel(t, map[string]func(
		*testing.T){"hang": testHang, "no signal": testNoSignal, "flood": testFlood, "rate limit": testRateLimit})
}

// tasksIn returns the ids of the tasks in a plan.
func tasksIn(plan string) (ids []string) {
	for line := range strings.Lines(plan) {
		if rest, ok := strings.CutPrefix(line, "#### Task "); ok {
			id, _, _ := strings.Cut(rest, ":")
			ids = append(ids, id)
		}
	}
	return ids
}

// testHang runs agents that do not end, or that leave processes that do not end.
func testHang(t *testing.T) {
	plan := planOf("hang", "deaf", "fork", "flight", "late")
	s := newFixture(t, scenario{plan: plan, settings: "slots: 9\nroles:\n  developer: {slots: 9, timeout: 2s}\nlimits: {timeouts: 100}\ngrace: 1s\n", script: `
on developer hang attempt 1:
    hang

on developer deaf attempt 1:
    ignore TERM
    run mkdir -p part && echo good >part/deaf.txt
    fork 2
    hang

on developer fork attempt 1:
    run mkdir -p part && echo good >part/fork.txt
    fork 2
    fork 2 detached
    signal READY_FOR_REVIEW: {task}

on developer flight attempt 1:
    ignore TERM
    fork 3 detached
    signal READY_FOR_REVIEW: {task}
    hang

on developer late attempt 1:
    wait 1h
    signal READY_FOR_REVIEW: {task}
` + goodAgents})
	run := s.startRun(t)
	for _, id := range []string{"hang", "deaf", "flight", "late"} {
		failed := run.await(0, "the failure of "+id, ofType(rules.TypeAgentFailed, id))
		if f := data[rules.AgentFailed](failed); f.Cause != string(rules.FailTimeout) ||
			f.Count != 1 || f.Role != signalbox.RoleDeveloper {
			t.Errorf("%s: %+v", id, f)
		}
		for _, p := range s.processes() {
			if p.session == failed.Session {
				t.Errorf("%s has failed, but %+v is alive", id, p)
			}
		}
	}
	run.end(0)
	events := s.checkDone(t, tasksIn(plan)...)
	s.checkParts(t, tasksIn(plan)...)
	for i := range events { // a verdict before a timeout must not count
		if e := &events[i]; e.Type == rules.TypeSignalHeard && e.Work == "flight" {
			if failed := slices.IndexFunc(events,
				ofTypeAt(rules.TypeAgentFailed, "flight")); failed > i {
				t.Errorf("a signal of %s counted although the agent timed out: %s", e.Session,
					e.Data)
			}
		}
	}
}

func ofTypeAt(kind, work string) func(signalbox.Event) bool {
	return func(e signalbox.Event) bool { return ofType(kind, work)(&e) }
}

// testNoSignal runs agents that crash or end without a signal that counts, and some that send one
// in an unusual way.
func testNoSignal(t *testing.T) {
	plan := planOf("crash", "killed", "thrice", "silent", "torn", "half", "lingers", "coder")
	s := newFixture(t, scenario{plan: plan, settings: "slots: 9\nroles:\n  developer: {slots: 9}\ngrace: 1s\n", script: `
on developer crash attempt 1:
    say I am about to crash.
    stderr out of memory
    crash 137

on developer killed attempt 1:
    signal-kill

on developer thrice attempt 1:
    crash 2

on developer thrice attempt 2:
    crash 2

on developer thrice attempt 3:
    crash 2

on developer silent attempt 1:
    say I did it.

on developer silent attempt 2:
    say - READY_FOR_REVIEW: {task}

on developer silent attempt 3:
    say I did it, really.

on developer torn:
    run mkdir -p part && echo good >part/torn.txt
    bytes e282
    bytes ff
    signal READY_FOR_REVIEW: {task}

on developer half attempt 1:
    half READY_FOR_REVIEW: {task}
    exit-code 0

on developer lingers attempt 1:
    run mkdir -p part && echo good >part/lingers.txt
    signal READY_FOR_REVIEW: {task}
    hang after result

on developer coder attempt 1:
    run mkdir -p part && echo good >part/coder.txt
    signal READY_FOR_REVIEW: {task}
    exit-code 3
` + goodAgents})
	run := s.startRun(t)
	run.await(0, "a question about the third crash", ofType(rules.TypeQuestionAsked, "thrice"))
	s.must(t, "answer", "Q-1", "once more")
	run.end(0)
	events := s.checkDone(t, tasksIn(plan)...)
	s.checkParts(t, tasksIn(plan)...)
	type failure struct {
		cause string
		count int
	}
	for id, want := range map[string][]failure{"crash": {{"crash", 1}}, "killed": {{"crash", 1}},
		"thrice": {{"crash", 1}, {"crash", 2}, {"crash", 3}},
		"silent": {{"signals", 1}}, "torn": nil, "lingers": nil, "coder": {{"crash", 1}}} {
		var got []failure
		for _, f := range all[rules.AgentFailed](events, rules.TypeAgentFailed, id) {
			got = append(got, failure{f.Cause, f.Count})
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s has the failures %v, want %v", id, got, want)
		}
	}
	checkSilent(t, events)
	for id, want := range map[string]string{"crash": "exit status 137: out of memory",
		"coder": "exit status 3 after READY_FOR_REVIEW"} {
		if f := all[rules.AgentFailed](events, rules.TypeAgentFailed, id); len(f) != 1 ||
			f[0].Detail != want {
			t.Errorf("%s has the failures %+v, want %q", id, f, want)
		}
	}
}

// checkSilent checks how the run handles an agent that sends no valid signal three times.
func checkSilent(t *testing.T, events []signalbox.Event) {
	t.Helper()
	var got []string
	for i := range events {
		switch e := &events[i]; {
		case e.Work != "silent":
		case e.Type == rules.TypeUnknownSignalRecovery:
			r := data[rules.UnknownSignalRecovery](e)
			got = append(got, fmt.Sprint(r.Attempt, " ", r.Level))
		case e.Type == rules.TypeAgentSignalFailure:
			got = append(got, data[rules.AgentSignalFailure](e).Reason)
		case e.Type == rules.TypeAgentFailed:
			got = append(got, data[rules.AgentFailed](e).Cause)
		case e.Type == rules.TypeSignalHeard && len(got) < 5:
			got = append(got, data[rules.SignalHeard](e).Signal)
		}
	}
	want := []string{"1 warning", "2 error", "3_consecutive_unknown_signals", "signals",
		signalbox.NameReadyForReview}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("an agent without a signal (-want +got):\n%s", diff)
	}
}

// testFlood runs agents with huge outputs, and checks that the run's memory stays small.
func testFlood(t *testing.T) {
	size := sized[int64](50_000_000, 1_000_000_000)
	plan := planOf("lines", "line")
	s := newFixture(t, scenario{plan: plan, settings: "limits: {timeouts: 100}\n", script: strings.ReplaceAll(`
on developer lines attempt 1:
    run mkdir -p part && echo good >part/lines.txt
    flood SIZE
    signal READY_FOR_REVIEW: {task}

on developer line attempt 1:
    run mkdir -p part && echo good >part/line.txt
    flood SIZE in one line
    signal READY_FOR_REVIEW: {task}
`, "SIZE", strconv.FormatInt(size/1_000_000, 10)+"MB") + goodAgents})
	run := s.startRun(t)
	run.await(0, "both merges", func(e *signalbox.Event) bool {
		peak := peakMemory(run.cmd.Process.Pid)
		if peak > 200<<20 {
			t.Fatalf("it used %d MB of memory", peak>>20)
		}
		return e.Type == rules.TypeMerged && slices.Index(tasksIn(plan), e.Work) >= 0 &&
			len(all[rules.Merged](s.events(t), rules.TypeMerged, "")) == 2
	})
	t.Logf("peak memory: %d MB", peakMemory(run.cmd.Process.Pid)>>20)
	run.end(0)
	events := s.checkDone(t, tasksIn(plan)...)
	for _, id := range tasksIn(plan) {
		if turn := all[rules.AgentTurnEnded](events, rules.TypeAgentTurnEnded,
			id)[0]; turn.Bytes < size {
			t.Errorf("only %[2]d bytes of the output of %[1]s were read", id, turn.Bytes)
		}
	}
	if f := all[rules.AgentFailed](events, rules.TypeAgentFailed, "lines"); len(f) > 0 {
		t.Errorf("an agent that printed much and then a valid signal failed: %+v", f)
	}
}

// peakMemory returns the peak memory of a process, or 0 if it has ended.
func peakMemory(pid int) int {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	line, _, _ := strings.Cut(rest, "kB")
	kb, _ := strconv.Atoi(strings.TrimSpace(line))
	return kb << 10
}

// testRateLimit runs an agent that hits a rate limit. No agent of its role may start before the
// limit ends.
func testRateLimit(t *testing.T) {
	plan := planOf("T1", "T2", "T3")
	s := newFixture(t, scenario{plan: plan, settings: "roles:\n  developer: {slots: 1}\n", script: `
on developer T2 attempt 1:
    ratelimit 6s
` + goodAgents})
	s.startRun(t).end(0)
	events := s.checkDone(t, tasksIn(plan)...)
	s.checkParts(t, tasksIn(plan)...)
	at := slices.IndexFunc(events, ofTypeAt(rules.TypeAgentUnavailable, ""))
	if at < 0 {
		t.Fatal("no agent was limited")
	}
	limit := data[rules.AgentUnavailable](&events[at])
	if wait := limit.Until.Sub(events[at].Time); limit.Cause != rules.FailRateLimit || wait <= 0 ||
		wait > 6*time.Second {
		t.Errorf("the limit is %+v, which ends after %s", limit, wait)
	}
	for i := range events[at:] {
		if e := &events[at+i]; granted(signalbox.RoleDeveloper, "")(e) &&
			e.Time.Before(limit.Until) {
			t.Errorf("event %d leases %s to a developer %s too early", e.Seq, e.Work,
				limit.Until.Sub(e.Time))
		}
	}
	for _, e := range events {
		if e.Type == rules.TypeAgentFailed {
			t.Errorf("a rate limit counted as a failure: %s", e.Data)
		}
	}
}
