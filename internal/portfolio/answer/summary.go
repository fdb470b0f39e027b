package answer

import "slices"

// SummaryExit is the result without the months that each rule looked at.
func SummaryExit(r ExitResult) ExitResult {
	r.Signals = slices.Clone(r.Signals)
	for i := range r.Signals {
		r.Signals[i].Months = nil
	}
	return r
}

// summaryLots is how many lots a summary has of a list, the first in the order that was asked for.
const summaryLots = 20

// HarvestSummary is the result with its lists cut short, and what it comes to in a line.
type HarvestSummary struct {
	Verdict string `json:"verdict"`
	HarvestResult
	// CandidatesOmitted is how many more candidates there are.
	CandidatesOmitted int `json:"candidates_omitted"`
}

// SummaryHarvest is the result without the purchases behind each wash sale to come, how much they disallow stays, and
// with the first of each long list.
func SummaryHarvest(r HarvestResult) HarvestSummary {
	s := HarvestSummary{Verdict: SnapshotHarvest(r).Verdict, CandidatesOmitted: max(0, len(r.Candidates)-summaryLots)}
	r.Candidates, r.WashSaleWarnings = slices.Clone(first(r.Candidates, summaryLots)), slices.Clone(first(r.WashSaleWarnings, summaryLots))
	for i := range r.Candidates {
		r.Candidates[i].WashSalePurchases = nil
	}
	for i := range r.WashSaleWarnings {
		r.WashSaleWarnings[i].Purchases = nil
	}
	r.DoNotBuyBefore, r.AlreadyClosed = first(r.DoNotBuyBefore, summaryLots), first(r.AlreadyClosed, summaryLots)
	r.RealizedWashSales, r.IncompleteHistory = first(r.RealizedWashSales, summaryLots), first(r.IncompleteHistory, summaryLots)
	r.StalePrices, r.NotUnderstood = first(r.StalePrices, summaryLots), first(r.NotUnderstood, summaryLots)
	r.PossibleDuplicates = first(r.PossibleDuplicates, summaryLots)
	s.HarvestResult = r
	return s
}

// MarshalJSON writes the result's fields beside the summary's own.
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
	// {"a":1} and {"b":2} are {"a":1,"b":2}.
	return append(append(result[:len(result)-1], ','), own[1:]...), nil
}
