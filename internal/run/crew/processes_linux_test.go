package crew

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/workspace"
	"signalbox/internal/testkit/must"
)

// runningProcesses returns the pids of a box's agents, and of what they started, that are still
// running.
func runningProcesses(dir string) (left []string) {
	deadline := time.Now().Add(time.Minute) // a killed process takes a moment to end
	for {
		left = nil
		names, _ := filepath.Glob("/proc/[0-9]*/environ")
		for _, name := range names {
			environ, err := os.ReadFile(name)
			if err == nil && bytes.Contains(environ, []byte("SIGNALBOX_BOX="+dir+"\x00")) {
				left = append(left, filepath.Base(filepath.Dir(name)))
			}
		}
		if left == nil || time.Now().After(deadline) {
			return left
		}
	}
}

// A process that outlives the program of an agent, deaf to signals, in a session of its own and
// without the agent's environment, is ended before the work is saved. And whoever changes the
// worktree after that changes neither what is checked nor what is merged.
func TestTreeIsChangedAfterTheSave(t *testing.T) {
	s := set(t, scene{git: true, plan: task("T1"), settings: "checks: [{name: c, command: '! grep -rq later . && git diff --exit-code HEAD'}]\n", script: `
on developer T1:
    write T1.done done
    run env -i PATH="$PATH" setsid sh -c 'trap "" TERM HUP INT; while :; do echo x >survivor; done' "$PWD" >/dev/null 2>&1 </dev/null &
    run until test -s survivor; do :; done
    signal READY_FOR_REVIEW: {task}
`})
	stopped := func(roles ...signalbox.Role) func() {
		r := s.beginIn(s.box, Options{Roles: roles, Stay: true})
		return func() {
			r.halt()
		}
	}
	stop := stopped(signalbox.RoleCI)
	s.until("the baseline is done",
		func() bool { return s.work("B-1").Phase == signalbox.PhaseCompleted })
	stop()
	stop = stopped(signalbox.RoleDeveloper)
	s.until("the work is saved",
		func() bool { return s.work("T1").Phase == signalbox.PhaseCIPending })
	tree := filepath.Join(s.box.Dir, workspace.TreesFolder, "T1")
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range lines {
		if argv, err := os.ReadFile(name); err == nil &&
			bytes.Contains(argv, []byte(">survivor; done\x00"+tree+"\x00")) {
			t.Errorf("after the work was saved, %s is still running", name)
		}
	}
	stop()
	if got := s.git("-C", tree, "status", "--porcelain"); got != "" {
		t.Errorf("what is not saved: %s", got)
	}
	for _, name := range []string{"T1.done", "more"} {
		must.Succeed(t, os.WriteFile(filepath.Join(tree, name), []byte("later\n"), 0o600))
	}
	s.run()
	if got := s.git("ls-tree", "-r", "--name-only", "main"); got != "T1.done\nsurvivor" {
		t.Errorf("main has %q", got)
	}
	if got := s.git("show", "main:T1.done"); got != "done" {
		t.Errorf("merged %q", got)
	}
	checked := all[rules.ChecksRan](s, "T1")
	if merged := only[rules.Merged](s, "T1").Body; len(checked) != 1 ||
		!checked[0].Body.Rows[0].Passed || checked[0].Body.Commit != merged.Tip {
		t.Errorf("checked %+v, merged %+v", checked, merged)
	}
}
