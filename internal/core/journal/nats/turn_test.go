package nats

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"signalbox/internal/core/journal"
	"signalbox/internal/testkit/must"
)

// One process after the other gets a turn, in the order in which they asked: the next one when
// something was stored, when the turn is given back, or when nothing happens for a while.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		head, leads := uint64(10), true
		var mu sync.Mutex
		var answered []uint64 // each process asks for the events after another one; guarded by mu
		turns := &turns{answer: func(w waiting) (uint64, bool) {
			mu.Lock()
			defer mu.Unlock()
			answered = append(answered, w.After)
			return head, leads
		}}
		ask := func(after uint64) { turns.ask(waiting{turnRequest: turnRequest{After: after}}) }
		check := func(when string, want ...uint64) {
			t.Helper()
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(answered, want) {
				t.Errorf("%s: answered %v, want %v", when, answered, want)
			}
			answered = nil
		}
		for after := range uint64(5) {
			ask(after)
		}
		check("one has the turn", 0)
		turns.stored(10)
		check("what was stored before its turn")
		head = 11
		turns.stored(11)
		check("it stored something", 1)
		turns.ask(waiting{turnRequest: turnRequest{Done: true}})
		check("the second needs no turn", 2)
		time.Sleep(turnTime - 1)
		synctest.Wait()
		check("the third is slow")
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		check("the third is too slow", 3)
		turns.ask(waiting{turnRequest: turnRequest{After: 9, Now: true}})
		check("a reader does not wait", 9)
		ask(6)
		time.Sleep(turnPatience)
		synctest.Wait()
		check("those that still wait", 4, 6)
		for after := range uint64(100) {
			ask(after)
		}
		time.Sleep(turnPatience + 2*turnTime)
		synctest.Wait()
		mu.Lock()
		if n := len(answered); n > int(turnPatience/turnTime)+1 {
			t.Errorf("%d processes got a turn, some of them too late", n)
		}
		leads, answered = false, nil
		mu.Unlock()
		ask(5)
		turns.stored(12)
		check("a node that no longer leads makes no process wait", 5)
	})
}

// A process does not take the first events of its append for all of them.
func TestHalfOfAnAppend(t *testing.T) {
	c := newCluster(t, 1)
	j := c.open(t, "a", "box")
	defer j.Close()
	must.Succeed(t, j.Append(t.Context(), 0, testEvents(0, 1)))
	found, err := j.ask(t.Context(), question{Stream: j.name, Count: 1})
	must.Succeed(t, err)
	_, id, err := decodeEvent(1, found.messages[0].Data)
	must.Succeed(t, err)
	for n, want := range map[int]error{1: nil, 2: errPending} {
		a := &attempts{journal: j, id: id, messages: make([][]byte, n)}
		if err := a.compare(found, time.Now()); !errors.Is(err, want) {
			t.Errorf("%d events: %v, want %v", n, err, want)
		}
	}
}

// A process that has missed something learns what, without reading it, and finds its own append in
// the log if that was stored.
func TestRefusedAppendReturnsMissedEvents(t *testing.T) {
	c := newCluster(t, 1)
	a := c.open(t, "a", "box")
	defer a.Close()
	_, err := a.Head(t.Context())
	must.Succeed(t, err)
	must.Succeed(t, a.Append(t.Context(), 0, testEvents(0, 2)))
	for _, known := range []bool{false, true} { // whether it knows whom to ask for a turn
		b := c.open(t, "a", "box")
		defer b.Close()
		if known {
			_, err := b.Head(t.Context())
			must.Succeed(t, err)
		}
		err := b.Append(t.Context(), 0, testEvents(0, 1))
		missed := (*journal.Missed)(nil)
		if !errors.As(err, &missed) || len(missed.Events) != 2 || missed.Events[1].Seq != 2 {
			t.Fatalf("error %v with %+v, want the events 1 and 2", err, missed)
		}
	}
}
