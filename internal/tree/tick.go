package tree

import (
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"signalbox/internal/text"
)

// Tick ticks the root once and returns its answer. A time before that of the last tick is replaced
// by the latter. Ticking a run that has finished restarts it.
func (r *Run) Tick(now time.Time) Status {
	r.begin(max(now.UnixNano(), r.now))
	r.status = r.visit(0)
	r.followUp()
	return r.status
}

func (r *Run) begin(now int64) {
	r.ticks++
	r.now, r.wake, r.changed, r.written = now, never, false, 0
	r.starts, r.halts, r.emitted, r.moves, r.writers = r.starts[:0], r.halts[:0], r.emitted[:0],
		r.moves[:0], r.writers[:0]
	r.tick.clear()
}

// followUp asks for another tick at once if a key was written while a reactive node is running,
// because its conditions may answer differently now. A leaf that writes in every tick causes only
// one more tick.
func (r *Run) followUp() {
	followed := r.followed
	r.followed = false
	if r.status != Running || len(r.writers) == 0 || !r.isReacting() {
		return
	}
	for _, i := range r.writers {
		if !followed || !r.isRepeated(i) {
			r.followed, r.wake = true, r.now
			return
		}
	}
}

// isReacting reports whether a reactive node is running.
func (r *Run) isReacting() bool {
	for _, i := range r.tree.reactive {
		if r.state[i].status == Running {
			return true
		}
	}
	return false
}

// isRepeated reports whether the next tick visits a leaf again: it is running, or a running
// reactive node checks it in each tick.
func (r *Run) isRepeated(i int32) bool {
	if r.state[i].status == Running {
		return true
	}
	for p := r.tree.meta[i].parent; p >= 0; i, p = p, r.tree.meta[p].parent {
		if r.nodes[p].kind.isReactive() && r.state[p].status == Running && i < r.state[p].cursor {
			return true
		}
	}
	return false
}

// visit ticks one node. docs/reference/tree-nodes.md specifies each kind, and the tests compare
// visit with a simple model.
func (r *Run) visit(i int32) Status {
	n, s := &r.nodes[i], &r.state[i]
	r.step++
	before := s.status
	fresh := before != Running
	seen := before
	if r.observed && r.isPast(i, s) {
		seen = Idle
	}
	s.visits++
	s.visited = r.step
	if fresh {
		s.entered = r.step
		if s.failed {
			s.failed = false
			delete(r.errs, i)
		}
	}
	var st Status
	switch n.kind {
	case Sequence:
		st = r.inOrder(i, n, s, fresh, Success)
	case Selector:
		st = r.inOrder(i, n, s, fresh, Failure)
	case ReactiveSequence, Guard:
		st = r.reactive(i, n, s, fresh, Success)
	case ReactiveSelector:
		st = r.reactive(i, n, s, fresh, Failure)
	case Inverter:
		if st = r.visit(i + 1); st != Running {
			st = Success + Failure - st
		}
	case AlwaysSucceed:
		if st = r.visit(i + 1); st != Running {
			st = Success
		}
	case AlwaysFail:
		if st = r.visit(i + 1); st != Running {
			st = Failure
		}
	case Parallel:
		st = r.parallel(i, n, s)
	case ForEach:
		st = r.forEach(i, n, s, fresh)
	case Timeout, Retry, Repeat, Cooldown, Wait:
		st = r.timed(i, n, s, fresh)
	case Subtree:
		if fresh {
			p := &r.tree.params[n.aux]
			r.board.Reset(p.from, p.to)
		}
		st = r.visit(i + 1)
	default:
		st = r.leaf(i, n, s, fresh)
	}
	s.status = st
	r.changed = r.changed || st != before
	if r.observed && st != seen {
		r.moves = append(r.moves, Transition{int(i), seen, st, r.errs[i]})
	}
	if r.record {
		r.tick.visits = append(r.tick.visits, visited{i, st})
	}
	return st
}

// isPast reports whether the last answer of a node is no longer shown, because its parent was
// entered since, or restarts it.
func (r *Run) isPast(i int32, s *state) bool {
	p := r.tree.meta[i].parent
	if p < 0 {
		return false
	}
	switch r.nodes[p].kind {
	case Repeat, Retry, ForEach:
		return s.status != Running
	}
	return r.state[p].entered > s.visited
}

// halt halts a node and its descendants if they are running.
func (r *Run) halt(i int32) {
	if r.state[i].status != Running {
		return
	}
	r.changed = true
	for j := i; j < r.nodes[i].end; j++ {
		s := &r.state[j]
		if s.status != Running {
			continue
		}
		s.status = Idle
		if r.isJob(j) {
			r.halts = append(r.halts, j)
			delete(r.payloads, j)
			delete(r.results, j)
		}
		if r.observed {
			r.moves = append(r.moves, Transition{int(j), Running, Idle, ""})
		}
		if r.record {
			r.tick.visits = append(r.tick.visits, visited{j, Idle})
		}
	}
}

// inOrder ticks a sequence (on is Success) or a selector (on is Failure), which continues at its
// running child.
func (r *Run) inOrder(i int32, n *node, s *state, fresh bool, on Status) Status {
	c := s.cursor
	if fresh {
		c = i + 1
	}
	for ; c < n.end; c = r.nodes[c].end {
		if st := r.visit(c); st != on {
			s.cursor = c
			return st
		}
	}
	return on
}

// reactive ticks a reactive sequence or selector, which begins at its first child in each tick. It
// halts the child that was running before if an earlier one decides now.
func (r *Run) reactive(i int32, n *node, s *state, fresh bool, on Status) Status {
	was := s.cursor
	if fresh {
		was = -1
	}
	st, c := on, i+1
	for ; c < n.end; c = r.nodes[c].end {
		if st = r.visit(c); st != on {
			break
		}
	}
	if was > c && was < n.end {
		r.halt(was)
	}
	s.cursor = c
	return st
}

// parallel ticks the children that have not finished, up to its limit, until enough have succeeded
// or too many have failed.
func (r *Run) parallel(i int32, n *node, s *state) Status {
	p := &r.tree.params[n.aux]
	var running, succeeded, failed int32
	for c := i + 1; c < n.end; c = r.nodes[c].end {
		switch child := &r.state[c]; {
		case child.status == Running:
			running++
		case child.visited < s.entered: // not ticked since the parallel was entered
		case child.status == Success:
			succeeded++
		default:
			failed++
		}
	}
	for c := i + 1; c < n.end; c = r.nodes[c].end {
		if child := &r.state[c]; child.status != Running {
			if child.visited >= s.entered || p.limit > 0 && running >= p.limit {
				continue
			}
			running++
		}
		switch r.visit(c) {
		case Running:
			continue
		case Success:
			succeeded++
		default:
			failed++
		}
		running--
		if succeeded >= p.need || failed > p.children-p.need {
			r.haltAll(i, n)
			if succeeded >= p.need {
				return Success
			}
			return Failure
		}
	}
	return Running
}

func (r *Run) haltAll(i int32, n *node) {
	for c := i + 1; c < n.end; c = r.nodes[c].end {
		r.halt(c)
	}
}

// forEach enters its child once for each item, one after the other.
func (r *Run) forEach(i int32, n *node, s *state, fresh bool) Status {
	p := &r.tree.params[n.aux]
	if fresh {
		items, ok := r.board.Value(p.items).([]any)
		if !ok {
			r.fail(i, s, fmt.Sprintf("there is no list under '%s'", r.tree.meta[i].def.Items))
			return Failure
		}
		r.lists[i], s.cursor = items, 0
	}
	items := r.lists[i]
	if int(s.cursor) < len(items) {
		if r.beginChild(i+1, s.cursor) {
			r.board.Put(p.as, items[s.cursor])
			if p.index >= 0 {
				r.board.Put(p.index, int64(s.cursor)+1)
			}
		}
		st := r.visit(i + 1)
		if st == Running {
			return Running
		}
		if s.cursor++; st == Failure && !p.keepGoing {
			delete(r.lists, i)
			return Failure
		}
	}
	if int(s.cursor) < len(items) {
		r.wakeAt(r.now)
		return Running
	}
	delete(r.lists, i)
	return Success
}

// beginChild reports whether the only child of a node is about to be entered. before is how often
// it was entered already; entering it again counts as progress even if all answers stay the same;
// the number of ticks limits how often.
func (r *Run) beginChild(child, before int32) bool {
	fresh := r.state[child].status != Running
	r.changed = r.changed || fresh && before > 0
	return fresh
}

// timed ticks a wait, or a decorator that counts or measures time.
func (r *Run) timed(i int32, n *node, s *state, fresh bool) Status {
	p := &r.tree.params[n.aux]
	switch n.kind {
	case Wait:
		if fresh {
			s.at = addSaturating(r.now, p.after)
		}
		if r.now >= s.at {
			return Success
		}
		r.wakeAt(s.at)
		return Running
	case Cooldown:
		if fresh && r.now < s.at {
			r.fail(i, s, "it is cooling down")
			return Failure
		}
		st := r.visit(i + 1)
		if st != Running {
			s.at = addSaturating(r.now, p.after)
		}
		return st
	case Timeout:
		if fresh {
			s.at = addSaturating(r.now, p.after)
		}
		if r.now >= s.at {
			r.halt(i + 1)
			r.fail(i, s, "timed out after "+formatDuration(time.Duration(p.after)))
			return Failure
		}
		st := r.visit(i + 1)
		if st == Running {
			r.wakeAt(s.at)
		}
		return st
	case Retry:
		return r.retry(i, p, s, fresh)
	}
	return r.repeat(i, p, s, fresh)
}

// maxBackoff is the longest backoff of a retry, unless its first one is longer.
const maxBackoff = int64(time.Hour)

func (r *Run) retry(i int32, p *params, s *state, fresh bool) Status {
	if fresh {
		s.count, s.at = 0, 0
	}
	if r.now < s.at {
		r.wakeAt(s.at)
		return Running
	}
	r.beginChild(i+1, s.count)
	st := r.visit(i + 1)
	if st != Failure {
		return st
	}
	if s.count++; s.count >= p.times {
		return Failure
	}
	backoff := p.after
	for range s.count - 1 {
		if backoff == 0 || backoff >= maxBackoff {
			break
		}
		backoff *= 2
	}
	s.at = addSaturating(r.now, min(backoff, max(maxBackoff, p.after)))
	r.wakeAt(s.at)
	return Running
}

func (r *Run) repeat(i int32, p *params, s *state, fresh bool) Status {
	if fresh {
		s.count = 0
	}
	r.beginChild(i+1, s.count)
	st := r.visit(i + 1)
	if st == Running {
		return st
	}
	// The repeat answers end if the child does not answer again, and exhausted after the last
	// repetition.
	end, again, exhausted := Failure, Success, Success
	switch p.until {
	case UntilSuccess:
		end, again, exhausted = Success, Failure, Failure
	case UntilFailure:
		end, again, exhausted = Success, Success, Failure
	}
	if st != again {
		return end
	}
	if s.count++; p.times > 0 && s.count >= p.times {
		return exhausted
	}
	r.wakeAt(r.now)
	return Running
}

// addSaturating returns now+d, at most never-1.
func addSaturating(now, d int64) int64 {
	if now > never-1-d {
		return never - 1
	}
	return now + d
}

func (r *Run) wakeAt(at int64) { r.wake = min(r.wake, max(at, r.now)) }

// fail records the reason why a node failed.
func (r *Run) fail(i int32, s *state, reason string) {
	reason = text.Shorten(strings.ToValidUTF8(reason, "\uFFFD"), 2000)
	s.failed = true
	r.errs[i] = reason
	if r.record {
		r.tick.errs = append(r.tick.errs, effect{node: i, value: reason})
	}
}

// leaf calls a function, or starts a job or takes its result.
func (r *Run) leaf(i int32, n *node, s *state, fresh bool) Status {
	l := &r.leaves[n.aux]
	if r.replay != nil {
		return r.replayLeaf(i, l, s)
	}
	if l.do == nil {
		return r.job(i, l, s, fresh)
	}
	c := r.prepare(i, l)
	st := r.invoke(l.do, c)
	switch {
	case st == Running && l.kind == Condition:
		st = c.Fail("a condition answered RUNNING")
	case st == Idle || st > Running:
		st = c.Fail("the function answered %s, which is not allowed", st)
	}
	if c.err != "" && st == Failure {
		r.fail(i, s, c.err)
	}
	if st == Running && c.wake != never {
		s.at = c.wake
		r.wakeAt(c.wake)
		if r.record {
			r.tick.wakes = append(r.tick.wakes, effect{node: i, value: c.wake})
		}
	}
	return st
}

func (r *Run) prepare(i int32, l *leaf) *Call {
	r.call = Call{run: r, board: r.board, node: i, scope: l.scope, args: l.args, now: r.now,
		wake: never}
	return &r.call
}

// invoke calls a function and turns a panic into a failure.
func (r *Run) invoke(do Func, c *Call) (st Status) {
	defer func() {
		if v := recover(); v != nil {
			st = c.Fail("panic: %v", v)
			r.call.err = c.err + panicLine(string(debug.Stack()))
		}
	}()
	return do(c)
}

// panicLine returns the line of code that panicked.
func panicLine(stack string) string {
	_, rest, _ := strings.Cut(stack, "panic(")
	for line := range strings.Lines(rest) {
		if strings.HasPrefix(line, "\t") && !strings.Contains(line, "runtime/panic.go") {
			file, _, _ := strings.Cut(strings.TrimSpace(line), " +")
			return " (" + file[strings.LastIndexByte(file, '/')+1:] + ")"
		}
	}
	return ""
}

// job starts a job, or takes its result.
func (r *Run) job(i int32, l *leaf, s *state, fresh bool) Status {
	c := r.prepare(i, l)
	if fresh {
		payload, err := r.payload(l, c)
		if err != nil {
			r.fail(i, s, err.Error())
			return Failure
		}
		s.count++
		r.payloads[i] = payload
		r.starts = append(r.starts, i)
		if r.record {
			r.tick.jobs = append(r.tick.jobs, effect{node: i, value: payload})
		}
		return Running
	}
	result, ended := r.results[i]
	if !ended {
		return Running
	}
	delete(r.results, i)
	delete(r.payloads, i)
	if l.job.Finish == nil {
		return r.applyResult(i, s, c, result)
	}
	st := r.invoke(func(c *Call) Status { return l.job.Finish(c, result) }, c)
	if !st.Done() {
		st = c.Fail("the job ended as %s, not as SUCCESS or FAILURE", st)
	}
	if c.err != "" && st == Failure {
		r.fail(i, s, c.err)
	}
	return st
}

// payload returns the payload of a job.
func (r *Run) payload(l *leaf, c *Call) (payload any, err error) {
	if l.job.Prepare == nil {
		payload = c.Args()
	} else if st := r.invoke(
		func(c *Call) Status { payload, err = l.job.Prepare(c); return Success },
		c); st == Failure {
		err = fmt.Errorf("%s", r.call.err)
	}
	if err != nil {
		return nil, err
	}
	payload, err = Any.Check(payload)
	if err != nil {
		err = fmt.Errorf("the request cannot be recorded: %w", err)
	}
	return payload, err
}

// applyResult writes the result of a job to the blackboard.
func (r *Run) applyResult(i int32, s *state, c *Call, result Result) Status {
	for _, key := range sortedKeys(result.Writes) {
		if err := c.Set(key, result.Writes[key]); err != nil {
			r.fail(i, s, err.Error())
			return Failure
		}
	}
	switch {
	case result.Status == Success:
		return Success
	case result.Err != "":
		r.fail(i, s, result.Err)
	case result.Status != Failure:
		r.fail(i, s, fmt.Sprintf("the job ended as %s, not as SUCCESS or FAILURE", result.Status))
	}
	return Failure
}
