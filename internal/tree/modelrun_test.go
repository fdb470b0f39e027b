package tree

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/property"
	"signalbox/internal/tree/blackboard"
)

// TestModel runs random trees in a Run and in the simple interpreter, and compares everything that
// can be observed after each step. Sometimes it replaces the run by a replay of its journal.
func TestModel(t *testing.T) {
	kinds := map[Kind]bool{}
	property.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		def := randomTree(t, seed)
		d := newDuo(t, seed, def)
		for _, n := range d.r.nodes {
			kinds[n.kind] = true
		}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			d.step(rapid.IntRange(0, 99).Draw(t, "what"))
			d.check()
		}
	})
	for _, kind := range Kinds() {
		if kind != LLMCall && !kinds[kind] {
			t.Errorf("no random tree had a %s", kind)
		}
	}
}

// grower draws random definitions.
type grower struct {
	t    *rapid.T
	seed uint64
	left int
	def  *Definition
}

func randomTree(t *rapid.T, seed uint64) *Definition {
	g := &grower{t: t, seed: seed, left: 60, def: &Definition{Name: "random", Keys: []Key{
		{Name: "n", Default: int64(1)}, {Name: "m", Type: Int},
		{Name: "list", Type: List, Default: []any{int64(1), []any{int64(2), "item"}}},
	}}}
	for i := range g.pick(3) {
		sub := &SubtreeDefinition{Name: fmt.Sprintf("sub%d", i),
			Keys: []Key{{Name: "k", Type: Int, Default: int64(0)}}, Ports: []Key{{Name: "p"}}}
		sub.Root = g.grow(3, []string{"n", "list", "m", "k", "p"})
		g.def.Subtrees = append(g.def.Subtrees, sub)
	}
	g.def.Root = g.grow(0, []string{"n", "list", "m"})
	return g.def
}

func (g *grower) pick(n int) int { return rapid.IntRange(0, n-1).Draw(g.t, "pick") }

// grow draws a node for which the names are visible.
func (g *grower) grow(depth int, names []string) *Node {
	g.left--
	if depth >= 5 || g.left <= 0 || depth > 0 && g.pick(4) == 0 {
		return g.leaf(names)
	}
	n := &Node{Kind: Kind(1 + g.pick(int(AlwaysFail)))}
	count, inside := 1, names
	switch {
	case n.Kind == Guard:
		n.Children = append(n.Children, g.question())
	case n.Kind.IsComposite() && n.Kind != ForEach:
		count = 1 + g.pick(3)
	case n.Kind == ForEach:
		n.As, n.KeepGoing = "x", g.pick(2) == 0
		n.Items = []string{"list", "list", "p", "x"}[g.pick(4)]
		if !slices.Contains(names, n.Items) {
			n.Items = "list"
		}
		inside = append(slices.Clone(names), "x")
		if g.pick(2) == 0 {
			n.Index = "i"
			inside = append(inside, "i")
		}
	}
	for range count {
		n.Children = append(n.Children, g.grow(depth+1, inside))
	}
	switch n.Kind {
	case Timeout, Cooldown:
		n.After = time.Duration(1+g.pick(5)) * time.Second
	case Retry:
		n.Times, n.After = 1+g.pick(4), time.Duration(g.pick(3))*time.Second
	case Repeat:
		n.Until = Until(g.pick(3))
		n.Times = g.pick(4)
		if n.Until == UntilTimes {
			n.Times++
		}
	case Parallel:
		n.Require, n.MaxConcurrent = g.pick(count+1), g.pick(count+2)
	}
	return n
}

func (g *grower) leaf(names []string) *Node {
	switch what := g.pick(10); {
	case what < 3:
		return &Node{Kind: Action, Do: g.perform}
	case what < 4:
		return &Node{Kind: Script, Do: g.perform}
	case what < 5:
		return g.question()
	case what < 6:
		return &Node{Kind: Wait, After: time.Duration(g.pick(4)) * time.Second}
	case what < 8 && len(g.def.Subtrees) > 0:
		// a for_each inside may use the port as its list, so it must not be an int
		ports := slices.DeleteFunc(slices.Clone(names),
			func(name string) bool { return strings.Contains("mki", name) })
		return &Node{Kind: Subtree, Uses: g.def.Subtrees[g.pick(len(g.def.Subtrees))].Name,
			Ports: map[string]string{"p": ports[g.pick(len(ports))]}}
	case what < 9:
		return &Node{Kind: Action, Fn: "job",
			Args: map[string]any{"v": Ref{names[g.pick(len(names))]}, "h": Ref{"_h"}, "w": "word"}}
	}
	return &Node{Kind: Tool, Fn: "job"}
}

func (g *grower) question() *Node { return &Node{Kind: Condition, Do: g.perform} }

// perform performs the deed of a leaf in the Run.
func (g *grower) perform(c *Call) Status {
	d := deedOf(g.seed, int(c.node), int(c.run.state[c.node].visits))
	if d.key != "" {
		_ = c.Set(d.key, d.value) // the model knows when it fails
	}
	if d.emit != "" {
		if err := c.Emit(d.emit, "word"); err != nil {
			panic(err)
		}
	}
	switch {
	case d.panics:
		panic("out of paper")
	case d.err != "":
		return c.Fail("%s", d.err)
	case d.wakes > 0:
		c.WakeAfter(d.wakes)
	}
	return d.answer
}

// duo is a run and its model.
type duo struct {
	t    *rapid.T
	r    *Run
	m    *model
	o    *RunOptions
	now  time.Time
	old  []Start
	log  [][]byte
	torn bool // the tree was halted from outside, which is not recorded
}

func newDuo(t *rapid.T, seed uint64, def *Definition) *duo {
	services := &Registry{}
	services.Add(Tool, "job", Leaf{Job: noJob})
	compiled := mustCompile(t, def, functions())
	d := &duo{t: t, o: &RunOptions{Record: true, Observe: rapid.Bool().Draw(t, "observe"),
		Services: services}, now: epoch}
	d.r, d.m = mustRun(t, compiled, d.o), newModel(seed, def, compiled)
	return d
}

func (d *duo) step(what int) {
	switch {
	case what < 70:
		d.tick()
	case what < 85:
		d.finish()
	case what < 89:
		d.r.Halt()
		d.m.haltTree()
		d.halts()
		d.same("changed", d.m.changed, d.r.Changed())
		d.torn = true
	default:
		d.replay()
	}
}

func (d *duo) tick() {
	d.now = d.now.Add(rapid.SampledFrom([]time.Duration{0, 0, 1, 1, 2, 7, -1}).Draw(d.t,
		"time") * time.Second)
	d.r.Tick(d.now)
	d.m.tickAt(d.now.UnixNano())
	d.log = append(d.log, d.r.AppendRecord(nil))
	d.old = append(d.old, d.r.Started()...)
	var want []string
	for _, n := range d.m.started {
		if n.memory != nil {
			want = append(want, fmt.Sprintf("%d run/%d/%d %s", n.index, n.index, n.starts,
				FormatValue(n.memory.payload)))
		}
	}
	d.same("started jobs", want, describe(d.r.Started()))
	var emits []string
	for _, e := range d.r.Emitted() {
		emits = append(emits, fmt.Sprintf("%d %s", e.Node, e.Topic))
	}
	d.same("emitted", d.m.emitted, emits)
	d.halts()
	d.same("changed", d.m.changed, d.r.Changed())
	ticked := map[int32]bool{}
	for _, v := range d.r.tick.visits {
		if v.status != Idle && ticked[v.node] {
			d.t.Fatalf("node %d was ticked twice", v.node)
		}
		ticked[v.node] = ticked[v.node] || v.status != Idle
	}
}

// halts compares the jobs that the last tick, or halting the tree, halted.
func (d *duo) halts() {
	var halted []int
	for _, i := range d.r.Halted() {
		halted = append(halted, int(i))
	}
	slices.Sort(halted)
	slices.Sort(d.m.halted)
	d.same("halted jobs", d.m.halted, halted)
}

func describe(starts []Start) (texts []string) {
	for _, s := range starts {
		texts = append(texts, fmt.Sprintf("%d %s %s", s.Node, s.Request.Key,
			FormatValue(s.Request.Payload)))
	}
	return texts
}

// finish ends one of the jobs that were ever started.
func (d *duo) finish() {
	if len(d.old) == 0 {
		return
	}
	s := rapid.SampledFrom(d.old).Draw(d.t, "job")
	x := deedOf(d.m.seed+1, s.Node, len(d.log))
	result := Result{Status: Success}
	if x.answer == Failure {
		result = Result{Status: Failure, Err: x.err}
	}
	if x.key != "" {
		result.Writes = map[string]any{x.key: x.value, "n": int64(7)}
	}
	n := d.m.nodes[s.Node]
	want := n.memory != nil && s.Request.Key == fmt.Sprintf("run/%d/%d", n.index, n.starts)
	if want {
		n.memory.result = &result
	}
	if got := d.r.Finish(s, result); got != want {
		d.t.Fatalf("the result of %s was taken: %t, want %t", s.Request.Key, got, want)
	}
}

// lose drops results that no tick has taken. They are not recorded, and their jobs are started
// again.
func (d *duo) lose() {
	for _, n := range d.m.nodes {
		if n.memory != nil {
			n.memory.result = nil
		}
	}
}

func (d *duo) replay() {
	if d.torn || len(d.log) == 0 {
		return
	}
	r, err := replayed(d.r.Tree(), d.o, d.log)
	must.Succeed(d.t, err)
	if want, got := dump(d.r), dump(r); want != got {
		d.t.Fatalf("replayed it differs:\n%s\n%s", want, got)
	}
	d.same("pending jobs", describe(d.r.Pending()), describe(r.Pending()))
	d.r = r
	d.lose()
}

// check compares the run with the model, and checks the invariants.
func (d *duo) check() {
	d.same("status", d.m.status, d.r.Status())
	for i, got := range d.r.Views() {
		want := d.m.nodes[i].look()
		switch {
		case strings.HasPrefix(want.Err, "panic: ") &&
			strings.HasPrefix(got.Err, want.Err+" (modelrun_test.go:"):
			got.Err = want.Err
		case want.Err == "refused" && got.Err != "":
			got.Err = want.Err
		}
		d.same(d.r.Tree().Info(i).Path, want, got)
	}
	at, due := d.r.Wake()
	d.same("a timer", d.m.status == Running && d.m.wake != never, due)
	if due {
		d.same("wake", d.m.wake, at.UnixNano())
	}
	d.same("blackboard", d.m.snapshot(), d.r.Board().Snapshot())
	d.invariants()
}

func (d *duo) invariants() {
	r := d.r
	pending := map[int]bool{}
	for _, s := range r.Pending() {
		pending[s.Node] = true
	}
	for i := range r.Tree().Len() {
		info := r.Tree().Info(i)
		running := r.View(i).Status == Running
		if running && info.Parent >= 0 && r.View(info.Parent).Status != Running {
			d.t.Fatalf("%s is running, and its parent is not", info.Path)
		}
		if running && r.Status() != Running {
			d.t.Fatalf("%s is running, and the tree is not", info.Path)
		}
		if r.isJob(int32(i)) && running != pending[i] {
			d.t.Fatalf("job %s: running %t, pending %t", info.Path, running, pending[i])
		}
		if (r.state[i].status == Running) != running {
			d.t.Fatalf("%s runs unseen", info.Path)
		}
	}
	counted := r.tree.layout.Board()
	for i := range r.tree.layout.Len() {
		counted.Put(blackboard.Slot(i), r.board.Value(blackboard.Slot(i)))
	}
	for key, v := range r.board.Snapshot() {
		if blackboard.Hidden(key) {
			_ = counted.Set(key, v)
		}
	}
	if r.board.Size() != counted.Size() {
		d.t.Fatalf("the blackboard counts %d bytes, and has %d", r.board.Size(), counted.Size())
	}
}

func (d *duo) same(what string, want, got any) {
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		d.t.Fatalf("%s (-model +run):\n%s", what, diff)
	}
}
