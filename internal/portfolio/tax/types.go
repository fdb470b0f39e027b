package tax

import (
	"fmt"
	"iter"

	"github.com/govalues/decimal"
)

// Kind is what an account is for tax purposes.
type Kind string

// The kinds. All but Taxable are retirement accounts here: a loss in them is none, and a replacement bought in them
// loses the loss for good.
const (
	Taxable Kind = "taxable"
	IRA     Kind = "ira"
	Roth    Kind = "roth"
	HSA     Kind = "hsa"
	K401    Kind = "401k"
)

// Owner is whose account it is. Wash sales are found across both.
type Owner string

// The owners.
const (
	Self   Owner = "self"
	Spouse Owner = "spouse"
)

// Method is how a sell chooses lots.
type Method string

// The methods. Specific without a lot id in the row is FIFO, as the regulations have it.
const (
	FIFO     Method = "fifo"
	LIFO     Method = "lifo"
	HIFO     Method = "hifo"
	MinTax   Method = "min_tax"
	Specific Method = "specific"
)

// Account is one account. An empty Kind is Taxable, an empty Owner Self, an empty Method FIFO.
type Account struct {
	ID     string
	Kind   Kind
	Owner  Owner
	Method Method
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
)

// Ratio is a split's: New shares for each Old. The zero Ratio means that none is known. It is kept as two numbers because
// 1:3 has no exact decimal, and a lot must not lose a fraction of a share to that.
type Ratio struct{ New, Old decimal.Decimal }

// IsZero reports whether no ratio is known.
func (r Ratio) IsZero() bool { return r.New.IsZero() && r.Old.IsZero() }

// Decimal returns New / Old, rounded to 19 digits.
func (r Ratio) Decimal() (decimal.Decimal, error) {
	d, err := r.New.Quo(r.Old)
	if err != nil {
		return decimal.Decimal{}, fmt.Errorf("ratio %s: %w", r, err)
	}
	return d.Trim(0), nil
}

// String writes the ratio as the own CSV has it: empty, 4, or 3:2.
func (r Ratio) String() string {
	switch {
	case r.IsZero():
		return ""
	case r.Old.IsOne():
		return r.New.String()
	}
	return r.New.String() + ":" + r.Old.String()
}

// Source is where a transaction was read, for messages.
type Source struct {
	File string
	Line int
}

// Transaction is one row, in one currency. Quantity is positive for every action.
type Transaction struct {
	Date      Date
	DonorDate Date // gift_in: when the donor acquired it; zero: not known, the holding period starts with the gift
	Action    Action
	Account   string
	Ticker    string
	LotID     string // of the new lot; in a sell or transfer, of the lot to take
	ToAccount string // transfer: to which account; empty: out of the portfolio. An empty Account comes from outside.
	Quantity  decimal.Decimal
	Price     decimal.Decimal // per share or option contract
	Fees      decimal.Decimal
	Ratio     Ratio // split; without one, Quantity is the number of shares added
	// DonorBasis is a total. A transfer from outside may carry it, with DonorDate: the basis and date at the old broker.
	DonorBasis decimal.Decimal
	// Value is a total: of a return of capital, of a gift on its day, of an inheritance on the day of death. Zero:
	// quantity times price.
	Value  decimal.Decimal
	Source Source
}

// Rules are what a portfolio's configuration says about taxes.
type Rules struct {
	Accounts []Account
	// Identical are groups of substantially identical tickers. Groups that share a ticker are one.
	Identical [][]string
}

// Lot is an open lot, or the part of one that has a basis of its own.
type Lot struct {
	Account string `json:"account"`
	Ticker  string `json:"ticker"`
	// LotDate is the trade date, of a gift or inheritance its own date; HoldingStart is the day after, or earlier if time
	// was added by a wash sale or a donor.
	LotDate      Date            `json:"lot_date"`
	HoldingStart Date            `json:"holding_start"`
	Quantity     decimal.Decimal `json:"quantity"`
	// Basis is the whole basis, BasisAdjustment included, which is the sum of losses that wash sales moved here.
	Basis           decimal.Decimal `json:"basis_total"`
	BasisAdjustment decimal.Decimal `json:"basis_adjustment"`
	LotID           string          `json:"lot_id"`
	// LossBasis is what a loss is counted from: Basis, but for a gift that was worth less than the donor's basis.
	LossBasis decimal.Decimal `json:"-"`
	// LossHoldingStart is HoldingStart, but for such a gift, sold at a loss: the day after the gift.
	LossHoldingStart Date `json:"-"`
	// AlwaysLong says that the shares were inherited, or replaced such shares.
	AlwaysLong bool `json:"-"`
	Taxable    bool `json:"-"`

	row    int32 // the transaction that brought it: parts with one row are one lot
	ticker int32
	free   bool // purchased, and not yet a replacement
}

// Sale is the disposal of shares of one lot. A row that takes several lots makes several. It has no pointers, because a
// book may have millions: [Book.Account] and [Book.Ticker] name what was sold.
type Sale struct {
	Quantity decimal.Decimal
	Proceeds decimal.Decimal // less fees
	Basis    decimal.Decimal
	Gain     decimal.Decimal // Proceeds less Basis; negative is a loss, before a wash sale disallows it
	// DisallowedShares and Disallowed are what wash sales took; Permanent is the part of Disallowed that no basis got.
	DisallowedShares decimal.Decimal
	Disallowed       decimal.Decimal
	Permanent        decimal.Decimal
	Date             Date
	LotDate          Date
	HoldingStart     Date
	Row              int32 // index of the transaction
	LongTerm         bool
	Taxable          bool

	account int32
	ticker  int32
	origin  int32 // the transaction that brought the lot
}

// Replacement is a purchase that took a loss.
type Replacement struct {
	Date    Date            `json:"date"`
	Account string          `json:"account"`
	Ticker  string          `json:"ticker"`
	Shares  decimal.Decimal `json:"shares"`
}

// WashSale is a sell of which a loss was disallowed. Shares and Loss are those sold at a loss by the row; amounts are
// positive.
type WashSale struct {
	SaleDate         Date            `json:"sale_date"`
	Account          string          `json:"account"`
	Ticker           string          `json:"ticker"`
	Shares           decimal.Decimal `json:"shares"`
	Loss             decimal.Decimal `json:"loss"`
	DisallowedShares decimal.Decimal `json:"disallowed_shares"`
	DisallowedLoss   decimal.Decimal `json:"disallowed_loss"`
	PermanentLoss    decimal.Decimal `json:"permanent_loss"`
	Replacements     []Replacement   `json:"replacements"`

	row int32
}

// Gap is a row that needs shares which no row brought, or the part of it that does.
type Gap struct {
	Date     Date            `json:"date"`
	Account  string          `json:"account"`
	Ticker   string          `json:"ticker"`
	Quantity decimal.Decimal `json:"quantity"`
	Why      string          `json:"why"`
	Row      int32           `json:"-"`
}

// Book is the state at the end of a day.
type Book struct {
	AsOf Date
	// Lots are in the order of accounts as configured, tickers, and dates.
	Lots       []Lot
	WashSales  []WashSale // by date, then by row
	Incomplete []Gap      // by date, then by row

	sales    slab[Sale]
	accounts []Account
	kinds    map[string]Kind
	tickers  []ticker
	groups   [][]string // tickers of each group, as configured or met
	closed   map[closure]Date
	work     int // operations that it took
}

// Sales returns all sales, in the order of date within each group of tickers. A return of capital above the basis is
// one too, of zero shares.
func (b *Book) Sales() iter.Seq[*Sale] { return b.sales.all() }

// Account returns the account that sold.
func (b *Book) Account(s *Sale) string { return b.accounts[s.account].ID }

// Ticker returns what was sold.
func (b *Book) Ticker(s *Sale) string { return b.tickers[s.ticker].name }
