package importer

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"signalbox/internal/testkit/must"
)

// fuzzRead checks what must hold for every file: no panic, faults with a position, complete rows,
// and rows that do not change when they are written as signalbox CSV and read again.
func fuzzRead(t *testing.T, data []byte) {
	imp, err := Read("fuzz", data, &Options{Account: "brk"})
	if err != nil {
		fe, ok := errors.AsType[*FaultsError](err)
		if !ok || imp != nil || len(fe.Faults) == 0 || len(fe.Faults) > maxFaults {
			t.Fatalf("Read = %v, %v", imp, err)
		}
		for _, f := range fe.Faults {
			if f.Line < 1 || f.Column < 1 || f.Message == "" {
				t.Fatalf("fault %+v has no position", f)
			}
		}
		return
	}
	for _, r := range imp.Rows {
		if r.Date == 0 || r.Account == "" && r.Action != Transfer || r.Ticker == "" ||
			r.ID == "" || r.Quantity.IsNeg() || r.Price.IsNeg() || r.Fees.IsNeg() {
			t.Fatalf("row %+v is incomplete", r)
		}
	}
	if !strings.Contains(imp.Format, "signalbox") && len(imp.Rows) > 0 {
		if rows, _ := merge(imp, imp); len(rows) > len(imp.Rows) {
			t.Fatalf("twice gives %d rows of %d", len(rows), len(imp.Rows))
		}
	}
	sameAgain(t, imp.Rows)
}

// seed adds the samples that match the patterns, and fails if there are none.
func seed(f *testing.F, patterns ...string) {
	f.Helper()
	for _, p := range patterns {
		files, err := filepath.Glob(filepath.Join("testdata", "samples", p))
		if err != nil || len(files) == 0 {
			f.Fatalf("no samples %s: %v", p, err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			must.Succeed(f, err)
			f.Add(data)
		}
	}
}

func FuzzOwn(f *testing.F) {
	seed(f, "own*.csv")
	f.Fuzz(fuzzRead)
}

func FuzzSchwab(f *testing.F) {
	seed(f, "schwab*.csv")
	f.Fuzz(fuzzRead)
}

func FuzzFidelity(f *testing.F) {
	seed(f, "fidelity*.csv")
	f.Fuzz(fuzzRead)
}

func FuzzRobinhood(f *testing.F) {
	seed(f, "robinhood*.csv")
	f.Fuzz(fuzzRead)
}

func FuzzVanguard(f *testing.F) {
	seed(f, "vanguard*.csv")
	f.Fuzz(fuzzRead)
}

func FuzzETrade(f *testing.F) {
	seed(f, "etrade*.csv")
	f.Fuzz(fuzzRead)
}

func FuzzCoinbase(f *testing.F) {
	seed(f, "coinbase*.csv")
	f.Fuzz(fuzzRead)
}

func FuzzActivity(f *testing.F) {
	seed(f, "ibkr*.csv")
	f.Fuzz(fuzzRead)
}

func FuzzFlex(f *testing.F) {
	seed(f, "flex*.xml")
	f.Fuzz(fuzzRead)
}

func FuzzOFX(f *testing.F) {
	seed(f, "*.qfx", "*.ofx")
	f.Fuzz(fuzzRead)
}

func FuzzDaily(f *testing.F) {
	f.Add([]byte("date,ticker,close,adjusted,currency\n2024-01-31,VTI,240,,USD\n"))
	f.Add([]byte("date,from,to,rate\n2024-01-31,EUR,USD,1.08\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		prices, err := ReadPrices("p", data)
		for _, p := range prices {
			if err != nil || p.Date == 0 || p.Ticker == "" || !p.Close.IsPos() ||
				p.Adjusted.IsNeg() {
				t.Fatalf("price %+v is incomplete (%v)", p, err)
			}
		}
		rates, err := ReadRates("fx", data)
		for _, r := range rates {
			if err != nil || r.Date == 0 || !isCurrency(r.From) || !isCurrency(r.To) ||
				!r.Rate.IsPos() {
				t.Fatalf("rate %+v is incomplete (%v)", r, err)
			}
		}
	})
}
