package tax

import (
	"cmp"
	"slices"
	"sort"

	"github.com/govalues/decimal"
)

// saleOrder is the lots of a position in the order in which a sale by the method of the account
// takes them, if the row names no lot. A loss can be harvested by a plain sale only if no lot
// before it is at a gain: otherwise the sale would realize that gain first, and the lot must be
// identified to the broker (Reg. 1.1012-1(c)).
type saleOrder struct {
	lots []int // indexes in the book
	// quantities and gains are sums over the first i lots; one more than lots.
	quantities, gains []decimal.Decimal
	// reached is the number of lots that a plain sale takes before the first one that is not at a
	// loss.
	reached int
	// unknown is set if more shares are held than the lots have. What a plain sale takes is not
	// known then.
	unknown bool
}

// Outcome is what a sale realizes if no lot is identified to the broker.
type Outcome struct {
	Quantity decimal.Decimal
	Gain     decimal.Decimal // negative is a loss
	// Unknown is set if shares without a known purchase are held: the sale may take them first.
	// Gain is zero then.
	Unknown bool
}

// GainAt returns the gain on a lot that is sold at a price, negative for a loss.
func (l *Lot) GainAt(price decimal.Decimal) (decimal.Decimal, error) {
	h := &harvest{}
	gain := h.gainOf(l, price)
	return gain, h.err
}

// gainOf returns the gain on a lot at a price, negative for a loss. Between the value of a gift and
// the donor's basis there is neither.
func (h *harvest) gainOf(l *Lot, price decimal.Decimal) decimal.Decimal {
	value := h.mul(l.Quantity, price)
	switch {
	case value.Cmp(l.LossBasis) < 0:
		return h.sub(value, l.LossBasis)
	case value.Cmp(l.Basis) > 0:
		return h.sub(value, l.Basis)
	}
	return decimal.Zero
}

// newSaleOrder orders the lots [from, to) of the book, which are one position, at a price.
func (h *harvest) newSaleOrder(from, to int, price decimal.Decimal, unknown bool) *saleOrder {
	o := &saleOrder{unknown: unknown}
	for i := from; i < to; i++ {
		o.lots = append(o.lots, i)
	}
	lots := h.book.Lots
	switch h.book.accounts[lots[from].Account].Method {
	case LIFO:
		// The newest lot comes first. The parts of a lot keep their order.
		slices.SortStableFunc(o.lots, func(x, y int) int {
			return cmp.Or(cmp.Compare(lots[y].LotDate, lots[x].LotDate),
				cmp.Compare(lots[y].order, lots[x].order))
		})
	case HIFO, MinTax:
		h.sortByBasis(o.lots, h.book.accounts[lots[from].Account].Method)
	}
	o.quantities, o.gains = make([]decimal.Decimal, 1, len(o.lots)+1),
		make([]decimal.Decimal, 1, len(o.lots)+1)
	blocked := unknown
	for n, i := range o.lots {
		gain := h.gainOf(&lots[i], price)
		blocked = blocked || !gain.IsNeg()
		if !blocked {
			o.reached = n + 1
		}
		o.quantities, o.gains = append(o.quantities, h.add(o.quantities[n], lots[i].Quantity)),
			append(o.gains, h.add(o.gains[n], gain))
	}
	return o
}

// sortByBasis sorts lots by basis per share, highest first, and for MinTax the short-term ones
// before that: both take all losses before any gain.
func (h *harvest) sortByBasis(order []int, method Method) {
	lots := h.book.Lots
	type rank struct {
		long     bool
		perShare decimal.Decimal
	}
	ranks := make(map[int]rank, len(order))
	for _, i := range order {
		l := &lots[i]
		ranks[i] = rank{l.AlwaysLong || longTerm(l.LossHoldingStart, h.book.AsOf),
			h.portion(l.LossBasis, decimal.One, l.Quantity)}
	}
	price := h.prices[lots[order[0]].Ticker]
	class := func(r rank) int { // in the order of pickMinTax
		loss := r.perShare.Cmp(price) > 0
		switch {
		case method != MinTax:
			return 0
		case !r.long && loss:
			return 1
		case r.long:
			return 2
		}
		return 3
	}
	slices.SortStableFunc(order, func(x, y int) int {
		a, b := ranks[x], ranks[y]
		return cmp.Or(cmp.Compare(class(a), class(b)), b.perShare.Cmp(a.perShare))
	})
}

// plainSale returns what a sale of a quantity realizes if no lot is identified.
func (h *harvest) plainSale(o *saleOrder, quantity decimal.Decimal) Outcome {
	if o.unknown {
		return Outcome{Quantity: quantity, Unknown: true}
	}
	n := sort.Search(len(o.lots), func(n int) bool { return o.quantities[n+1].Cmp(quantity) >= 0 })
	if n == len(o.lots) {
		return Outcome{Quantity: quantity, Gain: o.gains[n].Trim(0)}
	}
	part := h.portion(h.sub(o.gains[n+1], o.gains[n]), h.sub(quantity, o.quantities[n]),
		h.sub(o.quantities[n+1], o.quantities[n]))
	return Outcome{Quantity: quantity, Gain: h.add(o.gains[n], part).Trim(0)}
}

// Discrepancy is a position whose lots and shares held differ.
type Discrepancy struct {
	Position
	Held decimal.Decimal
	Lots decimal.Decimal // the shares of its lots
}

// Reconcile compares the lots of the taxable accounts, or of the given ones, with the shares held.
// held is by default what the rows add up to. missing has positions with more shares than lots, and
// surplus those with fewer; both are in the order of accounts and tickers. Differences of rounding
// are ignored: up to one unit of the last decimal of the shares held, if these have three decimals
// or more.
func Reconcile(b *Book, held map[Position]decimal.Decimal, accounts []string) (missing,
	surplus []Discrepancy, err error) {
	if held == nil {
		held = b.Held
	}
	var c calc
	lots := make(map[Position]decimal.Decimal)
	for i := range b.Lots {
		p := Position{b.Lots[i].Account, b.Lots[i].Ticker}
		lots[p] = c.add(lots[p], b.Lots[i].Quantity)
	}
	all := make(map[Position]bool)
	for p := range held {
		all[p] = true
	}
	for p := range lots {
		all[p] = true
	}
	for p := range all {
		if !b.accounts[p.Account].taxable() || len(accounts) > 0 &&
			!slices.Contains(accounts, p.Account) {
			continue
		}
		d := Discrepancy{p, held[p].Trim(0), lots[p].Trim(0)}
		switch off := c.sub(d.Held, d.Lots); {
		case !SharesDiffer(held[p], d.Lots):
		case off.IsNeg() && d.Lots.IsPos():
			surplus = append(surplus, d)
		case off.IsPos():
			missing = append(missing, d)
		}
	}
	order := func(x, y Discrepancy) int {
		return cmp.Or(cmp.Compare(b.accounts[x.Account].index, b.accounts[y.Account].index),
			cmp.Compare(x.Ticker, y.Ticker))
	}
	slices.SortFunc(missing, order)
	slices.SortFunc(surplus, order)
	return missing, surplus, c.err
}

// SharesDiffer reports whether a number of shares held differs from that of lots by more than
// rounding.
func SharesDiffer(held, lots decimal.Decimal) bool {
	off, err := held.Sub(lots)
	return err != nil || off.Abs().Cmp(slack(held)) > 0
}

// slack is the difference that rounding can make to a number of shares. Brokers round fractions to
// three decimals or more.
func slack(held decimal.Decimal) decimal.Decimal {
	const coarsest, finest = 3, 6
	if held.Scale() < coarsest {
		return decimal.MustNew(1, finest)
	}
	return decimal.MustNew(1, min(held.Scale(), finest))
}
