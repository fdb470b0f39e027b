package importer

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"signalbox/internal/testkit/property"
)

// readSized reads as Read or, if take is not nil, as ReadBatches does, in parts of a size; 0 means in order.
func readSized(data []byte, partBytes int, opts *Options, take func([]Row)) (*Import, error) {
	in := newIntake("f")
	in.take, in.partBytes, in.large = take, partBytes, 0
	if partBytes == 0 {
		in.large = len(data) + 1
	}
	return in.read(data, opts)
}

// sameInParts holds that a file says the same whether it is read in order, in parts or in batches.
func sameInParts(t interface {
	Helper()
	Fatalf(string, ...any)
}, data []byte, partBytes int) (refused bool) {
	t.Helper()
	want, wantErr := readSized(data, 0, nil, nil)
	got, gotErr := readSized(data, partBytes, nil, nil)
	if diff := cmp.Diff(wantErr, gotErr); diff != "" {
		t.Fatalf("faults in order and in parts of %d (-want +got):\n%s\nin\n%s", partBytes, diff, data)
	}
	if diff := cmp.Diff(want, got, compareRows()); diff != "" {
		t.Fatalf("in order and in parts of %d (-want +got):\n%s\nin\n%s", partBytes, diff, data)
	}
	var rows []Row
	got, gotErr = readSized(data, partBytes, nil, func(batch []Row) { rows = append(rows, batch...) })
	if diff := cmp.Diff(wantErr, gotErr); diff != "" {
		t.Fatalf("faults in order and in batches of %d (-want +got):\n%s\nin\n%s", partBytes, diff, data)
	}
	if wantErr != nil {
		return true
	}
	if want, err := readSized(data, 0, &Options{NoIDs: true}, nil); err != nil {
		t.Fatalf("without IDs: %v", err)
	} else if diff := cmp.Diff(want.Rows, append(rows, got.Rows...), compareRows(), cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("in order and in batches of %d (-want +got):\n%s\nin\n%s", partBytes, diff, data)
	}
	return false
}

func TestPartsSamples(t *testing.T) {
	for _, name := range []string{"own.csv", "own-faults.csv", "own-columns.csv", "own-utf16.csv"} {
		for _, size := range []int{1, 40, 100, 1000, 1 << 20} {
			sameInParts(t, sample(t, name), size)
		}
	}
}

// TestPartsProperty makes files of rows that are right and wrong, with quotes and line ends in fields, and with quotes
// that never end.
func TestPartsProperty(t *testing.T) {
	lines := []string{"2024-01-31,brk,buy,VTI,10,215.50,,,", "2024-02-01,brk,Sell,vti,\"1,000\",2,0.65,USD,lot 1", "2024-02-29,ira,split,BRK/B,,,,,,,3:2",
		"", " , ,", "2024-02-01,\"b\nr\n\nk\",buy,KO,1,2,,eur,\"lot \"\"2\"\"\"", "2024-03-01,brk,return-of-capital,KO,2,0.5,,,",
		"2024-03-01,brk,buy,KO,1,1,,,,,,one"}
	wrong := []string{"2024-02-30,brk,buy,VTI,x,1,,,", "nonsense", "2024-02-01,brk,buy,KO,1,2,,,,,,,,,,,,", "2024-01-01,brk,\"bu\ny\",KO,-1,1,,,",
		"2024-01-01,b\"rk,buy,KO,1,1,,,", "\"2024-01-01", strings.Repeat("2024-01-01,brk,buy,KO,x,1,,,\n", 60)}
	refused, read := 0, 0
	property.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(rapid.SampledFrom(lines), 0, 30).Draw(t, "rows")
		for i, l := range list { // an id that comes twice is a fault
			if strings.HasSuffix(l, "one") {
				list[i] = fmt.Sprint(l, i)
			}
		}
		for range rapid.IntRange(0, 2).Draw(t, "faults") {
			list = slices.Insert(list, rapid.IntRange(0, len(list)).Draw(t, "at"), rapid.SampledFrom(wrong).Draw(t, "fault"))
		}
		if twice := "2024-03-01,brk,buy,KO,1,1,,,,,,two"; rapid.IntRange(0, 3).Draw(t, "an id twice") == 0 {
			list = append(append([]string{twice}, list...), twice)
		}
		head := "date,account,action,ticker,quantity,price,fees,currency,lot_id,to_account,ratio,id\n"
		if rapid.Bool().Draw(t, "quoted head") {
			head = "\"date\"" + head[4:]
		}
		if sameInParts(t, []byte(head+strings.Join(list, "\n")), rapid.IntRange(1, 300).Draw(t, "size")) {
			refused++
		} else {
			read++
		}
	})
	if refused == 0 || read == 0 {
		t.Errorf("%d files were refused and %d read, expected some of each", refused, read)
	}
}

// TestLargeFile goes over the border from which a file is read in parts without being told to.
func TestLargeFile(t *testing.T) {
	var b strings.Builder
	b.WriteString(ownHead)
	const n = 60_000
	for i := range n {
		fmt.Fprintf(&b, "2024-01-%02d,brk,buy,T%d,%d,1.50,,,\n", 1+i%28, i%300, i+1)
	}
	imp := mustRead(t, "f", []byte(b.String()), &Options{NoIDs: true})
	batches, line := 0, 1
	same := func(r *Row) {
		line++
		want := Row{Date: fmt.Sprintf("2024-01-%02d", 1+(line-2)%28), Account: "brk", Action: Buy, Ticker: fmt.Sprintf("T%d", (line-2)%300),
			Quantity: r.Quantity, Price: r.Price, Source: Source{File: "f", Line: line}}
		if *r != want || r.Quantity.String() != fmt.Sprint(line-1) {
			t.Fatalf("row %+v, expected %+v", *r, want)
		}
	}
	for i := range imp.Rows {
		same(&imp.Rows[i])
	}
	line = 1
	if got, err := ReadBatches("f", []byte(b.String()), nil, func(rows []Row) {
		batches++
		for i := range rows {
			same(&rows[i])
		}
	}); err != nil || len(got.Rows) != 0 || got.Format != "signalbox" {
		t.Fatalf("ReadBatches = %+v, %v", got, err)
	}
	if len(imp.Rows) != n || line != n+1 || batches < 4 {
		t.Errorf("%d rows at once, %d in %d batches, expected %d", len(imp.Rows), line-1, batches, n)
	}
	// One fault refuses the file, and only it is named.
	fe := refusal(t, b.String()+"2024-01-31,brk,buy,VTI,x,1,,,\n", nil)
	if len(fe.Faults) != 1 || fe.Faults[0].Line != n+2 || fe.Faults[0].Column != 24 {
		t.Errorf("faults %v", fe)
	}
}
