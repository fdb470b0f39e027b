package ledgers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"signalbox"
	"signalbox/internal/cli"
	"signalbox/internal/config"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/team"
	"signalbox/internal/text"
)

type ledgerMigrateCommand struct {
	cli.BoxFlag
	To     cli.NonEmpty `required:"" placeholder:"ADDRESS" help:"Where to move the ledger: an address, cluster for the machines that the setting cluster lists, or sqlite for a file in the box."`
	DryRun bool         `name:"dry-run" help:"Check everything and say what would happen, without changing anything."`
	Force  bool         `help:"Cancel an incomplete move although the other place cannot be reached."`
	Repair bool         `help:"Leave invalid events at the end of the ledger behind, as signalbox ledger repair removes them. It cannot remove them from JetStream."`
	JSON   bool         `name:"json" help:"Print one JSON object."`
}

func (ledgerMigrateCommand) Help() string {
	return `Moves the ledger to another database, into a cluster of the machines themselves, or back into a file of the box: it copies all events, byte for byte, and the blobs that they refer to, verifies both places, and changes the setting journal. The ledger can be in use until the copy is almost complete. Then the event LedgerMoved ends it in the old place: from then on every process there refuses to work, and says what to write into signalbox.yaml. The copy continues with LedgerContinued.

If the command is interrupted, run it again: it verifies what was copied and continues. A place that has anything but a part of this ledger is refused. On each other machine that uses the box, run the same command, which then only changes the setting, or edit signalbox.yaml.

To cancel a move that cannot be completed, name the place where the ledger is now. The old place keeps its copy, which can be read but not continued. docs/how-to/machines.md says more.

With --repair, the ledger may have invalid events at its end, after which no process can work. They stay in the old place, which is not changed, and are kept in a file of the box; LedgerRepaired records that. Run it on the machine with the signing key, and change the setting journal on the others by hand.

Examples:

    signalbox ledger migrate --to postgres://signalbox@db.example.com/signalbox?schema=shop --dry-run
    signalbox ledger migrate --to postgres://signalbox@db.example.com/signalbox?schema=shop
    signalbox ledger migrate --to cluster
    signalbox ledger migrate --to sqlite
    signalbox ledger migrate --repair --to sqlite`
}

// migrated is the JSON answer.
type migrated struct {
	Outcome box.MigrateOutcome `json:"outcome"`
	Box     string             `json:"box"`
	From    string             `json:"from"`
	To      string             `json:"to"`
	Events  uint64             `json:"events"`
	Head    signalbox.Hash     `json:"head"`
	// Present is how many events were there already, and Blobs how many blobs were copied.
	Present uint64           `json:"present"`
	Blobs   int              `json:"blobs"`
	Missing []signalbox.Hash `json:"missing,omitempty"`
	// Repaired reports whether invalid events were left behind, and Removed is the file with them.
	Repaired bool   `json:"repaired,omitempty"`
	Removed  string `json:"removed,omitempty"`
}

func (c *ledgerMigrateCommand) Run(p *cli.Program) error {
	if err := p.OperatorOnly("move the ledger"); err != nil {
		return err
	}
	dir, err := p.FindBox(c.BoxFlag)
	if err != nil {
		return err
	}
	ctx, stop := cli.UntilInterrupted()
	defer stop()
	known := team.Store{}.KnowsPlaces(dir)
	done, err := box.Migrate(ctx, dir, &box.MigrateOptions{
		Options: *p.BoxOptions(), To: string(c.To), Actor: p.ActorOf(""), DryRun: c.DryRun,
		Force: c.Force, Repair: c.Repair, Progress: migrateProgress(p, string(c.To)),
	})
	if !c.DryRun {
		cli.RememberPlaces(p, dir, known, err)
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return signalbox.CodeInterrupted.Errorf(
			"run the command again: it continues where it stopped", "interrupted")
	}
	if err != nil {
		return err
	}
	return c.print(p, done)
}

// migrateProgress returns a function that prints each step, and how far it is: on a terminal every
// second, elsewhere every ten.
func migrateProgress(p *cli.Program, to string) func(step box.MigrateStep, done, total uint64) {
	steps := map[box.MigrateStep]string{
		box.MigrateVerify: "verifying the ledger", box.MigrateCompare: "comparing with " + to,
		box.MigrateCopy:  "copying to " + to,
		box.MigrateCheck: "verifying the copy", box.MigrateSwitch: "switching to " + to,
	}
	var current box.MigrateStep
	var shown time.Time
	return func(step box.MigrateStep, done, total uint64) {
		now := time.Now()
		if step != current {
			current, shown = step, now
			p.Notef("%s: %s", steps[step], eventCount(total))
			return
		}
		if cli.IsTerminal(p.Stderr) && now.Sub(shown) > time.Second {
			shown = now
			fmt.Fprintf(p.Stderr, "%d of %d events\r", done, total)
		} else if now.Sub(shown) > 10*time.Second {
			shown = now
			p.Notef("%d of %d events", done, total)
		}
	}
}

func (c *ledgerMigrateCommand) print(p *cli.Program, done *box.MigrateResult) error {
	var err error
	if c.JSON {
		err = p.PrintJSON(migrated{done.Outcome, done.Box, done.From, done.To, done.Events,
			done.Head, done.Present, done.Blobs, done.Missing, done.Repaired, done.Removed}, "")
	} else {
		_, err = fmt.Fprintln(p.Out, cli.Printable(describeMigration(done)))
	}
	if err != nil {
		return err
	}
	for _, digest := range done.Missing {
		p.Warnf("blob %s, to which an event refers, is missing from the box and was not redacted",
			digest)
	}
	if done.Removed != "" {
		p.Notef("invalid events were left behind; kept in %s", cli.Printable(done.Removed))
	}
	if done.Outcome == box.Moved {
		switch done.To {
		case rules.JournalSQLite:
			p.Notef("only this machine can use the ledger now; others that used it refuse to work")
		case config.JournalCluster:
			p.Notef("on other machines that use this box, set cluster, with the same secret, in signalbox.yaml, and no other journal")
		default:
			do := "run the same command, or write"
			if done.Repaired {
				do = "write"
			}
			p.Notef("on other machines that use this box, %s into signalbox.yaml: journal: %q; keep the user of that machine", do, done.To)
			if config.JournalScheme(done.To) == "postgres" {
				p.Notef("rights do not move with the ledger: grant them again with signalbox ledger grant")
			}
		}
		if done.Repaired {
			p.Notef("the old place, %s, was not changed: no machine can work there; keep it or remove it", done.From)
		} else {
			p.Notef("the copy in the old place, %s, can be read but not continued: keep it or remove it", done.From)
		}
	}
	if done.Unsigned != nil {
		p.Warnf("the ledger was moved, but: %v", done.Unsigned)
		p.PrintHint(done.Unsigned)
	}
	return nil
}

func describeMigration(done *box.MigrateResult) string {
	switch done.Outcome {
	case box.Moved:
		return fmt.Sprintf("moved %s from %s to %s: %s, %s copied, head %s", done.Box, done.From,
			done.To, eventCount(done.Events), text.Count(done.Blobs, "blob"), done.Head)
	case box.WouldMove:
		return fmt.Sprintf("would move %s from %s to %s: %s, %d already copied", done.Box,
			done.From, done.To, eventCount(done.Events), done.Present)
	case box.Switched:
		return fmt.Sprintf("%s was already moved to %s: changed the setting journal", done.Box,
			done.To)
	case box.WouldSwitch:
		return fmt.Sprintf("%s was already moved to %s: would change only the setting journal",
			done.Box, done.To)
	case box.Cancelled:
		return fmt.Sprintf("cancelled the move of %s: it continues in %s, %s, head %s", done.Box,
			done.To, eventCount(done.Events), done.Head)
	case box.WouldCancel:
		return fmt.Sprintf("would cancel the move of %s, which would continue in %s", done.Box,
			done.To)
	}
	return fmt.Sprintf("%s is in %s already: nothing was changed", done.Box, done.To)
}
