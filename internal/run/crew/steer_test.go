package crew

import (
	"fmt"
	"strings"
	"testing"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/process"
	"signalbox/internal/run/questions"
	"signalbox/internal/run/steer"
	"signalbox/internal/run/stored"
	"signalbox/internal/testkit/must"
)

// A task that the human sends back while a critic reviews it goes to a developer with what the
// human wants. The reviewers after that check it.
func TestReworkDuringReview(t *testing.T) {
	s := set(t, scene{git: true, plan: task("T1"), script: `
on developer T1 attempt 1:
    write parser.go old
    signal READY_FOR_REVIEW: {task}
on critic T1 attempt 1:
    signal CHECKPOINT: {task}
    hang
on developer T1 attempt 2:
    expect "From the human: do this first"
    expect "use the new parser"
    write parser.go new
    signal READY_FOR_REVIEW: {task}
on critic T1 attempt 2:
    expect "The human sent the work back with this. Check that it is done"
    expect "use the new parser"
    signal REVIEW_FAILED: {task}
        Issues Found: parser.go:1: not tested
on developer T1 attempt 3:
    expect "parser.go:1: not tested"
    expect "It must stay done."
    write parser_test.go new
    signal READY_FOR_REVIEW: {task}
on auditor T1:
    expect "use the new parser"
    signal AUDIT_PASSED: {task}
`})
	r := s.begin()
	s.awaitCheckpoint("T1")
	s.do(rules.Rework{Work: "T1", Text: "use the new parser", Actor: "me"})
	r.complete("T1")
	if got := s.file("parser.go"); got != "new\n" && got != "new" {
		t.Errorf("merged %q", got)
	}
	prompts := s.prompts("T1", "developer")
	if len(prompts) != 3 ||
		strings.Index(prompts[1], "use the new parser") > strings.Index(prompts[1], "## Task") ||
		strings.Contains(prompts[2], "do this first") {
		t.Errorf("%d developers were started: %q", len(prompts), prompts)
	}
	none[rules.AgentFailed](s, "T1")
}

// A review that is done again has the note of the human at the top of the critic's prompt, and an
// implementation that of the developer.
func TestRetryWithNote(t *testing.T) {
	s := set(t, scene{git: true, plan: task("T1"), script: `
on auditor T1 attempt 1:
    signal CHECKPOINT: {task}
    hang
on critic T1 attempt 2:
    expect "look at the error paths"
    signal CHECKPOINT: {task}
    hang
on developer T1 attempt 2:
    expect "begin with the tests"
    write parser_test.go new
    signal READY_FOR_REVIEW: {task}
`})
	r := s.begin()
	s.awaitCheckpoint("T1")
	if _, err := (steer.Decision{What: rules.OrderRetry, Work: "T1", From: signalbox.PhaseReview,
		Note: "look at the error paths", Actor: "me"}).Do(t.Context(), s.box); err != nil {
		t.Fatal(err)
	}
	await[rules.ProgressReported](s, "T1", 2)
	long := "begin with the tests\n" + strings.Repeat("and with the others. ", 300)
	if _, err := (steer.Decision{What: rules.OrderRetry, Work: "T1",
		From: signalbox.PhaseImplementation, Note: long, Actor: "me"}).Do(t.Context(),
		s.box); err != nil {
		t.Fatal(err)
	}
	r.complete("T1")
	if critics := s.prompts("T1", "critic"); len(critics) != 3 ||
		!noteFirst(critics[1], "look at the error paths") ||
		strings.Contains(critics[2], "error paths") {
		t.Errorf("%d critics were started: %q", len(critics), critics)
	}
	if developers := s.prompts("T1", "developer"); len(developers) != 2 ||
		!noteFirst(developers[1], strings.TrimSpace(strings.Repeat("and with the others. ", 300))) {
		t.Errorf("%d developers were started: %q", len(developers), developers)
	}
	none[rules.AgentFailed](s, "T1")
}

// noteFirst reports whether a note is in the first section of a prompt.
func noteFirst(prompt, note string) bool {
	sections := strings.SplitN(prompt, "\n## ", 3)
	return len(sections) == 3 && strings.Contains(sections[1], note)
}

// Words that cannot wait interrupt the agent at work under its lease. A developer continues its
// conversation with them; a critic starts again.
func TestWordsNow(t *testing.T) {
	s := set(t, scene{git: true, plan: task("T1"),
		settings: "roles: {developer: {agent: again-codex}}\n", script: `
on developer T1 attempt 1:
    write half.txt half
    signal CHECKPOINT: {task}
    hang
on developer T1 attempt 2:
    expect "there is a message for you"
    expect "use the other table"
    run test -f half.txt && echo whole > whole.txt
    signal READY_FOR_REVIEW: {task}
on critic T1 attempt 1:
    signal CHECKPOINT: {task}
    hang
on critic T1 attempt 2:
    expect "You are a critic"
    expect "the table is right"
    signal REVIEW_PASSED: {task}
`})
	r := s.begin()
	for i, words := range []string{"use the other table", "the table is right"} {
		await[rules.ProgressReported](s, "T1", i+1)
		if i == 0 {
			await[rules.ConversationOpened](s, "T1", 1)
		}
		s.do(rules.Tell{Work: "T1", Text: words, Now: true, Actor: "me"})
		await[rules.MessageDelivered](s, "T1", i+1)
	}
	r.complete("T1")
	s.wantStarted("T1", "developer", 2)
	s.wantStarted("T1", "critic", 2)
	none[rules.AgentFailed](s, "T1")
	started, opened := all[rules.AgentStarted](s, "T1"), all[rules.ConversationOpened](s, "T1")
	if started[1].Body.Resumes != opened[0].Body.ID ||
		started[1].Body.Epoch != started[0].Body.Epoch ||
		started[3].Body.Resumes != "" || started[3].Body.Epoch != started[2].Body.Epoch {
		t.Errorf("started %+v", started)
	}
}

// A developer who is at work is stopped at once. What it changed stays, also if it was about to
// deliver.
func TestReworkDuringDevelopment(t *testing.T) {
	s := set(t, scene{git: true, plan: task("T1"), script: `
on developer T1 attempt 1:
    write half.txt half
    signal READY_FOR_REVIEW: {task}
    signal CHECKPOINT: {task}
    hang
on developer T1 attempt 2:
    expect "only the first half"
    expect "An earlier agent was interrupted"
    run test -f half.txt && echo whole > whole.txt
    signal READY_FOR_REVIEW: {task}
`})
	r := s.begin()
	s.awaitCheckpoint("T1")
	s.do(rules.Rework{Work: "T1", Text: "only the first half", Actor: "me"})
	r.complete("T1")
	s.file("half.txt")
	s.file("whole.txt")
	s.wantStarted("T1", "developer", 2)
}

// A merge that is rejected is not made. The same commit is not approved by accident.
func TestRejectedMerge(t *testing.T) {
	s := set(t, scene{git: true, plan: task("T1"), settings: "approve: merge\n", script: `
on developer T1 attempt 1:
    write a.txt wrong
    signal READY_FOR_REVIEW: {task}
on developer T1 attempt 2:
    expect "it must say right"
    write a.txt right
    signal READY_FOR_REVIEW: {task}
`})
	r := s.begin()
	approvals := func() bool { return len(s.status().Approvals) == 1 }
	s.until("the merge waits for approval", approvals)
	rejected := s.work("T1").Task.Commit
	s.do(rules.Rework{Work: "T1", Text: "it must say right", Actor: "me", Reject: true})
	if approvals() && s.work("T1").Task.Commit == rejected {
		t.Error("it still waits for approval")
	}
	s.until("the new commit waits for approval", approvals)
	if ordered := only[rules.ReworkOrdered](s, "T1"); ordered.Body.Commit != rejected ||
		s.work("T1").Task.Commit == rejected {
		t.Errorf("rejected %+v, then %s", ordered.Body, s.work("T1").Task.Commit)
	}
	s.do(rules.Order{What: rules.OrderApprove, Work: "T1", Actor: "me"})
	r.complete("T1")
	if got := strings.TrimSpace(s.file("a.txt")); got != "right" {
		t.Errorf("merged %q", got)
	}
}

// Words for the role at work are in its next prompt, and those for another role in the prompt of
// that. An agent that fails has not got them.
func TestMessageInNextPrompt(t *testing.T) {
	s := set(t, scene{plan: task("T1"), script: `
on developer T1 attempt 1:
    signal CHECKPOINT: {task}
    wait for continue
    signal READY_FOR_REVIEW: {task}
on critic T1 attempt 1:
    crash
on critic T1 attempt 2:
    signal REVIEW_FAILED: {task}
        Issues Found: it is slow
`})
	r := s.begin()
	s.awaitCheckpoint("T1")
	s.do(rules.Tell{Work: "T1", Text: "the build is slow", Actor: "me"})
	s.do(rules.Tell{Work: "T1", Role: signalbox.RoleCritic, Text: "look at a.txt", Actor: "me"})
	s.write("project/continue", "")
	r.complete("T1")
	for role, want := range map[string]struct{ slow, look string }{
		"developer": {"01", "00"}, "critic": {"000", "110"}, "auditor": {"0", "0"},
	} {
		var slow, look string
		for _, prompt := range s.prompts("T1", role) {
			const from = "A message from the human\n\nFrom me:\n\n    "
			slow += fmt.Sprint(strings.Count(prompt, from+"the build is slow\n"))
			look += fmt.Sprint(strings.Count(prompt, from+"look at a.txt\n"))
		}
		if slow != want.slow || look != want.look {
			t.Errorf("messages in prompts of the %s: %s, %s", role, slow, look)
		}
	}
	sent := all[rules.MessageSent](s, "T1")
	starts := all[rules.AgentStarted](s, "T1")
	delivered := all[rules.MessageDelivered](s, "T1")
	if len(delivered) != 2 || delivered[0].Body.Messages[0] != sent[1].Seq ||
		delivered[0].Session != starts[2].Session || delivered[1].Session != starts[3].Session {
		t.Errorf("sent %+v, delivered %+v", sent, delivered)
	}
}

// A long text is stored as a blob, and the agent gets all of it.
func TestLongWordsInPrompt(t *testing.T) {
	s := set(t, scene{plan: task("T1"),
		script: "on developer T1:\n    signal READY_FOR_REVIEW: {task}\n"})
	long := strings.Repeat("a long line of the human\n", 500) + "and its end"
	for _, order := range []func() (rules.Answer, error){
		func() (rules.Answer, error) {
			return steer.Decision{What: steer.Rework, Work: "T1", Text: long,
				Actor: "me"}.Do(t.Context(), s.box)
		},
		func() (rules.Answer, error) {
			return steer.Decision{What: steer.Tell, Work: "T1", Text: long,
				Actor: "me"}.Do(t.Context(), s.box)
		},
	} {
		if _, err := order(); err != nil {
			t.Fatal(err)
		}
	}
	if found, err := questions.FindTroubles(t.Context(), s.box, s.work("T1")); err != nil ||
		len(found.Findings) != 1 || found.Findings[0].Summary != long || len(found.Messages) != 1 ||
		found.Messages[0].Text != long {
		t.Errorf("%+v, %v", found, err)
	}
	s.develop()
	if prompt := s.prompts("T1", "developer")[0]; strings.Count(prompt, "    and its end\n") != 2 {
		t.Errorf("the prompt lacks the end:\n%.2000s", prompt)
	}
	body := only[rules.ReworkOrdered](s, "T1").Body
	if len(body.Summary) > 300 || body.Body == (signalbox.Hash{}) || s.text(body.Body) != long {
		t.Errorf("recorded %+v", body)
	}
}

// An agent that listens gets a message at once, on one line, and no other agent gets it.
func TestMessageToListeningAgent(t *testing.T) {
	s := set(t, scene{plan: task("T1"), settings: "roles: {developer: {agent: talker}}\n", script: `
on developer T1:
    signal CHECKPOINT: {task}
    listen
    listen
    signal READY_FOR_REVIEW: {task}
`})
	s.do(rules.Tell{Work: "T1", Text: "in the prompt", Actor: "me"})
	r := s.begin()
	s.awaitCheckpoint("T1")
	s.do(rules.Tell{Work: "T1", Text: "take\nthe second\tone", Actor: "me"})
	await[rules.MessageDelivered](s, "T1", 1)
	if n := len(all[rules.AgentTurnEnded](s, "T1")); n != 0 {
		t.Error("it was delivered only at the end")
	}
	s.do(rules.Tell{Work: "T1", Text: "and now the third", Actor: "me"})
	r.complete("T1")
	turns, delivered := all[rules.AgentTurnEnded](s, "T1"), all[rules.MessageDelivered](s, "T1")
	if len(delivered) != 3 || s.work("T1").Task.Messages != nil {
		t.Errorf("delivered %+v", delivered)
	}
	if output := s.text(turns[0].Body.Output); !strings.Contains(output,
		"Heard: Message from the human (me): take the second one\nHeard: Message from the human (me): and now the third\n") {
		t.Errorf("the developer heard:\n%s", output)
	}
	for _, role := range []string{"developer", "critic", "auditor"} {
		for _, prompt := range s.prompts("T1", role) {
			if got, want := strings.Contains(prompt, "in the prompt"),
				role == "developer"; got != want || strings.Contains(prompt, "the second") ||
				strings.Contains(prompt, "third") {
				t.Errorf("%s:\n%s", role, prompt)
			}
		}
	}
}

// Findings of the human come first, wherever findings are shown: the newest first, and the others
// marked.
func TestHumanFindingsComeFirst(t *testing.T) {
	s := set(t, scene{plan: task("T1")})
	found, err := stored.Findings(t.Context(), s.box,
		[]rules.Finding{{Cause: "review", Summary: "1", Seq: 1},
			{Cause: rules.FindingHuman, Summary: "2", Actor: "ann", Seq: 2},
			{Cause: "audit", Summary: "3", Seq: 3},
			{Cause: rules.FindingHuman, Summary: "4", Actor: "bob", Seq: 4}}, 4)
	order := ""
	for _, f := range found {
		order += f.Summary + f.Actor
		if f.Older {
			order += "(older)"
		}
		order += " "
	}
	if err != nil || order != "4bob 2ann(older) 1 3 " {
		t.Errorf("%s, %v", order, err)
	}
}

// A verdict that an interrupted agent was about to send does not count, unless it rejects the work.
func TestVerdictOfAnAgentThatIsTold(t *testing.T) {
	for signal, want := range map[string]ending{signalbox.NameUnknown: endTold,
		signalbox.NameReadyForReview: endTold, signalbox.NameReviewPassed: endTold,
		signalbox.NameReviewFailed: endReported} {
		turn := &turn{told: true, exit: process.Exit{Signal: "SIGTERM"}, listener: &listener{},
			signal: signalbox.Signal{Dialect: signalbox.DialectLine, Name: signal}}
		if got := turn.ending(nil, false); got != want {
			t.Errorf("%s: %d, want %d", signal, got, want)
		}
		if got := turn.ending(errLeaseLost, false); got == endTold {
			t.Errorf("%s: it continues without its lease", signal)
		}
	}
}

// What is recorded while a run ends, and still looks active, is left to it: after it has left the
// register it notices that there is more.
func TestTaskAddedWhileTheRunEnds(t *testing.T) {
	s := set(t, scene{git: true, plan: task("T1")})
	r := s.begin()
	r.complete("T1") // and it has left the register
	if r.crew.HasMore(t.Context()) {
		t.Error("there is more although all is done")
	}
	_, err := steer.NewTask{Text: "fix the typo", Review: "checks", Actor: "me"}.Do(t.Context(),
		s.box)
	must.Succeed(t, err)
	if !r.crew.HasMore(t.Context()) {
		t.Error("the added task is not noticed")
	}
	s.begin().complete("T1", "A-1")
}
