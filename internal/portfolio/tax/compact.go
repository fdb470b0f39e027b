package tax

// Chunks are in blocks, so that more of them need no copy of all.
const (
	chunkBits   = 8
	chunkBlock  = 1 << chunkBits
	chunkInside = chunkBlock - 1
)

// at returns a chunk; it stays where it is until the next compaction.
func (g *group) at(n int32) *chunk { return &g.blocks[n>>chunkBits][n&chunkInside] }

// addChunk returns the number of a new chunk.
func (g *group) addChunk(c chunk) int32 {
	n := g.filled
	if int(n>>chunkBits) == len(g.blocks) {
		g.blocks = append(g.blocks, new([chunkBlock]chunk))
	}
	g.filled++
	*g.at(n) = c
	return n
}

// fewChunks are not worth a compaction.
const fewChunks = 1 << 17

// compact forgets closed chunks, when they are nearly as many as the open ones were after the last time: so it costs about as much as
// it saves, and an active trader's book needs memory for what is held, not for all that ever was. Chunks keep their
// order, which decides between equals.
func (g *group) compact() {
	if int(g.filled) < g.crowded {
		return
	}
	g.to = zeros(g.to, int(g.filled))
	to, n := g.to, int32(0) // the new number of each open chunk
	for i := range g.filled {
		if to[i] = -1; !g.at(i).qty.IsZero() {
			to[i] = n
			n++
		}
	}
	moved := func(i int32) int32 {
		if i < 0 {
			return -1
		}
		return to[i]
	}
	for i := range g.queues {
		q := &g.queues[i]
		g.rerank(q)
		q.lots.keep(func(n int32) int32 { return moved(g.open(n)) })
		q.byID = nil
		g.renumber(&q.short, to)
		g.renumber(&q.long, to)
		g.renumberRipe(&q.ripe, to)
	}
	for a := range g.acqs[:g.made] {
		g.acqs[a].free = moved(g.stillFree(g.acqs[a].free))
	}
	// All links are looked up before the first chunk moves.
	for i := range g.filled {
		if to[i] >= 0 {
			c := g.at(i)
			g.links = append(g.links, chunkLinks{moved(g.open(c.next)), moved(g.stillFree(c.free))})
		}
	}
	for i := range g.filled {
		if to[i] >= 0 {
			c := g.at(to[i])
			*c = *g.at(i)
			c.next, c.free = g.links[to[i]].next, g.links[to[i]].free
		}
	}
	g.links, g.filled = g.links[:0], n
	g.crowded = max(fewChunks, int(n)+int(n)/4*3)
}

// chunkLinks are what a chunk will point at, when all have moved.
type chunkLinks struct{ next, free int32 }

// stillFree returns the first open chunk from n on of those that may become a replacement, or -1.
func (g *group) stillFree(n int32) int32 {
	for n >= 0 && (g.at(n).qty.IsZero() || g.at(n).used) {
		n = g.at(n).free
	}
	return n
}

// renumber drops void ranks and gives the others their chunks' new numbers.
func (g *group) renumber(h *ranks, to []int32) {
	kept := (*h)[:0]
	for _, r := range *h {
		if c := g.at(r.chunk); c.version == r.version && to[r.chunk] >= 0 {
			r.chunk = to[r.chunk]
			kept = append(kept, r)
		}
	}
	for i := (len(kept) - 2) / children; i >= 0 && len(kept) > 1; i-- {
		kept.sink(i, kept[i])
	}
	*h = kept
}

func (g *group) renumberRipe(r *ripening, to []int32) {
	for i := range r.heads {
		at := &r.heads[i]
		for *at > 0 {
			x := &g.ripes[*at-1]
			if c := g.at(x.chunk); c.version == x.version && to[x.chunk] >= 0 {
				x.chunk = to[x.chunk]
				at = &x.next
				continue
			}
			spare := *at
			*at = x.next
			x.next, g.spareRipe = g.spareRipe, spare
		}
	}
}
