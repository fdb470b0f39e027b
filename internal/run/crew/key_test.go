package crew

import (
	"context"
	"strings"
	"testing"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/testkit/must"
)

// wantHidden checks that none of the keys is recorded anywhere but in the output of an agent.
func (s *stage) wantHidden(keys []string) {
	s.t.Helper()
	var texts []string
	for e, err := range s.box.Events(context.Background(), 0) {
		must.Succeed(s.t, err)
		texts = append(texts, string(e.Data))
	}
	for _, started := range all[rules.AgentStarted](s, "") {
		texts = append(texts, s.text(started.Body.Prompt))
	}
	for _, heard := range all[rules.SignalHeard](s, "") {
		texts = append(texts, s.text(heard.Body.Body))
	}
	for _, text := range texts {
		for _, key := range keys {
			if strings.Contains(text, key) {
				s.t.Errorf("the key %s is recorded: %.1000s", key, text)
			}
		}
	}
}

// keys returns the keys that agents appended to a file.
func (s *stage) keys() []string {
	s.t.Helper()
	keys := strings.Fields(s.file("keys"))
	seen := map[string]bool{}
	for _, key := range keys {
		if len(key) != keyLength || seen[key] {
			s.t.Errorf("key %q is too short, or not new", key)
		}
		seen[key] = true
	}
	return keys
}

// With keys, signals count only with the key of the turn, which is new each time. What agents
// repeat from elsewhere has none.
func TestKeyed(t *testing.T) {
	for _, format := range []signalbox.Format{signalbox.FormatPlain, signalbox.FormatClaude} {
		t.Run(string(format), func(t *testing.T) {
			s := set(t, scene{
				plan:     task("T1"),
				settings: "keyed: true\nagent: as-" + string(format) + "\n",
				script: `
on developer T1 attempt 1:
    run echo {key} >>keys
    signal CHECKPOINT: {task}
        Current Activity: I tell everybody that my key is {key}
    signal READY_FOR_REVIEW: {task} with a title
        Summary: the key was {key}
on critic T1 attempt 1:
    run echo {key} >>keys
    say REVIEW_PASSED: {task}
on critic T1 attempt 2:
    expect "append key:{key}"
    expect "REVIEW_PASSED: T1 key:{key}"
    run echo {key} >>keys
    say REVIEW_PASSED: {task} key:aaaaaaaaaaaaaaaa
on critic T1 attempt 3:
    run echo {key} >>keys
    say REVIEW_PASSED: {task}
    signal REVIEW_FAILED: {task}
        Issues Found: {key} is not good
    say REVIEW_PASSED: {task}
on developer T1 attempt 2:
    expect "<key> is not good"
    signal READY_FOR_REVIEW: {task}
`})
			s.run()
			s.wantCompleted("T1")
			if n := len(all[rules.ReworkOrdered](s, "T1")); n != 1 {
				t.Errorf("%d failed reviews, want one", n)
			}
			if refused := only[rules.SignalRefused](s,
				"T1").Body; refused.Reason != signalbox.ReasonWrongKey ||
				refused.Said != signalbox.NameReviewPassed {
				t.Errorf("refused: %+v", refused)
			}
			keys := s.keys()
			if len(keys) != 4 {
				t.Errorf("keys: %v", keys)
			}
			s.wantHidden(keys)
			wantIn(t, s.prompts("T1", "developer")[0], "    READY_FOR_REVIEW: T1 key:<key>\n",
				"Every signal needs your key, exactly as shown: `key:<key>`.")
		})
	}
}

// The line to send in the advice has the key of the next turn, and what is recorded has none.
func TestKeyedNearMiss(t *testing.T) {
	s := set(t, scene{
		plan:     task("T1"),
		settings: "keyed: true\n",
		script: `
on developer T1 attempt 1:
    run echo {key} >>keys
    say **READY_FOR_REVIEW: {task} key:{key}**
on developer T1 attempt 2:
    expect "before it: send the line bare, at column 0: READY_FOR_REVIEW: T1 key:{key}"
    run echo {key} >>keys
    say Final signal: READY_FOR_REVIEW: {task} key:{key}
on developer T1 attempt 3:
    expect "if you mean it: send the line bare, at column 0: READY_FOR_REVIEW: T1 key:{key}"
    run echo {key} >>keys
    signal READY_FOR_REVIEW: {task}
`})
	s.develop()
	s.wantHidden(s.keys())
}

// An interactive agent that forgets the key is told, with the key.
func TestKeyedInteractive(t *testing.T) {
	s := set(t, scene{
		plan:     task("T1"),
		settings: "keyed: true\nroles: {developer: {agent: talker}}\n",
		script: `
on developer T1:
    run echo {key} >>keys
    say READY_FOR_REVIEW: {task} because my key is {key}
    listen "CHECKPOINT: T1 key:{key}"
    signal CHECKPOINT: {task}
    listen "append key:{key}"
    signal READY_FOR_REVIEW: {task}
`})
	s.develop()
	s.wantStarted("T1", "developer", 1)
	s.wantHidden(s.keys())
}

// An exit signal cannot have a key, so it does not count in the output of an agent.
func TestKeyedExitSignal(t *testing.T) {
	s := set(t, scene{
		plan:     task("T1"),
		settings: "keyed: true\n",
		options:  Options{ExitSignals: true},
		script: `
on developer T1 attempt 1:
    exit {"protocol":"apm2_agent_exit","version":"1.0.0","phase_completed":"IMPLEMENTATION","exit_reason":"completed"}
on developer T1 attempt 2:
    expect "in a keyed session submit the exit signal with signalbox work exit"
    signal READY_FOR_REVIEW: {task}
`})
	s.develop()
	only[rules.UnknownSignalRecovery](s, "T1")
}

// An agent whose prompt other processes can read, or whose prompt does not show the key, cannot
// have one.
func TestKeyedAgentsThatCannotHaveAKey(t *testing.T) {
	for name, test := range map[string]struct{ settings, template, want string }{
		"argument": {"roles: {critic: {agent: bare}}\nagents: {bare: {command: [sh, -c, 'echo \"$0\"', '{prompt}']}}\n", "",
			"agent bare cannot have a key: its prompt is passed by argument"},
		"file": {"agents: {bare: {command: [cat, '{prompt_file}']}}\nexperts: [{name: poet, agent: bare}]\n", "",
			"agent bare cannot have a key: its prompt is passed by file"},
		"template": {"roles: {critic: {prompt: critic.md}}\n", "Send REVIEW_PASSED: {{.Work}}.\n",
			"prompt template of critic: it does not show the key"},
	} {
		t.Run(name, func(t *testing.T) {
			s := set(t, scene{plan: task("T1"),
				files: map[string]string{".signalbox/critic.md": test.template}})
			s.write("project/.signalbox/signalbox.yaml", "agent: claude\nworkspace: shared\n"+
				test.settings)
			b := s.open()
			if _, err := New(t.Context(), b, s.project,
				&Options{Keyed: true}); signalbox.CodeOf(err) != signalbox.CodeUsage ||
				!strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
			c, err := New(t.Context(), b, s.project, nil)
			if err != nil {
				t.Fatalf("without keys: %v", err)
			}
			c.Close()
		})
	}
}
