package portfolio

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox"
	"signalbox/internal/portfolio/importer"
	"signalbox/internal/testkit/must"
)

// household has two accounts that have other names at their brokers.
const household = `
-- portfolio.yaml --
accounts:
  - {id: brk, names: [Individual XXXX-1234, X12345678]}
  - {id: roth, kind: roth, names: ["200000001"]}
`

// schwabHead begins a file of Schwab's.
const schwabHead = `"Transactions  for account Individual XXXX-1234 as of 06/29/2026 10:11:12 ET"
"Date","Action","Symbol","Description","Quantity","Price","Fees & Comm","Amount"
`

// schwabRows has two equal fills, and a dividend, which is not a row.
const schwabRows = `"03/28/2026","Sell","VTI","VANGUARD","4","$260.00","$0.07","$1,039.93"
"03/20/2026","Buy","VTI","VANGUARD","5","$250.00","","-$1,250.00"
"03/20/2026","Buy","VTI","VANGUARD","5","$250.00","","-$1,250.00"
"03/19/2026","Cash Dividend","VTI","VANGUARD","","","","$2.00"
`

const fidelity = `

Run Date,Account,Account Number,Action,Symbol,Description,Type,Price ($),Quantity,Commission ($),Fees ($),Accrued Interest ($),Amount ($),Cash Balance ($),Settlement Date
 03/27/2026,"Individual","X12345678", YOU BOUGHT APPLE INC (AAPL) (Cash), AAPL, APPLE INC,Cash,171.25,12,4.95,,,-2059.95,100,03/29/2026
 03/26/2026,"Roth IRA","200000001", REINVESTMENT FIDELITY 500 INDEX FUND (FXAIX) (Cash), FXAIX, FIDELITY 500,Cash,182.31,0.548,,,,-99.91,0,
`

// outside writes a file that is not in the portfolio.
func outside(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	put(t, path, text)
	return path
}

// imports imports a file and checks the report: format, new rows, known rows, file.
func imports(t *testing.T, d *Desk, name string, opts ImportOptions, want string) *ImportReport {
	t.Helper()
	report, err := d.Import(name, opts)
	must.Succeed(t, err)
	if got := fmt.Sprintf("%s: %d new, %d known, %d skipped, %s", report.Format, len(report.New),
		report.Known, len(report.Skipped), report.Written); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	return report
}

// refuses tries to import a file and checks that nothing changed.
func refuses(t *testing.T, d *Desk, name string, opts ImportOptions, kind, says string) error {
	t.Helper()
	before := files(t, d.dir)
	report, err := d.Import(name, opts)
	if err == nil || report != nil {
		t.Fatalf("%+v, want %s", report, says)
	}
	if problem, ok := errors.AsType[*Problem](err); kind != "" &&
		(!ok || problem.Kind != kind || problem.Hint == "") {
		t.Errorf("%#v is not %s", err, kind)
	}
	if !like(err.Error(), says) || goText.MatchString(err.Error()) {
		t.Errorf("%q, want %q", err, says)
	}
	wantEqual(t, before, files(t, d.dir))
	return err
}

const schwabLots = `
brk VTI 2026-03-20 2026-03-21 1 250 0
brk VTI 2026-03-20 2026-03-21 5 1250 0
`

// TestImport checks that equal fills stay two rows, and that importing overlapping files adds
// nothing twice.
func TestImport(t *testing.T) {
	d := desk(t, folder(t, household))
	name := outside(t, "Schwab Export (2026).csv", schwabHead+schwabRows)
	report := imports(t, d, name, ImportOptions{DryRun: true},
		"schwab: 3 new, 0 known, 1 skipped, ")
	// the oldest first
	if row := report.New[0]; row.Account != "brk" || row.Action != importer.Buy ||
		row.Source.Line != 5 {
		t.Errorf("%+v", row)
	}
	if _, err := os.Stat(filepath.Join(d.dir, "transactions")); err == nil {
		t.Error("a dry run wrote something")
	}
	imports(t, d, name, ImportOptions{},
		"schwab: 3 new, 0 known, 1 skipped, transactions/Schwab-Export--2026-.csv")
	wantLines(t, lots(t, d, ""), schwabLots)
	imports(t, d, name, ImportOptions{}, "schwab: 0 new, 3 known, 1 skipped, ")
	imports(t, d, outside(t, "copy.csv", schwabHead+schwabRows), ImportOptions{},
		"schwab: 0 new, 3 known, 1 skipped, ")

	// A third fill like the two, and a later month.
	more := schwabHead + `"04/02/2026","Buy","KO","COCA COLA","1","$60.00","","-$60.00"` + "\n" +
		schwabRows +
		`"03/20/2026","Buy","VTI","VANGUARD","5","$250.00","","-$1,250.00"` + "\n"
	again := outside(t, "Schwab Export (2026).csv", more)
	imports(t, d, again, ImportOptions{},
		"schwab: 2 new, 3 known, 1 skipped, transactions/Schwab-Export--2026--2.csv")
	imports(t, d, again, ImportOptions{}, "schwab: 0 new, 5 known, 1 skipped, ")
	wantLines(t, lots(t, d, ""), `
brk KO 2026-04-02 2026-04-03 1 60 0
brk VTI 2026-03-20 2026-03-21 1 250 0
brk VTI 2026-03-20 2026-03-21 5 1250 0
brk VTI 2026-03-20 2026-03-21 5 1250 0
`)
	wantEqual(t, []string{"portfolio.yaml", "transactions/Schwab-Export--2026--2.csv",
		"transactions/Schwab-Export--2026-.csv"}, files(t, d.dir))
}

// TestImportOrDrop checks that importing a file and copying it into the folder give the same
// transactions, and that doing both does not count them twice.
func TestImportOrDrop(t *testing.T) {
	for name, text := range map[string]string{"schwab.csv": schwabHead + schwabRows,
		"fidelity.csv": fidelity} {
		t.Run(name, func(t *testing.T) {
			imported, dropped := desk(t, folder(t, household)), desk(t, folder(t, household))
			if _, err := imported.Import(outside(t, name, text), ImportOptions{}); err != nil {
				t.Fatal(err)
			}
			put(t, filepath.Join(dropped.dir, "transactions", name), text)
			want := lots(t, dropped, "")
			if diff := cmp.Diff(want, lots(t, imported, "")); diff != "" || len(want) < 2 {
				t.Errorf("dropped -, imported +\n%s", diff)
			}
			put(t, filepath.Join(dropped.dir, "transactions", "twice-"+name), text)
			put(t, filepath.Join(imported.dir, "transactions", "twice-"+name), text)
			for _, d := range []*Desk{imported, dropped} {
				wantEqual(t, want, lots(t, d, ""))
			}
			report, err := dropped.Import(outside(t, name, text), ImportOptions{})
			if err != nil || len(report.New) > 0 || report.Known < 2 {
				t.Errorf("%+v, %v", report, err)
			}
			data, problem := load(dropped.dir, ifNeeded)
			if problem != nil || data.Duplicates != report.Known {
				t.Errorf("%d duplicates, want %d: %v", data.Duplicates, report.Known, problem)
			}
		})
	}
}

// TestImportAccounts checks the mapping of brokers' names, the account for files without one, and
// the default if there is only one account.
func TestImportAccounts(t *testing.T) {
	robinhood := outside(t, "robinhood.csv", `"Activity Date","Process Date","Settle Date","Instrument","Description","Trans Code","Quantity","Price","Amount"
"3/28/2026","3/28/2026","4/1/2026","VTI","Vanguard","Buy","10","$260.00","($2,600.00)"
`)
	d := desk(t, folder(t, household))
	report := imports(t, d, outside(t, "fidelity.csv", fidelity), ImportOptions{DryRun: true},
		"fidelity: 2 new, 0 known, 0 skipped, ")
	var accounts []string
	for _, row := range report.New {
		accounts = append(accounts, row.Account+" "+row.Ticker)
	}
	slices.Sort(accounts)
	wantLines(t, accounts, "brk AAPL\nroth FXAIX")

	refuses(t, d, robinhood, ImportOptions{}, "", "robinhood.csv:*")
	refuses(t, d, robinhood, ImportOptions{Account: "else"}, UnknownAccount,
		`account "else" is not in the portfolio`)
	report = imports(t, d, robinhood, ImportOptions{Account: "roth"},
		"robinhood: 1 new, 0 known, 0 skipped, transactions/robinhood.csv")
	if report.New[0].Account != "roth" {
		t.Errorf("%+v", report.New[0])
	}
	wantLines(t, lots(t, d, ""), "roth VTI 2026-03-28 2026-03-29 10 2600 0")

	one := desk(t, folder(t, "-- portfolio.yaml --\naccounts: [{id: only}]\n"))
	imports(t, one, robinhood, ImportOptions{},
		"robinhood: 1 new, 0 known, 0 skipped, transactions/robinhood.csv")
	wantLines(t, lots(t, one, ""), "only VTI 2026-03-28 2026-03-29 10 2600 0")
	dropped := desk(t, folder(t,
		"-- portfolio.yaml --\naccounts: [{id: only}]\n-- transactions/robinhood.csv --\n"+
			string(read(t, robinhood))))
	wantLines(t, lots(t, dropped, ""), "only VTI 2026-03-28 2026-03-29 10 2600 0")
}

// TestImportRefuses checks that a file that is malformed, or inconsistent with the portfolio,
// changes nothing.
func TestImportRefuses(t *testing.T) {
	d := desk(t, folder(t, household))
	err := refuses(t, d,
		outside(t, "bad.csv", schwabHead+`"03/28/2026","Juggle","VTI","","4","$260.00","",""`+"\n"+
			`"03/32/2026","Buy","VTI","","4","$260.00","",""`+"\n"), ImportOptions{}, "",
		`bad.csv:3:14: action: "Juggle" is not known*`)
	if faults, ok := errors.AsType[*importer.FaultsError](err); !ok || len(faults.Faults) != 2 ||
		faults.Faults[1].Line != 4 {
		t.Errorf("%v does not have both faults", err)
	}
	own := func(rows string) string { return outside(t, "own.csv", longHeader+rows+"\n") }
	refuses(t, d, own("2026-07-02,brk,buy,VTI,1,1,,,,,,,,"), ImportOptions{}, FutureDate,
		"own.csv:2: 2026-07-02 is in the future, today is 2026-07-01")
	refuses(t, d, own("2026-06-02,brkk,buy,VTI,1,1,,,,,,,,"), ImportOptions{}, UnknownAccount,
		`own.csv:2: account "brkk" is not in portfolio.yaml`)
	refuses(t, d, own("2026-06-02,brk,buy,VTI,1,1,,EUR,,,,,,"), ImportOptions{}, MissingRate,
		"own.csv:2: there is no exchange rate of EUR in dollars for 2026-06-02")
	refuses(t, d, own("2026-06-02,brk,transfer,VTI,1,,,,,roth,,,,"), ImportOptions{}, MalformedFile,
		"own.csv:2: the transfer moves shares between*")
	_, err = d.Import(filepath.Join(t.TempDir(), "nowhere.csv"), ImportOptions{})
	if missing, ok := errors.AsType[*signalbox.Error](err); !ok ||
		missing.Code != signalbox.CodeNotFound {
		t.Errorf("a file that is not there: %v", err)
	}
	refuses(t, d, t.TempDir(), ImportOptions{}, MalformedFile, "* cannot be read: *")
	refuses(t, desk(t, t.TempDir()), own("2026-06-02,brk,buy,VTI,1,1,,,,,,,,"), ImportOptions{},
		NoPortfolio, "there is no portfolio.yaml in *")
	// Nothing is imported into a portfolio with faults.
	put(t, filepath.Join(d.dir, "transactions", "a.csv"), "hello\n")
	refuses(t, d, own("2026-06-02,brk,buy,VTI,1,1,,,,,,,,"), ImportOptions{}, MalformedFile,
		"transactions/a.csv:1:1: *")
}

// TestImportWritesSignalboxCSV checks the content and the permissions of the written file.
func TestImportWritesSignalboxCSV(t *testing.T) {
	d := desk(t, folder(t, household))
	report := imports(t, d, outside(t, "s.csv", schwabHead+schwabRows), ImportOptions{},
		"schwab: 3 new, 0 known, 1 skipped, transactions/schwab-s.csv")
	text := string(read(t, filepath.Join(d.dir, report.Written)))
	if !strings.HasPrefix(text, strings.TrimSpace(header)) || strings.Count(text, "\n") != 4 ||
		!strings.Contains(text, "2026-03-28,brk,sell,VTI,4,260,0.07,USD,") {
		t.Errorf("%s", text)
	}
	refusesToReplace(t, d)
}

// TestImportIsFoundAgain checks that a written file never has a name that is ignored, such as
// README or a hidden name.
func TestImportIsFoundAgain(t *testing.T) {
	for _, name := range []string{"README.csv", "README-first.csv", ".csv", ".hidden.csv",
		"backup.csv~", "no extension", "a/../b.csv", "Übersicht März.csv", "CON.csv"} {
		d := desk(t, folder(t, household))
		report, err := d.Import(outside(t, name, schwabHead+schwabRows), ImportOptions{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := lots(t, d, ""); len(got) != 2 {
			t.Errorf("%s became %s, and the portfolio has %d lots", name, report.Written, len(got))
		}
	}
}

// refusesToReplace checks that an existing file is never overwritten.
func refusesToReplace(t *testing.T, d *Desk) {
	t.Helper()
	mine := filepath.Join(d.dir, "transactions", "mine.csv")
	put(t, mine, header+"2026-01-02,brk,buy,KO,1,60,,,\n")
	imports(t, d, outside(t, "mine.qfx", longHeader+"2026-01-03,brk,buy,KO,1,60,,,,,,,,\n"),
		ImportOptions{}, "signalbox: 1 new, 0 known, 0 skipped, transactions/mine-2.csv")
	if text := string(read(t, mine)); text != header+"2026-01-02,brk,buy,KO,1,60,,,\n" {
		t.Errorf("the file was changed: %s", text)
	}
}

// TestImportTwins checks that a trade in two formats is refused, unless the user confirms that it
// is two trades.
func TestImportTwins(t *testing.T) {
	d := desk(t, folder(t, household, "-- transactions/schwab.csv --\n"+schwabHead+schwabRows))
	own := outside(t, "own.csv", header+"2026-03-20,brk,buy,VTI,5,250.01,,,\n")
	refuses(t, d, own, ImportOptions{}, LooksKnown,
		"1 of the 1 new rows look like transactions that the portfolio has from another format; the first is own.csv:2, like transactions/schwab.csv:5")
	imports(t, d, own, ImportOptions{KeepTwins: true},
		"signalbox: 1 new, 0 known, 0 skipped, transactions/own.csv")
	if got := lots(t, d, ""); len(got) != 3 {
		t.Errorf("%v", got)
	}
	put(t, filepath.Join(d.dir, "prices", "a.csv"), "date,ticker,close\n2026-06-30,VTI,1\n")
	if a := askHarvest(t, d, HarvestQuery{}); !slices.Contains(a.names(), "warning "+LooksKnown) {
		t.Errorf("%v", a.names())
	}
}

// TestImportSkippedShares checks that skipped records that moved shares stop an import, unless the
// user confirms.
func TestImportSkippedShares(t *testing.T) {
	d := desk(t, folder(t, household))
	name := outside(t, "s.csv", schwabHead+schwabRows+
		`"03/18/2026","Spin-off","VTI","VANGUARD","3","","",""`+"\n")
	refuses(t, d, name, ImportOptions{}, NotUnderstood,
		"1 record that moved shares cannot be imported, the first in line 7: *")
	imports(t, d, name, ImportOptions{LeaveOut: true},
		"schwab: 3 new, 0 known, 2 skipped, transactions/schwab-s.csv")
	imports(t, d, name, ImportOptions{}, "schwab: 0 new, 3 known, 2 skipped, ")
}

// TestImportIntoTheWrongAccount checks that a file is refused if it names another account, or if
// its rows are already in another account.
func TestImportIntoTheWrongAccount(t *testing.T) {
	d := desk(t, folder(t, household))
	refuses(t, d, outside(t, "s.csv", schwabHead+schwabRows), ImportOptions{Account: "roth"},
		BadArgument, "s.csv:* is about account brk, not roth")
	nameless := "Date,Action,Symbol,Description,Quantity,Price,Fees & Comm,Amount\n" + schwabRows
	imports(t, d, outside(t, "s.csv", nameless), ImportOptions{Account: "roth"},
		"schwab: 3 new, 0 known, 1 skipped, transactions/schwab-s.csv")
	refuses(t, d, outside(t, "s.csv", nameless), ImportOptions{Account: "brk"}, LooksKnown,
		"3 of the 3 new rows are in account roth already")
	imports(t, d, outside(t, "s.csv", nameless), ImportOptions{Account: "brk", KeepTwins: true},
		"schwab: 3 new, 0 known, 1 skipped, transactions/schwab-s-2.csv")
}

// TestImportUnlistedCoins: wash-sale rules would apply to a coin that is not among the usual ones.
func TestImportUnlistedCoins(t *testing.T) {
	const head = "Timestamp,Transaction Type,Asset,Quantity Transacted,Spot Price Currency,Subtotal,Total\n"
	d := desk(t, folder(t, household))
	file := outside(t, "coinbase.csv", head+"2026-03-24T22:14:05Z,Buy,BTC,1,USD,$50.00,$50.00\n"+
		"2026-03-25T22:14:05Z,Buy,ZEC,1,USD,$50.00,$50.00\n")
	report := imports(t, d, file, ImportOptions{Account: "brk"},
		"coinbase: 2 new, 0 known, 0 skipped, transactions/coinbase.csv")
	if len(report.Notes) != 1 || !strings.HasPrefix(report.Notes[0], "add ZEC-USD to crypto") {
		t.Errorf("%q", report.Notes)
	}
}
