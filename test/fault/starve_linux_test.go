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

// filler is a file that fills a disk.
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

// fullDisk returns a site on a disk that is full. Its box has the work item task-1, which the
// session holder has claimed.
func fullDisk(t *testing.T, dir string) (*site, *filler) {
	t.Helper()
	s := smallDisk(t, dir, "1m")
	s.init(t)
	s.must(t, "work", "open", "task-1")
	s.must(t, "work", "claim", "task-1", "--role", "developer", "--session", "holder")
	return s, fill(t, s)
}

// leave shrinks the filler so that the disk has room bytes free.
func (f *filler) leave(room int64) {
	f.t.Helper()
	check(f.t, os.Truncate(f.name, max(0, f.size-room)))
}

// TestDiskFull runs commands on a full disk, then with a little more room each time. Each command
// must either succeed and be recorded, or fail and leave no trace.
func TestDiskFull(t *testing.T) {
	inNamespace(t, func(t *testing.T, dir string) {
		s, f := fullDisk(t, dir)
		for _, args := range [][]string{{"work", "open", "more"},
			{"work", "claim", "task-1", "--role", "developer"}, {"ledger", "checkpoint"}} {
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
					r.checkStderr(t, []string{work}, "warning: the change is recorded, but: *",
						"hint: *")
				}
			default:
				refused++
				if r.status != 1 {
					t.Errorf("%s: exit status %d, want 1", work, r.status)
				}
				r.checkStderr(t, []string{work}, "signalbox: *the disk is full: *", "hint: "+
					hintFull)
			}
		}
		t.Logf("%d commands failed, %d succeeded without signing, %d succeeded in all", refused,
			unsigned, len(want)-1)
		if refused == 0 || len(want) == 1 {
			t.Error("all commands failed, or none")
		}
		check(t, os.Remove(f.name))
		if r := s.exit(t, "holder"); r.status != 0 || r.stderr != "" {
			t.Errorf("work exit afterwards: exit status %d\n%s", r.status, r.stderr)
		}
		checkWorks(t, s, want)
	})
}

// checkWorks checks that the ledger verifies and is signed, and that the box has exactly the work
// items in want.
func checkWorks(t *testing.T, s *site, want map[string]bool) {
	t.Helper()
	if v := s.verifyCommand(t, 0); v.Checkpoint.Size != v.Events {
		t.Errorf("afterwards verify printed %s", asJSON(v))
	}
	var list []struct {
		ID string `json:"id"`
	}
	check(t, json.Unmarshal([]byte(s.must(t, "work", "list", "--json")), &list))
	for _, w := range list {
		if !want[w.ID] {
			t.Errorf("%s exists although the command failed", w.ID)
		}
		delete(want, w.ID)
	}
	for work := range want {
		t.Errorf("%s is missing although the command succeeded", work)
	}
}

// TestDiskFullExitSignal submits an exit signal when there is no room for its blob.
func TestDiskFullExitSignal(t *testing.T) {
	inNamespace(t, func(t *testing.T, dir string) {
		s, f := fullDisk(t, dir)
		notes := strings.Repeat("x", 4000)
		signal := signalOf(signalbox.PhaseImplementation, signalbox.ExitCompleted)
		signal.Notes = &notes
		text, err := json.Marshal(signal)
		check(t, err)
		refused, done := 0, false
		for room := int64(0); room <= 128<<10 && !done; room += 4096 {
			f.leave(room)
			r := finish(t, s.command(t, "work", "exit", "--session", "holder"),
				bytes.NewReader(text))
			if done = r.status == 0; !done {
				refused++
				r.checkStderr(t, []string{"work", "exit"}, "signalbox: *the disk is full: *",
					"hint: "+hintFull)
			}
		}
		if refused == 0 || !done {
			t.Errorf("failed %d times, then succeeded: %v", refused, done)
		}
		check(t, os.Remove(f.name))
		s.must(t, "ledger", "checkpoint")
		events := s.mustVerify(t)
		checkExitsComplete(t, events)
		checkBlobs(t, s.open(t).Journal, events, nil)
	})
}

// TestDiskFullUnderLoad lets a process write until the disk is full.
func TestDiskFullUnderLoad(t *testing.T) {
	inNamespace(t, func(t *testing.T, dir string) {
		s := smallDisk(t, dir, "6m")
		s.init(t)
		f := fill(t, s)
		f.leave(4 << 20)
		c := startChild(t, "load", s.box, s.keyFile, "a", "16")
		acks := newAcknowledged()
		for c.lines.Scan() {
			acks.addLine(t, c.lines.Text())
		}
		c.cmd.Wait()
		stderr := c.stderr.String()
		// whichever came first
		if !strings.Contains(stderr, "the disk is full") &&
			!strings.Contains(stderr, "cannot store the checkpoint: ") {
			t.Errorf("it failed with: %s", stderr)
		}
		if len(acks.events) == 0 {
			t.Error("nothing was acknowledged")
		}
		check(t, os.Remove(f.name))
		checkAfterKill(t, s, acks)
	})
}

// TestReadOnlyDisk mounts the box read-only. It can still be read and verified.
func TestReadOnlyDisk(t *testing.T) {
	inNamespace(t, func(t *testing.T, dir string) {
		s := newLedger(t)
		mount(t, s.box, s.box, "", syscall.MS_BIND, "")
		checkPermitted(t, syscall.Mount("", s.box, "",
			syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
		s.checkReadOnly(t)
		check(t, syscall.Unmount(s.box, syscall.MNT_DETACH))
		s.checkIntact(t)
	})
}

// TestNoNotifications disables the system's file notifications. A command that waits for work still
// gets it, after a warning, within a second or so.
func TestNoNotifications(t *testing.T) {
	inNamespace(t, func(t *testing.T, dir string) {
		checkPermitted(t, os.WriteFile("/proc/sys/user/max_inotify_instances", []byte("0"), 0o600))
		s := newSite(t)
		waiting := s.command(t, "work", "claim", "--next", "--wait", "--role", "developer",
			"--json")
		var stdout bytes.Buffer
		waiting.Stdout = &stdout
		stderr, err := waiting.StderrPipe()
		check(t, err)
		check(t, waiting.Start())
		warning := make([]byte, 1000)
		n, err := stderr.Read(warning) // from now on it waits
		check(t, err)
		if got := string(warning[:n]); !strings.Contains(got,
			"file notifications are not available: events of other processes are seen late") {
			t.Errorf("the warning is %q", got)
		}
		s.must(t, "work", "open", "task-1")
		if err := waiting.Wait(); err != nil ||
			!strings.Contains(stdout.String(), `"work":"task-1"`) {
			t.Errorf("%v, %s", err, &stdout)
		}
	})
}
