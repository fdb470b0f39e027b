package luatree

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	lua "github.com/yuin/gopher-lua"

	"signalbox/internal/tree"
	"signalbox/internal/tree/luatree/boundedlua"
)

// testObject is the t of a test: a run of the tree in virtual time.
type testObject struct {
	*suite
	name  string
	at    tree.Position
	fn    *lua.LFunction
	value *lua.LUserData

	// replace has a rule for each replaced leaf, by kind and name.
	replace  []tree.Replacement
	replaced map[string]bool
	inputs   map[string]any

	run     *tree.Run // nil until it is started
	now     time.Time
	ticks   int
	emitted map[string][]any
	// ticking is the state of the method that ticks the tree. Functions that replace leaves are
	// called in it.
	ticking *lua.LState
	// failed is the first check that failed. The test fails even if it catches the error.
	failed *Error
	done   bool
}

func newTestObject(s *suite, name string, at tree.Position, fn *lua.LFunction) *testObject {
	t := &testObject{suite: s, name: name, at: at, fn: fn, replaced: map[string]bool{},
		inputs: map[string]any{}, emitted: map[string][]any{}}
	t.now = time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)
	t.value = &lua.LUserData{Value: t, Metatable: s.methods}
	return t
}

// result runs the test.
func (t *testObject) result(ctx context.Context) TestResult {
	start := time.Now()
	_, err := t.runtime.Call(ctx, t.fn, t.value)
	t.done = true
	if t.failed != nil {
		err = t.failed
	}
	r := TestResult{Name: t.name, OK: err == nil, File: t.at.File, Line: t.at.Line, Ticks: t.ticks, Duration: time.Since(start)}
	if err != nil {
		r.File, r.Line, r.Msg = err.File, err.Line, err.Msg
	}
	t.run = nil // it may be large
	return r
}

// leafName returns the name with which the pattern of a replacement is matched, and false if the
// node cannot be replaced.
func leafName(info tree.NodeInfo) (string, bool) {
	switch info.Kind {
	case tree.Action, tree.Condition, tree.Script, tree.Tool, tree.LLMCall:
		return info.Kind.String() + ":" + info.Name, true
	}
	return "", false
}

// addReplacements adds a rule for each leaf that matches a pattern and is not replaced yet. Each
// leaf has its own rule, because the meaning of a function's result depends on the kind of the
// leaf.
func (t *testObject) addReplacements(L *lua.LState, pattern string, do func(tree.Kind) tree.Func) {
	if t.run != nil {
		t.runtime.Raise(L, "the run has started: replace leaves before that")
	}
	t.runtime.Spend(L, t.tree.Len())
	var all, hits, fresh []string
	for i := range t.tree.Len() {
		info := t.tree.Info(i)
		name, ok := leafName(info)
		if !ok {
			continue
		}
		hit, err := path.Match(pattern, name)
		if err != nil {
			t.runtime.Raise(L, "the pattern %q: %v", boundedlua.Shorten(pattern), err)
		}
		if all = append(all, name); !hit {
			continue
		}
		if hits = append(hits, name); !t.replaced[name] {
			t.replaced[name] = true
			fresh = append(fresh, name)
			t.replace = append(t.replace, tree.Replacement{Pattern: escape.Replace(name),
				Do: do(info.Kind)})
		}
	}
	if len(hits) == 0 {
		slices.Sort(all)
		t.runtime.Raise(L, "no leaf matches '%s'%s", boundedlua.Shorten(pattern),
			hint(pattern, slices.Compact(all), ""))
	}
	if len(fresh) == 0 {
		t.runtime.Raise(L, "every leaf that matches '%s' is replaced already: the first matching rule applies", boundedlua.Shorten(pattern))
	}
}

// escape converts a name to a pattern that matches only the name.
var escape = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`)

// call calls a function of the test file instead of a leaf, within the call that ticks the tree.
func (t *testObject) call(c *tree.Call, kind tree.Kind, fn *lua.LFunction) tree.Status {
	leaf := t.leaves.object()
	leaf.begin(c, kind)
	defer leaf.end()
	L := t.ticking
	L.Push(t.pcall)
	L.Push(fn)
	L.Push(leaf.value)
	if err := L.PCall(2, 2, nil); err != nil {
		// a limit is exceeded: tick raises it again
		return c.Fail("%s", t.runtime.Describe(err, fn))
	}
	ok, result := L.Get(-2), L.Get(-1)
	L.Pop(2)
	if ok == lua.LTrue {
		return leaf.answer(fn, result)
	}
	return c.Fail("%s", boundedlua.Clean(t.runtime.Text(result)))
}

// start returns the run, and creates it if necessary.
func (t *testObject) start(L *lua.LState) *tree.Run {
	if t.run != nil {
		return t.run
	}
	for i := range t.tree.Len() {
		info := t.tree.Info(i)
		name, _ := leafName(info)
		switch {
		case t.replaced[name]:
		case info.Kind == tree.LLMCall:
			t.runtime.Raise(L, "%s calls a model, which a test cannot do: use t:reply(%q, \"text\")",
				info.Path, name)
		case info.Kind == tree.Tool:
			t.runtime.Raise(L, "%s calls a tool, which a test cannot do: use t:replace(%q, BT.SUCCESS)",
				info.Path, name)
		}
	}
	run, err := tree.NewRun(t.tree, &tree.RunOptions{ID: "test", Inputs: t.inputs,
		Replace: t.replace})
	if err != nil {
		t.runtime.Raise(L, "%v", err)
	}
	t.run = run
	return run
}

func (t *testObject) tick(L *lua.LState) tree.Status {
	run := t.start(L)
	t.ticking = L
	st := run.Tick(t.now)
	t.ticking = nil
	t.ticks++
	for _, e := range run.Emitted() {
		t.emitted[e.Topic] = append(t.emitted[e.Topic], e.Value)
	}
	t.runtime.Check(L)
	for _, job := range run.Pending() {
		t.runtime.Raise(L, "%s is a job, which a test cannot run: replace '%s:%s'",
			job.Request.Path,
			job.Request.Kind,
			t.tree.Info(job.Node).Name)
	}
	return st
}

// maxTicks is the maximum number of ticks of t:run.
const maxTicks = 10_000

// runToEnd ticks the tree until it ends. It advances the time to that of the next tick.
func (t *testObject) runToEnd(L *lua.LState) tree.Status {
	for range maxTicks {
		st := t.tick(L)
		if st != tree.Running {
			return st
		}
		wake, ok := t.run.Wake()
		if !ok {
			t.runtime.Raise(L, "nothing can wake the tree: %s", t.running())
		}
		if wake.After(t.now) {
			t.now = wake
		}
	}
	t.runtime.Raise(L, "the tree did not end within %d ticks: %s", maxTicks, t.running())
	return tree.Idle
}

// running lists the leaves that are running.
func (t *testObject) running() string {
	var paths []string
	for i := range t.tree.Len() {
		if info := t.tree.Info(i); len(info.Children) == 0 && t.run.View(i).Status == tree.Running {
			paths = append(paths, info.Path)
		}
	}
	if len(paths) == 0 {
		return "no leaf is running"
	}
	return fmt.Sprintf("running: %s", strings.Join(paths, ", "))
}

// explain returns an explanation for a failed check: the node that made the tree fail, or, if the
// check is about the status RUNNING, the nodes that are running. It returns "" if there is none.
func (t *testObject) explain(L *lua.LState) string {
	if t.run == nil || t.ticking != nil {
		return ""
	}
	t.runtime.Spend(L, t.tree.Len())
	switch st := t.run.Status(); st {
	case tree.Failure:
		at := 0
		for next := at; next >= 0; {
			at, next = next, -1
			for _, child := range t.tree.Info(at).Children {
				if t.run.View(child).Status == tree.Failure {
					next = child
				}
			}
		}
		text := "the tree failed at " + t.tree.Info(at).Path
		if err := t.run.View(at).Err; err != "" {
			text += ": " + err
		}
		return text
	case tree.Running:
		if answer := lua.LString(st.String()); L.Get(2) == answer || L.Get(3) == answer {
			return t.running()
		}
	}
	return ""
}
