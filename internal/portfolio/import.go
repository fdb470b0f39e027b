package portfolio

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"signalbox"
	"signalbox/internal/durable"
	"signalbox/internal/portfolio/importer"
	"signalbox/internal/text"
)

// ImportOptions configures [Desk.Import].
type ImportOptions struct {
	// Account is the account of a file that names no account, or names its only one differently.
	Account string
	// DryRun only reports what would be imported.
	DryRun bool
	// KeepTwins imports rows that look like transactions that the portfolio has from another
	// format. Without it they are a problem, because counting a transaction twice makes all results
	// wrong.
	KeepTwins bool
	// LeaveOut imports a file without the skipped records that moved shares, and lists them in
	// left-out.csv, so that later answers can warn of them. Without it they are a problem, because
	// the lots would be wrong.
	LeaveOut bool
	// OpenLots opens lots for the positions of a list that have none. BoughtBy is a day by which all
	// of their shares were bought, for a list without the days of purchase.
	OpenLots bool
	BoughtBy string
}

// ImportReport is the result of an import.
type ImportReport struct {
	Format string
	// New are the rows that the portfolio did not have.
	New []importer.Row
	// Known is the number of rows that it had already.
	Known   int
	Skipped []importer.Skipped
	Notes   []string
	// Written is the file with the new rows, relative to the folder; empty if nothing was written.
	Written string
}

// Import adds the transactions of a file to the portfolio. It writes those that the portfolio does
// not have to a new file of signalbox CSV. If there is a problem with the file, or with the
// portfolio after the import, nothing is written. The error is a *[Problem], a
// *importer.FaultsError with all faults of the file, or a *signalbox.Error if the file does not
// exist.
func (d *Desk) Import(name string, opts ImportOptions) (*ImportReport, error) {
	text, data, err := d.openImport(name, opts.Account, withIDs)
	if err != nil {
		return nil, err
	}
	if problem := data.checkAccount(name, text, opts.Account); problem != nil {
		return nil, problem
	}
	imported, err := importer.Read(filepath.Base(name), text, data.importOptions(opts.Account))
	if err != nil {
		return nil, err
	}
	report, problem := d.compare(data, imported)
	if problem != nil {
		return nil, problem
	}
	// A file whose rows are all known was imported before, and so were its skipped records.
	isNew := len(report.New) > 0 || report.Known == 0
	if problem := report.skippedShares(); problem != nil && isNew && !opts.LeaveOut &&
		!opts.DryRun {
		return nil, problem
	}
	if problem := inOtherAccount(data.imports, report.New); problem != nil && !opts.KeepTwins {
		return nil, problem
	}
	twins := newTwins(data.imports, imported, report.New)
	if n := len(twins); n > 0 && !opts.KeepTwins {
		return nil, problemf(LooksKnown,
			"import only one of the two formats, or add --keep-twins if these are separate trades",
			"%d of the %d new rows look like transactions that the portfolio has from another format; the first is %s, like %s",
			n, len(report.New), sourcePosition(twins[0].Second), sourcePosition(twins[0].First))
	}
	if opts.DryRun || !isNew {
		return report, nil
	}
	// The list comes first: rows without it would look complete.
	if err := d.saveLeftOut(data.LeftOut, name, report.Skipped); err != nil {
		return nil, problemf(FileNotSaved, "check that you may write there",
			"%s cannot be written: %v", leftOutFile, withoutPath(err))
	}
	if len(report.New) == 0 {
		return report, nil
	}
	written, err := importer.Format(report.New)
	if err != nil {
		return nil, problemf(MalformedFile, malformedHint, "%s: %v", name, err)
	}
	if report.Written, err = d.add(imported.Format, name, written); err != nil {
		return nil, problemf(MalformedFile, "check that you may write there",
			"the transactions cannot be written: %v", err)
	}
	return report, nil
}

// openImport reads a file to import, and the folder. The error is as for [Desk.Import].
func (d *Desk) openImport(name, account string, ids identity) ([]byte, *Data, error) {
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, signalbox.CodeNotFound.Errorf("name the file that your broker exported",
			"there is no file %s", name)
	}
	if err != nil {
		return nil, nil, problemf(MalformedFile, "check that it is a file you may read",
			"%s cannot be read: %v", name, withoutPath(err))
	}
	data, problem := load(d.dir, ids)
	if problem != nil {
		return nil, nil, problem
	}
	if _, known := data.account(account); account != "" && !known {
		return nil, nil, problemf(UnknownAccount, "name one of "+
			strings.Join(data.accountIDs(), ", ")+", or add it to portfolio.yaml",
			"account %q is not in the portfolio", account)
	}
	return text, data, nil
}

// importOptions returns the options for reading a file of an account. If account is empty and the
// portfolio has a single account, a broker's file that names no account belongs to that one.
func (d *Data) importOptions(account string) *importer.Options {
	if account == "" && len(d.Rules.Accounts) == 1 {
		account = d.Rules.Accounts[0].ID
	}
	return &importer.Options{Account: account, Accounts: brokerNames(d.Config)}
}

// checkAccount refuses a file that names another account of the portfolio than the given one.
func (d *Data) checkAccount(name string, text []byte, account string) *Problem {
	if account == "" {
		return nil
	}
	named, err := importer.Read(filepath.Base(name), text,
		&importer.Options{Accounts: brokerNames(d.Config)})
	if err != nil {
		return nil // it does not name an account, or is refused anyway
	}
	for i := range named.Rows {
		row := &named.Rows[i]
		if _, known := d.account(row.Account); known && row.Account != account {
			return problemf(BadArgument,
				"omit --account, or correct the names of the accounts in portfolio.yaml",
				"%s:%d is about account %s, not %s", filepath.Base(name), row.Source.Line,
				row.Account, account)
		}
	}
	return nil
}

// skippedShares returns a problem if records that moved shares were skipped.
func (r *ImportReport) skippedShares() *Problem {
	n, first := 0, importer.Skipped{}
	for _, s := range r.Skipped {
		if s.Shares {
			if n == 0 {
				first = s
			}
			n++
		}
	}
	if n == 0 {
		return nil
	}
	return problemf(NotUnderstood, "add rows for them in signalbox CSV to a file in "+
		transactionsFolder+", then import the rest with --leave-out",
		"%s that moved shares cannot be imported, the first in line %d: %s",
		text.Count(n, "record"), first.Line, first.Why)
}

// inOtherAccount returns a problem if most of the rows exist in another account: the wrong account
// was named.
func inOtherAccount(existing []*importer.Import, rows []importer.Row) *Problem {
	const few = 3 // fewer may be equal by chance
	key := func(r *importer.Row) string {
		return strings.Join([]string{r.Date.String(), string(r.Action), r.Ticker,
			r.Quantity.Trim(0).String(), r.Price.Trim(0).String()}, "\x1f")
	}
	accounts := make(map[string]string)
	for _, imp := range existing {
		for i := range imp.Rows {
			accounts[key(&imp.Rows[i])] = imp.Rows[i].Account
		}
	}
	n, owner := 0, ""
	for i := range rows {
		if account, found := accounts[key(&rows[i])]; found && account != rows[i].Account {
			n, owner = n+1, account
		}
	}
	if n < few || 2*n <= len(rows) {
		return nil
	}
	return problemf(LooksKnown,
		"import the file into the right account, or add --keep-twins if both accounts made the same trades",
		"%d of the %d new rows are in account %s already", n, len(rows), owner)
}

// newTwins returns the new rows of a file that look like existing rows. Existing rows that are also
// in the file are not considered, because the file shows that there are several.
func newTwins(existing []*importer.Import, imported *importer.Import, rows []importer.Row) []Twin {
	own := make(map[string]bool, len(imported.Rows))
	for i := range imported.Rows {
		own[imported.Rows[i].ID] = true
	}
	var others []*importer.Import
	for _, imp := range existing {
		others = append(others, &importer.Import{Format: imp.Format,
			Rows: slices.DeleteFunc(slices.Clone(imp.Rows),
				func(r importer.Row) bool { return own[r.ID] })})
	}
	before := len(Twins(others...))
	return Twins(append(others, &importer.Import{Format: imported.Format, Rows: rows})...)[before:]
}

// ownFormat is the name of the format signalbox CSV.
const ownFormat = "signalbox"

// compare finds the new rows, and checks that the portfolio is still valid with them.
func (d *Desk) compare(data *Data, imported *importer.Import) (*ImportReport, *Problem) {
	report := &ImportReport{Format: imported.Format, Skipped: imported.Skipped,
		Notes: imported.Notes}
	for i := range imported.Rows {
		if data.ids[imported.Rows[i].ID] {
			report.Known++
			continue
		}
		report.New = append(report.New, imported.Rows[i])
	}
	if coins := data.unlistedCoins(report.New); len(coins) > 0 {
		report.Notes = append(report.Notes, fmt.Sprintf(
			"add %s to crypto in portfolio.yaml: without that, wash-sale rules are applied",
			text.JoinSome(coins, 10)))
	}
	if problem := data.addRows("", &importer.Import{Format: imported.Format,
		Rows: report.New}); problem != nil {
		return nil, problem
	}
	if problem := d.checkNoFuture(data); problem != nil {
		return nil, problem
	}
	day, problem := d.day("", "")
	if problem != nil {
		return nil, problem
	}
	_, problem = data.build(day)
	return report, problem
}

// unlistedCoins returns the tickers of rows that look like a pair with the dollar and are not among
// the configured cryptocurrencies.
func (d *Data) unlistedCoins(rows []importer.Row) []string {
	var coins []string
	for i := range rows {
		ticker := rows[i].Ticker
		if strings.HasSuffix(ticker, "-USD") && !slices.Contains(d.Rules.Crypto, ticker) &&
			!slices.Contains(coins, ticker) {
			coins = append(coins, ticker)
		}
	}
	return coins
}

// nameSeparator separates the format and the name of the original file in the name of an imported
// file.
const nameSeparator = "-"

// hasFormatName reports whether the name of a file starts with the name of a format.
func hasFormatName(name, format string) bool {
	rest, found := strings.CutPrefix(strings.ToLower(name), format)
	return found && (strings.HasPrefix(rest, nameSeparator) || strings.HasPrefix(rest, "."))
}

// add writes a new file of transactions. Its name is the format and the name of the original file.
func (d *Desk) add(format, from string, text []byte) (string, error) {
	folder := filepath.Join(d.dir, transactionsFolder)
	if err := durable.MakeFolder(folder); err != nil {
		return "", err
	}
	stem := strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("-_", r) {
			return r
		}
		return '-'
	}, strings.TrimSuffix(filepath.Base(from), filepath.Ext(from)))
	if stem == "" || isIgnored(stem) {
		stem = "import-" + stem
	}
	if format != ownFormat && !hasFormatName(stem+".csv", format) {
		stem = format + nameSeparator + stem
	}
	const tries = 10_000
	for n := 1; n < tries; n++ {
		name := stem + ".csv"
		if n > 1 {
			name = fmt.Sprintf("%s-%d.csv", stem, n)
		}
		err := durable.Create(filepath.Join(folder, name), text, 0o600)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		return transactionsFolder + "/" + name, err
	}
	return "", fmt.Errorf("%s has %d files called %s: rename some", transactionsFolder, tries, stem)
}
