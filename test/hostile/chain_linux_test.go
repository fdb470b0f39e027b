package hostile

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"signalbox/internal/testkit/forkchain"
)

const (
	chains = 3
	// chainLength is how many processes a chain has before it ends by itself, which takes it more
	// than a second.
	chainLength = 30_000
	// chainsAreRunning is what the guard prints if chains outlive the run.
	chainsAreRunning = "guard: chains of processes are still running"
)

// startChains leaves chains of processes behind, which ignore signals and have no environment, and
// returns how many.
func startChains() (started int) {
	signal.Ignore()
	l := readLayout()
	pipe, err := os.OpenFile(l.ChainPipe, os.O_WRONLY, 0)
	if err != nil {
		return 0
	}
	for range chains {
		cmd := exec.Command(l.Chain)
		cmd.Env, cmd.ExtraFiles = []string{}, []*os.File{pipe}
		if cmd.Start() == nil {
			started++
		}
	}
	return started
}

// playGuard runs signalbox, and reaps what outlives it: the chains of processes that a failed test
// leaves would use up the ids of processes of the machine otherwise. It reports whether chains are
// running when signalbox has ended. Its arguments are their pipe, and the command line.
func playGuard(args []string) error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return err
	}
	pipe, err := unix.Open(args[0], unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	cmd := exec.Command(args[1], args[2:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	failed := cmd.Run()
	if _, err := unix.Read(pipe, make([]byte, 1)); errors.Is(err, unix.EAGAIN) {
		fmt.Println(chainsAreRunning)
	}
	for {
		if _, err := unix.Wait4(-1, nil, 0, nil); errors.Is(err, unix.ECHILD) {
			return failed
		}
	}
}

// chainStage is a stage on which the agent and the check leave chains behind. settings are those of
// the sandbox.
func chainStage(t *testing.T, of scene, settings string) *stage {
	t.Helper()
	root := t.TempDir()
	folder := filepath.Join(root, "chains")
	of.root, of.guarded, of.settings = root, true, fmt.Sprintf("sandbox: {write: [%q]%s}\n", folder,
		settings)
	s := newStage(t, of)
	s.Part, s.Chain, s.ChainPipe = chaining, filepath.Join(s.Bin, "chain"),
		filepath.Join(folder, "pipe")
	if err := forkchain.Write(s.Chain, chainLength); err != nil {
		t.Skip(err)
	}
	s.check(os.MkdirAll(folder, 0o755))
	s.check(unix.Mkfifo(s.ChainPipe, 0o600))
	s.own()
	return s
}

// TestForkChains lets an agent and a check leave chains of processes behind, each of which starts
// the next one and exits at once. In every mode that enforces the sandbox they are gone when the
// run is.
func TestForkChains(t *testing.T) {
	eachUser(t, func(t *testing.T, uid int) {
		for _, system := range []string{"", withoutNamespaces} {
			if !covers(uid, system) {
				continue
			}
			t.Run("sandbox "+system, func(t *testing.T) {
				t.Parallel()
				s := chainStage(t, scene{uid: uid, system: system}, "")
				s.needSandbox()
				s.startAttack()
				s.finish()
				if strings.Contains(fileText(s.log), chainsAreRunning) {
					t.Error("chains of processes outlived the run")
				}
				if started := s.must("git", "show", "main:work"); started != strconv.Itoa(chains) {
					t.Errorf("%s chains were started", started)
				}
			})
		}
	})
}

// TestProcessesCannotBeEnded runs signalbox on a system that has neither namespaces nor control
// groups for the user. It refuses, and says what to do, unless the configuration accepts it; then
// it names the promise that does not hold.
func TestProcessesCannotBeEnded(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to be another user")
	}
	const sentence = "a process can outlive its program"
	t.Run("refused", func(t *testing.T) {
		t.Parallel()
		s := newStage(t, scene{uid: unprivileged(), system: withoutNamespaces, ungrouped: true})
		s.startRun()
		s.awaitEnd()
		log := fileText(s.log)
		for _, text := range []string{"the sandbox cannot be enforced here: without namespaces and without a control group " + sentence, "systemd-run --user --scope", "sandbox.processes: watch"} {
			if !strings.Contains(log, text) {
				t.Errorf("signalbox did not print %q", text)
			}
		}
		if s.run.ProcessState.ExitCode() == 0 || s.find(victimReport) != "" {
			t.Error("signalbox did not refuse")
		}
	})
	t.Run("accepted", func(t *testing.T) {
		t.Parallel()
		s := chainStage(t, scene{uid: unprivileged(), system: withoutNamespaces, ungrouped: true},
			", processes: watch")
		if !strings.Contains(strings.Join(s.explain(byAgent).Programs[0].Open, "\n"), sentence) {
			t.Error("signalbox sandbox explain does not say it")
		}
		s.startAttack()
		s.write(filepath.Join(s.Bin, finishName), "")
		s.awaitEnd()
		// Chains may be found or not. If one is left, nothing is merged.
		log := fileText(s.log)
		merged := strings.Contains(s.must("git", "log", "--format=%s", "main"), attackTask)
		if strings.Contains(log, chainsAreRunning) && merged {
			t.Error("chains of processes outlived the run, and the task was merged")
		}
		if !strings.Contains(s.must(s.Program, "ledger", "tail", "-n", "0", "--json"),
			`"processes":"watch"`) {
			t.Error("the ledger does not say it")
		}
	})
}
