package engine

import (
	"context"
	"testing"
	"testing/synctest"

	"signalbox/internal/core/rules"
)

var (
	moveAway = rules.MoveLedger{Journal: "postgres://db/shop", Host: "desk", Move: "m-1",
		Actor: "me"}
	moveAgain = rules.ContinueLedger{Journal: "postgres://db/shop", Host: "desk", Actor: "me"}
)

// An engine that has the old place open stops when the ledger is moved away, also if it does
// nothing.
func TestMovedLogIsNotFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		mover, idle := openBox(t, m, realClock), open(t, m, realClock)
		ended := follow(t, idle)
		waiting := begin(func(
			a *asked) {
			a.err = idle.Wait(context.Background(), idle.Tail().Seq+1)
		})
		mustDo(t, mover, moveAway)
		synctest.Wait()
		select {
		case err := <-ended:
			checkMoved(t, err)
		default:
			t.Error("it still follows the log")
		}
		if !waiting.answered() {
			t.Fatal("a caller still waits for events that never come")
		}
		checkMoved(t, waiting.err)
		for _, e := range []*Engine{mover, idle, open(t, m, realClock)} {
			mustFail(t, e, openWork("w"), rules.ErrMoved)
		}
		late := open(t, m, realClock)
		checkMoved(t, late.Follow(context.Background()))
		checkTypes(t, m, 1, "LedgerMoved")
	})
}

// Commands that were decided on the state before the move are refused, and none of their events are
// stored.
func TestMovedLogRefusesLateCommands(t *testing.T) {
	m := newMemory()
	mover := openBox(t, m, nil)
	late := open(t, m, nil)
	mustDo(t, mover, moveAway)
	mustFail(t, late, openWork("w"), rules.ErrMoved)
	mustFail(t, late, rules.Expire{}, rules.ErrMoved)
	checkTypes(t, m, 1, "LedgerMoved")
}

// A log that was moved in the past, and continues, is followed like any other, whatever arrives
// together.
func TestContinuedLogIsFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		mover := openBox(t, m, realClock)
		behind := open(t, m, realClock)
		mustDo(t, mover, moveAway)
		mustDo(t, mover, moveAgain)
		ended := follow(t, behind)
		mustDo(t, mover, openWork("w"))
		synctest.Wait()
		select {
		case err := <-ended:
			t.Errorf("it stopped: %v", err)
		default:
		}
		mustDo(t, behind, openWork("w2"))
		checkTypes(t, m, 1, "LedgerMoved", "LedgerContinued", "WorkOpened", "WorkOpened")
	})
}

func checkMoved(t *testing.T, err error) {
	t.Helper()
	const want = "the ledger was moved to postgres://db/shop, by me"
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}
