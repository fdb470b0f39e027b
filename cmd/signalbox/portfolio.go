package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"signalbox"
	"signalbox/brief"
	"signalbox/internal/config"
	"signalbox/internal/portfolio"
	"signalbox/internal/text"
)

// portfolioVariable names the portfolio's folder where no flag does.
const portfolioVariable = "SIGNALBOX_PORTFOLIO"

type portfolioCommands struct {
	Init    portfolioInitCommand    `cmd:"" help:"Make a folder with an example portfolio."`
	Import  portfolioImportCommand  `cmd:"" help:"Add a broker's file to the transactions."`
	Lots    portfolioLotsCommand    `cmd:"" help:"List the open tax lots."`
	Exits   portfolioExitsCommand   `cmd:"" help:"Say whether to leave a position."`
	Harvest portfolioHarvestCommand `cmd:"" help:"Say which losses could be taken, and how much of them would count."`
}

func (portfolioCommands) Help() string {
	return `Looks after a portfolio in a folder of plain files: portfolio.yaml, transactions and prices (docs/portfolio-files.md). The figures follow US federal rules and are no tax advice. Nothing is sent anywhere and no order is given.

Examples:

    signalbox portfolio init
    signalbox portfolio harvest
    signalbox portfolio exits SLV`
}

// dataFlag is the flag of every command about a portfolio.
type dataFlag struct {
	Data given `name:"data" placeholder:"DIR" help:"The portfolio's folder; else SIGNALBOX_PORTFOLIO, else the current folder or portfolio in it, whichever has portfolio.yaml."`
}

// desk finds the portfolio. Full results go below the box, or the current folder if there is none.
func (p *program) desk(f dataFlag, b boxFlag) *portfolio.Desk {
	logs := "logs"
	if dir, err := p.findBox(b); err == nil {
		logs = filepath.Join(dir, "logs")
	}
	return portfolio.NewDesk(p.portfolioFolder(f), &portfolio.Options{Logs: logs})
}

func (p *program) portfolioFolder(f dataFlag) string {
	if dir := cmp.Or(string(f.Data), p.getenv(portfolioVariable)); dir != "" {
		return dir
	}
	for _, dir := range []string{".", portfolioName} {
		if _, err := os.Stat(filepath.Join(dir, config.PortfolioFile)); err == nil {
			return dir
		}
	}
	return "."
}

// toolFlags are those of commands that answer as the tools for agents do.
type toolFlags struct {
	AsOf   string `name:"as-of" placeholder:"DATE" help:"The day of the question; else as_of of portfolio.yaml, else today."`
	Format string `placeholder:"FORMAT" xor:"form" help:"Print the answer in the tool's own form, as JSON: ${briefFormats}."`
	Output string `placeholder:"WHERE" help:"${briefOutputs} (inline by default): where the full result goes; a file goes below logs of the box, or of the current folder."`
	JSON   bool   `name:"json" xor:"form" help:"Print the full result as JSON."`
}

// format is what the tool is asked for: a report for people, unless a program asks.
func (f toolFlags) format() string {
	if f.JSON {
		return string(brief.FormatFull)
	}
	return cmp.Or(f.Format, string(brief.FormatReport))
}

// tell prints an answer. One that failed is also an error.
func (f toolFlags) tell(p *program, told portfolio.Answer) error {
	p.quiet = f.JSON || f.Format != ""
	if f.JSON || f.Format != "" {
		if err := p.printJSON(told.JSON, ""); err != nil {
			return err
		}
	} else if told.Problem == nil || told.Problem.Kind == portfolio.FileNotSaved {
		var report struct {
			Report string `json:"report"`
		}
		if err := json.Unmarshal(told.JSON, &report); err != nil {
			return err
		}
		for line := range strings.Lines(report.Report) {
			fmt.Fprintln(p.out, printable(strings.TrimSuffix(line, "\n")))
		}
	}
	if told.Problem != nil {
		return portfolioError(told.Problem)
	}
	if told.FilePath != "" {
		p.notef("the full result is in %s", told.FilePath)
	}
	return nil
}

// portfolioError gives a problem its class.
func portfolioError(err error) error {
	problem := (*portfolio.Problem)(nil)
	if !errors.As(err, &problem) {
		return err
	}
	code := signalbox.CodeFailed
	switch problem.Kind {
	case portfolio.BadArgument, portfolio.BadConfig:
		code = signalbox.CodeUsage
	case portfolio.NoPortfolio, portfolio.UnknownTicker, portfolio.UnknownAccount, portfolio.NotHeld:
		code = signalbox.CodeNotFound
	}
	return &signalbox.Error{Code: code, Err: problem, Hint: problem.Hint}
}

type portfolioExitsCommand struct {
	dataFlag
	Ticker  string `arg:"" help:"The position."`
	Shares  string `placeholder:"N" help:"Ask about a part of the position, or about one that is not in the data."`
	Account string `placeholder:"ID" help:"The account, if several hold the ticker."`
	toolFlags
}

func (portfolioExitsCommand) Help() string {
	return `Evaluates the exit rules of a ticker, which portfolio.yaml has under exit_rules: how the last complete month compares with those before it (momentum_exit), and how a basket has done (regime_check). The answer begins with HOLD, MONITOR, EXIT, STRONG EXIT or ERROR; for an exit it says how many shares to sell, and where to put a stop for the rest. It gives no orders.

The exit status is 0 if the question was answered, whatever the answer is.

Examples:

    signalbox portfolio exits SLV
    signalbox portfolio exits SLV --account brk --shares 50
    signalbox portfolio exits SLV --format agent --output file`
}

func (c *portfolioExitsCommand) Run(p *program) error {
	ctx, stop := untilInterrupted()
	defer stop()
	return c.tell(p, p.desk(c.dataFlag, boxFlag{}).CheckExitSignals(ctx, portfolio.ExitQuery{Ticker: c.Ticker, Shares: c.Shares, AccountID: c.Account,
		AsOf: c.AsOf, Format: c.format(), Output: c.Output}))
}

type portfolioHarvestCommand struct {
	dataFlag
	MinLoss string `name:"min-loss" placeholder:"DOLLARS" help:"Leave out lots with a smaller loss."`
	SortBy  string `name:"sort-by" enum:"loss_amount,loss_pct,days_held" default:"loss_amount" help:"loss_amount, loss_pct or days_held: the largest first."`
	Account string `placeholder:"ID" help:"Only lots of this account. Purchases count in all of them in any case."`
	Source  string `placeholder:"NAME" help:"Only accounts with transactions from this file or kind of file, such as schwab."`
	NoWash  bool   `name:"no-wash-sale-check" help:"Count every loss, also where a wash sale would take it."`
	toolFlags
}

func (portfolioHarvestCommand) Help() string {
	return `Lists the open lots of taxable accounts that are at a loss, and how much of each loss would count: wash sales are found across all accounts, 30 days before and after, with the day from which on selling is clean. Totals assume that all lots of the list are sold together. Loss sales already made are checked too, and what they moved into other lots is counted.

Estimates under US federal rules; not tax advice.

Examples:

    signalbox portfolio harvest
    signalbox portfolio harvest --min-loss 500 --sort-by loss_pct
    signalbox portfolio harvest --as-of 2026-06-30 --json
    signalbox portfolio harvest --format agent --output file`
}

func (c *portfolioHarvestCommand) Run(p *program) error {
	ctx, stop := untilInterrupted()
	defer stop()
	return c.tell(p, p.desk(c.dataFlag, boxFlag{}).SuggestTaxLossHarvest(ctx, portfolio.HarvestQuery{MinLoss: c.MinLoss, SortBy: c.SortBy, Account: c.Account,
		Source: c.Source, SkipWashCheck: c.NoWash, AsOf: c.AsOf, Format: c.format(), Output: c.Output}))
}

type portfolioLotsCommand struct {
	dataFlag
	AsOf    string `name:"as-of" placeholder:"DATE" help:"The day; else as_of of portfolio.yaml, else today."`
	Account string `placeholder:"ID" help:"Only lots of this account."`
	Ticker  string `placeholder:"TICKER" help:"Only lots of this ticker."`
	JSON    bool   `name:"json" help:"Print a JSON array."`
}

func (portfolioLotsCommand) Help() string {
	return `Lists the open lots at the end of a day: when they were acquired, since when they count as held, and their basis with what wash sales added to it.

Examples:

    signalbox portfolio lots
    signalbox portfolio lots --ticker SLV --as-of 2026-03-31
    signalbox portfolio lots --json`
}

func (c *portfolioLotsCommand) Run(p *program) error {
	ctx, stop := untilInterrupted()
	defer stop()
	lots, err := p.desk(c.dataFlag, boxFlag{}).Lots(ctx, portfolio.LotsQuery{AsOf: c.AsOf, Account: c.Account, Ticker: c.Ticker})
	if err != nil {
		return portfolioError(err)
	}
	if c.JSON {
		return p.printJSON(lots, "")
	}
	if len(lots) == 0 {
		p.notef("there are no such lots")
		return nil
	}
	return p.printLots(lots)
}

func (p *program) printLots(lots []portfolio.Lot) error {
	// The widths are those of the numbers, which stand to the right.
	shares, basis, moved := len("SHARES"), len("BASIS"), len("OF IT WASH")
	for _, l := range lots {
		shares, basis, moved = max(shares, len(l.Quantity.String())), max(basis, len(money(l.BasisTotal))), max(moved, len(money(l.BasisAdjustment)))
	}
	t := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "ACCOUNT\tTICKER\tBOUGHT\tHELD SINCE\t%*s\t%*s\t%*s\tLOT\n", shares, "SHARES", basis, "BASIS", moved, "OF IT WASH")
	for _, l := range lots {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%*s\t%*s\t%*s\t%s\n", l.Account, l.Ticker, l.LotDate, l.HoldingStart, shares, l.Quantity,
			basis, money(l.BasisTotal), moved, money(l.BasisAdjustment), printable(l.LotID))
	}
	return t.Flush()
}

// money is an amount in cents, with commas.
func money(a portfolio.Amount) string { return text.Group(a.Rescale(2).String()) }
