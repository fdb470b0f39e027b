package answer_test

import (
	"testing"

	"signalbox/brief"
	"signalbox/internal/portfolio/answer"
	"signalbox/internal/testkit/must"
)

// flagsOf returns the flags of a harvest with a total, its short-term part and a coverage.
func flagsOf(total, short string, coverage float64) []brief.Flag {
	r := harvest()
	r.TotalHarvestableLoss, r.ShortTermLoss, r.DataCoveragePct = amount(total), amount(short),
		brief.Number(coverage)
	return harvestFlags(r)
}

func TestHarvestErrorFlag(t *testing.T) {
	for _, status := range []string{"error", "", "partial"} {
		flags := answer.FlagsHarvest(answer.HarvestSnapshot{Status: status, Verdict: "it failed",
			CandidateCount: 3, PermanentlyDisallowed: amount("1")})
		wantOnly(t, flags, "harvest_error", brief.Error, "it failed")
	}
	wantFlag(t, answer.FlagsHarvest(answer.HarvestSnapshot{}),
		"harvest_error", brief.Error, "Tax harvest analysis failed")
}

func TestNoCandidatesFlag(t *testing.T) {
	r := washWarnings(empty(10), 2) // low coverage and wash sales say nothing without candidates
	wantOnly(t, harvestFlags(r), "no_candidates", brief.Success,
		"No unrealized losses to harvest — all lots are at a gain or break-even")
}

func TestNoLotDataFlag(t *testing.T) {
	wantOnly(t, harvestFlags(empty(0)), "no_lot_data", brief.Warning,
		"No lot data for any position — losses cannot be computed")
}

func TestBelowMinLossFlag(t *testing.T) {
	for minimum, want := range map[string]string{"1000": "$1,000", "1000.00": "$1,000",
		"2.5": "$2.50", "-50": "$50"} {
		r := empty(80)
		r.Metadata.MinLoss, r.Metadata.BelowMinLossCount = amount(minimum), 2
		flags := harvestFlags(r)
		wantOnly(t, flags, "below_min_loss", brief.Info,
			"All losses are below the minimum of "+want)
	}
}

func TestSignificantHarvestFlag(t *testing.T) {
	for _, total := range []string{"-12345.678", "12345.678"} {
		wantFlag(t, flagsOf(total, "0", 100),
			"significant_harvest", brief.Info,
			"$12,346 harvestable losses exceed $3,000 annual deduction limit")
	}
}

// TestSignificantHarvestOfTheNet checks both deduction limits, with the net above and below them.
func TestSignificantHarvestOfTheNet(t *testing.T) {
	const over3000, over1500 = "$4,500 harvestable losses exceed $3,000 annual deduction limit",
		"$4,500 harvestable losses exceed $1,500 annual deduction limit"
	for _, tt := range []struct{ filing, gains, carryover, want string }{
		{"single", "0", "0", over3000},
		{"head", "0", "0", over3000},
		{"married_joint", "500", "500", over3000},
		{"married_separate", "0", "0", over1500},
		{"single", "1500", "0", over3000 +
			" — net of realized gains and carryover it is $3,000, over the limit too"},
		{"single", "1500.01", "0", over3000 +
			" — but net of realized gains and carryover it is $2,999.99, within the limit"},
		{"single", "0", "2000", over3000 +
			" — net of realized gains and carryover it is $6,500, over the limit too"},
		{"single", "4000", "0", over3000 +
			" — but net of realized gains and carryover it is $500, within the limit"},
		{"single", "4500", "0", over3000 +
			" — but net of realized gains and carryover no loss is left"},
		{"single", "9000", "0", over3000 +
			" — but net of realized gains and carryover no loss is left"},
		{"married_separate", "2500", "0", over1500 +
			" — net of realized gains and carryover it is $2,000, over the limit too"},
	} {
		r := harvest()
		r.TotalHarvestableLoss, r.ShortTermLoss, r.LongTermLoss = amount("-4500"), amount("-500"),
			amount("-4000")
		net, err := answer.NetOf(tt.filing, answer.Realized{LongTerm: amount(tt.gains),
			CarryoverShort: amount(tt.carryover)}, r.ShortTermLoss, r.LongTermLoss)
		must.Succeed(t, err)
		r.Net = net
		wantFlag(t, harvestFlags(r),
			"significant_harvest", brief.Info, tt.want)
	}
}

func TestBelowSignificantThreshold(t *testing.T) {
	wantNoFlag(t, flagsOf("-2000", "0", 100), "significant_harvest")
	r := harvest()
	r.TotalHarvestableLoss, r.Net = amount("-2000"),
		&answer.NetPosition{FilingStatus: "married_separate", Net: amount("-2000")}
	// The limit is lower for separate returns, but the threshold is the same.
	wantNoFlag(t, harvestFlags(r), "significant_harvest")
}

func TestMostlyShortTermFlag(t *testing.T) {
	wantFlag(t, flagsOf("-1000", "-666.6", 100),
		"mostly_short_term", brief.Info, "67% of losses are short-term (higher tax offset value)")
	wantNoFlag(t, flagsOf("0", "-10", 100), "mostly_short_term")
	wantNoFlag(t, flagsOf("-10", "0", 100), "mostly_short_term")
}

func TestWashSaleRiskFlag(t *testing.T) {
	for count, want := range map[int]string{
		1: "Wash sale risk on 1 ticker: W0",
		2: "Wash sale risk on 2 tickers: W0, W1",
		3: "Wash sale risk on 3 tickers: W0, W1, W2",
		4: "Wash sale risk on 4 tickers: W0, W1, W2 + 1 more",
		9: "Wash sale risk on 9 tickers: W0, W1, W2 + 6 more",
	} {
		wantFlag(t, harvestFlags(washWarnings(harvest(), count)),
			"wash_sale_risk", brief.Warning, want)
	}
	wantNoFlag(t, harvestFlags(harvest()), "wash_sale_risk")
}

func TestLowCoverageFlag(t *testing.T) {
	wantOnly(t, flagsOf("-100", "0", 42.4), "low_coverage", brief.Warning,
		"Only 42% of positions have FIFO lot data — losses may be understated")
}

func TestModerateCoverageFlag(t *testing.T) {
	wantOnly(t, flagsOf("-100", "0", 54.2), "moderate_coverage", brief.Info,
		"54% lot coverage — 2 positions missing transaction history")
}

func TestGoodCoverageNoFlag(t *testing.T) {
	wantNames(t, flagsOf("-100", "0", 80), "harvest_available")
}

func TestHarvestAvailableFallback(t *testing.T) {
	wantOnly(t, flagsOf("-1234.5", "0", 100), "harvest_available", brief.Info,
		"$1,234 in harvestable losses across 3 lots")
}

func TestPermanentlyDisallowedFlag(t *testing.T) {
	r := harvest()
	r.TotalHarvestableLoss, r.ShortTermLoss, r.PermanentlyDisallowed = amount("-100"), amount("0"),
		amount("1250.50")
	flags := harvestFlags(r)
	// the latter does not look at the former
	wantNames(t, flags, "permanently_disallowed", "harvest_available")
	wantFlag(t, flags, "permanently_disallowed", brief.Warning,
		"$1,250.50 of realized losses permanently disallowed — replaced in an IRA, Roth, HSA or 401k")
	none := empty(100)
	none.PermanentlyDisallowed = amount("5")
	wantNames(t, harvestFlags(none), "permanently_disallowed",
		"no_candidates")
}

func TestHarvestFlagSortOrder(t *testing.T) {
	r := washWarnings(harvest(), 1)
	r.DataCoveragePct, r.ShortTermLoss = 10, r.TotalHarvestableLoss
	wantNames(t, harvestFlags(r), "wash_sale_risk", "low_coverage",
		"significant_harvest", "mostly_short_term")
}

func TestBoundary3000(t *testing.T) {
	wantFlag(t, flagsOf("-3000", "0", 100),
		"significant_harvest", brief.Info,
		"$3,000 harvestable losses exceed $3,000 annual deduction limit")
	wantNoFlag(t, flagsOf("-2999.99", "0", 100), "significant_harvest")
}

func TestBoundaryCoverage50(t *testing.T) {
	wantNames(t, flagsOf("-100", "0", 50), "moderate_coverage")
	wantNames(t, flagsOf("-100", "0", 49.9), "low_coverage")
}

func TestBoundaryCoverage75(t *testing.T) {
	wantNames(t, flagsOf("-100", "0", 75), "harvest_available")
	wantNames(t, flagsOf("-100", "0", 74.9), "moderate_coverage")
}

func TestBoundarySt50pct(t *testing.T) {
	wantFlag(t, flagsOf("-0.2", "-0.1", 100),
		"mostly_short_term", brief.Info, "50% of losses are short-term (higher tax offset value)")
	wantNoFlag(t, flagsOf("-1000", "-499.99", 100), "mostly_short_term")
}

func TestNetOf(t *testing.T) {
	for _, tt := range []struct {
		name                  string
		realized              answer.Realized
		net, deduct, carryFwd string
	}{
		{"losses alone", answer.Realized{}, "-4500", "3000", "1500"},
		{"gains first", answer.Realized{ShortTerm: amount("1000"), LongTerm: amount("2000")},
			"-1500", "1500", "0"},
		{"a net gain", answer.Realized{LongTerm: amount("5000")}, "500", "0", "0"},
		{"carry-over without sign", answer.Realized{CarryoverShort: amount("100"),
			CarryoverLong: amount("200")}, "-4800", "3000", "1800"},
		{"carry-over with sign", answer.Realized{CarryoverShort: amount("-100"),
			CarryoverLong: amount("-200")}, "-4800", "3000", "1800"},
		{"losses made", answer.Realized{ShortTerm: amount("-0.25")}, "-4500.25", "3000", "1500.25"},
	} {
		got, err := answer.NetOf("single", tt.realized, amount("-500"), amount("-4000"))
		if err != nil || !got.Net.Equal(amount(tt.net)) ||
			!got.Deductible.Equal(amount(tt.deduct)) ||
			!got.Carryforward.Equal(amount(tt.carryFwd)) {
			t.Errorf("%s: %+v, %v", tt.name, got, err)
		}
	}
	huge := amount("-9999999999999999999")
	for _, realized := range []answer.Realized{{ShortTerm: huge}, {LongTerm: huge}} {
		if got, err := answer.NetOf("single", realized, amount("-1"), amount("-1")); err == nil {
			t.Errorf("overflow gave %+v", got)
		}
	}
	if got, err := answer.NetOf("single", answer.Realized{}, huge, huge); err == nil {
		t.Errorf("overflow gave %+v", got)
	}
}

func TestWouldBeLostFlag(t *testing.T) {
	r := harvest()
	wantNoFlag(t, harvestFlags(r), "would_be_lost")
	r.DisallowedForGood = amount("150")
	wantFlag(t, harvestFlags(r),
		"would_be_lost", brief.Warning,
		"$150 of the losses would be lost for good — purchases in an IRA, Roth, HSA or 401k would replace the shares")
}

func TestWashSalesNotCheckedFlag(t *testing.T) {
	r := harvest()
	wantNoFlag(t, harvestFlags(r), "wash_sales_not_checked")
	r.Metadata.WashSalesNotChecked = true
	wantFlag(t, harvestFlags(r),
		"wash_sales_not_checked", brief.Warning,
		"Wash sales were not checked — some of the losses may be disallowed")
}

func TestDuplicatesLeftOutFlag(t *testing.T) {
	r := harvest()
	r.Metadata.DuplicatesLeftOut = 2
	wantFlag(t, harvestFlags(r),
		"duplicates_left_out", brief.Info,
		"2 duplicate rows in several files of transactions counted once")
}
