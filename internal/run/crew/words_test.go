package crew

import (
	"strings"
	"testing"

	"signalbox"
	"signalbox/internal/core/rules"
)

// What is recorded and shown of an agent's output are its own words, in every format.
func TestOwnWordsOfAgents(t *testing.T) {
	for _, format := range signalbox.Formats() {
		if format == signalbox.FormatOracle { // its agents are trees
			continue
		}
		t.Run(string(format), func(t *testing.T) {
			s := set(t, scene{
				plan:     task("T1"),
				settings: "roles: {developer: {agent: as-" + string(format) + ", timeout: 2s}}\n",
				script: `
on developer T1 attempt 1:
    say I read the plan.
    say I forgot the signal.
on developer T1 attempt 2:
    say Now I hang.
    hang
`})
			s.run()
			if preview := only[rules.UnknownSignalRecovery](s, "T1").Body.Preview; strings.TrimSpace(preview) != "I read the plan.\nI forgot the signal." {
				t.Errorf("the preview is %q", preview)
			}
			if failed := only[rules.AgentFailed](s, "T1").Body; !strings.HasSuffix(failed.Detail, "; its last output: Now I hang.") {
				t.Errorf("the failure is %q", failed.Detail)
			}
			if again := s.prompts("T1", "developer")[1]; !strings.Contains(again, "    I forgot the signal.\n") || strings.Contains(again, `{"`) {
				t.Errorf("the agent is asked again with:\n%s", again)
			}
		})
	}
}
