//go:build unix

package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	planLanes = 10 // chains of tasks that can run in parallel
	bareTasks = 50
)

// instantAgents is the script of agents that answer at once. The tasks of a lane change the same
// file, so that the repository does not grow with the plan.
const instantAgents = `on developer *:
    run echo {task} >"${SIGNALBOX_WORK%-*}.txt"
    signal READY_FOR_REVIEW: {task}
on critic *:
    signal REVIEW_PASSED: {task}
on auditor *:
    signal AUDIT_PASSED: {task}
`

// compareRuns measures what a task costs in plans of several lengths, beside the same git commands
// and agents without signalbox.
func compareRuns(s settings) error {
	return s.withProgram("run", func(dir, program string) error { return timeRuns(s, dir, program) })
}

func timeRuns(s settings, dir, program string) error {
	progress("runs: bare git and agents")
	bare, err := bareRun(filepath.Join(dir, "bare"), program)
	if err != nil {
		return err
	}
	var t table
	t.row("", "ms per task", "CPU ms per task", "CPU × bare", "CPU × shortest plan", "goal")
	t.row(fmt.Sprintf("bare git and agents, %d tasks", bareTasks), fmt.Sprintf("%.0f", bare.wall),
		fmt.Sprintf("%.0f", bare.cpu), "1.00", "", "")
	var shortest runCost
	for i, tasks := range s.tasks {
		progress("runs: %d tasks", tasks)
		cost, err := planRun(filepath.Join(dir, fmt.Sprint("plan", tasks)), program, tasks)
		if err != nil {
			return err
		}
		if i == 0 {
			shortest = cost
		}
		t.row(fmt.Sprintf("signalbox run, %d tasks", tasks), fmt.Sprintf("%.0f", cost.wall),
			fmt.Sprintf("%.0f", cost.cpu),
			fmt.Sprintf("%.2f", cost.cpu/bare.cpu), fmt.Sprintf("%.2f", cost.cpu/shortest.cpu),
			formatGoal("≤ 1.25 × shortest", cost.cpu <= 1.25*shortest.cpu))
	}
	t.print("Running plans")
	return nil
}

// runCost is in milliseconds per task. The CPU time is that of all processes.
type runCost struct{ wall, cpu float64 }

// runSite is a repository with a box whose agents follow a script.
type runSite struct{ dir, program string }

func newRunSite(dir, program string, tasks int) (*runSite, error) {
	return makeRunSite(dir, program, tasks, planLanes, taskID, instantAgents, "slots: 5\n", nil)
}

// makeRunSite makes a repository with some files and a plan of tasks in a number of chains, and a
// box whose agents follow a script.
func makeRunSite(dir, program string, tasks, chains int, id func(int) string, script,
	settings string, files map[string]string) (*runSite, error) {
	s := &runSite{dir, program}
	var plan strings.Builder
	plan.WriteString("# Load\n")
	for i := range tasks {
		blocker := "none"
		if i >= chains {
			blocker = id(i - chains)
		}
		fmt.Fprintf(&plan, "\n#### Task %s: task %d\n\n**Work**: write a file\n\n**Acceptance Criteria**\n\n- [ ] the file exists\n\n**Blocked By**: %s\n", id(i), i, blocker)
	}
	all := map[string]string{"../agents.script": script, "plan.md": plan.String(),
		".signalbox/signalbox.yaml": fmt.Sprintf(
			"agent: scripted\nagents:\n  scripted: {command: [%q, rehearse, agent, %q]}\n%s",
			program, s.script(), settings)}
	maps.Copy(all, files)
	err := os.MkdirAll(filepath.Join(s.repo(), ".signalbox"), 0o700)
	for name, text := range all {
		err = errors.Join(err, os.WriteFile(filepath.Join(s.repo(), name), []byte(text), 0o600))
	}
	if err != nil {
		return nil, err
	}
	add := slices.AppendSeq([]string{"git", "add", "plan.md"}, maps.Keys(files))
	return s, s.commands([][]string{{"git", "init", "-q", "-b", "main"}, add,
		gitAs("commit", "-q", "-m", "plan"), {program, "init"}})
}

func taskID(i int) string { return fmt.Sprintf("L%d-%d", i%planLanes, i/planLanes) }

func (s *runSite) repo() string   { return filepath.Join(s.dir, "repo") }
func (s *runSite) script() string { return filepath.Join(s.dir, "agents.script") }

func gitAs(args ...string) []string {
	return append([]string{"git", "-c", "user.name=bench", "-c", "user.email=bench@localhost"},
		args...)
}

func (s *runSite) commands(all [][]string) error {
	for _, args := range all {
		if err := s.command(s.repo(), nil, args...); err != nil {
			return err
		}
	}
	return nil
}

func (s *runSite) command(dir string, env []string, args ...string) error {
	c := exec.Command(args[0], args[1:]...)
	c.Dir, c.Env = dir, append(append(os.Environ(), "SIGNALBOX_KEY="+
		filepath.Join(s.dir, "box.key")), env...)
	if output, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w: %s", args, err, output[max(0, len(output)-2000):])
	}
	return nil
}

// measured calls do, which does a number of tasks, and returns the cost per task.
func measured(tasks int, do func() error) (runCost, error) {
	start, before := time.Now(), childTime()
	err := do()
	perTask := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 / float64(tasks) }
	return runCost{perTask(time.Since(start)), perTask(childTime() - before)}, err
}

func planRun(dir, program string, tasks int) (runCost, error) {
	s, err := newRunSite(dir, program, tasks)
	if err != nil {
		return runCost{}, err
	}
	defer os.RemoveAll(dir)
	return measured(tasks,
		func() error { return s.command(s.repo(), nil, program, "run", "plan.md", "--no-wait", "--plain") })
}

// bareRun runs for each task the git commands and agents that signalbox runs, one after the other,
// and nothing else.
func bareRun(dir, program string) (runCost, error) {
	s, err := newRunSite(dir, program, bareTasks)
	if err != nil {
		return runCost{}, err
	}
	tree := filepath.Join(dir, "tree")
	return measured(bareTasks, func() error {
		for i := range bareTasks {
			branch := fmt.Sprintf("work-%d", i)
			if err := s.commands([][]string{{"git", "worktree", "add", "-q", "-b", branch,
				tree}}); err != nil {
				return err
			}
			for _, role := range []string{"developer", "critic", "auditor"} {
				err := s.command(tree, []string{"SIGNALBOX_WORK=" + taskID(i)}, program, "rehearse",
					"agent", s.script(), "--role", role, "--task", taskID(i), "--attempt", "1")
				if err != nil {
					return err
				}
			}
			if err := s.commands([][]string{gitAs("-C", tree, "add", "-A"),
				gitAs("-C", tree, "commit", "-q", "-m", branch),
				gitAs("merge", "-q", "--no-ff", "-m", branch, branch),
				gitAs("worktree", "remove", "--force", tree),
				gitAs("branch", "-q", "-D", branch)}); err != nil {
				return err
			}
		}
		return nil
	})
}

// childTime returns the CPU time of all child processes that have ended, including their own
// children.
func childTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
