package tax

import (
	"sort"

	"github.com/govalues/decimal"
)

// split is a split of a ticker on a day.
type split struct {
	date  Date
	ratio Ratio
}

// addSplit determines the ratio of a split, a spin-off or an exchange. Without one in the row, it
// follows from the shares that are held.
func (f *fold) addSplit(r *row) {
	ratio := r.Ratio
	if !ratio.known() {
		held := f.holding(r.account, r.ticker).projected
		if !held.IsPos() {
			return
		}
		ratio = Ratio{New: r.Quantity, Old: held}
		if r.Action == Split {
			ratio.New = f.add(held, r.Quantity)
		}
	}
	f.ratios[r.index] = ratio
	if r.Action != Split {
		f.addExchange(r)
		return
	}
	// Each account may have a row of its own for one split.
	list := f.splits[r.ticker]
	if len(list) == 0 || list[len(list)-1].date < r.Date {
		f.splits[r.ticker] = append(list, split{r.Date, ratio})
	}
}

// splitHoldings returns the holdings that a split row changes.
func (f *fold) splitHoldings(r *row) []*holding {
	if r.account != nil {
		return []*holding{f.holding(r.account, r.ticker)}
	}
	return f.byTicker[r.ticker]
}

// split changes the number of shares of each lot. It visits every open lot: a ticker has few
// splits.
func (f *fold) split(r *row) {
	ratio, ok := f.ratios[r.index]
	if !ok {
		f.gap(r, r.account, r.Quantity, "split of shares that were not bought")
		return
	}
	for _, h := range f.splitHoldings(r) {
		f.rescale(h.openParts(), ratio)
		f.rankAgain(h)
	}
}

// splitFactor returns how many shares of a later day one share of an earlier day became.
func (f *fold) splitFactor(t *ticker, earlier, later Date) decimal.Decimal {
	list, factor := f.splits[t], decimal.One
	first := sort.Search(len(list), func(i int) bool { return list[i].date > earlier })
	for _, s := range list[first:] {
		if s.date > later {
			break
		}
		f.steps++
		factor = f.quo(f.keep(factor.Mul(s.ratio.New)), s.ratio.Old)
	}
	return factor
}
