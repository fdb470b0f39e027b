package ledgers

import (
	"context"

	"signalbox"
	"signalbox/internal/cli"
	"signalbox/internal/core/box"
	"signalbox/internal/core/journal/postgres"
)

type ledgerGrantCommand struct {
	cli.BoxFlag
	Role     cli.NonEmpty `arg:"" help:"The role of the database. It must exist."`
	ReadOnly bool         `help:"Let the role only read."`
	Revoke   bool         `help:"Take all rights away from the role."`
}

func (ledgerGrantCommand) Help() string {
	return `Lets a role of PostgreSQL use a ledger that is in a database. Run it as the owner of the ledger: the user in the address with which it was created. The role may then do everything that running agents needs: append events, and store blobs. It cannot change, delete or forge events, and cannot delete blobs, so only the owner can redact. With --read-only the role may only look.

The role gets exactly these rights: what it had before is taken away.

Examples:

    signalbox ledger grant worker
    signalbox ledger grant auditor --read-only
    signalbox ledger grant former_worker --revoke`
}

func (c *ledgerGrantCommand) Run(p *cli.Program) error {
	if err := p.OperatorOnly("grant rights"); err != nil {
		return err
	}
	rights := postgres.Work
	switch {
	case c.ReadOnly && c.Revoke:
		return signalbox.CodeUsage.Errorf("", "--read-only and --revoke cannot be used together")
	case c.ReadOnly:
		rights = postgres.Read
	case c.Revoke:
		rights = postgres.Nothing
	}
	return p.WithLedger(c.BoxFlag,
		func(ctx context.Context,
			l *box.Ledger) error {
			return l.Grant(ctx, string(c.Role), rights)
		})
}
