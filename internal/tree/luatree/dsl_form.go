package luatree

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	lua "github.com/yuin/gopher-lua"

	"signalbox/internal/tree"
	"signalbox/internal/tree/luatree/boundedlua"
)

// form is a call of a constructor that is being parsed.
type form struct {
	*dsl
	L    *lua.LState
	what string
	at   tree.Position
	args []lua.LValue // not parsed yet
	node tree.Node
	// size and depth are those of the children, expanded.
	size, depth int
}

// fail stops parsing the call with a fault at its line. It does not return.
func (f *form) fail(format string, args ...any) { panic(fault{fmt.Sprintf(format, args...)}) }

func (f *form) next() lua.LValue {
	v := f.peek()
	f.args = f.args[min(1, len(f.args)):]
	return v
}

func (f *form) peek() lua.LValue {
	if len(f.args) == 0 {
		return lua.LNil
	}
	return f.args[0]
}

// name parses a leading string as the name of the node.
func (f *form) name() {
	if name, ok := f.peek().(lua.LString); ok {
		f.next()
		f.setName(string(name))
	}
}

func (f *form) needName() {
	if _, ok := f.peek().(lua.LString); !ok {
		f.fail("%s needs a name first, not %s", f.what, describe(f.peek()))
	}
	f.name()
}

// requireName fails if the node has no name.
func (f *form) requireName() {
	if f.node.Name == "" {
		f.fail("%s needs a name: give it first, or as name in its table", f.what)
	}
}

func (f *form) setName(name string) {
	switch {
	case name == "":
		f.fail("the name of %s is empty", f.what)
	case f.node.Name != "":
		f.fail("%s has two names, '%s' and '%s'", f.what, boundedlua.Shorten(f.node.Name),
			boundedlua.Shorten(name))
	}
	f.node.Name = name
}

// child adds a child. Messages refer to it as which.
func (f *form) child(v lua.LValue, which string) {
	ud, _ := v.(*lua.LUserData)
	if ud != nil {
		switch c := ud.Value.(type) {
		case *nodeValue:
			f.add(c)
			return
		case invalid:
			f.add(&nodeValue{&tree.Node{}, 1, 1})
			return
		case *tree.SubtreeDefinition:
			if len(c.Ports) > 0 {
				f.fail("%s of %s is %s, which has ports: use it as BT.subtree(%q, {ports = {…}})",
					which, f.what, describe(v), c.Name)
			}
			f.add(&nodeValue{&tree.Node{Kind: tree.Subtree, Uses: c.Name, At: f.at}, 1, 1})
			return
		}
	}
	f.fail("%s of %s is %s%s", which, f.what, describe(v), advice(v))
}

// advice explains what to write instead of a value that is not a child.
func advice(v lua.LValue) string {
	switch v := v.(type) {
	case *lua.LNilType:
		return ": is a name misspelled?"
	case lua.LString:
		return ": a name comes first, and a subtree is used with BT.subtree(name)"
	case *lua.LFunction:
		return ": a function is the fn of an action, a condition or a script"
	case *lua.LTable:
		return ": call a constructor, as in BT.sequence({…})"
	case *lua.LUserData:
		if _, ok := v.Value.(*tree.Definition); ok {
			return ": a tree cannot contain a tree: make it a subtree"
		}
	}
	return ", which is not a node"
}

func (f *form) add(c *nodeValue) {
	f.node.Children = append(f.node.Children, c.node)
	f.size += c.size
	f.depth = max(f.depth, c.depth)
}

// finish parses trailing options and returns the node.
func (f *form) finish(kind tree.Kind) *nodeValue {
	if f.atTable() {
		o := f.table("")
		o.common()
		o.end()
	}
	f.noMoreArguments()
	// Compile has the same limits. Checking them here bounds the work: a few nodes that contain
	// each other twice make a tree of any size.
	if f.size >= tree.MaxNodes {
		f.fail("the tree has more than %d nodes: a node counts each time it is used", tree.MaxNodes)
	}
	if f.depth > tree.MaxDepth {
		f.fail("nodes are nested more than %d deep", tree.MaxDepth)
	}
	n := f.node
	n.Kind, n.At = kind, f.at
	return &nodeValue{&n, f.size + 1, f.depth + 1}
}

func (f *form) noMoreArguments() {
	if len(f.args) > 0 {
		f.fail("%s has an unexpected argument: %s", f.what, describe(f.peek()))
	}
}

// options is a table of options that is being parsed.
type options struct {
	*form
	items  []lua.LValue
	fields map[string]lua.LValue
}

// options splits a table and fails if it has an unknown option. That is reported before a missing
// option, because it is often the same one, misspelled.
func (f *form) options(t *lua.LTable, known ...string) *options {
	o := f.anyOptions(t)
	for _, name := range sortedKeys(o.fields) {
		if !slices.Contains(known, name) {
			f.fail("%s has no option '%s'%s", f.what, boundedlua.Shorten(name),
				hint(name, known, ""))
		}
	}
	return o
}

func (f *form) anyOptions(t *lua.LTable) *options {
	items, fields := f.split(t, f.what)
	return &options{form: f, items: items, fields: fields}
}

// common returns the options that every node has, and more.
func common(more ...string) []string { return append([]string{"name", "description"}, more...) }

// table parses the next argument as the options of a node. what describes it in messages.
func (f *form) table(what string, more ...string) *options {
	return f.options(f.needTable(what), common(more...)...)
}

func (f *form) needTable(what string) *lua.LTable {
	v := f.next()
	t, ok := v.(*lua.LTable)
	if !ok {
		f.fail("%s takes %s, not %s", f.what, what, describe(v))
	}
	return t
}

func (f *form) atTable() bool {
	_, ok := f.peek().(*lua.LTable)
	return ok
}

// split splits a table into its list, in which holes are nil, and its named fields.
func (f *form) split(t *lua.LTable, of string) ([]lua.LValue, map[string]lua.LValue) {
	n := t.Len()
	f.runtime.Spend(f.L, n/8+1)
	items := make([]lua.LValue, n)
	for i := range items {
		items[i] = t.RawGetInt(i + 1)
	}
	fields := map[string]lua.LValue{}
	for k, v := boundedlua.FirstField(t, n); k != lua.LNil; k, v = t.Next(k) {
		f.runtime.Spend(f.L, 1)
		switch k := k.(type) {
		case lua.LString:
			fields[string(k)] = v
		case lua.LNumber:
			if boundedlua.IsWhole(k) && k > 0 {
				f.fail("%s has an item %s, and item %d is nil: is a name misspelled?", of,
					boundedlua.NumberString(k), n+1)
			}
			f.fail("%s has an item %s: items count from 1", of, boundedlua.NumberString(k))
		default:
			f.fail("%s has %s as a key", of, describe(k))
		}
	}
	return items, fields
}

func (o *options) take(name string) lua.LValue {
	v, ok := o.fields[name]
	if !ok {
		return lua.LNil
	}
	delete(o.fields, name)
	return v
}

func (o *options) text(name string) string {
	v := o.take(name)
	s, ok := v.(lua.LString)
	if !ok && v != lua.LNil {
		o.fail("%s of %s must be a string, not %s", name, o.what, describe(v))
	}
	return strings.ToValidUTF8(string(s), "\uFFFD")
}

func (o *options) flag(name string) bool {
	v := o.take(name)
	if _, ok := v.(lua.LBool); !ok && v != lua.LNil {
		o.fail("%s of %s must be true or false, not %s", name, o.what, describe(v))
	}
	return v == lua.LTrue
}

// number parses a positive integer. It returns 0 if the option is absent.
func (o *options) number(name string) int {
	v := o.take(name)
	if v == lua.LNil {
		return 0
	}
	return o.whole(v, name)
}

const maxWhole = 1_000_000_000

func (f *form) whole(v lua.LValue, name string) int {
	n, ok := v.(lua.LNumber)
	if !ok || !boundedlua.IsWhole(n) || n < 1 || n > maxWhole {
		f.fail("%s of %s must be a positive integer, not %s", name, f.what, describe(v))
	}
	return int(n)
}

func (f *form) seconds(v lua.LValue, name string) {
	d, err := seconds(v)
	if err != nil {
		f.fail("%s of %s: %v", name, f.what, err)
	}
	f.node.After = d
}

// common parses the options that every node has.
func (o *options) common() {
	if v := o.take("name"); v != lua.LNil {
		name, ok := v.(lua.LString)
		if !ok {
			o.fail("name of %s must be a string, not %s", o.what, describe(v))
		}
		o.setName(string(name))
	}
	if text := o.text("description"); text != "" {
		if o.node.Description != "" {
			o.fail("%s has two descriptions", o.what)
		}
		o.node.Description = text
	}
}

// end fails if an option or item was not used.
func (o *options) end() {
	for _, name := range sortedKeys(o.fields) {
		o.fail("%s cannot have '%s' here", o.what, boundedlua.Shorten(name))
	}
	if len(o.items) > 0 {
		o.fail("%s has %s among its options", o.what, describe(o.items[0]))
	}
}

func (o *options) children() {
	o.node.Children = make([]*tree.Node, 0, len(o.items))
	for i, v := range o.items {
		o.child(v, fmt.Sprintf("child %d", i+1))
	}
	o.items = nil
}

// arguments parses a table of arguments.
func (o *options) arguments(name string) map[string]any {
	return o.argumentsOf(o.fieldsOf(name, "name", "value"))
}

// fieldsOf returns the fields of a table, in which each value has a key. The nouns are for
// messages.
func (o *options) fieldsOf(name, key, value string) map[string]lua.LValue {
	v := o.take(name)
	if v == lua.LNil {
		return nil
	}
	t, ok := v.(*lua.LTable)
	if !ok {
		o.fail("%s of %s must be a table of %ss and %ss, not %s", name, o.what, key, value,
			describe(v))
	}
	items, fields := o.split(t, name)
	if len(items) > 0 {
		o.fail("%s of %s has a %s without a %s: %s", name, o.what, value, key, describe(items[0]))
	}
	return fields
}

func (f *form) argumentsOf(fields map[string]lua.LValue) map[string]any {
	if len(fields) == 0 {
		return nil
	}
	args := map[string]any{}
	for _, name := range sortedKeys(fields) {
		args[name] = f.value(fields[name], name, 1)
	}
	return args
}

// value converts a value for the definition. It may contain references to keys.
func (f *form) value(v lua.LValue, place string, depth int) any {
	if depth > boundedlua.MaxValueNesting {
		f.fail("%s of %s is nested more than %d deep", boundedlua.Shorten(place), f.what,
			boundedlua.MaxValueNesting)
	}
	switch v := v.(type) {
	case *lua.LUserData:
		switch v := v.Value.(type) {
		case tree.Ref:
			return v
		case invalid:
			return nil
		}
	case *lua.LTable:
		items, fields := f.split(v, place)
		switch {
		case len(items) > 0 && len(fields) > 0:
			f.fail("%s of %s is a list and has named fields too", boundedlua.Shorten(place), f.what)
		case len(fields) > 0:
			m := make(map[string]any, len(fields))
			for _, name := range sortedKeys(fields) {
				m[name] = f.value(fields[name], place+"."+boundedlua.Shorten(name), depth+1)
			}
			return m
		}
		list := make([]any, len(items))
		for i, item := range items {
			if item == lua.LNil {
				f.fail("%s of %s has a hole: item %d is nil", boundedlua.Shorten(place), f.what,
					i+1)
			}
			list[i] = f.value(item, fmt.Sprintf("%s[%d]", place, i+1), depth+1)
		}
		return list
	}
	plain, err := f.runtime.FromLua(v)
	if err != nil {
		f.fail("%s of %s is %s, which is not allowed", boundedlua.Shorten(place), f.what,
			describe(v))
	}
	if n, ok := plain.(float64); ok && (math.IsNaN(n) || math.IsInf(n, 0)) {
		f.fail("%s of %s is %s, which is not allowed", boundedlua.Shorten(place), f.what,
			describe(v))
	}
	return plain
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
