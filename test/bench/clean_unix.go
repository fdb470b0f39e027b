//go:build unix

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"signalbox/internal/core/rules"
)

// smallPackage is a Go package whose tests use some of the standard library.
var smallPackage = map[string]string{
	"go.mod":      "module small\n\ngo 1.24\n",
	"small.go":    "package small\n\nimport (\n\t\"encoding/json\"\n\t\"strings\"\n)\n\n// Join joins words.\nfunc Join(words ...string) string { return strings.Join(words, \" \") }\n\n// Text encodes words.\nfunc Text(words ...string) string {\n\ttext, _ := json.Marshal(words)\n\treturn string(text)\n}\n",
	"one_test.go": "package small\n\nimport \"testing\"\n\nfunc TestJoin(t *testing.T) {\n\tif Join(\"a\", \"b\") != \"a b\" || Text(\"a\") != `[\"a\"]` {\n\t\tt.Error(\"wrong\")\n\t}\n}\n",
}

// changingAgents is the script of agents that change the package in each task.
const changingAgents = `on developer *:
    run printf 'package small\n\nconst task = "%s"\n' {task} >task.go
    signal READY_FOR_REVIEW: {task}
on critic *:
    signal REVIEW_PASSED: {task}
on auditor *:
    signal AUDIT_PASSED: {task}
`

// compareClean measures a check in a home folder that is new each time: go test of a small package
// that each task changes, beside the same command by hand in a new folder with the user's cache.
func compareClean(s settings) error {
	return s.withProgram("clean",
		func(dir, program string) error { return timeChecks(s, dir, program) })
}

func timeChecks(s settings, dir, program string) error {
	site, err := newCleanSite(dir, program, s.rounds+1)
	if err != nil {
		return err
	}
	progress("clean: %d tasks", s.rounds+1)
	if err := site.command(site.repo(), nil, program, "run", "plan.md", "--no-wait",
		"--plain"); err != nil {
		return err
	}
	cold, warm, err := site.checkTimes()
	if err != nil {
		return err
	}
	byHand, err := site.byHand(s.rounds)
	if err != nil {
		return err
	}
	var t table
	t.row("go test of a small package", "s", "× by hand", "goal")
	row := func(name string, seconds float64, goal string) {
		t.row(name, fmt.Sprintf("%.2f", seconds), fmt.Sprintf("%.2f", seconds/byHand), goal)
	}
	row("by hand, in a new folder, with a warm cache", byHand, "")
	row("check on the base, with an empty cache", cold, "")
	row(fmt.Sprintf("checks of the second to %dth task", s.rounds+1), warm,
		formatGoal("≤ 1.5 × by hand", warm <= 1.5*byHand))
	t.print("Checks with a new home folder")
	return nil
}

// newCleanSite makes a repository with the package and a plan of tasks, one after the other.
func newCleanSite(dir, program string, tasks int) (*runSite, error) {
	return makeRunSite(dir, program, tasks, 1, func(i int) string { return fmt.Sprint("T", i+1) },
		changingAgents, "checks: [{name: unit, command: go test ./...}]\n", smallPackage)
}

// checkTimes returns how long the check took on the base, and the median of the tasks after the
// first, in seconds.
func (s *runSite) checkTimes() (base, tasks float64, err error) {
	list := exec.Command(s.program, "ledger", "export")
	list.Dir, list.Env = s.repo(),
		append(os.Environ(), "SIGNALBOX_KEY="+filepath.Join(s.dir, "box.key"))
	out, err := list.Output()
	if err != nil {
		return 0, 0, fmt.Errorf("list the ledger: %w", err)
	}
	var times []float64
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		var e struct {
			Type string          `json:"type"`
			Work string          `json:"subject"`
			Data json.RawMessage `json:"data"`
		}
		var ran rules.ChecksRan
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil ||
			!strings.HasSuffix(e.Type, rules.TypeChecksRan) {
			continue
		}
		if err := json.Unmarshal(e.Data, &ran); err != nil {
			return 0, 0, err
		}
		for _, row := range ran.Rows {
			if !row.Passed {
				return 0, 0, fmt.Errorf("the check of %s failed", e.Work)
			}
			switch seconds := float64(row.Millis) / 1000; {
			case strings.HasPrefix(e.Work, "B-"):
				base = seconds
			case e.Work != "T1":
				times = append(times, seconds)
			}
		}
	}
	if base == 0 || len(times) == 0 {
		return 0, 0, errors.New("the ledger has no results of checks")
	}
	return base, median(times), nil
}

// byHand returns the median time of the tests in new checkouts, in seconds. The first warms the
// cache.
func (s *runSite) byHand(rounds int) (float64, error) {
	var times []float64
	for i := range rounds + 1 {
		tree := filepath.Join(s.dir, fmt.Sprint("tree", i))
		if err := s.commands([][]string{{"git", "worktree", "add", "-q", "--detach",
			tree}}); err != nil {
			return 0, err
		}
		start := time.Now()
		if err := s.command(tree, nil, "go", "test", "./..."); err != nil {
			return 0, err
		}
		if i > 0 {
			times = append(times, time.Since(start).Seconds())
		}
	}
	return median(times), nil
}
