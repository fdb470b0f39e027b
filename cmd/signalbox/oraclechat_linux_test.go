package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/oracle/session"
	"signalbox/internal/testkit/must"
)

const chatScript = `
conversations:
  - match: {user: "hello|two|slow|evil"}
    turns:
      - {match: {user: hello}, parts: [{text: "# Greeting\n\nHello, **you**.\n\n- [a link](https://example.com/target)\n", cut: every byte}]}
      - {match: {user: "two\nlines"}, parts: [{text: "Both lines arrived."}]}
      - {match: {user: evil}, parts: [{text: "pwned\e]0;title\a\e[2J\x9b2J&#27;[2J\u202e."}]}
      - {match: {user: slow}, parts: [{pieces: ["The beginning", "the end"]}], faults: [{kind: hang, after_pieces: 1, times: -1}]}
`

// startChat starts the program on a terminal of its own.
func startChat(t *testing.T, b *testBox, columns int, env ...string) *terminalSession {
	t.Helper()
	c := openTerminal(t, columns, 24)
	must.Succeed(t, c.SetVerbatim())
	cmd := exec.Command("signalbox", "oracle")
	cmd.Env = append(os.Environ(), "TERM=xterm-256color", "NO_COLOR=")
	for name, value := range b.env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.Env = append(cmd.Env, env...)
	c.starts(cmd)
	return c
}

// A chat on a real terminal: rendered answers, pasted lines, an interrupt, a suspension, the
// history, and a terminal as it was before.
func TestOracleChatOnTerminal(t *testing.T) {
	b := newOracleBox(t, chatScript)
	c := startChat(t, b, 80)
	c.writes("sk a question")
	c.types("hello\r")
	c.writes("\x1b[1;4;96mGreeting")
	c.writes("Hello, \x1b[1myou\x1b[m.")
	c.writes("(https://example.com/target)")
	c.writes("answered")
	c.pastes("two\rlines") // a terminal sends \r for a line end
	c.writes("lines")
	c.types("\x1a") // no shell stops it, so it continues at once
	c.writes("\x1b[?2004l")
	c.writes("\x1b[?2004h")
	c.resizeTo(40, 24)
	c.types("\r")
	c.writes("Both lines arrived.")
	c.writes("answered")
	c.types("slow\r")
	c.writes("The beginning")
	c.types("\x03")
	c.writes("✗ interrupted")
	c.types("evil\r")
	c.writes("pwned")
	c.writes("answered")
	c.types("\x04")
	if status := c.exit(); status != 0 {
		t.Errorf("status %d", status)
	}
	out := c.Written()
	for _, sequence := range []string{"\x1b]0;", "pwned\x1b", "\x1b[2J", "\u009b", "\u202e",
		"\x1b[?1049h"} {
		if strings.Contains(out, sequence) {
			t.Errorf("the terminal got %q", sequence)
		}
	}
	history := filepath.Join(b.dir, session.FolderName, "history")
	if info, err := os.Stat(history); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	var questions []string
	text, err := os.ReadFile(history)
	must.Succeed(t, err)
	for line := range strings.Lines(string(text)) {
		var q string
		must.Succeed(t, json.Unmarshal([]byte(line), &q))
		questions = append(questions, q)
	}
	if diff := cmp.Diff([]string{"hello", "two\nlines", "slow", "evil"}, questions); diff != "" {
		t.Error(diff)
	}
	if list := b.must("oracle", "--sessions", "--json"); strings.Count(list, "\n") != 1 ||
		!strings.Contains(list, `"questions":4`) {
		t.Errorf("want one conversation: %s", list)
	}

	c = startChat(t, b, 40, "NO_COLOR=1") // the same history, without colours
	c.writes("sk a question")
	c.types(strings.Repeat("\x1b[A", 5) + "\r") // one of them moves within a question
	c.writes("\x1b[1;4mGreeting")
	c.writes("answered")
	c.types("\x03")
	if status, out := c.exit(), c.Written(); status != 0 || strings.Contains(out, "38;5") ||
		strings.Contains(out, "\x1b[1;4;9") {
		t.Errorf("status %d: %q", status, out)
	}
}

// Two interrupts, or a signal, leave while an answer arrives. The terminal is restored.
func TestOracleChatInterrupted(t *testing.T) {
	b := newOracleBox(t, chatScript)
	for _, leave := range []func(c *terminalSession){
		func(c *terminalSession) { c.types("\x03\x03") },
		func(c *terminalSession) { c.cmd.Process.Signal(syscall.SIGTERM) },
	} {
		c := startChat(t, b, 80)
		c.writes("sk a question")
		c.types("slow\r")
		c.writes("The beginning")
		leave(c)
		if status, out := c.exit(), c.Written(); status != 130 ||
			!strings.Contains(out, "resume it with signalbox oracle --continue") {
			t.Errorf("status %d: %q", status, out)
		}
	}
}

// A terminal that cannot move its cursor gets lines.
func TestOracleChatOnDumbTerminal(t *testing.T) {
	b := newOracleBox(t, chatScript)
	c := startChat(t, b, 80, "TERM=dumb", "NO_COLOR=1")
	c.writes("> ")
	c.types("hello\n")
	c.writes("# Greeting\n\nHello, **you**.\n")
	c.writes("answered")
	c.types("\x04")
	if status, out := c.exit(), c.Written(); status != 0 || strings.Contains(out, "\x1b") {
		t.Errorf("status %d: %q", status, out)
	}
}
