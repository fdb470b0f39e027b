//go:build unix

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
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

// compareClean measures a check, go test of a small package that each task changes, in a home folder
// that is new each time. It compares it with the same command in a new folder with the user's cache.
func compareClean(s settings) error {
	return s.withProgram("clean", func(dir, program string) error {
		err := timeChecks(s, filepath.Join(dir, "checks"), program)
		return errors.Join(err, timePlan(filepath.Join(dir, "plan"), program))
	})
}

// buildingAgents are like changingAgents. The developer and the critic build and test the package,
// as real ones do.
var buildingAgents = strings.NewReplacer(">task.go\n", ">{task}.go && go build ./... && go test ./...\n",
	"on critic *:\n", "on critic *:\n    run go test ./...\n",
	"const task", "const {task}").Replace(changingAgents)

// usedModule is a module that this program uses, so that it is on this machine.
const usedModule = "github.com/goccy/go-yaml"

// packageWithModule returns the files of smallPackage with one more, which uses usedModule.
func packageWithModule(dir string) (map[string]string, error) {
	files := maps.Clone(smallPackage)
	files["text.go"] = fmt.Sprintf("package small\n\nimport %q\n\n"+
		"// YAML encodes words.\nfunc YAML(words ...string) ([]byte, error) { return yaml.Marshal(words) }\n",
		usedModule)
	info, _ := debug.ReadBuildInfo()
	at := slices.IndexFunc(info.Deps, func(m *debug.Module) bool { return m.Path == usedModule })
	if at < 0 {
		return nil, errors.New("this program does not use " + usedModule)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	get := exec.Command("go", "get", usedModule+"@"+info.Deps[at].Version)
	get.Dir, get.Env = dir, append(os.Environ(), "GOPROXY=off", "GONOSUMDB=*")
	if out, err := get.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go get: %w: %s", err, out)
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		files[name] = string(text)
	}
	return files, nil
}

// timePlan measures a plan of two tasks, from start to end, beside the same commands by hand. The
// first plan fills the cache of the box.
func timePlan(dir, program string) error {
	files, err := packageWithModule(filepath.Join(dir, "module"))
	if err != nil {
		return err
	}
	site, err := makeRunSite(dir, program, 2, 2, func(i int) string { return fmt.Sprint("T", i+1) },
		buildingAgents, "checks: [{name: unit, command: go test ./...}]\n", files)
	if err != nil {
		return err
	}
	run := func(plan string) (float64, error) {
		progress("clean: %s", plan)
		start := time.Now()
		err := site.command(site.repo(), nil, program, "run", plan, "--no-wait", "--plain")
		return time.Since(start).Seconds(), err
	}
	first, err := run("plan.md")
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(site.repo(), "plan.md"))
	if err != nil {
		return err
	}
	again := strings.ReplaceAll(string(text), "Task T", "Task U")
	if err := os.WriteFile(filepath.Join(site.repo(), "again.md"), []byte(again), 0o600); err != nil {
		return err
	}
	second, err := run("again.md")
	if err != nil {
		return err
	}
	byHand, err := site.planByHand()
	if err != nil {
		return err
	}
	var t table
	t.row("two tasks, with all builds and tests", "s", "× by hand", "goal")
	row := func(name string, seconds float64, goal string) {
		t.row(name, fmt.Sprintf("%.2f", seconds), fmt.Sprintf("%.2f", seconds/byHand), goal)
	}
	row("the same commands by hand, with a warm cache", byHand, "")
	row("first plan of a box", first, "")
	row("second plan", second, formatGoal("≤ 1.5 × by hand", second <= 1.5*byHand))
	t.print("A plan of two tasks")
	return nil
}

// planByHand returns how long the commands of two tasks take one after the other, in seconds: those
// of the developer, and the tests of the check, the critic and the merge, each in a new checkout.
// An earlier round warms the cache.
func (s *runSite) planByHand() (seconds float64, err error) {
	test := []string{"go", "test", "./..."}
	for round := range 2 {
		start := time.Now()
		for task := range 2 {
			write := fmt.Sprintf("printf 'package small\n\nconst H%[1]d%[2]d = \"\"\n' >H%[1]d%[2]d.go",
				round, task)
			commands := [][]string{{"sh", "-c", write}, {"go", "build", "./..."}, test}
			for step := range 4 {
				tree := filepath.Join(s.dir, fmt.Sprint("hand", round, task, step))
				err := s.commands([][]string{{"git", "worktree", "add", "-q", "--detach", tree}})
				for _, command := range commands {
					err = errors.Join(err, s.command(tree, nil, command...))
				}
				if err != nil {
					return 0, err
				}
				commands = [][]string{test}
			}
		}
		seconds = time.Since(start).Seconds()
	}
	return seconds, nil
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
