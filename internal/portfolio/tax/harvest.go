package tax

import (
	"fmt"
	"math"
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
	// Accounts leaves out lots of other accounts. Empty: all taxable ones. Purchases count in all accounts in any case.
	Accounts []string
	// SkipWashCheck counts every loss as allowed.
	SkipWashCheck bool
}

// Candidate is an open lot at a loss. The wash sale figures are for selling this lot alone on the harvest's day,
// but for the last two. Amounts are positive.
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
	// Causes are the purchases that would take the loss, earliest first, 32 at most.
	Causes []Replacement
	// CleanFrom is the first day on which the whole loss would count, if nothing more is bought.
	CleanFrom Date

	// TogetherShares and TogetherLoss are what would be disallowed of this lot if all candidates are sold together.
	TogetherShares decimal.Decimal
	TogetherLoss   decimal.Decimal

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
	book    *Book
	opts    HarvestOptions
	chosen  map[string]bool // accounts; nil: all taxable ones
	windows []*window       // by ticker; nil without shares that could take a loss on it
	quotes  []quote         // by ticker
	result  *HarvestResult
}

type quote struct {
	price     decimal.Decimal
	ok, asked bool
}

// Harvest looks for open lots at a loss in taxable accounts at these prices, by ticker, on the book's day.
func Harvest(b *Book, prices map[string]decimal.Decimal, opts HarvestOptions) (*HarvestResult, error) {
	h, err := newHarvest(b, prices, opts)
	if err != nil {
		return nil, err
	}
	return h.result, nil
}

func newHarvest(b *Book, prices map[string]decimal.Decimal, opts HarvestOptions) (*harvest, error) {
	if opts.SortBy == "" {
		opts.SortBy = ByLossAmount
	}
	if !slices.Contains([]SortBy{ByLossAmount, ByLossPct, ByDaysHeld}, opts.SortBy) {
		return nil, fmt.Errorf("sort_by %q is not known: use loss_amount, loss_pct or days_held", opts.SortBy)
	}
	for _, id := range opts.Accounts {
		if kind, ok := b.kinds[id]; !ok {
			return nil, fmt.Errorf("account %q is not in the portfolio: name one that is", id)
		} else if kind != Taxable {
			return nil, fmt.Errorf("account %q is not taxable, its losses do not count: name a taxable one", id)
		}
	}
	h := &harvest{book: b, opts: opts, chosen: setOf(opts.Accounts), result: &HarvestResult{AsOf: b.AsOf}}
	h.ask(prices)
	if h.windows = make([]*window, len(b.tickers)); !opts.SkipWashCheck {
		h.openWindows()
	}
	h.find()
	h.together()
	h.embargoes()
	h.sort()
	if h.err != nil {
		return nil, fmt.Errorf("computing losses, check prices: %w", h.err)
	}
	return h, nil
}

// ask looks up the prices that are needed.
func (h *harvest) ask(prices map[string]decimal.Decimal) {
	h.quotes = make([]quote, len(h.book.tickers))
	for i := range h.book.Lots {
		l := &h.book.Lots[i]
		q := &h.quotes[l.ticker]
		if q.asked || !h.wants(l) {
			continue
		}
		q.asked = true
		if q.price, q.ok = prices[l.Ticker]; !q.ok {
			h.result.NoPrice = append(h.result.NoPrice, l.Ticker)
		}
	}
	slices.Sort(h.result.NoPrice)
}

func (h *harvest) wants(l *Lot) bool {
	return l.Taxable && (h.chosen == nil || h.chosen[l.Account])
}

// setOf is nil if there are no accounts.
func setOf(accounts []string) map[string]bool {
	if len(accounts) == 0 {
		return nil
	}
	set := make(map[string]bool, len(accounts))
	for _, id := range accounts {
		set[id] = true
	}
	return set
}

// find lists the lots at a loss, with what selling each alone would do.
func (h *harvest) find() {
	type finder struct {
		calc
		lots  []int32
		below int
	}
	finders := make([]finder, workers(len(h.book.Lots)))
	inParts(len(h.book.Lots), len(finders), func(part, from, to int) {
		f := &finders[part]
		for i := from; i < to; i++ {
			l := &h.book.Lots[i]
			if !h.wants(l) || !h.quotes[l.ticker].ok {
				continue
			}
			loss := f.sub(l.LossBasis, f.mul(l.Quantity, h.quotes[l.ticker].price))
			switch {
			case !loss.IsPos():
			case compare(loss, h.opts.MinLoss) < 0:
				f.below++
			default:
				f.lots = append(f.lots, int32(i))
			}
		}
	})
	var found []int32
	for i := range finders {
		h.keep(decimal.Zero, finders[i].err)
		h.result.BelowMinLoss += finders[i].below
		found = append(found, finders[i].lots...)
	}
	h.result.Candidates = make([]Candidate, len(found))
	judges := make([]judge, workers(len(found)))
	inParts(len(found), len(judges), func(part, from, to int) {
		j := &judges[part]
		j.harvest = h
		for i := from; i < to; i++ {
			c := &h.result.Candidates[i]
			*c = j.candidate(found[i], h.quotes[h.book.Lots[found[i]].ticker].price)
			if w := h.windows[h.book.Lots[found[i]].ticker]; w != nil {
				j.alone(c, w)
			}
		}
	})
	for i := range judges {
		h.keep(decimal.Zero, judges[i].err)
		h.work += judges[i].work
	}
}

// judge fills in candidates; several work at a time.
type judge struct {
	calc
	harvest *harvest
	room    []Replacement // for causes
}

func (j *judge) candidate(n int32, price decimal.Decimal) Candidate {
	l, asOf := &j.harvest.book.Lots[n], j.harvest.book.AsOf
	value := j.mul(l.Quantity, price)
	loss := j.sub(l.LossBasis, value)
	pct := 0.0
	if basis, ok := l.LossBasis.Float64(); ok {
		part, _ := loss.Float64()
		pct = 100 * part / basis
	}
	return Candidate{
		Account: l.Account, Ticker: l.Ticker, LotID: l.LotID, LotDate: l.LotDate, HoldingStart: l.LossHoldingStart,
		LongTermFrom: LongTermFrom(l.LossHoldingStart), LongTerm: l.AlwaysLong || longTerm(l.LossHoldingStart, asOf),
		DaysHeld: int(asOf - l.LossHoldingStart + 1), Quantity: l.Quantity, Basis: l.LossBasis, Price: price,
		Value: trim(value), Loss: trim(loss), LossPct: pct, CleanFrom: asOf, lot: n}
}

// sort puts the candidates in the wanted order; equal ones stay in the order of the book.
func (h *harvest) sort() {
	list := h.result.Candidates
	order := make([]place, len(list))
	for i := range list {
		key := uint64(0)
		switch h.opts.SortBy {
		case ByLossPct:
			key = math.Float64bits(list[i].LossPct) // which order as the numbers do, as long as they are positive
		case ByDaysHeld:
			key = uint64(list[i].DaysHeld)
		default:
			var ok bool
			if key, ok = fixed(list[i].Loss); !ok {
				slices.SortStableFunc(list, func(a, b Candidate) int { return b.Loss.Cmp(a.Loss) })
				return
			}
		}
		order[i] = place{^key, int32(i)}
	}
	order = sortPlaces(order)
	// Each candidate goes to its place; the places of a cycle are changed in turn, because the list is too large to copy.
	for i := range order {
		if order[i].index < 0 {
			continue
		}
		moving, at := list[i], int32(i)
		for {
			from := order[at].index
			order[at].index = -1
			if from == int32(i) {
				list[at] = moving
				break
			}
			list[at] = list[from]
			at = from
		}
	}
}
