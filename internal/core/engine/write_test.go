package engine

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/core/journal"
	"signalbox/internal/core/rules"
)

// askInOrder gives commands one after the other, each when the one before it waits.
func askInOrder(e *Engine, commands ...rules.Command) []*asked {
	var all []*asked
	for _, c := range commands {
		all = append(all, ask(context.Background(), e, c))
		synctest.Wait()
	}
	return all
}

func works(prefix string, n int) (commands []rules.Command, ids []string) {
	for i := range n {
		id := fmt.Sprintf("%s-%d", prefix, i)
		commands, ids = append(commands, openWork(id)), append(ids, id)
	}
	return commands, ids
}

func checkAnswered(t *testing.T, when string, all []*asked, want bool) {
	t.Helper()
	for i, a := range all {
		if a.answered() != want {
			t.Errorf("%s: request %d answered: %t, want %t", when, i, !want, want)
		}
	}
}

func checkBatches(t *testing.T, m *memory, want ...int) {
	t.Helper()
	if _, got := m.stored(); !cmp.Equal(want, got) {
		t.Errorf("appends of %v events, want %v", got, want)
	}
}

func TestGroupCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, f, m := faultyBox(t, nil)
		one, two := make(chan struct{}), make(chan struct{})
		f.appends.then(blocked(one), blockedAfter(two))

		alone := askInOrder(e, openWork("alone"))
		commands, ids := works("w", 100)
		group := askInOrder(e, commands...)
		checkAnswered(t, "before the first append", append(alone, group...), false)

		close(one)
		synctest.Wait()
		checkAnswered(t, "after the first append", alone, true)
		checkBatches(t, m, 1, 1, 100)
		checkAnswered(t, "before the second append returned", group, false)

		close(two)
		synctest.Wait()
		checkAnswered(t, "after the second append", group, true)
		for i, a := range group {
			if a.err != nil || a.answer.Work != ids[i] || a.answer.Seq != uint64(i+3) {
				t.Errorf("request %d: work %s at event %d, error %v; want %s at %d", i,
					a.answer.Work, a.answer.Seq, a.err, ids[i], i+3)
			}
		}
		checkWorks(t, e, append([]string{"alone"}, ids...)...)
		checkLog(t, m, e)
	})
}

// Each command of a group is decided on what the ones before it lead to, and gets its own answer.
func TestGroupAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, f, m := faultyBox(t, nil)
		gate := make(chan struct{})
		f.appends.then(blocked(gate))
		group := askInOrder(e, openWork("first"), openWork("w"), openWork("w"), claim("w", "s1", 0),
			claim("w", "s2", 0), exit("s1"), claim("w", "s1", 0))
		close(gate)
		synctest.Wait()
		var got []string
		for _, a := range group {
			got = append(got, fmt.Sprint(a.answer.Seq, " ", a.err))
		}
		want := []string{"2 <nil>", "3 <nil>", "0 work 'w' already exists, in IMPLEMENTATION",
			"4 <nil>",
			"0 work 'w' is held by session 's1' until 2026-03-01T12:15:00Z", "6 <nil>",
			"0 work 'w' is in CI_PENDING, which developer cannot claim"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("answers (-want +got):\n%s", diff)
		}
		checkBatches(t, m, 1, 1, 6)
		checkLog(t, m, e)
	})
}

// exitsOf returns the exit signals of n sessions, each of which holds work. Each causes four
// events.
func exitsOf(t *testing.T, e *Engine, n int) (exits []rules.Command) {
	for i := range n {
		id := fmt.Sprintf("x-%d", i)
		mustDo(t, e, openWork(id))
		mustDo(t, e, claim(id, id, 0))
		exits = append(exits, exit(id))
	}
	return exits
}

// An append has its limit: the rest of the group goes into the next.
func TestGroupIsSplit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const sessions = 300
		e, f, m := faultyBox(t, nil)
		exits := exitsOf(t, e, sessions)
		_, before := m.stored()
		gate := make(chan struct{})
		f.appends.then(blocked(gate))
		askInOrder(e, openWork("alone"))
		group := askInOrder(e, exits...)
		close(gate)
		synctest.Wait()
		for i, a := range group {
			if want := fmt.Sprintf("x-%d", i); a.err != nil || a.answer.Work != want ||
				a.answer.Completed.SessionID != want {
				t.Errorf("request %d: answer %+v, error %v; want one about %s", i, a.answer, a.err,
					want)
			}
		}
		checkBatches(t, m, append(before, 1, journal.MaxAppend, 4*sessions-journal.MaxAppend)...)
		checkLog(t, m, e)
	})
}

// The rest of a group that was split has failures of its own.
func TestSplitGroupResetsFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, f, m := faultyBox(t, nil)
		exits := exitsOf(t, e, journal.MaxAppend/4+1)
		gate := make(chan struct{})
		f.appends.then(blocked(gate), cutBefore, cutBefore, goesThrough, cutBefore, cutBefore)
		askInOrder(e, openWork("alone"))
		group := askInOrder(e, exits...)
		close(gate)
		synctest.Wait()
		for i, a := range group {
			if a.err != nil {
				t.Errorf("request %d: %v", i, a.err)
			}
		}
		checkLog(t, m, e)
	})
}

func TestGroupIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, f, m := faultyBox(t, nil)
		gate := make(chan struct{})
		f.appends.then(blocked(gate))
		askInOrder(e, openWork("alone"))
		commands, _ := works("w", maxBatch+9)
		askInOrder(e, commands...)
		close(gate)
		synctest.Wait()
		checkBatches(t, m, 1, 1, maxBatch, 9)
	})
}

// Nobody sees a state that is not durable.
func TestStateIsDurable(t *testing.T) {
	e, f, m := faultyBox(t, nil)
	f.appends.then(first(func() {
		checkWorks(t, e)
		if seq := e.Tail().Seq; seq != 1 {
			t.Errorf("event %d can be seen before it is stored", seq)
		}
	}))
	mustDo(t, e, openWork("w"))
	f.appends.then(fails(journal.ErrNotStored))
	mustFail(t, e, openWork("v"), journal.ErrNotStored)
	checkWorks(t, e, "w")
	checkLog(t, m, e)
}
