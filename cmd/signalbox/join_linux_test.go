package main

import (
	"strings"
	"testing"
)

// A token that is typed or pasted on a terminal is not shown, because it can have the secret of a
// cluster, and the terminal is as before, also after an interruption.
func TestJoinHidesToken(t *testing.T) {
	w := newTerminalWorld(t)
	const token = "signalbox-AAAAAAAAAAAAAAAA"
	for name, tt := range map[string]struct {
		typed, says string
		status      int
	}{
		"a line":        {token + "\n", "the invitation is damaged", 2},
		"the end":       {token + "\x04\x04", "the invitation is damaged", 2},
		"interrupted":   {token + "\x03", "interrupted", 130},
		"nothing typed": {"\n", "this is not an invitation", 2},
	} {
		t.Run(name, func(t *testing.T) {
			c := openTerminal(t, 200, 24)
			cmd := w.command("", "signalbox", "join", "-", "elsewhere")
			cmd.Stdin = nil
			c.starts(cmd)
			c.writes("it is not shown")
			c.types(tt.typed)
			c.writes(tt.says)
			if status := c.exit(); status != tt.status {
				t.Errorf("status %d, want %d", status, tt.status)
			}
			if strings.Contains(c.Written(), "AAAA") {
				t.Errorf("the terminal shows the token:\n%s", c.Written())
			}
		})
	}
	if out, err := w.command(token+"\n", "signalbox", "join", "-",
		"elsewhere").CombinedOutput(); err == nil || strings.Contains(string(out), "paste") ||
		!strings.Contains(string(out), "the invitation is damaged") {
		t.Errorf("from a pipe: %v, %s", err, out)
	}
}
