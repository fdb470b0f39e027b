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

// TestRunMisbehaving has agents do what real ones do on bad days. Each ends as it should, and leaves no process behind.
func TestRunMisbehaving(t *testing.T) {
	t.Run("no end", testNoEnd)
	t.Run("no word", testNoWord)
	t.Run("flood", testFlood)
	t.Run("rate limit", testRateLimit)
}

// tasksIn returns the tasks that a plan names.
func tasksIn(plan string) (ids []string) {
	for line := range strings.Lines(plan) {
		if rest, ok := strings.CutPrefix(line, "#### Task "); ok {
			id, _, _ := strings.Cut(rest, ":")
			ids = append(ids, id)
		}
	}
	return ids
}

// testNoEnd is about agents that do not end by themselves, or leave others that do not.
func testNoEnd(t *testing.T) {
	plan := planOf("hang", "deaf", "fork", "flight", "late")
	s := newStage(t, set{plan: plan, settings: "slots: 9\nroles:\n  developer: {slots: 9, timeout: 2s}\nlimits: {timeouts: 100}\ngrace: 1s\n", script: `
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
` + content})
	run := s.startRun(t)
	for _, id := range []string{"hang", "deaf", "flight", "late"} {
		failed := run.await(0, "the failure of "+id, ofType("AgentFailed", id))
		if f := data[rules.AgentFailed](failed); f.Cause != string(rules.FailTimeout) || f.Count != 1 || f.Role != signalbox.RoleDeveloper {
			t.Errorf("%s: %+v", id, f)
		}
		for _, p := range s.processes() {
			if p.session == failed.Session {
				t.Errorf("%s has failed, and %+v lives", id, p)
			}
		}
	}
	run.end(0)
	events := s.checkDone(t, tasksIn(plan)...)
	s.checkParts(t, tasksIn(plan)...)
	for i := range events { // a verdict before a timeout does not count
		if e := &events[i]; e.Type == rules.TypeSignalHeard && e.Work == "flight" {
			if failed := slices.IndexFunc(events, ofTypeAt("AgentFailed", "flight")); failed > i {
				t.Errorf("what %s said counted, though it did not end: %s", e.Session, e.Data)
			}
		}
	}
}

func ofTypeAt(kind, work string) func(signalbox.Event) bool {
	return func(e signalbox.Event) bool { return ofType(kind, work)(&e) }
}

// testNoWord is about agents that end, and say nothing that counts, or say it badly.
func testNoWord(t *testing.T) {
	plan := planOf("crash", "killed", "thrice", "silent", "torn", "half", "lingers", "coder")
	s := newStage(t, set{plan: plan, settings: "slots: 9\nroles:\n  developer: {slots: 9}\ngrace: 1s\n", script: `
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
` + content})
	run := s.startRun(t)
	run.await(0, "a question about the third crash", ofType("QuestionAsked", "thrice"))
	s.must(t, "answer", "Q-1", "once more")
	run.end(0)
	events := s.checkDone(t, tasksIn(plan)...)
	s.checkParts(t, tasksIn(plan)...)
	type failure struct {
		cause string
		count int
	}
	for id, want := range map[string][]failure{"crash": {{"crash", 1}}, "killed": {{"crash", 1}}, "thrice": {{"crash", 1}, {"crash", 2}, {"crash", 3}},
		"silent": {{"signals", 1}}, "torn": nil, "lingers": nil, "coder": nil} {
		var got []failure
		for _, f := range all[rules.AgentFailed](events, "AgentFailed", id) {
			got = append(got, failure{f.Cause, f.Count})
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s failed by %v, want %v", id, got, want)
		}
	}
	checkSilent(t, events)
	if f := all[rules.AgentFailed](events, "AgentFailed", "crash"); len(f) == 1 && f[0].Detail != "exit status 137: out of memory" {
		t.Errorf("of the crash it says %q", f[0].Detail)
	}
}

// checkSilent checks how an agent is treated that says nothing that counts three times.
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
	want := []string{"1 warning", "2 error", "3_consecutive_unknown_signals", "signals", "ready_for_review"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("an agent without a word (-want +got):\n%s", diff)
	}
}

// testFlood has agents say more than anybody can keep.
func testFlood(t *testing.T) {
	size := sized[int64](50_000_000, 1_000_000_000)
	plan := planOf("lines", "line")
	s := newStage(t, set{plan: plan, settings: "limits: {timeouts: 100}\n", script: strings.ReplaceAll(`
on developer lines attempt 1:
    run mkdir -p part && echo good >part/lines.txt
    flood SIZE
    signal READY_FOR_REVIEW: {task}

on developer line attempt 1:
    run mkdir -p part && echo good >part/line.txt
    flood SIZE in one line
    signal READY_FOR_REVIEW: {task}
`, "SIZE", strconv.FormatInt(size/1_000_000, 10)+"MB") + content})
	run := s.startRun(t)
	run.await(0, "the end", func(e *signalbox.Event) bool {
		peak := peakMemory(run.cmd.Process.Pid)
		if peak > 200<<20 {
			t.Fatalf("it took %d MB of memory", peak>>20)
		}
		return e.Type == rules.TypeMerged && slices.Index(tasksIn(plan), e.Work) >= 0 && len(all[rules.Merged](s.events(t), "Merged", "")) == 2
	})
	t.Logf("at most %d MB of memory", peakMemory(run.cmd.Process.Pid)>>20)
	run.end(0)
	events := s.checkDone(t, tasksIn(plan)...)
	for _, id := range tasksIn(plan) {
		if turn := all[rules.AgentTurnEnded](events, "AgentTurnEnded", id)[0]; turn.Bytes < size {
			t.Errorf("of %s %d bytes were heard", id, turn.Bytes)
		}
	}
	if f := all[rules.AgentFailed](events, "AgentFailed", "lines"); len(f) > 0 {
		t.Errorf("an agent that said much and then the right thing failed: %+v", f)
	}
}

// peakMemory is the most memory that a process had at once; zero if it has ended.
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

// testRateLimit has the service of a role refuse to serve it: nobody of that role begins before it may, all others may.
func testRateLimit(t *testing.T) {
	plan := planOf("T1", "T2", "T3")
	s := newStage(t, set{plan: plan, settings: "roles:\n  developer: {slots: 1}\n", script: `
on developer T2 attempt 1:
    ratelimit 6s
` + content})
	s.startRun(t).end(0)
	events := s.checkDone(t, tasksIn(plan)...)
	s.checkParts(t, tasksIn(plan)...)
	at := slices.IndexFunc(events, ofTypeAt("RoleLimited", ""))
	if at < 0 {
		t.Fatal("no role was limited")
	}
	limit := data[rules.RoleLimited](&events[at])
	if wait := limit.Until.Sub(events[at].Time); limit.Role != signalbox.RoleDeveloper || wait <= 0 || wait > 6*time.Second {
		t.Errorf("%+v, %s ahead", limit, wait)
	}
	for i := range events[at:] {
		if e := &events[at+i]; granted(signalbox.RoleDeveloper, "")(e) && e.Time.Before(limit.Until) {
			t.Errorf("event %d gives %s to a developer %s too early", e.Seq, e.Work, limit.Until.Sub(e.Time))
		}
	}
	for _, e := range events {
		if e.Type == rules.TypeAgentFailed {
			t.Errorf("a rate limit counted as a failure: %s", e.Data)
		}
	}
}
