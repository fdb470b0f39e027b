package tax

import (
	"slices"
	"sort"

	"github.com/govalues/decimal"
)

// window is the lots that may take a loss on a ticker on asOf, earliest first: shares that were bought in the last 30
// days, are held, and have replaced nothing yet.
type window struct {
	lots   []place       // date and row of the lots, and their places in the book
	causes []Replacement // what each of them can take
	after  []windowSums  // of each of them and those after it; one more at the end
	option bool          // for losses on one option
	jump   []int32       // for each lot, itself, or, if nothing is left of it, one after it
}

type windowSums struct{ shares, retired decimal.Decimal }

// maxCauses is how many purchases are listed, and taken one by one. All others are taken as one: a loss on a thousand
// shares may meet a hundred thousand reinvested dividends.
const maxCauses = 32

// openWindows finds the windows.
func (h *harvest) openWindows() {
	b := h.book
	byClosure := make(map[closure]*window)
	put := func(c closure, n int) {
		w := byClosure[c]
		if w == nil {
			w = &window{option: c.option >= 0}
			byClosure[c] = w
		}
		p := placeOf(b.Lots[n].LotDate, b.Lots[n].row)
		p.index = int32(n)
		w.lots = append(w.lots, p)
	}
	for i := range b.Lots {
		l := &b.Lots[i]
		if !l.free || l.LotDate < b.AsOf-washDays {
			continue
		}
		t := &b.tickers[l.ticker]
		if !t.option || t.call {
			put(closure{t.group, -1}, i)
		}
		if t.option {
			put(closure{t.group, l.ticker}, i)
		}
	}
	for _, w := range byClosure {
		w.fill(h)
	}
	for i := range b.tickers {
		h.windows[i] = byClosure[b.tickers[i].closes(int32(i))]
	}
}

func (w *window) fill(h *harvest) {
	w.lots = sortPlaces(w.lots)
	w.causes, w.after = make([]Replacement, len(w.lots)), make([]windowSums, len(w.lots)+1)
	w.jump = make([]int32, len(w.lots)+1)
	for i := range w.jump {
		w.jump[i] = int32(i)
	}
	for i, p := range slices.Backward(w.lots) {
		l := &h.book.Lots[p.index]
		shares := h.toShares(l.Quantity, w.perUnit(h.book, l), decimal.One)
		w.causes[i] = Replacement{Date: l.LotDate, Account: l.Account, Ticker: l.Ticker, Shares: trim(shares)}
		w.after[i] = w.after[i+1]
		w.after[i].shares = h.add(w.after[i].shares, shares)
		if !l.Taxable {
			w.after[i].retired = h.add(w.after[i].retired, shares)
		}
	}
}

// perUnit is how many of the sold shares a unit of the lot counts for.
func (w *window) perUnit(b *Book, l *Lot) int64 {
	if !w.option && b.tickers[l.ticker].option {
		return contractSize
	}
	return 1
}

// own returns where in the window the lot itself is, which does not take its own loss. It may be there in parts.
func (w *window) own(l *Lot) (from, to int) {
	key := placeOf(l.LotDate, l.row).key
	from = sort.Search(len(w.lots), func(i int) bool { return w.lots[i].key >= key })
	to = from + sort.Search(len(w.lots)-from, func(i int) bool { return w.lots[from+i].key > key })
	return from, to
}

// alone fills in what selling only this lot would do.
func (j *judge) alone(c *Candidate, w *window) {
	b := j.harvest.book
	l := &b.Lots[c.lot]
	own, ownEnd := w.own(l)
	left, loss := c.Quantity, c.Loss
	taken, i := 0, 0 // how many causes, and where to look on
	last := decimal.Zero
	for ; i < len(w.lots) && left.IsPos() && taken < maxCauses; i++ {
		j.work++
		if i >= own && i < ownEnd {
			i = ownEnd - 1
			continue
		}
		shares := w.causes[i].Shares
		if compare(shares, left) > 0 {
			shares = left
		}
		part := j.portion(loss, shares, left)
		left, loss = j.sub(left, shares), j.sub(loss, part)
		c.DisallowedShares, c.DisallowedLoss = j.add(c.DisallowedShares, shares), j.add(c.DisallowedLoss, part)
		if !b.Lots[w.lots[i].index].Taxable {
			c.PermanentLoss = j.add(c.PermanentLoss, part)
		}
		taken, last = taken+1, shares
	}
	if left.IsPos() {
		j.others(c, w, i, left, loss)
	}
	c.Causes = j.causes(w, taken, i, own, ownEnd, last)
	end := len(w.lots)
	if end == ownEnd {
		end = own
	}
	if end > 0 {
		c.CleanFrom = w.causes[end-1].Date + washDays + 1
	}
	c.DisallowedShares, c.DisallowedLoss = trim(c.DisallowedShares), trim(c.DisallowedLoss)
	c.PermanentLoss = trim(c.PermanentLoss)
}

// others takes what the lots from i on can take of a loss, as one.
func (j *judge) others(c *Candidate, w *window, i int, left, loss decimal.Decimal) {
	own, ownEnd := w.own(&j.harvest.book.Lots[c.lot])
	own, ownEnd = max(i, own), max(i, ownEnd)
	// sums returns what the lots from i to end can take.
	sums := func(end int) (s windowSums) {
		s.shares, s.retired = j.sub(w.after[i].shares, w.after[end].shares), j.sub(w.after[i].retired, w.after[end].retired)
		if a, b := min(own, end), min(ownEnd, end); a < b {
			s.shares = j.sub(s.shares, j.sub(w.after[a].shares, w.after[b].shares))
			s.retired = j.sub(s.retired, j.sub(w.after[a].retired, w.after[b].retired))
		}
		return s
	}
	end := i + sort.Search(len(w.lots)-i, func(n int) bool { return compare(sums(i+n).shares, left) >= 0 })
	s := sums(end)
	if over := j.sub(s.shares, left); over.IsPos() { // of the last one
		s.shares = left
		if !j.harvest.book.Lots[w.lots[end-1].index].Taxable {
			s.retired = j.sub(s.retired, over)
		}
	}
	if !s.shares.IsPos() {
		return
	}
	part := j.portion(loss, s.shares, left)
	c.DisallowedShares, c.DisallowedLoss = j.add(c.DisallowedShares, s.shares), j.add(c.DisallowedLoss, part)
	c.PermanentLoss = j.add(c.PermanentLoss, j.portion(part, s.retired, s.shares))
}

// causes lists the first purchases of the window, without the lot itself, which stand before end; of the last one that
// many shares are taken. Lists without a change are shared.
func (j *judge) causes(w *window, n, end, own, ownEnd int, last decimal.Decimal) []Replacement {
	switch {
	case n == 0:
		return nil
	case n == end && compare(last, w.causes[n-1].Shares) == 0:
		return w.causes[:n:n]
	}
	if len(j.room) < n {
		j.room = make([]Replacement, 1024)
	}
	list := j.room[:0:n]
	j.room = j.room[n:]
	list = append(list, w.causes[:min(own, end)]...)
	if ownEnd < end {
		list = append(list, w.causes[ownEnd:end]...)
	}
	list[n-1].Shares = trim(last)
	return list
}
