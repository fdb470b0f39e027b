package portfolios

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"signalbox"
	"signalbox/brief"
	"signalbox/internal/cli"
	"signalbox/internal/portfolio"
	"signalbox/internal/portfolio/answer"
	"signalbox/internal/portfolio/form8949"
	"signalbox/internal/text"
)

type portfolioGainsCommand struct {
	cli.DataFlag
	Year   string `placeholder:"YEAR" help:"The tax year. Default: the year before that of as_of in portfolio.yaml, or else last year."`
	Form   string `name:"1099b" placeholder:"FILE" help:"Compare the rows with this Form 1099-B or 1099-DA, in signalbox CSV, and take the boxes from it."`
	CSV    bool   `name:"csv" xor:"form" help:"Print the rows as CSV."`
	TXF    bool   `name:"txf" xor:"form" help:"Print the rows in the Tax Exchange Format (version 042), which tax programs import."`
	Format string `placeholder:"FORMAT" xor:"form" help:"Print the answer of the tool as JSON, in one of the formats ${briefFormats}."`
	Output string `placeholder:"WHERE" help:"Where the full result goes: ${briefOutputs}. A file is written to logs in the box, or in the current folder. Default: inline."`
	JSON   bool   `name:"json" xor:"form" help:"Print the full result as JSON."`
}

func (portfolioGainsCommand) Help() string {
	return `Lists what the sales of a year realized, as the rows of Form 8949 and the lines of Schedule D: a row for each lot that a sale took, with the losses that wash sales disallow in column (g), code W. All transactions in the folder count, also those of the next January, which can disallow a loss of December.

Each account needs form_1099 in portfolio.yaml, because the box of a row depends on what the broker reports to the IRS; or give the broker's form with --1099b. Its differences from your rows are listed, to the cent.

Estimates under US federal rules; not tax advice.

Examples:

    signalbox portfolio gains --year 2025
    signalbox portfolio gains --year 2025 --1099b 1099b-2025.csv
    signalbox portfolio gains --year 2025 --txf > 2025.txf`
}

func (c *portfolioGainsCommand) Run(p *cli.Program) error {
	ctx, stop := cli.UntilInterrupted()
	defer stop()
	desk := cli.Desk(p, c.DataFlag, cli.BoxFlag{})
	flags := toolFlags{Format: c.Format, Output: c.Output, JSON: c.JSON}
	q := portfolio.GainsQuery{Year: c.Year, Format: flags.format(), Output: c.Output}
	if c.Form != "" {
		data, err := os.ReadFile(c.Form)
		if err != nil {
			return signalbox.CodeUsage.Errorf("name a file that you may read",
				"the Form 1099-B cannot be read: %v", err)
		}
		q.Form, q.FormName = append([]byte{}, data...), filepath.Base(c.Form)
	}
	if !c.CSV && !c.TXF {
		return flags.print(p, desk.RealizedGains(ctx, q))
	}
	if c.Output != "" {
		return signalbox.CodeUsage.Errorf("leave out --output, and redirect the output to a file",
			"--output is for answers in a format of the tool")
	}
	result := desk.Gains(ctx, q)
	if err := portfolio.ErrorOf(result.Status, result.Error, result.Problem); err != nil {
		return err
	}
	for _, flag := range answer.FlagsGains(answer.SnapshotGains(result)) {
		if flag.Severity == brief.Warning {
			p.Warnf("%s", flag.Message)
		}
	}
	if c.CSV {
		return c.printCSV(p, result)
	}
	return c.printTXF(p, result)
}

func (c *portfolioGainsCommand) printCSV(p *cli.Program, result answer.GainsResult) error {
	data, err := form8949.CSV(result.Rows)
	if err != nil {
		return err
	}
	_, err = p.Out.Write(data)
	return err
}

func (c *portfolioGainsCommand) printTXF(p *cli.Program, result answer.GainsResult) error {
	data, omitted := form8949.TXF(result.Rows, time.Now())
	if len(omitted) > 0 {
		_, short, long, err := form8949.ScheduleD(omitted)
		if err != nil {
			return err
		}
		p.Warnf("%s of digital assets left out, because TXF has no code for the boxes G to L: enter them yourself, %s short-term and %s long-term",
			text.Count(len(omitted), "row"), answer.Cash(short), answer.Cash(long))
	}
	if _, err := p.Out.Write(data); err != nil {
		return fmt.Errorf("writing the TXF file: %w", err)
	}
	return nil
}
