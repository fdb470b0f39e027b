package tree

import "fmt"

// DivergenceError is a tick that, replayed, gave something else than was recorded: the tree is not the one that was
// run, or the record is of another run.
type DivergenceError struct {
	Tick      int
	Path      string
	Want, Got Status
	// Reason is set when the two differ in something else than a status.
	Reason string
}

func (e *DivergenceError) Error() string {
	if e.Reason != "" {
		return fmt.Sprintf("tick %d: %s", e.Tick, e.Reason)
	}
	return fmt.Sprintf("tick %d: %s is %s, and was recorded as %s", e.Tick, e.Path, e.Got, e.Want)
}

// NewReplay returns a run for Replay. No function, tool or model is called in it. After the last record was replayed,
// GoOn makes it a run that can be ticked.
func NewReplay(t *Tree, o *RunOptions) (*Run, error) {
	r, err := newRun(t, o)
	if err != nil {
		return nil, err
	}
	r.record = true
	return r, nil
}

// GoOn ends the replaying: the next tick asks the tree's functions again. The jobs that were running must be started
// anew: see Pending.
func (r *Run) GoOn(o *RunOptions) error {
	r.record, r.observed = o.Record, o.Observe
	return r.bind(o)
}

// Replay repeats a recorded tick: the leaves answer and write what they did then, and all other nodes must come to the
// same. The error is a *DivergenceError.
func (r *Run) Replay(rec *Record) error {
	if rec.Tick != r.ticks+1 {
		return &DivergenceError{Tick: rec.Tick, Reason: fmt.Sprintf("tick %d should follow", r.ticks+1)}
	}
	for _, v := range rec.visits {
		if v.node < 0 || int(v.node) >= len(r.nodes) {
			return &DivergenceError{Tick: rec.Tick, Reason: fmt.Sprintf("there is no node %d", v.node)}
		}
	}
	r.replay = rec
	defer func() { r.replay = nil }()
	r.begin(max(rec.At, r.now))
	r.status = r.visit(0)
	return r.compare(rec)
}

func (r *Run) compare(rec *Record) error {
	for i, got := range r.tick.visits {
		if i >= len(rec.visits) || rec.visits[i] != got {
			want := Idle
			if i < len(rec.visits) && rec.visits[i].node == got.node {
				want = rec.visits[i].status
			}
			return &DivergenceError{Tick: rec.Tick, Path: r.tree.path(got.node), Want: want, Got: got.status}
		}
	}
	switch {
	case len(rec.visits) > len(r.tick.visits):
		missed := rec.visits[len(r.tick.visits)]
		return &DivergenceError{Tick: rec.Tick, Path: r.tree.path(missed.node), Want: missed.status, Got: Idle}
	case rec.Status != r.status:
		return &DivergenceError{Tick: rec.Tick, Path: r.tree.path(0), Want: rec.Status, Got: r.status}
	case rec.At != r.now:
		return &DivergenceError{Tick: rec.Tick, Reason: "it is earlier than the tick before"}
	case len(rec.writes) != len(r.tick.writes), len(rec.emits) != len(r.emitted), len(rec.errs) != len(r.tick.errs),
		len(rec.wakes) != len(r.tick.wakes), len(rec.payloads) != len(r.tick.payloads):
		return &DivergenceError{Tick: rec.Tick, Reason: "something was recorded of a node that cannot have done it"}
	}
	return nil
}

// replayed does what was recorded of a leaf. Both records grow in the same order, so what the leaf did stands where the
// new record ends.
func (r *Run) replayed(i int32, l *leaf, s *state) Status {
	rec, now := r.replay, &r.tick
	if at := len(now.visits); at >= len(rec.visits) || rec.visits[at].node != i {
		return Failure // and compare will say so
	}
	st := rec.visits[len(now.visits)].status
	if st == Idle {
		return Failure // no leaf answers that, and compare will say so
	}
	c := r.prepare(i, l)
	for at := len(now.writes); at < len(rec.writes) && rec.writes[at].node == i; at++ {
		w := rec.writes[at]
		before, _ := c.Get(w.key)
		if err := c.Set(w.key, w.whole(before)); err != nil || w.stays > 0 && now.writes[at].stays != w.stays {
			now.writes = now.writes[:at]
			break // and compare will say so
		}
	}
	for at := len(r.emitted); at < len(rec.emits) && rec.emits[at].node == i; at++ {
		r.emit(i, rec.emits[at].key, rec.emits[at].value)
	}
	if at := len(now.errs); at < len(rec.errs) && rec.errs[at].node == i {
		r.fail(i, s, rec.errs[at].text)
	}
	if at := len(now.wakes); at < len(rec.wakes) && rec.wakes[at].node == i {
		now.wakes = append(now.wakes, rec.wakes[at])
		s.at = rec.wakes[at].at
		r.wakeAt(s.at)
	}
	switch at := len(now.payloads); {
	case st == Running && at < len(rec.payloads) && rec.payloads[at].node == i:
		now.payloads = append(now.payloads, rec.payloads[at])
		s.count++
		r.payloads[i] = rec.payloads[at].value
	case st != Running:
		delete(r.payloads, i)
	}
	return st
}
