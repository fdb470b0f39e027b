package ledgers

import (
	"context"
	"fmt"
	"time"

	"signalbox"
	"signalbox/internal/cli"
	"signalbox/internal/core/box"
)

type ledgerRepairCommand struct {
	cli.BoxFlag
	Clock  bool         `help:"Set the time of the ledger back, if it is ahead."`
	Reason cli.NonEmpty `placeholder:"TEXT" help:"With --clock: why the time is wrong, for the ledger."`
	Yes    bool         `help:"Repair the ledger, instead of only showing what would be done."`
	Actor  cli.NonEmpty `placeholder:"A" help:"Your name on the ledger. Default: SIGNALBOX_ACTOR, or else your user name."`
	JSON   bool         `name:"json" help:"Print one JSON object."`
}

func (ledgerRepairCommand) Help() string {
	return `Repairs a ledger that nothing can be written to. Without --yes it only shows what it would do.

Without --clock, it removes events at the end of the ledger that are not valid: a program that has the password of the database appended an event with a wrong hash, or one that cannot follow the events before it. No signalbox has applied such events. They are kept in a file of the box, removed-TIME.jsonl, and LedgerRepaired records on the ledger which they were. Nothing is removed that may have been valid: an event that was signed, or that this machine has applied, or after which an intact event follows. Then something was changed or damaged, and you restore a backup. Run the command on the machine with the signing key.

With --clock, it sets the time of the ledger back. The time of a ledger never runs backwards, so one event from a machine whose clock is ahead gives all later events its time, and leases do not expire before it. Correct the clocks first. ClockCorrected records the right time, which is that of the database, or for a ledger in a file that of this machine. Leases, rate limits and pauses keep what was left of them.

On PostgreSQL only the owner of the ledger can repair it. Events cannot be removed from JetStream: there, signalbox ledger migrate --repair moves the ledger without them. Restart the processes of the box afterwards. Versions of signalbox that do not know the two events refuse a ledger that was repaired.

Examples:

    signalbox ledger repair
    signalbox ledger repair --yes
    signalbox ledger repair --clock --reason "alpha had no time service" --yes`
}

// repaired is the JSON answer.
type repaired struct {
	// First and Last are the invalid events, 0 if there are none.
	First uint64 `json:"first,omitempty"`
	Last  uint64 `json:"last,omitempty"`
	Fault string `json:"fault,omitempty"`
	// Kept is the file with the events that were removed.
	Kept string `json:"kept,omitempty"`
	// Ledger and Clock are the time of the ledger and the right time, if the former is ahead.
	Ledger *time.Time `json:"ledger_time,omitempty"`
	Clock  *time.Time `json:"time,omitempty"`
	// Repaired reports whether something was changed.
	Repaired bool `json:"repaired"`
}

func (c *ledgerRepairCommand) Run(p *cli.Program) error {
	if err := p.OperatorOnly("repair the ledger"); err != nil {
		return err
	}
	if c.Clock && c.Yes && c.Reason == "" {
		return signalbox.CodeUsage.Errorf("the ledger records it for later readers",
			"--clock --yes needs --reason")
	}
	ctx := context.Background()
	return cli.WithOpened(ctx, p, c.BoxFlag, box.OpenLedger, p.BoxOptions(),
		func(l *box.Ledger) error {
			repair := c.removeInvalid
			if c.Clock {
				repair = c.correctClock
			}
			answer, err := repair(ctx, p, l)
			if err == nil && c.JSON {
				err = p.PrintJSON(answer, "")
			}
			return err
		})
}

func (c *ledgerRepairCommand) removeInvalid(ctx context.Context, p *cli.Program,
	l *box.Ledger) (answer repaired, err error) {
	tail, err := box.FindInvalid(ctx, l, showProgress(p, "verified"))
	if err != nil {
		return answer, err
	}
	if tail == nil {
		if ahead, err := box.FindAhead(ctx, l); err == nil && ahead != nil {
			p.Warnf("%s; see signalbox ledger repair --clock", describeAhead(ahead))
		}
		return answer, c.say(p, "nothing needs to be removed: all events are valid")
	}
	n := len(tail.Events)
	answer = repaired{First: tail.Events[0].Seq, Last: tail.Events[n-1].Seq, Fault: tail.Fault}
	what := fmt.Sprintf("event %d", answer.First)
	if n > 1 {
		what = fmt.Sprintf("events %d to %d", answer.First, answer.Last)
	}
	if err := c.say(p, "not valid: %s", cli.Printable(tail.Fault)); err != nil {
		return answer, err
	}
	if err := tail.Removable(); err != nil {
		return answer, err
	}
	if !c.Yes {
		c.sayHow(p, "would remove "+what)
		return answer, nil
	}
	if answer.Kept, err = tail.Cut(ctx, p.ActorOf(c.Actor)); err != nil {
		return answer, err
	}
	answer.Repaired = true
	return answer, c.say(p, "removed %s; kept in %s", what, cli.Printable(answer.Kept))
}

func (c *ledgerRepairCommand) correctClock(ctx context.Context, p *cli.Program,
	l *box.Ledger) (answer repaired, err error) {
	ahead, err := box.FindAhead(ctx, l)
	if err != nil {
		return answer, err
	}
	if ahead == nil {
		return answer, c.say(p, "nothing needs to be done: the time of the ledger is not ahead")
	}
	answer.Ledger, answer.Clock = &ahead.Ledger, &ahead.Clock
	if err := c.say(p, "%s", describeAhead(ahead)); err != nil || !c.Yes {
		c.sayHow(p, "would set it back")
		return answer, err
	}
	if err := ahead.Correct(ctx, string(c.Reason), p.ActorOf(c.Actor)); err != nil {
		return answer, err
	}
	answer.Repaired = true
	return answer, c.say(p, "set back to %s", ahead.Clock.Format(time.RFC3339))
}

func describeAhead(a *box.Ahead) string {
	return fmt.Sprintf("the time of the ledger is %s, %s ahead of the time, %s",
		a.Ledger.Format(time.RFC3339), a.Ledger.Sub(a.Clock).Round(time.Second),
		a.Clock.Format(time.RFC3339))
}

// say prints a line, unless the answer is JSON.
func (c *ledgerRepairCommand) say(p *cli.Program, format string, args ...any) error {
	if c.JSON {
		return nil
	}
	_, err := fmt.Fprintf(p.Out, format+"\n", args...)
	return err
}

func (c *ledgerRepairCommand) sayHow(p *cli.Program, what string) {
	p.Notef("%s; nothing was changed: add --yes to do it", what)
}
