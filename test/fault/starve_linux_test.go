package fault

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"signalbox"
)

const hintFull = "free space on the disk of the box, or raise the quota or the file size limit, then try again"

// filler is a file that leaves no room on a disk, or as much as one wants.
type filler struct {
	t    *testing.T
	name string
	size int64
}

func fill(t *testing.T, s *site) *filler {
	t.Helper()
	f := &filler{t: t, name: filepath.Join(s.project, "filler")}
	file, err := os.Create(f.name)
	check(t, err)
	defer file.Close()
	for err == nil {
		var n int
		n, err = file.Write(make([]byte, 4096))
		f.size += int64(n)
	}
	return f
}

// leave leaves so many bytes of room.
func (f *filler) leave(room int64) {
	f.t.Helper()
	check(f.t, os.Truncate(f.name, max(0, f.size-room)))
}

// TestDiskFull gives commands on a disk with no room at all, then with a little more each time. Each is either carried out or refused,
// and the record says which.
func TestDiskFull(t *testing.T) {
	inside(t, func(t *testing.T, dir string) {
		s := smallDisk(t, dir, "1m")
		s.init(t)
		s.must(t, "work", "open", "task-1")
		s.must(t, "work", "claim", "task-1", "--role", "developer", "--session", "holder")
		f := fill(t, s)
		for _, args := range [][]string{{"work", "open", "more"}, {"work", "claim", "task-1", "--role", "developer"}, {"ledger", "checkpoint"}} {
			s.mustFail(t, 1, "*the disk is full: *", hintFull, args...)
		}
		want := map[string]bool{"task-1": true}
		var refused, unsigned int
		for room := int64(0); room <= 128<<10; room += 4096 {
			f.leave(room)
			work := fmt.Sprintf("room-%d", room)
			r := s.run(t, "work", "open", work)
			switch {
			case r.status == 0:
				want[work] = true
				if r.stderr != "" {
					unsigned++
					r.says(t, []string{work}, "warning: what was done is recorded, but: *", "hint: *")
				}
			default:
				refused++
				if r.status != 1 {
					t.Errorf("%s: exit status %d, want 1", work, r.status)
				}
				r.says(t, []string{work}, "signalbox: *the disk is full: *", "hint: "+hintFull)
			}
		}
		t.Logf("%d refused, %d not signed, %d done", refused, unsigned, len(want)-1)
		if refused == 0 || len(want) == 1 {
			t.Error("the room was never too small, or never enough")
		}
		check(t, os.Remove(f.name))
		exitAfterwards(t, s)
		checkWorks(t, s, want)
	})
}

// exitAfterwards hands in the signal of the session that held its lease all the time.
func exitAfterwards(t *testing.T, s *site) {
	t.Helper()
	r := finish(t, s.command(t, "work", "exit", "--session", "holder"),
		strings.NewReader(exitSignal(signalbox.PhaseImplementation, signalbox.ExitCompleted)))
	if r.status != 0 || r.stderr != "" {
		t.Errorf("work exit afterwards: exit status %d\n%s", r.status, r.stderr)
	}
}

// checkWorks checks that the ledger is whole and signed, and that the box has these work items and no others.
func checkWorks(t *testing.T, s *site, want map[string]bool) {
	t.Helper()
	if v := s.verifyCommand(t, 0); v.Checkpoint == nil || v.Checkpoint.Size != v.Events {
		t.Errorf("afterwards verify says %s", printed(v))
	}
	var list []struct {
		ID string `json:"id"`
	}
	check(t, json.Unmarshal([]byte(s.must(t, "work", "list", "--json")), &list))
	for _, w := range list {
		if !want[w.ID] {
			t.Errorf("%s is there, though it was refused", w.ID)
		}
		delete(want, w.ID)
	}
	for work := range want {
		t.Errorf("%s is gone, though it was acknowledged", work)
	}
}

// TestDiskFullOfBlobs hands in an exit signal when there is no room for it.
func TestDiskFullOfBlobs(t *testing.T) {
	inside(t, func(t *testing.T, dir string) {
		s := smallDisk(t, dir, "1m")
		s.init(t)
		s.must(t, "work", "open", "task-1")
		s.must(t, "work", "claim", "task-1", "--role", "developer", "--session", "holder")
		f := fill(t, s)
		notes := strings.Repeat("x", 4000)
		signal := signalOf(signalbox.PhaseImplementation, signalbox.ExitCompleted)
		signal.Notes = &notes
		text, err := json.Marshal(signal)
		check(t, err)
		refused, done := 0, false
		for room := int64(0); room <= 128<<10 && !done; room += 4096 {
			f.leave(room)
			r := finish(t, s.command(t, "work", "exit", "--session", "holder"), bytes.NewReader(text))
			if done = r.status == 0; !done {
				refused++
				r.says(t, []string{"work", "exit"}, "signalbox: *the disk is full: *", "hint: "+hintFull)
			}
		}
		if refused == 0 || !done {
			t.Errorf("refused %d times, then done: %v", refused, done)
		}
		check(t, os.Remove(f.name))
		s.must(t, "ledger", "checkpoint")
		events := s.mustVerify(t)
		checkExitsAreWhole(t, events)
		checkBlobs(t, s.open(t).Journal, events, nil)
	})
}

// TestDiskFullUnderLoad lets a process work until the disk is full.
func TestDiskFullUnderLoad(t *testing.T) {
	inside(t, func(t *testing.T, dir string) {
		s := smallDisk(t, dir, "6m")
		s.init(t)
		f := fill(t, s)
		f.leave(4 << 20)
		c := startChild(t, "load", s.box, s.keyFile, "a", "16")
		acks := newAcknowledged()
		for c.lines.Scan() {
			acks.take(t, c.lines.Text())
		}
		c.cmd.Wait()
		said := c.stderr.String()
		if !strings.Contains(said, "the disk is full") && !strings.Contains(said, "cannot store the checkpoint: ") { // whichever came first
			t.Errorf("it ended because of: %s", said)
		}
		if len(acks.events) == 0 {
			t.Error("nothing was acknowledged")
		}
		check(t, os.Remove(f.name))
		checkAfterKill(t, s, acks)
	})
}

// TestReadOnlyDisk mounts the box so that nothing can be written. It can still be read and verified.
func TestReadOnlyDisk(t *testing.T) {
	inside(t, func(t *testing.T, dir string) {
		s := newLedger(t)
		mount(t, s.box, s.box, "", syscall.MS_BIND, "")
		allowed(t, syscall.Mount("", s.box, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
		s.onlyReads(t)
		check(t, syscall.Unmount(s.box, syscall.MNT_DETACH))
		s.mustBeAsBefore(t)
	})
}

// TestNoNotifications takes away the system's file notifications. Who waits for work still gets it, with a warning, a second later.
func TestNoNotifications(t *testing.T) {
	inside(t, func(t *testing.T, dir string) {
		allowed(t, os.WriteFile("/proc/sys/user/max_inotify_instances", []byte("0"), 0o600))
		s := newSite(t)
		waiting := s.command(t, "work", "claim", "--next", "--wait", "--role", "developer", "--json")
		var stdout bytes.Buffer
		waiting.Stdout = &stdout
		stderr, err := waiting.StderrPipe()
		check(t, err)
		check(t, waiting.Start())
		warning := make([]byte, 1000)
		n, err := stderr.Read(warning) // so it waits by now
		check(t, err)
		if said := string(warning[:n]); !strings.Contains(said, "file notifications are not available: events of other processes are seen late") {
			t.Errorf("it says %q", said)
		}
		s.must(t, "work", "open", "task-1")
		if err := waiting.Wait(); err != nil || !strings.Contains(stdout.String(), `"work":"task-1"`) {
			t.Errorf("%v, %s", err, &stdout)
		}
	})
}
