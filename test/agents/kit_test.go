package agents_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"signalbox/internal/testkit/must"
)

// pinned returns the versions of the programs.
func pinned(t *testing.T) map[string]string {
	t.Helper()
	var p struct{ Dependencies map[string]string }
	text, err := os.ReadFile(filepath.Join("testdata", "package.json"))
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	if err != nil || len(p.Dependencies) != 5 {
		t.Fatalf("%v: %v", err, p)
	}
	return map[string]string{"claude": p.Dependencies["@anthropic-ai/claude-code-linux-x64"],
		"codex":    p.Dependencies["@openai/codex"],
		"gemini":   p.Dependencies["@google/gemini-cli"],
		"opencode": p.Dependencies["opencode-linux-x64"]}
}

// TestVersionsAreDocumented checks that docs/reference/agents.md lists the pinned versions.
func TestVersionsAreDocumented(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", "agents.md"))
	must.Succeed(t, err)
	for name, version := range pinned(t) {
		if row := fmt.Sprintf("| `%s` | %s |", name, version); version == "" ||
			!strings.Contains(string(text), row) {
			t.Errorf("docs/reference/agents.md has no row that starts with %s", row)
		}
	}
}
