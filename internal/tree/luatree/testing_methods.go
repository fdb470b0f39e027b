package luatree

import (
	"fmt"
	"path"
	"reflect"

	lua "github.com/yuin/gopher-lua"

	"signalbox/internal/text"
	"signalbox/internal/tree"
	"signalbox/internal/tree/blackboard"
	"signalbox/internal/tree/luatree/boundedlua"
	"signalbox/internal/tree/turnsignal"
)

// testMethods returns the methods of a test's t.
func (s *suite) testMethods() map[string]lua.LGFunction {
	all := map[string]lua.LGFunction{}
	for name, do := range map[string]func(*testObject, *lua.LState) int{
		"replace": (*testObject).doReplace, "reply": (*testObject).doReply,
		"set": (*testObject).doSet,
		"run": (*testObject).doRun, "tick": (*testObject).doTick,
		"advance": (*testObject).doAdvance,
		"get":     (*testObject).doGet, "visits": (*testObject).doVisits,
		"status": (*testObject).doStatus,
		"error":  (*testObject).doError, "emitted": (*testObject).doEmitted,
		"equal": (*testObject).doEqual, "ok": (*testObject).doOK,
	} {
		all[name] = func(L *lua.LState) int {
			ud, _ := L.Get(1).(*lua.LUserData)
			if ud == nil {
				s.runtime.Raise(L, "this is a method of t: write it with a colon, as t:%s(…)", name)
			}
			t, ok := ud.Value.(*testObject)
			switch {
			case !ok:
				s.runtime.Raise(L, "this is a method of a test's t, not of %s", describe(ud))
			case t.done:
				s.runtime.Raise(L, "t is valid only while its test runs")
			}
			return do(t, L)
		}
	}
	return all
}

// notTicking raises an error if the tree is being ticked.
func (t *testObject) notTicking(L *lua.LState) {
	if t.ticking != nil {
		t.runtime.Raise(L, "the tree is being ticked: use the t that is passed to the function")
	}
}

func (t *testObject) doReplace(L *lua.LState) int {
	t.notTicking(L)
	pattern := wantString(t.runtime, L, 2, "a pattern, such as \"tool:*\"")
	switch v := L.Get(3).(type) {
	case *lua.LFunction:
		if v.Proto == nil {
			t.runtime.Raise(L, "a library function cannot replace a leaf: write function(t) … end")
		}
		t.addReplacements(L, pattern, func(kind tree.Kind) tree.Func {
			return func(c *tree.Call) tree.Status { return t.call(c, kind, v) }
		})
	default:
		text, _ := v.(lua.LString)
		st, ok := tree.ParseStatus(string(text))
		if !ok || st == tree.Idle {
			t.runtime.Raise(L, "a leaf can be replaced by BT.SUCCESS, BT.FAILURE, BT.RUNNING or a function, not by %s", describe(v))
		}
		t.addReplacements(L, pattern,
			func(tree.Kind) tree.Func { return func(*tree.Call) tree.Status { return st } })
	}
	return 0
}

// doReply replaces model calls by texts, one after the other. The last text is repeated.
func (t *testObject) doReply(L *lua.LState) int {
	t.notTicking(L)
	pattern := wantString(t.runtime, L, 2, "a pattern, such as \"llm_call:*\"")
	var texts []string
	for n := 3; n <= max(3, L.GetTop()); n++ {
		texts = append(texts, wantString(t.runtime, L, n, "a reply"))
	}
	next := 0
	do := func(c *tree.Call) tree.Status {
		text := texts[next]
		next = min(next+1, len(texts)-1)
		return t.reply(c, text)
	}
	t.addReplacements(L, pattern, func(tree.Kind) tree.Func { return do })
	return 0
}

// reply writes a reply as a model call does. It needs no prompt, because a test may replace the
// leaves that write it.
func (t *testObject) reply(c *tree.Call, text string) tree.Status {
	type write struct {
		key   string
		value any
	}
	writes := []write{{blackboard.KeyResponse, text}, {blackboard.KeyContent, text}, {turnsignal.Parsed, false}}
	if given := c.Arg("response_key"); given != nil {
		key, ok := given.(string)
		if !ok {
			return c.Fail("response_key must be the name of a key")
		}
		writes = append(writes, write{key, text})
	}
	for _, w := range writes {
		if err := c.Set(w.key, w.value); err != nil {
			return c.Fail("%s", t.leaves.reason(err, w.key, c.Get))
		}
	}
	return tree.Success
}

func (t *testObject) doSet(L *lua.LState) int {
	t.notTicking(L)
	key := wantString(t.runtime, L, 2, "a key")
	v := wantValue(t.runtime, L, 3, "key '"+key+"'")
	if t.run != nil {
		if err := t.run.Board().Set(key, v); err != nil {
			t.leaves.refuse(L, err, key, t.run.Board().Get)
		}
		return 0
	}
	// Create a run with all leaves replaced, to report a wrong input at this line instead of when
	// the run starts.
	t.runtime.Spend(L, t.tree.Len())
	probe := &tree.RunOptions{Inputs: map[string]any{key: v},
		Replace: []tree.Replacement{{Pattern: "*",
			Do: func(*tree.Call) tree.Status { return tree.Failure }}}}
	if _, err := tree.NewRun(t.tree, probe); err != nil {
		probe.Inputs = nil
		empty, none := tree.NewRun(t.tree, probe)
		if none != nil {
			t.runtime.Raise(L, "%v", err)
		}
		t.leaves.refuse(L, err, key, empty.Board().Get)
	}
	t.inputs[key] = v
	return 0
}

func (t *testObject) doRun(L *lua.LState) int {
	t.notTicking(L)
	L.Push(lua.LString(t.runToEnd(L).String()))
	return 1
}

func (t *testObject) doTick(L *lua.LState) int {
	t.notTicking(L)
	L.Push(lua.LString(t.tick(L).String()))
	return 1
}

func (t *testObject) doAdvance(L *lua.LState) int {
	d, err := seconds(L.Get(2))
	if err != nil {
		t.runtime.Raise(L, "t:advance takes seconds: %v", err)
	}
	t.now = t.now.Add(d)
	return 0
}

func (t *testObject) doGet(L *lua.LState) int {
	board, key := t.start(L).Board(), wantString(t.runtime, L, 2, "a key")
	v, err := board.Get(key)
	if err != nil {
		t.leaves.refuse(L, err, key, board.Get)
	}
	L.Push(t.runtime.ToLua(v))
	t.runtime.Check(L)
	return 1
}

// nodes returns the node with a path, or the nodes whose kind and name match a pattern.
func (t *testObject) nodes(L *lua.LState) []int {
	which := wantString(t.runtime, L, 2, "a node's path, or a pattern such as \"tool:*\"")
	t.runtime.Spend(L, t.tree.Len())
	if i, ok := t.tree.Find(which); ok {
		return []int{i}
	}
	var hits []int
	var paths []string
	for i := range t.tree.Len() {
		info := t.tree.Info(i)
		hit, err := path.Match(which, info.Kind.String()+":"+info.Name)
		if err != nil {
			t.runtime.Raise(L, "the pattern %q: %v", boundedlua.Shorten(which), err)
		}
		if hit {
			hits = append(hits, i)
		}
		paths = append(paths, info.Path)
	}
	if len(hits) == 0 {
		t.runtime.Raise(L, "there is no node '%s'%s", boundedlua.Shorten(which),
			hint(which, paths, ""))
	}
	return hits
}

func (t *testObject) view(L *lua.LState) tree.View {
	nodes := t.nodes(L)
	if len(nodes) > 1 {
		t.runtime.Raise(L, "'%s' matches %d nodes: give the path of one, such as %s",
			boundedlua.Shorten(L.Get(2).String()), len(nodes), t.tree.Info(nodes[0]).Path)
	}
	return t.start(L).View(nodes[0])
}

func (t *testObject) doVisits(L *lua.LState) int {
	n := 0
	for _, i := range t.nodes(L) {
		n += t.start(L).View(i).Visits
	}
	L.Push(lua.LNumber(n))
	return 1
}

func (t *testObject) doStatus(L *lua.LState) int {
	L.Push(lua.LString(t.view(L).Status.String()))
	return 1
}

func (t *testObject) doError(L *lua.LState) int {
	if text := t.view(L).Err; text != "" {
		L.Push(t.runtime.ToLua(text))
	} else {
		L.Push(lua.LNil)
	}
	return 1
}

func (t *testObject) doEmitted(L *lua.LState) int {
	L.Push(t.runtime.ToLua(t.emitted[wantString(t.runtime, L, 2, "a topic")]))
	return 1
}

func (t *testObject) doEqual(L *lua.LState) int {
	got, gotErr := t.runtime.FromLua(L.Get(2))
	want, wantErr := t.runtime.FromLua(L.Get(3))
	t.runtime.Check(L)
	same := L.Get(2) == L.Get(3)
	if gotErr == nil && wantErr == nil {
		same = reflect.DeepEqual(got, want)
	}
	if !same {
		t.failCheck(L, 4, fmt.Sprintf("got %s, want %s", shown(L.Get(2), got, gotErr),
			shown(L.Get(3), want, wantErr)))
	}
	return 0
}

func (t *testObject) doOK(L *lua.LState) int {
	if !lua.LVAsBool(L.Get(2)) {
		t.failCheck(L, 3, "got "+L.Get(2).String()+", want a true value")
	}
	return 0
}

// failCheck stops the test because a check failed. Argument n, if given, describes the check.
func (t *testObject) failCheck(L *lua.LState, n int, msg string) {
	if what := L.Get(n); what != lua.LNil {
		msg = t.runtime.Text(what) + ": " + msg
	}
	if why := t.explain(L); why != "" {
		msg += "; " + why
	}
	if at := t.runtime.Where(L); t.failed == nil {
		t.failed = &Error{File: at.File, Line: at.Line, Msg: boundedlua.Clean(msg)}
	}
	t.runtime.Raise(L, "%s", msg)
}

// shown formats a value for a message.
func shown(v lua.LValue, value any, err error) string {
	if err != nil || value == nil {
		return describe(v)
	}
	return text.Shorten(tree.FormatValue(value), 200)
}
