package agents_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"signalbox/internal/testkit/must"
)

// interruption is a turn that is interrupted, and what the next turn knows.
type interruption struct {
	name, preset, model string
	settings            string // more of them, for the agent
	// earlier is something from the earlier conversation that the next prompt does not have, and
	// known means that the model is told it.
	earlier string
	known   bool
	// attempt is the number of the agent that finishes the task.
	attempt int
}

// said is what the model of resume.yaml says before the interruption, and task is from the text of
// the task.
const said, task = "blue elephant", "grey heron"

// resumePlans interrupts a run in the middle of a turn of each program, and runs the plan again.
// The program continues its own session: the model server sees the earlier conversation in the next
// request. Without resume it does not, which shows that the test can tell.
func resumePlans(t *testing.T) {
	for _, i := range []interruption{
		{name: "codex", preset: "codex", earlier: said, known: true, attempt: 2},
		{name: "opencode", preset: "opencode", earlier: said, known: true, attempt: 2},
		{name: "gemini", preset: "gemini", model: "thinking", earlier: task, known: true,
			attempt: 2},
		// A resumed gemini sends the results of commands twice, which its service refuses. A new
		// session starts in the same run.
		{name: "gemini after a command", preset: "gemini", earlier: said, known: false, attempt: 3},
		{name: "codex without resume", preset: "codex", settings: ", resume: false", earlier: said,
			known: false, attempt: 2},
	} {
		t.Run(i.name, func(t *testing.T) { resumePlan(t, i) })
	}
}

func resumePlan(t *testing.T, i interruption) {
	s := newProject(t)
	server, end := s.serve(t, filepath.Join("testdata", "resume.yaml"))
	url := server.OpenAI
	if i.preset == "gemini" {
		url = server.Gemini
	}
	s.writeConfig(t, fmt.Sprintf(
		"agents:\n  all: {preset: %s, model: %s, base_url: %q%s}\nagent: all\n", i.preset,
		cmp.Or(i.model, "rehearsal"), url, i.settings))
	plan, err := filepath.Abs(filepath.Join("testdata", "resume.md"))
	must.Succeed(t, err)
	s.interrupt(t, plan)
	s.run(t, s.program, "run", plan, "--json", "--no-wait")
	prompted := 0
	for _, r := range end() {
		if body := string(r.Body); r.Conversation != "developer" ||
			!strings.Contains(body, "You were interrupted") &&
				!strings.Contains(body, "agent was interrupted") {
			continue
		}
		prompted++ // the short prompt of a resumed session does not have the task
		if got := strings.Contains(string(r.Body), "You were interrupted") &&
			strings.Contains(string(r.Body), i.earlier); got != i.known {
			t.Errorf("the request after the interruption has the earlier conversation: %t, want %t:\n%s", got, i.known, tail(r.Body))
		}
	}
	if prompted == 0 {
		t.Error("the program was not told that it was interrupted")
	}
	heard := s.checkLedger(t, "T1", "B-1")
	if want := fmt.Sprintf("T1 developer all %d ready_for_review",
		i.attempt); !slices.Contains(heard, want) {
		t.Errorf("heard %q, want %q", heard, want)
	}
	events := s.run(t, s.program, "ledger", "tail", "-n", "0", "--json")
	if got, want := bytes.Contains(events, []byte(`"resumes":"`)), i.settings == ""; got != want {
		t.Errorf("AgentStarted says that a session continues: %t, want %t", got, want)
	}
	if left := s.processes(t); len(left) > 0 {
		t.Errorf("processes are still running: %q", left)
	}
}

// interrupt runs a plan until an agent reports a checkpoint, and interrupts it then, like Ctrl-C.
func (s *project) interrupt(t *testing.T, plan string) {
	t.Helper()
	out, err := s.actAtCheckpoint(t, plan, func(run *os.Process) error {
		return run.Signal(os.Interrupt)
	})
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 130 {
		t.Fatalf("the run ended before it was interrupted, or not by that: %v\n%s", err, out)
	}
}

// actAtCheckpoint runs a plan, and does something when an agent reports a checkpoint for the first
// time. It returns the end of the output, and how the run ended.
func (s *project) actAtCheckpoint(t *testing.T, plan string,
	act func(run *os.Process) error) (out []byte, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.program, "run", plan, "--json", "--no-wait")
	cmd.Dir, cmd.Env = s.dir, s.env
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	must.Succeed(t, err)
	acted := false
	var last []byte
	lines := bufio.NewScanner(stdout)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		last = bytes.Clone(lines.Bytes())
		if !acted && bytes.Contains(last, []byte(`"type":"ProgressReported"`)) {
			acted = true
			if err := act(cmd.Process); err != nil {
				t.Error(err)
			}
		}
	}
	if err = cmd.Wait(); !acted {
		t.Errorf("no agent reported a checkpoint")
	}
	return append(append(last, '\n'), tail(stderr.Bytes())...), err
}

// continuation is work that comes back to a developer, whose program continues its own session.
type continuation struct {
	preset, model string
	how           string // findings, rework, now or timeout
	settings      string
	// says is in the prompt with which the session continues, and earlier is from the conversation
	// before.
	says, earlier string
}

// continuePlans sends work back in every way. The program continues its own session: the model
// server sees the earlier conversation in the next request, and the ledger the session's own id.
func continuePlans(t *testing.T) {
	const back, told, late = "Your work has come back to you", "there is a message for you",
		"You ran out of time"
	// The check is about a file that the first turn writes, and not right.
	const check = "checks: [{name: hello, command: '! test -e hello.txt || grep -q again hello.txt'}]\n"
	const limit = "roles: {developer: {timeout: 90s}}\n"
	for _, c := range []continuation{
		{"codex", "hasty", "findings", check, back, said},
		{"opencode", "hasty", "findings", check, back, said},
		{"codex", "", "rework", "", back, said},
		{"opencode", "", "rework", "", back, said},
		{"gemini", "thinking", "rework", "", back, task},
		{"codex", "", "now", "", told, said},
		{"opencode", "", "now", "", told, said},
		{"gemini", "thinking", "now", "", told, task},
		{"codex", "", "timeout", limit, late, said},
		{"opencode", "", "timeout", limit, late, said},
		{"gemini", "thinking", "timeout", limit, late, task},
	} {
		t.Run(c.preset+" "+c.how, func(t *testing.T) { continuePlan(t, c) })
	}
}

func continuePlan(t *testing.T, c continuation) {
	s := newProject(t)
	server, end := s.serve(t, filepath.Join("testdata", "resume.yaml"))
	url := server.OpenAI
	if c.preset == "gemini" {
		url = server.Gemini
	}
	s.writeConfig(t, fmt.Sprintf(
		"agents:\n  all: {preset: %s, model: %s, base_url: %q}\nagent: all\n%s", c.preset,
		cmp.Or(c.model, "rehearsal"), url, c.settings))
	plan, err := filepath.Abs(filepath.Join("testdata", "resume.md"))
	must.Succeed(t, err)
	switch c.how {
	case "rework", "now":
		args := map[string][]string{"rework": {"rework", "T1", "be quick"},
			"now": {"tell", "T1", "--now", "be quick"}}[c.how]
		out, err := s.actAtCheckpoint(t, plan, func(*os.Process) error {
			s.run(t, append([]string{s.program}, args...)...)
			return nil
		})
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	default:
		s.run(t, s.program, "run", plan, "--json", "--no-wait")
	}
	continued := 0
	for _, r := range end() {
		if body := string(r.Body); r.Conversation == "developer" && strings.Contains(body, c.says) {
			continued++
			if !strings.Contains(body, c.earlier) {
				t.Errorf("the request does not have the earlier conversation:\n%s", tail(r.Body))
			}
		}
	}
	if continued == 0 {
		t.Errorf("no request says %q", c.says)
	}
	var opened, resumed []string
	for _, e := range lines[struct {
		Type string
		Data struct{ ID, Resumes string }
	}](t, s.run(t, s.program, "ledger", "tail", "-n", "0", "--json", "--work", "T1")) {
		switch {
		case e.Type == "ConversationOpened":
			opened = append(opened, e.Data.ID)
		case e.Type == "AgentStarted" && e.Data.Resumes != "":
			resumed = append(resumed, e.Data.Resumes)
		}
	}
	// The program reports the same session. Under the same lease it is not recorded again.
	if len(resumed) == 0 || len(opened) < 2 || opened[0] != resumed[0] ||
		c.how != "now" && opened[1] != resumed[0] {
		t.Errorf("opened %q, resumed %q", opened, resumed)
	}
}
