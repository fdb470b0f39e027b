package tree

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"time"
)

// Run is one execution of a tree. It must be used by one goroutine at a time.
type Run struct {
	tree   *Tree
	nodes  []node // the tree's
	leaves []leaf // the tree's, with tools, model calls and replacements filled in
	id     string
	board  *Board
	state  []state
	// lists holds the lists of the for_each nodes that are running.
	lists map[int32][]any
	errs  map[int32]string
	// results holds the results of jobs that ended since the last tick, payloads those of the
	// running jobs.
	results  map[int32]Result
	payloads map[int32]any

	ticks  int
	step   uint64
	now    int64
	status Status
	// emits is the number of values published in the run, topics the number for each topic.
	emits  int
	topics map[string]int
	// followed means that the last tick asked for this one because keys were written; see followUp.
	followed bool

	// The fields below belong to the last tick.
	call     Call
	wake     int64
	changed  bool
	written  int     // bytes written and published
	writers  []int32 // the leaves that wrote keys, if the tree has reactive nodes
	starts   []int32
	halts    []int32
	emitted  []Emit
	record   bool
	observed bool
	tick     effects
	moves    []Transition
	replay   *Record
}

// state is the state of a node. Only status, visits, visited and at are valid while the node is not
// running.
type state struct {
	status Status
	failed bool // Run.errs has an error
	visits uint32
	// cursor is the child at which a sequence or selector continues, or the item of a for_each.
	cursor int32
	// count is the number of attempts, repetitions or, for a job, starts.
	count int32
	// entered is the step at which the node was entered, visited that of its last tick. The
	// statuses of its descendants from before it was entered are no longer shown.
	entered, visited uint64
	// at is the time at which a timeout, wait, backoff or cooldown ends.
	at int64
}

const never = int64(1<<63 - 1)

// RunOptions configures a run.
type RunOptions struct {
	// ID identifies the run in the requests of its jobs; default "run".
	ID string
	// Services holds the tools and the model that the tree calls. It may be nil if the tree calls
	// none.
	Services *Registry
	// Inputs holds initial values of keys, Globals the values of global keys from an earlier run.
	Inputs, Globals map[string]any
	// Replace holds replacements of leaves. The first one that matches a leaf is used.
	Replace []Replacement
	// Record enables AppendRecord, Observe enables Transitions.
	Record, Observe bool
}

// Replacement replaces leaves in a test.
type Replacement struct {
	// Pattern is matched, as by path.Match, with the node's kind and name ("tool:search*"). A node
	// without a name has the name of its function.
	Pattern string
	Do      Func
}

// Emit is a value that a leaf published. Seq is its number in the run, from 1, and Nth its number
// in its topic.
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

// NewRun returns a new run. It returns an error if a tool or model that the tree calls is missing,
// or if an input has the wrong type.
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
	r := &Run{tree: t, nodes: t.nodes, leaves: t.leaves, id: o.ID, board: t.layout.Board(),
		state: make([]state, len(t.nodes)),
		lists: map[int32][]any{}, errs: map[int32]string{}, results: map[int32]Result{},
		payloads: map[int32]any{}, topics: map[string]int{},
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

// bind sets the functions of replaced leaves, tools and model calls.
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
			l.set(found)
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
			l.set(Leaf{Do: rule.Do})
			return true, nil
		}
	}
	return false, nil
}

// Tree returns the tree of the run.
func (r *Run) Tree() *Tree { return r.tree }

// ID returns the ID of the run.
func (r *Run) ID() string { return r.id }

// Board returns the blackboard of the run.
func (r *Run) Board() *Board { return r.board }

// Status returns the last answer of the root.
func (r *Run) Status() Status { return r.status }

// Now returns the time of the last tick.
func (r *Run) Now() time.Time { return time.Unix(0, r.now) }

// Ticks returns the number of ticks.
func (r *Run) Ticks() int { return r.ticks }

// Changed reports whether the last tick made progress: the status of a node changed, the blackboard
// was written, or a repeat, retry or for_each restarted its child.
func (r *Run) Changed() bool { return r.changed }

// Wake returns the time at which the next tick is due. If it returns false, only the end of a job
// can wake the run.
func (r *Run) Wake() (time.Time, bool) {
	return time.Unix(0, r.wake), r.status == Running && r.wake != never
}

// Emitted returns the values that the last tick published. The slice is valid until the next tick.
func (r *Run) Emitted() []Emit { return r.emitted }

// Transitions returns the changes of status in the last tick, if RunOptions.Observe is set. The
// slice is valid until the next tick.
func (r *Run) Transitions() []Transition { return r.moves }

// Halted returns the nodes whose jobs the last tick halted. The slice is valid until the next tick.
func (r *Run) Halted() []int32 { return r.halts }

// Started returns the jobs that the last tick started and did not halt again.
func (r *Run) Started() []Start {
	var starts []Start
	for _, i := range r.starts {
		if r.state[i].status == Running {
			starts = append(starts, r.start(i))
		}
	}
	return starts
}

// Pending returns all jobs that are running. A process that resumes a run starts them again.
func (r *Run) Pending() []Start {
	var starts []Start
	for _, i := range slices.Sorted(maps.Keys(r.payloads)) { // every running job has one
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
	if l.job != nil { // a replay does not know the tools and the model
		job = l.job.Job
	}
	return Start{int(i), job, Request{Key: fmt.Sprintf("%s/%d/%d", r.id, i, r.state[i].count),
		Path: r.tree.path(i),
		Kind: info.Kind, Name: l.name, Payload: r.payloads[i]}}
}

// Finish sets the result of a job, which the next tick uses. It does nothing and returns false if
// the job was halted in the meantime.
func (r *Run) Finish(s Start, result Result) bool {
	i := int32(s.Node)
	if r.state[i].status != Running || r.start(i).Request.Key != s.Request.Key {
		return false
	}
	r.results[i] = result
	return true
}

// View returns the visible state of a node. A node that was not ticked since an ancestor was
// entered is Idle.
func (r *Run) View(i int) View {
	s := &r.state[i]
	view := View{Status: s.status, Visits: int(s.visits), Err: r.errs[int32(i)]}
	for p := r.tree.meta[i].parent; p >= 0; p = r.tree.meta[p].parent {
		if r.state[p].entered > s.visited {
			return View{Status: Idle, Visits: view.Visits}
		}
	}
	return view
}

// Views returns the visible state of every node.
func (r *Run) Views() []View {
	views := make([]View, len(r.nodes))
	for i := range views {
		views[i] = r.View(i)
	}
	return views
}

func (r *Run) isJob(i int32) bool {
	n := r.nodes[i]
	return n.aux >= 0 && n.kind.IsLeaf() && n.kind != Wait && n.kind != Subtree &&
		r.leaves[n.aux].do == nil
}

// Ready reports whether the next tick has the result of a job to use.
func (r *Run) Ready() bool { return len(r.results) > 0 }

// LatestDeadline returns the latest time at which a running wait, backoff or timeout ends. Until
// then, the tree is expected to be waiting.
func (r *Run) LatestDeadline() time.Time {
	latest := int64(0)
	for i, n := range r.nodes {
		if s := &r.state[i]; s.status == Running &&
			(n.kind == Wait || n.kind == Timeout || n.kind == Retry) {
			latest = max(latest, s.at)
		}
	}
	return time.Unix(0, latest)
}
