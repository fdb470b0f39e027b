package tree

import (
	"testing"
)

// flat returns a sequence of n actions.
func flat(kind Kind, n int) *Node {
	root := of(kind)
	for range n {
		root.Children = append(root.Children, does(Success))
	}
	return root
}

// bushy returns a tree of a height in which every inner node has the same number of children.
func bushy(arity, height int) *Node {
	if height == 0 {
		return does(Success)
	}
	n := of(Sequence)
	for range arity {
		n.Children = append(n.Children, bushy(arity, height-1))
	}
	return n
}

// reactive returns ten parallel nodes that each ask twenty conditions before an action that is
// running.
func reactive() *Node {
	root := of(Parallel)
	for range 10 {
		branch := of(ReactiveSequence)
		for range 20 {
			branch.Children = append(branch.Children, asks(Success))
		}
		root.Children = append(root.Children, of(Guard, asks(Success), branch))
		branch.Children = append(branch.Children, does(Running))
	}
	return root
}

func bench(b *testing.B, root *Node) {
	for _, traced := range []bool{false, true} {
		name := "plain"
		if traced {
			name = "traced"
		}
		b.Run(name, func(b *testing.B) {
			r := runOf(b, root)
			r.record, r.observed = traced, traced
			var line []byte
			var chain Chain
			b.ReportAllocs()
			for b.Loop() {
				r.Tick(epoch)
				if traced {
					line = chain.Seal(r.AppendRecord(line[:0]), 0)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(r.Tree().Len()),
				"ns/node")
		})
	}
}

func BenchmarkSequence100(b *testing.B) { bench(b, flat(Sequence, 100)) }

// Benchmark781 ticks a five-ary tree of height 4, which has 781 nodes.
func Benchmark781(b *testing.B) { bench(b, bushy(5, 4)) }

func BenchmarkReactive(b *testing.B) { bench(b, reactive()) }

// A tick without recording allocates nothing.
func TestNoAllocations(t *testing.T) {
	if n := runOf(t, bushy(5, 4)).Tree().Len(); n != 781 {
		t.Errorf("the bushy tree has %d nodes, want 781", n)
	}
	for name, root := range map[string]*Node{"sequence": flat(Sequence, 100),
		"parallel": flat(Parallel, 100), "781": bushy(5, 4), "reactive": reactive()} {
		r := runOf(t, root)
		r.record, r.observed = false, false
		if n := testing.AllocsPerRun(100, func() { r.Tick(epoch) }); n != 0 {
			t.Errorf("%s: %v allocations a tick, want none", name, n)
		}
	}
}
