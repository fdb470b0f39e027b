package answer

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"signalbox/brief"
	"signalbox/internal/text"
)

// HarvestSnapshot is the part of a result that is needed to decide about losses. Amounts are
// rounded to cents, and lots are added up by ticker. The first keys, up to positions_with_lots, are
// always there. The others are left out if they are zero or empty, to make room.
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

	// Headline is what is clean today, lot by lot, and what more is clean from which days on. It
	// also says what the totals assume.
	Headline string `json:"headline,omitzero"`
	// CleanToday is the loss, negative, of the CleanLots lots whose sale today is not a wash sale.
	// CleanLater is the loss of the others by the day from which it is clean, soonest first.
	CleanToday Amount      `json:"clean_today,omitzero"`
	CleanLots  int         `json:"clean_lots,omitzero"`
	CleanLater []CleanDate `json:"clean_later,omitempty"`
	// WorstSale is the sale of one lot that would lose the most for good.
	WorstSale *WorstSale `json:"worst_sale,omitempty"`
	// DoNotBuy are the first tickers that must not be bought before a day, because losses on them
	// were realized. The tickers of one day are one entry.
	DoNotBuyCount int      `json:"do_not_buy_count,omitzero"`
	DoNotBuy      []string `json:"do_not_buy,omitempty"`

	AsOf             string   `json:"as_of,omitzero"`
	ValueCoveragePct *float64 `json:"value_coverage_pct,omitzero"`
	DisallowedLoss   Amount   `json:"disallowed_loss,omitzero"`
	// DisallowedForGood is the part of it that would be lost permanently because of purchases in
	// retirement accounts; PermanentlyDisallowed is the same for past sales.
	DisallowedForGood     Amount `json:"disallowed_for_good,omitzero"`
	WashSalesNotChecked   bool   `json:"wash_sales_not_checked,omitzero"`
	PermanentlyDisallowed Amount `json:"permanently_disallowed,omitzero"`
	DeductionLimit        Amount `json:"deduction_limit,omitzero"`
	// NetAfterHarvest is the net of the year if all candidates are sold, negative for a loss.
	NetAfterHarvest        Amount `json:"net_after_harvest,omitzero"`
	MinLoss                Amount `json:"min_loss,omitzero"`
	BelowMinLossCount      int    `json:"below_min_loss_count,omitzero"`
	IncompleteHistoryCount int    `json:"incomplete_history_count,omitzero"`
	// StalePriceTickers lists the first tickers whose last price is old.
	StalePriceCount    int      `json:"stale_price_count,omitzero"`
	StalePriceTickers  []string `json:"stale_price_tickers,omitempty"`
	NotUnderstoodCount int      `json:"records_not_understood_count,omitzero"`
	// IncompleteRecord is the first of the rows without a purchase.
	IncompleteRecord string `json:"incomplete_record,omitzero"`
	LeftOutCount     int    `json:"records_left_out_count,omitzero"`
	// UnknownLots are the first tickers whose lots are not known, because of records that were left
	// out or not understood, with the first record of each.
	UnknownLotCount int      `json:"unknown_lot_count,omitzero"`
	UnknownLots     []string `json:"unknown_lots,omitempty"`
	// OrderUnknown is the first sale of a day with a purchase whose order is not known.
	OrderUnknownCount int    `json:"order_unknown_count,omitzero"`
	OrderUnknown      string `json:"order_unknown,omitzero"`
	// LaterPurchase is the first purchase after the day that changes the answer, and
	// LaterDisallowed what all of them disallow of the year's losses.
	LaterPurchaseCount int    `json:"later_purchase_count,omitzero"`
	LaterPurchase      string `json:"later_purchase,omitzero"`
	LaterDisallowed    Amount `json:"later_disallowed,omitzero"`
	// The first tickers that are never candidates.
	Section1256 []string `json:"section_1256,omitempty"`
	AverageCost []string `json:"average_cost,omitempty"`
	// SpouseAccounts are the first accounts that are left out of a separate return.
	SpouseAccounts []string `json:"spouse_accounts,omitempty"`
	// Reinvestments are the first expected reinvestments that would make a wash sale, and
	// ReinvestmentsLeft the number of the others.
	Reinvestments     []string `json:"reinvestments,omitempty"`
	ReinvestmentsLeft int      `json:"more_reinvestments,omitzero"`
	// CarriedOver is the losses carried over into the year, Carryover where they come from unless
	// they are configured, and CarriedByTransactions what the transactions give.
	Carryover             CarryoverSource `json:"carryover,omitzero"`
	CarriedOver           Amount          `json:"carried_over,omitzero"`
	CarriedByTransactions *Amount         `json:"carried_over_by_transactions,omitempty"`
	// IdentifyCount is the number of candidates that must be identified to the broker, and
	// IdentifyAdvice how, for the first.
	IdentifyCount  int    `json:"identify_lot_count,omitzero"`
	IdentifyAdvice string `json:"identify_lot_advice,omitzero"`
	// NotReachedCount and NotReachedLoss are for lots at a loss that a sale by the account's method
	// would not sell first. They are in no total.
	NotReachedCount  int    `json:"lots_not_reached_count,omitzero"`
	NotReachedLoss   Amount `json:"lots_not_reached_loss,omitzero"`
	NotReachedAdvice string `json:"lots_not_reached_advice,omitzero"`
	// The first positions whose lots and shares held differ.
	LotsMissingCount int      `json:"lots_missing_count,omitzero"`
	LotsMissing      []string `json:"lots_missing,omitempty"`
	LotsNotHeldCount int      `json:"lots_not_held_count,omitzero"`
	LotsNotHeld      []string `json:"lots_not_held,omitempty"`
	// OptionPrices are the first options whose price and purchase seem to have different units.
	OptionPriceCount int      `json:"option_price_count,omitzero"`
	OptionPrices     []string `json:"option_prices,omitempty"`
	// Crypto are the first tickers to which wash-sale rules do not apply.
	Crypto []string `json:"crypto,omitempty"`
	// PossibleDuplicates is the number of rows that look like a row of another format.
	PossibleDuplicates int    `json:"possible_duplicate_count,omitzero"`
	DuplicatesLeftOut  int    `json:"duplicates_left_out,omitzero"`
	ErrorKind          string `json:"error_kind"`
	ErrorHint          string `json:"error_hint"`
	Disclaimer         string `json:"disclaimer,omitzero"`
}

// CleanDate is a loss, negative, that is clean from a day on if nothing more is bought.
type CleanDate struct {
	Date string `json:"date"`
	Loss Amount `json:"loss"`
	Lots int    `json:"lots"`
}

// WorstSale is a lot, and what its sale alone would lose for good.
type WorstSale struct {
	Ticker    string `json:"ticker"`
	AccountID string `json:"account"`
	LotID     string `json:"lot"`
	Permanent Amount `json:"permanent"`
}

// TopCandidate is the sum of all candidates of a ticker. DisallowedAlone and PermanentAlone are for
// the sale of one of its lots, the one that disallows and loses the most; CleanDate is for all,
// empty if they are clean today, and CleanToday is the loss of those that are.
type TopCandidate struct {
	Ticker         string   `json:"ticker"`
	TotalLoss      Amount   `json:"total_loss"`
	LotCount       int      `json:"lot_count"`
	HoldingPeriods []string `json:"holding_periods"`
	WashSaleRisk   bool     `json:"wash_sale_risk"`
	IdentifyLots   bool     `json:"identify_lots,omitzero"`

	Accounts        []string `json:"accounts,omitempty"`
	CleanDate       string   `json:"clean_date,omitzero"`
	CleanToday      Amount   `json:"clean_today,omitzero"`
	DisallowedAlone Amount   `json:"disallowed_alone,omitzero"`
	PermanentAlone  Amount   `json:"permanent_alone,omitzero"`
	DoNotBuyBefore  string   `json:"do_not_buy_before,omitzero"`
	// Replacements are the first that may be bought instead until then, by the user's list.
	Replacements []string `json:"replacements,omitempty"`
}

// Lengths of the lists in a snapshot.
const (
	maxCandidates  = 5
	maxWashTickers = 5
	maxDifferences = 2
	maxNote        = 130 // characters of a line about one lot, row or position
	maxName        = 70  // characters of a name with its record

	maxReinvestments = 1
	maxReplacements  = 2
	maxCleanDates    = 2
	maxAccounts      = 3
	maxRestrictions  = 4
	maxRestricted    = 4 // tickers of one day
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
	top, err := topCandidates(r)
	if err != nil {
		return failedHarvest(string(brief.StatusError), err.Error())
	}
	for _, d := range r.DoNotBuyBefore {
		for i := range top {
			if top[i].Ticker == d.Ticker {
				top[i].DoNotBuyBefore = d.Date
				top[i].Replacements = first(d.Replacements, maxReplacements)
			}
		}
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
	s.addUnknownLots(r)
	s.addLimits(r)
	s.addRestrictions(r)
	if err := s.addClean(r); err != nil {
		return err
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

// addUnknownLots adds the tickers that missing records name, and sales whose lots depend on an
// unknown order.
func (s *HarvestSnapshot) addUnknownLots(r HarvestResult) {
	seen := make(map[string]bool)
	for _, record := range slices.Concat(r.LeftOut, r.NotUnderstood) {
		for _, ticker := range record.Tickers {
			if !seen[ticker] && len(s.UnknownLots) < maxWashTickers {
				s.UnknownLots = append(s.UnknownLots, text.Shorten(fmt.Sprintf("%s (%s:%d)", ticker,
					record.File, record.Line), maxName))
			}
			seen[ticker] = true
		}
	}
	s.UnknownLotCount, s.OrderUnknownCount = len(seen), len(r.OrderUnknown)
	if len(r.OrderUnknown) > 0 {
		o := r.OrderUnknown[0]
		s.OrderUnknown = text.Shorten(fmt.Sprintf("%s: %s %s in %s", o.Record, o.Date, o.Ticker,
			o.Account), maxName)
	}
}

// addLimits adds the securities and accounts that the answer leaves out, later purchases, and the
// reinvestments to expect.
func (s *HarvestSnapshot) addLimits(r HarvestResult) {
	s.Section1256, s.AverageCost = first(r.Section1256, maxWashTickers),
		first(r.AverageCost, maxWashTickers)
	s.SpouseAccounts = first(r.SpouseAccounts, maxWashTickers)
	s.LaterPurchaseCount, s.LaterDisallowed = len(r.LaterPurchases), r.LaterDisallowed.cents()
	if len(r.LaterPurchases) > 0 {
		p := r.LaterPurchases[0]
		s.LaterPurchase = text.Shorten(fmt.Sprintf("%s of %s in %s (%s)", p.Ticker, p.Date,
			p.Account, p.Record), maxName)
	}
	for _, e := range r.ExpectedReinvestments {
		if !e.Restricted {
			continue
		}
		if len(s.Reinvestments) == maxReinvestments {
			s.ReinvestmentsLeft++
		} else {
			s.Reinvestments = append(s.Reinvestments, text.Shorten(fmt.Sprintf("%s in %s on %s",
				e.Ticker, e.AccountID, e.Next), maxName))
		}
	}
	if n := r.Net; n != nil {
		s.CarriedOver = n.carriedOver().cents()
		if n.Carryover != CarryoverConfigured {
			s.Carryover = n.Carryover
		}
		if n.FromTransactions != nil {
			computed := n.FromTransactions.cents()
			s.CarriedByTransactions = &computed
		}
	}
}

// addRestrictions adds what must not be bought because of losses that were realized.
func (s *HarvestSnapshot) addRestrictions(r HarvestResult) {
	on := make(map[string][]string)
	for _, d := range r.DoNotBuyNow {
		on[d.Date] = append(on[d.Date], d.Ticker)
	}
	s.DoNotBuyCount = len(r.DoNotBuyNow)
	for _, date := range first(slices.Sorted(maps.Keys(on)), maxRestrictions) {
		s.DoNotBuy = append(s.DoNotBuy, text.Shorten(fmt.Sprintf("%s before %s",
			text.JoinSome(on[date], maxRestricted), date), maxName))
	}
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
func topCandidates(r HarvestResult) ([]TopCandidate, error) {
	var tickers []TopCandidate
	index := make(map[string]int)
	for _, c := range r.Candidates {
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
		if c.CleanToday(r) {
			clean, err := sum.CleanToday.Add(c.UnrealizedLoss.Decimal)
			if err != nil {
				return nil, fmt.Errorf("the losses of %s are too large to add: check its lots: %w",
					ticker, err)
			}
			sum.CleanToday = Amount{clean}
		}
		sum.LotCount++
		sum.WashSaleRisk = sum.WashSaleRisk || c.WashSaleRisk
		sum.IdentifyLots = sum.IdentifyLots || c.IdentifyLot
		if c.CleanDate > r.Metadata.AsOf {
			sum.CleanDate = max(sum.CleanDate, c.CleanDate)
		}
		sum.DisallowedAlone = Larger(sum.DisallowedAlone, c.DisallowedLoss)
		sum.PermanentAlone = Larger(sum.PermanentAlone, c.PermanentLoss)
		if c.AccountID != "" && !slices.Contains(sum.Accounts, c.AccountID) {
			sum.Accounts = append(sum.Accounts, c.AccountID)
		}
		if period := cmp.Or(c.HoldingPeriod, "unknown"); !slices.Contains(sum.HoldingPeriods,
			period) {
			sum.HoldingPeriods = append(sum.HoldingPeriods, period)
		}
	}
	slices.SortStableFunc(tickers,
		func(a, b TopCandidate) int { return b.TotalLoss.CmpAbs(a.TotalLoss.Decimal) })
	top := first(tickers, maxCandidates)
	for i := range top {
		slices.Sort(top[i].Accounts)
		top[i].Accounts = first(top[i].Accounts, maxAccounts)
		top[i].DisallowedAlone, top[i].PermanentAlone = top[i].DisallowedAlone.cents(),
			top[i].PermanentAlone.cents()
		top[i].TotalLoss, top[i].CleanToday = top[i].TotalLoss.cents(), top[i].CleanToday.cents()
		slices.Sort(top[i].HoldingPeriods)
	}
	return top, nil
}
