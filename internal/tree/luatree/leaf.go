package luatree

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	lua "github.com/yuin/gopher-lua"

	"signalbox/internal/text"
	"signalbox/internal/tree"
	"signalbox/internal/tree/luatree/boundedlua"
)

// leafObject is the t of a leaf's function. It is valid while call is set.
type leafObject struct {
	value *lua.LUserData
	call  *tree.Call
	kind  tree.Kind
	// failed is the message of t:fail in this call, nil if it was not called.
	failed *string
}

// begin makes t valid for a call.
func (l *leafObject) begin(c *tree.Call, kind tree.Kind) { l.call, l.kind, l.failed = c, kind, nil }

func (l *leafObject) end() { l.call = nil }

// leafObjects creates leafObjects that share their methods.
type leafObjects struct {
	runtime   *boundedlua.Runtime
	functions *tree.Registry
	// keys holds the names of all keys of the file, for suggestions in messages.
	keys []string
	meta *lua.LTable
}

func newLeafObjects(runtime *boundedlua.Runtime, functions *tree.Registry,
	keys []string) *leafObjects {
	o := &leafObjects{runtime: runtime, functions: functions, keys: keys}
	all := map[string]lua.LGFunction{}
	for name, do := range map[string]func(*leafObject, *lua.LState) int{
		"get": o.get, "set": o.set, "arg": o.arg, "args": o.args, "now": o.now, "emit": o.emit,
		"wake": o.wake,
		"fail": o.fail, "condition": o.condition, "action": o.action,
	} {
		changes := name == "set" || name == "emit" || name == "action"
		all[name] = func(L *lua.LState) int {
			l := o.receiver(L, name)
			if changes && l.kind == tree.Condition {
				o.runtime.Raise(L, "a condition cannot use t:%s: use a script to change something",
					name)
			}
			return do(l, L)
		}
	}
	o.meta = methods(runtime, all)
	return o
}

func (o *leafObjects) object() *leafObject {
	l := &leafObject{}
	l.value = &lua.LUserData{Value: l, Metatable: o.meta}
	return l
}

// methods returns a metatable with methods only.
func methods(runtime *boundedlua.Runtime, fns map[string]lua.LGFunction) *lua.LTable {
	table := runtime.Root.CreateTable(0, len(fns))
	runtime.Register(table, fns)
	missing := runtime.Root.CreateTable(0, 1)
	missing.RawSetString("__index", runtime.Root.NewFunction(func(L *lua.LState) int {
		name := L.Get(2).String()
		runtime.Raise(L, "there is no t:%s%s", boundedlua.Shorten(name),
			hint(name, sortedKeys(fns), "t:"))
		return 0
	}))
	table.Metatable = missing
	meta := runtime.Root.CreateTable(0, 2)
	meta.RawSetString("__index", table)
	meta.RawSetString("__newindex", runtime.Root.NewFunction(func(L *lua.LState) int {
		runtime.Raise(L, "t cannot be changed")
		return 0
	}))
	return meta
}

// receiver returns the t whose method was called.
func (o *leafObjects) receiver(L *lua.LState, method string) *leafObject {
	ud, _ := L.Get(1).(*lua.LUserData)
	if ud == nil {
		o.runtime.Raise(L, "this is a method of t: write it with a colon, as t:%s(…)", method)
	}
	l, ok := ud.Value.(*leafObject)
	if !ok {
		o.runtime.Raise(L, "this is a method of a leaf's t, not of %s", describe(ud))
	}
	if l.call == nil {
		o.runtime.Raise(L, "t is valid only while its function is called")
	}
	return l
}

func (o *leafObjects) get(l *leafObject, L *lua.LState) int {
	key := wantString(o.runtime, L, 2, "a key")
	v, err := l.call.Get(key)
	if err != nil {
		o.refuse(L, err, key, l.call.Get)
	}
	L.Push(o.runtime.ToLua(v))
	o.runtime.Check(L)
	return 1
}

func (o *leafObjects) set(l *leafObject, L *lua.LState) int {
	key := wantString(o.runtime, L, 2, "a key")
	if err := l.call.Set(key, wantValue(o.runtime, L, 3, "key '"+key+"'")); err != nil {
		o.refuse(L, err, key, l.call.Get)
	}
	o.runtime.Check(L)
	return 0
}

// refuse raises the error of reading or writing a key. It does not return.
func (o *leafObjects) refuse(L *lua.LState, err error, key string, get func(string) (any, error)) {
	o.runtime.Spend(L, len(o.keys))
	o.runtime.Raise(L, "%s", o.reason(err, key, get))
}

// reason returns the message of an error of reading or writing a key. If the key is not declared,
// it suggests one that is.
func (o *leafObjects) reason(err error, key string, get func(string) (any, error)) string {
	if !errors.Is(err, tree.ErrUndeclared) || len(o.keys) > maxHinted {
		return err.Error()
	}
	near := nearest(key, o.keys, func(k string) bool {
		_, err := get(k)
		return err == nil
	})
	if near == "" {
		return err.Error()
	}
	return fmt.Sprintf("%v, or did you mean '%s'?", err, near)
}

func (o *leafObjects) arg(l *leafObject, L *lua.LState) int {
	L.Push(o.runtime.ToLua(l.call.Arg(wantString(o.runtime, L, 2, "the name of an argument"))))
	o.runtime.Check(L)
	return 1
}

func (o *leafObjects) args(l *leafObject, L *lua.LState) int {
	L.Push(o.runtime.ToLua(l.call.Args()))
	o.runtime.Check(L)
	return 1
}

func (o *leafObjects) now(l *leafObject, L *lua.LState) int {
	L.Push(lua.LNumber(float64(l.call.Now().UnixNano()) / 1e9))
	return 1
}

func (o *leafObjects) emit(l *leafObject, L *lua.LState) int {
	topic := wantString(o.runtime, L, 2, "a topic")
	if o.functions.Reserved(topic) {
		o.runtime.Raise(L, "topic '%s' is reserved for signalbox: use another one",
			boundedlua.Shorten(topic))
	}
	if err := l.call.Emit(topic, wantValue(o.runtime, L, 3, "topic '"+topic+"'")); err != nil {
		o.runtime.Raise(L, "%v", err)
	}
	o.runtime.Check(L)
	return 0
}

func (o *leafObjects) wake(l *leafObject, L *lua.LState) int {
	d, err := seconds(L.Get(2))
	if err != nil {
		o.runtime.Raise(L, "t:wake takes seconds: %v", err)
	}
	l.call.WakeAfter(d)
	return 0
}

func (o *leafObjects) fail(l *leafObject, L *lua.LState) int {
	text := "it failed without a reason"
	if L.Get(2) != lua.LNil {
		text = o.runtime.Text(L.Get(2))
	}
	l.failed = &text
	L.Push(lua.LString(l.call.Fail("%s", text).String()))
	return 1
}

func (o *leafObjects) condition(l *leafObject, L *lua.LState) int {
	L.Push(lua.LBool(o.ask(l, L, tree.Condition) == tree.Success))
	return 1
}

func (o *leafObjects) action(l *leafObject, L *lua.LState) int {
	L.Push(lua.LString(o.ask(l, L, tree.Action).String()))
	return 1
}

func (o *leafObjects) ask(l *leafObject, L *lua.LState, kind tree.Kind) tree.Status {
	name := wantString(o.runtime, L, 2, "the name of a function")
	given := wantValue(o.runtime, L, 3, "the arguments")
	args, ok := given.(map[string]any)
	if list, empty := given.([]any); given != nil && !ok && (!empty || len(list) > 0) {
		o.runtime.Raise(L, "the arguments of %s must be a table of names and values, not %s", name,
			describe(L.Get(3)))
	}
	st, err := ask(o.functions, l.call, kind, name, args)
	if err != nil {
		o.runtime.Raise(L, "%v", err)
	}
	o.runtime.Check(L)
	return st
}

// ask calls Registry.Ask and converts a panic to an error, because a panic would stop the
// interpreter.
func ask(r *tree.Registry, c *tree.Call, kind tree.Kind, name string,
	args map[string]any) (st tree.Status, err error) {
	defer func() {
		if p := recover(); p != nil {
			st, err = tree.Failure, fmt.Errorf("%s '%s' panicked: %v", kind, name, p)
		}
	}()
	return r.Invoke(c, kind, name, args)
}

// answer converts the result of a leaf's function to a status.
func (l *leafObject) answer(fn *lua.LFunction, result lua.LValue) tree.Status {
	switch v := result.(type) {
	case *lua.LNilType:
		if l.failed != nil { // t:fail without a return
			return l.call.Fail("%s", *l.failed)
		}
		if l.kind == tree.Condition {
			return tree.Failure
		}
		return tree.Success
	case lua.LBool:
		if v {
			return tree.Success
		}
		return tree.Failure
	case lua.LString:
		if st, ok := tree.ParseStatus(string(v)); ok && st != tree.Idle {
			return st
		}
	}
	if l.kind == tree.Condition {
		return tree.Success
	}
	return l.call.Fail("%s:%d: the function returned %s: return BT.SUCCESS, BT.FAILURE, BT.RUNNING, true, false or nothing",
		fn.Proto.SourceName, fn.Proto.LineDefined, describe(result))
}

func wantString(runtime *boundedlua.Runtime, L *lua.LState, n int, what string) string {
	s, ok := L.Get(n).(lua.LString)
	if !ok {
		runtime.Raise(L, "expected %s, got %s", what, describe(L.Get(n)))
	}
	return string(s)
}

// wantValue converts argument n to a value for the blackboard.
func wantValue(runtime *boundedlua.Runtime, L *lua.LState, n int, what string) any {
	v, err := runtime.FromLua(L.Get(n))
	if err != nil {
		runtime.Raise(L, "the value for %s: %v", what, err)
	}
	runtime.Check(L)
	return v
}

const maxSeconds = 10 * 366 * 24 * 60 * 60

// seconds converts a number of seconds to a duration.
func seconds(v lua.LValue) (time.Duration, error) {
	n, ok := v.(lua.LNumber)
	f := float64(n)
	switch {
	case !ok:
		return 0, errors.New(describe(v) + " is not a number")
	case math.IsNaN(f) || f < 0 || f > maxSeconds:
		return 0, errors.New(boundedlua.NumberString(n) + " is not between 0 and ten years")
	}
	return time.Duration(math.Round(f * float64(time.Second))), nil
}

// describe describes a value in messages.
func describe(v lua.LValue) string {
	switch v := v.(type) {
	case lua.LString:
		return fmt.Sprintf("the string %q", boundedlua.Shorten(string(v)))
	case lua.LNumber:
		return "the number " + boundedlua.NumberString(v)
	case lua.LBool, *lua.LNilType:
		return v.String()
	case *lua.LUserData:
		switch v := v.Value.(type) {
		case *nodeValue:
			return text.WithArticle(v.node.Kind.String()) + " node"
		case *tree.SubtreeDefinition:
			return "subtree '" + v.Name + "'"
		case *tree.Definition:
			return "tree '" + v.Name + "'"
		case definedLeaf:
			return "the definition of " + v.kind.String() + " '" + v.name + "'"
		case tree.Ref:
			return "the key '" + v.Key + "'"
		case *leafObject, *testObject:
			return "t"
		case invalid:
			return "an invalid value"
		case constantsOf:
			return string(v)
		}
	}
	return "a " + v.Type().String()
}

// maxHinted is the number of names among which a similar one is searched. More would take too long.
const maxHinted = 1000

// nearest returns the allowed name that is most similar to name, or "" if none is similar.
func nearest(name string, known []string, allowed func(string) bool) string {
	best, distance := "", max(2, len(name)/3)+1
	for _, k := range known {
		if d := text.EditDistance(strings.ToLower(name), strings.ToLower(k)); d < distance &&
			allowed(k) {
			best, distance = k, d
		}
	}
	return best
}

// hint suggests the most similar known name, or lists all names.
func hint(name string, known []string, prefix string) string {
	if len(known) > maxHinted {
		return ""
	}
	best := nearest(name, known, func(string) bool { return true })
	switch {
	case best != "":
		return ": did you mean " + prefix + best + "?"
	case len(known) == 0 || len(known) > 40:
		return ""
	}
	return ": known: " + strings.Join(known, ", ")
}
