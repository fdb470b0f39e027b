//go:build unix

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// What the agents do: they answer at once, or the developers wait for a file. The tasks of a lane change the same file, so that the
// repository does not grow with the plan: what git needs to check out many files is not what is measured.
const (
	atOnce = `on developer *:
    run echo {task} >"${SIGNALBOX_WORK%-*}.txt"
    signal READY_FOR_REVIEW: {task}
on critic *:
    signal REVIEW_PASSED: {task}
on auditor *:
    signal AUDIT_PASSED: {task}
`
	atTheGate = `on developer *:
    run echo {task} >"${SIGNALBOX_WORK%-*}.txt"
    wait for GATE
    signal READY_FOR_REVIEW: {task}
on critic *:
    signal REVIEW_PASSED: {task}
on auditor *:
    signal AUDIT_PASSED: {task}
`
)

// usualLanes is how many tasks can go on at any time.
const usualLanes = 10

// reviewers is how many critics, and how many auditors, are at work at most.
const reviewers = 5

// site is a repository with a box.
type site struct {
	dir, program string
	slots        int
}

func newSite(dir, program, script string, slots int) (*site, error) {
	s := &site{dir: dir, program: program, slots: slots}
	if err := os.MkdirAll(filepath.Join(dir, "repo", ".signalbox"), 0o700); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "agents.script"), []byte(script), 0o600); err != nil {
		return nil, err
	}
	settings := fmt.Sprintf("agent: scripted\nagents:\n  scripted: {command: [%q, rehearse, agent, %q]}\nslots: %d\nroles:\n"+
		"  developer: {slots: %d}\n  critic: {slots: %d}\n  auditor: {slots: %d}\n", program, filepath.Join(dir, "agents.script"), slots, slots, min(slots, reviewers), min(slots, reviewers))
	return s, os.WriteFile(filepath.Join(dir, "repo", ".signalbox", "signalbox.yaml"), []byte(settings), 0o600)
}

func (s *site) command(name string, args ...string) *exec.Cmd {
	c := exec.Command(name, args...)
	c.Dir = filepath.Join(s.dir, "repo")
	c.Env = append(os.Environ(), "SIGNALBOX_KEY="+filepath.Join(s.dir, "box.key"))
	return c
}

// name is the id of a task of a plan with so many lanes.
func name(i, lanes int) string { return fmt.Sprintf("L%d-%d", i%lanes, i/lanes) }

// plan writes a plan of tasks that follow one another in lanes, and makes the box.
func (s *site) plan(n, lanes int) error {
	var text bytes.Buffer
	fmt.Fprintln(&text, "# Load")
	for i := range n {
		blocker := "none"
		if i >= lanes {
			blocker = name(i-lanes, lanes)
		}
		fmt.Fprintf(&text, "\n#### Task %s: task %d\n\n**Work**: write a file\n\n**Acceptance Criteria**\n\n- [ ] it is written\n\n**Blocked By**: %s\n", name(i, lanes), i, blocker)
	}
	if err := os.WriteFile(filepath.Join(s.dir, "repo", "plan.md"), text.Bytes(), 0o600); err != nil {
		return err
	}
	return s.all([][]string{{"git", "init", "-q", "-b", "main"}, {"git", "add", "plan.md"},
		{"git", "-c", "user.name=bench", "-c", "user.email=bench@localhost", "commit", "-q", "-m", "plan"}, {s.program, "init"}})
}

func (s *site) all(commands [][]string) error {
	for _, c := range commands {
		if output, err := s.command(c[0], c[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%v: %w: %s", c, err, output)
		}
	}
	return nil
}

// result is what work cost.
type result struct {
	tasks  int
	took   time.Duration
	cpu    time.Duration // of all processes
	memory float64       // of signalbox itself, in MB; 0 if it is not known
}

func (r result) cpuPerTask() float64 { return float64(r.cpu.Microseconds()) / 1000 / float64(r.tasks) }

func (r result) print(name string) {
	memory := "-"
	if r.memory > 0 {
		memory = fmt.Sprintf("%.0f", r.memory)
	}
	fmt.Printf("%-28s %10.1f %12.1f %12.1f %14s\n", name, r.took.Seconds(), float64(r.took.Milliseconds())/float64(r.tasks), r.cpuPerTask(), memory)
}

// run takes a plan of n tasks to done.
func (s *site) run(n int) (result, error) {
	if err := s.plan(n, usualLanes); err != nil {
		return result{}, err
	}
	began, before := time.Now(), childTime()
	c := s.command(s.program, "run", "plan.md", "--no-wait", "--plain")
	var output bytes.Buffer
	c.Stdout, c.Stderr = &output, &output
	if err := c.Run(); err != nil {
		return result{}, fmt.Errorf("run %d tasks: %w: %s", n, err, tail(output.Bytes()))
	}
	return result{tasks: n, took: time.Since(began), cpu: childTime() - before, memory: peakMemory(c)}, nil
}

func tail(b []byte) []byte { return b[max(0, len(b)-2000):] }

// childTime is the time that all ended children, and theirs, took of the processor.
func childTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// bareWork does for each task what signalbox has git and agents do, one after the other, and nothing else.
func bareWork(dir, program string, n int) (result, error) {
	s, err := newSite(dir, program, atOnce, 1)
	if err != nil {
		return result{}, err
	}
	if err := s.plan(n, usualLanes); err != nil {
		return result{}, err
	}
	began, before := time.Now(), childTime()
	for i := range n {
		tree, branch := filepath.Join(dir, "tree"), fmt.Sprintf("work-%d", i)
		if err := s.all([][]string{{"git", "worktree", "add", "-q", "-b", branch, tree}}); err != nil {
			return result{}, err
		}
		for _, role := range []string{"developer", "critic", "auditor"} {
			c := s.command(program, "rehearse", "agent", filepath.Join(dir, "agents.script"), "--role", role, "--task", name(i, usualLanes), "--attempt", "1")
			c.Dir, c.Env = tree, append(c.Env, "SIGNALBOX_WORK="+name(i, usualLanes))
			if output, err := c.CombinedOutput(); err != nil {
				return result{}, fmt.Errorf("agent: %w: %s", err, output)
			}
		}
		identity := []string{"-c", "user.name=bench", "-c", "user.email=bench@localhost"}
		git := func(args ...string) []string { return append(append([]string{"git"}, identity...), args...) }
		if err := s.all([][]string{git("-C", tree, "add", "-A"), git("-C", tree, "commit", "-q", "-m", branch),
			git("merge", "-q", "--no-ff", "-m", branch, branch), git("worktree", "remove", "--force", tree), git("branch", "-q", "-D", branch)}); err != nil {
			return result{}, err
		}
	}
	return result{tasks: n, took: time.Since(began), cpu: childTime() - before}, nil
}
