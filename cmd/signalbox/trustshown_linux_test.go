package main

import (
	"encoding/json"
	"testing"

	"signalbox/internal/testkit/must"
)

// What changes while the user is asked is not trusted: neither the team's configuration nor where
// the ledger is.
func TestTrustOnlyWhatWasShown(t *testing.T) {
	w := newTerminalWorld(t)
	for name, tt := range map[string]struct{ file, shown, then string }{
		"team": {"signalbox.yaml", "checks: [{name: test, command: 'true'}]\n",
			"checks: [{name: test, command: 'false'}]\n"},
		"journal": {".signalbox/signalbox.yaml", "journal: nats://127.0.0.1:1/x\n",
			"journal: nats://127.0.0.1:2/x\n"},
	} {
		for _, changed := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				dir := t.TempDir()
				project := &terminalWorld{t: t, dir: dir, env: w.env}
				project.write(tt.file, tt.shown)
				c := openTerminal(t, 200, 24)
				cmd := project.command("", "signalbox", "trust")
				cmd.Stdin = nil
				c.starts(cmd)
				c.writes("[y/N]")
				status, says := 0, "trusted"
				if changed {
					project.write(tt.file, tt.then)
					status, says = 4, "the configuration has changed since it was shown"
				}
				c.types("y\n")
				c.writes(says)
				if got := c.exit(); got != status {
					t.Errorf("status %d, want %d:\n%s", got, status, c.Written())
				}
				var answer struct{ Trusted bool }
				must.Succeed(t, json.Unmarshal([]byte(project.piped("", "trust", "--show",
					"--json")),
					&answer))
				if answer.Trusted == changed {
					t.Errorf("trusted: %t, changed: %t", answer.Trusted, changed)
				}
			})
		}
	}
}
