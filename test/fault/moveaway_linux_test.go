package fault

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"signalbox/internal/config"
)

// TestMoveOutOfClusterAndBack moves the ledger out of a cluster whose only processes run its nodes,
// and back. The cluster needs them for its majority, so they keep running while the ledger is away,
// as does one that starts then, and they work with it when it is back.
func TestMoveOutOfClusterAndBack(t *testing.T) {
	t.Parallel()
	a := emptySite(t)
	others, _ := startOthers(t, a)
	a.init(t)
	for _, s := range []*site{a, others[1]} { // which run workers
		settings, err := os.ReadFile(s.file(config.FileName))
		check(t, err)
		check(t, os.WriteFile(s.file(config.FileName), append(settings, "\nworkspace: shared\n"...),
			0o600))
	}
	others[1].trustPlace(t)
	log := startHost(t, a, "worker", "--roles", "ci", "--plain")
	a.must(t, "work", "open", "one")
	others[0].must(t, "work", "open", "two") // its process has the ledger
	address := servedAt(t, others[0])

	a.must(t, "ledger", "migrate", "--to", "sqlite")
	log.await(t, "only running the node of this machine: the ledger was moved into the folder of the box on ")
	// another process runs the node, which changes nothing
	late := startHost(t, others[1], "worker", "--roles", "ci", "--plain")
	late.await(t, "only running the node of this machine: ")
	late.interrupt(t)
	late = startHost(t, others[1], "worker", "--roles", "ci", "--plain")
	late.await(t, "only running the node of this machine: ")
	a.must(t, "work", "open", "three")

	a.must(t, "ledger", "migrate", "--to", "cluster")
	log.await(t, "the ledger is back in the cluster")
	late.await(t, "the ledger is back in the cluster")
	for i, s := range others {
		s.must(t, "work", "open", fmt.Sprintf("back-%d", i))
	}
	if list := a.must(t, "work", "list"); !strings.Contains(list, "three") ||
		!strings.Contains(list, "back-1") {
		t.Errorf("the work is:\n%s", list)
	}
	if again := servedAt(t, others[0]); again != address {
		t.Errorf("served at %s, and then at %s", address, again)
	}
	if text := log.read(t); strings.Count(text, "only running the node") != 1 {
		t.Errorf("it was not said once that only the node runs:\n%s", text)
	}
}

// servedAt waits until the box of a machine is served, and returns where.
func servedAt(t testing.TB, s *site) string {
	t.Helper()
	for began := time.Now(); time.Since(began) < patience; time.Sleep(20 * time.Millisecond) {
		if address, err := os.ReadFile(s.file("serve.address")); err == nil {
			return string(address)
		}
	}
	t.Fatal("the box is not served")
	return ""
}

// hostLog is a process that runs for long, and what it prints.
type hostLog struct {
	cmd  *exec.Cmd
	name string
	done chan struct{}
}

// startHost starts a process that runs until the test ends.
func startHost(t testing.TB, s *site, args ...string) *hostLog {
	t.Helper()
	file, err := os.CreateTemp(s.home, "host-*.log")
	check(t, err)
	defer file.Close()
	h := &hostLog{s.command(t, args...), file.Name(), make(chan struct{})}
	h.cmd.Stdout, h.cmd.Stderr = file, file
	check(t, h.cmd.Start())
	go func() {
		h.cmd.Wait()
		close(h.done)
	}()
	t.Cleanup(func() {
		h.cmd.Process.Kill()
		<-h.done
		if t.Failed() {
			t.Logf("%v: %v\n%s", h.cmd.Args, h.cmd.ProcessState, h.read(t))
		}
	})
	return h
}

func (h *hostLog) read(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile(h.name)
	check(t, err)
	return string(bytes.TrimSpace(text))
}

// await waits until the process has printed a text. It must not end.
func (h *hostLog) await(t testing.TB, text string) {
	t.Helper()
	for began := time.Now(); ; {
		ended := isClosed(h.done) // what it printed before that is in the log
		switch {
		case strings.Contains(h.read(t), text):
			return
		case ended:
			t.Fatalf("%v ended, and did not print %q", h.cmd.Args, text)
		case time.Since(began) > patience:
			t.Fatalf("%v does not print %q", h.cmd.Args, text)
		}
		select {
		case <-h.done:
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// interrupt stops the process as a person does.
func (h *hostLog) interrupt(t testing.TB) {
	t.Helper()
	check(t, h.cmd.Process.Signal(syscall.SIGINT))
	<-h.done
}
