package engine

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"signalbox"
	"signalbox/internal/core/applied"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/rules"
	"signalbox/internal/testkit/must"
	"signalbox/ledger"
)

// machine is a machine that remembers what its processes applied.
type machine struct{ file string }

func newMachine(t testing.TB) *machine { return &machine{filepath.Join(t.TempDir(), applied.FileName)} }

// open starts an engine in a process of the machine.
func (m *machine) open(t testing.TB, j journal.Journal) *Engine {
	t.Helper()
	e, err := m.tryOpen(t, j)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return e
}

func (m *machine) tryOpen(t testing.TB, j journal.Journal) (*Engine, error) {
	t.Helper()
	memory, err := applied.Open(m.file, "box")
	must.Succeed(t, err)
	e, err := Open(context.Background(), j, &Options{Now: stillClock, Memory: memory})
	if err == nil {
		t.Cleanup(func() { e.Close() })
	}
	t.Cleanup(func() { memory.Close() })
	return e, err
}

// check checks what the machine remembers last.
func (m *machine) check(t testing.TB, want ledger.Tail) {
	t.Helper()
	_, events, err := applied.Read(m.file)
	if err != nil || len(events) == 0 {
		t.Fatalf("%d events are remembered, %v; want event %d", len(events), err, want.Seq)
	}
	if last := events[len(events)-1]; last.Seq != want.Seq || last.Hash != want.Hash {
		t.Errorf("the last event that is remembered is %v, want %d with %v", last, want.Seq,
			want.Hash)
	}
}

// openBox starts an engine on a log with three events, which the machine remembers.
func (m *machine) openBox(t testing.TB, j journal.Journal) *Engine {
	t.Helper()
	e := m.open(t, j)
	mustDo(t, e, rules.OpenBox{Box: "box", Actor: "me"})
	mustDo(t, e, openWork("w"))
	mustDo(t, e, openWork("v"))
	return e
}

// losses are what may happen to a log of three events, all of which are remembered.
var losses = []struct {
	name   string
	then   func(events []signalbox.Event) []signalbox.Event
	report string
	known  string // the numbers of the events that are listed
}{
	{"the last event is lost",
		func(events []signalbox.Event) []signalbox.Event { return events[:2] },
		"event 3 is missing: this machine has applied it, but the ledger ends at event 2", "3"},
	{"two events are lost", func(events []signalbox.Event) []signalbox.Event { return events[:1] },
		"events 2 to 3 are missing: this machine has applied them, but the ledger ends at event 1",
		"2 3"},
	{"all events are lost", func([]signalbox.Event) []signalbox.Event { return nil },
		"events 1 to 3 are missing: this machine has applied them, but the ledger ends at event 0",
		"1 2 3"},
	{"another event is in its place",
		func(events []signalbox.Event) []signalbox.Event { return other(events[:2], 1) },
		"event 3 is missing: this machine has applied it, but the ledger has other events instead",
		"3"},
	{"another event is in the place of two",
		func(events []signalbox.Event) []signalbox.Event { return other(events[:1], 1) },
		"events 2 to 3 are missing: this machine has applied them, but the ledger has other events instead and ends at event 2", "2 3"},
	{"others, and more of them",
		func(events []signalbox.Event) []signalbox.Event { return other(events[:2], 5) },
		"event 3 is missing: this machine has applied it, but the ledger has other events instead",
		"3"},
}

// other appends valid events that other machines wrote.
func other(events []signalbox.Event, n int) []signalbox.Event {
	events = cloneEvents(events)
	for i := range n {
		events = next(events, signalbox.Event{Type: rules.TypeWorkOpened,
			Work: fmt.Sprint("other", i), Actor: "they", Data: []byte(`{"phase":"DRAFT"}`)})
	}
	return events
}

// checkLost checks that an error lists the lost events.
func checkLost(t testing.TB, err error, report, known string) {
	t.Helper()
	lost := (*applied.Lost)(nil)
	if !errors.As(err, &lost) || signalbox.CodeOf(err) != signalbox.CodeUnverified ||
		!strings.Contains(signalbox.HintOf(err), "accept-loss") {
		t.Fatalf("error %v, code %d", err, signalbox.CodeOf(err))
	}
	var seqs []string
	for _, e := range lost.Known {
		if e.Type == "" || e.Time.IsZero() {
			t.Errorf("what is known of event %d: %+v", e.Seq, e)
		}
		seqs = append(seqs, fmt.Sprint(e.Seq))
	}
	if got := strings.Join(seqs, " "); err.Error() != report || got != known {
		t.Errorf("error %q, known %s; want %q, %s", err, got, report, known)
	}
}

// TestOpenLogThatLostEvents starts an engine on a log that has lost events, and writes nothing.
func TestOpenLogThatLostEvents(t *testing.T) {
	for _, tt := range losses {
		for _, withSnapshot := range []bool{false, true} {
			t.Run(fmt.Sprint(tt.name, ", snapshot ", withSnapshot), func(t *testing.T) {
				here, m := newMachine(t), newMemory()
				e := here.openBox(t, m)
				e.Close()
				m.change(tt.then)
				// of the log as it is now
				if events, _ := m.stored(); withSnapshot && len(events) > 0 {
					quiet := open(t, m, nil)
					quiet.mu.Lock()
					s := quiet.snapshot()
					quiet.mu.Unlock()
					m.snapshot = &s
				}
				before, _ := m.stored()
				opened, err := here.tryOpen(t, m)
				if opened != nil {
					t.Fatal("the log was opened")
				}
				checkLost(t, err, tt.report, tt.known)
				if after, _ := m.stored(); len(after) != len(before) {
					t.Errorf("the log has %d events, had %d", len(after), len(before))
				}
				here.check(t, e.Tail()) // it is still remembered
				if _, err := newMachine(t).tryOpen(t, m); err != nil {
					t.Errorf("on a machine that remembers nothing: %v", err)
				}
			})
		}
	}
}

// TestRunningEngineFindsLoss loses events under a running engine, and under another process of its
// machine that applied fewer.
func TestRunningEngineFindsLoss(t *testing.T) {
	for _, tt := range losses {
		for name, find := range map[string]func(e *Engine) error{
			"command": func(
				e *Engine) error {
				_, err := e.Do(context.Background(), openWork("later"))
				return err
			},
			"refused command": func(
				e *Engine) error {
				_, err := e.Do(context.Background(), openWork("w"))
				return err
			},
			"follow":  func(e *Engine) error { return e.Follow(context.Background()) },
			"observe": func(e *Engine) error { return e.Observe(context.Background()) },
		} {
			if tt.name == "another event is in its place" && name == "refused command" {
				// the log is as long as it was, and nothing is written: the next look at the log
				// finds it
				continue
			}
			t.Run(tt.name+", "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					here, m := newMachine(t), newMemory()
					f := &faulty{Journal: m}
					e := here.openBox(t, f)
					m.change(tt.then)
					before, _ := m.stored()
					err := find(e)
					checkLost(t, err, tt.report, tt.known)
					checkStopped(t, e, f, err)
					if after, _ := m.stored(); len(after) != len(before) {
						t.Error("the engine wrote to the log")
					}
				})
			})
		}
	}
}

// TestIdleFollowerFindsLoss loses events while an engine waits at the end of the log. The watch of
// a journal says nothing.
func TestIdleFollowerFindsLoss(t *testing.T) {
	for _, tt := range losses {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				here, m := newMachine(t), newMemory()
				e := here.openBox(t, silent{m})
				ended := follow(t, e)
				m.change(tt.then)
				pass(checkPause - time.Second)
				if len(ended) > 0 {
					t.Fatal("it was found at once, so this tests nothing")
				}
				pass(2 * time.Second)
				select {
				case err := <-ended:
					checkLost(t, err, tt.report, tt.known)
					mustFail(t, e, openWork("later"), err)
				default:
					t.Fatal("it was not found")
				}
			})
		})
	}
}

// silent is a journal whose watches yield nothing, like one that waits for events after the one
// that was lost.
type silent struct{ journal.Journal }

func (silent) Watch(ctx context.Context, _ uint64) iter.Seq2[signalbox.Event, error] {
	return func(yield func(signalbox.Event, error) bool) {
		<-ctx.Done()
		yield(signalbox.Event{}, ctx.Err())
	}
}

// TestIdleFollowerOfAHealthyLog is left alone, also while the log cannot be read.
func TestIdleFollowerOfAHealthyLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, m := newMachine(t), newMemory()
		f := &faulty{Journal: silent{m}}
		e := here.openBox(t, f)
		ended := follow(t, e)
		f.reads.then(fails(journal.ErrUnavailable))
		pass(10 * checkPause)
		if len(ended) > 0 {
			t.Errorf("follow ended: %v", <-ended)
		}
		mustDo(t, e, openWork("later"))
	})
}

// TestFollowAfterOutage finds what was lost in an outage as soon as the log can be reached again.
func TestFollowAfterOutage(t *testing.T) {
	for _, tt := range losses {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				here, m := newMachine(t), newMemory()
				back := make(chan struct{})
				e := here.openBox(t, &interrupted{Journal: silent{m}, end: back})
				ended := follow(t, e)
				pass(checkPause / 4)
				if len(ended) > 0 {
					t.Fatalf("follow ended: %v", <-ended)
				}
				m.change(tt.then)
				close(back)
				pass(checkPause / 4)
				if len(ended) == 0 {
					t.Fatal("it was not found")
				}
				checkLost(t, <-ended, tt.report, tt.known)
			})
		})
	}
}

// interrupted is a journal whose first watch ends with an outage.
type interrupted struct {
	journal.Journal
	end     <-chan struct{}
	watched bool
}

func (i *interrupted) Watch(ctx context.Context, after uint64) iter.Seq2[signalbox.Event, error] {
	if i.watched {
		return i.Journal.Watch(ctx, after)
	}
	i.watched = true
	return func(yield func(signalbox.Event, error) bool) {
		<-i.end
		yield(signalbox.Event{}, journal.ErrUnavailable)
	}
}

// TestOtherProcessOfTheMachine has applied fewer events than another process of its machine. It
// mustDo not write to the log after that one's events were lost, although the log has all that it
// knows itself.
func TestOtherProcessOfTheMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, m := newMachine(t), newMemory()
		f := &faulty{Journal: m}
		idle := here.openBox(t, f)
		busy := here.open(t, m)
		mustDo(t, busy, openWork("x"))
		mustDo(t, busy, openWork("y"))
		m.change(func(events []signalbox.Event) []signalbox.Event { return events[:3] })
		appends := f.appends.calls()
		_, err := idle.Do(context.Background(), openWork("z"))
		checkLost(t, err, "events 4 to 5 are missing: this machine has applied them, but the ledger ends at event 3", "4 5")
		if f.appends.calls() != appends {
			t.Error("it tried to write")
		}
		checkStopped(t, idle, f, err)
	})
}

// TestTwoHistoriesOnOneMachine has two processes that apply different events with the same number,
// which only the memory can find.
func TestTwoHistoriesOnOneMachine(t *testing.T) {
	here, m := newMachine(t), newMemory()
	first := here.openBox(t, m)
	events, _ := m.stored()
	rolledBack := newMemory()
	rolledBack.change(func([]signalbox.Event) []signalbox.Event { return cloneEvents(events) })
	second := here.open(t, rolledBack)
	mustDo(t, first, openWork("x"))
	_, err := second.Do(context.Background(), openWork("y"))
	checkLost(t, err, "event 4 is missing: this machine has applied it, but the ledger ends at event 3", "4")
}

// TestTwoHistoriesFoundAfterTheAppend applies another event elsewhere while an append is under way.
// The command is stored, so it has not simply failed.
func TestTwoHistoriesFoundAfterTheAppend(t *testing.T) {
	here, m := newMachine(t), newMemory()
	elsewhere := here.openBox(t, m)
	events, _ := m.stored()
	rolledBack := newMemory()
	rolledBack.change(func([]signalbox.Event) []signalbox.Event { return cloneEvents(events) })
	f := &faulty{Journal: rolledBack}
	e := here.open(t, f)
	f.appends.then(first(func() { mustDo(t, elsewhere, openWork("x")) }))
	_, err := e.Do(context.Background(), openWork("y"))
	if !errors.Is(err, ErrUnknownOutcome) || signalbox.CodeOf(err) != signalbox.CodeUnverified ||
		signalbox.HintOf(err) == "" {
		t.Errorf("error %v, code %d", err, signalbox.CodeOf(err))
	}
	checkTypes(t, rolledBack, 3, "WorkOpened")
	if _, err := e.Do(context.Background(),
		openWork("z")); signalbox.CodeOf(err) != signalbox.CodeUnverified ||
		errors.Is(err, ErrUnknownOutcome) {
		t.Errorf("the next command: error %v", err)
	}
}

// TestRememberBeforeTheAnswer finds own events and those of others in the memory as soon as they
// can be seen.
func TestRememberBeforeTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, m := newMachine(t), newMemory()
		e := here.openBox(t, m)
		here.check(t, e.Tail())
		mustDo(t, e, claim("w", "s", time.Hour))
		here.check(t, e.Tail())
		elsewhere := open(t, m, nil)
		mustDo(t, elsewhere, openWork("x"))
		must.Succeed(t, e.Refresh(context.Background()))
		here.check(t, elsewhere.Tail())
		follow(t, e)
		mustDo(t, elsewhere, openWork("y"))
		synctest.Wait()
		here.check(t, elsewhere.Tail())
		ambiguous := &faulty{Journal: m}
		late := here.open(t, ambiguous)
		ambiguous.appends.then(cutAfter)
		mustDo(t, late, openWork("z"))
		here.check(t, late.Tail())
	})
}

// TestRememberAtStart remembers the end of a log when an engine starts on it, whether or not it
// starts from a snapshot.
func TestRememberAtStart(t *testing.T) {
	for _, length := range []uint64{1, 10, applied.Size, 3000} {
		m := newMemory()
		w := &writer{m: m}
		w.grow(t, length)
		here, late := newMachine(t), newMachine(t)
		here.open(t, m).Close() // saves a snapshot of a long log
		here.check(t, w.tail)
		late.open(t, m)
		late.check(t, w.tail)
		_, events, err := applied.Read(late.file)
		if want := min(length, applied.Size); err != nil || uint64(len(events)) != want {
			t.Errorf("%d events are remembered, %v; want %d", len(events), err, want)
		}
		// A machine whose memory is older.
		w.grow(t, length+50)
		e := late.open(t, m)
		late.check(t, w.tail)
		mustDo(t, e, openWork("x"))
		late.check(t, e.Tail())
	}
}

// TestMemoryThatCannotBeWritten still executes commands, and says that nothing is remembered.
func TestMemoryThatCannotBeWritten(t *testing.T) {
	m, heard := newMemory(), &lines{}
	memory, err := applied.Open(newMachine(t).file, "box")
	must.Succeed(t, err)
	e := openBox(t, m, &Options{Now: stillClock, Memory: memory, Log: heard.logger()})
	memory.Close()
	mustDo(t, e, openWork("w"))
	if heard.count("cannot remember the last events") != 1 {
		t.Errorf("the log says %q", heard.text.String())
	}
}
