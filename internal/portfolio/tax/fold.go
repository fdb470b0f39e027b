package tax

import (
	"container/list"

	"github.com/govalues/decimal"
)

// fold applies the rows of one group of tickers to the book, day by day.
type fold struct {
	calc
	book    *Book
	today   Date
	created int // number of parts so far

	holdings map[holdingKey]*holding
	byTicker map[*ticker][]*holding

	// What the look-ahead finds, because a loss is matched with purchases up to 30 days later.
	purchases []*purchase // by date
	splits    map[*ticker][]split
	exchanges []exchange
	ratios    map[int]Ratio      // of splits, by row; none if there was nothing to split
	exercises map[int][]delivery // of calls, by row

	// The purchases that a loss can be matched with, by date: shares and calls for a loss on
	// shares, and each option for a loss on itself. Purchases that have nothing left, or are too
	// old, are removed when matching comes across them.
	replaceShares *list.List
	replaceOption map[*ticker]*list.List

	// Of today.
	losses   []dayLoss
	washes   []*WashSale // one for each row with a loss
	listed   map[listedKey]int
	premiums []*premium
}

type holdingKey struct {
	account *account
	ticker  *ticker
}

func newFold(book *Book) *fold {
	return &fold{book: book, holdings: make(map[holdingKey]*holding),
		byTicker: make(map[*ticker][]*holding),
		splits:   make(map[*ticker][]split), ratios: make(map[int]Ratio),
		exercises:     make(map[int][]delivery),
		replaceShares: list.New(), replaceOption: make(map[*ticker]*list.List)}
}

// run applies all rows of a group. The error is a [*FaultsError].
func (f *fold) run(rows []row) error {
	f.lookAhead(rows)
	for i := range rows {
		r := &rows[i]
		if i > 0 && (r.Date != f.today || r.planned && !rows[i-1].planned) {
			if err := f.endDay(&rows[i-1]); err != nil {
				return err
			}
		}
		f.today = r.Date
		f.apply(r)
		if f.err != nil {
			return f.failure(r)
		}
	}
	return f.endDay(&rows[len(rows)-1])
}

// failure reports an amount that decimals cannot represent.
func (f *fold) failure(r *row) error {
	faults := &FaultsError{}
	faults.add(r.Source, "the amounts of %s cannot be computed, check quantity and price: %v",
		r.Ticker, f.err)
	return faults
}

func (f *fold) apply(r *row) {
	switch r.Action {
	case Split:
		f.split(r)
	case ReturnOfCapital:
		f.returnCapital(r)
	case SpinOff:
		f.spinOff(r)
	case Exchange:
		f.exchange(r)
	case Buy, Reinvest:
		f.buy(r)
	case GiftIn:
		f.gift(r)
	case Inherit:
		l := &lot{holding: f.holding(r.account, r.ticker), date: r.Date}
		f.open(r, l, part{shares: shares{quantity: r.Quantity, basis: f.add(f.value(r), r.Fees)},
			holdStart: r.Date + 1, alwaysLong: true})
	case Transfer:
		f.transfer(r)
	case Assign:
		f.assign(r)
	case Sell, Expire, CashInLieu:
		f.sell(r)
	}
}

// endDay matches the losses of the day, now that it is known what is held at its end. last is a row
// of that day.
func (f *fold) endDay(last *row) error {
	for _, p := range f.premiums {
		p.holding.premiums = nil
		if !p.applied {
			f.gap(p.row, p.row.account, p.row.Quantity,
				"the exercised put sold no shares on its day")
		}
	}
	f.premiums = nil
	if len(f.losses) > 0 {
		f.matchLosses()
		f.restrict()
		f.losses, f.washes = f.losses[:0], f.washes[:0]
	}
	if f.err != nil {
		return f.failure(last)
	}
	return nil
}

// holding returns the holding of a ticker in an account, and adds it if it is new.
func (f *fold) holding(a *account, t *ticker) *holding {
	key := holdingKey{a, t}
	h := f.holdings[key]
	if h == nil {
		h = newHolding(a, t)
		f.holdings[key], f.byTicker[t] = h, append(f.byTicker[t], h)
	}
	return h
}

// value returns the total value of a row.
func (c *calc) value(r *row) decimal.Decimal {
	if !r.Value.IsZero() {
		return r.Value
	}
	return c.mul(r.Quantity, r.Price)
}

// gap records shares whose purchase is missing.
func (f *fold) gap(r *row, a *account, quantity decimal.Decimal, why string) {
	f.book.Incomplete = append(f.book.Incomplete, Gap{Date: r.Date, Account: a.ID, Ticker: r.Ticker,
		Quantity: quantity.Trim(0), Why: why, Row: r.index})
}

// open adds a new lot in one part.
func (f *fold) open(r *row, l *lot, p part) {
	l.row, l.order, l.time = r.index, r.order, r.Time
	l.id, l.number = r.LotID, l.holding.nextNumber(l.date)
	p.lot = l
	l.first = f.newPart(p)
	f.addLot(l)
}

// buy adds the lot of a purchase: a part for each loss that it replaces, and the rest.
func (f *fold) buy(r *row) {
	p := r.purchase
	if p.quantity.IsZero() {
		return // it closes written options
	}
	h := f.holding(r.account, r.ticker)
	l := &lot{holding: h, date: r.Date, row: r.index, order: r.order, time: r.Time, purchase: p,
		id: r.LotID, number: h.nextNumber(r.Date)}
	left := shares{quantity: p.quantity, basis: f.portion(f.add(f.mul(r.Quantity, r.Price), r.Fees),
		p.quantity, r.Quantity)}
	end := &l.first
	add := func(q part) *part {
		q.lot = l
		*end = f.newPart(q)
		added := *end
		end = &added.next
		return added
	}
	for _, promise := range p.promises {
		basis := f.portion(left.basis, promise.quantity, left.quantity)
		left.quantity, left.basis = f.sub(left.quantity, promise.quantity), f.sub(left.basis, basis)
		add(part{shares: shares{quantity: promise.quantity, basis: f.add(basis, promise.loss),
			adjustment: promise.loss},
			holdStart: r.Date + 1 - promise.days, alwaysLong: promise.alwaysLong, used: true})
	}
	if !left.quantity.IsZero() {
		p.free = add(part{shares: left, holdStart: r.Date + 1})
	}
	p.bought, p.promises = true, nil
	if p.delivered != nil {
		p.delivered.promised, p.delivered.free, p.delivered.firstFree = l.first, p.free, p.free
	}
	f.addLot(l)
}

// gift adds a lot with the donor's basis and holding period. If the gift was worth less than that
// basis, a loss is counted from its value and its own day.
func (f *fold) gift(r *row) {
	l := &lot{holding: f.holding(r.account, r.ticker), date: r.Date}
	p := part{shares: shares{quantity: r.Quantity, basis: f.add(r.DonorBasis, r.Fees)},
		holdStart: r.Date + 1}
	if r.DonorDate != 0 {
		p.holdStart = r.DonorDate + 1
	}
	if value := f.value(r); value.Cmp(r.DonorBasis) < 0 {
		l.dual, p.lossBasis = true, f.add(value, r.Fees)
	}
	f.open(r, l, p)
}

// transfer moves shares with their dates and basis, the oldest lot first.
func (f *fold) transfer(r *row) {
	if r.account == nil {
		if r.DonorDate == 0 {
			f.gap(r, r.to, r.Quantity, "transferred in without date and basis")
			return
		}
		l := &lot{holding: f.holding(r.to, r.ticker), date: r.DonorDate}
		f.open(r, l, part{shares: shares{quantity: r.Quantity, basis: r.DonorBasis},
			holdStart: r.DonorDate + 1})
		return
	}
	from, left := f.holding(r.account, r.ticker), r.Quantity
	for left.IsPos() && f.err == nil {
		p := f.pickOldest(from, r.LotID)
		if p == nil {
			in := r.account
			if r.to != nil {
				in = r.to // the shares are there now
			}
			f.gap(r, in, left, "transferred without a buy")
			return
		}
		taken := f.take(p, left)
		left = f.sub(left, taken.quantity)
		if r.to != nil {
			f.move(p, taken, f.holding(r.to, r.ticker))
		}
	}
}

// move makes a lot of shares that were taken from a part and now are in another account.
func (f *fold) move(from *part, taken shares, to *holding) {
	l := *from.lot
	p := f.newPart(*from)
	p.lot, p.shares, p.next = &l, taken, nil
	l.holding, l.first = to, p
	if l.purchase != nil && !p.used {
		from.nextFree = p // p is followed by what followed from
	}
	f.addLot(&l)
}

// returnCapital lowers the basis of all shares alike. What exceeds the basis is a gain.
func (f *fold) returnCapital(r *row) {
	h := f.holding(r.account, r.ticker)
	parts := h.openParts()
	if len(parts) == 0 {
		f.gap(r, r.account, r.Quantity, "capital returned on shares that were not bought")
		return
	}
	quantity, amount := f.quantityOf(parts), f.value(r)
	for _, p := range parts {
		returned := f.portion(amount, p.quantity, quantity)
		amount, quantity = f.sub(amount, returned), f.sub(quantity, p.quantity)
		if p.lot.dual {
			p.lossBasis = decimal.Zero.Max(f.sub(p.lossBasis, returned))
		}
		if p.basis = f.sub(p.basis, returned); p.basis.IsNeg() {
			f.realize(r, p, shares{}, p.basis.Neg())
			p.basis = decimal.Zero
		}
	}
	f.rankAgain(h)
}
