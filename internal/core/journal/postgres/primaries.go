package postgres

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"signalbox/internal/core/journal"
)

// inspectPrimaries connects to every server that the address names. Two that accept writes, as after
// a failover whose old primary was started again, would each get a part of the events.
func (j *Journal) inspectPrimaries(ctx context.Context) ([]journal.Finding, error) {
	servers := serversOf(j.pool.Config().ConnConfig)
	if len(servers) < 2 {
		return nil, nil
	}
	writable := map[time.Time]string{} // by when they started, because a server may have two names
	var standby, away []string
	for _, server := range servers {
		name := net.JoinHostPort(server.Host, strconv.Itoa(int(server.Port)))
		started, writes, err := lookAt(ctx, server)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil:
			away = append(away, name)
		case writes:
			writable[started] = name
		default:
			standby = append(standby, name)
		}
	}
	primaries := slices.Sorted(maps.Values(writable))
	f := journal.Finding{Name: "primary", Level: journal.OK, Detail: strings.Join(primaries, ", ")}
	if len(standby) > 0 {
		f.Detail += ", standby: " + strings.Join(standby, ", ")
	}
	if len(away) > 0 {
		f.Level, f.Detail = journal.Warning, f.Detail+", away: "+strings.Join(away, ", ")
		f.Fix = "start the servers that are away as replicas, or remove them from the address of the journal"
	}
	if len(primaries) > 1 {
		f.Level, f.Detail = journal.Problem, fmt.Sprintf(
			"%s accept writes: each may have events that the other does not have", strings.Join(primaries, " and "))
		f.Fix = "stop the one that is not the primary at once, and make it a replica again; then run signalbox ledger verify"
	}
	return []journal.Finding{f}, nil
}

// serversOf returns how to connect to each server of an address alone.
func serversOf(config *pgx.ConnConfig) (servers []*pgx.ConnConfig) {
	first := &pgconn.FallbackConfig{Host: config.Host, Port: config.Port, TLSConfig: config.TLSConfig}
	for _, f := range append([]*pgconn.FallbackConfig{first}, config.Fallbacks...) {
		same := func(s *pgx.ConnConfig) bool { return s.Host == f.Host && s.Port == f.Port }
		if i := slices.IndexFunc(servers, same); i >= 0 { // without TLS, if the address allows that
			servers[i].Fallbacks = append(servers[i].Fallbacks, f)
			continue
		}
		alone := config.Copy()
		alone.Host, alone.Port, alone.TLSConfig, alone.Fallbacks = f.Host, f.Port, f.TLSConfig, nil
		alone.ValidateConnect = nil // a standby is welcome
		servers = append(servers, alone)
	}
	return servers
}

// lookAt returns when a server started, and whether it accepts writes.
func lookAt(ctx context.Context, config *pgx.ConnConfig) (started time.Time, writes bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return started, false, err
	}
	defer conn.Close(ctx)
	err = conn.QueryRow(ctx, `SELECT pg_postmaster_start_time(), NOT pg_is_in_recovery()
		AND current_setting('transaction_read_only') = 'off'`).Scan(&started, &writes)
	return started, writes, err
}
