package project

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/sandbox"
	"signalbox/internal/testkit/must"
)

// Where a system cannot limit a critic to its model server, a run says so, and refuses if a
// setting asks for it.
func TestModelNetworkIsNotEnforced(t *testing.T) {
	weak := sandbox.Support{System: "linux", Landlock: 7, Seccomp: true, Groups: true}
	strong := weak
	strong.Namespaces = true
	const sentence = "without namespaces the network cannot be limited to the model server m.example:443"
	for _, tt := range []struct {
		settings      string
		support       sandbox.Support
		notes, refuse bool
	}{
		{"agents: {claude: {preset: claude, base_url: 'https://m.example'}}", weak, true, false},
		{"agents: {claude: {preset: claude, base_url: 'https://m.example'}}", strong, false, false},
		{"agents: {claude: {preset: claude, base_url: 'https://m.example', sandbox: {network: on}}}", weak, false, false},
		{"{sandbox: {network: none}, agents: {claude: {preset: claude, base_url: 'https://m.example'}}}", weak, false, false},
		{"agents: {claude: {preset: claude, base_url: 'https://m.example', sandbox: {network: model}}}", weak, false, true},
		{"agents: {claude: {preset: claude, base_url: 'https://m.example', sandbox: {network: model, mode: warn}}}", weak, true, false},
		{"{agents: {a: {preset: claude, base_url: 'https://m.example'}}, roles: {developer: {agent: a}}}", weak, false, false},
		{"{agents: {a: {preset: claude, base_url: 'https://m.example'}}, roles: {auditor: {agent: a}}}", weak, true, false},
		{"{agents: {a: {preset: claude, base_url: 'https://m.example'}}, experts: [{name: e, agent: a, keywords: [x]}]}", weak, true, false},
	} {
		c, err := config.Parse([]byte(tt.settings))
		must.Succeed(t, err)
		root := t.TempDir()
		notes, err := Project{Root: filepath.Join(root, "project")}.CheckSandboxes(c,
			filepath.Join(root, "box"), tt.support)
		if refused := err != nil && strings.Contains(err.Error(), sentence) &&
			signalbox.HintOf(err) != ""; refused != tt.refuse || err != nil && !refused {
			t.Errorf("%s: error %v", tt.settings, err)
		}
		if got := slices.Contains(notes, sentence); got != tt.notes {
			t.Errorf("%s: notes %q", tt.settings, notes)
		}
	}
}
