package fault

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"signalbox/internal/core/rules"
)

// longLease is longer than a test waits.
const longLease = "lease:\n  ttl: 1h\n"

// stopGrowth makes every append of a run fail, as on a full disk: its files must not grow beyond
// the size that the write-ahead log has now. Unlike on a full disk, no other file that is removed
// makes room.
func (r *crewProcess) stopGrowth() {
	r.t.Helper()
	info, err := os.Stat(r.fixture.file("ledger.db-wal"))
	check(r.t, err)
	r.limitFiles(uint64(info.Size()))
}

func (r *crewProcess) limitFiles(size uint64) {
	r.t.Helper()
	check(r.t, unix.Prlimit(r.cmd.Process.Pid, unix.RLIMIT_FSIZE,
		&unix.Rlimit{Cur: size, Max: unix.RLIM_INFINITY}, nil))
}

// TestRunStoppedOnFullDisk interrupts a run that cannot record that it releases its work. When
// there is space again, the next run releases the work at once, and does not wait until the lease
// expires.
func TestRunStoppedOnFullDisk(t *testing.T) {
	f := newFixture(t, scenario{plan: planOf("T1"), settings: longLease,
		script: "on developer T1 attempt 1:\n    hang\n" + goodAgents})
	run := f.startRun(t)
	run.await(0, "the agent", ofType(rules.TypeAgentStarted, "T1"))
	run.until("the agent runs", func() bool { return len(f.processes()) > 0 })
	run.stopGrowth()
	check(t, run.cmd.Process.Signal(syscall.SIGINT))
	<-run.ended
	if released := all[rules.LeaseReleased](f.events(t), rules.TypeLeaseReleased,
		"T1"); len(released) > 0 {
		t.Fatalf("the disk was not full: %+v", released)
	}
	f.startRun(t).end(0)
	f.checkDone(t, "T1")
	if released := all[rules.LeaseReleased](f.events(t), rules.TypeLeaseReleased,
		"T1"); released[0].Reason != "its process is gone" {
		t.Errorf("the lease was released because %q", released[0].Reason)
	}
}

// TestRunFailsOnFullDisk lets an agent finish while its output cannot be recorded. When there is
// space again, the same run continues with the work, and does not wait until the lease expires.
func TestRunFailsOnFullDisk(t *testing.T) {
	f := newFixture(t, scenario{plan: planOf("T1"), settings: longLease,
		script: "on developer T1 attempt 1:\n    wait for $DIARY/go\n    say done\n" + goodAgents})
	run := f.startRun(t)
	run.await(0, "the agent", ofType(rules.TypeAgentStarted, "T1"))
	run.until("the agent runs", func() bool { return len(f.processes()) > 0 })
	run.stopGrowth()
	check(t, os.WriteFile(filepath.Join(string(f.diary), "go"), nil, 0o600))
	run.until("it cannot record the end of the agent",
		func() bool { return matches("*cannot record a failure; trying again*", run.output()) })
	run.limitFiles(unix.RLIM_INFINITY)
	run.end(0)
	f.checkDone(t, "T1")
}
