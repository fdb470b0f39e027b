package main

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
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

// chatTerminal is a terminal with a program on it that reads keys.
type chatTerminal struct {
	t      *testing.T
	master *os.File
	slave  *os.File
	cmd    *exec.Cmd
	before unix.Termios

	mu      sync.Mutex
	changed *sync.Cond
	got     strings.Builder
	seen    int // the output up to here was waited for
	ended   bool
	late    bool
}

// startChat starts the program on a terminal of its own.
func startChat(t *testing.T, b *testBox, columns int, env ...string) *chatTerminal {
	t.Helper()
	c := &chatTerminal{t: t, cmd: exec.Command("signalbox", "oracle")}
	c.changed = sync.NewCond(&c.mu)
	c.master, c.slave = openTerminal(t)
	settings, err := unix.IoctlGetTermios(int(c.slave.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	c.before = *settings
	c.resize(columns)
	c.cmd.Env = append(os.Environ(), "TERM=xterm-256color", "NO_COLOR=")
	for name, value := range b.env {
		c.cmd.Env = append(c.cmd.Env, name+"="+value)
	}
	c.cmd.Env = append(c.cmd.Env, env...)
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = c.slave, c.slave, c.slave
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go c.read()
	t.Cleanup(func() {
		c.cmd.Process.Kill()
		c.master.Close()
		c.slave.Close()
	})
	return c
}

func (c *chatTerminal) resize(columns int) {
	c.t.Helper()
	if err := unix.IoctlSetWinsize(int(c.master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: uint16(columns)}); err != nil {
		c.t.Fatal(err)
	}
}

func (c *chatTerminal) read() {
	b := make([]byte, 4096)
	for {
		n, err := c.master.Read(b)
		c.mu.Lock()
		c.got.Write(b[:n])
		c.ended = err != nil
		c.changed.Broadcast()
		c.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// wait waits for some text after the text that was waited for before.
func (c *chatTerminal) wait(text string) {
	c.t.Helper()
	timer := time.AfterFunc(time.Minute, func() { // only a failure takes as long as this
		c.mu.Lock()
		c.late = true
		c.changed.Broadcast()
		c.mu.Unlock()
	})
	defer timer.Stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		if i := strings.Index(c.got.String()[c.seen:], text); i >= 0 {
			c.seen += i + len(text)
			return
		}
		if c.ended || c.late {
			c.t.Fatalf("no %q in %q", text, c.got.String()[c.seen:])
		}
		c.changed.Wait()
	}
}

func (c *chatTerminal) typed(keys string) {
	c.t.Helper()
	if _, err := io.WriteString(c.master, keys); err != nil {
		c.t.Fatal(err)
	}
}

// end waits for the end of the program, checks that the terminal is as it was, and returns the exit status and everything that was written.
func (c *chatTerminal) end() (status int, out string) {
	c.t.Helper()
	err := c.cmd.Wait()
	if exited := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exited) {
		c.t.Fatal(err)
	}
	after, err := unix.IoctlGetTermios(int(c.slave.Fd()), unix.TCGETS)
	if err != nil {
		c.t.Fatal(err)
	}
	if diff := cmp.Diff(c.before, *after); diff != "" {
		c.t.Errorf("the settings of the terminal have changed: %s", diff)
	}
	c.slave.Close() // the last writer
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.ended {
		c.changed.Wait()
	}
	out = c.got.String()
	for _, mode := range []string{"2004", "25"} {
		on, off := "\x1b[?"+mode+"h", "\x1b[?"+mode+"l"
		if mode == "25" { // the cursor is visible, unless it is hidden
			on, off = off, on
		}
		if strings.LastIndex(out, on) > strings.LastIndex(out, off) {
			c.t.Errorf("mode %s of the terminal is not restored: %q", mode, out)
		}
	}
	return c.cmd.ProcessState.ExitCode(), out
}

// A chat on a real terminal: rendered answers, pasted lines, an interrupt, a suspension, the history, and a terminal as it was before.
func TestOracleChatOnTerminal(t *testing.T) {
	b := newOracleBox(t, chatScript)
	c := startChat(t, b, 80)
	c.wait("sk a question")
	c.typed("hello\r")
	c.wait("\x1b[1;4;96mGreeting")
	c.wait("Hello, \x1b[1myou\x1b[m.")
	c.wait("(https://example.com/target)")
	c.wait("answered")
	c.typed("\x1b[200~two\rlines\x1b[201~") // a terminal sends \r for a line end
	c.wait("lines")
	c.typed("\x1a") // no shell stops it, so it continues at once
	c.wait("\x1b[?2004l")
	c.wait("\x1b[?2004h")
	c.resize(40)
	c.typed("\r")
	c.wait("Both lines arrived.")
	c.wait("answered")
	c.typed("slow\r")
	c.wait("The beginning")
	c.typed("\x03")
	c.wait("✗ interrupted")
	c.typed("evil\r")
	c.wait("pwned")
	c.wait("answered")
	c.typed("\x04")
	status, out := c.end()
	if status != 0 {
		t.Errorf("status %d", status)
	}
	for _, sequence := range []string{"\x1b]0;", "pwned\x1b", "\x1b[2J", "\u009b", "\u202e", "\x1b[?1049h"} {
		if strings.Contains(out, sequence) {
			t.Errorf("the terminal got %q", sequence)
		}
	}
	history := filepath.Join(b.dir, oracleFolder, historyFile)
	if info, err := os.Stat(history); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	var questions []string
	text, err := os.ReadFile(history)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var q string
		if err := json.Unmarshal([]byte(line), &q); err != nil {
			t.Fatal(err)
		}
		questions = append(questions, q)
	}
	if diff := cmp.Diff([]string{"hello", "two\nlines", "slow", "evil"}, questions); diff != "" {
		t.Error(diff)
	}
	if list := b.must("oracle", "--sessions", "--json"); strings.Count(list, "\n") != 1 || !strings.Contains(list, `"questions":4`) {
		t.Errorf("want one conversation: %s", list)
	}

	c = startChat(t, b, 40, "NO_COLOR=1") // the same history, without colours
	c.wait("sk a question")
	c.typed(strings.Repeat("\x1b[A", 5) + "\r") // one of them moves within a question
	c.wait("\x1b[1;4mGreeting")
	c.wait("answered")
	c.typed("\x03")
	if status, out := c.end(); status != 0 || strings.Contains(out, "38;5") || strings.Contains(out, "\x1b[1;4;9") {
		t.Errorf("status %d: %q", status, out)
	}
}

// Two interrupts, or a signal, leave while an answer arrives. The terminal is restored.
func TestOracleChatInterrupted(t *testing.T) {
	b := newOracleBox(t, chatScript)
	for _, leave := range []func(c *chatTerminal){
		func(c *chatTerminal) { c.typed("\x03\x03") },
		func(c *chatTerminal) { c.cmd.Process.Signal(syscall.SIGTERM) },
	} {
		c := startChat(t, b, 80)
		c.wait("sk a question")
		c.typed("slow\r")
		c.wait("The beginning")
		leave(c)
		if status, out := c.end(); status != 130 || !strings.Contains(out, "resume it with signalbox oracle --continue") {
			t.Errorf("status %d: %q", status, out)
		}
	}
}

// A terminal that cannot move its cursor gets lines.
func TestOracleChatOnDumbTerminal(t *testing.T) {
	b := newOracleBox(t, chatScript)
	c := startChat(t, b, 80, "TERM=dumb", "NO_COLOR=1")
	c.wait("> ")
	c.typed("hello\n")
	c.wait("# Greeting\n\nHello, **you**.\n")
	c.wait("answered")
	c.typed("\x04")
	if status, out := c.end(); status != 0 || strings.Contains(out, "\x1b") {
		t.Errorf("status %d: %q", status, out)
	}
}
