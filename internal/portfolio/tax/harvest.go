package tax

import (
	"cmp"
	"container/list"
	"fmt"
	"slices"

	"github.com/govalues/decimal"
)

// SortBy is the order of candidates. All orders are descending.
type SortBy string

// The orders.
const (
	ByLossAmount SortBy = "loss_amount"
	ByLossPct    SortBy = "loss_pct"
	ByDaysHeld   SortBy = "days_held"
)

// HarvestOptions selects and orders candidates.
type HarvestOptions struct {
	// MinLoss excludes lots with a smaller loss. Zero means all lots at a loss.
	MinLoss decimal.Decimal
	// SortBy is the order of candidates. Empty means ByLossAmount.
	SortBy SortBy
	// Accounts excludes lots of other accounts. Empty means all taxable accounts. Purchases count
	// in all accounts in any case.
	Accounts []string
	// SkipWashCheck counts every loss as allowed.
	SkipWashCheck bool
	// Held is the shares of each position. Nil means those that the rows add up to.
	Held map[Position]decimal.Decimal
	// Unknown is tickers whose lots are not known, although the rows have some: a record that
	// changed them is missing. They are never candidates, and no position of them has lots.
	Unknown map[string]bool
	// NotOffered is tickers that are never candidates. Contracts under section 1256 need not be
	// listed.
	NotOffered map[string]bool
}

// Candidate is an open lot at a loss that a sale by the method of its account takes before any lot
// at a gain, or that can be identified to the broker. The wash sale figures are for selling this
// lot alone on the day of the harvest, except for CombinedShares and CombinedLoss. Amounts are
// positive.
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
	Basis        decimal.Decimal // that the loss is counted from
	Price        decimal.Decimal
	Value        decimal.Decimal
	Loss         decimal.Decimal
	LossPct      float64

	DisallowedShares decimal.Decimal
	DisallowedLoss   decimal.Decimal
	PermanentLoss    decimal.Decimal
	// Causes is the purchases that would replace the lot, earliest first, at most 32.
	Causes []Replacement
	// CleanFrom is the first day on which the whole loss would be allowed, if nothing more is
	// bought.
	CleanFrom Date

	// CombinedShares and CombinedLoss are what would be disallowed of this lot if all candidates
	// were sold together.
	CombinedShares decimal.Decimal
	CombinedLoss   decimal.Decimal

	// Method is the method of the account. If Identify is set, which it is for Specific, the loss
	// is realized only if the lot is identified to the broker. Plain is a sale that names no lot:
	// of this lot and all that the method takes before it or, if the lot must be identified, of as
	// many shares.
	Method   Method
	Identify bool
	Plain    Outcome
	// Crypto is set if section 1091 does not apply.
	Crypto bool

	lot int // index in the book
}

// HarvestResult is the losses that could be realized. The totals are for selling all candidates
// together on AsOf.
type HarvestResult struct {
	AsOf       Date
	Candidates []Candidate
	// BelowMinLoss is the number of lots at a loss that MinLoss excluded.
	BelowMinLoss int

	AllowedLoss    decimal.Decimal // ShortTermLoss + LongTermLoss
	ShortTermLoss  decimal.Decimal
	LongTermLoss   decimal.Decimal
	DisallowedLoss decimal.Decimal
	// the part of DisallowedLoss that is replaced in retirement accounts
	PermanentLoss decimal.Decimal

	// DoNotBuy applies once the candidates are sold. DoNotBuyNow applies already, because of losses
	// in the last 30 days.
	DoNotBuy    []Restriction
	DoNotBuyNow []Restriction
	// NotReached is lots at a loss that a sale by the method of the account would not take first.
	// They are in no total.
	NotReached []Candidate
	// NotHeld is positions whose lots have more shares than are held. Which lots are left is not
	// known, so none is a candidate.
	NotHeld []Discrepancy
}

// harvest is the state of one call of Harvest.
type harvest struct {
	calc
	book   *Book
	opts   HarvestOptions
	prices map[string]decimal.Decimal
	recent map[market]*recentPurchases
	result *HarvestResult
	// lots that are sold together with candidates, because the method takes them first
	sold map[int]bool
}

// Harvest finds the open lots at a loss in taxable accounts, on the day of the book, at the given
// prices by ticker. Lots of a ticker without a price are omitted.
func Harvest(b *Book, prices map[string]decimal.Decimal,
	opts HarvestOptions) (*HarvestResult, error) {
	h, err := newHarvest(b, prices, opts)
	if err != nil {
		return nil, err
	}
	return h.result, nil
}

func newHarvest(b *Book, prices map[string]decimal.Decimal, opts HarvestOptions) (*harvest, error) {
	opts.SortBy = cmp.Or(opts.SortBy, ByLossAmount)
	if !slices.Contains([]SortBy{ByLossAmount, ByLossPct, ByDaysHeld}, opts.SortBy) {
		return nil, fmt.Errorf("sort_by %q is not known: use loss_amount, loss_pct or days_held",
			opts.SortBy)
	}
	for _, id := range opts.Accounts {
		if a := b.accounts[id]; a == nil {
			return nil, fmt.Errorf("account %q is not in the portfolio: name one that is", id)
		} else if !a.taxable() {
			return nil, fmt.Errorf(
				"account %q is not taxable, its losses do not count: name a taxable one", id)
		}
	}
	h := &harvest{book: b, opts: opts, prices: prices, result: &HarvestResult{AsOf: b.AsOf},
		sold: make(map[int]bool)}
	if !opts.SkipWashCheck {
		h.findRecent()
	}
	h.findCandidates()
	h.combine()
	h.restrict()
	h.sort()
	if h.err != nil {
		return nil, fmt.Errorf("computing losses, check prices: %w", h.err)
	}
	return h, nil
}

// findCandidates lists the lots at a loss, with the effects of selling each of them alone.
func (h *harvest) findCandidates() {
	r, lots := h.result, h.book.Lots
	missing, surplus, err := Reconcile(h.book, h.opts.Held, h.opts.Accounts)
	if err != nil && h.err == nil {
		h.err = err
	}
	unknown, notHeld := make(map[Position]bool), make(map[Position]bool)
	for _, d := range missing {
		unknown[d.Position] = true
	}
	for _, d := range surplus {
		notHeld[d.Position] = true
	}
	r.NotHeld = surplus
	for from, to := 0, 0; from < len(lots); from = to { // the lots of a position are together
		p := Position{lots[from].Account, lots[from].Ticker}
		for to = from; to < len(lots) && lots[to].Account == p.Account &&
			lots[to].Ticker == p.Ticker; to++ {
		}
		if !lots[from].Taxable || len(h.opts.Accounts) > 0 &&
			!slices.Contains(h.opts.Accounts, p.Account) || notHeld[p] ||
			h.opts.Unknown[p.Ticker] || h.opts.NotOffered[p.Ticker] || lots[from].ticker.contract {
			continue
		}
		if price, ok := h.prices[p.Ticker]; ok {
			h.findInPosition(from, to, price, unknown[p])
		}
	}
}

// findInPosition lists the lots at a loss among the lots [from, to), which are one position.
func (h *harvest) findInPosition(from, to int, price decimal.Decimal, unknown bool) {
	r, order := h.result, h.newSaleOrder(from, to, price, unknown)
	place := make(map[int]int, to-from) // of each lot in the order
	for n, i := range order.lots {
		place[i] = n
	}
	last := 0 // the last candidate in the order that a plain sale takes
	for i := from; i < to; i++ {
		l := &h.book.Lots[i]
		value := h.mul(l.Quantity, price)
		loss := h.sub(l.LossBasis, value)
		if !loss.IsPos() {
			continue
		}
		if loss.Cmp(h.opts.MinLoss) < 0 {
			r.BelowMinLoss++
			continue
		}
		c := candidate(l, h.book.AsOf, price, value.Trim(0), loss.Trim(0))
		c.lot, c.Crypto, c.Method = i, l.ticker.exempt, h.book.accounts[l.Account].Method
		if n := place[i]; c.Method != Specific && n < order.reached {
			c.Plain = Outcome{Quantity: order.quantities[n+1].Trim(0),
				Gain: order.gains[n+1].Trim(0)}
			last = max(last, n)
		} else {
			c.Identify, c.Plain = true, h.plainSale(order, l.Quantity)
		}
		if c.Identify && c.Method != Specific {
			r.NotReached = append(r.NotReached, c)
			continue
		}
		if recent := h.recent[l.ticker.market()]; recent != nil && !c.Crypto {
			h.sellAlone(&c, l, recent)
		}
		r.Candidates = append(r.Candidates, c)
	}
	for _, i := range order.lots[:last] {
		h.sold[i] = true
	}
}

func candidate(l *Lot, asOf Date, price, value, loss decimal.Decimal) Candidate {
	pct := 0.0
	if basis, ok := l.LossBasis.Float64(); ok {
		part, _ := loss.Float64()
		pct = 100 * part / basis
	}
	return Candidate{
		Account: l.Account, Ticker: l.Ticker, LotID: l.LotID, LotDate: l.LotDate,
		HoldingStart: l.LossHoldingStart,
		LongTermFrom: LongTermFrom(l.LossHoldingStart), LongTerm: l.AlwaysLong ||
			longTerm(l.LossHoldingStart, asOf),
		DaysHeld: int(asOf - l.LossHoldingStart + 1), Quantity: l.Quantity, Basis: l.LossBasis,
		Price: price,
		Value: value, Loss: loss, LossPct: pct, CleanFrom: asOf}
}

// combine computes the effects of selling all candidates together, in the order in which the lots
// were acquired. Shares that are sold together replace nothing.
func (h *harvest) combine() {
	candidates := h.result.Candidates
	// shares of each lot that are not sold and replace nothing
	available := make([]decimal.Decimal, len(h.book.Lots))
	for i := range available {
		available[i] = h.book.Lots[i].Quantity
	}
	order := make([]int, len(candidates))
	for i := range candidates {
		order[i] = i
		available[candidates[i].lot] = decimal.Zero
	}
	for lot := range h.sold {
		available[lot] = decimal.Zero
	}
	slices.SortFunc(order,
		func(x, y int) int { return h.book.compareAge(candidates[x].lot, candidates[y].lot) })
	remaining := make(map[market]*list.List)
	for m, recent := range h.recent {
		remaining[m] = list.New()
		for _, p := range recent.purchases {
			remaining[m].PushBack(p)
		}
	}
	r := h.result
	for _, i := range order {
		c := &candidates[i]
		l := &h.book.Lots[c.lot]
		permanent := decimal.Zero
		if purchases := remaining[l.ticker.market()]; purchases != nil && !c.Crypto {
			permanent = h.sellCombined(c, l, purchases, available)
		}
		allowed := h.sub(c.Loss, c.CombinedLoss)
		r.AllowedLoss, r.DisallowedLoss = h.add(r.AllowedLoss, allowed),
			h.add(r.DisallowedLoss, c.CombinedLoss)
		r.PermanentLoss = h.add(r.PermanentLoss, permanent)
		if c.LongTerm {
			r.LongTermLoss = h.add(r.LongTermLoss, allowed)
		} else {
			r.ShortTermLoss = h.add(r.ShortTermLoss, allowed)
		}
	}
	for _, d := range []*decimal.Decimal{&r.AllowedLoss, &r.ShortTermLoss, &r.LongTermLoss, &r.DisallowedLoss,
		&r.PermanentLoss} {
		*d = d.Trim(0)
	}
}

// compareAge orders lots of the book by date, then by time or row, then by their order in the book.
func (b *Book) compareAge(x, y int) int {
	return cmp.Or(cmp.Compare(b.Lots[x].LotDate, b.Lots[y].LotDate),
		cmp.Compare(b.Lots[x].order, b.Lots[y].order), cmp.Compare(x, y))
}

// sellCombined matches a candidate with what the candidates before it left of the recent purchases.
// It returns the loss that is permanent.
func (h *harvest) sellCombined(c *Candidate, l *Lot, purchases *list.List,
	available []decimal.Decimal) (permanent decimal.Decimal) {
	left, loss := c.Quantity, c.Loss
	for e := purchases.Front(); e != nil && left.IsPos() && h.err == nil; {
		h.steps++
		p, this := e.Value.(recentPurchase), e
		e = e.Next()
		switch {
		case available[p.lot].IsZero():
			purchases.Remove(this)
			continue
		case h.book.Lots[p.lot].row == l.row:
			continue // the rest of a lot does not replace what is sold of it
		}
		units := h.toUnits(left, p.perUnit, decimal.One).Min(available[p.lot])
		shares := h.toShares(units, p.perUnit, decimal.One).Min(left)
		part := h.portion(loss, shares, left)
		available[p.lot] = h.sub(available[p.lot], units)
		left, loss = h.sub(left, shares), h.sub(loss, part)
		c.CombinedLoss = h.add(c.CombinedLoss, part)
		if !h.book.Lots[p.lot].Taxable {
			permanent = h.add(permanent, part)
		}
	}
	c.CombinedShares, c.CombinedLoss = h.sub(c.Quantity, left).Trim(0), c.CombinedLoss.Trim(0)
	return permanent
}

// sort puts the candidates in the order of the options; equal ones keep the order of the book.
func (h *harvest) sort() {
	order := make([]*Candidate, len(h.result.Candidates))
	for i := range order {
		order[i] = &h.result.Candidates[i]
	}
	slices.SortFunc(order, func(a, b *Candidate) int {
		descending := 0
		switch h.opts.SortBy {
		case ByLossPct:
			descending = cmp.Compare(b.LossPct, a.LossPct)
		case ByDaysHeld:
			descending = cmp.Compare(b.DaysHeld, a.DaysHeld)
		default:
			descending = b.Loss.Cmp(a.Loss)
		}
		return cmp.Or(descending, cmp.Compare(a.lot, b.lot))
	})
	sorted := make([]Candidate, len(order))
	for i, c := range order {
		sorted[i] = *c
	}
	h.result.Candidates = sorted
}
