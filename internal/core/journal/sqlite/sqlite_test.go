package sqlite

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"signalbox"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/journal/journaltest"
	"signalbox/internal/testkit/must"
)

func TestContract(t *testing.T) {
	journaltest.Run(t, func(t *testing.T) journaltest.Log {
		dir := t.TempDir()
		place := &Journal{dir: dir}
		return journaltest.Log{
			Open: func(t testing.TB) journal.Log {
				// The tick would hide that a notification is missing.
				j, err := Open(t.Context(), dir, &Options{Create: true, tick: time.Hour})
				must.Succeed(t, err)
				return j
			},
			AppendAndKill: func(t testing.TB, events int) uint64 {
				return journaltest.KillAfter(t, child(t, "append", dir), events)
			},
			DamageBlob: func(t testing.TB,
				digest signalbox.Hash) {
				flip(t, place.blobPath(digest), 3)
			},
			DamageSnapshot: func(t testing.TB) { flip(t, place.path(snapshotFile), -1) },
		}
	})
}

// TestManyProcesses lets 8 processes append to one log, which the first of them creates.
func TestManyProcesses(t *testing.T) {
	const processes, events = 8, 10
	dir := t.TempDir()
	var (
		wg    sync.WaitGroup
		names []string
	)
	for i := range processes {
		name := fmt.Sprintf("process-%d", i)
		names = append(names, name)
		cmd := child(t, "contend", dir, name, strconv.Itoa(events))
		wg.Go(func() {
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: %v: %s", name, err, out)
			}
		})
	}
	wg.Wait()
	journaltest.CheckContention(t, open(t, dir, nil), names, events)
}

// printWatch prints the sequence of each event, and first a line that says that it is about to
// watch. Its tick does not help it.
func printWatch(ctx context.Context, args []string) error {
	j, err := Open(ctx, args[0], &Options{tick: time.Hour})
	if err != nil {
		return err
	}
	fmt.Println("ready")
	for e, err := range j.Watch(ctx, 0) {
		if err != nil {
			return err
		}
		fmt.Println(e.Seq)
	}
	return nil
}

// TestWatchInAnotherProcess appends an event, and the next when another process has seen it.
func TestWatchInAnotherProcess(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir, nil)
	cmd := child(t, "watch", dir)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	must.Succeed(t, err)
	lines := bufio.NewScanner(out)
	next := func() string {
		if !lines.Scan() {
			t.Fatalf("the process ended: %v", cmd.Wait())
		}
		return lines.Text()
	}
	if line := next(); line != "ready" {
		t.Fatal(line)
	}
	for n := 1; n <= 40; n++ {
		must.Succeed(t, grow(t.Context(), j, 1, 10))
		if line := next(); line != strconv.Itoa(n) {
			t.Fatalf("the process saw %s, want %d", line, n)
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	if exit := (*exec.ExitError)(nil); !errors.As(cmd.Wait(), &exit) {
		t.Error("the process ended by itself")
	}
}

// TestOpenCloseLeaksNothing opens, uses and closes a journal again and again.
func TestOpenCloseLeaksNothing(t *testing.T) {
	dir := t.TempDir()
	use := func() {
		j, err := Open(t.Context(), dir, &Options{Create: true})
		must.Succeed(t, err)
		must.Succeed(t, grow(t.Context(), j, 1, 10))
		var wg sync.WaitGroup
		started := make(chan struct{})
		wg.Go(func() {
			first := true
			for range j.Watch(t.Context(), 0) {
				if first {
					close(started)
				}
				first = false
			}
		})
		<-started
		must.Succeed(t, errors.Join(j.Close(), j.Close()))
		wg.Wait()
	}
	use()
	goroutines, files := runtime.NumGoroutine(), openFiles()
	for range 10 {
		use()
	}
	for i := 0; runtime.NumGoroutine() > goroutines && i < 1000; i++ {
		runtime.Gosched() // one that has nothing left to do may still be about to end
	}
	if n := runtime.NumGoroutine(); n > goroutines {
		t.Errorf("%d goroutines, %d before", n, goroutines)
	}
	if n := openFiles(); n > files {
		t.Errorf("%d open files, %d before", n, files)
	}
}

// openFiles counts the open files of this process, where the system says them.
func openFiles() int {
	entries, _ := os.ReadDir("/proc/self/fd")
	return len(entries)
}

func TestOpenMissingJournal(t *testing.T) {
	empty := t.TempDir()
	_, err := Open(t.Context(), empty, nil)
	wantError(t, err, "signalbox init", os.ErrNotExist)
	_, err = Open(t.Context(), empty, &Options{ReadOnly: true})
	wantError(t, err, "signalbox init", os.ErrNotExist)
	_, err = Open(t.Context(), empty+"/gone", &Options{Create: true})
	wantError(t, err, "there is no ledger", os.ErrNotExist)
	if forPeople := (*signalbox.Error)(nil); !errors.As(err, &forPeople) ||
		forPeople.Code != signalbox.CodeNotFound {
		t.Errorf("error is %v, want one of CodeNotFound", err)
	}
	if entries, err := os.ReadDir(empty); err != nil || len(entries) != 0 {
		t.Errorf("Open left %v, %v", entries, err)
	}
	_, err = Open(t.Context(), empty, &Options{Create: true, ReadOnly: true})
	wantError(t, err, "cannot be created read-only")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Open(ended, empty, &Options{Create: true}); !errors.Is(err, context.Canceled) {
		t.Errorf("open with a context that has ended: %v", err)
	}
}

// TestOddPaths opens journals whose paths have characters with a meaning in a URI.
func TestOddPaths(t *testing.T) {
	for _, name := range []string{"a b", "a?mode=memory", "a#b", "a%41", "é", "file:x", "a&b=c"} {
		if runtime.GOOS == "windows" && (name == "a?mode=memory" || name == "file:x") {
			continue
		}
		dir := t.TempDir() + "/" + name
		must.Succeed(t, os.Mkdir(dir, 0o700))
		j := open(t, dir, nil)
		if err := grow(t.Context(), j, 1, 10); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(dir + "/ledger.db"); err != nil {
			t.Error(err)
		}
	}
}
