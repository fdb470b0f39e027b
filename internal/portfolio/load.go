package portfolio

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/portfolio/importer"
	"signalbox/internal/portfolio/tax"
)

// The files in the folder of a portfolio, next to config.PortfolioFile.
const (
	transactionsFolder = "transactions"
	pricesFolder       = "prices"
	ratesFile          = "fx.csv"
)

const (
	initHint      = "name the folder with portfolio.yaml, or create an example with: signalbox portfolio init DIR"
	malformedHint = "correct the file: signalbox portfolio import --dry-run --rows FILE shows how a file is read"
	amountsHint   = "check quantities and prices"
)

// identity selects whether the IDs of rows are computed. With a single file they are not needed to
// find duplicates.
type identity bool

const (
	ifNeeded identity = false
	withIDs  identity = true
)

func load(dir string, ids identity) (*Data, *Problem) {
	c, problem := loadConfig(dir)
	if problem != nil {
		return nil, problem
	}
	d := &Data{Config: c, Rules: taxRules(c), prices: make(map[string][]price), rates: make(map[string][]rate)}
	if ids == withIDs {
		d.ids = make(map[string]bool)
	}
	for _, step := range []func(
		string) *Problem{d.loadRates, d.loadPrices, d.loadTransactions, d.loadPositions, d.loadLeftOut} {
		if problem := step(dir); problem != nil {
			return nil, problem
		}
	}
	return d, nil
}

func loadConfig(dir string) (*config.Portfolio, *Problem) {
	text, err := os.ReadFile(filepath.Join(dir, config.PortfolioFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, problemf(NoPortfolio, initHint, "there is no %s in %s", config.PortfolioFile,
			displayName(dir))
	case err != nil:
		return nil, problemf(NoPortfolio, "check that you may read it",
			"%s in %s cannot be read: %v", config.PortfolioFile, displayName(dir), withoutPath(err))
	}
	c, err := config.ParsePortfolio(text)
	if err != nil {
		return nil, problemf(BadConfig, cmp.Or(signalbox.HintOf(err), "correct the file"), "%s: %v",
			config.PortfolioFile, err)
	}
	return c, nil
}

// displayName returns the name of a folder for messages.
func displayName(dir string) string {
	if dir == "" || dir == "." {
		return "this folder"
	}
	return dir
}

// withoutPath returns an error of the file system without the path, for messages that have the path
// already.
func withoutPath(err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err
	}
	return err
}

// file is a file in the folder.
type file struct {
	name string // relative, with slashes
	data []byte
}

// readFolder reads the wanted files in a subfolder, sorted by name. A missing subfolder has no
// files.
func readFolder(dir, folder string, wanted func(name string) bool) ([]file, *Problem) {
	entries, err := os.ReadDir(filepath.Join(dir, folder))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, problemf(MalformedFile, "check that it is a folder and that you may read it",
			"the folder %s cannot be read: %v", folder, withoutPath(err))
	}
	var files []file
	for _, entry := range entries {
		name := entry.Name()
		if isIgnored(name) || entry.IsDir() || !wanted(name) {
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, folder, name))
		if err != nil {
			return nil, problemf(MalformedFile, "check that you may read it",
				"%s/%s cannot be read: %v", folder, name, withoutPath(err))
		}
		files = append(files, file{folder + "/" + name, data})
	}
	return files, nil
}

// isIgnored reports whether a file is hidden, a backup of an editor, or a README.
func isIgnored(name string) bool {
	return strings.HasPrefix(name, ".") || strings.HasSuffix(name, "~") ||
		strings.HasPrefix(name, "README")
}

func isCSV(name string) bool { return strings.EqualFold(filepath.Ext(name), ".csv") }

// fileProblem returns the problem of a file with faults: the first fault, and the number of the
// others.
func fileProblem(err error) *Problem {
	problem := asProblem(err, MalformedFile, malformedHint)
	if faults, ok := errors.AsType[*importer.FaultsError](err); ok && len(faults.Faults) > 0 {
		problem.Text = faults.Faults[0].String() + andMore(len(faults.Faults)-1+faults.More)
		switch file := faults.Faults[0].File; {
		case strings.HasPrefix(file, pricesFolder+"/"):
			problem.Hint = "correct the file; its columns are date,ticker,close and optionally adjusted,currency"
		case file == ratesFile:
			problem.Hint = "correct the file; its columns are date,from,to,rate"
		}
	}
	if faults, ok := errors.AsType[*tax.FaultsError](err); ok && len(faults.Faults) > 0 {
		problem.Text = readable(faults.Faults[0].String()) + andMore(len(faults.Faults)-1)
		problem.Hint = "correct the row, or the accounts in portfolio.yaml"
	}
	return problem
}

func andMore(n int) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf(" (and %d more)", n)
}

// readOptional reads a file in the folder. A missing file has no content.
func readOptional(dir, name string) ([]byte, *Problem) {
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, problemf(MalformedFile, "check that you may read it", "%s cannot be read: %v",
			name, withoutPath(err))
	}
	return data, nil
}

func (d *Data) loadRates(dir string) *Problem {
	data, problem := readOptional(dir, ratesFile)
	if data == nil {
		return problem
	}
	rates, err := importer.ReadRates(ratesFile, data)
	if err != nil {
		return fileProblem(err)
	}
	return d.addRates(rates)
}

func (d *Data) loadPrices(dir string) *Problem {
	files, problem := readFolder(dir, pricesFolder, isCSV)
	if problem != nil {
		return problem
	}
	for _, f := range files {
		prices, err := importer.ReadPrices(f.name, f.data)
		if err != nil {
			return fileProblem(err)
		}
		d.addDailyPrices(prices)
	}
	return d.sortPrices()
}

func (d *Data) loadTransactions(dir string) *Problem {
	files, problem := readFolder(dir, transactionsFolder, func(string) bool { return true })
	if problem != nil {
		return problem
	}
	opts := d.importOptions("")
	if len(files) > 1 && d.ids == nil {
		d.ids = make(map[string]bool)
	}
	formats := make(map[string]bool)
	var imports []*importer.Import
	if d.ids == nil && len(files) == 1 {
		return d.addFile(files[0], opts)
	}
	for i := range files {
		imported, err := importer.Read(files[i].name, files[i].data, opts)
		files[i].data = nil
		if err != nil {
			return fileProblem(err)
		}
		formats[imported.Format] = true
		imports = append(imports, imported)
		if problem := d.addRows(files[i].name, imported); problem != nil {
			return problem
		}
	}
	if len(formats) > 1 {
		d.Twins = Twins(imports...)
	}
	d.imports = imports
	return nil
}

// addFile adds the rows of the only file in batches, so that its rows and the transactions are
// never in memory together.
func (d *Data) addFile(f file, opts *importer.Options) *Problem {
	const shortest = 26 // bytes of a row
	d.transactions = make([]tax.Transaction, 0,
		min(bytes.Count(f.data, []byte("\n")), len(f.data)/shortest, 1<<20))
	adder := rowAdder{Data: d, source: Source{Name: f.name, Accounts: make(map[string]bool)}}
	var problem *Problem
	imported, err := importer.ReadBatches(f.name, f.data, opts, func(rows []importer.Row) {
		if problem == nil {
			problem = adder.add(rows)
		}
	})
	if err != nil {
		return fileProblem(err)
	}
	if problem == nil {
		adder.finish(imported)
	}
	return problem
}

// addRows adds the rows of a file, except those whose ID is known already.
func (d *Data) addRows(name string, imported *importer.Import) *Problem {
	d.transactions = slices.Grow(d.transactions, len(imported.Rows))
	adder := rowAdder{Data: d, source: Source{Name: name, Accounts: make(map[string]bool)}}
	if problem := adder.add(imported.Rows); problem != nil {
		return problem
	}
	adder.finish(imported)
	return nil
}

// rowAdder adds the rows of one file.
type rowAdder struct {
	*Data
	source Source
}

func (a *rowAdder) finish(imported *importer.Import) {
	a.source.Format, a.source.Skipped, a.source.Notes = imported.Format, imported.Skipped,
		imported.Notes
	a.Sources = append(a.Sources, a.source)
}

func (a *rowAdder) add(rows []importer.Row) *Problem {
	last := ""
	for i := range rows {
		row := &rows[i]
		if a.ids != nil {
			if a.ids[row.ID] {
				a.Duplicates++
				continue
			}
			a.ids[row.ID] = true
		}
		a.transactions = append(a.transactions, row.Transaction)
		if problem := a.complete(row, &a.transactions[len(a.transactions)-1]); problem != nil {
			return problem
		}
		a.source.Rows++
		if account := cmp.Or(row.Account, row.ToAccount); account != last {
			a.source.Accounts[account], last = true, account
		}
	}
	return nil
}

// complete checks the accounts of the transaction of a row, and converts its amounts to dollars.
func (a *rowAdder) complete(row *importer.Row, t *tax.Transaction) *Problem {
	for _, id := range []string{row.Account, row.ToAccount} {
		if problem := a.checkConfigured(id, row.Source); problem != nil {
			return problem
		}
	}
	if row.Currency == "" || row.Currency == dollars {
		return nil
	}
	rate, problem := a.rate(row.Currency, t.Date)
	if problem != nil {
		problem.Text = sourcePosition(row.Source) + ": " + problem.Text
		return problem
	}
	for _, amount := range []*Decimal{&t.Price, &t.Fees, &t.DonorBasis, &t.Value,
		&t.NewPrice} {
		var err error
		if *amount, err = amount.Mul(rate); err != nil {
			return problemf(NotComputable, "check the amounts of the row and the rate",
				"%s: an amount in dollars cannot be computed: %s", sourcePosition(row.Source),
				readable(err.Error()))
		}
	}
	return nil
}
