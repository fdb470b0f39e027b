package portfolio

import (
	"cmp"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"signalbox/internal/config"
	"signalbox/internal/durable"
	"signalbox/internal/portfolio/importer"
	"signalbox/internal/portfolio/tax"
	"signalbox/internal/text"
)

const positionsHint = "correct the file; its columns are account,ticker,quantity and optionally date,price,basis, or those of your broker"

// loadPositions reads the list of positions: the file that portfolio.yaml names, or positions.csv
// if there is one.
func (d *Data) loadPositions(dir string) *Problem {
	name := cmp.Or(d.Config.Positions, config.PositionsFile)
	path := name
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, name)
	}
	data, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && d.Config.Positions == "":
		return nil
	case err != nil:
		return problemf(MalformedFile,
			"check positions in portfolio.yaml, and that you may read the file",
			"%s cannot be read: %v", name, withoutPath(err))
	}
	found, problem := d.readPositions(name, data, "")
	if problem != nil {
		return problem
	}
	d.Positions = found.Holdings
	return nil
}

// readPositions reads a list of positions. The account is for a file that names none.
func (d *Data) readPositions(name string, data []byte,
	account string) (*importer.Positions, *Problem) {
	found, err := importer.ReadPositions(name, data, d.importOptions(account))
	if err != nil {
		problem := fileProblem(err)
		problem.Hint = positionsHint
		if faults, ok := errors.AsType[*importer.FaultsError](err); ok && faults.NoAccount {
			problem.Hint = "name the account with --account ID, or in a column account"
		}
		return nil, problem
	}
	for _, h := range found.Holdings {
		if problem := d.checkConfigured(h.Account, h.Source); problem != nil {
			return nil, problem
		}
	}
	return found, nil
}

// held returns the shares of each position on the day of the book: by the list of positions for the
// accounts in it, and by the transactions for the others. Transactions after the day of the list
// are added to it. For a day before that of the list, it counts for the tickers that were not
// traded in between.
func (d *Data) held(book *tax.Book) (map[tax.Position]Decimal, *Problem) {
	if len(d.Positions) == 0 {
		return book.Held, nil
	}
	held := maps.Clone(book.Held)
	listed := make(map[string]tax.Date) // the day of the list, by account
	for _, h := range d.Positions {
		listed[h.Account] = max(listed[h.Account], cmp.Or(h.Date, book.AsOf))
	}
	traded := d.tradedBetween(listed, book.AsOf)
	useRecords := func(p tax.Position) bool { return listed[p.Account] > book.AsOf && len(traded[p]) > 0 }
	for p := range book.Held {
		if _, known := listed[p.Account]; known && !useRecords(p) {
			delete(held, p)
		}
	}
	for _, h := range d.Positions {
		p := tax.Position{Account: h.Account, Ticker: h.Ticker}
		if useRecords(p) {
			continue
		}
		sum, err := held[p].Add(h.Quantity)
		if err != nil {
			return nil, asProblem(err, NotComputable, amountsHint)
		}
		held[p] = sum
	}
	for p, rows := range traded {
		if useRecords(p) {
			continue
		}
		for _, t := range rows {
			if t.NewTicker != "" {
				return nil, problemf(NotComputable, "import a newer list of positions",
					"the positions of %s are from %s, before %s %s on %s", p.Account,
					listed[p.Account], t.Ticker, corporate(t), t.Date)
			}
		}
		one := map[string]Decimal{p.Account: held[p]}
		sortForTax(rows)
		for _, t := range rows {
			if err := applyToHoldings(one, t); err != nil {
				return nil, asProblem(err, NotComputable, amountsHint)
			}
		}
		held[p] = one[p.Account]
	}
	maps.DeleteFunc(held, func(_ tax.Position, shares Decimal) bool { return shares.IsZero() })
	return held, nil
}

// tradedBetween returns the transactions between the day of the list of an account and another day,
// by position.
func (d *Data) tradedBetween(listed map[string]tax.Date,
	on tax.Date) map[tax.Position][]*tax.Transaction {
	traded := make(map[tax.Position][]*tax.Transaction)
	for i := range d.transactions {
		t := &d.transactions[i]
		for account, day := range listed {
			concerns := t.Account == account || t.ToAccount == account || corporate(t) != "" &&
				t.Account == ""
			if !concerns || t.Date <= min(day, on) || t.Date > max(day, on) {
				continue
			}
			for _, ticker := range []string{t.Ticker, t.NewTicker} {
				if ticker != "" {
					p := tax.Position{Account: account, Ticker: ticker}
					traded[p] = append(traded[p], t)
				}
			}
		}
	}
	return traded
}

// PositionsReport is the result of importing a list of positions.
type PositionsReport struct {
	Positions []importer.Holding
	Skipped   []importer.Skipped
	// Opened are the lots that were opened, and OpenedIn the file with them.
	Opened   []importer.Row
	OpenedIn string
	// Notes list the lots that were not opened, and why.
	Notes []string
	// Written is the file with the positions, relative to the folder; empty if nothing was written.
	Written string
}

// ImportPositions reads a broker's list of positions and writes it to positions.csv. Positions of
// other accounts in that file are kept. With OpenLots, it also writes a file of transactions with the
// lots that are missing. The error is a *[Problem], or a *signalbox.Error if the
// file does not exist.
func (d *Desk) ImportPositions(name string, opts ImportOptions) (*PositionsReport, error) {
	content, data, err := d.openImport(name, opts.Account, ifNeeded)
	if err != nil {
		return nil, err
	}
	if file := data.Config.Positions; file != "" && file != config.PositionsFile {
		return nil, problemf(BadConfig,
			"remove positions from portfolio.yaml, or replace that file",
			"portfolio.yaml has the positions in %s", file)
	}
	found, problem := data.readPositions(filepath.Base(name), content, opts.Account)
	if problem != nil {
		return nil, problem
	}
	report := &PositionsReport{Positions: found.Holdings, Skipped: found.Skipped}
	opened, problem := d.openingLots(data, report, opts)
	if problem != nil {
		return nil, problem
	}
	if opts.DryRun {
		return report, nil
	}
	replaced := make(map[string]bool)
	for _, h := range found.Holdings {
		replaced[h.Account] = true
	}
	kept := slices.DeleteFunc(slices.Clone(data.Positions),
		func(h importer.Holding) bool { return replaced[h.Account] })
	all := mergeHoldings(append(kept, found.Holdings...))
	written, err := importer.FormatPositions(all)
	if err != nil {
		return nil, problemf(MalformedFile, positionsHint, "%s: %v", name, err)
	}
	if err := durable.Replace(filepath.Join(d.dir, config.PositionsFile), written,
		0o600); err != nil {
		return nil, problemf(FileNotSaved, "check that you may write there",
			"the positions cannot be written: %v", withoutPath(err))
	}
	report.Written = config.PositionsFile
	if opened != nil {
		if report.OpenedIn, err = d.add(ownFormat, "opening-lots.csv", opened); err != nil {
			return nil, problemf(FileNotSaved, "check that you may write there",
				"the lots cannot be written: %v", withoutPath(err))
		}
	}
	return report, nil
}

// openingLots adds the lots that a list opens to the report, and returns them as signalbox CSV. The
// portfolio with them must have no problem.
func (d *Desk) openingLots(data *Data, report *PositionsReport,
	opts ImportOptions) ([]byte, *Problem) {
	if !opts.OpenLots {
		return nil, nil
	}
	var boughtBy tax.Date
	if opts.BoughtBy != "" {
		var err error
		if boughtBy, err = tax.ParseDate(opts.BoughtBy); err != nil {
			return nil, problemf(BadArgument, "write it as 2024-01-31",
				"--bought-by %q is not a date", text.Shorten(opts.BoughtBy, 40))
		}
	}
	day, problem := d.day("", "")
	if problem != nil {
		return nil, problem
	}
	report.Opened, report.Notes, problem = data.openingRows(report.Positions, day, boughtBy)
	if problem != nil || len(report.Opened) == 0 {
		return nil, problem
	}
	written, err := importer.Format(report.Opened)
	if err != nil {
		return nil, problemf(MalformedFile, positionsHint, "%v", err)
	}
	if problem := data.addRows("", &importer.Import{Format: ownFormat,
		Rows: report.Opened}); problem != nil {
		return nil, problem
	}
	_, problem = data.build(day)
	return written, problem
}

// mergeHoldings adds up entries of the same position: brokers list cash and margin shares of one
// account separately.
func mergeHoldings(list []importer.Holding) []importer.Holding {
	var merged []importer.Holding
	index := make(map[tax.Position]int)
	for _, h := range list {
		p := tax.Position{Account: h.Account, Ticker: h.Ticker}
		i, seen := index[p]
		if !seen {
			index[p] = len(merged)
			merged = append(merged, h)
			continue
		}
		merged[i].Acquired = 0
		if sum, err := merged[i].Quantity.Add(h.Quantity); err == nil {
			merged[i].Quantity = sum
		}
		if merged[i].Basis == nil || h.Basis == nil {
			merged[i].Basis = nil
		} else if sum, err := merged[i].Basis.Add(*h.Basis); err == nil {
			merged[i].Basis = &sum
		}
	}
	return merged
}
