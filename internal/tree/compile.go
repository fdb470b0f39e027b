package tree

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"signalbox/internal/tree/blackboard"
)

// Limits on trees.
const (
	// MaxNodes is the maximum number of nodes of a tree, with its subtrees expanded.
	MaxNodes = 250_000
	// MaxDepth is the maximum number of levels of a tree.
	MaxDepth  = 200
	maxFaults = 20
)

// Fault is a mistake in a definition.
type Fault struct {
	At   Position
	Msg  string
	Hint string
}

func (f Fault) Error() string {
	text := f.Msg
	if f.At.File != "" {
		text = f.At.String() + ": " + text
	}
	return text
}

// CompileError lists the mistakes in a definition, at most twenty.
type CompileError struct{ Faults []Fault }

func (e *CompileError) Error() string {
	texts := make([]string, len(e.Faults))
	for i, f := range e.Faults {
		texts[i] = f.Error()
	}
	return strings.Join(texts, "\n")
}

// Faults returns the faults of err if it is a *CompileError, and nil otherwise.
func Faults(err error) []Fault {
	var e *CompileError
	if errors.As(err, &e) {
		return e.Faults
	}
	return nil
}

// Tree is a compiled definition. It is immutable, and any number of runs may share it.
type Tree struct {
	def      *Definition
	nodes    []node
	meta     []meta
	params   []params
	leaves   []leaf
	reactive []int32 // the reactive nodes
	layout   *blackboard.Layout

	// shape is the result of Shape, computed on first use.
	shape struct {
		once   sync.Once
		digest string
	}
}

// node is the part of a compiled node that every tick needs. Its descendants are the nodes after
// it, up to end. aux is its index in params or leaves.
type node struct {
	kind Kind
	end  int32
	aux  int32
}

// meta is the part of a compiled node that only messages and pictures need.
type meta struct {
	def    *Node
	parent int32
	depth  int32
	// nth numbers, from 1, the children of one parent that have the same name.
	nth int32
}

type params struct {
	after     int64
	times     int32
	until     Until
	keepGoing bool
	// children, need and limit belong to a parallel.
	children, need, limit int32
	// items, as and index are the slots of a for_each; index is -1 if it has none. A subtree resets
	// the slots between from and to.
	items, as, index blackboard.Slot
	from, to         blackboard.Slot
}

// leaf is a compiled leaf.
type leaf struct {
	do    Func
	job   *Leaf // nil for a function, and for a tool or model until a run is created
	args  map[string]any
	name  string
	scope blackboard.Scope
	kind  Kind
}

// set sets the function or job of the leaf.
func (l *leaf) set(known Leaf) {
	l.do, l.job = known.Do, nil
	if known.Do == nil {
		l.job = &known
	}
}

// Compile checks a definition and compiles it. It looks up actions and conditions in the registry;
// tools and models are looked up when a run is created. The error is a *CompileError.
func Compile(def *Definition, functions *Registry) (*Tree, error) {
	c := &compiler{functions: functions, subtrees: map[string]*SubtreeDefinition{},
		used: map[string]bool{},
		tree: &Tree{def: def, layout: blackboard.NewLayout()}}
	if !validName(def.Name) {
		c.fault(def.At, "", "%q is not a valid name for a tree", def.Name)
	}
	for _, key := range def.Globals {
		c.declare(blackboard.TreeScope, key, "", true)
	}
	for _, key := range def.Keys {
		c.declare(blackboard.TreeScope, key, "", false)
	}
	for _, sub := range def.Subtrees {
		if !validName(sub.Name) {
			c.fault(sub.At, "", "%q is not a valid name for a subtree", sub.Name)
		}
		if other := c.subtrees[sub.Name]; other != nil {
			c.fault(sub.At, "give one of them another name",
				"subtree '%s' is defined twice, first at %s", sub.Name, other.At)
		} else if sub.Name == def.Name && sub.Root != def.Root {
			c.fault(sub.At, "give one of them another name",
				"'%s' is the name of the tree and of a subtree", sub.Name)
		}
		c.subtrees[sub.Name] = c.normalized(sub)
		c.checkPorts(sub)
	}
	c.reportCycles(def)
	if def.Root == nil {
		c.fault(def.At, "give it a root", "tree '%s' has no root", def.Name)
	}
	if len(c.faults) == 0 {
		base := c.tree.layout.Clone()
		c.add(def.Root, -1, 0, 1, blackboard.TreeScope)
		c.checkUnused(def, base)
	}
	if len(c.faults) > 0 {
		return nil, &CompileError{c.faults}
	}
	return c.tree, nil
}

type compiler struct {
	functions *Registry
	subtrees  map[string]*SubtreeDefinition
	used      map[string]bool
	tree      *Tree
	faults    []Fault
	tooLarge  bool // stop compiling
}

// fault adds a fault, and reports whether it is new: a subtree that is used a thousand times has
// its faults only once.
func (c *compiler) fault(at Position, hint, format string, args ...any) bool {
	if len(c.faults) == maxFaults {
		return false
	}
	f := Fault{at, fmt.Sprintf(format, args...), hint}
	if slices.ContainsFunc(c.faults,
		func(known Fault) bool { return known.At == f.At && known.Msg == f.Msg }) {
		return false
	}
	c.faults = append(c.faults, f)
	return true
}

// faultNear adds a fault whose hint is the most similar of the known names. It calls known only if
// the fault is new.
func (c *compiler) faultNear(at Position, what, name string, known func() []string, format string,
	args ...any) {
	if c.fault(at, "", format, args...) {
		c.faults[len(c.faults)-1].Hint = suggest(what, name, known())
	}
}

// normalized returns a copy of a subtree whose keys have defaults in normal form. All uses of the
// subtree share it.
func (c *compiler) normalized(sub *SubtreeDefinition) *SubtreeDefinition {
	own := *sub
	own.Keys = slices.Clone(sub.Keys)
	for i, key := range own.Keys {
		kept, err := blackboard.Normal(key)
		if err != nil {
			c.fault(key.At, "", "%v", err)
		}
		own.Keys[i] = kept
	}
	return &own
}

func (c *compiler) declare(scope blackboard.Scope, key Key, path string,
	global bool) blackboard.Slot {
	slot, err := c.tree.layout.Declare(scope, key, path, global)
	if err != nil {
		c.fault(key.At, "", "%v", err)
	}
	return slot
}

// checkPorts checks that the names of a subtree's ports differ from each other and from its keys.
func (c *compiler) checkPorts(sub *SubtreeDefinition) {
	for i, port := range sub.Ports {
		at := port.At
		if at.File == "" {
			at = sub.At
		}
		same := func(k Key) bool { return k.Name == port.Name }
		switch {
		case !blackboard.ValidName(port.Name):
			c.fault(at, "", "%q is not a valid name for a port: %s", port.Name, blackboard.NameRule)
		case slices.ContainsFunc(sub.Ports[:i], same):
			c.fault(at, "", "subtree '%s' has two ports '%s'", sub.Name, port.Name)
		case slices.ContainsFunc(sub.Keys, same):
			c.fault(at, "give one of them another name",
				"'%s' is a port of subtree '%s' and a key of its own", port.Name, sub.Name)
		}
	}
}

// validName reports whether a name can be used in paths and pictures.
func validName(name string) bool {
	return name != "" && len(name) <= 100 && utf8.ValidString(name) &&
		!strings.ContainsAny(name, "/#") &&
		!strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) })
}

// reportCycles reports each cycle of subtrees that use themselves.
func (c *compiler) reportCycles(def *Definition) {
	done := map[string]bool{}
	var path []string
	seen := map[*Node]bool{} // in this subtree: a node may be used in several places
	var visit func(*Node, int)
	enter := func(name string, at Position) {
		if i := slices.Index(path, name); i >= 0 {
			c.fault(at, "a subtree cannot use itself; repeat its child instead",
				"cycle among subtrees: %s", strings.Join(append(slices.Clone(path[i:]), name),
					" → "))
			return
		}
		if sub := c.subtrees[name]; sub != nil && sub.Root != nil && !done[name] {
			outside := seen
			path, seen = append(path, name), map[*Node]bool{}
			visit(sub.Root, 0)
			path, seen = path[:len(path)-1], outside
			done[name] = true
		}
	}
	visit = func(n *Node, depth int) {
		if n == nil || depth > MaxDepth || seen[n] {
			return
		}
		seen[n] = true
		if n.Kind == Subtree {
			enter(n.Uses, n.At)
		}
		for _, child := range n.Children {
			visit(child, depth+1)
		}
	}
	visit(def.Root, 0)
	for _, sub := range def.Subtrees {
		enter(sub.Name, sub.At)
	}
}

// checkUnused compiles the subtrees that the tree does not use, to report their faults. base has
// the tree's keys.
func (c *compiler) checkUnused(def *Definition, base *blackboard.Layout) {
	for _, sub := range def.Subtrees {
		if c.tooLarge || c.used[sub.Name] || sub.Root == def.Root {
			continue
		}
		if sub.Root == nil {
			c.fault(sub.At, "give it a root", "subtree '%s' has no root", sub.Name)
			continue
		}
		aside := &compiler{functions: c.functions, subtrees: c.subtrees, used: c.used, tree: &Tree{def: def, layout: base.Clone()}}
		scope := aside.tree.layout.Open(blackboard.TreeScope)
		for _, key := range slices.Concat(sub.Keys, sub.Ports) {
			aside.declare(scope, key, sub.Name, false)
		}
		aside.add(sub.Root, -1, 0, 1, scope)
		for _, f := range aside.faults {
			c.fault(f.At, f.Hint, "%s", f.Msg)
		}
		c.tooLarge = aside.tooLarge
	}
}

// add compiles a node and its descendants.
func (c *compiler) add(n *Node, parent int32, depth, nth int, scope blackboard.Scope) {
	t := c.tree
	switch {
	case c.tooLarge:
		return
	case len(t.nodes) == MaxNodes:
		c.tooLarge = true
		c.fault(n.At, "subtrees count each time they are used", "the tree has more than %d nodes",
			MaxNodes)
		return
	case depth > MaxDepth:
		c.tooLarge = true
		c.fault(n.At, "move a part into a for_each or a list", "nodes are nested more than %d deep",
			MaxDepth)
		return
	}
	if n.Name != "" && !validName(n.Name) {
		c.fault(n.At, "at most 100 printable characters, without '/' and '#'",
			"%q is not a valid name for a node", n.Name)
	}
	i := int32(len(t.nodes))
	if n.Kind.isReactive() {
		t.reactive = append(t.reactive, int32(len(t.nodes)))
	}
	t.nodes = append(t.nodes, node{kind: n.Kind, aux: -1})
	t.meta = append(t.meta, meta{n, parent, int32(depth), int32(nth)})
	c.checkChildCount(n)
	switch {
	case n.Kind == Subtree:
		c.subtree(n, i, depth, scope)
	case n.Kind == Wait:
		c.setParams(i, params{after: int64(n.After)})
		if n.After < 0 {
			c.fault(n.At, "", "wait needs a duration that is not negative")
		}
	case n.Kind.IsLeaf():
		c.leaf(n, i, scope)
	default:
		scope = c.inner(n, i, scope)
		seen := map[string]int{}
		for _, child := range n.Children {
			if child == nil {
				c.fault(n.At, "", "a child of %s is missing", n.Kind)
				continue
			}
			seen[child.element()]++
			c.add(child, i, depth+1, seen[child.element()], scope)
		}
	}
	t.nodes[i].end = int32(len(t.nodes))
}

// element returns the node's element of a path, without its number.
func (n *Node) element() string {
	if n.Name != "" {
		return n.Name
	}
	if n.Kind == Subtree {
		return n.Uses
	}
	return n.Kind.String()
}

// checkChildCount checks the number of children.
func (c *compiler) checkChildCount(n *Node) {
	has, wants := len(n.Children), ""
	switch {
	case n.Kind == 0 || n.Kind > Tool:
		c.fault(n.At, "", "unknown node")
	case n.Kind.IsLeaf() && has != 0:
		wants = "no child"
	case n.Kind == Guard && has != 2:
		wants = "a condition and one child"
	case (n.Kind == ForEach || n.Kind.IsDecorator() && n.Kind != Guard) && has != 1:
		wants = "one child"
	case n.Kind.IsComposite() && n.Kind != ForEach && has == 0:
		wants = "at least one child"
	}
	if wants != "" {
		c.fault(n.At, "", "%s has %d children and needs %s", n.Kind, has, wants)
	}
}

// setParams stores the parameters of node i.
func (c *compiler) setParams(i int32, p params) {
	c.tree.nodes[i].aux = int32(len(c.tree.params))
	c.tree.params = append(c.tree.params, p)
}

// inner compiles the options of a composite or decorator, and returns the scope of its children.
func (c *compiler) inner(n *Node, i int32, scope blackboard.Scope) blackboard.Scope {
	switch n.Kind {
	case Parallel:
		need, limit := n.Require, n.MaxConcurrent
		if need < 0 || need > len(n.Children) {
			c.fault(n.At, "", "parallel requires %d of %d children", need, len(n.Children))
		}
		if limit < 0 {
			c.fault(n.At, "", "parallel cannot run %d children at once", limit)
		}
		if need == 0 {
			need = len(n.Children)
		}
		c.setParams(i, params{children: int32(len(n.Children)), need: int32(need),
			limit: int32(limit)})
	case Timeout, Cooldown:
		if n.After <= 0 {
			c.fault(n.At, "give it seconds, as in 5 or 0.5", "%s needs a duration above 0", n.Kind)
		}
		c.setParams(i, params{after: int64(n.After)})
	case Retry:
		if n.Times < 1 || n.Times > 1_000_000 || n.After < 0 {
			c.fault(n.At, "", "retry needs 1 to 1,000,000 attempts and a backoff that is not negative")
		}
		c.setParams(i, params{after: int64(n.After), times: int32(n.Times)})
	case Repeat:
		if n.Times < 0 || n.Times > 1_000_000_000 || n.Times == 0 && n.Until == UntilTimes {
			c.fault(n.At, "", "repeat needs a number of times, or until")
		}
		c.setParams(i, params{times: int32(n.Times), until: n.Until})
	case Guard:
		if left := MaxNodes; len(n.Children) == 2 && n.Children[0] != nil &&
			!n.Children[0].onlyConditions(&left) {
			c.fault(n.Children[0].At, "use condition, inverter, sequence and selector only",
				"the first child of a guard must be a condition")
		}
	case ForEach:
		return c.forEach(n, i, scope)
	}
	return scope
}

// onlyConditions reports whether a node consists of conditions only, and of at most left nodes.
func (n *Node) onlyConditions(left *int) bool {
	*left--
	switch n.Kind {
	case Condition:
		return true
	case Inverter, Sequence, Selector, AlwaysFail, AlwaysSucceed:
		return *left > 0 && !slices.ContainsFunc(n.Children,
			func(child *Node) bool { return child == nil || !child.onlyConditions(left) })
	}
	return false
}

func (c *compiler) forEach(n *Node, i int32, scope blackboard.Scope) blackboard.Scope {
	l := c.tree.layout
	items, known := l.Lookup(scope, n.Items)
	if !known {
		c.fault(n.At, "declare it in blackboard, as a list", "for_each uses %v '%s'", ErrUndeclared,
			n.Items)
	} else if t := l.Type(items); t != List && t != Any {
		c.fault(n.At, "", "for_each needs a list, and key '%s' is %s", n.Items, t.WithArticle())
	}
	inside, path := l.Open(scope), c.tree.path(i)
	p := params{items: items, index: -1, keepGoing: n.KeepGoing}
	p.as = c.declare(inside, Key{Name: n.As, At: n.At}, path, false)
	switch n.Index {
	case "":
	case n.As:
		c.fault(n.At, "give one of them another name",
			"for_each has the key '%s' for the item and for its number", n.As)
	default:
		p.index = c.declare(inside, Key{Name: n.Index, Type: Int, At: n.At}, path, false)
	}
	c.setParams(i, p)
	return inside
}

// subtree expands the subtree that a node uses, in a new scope.
func (c *compiler) subtree(n *Node, i int32, depth int, scope blackboard.Scope) {
	sub := c.subtrees[n.Uses]
	if sub == nil {
		c.faultNear(n.At, "subtree", n.Uses,
			func() []string { return slices.Collect(maps.Keys(c.subtrees)) },
			"unknown subtree '%s'", n.Uses)
		return
	}
	if sub.Root == nil {
		c.fault(sub.At, "give it a root", "subtree '%s' has no root", n.Uses)
		return
	}
	c.used[n.Uses] = true
	l := c.tree.layout
	inside := l.Open(blackboard.TreeScope)
	p := params{from: blackboard.Slot(l.Len())}
	if len(sub.Keys) > 0 {
		path := c.tree.path(i)
		for _, key := range sub.Keys {
			if _, err := l.DeclareNormal(inside, key, path, false); err != nil {
				c.tooLarge = c.tooLarge || errors.Is(err, blackboard.ErrDefaults)
				c.fault(key.At, "subtrees count each time they are used", "%v", err)
			}
		}
	}
	p.to = blackboard.Slot(l.Len())
	for _, port := range sub.Ports {
		outer := n.Ports[port.Name]
		at, known := l.Lookup(scope, outer)
		switch {
		case outer == "":
			c.fault(n.At, fmt.Sprintf("connect it to a key: ports = {%s = \"…\"}", port.Name),
				"port '%s' of subtree '%s' is not connected", port.Name, n.Uses)
		case !known:
			c.fault(n.At, "declare it in blackboard", "port '%s' refers to %v '%s'", port.Name,
				ErrUndeclared, outer)
		case port.Type != Any && l.Type(at) != port.Type:
			c.fault(n.At, "", "port '%s' takes %s, and key '%s' is %s", port.Name,
				port.Type.WithArticle(), outer, l.Type(at).WithArticle())
		default:
			l.Alias(inside, port.Name, at)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(n.Ports)) {
		if !slices.ContainsFunc(sub.Ports, func(k Key) bool { return k.Name == name }) {
			c.fault(n.At, "declare it in the subtree's ports", "subtree '%s' has no port '%s'",
				n.Uses, name)
		}
	}
	c.setParams(i, p)
	c.add(sub.Root, i, depth+1, 1, inside)
}
