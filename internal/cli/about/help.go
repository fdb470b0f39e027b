// Package about has the commands that describe the program itself: help, completion, manual and
// version.
package about

import (
	"github.com/alecthomas/kong"

	"signalbox/internal/cli"
)

type HelpCommand struct {
	Command []string `arg:"" optional:"" help:"The command, such as ledger verify. Default: signalbox itself."`
}

func (HelpCommand) Help() string {
	return `Shows the help of a command, as --help does.

Examples:

    signalbox help
    signalbox help run
    signalbox help ledger verify`
}

func (c *HelpCommand) Run(app *kong.Kong) error {
	ctx, err := kong.Trace(app, c.Command)
	if err == nil {
		err = ctx.Error
	}
	if err != nil {
		return cli.UsageError(err, ctx)
	}
	return ctx.PrintUsage(false)
}
