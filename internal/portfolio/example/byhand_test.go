package example_test

import (
	"testing"

	"signalbox/internal/portfolio"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/testkit/must"
)

// TestWashSalesByHand compares wash sales with amounts that were computed by hand; the README
// explains them.
func TestWashSalesByHand(t *testing.T) {
	type sale struct{ Date, Account, Ticker, Loss, Disallowed, Permanent string }
	want := []sale{
		// 12 × 562.40 − (12 × 452.60 − 0.18); 5 of 12 replaced by IVV.
		{"2025-04-08", "brk", "VOO", "1317.78", "549.08", "0.00"},
		// 10 × 527.50 − (10 × 415.00 − 0.12); 8 replaced in brk, 2 in ira.
		{"2026-02-05", "brk", "MSFT", "1125.12", "1125.12", "225.02"},
		// 30 × 45.10 − (30 × 43.20 − 0.04); 20 of 30 replaced, and the rest of the lot itself does
		// not count.
		{"2026-02-11", "brk", "INTC", "57.04", "38.03", "0.00"},
		// 10 × 110.90 − (10 × 106.10 − 0.03); all replaced in brk 16 days later.
		{"2026-02-24", "joint", "DIS", "48.03", "48.03", "0.00"},
	}
	var got []sale
	for _, w := range desk(fresh(t)).Harvest(t.Context(),
		portfolio.HarvestQuery{}).RealizedWashSales {
		got = append(got, sale{w.SaleDate, w.Account, w.Ticker, cents(w.Loss),
			cents(w.DisallowedLoss), cents(w.PermanentLoss)})
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("wash sales (-by hand +found):\n%s", diff)
	}
}

func TestLotsByHand(t *testing.T) {
	type lot struct{ Account, Ticker, Bought, HeldSince, Shares, Basis string }
	want := []lot{
		// In euros: (4 × 870.00 + 5.00) × 1.1628.
		{"brk", "ASML.AS", "2025-10-08", "2025-10-09", "4", "4052.36"},
		// A gift keeps the donor's basis and date.
		{"brk", "DIS", "2023-06-14", "2021-08-17", "30", "5130.00"},
		// 8 × 404.20 and 8 of 10 parts of 1,125.12; held 184 days longer, as long as what was sold.
		{"brk", "MSFT", "2026-02-13", "2025-08-14", "8", "4133.70"},
		// 8 shares became 80, of which 30 were sold: 50 × 15.75.
		{"brk", "NVDA", "2022-11-10", "2022-11-11", "50", "787.50"},
		// 60 × 52.90 less 60 of 90 parts of the 46.80 that came back.
		{"brk", "O", "2024-05-20", "2024-05-21", "60", "3142.80"},
		// 519.00 and a fifth of 549.075; four of the five were sold first, because their basis was
		// the highest.
		{"joint", "IVV", "2025-04-21", "2025-03-05", "1", "628.82"},
		// What was transferred keeps its date: 15 × 58.90.
		{"joint", "KO", "2024-04-12", "2024-04-13", "15", "883.50"},
	}
	lots, err := desk(fresh(t)).Lots(t.Context(), portfolio.LotsQuery{AsOf: ""})
	must.Succeed(t, err)
	wanted := make(map[[3]string]bool)
	for _, l := range want {
		wanted[[3]string{l.Account, l.Ticker, l.Bought}] = true
	}
	var got []lot
	for _, l := range lots {
		if wanted[[3]string{l.Account, l.Ticker, l.LotDate}] {
			got = append(got, lot{l.Account, l.Ticker, l.LotDate, l.HoldingStart,
				l.Quantity.String(), cents(l.BasisTotal)})
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("lots (-by hand +found):\n%s", diff)
	}
}

func cents(a portfolio.Amount) string { return a.Rescale(2).String() }
