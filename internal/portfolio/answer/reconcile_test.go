package answer_test

import (
	"fmt"
	"testing"

	"signalbox/brief"
	"signalbox/internal/portfolio/answer"
)

func checked(ticker, shares, lots, listed, basis, washed string) answer.CheckedPosition {
	p := answer.CheckedPosition{Account: "brk", Ticker: ticker, Date: "2026-06-30",
		Shares: amount(shares), Lots: amount(lots), Basis: amount(basis), WashSales: amount(washed)}
	if listed != "" {
		a := amount(listed)
		p.ListedBasis = &a
		if shares == lots {
			off, _ := p.Basis.Sub(a.Decimal)
			p.BasisDifference = &answer.Amount{Decimal: off}
		}
	}
	p.Agrees = shares == lots && (p.BasisDifference == nil || p.BasisDifference.Sign() == 0)
	return p
}

func TestReconcileSnapshot(t *testing.T) {
	missing := checked("KO", "5", "0", "300", "0", "0")
	missing.Records = []string{"transactions/a.csv:2: sold without a buy of 1 KO"}
	r := answer.ReconcileResult{Status: "success", Positions: []answer.CheckedPosition{
		checked("SLV", "10", "10", "200", "200", "0"), checked("T", "3", "3", "", "30", "0"),
		checked("GLD", "4", "4", "120", "160", "40"), missing}}
	s := answer.SnapshotReconcile(r)
	wantEqual(t, answer.ReconcileSnapshot{Status: "success",
		Verdict:  "2 of 4 positions agree with the broker's list of 2026-06-30; 1 by shares and 1 by basis differ",
		ListDate: "2026-06-30", Positions: 4, Agreeing: 2,
		SharesDifferCount: 1, SharesDiffer: []string{
			"KO in brk: 5 by the list, 0 in lots (transactions/a.csv:2: sold without a buy of 1 KO)"},
		BasisDiffersCount: 1, BasisDiffers: []string{
			"GLD in brk: basis $120.00 by the list, $160.00 of lots, $40.00 of it from wash sales"},
		WithoutBasis: 1, Disclaimer: answer.Disclaimer}, s)
	flags := answer.FlagsReconcile(s)
	wantFlag(t, flags, "shares_differ", brief.Warning, "The lots of 1 position have other shares than the broker — add the missing transactions before you trust their numbers: KO in brk: 5 by the list, 0 in lots (transactions/a.csv:2: sold without a buy of 1 KO)")
	wantFlag(t, flags, "basis_differs", brief.Warning, "The lots of 1 position have another basis than the broker, which does not know wash sales with other accounts: GLD in brk: basis $120.00 by the list, $160.00 of lots, $40.00 of it from wash sales")
	wantFlag(t, flags, "basis_not_listed", brief.Info, "The broker's list has no basis for 1 position, so only shares were compared")

	r.Positions = r.Positions[:1]
	if s = answer.SnapshotReconcile(r); s.Verdict != "1 of 1 position agrees with the broker's list of 2026-06-30" {
		t.Errorf("verdict %q", s.Verdict)
	}
	wantFlag(t, answer.FlagsReconcile(s), "positions_agree", brief.Success,
		"All positions agree with the broker's list")
	failed := answer.ReconcileResult{Status: "error", Error: "no list", Problem: answer.Problem{
		ErrorKind: "bad_argument", ErrorHint: "import one"}}
	s = answer.SnapshotReconcile(failed)
	wantFlag(t, answer.FlagsReconcile(s), "reconcile_error", brief.Error,
		"Positions could not be compared: no list")
	wantFlag(t, answer.FlagsReconcile(s), "bad_argument", brief.Error, "import one")
}

// TestReconcileBriefIsShort compares thousands of positions with long records.
func TestReconcileBriefIsShort(t *testing.T) {
	r := answer.ReconcileResult{Status: "success"}
	for i := range 4000 {
		p := checked(fmt.Sprintf("TICKER%d", i), "123456.789", fmt.Sprint(i), "1", "2", "1")
		p.Records = []string{"transactions/" + string(make([]byte, 500))}
		r.Positions = append(r.Positions, p, checked("X", "1", "1", "99999999.99", "0.01", "0"))
	}
	for _, format := range brief.Formats() {
		data, err := answer.ReconcileTool().Answer(r, format, brief.Saved{})
		if object(t, data, err); format == brief.FormatAgent && len(data) > brief.MaxAgentBytes {
			t.Errorf("%d bytes", len(data))
		}
	}
}
