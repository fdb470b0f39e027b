package tree

// Doubts are what can be run and is hardly meant. At most twenty are told.
func (t *Tree) Doubts() []Fault {
	c := &compiler{}
	for i, n := range t.nodes {
		if n.kind == ReactiveSequence || n.kind == ReactiveSelector {
			t.doubtReactive(c, int32(i))
		}
	}
	return c.faults
}

// doubtReactive finds a child that takes time as soon as it is asked, before one that takes time too: each time the later
// one wakes the tree the earlier one is begun anew, and the later one is halted for it.
func (t *Tree) doubtReactive(c *compiler, i int32) {
	for child := i + 1; child < t.nodes[i].end; child = t.nodes[child].end {
		next := t.nodes[child].end
		if next < t.nodes[i].end && t.takesTimeAtOnce(child) && t.mayRun(next, t.nodes[i].end) {
			def := t.meta[child].def
			c.fault(def.At, "put a condition before it, or use a node that remembers", "%s asks %s anew at each tick, which takes time each time: what follows it may never finish",
				t.nodes[i].kind, def.element())
			return
		}
	}
}

// takesTimeAtOnce reports whether a node that begins afresh answers Running without having asked a condition.
func (t *Tree) takesTimeAtOnce(i int32) bool {
	switch n := t.nodes[i]; n.kind {
	case Condition, Guard, Cooldown:
		return false
	case Parallel:
		for child := i + 1; child < n.end; child = t.nodes[child].end {
			if t.takesTimeAtOnce(child) {
				return true
			}
		}
		return false
	case Action, Script, Wait, LLMCall, Tool:
		return t.isLong(i)
	}
	return i+1 < t.nodes[i].end && t.takesTimeAtOnce(i+1)
}

// mayRun reports whether one of the nodes is known to answer Running at times.
func (t *Tree) mayRun(from, to int32) bool {
	for i := from; i < to; i++ {
		switch t.nodes[i].kind {
		case Retry, Repeat, ForEach:
			return true
		}
		if t.isLong(i) {
			return true
		}
	}
	return false
}

// isLong reports whether a leaf takes longer than a tick.
func (t *Tree) isLong(i int32) bool {
	switch n := t.nodes[i]; n.kind {
	case Wait:
		return t.params[n.aux].after > 0
	case Action, LLMCall, Tool:
		return t.leaves[n.aux].do == nil
	}
	return false
}
