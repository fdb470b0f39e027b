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
	interrupted := false
	var last []byte
	lines := bufio.NewScanner(stdout)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		last = bytes.Clone(lines.Bytes())
		if !interrupted && bytes.Contains(last, []byte(`"type":"ProgressReported"`)) {
			interrupted = true
			if err := cmd.Process.Signal(os.Interrupt); err != nil {
				t.Error(err)
			}
		}
	}
	err = cmd.Wait()
	if exit := (*exec.ExitError)(nil); !interrupted || !errors.As(err, &exit) ||
		exit.ExitCode() != 130 {
		t.Fatalf("the run ended before it was interrupted, or not by that: %v\n%s\n%s", err, last,
			tail(stderr.Bytes()))
	}
}
