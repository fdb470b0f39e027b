package tree

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// ErrOtherTree means that a journal belongs to another tree, or to another version of this tree.
var ErrOtherTree = errors.New(
	"the journal belongs to another tree, or to another version of this one")

// DivergenceError means that the replay of a tick differs from its record: the tree has changed, or
// the record belongs to another run.
type DivergenceError struct {
	Tick      int
	Path      string
	Want, Got Status
	// Reason is set if the difference is not in a status.
	Reason string
}

func (e *DivergenceError) Error() string {
	if e.Reason != "" {
		return fmt.Sprintf("tick %d: %s", e.Tick, e.Reason)
	}
	return fmt.Sprintf("tick %d: %s is %s, and was recorded as %s", e.Tick, e.Path, e.Got, e.Want)
}

// NewReplay returns a run for Replay, which calls no function, tool or model. After the last record
// was replayed, Resume makes it a run that can be ticked.
func NewReplay(t *Tree, o *RunOptions) (*Run, error) {
	r, err := newRun(t, o)
	if err != nil {
		return nil, err
	}
	r.record = true
	return r, nil
}

// Clone returns a copy of a replay that can be continued independently. It does not have what the
// last tick emitted, started, halted and changed.
func (r *Run) Clone() *Run {
	clone := *r
	clone.board, clone.state = r.board.Clone(), slices.Clone(r.state)
	clone.lists, clone.errs, clone.results = maps.Clone(r.lists), maps.Clone(r.errs),
		maps.Clone(r.results)
	clone.payloads, clone.topics = maps.Clone(r.payloads), maps.Clone(r.topics)
	clone.call, clone.tick = Call{}, effects{}
	clone.writers, clone.starts, clone.halts, clone.emitted, clone.moves = nil, nil, nil, nil, nil
	return &clone
}

// Resume ends the replay. The next tick calls the tree's functions again. The caller must start the
// pending jobs again.
func (r *Run) Resume(o *RunOptions) error {
	r.record, r.observed = o.Record, o.Observe
	return r.bind(o)
}

// Replay repeats a recorded tick. The leaves answer and write what is recorded, and all other nodes
// must give the recorded answers. The error is a *DivergenceError.
func (r *Run) Replay(rec *Record) error {
	if rec.Tick != r.ticks+1 {
		return &DivergenceError{Tick: rec.Tick, Reason: fmt.Sprintf("tick %d is expected",
			r.ticks+1)}
	}
	for _, v := range rec.visits {
		if v.node < 0 || int(v.node) >= len(r.nodes) {
			return &DivergenceError{Tick: rec.Tick, Reason: fmt.Sprintf("there is no node %d",
				v.node)}
		}
	}
	r.replay = rec
	defer func() { r.replay = nil }()
	r.begin(max(rec.At, r.now))
	r.status = r.visit(0)
	r.followUp()
	return r.compare(rec)
}

func (r *Run) compare(rec *Record) error {
	for i, got := range r.tick.visits {
		if i >= len(rec.visits) || rec.visits[i] != got {
			want := Idle
			if i < len(rec.visits) && rec.visits[i].node == got.node {
				want = rec.visits[i].status
			}
			return &DivergenceError{Tick: rec.Tick, Path: r.tree.path(got.node), Want: want,
				Got: got.status}
		}
	}
	switch {
	case len(rec.visits) > len(r.tick.visits):
		missed := rec.visits[len(r.tick.visits)]
		return &DivergenceError{Tick: rec.Tick, Path: r.tree.path(missed.node), Want: missed.status,
			Got: Idle}
	case rec.Status != r.status:
		return &DivergenceError{Tick: rec.Tick, Path: r.tree.path(0), Want: rec.Status,
			Got: r.status}
	case rec.At != r.now:
		return &DivergenceError{Tick: rec.Tick, Reason: "it is earlier than the tick before"}
	case len(rec.writes) != len(r.tick.writes), len(rec.emits) != len(r.emitted),
		len(rec.errs) != len(r.tick.errs),
		len(rec.wakes) != len(r.tick.wakes), len(rec.jobs) != len(r.tick.jobs):
		return &DivergenceError{Tick: rec.Tick,
			Reason: "the record has effects of a node that was not ticked"}
	}
	return nil
}

// repeat repeats a recorded write.
func (c *Call) repeat(w effect) error {
	if w.kept == 0 {
		return c.Set(w.key, w.value)
	}
	if c.run.written > maxTick {
		return errTick
	}
	_, size, err := c.board.ExtendIn(c.scope, w.key, w.kept, w.value)
	if err == nil {
		w.node = c.node
		c.run.noteWrite(w, size)
	}
	return err
}

// replayLeaf repeats the recorded effects of a leaf. Both records have the same order, so the
// effects of the leaf are in the old record at the length of the new one.
func (r *Run) replayLeaf(i int32, l *leaf, s *state) Status {
	rec, now := r.replay, &r.tick
	if at := len(now.visits); at >= len(rec.visits) || rec.visits[at].node != i {
		return Failure // compare reports it
	}
	st := rec.visits[len(now.visits)].status
	if st == Idle {
		return Failure // no leaf answers Idle; compare reports it
	}
	c := r.prepare(i, l)
	for at := len(now.writes); at < len(rec.writes) && rec.writes[at].node == i; at++ {
		if err := c.repeat(rec.writes[at]); err != nil {
			now.writes = now.writes[:at]
			break // compare reports it
		}
	}
	for at := len(r.emitted); at < len(rec.emits) && rec.emits[at].node == i; at++ {
		r.emit(i, rec.emits[at].key, rec.emits[at].value)
	}
	if at := len(now.errs); at < len(rec.errs) && rec.errs[at].node == i {
		r.fail(i, s, rec.errs[at].value.(string))
	}
	if at := len(now.wakes); at < len(rec.wakes) && rec.wakes[at].node == i {
		now.wakes = append(now.wakes, rec.wakes[at])
		s.at = rec.wakes[at].value.(int64)
		r.wakeAt(s.at)
	}
	switch at := len(now.jobs); {
	case st == Running && at < len(rec.jobs) && rec.jobs[at].node == i:
		now.jobs = append(now.jobs, rec.jobs[at])
		s.count++
		r.payloads[i] = rec.jobs[at].value
	case st != Running:
		delete(r.payloads, i)
	}
	return st
}
