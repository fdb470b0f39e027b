package postgres

import (
	"errors"
	"strings"
	"testing"

	"signalbox"
	"signalbox/internal/core/journal"
	"signalbox/internal/testkit/must"
)

// Programs of two versions share a ledger if the newer one only adds something. Otherwise the older
// one is refused, also when it runs already.
func TestMigration(t *testing.T) {
	schema := newSchema()
	owner, worker := newRole(t), newRole(t)
	execute(t, "CREATE SCHEMA "+schema+" AUTHORIZATION "+owner)
	added := append(append([]format{}, formats...),
		format{1, "ALTER TABLE BOX.blobs ADD COLUMN kind text; CREATE TABLE BOX.more (x int)"})
	incompatible := append(append([]format{}, added...),
		format{4, "CREATE TABLE BOX.other (x int)"})
	open := func(user string, formats []format) (*Journal, error) {
		return Open(t.Context(), as(t, user),
			Options{Schema: schema, Create: true, formats: formats})
	}
	version := func() string {
		t.Helper()
		got, err := shared.Need(t).Query(
			"SELECT version || ' ' || oldest || ' ' || (SELECT count(*) FROM pg_tables WHERE schemaname = '" + schema + "') FROM " + schema + ".format")
		must.Succeed(t, err)
		return got
	}
	wantVersion := func(want string) {
		t.Helper()
		if got := version(); got != want {
			t.Errorf("version, oldest and tables %q, want %q", got, want)
		}
	}

	old, err := open(owner, formats)
	must.Succeed(t, err)
	defer old.Close()
	must.Succeed(t, old.Grant(t.Context(), worker, Work))
	must.Succeed(t, appendEvent(t, old, 1))
	wantVersion("2 1 4")

	_, err = open(worker, added)
	if err == nil || !strings.Contains(err.Error(),
		"the tables have version 2, this program needs version 3, and only their owner "+owner) ||
		signalbox.HintOf(err) == "" {
		t.Errorf("a worker with a newer program: %v", err)
	}
	wantVersion("2 1 4")

	newer, err := open(owner, added)
	must.Succeed(t, err)
	defer newer.Close()
	wantVersion("3 1 5")
	must.Succeed(t, appendEvent(t, old, 2)) // it still runs
	again, err := open(worker, formats)
	must.Succeed(t, err)
	defer again.Close()
	must.Succeed(t, appendEvent(t, again, 3))

	newest, err := open(owner, incompatible)
	must.Succeed(t, err)
	defer newest.Close()
	wantVersion("4 4 6")
	must.Succeed(t, appendEvent(t, newest, 4))
	if err := appendEvent(t, old, 5); !errors.Is(err, journal.ErrNotStored) ||
		!strings.Contains(err.Error(), "were changed for a newer version") {
		t.Errorf("append of an old program: %v", err)
	}
	if _, err := open(owner, formats); err == nil ||
		!strings.Contains(err.Error(),
			"the tables have version 4, and this program knows version 2") ||
		signalbox.HintOf(err) == "" {
		t.Errorf("open with an old program: %v", err)
	}
	wantVersion("4 4 6")
	if head, err := newest.Head(t.Context()); head != 4 || err != nil {
		t.Errorf("head %d, %v", head, err)
	}
}

// A migration that fails changes nothing.
func TestMigrationFails(t *testing.T) {
	schema := newSchema()
	j := openJournal(t, schema)
	defer j.Close()
	broken := append(append([]format{}, formats...),
		format{3, "CREATE TABLE BOX.more (x int); SELECT 1/0"})
	if _, err := Open(t.Context(), shared.Need(t).Address,
		Options{Schema: schema, formats: broken}); err == nil ||
		!strings.Contains(err.Error(), "make version 3 of the tables") {
		t.Errorf("a broken migration: %v", err)
	}
	must.Succeed(t, appendEvent(t, j, 1))
	openJournal(t, schema).Close()
}

// Processes that create the same ledger at the same time all get it.
func TestCreateConcurrently(t *testing.T) {
	schema := newSchema()
	address := shared.Need(t).Address
	results := make(chan error)
	for range 8 {
		go func() {
			j, err := Open(t.Context(), address, Options{Schema: schema, Create: true})
			if err == nil {
				err = j.Close()
			}
			results <- err
		}()
	}
	for range 8 {
		must.Succeed(t, <-results)
	}
}
