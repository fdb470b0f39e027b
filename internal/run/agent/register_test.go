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
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox"
	"signalbox/internal/process"
)

// childVariable makes this test binary an owner of agents, as another process.
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

// report is what the other process says about itself.
type report struct {
	Owner  string
	Agents []process.ID
}

// own joins a register, starts two agents and a third that ends, says so, and does nothing more.
func own(dir string) error {
	owner, err := Join(dir)
	if err != nil {
		return err
	}
	said := report{Owner: owner.ID()}
	for i, script := range []string{`trap "" TERM; while :; do sleep 1000; done`, `exit 0`, `sleep 1000`} {
		session := fmt.Sprintf("%s.%d", owner.ID(), i)
		spec, _, err := Command{Argv: []string{"sh", "-c", script}}.Build(Fill{Session: session})
		if err != nil {
			return err
		}
		p, err := process.Start(spec, func(id process.ID) error { return owner.Add(session, id) })
		if err != nil {
			return err
		}
		if script == "exit 0" {
			p.Wait()
			owner.Remove(session)
			continue
		}
		said.Agents = append(said.Agents, p.ID())
	}
	if err := json.NewEncoder(os.Stdout).Encode(said); err != nil {
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
	if err := errors.Join(noInput, err); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var said report
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err := errors.Join(err, json.Unmarshal(line, &said)); err != nil {
		t.Fatalf("the other process says %q: %v", line, err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		for _, id := range said.Agents {
			process.EndOrphan(id, soon)
		}
	})
	return cmd, said
}

func kill(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
}

func alive(agents []process.ID) (n int) {
	for _, id := range agents {
		if id.Alive() {
			n++
		}
	}
	return n
}

func files(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

func TestAgentsOfAKilledOwner(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "register")
	mine, err := Join(dir)
	if err != nil {
		t.Fatal(err)
	}
	cmd, other := owner(t, dir)
	if n, err := ReapOrphans(dir, soon, func(owner string) error { return fmt.Errorf("%s lives", owner) }); n != 0 || err != nil || alive(other.Agents) != 2 {
		t.Errorf("of owners that live: ended %d, %v, %d agents left", n, err, alive(other.Agents))
	}
	kill(t, cmd)
	if alive(other.Agents) != 2 {
		t.Fatal("the agents ended with their owner, and this test tries nothing")
	}

	busy := errors.New("the journal is busy")
	var released []string
	n, err := ReapOrphans(dir, soon, func(owner string) error {
		released = append(released, owner)
		if left := alive(other.Agents); left != 0 {
			t.Errorf("released while %d agents run", left)
		}
		return busy
	})
	if n != 2 || !errors.Is(err, busy) {
		t.Errorf("ended %d, %v", n, err)
	}
	for range 2 { // the second time there is nothing to do
		if n, err := ReapOrphans(dir, soon, func(owner string) error { released = append(released, owner); return nil }); n != 0 || err != nil {
			t.Errorf("ended %d, %v", n, err)
		}
	}
	if diff := cmp.Diff([]string{other.Owner, other.Owner}, released); diff != "" {
		t.Errorf("released (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{mine.ID() + suffix}, files(t, dir)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if err := mine.Leave(); err != nil || files(t, dir) != nil {
		t.Errorf("left: %v, %v", err, files(t, dir))
	}
}

func TestOneReleaseOfSeveralAtOnce(t *testing.T) {
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
	if released != 1 || ended != 2 {
		t.Errorf("released %d times, ended %d", released, ended)
	}
}

// TestJoinAmongTheReapOrphans has owners come while others clear up: none may lose its place.
func TestJoinAmongTheReapOrphans(t *testing.T) {
	dir := t.TempDir()
	var all sync.WaitGroup
	stop := make(chan struct{})
	var clearing sync.WaitGroup
	clearing.Go(func() {
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
	clearing.Wait()
}

func TestLeavingAgentsBehind(t *testing.T) {
	dir := t.TempDir()
	o, err := Join(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := signalbox.CheckID(o.ID() + ".1"); err != nil || !strings.HasPrefix(o.ID(), "w-") {
		t.Errorf("id %s: %v", o.ID(), err)
	}
	p, err := process.Start(process.Spec{Argv: []string{"sleep", "1000"}}, func(id process.ID) error { return o.Add("s.1", id) })
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	defer o.Leave()
	one, two := process.ID{PID: 1, Started: "x"}, process.ID{PID: 2, Started: "y"}
	wantNoted := func(want map[string][]process.ID) {
		t.Helper()
		text, err := os.ReadFile(o.name)
		if err != nil {
			t.Fatal(err)
		}
		// A process killed while it writes leaves the beginning of a line.
		if diff := cmp.Diff(want, running(append(text, `{"session":"s.9","pi`...))); diff != "" {
			t.Errorf("noted (-want +got):\n%s", diff)
		}
	}
	note := func(session string, id process.ID) {
		if err := o.Add(session, id); err != nil {
			t.Error(err)
		}
	}
	wantNoted(map[string][]process.ID{})
	note("s.1", one)
	note("s.2", one)
	note("s.2", two)
	wantNoted(map[string][]process.ID{"s.1": {one}, "s.2": {one, two}})
	o.Remove("s.2")
	wantNoted(map[string][]process.ID{"s.1": {one}})
	o.Remove("s.1")
	if info, err := os.Stat(o.name); err != nil || info.Size() != 0 {
		t.Errorf("an owner without agents: %v, %v", info, err)
	}
	note("s.3", two)
	wantNoted(map[string][]process.ID{"s.3": {two}})
	o.Remove("s.3")
}

func TestRegisterThatIsNotThere(t *testing.T) {
	dir := t.TempDir()
	if n, err := ReapOrphans(filepath.Join(dir, "gone"), soon, nil); n != 0 || err != nil {
		t.Errorf("ended %d, %v", n, err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Join(file); err == nil {
		t.Error("joined a file")
	}
	if _, err := ReapOrphans(file, soon, nil); err == nil {
		t.Error("read a file")
	}
}
