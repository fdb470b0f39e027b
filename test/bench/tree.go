package main

import (
	"fmt"
	"runtime"
	"time"

	bt "github.com/joeycumines/go-behaviortree"

	"signalbox/internal/tree"
)

// Goals for behaviour trees, in nanoseconds per node and tick.
const (
	goalTick     = 50.0
	goalRecorded = 250.0
)

// tickRow is a tree that is ticked repeatedly.
type tickRow struct {
	name   string
	nodes  int // visited by each tick
	tick   func() error
	goal   float64
	times  []float64
	allocs uint64 // per tick
}

// compareTrees measures what a tick costs per node, beside another engine written in Go.
func compareTrees(s settings) error {
	rows, err := tickRows()
	if err != nil {
		return err
	}
	for round := range s.rounds {
		progress("trees: round %d of %d", round+1, s.rounds)
		for _, r := range rows {
			if err := r.measure(); err != nil {
				return fmt.Errorf("%s: %w", r.name, err)
			}
		}
	}
	var t table
	t.row("per node and tick", "ns", "allocations per tick", "goal")
	for _, r := range rows {
		goal := ""
		if r.goal > 0 {
			goal = formatGoal(fmt.Sprintf("≤ %.0f", r.goal), median(r.times) <= r.goal)
		}
		t.row(r.name, fmt.Sprintf("%.1f", median(r.times)), fmt.Sprint(r.allocs), goal)
	}
	t.print(fmt.Sprintf("Behaviour trees (median of %d interleaved rounds)", s.rounds))
	return nil
}

// measure ticks for about a twentieth of a second.
func (r *tickRow) measure() error {
	ticks := max(1, 1_000_000/r.nodes)
	if err := r.tick(); err != nil { // let buffers grow
		return err
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	for range ticks {
		if err := r.tick(); err != nil {
			return err
		}
	}
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	r.times = append(r.times, float64(took.Nanoseconds())/float64(ticks)/float64(r.nodes))
	r.allocs = (after.Mallocs - before.Mallocs) / uint64(ticks)
	return nil
}

func tickRows() ([]*tickRow, error) {
	var rows []*tickRow
	for _, shape := range []struct {
		name string
		root *tree.Node
	}{
		{"sequence of 100 leaves", nested(100, 1)},
		{"five-ary tree of 781 nodes", nested(5, 4)},
		{"five-ary tree of 97,656 nodes", nested(5, 7)},
		{"100 reactive branches", reactive(100)},
	} {
		for _, recorded := range []bool{false, true} {
			row, err := ourTree(shape.name, shape.root, recorded)
			if err != nil {
				return nil, err
			}
			rows = append(rows, row)
		}
	}
	return append(rows,
		theirTree("go-behaviortree, five-ary tree of 781 nodes, stateless", 781,
			theirNested(5, 4, bt.Sequence)),
		theirTree("go-behaviortree, five-ary tree of 781 nodes, with memory", 781,
			theirNested(5, 4, nil))), nil
}

// ourTree ticks a tree of ours. If recorded is set, each tick also writes and seals its journal
// line and collects transitions.
func ourTree(name string, root *tree.Node, recorded bool) (*tickRow, error) {
	t, err := tree.Compile(&tree.Definition{Name: "bench", Root: root}, nil)
	if err != nil {
		return nil, err
	}
	run, err := tree.NewRun(t, &tree.RunOptions{Record: recorded, Observe: recorded})
	if err != nil {
		return nil, err
	}
	now := time.Unix(1_800_000_000, 0)
	want, visited := run.Tick(now), 0
	for i := range t.Len() {
		visited += run.View(i).Visits
	}
	tick := func() error {
		if got := run.Tick(now); got != want {
			return fmt.Errorf("the tick returned %s, not %s", got, want)
		}
		return nil
	}
	if !recorded {
		return &tickRow{name: "signalbox, " + name, nodes: visited, tick: tick, goal: goalTick}, nil
	}
	var line []byte
	var chain tree.Chain
	return &tickRow{name: "signalbox, " + name + ", recorded", nodes: visited, goal: goalRecorded,
		tick: func() error {
			err := tick()
			line = chain.Seal(run.AppendRecord(line[:0]), 0)
			return err
		}}, nil
}

func theirTree(name string, nodes int, root bt.Node) *tickRow {
	return &tickRow{name: name, nodes: nodes, tick: func() error {
		if status, err := root.Tick(); err != nil || status != bt.Success {
			return fmt.Errorf("the tick returned %v, %v", status, err)
		}
		return nil
	}}
}

// nested returns sequences in sequences, with leaves that succeed.
func nested(children, height int) *tree.Node {
	if height == 0 {
		return &tree.Node{Kind: tree.Action,
			Do: func(*tree.Call) tree.Status { return tree.Success }}
	}
	n := &tree.Node{Kind: tree.Sequence}
	for range children {
		n.Children = append(n.Children, nested(children, height-1))
	}
	return n
}

// reactive returns a selector that checks the condition of every branch before it reaches the
// running one.
func reactive(branches int) *tree.Node {
	root := &tree.Node{Kind: tree.ReactiveSelector}
	for range branches {
		root.Children = append(root.Children,
			&tree.Node{Kind: tree.ReactiveSequence, Children: []*tree.Node{
				{Kind: tree.Condition, Do: func(*tree.Call) tree.Status { return tree.Failure }},
				nested(1, 0)}})
	}
	root.Children = append(root.Children,
		&tree.Node{Kind: tree.Action, Do: func(*tree.Call) tree.Status { return tree.Running }})
	return root
}

// theirNested is nested for the other engine. A nil tick is a sequence that remembers its running
// child, as ours does.
func theirNested(children, height int, tick bt.Tick) bt.Node {
	if height == 0 {
		return bt.New(func([]bt.Node) (bt.Status, error) { return bt.Success, nil })
	}
	var nodes []bt.Node
	for range children {
		nodes = append(nodes, theirNested(children, height-1, tick))
	}
	if tick == nil {
		return bt.New(bt.Memorize(bt.Sequence), nodes...)
	}
	return bt.New(tick, nodes...)
}
