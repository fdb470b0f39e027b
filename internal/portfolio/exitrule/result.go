package exitrule

import (
	"github.com/govalues/decimal"

	"signalbox/internal/portfolio/tax"
)

// Status is the status of a result or of a rule.
type Status string

// A result has StatusSuccess or StatusError, a rule StatusOK or StatusError.
const (
	StatusSuccess Status = "success"
	StatusOK      Status = "ok"
	StatusError   Status = "error"
)

// Kinds of an [Action] and of its order.
const (
	ActionSell      = "SELL"
	ActionPlaceStop = "PLACE_STOP"
	OrderMarket     = "market"
	OrderStop       = "stop"
)

// Failure is the reason why a question cannot be answered.
type Failure string

// The failures.
const (
	BadShares Failure = "bad_shares" // the number of shares is not valid
	// no account, or not the named account, holds the ticker
	NotHeld       Failure = "not_held"
	AccountNeeded Failure = "account_needed" // several accounts hold it
	Short         Failure = "short"          // the position is short
	BadConfig     Failure = "bad_config"     // the exit rules are not valid
	NotComputable Failure = "not_computable" // numbers that do not fit into decimals
)

// Result is the verdict about one position.
type Result struct {
	Ticker string
	AsOf   tax.Date
	// Status is StatusError if the question cannot be answered: there is no position, or several,
	// or a short one, or the configuration is not valid. Then Error is the reason, and only Ticker,
	// AsOf and Position may be set. If only a rule fails, even the primary one, Status is
	// StatusSuccess.
	Status Status
	Error  string
	// Failure is the kind of the error; empty if there is none.
	Failure Failure
	// Overall begins with ERROR, STRONG EXIT, EXIT, MONITOR or HOLD.
	Overall string
	// Signals has the primary rule first, then the others in the order of the configuration.
	Signals []Signal
	// TradeEligible is true if the primary rule was evaluated and triggered.
	TradeEligible bool
	Position      Position
	// Sizing is nil unless TradeEligible.
	Sizing  *SizingResult
	Actions []Action
	// Price is the ticker's latest plain close up to AsOf, PriceDate its day; zero if there is
	// none.
	Price     decimal.Decimal
	PriceDate tax.Date
	// StopAboveMarket is true if a configured stop was not placed because its price is not below
	// Price.
	StopAboveMarket bool
	// StopNote is the reason why a configured stop is not among the actions.
	StopNote string
}

// Signal is the result of one rule.
type Signal struct {
	Rule      string
	Primary   bool
	Status    Status
	Error     string
	Triggered bool
	// Severity is between 0 and 1, and 0 unless triggered.
	Severity float64
	// Month is the last complete month, such as 2024-05.
	Month string
	// Return is the last month's return for momentum_exit, the compounded return of the basket for
	// regime_check. Returns are fractions: 0.05 is 5 %.
	Return float64
	// Mean and Deviation are those of the months before the last one, and 0 for regime_check.
	Mean      float64
	Deviation float64
	// Gap is the difference between Return and the value below which the rule triggers: the mean,
	// or 0 for regime_check.
	Gap float64
	// TriggerClose is the plain close of Month below which momentum_exit triggers; 0 for
	// regime_check.
	TriggerClose float64
	// Months are the returns that were used, oldest first; for regime_check the mean returns of the
	// basket.
	Months []MonthReturn
}

// MonthReturn is the return of one month.
type MonthReturn struct {
	Month  string
	Return float64
}

// Position is the position that the verdict is about.
type Position struct {
	AccountID string
	// Shares is the number of shares in question: the whole position, or the requested part.
	Shares decimal.Decimal
	// Held is the number of shares in the account; 0 if the position is not in the portfolio.
	Held decimal.Decimal
}

// SizingResult is the quantity to sell, and how it was computed.
type SizingResult struct {
	GapPP       float64
	ThresholdPP float64
	// Fraction is the configured fraction. Because of rounding, SellQuantity may differ from it.
	Fraction     decimal.Decimal
	SellQuantity decimal.Decimal
	Remaining    decimal.Decimal
	// Note says why SellQuantity is a fraction of a share, or zero.
	Note string
}

// Action is an order to place. Actions are sorted by Step.
type Action struct {
	Step      int
	Action    string
	Ticker    string
	AccountID string
	Quantity  decimal.Decimal
	OrderType string
	// StopPrice and TimeInForce are set for stop orders only.
	StopPrice   decimal.Decimal
	TimeInForce string
}
