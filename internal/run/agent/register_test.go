//go:build linux || darwin

package agent

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox"
	"signalbox/internal/process"
	"signalbox/internal/testkit/must"
)

// childVariable makes this test binary another process that owns agents.
const childVariable = "AGENT_TEST_CHILD"

const soon = time.Millisecond

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) == "" {
		os.Exit(m.Run())
	}
	if err := own(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// report is what the other process prints.
type report struct {
	Owner   string
	Agents  []process.ID
	Escaped int // pid of a process in another group and system session
}

// own joins a register, starts two agents and a third that ends, prints a report, and waits. The
// second agent has started a process that left its group.
func own(dir string) error {
	owner, err := Join(dir)
	if err != nil {
		return err
	}
	r := report{Owner: owner.ID()}
	for i, script := range []string{`trap "" TERM; while :; do sleep 1000; done`, `exit 0`,
		`setsid sh -c 'echo $$; exec sleep 1000' & sleep 1000`} {
		session := fmt.Sprintf("%s.%d", owner.ID(), i)
		spec, _, err := Command{Argv: []string{"sh", "-c", script}}.Build(Values{Session: session,
			Base: process.Environ()})
		if err != nil {
			return err
		}
		stdout, w := io.Pipe()
		spec.Stdout = w
		p, err := process.Start(spec, func(id process.ID) error { return owner.Add(session, id) })
		if err != nil {
			return err
		}
		if script == "exit 0" {
			p.Wait()
			owner.Remove(session)
			continue
		}
		if strings.Contains(script, "setsid") && runtime.GOOS == "linux" {
			if _, err := fmt.Fscan(stdout, &r.Escaped); err != nil {
				return err
			}
		}
		r.Agents = append(r.Agents, p.ID())
	}
	if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// owner starts another process that owns agents.
func owner(t *testing.T, dir string) (*exec.Cmd, report) {
	t.Helper()
	cmd := exec.Command(os.Args[0], dir)
	cmd.Env = append(os.Environ(), childVariable+"=own", "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = os.Stderr
	_, noInput := cmd.StdinPipe()
	stdout, err := cmd.StdoutPipe()
	must.Succeed(t, errors.Join(noInput, err))
	must.Succeed(t, cmd.Start())
	var r report
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err := errors.Join(err, json.Unmarshal(line, &r)); err != nil {
		t.Fatalf("the other process printed %q: %v", line, err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		for _, id := range r.Agents {
			process.EndOrphan(id, soon)
		}
	})
	return cmd, r
}

func kill(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	must.Succeed(t, cmd.Process.Kill())
	cmd.Wait()
}

// isRunning reports whether a process of another parent is running. Linux only.
func isRunning(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

func alive(agents []process.ID) (n int) {
	for _, id := range agents {
		if id.Alive() {
			n++
		}
	}
	return n
}

// files returns the names of the files in a register, except the one that names the machine of
// it.
func files(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must.Succeed(t, err)
	for _, entry := range entries {
		if entry.Name() != machineName {
			names = append(names, entry.Name())
		}
	}
	return names
}

func TestReapOrphans(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "register")
	mine, err := Join(dir)
	must.Succeed(t, err)
	cmd, other := owner(t, dir)
	if n, err := ReapOrphans(dir, soon,
		func(owner string) error { return fmt.Errorf("%s is running", owner) }); n != 0 ||
		err != nil || alive(other.Agents) != 2 {
		t.Errorf("with running owners: ended %d, %v, %d agents left", n, err, alive(other.Agents))
	}
	kill(t, cmd)
	// On Linux the agents end with their owner, by themselves.
	if runtime.GOOS != "linux" && alive(other.Agents) != 2 {
		t.Fatal("the agents ended with their owner")
	}

	busy := errors.New("the journal is busy")
	var released []string
	n, err := ReapOrphans(dir, soon, func(owner string) error {
		released = append(released, owner)
		if left := alive(other.Agents); left != 0 {
			t.Errorf("released while %d agents are running", left)
		}
		if runtime.GOOS == "linux" && isRunning(other.Escaped) {
			t.Error("released while an escaped process is running")
		}
		return busy
	})
	if runtime.GOOS != "linux" && n != 2 || !errors.Is(err, busy) {
		t.Errorf("ended %d, %v", n, err)
	}
	for range 2 { // the second time there is nothing to do
		if n, err := ReapOrphans(dir, soon,
			func(owner string) error { released = append(released, owner); return nil }); n != 0 ||
			err != nil {
			t.Errorf("ended %d, %v", n, err)
		}
	}
	if diff := cmp.Diff([]string{other.Owner, other.Owner}, released); diff != "" {
		t.Errorf("released (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{mine.ID() + ownerSuffix}, files(t, dir)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if err := mine.Leave(); err != nil || files(t, dir) != nil {
		t.Errorf("left: %v, %v", err, files(t, dir))
	}
}

func TestConcurrentReapersReleaseOnce(t *testing.T) {
	dir := t.TempDir()
	cmd, _ := owner(t, dir)
	kill(t, cmd)
	var all sync.WaitGroup
	var mu sync.Mutex
	var released, ended int
	for range 8 {
		all.Go(func() {
			n, err := ReapOrphans(dir, soon, func(string) error {
				mu.Lock()
				defer mu.Unlock()
				released++
				return nil
			})
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			ended += n
		})
	}
	all.Wait()
	// On Linux the agents end with their owner, by themselves, perhaps before they are found.
	if released != 1 || ended > 2 || runtime.GOOS != "linux" && ended != 2 {
		t.Errorf("released %d times, ended %d", released, ended)
	}
}

// Owners that join while others reap must not lose their files.
func TestJoinDuringReap(t *testing.T) {
	dir := t.TempDir()
	var all sync.WaitGroup
	stop := make(chan struct{})
	var reaping sync.WaitGroup
	reaping.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if _, err := ReapOrphans(dir, soon, func(string) error { return nil }); err != nil {
				t.Error(err)
			}
		}
	})
	for range 4 {
		all.Go(func() {
			for range 100 {
				o, err := Join(dir)
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := os.Stat(o.name); err != nil {
					t.Error(err)
				}
				if err := o.Leave(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	close(stop)
	reaping.Wait()
}

// The ids of owners identify those on one machine.
func TestOwnersOfMachines(t *testing.T) {
	join := func(dir string) string {
		t.Helper()
		o, err := Join(dir)
		must.Succeed(t, err)
		t.Cleanup(func() { o.Leave() })
		return o.ID() + ".1"
	}
	here, there := t.TempDir(), t.TempDir()
	for dir, digits := range map[string]string{here: "a1b2", there: "c3d4"} {
		must.Succeed(t, os.WriteFile(filepath.Join(dir, machineName), []byte(digits), 0o600))
	}
	first, second, other, fresh := join(here), join(here), join(there), t.TempDir()
	if a, b, c := MachineOf(first), MachineOf(second), MachineOf(other); a != "a1b2" || b != a ||
		c != "c3d4" || first == second {
		t.Errorf("%s is on %s, %s on %s, %s on %s", first, a, second, b, other, c)
	}
	if a, b := MachineOf(join(fresh)), MachineOf(join(fresh)); a != b || a == "" {
		t.Errorf("processes of one machine are on %q and %q", a, b)
	}
	for _, session := range []string{"", "dev", "w-1f2e3d4c5b6a.2", "x-a1b21f2e3d4c5b6a.2",
		"w-zzzz1f2e3d4c5b6a.2"} {
		if got := MachineOf(session); got != "" {
			t.Errorf("%s is on %s", session, got)
		}
	}
}

func TestLeaveWithRunningAgents(t *testing.T) {
	dir := t.TempDir()
	o, err := Join(dir)
	must.Succeed(t, err)
	if err := signalbox.CheckID(o.ID() + ".1"); err != nil || !strings.HasPrefix(o.ID(), "w-") {
		t.Errorf("id %s: %v", o.ID(), err)
	}
	p, err := process.Start(process.Spec{Argv: []string{"sleep", "1000"}},
		func(id process.ID) error { return o.Add("s.1", id) })
	must.Succeed(t, err)
	defer p.Stop(0)
	if err := o.Leave(); err != nil {
		t.Error(err)
	}
	if n, err := ReapOrphans(dir, soon, func(string) error { return nil }); n != 1 || err != nil {
		t.Errorf("ended %d, %v", n, err)
	}
	if exit := p.Wait(); exit.Signal == "" {
		t.Errorf("exit %+v", exit)
	}
}

func TestOwnersFile(t *testing.T) {
	dir := t.TempDir()
	o, err := Join(dir)
	must.Succeed(t, err)
	defer o.Leave()
	one, two := process.ID{PID: 1, Started: "x"}, process.ID{PID: 2, Started: "y"}
	wantEntries := func(want map[string][]process.ID) {
		t.Helper()
		text, err := os.ReadFile(o.name)
		must.Succeed(t, err)
		// A process that is killed while it writes leaves an incomplete line.
		if diff := cmp.Diff(want, parseOwner(append(text, `{"session":"s.9","pi`...))); diff != "" {
			t.Errorf("entries (-want +got):\n%s", diff)
		}
	}
	add := func(session string, id process.ID) {
		if err := o.Add(session, id); err != nil {
			t.Error(err)
		}
	}
	wantEntries(map[string][]process.ID{})
	add("s.1", one)
	add("s.2", one)
	add("s.2", two)
	wantEntries(map[string][]process.ID{"s.1": {one}, "s.2": {one, two}})
	o.Remove("s.2")
	wantEntries(map[string][]process.ID{"s.1": {one}})
	o.Remove("s.1")
	if info, err := os.Stat(o.name); err != nil || info.Size() != 0 {
		t.Errorf("an owner without agents: %v, %v", info, err)
	}
	add("s.3", two)
	wantEntries(map[string][]process.ID{"s.3": {two}})
	o.Remove("s.3")
}

func TestMissingRegister(t *testing.T) {
	dir := t.TempDir()
	if n, err := ReapOrphans(filepath.Join(dir, "gone"), soon, nil); n != 0 || err != nil {
		t.Errorf("ended %d, %v", n, err)
	}
	file := filepath.Join(dir, "file")
	must.Succeed(t, os.WriteFile(file, nil, 0o600))
	if _, err := Join(file); err == nil {
		t.Error("joined a file")
	}
	if _, err := ReapOrphans(file, soon, nil); err == nil {
		t.Error("read a file")
	}
}

// An owner's leases are not released while one of its agents cannot be ended.
func TestReapOwnerThatCannotBeEnded(t *testing.T) {
	dir := t.TempDir()
	o, err := Join(dir)
	must.Succeed(t, err)
	must.Succeed(t, errors.Join(o.Add("s.1", process.ID{PID: 1, Started: "x"}), o.Leave()))
	stuck := errors.New("it does not end")
	released := 0
	release := func() error { released++; return nil }
	_, err = reapOwner(o.name, func(map[string][]process.ID) (int, error) { return 0, stuck },
		release)
	if !errors.Is(err, stuck) || released != 0 || len(files(t, dir)) != 1 {
		t.Errorf("released %d times, files %v: %v", released, files(t, dir), err)
	}
	n, err := reapOwner(o.name, func(agents map[string][]process.ID) (int,
		error) {
		return len(agents), nil
	}, release)
	if n != 1 || err != nil || released != 1 || files(t, dir) != nil {
		t.Errorf("ended %d, released %d times, files %v: %v", n, released, files(t, dir), err)
	}
}

// What a process abandons is released by the next one that reaps.
func TestAbandon(t *testing.T) {
	dir := t.TempDir()
	o, err := Join(dir)
	must.Succeed(t, err)
	reap := func() (released []string) {
		t.Helper()
		_, err := ReapOrphans(dir, 0, func(owner string) error {
			released = append(released, owner)
			return nil
		})
		must.Succeed(t, err)
		return released
	}
	if released := reap(); released != nil {
		t.Errorf("a running owner was reaped: %v", released)
	}
	must.Succeed(t, o.Abandon())
	if released := reap(); len(released) != 1 || released[0] != o.ID() {
		t.Errorf("released %v, want %s", released, o.ID())
	}
	if released := reap(); released != nil {
		t.Errorf("released again: %v", released)
	}
}

// Crews reports who runs, with its agents, and who was killed, and changes nothing.
func TestCrewsOfARegister(t *testing.T) {
	dir := t.TempDir()
	if crews, err := Crews(filepath.Join(dir, "none")); err != nil || len(crews) != 0 {
		t.Fatalf("without a register: %v, %v", crews, err)
	}
	cmd, r := owner(t, dir)
	want := []Crew{{ID: r.Owner, Alive: true, Sessions: []string{r.Owner + ".0", r.Owner + ".2"}}}
	for range 2 {
		crews, err := Crews(dir)
		if diff := cmp.Diff(want, crews); err != nil || diff != "" {
			t.Fatalf("while it runs (-want +got): %v\n%s", err, diff)
		}
	}
	cmd.Process.Kill()
	cmd.Wait()
	WaitForExit(dir, r.Owner)
	want[0].Alive = false
	for range 2 {
		crews, err := Crews(dir)
		if diff := cmp.Diff(want, crews); err != nil || diff != "" {
			t.Fatalf("after it was killed (-want +got): %v\n%s", err, diff)
		}
	}
	if _, err := ReapOrphans(dir, soon, func(string) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if crews, err := Crews(dir); err != nil || len(crews) != 0 || alive(r.Agents) != 0 {
		t.Errorf("after it was reaped: %v, %v, %d agents left", crews, err, alive(r.Agents))
	}
}
