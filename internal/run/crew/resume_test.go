package crew

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/testkit/must"
)

// An agent that waits for an expert continues its conversation with the advice.
func TestParkedAgentResumes(t *testing.T) {
	for _, format := range []string{"codex", "gemini"} {
		t.Run(format, func(t *testing.T) {
			s := set(t, scene{git: true, plan: task("T1"),
				settings: "roles: {developer: {agent: again-" + format + "}}\nexperts: [{name: database, agent: player}]\n", options: Options{LeaveQuestions: true}, script: `
on developer T1 attempt 1:
    write query.sql select 1
    signal EXPERT_REQUEST
        Target Agent: database
        Request Type: advice
        Context Snapshot: a query
        ---DELEGATION PROMPT START---
        Is this query fast?
        ---DELEGATION PROMPT END---
on developer T1 attempt 2:
    expect "This is the same conversation"
    expect "add an index"
    signal READY_FOR_REVIEW: {task}
on expert X-1:
    signal EXPERT_ADVICE: {task}
        Summary: add an index
`})
			s.develop()
			opened := all[rules.ConversationOpened](s, "T1")
			var resumes []string
			for _, e := range all[rules.AgentStarted](s, "T1") {
				if e.Body.Agent == "again-"+format {
					resumes = append(resumes, e.Body.Resumes)
				}
			}
			if len(opened) == 0 || len(resumes) != 2 || resumes[0] != "" ||
				resumes[1] != opened[0].Body.ID {
				t.Errorf("opened %+v, resumed %q", opened, resumes)
			}
			if prompts := s.prompts("T1",
				string(signalbox.RoleDeveloper)); strings.Contains(prompts[1],
				"Acceptance criteria") {
				t.Errorf("prompt:\n%s", prompts[1])
			}
		})
	}
}

// A developer continues its conversation when the work comes back, with nothing but what is new: the
// findings of a check and of a critic.
func TestReturnedWorkContinuesItsConversation(t *testing.T) {
	s := set(t, scene{git: true, plan: task("T1"),
		settings: "agent: player\nroles: {developer: {agent: again-codex}}\n" +
			"checks: [{name: unit, command: \"! grep -q one a.txt || grep -q two a.txt\"}]\n" +
			"limits: {checkpoint_answer: " + patience.String() + "}\n",
		options: Options{LeaveQuestions: true}, script: `
on developer T1 attempt 1:
    write a.txt one
    signal READY_FOR_REVIEW: {task}
on developer T1 attempt 2:
    expect "Your work has come back to you"
    expect "unit"
    write a.txt one two
    signal READY_FOR_REVIEW: {task}
on developer T1 attempt 3:
    expect "Your work has come back to you"
    expect "the name is wrong"
    write a.txt three
    signal READY_FOR_REVIEW: {task}
on critic T1 attempt 1:
    signal REVIEW_FAILED: {task}
        Issues Found:
        - the name is wrong
on critic T1:
    signal REVIEW_PASSED: {task}
`})
	s.begin().end()
	s.wantCompleted("T1")
	opened := []string{""}
	for _, e := range all[rules.ConversationOpened](s, "T1") {
		opened = append(opened, e.Body.ID)
	}
	var resumes []string
	for _, e := range all[rules.AgentStarted](s, "T1") {
		if e.Body.Agent == "again-codex" {
			resumes = append(resumes, e.Body.Resumes)
		}
	}
	if len(resumes) != 3 || len(opened) != 4 || !slices.Equal(resumes, opened[:3]) {
		t.Errorf("resumed %q, opened %q", resumes, opened)
	}
	for _, prompt := range s.prompts("T1", "developer")[1:] {
		if strings.Contains(prompt, "Acceptance criteria") {
			t.Errorf("prompt:\n%s", prompt)
		}
	}
}

// A developer whose turn has no valid signal is corrected in its conversation, with what was wrong
// and the form expected. A critic starts a new session.
func TestCorrectionContinuesTheConversation(t *testing.T) {
	for _, format := range []string{"codex", "gemini", "claude", "opencode"} {
		t.Run(format, func(t *testing.T) {
			s := set(t, scene{git: true, plan: task("T1"),
				settings: "agent: player\nroles: {developer: {agent: again-" + format +
					"}, critic: {agent: again-" + format + "}}\n", script: `
on developer T1 attempt 1:
    write a.txt one
    say **READY_FOR_REVIEW: {task}**
on developer T1 attempt 2:
    expect "This is the same conversation"
    expect "send the line bare, at column 0: READY_FOR_REVIEW: T1"
    say I am done.
on developer T1 attempt 3:
    expect "Your last answer had no valid signal"
    expect "READY_FOR_REVIEW: T1"
    signal READY_FOR_REVIEW: {task}
on critic T1 attempt 1:
    say **REVIEW_PASSED: {task}**
on critic T1 attempt 2:
    expect "Acceptance criteria"
    expect "send the line bare, at column 0: REVIEW_PASSED: T1"
    signal REVIEW_PASSED: {task}
`})
			s.begin().end()
			s.wantCompleted("T1")
			var resumed []bool
			for _, e := range all[rules.AgentStarted](s, "T1") {
				if e.Body.Agent == "again-"+format {
					resumed = append(resumed, e.Body.Resumes != "")
				}
			}
			if !slices.Equal(resumed, []bool{false, true, true, false, false}) {
				t.Errorf("resumed: %v", resumed)
			}
			for _, prompt := range s.prompts("T1", "developer")[1:] {
				if strings.Contains(prompt, "Acceptance criteria") ||
					strings.Contains(prompt, "The end of your last answer") {
					t.Errorf("prompt:\n%s", prompt)
				}
			}
		})
	}
}

// If the program cannot continue its session, the correction goes to a new one, and that costs no
// attempt.
func TestCorrectionWithoutItsConversation(t *testing.T) {
	s := set(t, scene{git: true, plan: task("T1"),
		settings: "roles: {developer: {agent: again-codex}}\n", script: `
on developer T1 attempt 1:
    write a.txt one
    say **READY_FOR_REVIEW: {task}**
on developer T1 attempt 2:
    crash 1
on developer T1 attempt 3:
    expect "Acceptance criteria"
    expect "send the line bare, at column 0: READY_FOR_REVIEW: T1"
    expect "The end of your last answer"
    signal READY_FOR_REVIEW: {task}
`})
	s.develop()
	none[rules.AgentFailed](s, "T1")
	only[rules.UnknownSignalRecovery](s, "T1")
}

// A conversation continues also if the base has moved since, and is merged into the work.
func TestConversationContinuesOnANewBase(t *testing.T) {
	sign := filepath.Join(t.TempDir(), "committed")
	s := set(t, scene{git: true, plan: task("T1"),
		settings: "roles: {developer: {agent: again-codex}}\n", script: `
on developer T1 attempt 1:
    write a.txt one
    signal CHECKPOINT: {task}
    wait for ` + sign + `
    signal READY_FOR_REVIEW: {task}
on developer T1 attempt 2:
    expect "Your work has come back to you"
    expect "The base branch has been merged into your folder"
    run test -e b.txt
    write a.txt two
    signal READY_FOR_REVIEW: {task}
on critic T1 attempt 1:
    signal REVIEW_FAILED: {task}
        Issues Found:
        - the name is wrong
on critic T1:
    signal REVIEW_PASSED: {task}
`})
	r := s.begin()
	s.awaitCheckpoint("T1")
	must.Succeed(t, os.WriteFile(filepath.Join(s.root, "b.txt"), []byte("by hand\n"), 0o600))
	s.git("add", "b.txt")
	s.git("commit", "-q", "-m", "by hand")
	must.Succeed(t, os.WriteFile(sign, nil, 0o600))
	r.complete("T1")
	if started := all[rules.AgentStarted](s, "T1"); started[2].Body.Resumes == "" {
		t.Errorf("a new session was started: %+v", started[2].Body)
	}
}

// Work that comes back without a change is not reviewed again, although its commit is another one.
func TestRejectedCommitComesBack(t *testing.T) {
	s := set(t, scene{git: true, plan: task("T1"), script: `
on developer T1 attempt 1:
    write a.txt one
    signal READY_FOR_REVIEW: {task}
on developer T1 attempt 2:
    run git commit -q --allow-empty -m "nothing else"
    signal READY_FOR_REVIEW: {task}
on developer T1 attempt 3:
    expect "the name is wrong"
    expect "the same as the one that was sent back"
    write a.txt two
    signal READY_FOR_REVIEW: {task}
on critic T1 attempt 1:
    signal REVIEW_FAILED: {task}
        Issues Found:
        - the name is wrong
on critic T1:
    signal REVIEW_PASSED: {task}
`})
	s.begin().end()
	s.wantCompleted("T1")
	s.wantStarted("T1", "developer", 3)
	s.wantStarted("T1", "critic", 2)
}

// A program that does not continue its session, although it says that it does, is started again
// with a new one. That is not a failure.
func TestSessionThatDoesNotContinue(t *testing.T) {
	s := set(t, scene{git: true, plan: task("T1"),
		settings: "roles: {developer: {agent: again-codex}}\nexperts: [{name: database, agent: player}]\n", options: Options{LeaveQuestions: true}, script: `
on developer T1 attempt 1:
    signal EXPERT_REQUEST
        Target Agent: database
        Request Type: advice
        Context Snapshot: a query
        ---DELEGATION PROMPT START---
        Is this query fast?
        ---DELEGATION PROMPT END---
on developer T1 attempt 2:
    crash 1
on developer T1 attempt 3:
    write query.sql select 1
    signal READY_FOR_REVIEW: {task}
on expert X-1:
    signal EXPERT_ADVICE: {task}
        Summary: add an index
`})
	s.develop()
	none[rules.AgentFailed](s, "T1")
	var resumes []bool
	for _, e := range all[rules.AgentStarted](s, "T1") {
		if e.Body.Agent == "again-codex" {
			resumes = append(resumes, e.Body.Resumes != "")
		}
	}
	if !slices.Equal(resumes, []bool{false, true, false}) {
		t.Errorf("resumed: %v", resumes)
	}
	if prompts := s.prompts("T1", string(signalbox.RoleDeveloper)); !strings.Contains(prompts[2],
		"Acceptance criteria") || !strings.Contains(prompts[2], "add an index") {
		t.Errorf("prompt:\n%s", prompts[2])
	}
}

// What an interrupted turn of codex used, as far as it was counted, is not counted again when its
// session is resumed.
func TestResumedThreadIsCountedOnce(t *testing.T) {
	last := &rules.Thread{ID: "a", Input: 100, Cached: 10, Output: 20}
	sum := sumOf(usageOf(last, "a"), signalbox.Usage{InputTokens: 50, OutputTokens: 5})
	if got := threadOf("a", sum); *got != (rules.Thread{ID: "a", Input: 150, Cached: 10,
		Output: 25}) {
		t.Errorf("%+v", got)
	}
	after := sinceResume(signalbox.Usage{InputTokens: 180, CachedInputTokens: 10, OutputTokens: 30},
		"a", threadOf("a", sum), signalbox.Usage{})
	if after != (signalbox.Usage{InputTokens: 30, OutputTokens: 5}) {
		t.Errorf("%+v", after)
	}
	if got := usageOf(last, "b"); got != (signalbox.Usage{}) {
		t.Errorf("another thread: %+v", got)
	}
}
