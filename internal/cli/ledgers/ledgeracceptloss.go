package ledgers

import (
	"context"
	"fmt"
	"strings"

	"signalbox"
	"signalbox/internal/cli"
	"signalbox/internal/core/applied"
	"signalbox/internal/core/box"
)

type ledgerAcceptLossCommand struct {
	cli.BoxFlag
	Yes   bool         `help:"Forget the events without asking."`
	Actor cli.NonEmpty `placeholder:"A" help:"Your name on the ledger. Default: SIGNALBOX_ACTOR, or else your user name."`
	JSON  bool         `name:"json" help:"Print one JSON object. Without --yes, only show."`
}

func (ledgerAcceptLossCommand) Help() string {
	return `Continues with a ledger that has lost events, for example after its database was restored from an older backup. Every machine remembers the last events that it applied. If the ledger lacks one of them or has another in its place, nothing is written to it: commands end with exit status 5, and list what is missing. First try to bring the events back, from another node of the database or from a newer backup. If they are lost for good, this command makes this machine forget them.

It shows which events will be forgotten, and asks. An event LossAccepted records on the ledger which events are lost, on which machine, and who accepted it. The old memory is kept in the box as applied.lost-TIME. Signed checkpoints of the lost events are moved aside too: those in the box, and the signer's own one if the signing key is on this machine. Copies of them elsewhere will never match the ledger again, which is right: they prove that events were lost.

Stop all processes of the box first. In a cluster of several machines, start them again: they are its nodes, of which this command needs more than half. On a machine that misses events they do nothing else until you have run this command there. Run it on every machine that worked with the box, also on the one with the signing key.

Examples:

    signalbox ledger accept-loss
    signalbox ledger accept-loss --json
    signalbox ledger accept-loss --yes`
}

// acceptedLoss is the JSON answer.
type acceptedLoss struct {
	// Events is the number of events of the ledger.
	Events      uint64               `json:"events"`
	Lost        *applied.Lost        `json:"lost"`
	Checkpoints []box.LostCheckpoint `json:"checkpoints"`
	Accepted    bool                 `json:"accepted"`
	// Kept are the files with what was forgotten.
	Kept []string `json:"kept"`
}

func (c *ledgerAcceptLossCommand) Run(p *cli.Program) error {
	if err := p.OperatorOnly("accept that events are lost"); err != nil {
		return err
	}
	ctx := context.Background()
	return cli.WithOpened(ctx, p, c.BoxFlag, box.OpenLedger, p.BoxOptions(),
		func(l *box.Ledger) error {
			loss, err := box.FindLoss(ctx, l)
			if err != nil {
				return err
			}
			if !c.JSON {
				err = describeLoss(p, loss)
			}
			if err == nil && !loss.None() && (c.Yes || !c.JSON) {
				err = c.decide(p)
			}
			if err != nil {
				return err
			}
			answer := acceptedLoss{Events: loss.Events, Lost: loss.Lost, Checkpoints: loss.Checkpoints, Kept: []string{}}
			if !loss.None() && (c.Yes || !c.JSON) {
				if answer.Kept, err = loss.Accept(ctx, p.ActorOf(c.Actor)); err != nil {
					return err
				}
				answer.Accepted = true
			}
			if c.JSON {
				return p.PrintJSON(answer, "")
			}
			if answer.Accepted {
				_, err = fmt.Fprintf(p.Out, "forgotten; kept in %s\n",
					cli.Printable(strings.Join(answer.Kept, ", ")))
			}
			return err
		})
}

// decide asks the user, unless --yes is set.
func (c *ledgerAcceptLossCommand) decide(p *cli.Program) error {
	if c.Yes {
		return nil
	}
	yes, err := p.Confirm("Forget this, and continue with the ledger as it is?",
		"see what is lost with signalbox ledger accept-loss --json, then run signalbox ledger accept-loss --yes")
	if err == nil && !yes {
		err = signalbox.CodeFailed.Errorf(applied.Hint,
			"nothing was forgotten, and nothing can be written to the ledger")
	}
	return err
}

// describeLoss prints what accepting a loss forgets.
func describeLoss(p *cli.Program, loss *box.Loss) error {
	if loss.None() {
		fmt.Fprintf(p.Out, "nothing is lost: the ledger has all events that this machine applied and signed, %d in total\n", loss.Events)
		return p.Out.Flush()
	}
	if loss.Lost != nil {
		fmt.Fprintf(p.Out, "%s\n\nThis machine will forget:\n", loss.Lost)
		for _, e := range loss.Lost.Known {
			fmt.Fprintf(p.Out, "  %s\n", cli.Printable(e.String()))
		}
		if missing := loss.Lost.Last - loss.Lost.First + 1; missing > uint64(len(loss.Lost.Known)) {
			fmt.Fprintf(p.Out, "  and %s of which nothing is remembered\n",
				eventCount(missing-uint64(len(loss.Lost.Known))))
		}
		fmt.Fprintln(p.Out)
	}
	for _, checkpoint := range loss.Checkpoints {
		fmt.Fprintf(p.Out, "The checkpoint in %s signed %s, which are not those of the ledger. It will be moved aside; copies of it elsewhere will never match again.\n",
			cli.Printable(checkpoint.File), eventCount(checkpoint.Size))
	}
	if err := p.Out.Flush(); err != nil {
		return err
	}
	if loss.SignsElsewhere {
		p.Warnf("the signing key is on another machine, which may have signed the lost events: run this command there too, or that machine will not sign any more")
	}
	return nil
}
