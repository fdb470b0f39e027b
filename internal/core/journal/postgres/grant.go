package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"signalbox"
)

// Rights are what a role of the database may do with a box. Its owner, who created it, may do
// everything.
type Rights int

const (
	// Nothing takes all rights away.
	Nothing Rights = iota
	// Read allows to read events and blobs.
	Read
	// Work also allows to append events and to store blobs: all that a process needs that runs
	// agents. Only the owner deletes blobs, which redacting needs, and migrates the tables.
	Work
)

// grants are the statements that give rights, without the role. Each right includes the previous
// ones.
var grants = map[Rights][]string{
	Read: {
		"GRANT USAGE ON SCHEMA BOX TO",
		"GRANT SELECT ON ALL TABLES IN SCHEMA BOX TO",
	},
	Work: {
		"GRANT EXECUTE ON FUNCTION BOX.append_event, BOX.append_events, BOX.fence_appends TO",
		"GRANT INSERT ON BOX.blobs, BOX.blob_pieces TO",
	},
}

// Grant gives a role exactly these rights. Only the owner can do that.
func (j *Journal) Grant(ctx context.Context, role string, rights Rights) error {
	return j.Do(ctx, func(ctx context.Context) error {
		return j.transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
			return j.grant(ctx, tx, role, rights)
		})
	}, "grant rights to %s", role)
}

// IsOwner reports whether a role owns the tables; "" is the user of the connection, who may also be
// a member of the role that does.
func (j *Journal) IsOwner(ctx context.Context, role string) (bool, error) {
	var v version
	err := j.Do(ctx, func(ctx context.Context) (err error) {
		v, err = j.version(ctx, j.pool)
		return err
	}, "find the owner of the ledger")
	if err != nil {
		return false, err
	}
	return role == "" && v.owner || role == v.ownerName, nil
}

func (j *Journal) grant(ctx context.Context, tx pgx.Tx, role string, rights Rights) error {
	v, err := j.version(ctx, tx)
	if err != nil {
		return err
	}
	switch {
	case strings.EqualFold(role,
		"public"): // PostgreSQL has no such role: it means everybody, even in quotes
		return signalbox.CodeUsage.Errorf("name the role that a machine uses",
			"%s is not a role: in PostgreSQL it means everybody", role)
	case !v.owner:
		// Without this check GRANT would only warn that nothing was granted.
		return signalbox.CodeFailed.Errorf("use the address of the journal with the user "+
			v.ownerName,
			"only the owner of the ledger, %s, can grant rights", v.ownerName)
	case role == v.ownerName:
		return signalbox.CodeUsage.Errorf("",
			"%s owns the ledger, and has all rights", role)
	}
	statements := []string{
		"REVOKE ALL ON ALL TABLES IN SCHEMA BOX FROM",
		"REVOKE ALL ON ALL FUNCTIONS IN SCHEMA BOX FROM",
		"REVOKE ALL ON SCHEMA BOX FROM",
	}
	for r := Read; r <= rights; r++ {
		statements = append(statements, grants[r]...)
	}
	for _, statement := range statements {
		_, err := tx.Exec(ctx, j.sql(statement)+" "+pgx.Identifier{role}.Sanitize())
		if failure := (*pgconn.PgError)(nil); errors.As(err, &failure) && failure.Code == "42704" {
			return signalbox.CodeNotFound.Errorf(fmt.Sprintf("create it: CREATE ROLE %s LOGIN",
				pgx.Identifier{role}.Sanitize()),
				"there is no role %s", role)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
