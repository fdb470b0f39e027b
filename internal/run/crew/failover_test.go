package crew

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/testkit/must"
)

// agentsOf returns the agents that were started for a role of a task, in order.
func (s *stage) agentsOf(work string, role signalbox.Role) (names []string) {
	roles := map[uint64]signalbox.Role{}
	for _, e := range all[rules.LeaseGranted](s, work) {
		roles[e.Seq] = e.Body.Role
	}
	for _, e := range all[rules.AgentStarted](s, work) {
		if roles[e.Body.Epoch] == role {
			names = append(names, e.Body.Agent)
		}
	}
	return names
}

// A rate limit of an agent stops it in all roles, and the next agent of a list takes over.
func TestAgentTakesOverAfterARateLimit(t *testing.T) {
	s := set(t, scene{plan: task("T1"), settings: "roles: {developer: {agent: [as-claude, as-codex]}, critic: {agent: [as-claude, as-gemini]}}\n", script: `
on developer T1 attempt 1:
    ratelimit 1h
`})
	s.run()
	s.wantCompleted("T1")
	if got := s.agentsOf("T1", signalbox.RoleDeveloper); !slices.Equal(got,
		[]string{"as-claude", "as-codex"}) {
		t.Errorf("developers %q", got)
	}
	if got := s.agentsOf("T1", signalbox.RoleCritic); !slices.Equal(got, []string{"as-gemini"}) {
		t.Errorf("critics %q", got)
	}
	if limited := only[rules.AgentUnavailable](s, "").Body; limited.Next != "as-codex" {
		t.Errorf("%+v", limited)
	}
}

// In a shared folder, too, an agent that changed nothing is not an author of the work.
func TestWhoWroteInASharedFolder(t *testing.T) {
	for name, tt := range map[string]struct {
		first string
		wrote []bool
	}{"changed nothing": {"", []bool{false, true}},
		"wrote": {"    write x.txt x\n", []bool{true, true}}} {
		t.Run(name, func(t *testing.T) {
			s := set(t, scene{plan: task("T1"), settings: "roles: {developer: {agent: [as-claude, as-codex]}}\n", script: `
on developer T1 attempt 1:
` + tt.first + `    ratelimit 1h
`})
			s.develop()
			var wrote []bool
			for _, ended := range all[rules.AgentTurnEnded](s, "T1")[:2] {
				wrote = append(wrote, ended.Body.Wrote)
			}
			if !slices.Equal(wrote, tt.wrote) {
				t.Errorf("wrote: %v", wrote)
			}
		})
	}
}

// The state of a folder changes with its files, and not with those of the box.
func TestFolderState(t *testing.T) {
	dir := t.TempDir()
	box := filepath.Join(dir, ".box")
	must.Succeed(t, os.MkdirAll(filepath.Join(dir, "a", "b"), 0o755))
	must.Succeed(t, os.MkdirAll(box, 0o755))
	name := filepath.Join(dir, "a", "b", "c")
	seen := map[string]string{}
	step := func(what string, same bool) {
		t.Helper()
		state := folderState(dir, box)
		if before, known := seen[state]; state == "" || known != same {
			t.Errorf("%s: state %q, as %q", what, state, before)
		}
		seen[state] = what
	}
	step("nothing", false)
	must.Succeed(t, os.WriteFile(filepath.Join(box, "ledger"), []byte("x"), 0o600))
	step("in the box", true)
	must.Succeed(t, os.WriteFile(name, []byte("x"), 0o600))
	step("created", false)
	must.Succeed(t, os.WriteFile(name, []byte("xy"), 0o600))
	step("longer", false)
	info, err := os.Stat(name)
	must.Succeed(t, err)
	must.Succeed(t, os.WriteFile(name, []byte("xz"), 0o600))
	must.Succeed(t, os.Chtimes(name, time.Time{}, info.ModTime()))
	step("rewritten with the time of before", false)
	must.Succeed(t, os.Rename(name, name+"d"))
	step("renamed", false)
	if state := folderState(name, box); state != "" {
		t.Errorf("a folder that is missing: %q", state)
	}
}

// refused is what claude writes while its service refuses to serve it, with a pause of an hour.
const refused = `raw {"type":"system","subtype":"api_retry","attempt":1,"max_retries":10,"retry_delay_ms":3600000,"error_status":429,"error":"rate_limit","session_id":"{thread}"}`

// A program that only repeats its request is ended: its limit is one, not a stall. The agent that
// takes over is told of the changes, and the task has not failed.
func TestAgentTakesOverWhileAServiceRefuses(t *testing.T) {
	s := set(t, scene{plan: task("T1"), settings: "roles: {developer: {agent: [as-claude, as-codex]}}\n", script: `
on developer T1 attempt 1:
    say I look at it.
    ` + refused + `
    hang
`})
	s.develop()
	if got := s.agentsOf("T1", signalbox.RoleDeveloper); !slices.Equal(got,
		[]string{"as-claude", "as-codex"}) {
		t.Errorf("developers %q", got)
	}
	limited := only[rules.AgentUnavailable](s, "")
	if b := limited.Body; b.Cause != rules.FailRateLimit || b.Next != "as-codex" ||
		time.Until(b.Until) < 50*time.Minute {
		t.Errorf("%+v", b)
	}
	none[rules.AgentFailed](s, "T1")
	if ended := all[rules.AgentTurnEnded](s, "T1")[0].Body; !ended.Interrupted {
		t.Errorf("%+v", ended)
	}
}

func TestAgentTakesOverAfterCrashes(t *testing.T) {
	s := set(t, scene{plan: task("T1"), settings: "roles: {developer: {agent: [as-claude, as-codex]}}\n", script: `
on developer T1 attempt 1:
    crash 1
on developer T1 attempt 2:
    crash 1
`})
	s.develop()
	if got := s.agentsOf("T1", signalbox.RoleDeveloper); !slices.Equal(got,
		[]string{"as-claude", "as-claude", "as-codex"}) {
		t.Errorf("developers %q", got)
	}
}

// refusals are what each program writes when its login is refused or its server does not answer.
var refusals = map[string]struct {
	cause rules.FailCause
	lines string
	// then is what it does afterwards: a program that keeps running is ended, and its words count
	// all the same.
	then string
}{
	"as-claude": {rules.FailLogin,
		`raw {"type":"result","subtype":"success","is_error":true,"session_id":"{thread}","result":"Invalid API key · Please run /login"}`,
		"crash 1"},
	"as-codex": {rules.FailLogin,
		`raw {"type":"turn.failed","error":{"message":"unexpected status 401 Unauthorized: no, url: http://127.0.0.1/v1/responses"}}`,
		"hang"},
	"as-gemini": {rules.FailServer,
		`raw {"type":"result","status":"error","error":{"type":"unknown","message":"[API Error: exception TypeError: fetch failed sending request]"}}`,
		"crash 1"},
	"as-opencode": {rules.FailServer,
		`raw {"type":"error","error":{"name":"APIError","data":{"message":"no","statusCode":503}}}`, "hang"},
}

// An agent that cannot work gives one question for all tasks, and costs none of them an attempt.
// After the answer everything continues. If only its server does not answer, the run does not wait
// for the answer alone.
func TestOneQuestionAboutAnAgent(t *testing.T) {
	for agent, said := range refusals {
		t.Run(agent,
			func(t *testing.T) { testOneQuestion(t, agent, said.cause, said.lines+"\n    "+said.then) })
	}
}

func testOneQuestion(t *testing.T, agent string, cause rules.FailCause, lines string) {
	delays := shortDelays()
	delays.linger = 500 * time.Millisecond
	s := set(t, scene{plan: task("T1") + task("T2"), settings: "roles: {critic: {agent: " + agent + "}}\n", options: Options{seams: seams{delays: delays}}, script: `
on critic * attempt 1:
    ` + lines + `
`})
	waits := rules.StandingAsking
	if cause == rules.FailServer {
		waits = rules.StandingLimited
	}
	r := s.begin()
	s.until("the run waits", func() bool { return s.status().Standing == waits })
	q := only[rules.QuestionAsked](s, "")
	if q.Body.Kind != rules.AskedAgent || !slices.Equal(q.Body.Agents, []string{agent}) {
		t.Errorf("question %+v", q.Body)
	}
	if down := only[rules.AgentUnavailable](s, "").Body; down.Cause != cause || down.Detail == "" ||
		down.Until.IsZero() != (cause != rules.FailServer) {
		t.Errorf("%+v", down)
	}
	if asked := len(all[rules.QuestionAsked](s, "T1")) + len(all[rules.QuestionAsked](s,
		"T2")); asked > 0 {
		t.Errorf("%d more questions", asked)
	}
	if failed := len(all[rules.AgentFailed](s, "T1")) + len(all[rules.AgentFailed](s,
		"T2")); failed > 0 {
		t.Errorf("%d failures", failed)
	}
	s.do(rules.AnswerQuestion{Question: q.Body.Question, Answer: "retry", Actor: "me"})
	over := func() bool { return s.status().Standing == rules.StandingComplete }
	s.until("the run is over, or asks again",
		func() bool { return over() || len(all[rules.QuestionAsked](s, "")) == 2 })
	// the first attempt of the other critic meets the same refusal: its agent plays the same part
	if !over() {
		s.do(rules.Order{What: rules.OrderRetry, Actor: "me"})
	}
	r.complete("T1", "T2")
}

// What a model or a tool writes does not count, whatever it quotes.
func TestQuotedErrorsAreNotTheAgents(t *testing.T) {
	s := set(t, scene{plan: task("T1")})
	for _, format := range agentFormats() {
		for _, steps := range []string{`quote API Error: 401 Unauthorized, unexpected status 401, Invalid API key, connection refused
    say API Error: 401 Unauthorized
    say unexpected status 401 Unauthorized: please run /login, ECONNREFUSED
    crash 1`, `say Invalid API key · Please run /login
    say 429 Too Many Requests, try again in 5s`} {
			got := s.hear(signalbox.RoleCritic, format, steps)
			trouble, message := got.trouble()
			if _, limited := got.listener.rateLimit(time.Now()); limited || trouble != "" {
				t.Errorf("%s, %s: %s %s, limited %v", format, steps, trouble, message, limited)
			}
		}
	}
}

// A missing program does not stop the run if another agent can take over.
func TestMissingProgramIsReplaced(t *testing.T) {
	s := set(t, scene{plan: task("T1"),
		settings: "roles: {critic: {agent: [missing, as-codex]}}\n"})
	s.run()
	s.wantCompleted("T1")
	if got := s.agentsOf("T1", signalbox.RoleCritic); !slices.Equal(got,
		[]string{"missing", "as-codex"}) {
		t.Errorf("critics %q", got)
	}
	if down := only[rules.AgentUnavailable](s, "").Body; down.Cause != rules.FailProgram ||
		!strings.Contains(down.Detail, "no-such-program-anywhere") {
		t.Errorf("%+v", down)
	}
	none[rules.QuestionAsked](s, "")
}
