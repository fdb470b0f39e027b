package plan

import (
	"container/heap"
	"math/bits"
	"slices"
)

// cycles returns, for each strongly connected component, a shortest cycle through its first node,
// beginning with that node. The graph has for each node the nodes that it points to, never itself.
func cycles(graph [][]int) [][]int {
	var found [][]int
	group := components(graph)
	seen := make([]bool, len(graph))
	for i := range graph {
		if !seen[group[i]] {
			seen[group[i]] = true
			if cycle := shortestCycle(graph, group, i); cycle != nil {
				found = append(found, cycle)
			}
		}
	}
	return found
}

// shortestCycle returns a shortest path from a node back to itself, or nil if there is none.
func shortestCycle(graph [][]int, group []int, from int) []int {
	came := map[int]int{}
	queue := []int{from}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for _, next := range graph[at] {
			if next == from {
				cycle := []int{at}
				for at != from {
					at = came[at]
					cycle = append(cycle, at)
				}
				slices.Reverse(cycle)
				return cycle
			}
			if _, known := came[next]; !known && group[next] == group[from] {
				came[next] = at
				queue = append(queue, next)
			}
		}
	}
	return nil
}

// components returns the number of the strongly connected component of each node (Tarjan's
// algorithm).
func components(graph [][]int) []int {
	n := len(graph)
	group, index, low, onStack := make([]int, n), make([]int, n), make([]int, n), make([]bool, n)
	var stack []int
	counter, groups := 0, 0
	var visit func(int)
	visit = func(v int) {
		counter++
		index[v], low[v], onStack[v] = counter, counter, true
		stack = append(stack, v)
		for _, w := range graph[v] {
			if index[w] == 0 {
				visit(w)
				low[v] = min(low[v], low[w])
			} else if onStack[w] {
				low[v] = min(low[v], index[w])
			}
		}
		if low[v] != index[v] {
			return
		}
		for {
			w := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			onStack[w], group[w] = false, groups
			if w == v {
				break
			}
		}
		groups++
	}
	for v := range n {
		if index[v] == 0 {
			visit(v)
		}
	}
	return group
}

// network is the graph of a plan without cycles: for each task the tasks that it waits for, those
// that wait for it, and how many tasks precede it on the longest chain.
type network struct {
	before, after [][]int
	depth         []int
	sorted        []int // each task after those that it waits for
}

// network ignores blockers that are unknown or close a cycle. Parsed plans have none, but Plan
// values from elsewhere may.
func (p *Plan) network() *network {
	n := len(p.Tasks)
	net := &network{make([][]int, n), make([][]int, n), make([]int, n), nil}
	byID := make(map[string]int, n)
	for i, t := range p.Tasks {
		byID[t.ID] = i
	}
	all := make([][]int, n)
	for i, t := range p.Tasks {
		for _, id := range t.BlockedBy {
			if j, ok := byID[id]; ok && j != i {
				all[i] = append(all[i], j)
			}
		}
	}
	group := components(all)
	for i, blockers := range all {
		for _, j := range blockers {
			if group[i] != group[j] {
				net.before[i] = append(net.before[i], j)
				net.after[j] = append(net.after[j], i)
			}
		}
	}
	waits := make([]int, n)
	for i := range n {
		if waits[i] = len(net.before[i]); waits[i] == 0 {
			net.sorted = append(net.sorted, i)
		}
	}
	for at := 0; at < len(net.sorted); at++ {
		for _, i := range net.after[net.sorted[at]] {
			net.depth[i] = max(net.depth[i], net.depth[net.sorted[at]]+1)
			if waits[i]--; waits[i] == 0 {
				net.sorted = append(net.sorted, i)
			}
		}
	}
	return net
}

// downstream returns how many tasks wait for each task, directly or indirectly.
func (net *network) downstream() []int {
	n := len(net.sorted)
	counts, sets := make([]int, n), make([][]uint64, n)
	for _, i := range slices.Backward(net.sorted) {
		set := make([]uint64, (n+63)/64)
		for _, j := range net.after[i] {
			set[j/64] |= 1 << (j % 64)
			for w, word := range sets[j] {
				set[w] |= word
			}
		}
		sets[i] = set
		for _, word := range set {
			counts[i] += bits.OnesCount64(word)
		}
	}
	return counts
}

// Order returns the ids in the order in which a single worker takes the tasks: of the tasks whose
// blockers are done, the one with the highest priority, then the one that most tasks wait for, then
// the first in the plan.
func (p *Plan) Order() []string {
	net := p.network()
	counts := net.downstream()
	ready := &queue{less: func(a, b int) bool {
		switch x, y := p.Tasks[a].Priority, p.Tasks[b].Priority; {
		case x != y:
			return x > y
		case counts[a] != counts[b]:
			return counts[a] > counts[b]
		}
		return a < b
	}}
	waits := make([]int, len(p.Tasks))
	for i := range p.Tasks {
		if waits[i] = len(net.before[i]); waits[i] == 0 {
			heap.Push(ready, i)
		}
	}
	order := make([]string, 0, len(p.Tasks))
	for ready.Len() > 0 {
		i := heap.Pop(ready).(int)
		order = append(order, p.Tasks[i].ID)
		for _, j := range net.after[i] {
			if waits[j]--; waits[j] == 0 {
				heap.Push(ready, j)
			}
		}
	}
	return order
}

// queue is a heap of tasks.
type queue struct {
	tasks []int
	less  func(a, b int) bool
}

func (q *queue) Len() int           { return len(q.tasks) }
func (q *queue) Less(i, j int) bool { return q.less(q.tasks[i], q.tasks[j]) }
func (q *queue) Swap(i, j int)      { q.tasks[i], q.tasks[j] = q.tasks[j], q.tasks[i] }
func (q *queue) Push(x any)         { q.tasks = append(q.tasks, x.(int)) }
func (q *queue) Pop() any {
	last := q.tasks[len(q.tasks)-1]
	q.tasks = q.tasks[:len(q.tasks)-1]
	return last
}

// Phases returns the phases that have tasks, in plan order.
func (p *Plan) Phases() []string {
	phases := []string{}
	seen := map[string]bool{"": true}
	for _, t := range p.Tasks {
		if !seen[t.Phase] {
			seen[t.Phase] = true
			phases = append(phases, t.Phase)
		}
	}
	return phases
}

// Startable returns the ids of the tasks without blockers, in plan order.
func (p *Plan) Startable() []string {
	ids := []string{}
	for _, t := range p.Tasks {
		if len(t.BlockedBy) == 0 {
			ids = append(ids, t.ID)
		}
	}
	return ids
}

// LongestChain returns the ids of the longest sequence of tasks in which each waits for the one
// before.
func (p *Plan) LongestChain() []string {
	net := p.network()
	at := -1
	for i := range p.Tasks {
		if at < 0 || net.depth[i] > net.depth[at] {
			at = i
		}
	}
	chain := []string{}
	for at >= 0 {
		chain = append(chain, p.Tasks[at].ID)
		next := -1
		for _, j := range net.before[at] {
			if net.depth[j] == net.depth[at]-1 && (next < 0 || j < next) {
				next = j
			}
		}
		at = next
	}
	slices.Reverse(chain)
	return chain
}
