package importer

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/govalues/decimal"

	"signalbox/internal/portfolio/tax"
	"signalbox/internal/testkit/must"
)

const ownHead = "date,account,action,ticker,quantity,price,fees,currency,lot_id\n"

// compareRows compares decimals by value.
func compareRows() cmp.Option {
	return cmp.Options{cmpopts.IgnoreUnexported(tax.Transaction{}),
		cmp.Comparer(func(a, b decimal.Decimal) bool { return a.Equal(b) })}
}

func sample(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "samples", name))
	must.Succeed(t, err)
	return data
}

// merge joins the rows of several files as a portfolio does: rows with a known ID are dropped.
func merge(imports ...*Import) (rows []Row, duplicates int) {
	seen := make(map[string]bool)
	for _, imp := range imports {
		for _, r := range imp.Rows {
			if seen[r.ID] {
				duplicates++
				continue
			}
			seen[r.ID] = true
			rows = append(rows, r)
		}
	}
	return rows, duplicates
}

func mustRead(t *testing.T, name string, data []byte, opts *Options) *Import {
	t.Helper()
	imp, err := Read(name, data, opts)
	must.Succeed(t, err)
	return imp
}

// refusal reads a file that must be refused, and returns its faults.
func refusal(t *testing.T, data string, opts *Options) *FaultsError {
	t.Helper()
	imp, err := Read("f", []byte(data), opts)
	fe, ok := errors.AsType[*FaultsError](err)
	if !ok || imp != nil {
		t.Fatalf("Read = %v, %v, expected no import and a FaultsError", imp, err)
	}
	return fe
}

func TestTwiceAddsNothing(t *testing.T) {
	for _, name := range []string{"own.csv", "schwab.csv", "fidelity.csv", "robinhood.csv",
		"flex.xml", "activity.qfx"} {
		first := mustRead(t, name, sample(t, name), &Options{Accounts: map[string]string{"x": "y"},
			Account: accountFor(name)})
		again := mustRead(t, "copy of "+name, sample(t, name), &Options{Account: accountFor(name)})
		rows, duplicates := merge(first, again)
		if len(first.Rows) == 0 || len(rows) != len(first.Rows) || duplicates != len(first.Rows) {
			t.Errorf("%s twice: %d rows and %d duplicates, expected %d of each", name, len(rows),
				duplicates, len(first.Rows))
		}
		// Rows may also be imported again from signalbox CSV.
		text, err := Format(first.Rows)
		must.Succeed(t, err)
		own := mustRead(t, "own.csv", text, nil)
		if rows, _ := merge(first, own); len(rows) != len(first.Rows) {
			t.Errorf("%s and its signalbox CSV: %d rows, expected %d", name, len(rows),
				len(first.Rows))
		}
	}
}

func accountFor(name string) string {
	if name == "robinhood.csv" {
		return "brk"
	}
	return ""
}

func TestOverlapKeepsEqualFills(t *testing.T) {
	fill := "2024-01-31,brk,buy,VTI,10,215.50,,,\n"
	noon := mustRead(t, "noon", []byte(ownHead+fill), nil)
	night := mustRead(t, "night",
		[]byte(ownHead+fill+strings.Replace(fill, "215.50", "215.5000", 1)), nil)
	rows, duplicates := merge(noon, night)
	if len(rows) != 2 || duplicates != 1 {
		t.Errorf("%d rows, %d duplicates, expected 2 and 1", len(rows), duplicates)
	}
}

// TestReferenceReused checks that two different trades with the same reference are both kept.
func TestReferenceReused(t *testing.T) {
	text := strings.Replace(string(sample(t, "activity.qfx")), "<FITID>S1", "<FITID>B1", 1)
	imp := mustRead(t, "a.qfx", []byte(text), nil)
	if rows, _ := merge(imp); len(rows) != len(imp.Rows) {
		t.Errorf("%d of %d rows are left", len(rows), len(imp.Rows))
	}
	if imp.Rows[0].Source.Line == imp.Rows[1].Source.Line {
		t.Error("both trades have the same line")
	}
}

func TestAccounts(t *testing.T) {
	schwab := "\"Date\",\"Action\",\"Symbol\",\"Description\",\"Quantity\",\"Price\",\"Fees & Comm\",\"Amount\"\n" +
		"\"03/28/2024\",\"Buy\",\"VTI\",\"V\",\"1\",\"$2.00\",\"\",\"-$2.00\"\n"
	if fe := refusal(t, schwab, nil); !strings.Contains(fe.Error(), "does not name its account") {
		t.Errorf("no account: %v", fe)
	}
	if r := mustRead(t, "f", []byte(schwab), &Options{Account: "brk"}).Rows[0]; r.Account != "brk" {
		t.Errorf("account %q, expected brk", r.Account)
	}
	named := "\"Transactions for account XX-1\"\n" + schwab
	if r := mustRead(t, "f", []byte(named), nil).Rows[0]; r.Account != "XX-1" {
		t.Errorf("account %q, expected XX-1", r.Account)
	}
	if r := mustRead(t, "f", []byte(named),
		&Options{Accounts: map[string]string{"XX-1": "ira"}}).Rows[0]; r.Account != "ira" {
		t.Errorf("account %q, expected ira", r.Account)
	}
	_, err := Read("f", sample(t, "fidelity.csv"), &Options{Account: "brk"})
	if err == nil || !strings.Contains(err.Error(), `names 2 accounts ("200000001", "X12345678")`) {
		t.Errorf("two accounts under one id: %v", err)
	}
}

func TestFaultsAreCapped(t *testing.T) {
	fe := refusal(t, ownHead+strings.Repeat("nonsense\n", 40), nil)
	if len(fe.Faults) != maxFaults || fe.More == 0 || !strings.Contains(fe.Error(), "and ") {
		t.Errorf("%d faults and %d more, expected 50 and the rest counted", len(fe.Faults), fe.More)
	}
	// After the limit of faults, a broken row still must not become a transaction.
	fe = refusal(t, ownHead+strings.Repeat("2024-01-31,brk,buy,VTI,x,1,,,\n", 60), nil)
	if len(fe.Faults) != maxFaults || fe.More != 10 {
		t.Errorf("%d faults and %d more, expected 50 and 10", len(fe.Faults), fe.More)
	}
}

func TestEncodings(t *testing.T) {
	row := "2024-01-31,brk,buy,VTI,10,1,,,caf\u00e9\n"
	latin := []byte(ownHead + strings.Replace(row, "\u00e9", "\xe9", 1))
	for name, data := range map[string][]byte{
		"utf-8": []byte(ownHead + row), "bom": []byte("\xef\xbb\xbf" + ownHead + row),
		"windows-1252": latin,
		"crlf":         []byte(strings.ReplaceAll(ownHead+row, "\n", "\r\n")),
		"cr":           []byte(strings.ReplaceAll(ownHead+row, "\n", "\r")),
		"utf-16 big":   utf16Of(ownHead+row, true), "utf-16 little": utf16Of(ownHead+row, false),
	} {
		imp := mustRead(t, name, data, nil)
		if len(imp.Rows) != 1 || imp.Rows[0].LotID != "café" {
			t.Errorf("%s: %v", name, imp.Rows)
		}
		if (len(imp.Notes) > 0) != (name == "windows-1252") {
			t.Errorf("%s: notes %q, expected one only for a guess", name, imp.Notes)
		}
	}
	for name, data := range map[string]string{"zip": "PK\x03\x04xx", "pdf": "%PDF-1.7", "empty": "",
		"blank": " \n\n", "zeros": "a\x00b",
		"half": "\xff\xfea\x00b", "bank": "OFXHEADER:100\nDATA:OFXSGML\n"} {
		if fe := refusal(t, data, nil); len(fe.Faults) != 1 || fe.Faults[0].Line == 0 ||
			fe.Faults[0].Column == 0 {
			t.Errorf("%s: %v", name, fe)
		}
	}
}

func utf16Of(s string, big bool) []byte {
	out := []byte("\xff\xfe")
	if big {
		out = []byte("\xfe\xff")
	}
	for _, r := range s {
		if big {
			out = append(out, byte(r>>8), byte(r))
		} else {
			out = append(out, byte(r), byte(r>>8))
		}
	}
	return out
}

// TestEveryRecordIsCounted checks that every record of a file becomes a row, is skipped, or is
// refused.
func TestEveryRecordIsCounted(t *testing.T) {
	for name, records := range map[string]int{"schwab.csv": 18, "fidelity.csv": 14,
		"robinhood.csv": 15, "flex.xml": 16, "activity.qfx": 10} {
		imp := mustRead(t, name, sample(t, name), &Options{Account: accountFor(name)})
		// a reverse split has two records
		pairs := map[string]int{"schwab.csv": 1, "robinhood.csv": 1}[name]
		if got := len(imp.Rows) + len(imp.Skipped) + pairs; got != records {
			t.Errorf("%s: %d rows, %d skipped, expected %d records in all", name, len(imp.Rows),
				len(imp.Skipped), records)
		}
		for _, s := range imp.Skipped {
			if s.Why == "" || s.Text == "" || s.Line == 0 {
				t.Errorf("%s: %+v says too little", name, s)
			}
		}
	}
}

// TestOrderOfDay checks that two trades of one day keep their order, whether the file is oldest
// first or newest first.
func TestOrderOfDay(t *testing.T) {
	head := "Activity Date,Instrument,Description,Trans Code,Quantity,Price,Amount\n"
	sold, bought, older := "3/28/2024,VTI,V,Sell,1,$3.00,$3.00\n",
		"3/28/2024,VTI,V,Buy,1,$2.00,($2.00)\n", "3/1/2024,KO,K,Buy,1,$2.00,($2.00)\n"
	for _, file := range []string{head + sold + bought + older, head + older + bought + sold} {
		rows := mustRead(t, "f", []byte(file), &Options{Account: "brk"}).Rows
		got := []string{rows[0].Ticker, string(rows[1].Action), string(rows[2].Action)}
		if diff := cmp.Diff([]string{"KO", "buy", "sell"}, got); diff != "" {
			t.Errorf("order (-want +got):\n%s", diff)
		}
	}
	// If all rows are of one day, the file does not show its direction, and the order is kept.
	if rows := mustRead(t, "f", []byte(head+sold+bought),
		&Options{Account: "brk"}).Rows; rows[0].Action != Sell || rows[1].Action != Buy {
		t.Errorf("rows of one day are in the order %s, %s", rows[0].Action, rows[1].Action)
	}
}

// TestManyUnknownWords checks that a word that is not known costs little if its fault is not
// listed.
func TestManyUnknownWords(t *testing.T) {
	allocated := func(rows int) uint64 {
		text := "Date,Action,Symbol,Description,Quantity,Price,Fees & Comm,Amount\n" +
			strings.Repeat("01/02/2026,Nope,SLV,x,1,$1.00,,-$1.00\n", rows)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if fe := refusal(t, text, nil); len(fe.Faults)+fe.More < rows {
			t.Fatalf("%d faults of %d rows", len(fe.Faults)+fe.More, rows)
		}
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	few, many := allocated(1000), allocated(6000)
	if perRow := (many - few) / 5000; perRow > 3000 {
		t.Errorf("%d bytes for each row after the first", perRow)
	}
}
