//go:build linux || darwin

package process

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"signalbox/internal/testkit/must"
)

func TestLeftoverProcessesAreEnded(t *testing.T) {
	for name, script := range map[string]string{
		"one that ends":     `sleep 1000 & echo $!; read -r _; exit 3`,
		"one that does not": `(trap "" TERM; while :; do sleep 1000; done) & echo $!; read -r _; exit 3`,
		"a grandchild":      `(sh -c 'trap "" TERM; echo $$; sleep 1000; sleep 1000' &); read -r _; exit 3`,
	} {
		t.Run(name, func(t *testing.T) {
			spec := shell(script)
			spec.Interactive, spec.Grace = true, soon
			p, lines := startReading(t, spec)
			child := identify(t, nextLine(t, lines))
			if !child.Alive() {
				t.Error("the child is not running")
			}
			if err := p.WriteLine("continue"); err != nil {
				t.Error(err)
			}
			wantExit(t, p.Wait(), 3, "")
			if child.Alive() {
				t.Error("the child is still running")
			}
		})
	}
}

func TestStop(t *testing.T) {
	for _, tt := range []struct {
		name   string
		spec   Spec
		code   int
		signal string
	}{
		{"ends", shell(`echo ready; sleep 1000`), 143, "SIGTERM"},
		{"ends in order", Spec{Argv: []string{os.Args[0], ""},
			Env: append(Environ(), childVariable+"=obey", "GORACE=atexit_sleep_ms=0")}, 7, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, lines := startReading(t, tt.spec)
			nextLine(t, lines)
			var all sync.WaitGroup
			for range 4 {
				all.Go(func() { p.Stop(ample) })
				all.Go(func() { wantExit(t, p.Wait(), tt.code, tt.signal) })
			}
			all.Wait()
			p.Stop(0)
			wantExit(t, p.Wait(), tt.code, tt.signal)
			if p.ID().Alive() {
				t.Error("the program is still running")
			}
		})
	}
}

func TestStopKillsAfterGrace(t *testing.T) {
	const script = `trap '' TERM; (trap '' TERM; echo child; sleep 1000; sleep 1000) & echo ready; while :; do sleep 1000; done`
	spec := shell(script)
	spec.Grace = ample
	p, lines := startReading(t, spec)
	nextLine(t, lines)
	nextLine(t, lines)
	p.Stop(ample)
	p.Stop(soon) // the earliest deadline applies
	p.Stop(ample)
	wantExit(t, p.Wait(), 137, "SIGKILL")
}

func TestStopAtOnce(t *testing.T) {
	p := start(t, shell(`while :; do sleep 1000; done`))
	p.Stop(soon)
	if exit := p.Wait(); exit.Signal == "" {
		t.Errorf("exit %+v", exit)
	}
}

// escape is a script that starts a program outside its group and system session. It needs setsid,
// which only Linux has.
const escape = `setsid sh -c 'trap "" TERM; echo $$; while :; do sleep 1000; done' & read -r _; exit 3`

func TestEscapedProcessIsEnded(t *testing.T) {
	onLinux(t)
	spec := shell(escape)
	spec.Interactive, spec.Grace = true, soon
	spec.Env = append(Environ(), SessionVariable+"="+testSession("1"))
	p, lines := startReading(t, spec)
	escaped := identify(t, nextLine(t, lines))
	other := start(t, Spec{Argv: []string{"sleep", "1000"},
		Env: append(Environ(), SessionVariable+"="+testSession("10"))})
	if err := p.WriteLine("continue"); err != nil {
		t.Error(err)
	}
	wantExit(t, p.Wait(), 3, "")
	if escaped.Alive() {
		t.Error("the escaped process is still running")
	}
	if !other.ID().Alive() {
		t.Error("a process of another session was ended")
	}
	if n, err := EndSession(testSession("10"), ample); n == 0 || err != nil {
		t.Errorf("ended %d, %v", n, err)
	}
	wantExit(t, other.Wait(), 143, "SIGTERM")
	if n, err := EndSession("", soon); n != 0 || err != nil {
		t.Errorf("without a session: ended %d, %v", n, err)
	}
}

// A process that left the group, the system session and the session of signalbox, and whose parents
// are gone, is ended too.
func TestHiddenProcessIsEnded(t *testing.T) {
	onLinux(t)
	spec := shell(hide + `read -r _; echo last; exit 3`)
	spec.Interactive, spec.Grace = true, soon
	p, lines := startReading(t, spec)
	hidden := identify(t, nextLine(t, lines))
	if !hidden.Alive() {
		t.Fatal("the hidden process is not running")
	}
	if err := p.WriteLine("continue"); err != nil {
		t.Error(err)
	}
	if got := nextLine(t, lines); got != "last" {
		t.Errorf("output %q", got)
	}
	wantExit(t, p.Wait(), 3, "")
	if hidden.Alive() {
		t.Error("the hidden process is still running")
	}
}

// If the process that started a program is killed, the program ends with everything that it
// started, hidden or not.
func TestNothingSurvivesItsParent(t *testing.T) {
	onLinux(t)
	cmd, id, lines := parent(t, "hide", t.TempDir())
	hidden := identify(t, nextLine(t, lines))
	killAndReap(t, cmd)
	waitUntilGone(t, id)
	waitUntilGone(t, hidden)
}

func TestParentKilledBeforeGateOpens(t *testing.T) {
	dir := t.TempDir()
	cmd, id, _ := parent(t, "hesitate", dir)
	if !id.Alive() {
		t.Error("the gate is not running")
	}
	killAndReap(t, cmd)
	waitUntilGone(t, id)
	if _, err := os.Stat(filepath.Join(dir, "ran")); err == nil {
		t.Error("the program ran")
	}
}

func TestOrphan(t *testing.T) {
	dir := t.TempDir()
	cmd, id, lines := parent(t, "run", dir)
	if got := nextLine(t, lines); got != "ready" {
		t.Fatalf("the program printed %q", got)
	}
	endLater(t, cmd) // on Linux the program would end with it
	for _, other := range []ID{{PID: id.PID, Started: id.Started + "1"}, {PID: id.PID},
		{Started: id.Started}, {PID: -1, Started: id.Started}} {
		if found, err := EndOrphan(other, soon); found || err != nil || other.Alive() ||
			!id.Alive() {
			t.Errorf("%+v: found %v, %v", other, found, err)
		}
	}
	if found, err := EndOrphan(id, soon); !found || err != nil || id.Alive() {
		t.Errorf("found %v, %v", found, err)
	}
	waitUntilGone(t, id)
}

// If an orphan has ended, the rest of its group is ended, even processes without a session.
func TestOrphanedGroup(t *testing.T) {
	cmd := exec.Command("sh", "-c", "sleep 1000 & echo $!; env -i sleep 1000 & echo $!; read -r _")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Env = append(Environ(), SessionVariable+"="+testSession("1"))
	in, noInput := cmd.StdinPipe()
	out, err := cmd.StdoutPipe()
	must.Succeed(t, errors.Join(noInput, err, cmd.Start()))
	lines := bufio.NewReader(out)
	left := []ID{identify(t, nextLine(t, lines)), identify(t, nextLine(t, lines))}
	leader := identify(t, strconv.Itoa(cmd.Process.Pid))
	t.Cleanup(func() { syscall.Kill(-leader.PID, syscall.SIGKILL) })
	in.Close()
	cmd.Wait()
	if _, there := lookUp(leader.PID); there || !left[0].Alive() || !left[1].Alive() {
		t.Fatal("the leader is still running, or its group is not")
	}
	if found, err := EndOrphan(leader, soon); !found || err != nil || left[0].Alive() ||
		left[1].Alive() {
		t.Errorf("found %v, %v", found, err)
	}
	if found, err := EndOrphan(leader, soon); found || err != nil {
		t.Errorf("found again: %v, %v", found, err)
	}
}

// A group without a session is not touched: its id may have been reused.
func TestReusedGroupID(t *testing.T) {
	onLinux(t)
	cmd := exec.Command("sh", "-c", "sleep 1000 & echo $!")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Env = Environ()
	out, err := cmd.StdoutPipe()
	must.Succeed(t, errors.Join(err, cmd.Start()))
	t.Cleanup(func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	left := identify(t, nextLine(t, bufio.NewReader(out)))
	cmd.Wait()
	if found, err := EndOrphan(ID{PID: cmd.Process.Pid, Started: left.Started}, soon); found ||
		err != nil || !left.Alive() {
		t.Errorf("found %v, %v", found, err)
	}
}

func TestOrphansOfASession(t *testing.T) {
	onLinux(t)
	dir := t.TempDir()
	cmd, id, lines := parent(t, "run", dir)
	nextLine(t, lines)
	endLater(t, cmd)
	if n, err := EndSession("test-"+filepath.Base(dir), soon); n == 0 || err != nil || id.Alive() {
		t.Errorf("ended %d, %v", n, err)
	}
}

// The programs of a nested session end with the outer session, and not the other way round.
func TestNestedSession(t *testing.T) {
	onLinux(t)
	t.Setenv(SessionVariable, testSession("2"))
	own := NestedSession("tool-1")
	outer := start(t, Spec{Argv: []string{"sleep", "1000"},
		Env: append(Environ(), SessionVariable+"="+testSession("2"))})
	inner := start(t, Spec{Argv: []string{"sleep", "1000"},
		Env: append(Environ(), SessionVariable+"="+own)})
	another := start(t, Spec{Argv: []string{"sleep", "1000"},
		Env: append(Environ(), SessionVariable+"="+testSession("20"))})
	if n, err := EndSession(own, ample); n == 0 || err != nil || !outer.ID().Alive() {
		t.Errorf("ended %d, %v", n, err)
	}
	wantExit(t, inner.Wait(), 143, "SIGTERM")
	inner = start(t, Spec{Argv: []string{"sleep", "1000"},
		Env: append(Environ(), SessionVariable+"="+own)})
	if n, err := EndSession(testSession("2"), ample); n < 2 || err != nil || !another.ID().Alive() {
		t.Errorf("ended %d, %v", n, err)
	}
	wantExit(t, outer.Wait(), 143, "SIGTERM")
	wantExit(t, inner.Wait(), 143, "SIGTERM")
	t.Setenv(SessionVariable, "")
	if got := NestedSession("tool-1"); got != "tool-1" {
		t.Errorf("without an outer session it is %q", got)
	}
}

// testSession returns a session of this process only: another run of the tests on this machine must
// not end its programs.
func testSession(name string) string { return fmt.Sprintf("w-%d.%s", os.Getpid(), name) }

func onLinux(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the environment of other processes can be read only on Linux")
	}
}
