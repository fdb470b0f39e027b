// Command benchtree measures what a tick of a behaviour tree costs, beside another engine written in Go, in the same
// run. It prints a table; a goal that is missed is printed as short.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	bt "github.com/joeycumines/go-behaviortree"

	"signalbox/internal/tree"
)

func main() {
	rounds := flag.Int("rounds", 7, "how often each row is measured; the median counts")
	flag.Parse()
	if err := measure(*rounds); err != nil {
		fmt.Fprintln(os.Stderr, "benchtree:", err)
		os.Exit(1)
	}
}

// Goals, per node.
const (
	goalOff    = 50.0
	goalTraced = 250.0
	goalFlat   = 1.5
)

// row is one line of the table.
type row struct {
	name string
	// nodes are ticked at each tick.
	nodes int
	tick  func() error
	goal  float64
	// allocFree: the goal is that nothing is allocated.
	allocFree bool

	times  []float64
	allocs float64
}

func measure(rounds int) error {
	fmt.Printf("%s, %s/%s, %d cores; ns a node and tick, median of %d rounds\n\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), rounds)
	rows, err := allRows()
	if err != nil {
		return err
	}
	for range rounds { // every row once in each round, so that noise hits all alike
		for _, r := range rows {
			if err := r.once(); err != nil {
				return fmt.Errorf("%s: %w", r.name, err)
			}
		}
	}
	fmt.Printf("%-70s %9s %9s %12s\n", "", "ns/node", "goal", "allocs/tick")
	for _, r := range rows {
		r.print()
	}
	fmt.Println()
	printFlat(rows, "sequence")
	printFlat(rows, "five-ary")
	return nil
}

// once ticks for about a twentieth of a second.
func (r *row) once() error {
	ticks := max(1, 1_000_000/r.nodes)
	var before, after runtime.MemStats
	if err := r.tick(); err != nil { // what grows grows now
		return err
	}
	runtime.ReadMemStats(&before)
	began := time.Now()
	for range ticks {
		if err := r.tick(); err != nil {
			return err
		}
	}
	took := time.Since(began)
	runtime.ReadMemStats(&after)
	r.times = append(r.times, float64(took.Nanoseconds())/float64(ticks)/float64(r.nodes))
	// ReadMemStats and the clock allocate nothing; what other goroutines do is noise that a whole number hides
	r.allocs = float64((after.Mallocs - before.Mallocs) / uint64(ticks))
	return nil
}

func (r *row) median() float64 {
	slices.Sort(r.times)
	return r.times[len(r.times)/2]
}

func (r *row) print() {
	goal, verdict := "", ""
	if r.goal > 0 {
		goal = fmt.Sprintf("≤ %.0f", r.goal)
		if r.median() > r.goal || r.allocFree && r.allocs > 0 {
			verdict = "  short"
		}
	}
	fmt.Printf("%-70s %9.1f %9s %12.0f%s\n", r.name, r.median(), goal, r.allocs, verdict)
}

// printFlat compares the cost of a node in the smallest and the largest tree of a shape.
func printFlat(rows []*row, shape string) {
	first, last := (*row)(nil), (*row)(nil)
	for _, r := range rows {
		if r.allocFree && strings.Contains(r.name, shape) {
			if first == nil {
				first = r
			}
			if last == nil || r.nodes > last.nodes {
				last = r
			}
		}
	}
	ratio, verdict := last.median()/first.median(), ""
	if ratio > goalFlat {
		verdict = "  short"
	}
	fmt.Printf("%s: a node in a tree of %d costs %.2f times what it costs in one of %d (goal: flat, ≤ %.1f)%s\n", shape, last.nodes, ratio, first.nodes, goalFlat, verdict)
}

func allRows() ([]*row, error) {
	var rows []*row
	for _, shape := range []struct {
		name string
		root *tree.Node
	}{
		{"sequence of 100 no-op leaves", wide(100)},
		{"five-ary tree of height 4, 781 nodes", bushy(5, 4)},
		{"reactive tree: 100 branches, each condition asked each tick", reactive(100)},
		{"sequence of 1,000 no-op leaves", wide(1000)},
		{"five-ary tree of height 5, 3,906 nodes", bushy(5, 5)},
		{"five-ary tree of height 6, 19,531 nodes", bushy(5, 6)},
		{"five-ary tree of height 7, 97,656 nodes", bushy(5, 7)},
		{"sequence of 100,000 no-op leaves", wide(100_000)},
	} {
		off, err := ours("signalbox, "+shape.name, shape.root, false)
		if err != nil {
			return nil, err
		}
		on, err := ours("  the same, every tick journalled and observed", shape.root, true)
		if err != nil {
			return nil, err
		}
		rows = append(rows, off, on)
	}
	return append(rows,
		theirs("go-behaviortree, sequence of 100, without memory", 101, flat(100, bt.Sequence)),
		theirs("go-behaviortree, sequence of 100, with memory", 101, flat(100, nil)),
		theirs("go-behaviortree, five-ary, 781 nodes, without memory", 781, bush(5, 4, false)),
		theirs("go-behaviortree, five-ary, 781 nodes, with memory", 781, bush(5, 4, true))), nil
}

func succeed(*tree.Call) tree.Status { return tree.Success }

func leaf() *tree.Node { return &tree.Node{Kind: tree.Action, Do: succeed} }

func wide(n int) *tree.Node {
	root := &tree.Node{Kind: tree.Sequence}
	for range n {
		root.Children = append(root.Children, leaf())
	}
	return root
}

func bushy(ary, height int) *tree.Node {
	if height == 0 {
		return leaf()
	}
	n := &tree.Node{Kind: tree.Sequence}
	for range ary {
		n.Children = append(n.Children, bushy(ary, height-1))
	}
	return n
}

// reactive is a selector that asks the conditions of all branches before it comes to the one that is running.
func reactive(branches int) *tree.Node {
	root := &tree.Node{Kind: tree.ReactiveSelector}
	no := func(*tree.Call) tree.Status { return tree.Failure }
	for range branches {
		root.Children = append(root.Children, &tree.Node{Kind: tree.ReactiveSequence, Children: []*tree.Node{{Kind: tree.Condition, Do: no}, leaf()}})
	}
	root.Children = append(root.Children, &tree.Node{Kind: tree.Action, Do: func(*tree.Call) tree.Status { return tree.Running }})
	return root
}

// ours ticks a tree; traced, it also writes each tick's journal line, sealed, and collects transitions.
func ours(name string, root *tree.Node, traced bool) (*row, error) {
	t, err := tree.Compile(&tree.Definition{Name: "bench", Root: root}, nil)
	if err != nil {
		return nil, err
	}
	run, err := tree.NewRun(t, &tree.RunOptions{Record: traced, Observe: traced})
	if err != nil {
		return nil, err
	}
	now := time.Unix(1_800_000_000, 0)
	want := run.Tick(now)
	visited := 0
	for i := range t.Len() {
		visited += run.Look(i).Visits
	}
	r := &row{name: name, nodes: visited, goal: goalOff, allocFree: !traced}
	r.tick = func() error {
		if got := run.Tick(now); got != want {
			return fmt.Errorf("the tick answered %s, not %s", got, want)
		}
		return nil
	}
	if traced {
		var line []byte
		var chain tree.Chain
		plain := r.tick
		r.goal = goalTraced
		r.tick = func() error {
			err := plain()
			line = chain.Seal(run.AppendRecord(line[:0]), 0)
			return err
		}
	}
	return r, nil
}

func theirs(name string, nodes int, n bt.Node) *row {
	return &row{name: name, nodes: nodes, tick: func() error {
		status, err := n.Tick()
		if err == nil && status != bt.Success {
			err = fmt.Errorf("the tick answered %v", status)
		}
		return err
	}}
}

func theirLeaf() bt.Node {
	return bt.New(func([]bt.Node) (bt.Status, error) { return bt.Success, nil })
}

// sequence is theirs, which with memory goes on at the running child, as ours does.
func sequence(tick bt.Tick, children []bt.Node) bt.Node {
	if tick == nil {
		tick = bt.Memorize(bt.Sequence)
	}
	return bt.New(tick, children...)
}

func flat(n int, tick bt.Tick) bt.Node {
	var children []bt.Node
	for range n {
		children = append(children, theirLeaf())
	}
	return sequence(tick, children)
}

func bush(ary, height int, memory bool) bt.Node {
	if height == 0 {
		return theirLeaf()
	}
	var children []bt.Node
	for range ary {
		children = append(children, bush(ary, height-1, memory))
	}
	if memory {
		return sequence(nil, children)
	}
	return sequence(bt.Sequence, children)
}
