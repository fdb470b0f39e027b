package tax

import (
	"fmt"
	"math"
	"runtime"
	"sync"
)

// Build folds the rows up to and including asOf. Rows need no order; see the package comment for those of one day. The
// error is a [*FaultsError].
func Build(rules Rules, txs []Transaction, asOf Date) (*Book, error) {
	if len(txs) > math.MaxInt32 {
		return nil, &FaultsError{Faults: []Fault{{Text: fmt.Sprintf("%d transactions are too many for one book: split the portfolio", len(txs))}}}
	}
	in, err := take(rules, txs, asOf)
	if err != nil {
		return nil, err
	}
	return in.build(runtime.GOMAXPROCS(0))
}

// build folds in at most n parts at a time.
func (in *intake) build(n int) (*Book, error) {
	parts := in.share(n)
	var wait sync.WaitGroup
	for _, p := range parts {
		wait.Go(p.fold)
	}
	wait.Wait()
	for _, p := range parts {
		if p.err != nil {
			return nil, p.err
		}
	}
	b := &Book{AsOf: in.asOf, accounts: in.accounts, tickers: in.tickers, groups: in.names, kinds: make(map[string]Kind)}
	for _, a := range in.accounts {
		b.kinds[a.ID] = a.Kind
	}
	b.finish(in, parts)
	return b, nil
}

// part is some groups, which one goroutine folds. The parts are in the order of the groups, so that the book is the
// same however many there are.
type part struct {
	output
	first, end int // groups
	rows       int
	work       int
	err        error
}

// enoughRows is how many rows are worth a goroutine.
const enoughRows = 20_000

// share deals the groups to at most n parts of similar size.
func (in *intake) share(n int) []*part {
	rows := 0
	for _, keys := range in.groups {
		rows += len(keys)
	}
	n = max(1, min(n, rows/enoughRows))
	parts := []*part{{}}
	for g, keys := range in.groups {
		p := parts[len(parts)-1]
		if p.rows > 0 && p.rows+len(keys)/2 > rows/n && len(parts) < n {
			p = &part{first: g}
			parts = append(parts, p)
		}
		p.end = g + 1
		p.rows += len(keys)
	}
	for _, p := range parts {
		p.in, p.namer = in, &lotNamer{}
	}
	return parts
}

func (p *part) fold() {
	g := &group{in: p.in, out: &p.output}
	for id := p.first; id < p.end; id++ {
		keys := p.in.groups[id]
		if len(keys) == 0 {
			continue
		}
		order(keys)
		g.reset(int32(id))
		if p.err = g.run(keys); p.err != nil {
			return
		}
		p.take(g)
		p.work = g.work
	}
}
