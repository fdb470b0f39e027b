package answer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"signalbox/brief"
	"signalbox/internal/text"
)

// HarvestSnapshot is the part of a result that is needed to decide about losses. Amounts are
// rounded to cents, and lots are added up by ticker.
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
	// DisallowedForGood is the part of it that would be lost permanently because of purchases in
	// retirement accounts; PermanentlyDisallowed is the same for past sales.
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
	// IncompleteRecord is the first of the rows without a purchase.
	IncompleteRecord string `json:"incomplete_record"`
	LeftOutCount     int    `json:"records_left_out_count"`
	// IdentifyCount is the number of candidates that must be identified to the broker, and
	// IdentifyAdvice how, for the first.
	IdentifyCount  int    `json:"identify_lot_count"`
	IdentifyAdvice string `json:"identify_lot_advice"`
	// NotReachedCount and NotReachedLoss are for lots at a loss that a sale by the account's method
	// would not sell first. They are in no total.
	NotReachedCount  int    `json:"lots_not_reached_count"`
	NotReachedLoss   Amount `json:"lots_not_reached_loss"`
	NotReachedAdvice string `json:"lots_not_reached_advice"`
	// The first positions whose lots and shares held differ.
	LotsMissingCount int      `json:"lots_missing_count"`
	LotsMissing      []string `json:"lots_missing"`
	LotsNotHeldCount int      `json:"lots_not_held_count"`
	LotsNotHeld      []string `json:"lots_not_held"`
	// OptionPrices are the first options whose price and purchase seem to have different units.
	OptionPriceCount int      `json:"option_price_count"`
	OptionPrices     []string `json:"option_prices"`
	// Crypto are the first tickers to which wash-sale rules do not apply.
	Crypto []string `json:"crypto"`
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
	IdentifyLots   bool     `json:"identify_lots"`
}

// Lengths of the lists in a snapshot.
const (
	maxCandidates  = 5
	maxWashTickers = 5
	maxDifferences = 2
	maxNote        = 130 // characters of a line about one lot, row or position
)

// SnapshotHarvest returns the snapshot of a result. If losses are too large to add, it returns a
// failed snapshot.
func SnapshotHarvest(r HarvestResult) (s HarvestSnapshot) {
	defer func() { changeLists(&s, notNil) }()
	if r.Status != string(brief.StatusSuccess) {
		s = failedHarvest(cmp.Or(r.Status, string(brief.StatusError)),
			cmp.Or(r.Error, "unknown error"))
		s.ErrorKind, s.ErrorHint = r.ErrorKind, r.ErrorHint
		return s
	}
	top, err := topCandidates(r.Candidates)
	if err != nil {
		return failedHarvest(string(brief.StatusError), err.Error())
	}
	s = HarvestSnapshot{
		Status: r.Status, TotalHarvestableLoss: r.TotalHarvestableLoss.cents(),
		ShortTermLoss: r.ShortTermLoss.cents(), LongTermLoss: r.LongTermLoss.cents(),
		CandidateCount: r.CandidateCount, TopCandidates: top,
		WashSaleTickerCount:   len(r.WashSaleWarnings),
		DataCoveragePct:       Round(float64(r.DataCoveragePct), 1),
		PositionsAnalyzed:     r.Metadata.PositionsAnalyzed,
		PositionsWithLots:     r.Metadata.PositionsWithLots,
		DisallowedLoss:        r.DisallowedLoss.cents(),
		PermanentlyDisallowed: r.PermanentlyDisallowed.cents(),
		DeductionLimit:        DeductionLimit(""),
		NetAfterHarvest:       Amount{r.TotalHarvestableLoss.Abs().Neg()}.cents(),
		MinLoss:               r.Metadata.MinLoss.cents(), BelowMinLossCount: r.Metadata.BelowMinLossCount,
		IncompleteHistoryCount: len(r.IncompleteHistory), Disclaimer: Disclaimer,
		StalePriceCount: len(r.StalePrices), NotUnderstoodCount: len(r.NotUnderstood),
		PossibleDuplicates: len(r.PossibleDuplicates),
		DuplicatesLeftOut:  r.Metadata.DuplicatesLeftOut,
		AsOf:               r.Metadata.AsOf, DisallowedForGood: r.DisallowedForGood.cents(),
		WashSalesNotChecked: r.Metadata.WashSalesNotChecked,
	}
	if err := s.addDifferences(r); err != nil {
		return failedHarvest(string(brief.StatusError), err.Error())
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

// failedHarvest returns a failed snapshot, which has no amounts.
func failedHarvest(status, reason string) HarvestSnapshot {
	return HarvestSnapshot{Status: status, Verdict: "Tax harvest analysis failed: " + reason,
		Disclaimer: Disclaimer}
}

// addDifferences adds what a sale would not realize as the lots suggest.
func (s *HarvestSnapshot) addDifferences(r HarvestResult) error {
	s.LeftOutCount, s.NotReachedCount, s.LotsMissingCount, s.LotsNotHeldCount = len(r.LeftOut),
		len(r.NotReached), len(r.LotsMissing), len(r.LotsNotHeld)
	s.OptionPriceCount, s.Crypto = len(r.OptionPrices), first(r.Crypto, maxWashTickers)
	if len(r.IncompleteHistory) > 0 && r.IncompleteHistory[0].Record != "" {
		i := r.IncompleteHistory[0]
		s.IncompleteRecord = text.Shorten(fmt.Sprintf("%s: %s %s", i.Record, i.Ticker, i.Why),
			maxNote)
	}
	for _, c := range r.Candidates {
		if !c.IdentifyLot {
			continue
		}
		if s.IdentifyCount++; s.IdentifyCount == 1 {
			s.IdentifyAdvice = text.Shorten(c.Advice, maxNote)
		}
	}
	for i, l := range r.NotReached {
		sum, err := s.NotReachedLoss.Add(l.UnrealizedLoss.Decimal)
		if err != nil {
			return fmt.Errorf("the losses of %s are too large to add: check its lots: %w", l.Ticker,
				err)
		}
		s.NotReachedLoss = Amount{sum}
		if i == 0 {
			s.NotReachedAdvice = text.Shorten(l.Advice, maxNote)
		}
	}
	s.NotReachedLoss = s.NotReachedLoss.cents()
	for _, p := range first(r.LotsMissing, maxDifferences) {
		s.LotsMissing = append(s.LotsMissing, p.text())
	}
	for _, p := range first(r.LotsNotHeld, maxDifferences) {
		s.LotsNotHeld = append(s.LotsNotHeld, p.text())
	}
	for _, p := range first(r.OptionPrices, maxDifferences) {
		s.OptionPrices = append(s.OptionPrices, fmt.Sprintf("%s at %s, bought at %s", p.Ticker,
			p.Price, p.PurchasePrice))
	}
	return nil
}

// text describes a difference in one line.
func (p PositionDifference) text() string {
	line := fmt.Sprintf("%s in %s: %s held, lots of %s", p.Ticker, p.AccountID, p.Held, p.Lots)
	if len(p.Records) > 0 {
		line += " (" + p.Records[0] + ")"
	}
	return text.Shorten(line, maxNote)
}

func harvestVerdict(r HarvestResult) string {
	if r.CandidateCount == 0 {
		return fmt.Sprintf("No tax-loss harvesting candidates found (%d positions analyzed)",
			r.Metadata.PositionsAnalyzed)
	}
	// Rounded to cents like the flags; otherwise they could differ by a dollar.
	verdict := fmt.Sprintf(
		"%s harvestable losses across %d lots (%s%% long-term), %s%% data coverage",
		dollars(r.TotalHarvestableLoss.cents()), r.CandidateCount,
		formatWhole(percentOf(r.LongTermLoss, r.TotalHarvestableLoss)),
		formatWhole(float64(r.DataCoveragePct)))
	if n := len(r.WashSaleWarnings); n > 0 {
		verdict += fmt.Sprintf(", wash sale risk on %d ticker%s", n, text.Plural(n))
	}
	return verdict
}

// topCandidates adds up the candidates by ticker and returns those with the largest losses. Tickers
// with equal losses keep their order.
func topCandidates(candidates []HarvestCandidate) ([]TopCandidate, error) {
	var tickers []TopCandidate
	index := make(map[string]int)
	for _, c := range candidates {
		ticker := cmp.Or(strings.TrimSpace(c.Ticker), "unknown")
		i, seen := index[ticker]
		if !seen {
			i = len(tickers)
			index[ticker] = i
			tickers = append(tickers, TopCandidate{Ticker: ticker})
		}
		sum := &tickers[i]
		total, err := sum.TotalLoss.Add(c.UnrealizedLoss.Decimal)
		if err != nil {
			return nil, fmt.Errorf("the losses of %s are too large to add: check its lots: %w",
				ticker, err)
		}
		sum.TotalLoss = Amount{total}
		sum.LotCount++
		sum.WashSaleRisk = sum.WashSaleRisk || c.WashSaleRisk
		sum.IdentifyLots = sum.IdentifyLots || c.IdentifyLot
		if period := cmp.Or(c.HoldingPeriod, "unknown"); !slices.Contains(sum.HoldingPeriods,
			period) {
			sum.HoldingPeriods = append(sum.HoldingPeriods, period)
		}
	}
	slices.SortStableFunc(tickers,
		func(a, b TopCandidate) int { return b.TotalLoss.CmpAbs(a.TotalLoss.Decimal) })
	top := first(tickers, maxCandidates)
	for i := range top {
		top[i].TotalLoss = top[i].TotalLoss.cents()
		slices.Sort(top[i].HoldingPeriods)
	}
	return top, nil
}
