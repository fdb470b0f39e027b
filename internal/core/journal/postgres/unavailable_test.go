package postgres

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgxpool"

	"signalbox"
	"signalbox/internal/core/journal"
	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/pgserver"
	"signalbox/internal/testkit/proxy"
	"signalbox/ledger"
)

// event returns an event of a log of equal events.
func event(seq uint64) signalbox.Event {
	events := make([]signalbox.Event, seq)
	for i := range events {
		events[i] = signalbox.Event{Time: time.Unix(1, 0), Type: "x", Data: []byte("{}")}
	}
	new(ledger.Tail).Seal(events)
	return events[seq-1]
}

func appendEvent(t testing.TB, j *Journal, seq uint64) error {
	t.Helper()
	return j.Append(t.Context(), seq-1, []signalbox.Event{event(seq)})
}

// startServer starts a server of this test only.
func startServer(t testing.TB, opts pgserver.Options) *pgserver.Server {
	t.Helper()
	pgserver.Need(t)
	s, err := pgserver.StartWith(opts)
	must.Succeed(t, err)
	t.Cleanup(func() { s.Stop() })
	return s
}

func openBox(t testing.TB, address string, opts Options) *Journal {
	t.Helper()
	opts.Schema, opts.Create = cmp.Or(opts.Schema, "box"), true
	j, err := Open(t.Context(), address, opts)
	must.Succeed(t, err)
	t.Cleanup(func() { j.Close() })
	return j
}

// watchUntil returns a channel that receives the first error of a watch, or nil when it has seen
// the event last. After an outage it watches again.
func watchUntil(ctx context.Context, j *Journal, last uint64) <-chan error {
	result := make(chan error, 1)
	go func() {
		next := uint64(1)
	again:
		for e, err := range j.Watch(ctx, next-1) {
			switch {
			case errors.Is(err, journal.ErrUnavailable):
				goto again
			case err != nil:
				result <- err
				return
			case e.Seq != next:
				result <- fmt.Errorf("event %d instead of %d", e.Seq, next)
				return
			case e.Seq == last:
				result <- nil
				return
			}
			next++
		}
	}()
	return result
}

// While the server is away, every method returns ErrUnavailable. When it is back, the journal and
// its watches continue.
func TestServerIsKilled(t *testing.T) {
	server, schema := victim.Need(t), newSchema()
	j := openBox(t, server.Address,
		Options{Schema: schema, poll: 10 * time.Millisecond, patience: 50 * time.Millisecond})
	watched := watchUntil(t.Context(), j, 2)
	must.Succeed(t, appendEvent(t, j, 1))
	digest, err := j.PutBlob(t.Context(), strings.NewReader("evidence"))
	must.Succeed(t, err)
	blob, err := j.OpenBlob(t.Context(), digest)
	must.Succeed(t, err)
	reader, err := j.GetBlob(t.Context(), digest)
	must.Succeed(t, err)
	must.Succeed(t, server.Kill())
	for name, call := range map[string]func() error{
		"append":      func() error { return appendEvent(t, j, 2) },
		"append none": func() error { return j.Append(t.Context(), 1, nil) },
		"read":        func() error { _, err := j.Read(t.Context(), 0, 1); return err },
		"head":        func() error { _, err := j.Head(t.Context()); return err },
		"put blob": func() error {
			_, err := j.PutBlob(t.Context(), strings.NewReader("x"))
			return err
		},
		"get blob":    func() error { _, err := j.GetBlob(t.Context(), digest); return err },
		"open blob":   func() error { _, err := j.OpenBlob(t.Context(), digest); return err },
		"delete blob": func() error { return j.DeleteBlob(t.Context(), digest) },
		"read a blob": func() error { _, err := reader.Read(make([]byte, 1)); return err },
		"read part":   func() error { _, err := blob.ReadAt(make([]byte, 1), 0); return err },
		"grant":       func() error { return j.Grant(t.Context(), "somebody", Read) },
		"open": func() error {
			_, err := Open(t.Context(), server.Address,
				Options{Schema: schema, patience: time.Millisecond})
			return err
		},
	} {
		err := call()
		if !errors.Is(err, journal.ErrUnavailable) || signalbox.HintOf(err) == "" {
			t.Errorf("%s: %v, hint %q", name, err, signalbox.HintOf(err))
		}
		if strings.HasPrefix(name, "append") && !errors.Is(err, journal.ErrNotStored) {
			t.Errorf("%s: %v", name, err)
		}
	}
	must.Succeed(t, server.Restart())
	must.Succeed(t, appendEvent(t, j, 2))
	must.Succeed(t, <-watched)
}

// All watches end when the server is away. They leave it to their users to say so, who would
// otherwise hear of one outage several times.
func TestWatchesEndQuietlyInAnOutage(t *testing.T) {
	server := victim.Need(t)
	t.Cleanup(func() { must.Succeed(t, server.Restart()) })
	var logged bytes.Buffer
	j := openBox(t, server.Address,
		Options{Schema: newSchema(), poll: 10 * time.Millisecond, patience: 50 * time.Millisecond,
			Logger: slog.New(slog.NewTextHandler(&logged, nil))})
	must.Succeed(t, appendEvent(t, j, 1))
	logged.Reset() // what it says of the server
	started, ended := make(chan struct{}), make(chan error)
	for range 2 {
		go func() {
			var last error
			for e, err := range j.Watch(t.Context(), 0) {
				if last = err; err == nil && e.Seq == 1 {
					started <- struct{}{}
				}
			}
			ended <- last
		}()
	}
	<-started
	<-started
	must.Succeed(t, server.Kill())
	for range 2 {
		if err := <-ended; !errors.Is(err, journal.ErrUnavailable) || signalbox.HintOf(err) == "" {
			t.Errorf("a watch ends with %v", err)
		}
	}
	if err := j.Close(); err != nil { // so that nothing is logged any more
		t.Error(err)
	}
	if logged.Len() > 0 {
		t.Errorf("logged:\n%s", &logged)
	}
}

// A call waits for a server that is restarted.
func TestServerIsRestarted(t *testing.T) {
	server := victim.Need(t)
	j := openBox(t, server.Address, Options{Schema: newSchema(), patience: time.Minute})
	must.Succeed(t, appendEvent(t, j, 1))
	must.Succeed(t, server.ShutDown())
	stored := make(chan error, 1)
	go func() { stored <- appendEvent(t, j, 2) }()
	must.Succeed(t, server.Restart())
	must.Succeed(t, <-stored)
	if head, err := j.Head(t.Context()); head != 2 || err != nil {
		t.Errorf("head %d, %v", head, err)
	}
}

// A server that does not answer is unavailable, and an append that it received is not stored later,
// when somebody has read the log.
func TestServerIsPaused(t *testing.T) {
	server := victim.Need(t)
	j := openBox(t, server.Address, Options{Schema: newSchema(), patience: 50 * time.Millisecond})
	config := j.pool.Config()
	// an append after a moment would wait for the answer to a ping, and not be sent
	config.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	j.pool.Close()
	var err error
	j.pool, err = pgxpool.NewWithConfig(t.Context(), config)
	must.Succeed(t, err)
	must.Succeed(t, appendEvent(t, j, 1))
	// The notification of that append may still use a connection. The next append needs another
	// one: it cannot make one while the server is paused.
	var spare [2]*pgxpool.Conn
	for i := range spare {
		spare[i], err = j.pool.Acquire(t.Context())
		must.Succeed(t, err)
	}
	for _, conn := range spare {
		conn.Release()
	}
	j.opts.answer = time.Second
	must.Succeed(t, server.Pause())
	err = appendEvent(t, j, 2)
	if !errors.Is(err, journal.ErrUnavailable) || errors.Is(err, journal.ErrNotStored) ||
		errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("append: %v", err)
	}
	if _, err := j.Read(t.Context(), 0, 10); !errors.Is(err, journal.ErrUnavailable) {
		t.Errorf("read: %v", err)
	}
	must.Succeed(t, server.Resume())
	j.opts.answer = time.Minute
	var events []signalbox.Event
	for { // the machine may be slow
		if events, err = j.Read(t.Context(), 0, 10); err == nil {
			break
		}
		if !errors.Is(err, journal.ErrUnavailable) {
			t.Fatal(err)
		}
	}
	for range 20 { // later appends must not find it stored
		head, err := j.Head(t.Context())
		if err == nil && head != uint64(len(events)) {
			t.Fatalf("the log had %d events, and then %d", len(events), head)
		}
	}
}

// through starts a proxy before a server, and returns it with the address that leads to it.
func through(t testing.TB, server *pgserver.Server) (*proxy.Proxy, string) {
	t.Helper()
	p, err := proxy.Start("unix", server.Socket())
	must.Succeed(t, err)
	t.Cleanup(func() { p.Close() })
	return p, fmt.Sprintf("postgres://signalbox@127.0.0.1:%d/postgres?sslmode=disable",
		p.Addr().Port)
}

// A journal is opened although the first connection breaks, as when the server is being restarted.
func TestOpeningTriesAgain(t *testing.T) {
	p, address := through(t, shared.Need(t))
	lost := p.LoseAnswer("relname")
	j, err := Open(t.Context(), address,
		Options{Schema: newSchema(), Create: true, patience: time.Minute})
	must.Succeed(t, err)
	defer j.Close()
	select {
	case <-lost:
	default:
		t.Error("no answer was lost")
	}
}

// An append whose answer is lost, or that arrives in part, is stored exactly once.
func TestConnectionsAreReset(t *testing.T) {
	server := shared.Need(t)
	p, address := through(t, server)
	schema := newSchema()
	j, err := Open(t.Context(), address,
		Options{Schema: schema, Create: true, patience: time.Minute})
	must.Succeed(t, err)
	defer j.Close()
	const marker = "{}" // the data of the events
	seq := uint64(0)
	for range 10 {
		for name, fault := range map[string]func(
			string) <-chan struct{}{"lose answer": p.LoseAnswer, "cut request": p.CutRequest} {
			happened := fault(marker)
			seq++
			if err := appendEvent(t, j, seq); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			<-happened
		}
	}
	p.Reset()
	if head, err := j.Head(t.Context()); head != seq || err != nil {
		t.Errorf("head %d, %v; want %d", head, err, seq)
	}
}

// A server that is stopped after it has stored an append may end the connection with a fatal error
// instead of an answer. The append is stored exactly once, and is not reported as a conflict with
// itself.
func TestFatalErrorAfterTheCommit(t *testing.T) {
	p, address := through(t, shared.Need(t))
	j, err := Open(t.Context(), address, Options{Schema: newSchema(), Create: true,
		patience: time.Minute})
	must.Succeed(t, err)
	defer j.Close()
	fatal, err := (&pgproto3.ErrorResponse{Severity: "FATAL", SeverityUnlocalized: "FATAL",
		Code:    "57P01",
		Message: "terminating connection due to administrator command"}).Encode(nil)
	must.Succeed(t, err)
	for seq := uint64(1); seq <= 3; seq++ {
		happened := p.ReplaceAnswer("{}", fatal) // the data of the events
		if err := appendEvent(t, j, seq); err != nil {
			t.Fatalf("event %d: %v", seq, err)
		}
		<-happened
	}
	if head, err := j.Head(t.Context()); head != 3 || err != nil {
		t.Errorf("head %d, %v; want 3", head, err)
	}
}

// Only an error after which the connection continues means that nothing was stored.
func TestNeverStored(t *testing.T) {
	for severity, want := range map[string]bool{"ERROR": true, "FATAL": false, "PANIC": false,
		"": false} {
		for name, err := range map[string]*pgconn.PgError{
			"new server": {Severity: "FEHLER", SeverityUnlocalized: severity, Code: "57P01"},
			"old server": {Severity: severity, Code: "57P01"},
		} {
			if got := neverStored(fmt.Errorf("append: %w", err)); got != want {
				t.Errorf("%s, %q: %t", name, severity, got)
			}
		}
	}
}

// An append whose outcome is unknown is refused when it arrives after somebody has read the log.
// Later appends are stored, also those of a process that does not know why.
func TestLateAppend(t *testing.T) {
	for name, read := range map[string]func(*Journal) error{
		"read":   func(j *Journal) error { _, err := j.Read(t.Context(), 0, 1); return err },
		"head":   func(j *Journal) error { _, err := j.Head(t.Context()); return err },
		"append": func(j *Journal) error { return j.Append(t.Context(), 0, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			schema := newSchema()
			j, other := openJournal(t, schema), openJournal(t, schema)
			defer j.Close()
			defer other.Close()
			a := attempt{last: 1, hash: event(1).Hash}
			j.remember(a)
			must.Succeed(t, read(j))
			if sent, err := j.send(t.Context(), a, 0, []signalbox.Event{event(1)}); sent ||
				!errors.Is(err, errFenced) {
				t.Errorf("the late append: sent %v, %v", sent, err)
			}
			if head, err := j.Head(t.Context()); head != 0 || err != nil {
				t.Errorf("head %d, %v", head, err)
			}
			must.Succeed(t, appendEvent(t, j, 1))
			if stored, err := j.settleOne(t.Context(),
				attempt{last: 1, hash: event(1).Hash}); !stored || err != nil {
				t.Errorf("stored %v, %v", stored, err)
			}
			must.Succeed(t, appendEvent(t, other, 2))
		})
	}
}

// A database that has lost a fence, as a replica may after a failover, does not accept a late
// append that knew it.
func TestLostFence(t *testing.T) {
	j := openJournal(t, newSchema())
	defer j.Close()
	settle := func(a attempt) {
		t.Helper()
		if stored, err := j.settleOne(t.Context(), a); stored || err != nil {
			t.Fatalf("stored %t, %v", stored, err)
		}
	}
	settle(attempt{last: 1, hash: event(1).Hash})
	a := attempt{fence: j.fence.Load(), last: 1, hash: event(1).Hash}
	execute(t, j.sql("UPDATE BOX.format SET fence = fence - 1"))
	settle(a)
	if sent, err := j.send(t.Context(), a, 0, []signalbox.Event{event(1)}); sent ||
		!errors.Is(err, errFenced) {
		t.Errorf("the late append: sent %v, %v", sent, err)
	}
}

// A caller that asks what became of an append waits until it is either stored or rolled back.
func TestAppendInProgress(t *testing.T) {
	server := shared.Need(t)
	e := event(1)
	for name, end := range map[string]func(pgx.Tx) error{
		"rolled back": func(tx pgx.Tx) error { return tx.Rollback(t.Context()) },
		"stored":      func(tx pgx.Tx) error { return tx.Commit(t.Context()) },
	} {
		t.Run(name, func(t *testing.T) {
			j := openJournal(t, newSchema())
			defer j.Close()
			tx, err := j.pool.Begin(t.Context())
			must.Succeed(t, err)
			defer tx.Rollback(t.Context())
			var refusal []byte
			must.Succeed(t, tx.QueryRow(t.Context(), j.appendOne,
				append([]any{j.opts.program(), j.fence.Load(), int64(0)},
					arguments([]signalbox.Event{e})...)...).Scan(&refusal))
			if refusal != nil {
				t.Fatalf("refusal %x", refusal)
			}
			settled := make(chan error, 1)
			go func() {
				stored, err := j.settleOne(t.Context(), attempt{last: e.Seq, hash: e.Hash})
				if err == nil && stored != (name == "stored") {
					err = fmt.Errorf("stored: %t", stored)
				}
				settled <- err
			}()
			for waiting := "0"; waiting == "0"; {
				waiting, err = server.Query(
					"SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%fence_appends%'")
				must.Succeed(t, err)
				select {
				case err := <-settled:
					t.Fatalf("settled during the append: %v", err)
				default:
				}
			}
			must.Succeed(t, end(tx))
			must.Succeed(t, <-settled)
		})
	}
}

// both returns an address that names both servers.
func both(t testing.TB, a, b *pgserver.Server) string {
	t.Helper()
	u, err := url.Parse(a.Address)
	must.Succeed(t, err)
	q := u.Query()
	q.Set("host", a.Dir+","+b.Dir)
	q.Set("port", fmt.Sprint(a.Port, ",", b.Port))
	u.RawQuery = q.Encode()
	return u.String()
}

// When the primary fails, the journal finds the replica that takes its place, and misses nothing
// that was acknowledged.
func TestFailover(t *testing.T) {
	server := startServer(t, pgserver.Options{})
	standby, err := server.Standby()
	must.Succeed(t, err)
	t.Cleanup(func() { standby.Stop() })
	// The standby comes first: it must not be used as long as it is one.
	j := openBox(t, both(t, standby, server),
		Options{poll: 10 * time.Millisecond, patience: time.Minute})
	watched := watchUntil(t.Context(), j, 3)
	must.Succeed(t, appendEvent(t, j, 1))

	// Without its replica, the primary acknowledges nothing, even if somebody ends its wait.
	must.Succeed(t, standby.Pause())
	waiting := make(chan error, 1)
	go func() { waiting <- appendEvent(t, j, 2) }()
	for {
		cancelled, err := server.Query(
			"SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query LIKE '%append_event%'")
		must.Succeed(t, err)
		if cancelled != "0" {
			break
		}
	}
	for { // now it finds out what became of the append, and waits again
		fencing, err := server.Query(
			"SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query LIKE '%fence_appends%'")
		must.Succeed(t, err)
		select {
		case err := <-waiting:
			t.Fatalf("acknowledged without the replica: %v", err)
		default:
		}
		if fencing != "0" {
			break
		}
	}
	must.Succeed(t, standby.Resume())
	must.Succeed(t, <-waiting)

	must.Succeed(t, server.Kill())
	must.Succeed(t, standby.Promote())
	must.Succeed(t, appendEvent(t, j, 3))
	must.Succeed(t, <-watched)
}
