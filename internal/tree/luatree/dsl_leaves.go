package luatree

import (
	"strings"

	lua "github.com/yuin/gopher-lua"

	"signalbox/internal/text"
	"signalbox/internal/tree"
	"signalbox/internal/tree/luatree/boundedlua"
)

// function parses ([name,] {fn=, args=, name=, description=}) for an action, condition or script,
// and (name, function) for a script.
func (f *form) function(kind tree.Kind) any {
	f.name()
	if fn, ok := f.peek().(*lua.LFunction); ok && kind == tree.Script {
		f.next()
		f.lua(kind, fn)
		n := f.finish(kind)
		f.requireName()
		return n
	}
	o := f.table("a table with fn", "fn", "args")
	o.common()
	f.requireName()
	switch fn := o.take("fn").(type) {
	case *lua.LFunction:
		f.lua(kind, fn)
	case lua.LString:
		if kind == tree.Script {
			f.fail("fn of script is a function, not %s: use BT.action", describe(fn))
		}
		f.node.Fn = string(fn)
	default:
		f.fail("%s '%s' needs fn, a function or the name of one, not %s", f.what,
			boundedlua.Shorten(f.node.Name), describe(fn))
	}
	f.node.Args = o.arguments("args")
	o.end()
	f.noMoreArguments()
	n := f.finish(kind)
	if kind == tree.Action && n.node.Do == nil {
		f.actions = append(f.actions, n.node)
	}
	return n
}

func (f *form) lua(kind tree.Kind, fn *lua.LFunction) {
	if fn.Proto == nil {
		f.fail("fn of %s is a library function: write function(t) … end", f.what)
	}
	f.functions = append(f.functions, fn)
	f.node.Do = f.bind(kind, fn)
}

// wait parses ([name,] seconds) or ([name,] {seconds=, name=, description=}).
func (f *form) wait() any {
	f.name()
	f.duration()
	return f.finish(tree.Wait)
}

// tool parses ([name,] {tool=, args=, name=, description=}).
func (f *form) tool() any {
	f.name()
	tool := ""
	if f.node.Name == "" || f.peek() != lua.LNil {
		o := f.table("a name, or a table with name, tool and args", "tool", "args")
		o.common()
		tool = o.text("tool")
		f.node.Args = o.arguments("args")
		o.end()
	}
	f.requireName()
	if f.node.Fn = tool; tool == "" {
		f.node.Fn = f.node.Name
	}
	f.noMoreArguments()
	return f.finish(tree.Tool)
}

// llmCall parses ([name,] {prompt=, response_key=, name=, description=, …}). Other options are
// settings for the model, unless they look like a misspelled prompt or response_key.
func (f *form) llmCall() any {
	f.name()
	if f.peek() != lua.LNil {
		o := f.anyOptions(f.needTable("a table of settings"))
		o.common()
		for _, name := range sortedKeys(o.fields) {
			for _, ours := range []string{"prompt", "response_key"} {
				if d := text.EditDistance(strings.ToLower(name), ours); name != ours && d <= 2 {
					f.fail("llm_call has no option '%s': did you mean %s?",
						boundedlua.Shorten(name),
						ours)
				}
			}
		}
		f.node.Args = f.argumentsOf(o.fields)
		o.fields = nil
		o.end()
	}
	f.noMoreArguments()
	return f.finish(tree.LLMCall)
}

// key parses ("key"), an argument that refers to a key.
func (f *form) key() any {
	v := f.next()
	key, ok := v.(lua.LString)
	if !ok {
		f.fail("key needs the name of a key, not %s", describe(v))
	}
	f.noMoreArguments()
	return tree.Ref{Key: string(key)}
}

// subtree declares a subtree if there is a root, and uses one otherwise.
func (f *form) subtree() any {
	if len(f.args) > 1 {
		if t, ok := f.args[1].(*lua.LTable); ok && t.RawGetString("root") != lua.LNil {
			return f.define()
		}
	}
	return f.subtreeRef()
}

func (f *form) define() any {
	f.needName()
	name := f.node.Name
	o := f.options(f.needTable("a table with root"), "description", "blackboard", "ports", "root")
	s := &tree.SubtreeDefinition{Name: name, Description: o.text("description"), At: f.at,
		Keys: o.keys("blackboard", true), Ports: o.keys("ports", false), Root: o.root()}
	o.end()
	f.noMoreArguments()
	f.subtrees = append(f.subtrees, s)
	return s
}

// subtreeRef parses (name, {ports={port="key"}, name=, description=}).
func (f *form) subtreeRef() any {
	v := f.next()
	uses, ok := v.(lua.LString)
	if !ok {
		f.fail("%s needs the name of a subtree, not %s", f.what, describe(v))
	}
	f.node.Uses = string(uses)
	if f.peek() != lua.LNil {
		t := f.needTable("a table with ports, or with root")
		if t.RawGetString("blackboard") != lua.LNil {
			f.fail("subtree '%s' has a blackboard and no root: is a name misspelled?",
				boundedlua.Shorten(string(uses)))
		}
		o := f.options(t, common("ports")...)
		o.common()
		f.node.Ports = o.ports()
		o.end()
	}
	f.noMoreArguments()
	return f.finish(tree.Subtree)
}

func (o *options) ports() map[string]string {
	v := o.take("ports")
	if v == lua.LNil {
		return nil
	}
	t, ok := v.(*lua.LTable)
	if !ok {
		o.fail("ports of %s must be a table of ports and keys, not %s", o.what, describe(v))
	}
	items, fields := o.split(t, "ports")
	if len(items) > 0 {
		o.fail("ports of %s has a key without a port: %s", o.what, describe(items[0]))
	}
	ports := make(map[string]string, len(fields))
	for _, port := range sortedKeys(fields) {
		key, ok := fields[port].(lua.LString)
		if !ok {
			o.fail("port '%s' needs the name of a key, not %s", boundedlua.Shorten(port),
				describe(fields[port]))
		}
		ports[port] = string(key)
	}
	return ports
}

// tree parses (name, {description=, blackboard=, globals=, root=}).
func (f *form) tree() any {
	f.needName()
	name := f.node.Name
	o := f.options(f.needTable("a table with root"), "description", "blackboard", "globals", "root")
	def := &tree.Definition{Name: name, Description: o.text("description"), At: f.at,
		Keys: o.keys("blackboard", true), Globals: o.keys("globals", true), Root: o.root()}
	o.end()
	f.noMoreArguments()
	for _, other := range f.trees {
		if other.Name == name {
			f.fail("tree '%s' is declared twice, first at %s", boundedlua.Shorten(name), other.At)
		}
	}
	f.trees = append(f.trees, def)
	return def
}

func (o *options) root() *tree.Node {
	o.child(o.take("root"), "the root")
	return o.node.Children[0]
}

// keys parses a table of keys and their types. It sorts them by name, because the digest of a tree
// depends on their order.
func (o *options) keys(name string, defaults bool) []tree.Key {
	fields := o.fieldsOf(name, "key", "type")
	var keys []tree.Key
	for _, key := range sortedKeys(fields) {
		keys = append(keys, o.declaration(key, fields[key], defaults))
	}
	return keys
}

// declaration parses a type, or {type=, default=}.
func (f *form) declaration(name string, v lua.LValue, defaults bool) tree.Key {
	f.keys = append(f.keys, name)
	key := tree.Key{Name: name, At: f.at}
	kind := v
	if t, ok := v.(*lua.LTable); ok {
		inner := &form{dsl: f.dsl, L: f.L, what: "key '" + boundedlua.Shorten(name) + "'", at: f.at}
		known := []string{"type", "default"}
		if !defaults {
			known = known[:1]
		}
		o := inner.options(t, known...)
		kind = o.take("type")
		if defaults {
			if given := o.take("default"); given != lua.LNil {
				key.Default = inner.value(given, "default", 1)
			}
		}
		o.end()
	}
	text, _ := kind.(lua.LString)
	var ok bool
	if key.Type, ok = tree.ParseType(string(text)); !ok {
		var names []string
		for _, t := range tree.Types() {
			names = append(names, t.String())
		}
		f.fail("key '%s' has no type %s: the types are %s", boundedlua.Shorten(name),
			strings.TrimPrefix(describe(kind), "the string "), strings.Join(names, ", "))
	}
	return key
}
