package tax

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/govalues/decimal"
)

// SortBy is the order of candidates, the largest first.
type SortBy string

// The orders.
const (
	ByLossAmount SortBy = "loss_amount"
	ByLossPct    SortBy = "loss_pct"
	ByDaysHeld   SortBy = "days_held"
)

// HarvestOptions says which candidates are wanted.
type HarvestOptions struct {
	// MinLoss leaves out lots with a smaller loss. Zero: all lots at a loss.
	MinLoss decimal.Decimal
	// SortBy is ByLossAmount if empty.
	SortBy SortBy
	// Account leaves out lots of other accounts. Empty: all taxable ones. Purchases count in all accounts in any case.
	Account string
	// SkipWashCheck counts every loss as allowed.
	SkipWashCheck bool
}

// Candidate is an open lot at a loss. The wash sale figures are for selling this lot alone on the harvest's day.
// Amounts are positive.
type Candidate struct {
	Account      string
	Ticker       string
	LotID        string
	LotDate      Date
	HoldingStart Date
	LongTermFrom Date
	LongTerm     bool
	DaysHeld     int
	Quantity     decimal.Decimal
	Basis        decimal.Decimal // what the loss is counted from
	Price        decimal.Decimal
	Value        decimal.Decimal
	Loss         decimal.Decimal
	LossPct      float64

	DisallowedShares decimal.Decimal
	DisallowedLoss   decimal.Decimal
	PermanentLoss    decimal.Decimal
	// Causes are the purchases that would take the loss, earliest first.
	Causes []Replacement
	// CleanFrom is the first day on which the whole loss would count, if nothing more is bought.
	CleanFrom Date

	lot int32
}

// Embargo says that buying any of these tickers before a day makes a wash sale.
type Embargo struct {
	Tickers []string
	Before  Date // the first day on which buying is harmless
}

// HarvestResult is what could be harvested. The totals are for selling all candidates together on AsOf.
type HarvestResult struct {
	AsOf       Date
	Candidates []Candidate
	// BelowMinLoss is how many lots at a loss were left out because of MinLoss.
	BelowMinLoss int

	Loss           decimal.Decimal // all of it
	AllowedLoss    decimal.Decimal // what counts: ShortTermLoss and LongTermLoss
	ShortTermLoss  decimal.Decimal
	LongTermLoss   decimal.Decimal
	DisallowedLoss decimal.Decimal
	PermanentLoss  decimal.Decimal // the part of DisallowedLoss that goes to retirement accounts

	// DoNotBuy holds once the candidates are sold; StillClosed holds already, for losses of the last 30 days.
	DoNotBuy    []Embargo
	StillClosed []Embargo
	// NoPrice are the tickers whose lots could not be judged.
	NoPrice []string
}

// harvest is one call of Harvest.
type harvest struct {
	calc
	book *Book
	opts HarvestOptions
	// windows are, for each group, the lots that may take a loss on asOf, earliest first.
	windows map[int32][]int32
	result  *HarvestResult
}

// Harvest looks for open lots at a loss in taxable accounts at these prices, by ticker, on the book's day.
func Harvest(b *Book, prices map[string]decimal.Decimal, opts HarvestOptions) (*HarvestResult, error) {
	if opts.SortBy == "" {
		opts.SortBy = ByLossAmount
	}
	if !slices.Contains([]SortBy{ByLossAmount, ByLossPct, ByDaysHeld}, opts.SortBy) {
		return nil, fmt.Errorf("sort_by %q is not known: use loss_amount, loss_pct or days_held", opts.SortBy)
	}
	if kind, ok := b.kinds[opts.Account]; opts.Account != "" && !ok {
		return nil, fmt.Errorf("account %q is not in the portfolio: name one that is", opts.Account)
	} else if opts.Account != "" && kind != Taxable {
		return nil, fmt.Errorf("account %q is not taxable, its losses do not count: name a taxable one", opts.Account)
	}
	h := &harvest{book: b, opts: opts, result: &HarvestResult{AsOf: b.AsOf}}
	h.find(prices)
	if !opts.SkipWashCheck {
		h.openWindows()
		for i := range h.result.Candidates {
			h.alone(&h.result.Candidates[i])
		}
	}
	h.together()
	h.embargoes()
	h.sort()
	if h.err != nil {
		return nil, fmt.Errorf("computing losses, check prices: %w", h.err)
	}
	return h.result, nil
}

// find lists the lots at a loss.
func (h *harvest) find(prices map[string]decimal.Decimal) {
	type quote struct {
		price     decimal.Decimal
		ok, asked bool
	}
	quotes := make([]quote, len(h.book.tickers))
	var found []int32
	for i := range h.book.Lots {
		l := &h.book.Lots[i]
		if !l.Taxable || h.opts.Account != "" && l.Account != h.opts.Account {
			continue
		}
		q := &quotes[l.ticker]
		if !q.asked {
			q.asked = true
			if q.price, q.ok = prices[l.Ticker]; !q.ok {
				h.result.NoPrice = append(h.result.NoPrice, l.Ticker)
			}
		}
		if !q.ok {
			continue
		}
		loss := h.sub(l.LossBasis, h.mul(l.Quantity, q.price))
		switch {
		case !loss.IsPos():
		case loss.Cmp(h.opts.MinLoss) < 0:
			h.result.BelowMinLoss++
		default:
			found = append(found, int32(i))
		}
	}
	slices.Sort(h.result.NoPrice)
	h.result.Candidates = make([]Candidate, len(found))
	for i, n := range found {
		h.result.Candidates[i] = h.candidate(n, quotes[h.book.Lots[n].ticker].price)
	}
}

func (h *harvest) candidate(n int32, price decimal.Decimal) Candidate {
	l, asOf := &h.book.Lots[n], h.book.AsOf
	value := h.mul(l.Quantity, price)
	loss := h.sub(l.LossBasis, value)
	pct := 0.0
	if basis, ok := l.LossBasis.Float64(); ok {
		part, _ := loss.Float64()
		pct = 100 * part / basis
	}
	return Candidate{
		Account: l.Account, Ticker: l.Ticker, LotID: l.LotID, LotDate: l.LotDate, HoldingStart: l.LossHoldingStart,
		LongTermFrom: LongTermFrom(l.LossHoldingStart), LongTerm: l.AlwaysLong || longTerm(l.LossHoldingStart, asOf),
		DaysHeld: int(asOf - l.LossHoldingStart + 1), Quantity: l.Quantity, Basis: l.LossBasis, Price: price,
		Value: value.Trim(0), Loss: loss.Trim(0), LossPct: pct, CleanFrom: asOf, lot: n}
}

// openWindows lists the shares that were bought in the last 30 days, are held, and have replaced nothing yet.
func (h *harvest) openWindows() {
	h.windows = make(map[int32][]int32)
	for i := range h.book.Lots {
		if l := &h.book.Lots[i]; l.free && l.LotDate >= h.book.AsOf-washDays {
			g := h.book.tickers[l.ticker].group
			h.windows[g] = append(h.windows[g], int32(i))
		}
	}
	for _, w := range h.windows {
		slices.SortFunc(w, func(a, b int32) int { return h.acquired(a).compare(h.acquired(b)) })
	}
}

// acquired places a lot by when it was acquired.
func (h *harvest) acquired(n int32) place {
	p := placeOf(h.book.Lots[n].LotDate, h.book.Lots[n].row)
	p.index = n
	return p
}

// replaced reports whether shares of lot b can take a loss on lot a.
func (h *harvest) replaced(a, b *Lot) (perUnit int64, ok bool) {
	if a.row == b.row {
		return 0, false // one lot, though it may be in parts
	}
	return replaces(&h.book.tickers[a.ticker], &h.book.tickers[b.ticker])
}

// alone fills in what selling only this lot would do.
func (h *harvest) alone(c *Candidate) {
	l := &h.book.Lots[c.lot]
	window := h.windows[h.book.tickers[l.ticker].group]
	left, loss := c.Quantity, c.Loss
	for _, n := range window {
		other := &h.book.Lots[n]
		perUnit, ok := h.replaced(l, other)
		if !ok {
			continue
		}
		shares := h.toShares(other.Quantity, perUnit, decimal.One).Min(left)
		part := h.portion(loss, shares, left)
		left, loss = h.sub(left, shares), h.sub(loss, part)
		c.DisallowedShares, c.DisallowedLoss = h.add(c.DisallowedShares, shares), h.add(c.DisallowedLoss, part)
		if !other.Taxable {
			c.PermanentLoss = h.add(c.PermanentLoss, part)
		}
		c.Causes = append(c.Causes, Replacement{Date: other.LotDate, Account: other.Account, Ticker: other.Ticker, Shares: shares.Trim(0)})
		if !left.IsPos() {
			break
		}
	}
	for _, n := range slices.Backward(window) {
		if _, ok := h.replaced(l, &h.book.Lots[n]); ok {
			c.CleanFrom = h.book.Lots[n].LotDate + washDays + 1
			break
		}
	}
	c.DisallowedShares, c.DisallowedLoss = c.DisallowedShares.Trim(0), c.DisallowedLoss.Trim(0)
	c.PermanentLoss = c.PermanentLoss.Trim(0)
}

// available is a lot that nobody sells, and how much of it is not yet taken.
type available struct {
	lot   *Lot
	units decimal.Decimal
}

// together fills in what selling all candidates would do: shares that are sold with the others replace nothing.
func (h *harvest) together() {
	r := h.result
	sold := make([]bool, len(h.book.Lots))
	order := make([]place, len(r.Candidates))
	for i := range r.Candidates {
		sold[r.Candidates[i].lot] = true
		order[i] = h.acquired(r.Candidates[i].lot)
		order[i].index = int32(i) // candidates are still in the order of the lots
	}
	slices.SortFunc(order, place.compare)
	left := make(map[int32][]available, len(h.windows))
	for g, window := range h.windows {
		for _, n := range window {
			if l := &h.book.Lots[n]; !sold[n] {
				left[g] = append(left[g], available{l, l.Quantity})
			}
		}
	}
	for _, o := range order {
		c := &r.Candidates[o.index]
		g := h.book.tickers[h.book.Lots[c.lot].ticker].group
		disallowed, permanent := h.takeFrom(left[g], c)
		for len(left[g]) > 0 && left[g][0].units.IsZero() {
			left[g] = left[g][1:]
		}
		allowed := h.sub(c.Loss, disallowed)
		r.Loss, r.AllowedLoss = h.add(r.Loss, c.Loss), h.add(r.AllowedLoss, allowed)
		r.DisallowedLoss, r.PermanentLoss = h.add(r.DisallowedLoss, disallowed), h.add(r.PermanentLoss, permanent)
		if c.LongTerm {
			r.LongTermLoss = h.add(r.LongTermLoss, allowed)
		} else {
			r.ShortTermLoss = h.add(r.ShortTermLoss, allowed)
		}
	}
	for _, d := range []*decimal.Decimal{&r.Loss, &r.AllowedLoss, &r.ShortTermLoss, &r.LongTermLoss, &r.DisallowedLoss, &r.PermanentLoss} {
		*d = d.Trim(0)
	}
}

// takeFrom matches a candidate with what is left.
func (h *harvest) takeFrom(from []available, c *Candidate) (disallowed, permanent decimal.Decimal) {
	l, left, loss := &h.book.Lots[c.lot], c.Quantity, c.Loss
	for i := range from {
		perUnit, ok := h.replaced(l, from[i].lot)
		if !ok || from[i].units.IsZero() {
			continue
		}
		units := h.toUnits(left, perUnit, decimal.One).Min(from[i].units)
		shares := h.toShares(units, perUnit, decimal.One).Min(left)
		part := h.portion(loss, shares, left)
		from[i].units = h.sub(from[i].units, units)
		left, loss = h.sub(left, shares), h.sub(loss, part)
		disallowed = h.add(disallowed, part)
		if !from[i].lot.Taxable {
			permanent = h.add(permanent, part)
		}
		if !left.IsPos() {
			break
		}
	}
	return disallowed, permanent
}

// sort puts the candidates in the wanted order; equal ones stay in the order of the book.
func (h *harvest) sort() {
	type entry struct {
		loss  decimal.Decimal
		by    float64
		index int32
	}
	list := h.result.Candidates
	order := make([]entry, len(list))
	for i := range list {
		order[i].index = int32(i)
		switch h.opts.SortBy {
		case ByLossPct:
			order[i].by = list[i].LossPct
		case ByDaysHeld:
			order[i].by = float64(list[i].DaysHeld)
		default:
			order[i].loss = list[i].Loss
		}
	}
	slices.SortFunc(order, func(a, b entry) int {
		return cmp.Or(cmp.Compare(b.by, a.by), b.loss.Cmp(a.loss), cmp.Compare(a.index, b.index))
	})
	sorted := make([]Candidate, len(list))
	for i, e := range order {
		sorted[i] = list[e.index]
	}
	h.result.Candidates = sorted
}
