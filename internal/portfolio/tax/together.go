package tax

import "github.com/govalues/decimal"

// totals are the sums of a harvest.
type totals struct {
	calc
	loss, allowed, short, long, disallowed, permanent decimal.Decimal
}

func (t *totals) add(o *totals) {
	t.keep(decimal.Zero, o.err)
	t.work += o.work
	t.loss, t.allowed = t.calc.add(t.loss, o.loss), t.calc.add(t.allowed, o.allowed)
	t.short, t.long = t.calc.add(t.short, o.short), t.calc.add(t.long, o.long)
	t.disallowed, t.permanent = t.calc.add(t.disallowed, o.disallowed), t.calc.add(t.permanent, o.permanent)
}

// together fills in what selling all candidates would do: shares that are sold with the others replace nothing.
func (h *harvest) together() {
	units := make([]decimal.Decimal, len(h.book.Lots)) // what is not sold and not yet taken
	for i := range units {
		units[i] = h.book.Lots[i].Quantity
	}
	list := h.result.Candidates
	for i := range list {
		units[list[i].lot] = decimal.Zero
	}
	order, starts := h.byGroup()
	parts := make([]totals, workers(len(list)))
	inParts(len(order), len(parts), func(part, from, to int) {
		for g := range len(starts) - 1 {
			if starts[g] < from || starts[g] >= to || starts[g] == starts[g+1] {
				continue
			}
			for _, o := range sortPlaces(order[starts[g]:starts[g+1]]) {
				parts[part].sell(h, &list[o.index], units)
			}
		}
	})
	var all totals
	for i := range parts {
		all.add(&parts[i])
	}
	h.keep(decimal.Zero, all.err)
	h.work += all.work
	r := h.result
	r.Loss, r.AllowedLoss, r.ShortTermLoss, r.LongTermLoss = trim(all.loss), trim(all.allowed), trim(all.short), trim(all.long)
	r.DisallowedLoss, r.PermanentLoss = trim(all.disallowed), trim(all.permanent)
}

// byGroup deals the candidates to their groups of tickers. It returns when each was acquired, and where each group
// starts. Groups know nothing of each other.
func (h *harvest) byGroup() (order []place, starts []int) {
	b, list := h.book, h.result.Candidates
	starts = make([]int, len(b.groups)+1)
	group := func(i int) int32 { return b.tickers[b.Lots[list[i].lot].ticker].group }
	for i := range list {
		starts[group(i)+1]++
	}
	for g := range b.groups {
		starts[g+1] += starts[g]
	}
	next := append([]int(nil), starts...)
	order = make([]place, len(list))
	for i := range list {
		l := &b.Lots[list[i].lot]
		p := placeOf(l.LotDate, l.row)
		p.index = int32(i) // candidates are still in the order of the lots
		g := group(i)
		order[next[g]] = p
		next[g]++
	}
	return order, starts
}

// sell counts a candidate.
func (t *totals) sell(h *harvest, c *Candidate, units []decimal.Decimal) {
	permanent := decimal.Zero
	if w := h.windows[h.book.Lots[c.lot].ticker]; w != nil {
		permanent = t.takeFrom(h, w, c, units)
	}
	disallowed := c.TogetherLoss
	allowed := t.sub(c.Loss, disallowed)
	t.loss, t.allowed = t.calc.add(t.loss, c.Loss), t.calc.add(t.allowed, allowed)
	t.disallowed, t.permanent = t.calc.add(t.disallowed, disallowed), t.calc.add(t.permanent, permanent)
	if c.LongTerm {
		t.long = t.calc.add(t.long, allowed)
	} else {
		t.short = t.calc.add(t.short, allowed)
	}
}

// takeFrom matches a candidate with what is left of its window. It returns what would be lost for good.
func (t *totals) takeFrom(h *harvest, w *window, c *Candidate, units []decimal.Decimal) (permanent decimal.Decimal) {
	sold, left, loss := &h.book.Lots[c.lot], c.Quantity, c.Loss
	own, ownEnd := w.own(sold) // one lot, though it may be in parts
	for i := jumpFrom(w.jump, 0); int(i) < len(w.lots) && left.IsPos(); i = jumpFrom(w.jump, i+1) {
		t.work++
		if int(i) >= own && int(i) < ownEnd {
			i = int32(ownEnd - 1)
			continue
		}
		n := w.lots[i].index
		l := &h.book.Lots[n]
		if units[n].IsZero() {
			w.jump[i] = i + 1
			continue
		}
		perUnit := w.perUnit(h.book, l)
		taken := t.toUnits(left, perUnit, decimal.One).Min(units[n])
		shares := t.toShares(taken, perUnit, decimal.One).Min(left)
		part := t.portion(loss, shares, left)
		units[n] = t.sub(units[n], taken)
		left, loss = t.sub(left, shares), t.sub(loss, part)
		c.TogetherLoss = t.calc.add(c.TogetherLoss, part)
		if !l.Taxable {
			permanent = t.calc.add(permanent, part)
		}
	}
	c.TogetherShares, c.TogetherLoss = trim(t.sub(c.Quantity, left)), trim(c.TogetherLoss)
	return permanent
}
