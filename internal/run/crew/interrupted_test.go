package crew

import (
	"strings"
	"testing"

	"signalbox/internal/core/rules"
)

// What an interrupted agent wrote and cost is recorded, and the next agent is told of its changes.
func TestInterruptedAgentIsRecorded(t *testing.T) {
	s := set(t, scene{
		plan:     task("T1"),
		git:      true,
		settings: "roles: {developer: {agent: as-claude}}\n",
		script: `
on developer T1 attempt 1:
    write half.txt half
    say I am half done.
    usage 1200 340 0.012
    signal CHECKPOINT: {task}
    hang
on developer T1 attempt 2:
    expect "An earlier agent was interrupted; its changes are in your working copy."
    run test -e half.txt
    signal READY_FOR_REVIEW: {task}
`})
	r := s.begin()
	await[rules.ProgressReported](s, "T1", 1)
	r.halt()
	ended := only[rules.AgentTurnEnded](s, "T1").Body
	if !ended.Interrupted || ended.Spent.Time == 0 ||
		!strings.Contains(s.text(ended.Output), "I am half done.") {
		t.Errorf("recorded: %+v", ended)
	}
	s.run()
	s.wantCompleted("T1")
}

// An interrupted turn is counted without a budget, too: from the files of the session, and if they
// do not say it, by an estimate.
func TestInterruptedTurnsAreCounted(t *testing.T) {
	for name, test := range map[string]struct {
		agent, uses string
		estimated   bool
	}{
		"codex":         {"as-codex", codexFile(60000, 10000), false},
		"gemini":        {"as-gemini", geminiFile(60000, 10000), false},
		"without files": {"as-codex", "    say I begin.", true},
	} {
		t.Run(name, func(t *testing.T) {
			s := set(t, scene{plan: task("T1"),
				settings: "roles: {developer: {agent: " + test.agent + "}}\n",
				script: "on developer T1 attempt 1:\n" + test.uses +
					"\n    signal CHECKPOINT: {task}\n    hang\n"})
			r := s.begin()
			await[rules.ProgressReported](s, "T1", 1)
			r.halt()
			ended := only[rules.AgentTurnEnded](s, "T1").Body
			if !ended.Interrupted || ended.Estimated != test.estimated ||
				!test.estimated && ended.Spent.Tokens != 70000 || ended.Spent.Tokens == 0 {
				t.Errorf("recorded: %+v", ended)
			}
		})
	}
}

// The end of an agent whose task was cancelled is not reported as its failure.
func TestCancelledAgentDoesNotCrash(t *testing.T) {
	s := set(t, scene{plan: task("T1") + task("T2"), script: `
on developer T1:
    signal CHECKPOINT: {task}
    hang
`})
	r := s.begin()
	await[rules.ProgressReported](s, "T1", 1)
	s.do(rules.Order{What: rules.OrderCancel, Work: "T1", Actor: "me"})
	r.end()
	none[rules.SignalRefused](s, "T1")
}
