package engine

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"signalbox"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/rules"
	"signalbox/ledger"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func stillClock() time.Time { return start }

// open returns an engine that the test closes at its end. Without options its clock stands still.
func open(t testing.TB, j journal.Journal, opts *Options) *Engine {
	t.Helper()
	if opts == nil {
		opts = &Options{Now: stillClock}
	}
	e, err := Open(context.Background(), j, opts)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// openBox returns an engine on a new box. The log has one event.
func openBox(t testing.TB, j journal.Journal, opts *Options) *Engine {
	t.Helper()
	e := open(t, j, opts)
	mustDo(t, e, rules.OpenBox{Box: "box", Actor: "me"})
	return e
}

// mustDo gives a command that is not refused.
func mustDo(t testing.TB, e *Engine, c rules.Command) rules.Answer {
	t.Helper()
	answer, err := e.Do(context.Background(), c)
	if err != nil {
		t.Fatalf("%#v: %v", c, err)
	}
	return answer
}

// mustFail gives a command that fails with an error that matches want.
func mustFail(t testing.TB, e *Engine, c rules.Command, want error) {
	t.Helper()
	if _, err := e.Do(context.Background(), c); !errors.Is(err, want) {
		t.Errorf("%#v: error %v, want %v", c, err, want)
	}
}

// mustRefuse gives a command that the rules refuse.
func mustRefuse(t testing.TB, e *Engine, c rules.Command, code signalbox.Code) rules.Answer {
	t.Helper()
	answer, err := e.Do(context.Background(), c)
	refused := (*signalbox.Error)(nil)
	if !errors.As(err, &refused) || refused.Code != code {
		t.Errorf("%#v: error %v, want one of code %d", c, err, code)
	}
	return answer
}

func openWork(id string) rules.Command { return rules.OpenWork{Work: id, Actor: "me"} }

func claim(work, session string, ttl time.Duration) rules.Command {
	return rules.Claim{Work: work, Role: signalbox.RoleDeveloper, Session: session, Actor: "dev",
		Lease: "L-" + session, TTL: ttl}
}

func release(work string, a rules.Answer) rules.Command {
	return rules.Release{Work: work, Session: a.Session, Epoch: a.Lease.Epoch}
}

func exit(session string) rules.Command {
	return rules.Exit{Session: session, Signal: signalbox.ExitSignal{
		Protocol: signalbox.ExitProtocol, Version: "1.0.0",
		PhaseCompleted: signalbox.PhaseImplementation, ExitReason: signalbox.ExitCompleted,
	}}
}

// asked is a call that runs in a goroutine.
type asked struct {
	done   chan struct{}
	answer rules.Answer // of a command
	err    error
}

func begin(do func(*asked)) *asked {
	a := &asked{done: make(chan struct{})}
	go func() {
		defer close(a.done)
		do(a)
	}()
	return a
}

// ask begins a command.
func ask(ctx context.Context, e *Engine, c rules.Command) *asked {
	return begin(func(a *asked) { a.answer, a.err = e.Do(ctx, c) })
}

// answered reports whether the call has returned.
func (a *asked) answered() bool {
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}

// checkWorks checks which work there is, in the order it was opened.
func checkWorks(t testing.TB, e *Engine, want ...string) {
	t.Helper()
	var got []string
	e.View(func(s *rules.State) {
		for w := range s.Works() {
			got = append(got, w.ID)
		}
	})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("works (-want +got):\n%s", diff)
	}
}

// checkLog verifies the log and checks that each engine, when it has caught up, has exactly its
// fold.
func checkLog(t rapid.TB, j journal.Journal, engines ...*Engine) {
	t.Helper()
	events := readAll(t, j)
	report, err := ledger.Verify(context.Background(), uint64(len(events)), j.Read, nil)
	if err != nil || !report.OK {
		t.Fatalf("verify: %+v, %v", report, err)
	}
	var tail ledger.Tail
	var fold rules.State
	for i := range events {
		if err := errors.Join(tail.Extend(&events[i]), fold.Apply(&events[i])); err != nil {
			t.Fatalf("fold: %v", err)
		}
	}
	for i, e := range engines {
		if err := e.Refresh(context.Background()); err != nil && err != ErrClosed {
			t.Fatalf("engine %d: refresh: %v", i, err)
		}
		if e.Tail() != tail {
			t.Errorf("engine %d is at event %d with hash %s, want %d with %s", i, e.Tail().Seq,
				e.Tail().Hash, tail.Seq, tail.Hash)
		}
		e.View(func(s *rules.State) {
			if !bytes.Equal(s.Snapshot(), fold.Snapshot()) {
				t.Errorf("engine %d has another state than the log gives", i)
			}
		})
	}
}

// readAll returns all events of a journal.
func readAll(t rapid.TB, j journal.Journal) (all []signalbox.Event) {
	t.Helper()
	for {
		// it may return fewer
		events, err := j.Read(context.Background(), uint64(len(all)), journal.MaxAppend)
		if err != nil {
			t.Fatalf("read: %v", err)
		}
		if len(events) == 0 {
			return all
		}
		all = append(all, events...)
	}
}

// eventTypes returns the types of the events that follow after.
func eventTypes(m *memory, after uint64) []string {
	var types []string
	events, _ := m.stored()
	for _, e := range events[after:] {
		types = append(types, e.Type)
	}
	return types
}

func checkTypes(t testing.TB, m *memory, after uint64, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, eventTypes(m, after)); diff != "" {
		t.Errorf("events after %d (-want +got):\n%s", after, diff)
	}
}

// lines collects what is logged.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

// count returns how many lines have the text.
func (l *lines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), text)
}
