package tax

import "github.com/govalues/decimal"

// chunk is a lot in an account, or the part of one that has a basis of its own. Closed ones stay, with quantity zero.
type chunk struct {
	qty, basis, adjustment decimal.Decimal // qty is as of epoch: see touch
	lossBasis              decimal.Decimal // of a dual one
	date, hold             Date
	row                    int32 // the transaction that brought it
	acq                    int32 // the purchase, -1 if it was none
	next                   int32 // the next chunk of this lot in this account, or -1
	free                   int32 // the next chunk of this purchase that may still become a replacement, or -1
	queue                  int32
	lot                    int32 // the id it was given, or -1
	nth                    int32 // its number among the lots of its day
	version                int32 // changes with what a rank was made from
	epoch                  int32 // how many of its queue's splits qty has seen
	used                   bool  // is a replacement
	dual                   bool  // a gift that was worth less than the donor's basis
	always                 bool  // long-term whatever the dates say
	unranked               bool  // is in the queue's list of those
}

// queue is the lots of one account and ticker.
type queue struct {
	account int32
	ticker  int32
	sibling int32 // the next queue of the ticker, or -1
	method  Method
	// lots are first chunks, by date and row. FIFO shortens it at the start and LIFO at the end; other closed ones stay until
	// somebody goes through all.
	lots     lotList
	numbered Date // the day whose lots nth counts
	nth      int32
	byID     map[uint64]*sameName // by lotKey; nil until a row names a lot
	premium  int32                // today's first premium for the shares sold by exercised puts, or -1
	ranked
	splitState
}

// reset makes a queue ready for another ticker or account, and keeps its memory.
func (q *queue) reset(account, ticker int32, method Method) {
	q.lots.reset()
	clear(q.ripe.heads)
	*q = queue{account: account, ticker: ticker, sibling: -1, method: method, premium: -1, lots: q.lots,
		ranked: ranked{short: q.short[:0], long: q.long[:0], unranked: q.unranked[:0], ripe: ripening{heads: q.ripe.heads}}, splitState: splitState{log: q.log[:0]}}
}

// queue returns the lots of a ticker in an account. It may move all queues.
func (g *group) queue(account, ticker int32) int32 {
	local := g.in.tickers[ticker].local
	at := int(local)*len(g.in.accounts) + int(account)
	if g.sparse == nil {
		if n := g.slots[at]; n > 0 {
			return n - 1
		}
	} else if n, ok := g.sparse[at]; ok {
		return n
	}
	n := int32(len(g.queues))
	if len(g.queues) < cap(g.queues) {
		g.queues = g.queues[:n+1] // with the memory that another group's queue had
	} else {
		g.queues = append(g.queues, queue{})
	}
	q := &g.queues[n]
	q.reset(account, ticker, g.in.accounts[account].Method)
	q.sibling, g.first[local] = g.first[local], n
	if g.sparse == nil {
		g.slots[at] = n + 1
	} else {
		g.sparse[at] = n
	}
	return n
}

// push puts a new lot into its queue.
func (g *group) push(n int32) {
	c := g.at(n)
	q := &g.queues[c.queue]
	after := func(have int32) bool {
		h := g.at(have)
		return h.date > c.date || h.date == c.date && h.row > c.row
	}
	if !q.lots.empty() && after(*q.lots.last()) {
		q.lots.insert(n, after) // a lot from elsewhere, older than some that are here
	} else {
		q.lots.append(n)
	}
	if q.byID != nil {
		g.name(q, n)
	}
	for ; n >= 0; n = g.at(n).next {
		g.at(n).epoch = int32(len(q.log))
		if g.splitting {
			q.note(g.at(n).qty)
			q.credit += lotCredit
		}
		g.rank(n)
	}
}

// number gives a new lot its number of the day.
func (q *queue) number(d Date) int32 {
	if q.numbered != d {
		q.numbered, q.nth = d, 0
	}
	q.nth++
	return q.nth
}

// open returns the first open chunk from n on in its lot, or -1.
func (g *group) open(n int32) int32 {
	g.work++
	for n >= 0 && g.at(n).qty.IsZero() {
		g.work++
		n = g.at(n).next
	}
	return n
}

// each calls f for all open chunks of the queue, oldest lot first.
func (g *group) each(q *queue, f func(n int32)) {
	q.lots.keep(g.open)
	for _, block := range q.lots.blocks {
		for _, n := range block {
			for n = g.open(n); n >= 0; n = g.open(g.at(n).next) {
				g.touch(g.at(n))
				f(n)
			}
		}
	}
}

// oldest returns the chunk that FIFO takes, or -1.
func (g *group) oldest(q *queue) int32 {
	for !q.lots.empty() {
		first := q.lots.first()
		if *first = g.openOr(*first); g.at(*first).qty.IsZero() {
			q.lots.dropFirst()
			continue
		}
		return *first
	}
	return -1
}

// newest returns the chunk that LIFO takes, or -1.
func (g *group) newest(q *queue) int32 {
	for !q.lots.empty() {
		last := q.lots.last()
		if *last = g.openOr(*last); g.at(*last).qty.IsZero() {
			q.lots.dropLast()
			continue
		}
		return *last
	}
	return -1
}

// openOr returns the first open chunk of a lot, or n if it is closed.
func (g *group) openOr(n int32) int32 {
	if first := g.open(n); first >= 0 {
		return first
	}
	return n
}

// pick returns the chunk that a disposal takes next, or -1. perShare is what it brings, for min_tax.
func (g *group) pick(q *queue, lot int32, perShare decimal.Decimal) int32 {
	if lot >= 0 {
		return g.named(q, lot)
	}
	switch q.method {
	case LIFO:
		return g.newest(q)
	case HIFO:
		return g.highest(q)
	case MinTax:
		return g.leastTaxed(q, perShare)
	}
	return g.oldest(q)
}
