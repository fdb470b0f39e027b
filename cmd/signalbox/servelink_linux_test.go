package main

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"signalbox/internal/serve/access"
)

// TestLoginLinkIsForTerminals starts the server with standard error on a pipe, as a service has it,
// and then on a terminal. Only the terminal gets a link: everyone who can read the log of the
// system could log in with it.
func TestLoginLinkIsForTerminals(t *testing.T) {
	b := newTestBox(t)
	for _, onTerminal := range []bool{false, true} {
		screen := openTerminal(t, 200, 24)
		cmd := exec.CommandContext(t.Context(), "signalbox", "serve", "--listen", "127.0.0.1:0")
		cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
		for name, value := range b.env {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
		const last = "press Ctrl-C to stop\n"
		found := make(chan []string, 1)
		log := &lineWaiter{pattern: regexp.MustCompile(last), found: found}
		if !onTerminal {
			cmd.Stderr = log // standard input and output stay on the terminal
		}
		screen.starts(cmd)
		said := ""
		if onTerminal {
			screen.writes(strings.TrimSpace(last))
			said = screen.Written()
		} else {
			ctx, cancel := screen.patient()
			defer cancel()
			select {
			case <-found:
			case <-ctx.Done():
				t.Fatalf("the server does not start: %s", log)
			}
			said = log.String()
		}
		link := regexp.MustCompile(
			`http://box-\S+\.localhost:[0-9]+/login\?link=sbx_\S+ \(it works once,`)
		if link.MatchString(said) != onTerminal || strings.Contains(said, "sbx_") != onTerminal {
			t.Errorf("on a terminal %t:\n%s", onTerminal, said)
		}
		if strings.Contains(said, "signalbox token link --box "+b.dir) == onTerminal {
			t.Errorf("on a terminal %t, how to get a link:\n%s", onTerminal, said)
		}
		tokens, err := access.NewStore(b.dir).List()
		if err != nil || (len(tokens) > 0) != onTerminal {
			t.Errorf("on a terminal %t, the links that exist: %v, %v", onTerminal, tokens, err)
		}
		screen.types("\x03")
		if status := screen.ends(); status != 0 {
			t.Errorf("status %d:\n%s%s", status, screen.Written(), log)
		}
	}
}
