// Package portfolios has the commands for portfolios: tax lots, losses to harvest, sales, and exit
// signals.
package portfolios

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"

	"signalbox/brief"
	"signalbox/internal/cli"
	"signalbox/internal/portfolio"
	"signalbox/internal/text"
)

type PortfolioCommands struct {
	Init    portfolioInitCommand    `cmd:"" help:"Create a folder with an example portfolio."`
	Import  portfolioImportCommand  `cmd:"" help:"Import a file of transactions from a broker."`
	Lots    portfolioLotsCommand    `cmd:"" help:"List the open tax lots."`
	Exits   portfolioExitsCommand   `cmd:"" help:"Show whether to exit a position."`
	Harvest portfolioHarvestCommand `cmd:"" help:"Show which losses you could harvest, and how much of them counts."`
	Gains   portfolioGainsCommand   `cmd:"" help:"List the sales of a year as on Form 8949 and Schedule D."`

	Simulate  portfolioSimulateCommand  `cmd:"" help:"Show what a sale would do to your taxes."`
	Reconcile portfolioReconcileCommand `cmd:"" help:"Compare your broker's list of positions with your lots."`
}

func (PortfolioCommands) Help() string {
	return `Answers questions about a portfolio in a folder of plain files: portfolio.yaml, transactions and prices (see docs/reference/portfolio-files.md). The figures follow US federal rules and are not tax advice. No data leaves your machine, and no orders are placed.

Examples:

    signalbox portfolio init
    signalbox portfolio harvest
    signalbox portfolio exits SLV`
}

// toolFlags are the flags of commands that answer like the tools for agents.
type toolFlags struct {
	AsOf   string `name:"as-of" placeholder:"DATE" help:"The day to answer for. Default: as_of in portfolio.yaml, or else today."`
	Format string `placeholder:"FORMAT" xor:"form" help:"Print the answer of the tool as JSON, in one of the formats ${briefFormats}."`
	Output string `placeholder:"WHERE" help:"Where the full result goes: ${briefOutputs}. A file is written to logs in the box, or in the current folder. Default: inline."`
	JSON   bool   `name:"json" xor:"form" help:"Print the full result as JSON."`
}

// format returns the format to ask the tool for. It is a report for people unless a flag says
// otherwise.
func (f toolFlags) format() string {
	if f.JSON {
		return string(brief.FormatFull)
	}
	return cmp.Or(f.Format, string(brief.FormatReport))
}

// print prints an answer. It returns an error if the answer reports a problem.
func (f toolFlags) print(p *cli.Program, answer portfolio.Answer) error {
	p.Quiet = f.JSON || f.Format != ""
	if f.JSON || f.Format != "" {
		if err := p.PrintJSON(answer.JSON, ""); err != nil {
			return err
		}
	} else if answer.Problem == nil || answer.Problem.Kind == portfolio.FileNotSaved {
		var report struct {
			Report string `json:"report"`
		}
		if err := json.Unmarshal(answer.JSON, &report); err != nil {
			return err
		}
		for line := range strings.Lines(report.Report) {
			fmt.Fprintln(p.Out, cli.Printable(strings.TrimSuffix(line, "\n")))
		}
	}
	if answer.Problem != nil {
		return portfolio.WithCode(answer.Problem)
	}
	if answer.FilePath != "" {
		p.Notef("the full result is in %s", answer.FilePath)
	}
	return nil
}

type portfolioExitsCommand struct {
	cli.DataFlag
	Ticker  string `arg:"" help:"The position."`
	Shares  string `placeholder:"N" help:"The number of shares, for a part of the position or one that is not in the data."`
	Account string `placeholder:"ID" help:"The account, if several accounts hold the ticker."`
	toolFlags
}

func (portfolioExitsCommand) Help() string {
	return `Evaluates the exit rules of a ticker, which are configured under exit_rules in portfolio.yaml: how the last complete month compares with the months before it (momentum_exit), and how a basket has performed (regime_check). The answer starts with HOLD, MONITOR, EXIT, STRONG EXIT or ERROR. For an exit it shows how many shares to sell, and where to put a stop for the rest. No orders are placed.

The exit status is 0 if there is an answer, whatever it is.

Examples:

    signalbox portfolio exits SLV
    signalbox portfolio exits SLV --account brk --shares 50
    signalbox portfolio exits SLV --format agent --output file`
}

func (c *portfolioExitsCommand) Run(p *cli.Program) error {
	ctx, stop := cli.UntilInterrupted()
	defer stop()
	return c.print(p, cli.Desk(p, c.DataFlag, cli.BoxFlag{}).CheckExitSignals(ctx,
		portfolio.ExitQuery{Ticker: c.Ticker, Shares: c.Shares, AccountID: c.Account,
			AsOf: c.AsOf, Format: c.format(), Output: c.Output}))
}

type portfolioHarvestCommand struct {
	cli.DataFlag
	MinLoss string `name:"min-loss" placeholder:"DOLLARS" help:"Leave out lots with a smaller loss."`
	SortBy  string `name:"sort-by" enum:"loss_amount,loss_pct,days_held" default:"loss_amount" help:"Sort by loss_amount, loss_pct or days_held, largest first. Default: loss_amount."`
	Account string `placeholder:"ID" help:"Only lots of this account. Wash sales are still found across all accounts."`
	Source  string `placeholder:"NAME" help:"Only accounts with transactions from this file or file format, such as schwab."`
	NoWash  bool   `name:"no-wash-sale-check" help:"Count every loss, even if a wash sale would disallow it."`
	toolFlags
}

func (portfolioHarvestCommand) Help() string {
	return `Lists the open lots of taxable accounts that are at a loss, and how much of each loss would count. It finds wash sales across all accounts, 30 days before and after, and shows from which day you can sell without one. Totals assume that you sell all listed lots together. Past loss sales are checked too, and what they moved into the basis of other lots is counted.

Estimates under US federal rules; not tax advice.

Examples:

    signalbox portfolio harvest
    signalbox portfolio harvest --min-loss 500 --sort-by loss_pct
    signalbox portfolio harvest --as-of 2026-06-30 --json
    signalbox portfolio harvest --format agent --output file`
}

func (c *portfolioHarvestCommand) Run(p *cli.Program) error {
	ctx, stop := cli.UntilInterrupted()
	defer stop()
	return c.print(p, cli.Desk(p, c.DataFlag, cli.BoxFlag{}).SuggestTaxLossHarvest(ctx,
		portfolio.HarvestQuery{MinLoss: c.MinLoss, SortBy: c.SortBy, Account: c.Account,
			Source: c.Source, SkipWashCheck: c.NoWash, AsOf: c.AsOf, Format: c.format(),
			Output: c.Output}))
}

type portfolioLotsCommand struct {
	cli.DataFlag
	AsOf    string `name:"as-of" placeholder:"DATE" help:"The day. Default: as_of in portfolio.yaml, or else today."`
	Account string `placeholder:"ID" help:"Only lots of this account."`
	Ticker  string `placeholder:"TICKER" help:"Only lots of this ticker."`
	JSON    bool   `name:"json" help:"Print a JSON array."`
}

func (portfolioLotsCommand) Help() string {
	return `Lists the open lots at the end of a day: when they were bought, when their holding period starts, and their basis, with the part that wash sales added.

Examples:

    signalbox portfolio lots
    signalbox portfolio lots --ticker SLV --as-of 2026-03-31
    signalbox portfolio lots --json`
}

func (c *portfolioLotsCommand) Run(p *cli.Program) error {
	ctx, stop := cli.UntilInterrupted()
	defer stop()
	lots, err := cli.Desk(p, c.DataFlag, cli.BoxFlag{}).Lots(ctx,
		portfolio.LotsQuery{AsOf: c.AsOf, Account: c.Account, Ticker: c.Ticker})
	if err != nil {
		return portfolio.WithCode(err)
	}
	warned := ""
	for _, l := range lots {
		if name := l.Ticker + " in " + l.Account; l.NotHeld && name != warned {
			p.Warnf("fewer shares of %s are held than its lots have; signalbox portfolio harvest names the record", name)
			warned = name
		}
	}
	if c.JSON {
		return p.PrintJSON(lots, "")
	}
	if len(lots) == 0 {
		p.Notef("there are no matching lots")
		return nil
	}
	return printLots(p, lots)
}

func printLots(p *cli.Program, lots []portfolio.Lot) error {
	// Numbers are aligned to the right, so compute their widths first.
	shares, basis, moved := len("SHARES"), len("BASIS"), len("WASH SALES")
	for _, l := range lots {
		shares, basis, moved = max(shares, len(l.Quantity.String())),
			max(basis, len(money(l.BasisTotal))), max(moved, len(money(l.BasisAdjustment)))
	}
	t := tabwriter.NewWriter(p.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "ACCOUNT\tTICKER\tBOUGHT\tHELD SINCE\t%*s\t%*s\t%*s\tLOT\n", shares, "SHARES",
		basis, "BASIS", moved, "WASH SALES")
	for _, l := range lots {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%*s\t%*s\t%*s\t%s\n", l.Account, l.Ticker, l.LotDate,
			l.HoldingStart, shares, l.Quantity,
			basis, money(l.BasisTotal), moved, money(l.BasisAdjustment), cli.Printable(l.LotID))
	}
	return t.Flush()
}

// money formats an amount with two decimals and thousands separators.
func money(a portfolio.Amount) string { return text.Group(a.Rescale(2).String()) }
