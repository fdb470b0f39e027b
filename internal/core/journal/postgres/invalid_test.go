package postgres

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"signalbox"
	"signalbox/internal/core/journal"
	"signalbox/internal/testkit/must"
	"signalbox/ledger"
)

// firstFormats are the tables of version 1, whose functions checked neither hashes nor times.
func firstFormats(t testing.TB) []format {
	t.Helper()
	functions, err := os.ReadFile("testdata/appends-1.sql")
	must.Succeed(t, err)
	return []format{{1, tables + string(functions)}}
}

// openAs opens a journal as a user, with a program that knows these tables.
func openAs(t testing.TB, user, schema string, formats []format) *Journal {
	t.Helper()
	j, err := Open(t.Context(), as(t, user),
		Options{Schema: schema, Create: true, formats: formats})
	must.Succeed(t, err)
	t.Cleanup(func() { j.Close() })
	return j
}

// invalid are events that would make a ledger unusable if they were stored, as a change of events
// that are valid, with the state that refuses them.
var invalid = map[string]struct {
	code   string
	change func(e *signalbox.Event)
}{
	"another hash":     {invalidEvent, func(e *signalbox.Event) { e.Hash[31] ^= 1 }},
	"another text":     {invalidEvent, func(e *signalbox.Event) { e.Actor += "x" }},
	"another boundary": {invalidEvent, func(e *signalbox.Event) { e.Work, e.Type = "x", "" }},
	"another second": {invalidEvent,
		func(e *signalbox.Event) { e.Time = e.Time.Add(time.Second) }},
	"one nanosecond more": {invalidEvent,
		func(e *signalbox.Event) { e.Time = e.Time.Add(1) }},
	"an earlier time": {invalidEvent,
		func(e *signalbox.Event) { e.Time = time.Unix(0, 1); e.Hash = ledger.Sum(e) }},
	"a time that is not yet": {clockAhead, func(e *signalbox.Event) {
		e.Time = time.Now().Add(journal.MaxAhead + time.Minute)
		e.Hash = ledger.Sum(e)
	}},
	"permission to go back in time": {invalidEvent, func(e *signalbox.Event) {
		e.Type = signalbox.TypeClockCorrected
		e.Hash = ledger.Sum(e)
	}},
}

// The database stores no event that readers would refuse, whoever appends it: one such event would
// stop all machines. The functions of the first version stored them.
func TestInvalidEvents(t *testing.T) {
	worker := newRole(t)
	schema := newSchema()
	owner := openAs(t, "signalbox", schema, nil)
	must.Succeed(t, owner.Grant(t.Context(), worker, Work))
	must.Succeed(t, appendEvent(t, owner, 1))
	j := openAs(t, worker, schema, nil)
	for name, spoil := range invalid {
		for place := range 3 {
			events := []signalbox.Event{event(2), event(3), event(4)}
			if spoil.change(&events[place]); place == 0 {
				events = events[:1] // the function for one event
			}
			for i := place + 1; i < len(events); i++ { // those after it are valid but for the time
				events[i].Prev = events[i-1].Hash
				events[i].Hash = ledger.Sum(&events[i])
			}
			err := j.Append(t.Context(), 1, events)
			failure := (*pgconn.PgError)(nil)
			if !errors.As(err, &failure) || failure.Code != spoil.code ||
				!errors.Is(err, journal.ErrNotStored) || signalbox.HintOf(err) == "" {
				t.Errorf("%s in event %d: %v", name, place+1, err)
			}
			if head, err := j.Head(t.Context()); head != 1 || err != nil {
				t.Fatalf("%s in event %d: the log ends at %d, %v", name, place+1, head, err)
			}
		}

		older := openAs(t, "signalbox", newSchema(), firstFormats(t))
		e := event(1)
		spoil.change(&e)
		must.Succeed(t, older.Append(t.Context(), 0, []signalbox.Event{e}))
	}
	must.Succeed(t, appendEvent(t, j, 2))
}

// The database stores no event that is larger than readers accept, also from a program that does not
// check it itself.
func TestTooLarge(t *testing.T) {
	j := openAs(t, "signalbox", newSchema(), nil)
	large := event(1)
	large.Data = make([]byte, journal.MaxEventBytes-len(large.Type+large.Work+large.Session+large.Actor)+1)
	for _, n := range []int{1, 2} {
		large.Hash = ledger.Sum(&large)
		next := event(2)
		next.Prev = large.Hash
		next.Hash = ledger.Sum(&next)
		events := []signalbox.Event{large, next}[:n]
		_, err := j.append(t.Context(), 0, events)
		if failure := (*pgconn.PgError)(nil); !errors.As(err, &failure) ||
			failure.Code != invalidEvent {
			t.Errorf("%d events: %v", n, err)
		}
	}
	large.Data = large.Data[1:]
	large.Hash = ledger.Sum(&large)
	must.Succeed(t, j.Append(t.Context(), 0, []signalbox.Event{large}))
}

// Who meets a wrong clock learns whose it is, both times, and what to do.
func TestTimeAhead(t *testing.T) {
	schema := newSchema()
	older := openAs(t, "signalbox", schema, firstFormats(t))
	ahead := event(1)
	ahead.Time = time.Date(2036, 1, 2, 3, 4, 5, 6, time.UTC)
	ahead.Hash = ledger.Sum(&ahead)
	machine, err := os.Hostname()
	must.Succeed(t, err)
	wantSkew := func(j *Journal, expected uint64, e signalbox.Event, hint string, texts ...string) {
		t.Helper()
		err := j.Append(t.Context(), expected, []signalbox.Event{e})
		if !errors.Is(err, journal.ErrClockSkew) || !errors.Is(err, journal.ErrNotStored) ||
			!strings.Contains(signalbox.HintOf(err), hint) {
			t.Errorf("error %v, hint %q", err, signalbox.HintOf(err))
		}
		texts = append(texts, "the clock of the database says 20")
		for _, text := range texts {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("error %v, want %q", err, text)
			}
		}
	}
	other := openAs(t, "signalbox", newSchema(), nil)
	wantSkew(other, 0, ahead, "correct the clock of the machine", machine,
		"the new event has the time 2036-01-02T03:04:05Z")
	must.Succeed(t, older.Append(t.Context(), 0, []signalbox.Event{ahead}))
	next := signalbox.Event{Type: "x", Data: []byte("{}")}
	tail := ledger.Tail{}
	must.Succeed(t, tail.Extend(&ahead))
	events := []signalbox.Event{next}
	tail.Seal(events)
	j := openAs(t, "signalbox", schema, nil)
	wantSkew(j, 1, events[0], "signalbox ledger repair --clock",
		"event 1 has the time 2036-01-02T03:04:05Z")
	wantSkew(older, 1, events[0], "signalbox ledger repair --clock") // it runs already
}

// Programs of the first version continue after the owner has migrated the tables, and their invalid
// events are refused. Workers keep their rights.
func TestFirstVersion(t *testing.T) {
	schema, owner, worker := newSchema(), newRole(t), newRole(t)
	execute(t, "CREATE SCHEMA "+schema+" AUTHORIZATION "+owner)
	first := firstFormats(t)
	old := openAs(t, owner, schema, first)
	must.Succeed(t, old.Grant(t.Context(), worker, Work))
	oldWorker := openAs(t, worker, schema, first)
	must.Succeed(t, appendEvent(t, oldWorker, 1))
	newer := openAs(t, owner, schema, nil)
	must.Succeed(t, appendEvent(t, oldWorker, 2))
	must.Succeed(t, appendEvent(t, newer, 3))
	must.Succeed(t, appendEvent(t, openAs(t, worker, schema, nil), 4))
	must.Succeed(t, appendEvent(t, openAs(t, worker, schema, first), 5))
	forged := event(6)
	forged.Hash[0] ^= 1
	if err := oldWorker.Append(t.Context(), 5, []signalbox.Event{forged}); err == nil {
		t.Error("an older program stored an event with a wrong hash")
	}
	must.Succeed(t, appendEvent(t, old, 6))
}

// Only the owner can replace the end of the log.
func TestReplaceTail(t *testing.T) {
	schema, worker := newSchema(), newRole(t)
	j := openAs(t, "signalbox", schema, nil)
	must.Succeed(t, j.Grant(t.Context(), worker, Work))
	for seq := range uint64(4) {
		must.Succeed(t, appendEvent(t, j, seq+1))
	}
	ahead := signalbox.Event{Seq: 3, Time: time.Date(2036, 1, 1, 0, 0, 0, 0, time.UTC),
		Type: signalbox.TypeClockCorrected, Data: []byte("{}"), Prev: event(2).Hash}
	ahead.Hash = ledger.Sum(&ahead)
	repair := []signalbox.Event{ahead}

	err := openAs(t, worker, schema, nil).ReplaceTail(t.Context(), event(4).Hash, 2, repair)
	if err == nil || !strings.Contains(err.Error(), "only the owner of the ledger, signalbox") {
		t.Errorf("a worker: %v", err)
	}
	if err := j.ReplaceTail(t.Context(), event(3).Hash, 2, repair); !errors.Is(err,
		journal.ErrConflict) {
		t.Errorf("the log has grown: %v", err)
	}
	other := slices.Clone(repair)
	other[0].Prev[0] ^= 1
	if err := j.ReplaceTail(t.Context(), event(4).Hash, 2, other); err == nil {
		t.Error("an event that does not continue the log was stored")
	}
	if head, err := j.Head(t.Context()); head != 4 || err != nil {
		t.Fatalf("the log ends at %d, %v", head, err)
	}
	for range 2 { // the second time, as if the answer was lost
		must.Succeed(t, j.ReplaceTail(t.Context(), event(4).Hash, 2, repair))
	}
	next := event(4)
	next.Prev = ahead.Hash
	next.Hash = ledger.Sum(&next)
	must.Succeed(t, j.Append(t.Context(), 3, []signalbox.Event{next})) // earlier than the last one
	events, err := j.Read(t.Context(), 0, 10)
	if err != nil || len(events) != 4 || events[2].Hash != ahead.Hash ||
		events[3].Hash != next.Hash {
		t.Errorf("events %v, %v", events, err)
	}
	_, err = shared.Need(t).Query("DELETE FROM " + schema + ".events")
	if err == nil || !strings.Contains(err.Error(), "never changed or deleted") {
		t.Errorf("events can be deleted now: %v", err)
	}
}
