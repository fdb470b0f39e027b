package main

import (
	"github.com/alecthomas/kong"

	"signalbox/internal/cli"
)

type helpCommand struct {
	Command []string `arg:"" optional:"" help:"The command, such as ledger verify. Default: signalbox itself."`
}

func (helpCommand) Help() string {
	return `Shows the help of a command, as --help does.

Examples:

    signalbox help
    signalbox help run
    signalbox help ledger verify`
}

func (c *helpCommand) Run(app *kong.Kong) error {
	ctx, err := kong.Trace(app, c.Command)
	if err == nil {
		err = ctx.Error
	}
	if err != nil {
		return cli.UsageError(err, ctx)
	}
	return ctx.PrintUsage(false)
}
