package postgres

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"signalbox"
)

// connectTimeout is how long connecting to one host may take, unless the address says otherwise.
const connectTimeout = 5 * time.Second

// drainTimeout is how long a connection that is closed during a statement waits for the server.
const drainTimeout = time.Second

// configure returns how to connect to an address.
func configure(address string) (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(address)
	if err != nil { // its text may have the password
		reason := errors.New("the address of the database is not valid")
		if file := (*fs.PathError)(nil); errors.As(err, &file) {
			reason = fmt.Errorf("a file that the address of the database names: %w", file)
		}
		return nil, &signalbox.Error{Code: signalbox.CodeUsage, Err: reason,
			Hint: "write postgres://USER@HOST/DATABASE; put the password into ~/.pgpass or PGPASSWORD"}
	}
	config.MaxConns, config.MaxConnIdleTime, config.HealthCheckPeriod = connections, idleTime,
		idleTime
	config.PingTimeout = connectTimeout
	config.BeforeClose = func(c *pgx.Conn) {
		// Pgx reads what the server still sends, for up to 15 seconds. A server that hangs sends
		// nothing, and Close would wait.
		network := c.PgConn().Conn()
		time.AfterFunc(drainTimeout, func() { network.Close() })
	}
	conn := config.ConnConfig
	if conn.ConnectTimeout == 0 || conn.ConnectTimeout == pgxConnectTimeout {
		conn.ConnectTimeout = connectTimeout
	}
	if conn.RequireAuth == "" && mayLackTLS(&conn.Config) {
		conn.RequireAuth = "!password"
	}
	// Of several hosts, the one that is now the primary is used. A standby would show an old log.
	conn.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	conn.OnNotice = func(c *pgconn.PgConn, n *pgconn.Notice) {
		if severityOf((*pgconn.PgError)(n)) == "WARNING" {
			warningsOf(c).last = n
		}
	}
	settings := conn.RuntimeParams
	settings["application_name"] = "signalbox"
	// nothing of other schemas is used by accident, and the functions need not set it
	settings["search_path"] = "pg_catalog, pg_temp"
	settings["synchronous_commit"] = "on"
	// each statement sees what was committed before it
	settings["default_transaction_isolation"] = "read committed"
	settings["lock_timeout"] = fmt.Sprint(lockTimeout.Milliseconds())
	settings["statement_timeout"] = "0"
	// The server notices within a minute that a machine is gone, and frees its locks.
	settings["tcp_keepalives_idle"], settings["tcp_keepalives_interval"],
		settings["tcp_keepalives_count"] = "30", "10", "3"
	config.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error {
		neverCancel(c)
		return nil
	}
	return config, nil
}

// mayLackTLS reports whether a connection over the network may have no TLS. A server that poses as
// the database could then ask for the password in clear text.
func mayLackTLS(c *pgconn.Config) bool {
	open := func(host string, secure *tls.Config) bool {
		network, _ := pgconn.NetworkAddress(host, c.Port)
		return secure == nil && network != "unix"
	}
	return open(c.Host, c.TLSConfig) ||
		slices.ContainsFunc(c.Fallbacks,
			func(f *pgconn.FallbackConfig) bool { return open(f.Host, f.TLSConfig) })
}

// pgxConnectTimeout is what pgx sets if the address does not.
const pgxConnectTimeout = 2 * time.Minute

// neverCancel makes a connection send no requests to cancel its statements. A server that waits for
// its replica obeys such a request by showing a transaction that the replica does not have.
func neverCancel(c *pgx.ConnConfig) {
	var connected atomic.Bool
	dial := c.DialFunc
	c.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		if connected.Load() { // a request to cancel needs a connection of its own
			return nil, errors.New("statements are not cancelled")
		}
		return dial(ctx, network, address)
	}
	c.AfterConnect = func(context.Context, *pgconn.PgConn) error {
		connected.Store(true)
		return nil
	}
}

// warnings has the last warning that a connection received.
type warnings struct{ last *pgconn.Notice }

func warningsOf(c *pgconn.PgConn) *warnings {
	const key = "signalbox warnings"
	w, ok := c.CustomData()[key].(*warnings)
	if !ok {
		w = &warnings{}
		c.CustomData()[key] = w
	}
	return w
}
