package crew

import (
	"slices"
	"strings"
	"testing"

	"signalbox"
	"signalbox/internal/core/rules"
)

func TestHappyPath(t *testing.T) {
	s := set(t, scene{
		git:      true,
		plan:     task("T1") + task("T2", "**Blocked By**: T1"),
		settings: "checks:\n  - {name: unit, command: test -f ok}\n",
		files:    map[string]string{"ok": "", "README": "hello\n"},
		script: `
on developer *:
    write {task}.txt done by {task}
    signal READY_FOR_REVIEW: {task}
        Summary: written
`})
	s.run()
	s.wantCompleted("T1", "T2")
	for _, id := range []string{"T1", "T2"} {
		if got := strings.TrimSpace(s.file(id + ".txt")); got != "done by "+id {
			t.Errorf("%s.txt has %q", id, got)
		}
		if checks := only[rules.ChecksRan](s, id); len(checks.Body.Rows) != 1 ||
			!checks.Body.Rows[0].Passed {
			t.Errorf("checks of %s: %+v", id, checks.Body)
		}
	}
	if got := s.git("log", "--first-parent",
		"--format=%s"); got != "T2: The task T2\nT1: The task T1\nstart" {
		t.Errorf("history:\n%s", got)
	}
	if got := s.git("branch", "--format=%(refname:short)"); got != "main" {
		t.Errorf("branches were not removed: %q", got)
	}
	if got := s.git("status", "--porcelain"); got != "" {
		t.Errorf("the checkout is not clean: %s", got)
	}
	if merged := only[rules.Merged](s, "T1").Body; len(merged.Unblocked) != 1 ||
		merged.Unblocked[0] != "T2" {
		t.Errorf("T1 unblocks %v", merged.Unblocked)
	}
}

// The output of a failing check is in the prompt of the developer that must fix it.
func TestFailingCheckIsRework(t *testing.T) {
	s := set(t, scene{
		plan:     task("T1"),
		settings: "checks:\n  - {name: unit, command: 'if test -f broken; then echo the widget is crooked; exit 3; fi'}\n",
		script: `
on developer T1 attempt 1:
    touch broken
    signal READY_FOR_REVIEW: {task}
on developer T1 attempt 2:
    expect "the widget is crooked"
    expect "unit in local: exit status 3"
    run rm broken
    signal READY_FOR_REVIEW: {task}
`})
	s.run()
	s.wantCompleted("T1")
	rework := only[rules.ReworkOrdered](s, "T1").Body
	if rework.Cause != "checks" || rework.Count != 1 || rework.Summary != "failing: unit on local" {
		t.Errorf("rework: %+v", rework)
	}
	if checks := all[rules.ChecksRan](s, "T1"); len(checks) != 2 ||
		checks[0].Body.Rows[0].Exit != 3 || !checks[1].Body.Rows[0].Passed {
		t.Errorf("checks: %+v", checks)
	}
	s.wantStarted("T1", "critic", 1)
}

// Nothing is developed on a base whose checks fail: it is fixed first, once, and then the tasks
// start.
func TestPreexistingFailureIsFixedFirst(t *testing.T) {
	s := set(t, scene{
		git:      true,
		plan:     task("T1") + task("T2"),
		settings: "checks:\n  - {name: unit, command: '! test -f broken'}\nslots: 2\n",
		files:    map[string]string{"broken": "x"},
		script: `
on remediation R-1 attempt 1:
    expect "these checks fail on the base: unit on local"
    expect "exit status 1"
    signal REMEDIATION_COMPLETE
on remediation R-1 attempt 2:
    expect "the checks fail"
    run git rm -q broken
    signal REMEDIATION_COMPLETE
        Issues Fixed: it is gone
on health-auditor *:
    signal HEALTH_AUDIT: HEALTHY
on developer *:
    write {task}.txt done
    signal READY_FOR_REVIEW: {task}
`})
	s.run()
	s.wantCompleted("T1", "T2", "R-1")
	audits := all[rules.HealthAudited](s, "R-1")
	if len(audits) != 2 || !audits[0].Body.Contradiction || audits[1].Body.Contradiction {
		t.Errorf("health audits: %+v", audits)
	}
	if n := len(all[rules.RemediationEnded](s, "B-1")); n != 1 {
		t.Errorf("the baseline waited for %d remediations", n)
	}
	none[rules.ReworkOrdered](s, "")
	checks := all[rules.ChecksRan](s, "B-1")
	if len(checks) != 2 {
		t.Fatalf("the base was checked %d times, want once before it was fixed and once after",
			len(checks))
	}
	for _, started := range all[rules.AgentStarted](s, "T1") {
		if started.Seq < checks[1].Seq {
			t.Error("an agent worked on T1 before the checks passed on the base")
		}
	}
	if got := s.git("ls-files"); got != "T1.txt\nT2.txt" {
		t.Errorf("the base has %q", got)
	}
}

func TestInfraBlockedEntersRemediation(t *testing.T) {
	s := set(t, scene{
		plan: task("T1"),
		script: `
on developer T1 attempt 1:
    signal INFRA_BLOCKED: {task}
        Issue: the compiler is missing
        Command: cc
on remediation *:
    expect "the compiler is missing"
    signal REMEDIATION_COMPLETE
on health-auditor R-1 attempt 1:
    expect "the compiler is missing"
    signal HEALTH_AUDIT: UNHEALTHY
        Failed Checks: still no cc
on health-auditor *:
    signal HEALTH_AUDIT: HEALTHY
`})
	s.run()
	s.wantCompleted("T1", "R-1")
	if retried := only[rules.RemediationRetried](s, "R-1").Body; retried.Attempt != 1 ||
		retried.Reason != "still no cc" {
		t.Errorf("retried: %+v", retried)
	}
	wantIn(t, s.prompts("R-1", "remediation")[1], "still no cc")
}

func TestReviewFindingsReachTheDeveloper(t *testing.T) {
	s := set(t, scene{
		plan: task("T1"),
		script: `
on critic T1 attempt 1:
    signal REVIEW_FAILED: {task}
        Issues Found:
        - main.go:3: the name lies
        Required Fixes: rename it
on auditor T1 attempt 1:
    signal AUDIT_FAILED: {task}
        Failed Criteria: it does not do it
on developer T1 attempt 2:
    expect "main.go:3: the name lies"
    expect "rename it"
    signal READY_FOR_REVIEW: {task}
on developer T1 attempt 3:
    expect "it does not do it"
    signal READY_FOR_REVIEW: {task}
`})
	s.run()
	s.wantCompleted("T1")
	var causes []string
	for _, r := range all[rules.ReworkOrdered](s, "T1") {
		causes = append(causes, r.Body.Cause)
	}
	if strings.Join(causes, " ") != "review audit" {
		t.Errorf("rework for %v", causes)
	}
	s.wantStarted("T1", "developer", 3)
}

func TestProtectedFilesAreAFinding(t *testing.T) {
	s := set(t, scene{
		git:      true,
		plan:     task("T1"),
		settings: "protected: ['ci/**']\n",
		files:    map[string]string{"ci/run.sh": "true\n"},
		script: `
on developer T1 attempt 1:
    expect "Do not edit these files, which the checks depend on: ci/**"
    write ci/run.sh exit 0
    write new.txt x
    signal READY_FOR_REVIEW: {task}
on developer T1 attempt 2:
    expect "protected files were edited: ci/run.sh"
    run git checkout -q main -- ci/run.sh
    signal READY_FOR_REVIEW: {task}
`})
	s.run()
	s.wantCompleted("T1")
	if checks := all[rules.ChecksRan](s, "T1"); len(checks) != 2 ||
		strings.Join(checks[0].Body.Protected, " ") != "ci/run.sh" ||
		checks[1].Body.Protected != nil {
		t.Errorf("checks: %+v", checks)
	}
	if got := s.file("ci/run.sh"); got != "true\n" {
		t.Errorf("the base has %q", got)
	}
}

func TestClaimedMatrixIsCompared(t *testing.T) {
	s := set(t, scene{
		plan:     task("T1"),
		settings: "checks:\n  - {name: unit tests, command: '! test -f broken'}\n  - {name: lint, command: 'true'}\n",
		script: `
on developer T1 attempt 1:
    touch broken
    signal READY_FOR_REVIEW: {task}
        Environment Verification Matrix:
        | Check | Environment | Exit Code | Result |
        |---|---|---|---|
        | unit tests | local | 0 | PASS |
        | lint | local | 0 | PASS |
on developer T1 attempt 2:
    run rm broken
    signal READY_FOR_REVIEW: {task}
`})
	s.run()
	checks := all[rules.ChecksRan](s, "T1")
	if len(checks) == 0 ||
		strings.Join(checks[0].Body.Differs,
			"; ") != "unit tests in local: reported PASS (0), was FAIL (1)" {
		t.Errorf("checks: %+v", checks)
	}
}

// Work that passes on its own but fails after the merge does not reach the base branch.
func TestMergedResultIsChecked(t *testing.T) {
	s := set(t, scene{
		git:      true,
		plan:     task("T1") + task("T2"),
		settings: "checks:\n  - {name: unit, command: '! test -f a || ! test -f b || test -f both'}\n",
		script: `
on developer T1:
    write a x
    signal READY_FOR_REVIEW: {task}
on developer T2 attempt 1:
    write b x
    signal READY_FOR_REVIEW: {task}
on auditor T1:
    wait for ../../../T2-is-checked
    signal AUDIT_PASSED: {task}
on auditor T2 attempt 1:
    wait for ../../../a.merged
    signal AUDIT_PASSED: {task}
on developer T2:
    expect "merged into the base it fails: unit in local"
    write both x
    signal READY_FOR_REVIEW: {task}
`})
	r := s.begin()
	// without T1
	await[rules.ChecksRan](s, "T2", 1)
	s.write("project/T2-is-checked", "")
	await[rules.Merged](s, "T1", 1)
	s.write("project/a.merged", "")
	r.complete("T1", "T2")
	if rework := only[rules.ReworkOrdered](s, "T2").Body; rework.Cause != "merge" {
		t.Errorf("rework: %+v", rework)
	}
}

func TestApproveMerge(t *testing.T) {
	s := set(t, scene{git: true, plan: task("T1"), settings: "approve: merge\n", script: `
on developer *:
    write new.txt x
    signal READY_FOR_REVIEW: {task}
`})
	r := s.begin()
	s.until("T1 waits for approval", func() bool { return len(s.status().Approvals) == 1 })
	if got := s.git("ls-files", "new.txt"); got != "" {
		t.Error("it was merged without approval")
	}
	s.do(rules.Order{What: rules.OrderApprove, Work: "T1", Actor: "me"})
	r.complete("T1")
	if got := s.git("ls-files", "new.txt"); got != "new.txt" {
		t.Error("it was not merged")
	}
}

// Changes that a reviewer makes are discarded, even if it commits them.
func TestReviewersChangeNothing(t *testing.T) {
	s := set(t, scene{
		git:  true,
		plan: task("T1"),
		script: `
on developer T1:
    write new.txt good
    signal READY_FOR_REVIEW: {task}
on critic T1:
    write new.txt bad
    write more.txt bad
    run git add -A && git -c user.name=c -c user.email=c@localhost commit -q -m sneaky
    write evenmore.txt bad
    signal REVIEW_PASSED: {task}
on auditor T1:
    run git checkout -q -b mine; echo bad > new.txt
    signal AUDIT_PASSED: {task}
`})
	s.run()
	if got := s.git("ls-files"); got != "new.txt" {
		t.Errorf("the base has %q", got)
	}
	if got := strings.TrimSpace(s.file("new.txt")); got != "good" {
		t.Errorf("new.txt has %q", got)
	}
	if log := s.git("log", "--format=%s"); strings.Contains(log, "sneaky") {
		t.Errorf("history:\n%s", log)
	}
}

// An author may commit, even on another branch: its work is saved.
func TestAuthorsMayCommit(t *testing.T) {
	s := set(t, scene{
		git:  true,
		plan: task("T1") + task("T2"),
		script: `
on developer T1:
    write a.txt x
    run git add -A && git -c user.name=d -c user.email=d@localhost commit -q -m mine
    write b.txt x
    signal READY_FOR_REVIEW: {task}
on developer T2:
    run git checkout -q -b elsewhere
    write c.txt x
    run git add -A && git -c user.name=d -c user.email=d@localhost commit -q -m there
    write d.txt x
    signal READY_FOR_REVIEW: {task}
`})
	s.run()
	s.wantCompleted("T1", "T2")
	if got := strings.Fields(s.git("ls-files")); strings.Join(got,
		" ") != "a.txt b.txt c.txt d.txt" {
		t.Errorf("the base has %v", got)
	}
}

// Signals are recognised in every format, and exit signals work as well as line signals.
func TestFormatsAndExitSignals(t *testing.T) {
	for _, agents := range []string{
		"{developer: {agent: as-plain}, critic: {agent: as-claude}, auditor: {agent: as-codex}}",
		"{developer: {agent: as-codex}, critic: {agent: as-gemini}, auditor: {agent: as-opencode}}",
	} {
		t.Run(agents, func(t *testing.T) {
			s := set(t, scene{
				plan:     task("T1") + task("T2"),
				settings: "roles: " + agents + "\n",
				options:  Options{ExitSignals: true},
				script: `
on developer T2:
    expect "except an exit signal"
    exit {"protocol":"apm2_agent_exit","version":"1.0.0","phase_completed":"IMPLEMENTATION","exit_reason":"completed"}
on critic T2 attempt 1:
    expect "moves the work, except an exit signal"
    exit {"protocol":"apm2_agent_exit","version":"1.0.0","phase_completed":"IMPLEMENTATION","exit_reason":"completed"}
on critic T2 attempt 2:
    expect "phase mismatch"
    exit {"protocol":"apm2_agent_exit","version":"1.0.0","phase_completed":"REVIEW","exit_reason":"completed"}
on auditor T2:
    exit {"protocol":"apm2_agent_exit","version":"1.0.0","phase_completed":"READY_FOR_MERGE","exit_reason":"completed"}
`})
			s.run()
			s.wantCompleted("T1", "T2")
			if n := len(all[rules.AgentSessionCompleted](s, "T2")); n != 3 {
				t.Errorf("%d exit signals were accepted, want 3", n)
			}
			if n := len(all[rules.UnknownSignalRecovery](s, "T2")); n != 1 {
				t.Errorf("asked again %d times, want once", n)
			}
		})
	}
}

// An exit signal that agrees with the verdict of its turn is recorded beside it, with its notes.
func TestExitSignalBesideAVerdict(t *testing.T) {
	long := strings.Repeat("all tests pass. ", 300)
	s := set(t, scene{plan: task("T1"), options: Options{ExitSignals: true, LeaveQuestions: true}, script: `
on developer T1 attempt 1:
    say TASK_INCOMPLETE: T1
    say Summary: more to do
    exit {"protocol":"apm2_agent_exit","version":"1.0.0","phase_completed":"IMPLEMENTATION","exit_reason":"completed"}
on developer T1 attempt 2:
    write a.txt a
    exit {"protocol":"apm2_agent_exit","version":"1.0.0","phase_completed":"IMPLEMENTATION","exit_reason":"completed","notes":"written"}
    say READY_FOR_REVIEW: T1
on critic T1:
    exit {"protocol":"apm2_agent_exit","version":"1.0.0","phase_completed":"REVIEW","exit_reason":"completed","notes":"` + long + `"}
    say REVIEW_PASSED: T1
on auditor T1 attempt 1:
    exit {"protocol":"apm2_agent_exit","version":"1.0.0","phase_completed":"REVIEW","exit_reason":"blocked","notes":"of another phase"}
    say AUDIT_BLOCKED: T1
    say Issue: no network
on remediation *:
    signal REMEDIATION_COMPLETE
on health-auditor *:
    signal HEALTH_AUDIT: HEALTHY
on auditor T1 attempt 2:
    exit {"protocol":"apm2_agent_exit","version":"1.0.0","phase_completed":"READY_FOR_MERGE","exit_reason":"completed","notes":"audited"}
    say AUDIT_PASSED: T1
`})
	s.run()
	s.wantCompleted("T1")
	var notes, refused []string
	for _, completed := range all[rules.AgentSessionCompleted](s, "T1") {
		text := *completed.Body.Notes
		if blob := completed.Body.NotesBlob; blob != (signalbox.Hash{}) {
			text = s.text(blob)
		}
		notes = append(notes, string(completed.Body.PhaseCompleted)+" "+text)
	}
	// The critic runs again after the remediation.
	want := []string{"IMPLEMENTATION written", "REVIEW " + long, "REVIEW " + long,
		"READY_FOR_MERGE audited"}
	if !slices.Equal(notes, want) {
		t.Errorf("recorded %q", notes)
	}
	for _, r := range all[rules.SignalRefused](s, "T1") {
		refused = append(refused, r.Body.Said+" "+string(r.Body.Reason))
	}
	if got := strings.Join(refused,
		", "); got != "task_incomplete ambiguous, agent_exit ambiguous, agent_exit phase_mismatch" {
		t.Errorf("refused %s", got)
	}
	heard := 0
	for _, h := range all[rules.SignalHeard](s, "T1") {
		if h.Body.Dialect == signalbox.DialectExit {
			heard++
			if output := s.text(h.Body.Blob); !strings.HasPrefix(output[h.Body.Offset:],
				`{"protocol":`) {
				t.Errorf("at %d: %s", h.Body.Offset, output)
			}
		}
	}
	if heard != len(want) {
		t.Errorf("heard %d exit signals", heard)
	}
}

// If the agent exit protocol is not enabled, an exit signal moves nothing, and the agent is told
// so.
func TestExitSignalsAreOff(t *testing.T) {
	s := set(t, scene{plan: task("T1"), script: `
on developer T1 attempt 1:
    exit {"protocol":"apm2_agent_exit","version":"1.0.0","phase_completed":"IMPLEMENTATION","exit_reason":"completed"}
on developer *:
    expect "exit signal validation is disabled (AGENT_EXIT_PROTOCOL_ENABLED=false)"
    expect "Send this line instead: READY_FOR_REVIEW: T1"
    signal READY_FOR_REVIEW: {task}
on critic T1 attempt 1:
    exit {"protocol":"apm2_agent_exit","version":"1.0.0","phase_completed":"REVIEW","exit_reason":"completed"}
on critic *:
    expect "Send this line instead: REVIEW_PASSED: T1"
    signal REVIEW_PASSED: {task}
on auditor T1 attempt 1:
    exit {"protocol":"apm2_agent_exit","version":"1.0.0","phase_completed":"READY_FOR_MERGE","exit_reason":"blocked"}
on auditor *:
    expect "Send this line instead: AUDIT_BLOCKED: T1"
    signal AUDIT_PASSED: {task}
`})
	s.run()
}

// An exit signal that reports blocked work becomes a question. So does one of a role that needs
// more than it can express.
func TestExitSignalsThatAsk(t *testing.T) {
	s := set(t, scene{
		plan:    task("T1"),
		options: Options{ExitSignals: true},
		script: `
on developer T1 attempt 1:
    exit {"protocol":"apm2_agent_exit","version":"1.0.0","phase_completed":"IMPLEMENTATION","exit_reason":"blocked","notes":"no idea"}
on developer T1 attempt 2:
    expect "have one"
    signal INFRA_BLOCKED: {task}
        Issue: it is broken
on remediation R-1 attempt 1:
    exit {"protocol":"apm2_agent_exit","version":"1.0.0","phase_completed":"IMPLEMENTATION","exit_reason":"completed"}
on remediation *:
    signal REMEDIATION_COMPLETE
on health-auditor *:
    signal HEALTH_AUDIT: HEALTHY
`})
	r := s.begin()
	if q := s.answer("have one"); q.Kind != rules.AskedBlocked ||
		!strings.Contains(q.Text, "no idea") {
		t.Errorf("question: %+v", q)
	}
	if q := s.answer("say it in full"); q.Kind != rules.AskedBlocked || q.Work != "R-1" {
		t.Errorf("question: %+v", q)
	}
	r.complete()
	wantIn(t, s.prompts("R-1", "remediation")[1], "say it in full")
}
