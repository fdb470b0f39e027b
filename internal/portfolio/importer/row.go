package importer

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/govalues/decimal"

	"signalbox/internal/portfolio/tax"
)

// A row uses the types of a transaction.
type (
	Action = tax.Action
	Ratio  = tax.Ratio
	Source = tax.Source
)

// The actions of a row. The package comment lists the fields that each needs.
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
	SpinOff         = tax.SpinOff
	Exchange        = tax.Exchange
	CashInLieu      = tax.CashInLieu
)

const actionNames = "buy, sell, reinvest, split, transfer, return_of_capital, expire, assign, gift_in, inherit, spin_off, exchange or cash_in_lieu"

// Row is one transaction as its file has it: Source is its line there, and a broker's account may
// have the broker's name. Zero values mean that the file does not give the value.
type Row struct {
	// The amounts of the transaction are in Currency; empty means dollars.
	tax.Transaction
	Currency string
	// ID is the same in every import of the row; see the package comment.
	ID string
}

// Skipped is a record that was not imported, and why.
type Skipped struct {
	Line int
	// Text is the record, on one line and shortened.
	Text string
	Why  string
	// Shares is set if the record moved shares, not only cash: the lots are incomplete until the
	// user adds a row for it.
	Shares bool
}

// Import is the content of a file.
type Import struct {
	// Format is "signalbox", "schwab", "fidelity", "robinhood", "vanguard", "etrade", "coinbase",
	// "ibkr", "flex" or "ofx".
	Format  string
	Rows    []Row
	Skipped []Skipped
	// Notes are remarks about the whole file, for the user.
	Notes []string
}

// Options changes how a file is read.
type Options struct {
	// Account is the account's id in the portfolio, for a file that names no account or exactly
	// one. Empty means that the name in the file is kept, and that a file without one is refused.
	Account string
	// Accounts maps account names in a broker's file to ids in the portfolio. Other names are kept.
	Accounts map[string]string
}

// fingerprints makes IDs from the content of rows. Equal rows are counted, so that a second fill at
// the same price on the same day gets a different ID than the first, in every file that has both.
type fingerprints map[fingerprint]int32

// fingerprint is a truncated hash of a row.
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
	// The buffer fits most rows, so that they need no allocation.
	var space [256]byte
	b := space[:0]
	for _, s := range [...]string{r.Date.String(), r.Account, string(r.Action), r.Ticker,
		r.Currency, r.LotID, r.ToAccount, r.DonorDate.String()} {
		b = append(append(b, s...), 0x1f)
	}
	for _, d := range [...]decimal.Decimal{r.Quantity, r.Price, r.Fees, r.Ratio.New, r.Ratio.Old,
		r.DonorBasis, r.Value} {
		// Trimmed, so that 215.5 and 215.50 are equal.
		if d.IsZero() {
			b = append(b, '0', 0x1f)
			continue
		}
		b, _ = d.Trim(0).AppendText(b) // which never fails
		b = append(b, 0x1f)
	}
	for _, s := range [...]string{r.Time.String(), formatClosedLots(r.Lots), r.NewTicker,
		amount(r.BasisFraction.Trim(0)), amount(r.NewPrice.Trim(0))} {
		if s != "" { // most rows have none, and keep their fingerprints
			b = append(append(b, s...), 0x1f)
		}
	}
	sum := sha256.Sum256(b)
	return fingerprint(sum[:len(fingerprint{})])
}

// reference returns the ID of a row with a reference of its broker. It includes the account,
// because brokers number the transactions of each account.
func reference(format, account, ref string) string {
	sum := sha256.Sum256([]byte(format + "\x1f" + account + "\x1f" + ref))
	return format + "-" + hex.EncodeToString(sum[:12])
}
