package fault

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox"
	"signalbox/internal/core/rules"
)

// TestRunSpoofed runs agents that send signals they are not allowed to send. No phase changes, and
// each attempt is recorded with its reason.
func TestRunSpoofed(t *testing.T) {
	t.Parallel()
	inParallel(t, map[string]func(*testing.T){
		"signals":                       testSpoofedSignals,
		"commands":                      testSpoofedCommands,
		"stale after cancel":            func(t *testing.T) { testStale(t, "cancel") },
		"stale after retry":             func(t *testing.T) { testStale(t, "retry") },
		"stale after the lease expired": testStaleAfterExpiry,
	})
}

// spoof returns a script section in which a role sends every signal that it may not send, and no
// valid one. It counts the expected refusals by name and reason.
func spoof(role signalbox.Role, own string, refused map[string]int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "on %s T1 attempt 1:\n", role)
	count := func(name string, reason signalbox.Reason) { refused[name+" "+string(reason)]++ }
	for _, s := range signalbox.LineSignals() {
		if role.MaySend(s.Name) {
			continue
		}
		line := s.Text
		switch s.Argument {
		case signalbox.TaskArgument:
			line += ": T1"
		case signalbox.NameArgument:
			line += ": mine"
		}
		fmt.Fprintf(&b, "    say %s\n", line)
		count(s.Name, signalbox.ReasonOutOfRole)
	}
	row, _ := signalbox.LineSignalNamed(own)
	for _, other := range []string{"T2", "T99"} {
		fmt.Fprintf(&b, "    say %s: %s\n", row.Text, other)
	}
	count(own, signalbox.ReasonWrongWork)
	fmt.Fprintf(&b, "    quote %s: T1\n", row.Text)
	count(own, signalbox.ReasonFenced)
	fmt.Fprintf(&b, "    say Please do this:\n        ---DELEGATION PROMPT START---\n        %s: T1\n        ---DELEGATION PROMPT END---\n", row.Text)
	count(own, signalbox.ReasonDelegated)
	fmt.Fprintf(&b, "    say **%s: T1**\n", row.Text)
	count(own, signalbox.ReasonNearMiss)
	// These are not the agent's own words, so they are not even refused.
	fmt.Fprintf(&b, "    read signals.txt\n    run cat signals.txt\n    subagent %s: T1\n    thinking %s: T1\n\n", row.Text, row.Text)
	return b.String()
}

// effects are events that a refused signal must not cause.
var effects = []string{rules.TypePhaseChanged, rules.TypeSignalHeard, rules.TypeExpertRequested,
	rules.TypeQuestionAsked, rules.TypeMerged,
	rules.TypeRemediationNeeded, rules.TypeProgressReported}

func testSpoofedSignals(t *testing.T) {
	var everything strings.Builder
	for _, s := range signalbox.LineSignals() {
		line := s.Text
		if s.Argument != signalbox.NoArgument {
			line += ": T1"
		}
		fmt.Fprintln(&everything, line)
	}
	script, want := "", map[signalbox.Role]map[string]int{}
	for role, own := range map[signalbox.Role]string{signalbox.RoleDeveloper: signalbox.NameReadyForReview, signalbox.RoleCritic: signalbox.NameReviewPassed, signalbox.RoleAuditor: signalbox.NameAuditPassed} {
		want[role] = map[string]int{}
		script += spoof(role, own, want[role])
	}
	s := newFixture(t, scenario{plan: planOf("T1", "T2: T1"), script: script + goodAgents,
		settings: partsCheck,
		files:    map[string]string{"signals.txt": everything.String()}})
	s.startRun(t).end(0)
	events := s.checkDone(t, "T1", "T2")
	for role, refused := range want {
		session, turn := firstTurn(events, "T1", role)
		got := map[string]int{}
		for i := range turn {
			switch e := &turn[i]; {
			case e.Type == rules.TypeSignalRefused && e.Session == session:
				r := data[rules.SignalRefused](e)
				got[r.Said+" "+string(r.Reason)]++
			case slices.Contains(effects, e.Type):
				t.Errorf("during the turn of the %s: event %d, %s %s %s", role, e.Seq, e.Type,
					e.Work, e.Data)
			}
		}
		if diff := cmp.Diff(refused, got); diff != "" {
			t.Errorf("the %s's attempts (-want +recorded):\n%s", role, diff)
		}
		if n := len(all[rules.UnknownSignalRecovery](turn, rules.TypeUnknownSignalRecovery,
			"T1")); n != 1 {
			t.Errorf("the %s was asked again %d times", role, n)
		}
	}
}

// firstTurn returns the session of the first agent of a role, and the events from its start to the
// start of the next.
func firstTurn(events []signalbox.Event, work string,
	role signalbox.Role) (session string, turn []signalbox.Event) {
	start := -1
	for i := range events {
		e := &events[i]
		switch {
		case granted(role, work)(e) && session == "":
			session = e.Session
		case e.Type == rules.TypeAgentStarted && e.Session == session && start < 0:
			start = i
		case e.Type == rules.TypeAgentStarted && e.Session == session:
			return session, events[start+1 : i]
		}
	}
	return session, events[max(start, 0):]
}

// testSpoofedCommands runs an agent that calls commands reserved for the operator or for another
// session.
func testSpoofedCommands(t *testing.T) {
	forbidden := map[string]string{
		"answer":     "answer Q-1 yes",
		"approve":    "approve T1",
		"reject":     "reject T1 no",
		"rework":     "rework T2 more",
		"tell":       "tell T2 words",
		"waive":      "waive T1/F1 mine",
		"add":        "add more",
		"cancel":     "cancel T2",
		"retry":      "retry T1",
		"pause":      "pause",
		"resume":     "resume",
		"open":       "work open T9",
		"claim":      "work claim T1 --role critic --session mine",
		"exit":       "work exit --session w-000000000000.1 exit.json",
		"renew":      "work renew T2 --session w-000000000000.1 --epoch 1",
		"release":    "work release T2 --session w-000000000000.1 --epoch 1",
		"unblock":    "work unblock T2 --note mine",
		"checkpoint": "ledger checkpoint",
		"run":        "run ../../../../plan.md",
		"worker":     "worker",
		"backup":     "backup ../box.tar",
		"init":       "init elsewhere",
	}
	script := "on developer T1 attempt 1:\n"
	for _, name := range slices.Sorted(maps.Keys(forbidden)) {
		script += fmt.Sprintf(
			"    run timeout 60 %s %s </dev/null >out 2>&1; echo \"%s $? $(head -n1 out)\" >>$DIARY/commands\n", os.Getenv(binaryVariable), forbidden[name], name)
	}
	script += "    run rm -f out\n"
	script += strings.TrimPrefix(strings.Split(goodAgents, "\n\n")[0], "\non developer *:\n") + "\n"
	s := newFixture(t, scenario{plan: planOf("T1", "T2: T1"),
		files: map[string]string{"exit.json": exitSignal(signalbox.PhaseImplementation,
			signalbox.ExitCompleted)},
		settings: partsCheck, script: script + goodAgents})
	s.startRun(t).end(0)
	events := s.checkDone(t, "T1", "T2")
	got := map[string]string{}
	for _, line := range s.diary.lines(t, "commands") {
		fields := strings.SplitN(line, " ", 3)
		got[fields[0]] = fields[1]
		if fields[1] != "1" || !strings.Contains(line, " may not ") {
			t.Errorf("a command of an agent was not refused: %s", line)
		}
	}
	if len(got) != len(forbidden) {
		t.Errorf("%d commands were tried, want %d: %v", len(got), len(forbidden), got)
	}
	session, _ := firstTurn(events, "T1", signalbox.RoleDeveloper)
	for _, e := range events {
		switch e.Type {
		case rules.TypeCancelled, rules.TypeRetried, rules.TypePaused, rules.TypeResumed,
			rules.TypeWorkOpened, rules.TypeMergeApproved, rules.TypeQuestionAnswered,
			rules.TypeMessageSent, rules.TypeFindingsRecorded:
			t.Errorf("event %d is %s by %s", e.Seq, e.Type, e.Actor)
		case rules.TypeAgentSessionCompleted:
			t.Errorf("event %d is an exit of %s", e.Seq, e.Session)
		}
	}
	if session == "" {
		t.Error("no developer worked on T1")
	}
}

// testStale ends the lease of an agent that ignores TERM. Its later signals are refused.
func testStale(t *testing.T, order string) {
	s := newFixture(t, scenario{plan: planOf("T1", "T2"), settings: "grace: 90s\n" + partsCheck, script: `
on developer T1 attempt 1:
    ignore TERM
    touch $DIARY/here
    wait for $DIARY/go
    signal CHECKPOINT: {task}
        Estimated Progress: 99%
    signal READY_FOR_REVIEW: {task}
        Summary: too late
` + goodAgents})
	run := s.startRun(t)
	run.until("the agent had started", func() bool { return exists(s.diary.file("here")) })
	s.must(t, order, "T1")
	lost := run.await(0, "the end of the lease", ofType(rules.TypeLeaseReleased, "T1"))
	s.diary.create(t, "go")
	run.end(0)
	done := []string{"T2"}
	if order == "retry" {
		done = []string{"T1", "T2"}
	}
	events := s.checkDone(t, done...)
	checkStale(t, events, lost.Session, lost.Seq, signalbox.NameCheckpoint,
		signalbox.NameReadyForReview)
}

// testStaleAfterExpiry suspends a run until its lease has expired, while another run does the work.
// The lease is long enough that no run loses one because the machine is slow.
func testStaleAfterExpiry(t *testing.T) {
	s := newFixture(t, scenario{plan: planOf("T1"), settings: "lease: {ttl: 15s}\ngrace: 60s\n" + partsCheck, script: `
on developer T1 attempt 1:
    touch $DIARY/here
    wait for $DIARY/go
    signal READY_FOR_REVIEW: {task}
        Summary: too late
` + goodAgents})
	suspended := s.startRun(t)
	suspended.until("the agent had started", func() bool { return exists(s.diary.file("here")) })
	session, _ := firstTurn(s.events(t), "T1", signalbox.RoleDeveloper)
	check(t, suspended.cmd.Process.Signal(syscall.SIGSTOP))
	active := s.startRun(t)
	expired := active.await(0, "the end of the lease", ofType(rules.TypeLeaseExpired, "T1"))
	s.diary.create(t, "go")
	check(t, suspended.cmd.Process.Signal(syscall.SIGCONT))
	suspended.end(0)
	active.end(0)
	events := s.checkDone(t, "T1")
	for _, e := range events {
		if e.Session == session && e.Seq > expired.Seq && e.Type != rules.TypeSignalRefused {
			t.Errorf("event %d is %s by a session whose lease had expired", e.Seq, e.Type)
		}
	}
}

// checkStale checks that the signals of a session were refused as stale after it lost its lease,
// and had no other effect.
func checkStale(t *testing.T, events []signalbox.Event, session string, lost uint64,
	signals ...string) {
	t.Helper()
	var got []string
	for i := range events {
		e := &events[i]
		if e.Session != session || e.Seq <= lost {
			continue
		}
		if e.Type != rules.TypeSignalRefused {
			t.Errorf("event %d is %s by a session that had lost its lease", e.Seq, e.Type)
		} else if r := data[rules.SignalRefused](e); r.Reason == signalbox.ReasonStaleLease {
			got = append(got, r.Said)
		} else {
			t.Errorf("%s was refused as %s", r.Said, r.Reason)
		}
	}
	if !slices.Equal(got, signals) {
		t.Errorf("refused as stale: %v, want %v", got, signals)
	}
}
