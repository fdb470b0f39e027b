package driver

import (
	"context"
	"testing"
	"testing/synctest"

	"signalbox"
)

// A watch that has reached the end of the log reads again only when the log has grown, or when it
// is woken because that is not known.
func TestWatchReadsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const batch = 3
		stored, reads := uint64(7), 0
		read := func(_ context.Context, after uint64, _,
			_ int) (events []signalbox.Event, end bool, err error) {
			reads++
			for after < stored && len(events) < batch {
				after++
				events = append(events, signalbox.Event{Seq: after})
			}
			return events, after == stored, nil
		}
		log := New(Methods{Read: read, Follow: func() {},
			Explain: func(err error) error { return err }})
		seen := uint64(0)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			for e, err := range log.Watch(ctx, 0) {
				if err == nil && e.Seq != seen+1 {
					t.Errorf("event %d after event %d", e.Seq, seen)
				}
				seen = max(seen, e.Seq)
			}
		}()
		wantReads := 0
		for _, step := range []struct {
			grow  uint64
			reads int
		}{{0, 3}, {1, 1}, {3, 1}, {4, 2}} {
			if step.grow > 0 {
				stored += step.grow
				log.Set(stored)
			}
			synctest.Wait()
			if wantReads += step.reads; seen != stored || reads != wantReads {
				t.Errorf("saw event %d of %d after %d reads, want %d", seen, stored, reads,
					wantReads)
			}
		}
		for range 2 {
			stored++
			log.Wake()
			synctest.Wait()
			if wantReads++; seen != stored || reads != wantReads {
				t.Errorf("saw event %d of %d after %d reads, want %d", seen, stored, reads,
					wantReads)
			}
		}
		cancel()
	})
}
