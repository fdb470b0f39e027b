package ledgers

import (
	"context"

	"signalbox/internal/cli"
	"signalbox/internal/core/box"
)

type ledgerExportCommand struct {
	cli.BoxFlag
	After uint64 `default:"0" help:"Export only events after this sequence number."`
}

func (ledgerExportCommand) Help() string {
	return `Writes all events as CloudEvents 1.0 in JSON, one per line, for use in other systems. The id is the sequence number and the subject is the work; session, actor, prev and hash are extension attributes.

Examples:

    signalbox ledger export > events.jsonl
    signalbox ledger export --after 1000`
}

func (c *ledgerExportCommand) Run(p *cli.Program) error {
	return p.WithLedger(c.BoxFlag, func(ctx context.Context, l *box.Ledger) error {
		for e, err := range l.Events(ctx, c.After) {
			if err == nil {
				err = p.PrintJSON(l.CloudEvent(e), "")
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}
