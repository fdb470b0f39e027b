package tax

import (
	"slices"

	"github.com/govalues/decimal"
)

// embargoes says what must not be bought, after the harvest and already now.
func (h *harvest) embargoes() {
	b := h.book
	after := make(map[closure]Date)
	for i := range h.result.Candidates {
		t := b.Lots[h.result.Candidates[i].lot].ticker
		after[b.tickers[t].closes(t)] = b.AsOf + washDays + 1
	}
	h.result.DoNotBuy, h.result.StillClosed = b.embargo(after), b.embargo(b.closed)
}

// closure is what a loss closes: a group of tickers, or, if the loss is on an option, that option alone.
type closure struct{ group, option int32 }

// closes is what a loss on the ticker, which has that number, closes.
func (t *ticker) closes(number int32) closure {
	if t.option {
		return closure{t.group, number}
	}
	return closure{t.group, -1}
}

// keepClosed notes what today's losses close, if that holds on asOf still. Shares that have their replacement do not
// look for another.
func (g *group) keepClosed() {
	if g.today < g.in.asOf-washDays {
		return
	}
	if g.out.closed == nil {
		g.out.closed = make(map[closure]Date)
	}
	for i := range g.losses {
		s := g.out.sales.at(int(g.losses[i].sale))
		if compare(s.DisallowedShares, s.Quantity) < 0 {
			g.out.closed[g.in.tickers[s.ticker].closes(s.ticker)] = g.today + washDays + 1 // days only rise
		}
	}
}

func (b *Book) embargo(closed map[closure]Date) []Embargo {
	var list []Embargo
	for c, before := range closed {
		e := Embargo{Before: before}
		if c.option >= 0 {
			e.Tickers = []string{b.tickers[c.option].name}
			if b.tickers[c.option].call { // buying it makes a wash sale of losses on the shares, too
				e.Before = max(before, closed[closure{c.group, -1}])
			}
		} else {
			for _, name := range b.groups[c.group] {
				if _, _, option := optionParts(name); !option {
					e.Tickers = append(e.Tickers, name)
				}
			}
			slices.Sort(e.Tickers)
		}
		list = append(list, e)
	}
	slices.SortFunc(list, func(x, y Embargo) int { return slices.Compare(x.Tickers, y.Tickers) })
	return list
}

// Coverage says for how much of the taxable positions there are lots.
type Coverage struct {
	// Positions are the tickers in each account with lots or with shares that no row brought.
	Positions int
	WithLots  int
	// CountPct is WithLots of Positions in percent; ValuePct is the value of lots of the value of all these shares. Both
	// are zero without positions.
	CountPct float64
	ValuePct float64
}

// Cover computes the coverage of the taxable ones of these accounts or, if there are none, of all taxable ones. Tickers
// without a price are left out of the value.
func Cover(b *Book, prices map[string]decimal.Decimal, accounts []string) (Coverage, error) {
	var c calc
	type position struct{ account, ticker string }
	positions := make(map[position]bool) // whether there are lots
	known, unknown := decimal.Zero, decimal.Zero
	chosen := setOf(accounts)
	wanted := func(id string) bool { return b.kinds[id] == Taxable && (chosen == nil || chosen[id]) }
	for _, gap := range b.Incomplete {
		if wanted(gap.Account) {
			positions[position{gap.Account, gap.Ticker}] = false
			unknown = c.add(unknown, c.mul(gap.Quantity, prices[gap.Ticker]))
		}
	}
	var price decimal.Decimal
	for i := range b.Lots {
		l := &b.Lots[i]
		if i == 0 || b.Lots[i-1].ticker != l.ticker || b.Lots[i-1].Account != l.Account {
			price = prices[l.Ticker]
			if wanted(l.Account) {
				positions[position{l.Account, l.Ticker}] = true
			}
		}
		if l.Taxable && (chosen == nil || chosen[l.Account]) {
			known = c.add(known, c.mul(l.Quantity, price))
		}
	}
	cover := Coverage{Positions: len(positions)}
	for _, lots := range positions {
		if lots {
			cover.WithLots++
		}
	}
	if cover.Positions > 0 {
		cover.CountPct = 100 * float64(cover.WithLots) / float64(cover.Positions)
	}
	if all := c.add(known, unknown); all.IsPos() {
		pct, _ := c.quo(known, all).Float64()
		cover.ValuePct = 100 * pct
	}
	return cover, c.err
}
