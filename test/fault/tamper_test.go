package fault

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/core/engine"
	"signalbox/internal/core/rules"
	"signalbox/ledger"
)

// tamperEvents is the number of events in the ledger of newLedger.
const tamperEvents = 200

// keeping is held while a test looks for the box of newLedger, or makes it.
var keeping sync.Mutex

// newLedger returns a box whose ledger has many types of events, all signed. It is a copy of a box
// that is made once and stored next to the program.
func newLedger(t testing.TB) *site {
	t.Helper()
	keeping.Lock()
	defer keeping.Unlock()
	kept := filepath.Join(filepath.Dir(os.Getenv(binaryVariable)), "ledger")
	if _, err := os.Stat(kept); err != nil {
		check(t, os.CopyFS(kept, os.DirFS(filepath.Dir(makeLedger(t, backends[0]).home))))
	}
	return copySite(t, t.TempDir(), kept)
}

func makeLedger(t testing.TB, on backend) *site {
	t.Helper()
	s := on.newSite(t)
	s.must(t, "work", "open", "by-hand", "--title", "größer als <&>")
	s.must(t, "work", "claim", "by-hand", "--role", "developer", "--session", "hand")
	fillLedger(t, s)
	s.must(t, "ledger", "checkpoint")
	if v := s.verifyCommand(t, 0); v.Events != tamperEvents || v.Checkpoint.Size != tamperEvents {
		t.Fatalf("the new ledger does not verify as expected: %+v", v)
	}
	return s
}

// fillLedger appends events until the ledger has tamperEvents. It advances its own clock, so that
// leases expire at once, unless the database has a clock: that does not let it.
func fillLedger(t testing.TB, s *site) {
	t.Helper()
	l := s.openLedger(t)
	defer l.Close()
	_, hasClock, err := l.ClockOffset(t.Context())
	check(t, err)
	step := time.Second
	if hasClock {
		step = time.Millisecond
	}
	now := time.Now()
	e, err := engine.Open(t.Context(), l.Journal,
		&engine.Options{Now: func() time.Time { return now }})
	check(t, err)
	defer e.Close()
	do := func(c rules.Command) rules.Answer {
		now = now.Add(step)
		answer, err := e.Do(t.Context(), c)
		if refused := (*rules.RefusedError)(nil); err != nil && !errors.As(err, &refused) {
			t.Fatal(err)
		}
		return answer
	}
	for i := 0; e.Tail().Seq < tamperEvents-20; i++ {
		work, session := fmt.Sprintf("task-%d", i), fmt.Sprintf("s-%d", i)
		do(rules.OpenWork{Work: work, Title: "title of " + work, Actor: "tester"})
		answer := do(claimOf(work, session))
		do(rules.Renew{Work: work, Session: session, Epoch: answer.Lease.Epoch})
		switch i % 3 {
		case 2:
			if !hasClock {
				now = now.Add(time.Hour)
				do(rules.Expire{})
				do(rules.Exit{Session: session, Signal: signalOf(signalbox.PhaseImplementation,
					signalbox.ExitCompleted)})
				continue
			}
			fallthrough
		case 0:
			blob, err := e.PutBlob(t.Context(), strings.NewReader(work))
			check(t, err)
			do(rules.Exit{Session: session, Signal: signalOf(signalbox.PhaseImplementation,
				signalbox.ExitBlocked), Blob: blob})
			do(rules.Unblock{Work: work, Note: "continue", Actor: "tester"})
			now = now.Add(step)
			_, err = e.Redact(t.Context(), rules.RedactBlob{Blob: blob, Reason: "secret",
				Actor: "tester"})
			check(t, err)
		case 1:
			do(rules.Release{Work: work, Session: session, Epoch: answer.Lease.Epoch,
				Reason: "stopped"})
		}
	}
	for i := 0; e.Tail().Seq < tamperEvents; i++ {
		do(rules.OpenWork{Work: fmt.Sprintf("last-%d", i), Actor: "tester"})
	}
}

// tamperer changes the database directly.
type tamperer struct {
	t  testing.TB
	db *sql.DB
	// unprotect removes the triggers that protect the events.
	unprotect string
}

// tamper opens the box's database. The driver is the one the program uses.
func (s *site) tamper(t testing.TB) *tamperer {
	t.Helper()
	name := url.URL{Scheme: "file", Path: s.file("ledger.db"),
		RawQuery: "_pragma=synchronous(OFF)&_pragma=busy_timeout(10000)"}
	db, err := sql.Open("sqlite", name.String())
	check(t, err)
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { db.Close() })
	// The program creates them again when it opens the box.
	return &tamperer{t, db, `DROP TRIGGER IF EXISTS events_are_never_changed; DROP TRIGGER IF EXISTS events_are_never_deleted;
		DROP TRIGGER IF EXISTS events_are_only_appended`}
}

// tamperPostgres opens the database of a box whose ledger is in PostgreSQL.
func (s *site) tamperPostgres(t testing.TB) *tamperer {
	t.Helper()
	journal, err := config.ReadJournal(s.box)
	check(t, err)
	address, schema, err := config.PostgresAddress(journal)
	check(t, err)
	db, err := sql.Open("pgx", address+"&search_path="+schema)
	check(t, err)
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { db.Close() })
	return &tamperer{t, db, "ALTER TABLE events DISABLE TRIGGER USER"}
}

// exec executes a statement without the triggers that protect the events.
func (m *tamperer) exec(query string, args ...any) {
	m.t.Helper()
	_, err := m.db.ExecContext(m.t.Context(), m.unprotect)
	if err == nil {
		_, err = m.db.ExecContext(m.t.Context(), query, args...)
	}
	if err != nil {
		m.t.Fatalf("%s: %v", query, err)
	}
}

func (m *tamperer) close() {
	m.t.Helper()
	check(m.t, m.db.Close())
}

// insert stores an event unchecked.
func (m *tamperer) insert(e signalbox.Event) {
	m.t.Helper()
	m.exec("INSERT INTO events VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
		int64(e.Seq), e.Time.UnixNano(), e.Type, e.Work, e.Session, e.Actor, e.Data, e.Prev[:],
		e.Hash[:])
}

// replace replaces all stored events.
func (m *tamperer) replace(events []signalbox.Event) {
	m.t.Helper()
	m.exec("DELETE FROM events")
	for _, e := range events {
		m.insert(e)
	}
}

// moveUp increments the sequence numbers from the given one on.
func (m *tamperer) moveUp(from uint64) {
	m.t.Helper()
	m.exec("UPDATE events SET seq = -seq - 1 WHERE seq >= $1", int64(from))
	m.exec("UPDATE events SET seq = -seq WHERE seq < 0")
}

// reseal recomputes prev and hash of all events, as an attacker who knows the format would.
func reseal(events []signalbox.Event) []signalbox.Event {
	var tail ledger.Tail
	tail.Seal(events)
	return events
}

// sqlChild executes a statement on a database.
func sqlChild(ctx context.Context, args []string) error {
	db, err := sql.Open("sqlite", args[0])
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, args[1])
	return errors.Join(err, db.Close())
}
