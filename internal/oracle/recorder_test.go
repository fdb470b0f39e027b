package oracle_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/core/engine"
	"signalbox/internal/core/journal"
	"signalbox/internal/oracle"
	"signalbox/internal/oracle/chunk"
	"signalbox/internal/oracle/model"
	"signalbox/internal/oracle/session"
	"signalbox/internal/testkit/must"
	"signalbox/internal/tree/turnlog"
)

// slowLedger is a ledger on which a test controls when, and whether, a signal can be appended.
type slowLedger struct {
	journal.Journal
	mu   sync.Mutex // guards puts
	puts int
	// before is called before the nth signal is appended.
	before func(n int) error
}

func (l *slowLedger) PutBlob(ctx context.Context, r io.Reader) (signalbox.Hash, error) {
	l.mu.Lock()
	l.puts++
	n := l.puts
	l.mu.Unlock()
	if err := l.before(n); err != nil {
		return signalbox.Hash{}, err
	}
	return l.Journal.PutBlob(ctx, r)
}

// slowEngine returns an engine on the ledger of a box.
func slowEngine(t testing.TB, b *box.Box, before func(n int) error) (*engine.Engine, *slowLedger) {
	t.Helper()
	l := &slowLedger{Journal: b.Journal, before: before}
	e, err := engine.Open(context.Background(), l, nil)
	must.Succeed(t, err)
	t.Cleanup(func() { _ = e.Close() })
	return e, l
}

// threeTurns returns a model that signals three times.
func threeTurns() *speaker {
	return speaks(said(wants(1)), said(wants(2)), said("It lets everybody in."+enough))
}

// checkLedger checks that exactly the first n of these signals are on the ledger, in order.
func checkLedger(t testing.TB, b *box.Box, n int) {
	t.Helper()
	want := []string{"O-1.1.1 1 need_turn reason 1", "O-1.1.1 2 need_turn reason 2",
		"O-1.1.1 3 context_sufficient "}[:n]
	got := []string{}
	for _, s := range onLedger(t, b) {
		got = append(got, fmt.Sprintf("%s %d %s %s", s.Run, s.Turn, s.Signal, s.Reason))
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("the ledger (-want +got):\n%s", diff)
	}
}

// TestModelDoesNotWaitForTheLedger checks that the conversation continues while signals are
// appended, and does not end before all are on the ledger, in order.
func TestModelDoesNotWaitForTheLedger(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	asked := make(chan int, 10)
	m := threeTurns()
	reply := m.reply
	m.reply = func(ctx context.Context, n int, tell func(string)) (*model.Reply, error) {
		asked <- n
		return reply(ctx, n, tell)
	}
	signals := make(chan struct{}, 10) // one for each signal chunk
	h := &heard{}
	var mu sync.Mutex // guards done
	done := false
	h.each = func(c chunk.Chunk) error {
		switch c.(type) {
		case chunk.Signal:
			signals <- struct{}{}
		case chunk.Done:
			mu.Lock()
			defer mu.Unlock()
			done = true
		}
		return nil
	}
	e, l := slowEngine(t, b, func(n int) error {
		if n == 1 { // until the last signal chunk
			for range 3 {
				<-asked
				<-signals
			}
		}
		mu.Lock()
		defer mu.Unlock()
		if done {
			t.Errorf("it was done before signal %d was on the ledger", n)
		}
		return nil
	})
	answer, err := newOracle(t, oracle.Options{Model: m, Record: turnlog.To(e, "ann")}).Ask(
		t.Context(), newSession(t), question, h.take)
	must.Succeed(t, err)
	if d := h.done(t, answer); d.Reason != "context_sufficient" || l.puts != 3 {
		t.Errorf("it ended with %+v after %d signals", d, l.puts)
	}
	checkLedger(t, b, 3)
}

// TestDoneWaitsForTheLedger checks that the question does not end before all signals are on the
// ledger, whatever else happens.
func TestDoneWaitsForTheLedger(t *testing.T) {
	t.Parallel()
	for name, cancelled := range map[string]bool{"answered": false, "cancelled": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBox(t)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				gate, ended := make(chan struct{}), make(chan *oracle.Answer, 1)
				e, _ := slowEngine(t, b, func(int) error {
					<-gate
					return nil
				})
				m := threeTurns()
				if cancelled {
					reply := m.reply
					m.reply = func(ctx context.Context, n int,
						tell func(string)) (*model.Reply, error) {
						if n == 3 {
							<-ctx.Done()
							return nil, ctx.Err()
						}
						return reply(ctx, n, tell)
					}
				}
				h, s := &heard{}, newSession(t)
				var done atomic.Bool
				h.each = func(c chunk.Chunk) error {
					done.Store(c.Kind() == chunk.KindDone)
					return nil
				}
				o := newOracle(t, oracle.Options{Model: m, Record: turnlog.To(e, "ann")})
				go func() {
					answer, err := o.Ask(ctx, s, question, h.take)
					if err != nil {
						t.Error(err)
					}
					ended <- answer
				}()
				synctest.Wait()
				if cancelled {
					cancel()
					synctest.Wait()
				}
				select {
				case a := <-ended:
					t.Fatalf("it ended with %+v", a.Done)
				default:
				}
				m.mu.Lock()
				if done.Load() || len(m.asked) != 3 {
					t.Errorf("done: %t; the model was asked %d times", done.Load(), len(m.asked))
				}
				m.mu.Unlock()
				checkLedger(t, b, 0)
				close(gate)
				want, there := "context_sufficient", 3
				if cancelled {
					want, there = "cancelled", 2 // signals are recorded even so
				}
				if d := h.done(t, <-ended); d.Reason != want {
					t.Errorf("it ended with %+v", d)
				}
				checkLedger(t, b, there)
			})
		})
	}
}

// TestLedgerFails checks that a signal that cannot be appended makes the conversation fail, in the
// middle or at its end, that no later signal is appended, and that resuming appends each missing
// signal once.
func TestLedgerFails(t *testing.T) {
	t.Parallel()
	for _, bad := range []int{1, 2, 3} {
		t.Run(fmt.Sprint(bad), func(t *testing.T) {
			t.Parallel()
			b := newBox(t)
			e, l := slowEngine(t, b, func(n int) error {
				if n == bad {
					return errors.New("the disk is full")
				}
				return nil
			})
			m := threeTurns()
			reply := m.reply
			m.reply = func(ctx context.Context, n int, tell func(string)) (*model.Reply, error) {
				if n == bad+1 { // this reply would never be used
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return reply(ctx, n, tell)
			}
			s := newSession(t)
			answer, h := asks(t,
				newOracle(t, oracle.Options{Model: m, Record: turnlog.To(e, "ann")}), s, question,
				oracle.ReasonFailed)
			if answer.Error == nil || !strings.Contains(answer.Error.Text, "the disk is full") ||
				len(of[chunk.Error](h.chunks)) != 1 {
				t.Errorf("it is told as %+v:\n%s", answer.Error, lines(h.chunks))
			}
			if l.puts != bad || len(m.asked) > bad+1 {
				t.Errorf("%d signals were put there, and the model was asked %d times", l.puts,
					len(m.asked))
			}
			checkLedger(t, b, bad-1)

			repaired := threeTurns()
			repaired.asked = make([]model.Request, bad) // these replies are in the session
			asks(t, newOracle(t,
				oracle.Options{Model: repaired, Record: turnlog.To(b.Engine, "ann")}), s, "",
				"context_sufficient")
			if len(repaired.asked) != 3 {
				t.Errorf("the model was asked %d times", len(repaired.asked)-bad)
			}
			checkLedger(t, b, 3)
		})
	}
}

// TestKilledBeforeTheLedger checks that resuming appends the signals that a killed process did not
// append.
func TestKilledBeforeTheLedger(t *testing.T) {
	t.Parallel()
	for there := range 4 {
		t.Run(fmt.Sprint(there), func(t *testing.T) {
			t.Parallel()
			b := newBox(t)
			s := newSession(t)
			// without a ledger
			asks(t, newOracle(t, oracle.Options{Model: threeTurns()}), s, question,
				"context_sufficient")
			all := readFiles(t, s.Dir)
			// As if it was killed before the end was recorded, with some signals on the ledger.
			folder := filepath.Join(t.TempDir(), "O-1")
			n := all.counts()
			n[session.RecordName]--
			place{lines: n}.cutTo(t, folder, all)
			e, l := slowEngine(t, b, func(n int) error {
				if n > there {
					return errors.New("it was killed")
				}
				return nil
			})
			copied := filepath.Join(t.TempDir(), "O-1")
			copyFolder(t, folder, copied)
			for i, engine := range []*engine.Engine{e, b.Engine} {
				again, err := session.Open([]string{copied, folder}[i])
				must.Succeed(t, err)
				m := threeTurns()
				answer, err := newOracle(t,
					oracle.Options{Model: m, Record: turnlog.To(engine, "ann")}).Resume(t.Context(),
					again, (&heard{}).take)
				if err != nil || len(m.asked) != 0 {
					t.Errorf("%+v, %v; the model was asked %d times", answer, err, len(m.asked))
				}
				if i == 1 && answer.Done.Reason != "context_sufficient" {
					t.Errorf("it ended with %+v", answer.Done)
				}
				if l.puts != min(there+1, 3) { // none after a failure
					t.Errorf("%d signals were put there", l.puts)
				}
				checkLedger(t, b, max(there, 3*i))
				if err := again.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestSubAgentFollowsItsSignal checks that the signals of a sub-agent are on the ledger after the
// one that asked for it, however slow the ledger is.
func TestSubAgentFollowsItsSignal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex // guards recorded
		var recorded []string
		record := func(_ context.Context, s turnlog.Signal) error {
			if s.Signal.Type == "delegation_recommended" {
				time.Sleep(time.Second) // meanwhile everything else continues
			}
			mu.Lock()
			defer mu.Unlock()
			recorded = append(recorded, s.Signal.Type)
			return nil
		}
		reader := newOracle(t, oracle.Options{Model: threeTurns(), Record: record})
		o := newOracle(t, oracle.Options{Model: speaks(said(handOver), said("Everybody."+enough)),
			Record: record, SubAgents: map[string]*oracle.Oracle{"reader": reader}})
		asks(t, o, newSession(t), question, "context_sufficient")
		want := []string{"delegation_recommended", "need_turn", "need_turn", "context_sufficient",
			"context_sufficient"}
		if diff := gocmp.Diff(want, recorded); diff != "" {
			t.Errorf("the ledger (-want +got):\n%s", diff)
		}
	})
}
