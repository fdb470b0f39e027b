package answer

import "slices"

// SummaryExit returns the result without the monthly returns of each rule.
func SummaryExit(r ExitResult) ExitResult {
	r.Signals = slices.Clone(r.Signals)
	for i := range r.Signals {
		r.Signals[i].Months = nil
	}
	return r
}

// summaryLots is the maximum length of the lists in a summary.
const summaryLots = 20

// HarvestSummary is a result with shortened lists, and its verdict.
type HarvestSummary struct {
	Verdict string `json:"verdict"`
	HarvestResult
	// CandidatesOmitted is the number of candidates that were omitted.
	CandidatesOmitted int `json:"candidates_omitted"`
}

// SummaryHarvest returns the result with only the first entries of each list, and without the
// purchases that would cause wash sales.
func SummaryHarvest(r HarvestResult) HarvestSummary {
	s := HarvestSummary{Verdict: SnapshotHarvest(r).Verdict,
		CandidatesOmitted: max(0, len(r.Candidates)-summaryLots)}
	r.Candidates, r.WashSaleWarnings = slices.Clone(first(r.Candidates, summaryLots)),
		slices.Clone(first(r.WashSaleWarnings, summaryLots))
	for i := range r.Candidates {
		r.Candidates[i].WashSalePurchases = nil
	}
	for i := range r.WashSaleWarnings {
		r.WashSaleWarnings[i].Purchases = nil
	}
	r.DoNotBuyBefore, r.DoNotBuyNow = first(r.DoNotBuyBefore, summaryLots),
		first(r.DoNotBuyNow, summaryLots)
	r.RealizedWashSales, r.IncompleteHistory = first(r.RealizedWashSales, summaryLots),
		first(r.IncompleteHistory, summaryLots)
	r.StalePrices, r.NotUnderstood = first(r.StalePrices, summaryLots),
		first(r.NotUnderstood, summaryLots)
	r.PossibleDuplicates = first(r.PossibleDuplicates, summaryLots)
	r.LeftOut, r.NotReached = first(r.LeftOut, summaryLots), first(r.NotReached, summaryLots)
	r.LotsMissing, r.LotsNotHeld = first(r.LotsMissing, summaryLots),
		first(r.LotsNotHeld, summaryLots)
	r.OptionPrices, r.Crypto = first(r.OptionPrices, summaryLots), first(r.Crypto, summaryLots)
	s.HarvestResult = r
	return s
}

// MarshalJSON writes the fields of the result together with those of the summary.
func (s HarvestSummary) MarshalJSON() ([]byte, error) {
	result, err := encode(s.HarvestResult)
	if err != nil {
		return nil, err
	}
	own, err := encode(struct {
		Verdict           string `json:"verdict"`
		CandidatesOmitted int    `json:"candidates_omitted"`
	}{s.Verdict, s.CandidatesOmitted})
	if err != nil {
		return nil, err
	}
	// Join {"a":1} and {"b":2} to {"a":1,"b":2}.
	return append(append(result[:len(result)-1], ','), own[1:]...), nil
}
