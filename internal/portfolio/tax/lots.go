package tax

import (
	"cmp"
	"container/heap"
	"slices"
	"strconv"
	"strings"

	"github.com/govalues/decimal"
)

// holding is the lots of one ticker in one account.
type holding struct {
	account *account
	ticker  *ticker

	// byDate has all open lots, oldest first, and closed ones that have not come to the front yet.
	// The other queues are filled for the methods that need them.
	byDate  queue[*lot]
	newest  queue[*lot]              // LIFO
	ranking                          // HIFO and MinTax
	byName  map[lotName]*queue[*lot] // nil until a row names a lot
	byDay   map[Date][]*lot          // nil until a row names a day
	arrived int                      // number of lots so far

	numbered   Date // the date that lastNumber belongs to
	lastNumber int

	premiums  []*premium      // of puts that were exercised today
	projected decimal.Decimal // look-ahead: shares held; negative for written options
	net       decimal.Decimal // look-ahead: shares held; negative after a sell without a buy
	contracts contracts       // look-ahead: lots of a call
}

// lot is shares that were acquired together and are in one account. It is in several parts if some
// of its shares have replaced shares that were sold at a loss.
type lot struct {
	holding  *holding
	date     Date
	row      int       // the transaction that brought the shares
	order    int       // of the row among those of its day
	time     Clock     // of the purchase
	arrival  int       // number of the lot in its holding
	purchase *purchase // nil if the shares were not purchased
	id       string    // as given in the row, or empty
	number   int       // among the lots of its date
	// a gift that was worth less than the donor's basis, which counts losses from lossBasis
	dual  bool
	first *part
}

// part is shares of a lot that have the same basis per share and holding period. A closed part has
// quantity zero.
type part struct {
	shares
	lot        *lot
	holdStart  Date
	alwaysLong bool  // long-term whatever the dates are
	used       bool  // replaces shares that were sold at a loss
	next       *part // of this lot
	// of this purchase, in any account, among those that may still become a replacement
	nextFree *part
	created  int // order of creation, which decides between equals
	version  int // number of times it was ranked
}

// shares is a quantity with its basis.
type shares struct {
	quantity   decimal.Decimal
	basis      decimal.Decimal
	adjustment decimal.Decimal // the part of basis that wash sales added
	lossBasis  decimal.Decimal // of a dual lot only
}

func (p *part) closed() bool { return p.quantity.IsZero() }

// basisForLoss returns the basis that a loss is counted from.
func (p *part) basisForLoss() decimal.Decimal {
	if p.lot.dual {
		return p.lossBasis
	}
	return p.basis
}

// open returns the first open part, or nil.
func (l *lot) open() *part {
	for l.first != nil && l.first.closed() {
		l.first = l.first.next
	}
	return l.first
}

// compareAge orders lots by date, then by time or row, then by arrival in the account.
func compareAge(a, b *lot) int {
	return cmp.Or(cmp.Compare(a.date, b.date), cmp.Compare(a.order, b.order),
		cmp.Compare(a.arrival, b.arrival))
}

func older(a, b *lot) bool { return compareAge(a, b) < 0 }
func newer(a, b *lot) bool { return compareAge(a, b) > 0 }

func newHolding(a *account, t *ticker) *holding {
	h := &holding{account: a, ticker: t}
	h.reset()
	return h
}

// reset empties the queues.
func (h *holding) reset() {
	h.byDate, h.newest = queue[*lot]{before: older}, queue[*lot]{before: newer}
	h.byName, h.byDay = nil, nil
	if h.account.ranksLots() {
		h.ranking = newRanking()
	}
}

// nextNumber returns the number of a new lot among those of its date.
func (h *holding) nextNumber(d Date) int {
	if h.numbered != d {
		h.numbered, h.lastNumber = d, 0
	}
	h.lastNumber++
	return h.lastNumber
}

// addLot puts a lot into the queues. Its parts must exist.
func (f *fold) addLot(l *lot) {
	h := l.holding
	h.arrived++
	l.arrival = h.arrived
	heap.Push(&h.byDate, l)
	if h.account.Method == LIFO {
		heap.Push(&h.newest, l)
	}
	if h.byName != nil {
		h.addName(l)
	}
	if h.byDay != nil {
		h.byDay[l.date] = append(h.byDay[l.date], l)
	}
	for p := l.first; p != nil; p = p.next {
		f.rank(p)
	}
}

// front returns the first open part of the first lot in a queue, or nil. It removes closed lots.
func front(q *queue[*lot]) *part {
	for len(q.items) > 0 {
		if p := q.items[0].open(); p != nil {
			return p
		}
		heap.Pop(q)
	}
	return nil
}

// openLots returns the open lots, oldest first.
func (h *holding) openLots() []*lot {
	// A sorted slice is a valid heap.
	h.byDate.items = slices.DeleteFunc(h.byDate.items, func(l *lot) bool { return l.open() == nil })
	slices.SortFunc(h.byDate.items, compareAge)
	return h.byDate.items
}

// openParts returns all open parts, in the order of their lots.
func (h *holding) openParts() []*part {
	var list []*part
	for _, l := range h.openLots() {
		for p := l.first; p != nil; p = p.next {
			if !p.closed() {
				list = append(list, p)
			}
		}
	}
	return list
}

// take removes at most quantity from a part, and returns what it removed.
func (f *fold) take(p *part, quantity decimal.Decimal) shares {
	if quantity.Cmp(p.quantity) >= 0 {
		all := p.shares
		p.shares = shares{}
		return all
	}
	taken := shares{
		quantity:   quantity,
		basis:      f.portion(p.basis, quantity, p.quantity),
		adjustment: f.portion(p.adjustment, quantity, p.quantity),
		lossBasis:  f.portion(p.lossBasis, quantity, p.quantity),
	}
	p.shares = shares{
		quantity:   f.sub(p.quantity, quantity),
		basis:      f.sub(p.basis, taken.basis),
		adjustment: f.sub(p.adjustment, taken.adjustment),
		lossBasis:  f.sub(p.lossBasis, taken.lossBasis),
	}
	return taken
}

// divide leaves quantity in a part, and puts the rest into a new part behind it, which it returns.
func (f *fold) divide(p *part, quantity decimal.Decimal) *part {
	taken := f.take(p, quantity)
	rest := f.newPart(*p)
	p.shares, p.next, p.nextFree = taken, rest, rest
	f.rank(rest)
	return rest
}

// newPart returns a copy of p as a new part.
func (f *fold) newPart(p part) *part {
	f.created++
	p.created, p.version = f.created, 0
	return &p
}

// lotName is the name of a lot: the id that its row gave it, or its date and number.
type lotName struct {
	id     string
	date   Date
	number int
}

func (l *lot) name() lotName {
	if l.id != "" {
		return lotName{id: l.id}
	}
	return lotName{date: l.date, number: l.number}
}

// String formats the name of a lot without an id as 2024-01-05#1.
func (n lotName) String() string {
	if n.id != "" {
		return n.id
	}
	return n.date.String() + "#" + strconv.Itoa(n.number)
}

// parseLotName parses the name of a lot without an id. It reports false for other names.
func parseLotName(s string) (lotName, bool) {
	day, number, ok := strings.Cut(s, "#")
	if !ok {
		return lotName{}, false
	}
	d, err := ParseDate(day)
	n, numberErr := strconv.Atoi(number)
	return lotName{date: d, number: n}, err == nil && numberErr == nil
}

func (h *holding) addName(l *lot) {
	q := h.byName[l.name()]
	if q == nil {
		q = &queue[*lot]{before: older}
		h.byName[l.name()] = q
	}
	heap.Push(q, l)
}

// named returns the first open part of the oldest lot with a name, or nil. A lot with this id comes
// before one that is only called so by its date and number.
func (h *holding) named(id string) *part {
	if h.byName == nil {
		h.byName = make(map[lotName]*queue[*lot])
		for _, l := range h.openLots() {
			h.addName(l)
		}
	}
	names := []lotName{{id: id}}
	if n, ok := parseLotName(id); ok {
		names = append(names, n)
	}
	for _, n := range names {
		if q := h.byName[n]; q != nil {
			if p := front(q); p != nil {
				return p
			}
		}
	}
	return nil
}

// opened returns the first open part of the lot that a broker closed, or nil and the reason. Lots of
// one day differ by their times: those with the time of the broker are one lot to it. Without equal
// times, the day must have one purchase only.
func (h *holding) opened(c ClosedLot) (p *part, why string) {
	if h.byDay == nil {
		h.byDay = make(map[Date][]*lot)
		for _, l := range h.openLots() {
			h.byDay[l.date] = append(h.byDay[l.date], l)
		}
	}
	lots := slices.DeleteFunc(h.byDay[c.Opened], func(l *lot) bool { return l.open() == nil })
	slices.SortFunc(lots, compareAge)
	h.byDay[c.Opened] = lots
	for _, l := range lots {
		if c.Time != 0 && l.time == c.Time {
			return l.open(), ""
		}
	}
	switch {
	case len(lots) == 0:
		return nil, "the broker closed a lot of " + c.Opened.String() + ", which has no such shares"
	case lots[0].row != lots[len(lots)-1].row:
		return nil, "the broker closed one of several lots of " + c.Opened.String() +
			", and their times are not known"
	}
	return lots[0].open(), ""
}

// queue is a priority queue, for use with container/heap: items[0] is an item that no other is
// before.
type queue[T any] struct {
	items  []T
	before func(a, b T) bool
}

func (q *queue[T]) Len() int           { return len(q.items) }
func (q *queue[T]) Less(i, j int) bool { return q.before(q.items[i], q.items[j]) }
func (q *queue[T]) Swap(i, j int)      { q.items[i], q.items[j] = q.items[j], q.items[i] }
func (q *queue[T]) Push(x any)         { q.items = append(q.items, x.(T)) }

func (q *queue[T]) Pop() any {
	last := len(q.items) - 1
	x := q.items[last]
	clear(q.items[last:])
	q.items = q.items[:last]
	return x
}
