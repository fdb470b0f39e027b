package postgres

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"signalbox/internal/core/journal"
)

var (
	_ journal.Inspector = (*Journal)(nil)
	_ journal.Clock     = (*Journal)(nil)
	_ journal.Clocks    = (*Journal)(nil)
)

const (
	// oldestServer is the oldest version of PostgreSQL that its developers still maintain.
	oldestServer = 13
	// maxLag is how many bytes a replica may lag behind without a warning.
	maxLag = 64 << 20
)

// Time returns the time of the database's clock.
func (j *Journal) Time(ctx context.Context) (now time.Time, err error) {
	err = j.Do(ctx, func(ctx context.Context) error {
		return j.pool.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&now)
	}, "read the clock of the database")
	return now, err
}

// Inspect checks the server, its replicas, and the rights of the user.
func (j *Journal) Inspect(ctx context.Context) (findings []journal.Finding, err error) {
	for _, inspect := range []func(context.Context) ([]journal.Finding, error){
		j.inspectServer, j.inspectPrimaries, j.inspectDurability, j.inspectReplicas,
		j.inspectRights, j.inspectSize,
	} {
		err := j.Do(ctx, func(ctx context.Context) error {
			found, err := inspect(ctx)
			findings = append(findings, found...)
			return err
		}, "inspect the database")
		if err != nil {
			return findings, err
		}
	}
	return findings, nil
}

// inspectServer looks at the version of the server, its connections, and whether they are
// encrypted.
func (j *Journal) inspectServer(ctx context.Context) ([]journal.Finding, error) {
	var (
		number, used, maximum int
		name, user, database  string
		local, encrypted      bool
	)
	err := j.pool.QueryRow(ctx, `SELECT current_setting('server_version_num')::int, current_setting('server_version'), current_user::text, current_database()::text,
		coalesce(inet_client_addr() <<= '127.0.0.0/8' OR inet_client_addr() = '::1', true), coalesce((SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()), false),
		(SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' OR backend_type IS NULL)::int, current_setting('max_connections')::int`).
		Scan(&number, &name, &user, &database, &local, &encrypted, &used, &maximum)
	if err != nil {
		return nil, err
	}
	server := journal.Finding{Name: "server", Level: journal.OK, Detail: fmt.Sprintf("PostgreSQL %s, database %s, schema %s, user %s", name, database, j.opts.Schema, user)}
	if number < oldestServer*10000 {
		server.Level, server.Fix = journal.Warning, fmt.Sprintf("update to PostgreSQL %d or newer",
			oldestServer)
	}
	findings := []journal.Finding{server}
	if !local && !encrypted {
		findings = append(findings, journal.Finding{Name: "encryption", Level: journal.Warning,
			Detail: "the connection to the database is not encrypted: others on the network can read and change the ledger",
			Fix:    "turn on ssl on the server, and add sslmode=verify-full to the address of the journal"})
	}
	if free := maximum - used; free < 2*connections {
		findings = append(findings, journal.Finding{Name: "connections", Level: journal.Warning,
			Detail: fmt.Sprintf(
				"%d of %d connections of the server are used; each process needs up to %d", used,
				maximum, connections+1),
			Fix: "raise max_connections on the server"})
	}
	return findings, nil
}

// durability returns the settings of the server that decide whether what it acknowledges survives a
// power failure.
func durability(ctx context.Context, q queryer) (findings []journal.Finding, err error) {
	var fsync, pages, commit string
	if err := q.QueryRow(ctx,
		"SELECT current_setting('fsync'), current_setting('full_page_writes'), current_setting('synchronous_commit')").Scan(&fsync, &pages, &commit); err != nil {
		return nil, err
	}
	if fsync != "on" {
		findings = append(findings, journal.Finding{Name: "fsync", Level: journal.Problem,
			Detail: "fsync is off on the database server: a power failure loses events, or the whole ledger", Fix: "set fsync = on in postgresql.conf"})
	}
	if pages != "on" {
		findings = append(findings, journal.Finding{Name: "full_page_writes",
			Level:  journal.Warning,
			Detail: "full_page_writes is off on the database server: a power failure can damage the ledger",
			Fix:    "set full_page_writes = on in postgresql.conf, unless the file system never writes parts of a page"})
	}
	// signalbox turns it on, but something between it and the server may not pass that on
	if commit != "on" && commit != "remote_apply" {
		findings = append(findings, journal.Finding{Name: "synchronous_commit",
			Level:  journal.Problem,
			Detail: fmt.Sprintf("synchronous_commit is %s: a power failure loses events", commit),
			Fix:    "set synchronous_commit = on for the database"})
	}
	return findings, nil
}

func (j *Journal) inspectDurability(ctx context.Context) ([]journal.Finding, error) {
	findings, err := durability(ctx, j.pool)
	if err == nil && len(findings) == 0 {
		findings = []journal.Finding{{Name: "durability", Level: journal.OK,
			Detail: "fsync, full_page_writes and synchronous_commit are on"}}
	}
	return findings, err
}

// replica is a row of pg_stat_replication. Users without pg_monitor see only that there is one.
type replica struct {
	Name, State, Sync *string
	Lag               *int64
}

func (j *Journal) inspectReplicas(ctx context.Context) ([]journal.Finding, error) {
	rows, err := j.pool.Query(ctx,
		"SELECT coalesce(nullif(application_name, ''), host(client_addr)), state, sync_state, pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn)::bigint FROM pg_stat_replication")
	if err != nil {
		return nil, err
	}
	replicas, err := pgx.CollectRows(rows, pgx.RowToStructByPos[replica])
	if err != nil {
		return nil, err
	}
	var wanted string
	if err := j.pool.QueryRow(ctx, "SELECT current_setting('synchronous_standby_names')").Scan(
		&wanted); err != nil {
		return nil, err
	}
	return judgeReplicas(replicas, wanted), nil
}

// judgeReplicas returns what the replicas mean for the ledger. wanted is the setting
// synchronous_standby_names.
func judgeReplicas(replicas []replica, wanted string) []journal.Finding {
	var synchronous, hidden int
	var names []string
	var findings []journal.Finding
	for _, r := range replicas {
		switch {
		case r.Sync == nil:
			hidden++
			continue
		case (*r.Sync == "sync" || *r.Sync == "quorum") && r.State != nil &&
			*r.State == "streaming":
			synchronous++
		}
		name := "one"
		if r.Name != nil {
			name = *r.Name
		}
		names = append(names, name+" ("+*r.Sync+")")
		if r.Lag != nil && *r.Lag > maxLag {
			findings = append(findings, journal.Finding{Name: "lag", Level: journal.Warning,
				Detail: fmt.Sprintf("the replica %s is %d MB behind", name, *r.Lag>>20),
				Fix:    "check the network and the disk of the replica"})
		}
	}
	f := journal.Finding{Name: "replicas", Level: journal.OK}
	switch {
	case wanted != "" && len(replicas) == 0:
		f.Level, f.Detail = journal.Problem,
			"the server waits for a synchronous replica with every append, and there is none"
		f.Fix = "start the replica, or correct synchronous_standby_names"
	case hidden > 0:
		f.Detail = fmt.Sprintf(
			"%d; only a user with the role pg_monitor can see how far they are behind",
			len(replicas))
	case len(replicas) == 0:
		f.Detail = "none: if the disk of the database is lost, only a backup has the ledger"
	case wanted != "" && synchronous == 0:
		f.Level, f.Detail = journal.Problem,
			"the server waits for a synchronous replica with every append, and none is connected: "+
				strings.Join(names, ", ")
		f.Fix = "check the replicas, or correct synchronous_standby_names"
	case synchronous == 0:
		f.Level, f.Detail = journal.Warning, strings.Join(names, ", ")+
			": none is synchronous, so a failover can lose the newest events"
		f.Fix = "set synchronous_standby_names on the primary server"
	default:
		f.Detail = strings.Join(names, ", ")
	}
	return append([]journal.Finding{f}, findings...)
}

func (j *Journal) inspectRights(ctx context.Context) ([]journal.Finding, error) {
	v, err := j.version(ctx, j.pool)
	if err != nil {
		return nil, err
	}
	var user string
	var work bool
	err = j.pool.QueryRow(ctx,
		"SELECT current_user::text, coalesce(bool_and(has_function_privilege(p.oid, 'EXECUTE')), false) FROM pg_proc p JOIN pg_namespace n ON n.oid = pronamespace WHERE nspname = $1 AND proname IN ('append_event', 'append_events', 'fence_appends')",
		j.opts.Schema).Scan(&user, &work)
	if err != nil {
		return nil, err
	}
	f := journal.Finding{Name: "rights", Level: journal.OK}
	switch {
	case v.owner:
		f.Detail = user + " owns the ledger: it may do everything, including deleting it"
	case work:
		f.Detail = user + " may append events and store blobs, but not change or delete them"
	default:
		f.Level, f.Detail = journal.Warning, user+" may only read"
		f.Fix = fmt.Sprintf("to run agents here, let %s grant more: signalbox ledger grant %s",
			v.ownerName, user)
	}
	return []journal.Finding{f}, nil
}

func (j *Journal) inspectSize(ctx context.Context) ([]journal.Finding, error) {
	var size int64
	err := j.pool.QueryRow(ctx,
		"SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname = $1 AND relkind = 'r'", j.opts.Schema).Scan(&size)
	if err != nil {
		return nil, err
	}
	return []journal.Finding{{Name: "size", Level: journal.OK,
		Detail: fmt.Sprintf("%.1f MB", float64(size)/(1<<20))}}, nil
}
