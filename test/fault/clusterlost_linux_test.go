package fault

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// TestClusterLosesEvents makes a cluster lose events that it has acknowledged: while one machine is down, the other two store events; one of these
// is killed, and the disk of the other is set back. What remains is a majority that knows nothing of the events. The machines that applied them
// must notice and write nothing.
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
	signal(t, hosts[1], syscall.SIGSTOP)
	old := t.TempDir()
	check(t, os.CopyFS(old, os.DirFS(b.file("cluster"))))
	signal(t, hosts[1], syscall.SIGCONT)

	kill := func(host *exec.Cmd) {
		check(t, host.Process.Kill())
		host.Wait()
	}
	kill(hosts[2]) // a process that is only paused has received events when it continues
	a.must(t, "work", "open", "lost-1")
	b.must(t, "work", "open", "lost-2")
	kill(hosts[0])
	kill(hosts[1])
	check(t, os.RemoveAll(b.file("cluster")))
	check(t, os.CopyFS(b.file("cluster"), os.DirFS(old)))
	b.host(t)
	c.host(t)

	checkLossIsRefused(t, b)
	a.host(t)
	checkLossIsRefused(t, a)
	for _, s := range []*site{a, b} { // nothing was written
		if list := s.run(t, "work", "list").stdout; !strings.Contains(list, "three") || strings.Contains(list, "lost-1") || strings.Contains(list, "more") {
			t.Errorf("the work is:\n%s", list)
		}
	}
}

// checkLossIsRefused checks that a machine that applied event 5, and perhaps 6, refuses a ledger that ends before them.
func checkLossIsRefused(t *testing.T, s *site) {
	t.Helper()
	r := s.run(t, "work", "open", "more")
	if r.status != 5 || !strings.Contains(r.stderr, "missing: this machine has applied") || !strings.Contains(r.stderr, "lost-1") {
		t.Errorf("work open: exit status %d\n%s", r.status, r.stderr)
	}
	r = s.run(t, "ledger", "verify")
	if r.status != 5 || !strings.Contains(r.stderr, "lost-1") {
		t.Errorf("ledger verify: exit status %d\n%s", r.status, r.stderr)
	}
}

func signal(t testing.TB, cmd *exec.Cmd, s syscall.Signal) {
	t.Helper()
	check(t, cmd.Process.Signal(s))
}
