package portfolio

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"signalbox/internal/config"
	"signalbox/internal/portfolio/importer"
	"signalbox/internal/portfolio/tax"
)

// The files of a portfolio's folder, beside config.PortfolioFile.
const (
	transactionsFolder = "transactions"
	pricesFolder       = "prices"
	ratesFile          = "fx.csv"
)

const (
	initHint      = "name the folder that has portfolio.yaml, or make an example with: signalbox portfolio init DIR"
	malformedHint = "correct the file: signalbox portfolio import --dry-run --rows FILE shows how a file is understood"
)

// Load reads a portfolio's folder. The error is a *[Problem].
func Load(dir string) (*Data, error) {
	d, problem := load(dir, ifNeeded)
	if problem != nil {
		return nil, problem
	}
	return d, nil
}

// identity says whether the IDs of rows are kept. One file cannot repeat itself, and a million IDs are slow.
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
	for _, step := range []func(string) *Problem{d.loadRates, d.loadPrices, d.loadTransactions} {
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
		return nil, problemf(NoPortfolio, initHint, "there is no %s in %s", config.PortfolioFile, shown(dir))
	case err != nil:
		return nil, problemf(NoPortfolio, "check that it is a file you may read", "%s in %s cannot be read: %v", config.PortfolioFile, shown(dir), reason(err))
	}
	c, err := config.ParsePortfolio(text)
	if err != nil {
		return nil, problemf(BadConfig, hintOf(err, "correct the file"), "%s: %v", config.PortfolioFile, err)
	}
	return c, nil
}

// shown is a folder's name for people: they gave it.
func shown(dir string) string {
	if dir == "" || dir == "." {
		return "this folder"
	}
	return dir
}

// reason is an error of the file system without the path, which stands beside it.
func reason(err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err
	}
	return err
}

// file is one file of the folder.
type file struct {
	name string // relative, with slashes
	data []byte
}

// readFolder reads the files in one of the folder's folders, by name. One that is not there has none.
func readFolder(dir, folder string, wanted func(name string) bool) ([]file, *Problem) {
	entries, err := os.ReadDir(filepath.Join(dir, folder))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, problemf(MalformedFile, "check that it is a folder you may read", "the folder %s cannot be read: %v", folder, reason(err))
	}
	var files []file
	for _, entry := range entries {
		name := entry.Name()
		if passedOver(name) || entry.IsDir() || !wanted(name) {
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, folder, name))
		if err != nil {
			return nil, problemf(MalformedFile, "check that it is a file you may read", "%s/%s cannot be read: %v", folder, name, reason(err))
		}
		files = append(files, file{folder + "/" + name, data})
	}
	return files, nil
}

// passedOver are hidden files, those that editors leave behind, and what is written for people.
func passedOver(name string) bool {
	return strings.HasPrefix(name, ".") || strings.HasSuffix(name, "~") || strings.HasPrefix(name, "README")
}

func isCSV(name string) bool { return strings.EqualFold(filepath.Ext(name), ".csv") }

// fileProblem is about a file with faults in it: the first in full, and how many more.
func fileProblem(err error) *Problem {
	problem := asProblem(err, MalformedFile, malformedHint)
	if faults, ok := errors.AsType[*importer.FaultsError](err); ok && len(faults.Faults) > 0 {
		problem.Text = faults.Faults[0].String() + more(len(faults.Faults)-1+faults.More)
	}
	if faults, ok := errors.AsType[*tax.FaultsError](err); ok && len(faults.Faults) > 0 {
		problem.Text = plainly(faults.Faults[0].String()) + more(len(faults.Faults)-1)
		problem.Hint = "correct the row, or the accounts in portfolio.yaml"
	}
	return problem
}

func more(n int) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf(" (and %d more)", n)
}

func (d *Data) loadRates(dir string) *Problem {
	data, err := os.ReadFile(filepath.Join(dir, ratesFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return problemf(MalformedFile, "check that it is a file you may read", "%s cannot be read: %v", ratesFile, reason(err))
	}
	rates, err := importer.ReadRates(ratesFile, data)
	if err != nil {
		return fileProblem(err)
	}
	return d.takeRates(rates)
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
		if problem := d.takePrices(prices); problem != nil {
			return problem
		}
	}
	return d.sortPrices()
}

func (d *Data) loadTransactions(dir string) *Problem {
	files, problem := readFolder(dir, transactionsFolder, func(string) bool { return true })
	if problem != nil {
		return problem
	}
	opts := &importer.Options{Accounts: brokerNames(d.Config)}
	if len(d.Rules.Accounts) == 1 {
		// A broker's file that names no account can only be about this one. Own columns always name theirs.
		opts.Account = d.Rules.Accounts[0].ID
	}
	if len(files) > 1 && d.ids == nil {
		d.ids = make(map[string]bool)
	}
	formats := make(map[string]bool)
	var imports []*importer.Import
	for i := range files {
		imported, err := importer.Read(files[i].name, files[i].data, opts)
		files[i].data = nil
		if err != nil {
			return fileProblem(err)
		}
		formats[imported.Format] = true
		if d.ids != nil {
			imports = append(imports, imported)
		}
		if problem := d.takeRows(files[i].name, imported); problem != nil {
			return problem
		}
	}
	if len(formats) > 1 {
		d.Twins = Twins(imports...)
	}
	d.imports = imports
	return nil
}

// takeRows adds the rows of a file but those that came already.
func (d *Data) takeRows(name string, imported *importer.Import) *Problem {
	source := Source{Name: name, Format: imported.Format, Skipped: imported.Skipped, Notes: imported.Notes, Accounts: make(map[string]bool)}
	d.transactions = slices.Grow(d.transactions, len(imported.Rows))
	for i := range imported.Rows {
		row := &imported.Rows[i]
		if d.ids != nil {
			if d.ids[row.ID] {
				d.Duplicates++
				continue
			}
			d.ids[row.ID] = true
		}
		t, problem := d.transaction(row)
		if problem != nil {
			return problem
		}
		d.transactions = append(d.transactions, t)
		source.Rows++
		source.Accounts[or(row.Account, row.ToAccount)] = true
	}
	d.Sources = append(d.Sources, source)
	return nil
}

// transaction is a row in dollars.
func (d *Data) transaction(row *importer.Row) (tax.Transaction, *Problem) {
	for _, id := range []string{row.Account, row.ToAccount} {
		if _, known := d.account(id); id != "" && !known {
			return tax.Transaction{}, problemf(UnknownAccount,
				fmt.Sprintf("add it to the accounts in portfolio.yaml, or to the names of one of them (%s)", strings.Join(d.accountIDs(), ", ")),
				"%s:%d: account %q is not in portfolio.yaml", row.Source.File, row.Source.Line, id)
		}
	}
	t := tax.Transaction{Action: row.Action, Account: row.Account, Ticker: row.Ticker, LotID: row.LotID, ToAccount: row.ToAccount,
		Quantity: row.Quantity, Price: row.Price, Fees: row.Fees, Ratio: row.Ratio, DonorBasis: row.DonorBasis, Value: row.Value, Source: row.Source}
	var err error
	if t.Date, err = tax.ParseDate(row.Date); err == nil && row.DonorDate != "" {
		t.DonorDate, err = tax.ParseDate(row.DonorDate)
	}
	if err != nil {
		return t, problemf(MalformedFile, malformedHint, "%s:%d: %v", row.Source.File, row.Source.Line, err)
	}
	if row.Currency == "" || row.Currency == dollars {
		return t, nil
	}
	rate, problem := d.rate(row.Currency, t.Date)
	if problem != nil {
		problem.Text = fmt.Sprintf("%s:%d: %s", row.Source.File, row.Source.Line, problem.Text)
		return t, problem
	}
	for _, amount := range []*Decimal{&t.Price, &t.Fees, &t.DonorBasis, &t.Value} {
		if *amount, err = amount.Mul(rate); err != nil {
			return t, problemf(NotComputable, "check the amounts of the row and the rate", "%s:%d: an amount in dollars cannot be computed: %s",
				row.Source.File, row.Source.Line, plainly(err.Error()))
		}
	}
	return t, nil
}
