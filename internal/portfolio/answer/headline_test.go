package answer_test

import (
	"fmt"
	"testing"

	"signalbox/brief"
	"signalbox/internal/portfolio/answer"
)

// candidateOf returns a lot of an account, with what its sale alone would disallow and lose.
func candidateOf(ticker, lotID, account, loss, disallowed, permanent, clean string) answer.HarvestCandidate {
	c := lot(ticker, loss, "short_term", disallowed != "0")
	c.LotID, c.AccountID, c.CleanDate = lotID, account, clean
	c.DisallowedLoss, c.PermanentLoss = amount(disallowed), amount(permanent)
	if c.WashSaleRisk {
		c.DisallowedShares = amount("1")
	}
	return c
}

// TestHeadlineRevRul20085: $29 would be lost for good if all lots were sold together, and $495.50 if
// only the first lot were sold, because the shares of the others replace nothing then.
func TestHeadlineRevRul20085(t *testing.T) {
	r := harvest()
	r.Metadata.AsOf, r.DisallowedForGood, r.CandidateCount = "2026-06-30", amount("29"), 5
	r.Candidates = []answer.HarvestCandidate{
		candidateOf("MSFT", "a", "brk", "-1189.20", "495.50", "495.50", "2026-07-13"),
		candidateOf("MSFT", "b", "joint", "-100", "10", "0", "2026-07-20"),
		candidateOf("DIS", "c", "brk", "-50.25", "50.25", "0", "2026-07-13"),
		candidateOf("GLD", "d", "brk", "-700", "0", "0", "2026-06-30"),
		candidateOf("GLD", "e", "brk", "-300", "0", "0", "2026-06-30"),
	}
	r.DoNotBuyBefore = []answer.DoNotBuy{{Ticker: "GLD", Date: "2026-07-31"}}
	s := answer.SnapshotHarvest(r)
	// 700 + 300 today; 1,189.20 + 50.25 = 1,239.45 from 13 July, 100 from 20 July.
	if want := "$1,000 is clean today in 2 lots, $1,239.45 more from 2026-07-13, $100 more from 2026-07-20; " +
		"totals hold only if all 5 lots are sold that day"; s.Headline != want {
		t.Errorf("headline %q", s.Headline)
	}
	wantEqual(t, []answer.CleanDate{{Date: "2026-07-13", Loss: amount("-1239.45"), Lots: 2},
		{Date: "2026-07-20", Loss: amount("-100"), Lots: 1}}, s.CleanLater)
	wantEqual(t, &answer.WorstSale{Ticker: "MSFT", AccountID: "brk", LotID: "a",
		Permanent: amount("495.50")}, s.WorstSale)
	wantEqual(t, []answer.TopCandidate{
		{Ticker: "MSFT", TotalLoss: amount("-1289.20"), LotCount: 2,
			HoldingPeriods: []string{"short_term"}, WashSaleRisk: true,
			Accounts: []string{"brk", "joint"}, CleanDate: "2026-07-20",
			DisallowedAlone: amount("495.50"), PermanentAlone: amount("495.50")},
		{Ticker: "GLD", TotalLoss: amount("-1000"), LotCount: 2,
			HoldingPeriods: []string{"short_term"}, Accounts: []string{"brk"},
			CleanToday: amount("-1000"), DoNotBuyBefore: "2026-07-31"},
		{Ticker: "DIS", TotalLoss: amount("-50.25"), LotCount: 1,
			HoldingPeriods: []string{"short_term"}, WashSaleRisk: true,
			Accounts: []string{"brk"}, CleanDate: "2026-07-13", DisallowedAlone: amount("50.25")},
	}, s.TopCandidates)
	wantFlag(t, harvestFlags(r), "would_be_lost", brief.Warning,
		"Selling only lot a of MSFT loses $495.50 for good, all candidates $29 — replaced in an IRA, Roth, HSA or 401k")
	// Without the check, it is not known what is clean.
	r.Metadata.WashSalesNotChecked = true
	if s := answer.SnapshotHarvest(r); s.Headline != "" || s.CleanLots != 0 {
		t.Errorf("without a check: %+v", s)
	}
}

// TestDoNotBuySection1091: what must not be bought after realized losses is in the snapshot, by the
// day, and in a flag.
func TestDoNotBuySection1091(t *testing.T) {
	r := harvest()
	for i, ticker := range []string{"VOO", "IVV", "SLV", "T1", "T2", "T3", "T4", "T5", "U6", "U7", "U8"} {
		date := "2026-07-12"
		if i == 2 {
			date = "2026-07-01"
		} else if i > 7 {
			date = fmt.Sprintf("2026-07-2%d", i%10)
		}
		r.DoNotBuyNow = append(r.DoNotBuyNow, answer.DoNotBuy{Ticker: ticker, Date: date})
	}
	s := answer.SnapshotHarvest(r)
	if s.DoNotBuyCount != 11 {
		t.Errorf("%d tickers", s.DoNotBuyCount)
	}
	wantEqual(t, []string{"SLV before 2026-07-01",
		"VOO, IVV, T1, T2 and 3 more before 2026-07-12", "U8 before 2026-07-20",
		"U6 before 2026-07-28"}, s.DoNotBuy)
	r.DoNotBuyNow = r.DoNotBuyNow[:3]
	wantFlag(t, harvestFlags(r), "do_not_buy", brief.Info,
		"Do not buy SLV before 2026-07-01; VOO, IVV before 2026-07-12 — losses on them were realized")
}

// TestFlagsInEveryFormat: no format hides what needs attention.
func TestFlagsInEveryFormat(t *testing.T) {
	r := harvest()
	want := len(harvestFlags(r))
	for _, format := range brief.Formats() {
		data, err := answer.HarvestTool().Answer(r, format, brief.Saved{})
		if flags, _ := object(t, data, err)["flags"].([]any); len(flags) != want || want == 0 {
			t.Errorf("%s: %v", format, flags)
		}
	}
}
