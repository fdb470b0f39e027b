package agents_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"signalbox/internal/testkit/must"
)

// faults are what a model server answers, by their names in the table of docs/reference/agents.md.
// They last for as long as the program asks.
var faults = []struct{ name, answer string }{
	{"rate limit", "{kind: status, status: 429, message: Rate limit reached for requests}"},
	{"rate limit for an hour",
		"{kind: status, status: 429, retry_after: 1h, message: Rate limit reached for requests}"},
	{"rate limit, resumed",
		"{kind: status, status: 429, message: Rate limit reached for requests}"},
	{"quota", "{kind: status, status: 429, message: 'You exceeded your current quota, " +
		"please check your plan and billing details.'}"},
	{"credit", "{kind: status, status: 402, message: Insufficient credits}"},
	{"login", "{kind: status, status: 401, message: Invalid API key}"},
	{"overload", "{kind: status, status: 503, message: The model is overloaded}"},
	{"overload, 529", "{kind: status, status: 529, message: Overloaded}"},
	{"network", ""}, // nothing listens
}

// refusal is what signalbox sees of a program that meets a fault, and what it does: a row of the
// table.
type refusal struct {
	program, fault string
	how            string // the program shows it
	cause          string // of AgentUnavailable
}

// row returns the row of the table.
func (r refusal) row() string {
	does := map[string]string{
		"rate_limit": "the next agent takes over; this one waits until the limit ends",
		"server":     "the next agent takes over; this one is tried again after 5 minutes",
		"credit":     "the next agent takes over; you are asked",
		"login":      "the next agent takes over; you are asked",
	}[r.cause]
	return fmt.Sprintf("| %s | %s | %s | `%s` | %s |", r.program, r.fault, r.how, r.cause, does)
}

// refusals is the table. Whoever changes it changes docs/reference/agents.md, too.
func refusals() (all []refusal) {
	for _, p := range []struct {
		program string
		rows    [9][2]string // in the order of faults
	}{
		{"claude", [9][2]string{
			{"`api_retry` lines; it is ended after a minute", "rate_limit"},
			{"an `api_retry` line; it is ended at once", "rate_limit"},
			{"`api_retry` lines; it is ended after a minute", "rate_limit"},
			{"as a rate limit", "rate_limit"},
			{"its last error", "credit"},
			{"its last error, after 3 minutes", "login"},
			{"its last error, after 3 minutes", "server"},
			{"its last error, after 3 minutes", "server"},
			{"its last error, after 3 minutes", "server"},
		}},
		{"codex", [9][2]string{
			{"its last error", "rate_limit"},
			{"`Reconnecting…`; it is ended after 3 minutes", "rate_limit"},
			{"its last error", "rate_limit"},
			{"as a rate limit: it does not print the message", "rate_limit"},
			{"its last error", "credit"},
			{"its last error", "login"},
			{"its last error", "server"},
			{"its last error", "server"},
			{"`waiting for network`; it is ended after 3 minutes", "server"},
		}},
		{"gemini", [9][2]string{
			{"its last error, after 4 minutes", "rate_limit"},
			{"its last error", "rate_limit"},
			{"its last error, after 4 minutes", "rate_limit"},
			{"its last error, after 4 minutes", "rate_limit"},
			{"its last error", "credit"},
			{"its last error", "login"},
			{"its last error, after 4 minutes", "server"},
			{"its last error, after 4 minutes", "server"},
			{"its last error, after 4 minutes", "server"},
		}},
		{"opencode", [9][2]string{
			{"its log, or its last error, after a minute", "rate_limit"},
			{"its log; it is ended after a minute", "rate_limit"},
			{"its log, or its last error, after a minute", "rate_limit"},
			{"its last error, after a minute", "credit"},
			{"its last error", "credit"},
			{"its last error", "login"},
			{"its last error, after a minute", "server"},
			{"its last error, after a minute", "server"},
			{"its last error, after a minute", "server"},
		}},
	} {
		for i, r := range p.rows {
			all = append(all, refusal{p.program, faults[i].name, r[0], r[1]})
		}
	}
	return all
}

func TestRefusalsAreDocumented(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", "agents.md"))
	must.Succeed(t, err)
	var rows []string
	for _, r := range refusals() {
		rows = append(rows, r.row())
	}
	if table := strings.Join(rows, "\n"); !strings.Contains(string(text), "\n"+table+"\n\n") {
		t.Errorf("docs/reference/agents.md does not have these rows:\n%s", table)
	}
}

// refusePlans has each program develop while its server refuses to serve it, and compares what
// signalbox records with the table. Another agent takes over and completes the task.
func refusePlans(t *testing.T) {
	for _, r := range refusals() {
		t.Run(r.program+" "+r.fault, func(t *testing.T) {
			t.Parallel()
			refusePlan(t, r)
		})
	}
}

// next is an agent that plays all roles. It is the second developer and the only other agent.
const next = `case $SIGNALBOX_ROLE in
developer) echo hello >hello.txt; echo "READY_FOR_REVIEW: T1"; echo "Summary: it says hello";;
critic) printf "REVIEW_PASSED: T1\nFiles Reviewed:\n- hello.txt\nQuality Assessment: fine\n";;
auditor) printf "AUDIT_PASSED: T1\nPassing Criteria:\n- hello.txt says hello\n";;
esac`

func refusePlan(t *testing.T, r refusal) {
	s := newProject(t)
	answer, resumed := "", r.fault == "rate limit, resumed"
	for _, f := range faults {
		if f.name == r.fault {
			answer = strings.TrimSuffix(f.answer, "}") + ", times: -1}"
		}
	}
	url := map[string]string{"gemini": "http://127.0.0.1:9", "claude": "http://127.0.0.1:9"}[r.program]
	if url == "" {
		url = "http://127.0.0.1:9/v1"
	}
	if r.fault != "network" {
		script := filepath.Join(filepath.Dir(s.dir), "refuse.yaml")
		text := fmt.Sprintf("otherwise: {parts: [{text: no}], faults: [%s]}\n", answer)
		if resumed {
			// The task comes back because nothing has changed.
			text = fmt.Sprintf(`conversations:
  - match: {user: "READY_FOR_REVIEW: T1"}
    turns:
      - {match: {user: "has come back"}, parts: [{text: no}], faults: [%s]}
      - {match: {user: "READY_FOR_REVIEW: T1"}, parts: [{text: "READY_FOR_REVIEW: T1\n"}]}
otherwise: {parts: [{text: A title}]}
`, answer)
		}
		must.Succeed(t, os.WriteFile(script, []byte(text), 0o600))
		server, _ := s.serve(t, script)
		url = map[string]string{"gemini": server.Gemini, "claude": server.Anthropic}[r.program]
		if url == "" {
			url = server.OpenAI
		}
	}
	// It is also the expert, so that it is asked for if it cannot work at all.
	s.writeConfig(t, fmt.Sprintf(`agents:
  it: {preset: %s, model: rehearsal, base_url: %q}
  next: {command: [sh, -c, %q]}
agent: next
roles: {developer: {agent: [it, next]}}
experts: [{name: one, agent: it}]
`, r.program, url, "cat >/dev/null; "+next))
	plan, err := filepath.Abs(filepath.Join("testdata", "resume.md"))
	must.Succeed(t, err)
	cmd := exec.CommandContext(t.Context(), s.program, "run", plan, "--json", "--no-wait")
	cmd.Dir, cmd.Env = s.dir, s.env
	out, err := cmd.CombinedOutput() // it fails if a question is open
	out = out[max(0, len(out)-1000):]
	var seen, agents []string
	asked := false
	for _, e := range lines[struct {
		Type string
		Data struct{ Agent, Cause, Next, Resumes, Detail, Kind, Phase string }
	}](t, s.run(t, s.program, "ledger", "tail", "-n", "0", "--json")) {
		switch e.Type {
		case "AgentUnavailable":
			seen = append(seen, e.Data.Agent+" "+e.Data.Cause+", then "+e.Data.Next)
			t.Logf("it said: %s", e.Data.Detail)
		case "AgentStarted":
			agents = append(agents, e.Data.Agent)
			if resumes := e.Data.Resumes != ""; resumes != (resumed && len(agents) == 2) {
				t.Errorf("agent %d resumes: %t", len(agents), resumes)
			}
		case "QuestionAsked":
			asked = true
		case "AgentFailed", "SignalRefused":
			t.Errorf("the ledger has %s %s", e.Type, e.Data.Cause)
		}
	}
	if want := "it " + r.cause + ", then next"; len(seen) != 1 || seen[0] != want {
		t.Errorf("seen %q, want %q\n%s", seen, want, out)
	}
	if want := r.cause != "rate_limit"; asked != want {
		t.Errorf("asked: %t, want %t (%v)", asked, want, err)
	}
	want := "it next next next"
	if resumed {
		want = "it it next next next"
	}
	if got := strings.Join(agents, " "); got != want {
		t.Errorf("started %s, want %s", got, want)
	}
	if got := string(s.run(t, "git", "show", "main:hello.txt")); got != "hello\n" {
		t.Errorf("merged %q", got)
	}
}
