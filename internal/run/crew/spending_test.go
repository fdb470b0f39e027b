package crew

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"signalbox/internal/core/rules"
	"signalbox/internal/process"
	"signalbox/internal/run/agent"
	"signalbox/internal/testkit/must"
)

// spender is a developer that never ends by itself. The next one finishes its work.
const spender = `
on developer T1 attempt 1:
    write half.txt half
    say I begin.
%s
    hang
on developer T1 attempt 2+:
    expect "An earlier agent was interrupted; its changes are in your working copy."
    run test -e half.txt
    usage 1 1
    signal READY_FOR_REVIEW: {task}
`

// untilEnded waits until the first turn has ended. An answer before that could come while the agent
// is being ended.
func (s *stage) untilEnded() {
	s.t.Helper()
	await[rules.AgentTurnEnded](s, "T1", 1)
}

// What an agent uses is read while it works. It is ended when it reaches a cap, what it did is
// kept, and the human is asked.
func TestAgentIsEndedAtItsCap(t *testing.T) {
	const tokens, cost = "{tokens: 50000}", "{cost: 0.50}"
	const turn, task1, role, run = "budget: {turn: %s}\nroles: {developer: {agent: AGENT}}\n",
		"budget: {task: %s}\nroles: {developer: {agent: AGENT}}\n",
		"roles: {developer: {agent: AGENT, budget: %s}}\n",
		"budget: {run: %s}\nroles: {developer: {agent: AGENT}}\n"
	for _, test := range []struct {
		cap                                 rules.Cap
		settings, agent, limit, uses, asked string
	}{
		{rules.CapTurn, turn, "as-claude", tokens, "    usage 60000 10000\n    say More.",
			"T1: 70000 of 50000 tokens (budget.turn"},
		{rules.CapTask, task1, "as-claude", cost, "    usage 60000 10000\n    say More.",
			"T1: cost $0.70 of $0.50 (budget.task"},
		{rules.CapRole, role, "as-opencode", cost, "    usage 60000 10000 0.6\n    run true",
			": cost $0.60 of $0.50 (roles.developer.budget"},
		{rules.CapRun, run, "as-codex", tokens, codexFile(60000, 10000),
			": 70000 of 50000 tokens (budget.run"},
		{rules.CapTask, task1, "as-gemini", tokens, geminiFile(60000, 10000),
			"T1: 70000 of 50000 tokens (budget.task"},
		{rules.CapTurn, turn, "as-codex", cost, codexFile(60000, 10000),
			"T1: cost $0.70 of $0.50 (budget.turn"},
	} {
		t.Run(fmt.Sprintf("%s %s %s", test.cap, test.agent, test.limit), func(t *testing.T) {
			s := set(t, scene{git: true, plan: task("T1"),
				settings: strings.ReplaceAll(fmt.Sprintf(test.settings, test.limit), "AGENT",
					test.agent) +
					"prices: {claude-rehearsal: {input: 10, output: 10}, some-model: {input: 10, output: 10}}\n",
				script: fmt.Sprintf(spender, test.uses)})
			r := s.beginAuthors()
			s.untilEnded()
			q := s.answer("yes")
			work, says, _ := strings.Cut(test.asked, ": ")
			if q.Kind != rules.AskedBudget || q.Work != work ||
				!strings.Contains(q.Text, says+" in signalbox.yaml") {
				t.Errorf("question: %+v", q)
			}
			r.ready()
			ended := all[rules.AgentTurnEnded](s, "T1")[0].Body
			if !ended.Interrupted || ended.Cap != test.cap || ended.Spent.Tokens != 70000 ||
				ended.Estimated || ended.Commit == "" ||
				!strings.Contains(s.text(ended.Output), "I begin") {
				t.Errorf("the turn: %+v", ended)
			}
			none[rules.AgentFailed](s, "")
		})
	}
}

// codexFile writes what codex writes to the file of its session.
func codexFile(input, output int) string {
	return fmt.Sprintf(`    run echo {thread} > thread
    run <<END
THREAD=$(cat thread)
dir=$CODEX_HOME/sessions/2026/11/16
mkdir -p $dir
cat > $dir/new <<EOF
{"timestamp":"2999-01-01T00:00:00.000Z","type":"session_meta","payload":{"id":"$THREAD","timestamp":"2999-01-01T00:00:00.000Z","cwd":"/"}}
{"timestamp":"2999-01-01T00:00:00.000Z","type":"turn_context","payload":{"model":"some-model"}}
{"timestamp":"2999-01-01T00:00:00.000Z","type":"event_msg","payload":{"type":"token_count","info":null,"rate_limits":null}}
{"timestamp":"2999-01-01T00:00:00.000Z","type":"event_msg","payload":{"type":"token_count","info":{"total_token_usage":{"input_tokens":%d,"cached_input_tokens":0,"output_tokens":%d,"total_tokens":1}}}}
EOF
mv $dir/new $dir/rollout-2026-11-16T00-00-00-$THREAD.jsonl
END`, input, output)
}

// geminiFile writes what gemini writes to the file of its session.
func geminiFile(input, output int) string {
	return fmt.Sprintf(`    run echo {thread} > thread
    run <<END
THREAD=$(cat thread)
dir=$GEMINI_CLI_HOME/.gemini/tmp/hash/chats
mkdir -p $dir
cat > $dir/new <<EOF
{"sessionId":"$THREAD","projectHash":"hash","startTime":"2999-01-01T00:00:00.000Z","messages":[
 {"id":"1","timestamp":"2999-01-01T00:00:00.000Z","type":"user","content":"x"},
 {"id":"2","timestamp":"2999-01-01T00:00:00.000Z","type":"gemini","model":"some-model","content":"y","tokens":{"input":%d,"output":%d,"cached":0,"thoughts":20,"tool":0,"total":1}}]}
EOF
mv $dir/new $dir/session-2026-11-16T00-00-$(echo $THREAD | cut -c1-8).json
END`, input, output-20)
}

// Without files the usage is estimated from what the agent reads and writes, and marked as an
// estimate.
func TestCapOfAnEstimate(t *testing.T) {
	for _, agent := range []string{"as-codex", "as-gemini"} {
		t.Run(agent, func(t *testing.T) {
			s := set(t, scene{git: true, plan: task("T1"),
				settings: "budget: {task: {tokens: 20000}}\nroles: {developer: {agent: " + agent +
					"}}\n",
				script: fmt.Sprintf(spender, "    say "+
					strings.Repeat("I think about it. ", 5000))})
			r := s.beginAuthors()
			s.untilEnded()
			if q := s.answer("yes"); q.Kind != rules.AskedBudget ||
				!strings.Contains(q.Text, " of 20000 tokens, estimated (budget.task") {
				t.Errorf("question: %+v", q)
			}
			r.ready()
			ended := all[rules.AgentTurnEnded](s, "T1")
			if first := ended[0].Body; first.Cap != rules.CapTask || !first.Estimated ||
				first.Spent.Tokens < 20000 {
				t.Errorf("the turn: %+v", first)
			}
			if second := ended[1].Body; second.Estimated || second.Spent.Tokens != 2 {
				t.Errorf("the turn that reports its usage: %+v", second)
			}
		})
	}
}

// Two agents share the budget of the run: both are ended when they have spent it together, and
// there is one question.
func TestAgentsShareACap(t *testing.T) {
	s := set(t, scene{plan: task("T1") + task("T2"),
		settings: "budget: {run: {tokens: 700}}\nroles: {developer: {agent: as-claude}}\n",
		script: `
on developer T1 attempt 1:
    usage 300 100
    say I work.
    wait for ../other
    usage 100 0
    say I work more.
    hang
on developer T2 attempt 1:
    usage 200 50
    say I work.
    touch ../other
    hang
on developer * attempt 2+:
    usage 1 1
    signal READY_FOR_REVIEW: {task}
`})
	r := s.begin()
	await[rules.AgentTurnEnded](s, "", 2)
	if q := s.answer("yes"); q.Kind != rules.AskedBudget || q.Work != "" ||
		!strings.Contains(q.Text, "750 of 700 tokens") {
		t.Errorf("question: %+v", q)
	}
	r.complete("T1", "T2")
	for _, work := range []string{"T1", "T2"} {
		if ended := all[rules.AgentTurnEnded](s, work)[0].Body; ended.Cap != rules.CapRun ||
			!ended.Interrupted {
			t.Errorf("%s: %+v", work, ended)
		}
	}
	if n := len(all[rules.QuestionAsked](s, "")); n != 1 {
		t.Errorf("%d questions", n)
	}
}

// What was spent before the program was started again counts.
func TestCapHoldsAcrossRestarts(t *testing.T) {
	s := set(t, scene{git: true, plan: task("T1"),
		settings: "budget: {task: {tokens: 700}}\nroles: {developer: {agent: as-claude}}\n",
		script: `
on developer T1 attempt 1:
    usage 300 100
    say I work.
    signal CHECKPOINT: {task}
    hang
on developer T1 attempt 2:
    usage 200 100
    say I work more.
    hang
on developer T1 attempt 3+:
    write new.txt new
    usage 1 1
    signal READY_FOR_REVIEW: {task}
`})
	r := s.begin()
	await[rules.ProgressReported](s, "T1", 1)
	r.halt()
	first := s.box
	defer func() { s.box = first }() // which is closed last
	s.box = s.open()
	r = s.begin()
	await[rules.AgentTurnEnded](s, "T1", 2)
	if q := s.answer("yes"); !strings.Contains(q.Text,
		"T1 has spent its budget: 700 of 700 tokens") {
		t.Errorf("question: %+v", q)
	}
	r.complete("T1")
}

// When the token window is used up, agents are ended, and work continues by itself when it ends.
func TestTokenWindowOfARun(t *testing.T) {
	s := set(t, scene{git: true, plan: task("T1"),
		settings: "budget: {window: {tokens: 500, every: 5s}}\nroles: {developer: {agent: as-claude}}\n",
		script:   fmt.Sprintf(spender, "    usage 600 100\n    say More.")})
	s.develop()
	ended := all[rules.AgentTurnEnded](s, "T1")
	if first := ended[0].Body; first.Cap != rules.CapWindow || !first.Interrupted ||
		first.Spent.Tokens != 700 {
		t.Errorf("the turn: %+v", first)
	}
	none[rules.QuestionAsked](s, "")
}

// codex reports what it has used in all turns of a session that it resumes.
func TestResumedCodexCountsDifferences(t *testing.T) {
	s := set(t, scene{plan: task("T1"), settings: "roles: {developer: {agent: as-codex}}\n",
		script: `
on developer T1 attempt 1:
    usage 1000 200 0 100
    say No signal.
on developer T1 attempt 2:
    usage 1500 300 0 150
    signal READY_FOR_REVIEW: {task}
`})
	s.develop()
	ended := all[rules.AgentTurnEnded](s, "T1")
	if len(ended) < 2 || ended[0].Body.Spent.Tokens != 1200 || ended[1].Body.Spent.Tokens != 600 {
		t.Errorf("the turns: %+v", ended)
	}
}

// The tokens of a program that does not report them, and the cost of a model without a price, are
// unknown in every sum.
func TestUnknownUsageIsNotZero(t *testing.T) {
	for agent, want := range map[string]rules.Spent{
		"as-plain": {UnknownTokens: 1, UnknownCost: 1},
		"as-codex": {Tokens: 1200, UnknownCost: 1},
	} {
		t.Run(agent, func(t *testing.T) { testUnknownUsage(t, agent, want) })
	}
}

func testUnknownUsage(t *testing.T, agent string, want rules.Spent) {
	s := set(t, scene{plan: task("T1"), settings: "roles: {developer: {agent: " + agent + "}}\n",
		script: `
on developer T1 attempt 1:
    usage 1000 200
    signal READY_FOR_REVIEW: {task}
`})
	s.develop()
	got := all[rules.AgentTurnEnded](s, "T1")[0].Body.Spent
	got.Time = 0
	if got != want {
		t.Errorf("the turn: %+v, want %+v", got, want)
	}
	var sum rules.Spent
	s.box.Engine.View(func(state *rules.State) { sum = state.Spent() })
	if sum.UnknownCost < 1 || sum.UnknownTokens < want.UnknownTokens {
		t.Errorf("the sum: %+v", sum)
	}
}

// An agent that sends its verdict as it reaches its cap has done its work.
func TestVerdictAtTheCapCounts(t *testing.T) {
	s := set(t, scene{plan: task("T1"),
		settings: "budget: {task: {tokens: 500}}\nroles: {developer: {agent: as-claude}}\n",
		script: `
on developer T1:
    usage 600 100
    signal READY_FOR_REVIEW: {task}
    run sleep 0.2
`})
	r := s.begin()
	s.answer("yes")
	r.complete("T1")
	if ended := all[rules.AgentTurnEnded](s, "T1")[0].Body; ended.Cap != "" || ended.Interrupted ||
		len(all[rules.AgentStarted](s, "T1")) != 3 {
		t.Errorf("the turn: %+v", ended)
	}
}

// Working time is limited within a turn too.
func TestCapOfTime(t *testing.T) {
	s := set(t, scene{git: true, plan: task("T1"), settings: "budget: {turn: {time: 1s}}\n",
		script: fmt.Sprintf(spender, "    say More.")})
	r := s.begin()
	s.untilEnded()
	r.halt()
	if ended := all[rules.AgentTurnEnded](s, "T1")[0].Body; ended.Cap != rules.CapTurn {
		t.Errorf("the turn: %+v", ended)
	}
	if q := only[rules.QuestionAsked](s, "T1").Body; !strings.Contains(q.Text,
		"of 1s (budget.turn") {
		t.Errorf("question: %+v", q)
	}
}

// claude is told what it may spend, if its version knows the flag.
func TestClaudeIsToldItsCap(t *testing.T) {
	claude, _ := agent.Preset("claude")
	codex, _ := agent.Preset("codex")
	for _, tt := range []struct {
		name, says string
		command    agent.Command
		left       int64
		want       string
	}{
		{"new", "echo '2.1.76 (Claude Code)'", claude, 2_500_000, "--max-budget-usd 2.5"},
		{"first", "echo '2.0.28 (Claude Code)'", claude, 10, "--max-budget-usd 0.00001"},
		{"old", "echo '2.0.27 (Claude Code)'", claude, 2_500_000, ""},
		{"unknown", "echo mine", claude, 2_500_000, ""},
		{"fails", "echo 9.9.9; exit 1", claude, 2_500_000, ""},
		{"prints too much", "echo 9.9.9; head -c 100000 /dev/zero", claude, 2_500_000, ""},
		{"no limit", "echo 9.9.9", claude, 0, ""},
		{"another program", "echo 9.9.9", codex, 2_500_000, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			program := filepath.Join(t.TempDir(), "claude")
			must.Succeed(t, os.WriteFile(program,
				[]byte("#!/bin/sh\n[ \"$1\" = --version ] || exit 1\n"+
					tt.says+"\n"), 0o700))
			c := &Crew{opts: Options{seams: seams{delays: &delays{version: time.Minute}}}}
			for range 2 {
				got := c.costArguments(t.Context(), tt.command,
					process.Spec{Argv: []string{program}, Env: process.Environ()}, tt.left)
				if strings.Join(got, " ") != tt.want {
					t.Errorf("arguments %q, want %q", got, tt.want)
				}
			}
		})
	}
}

// Programs are asked for their versions at the same time: here each waits for the other.
func TestVersionsAreAskedAtTheSameTime(t *testing.T) {
	claude, _ := agent.Preset("claude")
	dir := t.TempDir()
	c := &Crew{opts: Options{seams: seams{delays: &delays{version: time.Minute}}}}
	var programs []string
	// both before one is started: a process that is being started has files that are being written
	for _, names := range [][2]string{{"a", "b"}, {"b", "a"}} {
		program := filepath.Join(dir, "claude-"+names[0])
		text := fmt.Sprintf(
			"#!/bin/sh\ncd %s\n: >%s\nuntil [ -e %s ]; do sleep 0.05; done\necho 2.1.76\n", dir,
			names[0], names[1])
		must.Succeed(t, os.WriteFile(program, []byte(text), 0o700))
		programs = append(programs, program)
	}
	var both sync.WaitGroup
	for _, program := range programs {
		both.Go(func() {
			if got := c.costArguments(t.Context(), claude,
				process.Spec{Argv: []string{program}, Env: process.Environ()},
				1_000_000); len(got) != 2 {
				t.Errorf("%s: arguments %q", program, got)
			}
		})
	}
	both.Wait()
}

// The program that is asked for its version may do only what the agent may, and does not run in the
// working copy, where the agent could have left something for it.
func TestVersionIsAskedInTheSandbox(t *testing.T) {
	needSandbox(t)
	bin, outside := t.TempDir(), t.TempDir()
	text := fmt.Sprintf(`#!/bin/sh
project=$(dirname "$SIGNALBOX_BOX")
if [ "$1" = --version ]; then
	pwd >>"$project/where"
	(echo x >%s/escaped) 2>/dev/null
	echo '2.1.76 (Claude Code)'
	exit
fi
cat >/dev/null
echo "$*" >"$project/arguments"
cat <<'END'
{"type":"system","subtype":"init","session_id":"S"}
{"type":"assistant","message":{"content":[{"type":"text","text":"READY_FOR_REVIEW: T1"}]},"parent_tool_use_id":null,"session_id":"S"}
{"type":"result","subtype":"success","is_error":false,"result":"READY_FOR_REVIEW: T1","session_id":"S"}
END
`, outside)
	must.Succeed(t, os.WriteFile(filepath.Join(bin, "claude"), []byte(text), 0o700))
	s := set(t, scene{plan: task("T1"), settings: fmt.Sprintf(`sandbox: {mode: enforce, read: [%q]}
budget: {turn: {cost: 5}}
roles: {developer: {agent: fake}}
`, bin), agents: fmt.Sprintf("  fake: {preset: claude, env: {PATH: %q}}\n", bin+":/usr/bin:/bin")})
	s.run()
	where, err := os.ReadFile(filepath.Join(s.root, "where"))
	if string(where) != "/\n" || err != nil {
		t.Errorf("it was asked in %q, %v", where, err)
	}
	if _, err := os.Lstat(filepath.Join(outside, "escaped")); err == nil {
		t.Error("it could write outside the sandbox")
	}
	if arguments, err := os.ReadFile(filepath.Join(s.root, "arguments")); !strings.Contains(
		string(arguments), "--max-budget-usd 5") {
		t.Errorf("arguments %q, %v", arguments, err)
	}
}
