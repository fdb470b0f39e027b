package fault

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
)

// child is a process that runs a part of these tests.
type child struct {
	cmd    *exec.Cmd
	name   string
	stdin  io.WriteCloser
	lines  *bufio.Scanner // what it prints
	stderr bytes.Buffer   // once it has ended
}

// startChild starts the test binary as a child. It is killed, if it has not ended, when the test ends.
func startChild(t testing.TB, mode string, args ...string) *child {
	t.Helper()
	self, err := os.Executable()
	check(t, err)
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append(os.Environ(), childVariable+"="+mode,
		"GORACE=atexit_sleep_ms=0") // the race detector would make every process wait a second
	c := &child{cmd: cmd, name: fmt.Sprint(mode, args)}
	cmd.Stderr = &c.stderr
	stdin, err := cmd.StdinPipe()
	check(t, err)
	stdout, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	c.stdin, c.lines = stdin, bufio.NewScanner(stdout)
	return c
}

// tell sends the child a line.
func (c *child) tell(t testing.TB, line string) {
	t.Helper()
	if _, err := fmt.Fprintln(c.stdin, line); err != nil {
		t.Fatalf("%s: %v", c.name, err)
	}
}

// hear returns the next line that the child prints.
func (c *child) hear(t testing.TB) string {
	t.Helper()
	if !c.lines.Scan() {
		c.cmd.Wait()
		t.Fatalf("%s: it said no more: %v\n%s", c.name, c.lines.Err(), &c.stderr)
	}
	return c.lines.Text()
}

// end lets the child end by itself, and returns the lines that it still prints.
func (c *child) end(t testing.TB) (rest []string) {
	t.Helper()
	c.stdin.Close()
	for c.lines.Scan() {
		rest = append(rest, c.lines.Text())
	}
	if err := c.cmd.Wait(); err != nil {
		t.Errorf("%s: %v\n%s", c.name, err, &c.stderr)
	}
	return rest
}
