// Package form8949 turns the sales of a year into the rows of Form 8949 and the lines of Schedule D,
// compares them with a Form 1099-B or 1099-DA, and writes them as CSV and as TXF. It is pure.
//
// # Rounding
//
// Every amount of a row has whole cents, half a cent rounded away from zero. The proceeds of the
// rows of one sale are rounded so that they add up to its rounded total. The adjustment of a row
// whose whole loss is disallowed is its rounded loss, so that its gain is zero; no adjustment is
// larger than the loss. A gain is proceeds less basis plus adjustment, and totals are sums of rows,
// so that nothing is rounded twice.
//
// # Boxes
//
// The box depends on what the broker tells the IRS, which no transaction shows: [Reported]. If it
// is not known, [Rows] leaves the box empty, and the caller must ask. A lot that was bought before
// brokers had to keep its basis is in the box without a reported basis, whatever the broker
// reports for others. Since 2025, digital assets have boxes of their own, G to L.
package form8949

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/govalues/decimal"

	"signalbox/internal/portfolio/answer"
	"signalbox/internal/portfolio/tax"
)

// Reported is what a broker tells the IRS about a sale.
type Reported int

// The values. Unknown is the zero value.
const (
	Unknown      Reported = iota
	WithBasis             // boxes A, D, G and J
	WithoutBasis          // boxes B, E, H and K
	NotReported           // boxes C, F, I and L
)

// digitalYear is the first year in which Form 8949 has boxes for digital assets.
const digitalYear = 2025

// Box returns the box of Form 8949, or nothing if it is not known.
func Box(reported Reported, longTerm, digital bool) string {
	if reported == Unknown {
		return ""
	}
	box := 'A' + rune(reported-WithBasis)
	if longTerm {
		box += 'D' - 'A'
	}
	if digital {
		box += 'G' - 'A'
	}
	return string(box)
}

// parseBox returns what a box, a letter from A to L, stands for.
func parseBox(box string) (reported Reported, longTerm, digital bool) {
	n := int(box[0] - 'A')
	return WithBasis + Reported(n%3), n/3%2 == 1, n >= 6
}

// covered returns the first day on which a purchase made a security or a digital asset a covered
// one, for which brokers report the basis, and why (Reg. 1.6045-1(a)(15)). Fund shares bought in
// 2011 are not covered either, but no transaction shows what is a fund.
func covered(digital, option bool) (from tax.Date, why string) {
	switch {
	case digital:
		return tax.DateOf(2026, time.January, 1), "bought before 2026, so its basis is not reported"
	case option:
		return tax.DateOf(2014, time.January, 1), "bought before 2014, so its basis is not reported"
	}
	return tax.DateOf(2011, time.January, 1), "bought before 2011, so its basis is not reported"
}

// Input is a year's sales and what is needed to report them.
type Input struct {
	Year         int
	Sales        []tax.Sale
	Transactions []tax.Transaction
	// Reported returns what the broker of an account reports, and where that is known from.
	Reported func(account string) (Reported, string)
	// Crypto reports whether a ticker is a digital asset.
	Crypto func(ticker string) bool
}

// Rows returns the rows for the sales of the year in taxable accounts, in the order of the sales.
// The error is an amount that decimals cannot represent.
func Rows(in Input) ([]answer.GainRow, error) {
	var c cents
	var rows []answer.GainRow
	given := make(map[int]split) // proceeds so far, by the row of the sale
	for i := range in.Sales {
		s := &in.Sales[i]
		if !s.Taxable || s.Date.Year() != in.Year {
			continue
		}
		sale, lot := &in.Transactions[s.Row], &in.Transactions[s.LotRow()]
		proceeds := given[s.Row]
		r := answer.GainRow{
			Account: s.Account, Ticker: s.Ticker, Quantity: answer.Amount{Decimal: s.Quantity},
			Acquired: acquired(s, lot), Sold: s.Date.String(), LongTerm: s.LongTerm,
			HeldSince: s.HoldingStart.String(),
			Proceeds:  c.share(&proceeds, s.Proceeds), Basis: c.round(s.Basis),
			Permanent: c.round(s.Permanent),
			Record:    fmt.Sprintf("%s:%d", sale.Source.File, sale.Source.Line),
		}
		given[s.Row] = proceeds
		r.Gain = c.sub(r.Proceeds, r.Basis)
		if s.Disallowed.IsPos() && r.Gain.IsNeg() {
			loss := answer.Amount{Decimal: r.Gain.Neg()}
			r.Code, r.Adjustment = "W", c.round(s.Disallowed)
			if s.Disallowed.Equal(s.Gain.Neg()) || r.Adjustment.Cmp(loss.Decimal) > 0 {
				r.Adjustment = loss
			}
			if r.Permanent.Cmp(r.Adjustment.Decimal) > 0 {
				r.Permanent = r.Adjustment
			}
			r.Gain = c.add(r.Gain, r.Adjustment)
		}
		if r.Adjustment.IsZero() {
			r.Code, r.Permanent = "", answer.Amount{}
		}
		crypto := in.Crypto(s.Ticker)
		describe(&r, s, sale, lot, crypto)
		in.setBox(&r, s, lot, sale.Action, crypto)
		rows = append(rows, r)
	}
	if c.err != nil {
		return nil, fmt.Errorf("computing the rows of Form 8949: %w", c.err)
	}
	return rows, nil
}

// acquired returns column b. A gift has the donor's date if its holding period is the donor's.
func acquired(s *tax.Sale, lot *tax.Transaction) string {
	switch lot.Action {
	case tax.Inherit:
		return inherited
	case tax.GiftIn:
		return s.HoldingStart.AddDays(-1).String()
	}
	return s.LotDate.String()
}

// inherited is in column b of what was inherited, by the instructions for Form 8949.
const inherited = "INHERITED"

// describe fills in column a, and what else is to be said about a row.
func describe(r *answer.GainRow, s *tax.Sale, sale, lot *tax.Transaction, crypto bool) {
	unit := "sh. "
	if _, option := tax.OptionSymbol(s.Ticker); option {
		if unit = "contracts "; s.Quantity.IsOne() {
			unit = "contract "
		}
	} else if crypto {
		unit = ""
	}
	r.Description = r.Quantity.String() + " " + unit + s.Ticker
	switch {
	case sale.Action == tax.Exchange:
		r.Description = "Cash in exchange of " + s.Ticker + " for " + sale.NewTicker
		r.Note = "cash in a reorganization is a gain up to the gain on the shares"
	case s.Quantity.IsZero():
		r.Description = "Nondividend distribution, " + s.Ticker
		r.Note = "a return of capital above the basis is a gain"
	case sale.Action == tax.Expire:
		r.Note = "the option expired: write EXPIRED in column (d)"
	case lot.Action == tax.GiftIn:
		r.Note = "a gift: column (b) has the date from which its holding period counts"
	case s.LongTerm && !s.LongTermByDate() && lot.Action != tax.Inherit:
		r.Note = "long-term, because a wash sale added the time for which the sold shares were held"
	}
}

// setBox fills in the box.
func (in Input) setBox(r *answer.GainRow, s *tax.Sale, lot *tax.Transaction,
	action tax.Action, crypto bool) {
	_, option := tax.OptionSymbol(s.Ticker)
	r.Digital = crypto && in.Year >= digitalYear
	if action == tax.ReturnOfCapital {
		r.Box = Box(NotReported, r.LongTerm, r.Digital)
		r.BoxReason = "a return of capital is on Form 1099-DIV, not on Form 1099-B"
		return
	}
	bought := s.LotDate
	if lot.Action == tax.GiftIn && lot.DonorDate != 0 {
		bought = lot.DonorDate
	}
	reported, why := in.Reported(s.Account)
	if from, before := covered(crypto, option); reported == WithBasis && bought < from {
		reported, why = WithoutBasis, before
	}
	r.Box, r.BoxReason = Box(reported, r.LongTerm, r.Digital), why
}

// Sort sorts rows by box, then by date, keeping the order of equal ones.
func Sort(rows []answer.GainRow) {
	slices.SortStableFunc(rows, func(a, b answer.GainRow) int {
		return cmp.Or(cmp.Compare(a.Box, b.Box), cmp.Compare(a.Sold, b.Sold))
	})
}

// ScheduleD returns the lines of Schedule D that have a row, and the totals.
func ScheduleD(rows []answer.GainRow) (lines []answer.ScheduleDLine, short, long answer.Amount,
	err error) {
	var c cents
	for _, l := range []struct{ line, boxes string }{{"1b", "AG"}, {"2", "BH"}, {"3", "CI"},
		{"8b", "DJ"}, {"9", "EK"}, {"10", "FL"}} {
		line := answer.ScheduleDLine{Line: l.line, Boxes: l.boxes[:1] + ", " + l.boxes[1:]}
		for i := range rows {
			r := &rows[i]
			if r.Box != l.boxes[:1] && r.Box != l.boxes[1:] {
				continue
			}
			line.Rows++
			line.Proceeds, line.Basis = c.add(line.Proceeds, r.Proceeds), c.add(line.Basis, r.Basis)
			line.Adjustment, line.Gain = c.add(line.Adjustment, r.Adjustment),
				c.add(line.Gain, r.Gain)
			if r.LongTerm {
				long = c.add(long, r.Gain)
			} else {
				short = c.add(short, r.Gain)
			}
		}
		if line.Rows > 0 {
			lines = append(lines, line)
		}
	}
	return lines, short, long, c.err
}

// cents computes with amounts of whole cents, and keeps the first error.
type cents struct{ err error }

func (c *cents) keep(d decimal.Decimal, err error) answer.Amount {
	if err != nil && c.err == nil {
		c.err = err
	}
	return answer.Amount{Decimal: d}
}

func (c *cents) add(a, b answer.Amount) answer.Amount { return c.keep(a.Add(b.Decimal)) }
func (c *cents) sub(a, b answer.Amount) answer.Amount { return c.keep(a.Sub(b.Decimal)) }

// round rounds to cents, half a cent away from zero.
func (c *cents) round(d decimal.Decimal) answer.Amount {
	up := c.keep(d.Abs().Add(decimal.MustNew(5, 3)))
	return answer.Amount{Decimal: up.Trunc(2).CopySign(d).Trim(0)}
}

// split is an amount that is divided among rows: the exact sum of its parts so far, and what the
// rows have of it.
type split struct {
	exact   decimal.Decimal
	rounded answer.Amount
}

// share adds a part, and returns what its row has.
func (c *cents) share(s *split, part decimal.Decimal) answer.Amount {
	s.exact = c.keep(s.exact.Add(part)).Decimal
	total := c.round(s.exact)
	mine := c.sub(total, s.rounded)
	s.rounded = total
	return mine
}
