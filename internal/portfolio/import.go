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

// ImportOptions say how a file is imported.
type ImportOptions struct {
	// Account is the account of a file that names none, or calls its only one otherwise.
	Account string
	// DryRun writes nothing.
	DryRun bool
	// KeepTwins takes rows that look like transactions which the portfolio has from another kind of file. Without it they
	// are a problem: counted twice, every figure would be wrong.
	KeepTwins bool
	// LeaveOut takes the rest of a file in which records that move shares were not understood. Without it they are a
	// problem: the lots would be wrong, and nobody would be told again.
	LeaveOut bool
}

// ImportReport is what became of a file.
type ImportReport struct {
	Format string
	// New are the rows that the portfolio did not have.
	New []importer.Row
	// Known is how many it had already.
	Known   int
	Skipped []importer.Skipped
	Notes   []string
	// Written is the file that has the new rows now, relative to the folder; empty if nothing was written.
	Written string
}

// Import adds the transactions of a file to the portfolio: those that it does not have are written, in the own columns,
// as a new file in its folder of transactions. If anything in the file, or in the portfolio with it, is not understood,
// nothing is written. The error is a *[Problem], a
// *importer.FaultsError with all the faults of the file, or a *signalbox.Error if there is no such file.
func (d *Desk) Import(name string, opts ImportOptions) (*ImportReport, error) {
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &signalbox.Error{Code: signalbox.CodeNotFound, Err: fmt.Errorf("there is no file %s", name), Hint: "name the file that your broker exported"}
	}
	if err != nil {
		return nil, problemf(MalformedFile, "check that it is a file you may read", "%s cannot be read: %v", name, reason(err))
	}
	data, problem := load(d.dir, withIDs)
	if problem != nil {
		return nil, problem
	}
	read := &importer.Options{Account: opts.Account, Accounts: brokerNames(data.Config)}
	if _, known := data.account(opts.Account); opts.Account != "" && !known {
		return nil, problemf(UnknownAccount, "name one of "+strings.Join(data.accountIDs(), ", ")+", or add it to portfolio.yaml", "account %q is not in the portfolio", opts.Account)
	}
	if opts.Account == "" && len(data.Rules.Accounts) == 1 {
		read.Account = data.Rules.Accounts[0].ID
	}
	if problem := data.checkOwner(name, text, opts.Account); problem != nil {
		return nil, problem
	}
	imported, err := importer.Read(filepath.Base(name), text, read)
	if err != nil {
		return nil, err
	}
	report, problem := d.compare(data, imported)
	if problem != nil {
		return nil, problem
	}
	if problem := report.unclear(); problem != nil && len(report.New) > 0 && !opts.LeaveOut && !opts.DryRun {
		return nil, problem
	}
	if problem := elsewhere(data.imports, report.New); problem != nil && !opts.KeepTwins {
		return nil, problem
	}
	twins := newTwins(data.imports, imported, report.New)
	if n := len(twins); n > 0 && !opts.KeepTwins {
		return nil, problemf(LooksKnown, "import one of the two kinds of files, or add --keep-twins if these are trades of their own",
			"%d of the %d new rows look like transactions that the portfolio has from another kind of file, the first %s:%d like %s:%d",
			n, len(report.New), twins[0].Second.File, twins[0].Second.Line, twins[0].First.File, twins[0].First.Line)
	}
	if opts.DryRun || len(report.New) == 0 {
		return report, nil
	}
	written, err := importer.Format(report.New)
	if err != nil {
		return nil, problemf(MalformedFile, malformedHint, "%s: %v", name, err)
	}
	if report.Written, err = d.add(imported.Format, name, written); err != nil {
		return nil, problemf(MalformedFile, "check that you may write there", "the transactions cannot be written: %v", err)
	}
	return report, nil
}

// checkOwner refuses to give the rows of one account to another: a file may name its account.
func (d *Data) checkOwner(name string, text []byte, account string) *Problem {
	if account == "" {
		return nil
	}
	named, err := importer.Read(filepath.Base(name), text, &importer.Options{Accounts: brokerNames(d.Config)})
	if err != nil {
		return nil // it names none, or is refused anyway
	}
	for i := range named.Rows {
		row := &named.Rows[i]
		if _, known := d.account(row.Account); known && row.Account != account {
			return problemf(BadArgument, "leave out --account, or correct the names of the accounts in portfolio.yaml",
				"%s:%d is about account %s, not %s", filepath.Base(name), row.Source.Line, row.Account, account)
		}
	}
	return nil
}

// unclear is what is wrong with a file in which shares moved that nobody understood.
func (r *ImportReport) unclear() *Problem {
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
	return problemf(NotUnderstood, "add rows for them in signalbox CSV to a file in "+transactionsFolder+", then import the rest with --leave-out",
		"not all that moves shares was understood: %d record%s, the first in line %d: %s", n, text.Plural(n), first.Line, first.Why)
}

// elsewhere says that most of the rows are there already, in another account: the file was given to the wrong one.
func elsewhere(there []*importer.Import, rows []importer.Row) *Problem {
	const few = 3 // as many may be equal by chance
	key := func(r *importer.Row) string {
		return strings.Join([]string{r.Date, string(r.Action), r.Ticker, r.Quantity.Trim(0).String(), r.Price.Trim(0).String()}, "\x1f")
	}
	accounts := make(map[string]string)
	for _, imp := range there {
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
	return problemf(LooksKnown, "give the file to the account that it is of, or add --keep-twins if both accounts really traded alike",
		"%d of the %d new rows are in account %s already", n, len(rows), owner)
}

// newTwins are the new rows of a file that look like rows which are there. Those that the file has too are no such
// rows: it says itself that there are more.
func newTwins(there []*importer.Import, imported *importer.Import, rows []importer.Row) []Twin {
	own := make(map[string]bool, len(imported.Rows))
	for i := range imported.Rows {
		own[imported.Rows[i].ID] = true
	}
	var others []*importer.Import
	for _, imp := range there {
		others = append(others, &importer.Import{Format: imp.Format,
			Rows: slices.DeleteFunc(slices.Clone(imp.Rows), func(r importer.Row) bool { return own[r.ID] })})
	}
	before := len(Twins(others...))
	return Twins(append(others, &importer.Import{Format: imported.Format, Rows: rows})...)[before:]
}

// ownFormat is what files in the own columns are called.
const ownFormat = "signalbox"

// compare finds the rows that are new, and tries whether the portfolio still makes sense with them.
func (d *Desk) compare(data *Data, imported *importer.Import) (*ImportReport, *Problem) {
	report := &ImportReport{Format: imported.Format, Skipped: imported.Skipped, Notes: imported.Notes}
	for i := range imported.Rows {
		if data.ids[imported.Rows[i].ID] {
			report.Known++
			continue
		}
		report.New = append(report.New, imported.Rows[i])
	}
	if problem := data.takeRows("", &importer.Import{Format: imported.Format, Rows: report.New}); problem != nil {
		return nil, problem
	}
	if problem := d.noFuture(data); problem != nil {
		return nil, problem
	}
	day, problem := d.day("", "")
	if problem != nil {
		return nil, problem
	}
	_, problem = data.build(day)
	return report, problem
}

// importedBy stands between the kind of a file and its name, in the name of what was imported from it.
const importedBy = "-"

// ofKind says whether a file has the name of one that was imported from a kind of file.
func ofKind(name, format string) bool {
	rest, found := strings.CutPrefix(strings.ToLower(name), format)
	return found && (strings.HasPrefix(rest, importedBy) || strings.HasPrefix(rest, "."))
}

// add writes a new file of transactions. Its name is that of the file they came from, with the kind before it.
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
	if stem == "" || passedOver(stem) {
		stem = "import-" + stem
	}
	if format != ownFormat && !ofKind(stem+".csv", format) {
		stem = format + importedBy + stem
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
