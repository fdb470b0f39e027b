package agents_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"signalbox/internal/testkit/must"
)

// compareFindings has a critic send a task back twice, to a developer whose session continues and
// to one whose sessions are new. It prints the tokens that the model server counted, which are in
// docs/explanation/performance.md.
func compareFindings(t *testing.T) {
	for _, program := range []string{"claude", "codex", "opencode"} {
		t.Run(program, func(t *testing.T) {
			resumed := countFindings(t, program, true)
			fresh := countFindings(t, program, false)
			t.Logf("| %s | %d | %d | %d | %d |", program, resumed.requests, resumed.tokens,
				fresh.requests, fresh.tokens)
			if resumed.requests != 7 || fresh.requests != 9 {
				t.Errorf("%+v resumed, %+v fresh", resumed, fresh)
			}
		})
	}
}

// counted are the requests of developers, and what they used: input, also from a cache, and output.
type counted struct{ requests, tokens int }

// findings plays the critic, which has findings twice, and the auditor.
const findings = `cat >/dev/null; case $SIGNALBOX_ROLE$SIGNALBOX_ATTEMPT in
critic1|critic2) printf "REVIEW_FAILED: T1\nIssues Found:\n- hello.txt: say it $SIGNALBOX_ATTEMPT times more\n";;
critic*) printf "REVIEW_PASSED: T1\nFiles Reviewed:\n- hello.txt\nQuality Assessment: fine\n";;
*) printf "AUDIT_PASSED: T1\nPassing Criteria:\n- hello.txt says hello\n";;
esac`

func countFindings(t *testing.T, program string, resume bool) (c counted) {
	s := newProject(t)
	server, end := s.serve(t, filepath.Join("testdata", "findings.yaml"))
	url := server.OpenAI
	if program == "claude" {
		url = server.Anthropic
	}
	settings := ""
	if !resume {
		settings = ", resume: false"
	}
	s.writeConfig(t, fmt.Sprintf(`agents:
  it: {preset: %s, model: rehearsal, base_url: %q%s}
  judge: {command: [sh, -c, %q]}
agent: judge
roles: {developer: {agent: it}}
`, program, url, settings, findings))
	config := filepath.Join(s.dir, ".signalbox", "signalbox.yaml")
	text, err := os.ReadFile(config)
	must.Succeed(t, err)
	must.Succeed(t, os.WriteFile(config, []byte(strings.Replace(string(text), "reviews: 1",
		"reviews: 3", 1)), 0o600))
	notes := strings.Repeat("A note that whoever works on this project must have read.\n", 400)
	must.Succeed(t, os.WriteFile(filepath.Join(s.dir, "notes.md"), []byte(notes), 0o600))
	s.run(t, "git", "add", "notes.md")
	s.run(t, "git", "-c", "user.name=ann", "-c", "user.email=ann@localhost", "commit", "-q", "-m",
		"notes")
	plan, err := filepath.Abs(filepath.Join("testdata", "resume.md"))
	must.Succeed(t, err)
	s.run(t, s.program, "run", plan, "--json", "--no-wait")
	s.checkLedger(t, "T1", "B-1")
	for _, r := range end() {
		if r.Conversation == "developer" && r.Status == 200 && r.Usage.Output > 0 {
			c.requests++
			c.tokens += r.Usage.Input + r.Usage.Output
		}
	}
	return c
}
