package answer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"signalbox/brief"
	"signalbox/internal/text"
)

// HarvestSnapshot is the part of a result that is needed to decide about losses. Amounts are rounded to cents, and lots are
// added up by ticker.
type HarvestSnapshot struct {
	Status               string         `json:"status"`
	Verdict              string         `json:"verdict"`
	TotalHarvestableLoss Amount         `json:"total_harvestable_loss"`
	ShortTermLoss        Amount         `json:"short_term_loss"`
	LongTermLoss         Amount         `json:"long_term_loss"`
	CandidateCount       int            `json:"candidate_count"`
	TopCandidates        []TopCandidate `json:"top_candidates"`
	WashSaleTickerCount  int            `json:"wash_sale_ticker_count"`
	WashSaleTickers      []string       `json:"wash_sale_tickers"`
	DataCoveragePct      float64        `json:"data_coverage_pct"`
	PositionsAnalyzed    int            `json:"positions_analyzed"`
	PositionsWithLots    int            `json:"positions_with_lots"`

	AsOf             string   `json:"as_of"`
	ValueCoveragePct *float64 `json:"value_coverage_pct"`
	DisallowedLoss   Amount   `json:"disallowed_loss"`
	// DisallowedForGood is the part of it that would be lost permanently because of purchases in retirement accounts;
	// PermanentlyDisallowed is the same for past sales.
	DisallowedForGood     Amount `json:"disallowed_for_good"`
	WashSalesNotChecked   bool   `json:"wash_sales_not_checked"`
	PermanentlyDisallowed Amount `json:"permanently_disallowed"`
	DeductionLimit        Amount `json:"deduction_limit"`
	// NetAfterHarvest is the net of the year if all candidates are sold, negative for a loss.
	NetAfterHarvest        Amount `json:"net_after_harvest"`
	MinLoss                Amount `json:"min_loss"`
	BelowMinLossCount      int    `json:"below_min_loss_count"`
	IncompleteHistoryCount int    `json:"incomplete_history_count"`
	// StalePriceTickers lists the first tickers whose last price is old.
	StalePriceCount    int      `json:"stale_price_count"`
	StalePriceTickers  []string `json:"stale_price_tickers"`
	NotUnderstoodCount int      `json:"records_not_understood_count"`
	// PossibleDuplicates is the number of rows that look like a row of another format.
	PossibleDuplicates int    `json:"possible_duplicate_count"`
	DuplicatesLeftOut  int    `json:"duplicates_left_out"`
	ErrorKind          string `json:"error_kind"`
	ErrorHint          string `json:"error_hint"`
	Disclaimer         string `json:"disclaimer"`
}

// TopCandidate is the sum of all candidates of a ticker.
type TopCandidate struct {
	Ticker         string   `json:"ticker"`
	TotalLoss      Amount   `json:"total_loss"`
	LotCount       int      `json:"lot_count"`
	HoldingPeriods []string `json:"holding_periods"`
	WashSaleRisk   bool     `json:"wash_sale_risk"`
}

// Lengths of the lists in a snapshot.
const (
	maxCandidates  = 5
	maxWashTickers = 5
)

// SnapshotHarvest returns the snapshot of a result. If losses are too large to add, it returns a failed snapshot.
func SnapshotHarvest(r HarvestResult) HarvestSnapshot {
	if r.Status != string(brief.StatusSuccess) {
		s := failedHarvest(cmp.Or(r.Status, string(brief.StatusError)), cmp.Or(r.Error, "unknown error"))
		s.ErrorKind, s.ErrorHint = r.ErrorKind, r.ErrorHint
		return s
	}
	top, err := topCandidates(r.Candidates)
	if err != nil {
		return failedHarvest(string(brief.StatusError), err.Error())
	}
	s := HarvestSnapshot{
		Status: r.Status, TotalHarvestableLoss: r.TotalHarvestableLoss.cents(),
		ShortTermLoss: r.ShortTermLoss.cents(), LongTermLoss: r.LongTermLoss.cents(),
		CandidateCount: r.CandidateCount, TopCandidates: top,
		WashSaleTickerCount: len(r.WashSaleWarnings), WashSaleTickers: []string{},
		DataCoveragePct:   Round(float64(r.DataCoveragePct), 1),
		PositionsAnalyzed: r.Metadata.PositionsAnalyzed, PositionsWithLots: r.Metadata.PositionsWithLots,
		DisallowedLoss: r.DisallowedLoss.cents(), PermanentlyDisallowed: r.PermanentlyDisallowed.cents(),
		DeductionLimit: DeductionLimit(""), NetAfterHarvest: Amount{r.TotalHarvestableLoss.Abs().Neg()}.cents(),
		MinLoss: r.Metadata.MinLoss.cents(), BelowMinLossCount: r.Metadata.BelowMinLossCount,
		IncompleteHistoryCount: len(r.IncompleteHistory), Disclaimer: Disclaimer,
		StalePriceCount: len(r.StalePrices), StalePriceTickers: []string{}, NotUnderstoodCount: len(r.NotUnderstood),
		PossibleDuplicates: len(r.PossibleDuplicates), DuplicatesLeftOut: r.Metadata.DuplicatesLeftOut,
		AsOf: r.Metadata.AsOf, DisallowedForGood: r.DisallowedForGood.cents(), WashSalesNotChecked: r.Metadata.WashSalesNotChecked,
	}
	for _, stale := range first(r.StalePrices, maxWashTickers) {
		s.StalePriceTickers = append(s.StalePriceTickers, stale.Ticker)
	}
	for _, warning := range first(r.WashSaleWarnings, maxWashTickers) {
		s.WashSaleTickers = append(s.WashSaleTickers, warning.Ticker)
	}
	if r.ValueCoveragePct != nil {
		pct := Round(float64(*r.ValueCoveragePct), 1)
		s.ValueCoveragePct = &pct
	}
	if r.Net != nil {
		s.DeductionLimit, s.NetAfterHarvest = DeductionLimit(r.Net.FilingStatus), r.Net.Net.cents()
	}
	s.Verdict = harvestVerdict(r)
	return s
}

// failedHarvest returns a failed snapshot, which has all fields but no amounts.
func failedHarvest(status, reason string) HarvestSnapshot {
	return HarvestSnapshot{
		Status: status, Verdict: "Tax harvest analysis failed: " + reason,
		TopCandidates: []TopCandidate{}, WashSaleTickers: []string{}, StalePriceTickers: []string{}, Disclaimer: Disclaimer,
	}
}

func harvestVerdict(r HarvestResult) string {
	if r.CandidateCount == 0 {
		return fmt.Sprintf("No tax-loss harvesting candidates found (%d positions analyzed)", r.Metadata.PositionsAnalyzed)
	}
	// Rounded to cents like the flags; otherwise they could differ by a dollar.
	verdict := fmt.Sprintf("%s harvestable losses across %d lots (%s%% long-term), %s%% data coverage",
		dollars(r.TotalHarvestableLoss.cents()), r.CandidateCount,
		formatWhole(percentOf(r.LongTermLoss, r.TotalHarvestableLoss)), formatWhole(float64(r.DataCoveragePct)))
	if n := len(r.WashSaleWarnings); n > 0 {
		verdict += fmt.Sprintf(", wash sale risk on %d ticker%s", n, text.Plural(n))
	}
	return verdict
}

// topCandidates adds up the candidates by ticker and returns those with the largest losses. Tickers with equal losses keep
// their order.
func topCandidates(candidates []HarvestCandidate) ([]TopCandidate, error) {
	var tickers []TopCandidate
	index := map[string]int{}
	for _, c := range candidates {
		ticker := cmp.Or(strings.TrimSpace(c.Ticker), "unknown")
		i, seen := index[ticker]
		if !seen {
			i = len(tickers)
			index[ticker] = i
			tickers = append(tickers, TopCandidate{Ticker: ticker, HoldingPeriods: []string{}})
		}
		sum := &tickers[i]
		total, err := sum.TotalLoss.Add(c.UnrealizedLoss.Decimal)
		if err != nil {
			return nil, fmt.Errorf("the losses of %s are too large to add: check its lots: %w", ticker, err)
		}
		sum.TotalLoss = Amount{total}
		sum.LotCount++
		sum.WashSaleRisk = sum.WashSaleRisk || c.WashSaleRisk
		if period := cmp.Or(c.HoldingPeriod, "unknown"); !slices.Contains(sum.HoldingPeriods, period) {
			sum.HoldingPeriods = append(sum.HoldingPeriods, period)
		}
	}
	slices.SortStableFunc(tickers, func(a, b TopCandidate) int { return b.TotalLoss.CmpAbs(a.TotalLoss.Decimal) })
	top := append([]TopCandidate{}, first(tickers, maxCandidates)...)
	for i := range top {
		top[i].TotalLoss = top[i].TotalLoss.cents()
		slices.Sort(top[i].HoldingPeriods)
	}
	return top, nil
}
