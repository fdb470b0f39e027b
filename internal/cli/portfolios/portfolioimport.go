package portfolios

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"text/tabwriter"

	"signalbox"
	"signalbox/internal/cli"
	"signalbox/internal/portfolio"
	"signalbox/internal/portfolio/example"
	"signalbox/internal/portfolio/importer"
	"signalbox/internal/text"
)

type portfolioInitCommand struct {
	Dir  string `arg:"" optional:"" default:"portfolio" help:"The folder to create. Default: portfolio."`
	JSON bool   `name:"json" help:"Print one JSON object."`
}

func (portfolioInitCommand) Help() string {
	return `Creates a folder with an example portfolio: about 80 lots in four accounts, two years of prices, exit rules, and a README that explains which change causes which flag. Replace its files with your own.

Examples:

    signalbox portfolio init
    signalbox portfolio init ~/money && signalbox portfolio harvest --data ~/money`
}

func (c *portfolioInitCommand) Run(p *cli.Program) error {
	files, err := example.Write(c.Dir)
	if err != nil {
		return err
	}
	if c.JSON {
		return p.PrintJSON(struct {
			Dir   string   `json:"dir"`
			Files []string `json:"files"`
		}{c.Dir, files}, "")
	}
	data := ""
	if c.Dir != cli.PortfolioName {
		data = " --data " + c.Dir
	}
	fmt.Fprintf(p.Out, "created %s\n\nNext: signalbox portfolio harvest%s\n      signalbox portfolio exits SLV%s\n      signalbox mcp, to let an agent ask\n",
		cli.Printable(c.Dir), cli.Printable(data), cli.Printable(data))
	return nil
}

type portfolioImportCommand struct {
	cli.DataFlag
	File    string `arg:"" help:"A broker's export: Schwab, Fidelity, Robinhood, Vanguard, E*TRADE, Coinbase or Interactive Brokers (CSV), Interactive Brokers Flex (XML), OFX or QFX; or signalbox CSV. With --positions, a CSV file of what the account holds."`
	Holds   bool   `name:"positions" help:"The file is a list of positions. It replaces the positions of its accounts in positions.csv, with which the lots are compared."`
	Open    bool   `name:"open-lots" help:"With --positions: open lots of what no transaction explains, with the cost basis of the list."`
	Bought  string `name:"bought-by" placeholder:"DATE" help:"With --open-lots: all of these shares were bought by this day, at least a year before the list. For a list without a column acquired."`
	Account string `placeholder:"ID" help:"The account, for a file that does not name one."`
	DryRun  bool   `name:"dry-run" help:"Show what would be added, but write nothing."`
	Keep    bool   `name:"keep-twins" help:"Add rows even if they look like transactions that were imported from another format."`
	Leave   bool   `name:"leave-out" help:"Import the rest of a file that has unrecognized records that move shares, and list these in left-out.csv."`
	Rows    bool   `help:"Show every row."`
	JSON    bool   `name:"json" help:"Print one JSON object."`
}

func (portfolioImportCommand) Help() string {
	return `Reads a file of transactions and writes those that the portfolio does not have yet to a new file in its transactions folder. The format is recognized by the content of the file. Importing a file twice, or one that overlaps an earlier one, adds nothing twice. If the file has a fault, it is refused with line and column, and nothing is written. To undo an import, delete the file that it wrote.

With --positions, the file is a list of what an account holds, as brokers export it. Answers then report where the lots differ from it. With --open-lots, positions without lots get them: one for each entry with the day of its purchase (a column acquired), or one for a position whose shares were all bought by --bought-by.

Examples:

    signalbox portfolio import --dry-run --rows schwab-2026.csv --account brk
    signalbox portfolio import activity.qfx
    signalbox portfolio import flex.xml --json
    signalbox portfolio import --positions positions-2026-06-30.csv --account brk
    signalbox portfolio import --positions positions.csv --account brk --open-lots --bought-by 2024-12-31`
}

// importedFile is the JSON answer.
type importedFile struct {
	File    string          `json:"file"`
	Format  string          `json:"format"`
	New     int             `json:"new"`
	Known   int             `json:"known"`
	Written string          `json:"written,omitempty"`
	Rows    []importedRow   `json:"rows,omitempty"`
	Skipped []skippedRecord `json:"skipped"`
	Notes   []string        `json:"notes"`
}

type importedRow struct {
	Line     int    `json:"line"`
	Date     string `json:"date"`
	Account  string `json:"account"`
	Action   string `json:"action"`
	Ticker   string `json:"ticker"`
	Quantity string `json:"quantity"`
	Price    string `json:"price"`
	Fees     string `json:"fees"`
}

type skippedRecord struct {
	Line   int    `json:"line"`
	Record string `json:"record"`
	Why    string `json:"why"`
	Shares bool   `json:"moves_shares"`
}

func (c *portfolioImportCommand) Run(p *cli.Program) error {
	p.Quiet = c.JSON
	if (c.Open || c.Bought != "") && !c.Holds || c.Bought != "" && !c.Open {
		return signalbox.CodeUsage.Errorf("use --positions FILE --open-lots --bought-by DATE",
			"--open-lots needs --positions, and --bought-by needs --open-lots")
	}
	if c.Holds {
		return c.importPositions(p)
	}
	report, err := cli.Desk(p, c.DataFlag, cli.BoxFlag{}).Import(c.File,
		portfolio.ImportOptions{Account: c.Account, DryRun: c.DryRun, KeepTwins: c.Keep,
			LeaveOut: c.Leave})
	if faults := (*importer.FaultsError)(nil); errors.As(err, &faults) {
		return importError(p, c.File, faults)
	}
	if err != nil {
		return portfolio.WithCode(err)
	}
	for _, s := range report.Skipped {
		if s.Shares {
			p.Warnf("line %d moves shares and was not recognized: %s", s.Line, s.Why)
		}
	}
	if c.JSON {
		return p.PrintJSON(c.answer(report), "")
	}
	return c.print(p, report)
}

// importedPositions is the JSON answer for a list of positions.
type importedPositions struct {
	File      string             `json:"file"`
	Positions []importedPosition `json:"positions"`
	Opened    []openedLot        `json:"opened_lots,omitempty"`
	OpenedIn  string             `json:"opened_in,omitempty"`
	Notes     []string           `json:"notes,omitempty"`
	Skipped   []skippedRecord    `json:"skipped"`
	Written   string             `json:"written,omitempty"`
}

type openedLot struct {
	Account  string `json:"account"`
	Ticker   string `json:"ticker"`
	Acquired string `json:"acquired"`
	Quantity string `json:"quantity"`
	Basis    string `json:"basis"`
}

type importedPosition struct {
	Line     int    `json:"line"`
	Date     string `json:"date,omitempty"`
	Account  string `json:"account"`
	Ticker   string `json:"ticker"`
	Quantity string `json:"quantity"`
}

func (c *portfolioImportCommand) importPositions(p *cli.Program) error {
	report, err := cli.Desk(p, c.DataFlag, cli.BoxFlag{}).ImportPositions(c.File,
		portfolio.ImportOptions{Account: c.Account, DryRun: c.DryRun, OpenLots: c.Open,
			BoughtBy: c.Bought})
	if err != nil {
		return portfolio.WithCode(err)
	}
	answer := importedPositions{File: c.File, Positions: []importedPosition{}, Skipped: []skippedRecord{}, Written: report.Written}
	for _, h := range report.Positions {
		answer.Positions = append(answer.Positions,
			importedPosition{h.Source.Line, h.Date.String(), h.Account, h.Ticker, h.Quantity.String()})
	}
	for _, r := range report.Opened {
		answer.Opened = append(answer.Opened, openedLot{r.ToAccount, r.Ticker, r.DonorDate.String(),
			r.Quantity.String(), r.DonorBasis.String()})
	}
	answer.OpenedIn, answer.Notes = report.OpenedIn, report.Notes
	for _, s := range report.Skipped {
		answer.Skipped = append(answer.Skipped, skippedRecord{s.Line, s.Text, s.Why, s.Shares})
	}
	if c.JSON {
		return p.PrintJSON(answer, "")
	}
	return c.printPositions(p, answer)
}

func (c *portfolioImportCommand) printPositions(p *cli.Program, answer importedPositions) error {
	if c.Rows {
		t := tabwriter.NewWriter(p.Out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "LINE\tDATE\tACCOUNT\tTICKER\tQUANTITY")
		for _, h := range answer.Positions {
			fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%s\n", h.Line, h.Date, cli.Printable(h.Account),
				cli.Printable(h.Ticker), h.Quantity)
		}
		if err := t.Flush(); err != nil {
			return err
		}
		for _, s := range answer.Skipped {
			fmt.Fprintf(p.Out, "skipped line %d: %s (%s)\n", s.Line, cli.Printable(s.Why),
				cli.Printable(s.Record))
		}
	}
	fmt.Fprintf(p.Out, "%s: %s, %d skipped\n", cli.Printable(c.File),
		text.Count(len(answer.Positions), "position"), len(answer.Skipped))
	for _, l := range answer.Opened {
		fmt.Fprintf(p.Out, "  opens %s %s of %s in %s for %s\n", l.Quantity,
			cli.Printable(l.Ticker), l.Acquired, cli.Printable(l.Account), l.Basis)
	}
	for _, note := range answer.Notes {
		p.Notef("%s", note)
	}
	if answer.Written == "" {
		p.Notef("nothing was written: this was a dry run")
		return nil
	}
	fmt.Fprintf(p.Out, "written to %s\n", answer.Written)
	if answer.OpenedIn != "" {
		fmt.Fprintf(p.Out, "lots written to %s\n", cli.Printable(answer.OpenedIn))
	}
	return nil
}

// importError prints all faults of a file, so that you can fix them in one edit, and returns an
// error that summarizes them.
func importError(p *cli.Program, file string, faults *importer.FaultsError) error {
	for _, fault := range faults.Faults {
		p.Say("fault", fault.String())
	}
	n := len(faults.Faults) + faults.More
	hint := "correct the file, or export it again; nothing was written"
	if faults.NoAccount {
		hint = "name the account with --account ID"
	}
	return signalbox.CodeFailed.Errorf(hint, "%s was not imported: %s", file,
		text.Count(n, "fault"))
}

func (c *portfolioImportCommand) answer(r *portfolio.ImportReport) importedFile {
	answer := importedFile{File: c.File, Format: r.Format, New: len(r.New), Known: r.Known,
		Written: r.Written, Skipped: []skippedRecord{}, Notes: r.Notes}
	if answer.Notes == nil {
		answer.Notes = []string{}
	}
	for _, s := range r.Skipped {
		answer.Skipped = append(answer.Skipped, skippedRecord{s.Line, s.Text, s.Why, s.Shares})
	}
	if c.Rows {
		for _, row := range r.New {
			answer.Rows = append(answer.Rows, importedRow{row.Source.Line, row.Date.String(), row.Account,
				string(row.Action), row.Ticker,
				row.Quantity.String(), row.Price.String(), row.Fees.String()})
		}
	}
	return answer
}

func (c *portfolioImportCommand) print(p *cli.Program, r *portfolio.ImportReport) error {
	if c.Rows {
		t := tabwriter.NewWriter(p.Out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "LINE\tDATE\tACCOUNT\tACTION\tTICKER\tQUANTITY\tPRICE\tFEES")
		for _, row := range r.New {
			fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", row.Source.Line, row.Date,
				cli.Printable(row.Account), row.Action, cli.Printable(row.Ticker),
				row.Quantity, row.Price, row.Fees)
		}
		if err := t.Flush(); err != nil {
			return err
		}
		for _, s := range r.Skipped {
			fmt.Fprintf(p.Out, "skipped line %d: %s (%s)\n", s.Line, cli.Printable(s.Why),
				cli.Printable(s.Text))
		}
	}
	actions := make(map[string]int)
	for _, row := range r.New {
		actions[string(row.Action)]++
	}
	fmt.Fprintf(p.Out, "%s: %s, %d new row%s, %d known, %d skipped\n", cli.Printable(c.File),
		r.Format, len(r.New), text.Plural(len(r.New)), r.Known, len(r.Skipped))
	for _, action := range slices.Sorted(maps.Keys(actions)) {
		fmt.Fprintf(p.Out, "  %-18s %d\n", action, actions[action])
	}
	for _, note := range r.Notes {
		p.Notef("%s", note)
	}
	switch {
	case r.Written != "":
		fmt.Fprintf(p.Out, "written to %s\n", cli.Printable(r.Written))
	case c.DryRun:
		p.Notef("nothing was written: this was a dry run")
	default:
		p.Notef("nothing was written: the portfolio already has all rows")
	}
	return nil
}
