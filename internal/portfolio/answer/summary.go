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

// SummaryHarvest is the result without the purchases behind each wash sale to come; how much they disallow stays.
func SummaryHarvest(r HarvestResult) HarvestResult {
	r.Candidates, r.WashSaleWarnings = slices.Clone(r.Candidates), slices.Clone(r.WashSaleWarnings)
	for i := range r.Candidates {
		r.Candidates[i].WashSalePurchases = nil
	}
	for i := range r.WashSaleWarnings {
		r.WashSaleWarnings[i].Purchases = nil
	}
	return r
}
