package answer

import (
	"cmp"
	"fmt"

	"signalbox/brief"
	"signalbox/internal/text"
)

// ExitResult is the full result of check_exit_signals.
type ExitResult struct {
	// Status is "success" if the question could be answered; every other value is a failure.
	Status string `json:"status"`
	Ticker string `json:"ticker"`
	Error  string `json:"error,omitempty"`
	Problem
	AsOf string `json:"as_of,omitempty"`
	// OverallAssessment begins with ERROR, STRONG EXIT, EXIT, MONITOR or HOLD.
	OverallAssessment  string       `json:"overall_assessment"`
	Signals            []ExitSignal `json:"signals"`
	TradeEligible      bool         `json:"trade_eligible"`
	RecommendedActions []ExitAction `json:"recommended_actions"`
	Position           ExitPosition `json:"position"`
	// Sizing is null unless a trade is recommended.
	Sizing *ExitSizing `json:"sizing"`
	// Sale is what the recommended sale does to taxes; nil if there is none, or if SaleUnknown says
	// why it is not known.
	Sale        *SaleOutcome `json:"sale,omitempty"`
	SaleUnknown string       `json:"sale_unknown,omitempty"`

	Price     *Amount `json:"price"`
	PriceDate string  `json:"price_date,omitempty"`
	// StopAboveMarket is true if a configured stop was not placed because it is not below the
	// price.
	StopAboveMarket bool `json:"stop_above_market"`
	// StopNote is the reason why a configured stop is not among the actions.
	StopNote string `json:"stop_note,omitempty"`
	// StalePriceDays is the age of the price in days if it is too old to trade on, and 0 otherwise.
	StalePriceDays int `json:"stale_price_days,omitempty"`
	// IncompleteHistory is true if the number of shares may be wrong because transactions are
	// missing.
	IncompleteHistory bool `json:"incomplete_history,omitempty"`
	// IncompleteRecord is the first row that needs shares which no row acquired, as file:line and
	// the reason.
	IncompleteRecord string `json:"incomplete_record,omitempty"`
	// Option is true if the position is an option: shares are contracts, and prices are per
	// contract.
	Option bool `json:"option,omitempty"`
	// OptionPrices has the option if its price and purchase seem to have different units.
	OptionPrices []OptionPrice `json:"option_prices,omitempty"`
}

// ExitSignal is the result of one rule.
type ExitSignal struct {
	RuleName  string `json:"rule_name"`
	Triggered bool   `json:"triggered"`
	// Severity is between 0 and 1; nil if it is not known.
	Severity  *brief.Number `json:"severity"`
	IsPrimary bool          `json:"is_primary"`
	// Status is "ok" or "error".
	Status    string        `json:"status"`
	Error     string        `json:"error,omitempty"`
	Month     string        `json:"month,omitempty"`
	Return    *brief.Number `json:"return"`
	Mean      *brief.Number `json:"mean"`
	Deviation *brief.Number `json:"deviation"`
	Gap       *brief.Number `json:"gap"`
	// TriggerClose is the close of Month below which the rule triggers; nil for rules that are not
	// about the close of the ticker.
	TriggerClose *brief.Number `json:"trigger_close,omitempty"`
	Months       []ExitMonth   `json:"months,omitempty"`
}

// ExitMonth is a monthly return that a rule used.
type ExitMonth struct {
	Month  string       `json:"month"`
	Return brief.Number `json:"return"`
}

// ExitPosition is the position that the answer is about.
type ExitPosition struct {
	AccountID string `json:"account_id,omitempty"`
	Shares    Amount `json:"shares"`
	Held      Amount `json:"held"`
}

// ExitSizing is the quantity to sell, and how it was computed.
type ExitSizing struct {
	GapPP        brief.Number `json:"gap_pp"`
	ThresholdPP  brief.Number `json:"threshold_pp"`
	Fraction     Amount       `json:"fraction"`
	SellQuantity Amount       `json:"sell_quantity"`
	Remaining    Amount       `json:"remaining"`
	// Note says why the quantity is not a usual one.
	Note string `json:"note,omitempty"`
}

// ExitAction is an order to place.
type ExitAction struct {
	Step        int     `json:"step,omitempty"`
	Action      string  `json:"action"`
	Ticker      string  `json:"ticker"`
	AccountID   string  `json:"account_id,omitempty"`
	Quantity    Amount  `json:"quantity"`
	OrderType   string  `json:"order_type"`
	StopPrice   *Amount `json:"stop_price,omitempty"`
	TimeInForce string  `json:"time_in_force,omitempty"`
}

// MarshalJSON writes empty lists as [].
func (r ExitResult) MarshalJSON() ([]byte, error) {
	type plain ExitResult // without this method
	changeLists(&r, notNil)
	return brief.Encode(plain(r))
}

// ExitSnapshot is the part of a result that is needed to decide about a position.
type ExitSnapshot struct {
	Ticker             string          `json:"ticker"`
	Status             string          `json:"status"`
	Verdict            string          `json:"verdict"`
	OverallAssessment  string          `json:"overall_assessment"`
	SignalCount        int             `json:"signal_count"`
	Signals            []SignalSummary `json:"signals"`
	TradeEligible      bool            `json:"trade_eligible"`
	RecommendedActions []ActionSummary `json:"recommended_actions"`
	Shares             Amount          `json:"shares"`
	SellQuantity       Amount          `json:"sell_quantity"`
	// ErroredRules are the failed rules among all signals, including those that Signals omits.
	ErroredRules    []string `json:"errored_rules"`
	StopAboveMarket bool     `json:"stop_above_market"`
	StopNote        string   `json:"stop_note"`
	AsOf            string   `json:"as_of"`
	PriceDate       string   `json:"price_date"`
	// StalePriceDays and IncompleteHistory are the same as in the result.
	StalePriceDays    int    `json:"stale_price_days"`
	IncompleteHistory bool   `json:"incomplete_history"`
	IncompleteRecord  string `json:"incomplete_record"`
	// OptionPrice describes an option whose price and purchase seem to have different units.
	OptionPrice string `json:"option_price"`
	// SizeNote says why the quantity is not a usual one.
	SizeNote string `json:"size_note"`
	// Sale describes what the recommended sale realizes, and SaleUnknown says why that is not known.
	Sale        string `json:"sale"`
	SaleUnknown string `json:"sale_unknown"`
	ErrorKind   string `json:"error_kind"`
	ErrorHint   string `json:"error_hint"`
}

// SignalSummary is a signal without its numbers.
type SignalSummary struct {
	RuleName  string  `json:"rule_name"`
	Triggered bool    `json:"triggered"`
	Severity  float64 `json:"severity"`
	IsPrimary bool    `json:"is_primary"`
	Status    string  `json:"status"`
}

// ActionSummary is an order without its details.
type ActionSummary struct {
	Action    string `json:"action"`
	Ticker    string `json:"ticker"`
	Quantity  Amount `json:"quantity"`
	OrderType string `json:"order_type"`
}

// Lengths of the lists in a snapshot.
const (
	maxSignals      = 5
	maxActions      = 3
	maxErroredRules = 10
)

// SnapshotExit returns the snapshot of a result. The snapshot of a failed result has the shares and
// the failed rules as far as they are known, and no recommendation.
func SnapshotExit(r ExitResult) (s ExitSnapshot) {
	defer func() { changeLists(&s, notNil) }()
	s = ExitSnapshot{
		Ticker: cmp.Or(r.Ticker, "unknown"), Status: cmp.Or(r.Status, string(brief.StatusError)),
		OverallAssessment: cmp.Or(r.OverallAssessment, "UNKNOWN"),
		ErroredRules:      erroredRules(r.Signals),
		Shares:            r.Position.Shares, AsOf: r.AsOf, PriceDate: r.PriceDate,
	}
	if s.Status != string(brief.StatusSuccess) {
		s.Verdict = "Exit signal check failed for " + s.Ticker + ": " +
			cmp.Or(r.Error, "unknown error")
		s.ErrorKind, s.ErrorHint = r.ErrorKind, r.ErrorHint
		return s
	}
	s.StalePriceDays, s.IncompleteHistory, s.IncompleteRecord = r.StalePriceDays,
		r.IncompleteHistory, text.Shorten(r.IncompleteRecord, maxNote)
	if len(r.OptionPrices) > 0 {
		p := r.OptionPrices[0]
		s.OptionPrice = fmt.Sprintf("%s at %s, bought at %s", p.Ticker, p.Price, p.PurchasePrice)
	}
	s.SignalCount = len(r.Signals)
	for _, signal := range first(r.Signals, maxSignals) {
		s.Signals = append(s.Signals, SignalSummary{
			RuleName: cmp.Or(signal.RuleName, "unknown"), Triggered: signal.Triggered,
			Severity:  Round(finite(signal.Severity), 4),
			IsPrimary: signal.IsPrimary, Status: cmp.Or(signal.Status, "ok"),
		})
	}
	s.TradeEligible = r.TradeEligible
	for _, action := range first(r.RecommendedActions, maxActions) {
		s.RecommendedActions = append(s.RecommendedActions, ActionSummary{
			Action: cmp.Or(action.Action, "unknown"), Ticker: cmp.Or(action.Ticker, s.Ticker),
			Quantity:  action.Quantity,
			OrderType: cmp.Or(action.OrderType, "unknown"),
		})
	}
	if r.Sizing != nil {
		s.SellQuantity, s.SizeNote = r.Sizing.SellQuantity, r.Sizing.Note
	}
	if r.Sale != nil {
		s.Sale = fmt.Sprintf("Selling %s %s %s", s.SellQuantity, s.Ticker, r.Sale)
	}
	s.SaleUnknown = text.Shorten(r.SaleUnknown, maxNote)
	s.StopAboveMarket, s.StopNote = r.StopAboveMarket, r.StopNote
	s.Verdict = s.Ticker + ": " + s.OverallAssessment
	if r.TradeEligible && len(r.RecommendedActions) > 0 {
		s.Verdict += " — sell " + s.SellQuantity.String() + " of " + s.Shares.String() + " " +
			unit(r.Option)
	}
	return s
}

// unit returns what a position is counted in.
func unit(option bool) string {
	if option {
		return "contracts"
	}
	return "shares"
}

func erroredRules(signals []ExitSignal) (names []string) {
	for _, signal := range signals {
		if signal.Status == "error" && len(names) < maxErroredRules {
			names = append(names, cmp.Or(signal.RuleName, "unknown"))
		}
	}
	return names
}

func finite(n *brief.Number) float64 {
	if n == nil {
		return 0
	}
	return brief.Finite(float64(*n), 0)
}
