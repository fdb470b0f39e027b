package answer

import "signalbox/brief"

// Disclaimer is part of every answer about taxes.
const Disclaimer = "Estimates under US federal rules; not tax advice"

// HarvestResult is the full result of suggest_tax_loss_harvest. Totals are for selling all candidates together; the amounts
// of a candidate are for selling that lot alone.
type HarvestResult struct {
	// Status is "success" if the question could be answered; every other value is a failure.
	Status string `json:"status"`
	Error  string `json:"error,omitempty"`
	Problem
	// TotalHarvestableLoss and its two parts are allowed losses only.
	TotalHarvestableLoss Amount `json:"total_harvestable_loss"`
	ShortTermLoss        Amount `json:"short_term_loss"`
	LongTermLoss         Amount `json:"long_term_loss"`
	// DisallowedLoss is the loss that wash sales would disallow.
	DisallowedLoss Amount `json:"disallowed_loss"`
	// DisallowedForGood is the part of it that would be lost permanently because of purchases in retirement accounts.
	DisallowedForGood Amount             `json:"disallowed_for_good"`
	CandidateCount    int                `json:"candidate_count"`
	Candidates        []HarvestCandidate `json:"candidates"`
	// DataCoveragePct is the percentage of positions that have lots, by number; ValueCoveragePct is the same by value, nil
	// if values are not known.
	DataCoveragePct  brief.Number      `json:"data_coverage_pct"`
	ValueCoveragePct *brief.Number     `json:"value_coverage_pct"`
	WashSaleWarnings []WashSaleWarning `json:"wash_sale_warnings"`
	DoNotBuyBefore   []DoNotBuy        `json:"do_not_buy_before"`
	// DoNotBuyNow lists what must not be bought now because of losses realized in the last 30 days.
	DoNotBuyNow []DoNotBuy `json:"do_not_buy_now"`
	// Net is the net of the year if the candidates are sold; nil means that nothing else was realized.
	Net               *NetPosition       `json:"net_position"`
	RealizedWashSales []RealizedWashSale `json:"realized_wash_sales"`
	// PermanentlyDisallowed is the part of the realized wash sales that is lost permanently.
	PermanentlyDisallowed Amount           `json:"permanently_disallowed"`
	IncompleteHistory     []IncompleteSale `json:"incomplete_history"`
	// StalePrices lists the tickers whose last price is old.
	StalePrices []StalePrice `json:"stale_prices"`
	// NotUnderstood lists skipped records of brokers' files that moved shares.
	NotUnderstood []SkippedRecord `json:"records_not_understood"`
	// PossibleDuplicates lists rows of two formats that look like the same transaction.
	PossibleDuplicates []TwinRows      `json:"possible_duplicates"`
	Metadata           HarvestMetadata `json:"metadata"`
	// Disclaimer is ignored: MarshalJSON always writes the constant.
	Disclaimer string `json:"disclaimer"`
}

// HarvestMetadata describes the question and the data of a result.
type HarvestMetadata struct {
	AsOf                 string `json:"as_of,omitempty"`
	PositionsAnalyzed    int    `json:"positions_analyzed"`
	PositionsWithLots    int    `json:"positions_with_lots"`
	SortBy               string `json:"sort_by,omitempty"`
	Account              string `json:"account,omitempty"`
	Source               string `json:"source,omitempty"`
	IncludeWashSaleCheck bool   `json:"include_wash_sale_check"`
	// WashSalesNotChecked is the opposite of IncludeWashSaleCheck.
	WashSalesNotChecked bool   `json:"-"`
	MinLoss             Amount `json:"min_loss"`
	// BelowMinLossCount is the number of lots with a loss below MinLoss.
	BelowMinLossCount int `json:"below_min_loss_count"`
	// DuplicatesLeftOut is the number of rows that were dropped because an earlier file has them.
	DuplicatesLeftOut int `json:"duplicates_left_out"`
}

// HarvestCandidate is a lot at a loss.
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
	// CleanDate is the first day on which selling the lot does not cause a wash sale.
	CleanDate string `json:"clean_date,omitempty"`
}

// Purchase is a purchase that causes a wash sale.
type Purchase struct {
	Date    string `json:"date"`
	Account string `json:"account"`
	Ticker  string `json:"ticker"`
	Shares  Amount `json:"shares"`
}

// WashSaleWarning warns that selling the candidates of a ticker would be a wash sale.
type WashSaleWarning struct {
	Ticker           string     `json:"ticker"`
	DisallowedShares Amount     `json:"disallowed_shares"`
	DisallowedLoss   Amount     `json:"disallowed_loss"`
	CleanDate        string     `json:"clean_date,omitempty"`
	Purchases        []Purchase `json:"purchases,omitempty"`
}

// DoNotBuy is a ticker that must not be bought before a date, and neither must substantially identical securities.
type DoNotBuy struct {
	Ticker    string   `json:"ticker"`
	Identical []string `json:"identical,omitempty"`
	// Date is the first day on which buying does not cause a wash sale.
	Date string `json:"date"`
}

// RealizedWashSale is a past sale whose loss is at least partly disallowed.
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

// IncompleteSale is a row with shares whose purchase is not known: a sale, or a transfer into the portfolio without date and
// basis.
type IncompleteSale struct {
	Date    string `json:"date"`
	Account string `json:"account"`
	Ticker  string `json:"ticker"`
	Shares  Amount `json:"shares"`
	Why     string `json:"why,omitempty"`
}

// StalePrice is the age of an old price.
type StalePrice struct {
	Ticker string `json:"ticker"`
	Date   string `json:"date"`
	Days   int    `json:"days"`
}

// SkippedRecord is a record of a file that was not imported.
type SkippedRecord struct {
	File string `json:"file"`
	Line int    `json:"line"`
	Why  string `json:"why"`
}

// TwinRows is a pair of rows, as file:line.
type TwinRows struct {
	First  string `json:"first"`
	Second string `json:"second"`
}

// MarshalJSON writes empty lists as [], and always the disclaimer.
func (r HarvestResult) MarshalJSON() ([]byte, error) {
	type plain HarvestResult // without this method
	r.Candidates, r.WashSaleWarnings, r.DoNotBuyBefore = list(r.Candidates), list(r.WashSaleWarnings), list(r.DoNotBuyBefore)
	r.DoNotBuyNow = list(r.DoNotBuyNow)
	r.RealizedWashSales, r.IncompleteHistory = list(r.RealizedWashSales), list(r.IncompleteHistory)
	r.StalePrices, r.NotUnderstood, r.PossibleDuplicates = list(r.StalePrices), list(r.NotUnderstood), list(r.PossibleDuplicates)
	r.Disclaimer = Disclaimer
	return encode(plain(r))
}

// MarshalJSON writes an empty list of replacements as [].
func (w RealizedWashSale) MarshalJSON() ([]byte, error) {
	type plain RealizedWashSale // without this method
	w.Replacements = list(w.Replacements)
	return encode(plain(w))
}

// Lot is an open lot. Its basis includes adjustments.
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
