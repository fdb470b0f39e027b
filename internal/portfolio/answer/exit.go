package answer

import (
	"encoding/json"

	"signalbox/brief"
)

// ExitResult is all that check_exit_signals knows.
type ExitResult struct {
	// Status is "success" if the question could be answered; every other text is a failure.
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
	// Sizing is null unless a trade is due.
	Sizing    *ExitSizing `json:"sizing"`
	Price     *Amount     `json:"price"`
	PriceDate string      `json:"price_date,omitempty"`
	// StopAboveMarket is true if a stop was due and not placed, because it is not below the price.
	StopAboveMarket bool `json:"stop_above_market"`
	// StopNote says why a stop that was due is not among the actions.
	StopNote string `json:"stop_note,omitempty"`
	// StalePriceDays is how old the price is in days, if that is too old to trade on.
	StalePriceDays int `json:"stale_price_days,omitempty"`
	// IncompleteHistory says that the number of shares held may be wrong, because transactions are missing.
	IncompleteHistory bool `json:"incomplete_history,omitempty"`
}

// ExitSignal is what one rule says.
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
	Months    []ExitMonth   `json:"months,omitempty"`
}

// ExitMonth is one monthly return that a rule looked at.
type ExitMonth struct {
	Month  string       `json:"month"`
	Return brief.Number `json:"return"`
}

// ExitPosition is what the answer is about.
type ExitPosition struct {
	AccountID string `json:"account_id,omitempty"`
	Shares    Amount `json:"shares"`
	Held      Amount `json:"held"`
}

// ExitSizing says how much to sell.
type ExitSizing struct {
	GapPP        brief.Number `json:"gap_pp"`
	ThresholdPP  brief.Number `json:"threshold_pp"`
	Fraction     Amount       `json:"fraction"`
	SellQuantity Amount       `json:"sell_quantity"`
	Remaining    Amount       `json:"remaining"`
}

// ExitAction is one order to give.
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
	r.Signals, r.RecommendedActions = list(r.Signals), list(r.RecommendedActions)
	return encode(plain(r))
}

func encode(value any) (json.RawMessage, error) { return brief.Encode(value) }

// ExitSnapshot is what a decision about a position needs.
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
	// ErroredRules are found over all signals, also those beyond the list above.
	ErroredRules    []string `json:"errored_rules"`
	StopAboveMarket bool     `json:"stop_above_market"`
	StopNote        string   `json:"stop_note"`
	AsOf            string   `json:"as_of"`
	PriceDate       string   `json:"price_date"`
	// StalePriceDays and IncompleteHistory are as in the result.
	StalePriceDays    int    `json:"stale_price_days"`
	IncompleteHistory bool   `json:"incomplete_history"`
	ErrorKind         string `json:"error_kind"`
	ErrorHint         string `json:"error_hint"`
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

// SnapshotExit is the snapshot of a result. A failed result keeps the shares and the rules that failed, as far as
// they are known, and recommends nothing.
func SnapshotExit(r ExitResult) ExitSnapshot {
	s := ExitSnapshot{
		Ticker: or(r.Ticker, "unknown"), Status: or(r.Status, string(brief.StatusError)),
		OverallAssessment: or(r.OverallAssessment, "UNKNOWN"),
		Signals:           []SignalSummary{}, RecommendedActions: []ActionSummary{}, ErroredRules: erroredRules(r.Signals),
		Shares: r.Position.Shares, AsOf: r.AsOf, PriceDate: r.PriceDate,
	}
	if s.Status != string(brief.StatusSuccess) {
		s.Verdict = "Exit signal check failed for " + s.Ticker + ": " + or(r.Error, "unknown error")
		s.ErrorKind, s.ErrorHint = r.ErrorKind, r.ErrorHint
		return s
	}
	s.StalePriceDays, s.IncompleteHistory = r.StalePriceDays, r.IncompleteHistory
	s.SignalCount = len(r.Signals)
	for _, signal := range first(r.Signals, maxSignals) {
		s.Signals = append(s.Signals, SignalSummary{
			RuleName: or(signal.RuleName, "unknown"), Triggered: signal.Triggered, Severity: Round(finite(signal.Severity), 4),
			IsPrimary: signal.IsPrimary, Status: or(signal.Status, "ok"),
		})
	}
	s.TradeEligible = r.TradeEligible
	for _, action := range first(r.RecommendedActions, maxActions) {
		s.RecommendedActions = append(s.RecommendedActions, ActionSummary{
			Action: or(action.Action, "unknown"), Ticker: or(action.Ticker, s.Ticker), Quantity: action.Quantity,
			OrderType: or(action.OrderType, "unknown"),
		})
	}
	if r.Sizing != nil {
		s.SellQuantity = r.Sizing.SellQuantity
	}
	s.StopAboveMarket, s.StopNote = r.StopAboveMarket, r.StopNote
	s.Verdict = s.Ticker + ": " + s.OverallAssessment
	if r.TradeEligible && len(r.RecommendedActions) > 0 {
		s.Verdict += " — sell " + s.SellQuantity.String() + " of " + s.Shares.String() + " shares"
	}
	return s
}

func erroredRules(signals []ExitSignal) []string {
	names := []string{}
	for _, signal := range signals {
		if signal.Status == "error" && len(names) < maxErroredRules {
			names = append(names, or(signal.RuleName, "unknown"))
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
