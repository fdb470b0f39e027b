package main

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/testkit/pgserver"
)

// postgresDatabase is a PostgreSQL server on this machine. It waits for the disk at each commit, as
// it does by default.
type postgresDatabase struct {
	server *pgserver.Server
	conn   *pgx.Conn
}

func startPostgres(dir string) (database, error) {
	server, err := pgserver.StartDurable(dir, "max_connections = 1000")
	if err != nil {
		return nil, err
	}
	conn, err := pgx.Connect(context.Background(), server.Address)
	if err != nil {
		return nil, errors.Join(err, server.Stop())
	}
	return postgresDatabase{server, conn}, nil
}

func (d postgresDatabase) stop() error {
	return errors.Join(d.conn.Close(context.Background()), d.server.Stop())
}

func (d postgresDatabase) ping() error {
	var one int
	return d.conn.QueryRow(context.Background(), "SELECT 1").Scan(&one)
}

func (d postgresDatabase) connections() (n int, err error) {
	err = d.conn.QueryRow(context.Background(),
		"SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'signalbox%'").Scan(&n)
	return n, err
}

func (d postgresDatabase) place(box string) string { return d.server.Address + "&schema=" + box }

// bareTimeout bounds a statement of a bare store.
const bareTimeout = time.Minute

// connect opens a connection with the durability of the journal's connections.
func (d postgresDatabase) connect(place string) (conn *pgx.Conn, schema string, err error) {
	address, schema, err := config.PostgresAddress(place)
	if err != nil {
		return nil, "", err
	}
	conn, err = pgx.Connect(context.Background(), address+"&synchronous_commit=on")
	return conn, pgx.Identifier{schema}.Sanitize(), err
}

// bareConstraints are those of a careful program, which has no function that checks an event.
const bareConstraints = " ADD CHECK (seq > 0), ADD CHECK (octet_length(prev) = 32), ADD CHECK (octet_length(hash) = 32)," +
	" ADD CHECK (octet_length(type) + octet_length(work) + octet_length(session) + octet_length(actor) + octet_length(data) <= 524288)"

// bare uses the table of a journal with one connection and prepared statements.
func (d postgresDatabase) bare(place string) (store, func() error, error) {
	ctx := context.Background()
	if err := createJournal(place); err != nil {
		return nil, nil, err
	}
	conn, schema, err := d.connect(place)
	if err != nil {
		return nil, nil, err
	}
	stop := func() error { return conn.Close(ctx) }
	if _, err := conn.Exec(ctx, "ALTER TABLE "+schema+".events"+bareConstraints); err != nil {
		return nil, nil, errors.Join(err, stop())
	}
	table := schema + ".events (seq, time, type, work, session, actor, data, prev, hash) "
	one, many := "INSERT INTO "+table+"VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
		"INSERT INTO "+table+
			"SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bytea[], $4::bytea[], $5::bytea[], $6::bytea[], $7::bytea[], $8::bytea[], $9::bytea[])"
	for name, statement := range map[string]string{"one": one, "many": many} {
		if _, err := conn.Prepare(ctx, name, statement); err != nil {
			return nil, nil, errors.Join(err, stop())
		}
	}
	return func(events []signalbox.Event) error {
		// or a lost connection would block forever
		ctx, cancel := context.WithTimeout(ctx, bareTimeout)
		defer cancel()
		if len(events) == 1 {
			e := &events[0]
			_, err := conn.Exec(ctx, "one", int64(e.Seq), e.Time.UnixNano(), []byte(e.Type),
				[]byte(e.Work), []byte(e.Session), []byte(e.Actor), e.Data, e.Prev[:], e.Hash[:])
			return err
		}
		_, err := conn.Exec(ctx, "many", columns(events)...)
		return err
	}, stop, nil
}

// columns returns the fields of events as one array for each column of the table.
func columns(events []signalbox.Event) []any {
	var numbers [2][]int64
	var bytes [7][][]byte
	for i := range events {
		e := &events[i]
		numbers[0], numbers[1] = append(numbers[0], int64(e.Seq)),
			append(numbers[1], e.Time.UnixNano())
		for column, value := range [][]byte{[]byte(e.Type), []byte(e.Work), []byte(e.Session),
			[]byte(e.Actor), e.Data, e.Prev[:], e.Hash[:]} {
			bytes[column] = append(bytes[column], value)
		}
	}
	all := []any{numbers[0], numbers[1]}
	for _, column := range bytes {
		all = append(all, column)
	}
	return all
}
