package tree

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// The interpreter in this file implements docs/reference/tree-nodes.md with pointers and maps,
// independently of Run. While a node is running, its state is in its memory, which is dropped when
// it ends.

// modelNode is a node of an expanded tree.
type modelNode struct {
	def    *Node
	index  int
	kids   []*modelNode
	env    modelEnv // visible to its leaves
	status Status
	past   bool // an ancestor was entered since
	visits int
	err    string
	memory *modelMemory
	item   *modelCell // a for_each's
	number *modelCell
	cools  int64 // a cooldown's end
	starts int   // a job's
}

type modelMemory struct {
	at       int
	done     map[*modelNode]Status
	list     []any
	count    int
	deadline int64
	payload  any
	result   *Result
}

type (
	modelEnv  map[string]*modelCell
	modelCell struct {
		full       string
		t          Type
		value, def any
	}
)

func (e modelEnv) with(cells ...*modelCell) modelEnv {
	inner := modelEnv{}
	for name, cell := range e {
		inner[name] = cell
	}
	for _, cell := range cells {
		inner[cell.full[strings.LastIndexByte(cell.full, ':')+1:]] = cell
	}
	return inner
}

// model is the model of a run.
type model struct {
	seed   uint64
	def    *Definition
	tree   *Tree // only for the paths
	nodes  []*modelNode
	global modelEnv
	cells  []*modelCell
	hidden map[string]any

	status  Status
	now     int64
	wake    int64
	started []*modelNode
	halted  []int
	emitted []string
	changed bool // the last tick made progress
	writers []*modelNode
	// followed means that the last tick asked for another at once because of a write.
	followed bool
}

func newModel(seed uint64, def *Definition, compiled *Tree) *model {
	m := &model{seed: seed, def: def, tree: compiled, global: modelEnv{}, hidden: map[string]any{}}
	always := []Key{{Name: "last_signal", Type: SignalType},
		{Name: "signals_emitted", Type: List, Default: []any{}},
		{Name: "consecutive_same_reason", Type: Int, Default: int64(0)},
		{Name: "turns_without_signal", Type: Int, Default: int64(0)},
		{Name: "accumulated_content", Type: String}, {Name: "llm_request"},
		{Name: "llm_response", Type: String},
		{Name: "tool_results", Type: List, Default: []any{}}}
	for _, key := range append(always, def.Keys...) {
		m.global[key.Name] = m.cell("", key)
	}
	m.expand(def.Root, m.global)
	return m
}

func (m *model) cell(path string, key Key) *modelCell {
	c := &modelCell{full: key.Name, t: key.Type, value: key.Default, def: key.Default}
	if path != "" {
		c.full = path + ":" + key.Name
	}
	m.cells = append(m.cells, c)
	return c
}

func (m *model) expand(def *Node, env modelEnv) *modelNode {
	n := &modelNode{def: def, index: len(m.nodes), env: env, past: true}
	m.nodes = append(m.nodes, n)
	path := m.tree.Info(n.index).Path
	switch def.Kind {
	case Subtree:
		i := slices.IndexFunc(m.def.Subtrees,
			func(s *SubtreeDefinition) bool { return s.Name == def.Uses })
		sub := m.def.Subtrees[i]
		inside := m.global
		for _, key := range sub.Keys {
			inside = inside.with(m.cell(path, key))
		}
		inside = inside.with()
		for _, port := range sub.Ports {
			inside[port.Name] = env[def.Ports[port.Name]]
		}
		n.env = inside
		n.kids = append(n.kids, m.expand(sub.Root, inside))
		return n
	case ForEach:
		n.item = m.cell(path, Key{Name: def.As})
		env = env.with(n.item)
		if def.Index != "" {
			n.number = m.cell(path, Key{Name: def.Index, Type: Int})
			env = env.with(n.number)
		}
	}
	for _, kid := range def.Children {
		n.kids = append(n.kids, m.expand(kid, env))
	}
	return n
}

func (m *model) tickAt(now int64) {
	m.begin()
	m.now = max(m.now, now)
	m.status = m.tick(m.nodes[0])
	m.follow()
}

func (m *model) haltTree() {
	m.begin()
	m.halt(m.nodes[0])
	m.status = m.nodes[0].status
}

func (m *model) begin() {
	m.wake, m.started, m.halted, m.emitted, m.changed, m.writers = never, nil, nil, nil, false, nil
}

// follow asks for a tick at once after a write while a reactive node runs. If the last tick was
// asked for in the same way, writes of leaves that are ticked in each tick do not count.
func (m *model) follow() {
	var repeated func(n *modelNode, below bool) []*modelNode
	repeated = func(n *modelNode, below bool) (leaves []*modelNode) {
		if below || n.memory != nil {
			leaves = append(leaves, n)
		}
		last := len(n.kids)
		if slices.Contains([]Kind{ReactiveSequence, ReactiveSelector, Guard}, n.def.Kind) &&
			n.memory != nil {
			last = slices.IndexFunc(n.kids, func(kid *modelNode) bool { return kid.memory != nil })
		}
		for i, kid := range n.kids {
			leaves = append(leaves, repeated(kid, below || last < len(n.kids) && i < last)...)
		}
		return leaves
	}
	again := repeated(m.nodes[0], false)
	reacts := slices.ContainsFunc(m.nodes, func(n *modelNode) bool {
		return n.memory != nil && slices.Contains([]Kind{ReactiveSequence, ReactiveSelector, Guard},
			n.def.Kind)
	})
	once := m.followed
	m.followed = m.status == Running && reacts &&
		slices.ContainsFunc(m.writers,
			func(n *modelNode) bool { return !once || !slices.Contains(again, n) })
	if m.followed {
		m.wake = m.now
	}
}

func (m *model) tick(n *modelNode) Status {
	n.visits++
	n.past = false
	fresh := n.memory == nil
	if fresh {
		n.memory = &modelMemory{done: map[*modelNode]Status{}}
		n.err = ""
		for _, kid := range n.kids {
			kid.forget()
		}
	}
	before := n.status
	n.status = m.do(n, n.memory, fresh)
	if n.status != Running {
		n.memory = nil
	}
	if n.status != before {
		m.changed = true
	}
	return n.status
}

// forget resets the visible state of a node.
func (n *modelNode) forget() {
	n.past = true
	for _, kid := range n.kids {
		kid.forget()
	}
}

func (n *modelNode) look() View {
	if n.past {
		return View{Visits: n.visits}
	}
	return View{Status: n.status, Visits: n.visits, Err: n.err}
}

func (n *modelNode) isJob() bool { return n.def.Fn == "job" }

func (m *model) halt(n *modelNode) {
	if n.memory == nil {
		return
	}
	n.memory, n.status, m.changed = nil, Idle, true
	if n.isJob() {
		m.halted = append(m.halted, n.index)
	}
	for _, kid := range n.kids {
		m.halt(kid)
	}
}

func (m *model) wakeAt(at int64) { m.wake = min(m.wake, max(at, m.now)) }

func (m *model) do(n *modelNode, memory *modelMemory, fresh bool) Status {
	switch n.def.Kind {
	case Sequence, Selector:
		pass := Success
		if n.def.Kind == Selector {
			pass = Failure
		}
		for ; memory.at < len(n.kids); memory.at++ {
			if st := m.tick(n.kids[memory.at]); st != pass {
				return st
			}
		}
		return pass
	case ReactiveSequence, ReactiveSelector, Guard:
		pass := Success
		if n.def.Kind == ReactiveSelector {
			pass = Failure
		}
		for i, kid := range n.kids {
			if st := m.tick(kid); st != pass {
				for _, later := range n.kids[i+1:] {
					m.halt(later)
				}
				return st
			}
		}
		return pass
	case Parallel:
		return m.parallel(n, memory)
	case ForEach:
		return m.forEach(n, memory, fresh)
	case Subtree:
		if fresh {
			for _, cell := range m.cells {
				if strings.HasPrefix(cell.full, m.tree.Info(n.index).Path+":") {
					cell.value = cell.def
				}
			}
		}
		return m.tick(n.kids[0])
	case Timeout, Cooldown, Wait, Retry, Repeat:
		return m.timed(n, memory, fresh)
	case Inverter, AlwaysFail, AlwaysSucceed:
		st := m.tick(n.kids[0])
		switch {
		case st == Running:
			return Running
		case n.def.Kind == AlwaysSucceed, n.def.Kind == Inverter && st == Failure:
			return Success
		}
		return Failure
	}
	if n.isJob() {
		return m.job(n, memory, fresh)
	}
	return m.leaf(n)
}

func (m *model) parallel(n *modelNode, memory *modelMemory) Status {
	need := n.def.Require
	if need == 0 {
		need = len(n.kids)
	}
	for _, kid := range n.kids {
		if _, done := memory.done[kid]; done {
			continue
		}
		running := 0
		for _, other := range n.kids {
			if other != kid && other.memory != nil {
				running++
			}
		}
		if kid.memory == nil && n.def.MaxConcurrent > 0 && running >= n.def.MaxConcurrent {
			continue
		}
		if st := m.tick(kid); st != Running {
			memory.done[kid] = st
		}
		counts := map[Status]int{}
		for _, st := range memory.done {
			counts[st]++
		}
		enough, hopeless := counts[Success] >= need, counts[Failure] > len(n.kids)-need
		if enough || hopeless {
			for _, kid := range n.kids {
				m.halt(kid)
			}
			if enough {
				return Success
			}
			return Failure
		}
	}
	return Running
}

func (m *model) forEach(n *modelNode, memory *modelMemory, fresh bool) Status {
	if fresh {
		list, ok := n.env[n.def.Items].value.([]any)
		if !ok {
			n.err = "there is no list under '" + n.def.Items + "'"
			return Failure
		}
		memory.list = list
	}
	if len(memory.list) == 0 {
		return Success
	}
	body := n.kids[0]
	if body.memory == nil {
		m.changed = m.changed || memory.at > 0
		n.item.value = memory.list[memory.at]
		if n.number != nil {
			n.number.value = int64(memory.at + 1)
		}
	}
	st := m.tick(body)
	if st == Running {
		return Running
	}
	memory.at++
	switch {
	case st == Failure && !n.def.KeepGoing:
		return Failure
	case memory.at == len(memory.list):
		return Success
	}
	m.wakeAt(m.now)
	return Running
}

func (m *model) timed(n *modelNode, memory *modelMemory, fresh bool) Status {
	after := int64(n.def.After)
	if fresh {
		memory.deadline = m.now + after
	}
	switch n.def.Kind {
	case Wait:
		if m.now >= memory.deadline {
			return Success
		}
		m.wakeAt(memory.deadline)
		return Running
	case Cooldown:
		if fresh && m.now < n.cools {
			n.err = "it is cooling down"
			return Failure
		}
		st := m.tick(n.kids[0])
		if st != Running {
			n.cools = m.now + after
		}
		return st
	case Timeout:
		if m.now >= memory.deadline {
			m.halt(n.kids[0])
			n.err = "timed out after " + n.def.After.String()
			return Failure
		}
		st := m.tick(n.kids[0])
		if st == Running {
			m.wakeAt(memory.deadline)
		}
		return st
	case Retry:
		if memory.count > 0 && m.now < memory.deadline {
			m.wakeAt(memory.deadline)
			return Running
		}
		m.changed = m.changed || memory.count > 0 && n.kids[0].memory == nil
		st := m.tick(n.kids[0])
		if st != Failure {
			return st
		}
		memory.count++
		if memory.count == n.def.Times {
			return Failure
		}
		memory.deadline = m.now + after<<(memory.count-1)
		m.wakeAt(memory.deadline)
		return Running
	}
	return m.repeat(n, memory)
}

func (m *model) repeat(n *modelNode, memory *modelMemory) Status {
	m.changed = m.changed || memory.count > 0 && n.kids[0].memory == nil
	st := m.tick(n.kids[0])
	if st == Running {
		return Running
	}
	memory.count++
	worn := n.def.Times > 0 && memory.count == n.def.Times
	switch {
	case n.def.Until == UntilTimes && st == Failure:
		return Failure
	case n.def.Until == UntilTimes && worn:
		return Success
	case n.def.Until == UntilSuccess && st == Success, n.def.Until == UntilFailure && st == Failure:
		return Success
	case worn:
		return Failure
	}
	m.wakeAt(m.now)
	return Running
}

func (m *model) leaf(n *modelNode) Status {
	d := deedOf(m.seed, n.index, n.visits)
	if d.key != "" {
		m.set(n, d.key, d.value)
	}
	if d.emit != "" {
		m.emitted = append(m.emitted, fmt.Sprintf("%d %s", n.index, d.emit))
	}
	switch {
	case d.panics:
		n.err = "panic: out of paper"
		return Failure
	case d.answer == Idle:
		n.err = "the function answered IDLE, which is not allowed"
		return Failure
	case d.answer == Running && n.def.Kind == Condition:
		n.err = "a condition answered RUNNING"
		return Failure
	case d.answer == Failure:
		n.err = d.err
	case d.answer == Running && d.wakes > 0:
		m.wakeAt(m.now + int64(d.wakes))
	}
	return d.answer
}

// set writes a key as a leaf does. A write that fails changes nothing.
func (m *model) set(n *modelNode, key string, v any) bool {
	cell := n.env[key]
	if cell == nil {
		if !strings.HasPrefix(key, "_") {
			return false
		}
		if delete(m.hidden, key); v != nil {
			m.hidden[key] = v
		}
		m.changed, m.writers = true, append(m.writers, n)
		return true
	}
	_, isInt := v.(int64)
	_, isList := v.([]any)
	if v != nil && (cell.t == Int && !isInt || cell.t == List && !isList) {
		return false
	}
	cell.value = v
	m.changed, m.writers = true, append(m.writers, n)
	return true
}

func (m *model) get(env modelEnv, key string) any {
	if cell := env[key]; cell != nil {
		return cell.value
	}
	return m.hidden[key]
}

func (m *model) job(n *modelNode, memory *modelMemory, fresh bool) Status {
	if fresh {
		n.starts++
		payload := map[string]any{}
		for name, arg := range n.def.Args {
			if ref, ok := arg.(Ref); ok {
				arg = m.get(n.env, ref.Key)
			}
			payload[name] = arg
		}
		memory.payload = payload
		m.started = append(m.started, n)
		return Running
	}
	if memory.result == nil {
		return Running
	}
	for _, key := range sortedKeys(memory.result.Writes) {
		if !m.set(n, key, memory.result.Writes[key]) {
			n.err = "refused"
			return Failure
		}
	}
	if memory.result.Status != Success {
		n.err = memory.result.Err
	}
	return memory.result.Status
}

func (m *model) snapshot() map[string]any {
	all := map[string]any{}
	for _, cell := range m.cells {
		if cell.value != nil {
			all[cell.full] = cell.value
		}
	}
	for key, v := range m.hidden {
		all[key] = v
	}
	return all
}

// deed is the behaviour of a leaf at one visit. It depends only on the seed, the node and the
// number of the visit.
type deed struct {
	answer    Status
	panics    bool
	key, emit string
	value     any
	err       string
	wakes     time.Duration
}

func deedOf(seed uint64, node, visit int) deed {
	x := seed ^ uint64(node)*0x9e3779b97f4a7c15 ^ uint64(visit)*0xbf58476d1ce4e5b9
	next := func(n uint64) uint64 {
		x += 0x9e3779b97f4a7c15
		z := (x ^ x>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		return (z ^ z>>31) % n
	}
	d := deed{answer: Success}
	switch roll := next(100); {
	case roll < 27:
		d.answer = Failure
		d.err = []string{"", "no paper"}[next(2)]
	case roll < 55:
		d.answer = Running
		d.wakes = time.Duration(next(3)) * time.Second
	case roll < 57:
		d.panics = true
	case roll < 59:
		d.answer = Idle
	}
	if next(3) == 0 {
		d.key = modelKeys[next(uint64(len(modelKeys)))]
		d.value = modelValue(next)
	}
	if next(10) == 0 {
		d.emit = "said"
	}
	return d
}

// modelKeys returns names that leaves write, whether such a key is visible or not.
var modelKeys = []string{"n", "m", "list", "k", "p", "x", "i", "_h"}

func modelValue(next func(uint64) uint64) any {
	switch next(4) {
	case 0:
		return nil
	case 1:
		return int64(next(100))
	}
	list := make([]any, next(4))
	for i := range list {
		list[i] = int64(next(10))
		if next(3) == 0 {
			list[i] = []any{int64(next(10)), "item"}
		}
	}
	return list
}
