package fault

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// TestForgedLargeEvent puts a row of 150 MB, or hundreds of rows of the maximum size, into the
// ledger. Every command that reads them must fail with bounded memory, and verify must name the
// event.
func TestForgedLargeEvent(t *testing.T) {
	const maxPeak = 120 << 20
	commands := [][]string{
		{"ledger", "verify"}, {"ledger", "tail", "-n", "0"}, {"ledger", "export"}, {"backup", "-"},
		{"work", "list"}, {"work", "open", "more"}, {"doctor"},
	}
	for _, tt := range []struct {
		name      string
		statement string
		firstBad  uint64
		reason    string
		commands  [][]string
	}{
		{"data", "UPDATE events SET data = zeroblob(150000000) WHERE seq = 100", 100,
			"the maximum size of an event", commands},
		{"data of the last", "UPDATE events SET data = zeroblob(150000000) WHERE seq = 200", 200,
			"the maximum size of an event", commands[:1]},
		{"actor", "UPDATE events SET actor = CAST(zeroblob(150000000) AS TEXT) WHERE seq = 100",
			100, "the maximum size of an event", commands[:1]},
		{"many of the maximum size", `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300)
			INSERT INTO events SELECT 200 + i, time, type, '', '', '', zeroblob(500000), prev, hash FROM events, n WHERE seq = 200`,
			201, "does not continue the log", [][]string{{"ledger", "verify"}, {"work", "list"},
				{"backup", "-"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newLedger(t)
			m := s.tamper(t)
			m.exec("SELECT 1") // drops the triggers
			m.close()
			// This process must stay small, because the peak memory of a process includes that of
			// its parent when it was started.
			startChild(t, "sql", s.file("ledger.db"),
				"PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; "+tt.statement).end(t)
			for _, args := range tt.commands {
				status, stderr := s.checkPeak(t, maxPeak, args...)
				if status == 0 {
					t.Errorf("%v succeeded", args)
				}
				if isVerify := slices.Contains(args, "verify"); isVerify &&
					(status != 5 || !strings.Contains(stderr,
						fmt.Sprintf("not verified from event %d on", tt.firstBad)) ||
						!strings.Contains(stderr, tt.reason)) {
					t.Errorf("%v: exit status %d\n%s", args, status, stderr)
				}
			}
		})
	}
}

// TestForgedLargeFiles makes files of the box so large that they do not fit in memory.
func TestForgedLargeFiles(t *testing.T) {
	for _, name := range []string{"snapshot", "checkpoint", "checkpoint.tree", "key.pub"} {
		t.Run(name, func(t *testing.T) {
			s := newLedger(t)
			file, err := os.OpenFile(s.file(name), os.O_RDWR|os.O_CREATE, 0o600)
			check(t, err)
			check(t, file.Truncate(1<<30))
			check(t, file.Close())
			for _, args := range [][]string{{"ledger", "verify"}, {"work", "open", "more"},
				{"doctor"}} {
				s.checkPeak(t, 120<<20, args...)
			}
		})
	}
}

// checkPeak runs the program, and checks its peak memory.
func (s *site) checkPeak(t *testing.T, maxPeak int, args ...string) (status int, stderr string) {
	t.Helper()
	cmd := s.command(t, args...)
	cmd.Env = append(cmd.Env, childVariable+"=peak", binaryVariable+"="+cmd.Path)
	self, err := os.Executable()
	check(t, err)
	cmd.Path = self
	r := finish(t, cmd, nil)
	var peak int
	if _, err := fmt.Sscan(r.stdout, &peak, &status); err != nil {
		t.Fatalf("%v: %v in %q\n%s", args, err, r.stdout, r.stderr)
	}
	if peak > maxPeak {
		t.Errorf("%v used %d MB of memory", args, peak>>20)
	}
	return status, r.stderr
}

// peakChild runs the program without its output, and prints its peak memory and its exit status.
func peakChild(ctx context.Context, args []string) error {
	cmd := exec.CommandContext(ctx, os.Getenv(binaryVariable), args...)
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); cmd.ProcessState == nil {
		return err
	}
	fmt.Println(cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss<<10,
		cmd.ProcessState.ExitCode())
	return nil
}
