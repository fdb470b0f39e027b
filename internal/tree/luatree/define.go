package luatree

import (
	"maps"
	"strings"

	lua "github.com/yuin/gopher-lua"

	"signalbox/internal/tree"
	"signalbox/internal/tree/luatree/boundedlua"
)

// definedLeaf is an action or condition that the file defines by name: a function, or a tool.
type definedLeaf struct {
	kind tree.Kind
	name string
	at   tree.Position
	do   tree.Func
	// tool is the name of the tool, "" for a function, and args are arguments that a node may
	// override.
	tool string
	args map[string]any
}

// defineLeaf parses (name, function) or, for an action, (name, {tool=, args=}).
func (f *form) defineLeaf(kind tree.Kind) any {
	f.needName()
	d := &definedLeaf{kind: kind, name: f.node.Name, at: f.at}
	for _, other := range f.defined {
		if other.kind == kind && other.name == d.name {
			f.fail("%s '%s' is defined twice, first at %s", kind, boundedlua.Shorten(d.name),
				other.at)
		}
	}
	switch v := f.next().(type) {
	case *lua.LFunction:
		f.lua(kind, v)
		d.do = f.node.Do
	case *lua.LTable:
		if kind == tree.Condition {
			f.fail("%s needs a function: a condition must answer at once; for a tool, use BT.define_action and check what it returned", f.what)
		}
		o := f.options(v, "tool", "args")
		if d.tool = o.text("tool"); d.tool == "" {
			f.fail("%s '%s' needs a function, or a table with the name of a tool", f.what,
				boundedlua.Shorten(d.name))
		}
		d.args = o.arguments("args")
		o.end()
	default:
		f.fail("%s '%s' needs a function, or a table with the name of a tool, not %s", f.what,
			boundedlua.Shorten(d.name), describe(v))
	}
	f.noMoreArguments()
	f.defined = append(f.defined, d)
	return *d
}

// define returns the functions with those that the file defines, which replace others of the same
// name. It makes the nodes that call a defined tool tool nodes.
func (d *dsl) define(functions *tree.Registry) *tree.Registry {
	if len(d.defined) == 0 {
		return functions
	}
	functions = functions.Clone()
	tools := map[string]*definedLeaf{}
	for _, leaf := range d.defined {
		if leaf.tool != "" {
			tools[leaf.name] = leaf
		} else {
			functions.Add(leaf.kind, leaf.name, tree.Leaf{Do: leaf.do})
		}
	}
	for _, n := range d.actions {
		leaf := tools[n.Fn]
		if leaf == nil {
			leaf = tools[n.Fn[strings.LastIndexByte(n.Fn, '.')+1:]]
		}
		if leaf == nil {
			continue
		}
		args := maps.Clone(leaf.args)
		if args == nil {
			args = map[string]any{}
		}
		maps.Copy(args, n.Args)
		n.Kind, n.Fn, n.Args = tree.Tool, leaf.tool, args
	}
	return functions
}
