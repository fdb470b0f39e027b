package answer

import "signalbox/brief"

// Disclaimer stands in every answer about taxes.
const Disclaimer = "Estimates under US federal rules; not tax advice"

// HarvestResult is all that suggest_tax_loss_harvest knows. Totals assume that all candidates are sold together; a
// candidate's own figures, that its lot is sold alone.
type HarvestResult struct {
	// Status is "success" if the question could be answered; every other text is a failure.
	Status string `json:"status"`
	Error  string `json:"error,omitempty"`
	Problem
	// TotalHarvestableLoss counts allowed loss only, and so do its two parts.
	TotalHarvestableLoss Amount `json:"total_harvestable_loss"`
	ShortTermLoss        Amount `json:"short_term_loss"`
	LongTermLoss         Amount `json:"long_term_loss"`
	// DisallowedLoss is what wash sales would take.
	DisallowedLoss Amount `json:"disallowed_loss"`
	// DisallowedForGood is the part of it that purchases in retirement accounts would take.
	DisallowedForGood Amount             `json:"disallowed_for_good"`
	CandidateCount    int                `json:"candidate_count"`
	Candidates        []HarvestCandidate `json:"candidates"`
	// DataCoveragePct is positions with lots / positions by count, ValueCoveragePct by value; the latter is nil where values
	// are not known.
	DataCoveragePct  brief.Number      `json:"data_coverage_pct"`
	ValueCoveragePct *brief.Number     `json:"value_coverage_pct"`
	WashSaleWarnings []WashSaleWarning `json:"wash_sale_warnings"`
	DoNotBuyBefore   []DoNotBuy        `json:"do_not_buy_before"`
	// AlreadyClosed is what must not be bought now, because of losses of the last 30 days.
	AlreadyClosed []DoNotBuy `json:"do_not_buy_now"`
	// Net is the year's net with the candidates sold; nil means that nothing else was realized.
	Net               *NetPosition       `json:"net_position"`
	RealizedWashSales []RealizedWashSale `json:"realized_wash_sales"`
	// PermanentlyDisallowed is the part of the realized wash sales that is lost for good.
	PermanentlyDisallowed Amount           `json:"permanently_disallowed"`
	IncompleteHistory     []IncompleteSale `json:"incomplete_history"`
	// StalePrices are the tickers whose last price is old.
	StalePrices []StalePrice `json:"stale_prices"`
	// NotUnderstood are records of brokers' files that move shares and gave no row.
	NotUnderstood []SkippedRecord `json:"records_not_understood"`
	// PossibleDuplicates are rows of two kinds of files that look like one transaction.
	PossibleDuplicates []TwinRows      `json:"possible_duplicates"`
	Metadata           HarvestMetadata `json:"metadata"`
	// Disclaimer is written into every result, whatever it is here.
	Disclaimer string `json:"disclaimer"`
}

// HarvestMetadata is what the answer is based on.
type HarvestMetadata struct {
	AsOf                 string `json:"as_of,omitempty"`
	PositionsAnalyzed    int    `json:"positions_analyzed"`
	PositionsWithLots    int    `json:"positions_with_lots"`
	SortBy               string `json:"sort_by,omitempty"`
	Account              string `json:"account,omitempty"`
	Source               string `json:"source,omitempty"`
	IncludeWashSaleCheck bool   `json:"include_wash_sale_check"`
	// WashSalesNotChecked is the opposite, so that the zero value is the usual case.
	WashSalesNotChecked bool   `json:"-"`
	MinLoss             Amount `json:"min_loss"`
	// BelowMinLossCount is how many lots at a loss are no candidates because of MinLoss.
	BelowMinLossCount int `json:"below_min_loss_count"`
	// DuplicatesLeftOut is how many rows stood in an earlier file already.
	DuplicatesLeftOut int `json:"duplicates_left_out"`
}

// HarvestCandidate is one lot at a loss.
type HarvestCandidate struct {
	Ticker            string       `json:"ticker"`
	AccountID         string       `json:"account_id,omitempty"`
	LotID             string       `json:"lot_id,omitempty"`
	LotDate           string       `json:"lot_date,omitempty"`
	HoldingStart      string       `json:"holding_start,omitempty"`
	Shares            Amount       `json:"shares"`
	BasisTotal        Amount       `json:"basis_total"`
	Price             Amount       `json:"price"`
	MarketValue       Amount       `json:"market_value"`
	UnrealizedLoss    Amount       `json:"unrealized_loss"`
	LossPct           brief.Number `json:"loss_pct"`
	DaysHeld          int          `json:"days_held"`
	HoldingPeriod     string       `json:"holding_period"`
	LongTermFrom      string       `json:"long_term_from,omitempty"`
	WashSaleRisk      bool         `json:"wash_sale_risk"`
	DisallowedShares  Amount       `json:"disallowed_shares"`
	DisallowedLoss    Amount       `json:"disallowed_loss"`
	PermanentLoss     Amount       `json:"permanent_loss"`
	AllowedLoss       Amount       `json:"allowed_loss"`
	WashSalePurchases []Purchase   `json:"wash_sale_purchases,omitempty"`
	// CleanDate is the first day on which selling the lot causes no wash sale.
	CleanDate string `json:"clean_date,omitempty"`
}

// Purchase is a purchase that causes a wash sale.
type Purchase struct {
	Date    string `json:"date"`
	Account string `json:"account"`
	Ticker  string `json:"ticker"`
	Shares  Amount `json:"shares"`
}

// WashSaleWarning says that selling a ticker's candidates would be a wash sale.
type WashSaleWarning struct {
	Ticker           string     `json:"ticker"`
	DisallowedShares Amount     `json:"disallowed_shares"`
	DisallowedLoss   Amount     `json:"disallowed_loss"`
	CleanDate        string     `json:"clean_date,omitempty"`
	Purchases        []Purchase `json:"purchases,omitempty"`
}

// DoNotBuy says until when a ticker and what is substantially identical must not be bought after the sale.
type DoNotBuy struct {
	Ticker    string   `json:"ticker"`
	Identical []string `json:"identical,omitempty"`
	// Date is the first day on which buying is clean again.
	Date string `json:"date"`
}

// RealizedWashSale is a sale at a loss already made, some of whose loss is disallowed.
type RealizedWashSale struct {
	SaleDate         string     `json:"sale_date"`
	Account          string     `json:"account"`
	Ticker           string     `json:"ticker"`
	Shares           Amount     `json:"shares"`
	Loss             Amount     `json:"loss"`
	DisallowedShares Amount     `json:"disallowed_shares"`
	DisallowedLoss   Amount     `json:"disallowed_loss"`
	PermanentLoss    Amount     `json:"permanent_loss"`
	Replacements     []Purchase `json:"replacements"`
}

// IncompleteSale is a row that needs shares whose purchase is not in the data: a sale, or shares that came without
// date and basis.
type IncompleteSale struct {
	Date    string `json:"date"`
	Account string `json:"account"`
	Ticker  string `json:"ticker"`
	Shares  Amount `json:"shares"`
	Why     string `json:"why,omitempty"`
}

// StalePrice is a price from days ago.
type StalePrice struct {
	Ticker string `json:"ticker"`
	Date   string `json:"date"`
	Days   int    `json:"days"`
}

// SkippedRecord is a record of a file that gave no row.
type SkippedRecord struct {
	File string `json:"file"`
	Line int    `json:"line"`
	Why  string `json:"why"`
}

// TwinRows are two rows, as file:line.
type TwinRows struct {
	First  string `json:"first"`
	Second string `json:"second"`
}

// MarshalJSON writes empty lists as [] and always the disclaimer.
func (r HarvestResult) MarshalJSON() ([]byte, error) {
	type plain HarvestResult // without this method
	r.Candidates, r.WashSaleWarnings, r.DoNotBuyBefore = list(r.Candidates), list(r.WashSaleWarnings), list(r.DoNotBuyBefore)
	r.AlreadyClosed = list(r.AlreadyClosed)
	r.RealizedWashSales, r.IncompleteHistory = list(r.RealizedWashSales), list(r.IncompleteHistory)
	r.StalePrices, r.NotUnderstood, r.PossibleDuplicates = list(r.StalePrices), list(r.NotUnderstood), list(r.PossibleDuplicates)
	r.Disclaimer = Disclaimer
	return encode(plain(r))
}

// MarshalJSON writes no replacements as [].
func (w RealizedWashSale) MarshalJSON() ([]byte, error) {
	type plain RealizedWashSale // without this method
	w.Replacements = list(w.Replacements)
	return encode(plain(w))
}

// Lot is one open lot. The basis is after adjustments.
type Lot struct {
	Account         string `json:"account"`
	Ticker          string `json:"ticker"`
	LotDate         string `json:"lot_date"`
	HoldingStart    string `json:"holding_start"`
	Quantity        Amount `json:"quantity"`
	BasisTotal      Amount `json:"basis_total"`
	BasisAdjustment Amount `json:"basis_adjustment"`
	LotID           string `json:"lot_id"`
}
