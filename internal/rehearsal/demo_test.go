package rehearsal

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"signalbox"
	"signalbox/internal/testkit/must"
	"signalbox/transcript"
)

// TestDemo plays the demonstration as a coordinator would, but in one folder instead of branches.
func TestDemo(t *testing.T) {
	needShell(t)
	dir, script := demoFolder(t)
	const healthy, testsFail = true, false
	checks(t, dir, "the start", healthy)
	played := map[int]bool{}
	for i, turn := range []struct {
		role, task string
		attempt    int
		prompt     string
		says       string
		checks     bool
	}{
		{"developer", "T1", 1, "", "unknown", healthy},
		{"developer", "T1", 2, "", "ready_for_review", healthy},
		{"critic", "T1", 1, "", "review_passed", healthy},
		{"auditor", "T1", 1, "", "crash", healthy},
		{"auditor", "T1", 2, "", "audit_passed", healthy},
		{"developer", "T2", 1, "", "ready_for_review", healthy},
		{"critic", "T2", 1, "", "review_failed", healthy},
		{"developer", "T2", 2, "", "ready_for_review", healthy},
		{"critic", "T2", 2, "", "review_passed", healthy},
		{"auditor", "T2", 1, "", "audit_passed", healthy},
		{"developer", "T3", 1, "", "ready_for_review", testsFail},
		{"developer", "T3", 2, "", "ready_for_review", healthy},
		{"developer", "T4", 1, "", "infra_blocked", healthy},
		{"remediation", "R-1", 1, "", "remediation_complete", healthy},
		{"health-auditor", "R-1", 1, "", "health_healthy", healthy},
		{"developer", "T4", 2, "", "ready_for_review", healthy},
		{"developer", "T5", 1, "", "expert_request", healthy},
		{"expert", "X-1", 1, "", "expert_advice", healthy},
		{"developer", "T5", 2, "The expert says: Never pass input to eval.", "ready_for_review",
			healthy},
		{"developer", "T6", 1, "", "divine_clarification", healthy},
		{"developer", "T6", 2, "Answer: two decimals", "ready_for_review", healthy},
		{"business-analyst", "T7", 1, "", "unknown", healthy},
	} {
		p := &performance{}
		format := formats[i%len(formats)]
		p.err = script.Play(t.Context(), Options{Format: format, Role: turn.role, Task: turn.task,
			Attempt: turn.attempt,
			Dir:     dir, Prompt: &turn.prompt, Stdout: &p.stdout, Stderr: &p.stderr})
		if p.listen(format); turn.says == "crash" {
			if p.status(t) != 137 {
				t.Errorf("%v: %v", turn, p.err)
			}
		} else if said := transcript.Resolve(p.heard, signalbox.Role(turn.role),
			turn.task); p.err != nil || said.Name != turn.says {
			t.Errorf("%v: signals %+v, %v\n%s%s", turn, said, p.err, &p.stdout, &p.stderr)
		}
		if reasons := p.refused(); slices.Contains(reasons, "drift") ||
			slices.Contains(reasons, "malformed") {
			t.Errorf("%v: %v", turn, reasons)
		}
		section, _ := script.Find(turn.role, turn.task, turn.attempt)
		played[section.Line] = true
		if turn.task == "T3" { // the only one whose first attempt breaks the tests
			checks(t, dir, turn.role+" "+turn.task, turn.checks)
		}
	}
	checks(t, dir, "the end", healthy)
	for i := range script.Sections {
		if s := &script.Sections[i]; !played[s.Line] {
			t.Errorf("%s is never played", s)
		}
	}
	if manual := (&performance{dir: dir}).file(t, "MANUAL.md"); !strings.Contains(manual,
		"- sumsq\n") {
		t.Errorf("MANUAL.md: %s", manual)
	}
	if _, err := os.Stat(filepath.Join(dir, "stolen")); err == nil {
		t.Error("the hostile file was run")
	}
}

// demoFolder returns a folder with the files that the demonstration starts from, and its script.
func demoFolder(t *testing.T) (dir string, script *Script) {
	t.Helper()
	demo := t.TempDir()
	must.Succeed(t, Demo(demo))
	dir = filepath.Join(demo, "calc")
	text, err := os.ReadFile(filepath.Join(demo, "agents.script"))
	must.Succeed(t, err)
	if script, err = Parse("agents.script", text); err != nil {
		t.Fatal(err)
	}
	return dir, script
}

// checks runs the checks of the demonstration.
func checks(t *testing.T, dir, when string, pass bool) {
	t.Helper()
	for _, check := range []string{"test.sh", "lint.sh"} {
		cmd := exec.Command("sh", check)
		cmd.Dir = dir
		output, err := cmd.CombinedOutput()
		if err != nil && !errors.As(err, new(*exec.ExitError)) {
			t.Fatal(err)
		}
		if want := pass || check == "lint.sh"; (err == nil) != want {
			t.Errorf("after %s: %s: %v\n%s", when, check, err, output)
		}
	}
}

// TestDemoMerges checks that parallel tasks write different files, so that merges are clean.
func TestDemoMerges(t *testing.T) {
	text, err := demo.ReadFile("demo/agents.script")
	must.Succeed(t, err)
	owner, task := map[string]string{}, ""
	for line := range bytes.Lines(text) {
		words := strings.Fields(string(line))
		if len(words) > 2 && words[0] == "on" && line[0] == 'o' {
			task = strings.TrimSuffix(words[2], ":")
		}
		if len(words) > 1 && words[0] == "write" {
			if before := owner[words[1]]; before != "" && before != task {
				t.Errorf("%s and %s both write %s", before, task, words[1])
			}
			owner[words[1]] = task
		}
	}
	if len(owner) < 12 {
		t.Errorf("only %d files are written", len(owner))
	}
}
