package portfolios

import (
	"signalbox/internal/cli"
	"signalbox/internal/portfolio"
)

type portfolioReconcileCommand struct {
	cli.DataFlag
	Format string `placeholder:"FORMAT" xor:"form" help:"Print the answer of the tool as JSON, in one of the formats ${briefFormats}."`
	Output string `placeholder:"WHERE" help:"Where the full result goes: ${briefOutputs}. A file is written to logs in the box, or in the current folder. Default: inline."`
	JSON   bool   `name:"json" xor:"form" help:"Print the full result as JSON, with the positions that agree."`
}

func (portfolioReconcileCommand) Help() string {
	return `Compares the list of positions, which signalbox portfolio import --positions reads from your broker's export, with the lots on the day of the list: the number of shares and, if the list has it, the cost basis. It lists the positions that differ. A broker does not know wash sales with other accounts; the column "Wash sales" shows what they added to the basis.

The exit status is 0 if there is a list, whatever it says.

Examples:

    signalbox portfolio reconcile
    signalbox portfolio reconcile --json`
}

func (c *portfolioReconcileCommand) Run(p *cli.Program) error {
	ctx, stop := cli.UntilInterrupted()
	defer stop()
	flags := toolFlags{Format: c.Format, Output: c.Output, JSON: c.JSON}
	return flags.print(p, cli.Desk(p, c.DataFlag, cli.BoxFlag{}).ReconcilePositions(ctx,
		portfolio.ReconcileQuery{Format: flags.format(), Output: c.Output}))
}
