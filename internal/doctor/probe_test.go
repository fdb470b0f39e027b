package doctor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"signalbox/internal/config"
	"signalbox/internal/core/box"
	"signalbox/internal/testkit/must"
)

// Probe runs the program of each agent and reports whether its service answered, and how to log in
// if not.
func TestProbe(t *testing.T) {
	for _, tt := range []struct {
		name, script string
		health       box.Health
		detail, fix  string
	}{
		{"answers", `cat >/dev/null; echo '{"type":"thread.started","thread_id":"t"}'; echo '{"type":"turn.completed","usage":{}}'`, box.Healthy, "logged in: it answered", ""},
		{"no login", `echo '{"type":"turn.failed","error":{"message":"unexpected status 401 Unauthorized: no"}}'; exit 1`, box.Problem, "not logged in (it said: unexpected status 401 Unauthorized: no)", "run codex login"},
		{"no login, on standard error", `echo 'Not logged in' >&2; exit 1`, box.Problem,
			"not logged in (it said: Not logged in)", "run codex login"},
		{"no server", `echo '{"type":"turn.failed","error":{"message":"unexpected status 503 Service Unavailable"}}'; exit 1`, box.Problem, "its server does not answer", "Check your network"},
		{"rate limit", `echo '{"type":"turn.failed","error":{"message":"unexpected status 429 Too Many Requests"}}'; exit 1`, box.Warning, "rate limit", ""},
		{"fails", `echo 'no such option' >&2; exit 2`, box.Problem,
			"it failed with exit status 2 (it said: no such option)", "run codex by hand"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bin := t.TempDir()
			must.Succeed(t, os.WriteFile(filepath.Join(bin, "codex"),
				[]byte("#!/bin/sh\n"+tt.script+"\n"), 0o700))
			t.Setenv("PATH", bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
			c, err := config.Parse([]byte("agent: codex"))
			must.Succeed(t, err)
			got := Probe(t.Context(), c, []box.Check{{Name: "agent codex", Health: box.Healthy}})
			if len(got) != 1 || got[0].Name != "probe codex" || got[0].Health != tt.health ||
				!strings.Contains(got[0].Detail, tt.detail) ||
				!strings.Contains(got[0].Fix, tt.fix) {
				t.Errorf("%+v", got)
			}
			if got := Probe(t.Context(), c,
				[]box.Check{{Name: "agent codex", Health: box.Problem}}); len(got) != 0 {
				t.Errorf("a program that was not found is asked: %+v", got)
			}
		})
	}
}
