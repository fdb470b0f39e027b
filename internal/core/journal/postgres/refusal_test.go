package postgres

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"signalbox"
	"signalbox/internal/core/journal"
	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/pgserver"
)

// password is a secret that no error may show.
const password = "hunter2-secret"

// contents returns a digest of everything in the databases of a server that a journal could have
// changed.
func contents(t testing.TB, server *pgserver.Server) string {
	t.Helper()
	got, err := server.Query(
		"SELECT (SELECT string_agg(nspname, ',' ORDER BY nspname) FROM pg_namespace) || (SELECT string_agg(relname || relnamespace, ',' ORDER BY oid) FROM pg_class WHERE relkind = 'r')" +
			"|| (SELECT version FROM newer.format) || (SELECT count(*) FROM box.events) || (SELECT count(*) FROM box.blobs)")
	must.Succeed(t, err)
	return got
}

// Users who name a wrong database, schema or user, or a server that is not fit, learn what is wrong
// and what to do. Nothing is written, and the password is not shown.
func TestRefusals(t *testing.T) {
	dir := t.TempDir()
	certificate, key := pgserver.Certificate(t, "localhost")
	server := startServer(t, pgserver.Options{
		Settings: []string{"listen_addresses = '127.0.0.1'", "ssl = on", "ssl_cert_file = '" +
			certificate + "'", "ssl_key_file = '" + key + "'"},
		Access: []string{"hostssl all tls 127.0.0.1/32 trust", "host all tls 127.0.0.1/32 reject",
			"host all secret 127.0.0.1/32 scram-sha-256"},
	})
	const places, reserved = 3, 2 // for connections of users, and of superusers
	plain := startServer(t,
		pgserver.Options{Settings: []string{"listen_addresses = '127.0.0.1'",
			fmt.Sprint("max_connections = ", places+reserved),
			fmt.Sprint("superuser_reserved_connections = ", reserved)}})
	for _, s := range []*pgserver.Server{server, plain} {
		_, err := s.Query("CREATE ROLE tls LOGIN; CREATE ROLE secret LOGIN PASSWORD '" + password +
			"'; CREATE ROLE reader LOGIN; CREATE ROLE standby LOGIN SUPERUSER; ALTER ROLE standby SET default_transaction_read_only = on;" +
			"CREATE SCHEMA foreign_box; CREATE TABLE foreign_box.orders (id int); CREATE SCHEMA partial; CREATE TABLE partial.format (version int)")
		must.Succeed(t, err)
	}
	owner := openBox(t, server.Address, Options{})
	must.Succeed(t, appendEvent(t, owner, 1))
	must.Succeed(t, owner.Grant(t.Context(), "reader", Read))
	newer, err := Open(t.Context(), server.Address, Options{Schema: "newer", Create: true})
	must.Succeed(t, err)
	newer.Close()
	_, err = server.Query("UPDATE newer.format SET version = 99, oldest = 98")
	must.Succeed(t, err)
	for _, schema := range []string{"box", "newer"} { // contents looks at them
		j, err := Open(t.Context(), plain.Address, Options{Schema: schema, Create: true})
		must.Succeed(t, err)
		j.Close()
	}
	tcp := func(s *pgserver.Server, user, more string) string {
		return fmt.Sprintf("postgres://%s@127.0.0.1:%d/postgres?%s", user, s.Port, more)
	}
	crowd := func() (free func()) {
		var conns []*pgx.Conn
		// fewer are not enough: a connection that was closed keeps its place until its process has
		// ended
		for len(conns) < places {
			conn, err := pgx.Connect(t.Context(), tcp(plain, "reader", "sslmode=disable"))
			if full := (*pgconn.PgError)(nil); errors.As(err, &full) && full.Code == "53300" {
				continue
			}
			must.Succeed(t, err)
			conns = append(conns, conn)
		}
		return func() {
			for _, c := range conns {
				c.Close(context.Background())
			}
		}
	}
	for name, test := range map[string]struct {
		address, schema, want string
		code                  signalbox.Code
		temporary             bool
		prepare               func() (undo func())
	}{
		"no schema": {address: server.Address, schema: "missing",
			want: "there is no ledger in the schema missing", code: signalbox.CodeNotFound},
		"a bad name": {address: server.Address, schema: "Box; DROP",
			want: "is not the name of a schema", code: signalbox.CodeUsage},
		"foreign tables": {address: server.Address, schema: "foreign_box",
			want: "has tables, but not those of a ledger"},
		"some of the tables": {address: server.Address, schema: "partial",
			want: "has tables, but not those of a ledger"},
		"a newer version": {address: server.Address, schema: "newer",
			want: "the tables have version 99"},
		"no database": {address: strings.Replace(server.Address, "/postgres?", "/nowhere?",
			1), want: "the database does not exist"},
		"no such user": {address: strings.Replace(server.Address, "user=signalbox",
			"user=stranger", 1), want: "the database refuses the login"},
		"wrong password": {address: tcp(server, "secret:"+password+"-wrong",
			"sslmode=disable"), want: "the database refuses the login"},
		"no password": {address: tcp(server, "secret", "sslmode=disable&passfile="+
			filepath.Join(dir, "none")), want: "the database refuses the login"},
		"no right": {address: strings.Replace(server.Address, "user=signalbox",
			"user=tls", 1), want: "the user has no right to do this"},
		"server without TLS": {address: tcp(plain, "reader", "sslmode=require"),
			want: "the database does not offer TLS"},
		"client without TLS": {address: tcp(server, "tls", "sslmode=disable"),
			want: "the database refuses the login"},
		"another authority": {address: tcp(server, "tls", "sslmode=verify-full&sslrootcert="+
			makeAuthority(t)), want: "the certificate of the database is not trusted"},
		"no certificate": {address: tcp(server, "tls",
			"sslmode=verify-full&sslrootcert=/nowhere/ca.pem"), want: "/nowhere/ca.pem",
			code: signalbox.CodeUsage},
		"read-only server": {address: strings.Replace(server.Address, "user=signalbox",
			"user=standby", 1), want: "the database is read-only", temporary: true},
		"no server": {address: "postgres://secret:" + password + "@127.0.0.1:1/x",
			want: "the database cannot be reached", temporary: true},
		"too many connections": {address: tcp(plain, "reader", "sslmode=disable"),
			want: "the database has too many connections", temporary: true, prepare: crowd},
		"a bad address": {address: "postgres://secret:" + password + "@%zz",
			want: "the address of the database is not valid", code: signalbox.CodeUsage},
		"a bad setting": {address: tcp(server, "secret:"+password, "sslmode=sometimes"),
			want: "the address of the database is not valid", code: signalbox.CodeUsage},
	} {
		t.Run(name, func(t *testing.T) {
			before := contents(t, server) + contents(t, plain)
			undo := func() {}
			if test.prepare != nil {
				undo = test.prepare()
			}
			for _, create := range []bool{false, true} {
				if create && test.code == signalbox.CodeNotFound {
					break // it would be created
				}
				schema := test.schema
				if schema == "" {
					schema = "box"
				}
				j, err := Open(t.Context(), test.address, Options{Schema: schema, Create: create})
				if err == nil {
					j.Close()
				}
				code := test.code
				if code == 0 {
					code = signalbox.CodeFailed
				}
				if err == nil || !strings.Contains(err.Error(), test.want) ||
					signalbox.CodeOf(err) != code {
					t.Errorf("%v (code %v), want %q", err, signalbox.CodeOf(err), test.want)
					continue
				}
				if code != signalbox.CodeUsage && signalbox.HintOf(err) == "" {
					t.Error("no hint")
				}
				if strings.Contains(err.Error()+signalbox.HintOf(err), password) {
					t.Errorf("it shows the password: %v", err)
				}
				if errors.Is(err, journal.ErrUnavailable) != test.temporary {
					t.Errorf("is temporary: %v, want %v: %v", !test.temporary, test.temporary, err)
				}
			}
			undo()
			if after := contents(t, server) + contents(t, plain); after != before {
				t.Errorf("something was written:\n%s\n%s", before, after)
			}
		})
	}

	reader, err := Open(t.Context(), strings.Replace(server.Address, "user=signalbox",
		"user=reader", 1), Options{Schema: "box"})
	must.Succeed(t, err)
	defer reader.Close()
	if err := appendEvent(t, reader, 2); !errors.Is(err, journal.ErrNotStored) ||
		!strings.Contains(err.Error(), "the user has no right to do this") ||
		signalbox.HintOf(err) == "" {
		t.Errorf("append by a reader: %v", err)
	}
}

// makeAuthority returns the file of a certificate that has signed nothing.
func makeAuthority(t testing.TB) string {
	t.Helper()
	certificate, _ := pgserver.Certificate(t, "localhost")
	return certificate
}
