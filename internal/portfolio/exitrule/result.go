package exitrule

import (
	"time"

	"github.com/govalues/decimal"
)

// Status tells an answer from a failure, of the whole or of one rule.
type Status string

// StatusSuccess is the whole's, StatusOK a rule's; both fail with StatusError.
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

// Failure says why a question cannot be answered.
type Failure string

// The failures.
const (
	BadShares     Failure = "bad_shares"     // the number of shares asked about makes no sense
	NotHeld       Failure = "not_held"       // nobody, or not the account that was named, holds the ticker
	AccountNeeded Failure = "account_needed" // several accounts hold it
	Short         Failure = "short"          // the position is short
	BadConfig     Failure = "bad_config"     // the exit rules make no sense
	NoPrice       Failure = "no_price"       // there is no price at all
	NotComputable Failure = "not_computable" // numbers beyond what decimals hold
)

// Result is the verdict about one position.
type Result struct {
	Ticker string
	// AsOf is the day of the question at midnight UTC; zero if there was none and no price either.
	AsOf time.Time
	// Status is StatusError if the question itself cannot be answered: no position or no single one, a short one,
	// or a wrong configuration. Then Error says why and only Ticker, AsOf and Position may be set. A failed rule is
	// no such error, not even the primary.
	Status Status
	Error  string
	// Failure is what kind of error it is; empty if there is none.
	Failure Failure
	// Overall begins with ERROR, STRONG EXIT, EXIT, MONITOR or HOLD.
	Overall string
	// Signals has the primary first, then the others in the order of the configuration.
	Signals []Signal
	// TradeEligible is true if the primary was evaluated and triggered.
	TradeEligible bool
	Position      Position
	// Sizing is nil unless TradeEligible.
	Sizing  *SizingResult
	Actions []Action
	// Price is the ticker's latest plain close up to AsOf, PriceDate its day at midnight UTC; zero if there is none.
	Price     decimal.Decimal
	PriceDate time.Time
	// StopAboveMarket is true if a stop was due and not placed because its price is not below Price.
	StopAboveMarket bool
	// StopNote says why a stop that was due is not among the actions.
	StopNote string
}

// Signal is what one rule says.
type Signal struct {
	Rule      string
	Primary   bool
	Status    Status
	Error     string
	Triggered bool
	// Severity is between 0 and 1, and 0 unless triggered.
	Severity float64
	// Month is the last complete month, as 2024-05.
	Month string
	// Return is the last month's return for momentum_exit, the compounded return of the basket for regime_check.
	// Returns are fractions: 0.05 is 5 %.
	Return float64
	// Mean and Deviation are of the months before the last one, and 0 for regime_check.
	Mean      float64
	Deviation float64
	// Gap is how far Return lies from the value below which the rule triggers: the mean, or 0 for regime_check.
	Gap float64
	// Months are the returns that went in, oldest first; the basket's mean returns for regime_check.
	Months []MonthReturn
}

// MonthReturn is the return of one month.
type MonthReturn struct {
	Month  string
	Return float64
}

// Position is what the verdict is about.
type Position struct {
	AccountID string
	// Shares is what the question is about: the whole position, or the part that was asked for.
	Shares decimal.Decimal
	// Held is what the account holds; 0 if the position is not in the data.
	Held decimal.Decimal
}

// SizingResult says how much to sell, and why so much.
type SizingResult struct {
	GapPP       float64
	ThresholdPP float64
	// Fraction is the part that was aimed at; whole shares and the least of one share move the quantity off it.
	Fraction     decimal.Decimal
	SellQuantity decimal.Decimal
	Remaining    decimal.Decimal
}

// Action is one order to give, in the order of Step.
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
