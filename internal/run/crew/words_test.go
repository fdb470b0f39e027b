package crew

import (
	"strings"
	"testing"

	"signalbox"
	"signalbox/internal/core/rules"
)

// What is recorded and shown of an agent's output are its own words, in every format.
func TestOwnWordsOfAgents(t *testing.T) {
	s := set(t, scene{
		plan:     task("T1"),
		settings: "roles: {developer: {agent: as-gemini, timeout: 1s}}\n",
		options:  Options{seams: seams{start: startUntil("!")}}, // gemini writes in small pieces
		script: `
on developer T1 attempt 1:
    say I read the plan.
    say I forgot the signal.
on developer T1 attempt 2:
    say Now I hang!
    hang
`})
	const words = "I read the plan.\nI forgot the signal."
	for _, format := range agentFormats() {
		got := s.hear(signalbox.RoleDeveloper, format,
			"say I read the plan.\n    say I forgot the signal.")
		if strings.TrimSpace(got.head) != words || strings.TrimSpace(got.tail) != words {
			t.Errorf("%s: %q and %q", format, got.head, got.tail)
		}
	}
	s.develop()
	if preview := only[rules.UnknownSignalRecovery](s,
		"T1").Body.Preview; strings.TrimSpace(preview) != words {
		t.Errorf("the preview is %q", preview)
	}
	if failed := only[rules.AgentFailed](s, "T1").Body; !strings.HasSuffix(failed.Detail,
		"; its last output: Now I hang!") {
		t.Errorf("the failure is %q", failed.Detail)
	}
	if again := s.prompts("T1", "developer")[1]; !strings.Contains(again,
		"    I forgot the signal.\n") || strings.Contains(again, `{"`) {
		t.Errorf("the agent is asked again with:\n%s", again)
	}
}

// An agent whose signal was refused learns why, and what to send instead.
func TestRefusedAgentsLearnWhy(t *testing.T) {
	s := set(t, scene{plan: task("T1")})
	for sent, told := range map[string]string{
		"READY_FOR_REVIEW: T2":                           "READY_FOR_REVIEW: T2, but your signals must name T1 (wrong_work). Send: READY_FOR_REVIEW: T1",
		"AUDIT_PASSED: T1":                               "AUDIT_PASSED: T1, which the role developer must not send (out_of_role).",
		"```\n    say READY_FOR_REVIEW: T1\n    say ```": "READY_FOR_REVIEW: T1 inside a code block (fenced), where signals are ignored.",
	} {
		if got := s.hear(signalbox.RoleDeveloper, signalbox.FormatPlain,
			"say "+sent).advice; !strings.HasPrefix(got, "You sent "+told) {
			t.Errorf("%s: %q", sent, got)
		}
	}
}

// The prompt of the agent after one that kept sending refused signals has the reason too.
func TestNextAgentLearnsWhy(t *testing.T) {
	s := set(t, scene{plan: task("T1"),
		script: "on developer T1 attempt 4:\n    signal READY_FOR_REVIEW: {task}\non developer T1:\n    say READY_FOR_REVIEW: T2\n"})
	s.develop()
	wantIn(t, s.prompts("T1", "developer")[3], "## Previous problem",
		"your signals must name T1 (wrong_work)")
}

// Prompts name the base branch and the plan with its introduction, and offer EXPERT_REQUEST only if
// there is someone to ask.
func TestPromptsNameTheirSurroundings(t *testing.T) {
	for _, test := range []struct {
		settings string
		offered  bool
	}{{"experts: [{name: database, keywords: [SQL]}]\n", false}, {"roles: {expert-creator: {}}\n", true}} {
		t.Run(test.settings, func(t *testing.T) {
			s := set(t, scene{plan: "\nAll numbers are integers.\n\n## Background\n\nNo floats.\n\n### Phase 1: Numbers\n\nNot this.\n" + task("T1"), git: true, settings: test.settings})
			s.run()
			for _, role := range []string{"developer", "critic", "auditor"} {
				prompt := s.prompts("T1", role)[0]
				wantIn(t, prompt, "### The plan: The plan\n",
					"    All numbers are integers.\n\n    ## Background\n\n    No floats.\n")
				if strings.Contains(prompt, "Not this.") ||
					strings.Contains(prompt, "EXPERT_REQUEST") != test.offered {
					t.Errorf("%s:\n%s", role, prompt)
				}
			}
			wantIn(t, s.prompts("T1", "developer")[0], "your own working copy of the branch main.")
			wantIn(t, s.prompts("T1", "critic")[0], "against the base branch main,")
		})
	}
}
