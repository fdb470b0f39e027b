package tree

import (
	"testing"
	"time"
)

// Trees with a warning run forever, and trees without one end.
func TestWarnings(t *testing.T) {
	rest := func() *Node { return &Node{Kind: Wait, After: time.Second} }
	twice := func(child *Node) *Node {
		n := of(Repeat, child)
		n.Times = 2
		return n
	}
	cool := of(Cooldown, job("a"))
	cool.After = time.Hour
	for name, c := range map[string]struct {
		root  *Node
		doubt bool
	}{
		"two jobs":            {of(ReactiveSequence, job("a"), job("b")), true},
		"a wait before a job": {of(ReactiveSequence, rest(), job("b")), true},
		"a job before a wait": {of(ReactiveSequence, job("a"), rest()), true},
		"a job before a repeat": {of(ReactiveSequence, job("a"), twice(does(Success))),
			true},
		"deeper": {of(ReactiveSequence,
			of(Inverter, of(Inverter, of(Sequence, job("a"), does(Success)))), job("b")), true},
		"beside others": {of(ReactiveSequence,
			of(Parallel, does(Success), job("a")), job("b")), true},
		"inside": {of(Sequence, of(ReactiveSequence, job("a"), job("b"))),
			true},
		"two jobs that are asked in turn": {of(Sequence, job("a"), job("b")), false},
		"a job that is the last":          {of(ReactiveSequence, does(Success), job("b")), false},
		"a job before what is quick":      {of(ReactiveSequence, job("a"), does(Success)), false},
		"behind a condition": {of(ReactiveSelector,
			of(Sequence, asks(Failure), job("a")), job("b")), false},
		"behind a guard": {of(ReactiveSelector, of(Guard, asks(Failure), job("a")),
			job("b")), false},
		"a wait of nothing": {of(ReactiveSequence, &Node{Kind: Wait}, job("b")),
			false},
		"a cooldown": {of(ReactiveSelector, cool, job("b")), false},
	} {
		compiled := mustCompile(t, &Definition{Name: "t", Root: c.root}, functions())
		doubts := compiled.Warnings()
		if len(doubts) > 0 != c.doubt {
			t.Errorf("%s: %v", name, doubts)
		}
		run, now := mustRun(t, compiled, &RunOptions{}), epoch
		for range 20 {
			if run.Tick(now) != Running {
				break
			}
			for _, s := range run.Pending() {
				run.Finish(s, Result{Status: Success})
			}
			now = now.Add(2 * time.Second)
		}
		if run.Status() == Running != c.doubt {
			t.Errorf("%s: after 20 ticks it is %s", name, run.Status())
		}
	}
}
