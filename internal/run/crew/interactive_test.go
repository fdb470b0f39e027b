package crew

import (
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/agent"
	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/output"
)

// An interactive program is asked for a checkpoint, and then for its signal, without a restart.
func TestInteractiveNearMiss(t *testing.T) {
	s := set(t, scene{
		plan:     task("T1"),
		settings: "roles: {developer: {agent: talker}}\n",
		script: `
on developer T1:
    expect "You are a developer"
    say - READY_FOR_REVIEW: {task}
    listen "CHECKPOINT: T1"
    signal CHECKPOINT: {task}
        Current Activity: I am here
    listen "Now send your signal again"
    signal READY_FOR_REVIEW: {task}
        Summary: there
`})
	s.develop()
	s.wantStarted("T1", "developer", 1)
	if recovery := only[rules.UnknownSignalRecovery](s, "T1").Body; recovery.Attempt != 1 {
		t.Errorf("recovery: %+v", recovery)
	}
	if progress := only[rules.ProgressReported](s, "T1").Body; progress.Activity != "I am here" {
		t.Errorf("progress: %+v", progress)
	}
}

func TestInteractiveWithoutAnswer(t *testing.T) {
	s := set(t, scene{
		plan:     task("T1"),
		settings: "roles: {developer: {agent: talker}}\nlimits: {checkpoint_answer: 1s}\n",
		script: `
on developer T1 attempt 1:
    say - READY_FOR_REVIEW: {task}
    hang
`})
	s.develop()
	if failed := only[rules.AgentFailed](s, "T1").Body; failed.Cause != string(rules.FailTimeout) {
		t.Errorf("failed: %+v", failed)
	}
}

// After the third turn without a valid signal the agent is started again.
func TestInteractiveWithoutValidSignal(t *testing.T) {
	s := set(t, scene{
		plan:     task("T1"),
		settings: "roles: {developer: {agent: talker-claude}}\n",
		script: `
on developer T1 attempt 1:
    say **READY_FOR_REVIEW: {task}**
    listen "CHECKPOINT: T1"
    signal CHECKPOINT: {task}
    listen "Now send your signal again"
    say **READY_FOR_REVIEW: {task}**
    listen "CHECKPOINT: T1"
    signal CHECKPOINT: {task}
    listen "Now send your signal again"
    say **READY_FOR_REVIEW: {task}**
    hang
`})
	s.develop()
	if n := len(all[rules.UnknownSignalRecovery](s, "T1")); n != 2 {
		t.Errorf("asked again %d times, want twice", n)
	}
	only[rules.AgentSignalFailure](s, "T1")
	if failed := only[rules.AgentFailed](s, "T1").Body; failed.Cause != string(rules.FailSignals) {
		t.Errorf("failed: %+v", failed)
	}
	ended, first := all[rules.AgentTurnEnded](s, "T1")[0],
		all[rules.AgentStarted](s, "T1")[0].Session
	if ended.Session != first || !strings.Contains(s.text(ended.Body.Output), "READY_FOR_REVIEW") ||
		ended.Body.Spent.Time == 0 {
		t.Errorf("the failed turn is not recorded: %+v", ended)
	}
	s.wantStarted("T1", "developer", 2)
}

// The end of the turn in which an agent answers a request for a checkpoint is not another turn
// without a signal. Neither is the late end of the turn that the request is about.
func TestInteractiveCheckpointTurnDoesNotCount(t *testing.T) {
	for agent, said := range map[string]string{"talker-claude": "I am done.",
		"talker-gemini": "**READY_FOR_REVIEW: {task}**"} {
		t.Run(agent, func(t *testing.T) {
			s := set(t, scene{
				plan:     task("T1"),
				settings: "roles: {developer: {agent: " + agent + "}}\n",
				script: `
on developer T1:
    say ` + said + `
    end
    listen "CHECKPOINT: T1"
    signal CHECKPOINT: {task}
    end
    listen "Now send your signal again"
    wait for continue
    signal READY_FOR_REVIEW: {task}
`})
			r := s.beginAuthors()
			s.awaitCheckpoint("T1")
			s.write("project/continue", "")
			r.ready()
			only[rules.UnknownSignalRecovery](s, "T1")
		})
	}
}

// An agent that listens, and ends a turn after it has only reported progress, is told to continue.
// A few times, that does not count.
func TestInteractiveTurnWithoutResult(t *testing.T) {
	s := set(t, scene{
		plan:     task("T1"),
		settings: "roles: {developer: {agent: talker-claude}}\nlimits: {unknown: 2}\n",
		script: `
on developer T1:
    signal CHECKPOINT: {task}
        Current Activity: half is done
    end
    listen "Continue if you are not done"
    signal FILE CONFLICT: a.txt
    end
    listen "Continue if you are not done"
    signal CHECKPOINT: {task}
    end
    listen "Your output has no valid signal."
    signal CHECKPOINT: {task}
    end
    listen "Now send your signal again"
    signal READY_FOR_REVIEW: {task}
`})
	s.develop()
	only[rules.UnknownSignalRecovery](s, "T1")
	s.wantStarted("T1", "developer", 1)
}

// An agent that is silent, and sent nothing that resembles a signal, is asked. That does not count
// as a turn without a signal.
func TestInteractiveSilentAgentIsAsked(t *testing.T) {
	s := set(t, scene{
		plan:     task("T1"),
		settings: "roles: {developer: {agent: talker, checkpoint: 1s}}\n",
		script: `
on developer T1:
    say I am done.
    listen "You have been silent, and have sent no signal yet. Send this line now, alone, at column 0: CHECKPOINT: T1"
    signal CHECKPOINT: {task}
    listen "If you are, send your signal on a line of its own."
    signal READY_FOR_REVIEW: {task}
`})
	s.develop()
	s.wantStarted("T1", "developer", 1)
	none[rules.UnknownSignalRecovery](s, "T1")
}

// A checkpoint is recorded while the agent runs.
func TestCheckpointIsRecordedLive(t *testing.T) {
	for _, agent := range []string{"as-plain", "as-claude"} {
		t.Run(agent, func(t *testing.T) {
			s := set(t, scene{
				plan:     task("T1"),
				settings: "roles: {developer: {agent: " + agent + "}}\n",
				script: `
on developer T1:
    signal CHECKPOINT: {task}
        Current Activity: counting sheep
        Estimated Progress: 40%
    wait for continue
    signal READY_FOR_REVIEW: {task}
`})
			r := s.beginAuthors()
			s.awaitCheckpoint("T1")
			if n := len(all[rules.AgentTurnEnded](s, "T1")); n != 0 {
				t.Error("it was recorded only at the end")
			}
			if p := s.work("T1").Task.Progress; p == nil || p.Activity != "counting sheep" ||
				p.Percent != 40 {
				t.Errorf("progress: %+v", p)
			}
			s.write("project/continue", "")
			r.ready()
		})
	}
}

// A checkpoint of a plain stream is recorded when the stream is silent. It is not recorded again
// when the next signal shows, a minute later, that it was complete.
func TestCheckpointIsRecordedOnce(t *testing.T) {
	s := set(t, scene{plan: task("T1"), script: `
on developer T1:
    signal CHECKPOINT: {task}
        Current Activity: counting sheep
    wait for continue
    signal READY_FOR_REVIEW: {task}
`})
	var later atomic.Bool
	b, err := box.Open(t.Context(), s.box.Dir, &box.Options{KeyFile: filepath.Join(s.dir, "key"),
		Now: func() time.Time {
			if later.Load() {
				return time.Now().Add(time.Minute)
			}
			return time.Now()
		}})
	must.Succeed(t, err)
	before := s.box
	t.Cleanup(func() {
		s.box = before
		b.Close()
	})
	s.box = b
	r := s.beginAuthors()
	s.awaitCheckpoint("T1")
	later.Store(true)
	s.write("project/continue", "")
	r.ready()
	if progress := only[rules.ProgressReported](s,
		"T1").Body; progress.Activity != "counting sheep" {
		t.Errorf("progress: %+v", progress)
	}
}

func TestLive(t *testing.T) {
	var shown output.Buffer
	s := set(t, scene{
		plan:     task("T1"),
		settings: "checks:\n  - {name: unit, command: 'true'}\n",
		script:   "on developer T1:\n    say I think about it.\n    signal READY_FOR_REVIEW: {task}\n",
		options: Options{Live: func(a agent.Activity) {
			shown.Write([]byte(a.Work + " " + string(a.Role) + " " + a.Text + "\n"))
		}},
	})
	s.run()
	wantIn(t, shown.String(), "T1 developer READY_FOR_REVIEW: T1\n", "T1 ci unit: PASS\n",
		"T1 critic REVIEW_PASSED: T1\n")
	if strings.Contains(shown.String(), "\n\n") {
		t.Error("empty lines are shown")
	}
}

func TestLiveSetup(t *testing.T) {
	var shown output.Buffer
	s := set(t, scene{
		git:      true,
		plan:     task("T1"),
		settings: "setup:\n  - {name: tools, command: 'true'}\n",
		options: Options{Live: func(a agent.Activity) {
			if a.Role == signalbox.RoleDeveloper {
				shown.Write([]byte(a.Text + "\n"))
			}
		}},
	})
	s.develop()
	wantIn(t, shown.String(), "setup: tools\n\n")
}

// From a stream of objects only complete ones are published, however the stream is split.
func TestLiveObjects(t *testing.T) {
	for _, test := range []struct {
		format signalbox.Format
		pieces []string
		want   string
	}{
		{signalbox.FormatClaude, []string{`{"a":`, "1}\n{\"b\"", `:2}`, "\n"}, `{"a":1}|{"b":2}`},
		{signalbox.FormatClaude, []string{"{\"a\":1}\n{\"b\":2}\n{\"c\""}, `{"a":1}|{"b":2}`},
		{signalbox.FormatCodex, []string{"warning: x\n", "tail {\"a\":1}\n", "{\"b\":2}\r\n\n"},
			`{"b":2}`},
		{signalbox.FormatCodex, []string{`{"long":"`, strings.Repeat("x", maxLine),
			strings.Repeat("x", maxLine), "\"}\n{\"b\":2}\n"}, `{"b":2}`},
		{signalbox.FormatClaude, []string{strings.Repeat("{}\n", 2*maxPublished)},
			strings.Repeat("{}|", maxPublished-1) + "{}"},
		{signalbox.FormatAuto, []string{`{"a":`, "1}\n"}, `{"a":1}`},
		{signalbox.FormatAuto, []string{"I think", " {about\nit"}, "I think|it"},
		{signalbox.FormatPlain, []string{"{a", "b\n"}, "{a|b"},
	} {
		var shown []string
		crew := &Crew{opts: Options{Live: func(a agent.Activity) { shown = append(shown, a.Text) },
			seams: seams{delays: defaultDelays()}},
			box: boxIn(t.TempDir())}
		h, err := newListener(agentOf(crew, ""), test.format, false, "")
		must.Succeed(t, err)
		for _, piece := range test.pieces {
			if _, err := h.Write([]byte(piece)); err != nil {
				t.Fatal(err)
			}
		}
		h.close()
		if got := strings.Join(shown, "|"); got != test.want {
			t.Errorf("%s %.60q: shown %q, want %q", test.format, test.pieces, got, test.want)
		}
	}
}

// An agent gets its own SIGNALBOX variables and no others.
func TestEnvironmentOfAgents(t *testing.T) {
	s := set(t, scene{plan: task("T1"), script: `
on developer T1:
    run env > developer.env
    signal READY_FOR_REVIEW: {task}
on critic T1 attempt 1:
    crash
on critic T1:
    run env > critic.env
    signal REVIEW_PASSED: {task}
`})
	s.run()
	env := s.file("developer.env")
	started := all[rules.AgentStarted](s, "T1")
	wantIn(t, env, "SIGNALBOX_SESSION="+started[0].Session+"\n", "SIGNALBOX_ROLE=developer\n",
		"SIGNALBOX_WORK=T1\n", "SIGNALBOX_ATTEMPT=1\n",
		"SIGNALBOX_EPOCH=", "SIGNALBOX_SECRET=secret-", "SIGNALBOX_BOX="+
			filepath.Join(s.root, ".signalbox")+"\n")
	for _, granted := range all[rules.LeaseGranted](s, "T1") {
		_, secret, _ := strings.Cut(env, "SIGNALBOX_SECRET=")
		secret, _, _ = strings.Cut(secret, "\n")
		if mine := granted.Session == started[0].Session; (granted.Body.Secret == rules.HashSecret(secret)) != mine ||
			granted.Body.Secret == (signalbox.Hash{}) {
			t.Errorf("the secret of the developer fits the lease of %s: %t", granted.Session, !mine)
		}
	}
	wantIn(t, s.file("critic.env"), "SIGNALBOX_ATTEMPT=2\n", "SIGNALBOX_ROLE=critic\n")
	for line := range strings.Lines(env) {
		name, _, _ := strings.Cut(line, "=")
		switch name {
		case "SIGNALBOX_SESSION", "SIGNALBOX_ROLE", "SIGNALBOX_WORK", "SIGNALBOX_ATTEMPT",
			"SIGNALBOX_EPOCH", "SIGNALBOX_SECRET", "SIGNALBOX_BOX", "SIGNALBOX_SOCKET":
		default:
			if strings.HasPrefix(name, "SIGNALBOX_") {
				t.Errorf("unexpected variable %s", line)
			}
		}
	}
}
