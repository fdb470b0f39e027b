package tax

// pool is purchases that losses are matched with. Those of which nothing is left are jumped over, however many they
// are.
type pool struct {
	// jump is, for each purchase of the group, itself, or one after it from where to look on.
	jump []int32
	// next is the next purchase of the same ticker; nil: simply the next one.
	next []int32
	// starts are, for each ticker of the group, its first purchase that is not too old.
	starts []int32
}

// fillPools makes the pools of all purchases. A put takes no loss on shares, and a loss on an option is matched with the
// same option only, so these must not stand in each other's way.
func (g *group) fillPools(options bool) {
	n := len(g.acqs)
	g.shares.jump, g.options = zeros(g.shares.jump, n+1), nil
	for i := range g.shares.jump {
		g.shares.jump[i] = int32(i)
	}
	if !options {
		return
	}
	p := &pool{jump: make([]int32, n+1), next: make([]int32, n+1), starts: make([]int32, len(g.in.names[g.id]))}
	for i := range p.starts {
		p.starts[i] = int32(n)
	}
	p.jump[n] = int32(n)
	for i := n - 1; i >= 0; i-- {
		t := &g.in.tickers[g.acqs[i].ticker]
		p.jump[i] = int32(i)
		p.next[i], p.starts[t.local] = p.starts[t.local], int32(i)
		if t.option && !t.call {
			g.shares.jump[i]++
		}
	}
	g.options = p
}

// start is the first purchase of a ticker that today's losses may be matched with.
func (p *pool) start(g *group, local int32) int32 {
	a := p.starts[local]
	for a < int32(len(g.acqs)) && g.acqs[a].date < g.today-washDays {
		a = p.next[a]
	}
	p.starts[local] = a
	return a
}

// after is the purchase after a, whether or not something is left of it.
func (p *pool) after(a int32) int32 {
	if p.next != nil {
		return p.next[a]
	}
	return a + 1
}

// find returns the first purchase from a on of which something may be left.
func (p *pool) find(a int32) int32 { return jumpFrom(p.jump, a) }

// jumpFrom follows the jumps from a on to where they end, and makes the way shorter for the next one.
func jumpFrom(jump []int32, a int32) int32 {
	root := a
	for jump[root] != root {
		root = jump[root]
	}
	for a < root {
		a, jump[a] = jump[a], root
	}
	return root
}

// exhaust says that nothing is left of a purchase.
func (g *group) exhaust(a int32) {
	g.shares.jump[a] = a + 1
	if g.options != nil {
		g.options.jump[a] = g.options.next[a]
	}
}
