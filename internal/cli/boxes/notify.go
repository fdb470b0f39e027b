package boxes

import (
	"context"
	"fmt"
	"path/filepath"
	"text/tabwriter"

	"signalbox"
	"signalbox/internal/cli"
	"signalbox/internal/core/box"
	"signalbox/internal/process"
	"signalbox/internal/run/notify"
)

type NotifyCommands struct {
	Test notifyTestCommand `cmd:"" help:"Send a test message to everybody who is notified."`
}

func (NotifyCommands) Help() string {
	return `A run notifies you of questions, approvals, budgets, a stuck run and the end of the plan: over a webhook, a command, ntfy or the desktop. docs/reference/configuration.md describes the settings.

Examples:

    signalbox notify test`
}

type notifyTestCommand struct {
	cli.BoxFlag
	JSON bool `name:"json" help:"Print one JSON object."`
}

func (notifyTestCommand) Help() string {
	return `Sends a test message to every target under notify in the configuration, whatever its events are, and prints what happened. Nothing is recorded. The exit status is 1 if a target could not be notified.

Examples:

    signalbox notify test
    signalbox notify test --json`
}

// notifyTested is the JSON answer.
type notifyTested struct {
	OK      bool            `json:"ok"`
	Targets []notify.Result `json:"targets"`
}

func (c *notifyTestCommand) Run(p *cli.Program) error {
	if err := p.OperatorOnly("send notifications"); err != nil {
		return err
	}
	ctx := context.Background()
	return cli.WithOpened(ctx, p, c.BoxFlag, box.OpenReadOnly, p.RunOptions(c.BoxFlag),
		func(b *box.Box) error {
			root, err := filepath.Abs(p.ProjectRoot(c.BoxFlag, b.Dir))
			if err != nil {
				return err
			}
			results := notify.Test(ctx, b.Config.Notify, b.ID(),
				notify.Options{Project: filepath.Base(root), Getenv: p.Getenv,
					Environ: process.Environ()})
			failed := 0
			for _, r := range results {
				if !r.OK {
					failed++
				}
			}
			if c.JSON {
				err = p.PrintJSON(notifyTested{failed == 0 && len(results) > 0, results}, "")
			} else {
				err = printNotified(p, results)
			}
			switch {
			case err != nil:
				return err
			case len(results) == 0:
				return signalbox.CodeFailed.Errorf(
					"add a target under notify in the configuration; docs/reference/configuration.md has examples", "no notifications are configured")
			case failed > 0:
				return signalbox.CodeFailed.Errorf(
					"correct notify in the configuration, and try again",
					"%d of %d targets could not be notified", failed, len(results))
			}
			return nil
		})
}

func printNotified(p *cli.Program, results []notify.Result) error {
	table := tabwriter.NewWriter(p.Out, 0, 0, 2, ' ', 0)
	for _, r := range results {
		outcome := "delivered"
		if !r.OK {
			outcome = "failed: " + cli.Printable(r.Error)
		}
		fmt.Fprintf(table, "%s\t%s\n", cli.Printable(r.Target), outcome)
	}
	return table.Flush()
}
