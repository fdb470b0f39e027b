package process

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"signalbox/internal/sandbox"
	"signalbox/internal/testkit/forkchain"
	"signalbox/internal/testkit/must"
)

func init() {
	children["chains"] = startChains
	children["guard"] = guardChains
}

const (
	chains = 3
	// chainLength is how many processes a chain has before it ends by itself. That takes it more
	// than a second.
	chainLength = 30_000
	chainName   = "chain"
	chainPipe   = "pipe"
	chainEnds   = "ends"
)

// startChains starts chains of processes that ignore signals and have no environment. They keep a
// pipe open, so that the test sees when the last one is gone, and have a file to which one that
// ends by itself writes a byte.
func startChains(dir string) error {
	signal.Ignore()
	pipe, err := os.OpenFile(filepath.Join(dir, chainPipe), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	ends, err := os.OpenFile(filepath.Join(dir, chainEnds), os.O_WRONLY|os.O_APPEND|os.O_CREATE,
		0o600)
	if err != nil {
		return err
	}
	for range chains {
		cmd := exec.Command(filepath.Join(dir, chainName))
		cmd.Env, cmd.ExtraFiles = []string{}, []*os.File{pipe, ends}
		if err := cmd.Start(); err != nil {
			return err
		}
	}
	return nil
}

// guarded is what guardChains found.
type guarded struct {
	Err   string // of Exit
	Left  bool   // Err is a LeftError
	Alive bool   // chains were running when Wait returned
	After bool   // chains were running when everything was reported as gone
	Group string // of the program
	// Ended is how many chains ended by themselves before everything was reported as gone.
	Ended int64
	// Killed means that the process was killed that only the group has.
	Killed bool
}

// guardChains runs a program that leaves chains behind, in a process of its own that reaps what
// escapes: it would use up the ids of processes of the machine otherwise. It prints what it found.
func guardChains(dir string) error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return err
	}
	pipe, err := unix.Open(filepath.Join(dir, chainPipe),
		unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	policy := &sandbox.Policy{Mode: sandbox.Enforce, Read: []string{"/usr", "/bin", "/lib", "/lib64", "/etc", filepath.Dir(os.Args[0])},
		Write: []string{dir}, Limits: defaultLimits}
	support := Support()
	spec := Spec{Argv: []string{os.Args[0], dir}, Dir: dir,
		Env: []string{childVariable + "=chains"}, Grace: soon, Sandbox: policy,
		simulated: &support}
	switch os.Args[2] {
	case "namespaces":
		support.Groups = false
	case "groups":
		support.Namespaces = false
	case "watched":
		support.Namespaces, spec.noGroups, policy.Processes = false, true, sandbox.WatchProcesses
	case "impatient":
		support.Namespaces, spec.noGroups, policy.Processes, spec.killTime = false, true,
			sandbox.WatchProcesses, soon
	case "off":
		spec.Sandbox = nil
	}
	var member *exec.Cmd
	p, err := Start(spec, func(id ID) (err error) {
		if os.Args[2] == "groups" {
			member, err = join(id.Group)
		}
		return err
	})
	if err != nil {
		return err
	}
	exit, left := p.Wait(), (*LeftError)(nil)
	found := guarded{Left: errors.As(exit.Err, &left), Group: p.ID().Group}
	if exit.Err != nil {
		found.Err = exit.Err.Error()
	}
	running := func() bool {
		_, err := unix.Read(pipe, make([]byte, 1))
		return errors.Is(err, unix.EAGAIN)
	}
	found.Alive = running()
	if member != nil {
		_ = member.Process.Signal(unix.SIGUSR1) // without effect if it was killed
		_ = member.Wait()
		found.Killed = member.ProcessState.Sys().(syscall.WaitStatus).Signal() == unix.SIGKILL
	}
	if left != nil {
		<-left.Gone
	}
	found.After = running()
	info, err := os.Stat(filepath.Join(dir, chainEnds))
	if err != nil {
		return err
	}
	found.Ended = info.Size()
	for {
		if _, err := unix.Wait4(-1, nil, 0, nil); errors.Is(err, unix.ECHILD) {
			return json.NewEncoder(os.Stdout).Encode(found)
		}
	}
}

// join starts a process that is in a control group, but was not started by its program. It ignores
// what ends polite processes.
func join(group string) (*exec.Cmd, error) {
	cmd := exec.Command("sh", "-c", `trap "" TERM; echo; exec sleep 1000`)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err == nil {
		_, err = bufio.NewReader(out).ReadString('\n')
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(group, "cgroup.procs"),
			[]byte(strconv.Itoa(cmd.Process.Pid)), 0)
	}
	return cmd, err
}

// runGuard runs guardChains in a mode.
func runGuard(t *testing.T, mode string) (found guarded) {
	t.Helper()
	dir := t.TempDir()
	if err := forkchain.Write(filepath.Join(dir, chainName), chainLength); err != nil {
		t.Skip(err)
	}
	must.Succeed(t, unix.Mkfifo(filepath.Join(dir, chainPipe), 0o600))
	cmd := exec.Command(os.Args[0], dir, mode)
	cmd.Env, cmd.Stderr = append(os.Environ(), childVariable+"=guard", "GORACE=atexit_sleep_ms=0"),
		os.Stderr
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &found)
	}
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return found
}

// A chain of processes, each of which starts the next one and exits at once, ends with the program
// that started it, or is reported as left. Where that is sure, no chain ends by itself, and
// everything in a control group is killed.
func TestForkChain(t *testing.T) {
	for mode, sure := range map[string]bool{"namespaces": true, "groups": true,
		"off": Support().Groups, "watched": false, "impatient": false} {
		t.Run(mode, func(t *testing.T) {
			needSupport(t, mode == "namespaces")
			if mode == "groups" && !Support().Groups {
				t.Skip("needs control groups")
			}
			found := runGuard(t, mode)
			if found.After || found.Alive && !found.Left || sure &&
				(found.Err != "" || found.Ended > 0) || found.Killed != (mode == "groups") {
				t.Errorf("found %+v", found)
			}
			if _, err := os.Stat(found.Group); mode == "groups" &&
				(found.Group == "" || !errors.Is(err, fs.ErrNotExist)) {
				t.Errorf("group %q: %v", found.Group, err)
			}
		})
	}
}

// A keeper that does not end what its program started is not killed: without it, what remains could
// not be found. The processes are named, and end when the keeper can work again.
func TestKeeperIsNeverKilled(t *testing.T) {
	spec := shell(`echo ready; while :; do sleep 1000; done`)
	spec.Grace, spec.killTime = soon, soon
	p, lines := startReading(t, spec)
	nextLine(t, lines)
	stop(t, p.ID())
	p.Stop(0)
	exit, left := p.Wait(), (*LeftError)(nil)
	if !errors.As(exit.Err, &left) || exit.Code == 0 || len(left.Processes) == 0 {
		t.Fatalf("exit %+v", exit)
	}
	for _, l := range left.Processes {
		if l.Name != "sh" && l.Name != "sleep" ||
			!strings.Contains(exit.Err.Error(), fmt.Sprintf("%d (%s)", l.PID, l.Name)) {
			t.Errorf("left %+v: %v", l, exit.Err)
		}
	}
	select {
	case <-left.Gone:
		t.Error("they are gone")
	default:
	}
	if !p.ID().Alive() {
		t.Error("the keeper was killed")
	}
	if err := unix.Kill(p.ID().PID, unix.SIGCONT); err != nil {
		t.Error(err)
	}
	<-left.Gone
	for _, l := range left.Processes {
		if s, ok := lookUp(l.PID); ok && !s.ended {
			t.Errorf("%d (%s) is still running", l.PID, l.Name)
		}
	}
}

// stop stops a process, and waits until it stands still.
func stop(t *testing.T, id ID) {
	t.Helper()
	must.Succeed(t, unix.Kill(id.PID, unix.SIGSTOP))
	for {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", id.PID))
		must.Succeed(t, err)
		if _, after, _ := strings.Cut(string(text), ") "); strings.HasPrefix(after, "T") {
			return
		}
		time.Sleep(firstPause)
	}
}

// If a keeper was killed together with the process that started it, the control group of the
// program still has everything.
func TestOrphanedControlGroup(t *testing.T) {
	if !Support().Groups {
		t.Skip("needs control groups")
	}
	cmd, id, lines := parent(t, "hide", t.TempDir())
	hidden := identify(t, nextLine(t, lines))
	if id.Group == "" {
		t.Fatal("the program has no control group")
	}
	stop(t, id) // so that it does not end the program first
	killAndReap(t, cmd)
	must.Succeed(t, unix.Kill(id.PID, unix.SIGKILL))
	waitUntilGone(t, id)
	if !hidden.Alive() {
		t.Fatal("the hidden process is not running")
	}
	if _, err := EndOrphan(id, soon); err != nil || hidden.Alive() {
		t.Errorf("it is running: %v, %v", hidden.Alive(), err)
	}
	if _, err := os.Stat(id.Group); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the group: %v", err)
	}
	id.Group = "/sys/fs/cgroup"
	if found, err := EndOrphan(id, soon); found || err != nil {
		t.Errorf("a group of others: %v, %v", found, err)
	}
}
