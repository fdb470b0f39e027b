package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/terminal"
)

// terminalSession is a program on a terminal, as a person sees it. What should happen on it and
// does not fails the test.
type terminalSession struct {
	*terminal.Terminal
	t    *testing.T
	cmd  *exec.Cmd
	seen int // what was written up to here was waited for
}

// patience is how long a test waits for something that is sure to happen.
const patience = 10 * time.Minute

// openTerminal opens a terminal for one program.
func openTerminal(t *testing.T, columns, rows int) *terminalSession {
	t.Helper()
	opened, err := terminal.Open(columns, rows)
	if errors.Is(err, terminal.ErrNoTerminals) {
		t.Skip(err)
	}
	must.Succeed(t, err)
	t.Cleanup(opened.Close)
	return &terminalSession{Terminal: opened, t: t}
}

// starts starts a program. Its streams that are nil are on the terminal.
func (c *terminalSession) starts(cmd *exec.Cmd) {
	c.t.Helper()
	c.cmd = cmd
	must.Succeed(c.t, c.Start(cmd))
}

func (c *terminalSession) patient() (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(c.t.Context(), patience, errors.New("it takes too long"))
}

// shows waits until the screen has some texts.
func (c *terminalSession) shows(texts ...string) {
	c.t.Helper()
	c.waitFor(fmt.Sprintf("the screen with %q", texts), func(screen string) bool {
		for _, text := range texts {
			if !strings.Contains(screen, text) {
				return false
			}
		}
		return true
	})
}

// hides waits until the screen does not have a text.
func (c *terminalSession) hides(text string) {
	c.t.Helper()
	c.waitFor(fmt.Sprintf("the screen without %q", text),
		func(screen string) bool { return !strings.Contains(screen, text) })
}

func (c *terminalSession) waitFor(what string, wanted func(screen string) bool) {
	c.t.Helper()
	ctx, cancel := c.patient()
	defer cancel()
	if err := c.WaitFor(ctx, wanted); err != nil {
		c.t.Fatalf("waiting for %s: %v", what, err)
	}
}

// writes waits until the program has written some text after the text that was waited for before.
func (c *terminalSession) writes(text string) {
	c.t.Helper()
	ctx, cancel := c.patient()
	defer cancel()
	err := c.WaitForWritten(ctx, func(written string) bool {
		i := strings.Index(written[c.seen:], text)
		if i >= 0 {
			c.seen += i + len(text)
		}
		return i >= 0
	})
	if err != nil {
		c.t.Fatalf("no %q in %q: %v", text, c.Written()[c.seen:], err)
	}
}

func (c *terminalSession) types(keys string) {
	c.t.Helper()
	must.Succeed(c.t, c.Type(keys))
}

func (c *terminalSession) pastes(text string) {
	c.t.Helper()
	must.Succeed(c.t, c.Paste(text))
}

func (c *terminalSession) resizeTo(columns, rows int) {
	c.t.Helper()
	must.Succeed(c.t, c.Resize(columns, rows))
}

// ends waits for the end of the program, and returns the exit status.
func (c *terminalSession) ends() int {
	c.t.Helper()
	ctx, cancel := c.patient()
	defer cancel()
	err := c.Wait(ctx)
	if exited := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exited) {
		c.t.Fatal(err)
	}
	return c.cmd.ProcessState.ExitCode()
}

// exit waits for the end of the program, checks that the terminal is as it was before, and returns
// the exit status.
func (c *terminalSession) exit() int {
	c.t.Helper()
	status := c.ends()
	c.checkRestored()
	return status
}

// checkRestored fails if the terminal is not as it was before the program started.
func (c *terminalSession) checkRestored() {
	c.t.Helper()
	if err := c.CheckRestored(); err != nil {
		c.t.Errorf("%v:\n%s", err, c.Screen())
	}
}
