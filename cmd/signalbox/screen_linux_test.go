package main

import (
	"bufio"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"signalbox/internal/testkit/must"
)

// openSession starts a program on a terminal of its own, after something was typed on it.
func (w *terminalWorld) openSession(columns, rows int, typed string,
	args ...string) *terminalSession {
	w.t.Helper()
	c := openTerminal(w.t, columns, rows)
	c.types(typed)
	cmd := w.command("", args...)
	cmd.Env = append(cmd.Env, "TERM=xterm-256color", "NO_COLOR=1", "CI=")
	cmd.Stdin = nil
	c.starts(cmd)
	return c
}

// confirmed answers the question whether to stop. If the machine is so slow that the question is no
// longer open, the first key asks it again; otherwise the second one means nothing.
const confirmed = "qq"

// The screen stays while a question is open. Keys act at once or not at all: what was typed before
// there was a screen is not obeyed.
func TestScreenStaysForAQuestion(t *testing.T) {
	w := newTerminalWorld(t)
	c := w.openSession(100, 30, "qqq\n", "signalbox", "run", "plan.md")
	c.shows("1 question for you", "waiting for you")
	c.types("xxyz") // nothing waits for approval, so x is refused, and the rest is its text
	c.types("\x1b[B")
	c.types("q")
	c.shows("stop? agents end")
	c.types("x")
	c.hides("stop? agents end")
	for _, size := range [][2]int{{40, 12}, {200, 50}, {80, 24}} {
		c.resizeTo(size[0], size[1])
		c.shows("1 question for you", "waiting for you", "Q-1")
	}
	if !c.IsAlternate() {
		t.Error("the terminal was given back")
	}
	if out := w.piped("", "answer", "Q-1", "yes"); !strings.Contains(out, "answered Q-1") {
		t.Errorf("from outside: %q", out)
	}
	c.shows("Q-2") // the script asks again
	c.types("q")
	c.shows("stop? work is kept")
	c.types(confirmed)
	if status := c.exit(); status != 130 {
		t.Errorf("exit status %d:\n%s", status, c.Screen())
	}
	c.shows("asks Q-2", "interrupted", "run the same command again to resume")
}

// A signal ends the screen at once, so that a second one, which kills the program, finds the
// terminal restored.
func TestSignalRestoresTheTerminal(t *testing.T) {
	w := newTerminalWorld(t)
	for _, sent := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		// as SIGHUP is if the tests run under nohup: then so does the program
		if signal.Ignored(sent) {
			continue
		}
		c := w.openSession(80, 24, "", "signalbox", "run", "plan.md")
		c.shows("1 question for you")
		must.Succeed(t, c.cmd.Process.Signal(sent))
		if status := c.exit(); status != 130 {
			t.Errorf("%s: exit status %d:\n%s", sent, status, c.Screen())
		}
		c.shows("asks Q-1", "interrupted")
	}
}

// Ctrl-Z gives the terminal back to the shell, and fg continues with the same screen.
func TestSuspendedScreenContinues(t *testing.T) {
	w := newTerminalWorld(t)
	w.write("session.sh",
		"set -m\nsignalbox run plan.md\necho suspended\nread -r line\necho got $line\nfg\n")
	c := w.openSession(100, 30, "", "sh", "session.sh")
	c.shows("1 question for you")
	c.types("\x1a")
	c.shows("suspended")
	c.checkRestored()
	c.types("typed for the shell\n")
	c.shows("1 question for you", "waiting for you")
	if !strings.Contains(c.Written(), "got typed for the shell") || !c.IsAlternate() {
		t.Errorf("the shell had no terminal: %q", c.Written())
	}
	c.types("q")
	c.shows("stop? agents end")
	c.types(confirmed)
	c.exit()
	c.shows("interrupted")
}

// Where no shell could continue the program, Ctrl-Z does nothing.
func TestScreenWithoutAShellIsNotSuspended(t *testing.T) {
	w := newTerminalWorld(t)
	c := w.openSession(100, 30, "", "signalbox", "run", "plan.md")
	c.shows("1 question for you")
	c.types("\x1aq")
	c.shows("stop? agents end")
	c.types(confirmed)
	if status := c.exit(); status != 130 {
		t.Errorf("exit status %d", status)
	}
}

// operatedAgents ask once, and then do what they should.
const operatedAgents = "on developer A attempt 1:\n    say " + hostile + "\n    signal SEEKING_DIVINE_CLARIFICATION\n        Task: A\n        Question: " + hostile + `
on developer A attempt 2+:
    write a.txt <<END
counted ` + hostile + `
END
    signal READY_FOR_REVIEW: {task}
on critic:
    signal REVIEW_PASSED: {task}
on auditor:
    say looked at it ` + hostile + `
    signal AUDIT_PASSED: {task}
`

// checkSafe fails if the terminal got a sequence of an agent.
func (c *terminalSession) checkSafe() {
	c.t.Helper()
	out := c.Written()
	for _, sequence := range []string{"\x1b]0;title", "pwned\x1b", "\u009b", "\x7f", "\u202e",
		"\u2066", "\x0b", "\u3164", "\ufe0f", "\u2800"} {
		if i := strings.Index(out, sequence); i >= 0 {
			c.t.Errorf("the terminal got %q", out[max(0, i-20):min(len(out), i+20)])
		}
	}
}

// A whole run on the screen: a question is answered, the work is read and approved, and the outcome
// is printed below.
func TestOperateARunOnItsScreen(t *testing.T) {
	w := newTerminalWorld(t)
	w.write("agents.script", operatedAgents)
	settings, err := os.ReadFile(filepath.Join(w.dir, ".signalbox", "signalbox.yaml"))
	must.Succeed(t, err)
	w.write(".signalbox/signalbox.yaml", string(settings)+"approve: merge\n")
	c := w.openSession(100, 30, "", "signalbox", "run", "plan.md")
	c.shows("1 question for you", "press a to answer")
	c.types("a")
	c.shows("answer Q-1", "pwned", "ctrl+d sends")
	c.types("two decimals\r")
	c.pastes("pasted\nqq lines")
	c.shows("┃ two decimals", "┃ pasted", "┃ qq lines")
	c.types("\x04")
	c.shows("1 merge to approve", "press a to look at it")
	if out := w.piped("", "questions", "--all"); !strings.Contains(out, "two decimals") ||
		!strings.Contains(out, "qq lines") {
		t.Errorf("the answer is not recorded: %s", out)
	}
	c.types("\r")
	c.shows("[transcript]", "looked at it", "AUDIT_PASSED")
	c.types("\t")
	c.shows("[diff]", "+counted pwned")
	c.types("\t")
	c.shows("[details]", "READY_FOR_MERGE")
	c.resizeTo(40, 12)
	c.shows("[details]", "esc back")
	c.resizeTo(100, 30)
	c.types("q")
	c.shows("1 merge to approve", "q stop")
	c.types("a")
	c.shows("approve the merge of A", "commit ", "a.txt | ", "1 file changed", "y approve")
	c.types("y")
	if status := c.exit(); status != 0 {
		t.Errorf("exit status %d:\n%s", status, c.Screen())
	}
	c.shows("1 of 1 task done", "signalbox ledger verify")
	c.checkSafe()
}

// A run of another process can be read, and its question answered.
func TestWatchOnAScreen(t *testing.T) {
	w := newTerminalWorld(t)
	w.write("agents.script", operatedAgents)
	run := w.command("", "signalbox", "run", "plan.md", "--plain")
	out, err := run.StdoutPipe()
	must.Succeed(t, err)
	must.Succeed(t, run.Start())
	lines := bufio.NewScanner(out)
	for lines.Scan() && !strings.Contains(lines.Text(), "waiting for you") {
	}
	c := w.openSession(80, 24, "", "signalbox", "watch")
	c.shows("1 question for you", "press a to answer", "q leave")
	c.types("\r")
	c.shows("[transcript]", "pwned", "esc back")
	c.types("\x1b")
	c.shows("q leave")
	c.types("a")
	c.shows("answer Q-1", "pwned", "ctrl+d sends")
	c.types("two\x04")
	c.shows("answered Q-1")
	c.types("q")
	if status := c.exit(); status != 0 {
		t.Errorf("exit status %d:\n%s", status, c.Screen())
	}
	c.checkSafe()
	for lines.Scan() {
	}
	if err := run.Wait(); err != nil {
		t.Errorf("the run that was watched: %v", err)
	}
	if out := w.piped("", "questions", "--all"); !strings.Contains(out, "two") {
		t.Errorf("the answer is not recorded: %s", out)
	}
}
