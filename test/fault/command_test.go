package fault

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"signalbox"
)

// result is how a command ended.
type result struct {
	status         int
	stdout, stderr string
}

// command prepares the real program, run in the project.
func (s *site) command(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Getenv(binaryVariable), args...)
	cmd.Dir = s.project
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "SIGNALBOX_") || strings.HasPrefix(v, "XDG_CONFIG_HOME=")
	})
	cmd.Env = append(cmd.Env, "HOME="+s.home, "AppData="+s.home, "USER=tester", signalbox.ExitFlag+"=true")
	cmd.Env = append(cmd.Env, s.environment...)
	if s.prepare != nil {
		s.prepare(cmd)
	}
	return cmd
}

// run runs the real program and returns how it ended, which may be in any way but a crash.
func (s *site) run(t testing.TB, args ...string) result {
	t.Helper()
	return finish(t, s.command(t, args...), nil)
}

// finish runs a command to its end.
func finish(t testing.TB, cmd *exec.Cmd, stdin io.Reader) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &stdout, &stderr
	err := cmd.Run()
	if exited := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exited) {
		t.Errorf("%v: %v", cmd.Args[1:], err)
	}
	r := result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
	if strings.Contains(r.stderr, "panic:") || strings.Contains(r.stderr, "goroutine ") {
		t.Errorf("%v crashed:\n%s", cmd.Args[1:], r.stderr)
	}
	return r
}

// must runs a command that succeeds, and returns what it printed.
func (s *site) must(t testing.TB, args ...string) string {
	t.Helper()
	r := s.run(t, args...)
	if r.status != 0 {
		t.Fatalf("%v: exit status %d\n%s", args, r.status, r.stderr)
	}
	return r.stdout
}

// mustAnswer runs a command that succeeds and answers with a JSON object.
func (s *site) mustAnswer(t testing.TB, to any, args ...string) {
	t.Helper()
	stdout := s.must(t, args...)
	if err := json.Unmarshal([]byte(stdout), to); err != nil {
		t.Fatalf("%v: %v in %q", args, err, stdout)
	}
}

// mustFail runs a command that fails with an exit status, an error and a hint. The error and the hint are patterns in
// which * stands for anything.
func (s *site) mustFail(t testing.TB, status int, failure, hint string, args ...string) {
	t.Helper()
	r := s.run(t, args...)
	if r.status != status {
		t.Errorf("%v: exit status %d, want %d\n%s", args, r.status, status, r.stderr)
	}
	r.says(t, args, "signalbox: "+failure, "hint: "+hint)
}

// says checks that the lines on standard error are those, as patterns.
func (r result) says(t testing.TB, args []string, want ...string) {
	t.Helper()
	got := strings.Split(strings.TrimSuffix(r.stderr, "\n"), "\n")
	if !slices.EqualFunc(got, want, func(line, pattern string) bool { return matches(pattern, line) }) {
		t.Errorf("%v says:\n%s\nwant:\n%s", args, r.stderr, strings.Join(want, "\n"))
	}
}

// matches compares text with a pattern in which * stands for anything.
func matches(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	last := len(parts) - 1
	if last == 0 {
		return pattern == text
	}
	rest, ok := strings.CutPrefix(text, parts[0])
	for _, part := range parts[1:last] {
		_, after, found := strings.Cut(rest, part)
		rest, ok = after, ok && found
	}
	return ok && strings.HasSuffix(rest, parts[last])
}

// verified is what signalbox ledger verify --json prints.
type verified struct {
	OK         bool    `json:"ok"`
	Events     uint64  `json:"events"`
	FirstBad   *uint64 `json:"first_bad"`
	Reason     *string `json:"reason"`
	Checkpoint *struct {
		Size uint64 `json:"size"`
	} `json:"checkpoint"`
}

// verifyCommand runs the real command, which must end with a status.
func (s *site) verifyCommand(t testing.TB, status int, args ...string) (v verified) {
	t.Helper()
	r := s.run(t, append([]string{"ledger", "verify", "--json"}, args...)...)
	if r.status != status {
		t.Errorf("verify: exit status %d, want %d\n%s", r.status, status, r.stderr)
	}
	if err := json.Unmarshal([]byte(r.stdout), &v); err != nil {
		t.Errorf("verify: %v in %q", err, r.stdout)
	} else if v.OK != (status == 0) {
		t.Errorf("verify: exit status %d and %s", r.status, r.stdout)
	}
	return v
}

// printed is a value as JSON, for messages.
func printed(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
