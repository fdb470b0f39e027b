package luatree

import (
	"fmt"
	"slices"

	lua "github.com/yuin/gopher-lua"

	"signalbox/internal/tree"
	"signalbox/internal/tree/blackboard"
	"signalbox/internal/tree/luatree/sandbox"
)

// maxDeclared is how many things a file may declare.
const maxDeclared = 100_000

// dsl is the BT of a file, and what the file declares by it.
type dsl struct {
	box *sandbox.Sandbox
	// bind makes a leaf's function of a Lua function.
	bind func(tree.Kind, *lua.LFunction) tree.Func
	// loaded: the file ran to its end, and nothing more can be declared.
	loaded bool

	calls     int
	trees     []*tree.Definition
	subtrees  []*tree.SubtreeDefinition
	functions []*lua.LFunction
	// keys are the names of all keys, wherever they are declared.
	keys []string
	// faults are what is wrong with calls of BT. The file goes on after one, so that several are told at once.
	faults []tree.Fault
}

// maxFaults is how many faults are told; then the file is stopped, which is the twentieth.
const maxFaults = 19

// fault is how the reading of a call ends that is wrong. broken is what such a call returns: it may stand anywhere.
type (
	fault  struct{ msg string }
	broken struct{}
)

// built is what a call of BT declares.
func (f *form) built(read func(*form) any) (v any) {
	defer func() {
		p := recover()
		wrong, ok := p.(fault)
		if p != nil && !ok {
			panic(p) // the interpreter's own
		}
		if ok {
			f.faults = append(f.faults, tree.Fault{At: f.at, Msg: sandbox.Clean(wrong.msg)})
			v = broken{}
		}
	}()
	return read(f)
}

// refused is all that is wrong with calls of BT, and what stopped the file, if anything did.
func (d *dsl) refused(stopped *Error) error {
	faults := d.faults
	if stopped != nil {
		faults = append(faults, tree.Fault{At: tree.Position{File: stopped.File, Line: stopped.Line}, Msg: stopped.Msg})
	}
	slices.SortStableFunc(faults, func(a, b tree.Fault) int { return a.At.Line - b.At.Line })
	return &tree.CompileError{Faults: faults}
}

// builtinKeys are those that every tree has.
func builtinKeys() []string {
	var names []string
	for _, key := range blackboard.Builtins() {
		names = append(names, key.Name)
	}
	return names
}

// nodeValue is a node as Lua code holds it: in a userdata, so that nothing of it can be changed. A node may stand in
// several places. size and depth are those of all that is below it, written out.
type nodeValue struct {
	node        *tree.Node
	size, depth int
}

func constructors() map[string]func(*form) any {
	all := map[string]func(*form) any{
		"parallel": (*form).parallel, "for_each": (*form).forEach,
		"retry": (*form).retry, "repeat_times": (*form).repeatTimes, "repeat_until": (*form).repeatUntil,
		"repeat": (*form).repeat, "guard": (*form).guard,
		"wait": (*form).wait, "tool": (*form).tool, "llm_call": (*form).llmCall,
		"subtree": (*form).subtree, "subtree_ref": (*form).subtreeRef, "tree": (*form).tree, "key": (*form).key,
	}
	for _, kind := range []tree.Kind{tree.Sequence, tree.Selector, tree.ReactiveSequence, tree.ReactiveSelector} {
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
		fields[name] = d.box.Root.NewFunction(func(L *lua.LState) int {
			if d.loaded {
				d.box.Raise(L, "BT.%s declares: it can be called only while the file is loaded", name)
			}
			if d.calls++; d.calls > maxDeclared {
				d.box.Raise(L, "the file declares more than %d things", maxDeclared)
			}
			if len(d.faults) == maxFaults {
				d.box.Raise(L, "there may be more: the first %d faults are told", maxFaults)
			}
			f := &form{dsl: d, L: L, what: name, at: d.box.Where(L)}
			for i := range L.GetTop() {
				f.args = append(f.args, L.Get(i+1))
			}
			// A variable for options may well be nil; one for a child is missed later on.
			for len(f.args) > 0 && f.args[len(f.args)-1] == lua.LNil {
				f.args = f.args[:len(f.args)-1]
			}
			L.Push(&lua.LUserData{Value: f.built(read), Metatable: lua.LNil})
			return 1
		})
	}
	return constants(d.box, "BT", fields, "")
}

func statuses() map[string]lua.LValue {
	fields := map[string]lua.LValue{}
	for _, st := range []tree.Status{tree.Success, tree.Failure, tree.Running} {
		fields[st.String()] = lua.LString(st.String())
	}
	return fields
}

// constants returns a value whose fields can be read and not changed. Reading one that it has not is an error.
func constants(box *sandbox.Sandbox, name string, fields map[string]lua.LValue, only string) lua.LValue {
	table := box.Root.CreateTable(0, len(fields))
	for key, v := range fields {
		table.RawSetString(key, v)
	}
	missing := box.Root.CreateTable(0, 1)
	missing.RawSetString("__index", box.Root.NewFunction(func(L *lua.LState) int {
		key := box.Text(L.Get(2))
		if only != "" {
			box.Raise(L, "there is no %s.%s %s", name, sandbox.Shorten(key), only)
		}
		box.Raise(L, "there is no %s.%s%s", name, sandbox.Shorten(key), hint(key, sortedKeys(fields), name+"."))
		return 0
	}))
	table.Metatable = missing
	meta := box.Root.CreateTable(0, 2)
	meta.RawSetString("__index", table)
	meta.RawSetString("__newindex", box.Root.NewFunction(func(L *lua.LState) int {
		box.Raise(L, "%s cannot be changed", name)
		return 0
	}))
	return &lua.LUserData{Value: constantsOf(name), Metatable: meta}
}

// constantsOf names such a value in messages.
type constantsOf string

// definition is the tree of a file that returned this value.
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
			def = alone(v)
		}
	case result != lua.LNil:
	case len(d.trees) == 1:
		def = d.trees[0]
	case len(d.trees) > 1:
		return fail(d.trees[1].At, "the file declares %d trees and returns none: return the one that is meant", len(d.trees))
	case len(d.subtrees) == 1:
		def = alone(d.subtrees[0])
	case len(d.subtrees) > 1:
		return fail(d.subtrees[1].At, "the file declares %d subtrees and no tree: return BT.tree(name, {root = …})", len(d.subtrees))
	default:
		return fail(tree.Position{}, "the file declares no tree: return BT.tree(name, {root = …})")
	}
	if def == nil {
		return fail(tree.Position{}, "the file returns %s: return BT.tree(name, {root = …})", describe(result))
	}
	def.Subtrees = d.subtrees
	return def, nil
}

// alone makes a tree of a subtree, whose ports are keys then.
func alone(s *tree.SubtreeDefinition) *tree.Definition {
	return &tree.Definition{Name: s.Name, Description: s.Description, At: s.At, Keys: slices.Concat(s.Keys, s.Ports), Root: s.Root}
}
