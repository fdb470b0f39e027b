package fault

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/rules"
	"signalbox/ledger"
)

// TestKill kills a process that writes as fast as it can, at a random moment, and checks the box
// afterwards.
func TestKill(t *testing.T) {
	random := newRand(t)
	template := loadTemplate(t)
	early, snapshots := 0, 0
	for range sized(6, 500) {
		s := template.copy(t)
		acks := newAcknowledged()
		killAtRandom(t, random, startChild(t, "load", s.box, s.keyFile, "a", "16"), acks)
		if acks.lines == 0 {
			early++
		}
		if _, err := os.Stat(s.file("snapshot")); err == nil {
			snapshots++
		}
		checkAfterKill(t, s, acks)
		if t.Failed() {
			t.Fatalf("killed after %d acknowledgements", acks.lines)
		}
	}
	t.Logf("%d processes were killed before they acknowledged anything, %d after they saved a snapshot", early, snapshots)
	if snapshots == 0 && isFull() {
		t.Error("no process saved a snapshot")
	}
}

// TestKillSeveral kills processes that share a box one after the other. The remaining ones must not
// be affected.
func TestKillSeveral(t *testing.T) { onEachBackend(t, testKillSeveral) }

func testKillSeveral(t *testing.T, on backend) {
	random := newRand(t)
	newSite := func() *site { return on.newSite(t) }
	if on.name == backends[0].name { // whose boxes can be copied
		template := loadTemplate(t)
		newSite = func() *site { return template.copy(t) }
	}
	for range on.times(1, 50) {
		s := newSite()
		all := newAcknowledged()
		var mu sync.Mutex // guards all
		var killing sync.WaitGroup
		for i := range 4 {
			c := startChild(t, "load", s.box, s.keyFile, fmt.Sprintf("p%d", i), "16")
			own := rand.New(rand.NewPCG(random.Uint64(), 0))
			killing.Go(func() {
				acks := newAcknowledged()
				killAtRandom(t, own, c, acks)
				mu.Lock()
				defer mu.Unlock()
				all.add(acks)
			})
		}
		killing.Wait()
		checkAfterKill(t, s, all)
		if t.Failed() {
			t.Fatalf("killed after %d acknowledgements", all.lines)
		}
	}
}

func (a *acknowledged) add(b *acknowledged) {
	a.lines += b.lines
	a.blobs = append(a.blobs, b.blobs...)
	maps.Copy(a.events, b.events)
	maps.Copy(a.checkpoints, b.checkpoints)
}

// loadTemplate returns a box with 970 work items. The engine saves its first snapshot at the
// thousandth event.
func loadTemplate(t *testing.T) *site {
	t.Helper()
	s := newSite(t)
	b := s.open(t)
	var opening sync.WaitGroup
	for i := range 970 {
		opening.Go(func() {
			if _, err := b.Engine.Do(t.Context(), rules.OpenWork{Work: fmt.Sprintf("task-%d", i),
				Actor: "tester"}); err != nil {
				t.Error(err)
			}
		})
	}
	opening.Wait()
	check(t, b.Close())
	return s
}

// killAtRandom kills a child after a random time, which may be during its start, or after a random
// number of acknowledgements.
func killAtRandom(t testing.TB, random *rand.Rand, c *child, acks *acknowledged) {
	lines := 1 + random.IntN(sized(300, 1200))
	if random.IntN(3) == 0 {
		lines = -1
		defer time.AfterFunc(time.Duration(random.IntN(60_000))*time.Microsecond,
			func() { c.cmd.Process.Kill() }).Stop()
	}
	for acks.lines != lines && c.lines.Scan() {
		acks.addLine(t, c.lines.Text())
	}
	c.cmd.Process.Kill()
	for c.lines.Scan() { // printed before it died
		acks.addLine(t, c.lines.Text())
	}
	c.cmd.Wait()
	if c.cmd.ProcessState.Exited() {
		t.Errorf("%s ended by itself: %v\n%s", c.name, c.cmd.ProcessState, &c.stderr)
	}
}

// checkAfterKill checks that everything acknowledged is stored, that nothing is stored partially,
// and that the box works.
func checkAfterKill(t *testing.T, s *site, acks *acknowledged) {
	t.Helper()
	b, err := box.Open(t.Context(), s.box, s.options())
	if err != nil {
		t.Fatalf("open the box: %v", err)
	}
	defer b.Close()
	report, err := b.Verify(t.Context(), box.VerifyOptions{})
	if err != nil || !report.OK {
		t.Errorf("verify: %v, %+v", err, report)
	}
	events, err := readAll(t.Context(), b.Journal, 0)
	check(t, err)
	for seq, hash := range acks.events {
		if seq > uint64(len(events)) || events[seq-1].Hash != hash {
			t.Errorf("event %d was acknowledged but is not in the ledger", seq)
		}
	}
	checkExitsComplete(t, events)
	checkBlobs(t, b.Journal, events, acks.blobs)
	checkCheckpoints(t, events, report.Checkpoint, acks.checkpoints)
	if _, err := b.Engine.Do(t.Context(),
		rules.OpenWork{Work: "afterwards", Actor: "tester"}); err != nil {
		t.Errorf("a command afterwards: %v", err)
	}
	if _, err := b.Sign(t.Context()); err != nil {
		t.Errorf("sign afterwards: %v", err)
	}
}

// checkExitsComplete checks that the four events of each exit signal are all stored, one after the
// other.
func checkExitsComplete(t *testing.T, events []signalbox.Event) {
	t.Helper()
	complete := []string{rules.TypeSignalHeard, rules.TypeAgentSessionCompleted,
		rules.TypePhaseChanged, rules.TypeLeaseReleased}
	for i := 0; i < len(events); i++ {
		if events[i].Type != complete[0] && events[i].Type != complete[1] {
			continue
		}
		for k, want := range complete {
			if i+k >= len(events) || events[i+k].Type != want ||
				events[i+k].Work != events[i].Work {
				t.Errorf("the exit signal of event %d is incomplete: %s is missing", events[i].Seq,
					want)
				return
			}
		}
		i += len(complete) - 1
	}
}

// checkBlobs checks that the given blobs, and those that events refer to, are stored and match
// their digests.
func checkBlobs(t *testing.T, j journal.Journal, events []signalbox.Event, blobs []signalbox.Hash) {
	t.Helper()
	for _, e := range events {
		var heard rules.SignalHeard
		if e.Type == rules.TypeSignalHeard && json.Unmarshal(e.Data, &heard) == nil &&
			heard.Blob != (signalbox.Hash{}) {
			blobs = append(blobs, heard.Blob)
		}
	}
	for _, digest := range blobs {
		r, err := j.GetBlob(t.Context(), digest) // GetBlob checks the digest
		if err == nil {
			_, err = io.Copy(io.Discard, r)
			err = errors.Join(err, r.Close())
		}
		if err != nil {
			t.Errorf("blob %s: %v", digest, err)
		}
	}
}

// checkCheckpoints checks that each signed checkpoint matches the log, and that no older checkpoint
// replaced a newer one.
func checkCheckpoints(t *testing.T, events []signalbox.Event, kept *ledger.Checkpoint,
	signed map[uint64]signalbox.Hash) {
	t.Helper()
	var tree ledger.Tree
	for _, e := range events {
		tree.Append(e.Hash)
		root, ok := signed[e.Seq]
		if ok && root != tree.Root() {
			t.Errorf("the checkpoint of %d events does not match the log", e.Seq)
		}
		if ok && (kept == nil || kept.Size < e.Seq) {
			t.Errorf("the checkpoint of %d events was acknowledged but is not stored", e.Seq)
		}
	}
}
