package plan

import (
	"slices"
)

// Sizes of the picture, in pixels.
const (
	boxWidth   = 208
	boxHeight  = 56
	layerGap   = 64
	boxGap     = 18
	waypoint   = 10 // the height of a line that passes a layer
	margin     = 24
	maxPassing = 20_000
)

// cell is a position in a layer: a task, or a waypoint of a line on its way to a later layer.
type cell struct {
	task   int // -1 for a waypoint
	layer  int
	height float64
	y      float64 // of the top
	left   []int   // cells of the layer before that lines come from
	right  []int
}

func (c *cell) middle() float64 { return c.y + c.height/2 }

// layout arranges tasks in layers from left to right, each in the layer after the last of its
// blockers, and orders the layers so that few lines cross. It is deterministic.
type layout struct {
	cells  []cell
	layers [][]int
	// lines has the cells of each line between two tasks.
	lines  [][]int
	height float64
}

func newLayout(net *network) *layout {
	l := &layout{}
	passing := 0
	for i, depth := range net.depth {
		l.add(cell{task: i, layer: depth, height: boxHeight})
		for _, j := range net.before[i] {
			passing += depth - net.depth[j] - 1
		}
	}
	for i := range net.depth {
		for _, j := range net.before[i] {
			l.connect(j, i, passing <= maxPassing)
		}
	}
	for sweep := range 6 {
		l.sweep(sweep%2 == 0)
	}
	l.place()
	return l
}

func (l *layout) add(c cell) int {
	at := len(l.cells)
	l.cells = append(l.cells, c)
	for len(l.layers) <= c.layer {
		l.layers = append(l.layers, nil)
	}
	l.layers[c.layer] = append(l.layers[c.layer], at)
	return at
}

// connect adds a line between two tasks. With room, it has a waypoint in each layer that it passes.
func (l *layout) connect(from, to int, room bool) {
	line := []int{from}
	if room {
		for layer := l.cells[from].layer + 1; layer < l.cells[to].layer; layer++ {
			line = append(line, l.add(cell{task: -1, layer: layer, height: waypoint}))
		}
	}
	line = append(line, to)
	for i := 1; i < len(line); i++ {
		l.cells[line[i-1]].right = append(l.cells[line[i-1]].right, line[i])
		l.cells[line[i]].left = append(l.cells[line[i]].left, line[i-1])
	}
	l.lines = append(l.lines, line)
}

// sweep orders each layer by the mean position of its neighbours in the previous layer of the sweep
// (the barycenter heuristic).
func (l *layout) sweep(rightwards bool) {
	place := make([]float64, len(l.cells))
	for _, layer := range l.layers {
		for i, at := range layer {
			place[at] = float64(i) / float64(len(layer))
		}
	}
	for i := range l.layers {
		layer := l.layers[i]
		if !rightwards {
			layer = l.layers[len(l.layers)-1-i]
		}
		wish := make(map[int]float64, len(layer))
		for _, at := range layer {
			neighbours := l.cells[at].left
			if !rightwards {
				neighbours = l.cells[at].right
			}
			wish[at] = place[at]
			if len(neighbours) > 0 {
				sum := 0.0
				for _, n := range neighbours {
					sum += place[n]
				}
				wish[at] = sum / float64(len(neighbours))
			}
		}
		slices.SortStableFunc(layer, func(a, b int) int {
			switch {
			case wish[a] < wish[b]:
				return -1
			case wish[a] > wish[b]:
				return 1
			}
			return 0
		})
		for i, at := range layer {
			place[at] = float64(i) / float64(len(layer))
		}
	}
}

// place sets the positions of cells: each layer is stacked and centred.
func (l *layout) place() {
	heights := make([]float64, len(l.layers))
	for i, layer := range l.layers {
		for j, at := range layer {
			if j > 0 {
				heights[i] += boxGap
			}
			l.cells[at].y = heights[i]
			heights[i] += l.cells[at].height
		}
		l.height = max(l.height, heights[i])
	}
	for i, layer := range l.layers {
		for _, at := range layer {
			l.cells[at].y += (l.height - heights[i]) / 2
		}
	}
}

func (c *cell) x() float64 { return float64(margin + c.layer*(boxWidth+layerGap)) }
