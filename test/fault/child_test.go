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

// child is the test binary, running one of the children functions.
type child struct {
	cmd    *exec.Cmd
	name   string
	stdin  io.WriteCloser
	lines  *bufio.Scanner // of its standard output
	stderr bytes.Buffer   // complete once it has ended
}

// startChild starts the test binary as a child. If it still runs when the test ends, it is killed.
func startChild(t testing.TB, mode string, args ...string) *child {
	t.Helper()
	return startPrepared(t, nil, mode, args...)
}

// startPrepared is startChild, but calls prepare before the child starts, unless it is nil.
func startPrepared(t testing.TB, prepare func(*exec.Cmd), mode string, args ...string) *child {
	t.Helper()
	self, err := os.Executable()
	check(t, err)
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append(os.Environ(), childVariable+"="+mode,
		"GORACE=atexit_sleep_ms=0") // otherwise the race detector delays every exit by a second
	c := &child{cmd: cmd, name: fmt.Sprint(mode, args)}
	cmd.Stderr = &c.stderr
	if prepare != nil {
		prepare(cmd)
	}
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

// send writes a line to the child's standard input.
func (c *child) send(t testing.TB, line string) {
	t.Helper()
	if _, err := fmt.Fprintln(c.stdin, line); err != nil {
		t.Fatalf("%s: %v", c.name, err)
	}
}

// receive returns the next line that the child prints.
func (c *child) receive(t testing.TB) string {
	t.Helper()
	if !c.lines.Scan() {
		c.cmd.Wait()
		t.Fatalf("%s: it printed no further line: %v\n%s", c.name, c.lines.Err(), &c.stderr)
	}
	return c.lines.Text()
}

// end closes the child's standard input, waits for its end, and returns the lines that it still
// prints.
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
