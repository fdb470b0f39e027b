package fault

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox"
	"signalbox/internal/core/rules"
)

// TestRunSpoofed has agents say what they may not: nothing moves, and each attempt is on the ledger with its reason.
func TestRunSpoofed(t *testing.T) {
	t.Run("words", testSpoofedWords)
	t.Run("commands", testSpoofedCommands)
	t.Run("stale after cancel", func(t *testing.T) { testStale(t, "cancel") })
	t.Run("stale after retry", func(t *testing.T) { testStale(t, "retry") })
	t.Run("stale after the lease ran out", testStaleAfterExpiry)
}

// spoof is a section in which a role says all that it may not say, and then nothing that counts. What is refused is counted
// under name and reason.
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
	// These are not the agent's own words, so it did not even try.
	fmt.Fprintf(&b, "    read signals.txt\n    run cat signals.txt\n    subagent %s: T1\n    thinking %s: T1\n\n", row.Text, row.Text)
	return b.String()
}

func testSpoofedWords(t *testing.T) {
	var everything strings.Builder
	for _, s := range signalbox.LineSignals() {
		line := s.Text
		if s.Argument != signalbox.NoArgument {
			line += ": T1"
		}
		fmt.Fprintln(&everything, line)
	}
	script, want := "", map[signalbox.Role]map[string]int{}
	for role, own := range map[signalbox.Role]string{signalbox.RoleDeveloper: "ready_for_review", signalbox.RoleCritic: "review_passed", signalbox.RoleAuditor: "audit_passed"} {
		want[role] = map[string]int{}
		script += spoof(role, own, want[role])
	}
	s := newStage(t, set{plan: planOf("T1", "T2: T1"), script: script + content, settings: partsCheck,
		files: map[string]string{"signals.txt": everything.String()}})
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
			case e.Type == rules.TypePhaseChanged, e.Type == rules.TypeSignalHeard, e.Type == rules.TypeExpertRequested, e.Type == rules.TypeQuestionAsked, e.Type == rules.TypeMerged, e.Type == rules.TypeRemediationNeeded, e.Type == rules.TypeProgressReported:
				t.Errorf("while the %s forged: event %d, %s %s %s", role, e.Seq, e.Type, e.Work, e.Data)
			}
		}
		if diff := cmp.Diff(refused, got); diff != "" {
			t.Errorf("the %s's attempts (-want +recorded):\n%s", role, diff)
		}
		if n := len(all[rules.UnknownSignalRecovery](turn, "UnknownSignalRecovery", "T1")); n != 1 {
			t.Errorf("the %s was asked again %d times", role, n)
		}
	}
}

// firstTurn returns the session of the first agent of a role, and the events from its start to the start of the next.
func firstTurn(events []signalbox.Event, work string, role signalbox.Role) (session string, turn []signalbox.Event) {
	begun := -1
	for i := range events {
		e := &events[i]
		switch {
		case granted(role, work)(e) && session == "":
			session = e.Session
		case e.Type == rules.TypeAgentStarted && e.Session == session && begun < 0:
			begun = i
		case e.Type == rules.TypeAgentStarted && e.Session == session:
			return session, events[begun+1 : i]
		}
	}
	return session, events[max(begun, 0):]
}

// testSpoofedCommands has an agent use the program itself, against the operator and against another session.
func testSpoofedCommands(t *testing.T) {
	forbidden := map[string]string{
		"answer":     "answer Q-1 yes",
		"approve":    "approve T1",
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
		script += fmt.Sprintf("    run timeout 60 %s %s </dev/null >said 2>&1; echo \"%s $? $(head -n1 said)\" >>$DIARY/commands\n", os.Getenv(binaryVariable), forbidden[name], name)
	}
	script += "    run rm -f said\n"
	script += strings.TrimPrefix(strings.Split(content, "\n\n")[0], "\non developer *:\n") + "\n"
	s := newStage(t, set{plan: planOf("T1", "T2: T1"), files: map[string]string{"exit.json": exitSignal(signalbox.PhaseImplementation, signalbox.ExitCompleted)},
		settings: partsCheck, script: script + content})
	s.startRun(t).end(0)
	events := s.checkDone(t, "T1", "T2")
	got := map[string]string{}
	for _, line := range s.diaryLines(t, "commands") {
		fields := strings.SplitN(line, " ", 3)
		got[fields[0]] = fields[1]
		if fields[1] != "1" || !strings.Contains(line, " may not ") {
			t.Errorf("in an agent's process: %s", line)
		}
	}
	if len(got) != len(forbidden) {
		t.Errorf("%d commands were tried, want %d: %v", len(got), len(forbidden), got)
	}
	session, _ := firstTurn(events, "T1", signalbox.RoleDeveloper)
	for _, e := range events {
		switch e.Type {
		case "Cancelled", "Retried", "Paused", "Resumed", "WorkOpened", "MergeApproved", "QuestionAnswered":
			t.Errorf("event %d is %s by %s", e.Seq, e.Type, e.Actor)
		case "AgentSessionCompleted":
			t.Errorf("event %d is an exit of %s", e.Seq, e.Session)
		}
	}
	if session == "" {
		t.Error("no developer was at T1")
	}
}

// testStale takes the lease away from an agent that does not care: what it says afterwards is refused.
func testStale(t *testing.T, order string) {
	s := newStage(t, set{plan: planOf("T1", "T2"), settings: "grace: 90s\n" + partsCheck, script: `
on developer T1 attempt 1:
    ignore TERM
    touch $DIARY/here
    wait for $DIARY/go
    signal CHECKPOINT: {task}
        Estimated Progress: 99%
    signal READY_FOR_REVIEW: {task}
        Summary: too late
` + content})
	run := s.startRun(t)
	run.until("the agent was there", func() bool { return exists(filepath.Join(s.diary, "here")) })
	s.must(t, order, "T1")
	lost := run.await(0, "the end of the lease", ofType("LeaseReleased", "T1"))
	s.write(t, filepath.Join(s.diary, "go"), "")
	run.end(0)
	done := []string{"T2"}
	if order == "retry" {
		done = []string{"T1", "T2"}
	}
	events := s.checkDone(t, done...)
	checkStale(t, events, lost.Session, lost.Seq, "checkpoint", "ready_for_review")
}

// testStaleAfterExpiry stops the whole run for longer than its leases last, while another does the work.
func testStaleAfterExpiry(t *testing.T) {
	s := newStage(t, set{plan: planOf("T1"), settings: "lease: {ttl: 2s}\ngrace: 60s\n" + partsCheck, script: `
on developer T1 attempt 1:
    touch $DIARY/here
    wait for $DIARY/go
    signal READY_FOR_REVIEW: {task}
        Summary: too late
` + content})
	asleep := s.startRun(t)
	asleep.until("the agent was there", func() bool { return exists(filepath.Join(s.diary, "here")) })
	session, _ := firstTurn(s.events(t), "T1", signalbox.RoleDeveloper)
	check(t, asleep.cmd.Process.Signal(syscall.SIGSTOP))
	awake := s.startRun(t)
	expired := awake.await(0, "the end of the lease", ofType("LeaseExpired", "T1"))
	s.write(t, filepath.Join(s.diary, "go"), "")
	check(t, asleep.cmd.Process.Signal(syscall.SIGCONT))
	asleep.end(0)
	awake.end(0)
	events := s.checkDone(t, "T1")
	for _, e := range events {
		if e.Session == session && e.Seq > expired.Seq && e.Type != rules.TypeSignalRefused {
			t.Errorf("event %d is %s by a session whose lease had run out", e.Seq, e.Type)
		}
	}
}

// checkStale checks that a session was refused for its lease, and moved nothing after it had lost it.
func checkStale(t *testing.T, events []signalbox.Event, session string, lost uint64, signals ...string) {
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

func exists(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}
