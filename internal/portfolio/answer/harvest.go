package answer

import "signalbox/brief"

// Disclaimer is part of every answer about taxes.
const Disclaimer = "Estimates under US federal rules; not tax advice"

// HarvestResult is the full result of suggest_tax_loss_harvest. Totals are for selling all
// candidates together; the amounts of a candidate are for selling that lot alone.
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
	// DisallowedForGood is the part of it that would be lost permanently because of purchases in
	// retirement accounts.
	DisallowedForGood Amount             `json:"disallowed_for_good"`
	CandidateCount    int                `json:"candidate_count"`
	Candidates        []HarvestCandidate `json:"candidates"`
	// DataCoveragePct is the percentage, by value, of what is held whose lots are known. Without
	// some of the prices it is the percentage by number of positions, if that is lower.
	// ValueCoveragePct is the percentage by value alone, nil if values are not known.
	DataCoveragePct  brief.Number      `json:"data_coverage_pct"`
	ValueCoveragePct *brief.Number     `json:"value_coverage_pct"`
	WashSaleWarnings []WashSaleWarning `json:"wash_sale_warnings"`
	DoNotBuyBefore   []DoNotBuy        `json:"do_not_buy_before"`
	// DoNotBuyNow lists what must not be bought now because of losses realized in the last 30 days.
	DoNotBuyNow []DoNotBuy `json:"do_not_buy_now"`
	// Net is the net of the year if the candidates are sold; nil means that nothing else was
	// realized.
	Net               *NetPosition       `json:"net_position"`
	RealizedWashSales []RealizedWashSale `json:"realized_wash_sales"`
	// PermanentlyDisallowed is the part of the realized wash sales that is lost permanently.
	PermanentlyDisallowed Amount           `json:"permanently_disallowed"`
	IncompleteHistory     []IncompleteSale `json:"incomplete_history"`
	// OrderUnknown lists sales that took shares bought on the same day, although the records do
	// not show which came first, and other lots were held.
	OrderUnknown []IncompleteSale `json:"order_unknown"`
	// LaterPurchases are purchases after the day of the question that make wash sales of sales up
	// to it or of the candidates. LaterDisallowed is what they disallow of the year's losses; Net
	// counts it.
	LaterPurchases  []LaterPurchase `json:"later_purchases"`
	LaterDisallowed Amount          `json:"later_disallowed"`
	// Section1256 and AverageCost are held tickers that are never candidates: contracts under
	// section 1256, and funds that brokers keep at average cost.
	Section1256 []string `json:"section_1256"`
	AverageCost []string `json:"average_cost"`
	// SpouseAccounts are taxable accounts that are left out, because you file separately.
	SpouseAccounts []string `json:"spouse_accounts"`
	// ExpectedReinvestments are the next reinvestments of what is held in any account.
	ExpectedReinvestments []ExpectedReinvestment `json:"expected_reinvestments"`
	// StalePrices lists the tickers whose last price is old.
	StalePrices []StalePrice `json:"stale_prices"`
	// NotUnderstood lists skipped records of brokers' files that moved shares.
	NotUnderstood []SkippedRecord `json:"records_not_understood"`
	// LeftOut lists records that moved shares and were left out of an import.
	LeftOut []SkippedRecord `json:"records_left_out"`
	// NotReached lists lots at a loss that are not candidates, because a sale by the account's
	// method would sell lots at a gain first.
	NotReached []UnreachedLot `json:"lots_not_reached"`
	// LotsMissing lists positions with more shares than lots; LotsNotHeld those whose lots have
	// more shares than are held. The lots of the latter are not candidates, because the records do
	// not show which were sold.
	LotsMissing []PositionDifference `json:"lots_missing"`
	LotsNotHeld []PositionDifference `json:"lots_not_held"`
	// OptionPrices lists options whose price and purchase seem to have different units.
	OptionPrices []OptionPrice `json:"option_prices"`
	// Crypto lists the tickers that are held or were sold to which wash-sale rules do not apply.
	Crypto []string `json:"crypto"`
	// PossibleDuplicates lists rows of two formats that look like the same transaction.
	PossibleDuplicates []TwinRows      `json:"possible_duplicates"`
	Metadata           HarvestMetadata `json:"metadata"`
	// Disclaimer is ignored: MarshalJSON always writes the constant.
	Disclaimer string `json:"disclaimer"`
}

// HarvestMetadata describes the question and the data of a result.
type HarvestMetadata struct {
	AsOf              string `json:"as_of,omitempty"`
	PositionsAnalyzed int    `json:"positions_analyzed"`
	PositionsWithLots int    `json:"positions_with_lots"`
	// PositionsFrom is where the positions come from: the name of a file, or transactions.
	PositionsFrom        string `json:"positions_from,omitempty"`
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
	// LotMethod is which lots a sale sells first. PlainSale is a sale that identifies no lot: of
	// this lot and those that the method sells before it or, if IdentifyLot is true, of as many
	// shares.
	LotMethod   string     `json:"lot_method,omitempty"`
	IdentifyLot bool       `json:"identify_lot"`
	PlainSale   *PlainSale `json:"plain_sale,omitempty"`
	// Advice explains how to sell the lot, if it must be identified to the broker.
	Advice string `json:"advice,omitempty"`
	// PricePer is the unit of Price and Shares: share or contract.
	PricePer string `json:"price_per,omitempty"`
	// WashSaleRules says why wash-sale rules do not apply; it is empty if they do.
	WashSaleRules string `json:"wash_sale_rules,omitempty"`
}

// PlainSale is what a sale realizes if no lot is identified to the broker.
type PlainSale struct {
	Shares Amount `json:"shares"`
	// Gain is negative for a loss, and null if it is not known, because shares without a known
	// purchase may be sold.
	Gain *Amount `json:"gain"`
}

// UnreachedLot is a lot at a loss that a sale by the account's method would not sell first.
type UnreachedLot struct {
	Ticker         string     `json:"ticker"`
	AccountID      string     `json:"account_id"`
	LotID          string     `json:"lot_id"`
	LotDate        string     `json:"lot_date"`
	Shares         Amount     `json:"shares"`
	UnrealizedLoss Amount     `json:"unrealized_loss"`
	LotMethod      string     `json:"lot_method"`
	PlainSale      *PlainSale `json:"plain_sale"`
	Advice         string     `json:"advice"`
}

// PositionDifference is a position whose lots and shares held differ.
type PositionDifference struct {
	Ticker    string `json:"ticker"`
	AccountID string `json:"account_id"`
	Held      Amount `json:"held"`
	// Lots is the number of shares that the lots have.
	Lots Amount `json:"lots"`
	// Records are the rows that need shares which no row acquired, as file:line and the reason.
	Records []string `json:"records,omitempty"`
}

// OptionPrice is an option whose price and purchase differ by a factor near 100.
type OptionPrice struct {
	Ticker        string `json:"ticker"`
	Price         Amount `json:"price"`
	PurchasePrice Amount `json:"purchase_price"`
	LotID         string `json:"lot_id"`
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

// DoNotBuy is a ticker that must not be bought before a date, and neither must substantially
// identical securities.
type DoNotBuy struct {
	Ticker    string   `json:"ticker"`
	Identical []string `json:"identical,omitempty"`
	// Date is the first day on which buying does not cause a wash sale.
	Date string `json:"date"`
	// LastLoss is the day of the last sale at a loss; empty for a sale that is only suggested.
	LastLoss string `json:"last_loss,omitempty"`
	// Replacements are what the user's list offers to buy instead until then.
	Replacements []string `json:"replacements,omitempty"`
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

// IncompleteSale is a row with shares whose purchase is not known: a sale, or a transfer into the
// portfolio without date and basis.
type IncompleteSale struct {
	Date    string `json:"date"`
	Account string `json:"account"`
	Ticker  string `json:"ticker"`
	Shares  Amount `json:"shares"`
	Why     string `json:"why,omitempty"`
	// LotID is the lot that the row names.
	LotID string `json:"lot_id,omitempty"`
	// Record is the row, as file:line.
	Record string `json:"record,omitempty"`
}

// LaterPurchase is a purchase after the day of the question.
type LaterPurchase struct {
	Purchase
	// Record is the row, as file:line.
	Record string `json:"record"`
}

// ExpectedReinvestment is when a position will probably be reinvested, by its last reinvestments.
type ExpectedReinvestment struct {
	Ticker    string `json:"ticker"`
	AccountID string `json:"account_id"`
	Last      string `json:"last"`
	Next      string `json:"next"`
	// Restricted is set if it would make a wash sale: of the candidates, once they are sold, or of
	// past losses.
	Restricted bool `json:"restricted"`
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
	// Tickers are those of the portfolio that the record names. Their lots are not known.
	Tickers []string `json:"tickers,omitempty"`
}

// TwinRows is a pair of rows, as file:line.
type TwinRows struct {
	First  string `json:"first"`
	Second string `json:"second"`
}

// MarshalJSON writes empty lists as [], and always the disclaimer.
func (r HarvestResult) MarshalJSON() ([]byte, error) {
	type plain HarvestResult // without this method
	changeLists(&r, notNil)
	r.Disclaimer = Disclaimer
	return brief.Encode(plain(r))
}

// MarshalJSON writes an empty list of replacements as [].
func (w RealizedWashSale) MarshalJSON() ([]byte, error) {
	type plain RealizedWashSale // without this method
	changeLists(&w, notNil)
	return brief.Encode(plain(w))
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
	// LongTermFrom is the first day on which a sale is long-term.
	LongTermFrom string `json:"long_term_from"`
	// Price is the last price, and Gain what a sale at this price gains, negative for a loss. They
	// are left out if there is no price.
	Price *Amount `json:"price,omitempty"`
	Gain  *Amount `json:"gain,omitempty"`
	// NotHeld is true if the lots of the position have more shares than are held, so some of these
	// shares were sold.
	NotHeld bool `json:"not_held,omitempty"`
}
