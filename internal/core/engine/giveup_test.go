package engine

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

func TestCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, f, m := faultyBox(t, nil)
		gate := make(chan struct{})
		f.appends.then(blocked(gate))
		cause := context.Canceled
		ctxs, cancels := make([]context.Context, 3), make([]context.CancelFunc, 3)
		for i := range ctxs {
			ctxs[i], cancels[i] = context.WithCancel(context.Background())
			defer cancels[i]()
		}

		underWay := ask(ctxs[0], e, openWork("under-way"))
		synctest.Wait()
		waiting := ask(ctxs[1], e, openWork("waiting"))
		patient := ask(ctxs[2], e, openWork("patient"))
		synctest.Wait()
		cancels[0]()
		cancels[1]()
		synctest.Wait()
		for name, a := range map[string]*asked{"under way": underWay, "waiting": waiting} {
			if !a.answered() || !errors.Is(a.err, cause) {
				t.Errorf("the request that is %s was not answered at once with %v", name, cause)
			}
		}
		close(gate)
		synctest.Wait()
		if !patient.answered() || patient.err != nil {
			t.Errorf("the patient request: %v", patient.err)
		}
		checkWorks(t, e, "under-way", "patient")
		checkLog(t, m, e)
	})
}

func TestCanceledContext(t *testing.T) {
	m := newMemory()
	e := openBox(t, m, nil)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for range 100 { // a choice between two ready channels must not let it through
		if _, err := e.Do(ctx, openWork("w")); !errors.Is(err, context.Canceled) {
			t.Fatalf("error %v, want %v", err, context.Canceled)
		}
	}
	checkTypes(t, m, 0, "BoxOpened")
}

func TestFullQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, f, m := faultyBox(t, nil)
		gate := make(chan struct{})
		f.appends.then(blocked(gate))
		inside, ids := works("w", 1+cap(e.queue))
		accepted := askInOrder(e, inside...)
		ctx, cancel := context.WithCancel(context.Background())
		impatient := ask(ctx, e, openWork("impatient"))
		outside := ask(context.Background(), e, openWork("outside"))
		synctest.Wait()

		cancel()
		synctest.Wait()
		if !impatient.answered() || !errors.Is(impatient.err, context.Canceled) {
			t.Error("a request before a full queue does not notice that its context ends")
		}
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			e.Close()
		}()
		synctest.Wait()
		if !outside.answered() || outside.err != ErrClosed {
			t.Error("a request before a full queue does not notice that the engine is closed")
		}
		close(gate)
		<-closed
		synctest.Wait()
		for i, a := range accepted {
			if !a.answered() || a.err != nil {
				t.Errorf("accepted request %d: answered %t, error %v", i, a.answered(), a.err)
			}
		}
		checkWorks(t, e, ids...)
		checkLog(t, m, e)
	})
}
