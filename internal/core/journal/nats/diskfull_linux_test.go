package nats

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"signalbox"
	"signalbox/internal/core/journal"
	"signalbox/internal/testkit/must"
)

// smallDisk mounts a small file system for the data of a node. It returns functions that fill it
// and free it.
func (c *testCluster) smallDisk(t *testing.T, node string) (fill, free func()) {
	t.Helper()
	dir := filepath.Join(c.dir, node)
	must.Succeed(t, os.Mkdir(dir, 0o700))
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "mode=0700,size=64m"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("this test must run in CI, as root in a container with --privileged: mount: %v", err)
		}
		t.Skipf("this test must run as root, in a container with --privileged: mount: %v", err)
	}
	t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
	filler := filepath.Join(dir, "filler")
	fill = func() {
		t.Helper()
		f, err := os.Create(filler)
		must.Succeed(t, err)
		defer f.Close()
		for block := make([]byte, 4096); err == nil; {
			_, err = f.Write(block)
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
	}
	return fill, func() {
		t.Helper()
		must.Succeed(t, os.Remove(filler))
	}
}

// largeEvent returns an event that does not fit into what remains of a block of a file.
func largeEvent(seq uint64) []signalbox.Event {
	events := testEvents(seq, 1)
	events[0].Data = []byte(`"` + strings.Repeat("x", 100_000) + `"`)
	return events
}

// appendWhenStored repeats an append whose outcome may be unknown until it is stored.
func appendWhenStored(t *testing.T, j *Journal, seq uint64, events []signalbox.Event) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); ; {
		err := j.Append(t.Context(), seq, events)
		if errors.Is(err, journal.ErrConflict) {
			if head, err := j.Head(t.Context()); err == nil && head == seq+uint64(len(events)) {
				return // an earlier attempt was stored
			}
		}
		if err == nil {
			return
		}
		if !errors.Is(err, journal.ErrUnavailable) && !errors.Is(err, journal.ErrConflict) ||
			time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// wantEvents checks that the journal has exactly these events.
func wantEvents(t *testing.T, j *Journal, want []signalbox.Event) {
	t.Helper()
	got, err := j.Read(t.Context(), 0, len(want)+1)
	if err != nil || len(got) != len(want) {
		t.Fatalf("%d events, %v, want %d", len(got), err, len(want))
	}
	for i := range want {
		if got[i].Hash != want[i].Hash || string(got[i].Data) != string(want[i].Data) {
			t.Errorf("event %d is not what was appended", i+1)
		}
	}
}

// TestDiskOfTheOnlyNodeIsFull fills the disk of a cluster of one node. Appends fail with an error
// that says why, nothing is lost, and the node works again when there is space.
func TestDiskOfTheOnlyNodeIsFull(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	fill, free := c.smallDisk(t, "a")
	j, err := OpenCluster(t.Context(), c.of("a", true),
		Options{Create: true, patience: time.Minute})
	must.Succeed(t, err)
	defer func() { j.Close() }()
	var stored []signalbox.Event
	for range 2 {
		seq := uint64(len(stored))
		events := largeEvent(seq)
		appendWhenStored(t, j, seq, events)
		stored = append(stored, events...)
		fill()
		next := largeEvent(seq + 1)
		j.opts.patience, j.opts.attempt = 500*time.Millisecond, 500*time.Millisecond
		for j.node.failure() == nil { // until the node has noticed
			if err := j.Append(t.Context(), seq+1, next); !errors.Is(err, journal.ErrUnavailable) {
				t.Fatalf("append: %v, want %v", err, journal.ErrUnavailable)
			}
		}
		err := j.Append(t.Context(), seq+1, next)
		if !errors.Is(err, journal.ErrUnavailable) ||
			!strings.Contains(err.Error(), "cannot write to its disk") ||
			!strings.Contains(signalbox.HintOf(err), "free space") {
			t.Errorf("append: %v (%s)", err, signalbox.HintOf(err))
		}
		j.opts.patience, j.opts.attempt = time.Minute, defaultAttempt
		free()
		appendWhenStored(t, j, seq+1, next)
		stored = append(stored, next...)
		wantEvents(t, j, stored)
	}
}

// TestDiskOfOneNodeIsFull fills the disk of one node of three. The others continue; it catches up
// when there is space.
func TestDiskOfOneNodeIsFull(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	fill, free := c.smallDisk(t, "a")
	c.startAll(t)
	j := c.open(t, "b", "shop")
	defer j.Close()
	var stored []signalbox.Event
	grow := func(n int) {
		t.Helper()
		for range n {
			events := largeEvent(uint64(len(stored)))
			appendWhenStored(t, j, uint64(len(stored)), events)
			stored = append(stored, events...)
		}
	}
	grow(3)
	fill()
	grow(10)
	own := c.open(t, "a", "shop") // over the node with the full disk, or another one
	wantEvents(t, own, stored)
	own.Close()
	free()
	grow(1)
	c.awaitReplicas(t, j)
	c.kill(t, "b")
	again := c.open(t, "c", "shop") // a majority needs the node whose disk was full
	defer again.Close()
	j = again
	grow(2)
	wantEvents(t, again, stored)
}
