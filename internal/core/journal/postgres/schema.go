package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"signalbox"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/journal/driver"
)

// format is a version of the tables.
type format struct {
	// oldest is the oldest version of a program that can use these tables. It stays what it was if
	// tables, columns or functions are only added, so that machines can be updated one after the
	// other.
	oldest int
	// sql makes these tables out of those of the previous version. It also grants the rights to new
	// tables, as grant does.
	sql string
}

// formats are all versions of the tables: the first one has the version 1.
var formats = []format{{1, tables}, {1, appends}}

// SQLSTATEs with which an append is refused.
const (
	oldProgram   = "SB001" // the program is too old for the tables
	invalidEvent = "SB002"
	clockAhead   = "SB003" // an event has a time that is not yet
	ledgerAhead  = "SB004" // the last event of the log has a time that is not yet
)

// tables creates what a box needs, but for the functions that append events: those of version 1
// checked neither hashes nor times. Text is stored as bytes, because PostgreSQL's text cannot hold
// every byte.
const tables = `
-- An append that was sent with another fence is refused.
CREATE TABLE BOX.format (version integer NOT NULL, oldest integer NOT NULL, fence bigint NOT NULL DEFAULT 0);
CREATE UNIQUE INDEX format_has_one_row ON BOX.format ((true));

CREATE TABLE BOX.events (
	seq     bigint PRIMARY KEY CHECK (seq > 0),
	time    bigint NOT NULL, -- nanoseconds since 1970, UTC
	type    bytea NOT NULL,
	work    bytea NOT NULL,
	session bytea NOT NULL,
	actor   bytea NOT NULL,
	data    bytea NOT NULL,
	prev    bytea NOT NULL CHECK (octet_length(prev) = 32),
	hash    bytea NOT NULL CHECK (octet_length(hash) = 32),
	CONSTRAINT events_are_not_too_large CHECK (octet_length(type) + octet_length(work) + octet_length(session) + octet_length(actor) + octet_length(data) <= MAXBYTES)
);
ALTER TABLE BOX.events ALTER COLUMN data SET STORAGE EXTERNAL;

CREATE FUNCTION BOX.refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	RAISE EXCEPTION 'events of a ledger are never changed or deleted';
END $$;
CREATE TRIGGER events_are_never_changed BEFORE UPDATE OR DELETE OR TRUNCATE ON BOX.events
	FOR EACH STATEMENT EXECUTE FUNCTION BOX.refuse_change();

-- refusal says why an append was not stored: it returns the fence, and the number and the hash of the event with which the log ends.
CREATE FUNCTION BOX.refusal(program integer) RETURNS bytea
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	needed integer := (SELECT oldest FROM BOX.format);
BEGIN
	IF needed > program THEN
		RAISE EXCEPTION 'the tables need a program of version %, this one has version %', needed, program USING ERRCODE = 'SB001';
	END IF;
	RETURN (SELECT int8send(fence) FROM BOX.format)
		|| coalesce((SELECT int8send(seq) || hash FROM BOX.events ORDER BY seq DESC LIMIT 1), int8send(0) || NOHASH);
END $$;

-- fence_appends makes sure that no append that was sent before is stored later, and returns the new fence, and the hash of the event last, if that
-- exists. It writes something, so that the server waits for its replicas, which then have that event too. A database that has lost a fence, as a
-- replica may after a failover, must not arrive at the same number again, so the step is random.
CREATE FUNCTION BOX.fence_appends(last bigint) RETURNS bytea
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	LOCK TABLE BOX.format IN SHARE UPDATE EXCLUSIVE MODE;
	UPDATE BOX.format SET fence = fence + 1 + floor(random() * 4294967296)::bigint;
	RETURN (SELECT int8send(fence) FROM BOX.format) || coalesce((SELECT e.hash FROM BOX.events e WHERE e.seq = last), '');
END $$;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA BOX FROM PUBLIC;

CREATE TABLE BOX.blobs (
	digest bytea PRIMARY KEY CHECK (octet_length(digest) = 32),
	upload bytea NOT NULL,
	size   bigint NOT NULL
);
CREATE TABLE BOX.blob_pieces (
	upload bytea NOT NULL,
	piece  integer NOT NULL,
	data   bytea NOT NULL,
	PRIMARY KEY (upload, piece)
);
ALTER TABLE BOX.blob_pieces ALTER COLUMN data SET STORAGE EXTERNAL;
`

// appends creates the functions that append events. Only they write events. They run with the
// rights of the owner, so that a worker can do nothing else: not change an event, and not append
// one that does not continue the log, whose hash is not that of its content, or whose time would
// make all later events wrong. An append is one statement, which arrives as a whole before it takes
// the lock: other machines do not wait for one that stops in the middle of sending it.
//
// Only the owner appends a ClockCorrected, with ReplaceTail: the event after it may be earlier.
//
// They check what constraints of the table checked. The server parses and prepares constraints again
// for each statement, which took a quarter of its instructions for an append of one event.
var appends = `
ALTER TABLE BOX.events DROP CONSTRAINT events_seq_check, DROP CONSTRAINT events_prev_check, DROP CONSTRAINT events_hash_check,
	DROP CONSTRAINT events_are_not_too_large;

-- append_event appends an event to the log if that ends with the event expected, which the event continues. It returns NULL if the event is stored,
-- and otherwise what refusal returns. Each statement of the function takes about as long as inserting a row, so there are few. Others do not wait
-- while it computes the hash.
CREATE OR REPLACE FUNCTION BOX.append_event(program integer, known_fence bigint, expected bigint, new_time bigint, new_type bytea, new_work bytea, new_session bytea,
	new_actor bytea, new_data bytea, continues bytea, new_hash bytea) RETURNS bytea
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
	valid boolean;
BEGIN
	` + setNames + `
	valid := new_time <= LATEST AND new_type <> CLOCKCORRECTED
		AND ` + isWhole("new_hash", "expected + 1", "new_time", "new_type", "new_work", "new_session", "new_actor", "new_data", "continues") + `;
	` + lock + `
	INSERT INTO BOX.events (seq, time, type, work, session, actor, data, prev, hash)
	SELECT expected + 1, new_time, new_type, new_work, new_session, new_actor, new_data, continues, new_hash
	WHERE valid AND ` + mayAppend("AND (time <= new_time OR type = CLOCKCORRECTED)") + `;
	IF FOUND THEN
		RETURN NULL;
	END IF;
	IF ` + mayAppend("") + ` THEN
		PERFORM BOX.refuse_events(expected, new_time);
	END IF;
	RETURN BOX.refusal(program);
END $$;

-- append_events is append_event for several events, of which each continues the previous one.
CREATE OR REPLACE FUNCTION BOX.append_events(program integer, known_fence bigint, expected bigint, times bigint[], types bytea[], works bytea[],
	sessions bytea[], actors bytea[], datas bytea[], prevs bytea[], hashes bytea[]) RETURNS bytea
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
	n integer := pg_catalog.cardinality(hashes);
	stored integer;
	latest double precision;
	continues pg_catalog.bytea := prevs[1]; -- without the schema, it could be a type of the caller, whose checks would run as the owner
BEGIN
	` + setNames + `
	latest := LATEST;
	` + lock + `
	IF ` + mayAppend("") + ` AND prevs[2:n] = hashes[1:n-1] AND array_lower(hashes, 1) = 1 AND array_lower(times, 1) = 1 THEN
		INSERT INTO BOX.events (seq, time, type, work, session, actor, data, prev, hash)
		SELECT expected + u.number, u.time, u.type, u.work, u.session, u.actor, u.data, u.prev, u.hash
		FROM ROWS FROM (unnest(times, types, works, sessions, actors, datas, prevs, hashes)) WITH ORDINALITY
			AS u(time, type, work, session, actor, data, prev, hash, number)
		WHERE u.time BETWEEN coalesce(times[u.number - 1], (SELECT time FROM BOX.events WHERE seq = expected AND type <> CLOCKCORRECTED), u.time) AND latest
			AND u.type <> CLOCKCORRECTED
			AND ` + isWhole("u.hash", "expected + u.number", "u.time", "u.type", "u.work", "u.session", "u.actor", "u.data", "u.prev") + `;
		GET DIAGNOSTICS stored = ROW_COUNT;
		IF stored = n THEN
			RETURN NULL;
		END IF;
		PERFORM BOX.refuse_events(expected, (SELECT max(t) FROM unnest(times) t));
	END IF;
	RETURN BOX.refusal(program);
END $$;

-- refuse_events fails because of what is wrong with events that the log would continue with. The last of them has the time latest.
CREATE FUNCTION BOX.refuse_events(expected bigint, latest bigint) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	before bigint := (SELECT time FROM BOX.events WHERE seq = expected AND type <> CLOCKCORRECTED);
	here text := to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SSZ');
BEGIN
	IF before > LATEST THEN
		RAISE EXCEPTION 'event % has the time %, and the clock of the database says %', expected, ` + utc("before", "SSZ") + `, here USING ERRCODE = '` + ledgerAhead + `';
	ELSIF latest > LATEST THEN
		RAISE EXCEPTION 'the new event has the time %, and the clock of the database says %', ` + utc("latest", "SSZ") + `, here USING ERRCODE = '` + clockAhead + `';
	END IF;
	RAISE EXCEPTION 'the hash of an event is not that of its content, its time is before that of the event before it, or it is too large' USING ERRCODE = '` + invalidEvent + `';
END $$;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA BOX FROM PUBLIC;
`

// setNames is how the functions begin that append events: the names in them must mean those of
// pg_catalog, whatever the caller has set. To set that for each call, with a clause of the function,
// would take longer than inserting an event.
const setNames = `IF pg_catalog.current_setting('search_path') OPERATOR(pg_catalog.<>) 'pg_catalog, pg_temp' THEN
		PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
	END IF;`

// lock allows one append at a time; neither a worker nor a reader can take it in another way. A
// stronger mode would take much longer: for it, the server looks at the locks of all connections.
// The next statement sees what was committed before it began.
const lock = `LOCK TABLE BOX.format IN SHARE UPDATE EXCLUSIVE MODE;`

// mayAppend returns the condition of an append, with a condition on the last event of the log.
func mayAppend(also string) string {
	return `(SELECT oldest <= program AND fence = known_fence FROM BOX.format)
		AND coalesce((SELECT seq = expected AND hash = continues ` + also +
		` FROM BOX.events ORDER BY seq DESC LIMIT 1), expected = 0 AND continues = NOHASH)`
}

// latest is the latest time that an event may have now, in nanoseconds.
var latest = fmt.Sprintf("((date_part('epoch', clock_timestamp()) + %g) * 1e9)",
	journal.MaxAhead.Seconds())

// isWhole returns the condition that an event with these fields is not too large and has its hash.
//
// Package ledger defines the hash: each field is preceded by its length in 8 bytes. That is the
// binary form of an array in which each is preceded by an empty one, after its header of 20 bytes:
// array_send writes lengths in 4 bytes. With operators for each length and field, an append would
// take about 5 µs more of the server's time, because it prepares every operator of an expression in
// each transaction. For a time before 1970 it is another hash, so that no event has such a time.
func isWhole(hash, seq, nanoseconds string, fields ...string) string {
	const prev = 5 // the other fields count for the size
	time := fmt.Sprintf(`(%s || to_char(%s %% 1000, 'FM000"Z"'))::bytea`,
		utc(nanoseconds, "SS.US"), nanoseconds)
	hashed := append([]string{"int8send(" + seq + ")", time}, fields...)
	return fmt.Sprintf(`octet_length(%s) <= MAXBYTES
		AND %s = sha256('\x%x'::bytea || substr(array_send(ARRAY[''::bytea, %s]), 21))`,
		strings.Join(fields[:prev], " || "), hash, "signalbox/event/v1\n",
		strings.Join(hashed, ", '', "))
}

// utc returns a time as text, with the seconds in a format.
func utc(nanoseconds, seconds string) string {
	return fmt.Sprintf(`to_char(timestamp '1970-01-01' + %s / 1000 * interval '1 microsecond', 'YYYY-MM-DD"T"HH24:MI:%s')`,
		nanoseconds, seconds)
}

// sql replaces the words in capital letters in a statement, such as BOX, which means the schema of
// the box.
func (j *Journal) sql(statement string) string {
	return strings.NewReplacer("BOX", j.schema, "MAXBYTES", strconv.Itoa(journal.MaxEventBytes),
		"NOHASH", `'\x`+strings.Repeat("00", 32)+`'::bytea`, "LATEST", latest,
		"CLOCKCORRECTED", "'"+signalbox.TypeClockCorrected+"'::bytea").Replace(statement)
}

// findOrCreate checks the tables of the box. It creates them if there are none and that is wanted,
// and migrates older ones. When it creates a ledger, it warns of a server that may lose it; later,
// Inspect does.
func (j *Journal) findOrCreate(ctx context.Context) error {
	var ready bool
	err := j.answer(ctx, func(ctx context.Context) (err error) {
		ready, err = j.find(ctx, j.pool)
		return err
	})
	if ready || err != nil {
		return err
	}
	if err := pgx.BeginFunc(ctx, j.pool,
		func(tx pgx.Tx) error { return j.migrate(ctx, tx) }); err != nil {
		return err
	}
	findings, err := durability(ctx, j.pool)
	for _, f := range findings {
		j.log.Warn(f.Detail, "fix", f.Fix)
	}
	return err
}

// migrate creates the tables, or makes them those of this program's version.
func (j *Journal) migrate(ctx context.Context, tx pgx.Tx) error {
	// Two processes that create or migrate the same box wait for each other, and for appends.
	if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", j.lock); err != nil {
		return err
	}
	version, err := j.version(ctx, tx)
	if err != nil {
		return err
	}
	if version.found > 0 {
		if _, err := tx.Exec(ctx,
			j.sql("LOCK TABLE BOX.format IN SHARE UPDATE EXCLUSIVE MODE")); err != nil {
			return err
		}
	} else {
		if err := j.createSchema(ctx, tx); err != nil {
			return err
		}
	}
	for i := version.found; i < j.opts.program(); i++ {
		if _, err := tx.Exec(ctx, j.sql(j.opts.formats[i].sql)); err != nil {
			return fmt.Errorf("make version %d of the tables: %w", i+1, err)
		}
		if version.found > 0 {
			j.log.Info("migrated the tables of the ledger", "schema", j.opts.Schema, "version", i+1)
		}
	}
	if version.found >= j.opts.program() { // somebody else was faster
		return nil
	}
	_, err = tx.Exec(ctx,
		j.sql("INSERT INTO BOX.format (version, oldest) VALUES ($1, $2) ON CONFLICT ((true)) DO UPDATE SET version = $1, oldest = $2"),
		j.opts.program(), j.opts.formats[j.opts.program()-1].oldest)
	return err
}

func (j *Journal) createSchema(ctx context.Context, tx pgx.Tx) error {
	var exists bool
	if err := tx.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)",
		j.opts.Schema).Scan(&exists); err != nil {
		return err
	}
	if exists { // CREATE SCHEMA IF NOT EXISTS would need a right that the user may not have
		return nil
	}
	_, err := tx.Exec(ctx, j.sql("CREATE SCHEMA BOX"))
	return err
}

// find reports whether the tables can be used as they are. It returns an error if they are neither
// that nor to be created or migrated.
func (j *Journal) find(ctx context.Context, q queryer) (bool, error) {
	v, err := j.version(ctx, q)
	program := j.opts.program()
	switch {
	case err != nil:
		return false, err
	case v.found == 0 && !j.opts.Create:
		return false, signalbox.CodeNotFound.Errorf(
			"create a box with signalbox init, or correct the address of the database",
			"there is no ledger in the schema %s", j.opts.Schema)
	case v.found == 0:
		return false, nil
	case v.oldest > program:
		return false, signalbox.CodeFailed.Errorf(
			"install the version of signalbox that the other machines use",
			"the tables have version %d, and this program knows version %d",
			v.found, program)
	case v.found < program && !v.owner:
		return false, signalbox.CodeFailed.Errorf(
			"run a command of this version of signalbox, such as signalbox status, as the owner, or use an older version of signalbox",
			"the tables have version %d, this program needs version %d, and only their owner %s can change them", v.found, program, v.ownerName)
	}
	j.fence.Store(v.fence)
	return v.found >= program, nil
}

// version is what is found in a schema.
type version struct {
	found     int // 0 means that the schema is empty or does not exist
	oldest    int
	fence     int64
	owner     bool // whether the user has the rights of the owner
	ownerName string
}

// version returns an error if the schema has tables of something else.
func (j *Journal) version(ctx context.Context, q queryer) (v version, err error) {
	rows, err := q.Query(ctx,
		"SELECT relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname = $1 AND relkind IN ('r', 'v', 'm', 'p', 'f')", j.opts.Schema)
	if err != nil {
		return v, err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(names) == 0 {
		return v, err
	}
	found := map[string]bool{}
	for _, name := range names {
		found[name] = true
	}
	for _, name := range []string{"format", "events", "blobs", "blob_pieces"} {
		if !found[name] {
			return v, signalbox.CodeFailed.Errorf(
				"choose another schema, or restore this one from a backup",
				"the schema %s has tables, but not those of a ledger: %s is missing", j.opts.Schema,
				name)
		}
	}
	err = q.QueryRow(ctx, j.sql(`SELECT version, oldest, fence, pg_has_role(relowner, 'USAGE'), pg_get_userbyid(relowner)::text
		FROM BOX.format, pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname = $1 AND relname = 'events'`), j.opts.Schema).
		Scan(&v.found, &v.oldest, &v.fence, &v.owner, &v.ownerName)
	if errors.Is(err, pgx.ErrNoRows) {
		err = driver.Damaged(errors.New("the version of its tables is missing"))
	}
	return v, err
}
