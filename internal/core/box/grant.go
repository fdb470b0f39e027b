package box

import (
	"context"

	"signalbox"
	"signalbox/internal/core/journal/postgres"
)

// Grant gives a role of the database that has the ledger exactly these rights to it.
func (r *Reader) Grant(ctx context.Context, role string, rights postgres.Rights) error {
	database, ok := r.database().(*postgres.Journal)
	if !ok {
		return signalbox.CodeFailed.Errorf(
			"the rights to a ledger in a file are those of the file",
			"the ledger is not in PostgreSQL, and has no roles")
	}
	return database.Grant(ctx, role, rights)
}

// IsOwner reports whether a role has all rights to the ledger in PostgreSQL because it created it;
// "" is the one that this process uses.
func (r *Reader) IsOwner(ctx context.Context, role string) (bool, error) {
	database, ok := r.database().(*postgres.Journal)
	if !ok {
		return false, nil
	}
	return database.IsOwner(ctx, role)
}
