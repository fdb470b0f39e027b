package draw

// Sizes of the picture, in pixels.
const (
	margin     = 24
	columnGap  = 52 // between a card and its children
	siblingGap = 12
	cousinGap  = 22 // between cards of one column that have different parents
)

// box is the position and size of a card.
type box struct{ x, y, width, height int }

func (b *box) right() int  { return b.x + b.width }
func (b *box) middle() int { return b.y + b.height/2 }

// level is the contour of a subtree in one column: its top and bottom, and the levels of the
// columns after it, which are moved by shift. Levels are immutable and shared: a merged contour
// reuses the rest of the deeper subtree. So the cost of a merge is the depth of the shallower
// subtree, and the layout takes linear time.
type level struct {
	top, bottom int
	next        *level
	shift       int
}

// distance returns how far b must be below a.
func distance(a, b *level) int {
	far, gap := 0, siblingGap
	for shiftA, shiftB := 0, 0; a != nil && b != nil; gap = cousinGap {
		far = max(far, a.bottom+shiftA+gap-b.top-shiftB)
		shiftA, shiftB = shiftA+a.shift, shiftB+b.shift
		a, b = a.next, b.next
	}
	return far
}

// merge returns the contour of a, moved by shiftA, above b, moved by shiftB.
func merge(a *level, shiftA int, b *level, shiftB int) *level {
	var first level
	last, shiftLast := &first, 0
	for a != nil && b != nil {
		last.next = &level{top: a.top + shiftA, bottom: b.bottom + shiftB}
		last, shiftLast = last.next, 0
		shiftA, shiftB = shiftA+a.shift, shiftB+b.shift
		a, b = a.next, b.next
	}
	last.next, shiftLast = a, shiftA
	if a == nil {
		last.next, shiftLast = b, shiftB
	}
	last.shift = shiftLast
	return first.next
}

// spread arranges subtrees below each other. It returns the position of each, the first at 0, and
// their merged contour. Each subtree is halfway between its highest and its lowest possible
// position, so that small ones between large ones are spread evenly. The mean of two arrangements
// that keep all distances keeps them too.
func spread(subtrees []*level) ([]int, *level) {
	n := len(subtrees)
	place := make([]int, n)
	all := subtrees[0]
	for i := 1; i < n; i++ {
		place[i] = distance(all, subtrees[i])
		all = merge(all, 0, subtrees[i], place[i])
	}
	if n < 3 {
		return place, all
	}
	lowest := place[n-1]
	all = subtrees[n-1]
	for i := n - 2; i >= 0; i-- {
		up := distance(subtrees[i], all)
		all = merge(subtrees[i], -up, all, 0)
		place[i] = (place[i] + lowest - up) / 2
	}
	all = subtrees[0]
	for i := 1; i < n; i++ {
		all = merge(all, 0, subtrees[i], place[i])
	}
	return place, all
}

// arrange positions cards from left to right, a column for each depth, each card centred beside its
// children. It returns the total width and height. The sizes of the cards must be set.
func (p *drawing) arrange(cards []box) (width, height int) {
	if len(cards) == 0 {
		return 0, 0
	}
	offset := make([]int, len(cards)) // of a card's middle from its parent's
	levels := make([]*level, len(cards))
	// Children come after their parent.
	for i := len(cards) - 1; i >= 0; i-- {
		h := cards[i].height
		own := &level{top: -h / 2, bottom: h - h/2}
		if children := p.nodes[i].Children; len(children) > 0 {
			subtrees := make([]*level, len(children))
			for j, c := range children {
				subtrees[j], levels[c] = levels[c], nil
			}
			place, all := spread(subtrees)
			middle := place[len(place)-1] / 2
			for j, c := range children {
				offset[c] = place[j] - middle
			}
			own.next, own.shift = all, -middle
		}
		levels[i] = own
	}
	return p.columns(cards), p.rows(cards, offset)
}

// columns sets the x positions of cards.
func (p *drawing) columns(cards []box) (width int) {
	var widest []int
	for i := range cards {
		depth := p.nodes[i].Depth
		for len(widest) <= depth {
			widest = append(widest, 0)
		}
		widest[depth] = max(widest[depth], cards[i].width)
	}
	begin := make([]int, len(widest))
	for d := 1; d < len(begin); d++ {
		begin[d] = begin[d-1] + widest[d-1] + columnGap
	}
	for i := range cards {
		cards[i].x = begin[p.nodes[i].Depth]
		width = max(width, cards[i].right())
	}
	return width
}

// rows sets the y positions of cards.
func (p *drawing) rows(cards []box, offset []int) (height int) {
	top, bottom := 0, 0
	for i := range cards {
		if parent := p.nodes[i].Parent; parent >= 0 {
			offset[i] += offset[parent]
		}
		cards[i].y = offset[i] - cards[i].height/2
		top, bottom = min(top, cards[i].y), max(bottom, cards[i].y+cards[i].height)
	}
	for i := range cards {
		cards[i].y -= top
	}
	return bottom - top
}
