package engine

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"signalbox"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/rules"
)

// What an append leaves behind that fails without saying what happened.
func TestAmbiguousAppend(t *testing.T) {
	for _, tt := range []struct {
		name    string
		appends []step
		reads   []step
		want    error  // nil for success
		works   string // what is in the log afterwards beside "before"
		calls   int    // of Append
	}{
		{"stored", []step{cutAfter}, nil, nil, "w", 1},
		{"not stored", []step{cutBefore}, nil, nil, "w", 2},
		{"not stored, then stored without saying so", []step{cutBefore, cutAfter}, nil, nil, "w",
			2},
		{"not stored, then a conflict", []step{cutBefore, fails(journal.ErrConflict)}, nil, nil,
			"w", 3},
		{"not stored, then a definite failure", []step{cutBefore, fails(journal.ErrNotStored)}, nil,
			ErrUnknownOutcome, "", 2},
		{"not stored, twice", []step{cutBefore, cutBefore}, nil, nil, "w", 3},
		{"not stored, three times", []step{cutBefore, cutBefore, cutBefore}, nil, ErrUnknownOutcome,
			"", 3},
		{"stored, and unreadable", []step{cutAfter}, []step{fails(errCut)}, ErrUnknownOutcome, "w",
			1},
		{"stored, read, and its end unreadable", []step{cutAfter},
			[]step{goesThrough, fails(errCut)}, nil, "w", 1},
		{"stored, and unreadable the third time", []step{cutAfter},
			[]step{goesThrough, goesThrough, fails(errCut)}, ErrUnknownOutcome, "w", 1},
		{"not stored, and unreadable", []step{cutBefore}, []step{fails(errCut)}, ErrUnknownOutcome,
			"", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e, f, m := faultyBox(t, nil)
			mustDo(t, e, openWork("before"))
			f.appends.then(tt.appends...)
			f.reads.then(tt.reads...)
			calls := f.appends.calls()
			answer, err := e.Do(context.Background(), openWork("w"))
			if !errors.Is(err, tt.want) || tt.want == nil && answer.Seq != 3 {
				t.Errorf("event %d, error %v; want error %v", answer.Seq, err, tt.want)
			}
			if errors.Is(err, ErrUnknownOutcome) != (tt.want == ErrUnknownOutcome) {
				t.Errorf("error %v: wrong about whether the outcome is known", err)
			}
			if got := f.appends.calls() - calls; got != tt.calls {
				t.Errorf("%d appends, want %d", got, tt.calls)
			}
			want := []string{"before"}
			if tt.works != "" {
				want = append(want, tt.works)
			}
			checkLog(t, m, e)
			checkWorks(t, e, want...)
			mustDo(t, e, openWork("afterwards"))
			checkWorks(t, e, append(want, "afterwards")...)
			checkLog(t, m, e)
		})
	}
}

// The log has moved on without the events: what others did is taken into account before the next
// attempt.
func TestAmbiguousAppendThatLostTheRace(t *testing.T) {
	e, f, m := faultyBox(t, nil)
	mustDo(t, e, openWork("w"))
	other := open(t, m, nil)
	f.appends.then(func(func() error) error {
		mustDo(t, other, claim("w", "other", 0))
		return errCut
	})
	if held := mustRefuse(t, e, claim("w", "s", 0), signalbox.CodeConflict); held.Lease == nil ||
		held.Lease.Session != "other" {
		t.Errorf("the work is held by %+v, want other", held.Lease)
	}
	checkTypes(t, m, 2, "LeaseGranted")
	checkLog(t, m, e, other)
}

// Another process whose clock is behind the log, too, has stored the same where the events would be.
// Only one of the two has done it.
func TestAmbiguousAppendThatAnotherDid(t *testing.T) {
	e, f, m := faultyBox(t, nil)
	mustDo(t, e, openWork("before"))
	behind := &Options{Now: func() time.Time { return stillClock().Add(-time.Hour) }}
	e, other := open(t, f, behind), open(t, m, behind)
	f.appends.then(func(func() error) error {
		mustDo(t, other, openWork("w"))
		return errCut
	})
	mustRefuse(t, e, openWork("w"), signalbox.CodeConflict)
	checkTypes(t, m, 2, "WorkOpened")
	checkLog(t, m, e, other)
}

// An append whose outcome is unknown arrives after a later attempt has certainly failed, and after
// the command was answered.
func TestAmbiguousAppendThatArrivesLate(t *testing.T) {
	e, f, m := faultyBox(t, nil)
	var late func() error
	f.appends.then(func(next func() error) error {
		late = next
		return errCut
	}, fails(journal.ErrNotStored))
	_, err := e.Do(context.Background(), openWork("w"))
	if !errors.Is(err, ErrUnknownOutcome) || !errors.Is(err, journal.ErrNotStored) {
		t.Errorf("error %v, want that the outcome is unknown, and why", err)
	}
	if err := late(); err != nil {
		t.Fatalf("the late append: %v", err)
	}
	mustDo(t, e, openWork("v"))
	checkWorks(t, e, "w", "v")
	checkLog(t, m, e)
}

// More was appended after the events before the engine could look.
func TestAmbiguousAppendThatOthersFollowed(t *testing.T) {
	e, f, m := faultyBox(t, nil)
	other := open(t, m, nil)
	f.appends.then(func(next func() error) error {
		if err := next(); err != nil {
			return err
		}
		mustDo(t, other, openWork("v"))
		return errCut
	})
	mustDo(t, e, openWork("w"))
	checkWorks(t, e, "w", "v")
	checkLog(t, m, e, other)
}

// Two engines may make the very same event, as when both have a clock that is behind the log.
// Finding the first event of an append in the log does not mean that the append is there.
func TestAmbiguousAppendBesideItsTwin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, f, m := faultyBox(t, nil)
		other := open(t, m, nil)
		redact := rules.RedactBlob{Blob: signalbox.Hash{1}, Reason: "private", Actor: "me"}
		gate := make(chan struct{})
		f.appends.then(blocked(gate), func(func() error) error {
			mustDo(t, other, redact)
			return errCut
		})
		askInOrder(e, openWork("alone"))
		group := askInOrder(e, redact, openWork("w"))
		close(gate)
		synctest.Wait()
		for i, a := range group {
			if a.err != nil {
				t.Errorf("request %d: %v", i, a.err)
			}
		}
		checkTypes(t, m, 2, "BlobRedacted", "WorkOpened")
		checkWorks(t, e, "alone", "w")
		checkLog(t, m, e, other)
	})
}

func TestUnknownOutcomeSaysWhy(t *testing.T) {
	e, f, _ := faultyBox(t, nil)
	unreadable := errors.New("unreadable")
	f.appends.then(cutAfter)
	f.reads.then(fails(unreadable))
	_, err := e.Do(context.Background(), openWork("w"))
	for _, want := range []error{ErrUnknownOutcome, errCut, unreadable} {
		if !errors.Is(err, want) {
			t.Errorf("error %v does not say: %v", err, want)
		}
	}
}
