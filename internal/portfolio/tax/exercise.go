package tax

import "github.com/govalues/decimal"

// A call and the shares that it buys are one acquisition (Reg. 1.1091-1(e) and (f)) in two rows: an
// assign closes the option, and a buy of the same day brings the shares. The look-ahead finds out
// which shares belong to which calls, because a loss before the exercise must not take both. On the
// day of the exercise, the shares get what was paid for the calls, and what the calls took of
// losses.

// delivery is shares of a purchase that the calls of an assign row bought.
type delivery struct {
	shares   decimal.Decimal // zero if other calls of the day took all shares
	purchase *purchase
}

// exercisedCalls is, for a purchase of calls, the shares that they will buy, in the order of
// exercise. The contracts of a purchase leave in the order in which they take losses, so both are
// counted from the first contract.
type exercisedCalls struct {
	deliveries []callDelivery
	done       int             // deliveries that reserveCalled has handled
	gone       decimal.Decimal // contracts that were sold or exercised
	used       decimal.Decimal // contracts up to the last one that took a loss
}

// callDelivery is shares of a purchase that are for the contracts from first on.
type callDelivery struct {
	first, shares decimal.Decimal
	purchase      *purchase
}

// recordGone records that contracts of a purchase were sold or exercised.
func (f *fold) recordGone(p *purchase, contracts decimal.Decimal) {
	if p != nil && p.calls != nil {
		p.calls.gone = f.add(p.calls.gone, contracts)
	}
}

// reserveCalled is called when contracts of a purchase took a loss. It prevents the shares that
// these contracts will buy from taking another one.
func (f *fold) reserveCalled(p *purchase, contracts decimal.Decimal) {
	calls := p.calls
	if calls == nil {
		return
	}
	from := calls.used.Max(calls.gone)
	calls.used = f.add(from, contracts)
	from, to := f.mul(from, sharesPerContract()), f.mul(calls.used, sharesPerContract())
	for ; calls.done < len(calls.deliveries); calls.done++ {
		f.steps++
		d := &calls.deliveries[calls.done]
		start := f.mul(d.first, sharesPerContract())
		end := f.add(start, d.shares)
		if overlap := f.sub(end.Min(to), start.Max(from)); overlap.IsPos() && !d.purchase.bought {
			d.purchase.reserved = f.add(d.purchase.reserved, overlap)
		}
		if end.Cmp(to) > 0 {
			return
		}
	}
}

// deliveredShares is, for a purchase by exercise on its day, the parts that do not have a call yet.
type deliveredShares struct {
	promised  *part // the first part that replaces something, or nil
	free      *part // the first part that does not, or nil
	firstFree *part // where these parts start
	last      *part // the last part that got a call, or nil
}

// next returns a part that does not have a call yet, or nil. A call that took a loss is for shares
// that did not.
func (d *deliveredShares) next(callUsed bool) *part {
	for d.promised != nil && d.promised != d.firstFree && d.promised.closed() {
		d.promised = d.promised.next
	}
	if d.promised == d.firstFree {
		d.promised = nil
	}
	for d.free != nil && d.free.closed() {
		d.free = d.free.next
	}
	if d.promised != nil && (!callUsed || d.free == nil) {
		return d.promised
	}
	return d.free
}

// take records that a part got its call.
func (d *deliveredShares) take(p *part) {
	if p == d.promised {
		d.promised = p.next
	} else {
		d.free = p.next
	}
	d.last = p
}

// deliver adds to the shares of an assign row what was paid for its calls, and what these took of
// losses: the amount, the time, and that the shares replace nothing else. It takes from the row's
// deliveries, and reports false if there are no shares.
func (f *fold) deliver(deliveries *[]delivery, call *part, taken shares) bool {
	parts, sum, last := f.callParts(deliveries, call.used, taken.quantity)
	if len(parts) == 0 {
		if last == nil {
			return false
		}
		parts, sum = []*part{last}, last.quantity // the contracts are for fewer shares than usual
	}
	for _, p := range parts {
		basis, adjustment := f.portion(taken.basis, p.quantity, sum),
			f.portion(taken.adjustment, p.quantity, sum)
		taken.basis, taken.adjustment, sum = f.sub(taken.basis, basis),
			f.sub(taken.adjustment, adjustment), f.sub(sum, p.quantity)
		p.basis = f.add(p.basis, basis)
		if call.used {
			p.used, p.alwaysLong = true, p.alwaysLong || call.alwaysLong
			p.adjustment = f.add(p.adjustment, adjustment)
			p.holdStart -= call.lot.date + 1 - call.holdStart
		}
		f.rank(p)
	}
	return true
}

// callParts returns the parts that a number of contracts buys, and the sum of their shares. If
// there are none, last is the part that got the previous call.
func (f *fold) callParts(deliveries *[]delivery, callUsed bool,
	contracts decimal.Decimal) (parts []*part, sum decimal.Decimal, last *part) {
	want := f.mul(contracts, sharesPerContract())
	for len(*deliveries) > 0 && f.err == nil {
		d := &(*deliveries)[0]
		bought := d.purchase.delivered
		p := bought.next(callUsed)
		done := d.shares.IsZero() || p == nil
		last = bought.last
		if want.IsZero() || done && len(*deliveries) == 1 {
			break // the last delivery stays, for calls without shares
		}
		if done {
			*deliveries = (*deliveries)[1:]
			continue
		}
		quantity := want.Min(d.shares).Min(p.quantity)
		if quantity.Cmp(p.quantity) < 0 {
			f.divide(p, quantity)
		}
		bought.take(p)
		parts = append(parts, p)
		want, d.shares, sum = f.sub(want, quantity), f.sub(d.shares, quantity), f.add(sum, quantity)
	}
	return parts, sum, last
}

// callTracker follows in the look-ahead which calls are held, and so which are exercised. Sells by
// HIFO and MinTax depend on what wash sales will do to the basis: the tracker assumes FIFO for
// them.
type callTracker struct {
	*fold
	day    Date // that bought is for
	bought map[boughtKey][]*purchase
}

// boughtKey is a holding, and a price or all prices.
type boughtKey struct {
	holding  *holding
	price    decimal.Decimal
	anyPrice bool
}

// contracts is the lots of a call in one account, in the order of rows.
type contracts struct {
	lots  []contractLot
	first int            // the first lot that may be open
	byID  map[string]int // the last lot with an id
}

type contractLot struct {
	quantity decimal.Decimal
	gone     decimal.Decimal // contracts that were sold or exercised
	purchase *purchase       // nil if they were not purchased
	id       string
}

// track follows a row of a call.
func (c *callTracker) track(r *row) {
	switch r.Action {
	case Buy, Reinvest:
		c.addContracts(r.account, r, r.purchase.quantity, r.purchase)
	case GiftIn, Inherit:
		c.addContracts(r.account, r, r.Quantity, nil)
	case Transfer:
		if r.account == nil {
			c.addContracts(r.to, r, r.Quantity, nil)
			return
		}
		c.takeContracts(r, false, func(p *purchase, _, quantity decimal.Decimal) {
			if r.to != nil {
				c.addContracts(r.to, r, quantity, p)
			}
		})
	case Sell, Expire:
		c.takeContracts(r, r.account.Method == LIFO,
			func(*purchase, decimal.Decimal, decimal.Decimal) {})
	case Assign:
		c.exercise(r)
	}
}

func (c *callTracker) addContracts(in *account, r *row, quantity decimal.Decimal, p *purchase) {
	held := &c.holding(in, r.ticker).contracts
	if r.LotID != "" {
		if held.byID == nil {
			held.byID = make(map[string]int)
		}
		held.byID[r.LotID] = len(held.lots)
	}
	held.lots = append(held.lots, contractLot{quantity: quantity, purchase: p, id: r.LotID})
}

// takeContracts removes the contracts of a row. It calls taken for each lot, with the lot's
// purchase and how many contracts of the lot were gone before.
func (c *callTracker) takeContracts(r *row, newest bool,
	taken func(p *purchase, gone, quantity decimal.Decimal)) {
	held := &c.holding(r.account, r.ticker).contracts
	for left := r.Quantity; left.IsPos() && c.err == nil; {
		l := held.pick(r.LotID, newest)
		if l == nil {
			return
		}
		quantity, gone := left.Min(l.quantity), l.gone
		l.quantity, l.gone, left = c.sub(l.quantity, quantity), c.add(l.gone, quantity),
			c.sub(left, quantity)
		taken(l.purchase, gone, quantity)
	}
}

// pick returns the lot that a row takes next, or nil.
func (c *contracts) pick(id string, newest bool) *contractLot {
	for c.first < len(c.lots) && c.lots[c.first].quantity.IsZero() {
		c.first++
	}
	for len(c.lots) > c.first && c.lots[len(c.lots)-1].quantity.IsZero() {
		c.lots = c.lots[:len(c.lots)-1]
	}
	if c.first == len(c.lots) {
		return nil
	}
	if i, ok := c.byID[id]; ok {
		if i >= len(c.lots) || c.lots[i].id != id || c.lots[i].quantity.IsZero() {
			return nil
		}
		return &c.lots[i]
	}
	if _, ok := parseLotName(id); id != "" && !ok {
		return nil
	}
	if newest {
		return &c.lots[len(c.lots)-1]
	}
	return &c.lots[c.first]
}

// exercise finds the shares that the calls of an assign row bought: those of the day at the strike
// price or, if there are none, the first ones of the day.
func (c *callTracker) exercise(r *row) {
	c.listBought(r.Date)
	key := boughtKey{holding: c.holding(r.account, r.ticker.underlying),
		price: c.strikePrice(r.ticker)}
	if len(c.bought[key]) == 0 {
		key = boughtKey{holding: key.holding, anyPrice: true}
	}
	bought := c.bought[key]
	c.takeContracts(r, false, func(call *purchase, gone, contracts decimal.Decimal) {
		want := c.mul(contracts, sharesPerContract())
		for want.IsPos() && c.err == nil {
			for len(bought) > 1 && bought[0].uncalled.IsZero() {
				bought = bought[1:]
			}
			if len(bought) == 0 || bought[0].uncalled.IsZero() {
				break
			}
			p := bought[0]
			delivered := want.Min(p.uncalled)
			want, p.uncalled = c.sub(want, delivered), c.sub(p.uncalled, delivered)
			c.link(r, call, gone, delivered, p)
			gone = c.add(gone, c.quo(delivered, sharesPerContract()))
		}
		if len(bought) > 0 && len(c.exercises[r.index]) == 0 {
			c.link(r, nil, gone, decimal.Zero, bought[0])
		}
	})
	c.bought[key] = bought // the last one stays, for calls without shares
}

// link records that the calls of a row bought shares. call is nil for calls without shares.
func (c *callTracker) link(r *row, call *purchase, first, shares decimal.Decimal, p *purchase) {
	if p.delivered == nil {
		p.delivered = &deliveredShares{}
	}
	c.exercises[r.index] = append(c.exercises[r.index], delivery{shares, p})
	if call == nil {
		return
	}
	if call.calls == nil {
		call.calls = &exercisedCalls{}
	}
	call.calls.deliveries = append(call.calls.deliveries, callDelivery{first, shares, p})
}

// listBought lists the shares that were bought on a day. All purchases of a day come before its
// exercises.
func (c *callTracker) listBought(day Date) {
	if c.day == day {
		return
	}
	c.day, c.bought = day, make(map[boughtKey][]*purchase)
	first := len(c.purchases)
	for first > 0 && c.purchases[first-1].Date == day {
		first--
	}
	for _, p := range c.purchases[first:] {
		c.steps++
		if p.Action != Buy || p.ticker.option {
			continue
		}
		p.uncalled = p.quantity
		h := c.holding(p.account, p.ticker)
		for _, key := range []boughtKey{{holding: h, price: p.Price.Trim(0)},
			{holding: h, anyPrice: true}} {
			c.bought[key] = append(c.bought[key], p)
		}
	}
}
