package fault

import (
	"bytes"
	"cmp"
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

// result is the exit status and the output of a command.
type result struct {
	status         int
	stdout, stderr string
}

// command returns a command that runs the program in the project's folder.
func (s *site) command(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	return s.other(t, cmp.Or(s.program, os.Getenv(binaryVariable)), args...)
}

// other is command for another program.
func (s *site) other(t testing.TB, program string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir = s.project
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "SIGNALBOX_") || strings.HasPrefix(v, "XDG_CONFIG_HOME=")
	})
	cmd.Env = append(cmd.Env, "HOME="+s.home, "AppData="+s.home, "USER=tester", signalbox.ExitFlag+
		"=true")
	cmd.Env = append(cmd.Env, s.environment...)
	if s.prepare != nil {
		s.prepare(cmd)
	}
	return cmd
}

// run runs the program to its end. Any exit status is fine, but a crash is an error.
func (s *site) run(t testing.TB, args ...string) result {
	t.Helper()
	return finish(t, s.command(t, args...), nil)
}

// finish runs cmd to its end, and reports an error if it crashes.
func finish(t testing.TB, cmd *exec.Cmd, stdin io.Reader) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &stdout, &stderr
	err := cmd.Run()
	if exited := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exited) {
		t.Errorf("%v: %v", cmd.Args[1:], err)
	}
	r := result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
	if crashed(r.stderr) {
		t.Errorf("%v crashed:\n%s", cmd.Args[1:], r.stderr)
	}
	return r
}

// crashed reports whether the output of a program contains a stack trace.
func crashed(output string) bool {
	return strings.Contains(output, "panic:") || strings.Contains(output, "goroutine ")
}

// exit submits the exit signal of a session that completed its implementation.
func (s *site) exit(t testing.TB, session string) result {
	t.Helper()
	return finish(t, s.command(t, "work", "exit", "--session", session),
		strings.NewReader(exitSignal(signalbox.PhaseImplementation, signalbox.ExitCompleted)))
}

// must runs a command that must succeed, and returns its standard output.
func (s *site) must(t testing.TB, args ...string) string {
	t.Helper()
	r := s.run(t, args...)
	if r.status != 0 {
		t.Fatalf("%v: exit status %d\n%s", args, r.status, r.stderr)
	}
	return r.stdout
}

// mustJSON runs a command that must succeed, and decodes the JSON object that it prints.
func (s *site) mustJSON(t testing.TB, to any, args ...string) {
	t.Helper()
	stdout := s.must(t, args...)
	if err := json.Unmarshal([]byte(stdout), to); err != nil {
		t.Fatalf("%v: %v in %q", args, err, stdout)
	}
}

// mustFail runs a command that must fail with the given exit status, error message and hint. The
// message and the hint are patterns in which * matches any text.
func (s *site) mustFail(t testing.TB, status int, failure, hint string, args ...string) {
	t.Helper()
	r := s.run(t, args...)
	if r.status != status {
		t.Errorf("%v: exit status %d, want %d\n%s", args, r.status, status, r.stderr)
	}
	r.checkStderr(t, args, "signalbox: "+failure, "hint: "+hint)
}

// checkStderr checks that the lines of standard error match the patterns in want, one by one.
func (r result) checkStderr(t testing.TB, args []string, want ...string) {
	t.Helper()
	got := strings.Split(strings.TrimSuffix(r.stderr, "\n"), "\n")
	if !slices.EqualFunc(got, want,
		func(line, pattern string) bool { return matches(pattern, line) }) {
		t.Errorf("%v printed:\n%s\nwant:\n%s", args, r.stderr, strings.Join(want, "\n"))
	}
}

// matches reports whether text matches a pattern in which * matches any text.
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

// verified is the output of signalbox ledger verify --json. Fields that are null there are zero
// here.
type verified struct {
	OK         bool   `json:"ok"`
	Events     uint64 `json:"events"`
	FirstBad   uint64 `json:"first_bad"`
	Reason     string `json:"reason"`
	Checkpoint struct {
		Size uint64 `json:"size"`
	} `json:"checkpoint"`
}

// verifyCommand runs signalbox ledger verify, which must end with the given exit status.
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

// asJSON formats v for error messages.
func asJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
