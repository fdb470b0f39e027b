package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// newProject returns a folder with a git repository, a box, and agents that follow a script. The
// test runs in parallel with others.
func newProject(t *testing.T, plan, script, settings string) *terminalWorld {
	t.Helper()
	needsAgents(t)
	t.Parallel()
	w := &terminalWorld{t: t, dir: t.TempDir(), columns: 80}
	home := filepath.Join(w.dir, "home")
	w.env = []string{"HOME=" + home, "XDG_CONFIG_HOME=" + home, "USER=ann", "PAGER=cat"}
	w.write("plan.md", plan)
	w.write("agents.script", script)
	for _, args := range [][]string{{"git", "init", "-q", "-b", "main"}, {"git", "add", "plan.md"},
		{"git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "plan"},
		{"signalbox", "init"}} {
		w.must(args...)
	}
	w.write(".signalbox/signalbox.yaml",
		fmt.Sprintf("agent: scripted\nagents:\n  scripted: {command: [signalbox, rehearse, agent, %q]}\n%s", filepath.Join(w.dir, "agents.script"), settings))
	return w
}

// must runs a program that must succeed.
func (w *terminalWorld) must(args ...string) string {
	w.t.Helper()
	out, err := w.command("", args...).Output()
	if exited := (*exec.ExitError)(nil); err != nil {
		w.t.Fatalf("%q: %v: %s%s", args, err, out, exited)
	}
	return string(out)
}

// Lists, details and questions fit the terminal, and say the same as in a pipe.
func TestListsFitTheTerminal(t *testing.T) {
	long := "a title that is much longer than any terminal of forty or of eighty columns can show on one line"
	plan := "# Plan\n"
	for _, id := range []string{"asks", "fails", "waits-for-approval"} {
		plan += "\n#### Task " + id + ": " + long +
			"\n\n**Acceptance Criteria**:\n\n- it works\n\n**Blocked By**: none\n"
	}
	w := newProject(t, plan, `on developer asks:
    signal SEEKING_DIVINE_CLARIFICATION
        Task: {task}
        Question: Should an unknown language be refused, or greeted in English, or in the language of the system?
on developer fails:
    touch bad
    signal READY_FOR_REVIEW: {task}
on developer *:
    touch {task}.txt
    signal READY_FOR_REVIEW: {task}
on critic *:
    signal REVIEW_PASSED: {task}
on auditor *:
    signal AUDIT_PASSED: {task}
`, `approve: merge
limits: {checks: 1}
environments: [{name: local}, {name: also-here}]
checks:
  - {name: tests, command: "if test -e bad; then echo a line of output that is longer than forty columns and says that it is bad; exit 1; fi"}
`)
	w.piped("", "run", "plan.md", "--no-wait")
	for _, columns := range []int{80, 40} {
		w.columns = columns
		for _, command := range [][]string{{"work", "list"}, {"work", "show", "asks"},
			{"work", "show", "fails"}, {"work", "show", "waits-for-approval"}, {"questions"}} {
			got := w.onTerminal("dumb", "", command...)
			for line := range strings.Lines(got) {
				if n := utf8.RuneCountInString(strings.TrimRight(line, "\r\n")); n > columns {
					t.Errorf("%q on a terminal of %d columns: a line has %d: %s", command, columns,
						n, line)
				}
			}
			piped := w.piped("", command...)
			words := func(s string) string { return strings.Join(strings.Fields(s), "") }
			for _, want := range []string{"Should an unknown language be refused, or greeted in English, or in the language of the system?", "signalbox answer Q-1 TEXT",
				"signalbox diff waits-for-approval, then signalbox approve waits-for-approval or signalbox reject waits-for-approval TEXT", "a line of output that is longer than forty columns and says that it is bad",
				"✘ exit status 1 in ", "fails", "also-here"} {
				if strings.Contains(piped, want) && !strings.Contains(words(got), words(want)) {
					t.Errorf("%q on a terminal of %d columns does not show %q:\n%s", command,
						columns, want, got)
				}
			}
		}
	}
}
