package answer

import (
	"reflect"
	"slices"

	"signalbox/brief"
)

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
	changeLists(&r, func(list reflect.Value) reflect.Value {
		return list.Slice(0, min(list.Len(), summaryLots))
	})
	r.Candidates, r.WashSaleWarnings = slices.Clone(r.Candidates), slices.Clone(r.WashSaleWarnings)
	for i := range r.Candidates {
		r.Candidates[i].WashSalePurchases = nil
	}
	for i := range r.WashSaleWarnings {
		r.WashSaleWarnings[i].Purchases = nil
	}
	s.HarvestResult = r
	return s
}

// MarshalJSON writes the fields of the result together with those of the summary.
func (s HarvestSummary) MarshalJSON() ([]byte, error) {
	result, err := brief.Encode(s.HarvestResult)
	if err != nil {
		return nil, err
	}
	own, err := brief.Encode(struct {
		Verdict           string `json:"verdict"`
		CandidatesOmitted int    `json:"candidates_omitted"`
	}{s.Verdict, s.CandidatesOmitted})
	if err != nil {
		return nil, err
	}
	// Join {"a":1} and {"b":2} to {"a":1,"b":2}.
	return append(append(result[:len(result)-1], ','), own[1:]...), nil
}
