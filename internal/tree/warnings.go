package tree

// Warnings returns at most twenty parts of the tree that can be run but are probably mistakes.
func (t *Tree) Warnings() []Fault {
	c := &compiler{}
	for i, n := range t.nodes {
		if n.kind == ReactiveSequence || n.kind == ReactiveSelector {
			t.warnReactive(c, int32(i))
		}
	}
	return c.faults
}

// warnReactive finds a child that takes time before another one that takes time. Each time that the
// later child wakes the tree, the earlier one is restarted and the later one is halted.
func (t *Tree) warnReactive(c *compiler, i int32) {
	for child := i + 1; child < t.nodes[i].end; child = t.nodes[child].end {
		next := t.nodes[child].end
		if next < t.nodes[i].end && t.takesTimeAtOnce(child) && t.mayRun(next, t.nodes[i].end) {
			def := t.meta[child].def
			c.fault(def.At, "put a condition before it, or use sequence or selector",
				"%s restarts %s at each tick, which takes time: the nodes after it may never finish",
				t.nodes[i].kind, def.element())
			return
		}
	}
}

// takesTimeAtOnce reports whether a node that is entered answers Running without asking a condition
// first.
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

// mayRun reports whether one of the nodes is known to answer Running sometimes.
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
