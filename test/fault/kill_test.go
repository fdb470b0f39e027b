package fault

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

// TestKill kills a process that works as fast as it can, at any moment from its start on, and looks at what is left.
func TestKill(t *testing.T) {
	random := newRand(t)
	template := loadTemplate(t)
	early, snapshots := 0, 0
	for range times(20, 500) {
		s := template.copy(t)
		acks := newAcknowledged()
		killAtSomeMoment(t, random, startChild(t, "load", s.box, s.keyFile, "a", "16"), acks)
		if acks.lines == 0 {
			early++
		}
		if _, err := os.Stat(s.file("snapshot")); err == nil {
			snapshots++
		}
		checkAfterKill(t, s, acks)
		if t.Failed() {
			t.Fatalf("after %d acknowledgements", acks.lines)
		}
	}
	t.Logf("%d were killed before they acknowledged anything, %d after they saved a snapshot", early, snapshots)
	if snapshots == 0 && isFull() {
		t.Error("none came as far as to save a snapshot")
	}
}

// TestKillSeveral kills processes that share a box, one after the other. Those that are left must not notice.
func TestKillSeveral(t *testing.T) {
	random := newRand(t)
	template := loadTemplate(t)
	for range times(3, 50) {
		s := template.copy(t)
		all := newAcknowledged()
		var mu sync.Mutex // guards all
		var killing sync.WaitGroup
		for i := range 4 {
			c := startChild(t, "load", s.box, s.keyFile, fmt.Sprintf("p%d", i), "16")
			own := rand.New(rand.NewPCG(random.Uint64(), 0))
			killing.Go(func() {
				acks := newAcknowledged()
				killAtSomeMoment(t, own, c, acks)
				mu.Lock()
				defer mu.Unlock()
				all.add(acks)
			})
		}
		killing.Wait()
		checkAfterKill(t, s, all)
		if t.Failed() {
			t.Fatalf("after %d acknowledgements", all.lines)
		}
	}
}

func (a *acknowledged) add(b *acknowledged) {
	a.lines += b.lines
	a.blobs = append(a.blobs, b.blobs...)
	for seq, hash := range b.events {
		a.events[seq] = hash
	}
	for size, root := range b.checkpoints {
		a.checkpoints[size] = root
	}
}

// loadTemplate is a box that is about to get its first snapshot, which comes with the thousandth event.
func loadTemplate(t *testing.T) *site {
	t.Helper()
	s := newSite(t)
	b := s.open(t)
	var opening sync.WaitGroup
	for i := range 970 {
		opening.Go(func() {
			if _, err := b.Engine.Do(t.Context(), rules.OpenWork{Work: fmt.Sprintf("task-%d", i), Actor: "tester"}); err != nil {
				t.Error(err)
			}
		})
	}
	opening.Wait()
	check(t, b.Close())
	return s
}

// killAtSomeMoment kills a child after some time, to meet it while it starts, or after some acknowledgements.
func killAtSomeMoment(t testing.TB, random *rand.Rand, c *child, acks *acknowledged) {
	lines := 1 + random.IntN(1200)
	if random.IntN(3) == 0 {
		lines = -1
		defer time.AfterFunc(time.Duration(random.IntN(60_000))*time.Microsecond, func() { c.cmd.Process.Kill() }).Stop()
	}
	for acks.lines != lines && c.lines.Scan() {
		acks.take(t, c.lines.Text())
	}
	c.cmd.Process.Kill()
	for c.lines.Scan() { // what it still said before it died
		acks.take(t, c.lines.Text())
	}
	c.cmd.Wait()
	if c.cmd.ProcessState.Exited() {
		t.Errorf("%s ended by itself: %v\n%s", c.name, c.cmd.ProcessState, &c.stderr)
	}
}

// checkAfterKill checks that nothing acknowledged is lost, that nothing is there by half, and that the box works.
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
	events, err := b.Journal.Read(t.Context(), 0, 1<<30)
	check(t, err)
	for seq, hash := range acks.events {
		if seq > uint64(len(events)) || events[seq-1].Hash != hash {
			t.Errorf("event %d was acknowledged, and is not there", seq)
		}
	}
	checkExitsAreWhole(t, events)
	checkBlobs(t, b.Journal, events, acks.blobs)
	checkCheckpoints(t, events, report.Checkpoint, acks.checkpoints)
	if _, err := b.Engine.Do(t.Context(), rules.OpenWork{Work: "afterwards", Actor: "tester"}); err != nil {
		t.Errorf("a command afterwards: %v", err)
	}
	if _, err := b.Sign(t.Context()); err != nil {
		t.Errorf("sign afterwards: %v", err)
	}
}

// checkExitsAreWhole checks that the four events of an exit signal are all there, in a row.
func checkExitsAreWhole(t *testing.T, events []signalbox.Event) {
	t.Helper()
	whole := []string{"SignalHeard", "AgentSessionCompleted", "PhaseChanged", "LeaseReleased"}
	for i := 0; i < len(events); i++ {
		if events[i].Type != whole[0] && events[i].Type != whole[1] {
			continue
		}
		for k, want := range whole {
			if i+k >= len(events) || events[i+k].Type != want || events[i+k].Work != events[i].Work {
				t.Errorf("the exit signal of event %d is there by half: %s is missing", events[i].Seq, want)
				return
			}
		}
		i += len(whole) - 1
	}
}

// checkBlobs checks that the blobs that events name, and those that were acknowledged, are there and have their digest.
func checkBlobs(t *testing.T, j journal.Journal, events []signalbox.Event, blobs []signalbox.Hash) {
	t.Helper()
	for _, e := range events {
		var heard rules.SignalHeard
		if e.Type == rules.TypeSignalHeard && json.Unmarshal(e.Data, &heard) == nil && heard.Blob != (signalbox.Hash{}) {
			blobs = append(blobs, heard.Blob)
		}
	}
	for _, digest := range blobs {
		r, err := j.GetBlob(t.Context(), digest) // which checks the digest
		if err == nil {
			_, err = io.Copy(io.Discard, r)
			err = errors.Join(err, r.Close())
		}
		if err != nil {
			t.Errorf("blob %s: %v", digest, err)
		}
	}
}

// checkCheckpoints checks that what was signed is the log as it is, and that no older checkpoint took a newer one's place.
func checkCheckpoints(t *testing.T, events []signalbox.Event, kept *ledger.Checkpoint, signed map[uint64]signalbox.Hash) {
	t.Helper()
	var tree ledger.Tree
	for _, e := range events {
		tree.Append(e.Hash)
		root, ok := signed[e.Seq]
		if ok && root != tree.Root() {
			t.Errorf("the checkpoint of %d events is not that of the log", e.Seq)
		}
		if ok && (kept == nil || kept.Size < e.Seq) {
			t.Errorf("the checkpoint of %d events was acknowledged, and is not kept", e.Seq)
		}
	}
}
