package config

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestSetupDefaults(t *testing.T) {
	c := mustParse(t, "setup:\n  - command: |\n      npm  ci | tee log\n      npm run build\n  - {name: go, command: go mod download, timeout: 1m, files: [go.sum]}\n  - {command: '"+strings.Repeat("é", 90)+"'}\n")
	want := []Setup{
		{Name: "npm ci | tee log", Command: "npm  ci | tee log\nnpm run build\n",
			Timeout: 10 * time.Minute},
		{Name: "go", Command: "go mod download", Timeout: time.Minute, Files: []string{"go.sum"}},
		{Name: strings.Repeat("é", 48) + "…", Command: strings.Repeat("é", 90),
			Timeout: 10 * time.Minute},
	}
	if diff := cmp.Diff(want, c.Setup); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	c = mustParse(t, "workspace: shared\nsetup: [{command: make}]\n")
	if notes := c.Notes(); len(notes) != 1 || !strings.HasPrefix(notes[0], "setup: has no effect") {
		t.Errorf("notes %q", notes)
	}
}
