package importer

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/govalues/decimal"

	"signalbox/internal/portfolio/tax"
)

// TestReadBatches reads a file of several batches and compares each row with the line it came from.
func TestReadBatches(t *testing.T) {
	var b strings.Builder
	b.WriteString(ownHead)
	const n = 3*batchRows + 7
	for i := range n {
		fmt.Fprintf(&b, "2024-01-%02d,brk,buy,T%d,%d,1.50,,,\n", 1+i%28, i%300, i+1)
	}
	batches, line := 0, 1
	imp, err := ReadBatches("f", []byte(b.String()), nil, func(rows []Row) {
		batches++
		if len(rows) > batchRows {
			t.Errorf("a batch of %d rows, expected at most %d", len(rows), batchRows)
		}
		for i := range rows {
			line++
			want := Row{Transaction: tax.Transaction{Date: tax.DateOf(2024, 1, 1+(line-2)%28),
				Account: "brk", Action: Buy, Ticker: fmt.Sprintf("T%d", (line-2)%300),
				Quantity: decimal.MustNew(int64(line-1), 0), Price: decimal.MustParse("1.5"),
				Source: Source{File: "f", Line: line}}}
			if diff := cmp.Diff(want, rows[i], compareRows()); diff != "" {
				t.Fatalf("row (-want +got):\n%s", diff)
			}
		}
	})
	if err != nil || len(imp.Rows) != 0 || imp.Format != "signalbox" {
		t.Fatalf("ReadBatches = %+v, %v", imp, err)
	}
	if line != n+1 || batches != 4 {
		t.Errorf("%d rows in %d batches, expected %d in 4", line-1, batches, n)
	}
	// One fault refuses the file, and only it is named.
	b.WriteString("2024-01-31,brk,buy,VTI,x,1,,,\n")
	_, err = ReadBatches("f", []byte(b.String()), nil, func([]Row) {})
	if want := fmt.Sprintf("f:%d:24: quantity: \"x\" is not a number", n+2); err == nil ||
		!strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
		t.Errorf("error %v, expected only %s", err, want)
	}
}

// TestReadBatchesBroker reads a broker's file: its rows come at the end, in one batch, because they
// depend on each other.
func TestReadBatchesBroker(t *testing.T) {
	want := mustRead(t, "f", sample(t, "schwab.csv"), nil)
	var rows []Row
	if _, err := ReadBatches("f", sample(t, "schwab.csv"), nil,
		func(batch []Row) { rows = append(rows, batch...) }); err != nil {
		t.Fatal(err)
	}
	if len(rows) != len(want.Rows) {
		t.Fatalf("%d rows, expected %d", len(rows), len(want.Rows))
	}
	for i := range rows {
		want.Rows[i].ID = ""
		if diff := cmp.Diff(want.Rows[i], rows[i], compareRows()); diff != "" {
			t.Errorf("row (-want +got):\n%s", diff)
		}
	}
}
