package tax

import (
	"fmt"

	"github.com/govalues/decimal"
)

// Kind is the tax treatment of an account.
type Kind string

// The kinds. All but Taxable are retirement accounts: their losses do not count, and a loss that is
// replaced in one is permanently disallowed.
const (
	Taxable Kind = "taxable"
	IRA     Kind = "ira"
	Roth    Kind = "roth"
	HSA     Kind = "hsa"
	K401    Kind = "401k"
)

// Owner is the person who owns an account. Wash sales are found across owners.
type Owner string

// The owners.
const (
	Self   Owner = "self"
	Spouse Owner = "spouse"
)

// Method is how a sell chooses lots.
type Method string

// The methods. Specific without a lot id in the row is FIFO, as in the regulations.
const (
	FIFO     Method = "fifo"
	LIFO     Method = "lifo"
	HIFO     Method = "hifo"
	MinTax   Method = "min_tax"
	Specific Method = "specific"
)

// Account is an account of the portfolio.
type Account struct {
	ID     string
	Kind   Kind   // empty means Taxable
	Owner  Owner  // empty means Self
	Method Method // empty means FIFO
}

// Action is what a transaction does.
type Action string

// The actions.
const (
	Buy             Action = "buy"
	Sell            Action = "sell"
	Reinvest        Action = "reinvest"
	Split           Action = "split"
	Transfer        Action = "transfer"
	ReturnOfCapital Action = "return_of_capital"
	Expire          Action = "expire"
	Assign          Action = "assign"
	GiftIn          Action = "gift_in"
	Inherit         Action = "inherit"
	// SpinOff gives shares of NewTicker to those who hold Ticker, and Exchange replaces them.
	SpinOff  Action = "spin_off"
	Exchange Action = "exchange"
	// CashInLieu is cash for a fraction of a share: a sale for Value.
	CashInLieu Action = "cash_in_lieu"
)

// Ratio is the ratio of a split: New shares for each Old. The zero Ratio means that none is known.
// It is two numbers because 1:3 has no exact decimal, and lots must not lose fractions of shares.
type Ratio struct{ New, Old decimal.Decimal }

// IsZero reports whether no ratio is known.
func (r Ratio) IsZero() bool { return r.New.IsZero() && r.Old.IsZero() }

func (r Ratio) known() bool { return r.New.IsPos() && r.Old.IsPos() }

// Decimal returns New / Old, rounded to 19 digits.
func (r Ratio) Decimal() (decimal.Decimal, error) {
	d, err := r.New.Quo(r.Old)
	if err != nil {
		return decimal.Decimal{}, fmt.Errorf("ratio %s: %w", r, err)
	}
	return d.Trim(0), nil
}

// String formats the ratio as in signalbox's own CSV: empty, 4, or 3:2.
func (r Ratio) String() string {
	switch {
	case r.IsZero():
		return ""
	case r.Old.IsOne():
		return r.New.String()
	}
	return r.New.String() + ":" + r.Old.String()
}

// Source is where a transaction was read from, for messages.
type Source struct {
	File string
	Line int
}

// Transaction is one row. All rows have the same currency. Quantity is positive for every action.
type Transaction struct {
	Date Date
	// gift_in: when the donor acquired it; zero means not known, and the holding period starts with
	// the gift
	DonorDate Date
	Action    Action
	// empty for a transfer from outside of the portfolio, and for a split, spin-off or exchange in
	// all accounts
	Account   string
	Ticker    string
	LotID     string // of the new lot; in a sell or transfer, of the lot to take
	ToAccount string // transfer: the receiving account; empty means out of the portfolio
	Quantity  decimal.Decimal
	Price     decimal.Decimal // per share or option contract
	Fees      decimal.Decimal
	Ratio     Ratio // split, spin-off, exchange; a split without a ratio has the shares added
	// DonorBasis is a total. A transfer from outside may have it, with DonorDate: the basis and
	// date at the old broker.
	DonorBasis decimal.Decimal
	// Value is a total: of a return of capital, of a gift on its day, of an inheritance on the day
	// of death, of cash for a fraction. Zero means quantity times price. A spin-off with a value is
	// taxable.
	Value decimal.Decimal
	// NewTicker is what a spin-off or an exchange gives: Ratio of it, or Quantity in the account.
	NewTicker string
	// NewPrice is the value of a share of NewTicker in an exchange that also pays Price in cash for
	// each old share.
	NewPrice decimal.Decimal
	// BasisFraction is the part of the basis that a spin-off moves, as the company publishes it.
	BasisFraction decimal.Decimal
	// Time orders the purchases and sales of a day. Zero means that it is not known.
	Time Clock
	// Lots are the lots that the broker closed with a sell or expire, as the broker reports them.
	// Their quantities add up to Quantity. They take precedence over the method of the account,
	// like LotID; a row has at most one of the two.
	Lots   []ClosedLot
	Source Source

	planned bool   // a sale of Simulate, at the end of the day
	method  Method // of a planned sale; empty means that of the account
}

// ClosedLot is shares of the lot that was opened on a day, at a time if the broker gives one.
type ClosedLot struct {
	Opened   Date
	Time     Clock
	Quantity decimal.Decimal
}

// Rules is the tax configuration of a portfolio.
type Rules struct {
	Accounts []Account
	// Identical is groups of substantially identical tickers. Groups that share a ticker are one
	// group.
	Identical [][]string
	// Crypto is tickers that are property, but not stock or securities: section 1091 does not apply
	// to them.
	Crypto []string
}

// Position is a ticker in an account.
type Position struct{ Account, Ticker string }

// Lot is an open lot, or the part of one that has its own basis.
type Lot struct {
	Account string
	Ticker  string
	// LotDate is the trade date, or the date of a gift or inheritance. HoldingStart is the day
	// after, or earlier if a wash sale or a donor added time.
	LotDate      Date
	HoldingStart Date
	Quantity     decimal.Decimal
	// Basis is the whole basis. It includes BasisAdjustment, the sum of losses that wash sales
	// added.
	Basis           decimal.Decimal
	BasisAdjustment decimal.Decimal
	LotID           string
	// LossBasis is what a loss is counted from: Basis, except for a gift that was worth less than
	// the donor's basis.
	LossBasis decimal.Decimal
	// LossHoldingStart is HoldingStart, except for such a gift: the day after the gift.
	LossHoldingStart Date
	// AlwaysLong reports whether the shares are long-term whatever the dates are: inherited, or
	// replacing such shares.
	AlwaysLong bool
	Taxable    bool

	row    int // the transaction that brought the shares; parts with the same row are one lot
	order  int // of the row among those of its day
	ticker *ticker
	free   bool // purchased, and not a replacement yet
}

// Sale is the disposal of shares of one lot. A row that takes several lots makes several sales.
type Sale struct {
	Account  string
	Ticker   string
	Quantity decimal.Decimal
	Proceeds decimal.Decimal // less fees
	Basis    decimal.Decimal
	// Proceeds less Basis; negative is a loss, before a wash sale disallows it
	Gain decimal.Decimal
	// DisallowedShares and Disallowed are what wash sales disallowed. Permanent is the part of
	// Disallowed that was not added to any basis.
	DisallowedShares decimal.Decimal
	Disallowed       decimal.Decimal
	Permanent        decimal.Decimal
	Date             Date
	LotDate          Date
	HoldingStart     Date
	Row              int // index of the transaction
	LongTerm         bool
	Taxable          bool
	Section1256      bool // a contract, whose gain is 60 percent long-term

	lotRow int // index of the transaction that brought the lot
}

// Replacement is a purchase that replaces shares sold at a loss.
type Replacement struct {
	Date    Date
	Account string
	Ticker  string
	Shares  decimal.Decimal
}

// WashSale is a sell whose loss was disallowed. Shares and Loss are those that the row sold at
// a loss. Amounts are positive.
type WashSale struct {
	SaleDate         Date
	Account          string
	Ticker           string
	Shares           decimal.Decimal
	Loss             decimal.Decimal
	DisallowedShares decimal.Decimal
	DisallowedLoss   decimal.Decimal
	PermanentLoss    decimal.Decimal
	Replacements     []Replacement

	row int
}

// Gap is a row, or the part of a row, whose shares have no purchase.
type Gap struct {
	Date     Date
	Account  string
	Ticker   string
	Quantity decimal.Decimal
	Why      string
	Row      int // index of the transaction
}

// Book is the state at the end of a day.
type Book struct {
	AsOf Date
	// Lots is in the order of accounts as configured, then of tickers, then of dates.
	Lots []Lot
	// Sales is by date within each group of tickers. A return of capital above the basis is a sale
	// of zero shares, and so is a gain by cash in an exchange.
	Sales      []Sale
	WashSales  []WashSale // by date, then by row
	Incomplete []Gap      // by date, then by row
	// OrderUnknown is sells in taxable accounts that took shares bought on the same day, by date,
	// then by row. The rows do not show whether the purchase came first, and other lots were open.
	OrderUnknown []Gap
	// Held is the shares of each position that the rows add up to, without those that are zero. It
	// is negative after a sell without a buy. If it is less than the position's lots have, the
	// records do not show which shares are held.
	Held map[Position]decimal.Decimal

	accounts map[string]*account
	// the first day on which a purchase no longer replaces shares that were sold
	restricted map[market]Date
	// the first day on which planned losses are not wash sales; zero if they are none
	cleanFrom Date
	steps     int // operations that Build took, for tests
}
