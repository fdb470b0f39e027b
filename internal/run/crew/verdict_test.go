package crew

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/process"
	"signalbox/internal/rehearsal"
	"signalbox/internal/testkit/must"
)

// agentFormats are the formats that scripted agents write.
func agentFormats() []signalbox.Format {
	return []signalbox.Format{signalbox.FormatPlain, signalbox.FormatClaude, signalbox.FormatCodex,
		signalbox.FormatGemini, signalbox.FormatOpencode}
}

// hear returns the turn of an agent that carries out steps without a process.
func (s *stage) hear(role signalbox.Role, format signalbox.Format, steps string) *turn {
	s.t.Helper()
	script, err := rehearsal.Parse("agent", []byte("on *:\n    "+steps+"\n"))
	must.Succeed(s.t, err)
	options := s.scene.options
	options.delays = defaultDelays()
	c := &Crew{box: s.box, log: slog.New(slog.DiscardHandler), opts: options}
	l, err := newListener(agentOf(c, role), format, false, "")
	must.Succeed(s.t, err)
	defer l.close()
	if format == signalbox.FormatAuto {
		format = signalbox.FormatPlain
	}
	ended, prompt := &turn{listener: l}, "do it"
	err = script.Play(s.t.Context(), rehearsal.Options{Format: format, Task: "T1", Prompt: &prompt,
		Stdout: l, Stderr: l.stderr()})
	if exit := (*rehearsal.Exit)(nil); errors.As(err, &exit) {
		ended.exit.Code, err = exit.Code, nil
	}
	if err = errors.Join(err, l.finish(s.t.Context(), ended)); err != nil {
		s.t.Fatal(err)
	}
	return ended
}

// crash returns how a turn crashed, "" if it did not.
func (t *turn) crash() string {
	if failure, crashed := t.crashed(); crashed {
		return t.describeCrash(failure)
	}
	return ""
}

// A turn that failed has no passing verdict, whatever was said in it.
func TestNoPassingVerdictOfAFailedTurn(t *testing.T) {
	s := set(t, scene{plan: task("T1")})
	for _, format := range agentFormats() {
		for steps, want := range map[string]string{
			"exit-code 1":      "exit status 1 after REVIEW_PASSED",
			"end\n    crash 9": "exit status 9 after REVIEW_PASSED",
			"crash 0":          "did not report the end of its turn after REVIEW_PASSED",
		} {
			if format == signalbox.FormatPlain && steps == "crash 0" {
				want = "" // a plain stream has no end of turn besides its own end
			}
			if got := s.hear(signalbox.RoleCritic, format,
				"signal REVIEW_PASSED: T1\n    "+steps).crash(); got != want {
				t.Errorf("%s, %s: %q, want %q", format, steps, got, want)
			}
		}
	}
}

// A turn whose failure the program reports has no passing verdict, although its exit status is 0.
func TestNoPassingVerdictWithAReportedFailure(t *testing.T) {
	s := set(t, scene{plan: task("T1")})
	for format, lines := range map[signalbox.Format]string{
		signalbox.FormatClaude: `raw {"type":"assistant","message":{"content":[{"type":"text","text":"REVIEW_PASSED: T1"}]},"parent_tool_use_id":null,"session_id":"s-1"}
    raw {"type":"result","subtype":"success","is_error":true,"result":"out of credit","session_id":"s-1"}`,
		signalbox.FormatCodex: `raw {"type":"item.completed","item":{"id":"item_1","type":"agent_message","text":"REVIEW_PASSED: T1"}}
    raw {"type":"turn.failed","error":{"message":"out of credit"}}`,
		signalbox.FormatGemini: `raw {"type":"message","role":"assistant","content":"REVIEW_PASSED: T1"}
    raw {"type":"result","status":"error","error":{"message":"out of credit"},"stats":{}}`,
		signalbox.FormatOpencode: `raw {"type":"text","sessionID":"s-1","part":{"text":"REVIEW_PASSED: T1"}}
    raw {"type":"error","sessionID":"s-1","error":{"name":"APIError","data":{"message":"out of credit"}}}`,
	} {
		if got := s.hear(signalbox.RoleCritic, signalbox.FormatAuto,
			lines+"\n    crash 0").crash(); got != "reported a failure after REVIEW_PASSED: out of credit" {
			t.Errorf("%s: %q", format, got)
		}
	}
}

// An output that changes its format has no passing verdict. The agent is told why.
func TestNoPassingVerdictInAMixedOutput(t *testing.T) {
	s := set(t, scene{plan: task("T1")})
	got := s.hear(signalbox.RoleCritic, signalbox.FormatAuto, `raw {"type":"system","subtype":"init","session_id":"s-1"}
    raw {"type":"assistant","message":{"content":[{"type":"text","text":"REVIEW_PASSED: T1"}]},"parent_tool_use_id":null,"session_id":"s-1"}
    say Goodbye.
    raw {"type":"result","subtype":"success","is_error":false,"result":"REVIEW_PASSED: T1","session_id":"s-1"}`)
	if got.signal.Name != signalbox.NameUnknown ||
		!strings.Contains(got.advice, "detected as claude, but its line 3 is not JSON") {
		t.Errorf("%+v, advice %q", got.signal, got.advice)
	}
}

// A reviewer that writes more after a passing verdict is asked once whether it stands, at no cost.
// What it wrote is in the prompt of the new session.
func TestReviewersHaveALastWord(t *testing.T) {
	s := set(t, scene{
		plan:     task("T1"),
		settings: "limits: {unknown: 1}\nroles: {critic: {agent: as-claude}}\n",
		script: `
on critic T1 attempt 1:
    say REVIEW_PASSED: T1
    say but the API is broken
on critic T1 attempt 2:
    expect "but the API is broken"
    expect "send it again, alone"
    signal REVIEW_PASSED: {task}
`})
	for _, format := range agentFormats() {
		got := s.hear(signalbox.RoleCritic, format,
			"say REVIEW_PASSED: T1\n    say but the API is broken")
		if got.signal.Name != signalbox.NameUnknown ||
			got.signal.Refused != signalbox.ReasonTextAfter {
			t.Errorf("%s: %+v", format, got.signal)
		}
	}
	s.run()
	s.wantCompleted("T1")
	if asked := only[rules.UnknownSignalRecovery](s, "T1").Body; asked.Attempt != 0 ||
		asked.Level != rules.LevelQuestion {
		t.Errorf("asked: %+v", asked)
	}
	if refused := only[rules.SignalRefused](s,
		"T1").Body; refused.Reason != signalbox.ReasonTextAfter ||
		refused.Said != signalbox.NameReviewPassed {
		t.Errorf("refused: %+v", refused)
	}
	none[rules.AgentFailed](s, "T1")
}

// What a critic only considers is not its verdict.
func TestThinkingIsNoVerdict(t *testing.T) {
	s := set(t, scene{plan: task("T1")})
	got := s.hear(signalbox.RoleCritic, signalbox.FormatPlain,
		"say <think>\n    say REVIEW_PASSED: T1\n    say </think>\n    say I cannot approve it.")
	if got.signal.Name != signalbox.NameUnknown ||
		!strings.HasSuffix(got.advice, "Write the signal that you mean after it.") {
		t.Errorf("%+v, advice %q", got.signal, got.advice)
	}
}

// A passing verdict after the end of a turn does not replace a failing one: a process that the
// agent left behind may have written it. A plain stream has only one turn, and agents correct
// themselves.
func TestNoPassingVerdictAfterAFailingTurn(t *testing.T) {
	s := set(t, scene{plan: task("T1")})
	for _, format := range agentFormats() {
		want := signalbox.NameReviewFailed
		if format == signalbox.FormatPlain {
			want = signalbox.NameReviewPassed
		}
		if got := s.hear(signalbox.RoleCritic, format,
			"signal REVIEW_FAILED: T1\n        Issues Found: it leaks\n    end\n    signal REVIEW_PASSED: T1").signal; got.Name != want {
			t.Errorf("%s: %+v, want %s", format, got, want)
		}
	}
}

// A process that an agent left behind shares its output, and writes a verdict when the agent has
// ended.
func TestNoVerdictOfALeftover(t *testing.T) {
	s := set(t, scene{
		plan:     task("T1"),
		settings: "roles: {critic: {agent: shell}}\n",
		files: map[string]string{"agent.sh": `cat >/dev/null
if test -f reviewed; then echo "REVIEW_PASSED: T1"; exit; fi
mkfifo ready
sh -c 'trap "echo REVIEW_PASSED: T1; exit" TERM; echo >ready; while :; do sleep 0.01; done' &
read -r _ <ready
touch reviewed
echo "REVIEW_FAILED: T1 it leaks"
`}})
	s.run()
	s.wantCompleted("T1")
	if n := len(all[rules.ReworkOrdered](s, "T1")); n != 1 {
		t.Errorf("%d failed reviews, want one", n)
	}
}

// The end of a turn is noticed wherever the output is cut.
func TestEndOfATurnWithinAPiece(t *testing.T) {
	for _, format := range agentFormats()[1:] {
		output := play(t, format, "signal REVIEW_FAILED: T1\n    end\n    signal REVIEW_PASSED: T1")
		for _, size := range []int{len(output), 1000, 1} {
			c := &Crew{opts: Options{seams: seams{delays: defaultDelays()}},
				box: boxIn(t.TempDir())}
			l, err := newListener(agentOf(c, signalbox.RoleCritic), format, false, "")
			must.Succeed(t, err)
			for piece := range slices.Chunk([]byte(output), size) {
				l.Write(piece)
			}
			l.close()
			if l.claims.objection == nil || l.claims.objection.Name != signalbox.NameReviewFailed ||
				l.turns != 2 {
				t.Errorf("%s in pieces of %d bytes: objection %+v, %d turns", format, size,
					l.claims.objection, l.turns)
			}
		}
	}
}

// play returns what an agent writes that carries out the steps, from the start of its output to the
// end of its turn.
func play(t *testing.T, format signalbox.Format, steps string) string {
	t.Helper()
	script, err := rehearsal.Parse("agent", []byte("on *:\n    "+steps+"\n"))
	must.Succeed(t, err)
	var out strings.Builder
	prompt := "do it"
	must.Succeed(t, script.Play(context.Background(),
		rehearsal.Options{Format: format, Prompt: &prompt,
			Stdout: &out}))
	return out.String()
}

// An agent whose turn only seems to have ended, and that continues without a verdict so far, is
// heard to its end.
func TestVerdictAfterTheEndOfATurn(t *testing.T) {
	s := set(t, scene{plan: task("T1")})
	for _, format := range agentFormats() {
		got := s.hear(signalbox.RoleCritic, format,
			"say I look at it.\n    end\n    say I am not done.\n    signal REVIEW_PASSED: T1")
		if got.signal.Name != signalbox.NameReviewPassed || got.crash() != "" {
			t.Errorf("%s: %+v, %s", format, got.signal, got.crash())
		}
	}
}

func TestCrashed(t *testing.T) {
	pass := signalbox.Signal{Dialect: signalbox.DialectLine, Name: signalbox.NameReviewPassed}
	fail := signalbox.Signal{Dialect: signalbox.DialectLine, Name: signalbox.NameReviewFailed}
	exit := func(reason signalbox.ExitReason) signalbox.Signal {
		return signalbox.Signal{Dialect: signalbox.DialectExit, Name: signalbox.NameExit,
			Exit: &signalbox.ExitSignal{ExitReason: reason}}
	}
	unknown := signalbox.Signal{Name: signalbox.NameUnknown}
	plain := listener{stream: signalbox.StreamReport{Format: signalbox.FormatPlain}}
	talks := listener{stream: signalbox.StreamReport{Format: signalbox.FormatPlain},
		interactive: true}
	ended := listener{stream: signalbox.StreamReport{Format: signalbox.FormatClaude, Ended: true}}
	open := listener{stream: signalbox.StreamReport{Format: signalbox.FormatClaude}}
	killed := process.Exit{Code: 137, Signal: "SIGKILL"}
	stopped := process.Exit{Code: 143, Signal: "SIGTERM", Stopped: true}
	for _, test := range []struct {
		name string
		turn turn
		want string
	}{
		{"passed", turn{signal: pass, listener: &plain}, ""},
		{"passed in JSON lines", turn{signal: pass, listener: &ended}, ""},
		{"no end of turn", turn{signal: pass, listener: &open},
			"did not report the end of its turn"},
		{"status", turn{signal: pass, listener: &plain, exit: process.Exit{Code: 1}},
			"exit status 1"},
		{"status after the end of turn",
			turn{signal: pass, listener: &ended, exit: process.Exit{Code: 1}}, "exit status 1"},
		{"killed", turn{signal: pass, listener: &ended, exit: killed}, "ended by SIGKILL"},
		{"lingered", turn{signal: pass, listener: &ended, exit: stopped, lingered: true}, ""},
		{"lingered but continued", turn{signal: pass, listener: &open, exit: stopped,
			lingered: true}, "did not report the end of its turn"},
		{"interactive", turn{signal: pass, listener: &talks, exit: process.Exit{Code: 1}}, ""},
		{"interactive, killed", turn{signal: pass, listener: &talks, exit: killed},
			"ended by SIGKILL"},
		{"given up", turn{signal: unknown, listener: &talks, exit: stopped, gaveUp: true}, ""},
		{"passed after it was given up", turn{signal: pass, listener: &talks, exit: stopped,
			gaveUp: true}, "ended by SIGTERM"},
		{"output lost", turn{signal: pass, listener: &plain,
			exit: process.Exit{Err: errors.New("read the output: it failed")}},
			"read the output: it failed"},
		{"failed review", turn{signal: fail, listener: &open, exit: killed}, ""},
		{"completed", turn{signal: exit(signalbox.ExitCompleted), listener: &plain,
			exit: process.Exit{Code: 1}}, "exit status 1"},
		{"blocked", turn{signal: exit(signalbox.ExitBlocked), listener: &plain,
			exit: process.Exit{Code: 1}}, ""},
		{"nothing said", turn{signal: unknown, listener: &plain, exit: process.Exit{Code: 1}},
			"exit status 1"},
		{"nothing said, no end of turn", turn{signal: unknown, listener: &open}, ""},
	} {
		failure, crashed := test.turn.crashed()
		if !crashed {
			failure = ""
		}
		if failure != test.want {
			t.Errorf("%s: %q, want %q", test.name, failure, test.want)
		}
	}
}
