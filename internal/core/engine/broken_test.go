package engine

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/ledger"
)

// brokenLogs are what may happen to a log that an engine has folded up to its third event.
var brokenLogs = []struct {
	name string
	then func(events []signalbox.Event) []signalbox.Event
	is   error          // what the error matches, nil for anything
	code signalbox.Code // 0 for an error without one
}{
	{"an event of another chain", func(events []signalbox.Event) []signalbox.Event {
		var other ledger.Tail
		other.Seq, other.Time = 3, start
		return seal(events, other, signalbox.Event{Type: "WorkOpened", Work: "x",
			Data: []byte(`{"phase":"DRAFT"}`)})
	}, nil, signalbox.CodeUnverified},
	{"an event that was changed", func(events []signalbox.Event) []signalbox.Event {
		events = next(events, signalbox.Event{Type: "WorkOpened", Work: "x",
			Data: []byte(`{"phase":"DRAFT"}`)})
		events[3].Work = "y"
		return events
	}, nil, signalbox.CodeUnverified},
	{"a gap", func(events []signalbox.Event) []signalbox.Event {
		events = next(events, signalbox.Event{Type: "WorkOpened", Work: "x",
			Data: []byte(`{"phase":"DRAFT"}`)})
		events[3].Seq = 5
		events[3].Hash = ledger.Sum(&events[3])
		return events
	}, nil, signalbox.CodeUnverified},
	{"a newer event", newerEvent, rules.ErrNewer, signalbox.CodeFailed},
	{"an event that cannot be", func(events []signalbox.Event) []signalbox.Event {
		return next(events, signalbox.Event{Type: "LeaseExpired", Work: "w",
			Data: []byte(`{"epoch":2}`)})
	}, rules.ErrHistory, signalbox.CodeUnverified},
	{"good events and then a newer one", func(events []signalbox.Event) []signalbox.Event {
		events = next(events, signalbox.Event{Type: "WorkOpened", Work: "x",
			Data: []byte(`{"phase":"DRAFT"}`)})
		return newerEvent(events)
	}, rules.ErrNewer, signalbox.CodeFailed},
}

func newerEvent(events []signalbox.Event) []signalbox.Event {
	return next(events, signalbox.Event{Type: "SomethingNew", Data: []byte(`{}`)})
}

// cutOff has happened to a log that is shorter than it was. No journal tells of it: only a command
// finds it.
func cutOff(events []signalbox.Event) []signalbox.Event { return events[:2] }

// next appends an event as a signalbox would.
func next(events []signalbox.Event, e signalbox.Event) []signalbox.Event {
	var tail ledger.Tail
	for i := range events {
		if err := tail.Extend(&events[i]); err != nil {
			panic(err)
		}
	}
	return seal(events, tail, e)
}

func seal(events []signalbox.Event, tail ledger.Tail, e signalbox.Event) []signalbox.Event {
	e.Time = start
	sealed := []signalbox.Event{e}
	tail.Seal(sealed)
	return append(events, sealed...)
}

// inBrokenLog runs a test on an engine whose log breaks when the test says so.
func inBrokenLog(t *testing.T, test func(t *testing.T, e *Engine, f *faulty, breakLog func())) {
	for _, tt := range brokenLogs {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, f, m := faultyBox(t, nil)
				mustDo(t, e, openWork("w"))
				mustDo(t, e, openWork("v"))
				test(t, e, f, func() { m.change(tt.then) })
				err := e.Refresh(context.Background())
				classed := (*signalbox.Error)(nil)
				errors.As(err, &classed)
				switch {
				case err == nil || tt.is != nil && !errors.Is(err, tt.is):
					t.Errorf("error %v, want %v", err, tt.is)
				case (classed == nil) != (tt.code == 0) || classed != nil &&
					classed.Code != tt.code:
					t.Errorf("error %v: %+v, want code %d", err, classed, tt.code)
				}
				checkStopped(t, e, f, err)
			})
		})
	}
}

// checkStopped checks that an engine on a broken log says so to everybody, and writes nothing.
func checkStopped(t *testing.T, e *Engine, f *faulty, want error) {
	t.Helper()
	ctx := context.Background()
	appends := f.appends.calls()
	mustFail(t, e, openWork("later"), want)
	mustFail(t, e, openWork("w"), want)
	mustFail(t, e, rules.Expire{}, want)
	if err := e.Wait(ctx, 0); !errors.Is(err, want) {
		t.Errorf("wait for an existing event: error %v, want %v", err, want)
	}
	if err := e.Wait(ctx, 100); !errors.Is(err, want) {
		t.Errorf("wait: error %v, want %v", err, want)
	}
	if err := e.Follow(ctx); !errors.Is(err, want) {
		t.Errorf("follow: error %v, want %v", err, want)
	}
	if err := e.Refresh(ctx); err != want {
		t.Errorf("refresh: error %v, want the same as before, %v", err, want)
	}
	if f.appends.calls() != appends {
		t.Error("the engine tried to write to a broken log")
	}
}

func TestBrokenLogFoundByCommand(t *testing.T) {
	inBrokenLog(t, func(t *testing.T, e *Engine, f *faulty, breakLog func()) {
		breakLog()
		if _, err := e.Do(context.Background(), openWork("later")); err == nil {
			t.Error("a command on a broken log was carried out")
		}
	})
}

func TestBrokenLogFoundByRefusedCommand(t *testing.T) {
	inBrokenLog(t, func(t *testing.T, e *Engine, f *faulty, breakLog func()) {
		breakLog()
		_, first := e.Do(context.Background(), openWork("w"))
		mustFail(t, e, openWork("w"), first)
	})
}

// The append that would have told of success met the broken log when it looked what had happened.
func TestBrokenLogFoundByAmbiguousAppend(t *testing.T) {
	inBrokenLog(t, func(t *testing.T, e *Engine, f *faulty, breakLog func()) {
		f.appends.then(func(func() error) error {
			breakLog()
			return errCut
		})
		mustFail(t, e, openWork("later"), ErrUnknownOutcome)
	})
}

// Those who wait hear of it too, and whoever comes later.
func TestBrokenLogFoundByFollow(t *testing.T) {
	inBrokenLog(t, func(t *testing.T, e *Engine, f *faulty, breakLog func()) {
		waiting := begin(func(a *asked) { a.err = e.Wait(context.Background(), 5) })
		following := begin(func(a *asked) { a.err = e.Follow(context.Background()) })
		synctest.Wait()
		breakLog()
		<-following.done
		<-waiting.done
		if following.err == nil || waiting.err != following.err {
			t.Errorf("wait: error %v, follow: error %v; want the same", waiting.err, following.err)
		}
		mustFail(t, e, openWork("later"), following.err)
	})
}

// A truncated log is not a conflict: retrying would never end.
func TestTruncatedLog(t *testing.T) {
	for name, c := range map[string]rules.Command{"command": openWork("later"),
		"refused command": openWork("w")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, f, m := faultyBox(t, nil)
				mustDo(t, e, openWork("w"))
				mustDo(t, e, openWork("v"))
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				defer cancel()
				following := make(chan error, 1)
				go func() { following <- e.Follow(ctx) }()
				synctest.Wait()
				m.change(cutOff)
				_, err := e.Do(ctx, c)
				classed := (*signalbox.Error)(nil)
				if !errors.As(err, &classed) || classed.Code != signalbox.CodeUnverified {
					t.Fatalf("error %v, want one of code %d", err, signalbox.CodeUnverified)
				}
				if got := <-following; !errors.Is(got, err) {
					t.Errorf("follow: error %v, want %v", got, err)
				}
				checkStopped(t, e, f, err)
			})
		})
	}
}

func TestOpenBrokenLog(t *testing.T) {
	for _, tt := range brokenLogs {
		t.Run(tt.name, func(t *testing.T) {
			m := newMemory()
			e := openBox(t, m, nil)
			mustDo(t, e, openWork("w"))
			mustDo(t, e, openWork("v"))
			m.change(tt.then)
			opened, err := Open(context.Background(), m, nil)
			if opened != nil || err == nil || tt.is != nil && !errors.Is(err, tt.is) {
				t.Errorf("engine %v, error %v; want error %v", opened, err, tt.is)
			}
		})
	}
}
