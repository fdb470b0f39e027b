package tax

import "slices"

// Restriction lists tickers whose purchase before a day makes a wash sale.
type Restriction struct {
	Tickers []string
	Before  Date // the first day on which a purchase does no harm
}

// restrict lists what must not be bought, now and after the candidates are sold.
func (h *harvest) restrict() {
	b := h.book
	after := make(map[market]Date)
	for i := range h.result.Candidates {
		if t := b.Lots[h.result.Candidates[i].lot].ticker; !t.exempt {
			after[t.market()] = b.AsOf + WashDays + 1
		}
	}
	h.result.DoNotBuy, h.result.DoNotBuyNow = restrictions(after), b.Restricted()
}

// Restricted returns what must not be bought after the day of the book, because of losses that were
// realized.
func (b *Book) Restricted() []Restriction { return restrictions(b.restricted) }

func restrictions(until map[market]Date) []Restriction {
	var list []Restriction
	for m, before := range until {
		r := Restriction{Before: before}
		if m.option != nil {
			r.Tickers = []string{m.option.name}
			if m.option.call { // buying a call replaces shares as well
				r.Before = max(before, until[market{group: m.option.group}])
			}
		} else {
			for _, t := range m.group.tickers {
				if !t.option && !t.exempt {
					r.Tickers = append(r.Tickers, t.name)
				}
			}
			slices.Sort(r.Tickers)
		}
		list = append(list, r)
	}
	slices.SortFunc(list,
		func(x, y Restriction) int { return slices.Compare(x.Tickers, y.Tickers) })
	return list
}
