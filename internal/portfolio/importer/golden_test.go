package importer

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/testkit/must"
)

// TestGolden reads every sample and compares the result with its golden file. After an intended
// change, run IMPORTER_GOLDEN=write go test, and check the difference.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/samples/*")
	must.Succeed(t, err)
	seen := 0
	for _, file := range files {
		seen++
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			must.Succeed(t, err)
			got := describe(Read(filepath.Base(file), data, sampleOptions(file)))
			golden := filepath.Join("testdata", "golden", filepath.Base(file)+".txt")
			if os.Getenv("IMPORTER_GOLDEN") == "write" {
				must.Succeed(t, os.WriteFile(golden, []byte(got), 0o644))
			}
			want, err := os.ReadFile(golden)
			must.Succeed(t, err)
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", golden, diff)
			}
		})
	}
	if seen < 15 {
		t.Errorf("%d samples found, expected at least 15", seen)
	}
}

// sampleOptions returns the options that a user would give for a sample.
func sampleOptions(file string) *Options {
	switch filepath.Base(file) {
	case "robinhood.csv", "robinhood-faults.csv", "robinhood-life.csv", "schwab-faults.csv",
		"fidelity-life.csv", "coinbase.csv":
		return &Options{Account: "brk"}
	case "fidelity.csv":
		return &Options{Accounts: map[string]string{"X12345678": "joint", "200000001": "roth"}}
	}
	return nil
}

// describe returns an import in the format of the golden files.
func describe(imp *Import, err error) string {
	var b strings.Builder
	if err != nil {
		fmt.Fprintf(&b, "refused\n%v\n", err)
		return b.String()
	}
	fmt.Fprintf(&b, "format %s\n", imp.Format)
	for _, r := range imp.Rows {
		fmt.Fprintf(&b, "row %d: %s %s %s %s quantity=%s price=%s fees=%s", r.Source.Line, r.Date,
			r.Account, r.Action, r.Ticker,
			r.Quantity, r.Price, r.Fees)
		for _, f := range [][2]string{{"currency", r.Currency}, {"lot", r.LotID},
			{"to", r.ToAccount}, {"ratio", r.Ratio.String()},
			{"donor_basis", amount(r.DonorBasis)}, {"donor_date", r.DonorDate.String()},
			{"value", amount(r.Value)}, {"id", r.ID},
			{"time", r.Time.String()}, {"closed_lots", formatClosedLots(r.Lots)}} {
			if f[1] != "" {
				fmt.Fprintf(&b, " %s=%s", f[0], f[1])
			}
		}
		b.WriteByte('\n')
	}
	for _, s := range imp.Skipped {
		mark := ""
		if s.Shares {
			mark = " (shares)"
		}
		fmt.Fprintf(&b, "skipped %d%s: %s\n\t%s\n", s.Line, mark, s.Why, s.Text)
	}
	for _, n := range imp.Notes {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	return b.String()
}
