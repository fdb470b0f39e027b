package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"signalbox"
	"signalbox/internal/core/journal"
	"signalbox/internal/testkit/must"
)

// as returns the address of the shared server for another user.
func as(t testing.TB, user string) string {
	return strings.Replace(shared.Need(t).Address, "user=signalbox", "user="+user, 1)
}

// newRole creates a role that can log in.
func newRole(t testing.TB) string {
	role := fmt.Sprintf("role_%d", schemaNumber.Add(1))
	execute(t, "CREATE ROLE "+role+" LOGIN")
	return role
}

// A worker can do all that running agents needs, and cannot change, delete or forge events. A
// reader can only read.
func TestGrant(t *testing.T) {
	schema, owner := newSchema(), newRole(t)
	execute(t, "CREATE SCHEMA "+schema+" AUTHORIZATION "+owner)
	owned, err := Open(t.Context(), as(t, owner), Options{Schema: schema, Create: true})
	must.Succeed(t, err)
	defer owned.Close()
	must.Succeed(t, appendEvent(t, owned, 1))
	kept, err := owned.PutBlob(t.Context(), strings.NewReader("kept"))
	must.Succeed(t, err)
	worker, reader, stranger := newRole(t), newRole(t), newRole(t)
	must.Succeed(t, owned.Grant(t.Context(), worker, Work))
	must.Succeed(t, owned.Grant(t.Context(), reader, Work))
	must.Succeed(t, owned.Grant(t.Context(), reader, Read)) // takes the other rights away
	must.Succeed(t, owned.Grant(t.Context(), stranger, Work))
	must.Succeed(t, owned.Grant(t.Context(), stranger, Nothing))

	forWorker, err := Open(t.Context(), as(t, worker), Options{Schema: schema})
	must.Succeed(t, err)
	defer forWorker.Close()
	forReader, err := Open(t.Context(), as(t, reader), Options{Schema: schema})
	must.Succeed(t, err)
	defer forReader.Close()
	if j, err := Open(t.Context(), as(t, stranger), Options{Schema: schema}); err == nil ||
		!strings.Contains(err.Error(), "the user has no right") {
		j.Close()
		t.Errorf("a stranger: %v", err)
	}

	seq := uint64(1)
	for name, write := range map[string]func(j *Journal) error{
		"append": func(j *Journal) error {
			err := appendEvent(t, j, seq+1)
			if err == nil {
				seq++
			} else if !errors.Is(err, journal.ErrNotStored) {
				t.Errorf("append: %v", err)
			}
			return err
		},
		"put": func(
			j *Journal) error {
			_, err := j.PutBlob(t.Context(), strings.NewReader("new"))
			return err
		},
		"settle append": func(
			j *Journal) error {
			_, err := j.settleOne(t.Context(), attempt{})
			return err
		},
	} {
		if err := write(forWorker); err != nil {
			t.Errorf("%s by a worker: %v", name, err)
		}
		if err := write(forReader); err == nil ||
			!strings.Contains(err.Error(), "permission denied") {
			t.Errorf("%s by a reader: %v", name, err)
		}
	}
	for name, j := range map[string]*Journal{"worker": forWorker, "reader": forReader} {
		if _, err := j.Read(t.Context(), 0, 10); err != nil {
			t.Errorf("read by a %s: %v", name, err)
		}
		if _, err := j.GetBlob(t.Context(), kept); err != nil {
			t.Errorf("get by a %s: %v", name, err)
		}
		if err := j.DeleteBlob(t.Context(), kept); err == nil || signalbox.HintOf(err) == "" {
			t.Errorf("delete by a %s: %v", name, err)
		}
		if err := j.Grant(t.Context(), stranger, Work); err == nil ||
			!strings.Contains(err.Error(), "only the owner of the ledger, "+owner) {
			t.Errorf("grant by a %s: %v", name, err)
		}
	}

	forgeries := []string{
		"SELECT BOX.append_event(1, (SELECT fence FROM BOX.format), %d, 1, 'x', 'x', 'x', 'x', 'x', decode('%s','hex'), sha256('x'))",
		"SELECT BOX.append_events(1, (SELECT fence FROM BOX.format), %d, '{1}', '{x}', '{x}', '{x}', '{x}', '{x}', ARRAY[decode('%s','hex')], ARRAY[sha256('x')])",
	}
	for _, user := range []string{worker, reader} {
		conn, err := pgx.Connect(t.Context(), as(t, user))
		must.Succeed(t, err)
		defer conn.Close(t.Context())
		for _, statement := range []string{
			"UPDATE BOX.events SET type = 'x'", "DELETE FROM BOX.events", "TRUNCATE BOX.events",
			"DROP TABLE BOX.events", "DROP SCHEMA BOX CASCADE",
			"INSERT INTO BOX.events VALUES (100, 1, 'x', 'x', 'x', 'x', 'x', sha256('x'), sha256('x'))",
			"ALTER TABLE BOX.events DISABLE TRIGGER ALL",
			"DROP TRIGGER events_are_never_changed ON BOX.events",
			"SET session_replication_role = replica",
			"CREATE TABLE BOX.more (x int)",
			"CREATE OR REPLACE FUNCTION BOX.refuse_change() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
			"UPDATE BOX.format SET version = 2", "UPDATE BOX.format SET fence = 0",
			"UPDATE BOX.blob_pieces SET data = ''", "DELETE FROM BOX.blobs",
			"ALTER FUNCTION BOX.append_events OWNER TO " + user, "SELECT BOX.refusal(1)",
			"GRANT UPDATE ON BOX.events TO " + user,
		} {
			tag, err := conn.Exec(t.Context(), owned.sql(statement))
			if err == nil && !(strings.HasPrefix(statement, "GRANT") && tag.String() == "GRANT") {
				t.Errorf("%s may: %s", user, statement)
			}
		}
		var changed bool
		must.Succeed(t, conn.QueryRow(t.Context(),
			"SELECT has_table_privilege($1, 'UPDATE, DELETE, TRUNCATE, INSERT, TRIGGER')", schema+
				".events").Scan(&changed))
		if changed {
			t.Errorf("%s may change events", user)
		}
		if user == reader {
			continue
		}
		testForgedEvents(t, conn, owned, seq)
		for _, forgery := range forgeries {
			for name, statement := range map[string]string{
				"after a gap":            fmt.Sprintf(forgery, 100, event(seq).Hash),
				"over an event":          fmt.Sprintf(forgery, 0, strings.Repeat("00", 32)),
				"that continues nothing": fmt.Sprintf(forgery, seq, strings.Repeat("77", 32)),
			} {
				var refusal []byte
				if err := conn.QueryRow(t.Context(),
					owned.sql(statement)).Scan(&refusal); err != nil || refusal == nil {
					t.Errorf("an append %s: refusal %x, %v, after %s", name, refusal, err,
						statement)
				}
			}
		}
	}
	events, err := owned.Read(t.Context(), 0, 10)
	if err != nil || uint64(len(events)) != seq {
		t.Errorf("%d events, %v, want %d", len(events), err, seq)
	}
}

// testForgedEvents appends events that would make the log unreadable, after event seq.
func testForgedEvents(t *testing.T, conn *pgx.Conn, owner *Journal, seq uint64) {
	t.Helper()
	forged := func(name, statement string, fields []any) {
		t.Helper()
		var fence int64
		must.Succeed(t, conn.QueryRow(t.Context(),
			owner.sql("SELECT fence FROM BOX.format")).Scan(&fence))
		var refusal []byte
		if err := conn.QueryRow(t.Context(), statement,
			append([]any{1, fence, int64(seq)}, fields...)...).Scan(&refusal); err == nil &&
			(refusal == nil || binary.BigEndian.Uint64(refusal) != uint64(fence)) {
			t.Errorf("%s: refusal %x", name, refusal)
		}
	}
	next := event(seq + 1)
	large := next
	large.Data = make([]byte, journal.MaxEventBytes)
	forged("an event that is too large", owner.appendOne, arguments([]signalbox.Event{large}))
	pair := []signalbox.Event{next, event(seq + 2)}
	broken := slices.Clone(pair)
	broken[1].Prev[0] ^= 1
	forged("a second event that does not continue the first", owner.appendMany, arguments(broken))
	forged("no event", owner.appendMany, arguments(nil))
	second := slices.Clone(pair)
	second[1].Data = large.Data
	forged("a second event that is too large", owner.appendMany, arguments(second))
	// In an array with other bounds, another element could be compared than is stored.
	shifted := slices.Clone(pair)
	shifted[1].Prev = shifted[1].Hash
	fields := arguments(shifted)
	hashes := &fields[len(fields)-1]
	*hashes = pgtype.Array[[]byte]{Elements: (*hashes).(pgtype.FlatArray[[]byte]),
		Dims: []pgtype.ArrayDimension{{Length: 2, LowerBound: 0}}, Valid: true}
	forged("hashes with other bounds", owner.appendMany, fields)
	// Names of the caller are not used in the place of those of the database.
	own := newSchema()
	execute(t, "CREATE SCHEMA "+own)
	execute(t, "GRANT USAGE ON SCHEMA "+own+" TO public")
	execute(t, "CREATE FUNCTION "+own+
		".same(bytea, bytea) RETURNS boolean LANGUAGE sql AS 'SELECT octet_length($1) = octet_length($2)'")
	execute(t, "CREATE OPERATOR "+own+".= (LEFTARG = bytea, RIGHTARG = bytea, FUNCTION = "+own+
		".same)")
	_, err := conn.Exec(t.Context(), "SET search_path = "+own+", pg_catalog")
	must.Succeed(t, err)
	unrelated := next
	unrelated.Prev[0] ^= 1
	forged("an event that only another operator calls equal", owner.appendOne,
		arguments([]signalbox.Event{unrelated}))
	pair[0] = unrelated
	forged("events, the first of them equal only for another operator", owner.appendMany,
		arguments(pair))
}

// Whoever can log in to the database, or read the ledger, cannot hold up its appends.
func TestStrangerCannotLock(t *testing.T) {
	j := openJournal(t, newSchema())
	defer j.Close()
	reader := newRole(t)
	must.Succeed(t, j.Grant(t.Context(), reader, Read))
	conn, err := pgx.Connect(t.Context(), as(t, reader))
	must.Succeed(t, err)
	defer conn.Close(t.Context())
	_, err = conn.Exec(t.Context(), "SELECT pg_advisory_lock($1)", j.lock)
	must.Succeed(t, err)
	for _, statement := range []string{"BEGIN", j.sql("SELECT * FROM BOX.format"),
		j.sql("SELECT * FROM BOX.events")} {
		_, err := conn.Exec(t.Context(), statement)
		must.Succeed(t, err)
	}
	var blocked bool
	must.Succeed(t, conn.QueryRow(t.Context(),
		"SELECT has_table_privilege($1, 'UPDATE, DELETE, TRUNCATE, INSERT')", j.schema+
			".format").Scan(&blocked))
	if blocked {
		t.Error("a reader may lock the table format")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	must.Succeed(t, j.Append(ctx, 0, []signalbox.Event{event(1)}))
}

func TestGrantRefusals(t *testing.T) {
	j := openJournal(t, newSchema())
	defer j.Close()
	if err := j.Grant(t.Context(), "no such role; --",
		Work); signalbox.CodeOf(err) != signalbox.CodeNotFound ||
		!strings.Contains(signalbox.HintOf(err), `CREATE ROLE "no such role; --" LOGIN`) {
		t.Errorf("an unknown role: %v, %q", err, signalbox.HintOf(err))
	}
	for _, everybody := range []string{"public", "PUBLIC", "Public"} {
		if err := j.Grant(t.Context(), everybody,
			Read); signalbox.CodeOf(err) != signalbox.CodeUsage {
			t.Errorf("%s: %v", everybody, err)
		}
	}
	if err := j.Grant(t.Context(), "signalbox",
		Read); signalbox.CodeOf(err) != signalbox.CodeUsage {
		t.Errorf("the owner: %v", err)
	}
}

// The first event of a ledger continues none.
func TestForgedFirstEvent(t *testing.T) {
	j := openJournal(t, newSchema())
	defer j.Close()
	first := event(1)
	first.Prev[0] ^= 1
	for _, statement := range []string{j.appendOne, j.appendMany} {
		events := []signalbox.Event{first}
		if statement == j.appendMany {
			second := event(2)
			second.Prev = first.Hash
			events = append(events, second)
		}
		var refusal []byte
		err := j.pool.QueryRow(t.Context(), statement,
			append([]any{1, int64(0), int64(0)}, arguments(events)...)...).Scan(&refusal)
		if err != nil || refusal == nil || binary.BigEndian.Uint64(refusal) != 0 {
			t.Errorf("%s: refusal %x, %v", statement, refusal, err)
		}
	}
}

// The functions run as the owner. A type of the caller must not take the place of one of the
// database: its checks would run as the owner, too.
func TestWorkerCannotRunAsOwner(t *testing.T) {
	j := openJournal(t, newSchema())
	defer j.Close()
	worker := newRole(t)
	must.Succeed(t, j.Grant(t.Context(), worker, Work))
	for _, statement := range []string{
		"SELECT BOX.append_event(1, 0, 5, 1, 'x', 'x', 'x', 'x', 'x', sha256('x'), sha256('x'))",
		"SELECT BOX.append_events(1, 0, 5, '{1}', '{x}', '{x}', '{x}', '{x}', '{x}', ARRAY[sha256('x')], ARRAY[sha256('x')])",
		"SELECT BOX.fence_appends(5)",
	} {
		// a connection compiles each function once
		conn, err := pgx.Connect(t.Context(), as(t, worker))
		must.Succeed(t, err)
		defer conn.Close(t.Context())
		for _, prepare := range []string{
			"CREATE FUNCTION pg_temp.run(anyelement) RETURNS boolean LANGUAGE plpgsql AS $$BEGIN RAISE EXCEPTION 'code of the caller runs as %', current_user; END$$",
			"CREATE DOMAIN pg_temp.bytea AS pg_catalog.bytea CHECK (pg_temp.run(VALUE))",
			"CREATE DOMAIN pg_temp.int8 AS pg_catalog.int8 CHECK (pg_temp.run(VALUE))",
			"CREATE DOMAIN pg_temp.int4 AS pg_catalog.int4 CHECK (pg_temp.run(VALUE))",
			"SET search_path = pg_temp, pg_catalog",
		} {
			_, err := conn.Exec(t.Context(), prepare)
			must.Succeed(t, err)
		}
		if _, err := conn.Exec(t.Context(), j.sql(statement)); err != nil {
			t.Errorf("%s: %v", statement, err)
		}
	}
}
