package tree

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"time"
)

// Run is one execution of a tree. It is used by one goroutine at a time.
type Run struct {
	tree   *Tree
	nodes  []node // the tree's
	leaves []leaf // the tree's, with tools, model calls and replacements filled in
	id     string
	board  *Board
	state  []state
	// lists are what the for_each nodes that are running go through.
	lists map[int32][]any
	errs  map[int32]string
	// results are those of jobs that ended since the last tick, payloads what the running ones were given.
	results  map[int32]Result
	payloads map[int32]any

	ticks  int
	step   uint64
	now    int64
	status Status
	// emits is how many there were in the whole run, topics how many of each topic.
	emits  int
	topics map[string]int

	// The rest is about the last tick.
	call     Call
	wake     int64
	changed  bool
	spent    int // what was written and published, in bytes
	starts   []int32
	halts    []int32
	emitted  []Emit
	record   bool
	observed bool
	tick     tickRecord
	moves    []Transition
	replay   *Record
}

// state is what a node remembers. All but status, visits, visited and at counts only while the node is running.
type state struct {
	status Status
	failed bool // there is an error in Run.errs
	visits uint32
	// cursor is the child where a sequence or selector goes on, or the item of a for_each.
	cursor int32
	// count is how many attempts, repetitions or, for a job, starts there were.
	count int32
	// entered is the step at which the node began afresh, visited that of its last tick: what happened below it
	// before it was entered is past.
	entered, visited uint64
	// at is a point of time: when a timeout, wait or backoff ends, or until when a cooldown lasts.
	at int64
}

const never = int64(1<<63 - 1)

// RunOptions say how a tree is run.
type RunOptions struct {
	// ID names the run in requests to jobs. Zero: "run".
	ID string
	// Services are the tools and the model that the tree calls, if it calls any.
	Services *Registry
	// Inputs are values of keys at the beginning, Globals those of global keys that a run before left.
	Inputs, Globals map[string]any
	// Replace are tried in order for each leaf; the first that matches stands in for it.
	Replace []Replacement
	// Record keeps of each tick what Recorded needs, Observe what Transitions returns.
	Record, Observe bool
}

// Replacement stands in for leaves in a test.
type Replacement struct {
	// Pattern is matched, as by path.Match, with the node's kind and name ("tool:search*"), where the name is the declared
	// one, or else the function's.
	Pattern string
	Do      Func
}

// Emit is a value that a leaf published. Seq counts those of a run from 1, Nth those of its topic.
type Emit struct {
	Seq   int
	Nth   int
	Node  int
	Topic string
	Value any
}

// Transition is a change of a node's status.
type Transition struct {
	Node     int
	From, To Status
	Err      string
}

// NewRun returns a run that was not ticked yet. It fails if a tool or the model is missing that the tree calls, or if
// an input does not fit.
func NewRun(t *Tree, o *RunOptions) (*Run, error) {
	r, err := newRun(t, o)
	if err == nil {
		err = r.bind(o)
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

func newRun(t *Tree, o *RunOptions) (*Run, error) {
	r := &Run{tree: t, nodes: t.nodes, leaves: t.leaves, id: o.ID, board: t.layout.Board(), state: make([]state, len(t.nodes)),
		lists: map[int32][]any{}, errs: map[int32]string{}, results: map[int32]Result{}, payloads: map[int32]any{}, topics: map[string]int{},
		record: o.Record, observed: o.Observe}
	if r.id == "" {
		r.id = "run"
	}
	for _, given := range []map[string]any{o.Globals, o.Inputs} {
		for _, key := range sortedKeys(given) {
			if err := r.board.Set(key, given[key]); err != nil {
				return nil, err
			}
		}
	}
	return r, nil
}

// bind fills in the leaves that are known only now.
func (r *Run) bind(o *RunOptions) error {
	c := &compiler{}
	for i, n := range r.nodes {
		if !n.kind.IsLeaf() || n.aux < 0 || n.kind == Wait || n.kind == Subtree {
			continue
		}
		l := r.leaves[n.aux]
		replaced, err := l.replaced(o.Replace, r.tree.meta[i].def.Name)
		if err != nil {
			return err
		}
		late := l.do == nil && l.job == nil
		if !replaced && !late {
			continue
		}
		if !replaced {
			found, ok := o.Services.Find(n.kind, l.name)
			if !ok {
				c.missing(r.tree.meta[i].def, o.Services)
				continue
			}
			l.is(found)
			l.args = c.arguments(r.tree.meta[i].def, found.Params)
		}
		if &r.leaves[0] == &r.tree.leaves[0] {
			r.leaves = slices.Clone(r.leaves)
		}
		r.leaves[n.aux] = l
	}
	if len(c.faults) > 0 {
		return &CompileError{c.faults}
	}
	return nil
}

func (l *leaf) replaced(rules []Replacement, name string) (bool, error) {
	if name == "" {
		name = l.name
	}
	for _, rule := range rules {
		hit, err := path.Match(rule.Pattern, l.kind.String()+":"+name)
		if err != nil {
			return false, fmt.Errorf("replacement %q: %w", rule.Pattern, err)
		}
		if hit {
			l.is(Leaf{Do: rule.Do})
			return true, nil
		}
	}
	return false, nil
}

// Tree is what the run executes.
func (r *Run) Tree() *Tree { return r.tree }

// ID names the run.
func (r *Run) ID() string { return r.id }

// Board is the run's blackboard.
func (r *Run) Board() *Board { return r.board }

// Status is what the root answered last.
func (r *Run) Status() Status { return r.status }

// Now is the time of the last tick.
func (r *Run) Now() time.Time { return time.Unix(0, r.now) }

// Ticks is how many there were.
func (r *Run) Ticks() int { return r.ticks }

// Changed reports whether the last tick made progress: a node's status changed, the blackboard was written, or a repeat,
// retry or for_each began its child again.
func (r *Run) Changed() bool { return r.changed }

// Wake is when the next tick is due by a timer. If there is none, only the end of a job can wake the run.
func (r *Run) Wake() (time.Time, bool) {
	return time.Unix(0, r.wake), r.status == Running && r.wake != never
}

// Emitted returns what the last tick published. It is valid until the next one.
func (r *Run) Emitted() []Emit { return r.emitted }

// Transitions returns the changes of the last tick, if the run observes. It is valid until the next one.
func (r *Run) Transitions() []Transition { return r.moves }

// Halted returns the nodes whose jobs the last tick left. It is valid until the next one.
func (r *Run) Halted() []int32 { return r.halts }

// Started returns the jobs that the last tick began and did not leave again.
func (r *Run) Started() []Start {
	var starts []Start
	for _, i := range r.starts {
		if r.state[i].status == Running {
			starts = append(starts, r.start(i))
		}
	}
	return starts
}

// Pending returns all jobs that are running, for a process that goes on with a run of another.
func (r *Run) Pending() []Start {
	var starts []Start
	for _, i := range slices.Sorted(maps.Keys(r.payloads)) { // each job has one, as long as it is running
		if r.state[i].status == Running && r.isJob(i) {
			starts = append(starts, r.start(i))
		}
	}
	return starts
}

// Start is a job to be started.
type Start struct {
	Node    int
	Job     Job
	Request Request
}

func (r *Run) start(i int32) Start {
	info, l := r.tree.meta[i].def, &r.leaves[r.nodes[i].aux]
	var job Job
	if l.job != nil { // it is not known while a run is replayed
		job = l.job.Job
	}
	return Start{int(i), job, Request{Key: fmt.Sprintf("%s/%d/%d", r.id, i, r.state[i].count), Path: r.tree.path(i),
		Kind: info.Kind, Name: l.name, Payload: r.payloads[i]}}
}

// Finish hands in how a job ended; the next tick takes it. It reports false, and nothing happens, if the job was left
// meanwhile.
func (r *Run) Finish(s Start, result Result) bool {
	i := int32(s.Node)
	if r.state[i].status != Running || r.start(i).Request.Key != s.Request.Key {
		return false
	}
	r.results[i] = result
	return true
}

// Look returns what can be seen of a node. What happened before the node's parent began afresh is past: Idle.
func (r *Run) Look(i int) View {
	s := &r.state[i]
	view := View{Status: s.status, Visits: int(s.visits), Err: r.errs[int32(i)]}
	for p := r.tree.meta[i].parent; p >= 0; p = r.tree.meta[p].parent {
		if r.state[p].entered > s.visited {
			return View{Status: Idle, Visits: view.Visits}
		}
	}
	return view
}

// Views looks at every node.
func (r *Run) Views() []View {
	views := make([]View, len(r.nodes))
	for i := range views {
		views[i] = r.Look(i)
	}
	return views
}

func (r *Run) isJob(i int32) bool {
	n := r.nodes[i]
	return n.aux >= 0 && n.kind.IsLeaf() && n.kind != Wait && n.kind != Subtree && r.leaves[n.aux].do == nil
}

// Ready reports whether a job ended whose result the next tick takes.
func (r *Run) Ready() bool { return len(r.results) > 0 }

// Patience is the latest time at which a wait, a backoff or a timeout that is running ends: until then the tree says
// itself how long it takes.
func (r *Run) Patience() time.Time {
	latest := int64(0)
	for i, n := range r.nodes {
		if s := &r.state[i]; s.status == Running && (n.kind == Wait || n.kind == Timeout || n.kind == Retry) {
			latest = max(latest, s.at)
		}
	}
	return time.Unix(0, latest)
}
