package fault

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestClusterLosesEvents makes a cluster lose events that it has acknowledged: while one machine is
// down, the other two store events; one of these is killed, and the disk of the other is set back.
// What remains is a majority that knows nothing of the events. The machines that applied them must
// notice and write nothing.
func TestClusterLosesEvents(t *testing.T) {
	t.Parallel()
	a := emptySite(t)
	others, hosts := startOthers(t, a)
	b, c := others[0], others[1]
	a.init(t)
	hosts = append([]*exec.Cmd{a.host(t)}, hosts...)
	for i, s := range []*site{a, b, c} {
		s.must(t, "work", "open", []string{"one", "two", "three"}[i])
	}
	pause(t, hosts[1])
	old := copyNode(t, b)
	check(t, hosts[1].Process.Signal(syscall.SIGCONT))

	kill(t, hosts[2]) // a process that is only paused has received events when it continues
	awaitMajority(t, a)
	a.must(t, "work", "open", "lost-1")
	b.must(t, "work", "open", "lost-2")
	kill(t, hosts[0])
	kill(t, hosts[1])
	setBackNode(t, b, old)
	b.host(t)
	c.host(t)

	awaitMajority(t, b)
	checkLossIsRefused(t, b)
	a.host(t)
	checkLossIsRefused(t, a)
	for _, s := range []*site{a, b} { // nothing was written
		if list := s.run(t, "work", "list").stdout; !strings.Contains(list, "three") ||
			strings.Contains(list, "lost-1") || strings.Contains(list, "more") {
			t.Errorf("the work is:\n%s", list)
		}
	}
}

// TestAcceptLossInCluster sets the disks of all machines of a cluster back, after each of them
// applied events that are then missing. The processes of the machines stay to run their nodes, so
// that each machine can accept the loss, and then continue.
func TestAcceptLossInCluster(t *testing.T) {
	t.Parallel()
	a := emptySite(t)
	others, hosts := startOthers(t, a)
	a.init(t)
	sites, hosts := append(others, a), append(hosts, a.host(t))
	for i, s := range sites {
		s.must(t, "work", "open", fmt.Sprintf("kept-%d", i))
	}
	for _, host := range hosts {
		pause(t, host)
	}
	var old []string
	for _, s := range sites {
		old = append(old, copyNode(t, s))
	}
	for _, host := range hosts {
		check(t, host.Process.Signal(syscall.SIGCONT))
	}
	awaitMajority(t, a)
	for i, s := range sites {
		s.must(t, "work", "open", fmt.Sprintf("lost-%d", i+1))
	}
	for i, s := range sites {
		kill(t, hosts[i])
		setBackNode(t, s, old[i])
	}

	var logs []*hostLog
	for _, s := range sites {
		logs = append(logs, startHost(t, s, "serve", "--listen", "127.0.0.1:0"))
	}
	for i, s := range sites {
		// 5, and those of others that its process has applied
		logs[i].await(t, "only running the node of this machine: event")
		// also by a machine that has not accepted what others have
		checkLossIsRefused(t, s)
		s.must(t, "ledger", "accept-loss", "--yes")
		logs[i].await(t, "serving the dashboard at ")
	}
	for i, s := range sites {
		s.must(t, "work", "open", fmt.Sprintf("after-%d", i))
		s.must(t, "ledger", "verify")
	}
	if list := a.must(t, "work", "list"); !strings.Contains(list, "kept-2") ||
		!strings.Contains(list, "after-2") || strings.Contains(list, "lost-") {
		t.Errorf("the work is:\n%s", list)
	}
}

// awaitMajority waits until most nodes of the cluster of a machine have started and have a leader.
// A single command does not wait as long as a slow machine may take for that.
func awaitMajority(t testing.TB, s *site) {
	t.Helper()
	for began := time.Now(); ; {
		r := s.run(t, "work", "list")
		if r.status != 1 {
			return
		}
		if time.Since(began) > patience {
			t.Fatalf("the cluster has no majority:\n%s", r.stderr)
		}
	}
}

func kill(t testing.TB, host *exec.Cmd) {
	t.Helper()
	check(t, host.Process.Kill())
	host.Wait()
}

// copyNode copies the data of the node of a machine, which must not run.
func copyNode(t testing.TB, s *site) (folder string) {
	t.Helper()
	folder = t.TempDir()
	check(t, os.CopyFS(folder, os.DirFS(s.file("cluster"))))
	return folder
}

// setBackNode puts what copyNode returned in the place of the data of the node.
func setBackNode(t testing.TB, s *site, folder string) {
	t.Helper()
	check(t, os.RemoveAll(s.file("cluster")))
	check(t, os.CopyFS(s.file("cluster"), os.DirFS(folder)))
}

// checkLossIsRefused checks that a machine that applied event 5, and perhaps 6, refuses a ledger
// that ends before them.
func checkLossIsRefused(t *testing.T, s *site) {
	t.Helper()
	r := s.run(t, "work", "open", "more")
	if r.status != 5 || !strings.Contains(r.stderr, "missing: this machine has applied") ||
		!strings.Contains(r.stderr, "lost-1") {
		t.Errorf("work open: exit status %d\n%s", r.status, r.stderr)
	}
	r = s.run(t, "ledger", "verify")
	if r.status != 5 || !strings.Contains(r.stderr, "lost-1") {
		t.Errorf("ledger verify: exit status %d\n%s", r.status, r.stderr)
	}
}

// pause stops a process, and waits until all its threads have stopped: until then it changes its
// files.
func pause(t testing.TB, host *exec.Cmd) {
	t.Helper()
	check(t, host.Process.Signal(syscall.SIGSTOP))
	var status syscall.WaitStatus
	for {
		_, err := syscall.Wait4(host.Process.Pid, &status, syscall.WUNTRACED, nil)
		if err == syscall.EINTR {
			continue
		}
		if check(t, err); !status.Stopped() {
			t.Fatalf("%v ended: %v", host.Args, status)
		}
		return
	}
}
