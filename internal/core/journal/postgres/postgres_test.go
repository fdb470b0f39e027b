package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"signalbox"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/journal/journaltest"
	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/pgserver"
)

// childVariable makes this test binary append to the journal in the schema that it names, until it
// is killed.
const childVariable = "POSTGRESJOURNAL_TEST_SCHEMA"

// shared is the server of all tests that do not harm it. Tests stop, kill and pause victim, one
// after the other, and leave it running.
var shared, victim pgserver.Shared

func TestMain(m *testing.M) {
	if schema := os.Getenv(childVariable); schema != "" {
		j, err := Open(context.Background(), os.Args[1], Options{Schema: schema})
		if err == nil {
			err = journaltest.AppendForever(context.Background(), j, os.Stdout)
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	status := m.Run()
	if err := errors.Join(shared.Stop(), victim.Stop()); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(status)
}

var schemaNumber atomic.Int64

// newSchema returns the name of a new schema.
func newSchema() string { return fmt.Sprintf("box_%d", schemaNumber.Add(1)) }

// openJournal opens a journal, which waits for a slow server.
func openJournal(t testing.TB, schema string) *Journal {
	t.Helper()
	j, err := Open(t.Context(), shared.Need(t).Address,
		Options{Schema: schema, Create: true, patience: time.Minute, answer: time.Minute})
	must.Succeed(t, err)
	return j
}

// execute executes a statement without the journal.
func execute(t testing.TB, statement string, args ...any) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), shared.Need(t).Address)
	must.Succeed(t, err)
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), statement, args...); err != nil {
		t.Fatal(err)
	}
}

func TestJournal(t *testing.T) {
	journaltest.Run(t, func(t *testing.T) journaltest.Log {
		schema := newSchema()
		openJournal(t, schema).Close()
		return journaltest.Log{
			Open: func(t testing.TB) journal.Log { return openJournal(t, schema) },
			AppendAndKill: func(t testing.TB, events int) uint64 {
				cmd := exec.Command(os.Args[0], shared.Need(t).Address)
				cmd.Env = append(os.Environ(), childVariable+"="+schema)
				return journaltest.KillAfter(t, cmd, events)
			},
			DamageBlob: func(t testing.TB, digest signalbox.Hash) {
				execute(t, "UPDATE "+schema+
					".blob_pieces SET data = set_byte(data, 0, get_byte(data, 0) # 1) WHERE piece = 0 AND upload = (SELECT upload FROM "+schema+".blobs WHERE digest = $1)", digest[:])
			},
		}
	})
}

// Events cannot be changed, deleted or truncated, even by the owner of the tables.
func TestEventsAreNeverChanged(t *testing.T) {
	schema := newSchema()
	j := openJournal(t, schema)
	defer j.Close()
	must.Succeed(t, appendEvent(t, j, 1))
	conn, err := pgx.Connect(t.Context(), shared.Need(t).Address)
	must.Succeed(t, err)
	defer conn.Close(context.Background())
	for _, statement := range []string{"UPDATE BOX.events SET type = ''", "DELETE FROM BOX.events",
		"TRUNCATE BOX.events"} {
		if _, err := conn.Exec(t.Context(), j.sql(statement)); err == nil ||
			!strings.Contains(err.Error(), "never changed or deleted") {
			t.Errorf("%s: %v", statement, err)
		}
	}
}
