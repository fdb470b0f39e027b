package crew

import (
	"strings"
	"sync"
	"testing"
	"time"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/process"
	"signalbox/transcript"
)

// An agent without a valid signal is asked again, under the same lease, and told what was wrong. A
// turn that only reports progress, or asks for files, has a valid signal. The agent continues under
// the same lease.
func TestTurnWithoutResult(t *testing.T) {
	for _, agent := range []string{"player", "as-claude"} {
		t.Run(agent, func(t *testing.T) {
			s := set(t, scene{
				git:      true,
				plan:     task("T1"),
				settings: "roles: {developer: {agent: " + agent + "}}\n",
				script: `
on developer T1 attempt 1:
    write a.txt a
    signal CHECKPOINT: {task}
        Current Activity: half is done
on developer T1 attempt 2:
    expect "Your last answer had no result"
    expect "half is done"
    signal FILE CONFLICT: a.txt
on developer T1 attempt 3:
    expect "Your last answer had no result"
    signal READY_FOR_REVIEW: {task}
`})
			s.develop()
			started := all[rules.AgentStarted](s, "T1")
			if n := len(s.prompts("T1", "developer")); n != 3 ||
				started[0].Body.Epoch != started[2].Body.Epoch {
				t.Errorf("%d developers: %+v", n, started)
			}
			if n := len(all[rules.UnknownSignalRecovery](s, "")) + len(all[rules.SignalRefused](s,
				"")); n != 0 {
				t.Errorf("%d turns without a valid signal, or refused signals", n)
			}
			if ended := all[rules.AgentTurnEnded](s, "T1"); ended[0].Body.Commit == "" {
				t.Errorf("the turn is recorded without what it changed: %+v", ended[0].Body)
			}
		})
	}
}

// An agent that only ever reports progress is stopped: after a few turns they count like turns
// without a valid signal. So does a turn with an attempt at a verdict.
func TestTurnsWithoutResultAreBounded(t *testing.T) {
	s := set(t, scene{
		plan:     task("T1") + task("T2"),
		settings: "limits: {timeouts: 1, unknown: 2}\n",
		options:  Options{LeaveQuestions: true},
		script: `
on developer T1:
    signal CHECKPOINT: {task}
on developer T2 attempt 1:
    signal CHECKPOINT: {task}
    say **READY_FOR_REVIEW: {task}**
on developer T2 attempt 2:
    expect "Your last answer had no valid signal"
    signal READY_FOR_REVIEW: {task}
`})
	s.begin().end()
	s.wantStarted("T1", "developer", 4)
	only[rules.UnknownSignalRecovery](s, "T1")
	only[rules.UnknownSignalRecovery](s, "T2")
	if failed := only[rules.AgentFailed](s, "T1").Body; failed.Cause != string(rules.FailSignals) {
		t.Errorf("failed: %+v", failed)
	}
	s.wantCompleted("T2")
}

func TestNearMissIsAskedAgain(t *testing.T) {
	s := set(t, scene{
		plan: task("T1"),
		script: `
on developer T1 attempt 1:
    say I did it.
    say **READY_FOR_REVIEW: {task}**
on developer T1 attempt 2:
    expect "Your last answer had no valid signal"
    expect "**READY_FOR_REVIEW: T1**"
    expect "I did it."
    expect "column 0"
    signal READY_FOR_REVIEW: {task}
`})
	s.develop()
	recovery := only[rules.UnknownSignalRecovery](s, "T1")
	if b := recovery.Body; b.Attempt != 1 || b.Level != "warning" ||
		!strings.HasPrefix(b.Preview, "I did it.") ||
		!strings.Contains(b.Advice, "READY_FOR_REVIEW: T1") {
		t.Errorf("recovery: %+v", b)
	}
	started := all[rules.AgentStarted](s, "T1")
	if started[0].Session != started[1].Session || started[0].Body.Epoch != started[1].Body.Epoch {
		t.Errorf("it was asked under another lease: %+v", started[:2])
	}
	if s.work("T1").Task.Counts.Unknown != 0 {
		t.Error("a valid signal did not reset the counter")
	}
}

// The advice has the exact line to send, with the work, wherever the near miss is.
func TestNearMissAdviceHasTheLine(t *testing.T) {
	s := set(t, scene{plan: task("T1"), options: Options{ExitSignals: true}})
	const exit = `{"protocol":"apm2_agent_exit","version":"1.0.0","phase_completed":"IMPLEMENTATION","exit_reason":"completed"}`
	for name, c := range map[string]struct{ said, reason, want string }{
		"no argument": {"READY_FOR_REVIEW:", "near_miss",
			"no argument: send the line bare, at column 0: READY_FOR_REVIEW: T1"},
		"full width": {"READY_FOR_REVIEW：T1", "near_miss", "column 0: READY_FOR_REVIEW: T1"},
		"tags": {"<signal>READY_FOR_REVIEW: T1</signal>", "near_miss",
			"column 0: READY_FOR_REVIEW: T1"},
		"colour": {"\x1b[32mREADY_FOR_REVIEW: T1\x1b[0m", "near_miss",
			"column 0: READY_FOR_REVIEW: T1"},
		"carriage return": {"50 %\rREADY_FOR_REVIEW: T1", "near_miss",
			"column 0: READY_FOR_REVIEW: T1"},
		"table": {"| READY_FOR_REVIEW: task 1 |", "near_miss",
			"column 0: READY_FOR_REVIEW: T1"},
		"sentence": {"Final signal: READY_FOR_REVIEW", "near_miss",
			"column 0: READY_FOR_REVIEW: T1"},
		"typo": {"REDAY_FOR_REVIEW: T1", "near_miss",
			"misspelled: send the line bare, at column 0: READY_FOR_REVIEW: T1"},
		"exit": {"My exit: " + exit, "malformed", "send the line bare, at column 0: " +
			exit},
	} {
		got := s.hear(signalbox.RoleDeveloper, signalbox.FormatPlain, "say "+c.said)
		if !strings.HasSuffix(got.advice, c.want) {
			t.Errorf("%s: advice %q, want %q", name, got.advice, c.want)
		}
		if r := got.listener.claims.refusals(got.signal); len(r) != 1 || string(r[0].Reason) != c.reason ||
			!strings.HasSuffix(r[0].Detail, c.want) {
			t.Errorf("%s: refused: %+v", name, r)
		}
	}
}

// A near miss of a signal that the role must not send is not advised, and one of an exit signal
// only if they are on.
func TestNearMissThatMustNotBeSent(t *testing.T) {
	s := set(t, scene{plan: task("T1")})
	for name, c := range map[string]struct{ said, want string }{
		"other role":          {"**REVIEW_PASSED: T1**", ""},
		"other role, inside":  {"Final signal: REVIEW_PASSED: T1", ""},
		"exit signal, inside": {`My exit: {"protocol":"apm2_agent_exit","version":"1.0.0","phase_completed":"IMPLEMENTATION","exit_reason":"completed"}`, transcript.ErrExitDisabled.Error()},
	} {
		if got := s.hear(signalbox.RoleDeveloper, signalbox.FormatPlain,
			"say "+c.said).advice; got != c.want {
			t.Errorf("%s: advice %q, want %q", name, got, c.want)
		}
	}
}

func TestThirdUnknownGetsANewLease(t *testing.T) {
	s := set(t, scene{
		plan: task("T1"),
		script: `
on developer T1 attempt 1:
    say hello
on developer T1 attempt 2:
    say hello again
on developer T1 attempt 3:
    say and again
on developer T1 attempt 4:
    expect "Agent produced 3 unrecognized signals. Re-dispatching with explicit format requirements."
    signal READY_FOR_REVIEW: {task}
`})
	s.develop()
	var levels []string
	for _, r := range all[rules.UnknownSignalRecovery](s, "T1") {
		levels = append(levels, r.Body.Level)
	}
	if strings.Join(levels, " ") != "warning error" {
		t.Errorf("recoveries: %v", levels)
	}
	if got := only[rules.AgentSignalFailure](s,
		"T1").Body.Reason; got != "3_consecutive_unknown_signals" {
		t.Errorf("reason %q", got)
	}
	if failed := only[rules.AgentFailed](s, "T1").Body; failed.Cause != string(rules.FailSignals) ||
		failed.Count != 1 {
		t.Errorf("failed: %+v", failed)
	}
	started := all[rules.AgentStarted](s, "T1")
	if started[2].Body.Epoch == started[3].Body.Epoch {
		t.Error("the fourth has the lease of the third")
	}
	if strings.Contains(s.prompts("T1", "developer")[3], "Your last answer") {
		t.Error("the fourth agent is told about an answer of the third")
	}
}

func TestCrashes(t *testing.T) {
	s := set(t, scene{
		plan: task("T1"),
		script: `
on developer T1 attempt 1:
    stderr out of cheese
    crash 7
on developer T1 attempt 2:
    signal-kill
on critic T1 attempt 1:
    exit-code 1
    signal REVIEW_PASSED: {task}
on critic T1 attempt 2:
    exit-code 5
    signal REVIEW_FAILED: {task}
        Issues Found: all of them
`})
	s.run() // a failing verdict counts whatever the exit status is
	s.wantCompleted("T1")
	var failed []string
	for _, f := range all[rules.AgentFailed](s, "T1") {
		failed = append(failed, string(f.Body.Role)+" "+f.Body.Cause+" "+f.Body.Detail)
	}
	want := "developer crash exit status 7: out of cheese; developer crash ended by SIGKILL; critic crash exit status 1 after REVIEW_PASSED"
	if got := strings.Join(failed, "; "); got != want {
		t.Errorf("failures:\n%s\nwant:\n%s", got, want)
	}
}

func TestTimeoutEndsTheGroup(t *testing.T) {
	s := set(t, scene{
		plan:     task("T1"),
		settings: "roles: {developer: {timeout: 1s}}\n",
		options:  Options{seams: seams{start: startUntil("I take my time.")}},
		script: `
on developer T1 attempt 1:
    run sleep 600 >/dev/null 2>&1 &
    say I take my time.
    hang
`})
	s.develop()
	if failed := only[rules.AgentFailed](s, "T1").Body; failed.Cause != string(rules.FailTimeout) ||
		!strings.HasSuffix(failed.Detail,
			"(roles.developer.timeout); its last output: I take my time.") {
		t.Errorf("failed: %+v", failed)
	}
}

// A program that has ended by itself did its work in time, also if that is only noticed later.
func TestEndIsNoticedAfterTheTimeout(t *testing.T) {
	s := set(t, scene{
		plan:     task("T1"),
		settings: "roles: {developer: {timeout: 1s}}\n",
		options: Options{seams: seams{start: func(spec process.Spec,
			started func(process.ID) error) (program, error) {
			p, err := process.Start(spec, started)
			if err != nil {
				return nil, err
			}
			p.Wait()
			stopped := make(chan struct{})
			return unnoticed{p, stopped, sync.OnceFunc(func() { close(stopped) })}, nil
		}}},
	})
	s.develop()
	none[rules.AgentFailed](s, "T1")
}

// unnoticed is a program that has ended, which is noticed when it is stopped.
type unnoticed struct {
	program
	stopped chan struct{}
	notice  func()
}

func (u unnoticed) Stop(grace time.Duration) {
	u.program.Stop(grace)
	u.notice()
}

func (u unnoticed) Wait() process.Exit {
	<-u.stopped
	return u.program.Wait()
}

func TestStall(t *testing.T) {
	s := set(t, scene{
		plan:     task("T1"),
		settings: "roles: {developer: {agent: as-claude}}\nlimits: {silence: 1s}\n",
		options:  Options{seams: seams{start: startUntil("busy")}},
		script: `
on developer T1 attempt 1:
    say busy
    hang
`})
	s.develop()
	if failed := only[rules.AgentFailed](s, "T1").Body; failed.Cause != string(rules.FailStall) ||
		!strings.HasPrefix(failed.Detail,
			"no output for 1s (limits.silence)") {
		t.Errorf("failed: %+v", failed)
	}
}

// A missing program is not retried: there is one question, and the task has not failed.
func TestMissingProgram(t *testing.T) {
	s := set(t, scene{
		plan:     task("T1"),
		settings: "roles: {critic: {agent: missing}}\n",
		options:  Options{LeaveQuestions: true},
	})
	if o := s.begin().end(); o.Standing != rules.StandingAsking {
		t.Errorf("the run ended %s", o.Standing)
	}
	q := only[rules.QuestionAsked](s, "").Body
	if q.Kind != rules.AskedAgent || !strings.Contains(q.Text, "the agent missing") ||
		!strings.Contains(q.Text, "no-such-program-anywhere") {
		t.Errorf("question: %+v", q)
	}
	none[rules.AgentFailed](s, "T1")
}

func TestRateLimitOfAnAgent(t *testing.T) {
	s := set(t, scene{
		plan:     task("T1"),
		settings: "roles: {critic: {agent: as-codex}}\n",
		script: `
on critic T1 attempt 1:
    ratelimit 1s
`})
	for _, format := range agentFormats() {
		before := time.Now()
		got := s.hear(signalbox.RoleCritic, format, "ratelimit 1h")
		until, limited := got.listener.rateLimit(before)
		if left := until.Sub(before); !limited || left < 59*time.Minute || left > 2*time.Hour {
			t.Errorf("%s: limited %v, for %s", format, limited, left)
		}
	}
	s.run()
	s.wantCompleted("T1")
	limited := only[rules.AgentUnavailable](s, "")
	if limited.Body.Agent != "as-codex" || limited.Body.Cause != rules.FailRateLimit {
		t.Errorf("limited: %+v", limited.Body)
	}
	none[rules.AgentFailed](s, "")
	for _, e := range all[rules.LeaseGranted](s, "T1") {
		if e.Seq > limited.Seq && e.Body.Role == signalbox.RoleCritic &&
			s.timeOf(e.Seq).Before(limited.Body.Until) {
			t.Error("a critic was started before the limit ended")
		}
	}
}

// A failing verdict counts even if the service refuses requests afterwards. A passing one does not:
// the turn was cut short.
func TestVerdictWithRateLimit(t *testing.T) {
	s := set(t, scene{
		plan:     task("T1"),
		settings: "roles: {critic: {agent: as-claude}}\n",
		script: `
on critic T1 attempt 1:
    signal REVIEW_FAILED: {task}
        Issues Found: main.go:1: it does nothing
    ratelimit 1h
on critic T1 attempt 2:
    signal REVIEW_PASSED: {task}
    ratelimit 1s
`})
	s.run()
	s.wantCompleted("T1")
	if n := len(all[rules.ReworkOrdered](s, "T1")); n != 1 {
		t.Errorf("%d failed reviews, want one", n)
	}
	only[rules.AgentUnavailable](s, "")
	s.wantStarted("T1", "critic", 3)
}

func (s *stage) timeOf(seq uint64) time.Time {
	s.t.Helper()
	events, err := s.box.Journal.Read(s.t.Context(), seq-1, 1)
	if err != nil || len(events) != 1 {
		s.t.Fatal(err)
	}
	return events[0].Time
}

// A program that hangs after the end of its turn is ended, and that is not a failure.
func TestHangAfterResult(t *testing.T) {
	delays := shortDelays()
	delays.linger = 500 * time.Millisecond
	s := set(t, scene{plan: task("T1"), settings: "roles: {developer: {agent: as-claude}}\n", options: Options{seams: seams{delays: delays}}, script: `
on developer T1:
    signal READY_FOR_REVIEW: {task}
    hang after result
`})
	s.develop()
	none[rules.AgentFailed](s, "")
}

func TestFloodIsKeptInPart(t *testing.T) {
	s := set(t, scene{plan: task("T1"), script: `
on developer T1:
    flood 3MB in one line
    signal READY_FOR_REVIEW: {task}
`})
	s.develop()
	if ended := all[rules.AgentTurnEnded](s, "T1")[0].Body; ended.Bytes < 3_000_000 ||
		len(s.text(ended.Output)) != int(ended.Bytes) {
		t.Errorf("turn: %+v", ended)
	}
}
