package box

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"signalbox"
	"signalbox/internal/core/engine"
	"signalbox/internal/core/journal"
	"signalbox/internal/testkit/must"
)

// flaky is a journal that cannot be reached in one of its reading calls.
type flaky struct {
	journal.Journal
	fails int // the number of the call, from 1
	calls int
}

func (f *flaky) call() error {
	if f.calls++; f.calls == f.fails {
		return fmt.Errorf("%w: there is no leader", journal.ErrUnavailable)
	}
	return nil
}

func (f *flaky) Read(ctx context.Context, after uint64, limit int) ([]signalbox.Event, error) {
	if err := f.call(); err != nil {
		return nil, err
	}
	return f.Journal.Read(ctx, after, limit)
}

func (f *flaky) Head(ctx context.Context) (uint64, error) {
	if err := f.call(); err != nil {
		return 0, err
	}
	return f.Journal.Head(ctx)
}

func (f *flaky) OpenBlob(ctx context.Context, digest signalbox.Hash) (journal.Blob, error) {
	if err := f.call(); err != nil {
		return nil, err
	}
	return f.Journal.OpenBlob(ctx, digest)
}

func (f *flaky) LoadSnapshot(ctx context.Context) (journal.Snapshot, error) {
	if err := f.call(); err != nil {
		return journal.Snapshot{}, err
	}
	return f.Journal.LoadSnapshot(ctx)
}

// TestOpenInAnOutage makes the ledger unavailable in each call of Open after the journal was
// opened. A command that stays for long waits; others fail at once. Neither opens a box that does
// not remember what it applies.
func TestOpenInAnOutage(t *testing.T) {
	for _, host := range []bool{true, false} {
		t.Run(fmt.Sprintf("host %t", host), func(t *testing.T) {
			k := newKit(t)
			calls := 0
			for fails := 1; ; fails++ {
				opts, f := *k.opts, &flaky{fails: fails}
				opts.Host = host
				opts.through(func(j journal.Journal) journal.Journal { f.Journal = j; return f })
				b, err := Open(t.Context(), k.dir, &opts)
				if err == nil && (b.ID() == "" || b.memory == nil) {
					t.Errorf("with an outage in call %d, the box %q is open and remembers nothing",
						fails, b.ID())
				}
				if err == nil {
					b.Close()
				}
				if f.calls < fails {
					break // there was none
				}
				if calls = fails; host && err != nil || !host &&
					!errors.Is(err, journal.ErrUnavailable) {
					t.Errorf("with an outage in call %d: %v", fails, err)
				}
			}
			if calls < 4 {
				t.Errorf("Open makes only %d calls", calls)
			}
		})
	}
}

// TestOpenInAnOutageEnds ends the wait of Open by its context.
func TestOpenInAnOutageEnds(t *testing.T) {
	k := newKit(t)
	ctx, cancel := context.WithCancel(t.Context())
	opts := *k.opts
	opts.Host = true
	opts.through(func(j journal.Journal) journal.Journal { return &unreachable{j, cancel} })
	if _, err := Open(ctx, k.dir, &opts); !errors.Is(err, journal.ErrUnavailable) ||
		!strings.Contains(err.Error(), "no leader") {
		t.Errorf("error: %v", err)
	}
}

// unreachable is a journal whose events cannot be read.
type unreachable struct {
	journal.Journal
	tried context.CancelFunc
}

func (u *unreachable) Read(context.Context, uint64, int) ([]signalbox.Event, error) {
	u.tried()
	return nil, fmt.Errorf("%w: there is no leader", journal.ErrUnavailable)
}

// holdsBack is a journal that delays its first append beyond the answer, and stores none of the
// next.
type holdsBack struct {
	journal.Journal
	late func() error
}

func (h *holdsBack) Append(_ context.Context, expected uint64, events []signalbox.Event) error {
	if h.late == nil {
		h.late = func() error { return h.Journal.Append(context.Background(), expected, events) }
		return errors.New("no answer")
	}
	return fmt.Errorf("%w: the disk is full", journal.ErrNotStored)
}

func (h *holdsBack) Close() error { return nil }

// TestInitKeepsTheKey fails after the first event may have been stored. It is stored late, and the
// box has the key that the event names.
func TestInitKeepsTheKey(t *testing.T) {
	k, h := kitIn(t.TempDir()), &holdsBack{}
	opts := *k.opts
	opts.through(func(j journal.Journal) journal.Journal { h.Journal = j; return h })
	if _, err := Init(t.Context(), k.dir, "ann", &opts); !errors.Is(err, engine.ErrUnknownOutcome) {
		t.Fatalf("error %v, want %v", err, engine.ErrUnknownOutcome)
	}
	must.Succeed(t, errors.Join(h.late(), h.Journal.Close()))
	sign(t, k.open(t))
}
