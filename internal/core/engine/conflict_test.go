package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"signalbox"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/rules"
	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/property"
)

// An answer is the present log's, also a refusal, and also of an engine that has missed what others
// did.
func TestAnswersAreNotStale(t *testing.T) {
	m := newMemory()
	a := openBox(t, m, nil)
	mustDo(t, a, openWork("w"))
	held := mustDo(t, a, claim("w", "s1", 0))
	b := open(t, m, nil)
	mustDo(t, a, release("w", held))
	again := mustDo(t, b, claim("w", "s2", 0)) // b has not heard of the release
	if again.Lease.Epoch != 5 || again.Lease.Session != "s2" {
		t.Errorf("lease %+v, want epoch 5 of session s2", again.Lease)
	}
	// a has not heard of the claim
	answer := mustRefuse(t, a, claim("w", "s1", 0), signalbox.CodeConflict)
	if answer.Lease == nil || answer.Lease.Session != "s2" {
		t.Errorf("the work is held by %+v, want s2", answer.Lease)
	}
	checkLog(t, m, a, b)
}

// Conflicts are retried, however many there are, and whether or not there are new events. After the
// first the engine takes its time, but not long.
func TestConflictsAreRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, f, m := faultyBox(t, nil)
		begin := time.Now()
		f.appends.then(fails(journal.ErrConflict))
		mustDo(t, e, openWork("v"))
		if d := time.Since(begin); d != 0 {
			t.Errorf("it waited %s after one conflict", d)
		}
		f.appends.then(repeat(20, fails(journal.ErrConflict))...)
		mustDo(t, e, openWork("w"))
		if d := time.Since(begin); d == 0 || d > 20*64*time.Millisecond {
			t.Errorf("it waited %s after 20 conflicts", d)
		}
		f.heads.then(repeat(20, fails(journal.ErrConflict))...)
		mustRefuse(t, e, claim("w", "", 0), signalbox.CodeUsage)
		checkTypes(t, m, 1, "WorkOpened", "WorkOpened")
	})
}

// What a command is decided on is read after the pause, and once, however fast others append.
func TestConflictsAreReadOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, f, m := faultyBox(t, nil)
		other := open(t, m, nil)
		readAt := time.Time{}
		others := 0
		append := func() {
			mustDo(t, other, openWork(fmt.Sprintf("other-%d", others)))
			others++
		}
		f.reads.then(repeat(10, func(next func() error) error {
			if !readAt.IsZero() {
				t.Error("it read twice before it tried again")
			}
			err := next()
			append()
			readAt = time.Now()
			return err
		})...)
		f.appends.then(first(append))
		f.appends.then(repeat(10, first(func() {
			if !readAt.Equal(time.Now()) {
				t.Errorf("it waited %v after it had read", time.Since(readAt))
			}
			readAt = time.Time{}
		}))...)
		mustDo(t, e, openWork("w"))
		if n := f.appends.calls(); others != 11 || n != 1+12 {
			t.Errorf("%d appends, while others made %d", n, others)
		}
		checkLog(t, m, e, other)
	})
}

// Events that a journal returns with the conflict are not read, and not waited for.
func TestMissedEventsAreNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, f, m := faultyBox(t, nil)
		other := open(t, m, nil)
		begin, reads := time.Now(), f.reads.calls()
		missed := func(n int) func(func() error) error {
			return func(func() error) error {
				known := e.Tail().Seq
				mustDo(t, other, openWork(fmt.Sprintf("other-%d", n)))
				return fmt.Errorf("refused: %w", &journal.Missed{Events: m.read(known, 10)})
			}
		}
		f.appends.then(missed(1), missed(2), missed(3))
		mustDo(t, e, openWork("w"))
		if n := f.reads.calls() - reads; n != 0 || time.Since(begin) != 0 {
			t.Errorf("%d reads, and it waited %v", n, time.Since(begin))
		}
		checkLog(t, m, e, other)
	})
}

// Neither are they read if Follow has applied some of them meanwhile, which it has read itself.
func TestMissedEventsThatWereFollowed(t *testing.T) {
	for followed := range 3 {
		synctest.Test(t, func(t *testing.T) {
			e, f, m := faultyBox(t, nil)
			other := open(t, m, nil)
			reads := f.reads.calls()
			f.appends.then(func(func() error) error {
				known := e.Tail().Seq
				mustDo(t, other, openWork("other-1"))
				mustDo(t, other, openWork("other-2"))
				missed := m.read(known, 10)
				go func() { // waits until the writer has learned of the conflict
					err := e.inTurn(t.Context(), func(context.Context) error {
						_, err := e.applyNext(missed[:followed])
						return err
					})
					if err != nil {
						t.Error(err)
					}
				}()
				synctest.Wait()
				return fmt.Errorf("refused: %w", &journal.Missed{Events: missed})
			})
			mustDo(t, e, openWork("w"))
			if n := f.reads.calls() - reads; n != 0 {
				t.Errorf("%d were applied: %d reads", followed, n)
			}
			checkLog(t, m, e, other)
		})
	}
}

// A command that waits because of conflicts can be withdrawn, and is not executed then.
func TestWithdrawnBetweenConflicts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, f, _ := faultyBox(t, nil)
		f.appends.then(repeat(1000, fails(journal.ErrConflict))...)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := e.Do(ctx, openWork("w"))
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrUnknownOutcome) {
			t.Errorf("the error is %v", err)
		}
		f.appends.clear()
		mustDo(t, e, openWork("v"))
		checkWorks(t, e, "v")
	})
}

// A definite failure is an answer at once.
func TestDefiniteFailure(t *testing.T) {
	e, f, m := faultyBox(t, nil)
	full := &signalbox.Error{Code: signalbox.CodeFailed,
		Err: fmt.Errorf("%w: disk full", journal.ErrNotStored), Hint: "make room"}
	f.appends.then(fails(full))
	mustFail(t, e, openWork("w"), full)
	if n := f.appends.calls(); n != 2 {
		t.Errorf("%d appends, want 2: a definite failure is not tried again", n)
	}
	mustDo(t, e, openWork("w"))
	f.heads.then(fails(errCut))
	mustFail(t, e, openWork("w"), errCut)
	f.appends.then(fails(journal.ErrConflict))
	f.reads.then(fails(errCut))
	mustFail(t, e, openWork("v"), errCut)
	f.appends.then(fails(journal.ErrConflict))
	f.heads.then(fails(errCut))
	mustFail(t, e, openWork("v"), errCut)
	mustDo(t, e, openWork("v"))
	checkLog(t, m, e)
}

// Whichever engine is asked, and however far behind it is, the answer is what the rules say of the
// whole log.
func TestEnginesAgree(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		m := newMemory()
		enginesAgree(t, func() journal.Journal { return m },
			func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "pick") })
	})
}

// enginesAgree gives random commands to engines on one log, each with a journal that open returns.
func enginesAgree(t rapid.TB, open func() journal.Journal, pick func(n int) int) {
	t.Helper()
	now := start
	opts := &Options{Now: func() time.Time { return now }}
	j := open()
	var engines []*Engine
	for range 1 + pick(3) {
		e, err := Open(context.Background(), open(), opts)
		must.Succeed(t, err)
		defer e.Close()
		engines = append(engines, e)
	}
	r := &traffic{name: "s", pick: pick}
	var reference rules.State
	commands := []rules.Command{rules.OpenBox{Box: "box", Actor: "me"}, openWork("w0")}
	for range pick(41) {
		commands = append(commands, nil)
	}
	for _, c := range commands {
		if c == nil {
			c = r.next()
		}
		now = now.Add(time.Duration(pick(3)) * 400 * time.Millisecond)
		want := rules.Decide(&reference, now, c)
		answer, err := engines[pick(len(engines))].Do(context.Background(), c)
		if diff := cmp.Diff(outcomeText(want.Answer, want.Err),
			outcomeText(answer, err)); diff != "" {
			t.Fatalf("%#v (-want +got):\n%s", c, diff)
		}
		r.heard(answer, err)
		events := readAll(t, j)
		if got := len(events) - int(reference.Seq()); got != len(want.Events) {
			t.Fatalf("%#v made %d events, want %d", c, got, len(want.Events))
		}
		for reference.Seq() < uint64(len(events)) {
			must.Succeed(t, reference.Apply(&events[reference.Seq()]))
		}
	}
	checkLog(t, j, engines...)
}

func outcomeText(a rules.Answer, err error) string {
	lease := ""
	if a.Lease != nil {
		lease = fmt.Sprintf("%+v", *a.Lease)
	}
	return fmt.Sprintf("%s %d %s %s %s [%s] %t: %v", a.At, a.Seq, a.Work, a.Phase, a.Session, lease,
		a.Repeated, err)
}

// call is a command with what was known before and after it.
type call struct {
	command       rules.Command
	answer        rules.Answer
	err           error
	before, after uint64 // the head of the log
}

// Many engines with many callers: every answer is what the rules say of the log as it was at one
// moment between call and return, and an answer that says that something was recorded is that
// event's.
func TestManyEnginesAtOnce(t *testing.T) {
	for seed := range uint64(4) {
		synctest.Test(t, func(t *testing.T) {
			m := newMemory()
			crowd{callers: 12, commands: 40, now: time.Now,
				pass: func() { time.Sleep(300 * time.Millisecond) }, // all who sleep wake together
			}.run(t, seed, func() journal.Journal { return m })
		})
	}
}

// crowd is how many callers give how many commands each.
type crowd struct {
	callers, commands int
	now               func() time.Time
	pass              func() // lets leases run out
}

// run lets the callers give commands to four engines on one log, each with a journal that
// newJournal returns.
func (w crowd) run(t *testing.T, seed uint64, newJournal func() journal.Journal) {
	t.Helper()
	j := newJournal()
	engines := make([]*Engine, 4)
	for i := range engines {
		engines[i] = open(t, newJournal(), &Options{Now: w.now})
	}
	mustDo(t, engines[0], rules.OpenBox{Box: "box", Actor: "me"})
	mustDo(t, engines[1], openWork("w0"))
	calls := make([][]call, w.callers)
	var callers sync.WaitGroup
	for i := range calls {
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		callers.Go(func() {
			calls[i] = w.giveCommands(j, engines[i%len(engines)],
				&traffic{name: fmt.Sprintf("s%d", i), pick: rng.IntN})
		})
	}
	callers.Wait()
	checkLog(t, j, engines...)
	checkOneLease(t, j)
	states := allStates(t, j)
	for _, c := range calls {
		for i := range c {
			if !explained(states, &c[i]) {
				t.Errorf("%#v between events %d and %d: %s: that was never true", c[i].command,
					c[i].before, c[i].after, outcomeText(c[i].answer, c[i].err))
			}
		}
	}
}

func (w crowd) giveCommands(j journal.Journal, e *Engine, r *traffic) (calls []call) {
	for range w.commands {
		if r.pick(4) == 0 {
			w.pass()
		}
		c := call{command: r.next()}
		c.before, _ = j.Head(context.Background())
		c.answer, c.err = e.Do(context.Background(), c.command)
		c.after, _ = j.Head(context.Background())
		calls = append(calls, c)
		r.heard(c.answer, c.err)
	}
	return calls
}

// allStates returns the state after each event, from none on.
func allStates(t *testing.T, j journal.Journal) []*rules.State {
	t.Helper()
	states := []*rules.State{{}}
	events := readAll(t, j)
	for i := range events {
		next, err := rules.FromSnapshot(states[i].Snapshot())
		if err == nil {
			err = next.Apply(&events[i])
		}
		must.Succeed(t, err)
		states = append(states, next)
	}
	return states
}

func explained(states []*rules.State, c *call) bool {
	for seq := c.before; seq <= c.after; seq++ {
		d := rules.Decide(states[seq], c.answer.At, c.command)
		if outcomeText(d.Answer, d.Err) == outcomeText(c.answer, c.err) &&
			seq+uint64(len(d.Events)) <= c.after {
			return true
		}
	}
	return false
}

// checkOneLease checks, without the rules, that no lease was granted while another was live.
func checkOneLease(t *testing.T, j journal.Journal) {
	t.Helper()
	held, granted := map[string]bool{}, 0
	for _, e := range readAll(t, j) {
		switch e.Type {
		case "LeaseGranted":
			if granted++; held[e.Work] {
				t.Errorf("event %d grants work %s, which is held", e.Seq, e.Work)
			}
			held[e.Work] = true
		case "LeaseReleased", "LeaseExpired":
			held[e.Work] = false
		}
	}
	if granted == 0 {
		t.Error("nothing was ever claimed: the traffic is broken")
	}
}
