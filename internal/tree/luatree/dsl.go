package luatree

import (
	"fmt"
	"slices"

	lua "github.com/yuin/gopher-lua"

	"signalbox/internal/tree"
	"signalbox/internal/tree/blackboard"
	"signalbox/internal/tree/luatree/boundedlua"
)

// maxDeclared is the number of calls of BT that a file may make.
const maxDeclared = 100_000

// dsl implements the global BT of a file, and collects what the file declares.
type dsl struct {
	runtime *boundedlua.Runtime
	// bind converts a Lua function to the function of a leaf.
	bind func(tree.Kind, *lua.LFunction) tree.Func
	// loaded reports whether the file has ended, so that nothing more can be declared.
	loaded bool

	calls     int
	trees     []*tree.Definition
	subtrees  []*tree.SubtreeDefinition
	functions []*lua.LFunction
	// defined holds the actions and conditions that the file defines by name.
	defined []*definedLeaf
	// actions holds the nodes that call an action by name.
	actions []*tree.Node
	// keys holds the names of all keys, in any scope.
	keys []string
	// faults holds the mistakes in calls of BT. The file continues after one, so that several can
	// be reported.
	faults []tree.Fault
}

// maxFaults is the number of faults after which the file is stopped, which is reported as one more.
const maxFaults = 19

type (
	// fault is the panic value with which form.fail stops parsing a call.
	fault struct{ msg string }
	// invalid is the result of a call with a fault. It is accepted everywhere, to avoid
	// consequential faults.
	invalid struct{}
)

// parse parses a call of BT and returns what it declares, or invalid if it has a fault.
func (f *form) parse(read func(*form) any) (v any) {
	defer func() {
		p := recover()
		wrong, ok := p.(fault)
		if p != nil && !ok {
			panic(p) // of the interpreter
		}
		if ok {
			f.faults = append(f.faults, tree.Fault{At: f.at, Msg: boundedlua.Clean(wrong.msg)})
			v = invalid{}
		}
	}()
	return read(f)
}

// compileError returns the faults of calls of BT, and the error that stopped the file, if any.
func (d *dsl) compileError(stopped *Error) error {
	faults := d.faults
	if stopped != nil {
		faults = append(faults,
			tree.Fault{At: tree.Position{File: stopped.File, Line: stopped.Line}, Msg: stopped.Msg})
	}
	slices.SortStableFunc(faults, func(a, b tree.Fault) int { return a.At.Line - b.At.Line })
	return &tree.CompileError{Faults: faults}
}

// builtinKeys returns the names of the keys that every tree has.
func builtinKeys() []string {
	var names []string
	for _, key := range blackboard.Builtins() {
		names = append(names, key.Name)
	}
	return names
}

// nodeValue is the value of a node in Lua. It is in a userdata, so that Lua code cannot change it.
// A node may be used in several places. size and depth are those of the expanded subtree below it.
type nodeValue struct {
	node        *tree.Node
	size, depth int
}

func constructors() map[string]func(*form) any {
	all := map[string]func(*form) any{
		"parallel": (*form).parallel, "for_each": (*form).forEach,
		"retry": (*form).retry, "repeat_times": (*form).repeatTimes,
		"repeat_until": (*form).repeatUntil,
		"repeat":       (*form).repeat, "guard": (*form).guard,
		"wait": (*form).wait, "tool": (*form).tool, "llm_call": (*form).llmCall,
		"subtree": (*form).subtree, "subtree_ref": (*form).subtreeRef, "tree": (*form).tree,
		"key":              (*form).key,
		"define_action":    func(f *form) any { return f.defineLeaf(tree.Action) },
		"define_condition": func(f *form) any { return f.defineLeaf(tree.Condition) },
	}
	for _, kind := range []tree.Kind{tree.Sequence, tree.Selector, tree.ReactiveSequence,
		tree.ReactiveSelector} {
		all[kind.String()] = func(f *form) any { return f.composite(kind) }
	}
	for _, kind := range []tree.Kind{tree.Timeout, tree.Cooldown} {
		all[kind.String()] = func(f *form) any { return f.timed(kind) }
	}
	for _, kind := range []tree.Kind{tree.Inverter, tree.AlwaysSucceed, tree.AlwaysFail} {
		all[kind.String()] = func(f *form) any { return f.plain(kind) }
	}
	for _, kind := range []tree.Kind{tree.Action, tree.Condition, tree.Script} {
		all[kind.String()] = func(f *form) any { return f.function(kind) }
	}
	return all
}

// object returns the value of the global BT.
func (d *dsl) object() lua.LValue {
	fields := statuses()
	for name, read := range constructors() {
		fields[name] = d.runtime.Root.NewFunction(func(L *lua.LState) int {
			if d.loaded {
				d.runtime.Raise(L, "BT.%s can be called only while the file is loaded", name)
			}
			if d.calls++; d.calls > maxDeclared {
				d.runtime.Raise(L, "the file calls BT more than %d times", maxDeclared)
			}
			if len(d.faults) == maxFaults {
				d.runtime.Raise(L, "too many mistakes: only the first %d are shown", maxFaults)
			}
			f := &form{dsl: d, L: L, what: name, at: d.runtime.Where(L)}
			for i := range L.GetTop() {
				f.args = append(f.args, L.Get(i+1))
			}
			// Options may be nil. A missing child is reported later.
			for len(f.args) > 0 && f.args[len(f.args)-1] == lua.LNil {
				f.args = f.args[:len(f.args)-1]
			}
			L.Push(&lua.LUserData{Value: f.parse(read), Metatable: lua.LNil})
			return 1
		})
	}
	return constants(d.runtime, "BT", fields, "")
}

func statuses() map[string]lua.LValue {
	fields := map[string]lua.LValue{}
	for _, st := range []tree.Status{tree.Success, tree.Failure, tree.Running} {
		fields[st.String()] = lua.LString(st.String())
	}
	return fields
}

// constants returns a read-only value with fields. Reading a field that does not exist is an error.
func constants(runtime *boundedlua.Runtime, name string, fields map[string]lua.LValue,
	only string) lua.LValue {
	table := runtime.Root.CreateTable(0, len(fields))
	for key, v := range fields {
		table.RawSetString(key, v)
	}
	missing := runtime.Root.CreateTable(0, 1)
	missing.RawSetString("__index", runtime.Root.NewFunction(func(L *lua.LState) int {
		key := runtime.Text(L.Get(2))
		if only != "" {
			runtime.Raise(L, "there is no %s.%s %s", name, boundedlua.Shorten(key), only)
		}
		runtime.Raise(L, "there is no %s.%s%s", name, boundedlua.Shorten(key),
			hint(key, sortedKeys(fields), name+"."))
		return 0
	}))
	table.Metatable = missing
	meta := runtime.Root.CreateTable(0, 2)
	meta.RawSetString("__index", table)
	meta.RawSetString("__newindex", runtime.Root.NewFunction(func(L *lua.LState) int {
		runtime.Raise(L, "%s cannot be changed", name)
		return 0
	}))
	return &lua.LUserData{Value: constantsOf(name), Metatable: meta}
}

// constantsOf is the name of such a value, for messages.
type constantsOf string

// definition returns the tree of a file, given the value that the file returned.
func (d *dsl) definition(file string, result lua.LValue) (*tree.Definition, *Error) {
	fail := func(at tree.Position, format string, args ...any) (*tree.Definition, *Error) {
		return nil, &Error{File: file, Line: max(at.Line, 1), Msg: fmt.Sprintf(format, args...)}
	}
	var def *tree.Definition
	ud, _ := result.(*lua.LUserData)
	switch {
	case ud != nil:
		switch v := ud.Value.(type) {
		case *tree.Definition:
			def = v
		case *tree.SubtreeDefinition:
			def = asTree(v)
		}
	case result != lua.LNil:
	case len(d.trees) == 1:
		def = d.trees[0]
	case len(d.trees) > 1:
		return fail(d.trees[1].At,
			"the file declares %d trees and returns none: return one of them", len(d.trees))
	case len(d.subtrees) == 1:
		def = asTree(d.subtrees[0])
	case len(d.subtrees) > 1:
		return fail(d.subtrees[1].At,
			"the file declares %d subtrees and no tree: return BT.tree(name, {root = …})",
			len(d.subtrees))
	default:
		return fail(tree.Position{}, "the file declares no tree: return BT.tree(name, {root = …})")
	}
	if def == nil {
		return fail(tree.Position{}, "the file returns %s: return BT.tree(name, {root = …})",
			describe(result))
	}
	def.Subtrees = d.subtrees
	return def, nil
}

// asTree converts a subtree to a tree. Its ports become keys.
func asTree(s *tree.SubtreeDefinition) *tree.Definition {
	return &tree.Definition{Name: s.Name, Description: s.Description, At: s.At,
		Keys: slices.Concat(s.Keys, s.Ports), Root: s.Root}
}
