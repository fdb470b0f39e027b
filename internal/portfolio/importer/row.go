package importer

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/govalues/decimal"

	"signalbox/internal/portfolio/tax"
)

// A row speaks as a transaction does.
type (
	Action = tax.Action
	Ratio  = tax.Ratio
	Source = tax.Source
)

// The actions of a row; the package comment says which fields each needs.
const (
	Buy             = tax.Buy
	Sell            = tax.Sell
	Reinvest        = tax.Reinvest
	Split           = tax.Split
	Transfer        = tax.Transfer
	ReturnOfCapital = tax.ReturnOfCapital
	Expire          = tax.Expire
	Assign          = tax.Assign
	GiftIn          = tax.GiftIn
	Inherit         = tax.Inherit
)

const actionNames = "buy, sell, reinvest, split, transfer, return_of_capital, expire, assign, gift_in or inherit"

// Row is one transaction. A zero decimal, an empty string and a zero Ratio mean that the file says nothing.
type Row struct {
	// Date is the trade's date, as 2024-01-31.
	Date string
	// Account is empty only for a transfer from outside.
	Account string
	Action  Action
	Ticker  string
	// Quantity is never negative. For a split without a Ratio it is the number of shares added.
	Quantity decimal.Decimal
	// Price is per share, or per option contract.
	Price decimal.Decimal
	// Fees are a cost and never negative.
	Fees     decimal.Decimal
	Currency string
	LotID    string
	// ToAccount is where a transfer goes, empty if it leaves the portfolio.
	ToAccount string
	Ratio     Ratio
	// DonorBasis and Value are totals, not per share.
	DonorBasis decimal.Decimal
	DonorDate  string
	Value      decimal.Decimal
	// ID is stable over imports; see the package comment.
	ID     string
	Source Source
}

// Skipped is a record that gives no row, and why.
type Skipped struct {
	Line int
	// Text is the record, on one line and shortened.
	Text string
	Why  string
	// Shares says that shares moved, not only cash: the lots are incomplete until somebody writes the row by hand.
	Shares bool
}

// Import is what a file was understood to say.
type Import struct {
	// Format is "signalbox", "schwab", "fidelity", "robinhood", "flex" or "ofx".
	Format  string
	Rows    []Row
	Skipped []Skipped
	// Notes are remarks on the whole file, for people.
	Notes []string
}

// Options changes how a file is read.
type Options struct {
	// Account is the portfolio's id of the account, for a file that names none or exactly one. Empty: the file's own
	// name is kept, and a file without one is refused.
	Account string
	// Accounts maps a broker's account names to the portfolio's ids. A name that is not in it is kept.
	Accounts map[string]string
}

// fingerprints gives rows their IDs by content. Equal rows are counted, so that a second fill at the same price on the
// same day has another ID than the first, whichever file it is read from.
type fingerprints map[fingerprint]int32

// fingerprint is a part of a hash that is long enough to tell rows apart.
type fingerprint [16]byte

func (f fingerprints) next(r *Row) string {
	sum := contentSum(r)
	n := f[sum] + 1
	f[sum] = n
	var id [24]byte
	hex.Encode(id[:], sum[:12])
	if n > 1 {
		return fmt.Sprintf("%s-%d", id[:], n)
	}
	return string(id[:])
}

func contentSum(r *Row) fingerprint {
	// A buffer that fits most rows: a portfolio may have a million of them.
	var space [256]byte
	b := space[:0]
	for _, s := range [...]string{r.Date, r.Account, string(r.Action), r.Ticker, r.Currency, r.LotID, r.ToAccount, r.DonorDate} {
		b = append(append(b, s...), 0x1f)
	}
	for _, d := range [...]decimal.Decimal{r.Quantity, r.Price, r.Fees, r.Ratio.New, r.Ratio.Old, r.DonorBasis, r.Value} {
		// Trimmed, so that 215.5 and 215.50 are one.
		if d.IsZero() {
			b = append(b, '0', 0x1f)
			continue
		}
		b, _ = d.Trim(0).AppendText(b) // which never fails
		b = append(b, 0x1f)
	}
	sum := sha256.Sum256(b)
	return fingerprint(sum[:len(fingerprint{})])
}

// reference is the ID of a row that has one from its broker. The account is part of it because brokers number within
// an account.
func reference(format, account, ref string) string {
	sum := sha256.Sum256([]byte(format + "\x1f" + account + "\x1f" + ref))
	return format + "-" + hex.EncodeToString(sum[:12])
}
