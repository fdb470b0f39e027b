package sqlite

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"signalbox"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/journal/journaltest"
	"signalbox/internal/testkit/must"
)

// childMode is the environment variable that makes the test binary the child of a test: it names
// what to do, and the arguments say with what.
const childMode = "SQLITEJOURNAL_TEST_CHILD"

// skipStatus is how a child exits that cannot try what it should on this system.
const skipStatus = 77

var errSkip = errors.New("cannot be tried here")

func TestMain(m *testing.M) {
	mode := os.Getenv(childMode)
	if mode == "" {
		os.Exit(m.Run())
	}
	all := children()
	maps.Copy(all, systemChildren())
	err := all[mode](context.Background(), os.Args[1:])
	switch {
	case errors.Is(err, errSkip):
		fmt.Println(err)
		os.Exit(skipStatus)
	case err != nil:
		fmt.Println(err)
		os.Exit(1)
	}
}

type childFunc func(ctx context.Context, args []string) error

// children are what a child process can do, with the journal in the folder that is its first
// argument.
func children() map[string]childFunc {
	return map[string]childFunc{
		"append": func(ctx context.Context, args []string) error {
			return withJournal(ctx, args[0], func(j *Journal) error {
				return journaltest.AppendForever(ctx, j, os.Stdout)
			})
		},
		"contend": func(ctx context.Context, args []string) error {
			return withJournal(ctx, args[0], func(j *Journal) error {
				n, err := strconv.Atoi(args[2])
				return errors.Join(err, journaltest.Contend(ctx, j, args[1], n))
			})
		},
		"watch": printWatch,
	}
}

func withJournal(ctx context.Context, dir string, use func(*Journal) error) error {
	j, err := Open(ctx, dir, &Options{Create: true})
	if err != nil {
		return err
	}
	return errors.Join(use(j), j.Close())
}

// child prepares a process that does one of the children.
func child(t testing.TB, mode string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	must.Succeed(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Env = append(os.Environ(), childMode+"="+mode)
	return cmd
}

// runChild runs a child to its end, which must be a good one.
func runChild(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == skipStatus {
		t.Skipf("%s", out)
	}
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// open opens a journal, makes it if there is none, and closes it when the test ends.
func open(t testing.TB, dir string, opts *Options) *Journal {
	t.Helper()
	if opts == nil {
		opts = &Options{Create: true}
	}
	j, err := Open(t.Context(), dir, opts)
	must.Succeed(t, err)
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return j
}

// closedBox makes a journal of n events and closes it.
func closedBox(t testing.TB, n int) (dir string) {
	t.Helper()
	dir = t.TempDir()
	err := withJournal(t.Context(), dir,
		func(j *Journal) error { return grow(t.Context(), j, n, 100) })
	must.Succeed(t, err)
	return dir
}

// grow appends n events whose data have so many bytes.
func grow(ctx context.Context, j journal.Journal, n, bytes int) error {
	head, err := j.Head(ctx)
	if err != nil {
		return err
	}
	for head, end := head, head+uint64(n); head < end; {
		events := eventsAfter(head, min(int(end-head), 500), bytes)
		if err := j.Append(ctx, head, events); err != nil {
			return err
		}
		head += uint64(len(events))
	}
	return nil
}

// eventsAfter returns events that are a function of their sequence.
func eventsAfter(head uint64, n, bytes int) []signalbox.Event {
	events := make([]signalbox.Event, n)
	for i := range events {
		seq := head + uint64(i) + 1
		events[i] = signalbox.Event{
			Seq: seq, Time: time.Unix(0, int64(seq)).UTC(), Type: "Tried",
			Session: strconv.FormatUint(seq, 10),
			Data:    []byte(strings.Repeat("x", bytes)), Prev: hashOf(seq - 1), Hash: hashOf(seq),
		}
	}
	return events
}

func hashOf(seq uint64) signalbox.Hash {
	if seq == 0 {
		return signalbox.Hash{}
	}
	return sha256.Sum256(strconv.AppendUint(nil, seq, 10))
}

// countEvents reads the log to its end and returns how many events it has.
func countEvents(ctx context.Context, j journal.Journal) (n uint64, err error) {
	for {
		events, err := j.Read(ctx, n, 1000)
		if err != nil || len(events) == 0 {
			return n, err
		}
		for _, e := range events {
			if n++; e.Seq != n || e.Hash != hashOf(n) {
				return n, fmt.Errorf("event %d is not what was appended", n)
			}
		}
	}
}

func wantCount(t testing.TB, j journal.Journal, want uint64) {
	t.Helper()
	if n, err := countEvents(t.Context(), j); err != nil || n != want {
		t.Errorf("the log has %d events, %v; want %d", n, err, want)
	}
}

// wantError checks that an error is made for people, and is what it should be for programs.
func wantError(t testing.TB, err error, text string, is ...error) {
	t.Helper()
	forPeople := (*signalbox.Error)(nil)
	if !errors.As(err, &forPeople) {
		t.Errorf("error %v has no hint", err)
		return
	}
	if !strings.Contains(err.Error()+"\n"+forPeople.Hint, text) {
		t.Errorf("error is %q with hint %q, want %q in it", err, forPeople.Hint, text)
	}
	for _, want := range is {
		if !errors.Is(err, want) {
			t.Errorf("error is %q, which does not match %q", err, want)
		}
	}
}

// flip changes a byte of a file; a negative offset counts from its end.
func flip(t testing.TB, path string, offset int64) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	must.Succeed(t, err)
	defer file.Close()
	if offset < 0 {
		end, err := file.Seek(0, io.SeekEnd)
		must.Succeed(t, err)
		offset += end
	}
	b := []byte{0}
	if _, err := file.ReadAt(b, offset); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 0x40
	if _, err := file.WriteAt(b, offset); err != nil {
		t.Fatal(err)
	}
}
