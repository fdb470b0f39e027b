package tree

import (
	"fmt"
	"runtime/debug"
	"strings"
	"time"
)

// Tick asks the tree once. Time never goes back: an earlier time than that of the last tick counts as that. Ticking a
// run that ended begins it anew.
func (r *Run) Tick(now time.Time) Status {
	r.begin(max(now.UnixNano(), r.now))
	r.status = r.visit(0)
	return r.status
}

// Halt leaves whatever is running, as a parent would. It is no tick, and not recorded.
func (r *Run) Halt() {
	r.begin(r.now)
	r.ticks--
	r.halt(0)
	r.status = r.state[0].status
}

func (r *Run) begin(now int64) {
	r.ticks++
	r.now, r.wake, r.changed, r.spent = now, never, false, 0
	r.starts, r.halts, r.emitted, r.moves = r.starts[:0], r.halts[:0], r.emitted[:0], r.moves[:0]
	r.tick.clear()
}

// visit ticks one node. What each kind does is stated in docs/trees.md, and held against a naive interpreter by the
// tests.
func (r *Run) visit(i int32) Status {
	n, s := &r.nodes[i], &r.state[i]
	r.step++
	before := s.status
	fresh := before != Running
	seen := before
	if r.observed && r.past(i, s) {
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

// past reports whether what a node answered last was before its parent began afresh, or is begun again by it.
func (r *Run) past(i int32, s *state) bool {
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

// halt leaves a node and all below it that is running.
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

// inOrder is a sequence (on is Success) or a selector (on is Failure) that remembers where it is.
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

// reactive is the same from the first child on at each tick; it leaves the child that was running before if another
// decides now.
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

// parallel ticks all children that have not finished, as many as may run at once, until enough succeeded or too many
// failed.
func (r *Run) parallel(i int32, n *node, s *state) Status {
	p := &r.tree.params[n.aux]
	var running, succeeded, failed int32
	for c := i + 1; c < n.end; c = r.nodes[c].end {
		switch child := &r.state[c]; {
		case child.status == Running:
			running++
		case child.visited < s.entered: // it was not ticked since the parallel began
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

// forEach runs its body afresh for each item, one after the other.
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
		if r.begins(i+1, s.cursor) {
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

// begins reports whether the only child of a node, which did it so often before, begins now. To begin again is progress,
// even if all answers are those of the time before: how often that may be is limited by the number of ticks.
func (r *Run) begins(child, before int32) bool {
	fresh := r.state[child].status != Running
	r.changed = r.changed || fresh && before > 0
	return fresh
}

// timed are the decorators that count or look at the time, and wait.
func (r *Run) timed(i int32, n *node, s *state, fresh bool) Status {
	p := &r.tree.params[n.aux]
	switch n.kind {
	case Wait:
		if fresh {
			s.at = later(r.now, p.after)
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
			s.at = later(r.now, p.after)
		}
		return st
	case Timeout:
		if fresh {
			s.at = later(r.now, p.after)
		}
		if r.now >= s.at {
			r.halt(i + 1)
			r.fail(i, s, "timed out after "+seconds(time.Duration(p.after)))
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

// maxBackoff ends the doubling of a retry's backoff.
const maxBackoff = int64(time.Hour)

func (r *Run) retry(i int32, p *params, s *state, fresh bool) Status {
	if fresh {
		s.count, s.at = 0, 0
	}
	if r.now < s.at {
		r.wakeAt(s.at)
		return Running
	}
	r.begins(i+1, s.count)
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
	s.at = later(r.now, min(backoff, max(maxBackoff, p.after)))
	r.wakeAt(s.at)
	return Running
}

func (r *Run) repeat(i int32, p *params, s *state, fresh bool) Status {
	if fresh {
		s.count = 0
	}
	r.begins(i+1, s.count)
	st := r.visit(i + 1)
	if st == Running {
		return st
	}
	end, again, worn := Failure, Success, Success // what ends it, what repeats it, what it is when it was repeated enough
	switch p.until {
	case UntilSuccess:
		end, again, worn = Success, Failure, Failure
	case UntilFailure:
		end, again, worn = Success, Success, Failure
	}
	if st != again {
		return end
	}
	if s.count++; p.times > 0 && s.count >= p.times {
		return worn
	}
	r.wakeAt(r.now)
	return Running
}

// later adds without running over.
func later(now, d int64) int64 {
	if now > never-1-d {
		return never - 1
	}
	return now + d
}

func (r *Run) wakeAt(at int64) { r.wake = min(r.wake, max(at, r.now)) }

// fail records why a node fails. The text is for people, so it has a limit.
func (r *Run) fail(i int32, s *state, text string) {
	text = clip(strings.ToValidUTF8(text, "\uFFFD"), 2000)
	s.failed = true
	r.errs[i] = text
	if r.record {
		r.tick.errs = append(r.tick.errs, nodeText{i, text})
	}
}

// leaf asks a function, or looks after a job.
func (r *Run) leaf(i int32, n *node, s *state, fresh bool) Status {
	l := &r.leaves[n.aux]
	if r.replay != nil {
		return r.replayed(i, l, s)
	}
	if l.do == nil {
		return r.job(i, l, s, fresh)
	}
	c := r.prepare(i, l)
	st := r.ask(l.do, c)
	switch {
	case st == Running && l.kind == Condition:
		st = c.Fail("a condition answered RUNNING")
	case st == Idle || st > Running:
		st = c.Fail("the function answered %s, which is no answer", st)
	}
	if c.err != "" && st == Failure {
		r.fail(i, s, c.err)
	}
	if st == Running && c.wake != never {
		s.at = c.wake
		r.wakeAt(c.wake)
		if r.record {
			r.tick.wakes = append(r.tick.wakes, nodeTime{i, c.wake})
		}
	}
	return st
}

func (r *Run) prepare(i int32, l *leaf) *Call {
	r.call = Call{run: r, board: r.board, node: i, scope: l.scope, args: l.args, now: r.now, wake: never}
	return &r.call
}

// ask calls a function; one that panics fails.
func (r *Run) ask(do Func, c *Call) (st Status) {
	defer func() {
		if v := recover(); v != nil {
			st = c.Fail("panic: %v", v)
			r.call.err = c.err + at(string(debug.Stack()))
		}
	}()
	return do(c)
}

// at finds the line of code that panicked.
func at(stack string) string {
	_, rest, _ := strings.Cut(stack, "panic(")
	for line := range strings.Lines(rest) {
		if strings.HasPrefix(line, "\t") && !strings.Contains(line, "runtime/panic.go") {
			file, _, _ := strings.Cut(strings.TrimSpace(line), " +")
			return " (" + file[strings.LastIndexByte(file, '/')+1:] + ")"
		}
	}
	return ""
}

// job begins a job, or takes its result.
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
			r.tick.payloads = append(r.tick.payloads, nodeValue{i, payload})
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
		return r.ended(i, s, c, result)
	}
	st := r.ask(func(c *Call) Status { return l.job.Finish(c, result) }, c)
	if !st.Done() {
		st = c.Fail("the job ended as %s, which is no end", st)
	}
	if c.err != "" && st == Failure {
		r.fail(i, s, c.err)
	}
	return st
}

// payload asks what the job is to do.
func (r *Run) payload(l *leaf, c *Call) (payload any, err error) {
	if l.job.Prepare == nil {
		payload = c.Args()
	} else if st := r.ask(func(c *Call) Status { payload, err = l.job.Prepare(c); return Success }, c); st == Failure {
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

// ended writes what a job brought.
func (r *Run) ended(i int32, s *state, c *Call, result Result) Status {
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
		r.fail(i, s, fmt.Sprintf("the job ended as %s, which is no end", result.Status))
	}
	return Failure
}
