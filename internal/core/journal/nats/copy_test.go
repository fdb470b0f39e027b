package nats

import (
	"bytes"
	"errors"
	"fmt"
	"hash"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/minio/highwayhash"

	"signalbox"
	"signalbox/internal/core/journal"
	"signalbox/internal/testkit/must"
)

// copyOf returns the copy of a node that does not run.
func (c *testCluster) copyOf(node string) *ownCopy {
	of := c.of(node, true)
	return &ownCopy{cluster: of, stream: defaultName, log: slog.New(slog.DiscardHandler)}
}

// verified returns how many events the files of a node that does not run have.
func (c *testCluster) verified(t testing.TB, node string) uint64 {
	t.Helper()
	own := c.copyOf(node)
	r, err := own.needed(own.readNote())
	must.Succeed(t, errors.Join(err, r.advance()))
	return r.last.Seq
}

// awaitCopies waits until all nodes, or those that are named, have verified so many events.
func (c *testCluster) awaitCopies(t testing.TB, j *Journal, events uint64, nodes ...string) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); ; {
		copies, err := j.Copies(t.Context())
		must.Succeed(t, err)
		if !slices.ContainsFunc(copies, func(c journal.Copy) bool {
			awaited := len(nodes) == 0 || slices.Contains(nodes, c.Node)
			return awaited && (c.Problem != "" || c.Verified.IsZero() || c.Events < events)
		}) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("not all copies have %d good events: %+v", events, copies)
		}
	}
}

// storedEverywhere returns a cluster in which each node has stored and verified some events.
func storedEverywhere(t *testing.T, events uint64) (*testCluster, *Journal) {
	t.Helper()
	c := newCluster(t, 3)
	c.startAll(t)
	j := c.open(t, "a", "")
	t.Cleanup(func() { j.Close() })
	for seq := range events {
		must.Succeed(t, j.Append(t.Context(), seq, testEvents(seq, 1)))
	}
	c.awaitReplicas(t, j)
	c.awaitCopies(t, j, events)
	for name := range c.Nodes {
		own := c.copyOf(name)
		for note := own.readNote(); note.Seq < events || note.Group == ""; note = own.readNote() {
			if t.Context().Err() != nil {
				t.Fatalf("%s has noted %+v", name, note)
			}
			runtime.Gosched()
		}
	}
	return c, j
}

// storedCopy returns the files of a node with some events, and the note about them.
func storedCopy(t testing.TB, events int) (*ownCopy, *copyReader) {
	t.Helper()
	c := newCluster(t, 1)
	j := c.open(t, "a", "")
	for seq := range uint64(events) {
		must.Succeed(t, j.Append(t.Context(), seq, testEvents(seq, 1)))
	}
	must.Succeed(t, j.Close())
	own := c.copyOf("a")
	r := own.newReader(own.dir(), own.readNote().copyMark)
	must.Succeed(t, r.advance())
	if r.last.Seq != uint64(events) || r.expect != r.last {
		t.Fatalf("the copy has %d events, want %d; the note says %d", r.last.Seq, events,
			r.expect.Seq)
	}
	return own, r
}

// Whichever byte of a copy is changed, and wherever it is cut off, it is noticed.
func TestCopyReaderFindsDamage(t *testing.T) {
	own, good := storedCopy(t, 4)
	name := blockFile(own.dir(), 1)
	data, err := os.ReadFile(name)
	must.Succeed(t, err)
	try := func(damaged []byte) error {
		must.Succeed(t, os.WriteFile(name, damaged, 0o600))
		return own.newReader(own.dir(), good.expect).advance()
	}
	must.Succeed(t, try(data))
	random := rand.New(rand.NewPCG(1, 2))
	for i := range data {
		damaged := bytes.Clone(data)
		damaged[i] ^= 1 << random.IntN(8)
		if err := try(damaged); !errors.Is(err, errDamagedCopy) && !errors.Is(err, errInvalidEvent) {
			t.Fatalf("byte %d of %d was changed: %v", i, len(data), err)
		}
		if i%5 != 0 {
			continue
		}
		if err := try(data[:i]); !errors.Is(err, errDamagedCopy) {
			t.Fatalf("cut off after %d of %d bytes: %v", i, len(data), err)
		}
		if i < len(data)-1 {
			if err := try(slices.Delete(bytes.Clone(data), i, i+1)); err == nil {
				t.Fatalf("byte %d of %d was deleted", i, len(data))
			}
		}
	}
	must.Succeed(t, os.Remove(name))
	if err := own.newReader(own.dir(), good.expect).advance(); !errors.Is(err, errDamagedCopy) {
		t.Errorf("without the file: %v", err)
	}
}

// Without a note, the end of the copy may be missing, as after a power failure, but what follows
// after a damaged place is never ignored.
func TestCopyReaderWithoutNote(t *testing.T) {
	own, _ := storedCopy(t, 4)
	name := blockFile(own.dir(), 1)
	data, err := os.ReadFile(name)
	must.Succeed(t, err)
	must.Succeed(t, os.WriteFile(name, data[:len(data)-5], 0o600))
	r := own.newReader(own.dir(), copyMark{})
	if err := r.advance(); err != nil || r.last.Seq != 3 {
		t.Errorf("an incomplete event: %d events, %v", r.last.Seq, err)
	}
	must.Succeed(t, os.WriteFile(name, data, 0o600))
	if err := r.advance(); err != nil || r.last.Seq != 4 {
		t.Errorf("the event is complete: %d events, %v", r.last.Seq, err)
	}
	must.Succeed(t, os.WriteFile(name, data[:len(data)-5], 0o600))
	if err := r.advance(); !errors.Is(err, errDamagedCopy) {
		t.Errorf("cut off while it is watched: %v", err)
	}
	for i := range len(data) / 4 * 3 { // all but the last event
		damaged := bytes.Clone(data)
		damaged[i] ^= 0x40
		must.Succeed(t, os.WriteFile(name, damaged, 0o600))
		r := own.newReader(own.dir(), copyMark{})
		if err := r.advance(); err == nil {
			t.Fatalf("byte %d of %d was changed, and %d events are good", i, len(data), r.last.Seq)
		}
	}
}

// A damaged note is not believed, nor is the copy then thought to be damaged.
func TestDamagedNote(t *testing.T) {
	own, good := storedCopy(t, 3)
	data, err := os.ReadFile(own.noteFile())
	must.Succeed(t, err)
	for i := range data {
		damaged := bytes.Clone(data)
		damaged[i] ^= 1
		must.Succeed(t, os.WriteFile(own.noteFile(), damaged, 0o600))
		if note := own.readNote(); note.Seq != 0 && note.copyMark != good.last {
			t.Fatalf("byte %d was changed: %+v", i, note)
		}
	}
}

func FuzzCutRecord(f *testing.F) {
	own, _ := storedCopy(f, 2)
	data, err := os.ReadFile(blockFile(own.dir(), 1))
	must.Succeed(f, err)
	f.Add(data)
	f.Add(data[:30])
	f.Fuzz(func(t *testing.T, data []byte) {
		hash, err := highwayhash.New64(make([]byte, 32))
		must.Succeed(t, err)
		// Every hash is right, so that the sizes are all that is looked at.
		r, rest, err := cutRecord(anyHash{hash, data}, data)
		if err == nil && recordFixed+len(r.subject)+len(r.data)+recordHash+len(rest) > len(data) {
			t.Errorf("a record of %d bytes: %+v, and %d bytes", len(data), r, len(rest))
		}
	})
}

// anyHash is the hash that a record has, if it has the size that it says.
type anyHash struct {
	hash.Hash
	data []byte
}

func (h anyHash) Sum([]byte) []byte {
	size := int(uint32(h.data[0]) | uint32(h.data[1])<<8 | uint32(h.data[2])<<16 |
		uint32(h.data[3]&0x7f)<<24)
	return h.data[size-recordHash : size]
}

// A node with a damaged copy does not run with it. It gets a good one from another node, verifies
// it, and then another copy can be lost.
func TestDamagedCopyIsReplaced(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	for name, damage := range map[string]func([]byte) []byte{
		"a bit":        func(b []byte) []byte { b[random.IntN(len(b))] ^= 1; return b },
		"1,200 bytes":  func(b []byte) []byte { return b[:len(b)-1200] },
		"one event":    func(b []byte) []byte { return b[:len(b)-len(b)/40] },
		"everything":   func(b []byte) []byte { return nil },
		"zeros at end": func(b []byte) []byte { clear(b[len(b)-700:]); return b },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, j := storedEverywhere(t, 40)
			c.stop(t, "c")
			file := blockFile(c.copyOf("c").dir(), 1)
			data, err := os.ReadFile(file)
			must.Succeed(t, err)
			must.Succeed(t, os.WriteFile(file, damage(data), 0o600))
			must.Succeed(t, j.Append(t.Context(), 40, testEvents(40, 2)))
			c.start(t, "c")
			c.ready(t, "c")
			c.awaitCopies(t, j, 42)
			if kept, _ := filepath.Glob(filepath.Join(c.of("c", false).Dir, "damaged-until-*",
				"*.blk")); len(kept) == 0 {
				t.Error("the damaged files were not kept")
			}
			wantFinding(t, j, "copies", journal.OK, "c has verified 42 events")
			// The good copy of another node is lost for good.
			c.kill(t, "a")
			must.Succeed(t, os.RemoveAll(c.of("a", false).Dir))
			must.Succeed(t, j.Append(t.Context(), 42, testEvents(42, 2)))
			events, err := j.Read(t.Context(), 0, 100)
			if err != nil || len(events) != 44 {
				t.Fatalf("%d events, %v, want 44", len(events), err)
			}
			c.awaitCopies(t, j, 44, "c")
			c.stop(t, "c")
			if n := c.verified(t, "c"); n != 44 {
				t.Errorf("the copy that was replaced has %d events, want 44", n)
			}
		})
	}
}

// Nodes that were killed store again from the log of their group what they have not synced, even if
// none of them has it in its files.
func TestCopiesAreReplayed(t *testing.T) {
	t.Parallel()
	c, j := storedEverywhere(t, 40)
	for name := range c.Nodes {
		c.kill(t, name)
	}
	for name := range c.Nodes {
		own := c.copyOf(name)
		group := own.readNote().Group
		last, _, err := readSnapshot(own.cluster.groupDir(group), group)
		if err != nil || group == "" {
			t.Fatalf("the snapshot of group %q has event %d, %v", group, last, err)
		}
		file := blockFile(own.dir(), 1)
		data, err := os.ReadFile(file)
		must.Succeed(t, err)
		size := uint64(len(data)) / 40 // of an event, almost
		data[(last+1)*size] ^= 1
		must.Succeed(t, os.WriteFile(file, data[:uint64(len(data))-(40-last)*size/2], 0o600))
	}
	c.startAll(t)
	c.awaitCopies(t, j, 40)
	events, err := j.Read(t.Context(), 0, 100)
	if err != nil || len(events) != 40 {
		t.Errorf("%d events, %v, want 40", len(events), err)
	}
	if kept, _ := filepath.Glob(filepath.Join(c.of("c", false).Dir, "damaged-until-*")); kept != nil {
		t.Errorf("a copy was replaced: %v", kept)
	}
}

// The files must have the events of the snapshot. A damaged snapshot is noticed.
func TestReadSnapshot(t *testing.T) {
	t.Parallel()
	c, _ := storedEverywhere(t, 30)
	c.stop(t, "b")
	own := c.copyOf("b")
	group := own.readNote().Group
	dir := own.cluster.groupDir(group)
	if last, _, err := readSnapshot(dir, group); err != nil || last != 30 {
		t.Fatalf("the snapshot has event %d, %v", last, err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "snapshots", "snap.*"))
	must.Succeed(t, err)
	name := slices.Max(files)
	data, err := os.ReadFile(name)
	must.Succeed(t, err)
	for i := range data {
		damaged := bytes.Clone(data)
		damaged[i] ^= 1
		must.Succeed(t, os.WriteFile(name, damaged, 0o600))
		if last, _, err := readSnapshot(dir, group); err == nil {
			t.Fatalf("byte %d was changed: event %d", i, last)
		}
		must.Succeed(t, os.WriteFile(name, data[:i], 0o600))
		if last, _, err := readSnapshot(dir, group); err == nil {
			t.Fatalf("cut off after %d bytes: event %d", i, last)
		}
	}
	if _, err := own.needed(own.readNote()); !errors.Is(err, errDamagedCopy) {
		t.Errorf("%v, want %q", err, errDamagedCopy)
	}
	must.Succeed(t, os.WriteFile(name, data, 0o600))
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "snapshots", "snap.99.99.tmp"), nil, 0o600))
	if last, ok, err := readSnapshot(dir, group); err != nil || last != 30 || !ok {
		t.Errorf("while another is being written: event %d, %v, %v", last, ok, err)
	}
	// A leader sends its snapshot before its events.
	note := own.readNote()
	note.Seq = 20
	if r, err := own.needed(note); err != nil || r.expect.Seq != 20 || !r.replays {
		t.Errorf("a node that is behind needs event %d, %v", r.expect.Seq, err)
	}
	must.Succeed(t, os.RemoveAll(dir))
	if last, ok, err := readSnapshot(dir, group); err != nil || last != 0 || ok {
		t.Errorf("without a snapshot: event %d, %v, %v", last, ok, err)
	}
	// Without a log, a server replays nothing.
	if r, err := own.needed(own.readNote()); err != nil || r.expect.Seq != 30 || r.replays {
		t.Errorf("a node without a log needs event %d, %v", r.expect.Seq, err)
	}
}

// Damage while the node runs is found by the daily verification. The node leaves the others, and
// comes back with a good copy.
func TestDamageWhileRunning(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	nodes := c.startLocal(t)
	var answering []*Journal
	for name, n := range nodes {
		j := c.open(t, name, "")
		defer j.Close()
		must.Succeed(t, n.copy.answer(j.conn))
		answering = append(answering, j)
	}
	j := answering[0]
	must.Succeed(t, j.Append(t.Context(), 0, testEvents(0, 30)))
	c.awaitCopies(t, j, 30)
	own := &nodes["b"].copy
	file, err := os.OpenFile(blockFile(own.dir(), 1), os.O_RDWR, 0)
	must.Succeed(t, err)
	_, err = file.WriteAt([]byte("damage"), 2000)
	must.Succeed(t, errors.Join(err, file.Close()))
	report := own.current()
	own.setReport(report.copyMark, report.Time.Add(-2*copyDaily), nil)
	for own.current().Problem == "" { // until it is found
		time.Sleep(time.Millisecond)
	}
	c.awaitCopies(t, j, 30)
	if kept, _ := filepath.Glob(filepath.Join(own.cluster.Dir, "damaged-until-*")); len(kept) != 1 {
		t.Errorf("the damaged files were not kept: %v", kept)
	}
	must.Succeed(t, j.Append(t.Context(), 30, testEvents(30, 1)))
	c.awaitCopies(t, j, 31)
}

// A connection that is lost when the nodes are asked about their copies comes back.
func TestCopiesWhileReconnecting(t *testing.T) {
	t.Parallel()
	_, j := storedEverywhere(t, 1)
	for range 20 {
		must.Succeed(t, j.conn.ForceReconnect())
		copies, err := j.Copies(t.Context())
		must.Succeed(t, err)
		if len(copies) != 3 {
			t.Fatalf("%d of 3 copies", len(copies))
		}
	}
}

// If no other node has verified its copy, the damaged one is left as it is, and the node does not
// run.
func TestDamagedCopyWithoutAnother(t *testing.T) {
	t.Parallel()
	for _, nodes := range []int{1, 3} {
		c := newCluster(t, nodes)
		c.startAll(t)
		j := c.open(t, "a", "")
		must.Succeed(t, j.Append(t.Context(), 0, testEvents(0, 30)))
		c.awaitCopies(t, j, 30)
		must.Succeed(t, j.Close())
		for name := range c.Nodes {
			c.stop(t, name)
		}
		own := c.copyOf("a")
		file := blockFile(own.dir(), 1)
		data, err := os.ReadFile(file)
		must.Succeed(t, err)
		data[len(data)/2] ^= 1
		must.Succeed(t, os.WriteFile(file, data, 0o600))
		of := c.of("a", true)
		of.Await = false
		_, err = OpenCluster(t.Context(), of, Options{patience: 2 * time.Second})
		if !strings.Contains(fmt.Sprint(err), errDamagedCopy.Error()) ||
			!strings.Contains(signalbox.HintOf(err), "as it is") {
			t.Errorf("%d nodes: %v (%s)", nodes, err, signalbox.HintOf(err))
		}
		if now, err := os.ReadFile(file); err != nil || !bytes.Equal(now, data) {
			t.Errorf("%d nodes: the damaged copy was changed: %v", nodes, err)
		}
	}
}

func TestInspectCopies(t *testing.T) {
	now := time.Unix(1000, 0)
	at := now.Add(-2 * time.Minute)
	good := func(node string, events uint64) journal.Copy {
		return journal.Copy{Node: node, Events: events, Verified: at}
	}
	other := good("b", 7)
	other.Hash[0] = 1
	bad := good("b", 3)
	bad.Problem = "event 4: wrong checksum"
	for name, test := range map[string]struct {
		copies []journal.Copy
		level  journal.Level
		want   string
	}{
		"good": {[]journal.Copy{good("a", 7), good("b", 6)}, journal.OK,
			"a has verified 7 events, all of them 2m0s ago; b has verified 6 events, all of them 2m0s ago"},
		"damaged": {[]journal.Copy{good("a", 7), bad}, journal.Problem,
			"a has verified 7 events, all of them 2m0s ago; b: event 4: wrong checksum"},
		"away": {[]journal.Copy{good("a", 7), {Node: "b"}}, journal.Warning,
			"a has verified 7 events, all of them 2m0s ago; b does not answer"},
		"different": {[]journal.Copy{good("a", 7), other}, journal.Problem,
			"a has verified 7 events, all of them 2m0s ago; b has verified 7 events, all of them 2m0s ago; a and b have different events 7"},
	} {
		got := inspectCopies(test.copies, now)
		if got.Level != test.level || got.Detail != test.want ||
			(got.Fix == "") != (got.Level == journal.OK) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
