package ledger

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"signalbox"
	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/property"
)

// readFrom reads from memory, at most page events at a time (0: as many as asked for).
func readFrom(events []signalbox.Event, page int) ReadFunc {
	return func(_ context.Context, after uint64, limit int) ([]signalbox.Event, error) {
		if page > 0 {
			limit = min(limit, page)
		}
		from := min(after, uint64(len(events)))
		return events[from:min(from+uint64(limit), uint64(len(events)))], nil
	}
}

func verify(tb rapid.TB, events []signalbox.Event, head int, opts *VerifyOptions) Report {
	report, err := Verify(context.Background(), uint64(head), readFrom(events, 0), opts)
	must.Succeed(tb, err)
	return report
}

// verifyPlainly is Verify in one pass, without checkpoints.
func verifyPlainly(events []signalbox.Event, head int) Report {
	var tail Tail
	bad := (*BadEventError)(nil)
	for i := range events[:min(head, len(events))] {
		if errors.As(tail.Extend(&events[i]), &bad) {
			break
		}
	}
	if bad == nil && len(events) < head {
		bad = &BadEventError{tail.Seq + 1, fmt.Sprintf("is missing: the log should end at event %d",
			head)}
	}
	report := Report{OK: bad == nil, Events: tail.Seq, Head: tail.Hash, Root: tail.Tree.Root()}
	if bad != nil {
		report.FirstBad, report.Reason = bad.Seq, bad.Error()
	}
	return report
}

func TestVerifyWholeLogs(t *testing.T) {
	all, _ := makeLog(70)
	for n := range len(all) + 1 {
		var tail Tail
		for i := range n {
			must.Succeed(t, tail.Extend(&all[i]))
		}
		want := Report{OK: true, Events: uint64(n), Head: tail.Hash, Root: tail.Tree.Root()}
		for _, opts := range []*VerifyOptions{nil, {}, {Chunk: 1}, {Chunk: 3, Workers: 5},
			{Chunk: 16, Workers: 1}} {
			if diff := cmp.Diff(want, verify(t, all[:n], n, opts)); diff != "" {
				t.Fatalf("%d events, %+v (-want +got):\n%s", n, opts, diff)
			}
		}
	}
}

func TestVerifyAgainstCheckpoint(t *testing.T) {
	events, _ := makeLog(30)
	hashes := hashesOf(events)
	for size := range len(events) + 1 {
		c := checkpointAt(hashes, size)
		for _, chunk := range []int{1, 4, 64} {
			opts := &VerifyOptions{Checkpoint: &c, Chunk: chunk}
			if got := verify(t, events, 30, opts); !got.OK || got.Checkpoint != &c {
				t.Fatalf("checkpoint at %d: %+v", size, got)
			}
			if size > 0 {
				got := verify(t, events[:size-1], size-1, opts)
				reason := fmt.Sprintf("event %d is missing: the checkpoint signed %d events", size,
					size)
				if got.OK || got.FirstBad != uint64(size) || got.Reason != reason ||
					got.Events != uint64(size-1) {
					t.Fatalf("truncated before %d: %+v", size, got)
				}
			}
			other := c
			other.Root[3] ^= 1
			got := verify(t, events, 30, &VerifyOptions{Checkpoint: &other, Chunk: chunk})
			reason := fmt.Sprintf("the first %d events are not those that the checkpoint signed",
				size)
			if got.OK || got.FirstBad != 1 || got.Reason != reason || got.Events != uint64(size) ||
				got.Root != c.Root {
				t.Fatalf("other root at %d: %+v", size, got)
			}
		}
	}
}

// The chain alone does not reveal that someone changed an event and recomputed all that follow.
func TestVerifyRewrittenLog(t *testing.T) {
	events, _ := makeLog(30)
	hashes := hashesOf(events)
	rewritten := slices.Clone(events)
	rewritten[9].Actor = "somebody else"
	tail := Tail{Seq: 9, Time: events[8].Time, Hash: events[8].Hash}
	tail.Seal(rewritten[9:])
	if got := verify(t, rewritten, 30, nil); !got.OK {
		t.Errorf("without a checkpoint: %+v", got)
	}
	for size := range 31 {
		c := checkpointAt(hashes, size)
		got := verify(t, rewritten, 30, &VerifyOptions{Checkpoint: &c})
		if got.OK != (size < 10) || !got.OK && got.FirstBad != 1 {
			t.Errorf("checkpoint at %d: %+v", size, got)
		}
	}
}

// damage is one change to a log at an event, and the first sequence that is wrong then.
type damage struct {
	name  string
	apply func(t *rapid.T, events []signalbox.Event, i int) []signalbox.Event
	first func(i int) int
}

func at(i int) int { return i + 1 }

func flipText(s string, n int) string {
	if s == "" {
		return "x"
	}
	b := []byte(s)
	b[n%len(b)] ^= 1 << (n % 8)
	return string(b)
}

func damages() []damage {
	field := func(name string, change func(e *signalbox.Event, n int)) damage {
		return damage{"flip in " + name, func(t *rapid.T, events []signalbox.Event,
			i int) []signalbox.Event {
			change(&events[i], rapid.IntRange(0, 255).Draw(t, "which"))
			return events
		}, at}
	}
	return []damage{
		field("seq", func(e *signalbox.Event, n int) { e.Seq ^= 1 << (n % 64) }),
		field("time", func(e *signalbox.Event,
			n int) {
			e.Time = time.Unix(0, e.Time.UnixNano()^1<<(n%64))
		}),
		field("type", func(e *signalbox.Event, n int) { e.Type = flipText(e.Type, n) }),
		field("work", func(e *signalbox.Event, n int) { e.Work = flipText(e.Work, n) }),
		field("session", func(e *signalbox.Event, n int) { e.Session = flipText(e.Session, n) }),
		field("actor", func(e *signalbox.Event, n int) { e.Actor = flipText(e.Actor, n) }),
		field("data", func(e *signalbox.Event,
			n int) {
			e.Data = []byte(flipText(string(e.Data), n))
		}),
		field("prev", func(e *signalbox.Event, n int) { e.Prev[n%32] ^= 1 << (n % 8) }),
		field("hash", func(e *signalbox.Event, n int) { e.Hash[n%32] ^= 1 << (n % 8) }),
		field("content and hash",
			func(e *signalbox.Event, n int) { e.Prev[n%32] ^= 1; e.Hash = Sum(e) }),
		{"removal", func(_ *rapid.T, events []signalbox.Event, i int) []signalbox.Event {
			return slices.Delete(events, i, i+1)
		}, at},
		{"duplication", func(_ *rapid.T, events []signalbox.Event, i int) []signalbox.Event {
			return slices.Insert(events, i, events[i])[:len(events)]
		}, func(i int) int { return i + 2 }},
		{"insertion", func(_ *rapid.T, events []signalbox.Event, i int) []signalbox.Event {
			tail := Tail{Seq: uint64(i), Time: events[i].Time, Hash: events[i].Prev}
			forged := []signalbox.Event{{Type: "Forged", Data: []byte("{}")}}
			tail.Seal(forged)
			return slices.Insert(events, i, forged[0])
		}, func(i int) int { return i + 2 }},
		{"swap", func(_ *rapid.T, events []signalbox.Event, i int) []signalbox.Event {
			events[i], events[i+1] = events[i+1], events[i]
			return events
		}, at},
	}
}

func TestVerifyFindsEveryDamage(t *testing.T) {
	whole, _ := makeLog(70)
	for _, d := range damages() {
		t.Run(d.name, func(t *testing.T) {
			property.Check(t, func(t *rapid.T) {
				n := rapid.IntRange(2, len(whole)).Draw(t, "events")
				i := rapid.IntRange(0, n-2).Draw(t, "place")
				events := d.apply(t, slices.Clone(whole[:n]), i)
				opts := drawOptions(t)
				read := readFrom(events, rapid.IntRange(0, 9).Draw(t, "page"))
				got, err := Verify(context.Background(), uint64(n), read, opts)
				if err != nil || got.OK || got.FirstBad != uint64(d.first(i)) {
					t.Fatalf("%+v, %v, want first bad %d", got, err, d.first(i))
				}
				if diff := cmp.Diff(verifyPlainly(events, n), got); diff != "" {
					t.Fatalf("%+v finds something else than one pass (-one pass +got):\n%s", opts,
						diff)
				}
				covering := checkpointAt(hashesOf(whole), n)
				opts.Checkpoint = &covering
				if again := verify(t, events, n, opts); again.FirstBad != got.FirstBad ||
					again.Reason != got.Reason {
					t.Fatalf("with a checkpoint %+v, without %+v", again, got)
				}
			})
		})
	}
}

func drawOptions(t *rapid.T) *VerifyOptions {
	return &VerifyOptions{
		Workers: rapid.IntRange(0, 4).Draw(t, "workers"),
		Chunk:   rapid.SampledFrom([]int{0, 1, 2, 3, 8, 16, 100}).Draw(t, "chunk"),
	}
}

func TestVerifyReadsThatLie(t *testing.T) {
	events, _ := makeLog(20)
	for name, tt := range map[string]struct {
		read  ReadFunc
		first uint64
	}{
		"nothing": {func(context.Context, uint64,
			int) ([]signalbox.Event, error) {
			return nil, nil
		}, 1},
		"too few": {readFrom(events[:13], 0), 14},
		"too many": {func(_ context.Context, after uint64, limit int) ([]signalbox.Event, error) {
			return events[after:min(int(after)+limit+1, 20)], nil
		}, 9},
		"always the same": {func(_ context.Context, _ uint64,
			limit int) ([]signalbox.Event, error) {
			return events[:limit], nil
		}, 9},
		"zero events": {func(_ context.Context, _ uint64, limit int) ([]signalbox.Event, error) {
			return make([]signalbox.Event, limit), nil
		}, 1},
	} {
		got, err := Verify(context.Background(), 20, tt.read, &VerifyOptions{Chunk: 8})
		if err != nil || got.OK || got.FirstBad != tt.first || got.Reason == "" ||
			got.Events != tt.first-1 {
			t.Errorf("%s: %+v, %v, want first bad %d", name, got, err, tt.first)
		}
	}
	got, err := Verify(context.Background(), 1<<64-1, readFrom(events, 0), nil)
	if err != nil || got.FirstBad != 21 {
		t.Errorf("a head that cannot be: %+v, %v", got, err)
	}
}

func TestVerifyErrors(t *testing.T) {
	events, _ := makeLog(64)
	failed := errors.New("disk on fire")
	failAfter := func(seq uint64) ReadFunc {
		return func(ctx context.Context, after uint64, limit int) ([]signalbox.Event, error) {
			if after >= seq {
				return nil, failed
			}
			return readFrom(events, 0)(ctx, after, limit)
		}
	}
	got, err := Verify(context.Background(), 64, failAfter(32), &VerifyOptions{Chunk: 8})
	if !errors.Is(err, failed) || got.OK || got.FirstBad != 0 || got.Events != 32 {
		t.Errorf("failing read: %+v, %v", got, err)
	}
	events[20].Type = "Changed"
	got, err = Verify(context.Background(), 64, failAfter(32), &VerifyOptions{Chunk: 8, Workers: 4})
	if err != nil || got.FirstBad != 21 {
		t.Errorf("failing read after a bad event: %+v, %v", got, err)
	}
}

func TestVerifyStopsWithItsContext(t *testing.T) {
	events, _ := makeLog(64)
	for _, workers := range []int{1, 3} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			var reads, reading atomic.Int32
			got, err := Verify(ctx, 64,
				func(ctx context.Context, after uint64, limit int) ([]signalbox.Event, error) {
					reading.Add(1)
					defer reading.Add(-1)
					if reads.Add(1) == 3 {
						cancel()
					}
					if after >= 16 {
						<-ctx.Done()
						// the test's own time: a driver that takes long to give up
						time.Sleep(time.Second)
						return nil, ctx.Err()
					}
					return readFrom(events, 0)(ctx, after, limit)
				}, &VerifyOptions{Chunk: 8, Workers: workers})
			if !errors.Is(err, context.Canceled) || got.OK || got.Events > 16 {
				t.Errorf("%d workers: %+v, %v", workers, got, err)
			}
			if n := reading.Load(); n != 0 {
				t.Errorf("%d workers: %d still read", workers, n)
			}
		})
	}
	for range 20 { // whether a job is left that no worker takes is chance
		ctx, cancel := context.WithCancel(t.Context())
		got, err := Verify(ctx, 64,
			func(_ context.Context, after uint64, limit int) ([]signalbox.Event, error) {
				if after == 3 {
					cancel()
				}
				return readFrom(events, 0)(context.Background(), after, limit)
			}, &VerifyOptions{Chunk: 1, Workers: 1})
		if !errors.Is(err, context.Canceled) || got.OK {
			t.Errorf("a driver that does not look at its context: %+v, %v", got, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := Verify(ctx, 0, readFrom(nil, 0), nil); !errors.Is(err, context.Canceled) ||
		got.OK {
		t.Errorf("cancelled before: %+v, %v", got, err)
	}
}

func TestVerifyProgress(t *testing.T) {
	events, _ := makeLog(20)
	var seen []uint64
	verify(t, events, 20,
		&VerifyOptions{Chunk: 8, Workers: 2,
			Progress: func(done uint64) { seen = append(seen, done) }})
	if diff := cmp.Diff([]uint64{8, 16, 20}, seen); diff != "" {
		t.Errorf("progress (-want +got):\n%s", diff)
	}
}

// TestVerifyWaits lets the first read take so long that everything else comes to a stop.
func TestVerifyWaits(t *testing.T) {
	const chunk, workers = 8, 2
	events, _ := makeLog(1000)
	synctest.Test(t, func(t *testing.T) {
		var furthest atomic.Uint64
		read := func(ctx context.Context, after uint64, limit int) ([]signalbox.Event, error) {
			if after == 0 {
				time.Sleep(time.Second) // the test's own time: it passes when all others wait
				if chunks := furthest.Load() / chunk; chunks < workers || chunks > 4*workers+1 {
					t.Errorf("%d chunks were read ahead", chunks)
				}
			}
			if limit > chunk {
				t.Errorf("%d events were asked for at once", limit)
			}
			// one goroutine only while the first read sleeps
			furthest.Store(max(furthest.Load(), after))
			return readFrom(events, 0)(ctx, after, limit)
		}
		got, err := Verify(t.Context(), 1000, read, &VerifyOptions{Chunk: chunk, Workers: workers})
		if err != nil || !got.OK {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

func TestReportJSON(t *testing.T) {
	events, _ := makeLog(2)
	got, err := json.Marshal(verify(t, events[:1], 2, nil))
	want := fmt.Sprintf(`{"ok":false,"events":1,"head":"%v","root":"%v","first_bad":2,`+
		`"reason":"event 2 is missing: the log should end at event 2","checkpoint":null}`,
		events[0].Hash, leafHash(events[0].Hash))
	if err != nil || !bytes.Equal(got, []byte(want)) {
		t.Errorf("%s, %v, want %s", got, err, want)
	}
}
