package luatree

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	lua "github.com/yuin/gopher-lua"

	"signalbox/internal/tree"
	"signalbox/internal/tree/luatree/boundedlua"
)

// testFunctions returns the seed's functions, and an action and a condition that accept any
// arguments.
func testFunctions() *tree.Registry {
	r := seedFunctions()
	r.Add(tree.Action, "do", tree.Leaf{Do: func(*tree.Call) tree.Status { return tree.Success }})
	r.Add(tree.Condition, "is", tree.Leaf{Do: func(*tree.Call) tree.Status { return tree.Success }})
	return r
}

func loadText(t testing.TB, source string) (*File, error) {
	t.Helper()
	// No time limit: the speed of the machine must not matter.
	return Load(t.Context(), "t.lua", []byte(source),
		&Options{Functions: testFunctions(), Limits: Limits{Time: time.Hour}})
}

func loaded(t testing.TB, source string) *File {
	t.Helper()
	f, err := loadText(t, source)
	if err != nil {
		t.Fatalf("%v\nin:\n%s", err, source)
	}
	t.Cleanup(f.Close)
	return f
}

// declared runs a file and returns the definition of its tree.
func declared(t *testing.T, source string) *tree.Definition {
	t.Helper()
	d := &dsl{runtime: boundedlua.New(Limits{}), bind: func(tree.Kind, *lua.LFunction) tree.Func {
		return func(*tree.Call) tree.Status { return tree.Success }
	}}
	defer d.runtime.Close()
	result, fail := d.runtime.Load(t.Context(), "t.lua", source,
		map[string]lua.LValue{"BT": d.object()})
	if fail != nil {
		t.Fatal(fail)
	}
	def, fail := d.definition("t.lua", result)
	if fail != nil {
		t.Fatal(fail)
	}
	return def
}

var (
	one = []*tree.Node{{Kind: tree.Action, Name: "a", Fn: "do"}}
	two = []*tree.Node{{Kind: tree.Condition, Name: "c", Fn: "is"},
		{Kind: tree.Action, Name: "a", Fn: "do"}}
)

// constructed maps calls of BT, in which a is an action and c a condition, to what they declare.
var constructed = map[string]*tree.Node{
	`BT.sequence({c, a})`: {Kind: tree.Sequence, Children: two},
	`BT.sequence("s", {c, a})`: {Kind: tree.Sequence, Name: "s",
		Children: two},
	`BT.sequence({c, a, name = "s", description="d"})`: {Kind: tree.Sequence, Name: "s",
		Description: "d", Children: two},
	`BT.selector({a})`: {Kind: tree.Selector, Children: one},
	`BT.reactive_sequence({c, a})`: {Kind: tree.ReactiveSequence,
		Children: two},
	`BT.reactive_selector("r", {a})`: {Kind: tree.ReactiveSelector, Name: "r",
		Children: one},

	`BT.parallel({c, a})`: {Kind: tree.Parallel,
		Children: two},
	`BT.parallel({c, a, require = "all"})`: {Kind: tree.Parallel,
		Children: two},
	`BT.parallel("p", {require="one", c, a})`: {Kind: tree.Parallel,
		Name: "p", Require: 1, Children: two},
	`BT.parallel({require=2, max_concurrent=1, c, a})`: {Kind: tree.Parallel,
		Require: 2, MaxConcurrent: 1, Children: two},
	`BT.for_each({items="l", a})`: {Kind: tree.ForEach,
		Items: "l", As: "item", Children: one},
	`BT.for_each({items="l"}, a)`: {Kind: tree.ForEach,
		Items: "l", As: "item", Children: one},
	`BT.for_each("f", {items="l", as="x", index="i", keep_going=true, a})`: {Kind: tree.ForEach,
		Name: "f", Items: "l", As: "x", Index: "i", KeepGoing: true, Children: one},

	`BT.timeout(5, a)`: {Kind: tree.Timeout, After: 5 * time.Second, Children: one},
	`BT.timeout("t", 0.25, a, {description="d"})`: {Kind: tree.Timeout, Name: "t",
		Description: "d", After: 250 * time.Millisecond, Children: one},
	`BT.cooldown(60, a, {name="n"})`: {Kind: tree.Cooldown, Name: "n",
		After: time.Minute, Children: one},
	`BT.retry(3, a)`: {Kind: tree.Retry, Times: 3,
		Children: one},
	`BT.retry("r", {attempts=3, backoff=1.5}, a)`: {Kind: tree.Retry, Name: "r", Times: 3,
		After: 1500 * time.Millisecond, Children: one},
	`BT.repeat_times(4, a)`: {Kind: tree.Repeat, Times: 4,
		Children: one},
	`BT.repeat_times("n", 4, a)`: {Kind: tree.Repeat, Name: "n", Times: 4,
		Children: one},
	`BT.repeat_until("success", a)`: {Kind: tree.Repeat,
		Until: tree.UntilSuccess, Children: one},
	`BT.repeat_until("success", "failure", a)`: {Kind: tree.Repeat, Name: "success",
		Until: tree.UntilFailure, Children: one},
	`BT.repeat_until({what="failure", max=10}, a)`: {Kind: tree.Repeat,
		Until: tree.UntilFailure, Times: 10, Children: one},
	`BT.repeat_until("n", {what="success"}, a)`: {Kind: tree.Repeat, Name: "n",
		Until: tree.UntilSuccess, Children: one},
	`BT.repeat_until("success", a, {name="n"})`: {Kind: tree.Repeat, Name: "n",
		Until: tree.UntilSuccess, Children: one},
	`BT["repeat"]({times=2}, a)`: {Kind: tree.Repeat, Times: 2,
		Children: one},
	`BT["repeat"]("n", {["until"]="success", max=3}, a)`: {Kind: tree.Repeat, Name: "n",
		Until: tree.UntilSuccess, Times: 3, Children: one},
	`BT["repeat"]({what="failure"}, a)`: {Kind: tree.Repeat,
		Until: tree.UntilFailure, Children: one},
	`BT.guard(c, a)`: {Kind: tree.Guard, Children: two},
	`BT.guard("g", c, a, {description="d"})`: {Kind: tree.Guard, Name: "g",
		Description: "d", Children: two},
	`BT.inverter(a)`: {Kind: tree.Inverter, Children: one},
	`BT.inverter("i", a)`: {Kind: tree.Inverter, Name: "i",
		Children: one},
	`BT.inverter(a, nil)`: {Kind: tree.Inverter, Children: one},
	`BT.always_succeed(a, {name="s"})`: {Kind: tree.AlwaysSucceed, Name: "s",
		Children: one},
	`BT.always_fail(a)`: {Kind: tree.AlwaysFail, Children: one},

	`BT.action("x", {fn="a.b.do", args={n=1, f=1.5, s="t", l={1,{2}}, m={k=true}, e={}}, description="d"})`: {Kind: tree.Action, Name: "x", Fn: "a.b.do", Description: "d",
		Args: map[string]any{"n": int64(1), "f": 1.5, "s": "t",
			"l": []any{int64(1), []any{int64(2)}}, "m": map[string]any{"k": true}, "e": []any{}}},
	`BT.action("x", {fn="do", args={q=BT.key("k"), l={BT.key("k"), {z=BT.key("l")}}}})`: {Kind: tree.Action, Name: "x", Fn: "do",
		Args: map[string]any{"q": tree.Ref{Key: "k"},
			"l": []any{tree.Ref{Key: "k"}, map[string]any{"z": tree.Ref{Key: "l"}}}}},
	`BT.action("x", {fn="do", args={}})`: {Kind: tree.Action, Name: "x", Fn: "do"},
	`BT.condition("x", {fn="is"})`:       {Kind: tree.Condition, Name: "x", Fn: "is"},
	`BT.wait(1.5)`: {Kind: tree.Wait,
		After: 1500 * time.Millisecond},
	`BT.wait("w", 0)`: {Kind: tree.Wait,
		Name: "w"},
	`BT.wait(1, {name="w"})`: {Kind: tree.Wait,
		Name: "w", After: time.Second},
	`BT.wait("w", 0, {description="d"})`: {Kind: tree.Wait,
		Name: "w", Description: "d"},
	`BT.wait({seconds=1, name="w", description="d"})`: {Kind: tree.Wait,
		Name: "w", Description: "d", After: time.Second},
	`BT.action({name="x", fn="do", args={n=1}, description="d"})`: {Kind: tree.Action, Name: "x", Description: "d", Fn: "do", Args: map[string]any{"n": int64(1)}},
	`BT.condition({name="x", fn="is"})`:                           {Kind: tree.Condition, Name: "x", Fn: "is"},
	`BT.tool({name="search"})`: {Kind: tree.Tool,
		Name: "search", Fn: "search"},
	`BT.tool({name="s", tool="search", args={q="x"}, description="d"})`: {Kind: tree.Tool,
		Name: "s", Description: "d", Fn: "search", Args: map[string]any{"q": "x"}},
	`BT.timeout({seconds=5, name="t", description="d"}, a)`:    {Kind: tree.Timeout, Name: "t", Description: "d", After: 5 * time.Second, Children: one},
	`BT.timeout("t", {seconds=5}, a, {description="d"})`:       {Kind: tree.Timeout, Name: "t", Description: "d", After: 5 * time.Second, Children: one},
	`BT.cooldown({seconds=60, name="n"}, a)`:                   {Kind: tree.Cooldown, Name: "n", After: time.Minute, Children: one},
	`BT.repeat_times({times=4, name="n", description="d"}, a)`: {Kind: tree.Repeat, Name: "n", Description: "d", Times: 4, Children: one},
	`BT.retry({attempts=3, name="n", description="d"}, a)`: {Kind: tree.Retry,
		Name: "n", Description: "d", Times: 3, Children: one},
	`BT.repeat_until({what="success", name="n", description="d"}, a)`: {Kind: tree.Repeat, Name: "n", Description: "d", Until: tree.UntilSuccess, Children: one},
	`BT.inverter({name="i", description="d"}, a)`:                     {Kind: tree.Inverter, Name: "i", Description: "d", Children: one},
	`BT.always_fail({name="i"}, a)`:                                   {Kind: tree.AlwaysFail, Name: "i", Children: one},
	`BT.guard({name="g"}, c, a, {description="d"})`: {Kind: tree.Guard,
		Name: "g", Description: "d", Children: two},
	`BT.llm_call({name="m", prompt="p", response_key="r", promptness=1, key=2})`: {Kind: tree.LLMCall, Name: "m", Args: map[string]any{"prompt": "p", "response_key": "r", "promptness": int64(1), "key": int64(2)}},
	`BT.tool("search")`: {Kind: tree.Tool,
		Name: "search", Fn: "search"},
	`BT.tool("s", {tool="search", args={q="x"}, description="d"})`: {Kind: tree.Tool,
		Name: "s", Fn: "search", Description: "d", Args: map[string]any{"q": "x"}},
	`BT.llm_call({})`: {Kind: tree.LLMCall},
	`BT.llm_call()`:   {Kind: tree.LLMCall},
	`BT.llm_call("m", {description="d", model="x", temperature=0.5, messages=BT.key("l")})`: {Kind: tree.LLMCall, Name: "m", Description: "d",
		Args: map[string]any{"model": "x", "temperature": 0.5, "messages": tree.Ref{Key: "l"}}},
	`BT.subtree("sub")`:     {Kind: tree.Subtree, Uses: "sub"},
	`BT.subtree_ref("sub")`: {Kind: tree.Subtree, Uses: "sub"},
	`sub`:                   {Kind: tree.Subtree, Uses: "sub"},
	`BT.subtree("sub", {ports={q="k"}, name="alias", description="d"})`: {Kind: tree.Subtree,
		Uses: "sub", Name: "alias", Description: "d", Ports: map[string]string{"q": "k"}},
}

func TestConstructors(t *testing.T) {
	for source, want := range constructed {
		t.Run(source, func(t *testing.T) {
			def := declared(t, `local a, c = BT.action("a", {fn="do"}), BT.condition("c", {fn="is"})
local sub = BT.subtree("sub", {root=a})
return BT.tree("t", {root = BT.always_succeed(
  `+source+`)})`)
			got := def.Root.Children[0]
			if diff := cmp.Diff(want, got,
				cmpopts.IgnoreFields(tree.Node{}, "At", "Do")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if want := (tree.Position{File: "t.lua", Line: 4}); got.At != want && source != "sub" {
				t.Errorf("its position is %v, want %v", got.At, want)
			}
		})
	}
}

func TestLuaFunctionsAsLeaves(t *testing.T) {
	for source, kind := range map[string]tree.Kind{
		`BT.action("x", {fn=function() end, args={a=1}})`: tree.Action,
		`BT.condition("x", {fn=function() end})`:          tree.Condition,
		`BT.script("x", function() end)`:                  tree.Script,
		`BT.script("x", {fn=function() end})`:             tree.Script,
		`BT.script({name="x", fn=function() end})`:        tree.Script,
		`BT.script(function() end, {name="x"})`:           tree.Script,
		`BT.action({name="x", fn=function() end})`:        tree.Action,
	} {
		def := declared(t, `return BT.tree("t", {root = `+source+`})`)
		if def.Root.Kind != kind || def.Root.Do == nil || def.Root.Name != "x" {
			t.Errorf("%s: got %+v", source, def.Root)
		}
	}
}

func TestDeclaredTree(t *testing.T) {
	def := declared(t, `
local a = BT.action("a", {fn="do"})
BT.subtree("s", {
  description = "sd", blackboard = {own = "int"}, ports = {q = "string", any = {type="any"}},
  root = a })

return BT.tree("t", {
  description = "td",
  blackboard = {b="bool", i={type="int", default=3}, f={type="float", default=1}, s={type="string", default="x"},
    l={type="list", default={1}}, m={type="map", default={k=1}}, sig="Signal", a="any"},
  globals = {g="int"},
  root = a })`)
	at := tree.Position{File: "t.lua", Line: 7}
	sub := tree.Position{File: "t.lua", Line: 3}
	want := &tree.Definition{Name: "t", Description: "td", At: at,
		Keys: []tree.Key{{Name: "a", At: at}, {Name: "b", Type: tree.Bool, At: at},
			{Name: "f", Type: tree.Float, Default: int64(1), At: at},
			{Name: "i", Type: tree.Int, Default: int64(3), At: at},
			{Name: "l", Type: tree.List, Default: []any{int64(1)}, At: at},
			{Name: "m", Type: tree.Map, Default: map[string]any{"k": int64(1)}, At: at},
			{Name: "s", Type: tree.String, Default: "x", At: at},
			{Name: "sig", Type: tree.SignalType, At: at}},
		Globals: []tree.Key{{Name: "g", Type: tree.Int, At: at}},
		Subtrees: []*tree.SubtreeDefinition{{Name: "s", Description: "sd", At: sub,
			Keys:  []tree.Key{{Name: "own", Type: tree.Int, At: sub}},
			Ports: []tree.Key{{Name: "any", At: sub}, {Name: "q", Type: tree.String, At: sub}}}},
	}
	if diff := cmp.Diff(want, def, cmpopts.IgnoreFields(tree.Definition{}, "Root"),
		cmpopts.IgnoreFields(tree.SubtreeDefinition{}, "Root")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if def.Root == nil || def.Root != def.Subtrees[0].Root {
		t.Error("a node that is used twice is not the same node")
	}
}

// The tree of a file depends on what the file returns.
func TestWhichTree(t *testing.T) {
	const a = `local a = BT.action("a", {fn="do"})
`
	for source, want := range map[string]string{
		`return BT.tree("x", {root=a})`:                                                                   "x",
		`BT.tree("x", {root=a})`:                                                                          "x",
		`BT.tree("x", {root=a}) return BT.tree("y", {root=a})`:                                            "y",
		`BT.tree("x", {root=BT.subtree("s")}) BT.subtree("s", {root=a})`:                                  "x",
		`BT.subtree("s", {root=a})`:                                                                       "s",
		`BT.subtree("z", {root=a}) return BT.subtree("s", {root=a})`:                                      "s",
		`return BT.subtree("s", {root=BT.action("x", {fn="do", args={q=BT.key("q")}}), ports={q="int"}})`: "s",
		`BT.tree("x", {root=a}) BT.tree("y", {root=a})`:                                                   "t.lua:2: the file declares 2 trees and returns none: return one of them",
		`BT.subtree("x", {root=a}) BT.subtree("y", {root=a})`:                                             "t.lua:2: the file declares 2 subtrees and no tree: return BT.tree(name, {root = …})",
		``:                                     "t.lua:1: the file declares no tree: return BT.tree(name, {root = …})",
		`return a`:                             "t.lua:1: the file returns an action node: return BT.tree(name, {root = …})",
		`return {}`:                            "t.lua:1: the file returns a table: return BT.tree(name, {root = …})",
		`return BT.key("k")`:                   "t.lua:1: the file returns the key 'k': return BT.tree(name, {root = …})",
		`BT.tree("x", {root=a}) return "nope"`: "t.lua:1: the file returns the string \"nope\": return BT.tree(name, {root = …})",
	} {
		f, err := loadText(t, a+source)
		switch {
		case err != nil && err.Error() != want:
			t.Errorf("%s\ngot %v\nwant %s", source, err, want)
		case err == nil && f.Tree().Name() != want:
			t.Errorf("%s\ngot %s\nwant %s", source, f.Tree().Name(), want)
		}
	}
}

// loadErrors maps sources to their errors. Lines 1 and 2 of the file declare c and a; the source is
// line 3.
var loadErrors = map[string]string{
	// names that do not exist
	`return BT.tree("t", {root=BT.action("x", {fn="dos"})})`:   `3: unknown function 'dos'`,
	`return BT.tree("t", {root=BT.action("x", {fn="is"})})`:    `3: 'is' is a function for condition, not for action`,
	`return BT.tree("t", {root=BT.condition("x", {fn="do"})})`: `3: 'do' is a function for action, not for condition`,
	`return BT.tree("t", {root=BT.subtree("nope")})`:           `3: unknown subtree 'nope'`,
	`BT.sequense({a})`:   `3: there is no BT.sequense: did you mean BT.sequence?`,
	`BT.xyzzyplugh({a})`: `3: there is no BT.xyzzyplugh: known: FAILURE, RUNNING`,
	`local x = BT[1]`:    `3: there is no BT.1: known:`,
	`BT.sequence = a`:    `3: BT cannot be changed`,
	`BT.new = a`:         `3: BT cannot be changed`,
	`a.name = "b"`:       `3: attempt to index`,
	`os.exit()`:          `3: os is not available in a tree`,
	`sequence({a})`:      `3: there is no variable 'sequence'`,
	`local x = = 1`:      `3: syntax error`,
	// children
	`BT.sequence()`:    `3: sequence takes a table of children, not nil`,
	`BT.sequence(a)`:   `3: sequence takes a table of children, not an action node`,
	`BT.sequence("x")`: `3: sequence takes a table of children, not nil`,
	`return BT.tree("t", {root=BT.sequence({})})`: `3: sequence has 0 children and needs at least one child`,
	`BT.sequence({a, nope, c})`:                   `3: there is no variable 'nope': is its name misspelled?`,
	`BT.sequence({a, nope})`:                      `3: there is no variable 'nope': is its name misspelled?`,
	`local x = {} BT.sequence({a, x.nope, c})`:    `3: child 2 of sequence is nil: is a name misspelled?`,
	`BT.sequence({a, [5]=c})`:                     `3: child 2 of sequence is nil: is a name misspelled?`,
	`BT.sequence({a, "c"})`:                       `3: child 2 of sequence is the string "c": a name comes first, and a subtree is used with BT.subtree(name)`,
	`BT.sequence({a, {c}})`:                       `3: child 2 of sequence is a table: call a constructor`,
	`BT.sequence({function() end})`:               `3: child 1 of sequence is a function: a function is the fn`,
	`BT.sequence({true})`:                         `3: child 1 of sequence is true, which is not a node`,
	`BT.sequence({BT.tree("t", {root=a})})`:       `3: child 1 of sequence is tree 't': a tree cannot contain a tree`,
	`BT.sequence({BT.key("k")})`:                  `3: child 1 of sequence is the key 'k', which is not a node`,
	`BT.sequence({a}, {c})`:                       `3: sequence has a condition node among its options`,
	`BT.sequence({a}, c)`:                         `3: sequence has an unexpected argument: a condition node`,
	`BT.inverter()`:                               `3: the child of inverter is nil: is a name misspelled?`,
	`BT.inverter(a, c)`:                           `3: inverter has an unexpected argument: a condition node`,
	`BT.inverter({a})`:                            `3: the child of inverter is a table: call`,
	`BT.guard(c)`:                                 `3: the child of guard is nil`,
	`return BT.tree("t", {root=BT.guard(a, a)})`:  `2: the first child of a guard must be a condition`,
	`BT.for_each({items="l"})`:                    `3: the child of for_each is nil`,
	`return BT.tree("t", {root=BT.for_each({items="signals_emitted", a, a})})`: `3: for_each has 2 children and needs one child`,
	`BT.sequence({BT.subtree("s", {root=a, ports={q="int"}})})`:                `3: child 1 of sequence is subtree 's', which has ports: use it as BT.subtree("s", {ports = {…}})`,
	// options
	`BT.sequence({a, nmae="x"})`:                                                    `3: sequence has no option 'nmae': did you mean name?`,
	`BT.parallel({a, requires=1})`:                                                  `3: parallel has no option 'requires': did you mean require?`,
	`BT.parallel({a, require="two"})`:                                               `3: require of parallel is "all", "one" or a number, not the string "two"`,
	`BT.parallel({a, require=0})`:                                                   `3: require of parallel must be a positive integer, not the number 0`,
	`BT.parallel({a, max_concurrent=1.5})`:                                          `3: max_concurrent of parallel must be a positive integer, not the number 1.5`,
	`return BT.tree("t", {root=BT.parallel({a, require=2})})`:                       `3: parallel requires 2 of 1 children`,
	`BT.sequence({a, name=5})`:                                                      `3: name of sequence must be a string, not the number 5`,
	`BT.sequence("", {a})`:                                                          `3: the name of sequence is empty`,
	`BT.sequence("x", {a, name="y"})`:                                               `3: sequence has two names, 'x' and 'y'`,
	`BT.sequence({a, description={}})`:                                              `3: description of sequence must be a string, not a table`,
	`BT.sequence({a, [1.5]=c})`:                                                     `3: sequence has an item 1.5: items count from 1`,
	`BT.sequence({a, [true]=c})`:                                                    `3: sequence has true as a key`,
	`return BT.tree("t", {root=BT.sequence("a/b", {a})})`:                           `3: "a/b" is not a valid name for a node`,
	`BT.for_each({a})`:                                                              `3: for_each needs items, the key of a list`,
	`BT.for_each({items="l", keep_going="yes", a})`:                                 `3: keep_going of for_each must be true or false, not the string "yes"`,
	`return BT.tree("t", {root=BT.for_each({items="l", a})})`:                       `3: for_each uses undeclared key 'l'`,
	`return BT.tree("t", {blackboard={l="int"}, root=BT.for_each({items="l", a})})`: `3: for_each needs a list, and key 'l' is an int`,
	// numbers and times
	`BT.timeout(a)`:                                          `3: seconds of timeout: an action node is not a number`,
	`BT.timeout("5", a)`:                                     `3: seconds of timeout: an action node is not a number`,
	`BT.timeout(-1, a)`:                                      `3: seconds of timeout: -1 is not between 0 and ten years`,
	`BT.timeout(0/0, a)`:                                     `3: seconds of timeout: nan is not between 0 and ten years`,
	`BT.timeout(1e300, a)`:                                   `is not between 0 and ten years`,
	`return BT.tree("t", {root=BT.timeout(0, a)})`:           `3: timeout needs a duration above 0`,
	`BT.wait()`:                                              `3: seconds of wait: nil is not a number`,
	`BT.retry(0, a)`:                                         `3: attempts of retry must be a positive integer, not the number 0`,
	`BT.retry({backoff=1}, a)`:                               `3: attempts of retry must be a positive integer, not nil`,
	`BT.retry({atempts=3}, a)`:                               `3: retry has no option 'atempts': did you mean attempts?`,
	`BT.for_each({item="l", a})`:                             `3: for_each has no option 'item': did you mean items?`,
	`BT.action("x", {fm="do"})`:                              `3: action has no option 'fm': did you mean fn?`,
	`BT.tree("t", {rot=a})`:                                  `3: tree has no option 'rot': did you mean root?`,
	`BT.subtree("s", {root=a, blackbord={}})`:                `3: subtree has no option 'blackbord': did you mean blackboard?`,
	`BT.repeat_until({waht="failure"}, a)`:                   `3: repeat_until has no option 'waht': did you mean what?`,
	`BT["repeat"]({time=3}, a)`:                              `3: repeat has no option 'time': did you mean times?`,
	`BT.retry({attempts=2, backof=1}, a)`:                    `3: retry has no option 'backof': did you mean backoff?`,
	`return BT.tree("t", {root=BT.retry(1e9, a)})`:           `3: retry needs 1 to 1,000,000 attempts`,
	`BT.repeat_times("x", a)`:                                `3: the number of repeat_times must be a positive integer, not an action node`,
	`BT.repeat_until("sucess", a)`:                           `3: what of repeat_until is "success" or "failure", not the string "sucess"`,
	`BT.repeat_until(a)`:                                     `3: what of repeat_until is "success" or "failure", not an action node`,
	`BT["repeat"]({}, a)`:                                    `3: repeat needs times, or what ("success" or "failure")`,
	`BT["repeat"]({times=1, max=2}, a)`:                      `3: repeat has times, so it cannot have what or max`,
	`BT["repeat"]({what="success", ["until"]="success"}, a)`: `3: repeat has both what and until, which mean the same`,
	// leaves
	`BT.action({fn="do"})`:                                       `3: action needs a name: give it first, or as name in its table`,
	`BT.script(function() end)`:                                  `3: script needs a name: give it first, or as name in its table`,
	`BT.action("x", {fn="do", name="y"})`:                        `3: action has two names, 'x' and 'y'`,
	`BT.action("x", {fn="do"}, {name="y"})`:                      `3: action has an unexpected argument: a table`,
	`BT.script("x", function() end, {args={}})`:                  `3: script has no option 'args': known: name, description`,
	`BT.wait(1, 2)`:                                              `3: wait has an unexpected argument: the number 2`,
	`BT.wait({seconds=1}, {seconds=2})`:                          `3: wait has no option 'seconds': known: name, description`,
	`BT.wait({seconds=1, description="d"}, {description="e"})`:   `3: wait has two descriptions`,
	`BT.wait({second=1})`:                                        `3: wait has no option 'second': did you mean seconds?`,
	`BT.wait({1})`:                                               `3: seconds of wait: nil is not a number`,
	`BT.tool("x", {}, "y")`:                                      `3: tool has an unexpected argument: the string "y"`,
	`BT.tool()`:                                                  `3: tool takes a name, or a table with name, tool and args, not nil`,
	`BT.inverter({nmae="x"}, a)`:                                 `3: inverter has no option 'nmae': did you mean name?`,
	`BT.llm_call({promt="x"})`:                                   `3: llm_call has no option 'promt': did you mean prompt?`,
	`BT.llm_call({PROMPT="x"})`:                                  `3: llm_call has no option 'PROMPT': did you mean prompt?`,
	`BT.llm_call({prompt="x", responsekey="y"})`:                 `3: llm_call has no option 'responsekey': did you mean response_key?`,
	`BT.action("x")`:                                             `3: action takes a table with fn, not nil`,
	`BT.action("x", {})`:                                         `3: action 'x' needs fn, a function or the name of one, not nil`,
	`BT.action("x", {fn=5})`:                                     `3: action 'x' needs fn, a function or the name of one, not the number 5`,
	`BT.action("x", {fn="do", arg={}})`:                          `3: action has no option 'arg': did you mean args?`,
	`BT.action("x", {fn="do", args="y"})`:                        `3: args of action must be a table of names and values, not the string "y"`,
	`BT.action("x", {fn="do", args={1}})`:                        `3: args of action has a value without a name: the number 1`,
	`BT.action("x", {fn="do", args={f=function() end}})`:         `3: f of action is a function, which is not allowed`,
	`BT.action("x", {fn="do", args={f={g=a}}})`:                  `3: f.g of action is an action node, which is not allowed`,
	`BT.action("x", {fn="do", args={f=1/0}})`:                    `3: f of action is the number inf, which is not allowed`,
	`BT.action("x", {fn="do", args={f={1, k=2}}})`:               `3: f of action is a list and has named fields too`,
	`local l = {} l.l = l BT.action("x", {fn="do", args={l=l}})`: `of action is nested more than 50 deep`,
	`BT.action("x", {fn=tostring})`:                              `3: fn of action is a library function`,
	`BT.action("x", {fn="do"}, a)`:                               `3: action has an unexpected argument: an action node`,
	`BT.condition("x", function() end)`:                          `3: condition takes a table with fn, not a function`,
	`BT.script("x", {fn="do"})`:                                  `3: fn of script is a function, not the string "do": use BT.action`,
	`BT.tool({})`:                                                `3: tool needs a name: give it first, or as name in its table`,
	`BT.tool({tool="search"})`:                                   `3: tool needs a name: give it first, or as name in its table`,
	`BT.tool("x", {prompt="y"})`:                                 `3: tool has no option 'prompt': known: name, description, tool, args`,
	`BT.llm_call({a})`:                                           `3: llm_call has an action node among its options`,
	`BT.llm_call("x", 5)`:                                        `3: llm_call takes a table of settings, not the number 5`,
	`BT.key(5)`:                                                  `3: key needs the name of a key, not the number 5`,
	`return BT.tree("t", {root=BT.condition("x", {fn="signal_type_is"})})`:                         `3: signal_type_is needs the argument 'expected_type'`,
	`return BT.tree("t", {root=BT.condition("x", {fn="signal_type_is", args={expected_type=5}})})`: `3: argument 'expected_type' of signal_type_is: it takes a string, not an int`,
	`return BT.tree("t", {root=BT.condition("x", {fn="check_signal", args={x=5}})})`:               `3: check_signal has no argument 'x'`,
	`return BT.tree("t", {root=BT.action("x", {fn="do", args={q={BT.key("nope")}}})})`:             `3: an argument of x refers to undeclared key 'nope'`,
	// trees, subtrees and keys
	`BT.tree("t")`:                                                                      `3: tree takes a table with root, not nil`,
	`BT.tree({root=a})`:                                                                 `3: tree needs a name first, not a table`,
	`BT.tree("t", {})`:                                                                  `3: the root of tree is nil: is a name misspelled?`,
	`BT.tree("t", {root=a, blackbord={}})`:                                              `3: tree has no option 'blackbord': did you mean blackboard?`,
	`return BT.tree("", {root=a})`:                                                      `3: the name of tree is empty`,
	`return BT.tree("a\nb", {root=a})`:                                                  `3: "a\nb" is not a valid name for a tree`,
	`BT.tree("t", {root=a}) BT.tree("t", {root=a})`:                                     `3: tree 't' is declared twice, first at t.lua:3`,
	`BT.tree("t", {root=a, blackboard={k="number"}})`:                                   `3: key 'k' has no type "number": the types are any, bool, int, float, string, list, map, Signal`,
	`BT.tree("t", {root=a, blackboard={k=5}})`:                                          `3: key 'k' has no type the number 5: the types are`,
	`BT.tree("t", {root=a, blackboard={k={default=5}}})`:                                `3: key 'k' has no type nil: the types are`,
	`BT.tree("t", {root=a, blackboard={k={type="int", defalt=5}}})`:                     `3: key 'k' has no option 'defalt': did you mean default?`,
	`BT.tree("t", {root=a, blackboard={"int"}})`:                                        `3: blackboard of tree has a type without a key: the string "int"`,
	`BT.tree("t", {root=a, blackboard="int"})`:                                          `3: blackboard of tree must be a table of keys and types, not the string "int"`,
	`return BT.tree("t", {root=a, blackboard={k={type="int", default="x"}}})`:           `3: the default of key 'k' does not fit: it takes an int, not a string`,
	`return BT.tree("t", {root=a, blackboard={["1k"]="int"}})`:                          `3: "1k" is not a valid name for a key`,
	`return BT.tree("t", {root=a, blackboard={k="int"}, globals={k="string"}})`:         `3: key 'k' is declared twice, in blackboard and in globals`,
	`return BT.tree("t", {root=a, blackboard={last_signal="int"}})`:                     `3: key 'last_signal' is declared twice, as a Signal and as an int`,
	`BT.subtree("s", {root=a}) BT.subtree("s", {root=c}) return BT.tree("t", {root=a})`: `3: subtree 's' is defined twice, first at t.lua:3`,
	`BT.subtree("t", {root=c}) return BT.tree("t", {root=a})`:                           `3: 't' is the name of the tree and of a subtree`,
	`BT.subtree("s", {root=BT.subtree("s")}) return BT.tree("t", {root=a})`:             `3: cycle among subtrees: s → s`,
	`BT.subtree("x", {root=BT.subtree("y")}) BT.subtree("y", {root=BT.subtree("x")}) return BT.tree("t", {root=BT.subtree("x")})`: `3: cycle among subtrees: x → y → x`,
	`BT.subtree("s", {root=a, ports={q={type="int", default=1}}})`:                                                                `3: key 'q' has no option 'default': known: type`,
	`BT.subtree("s", {blackboard={}})`: `3: subtree 's' has a blackboard and no root: is a name misspelled?`,
	`BT.subtree("s", {port={}})`:       `3: subtree has no option 'port': did you mean ports?`,
	`BT.subtree("s", {ports={q=5}})`:   `3: port 'q' needs the name of a key, not the number 5`,
	`BT.subtree("s", {ports={"q"}})`:   `3: ports of subtree has a key without a port: the string "q"`,
	`BT.subtree("s", {ports="q"})`:     `3: ports of subtree must be a table of ports and keys, not the string "q"`,
	`BT.subtree()`:                     `3: subtree needs the name of a subtree, not nil`,
	`BT.subtree_ref("s", {root=a})`:    `3: subtree_ref has no option 'root'`,
	`BT.subtree("s", {root=a, ports={q="int"}}) return BT.tree("t", {root=BT.subtree("s")})`:                                         `3: port 'q' of subtree 's' is not connected`,
	`BT.subtree("s", {root=a, ports={q="int"}}) return BT.tree("t", {root=BT.subtree("s", {ports={q="k"}})})`:                        `3: port 'q' refers to undeclared key 'k'`,
	`BT.subtree("s", {root=a, ports={q="int"}}) return BT.tree("t", {blackboard={k="bool"}, root=BT.subtree("s", {ports={q="k"}})})`: `3: port 'q' takes an int, and key 'k' is a bool`,
	`BT.subtree("s", {root=a}) return BT.tree("t", {root=BT.subtree("s", {ports={q="k"}})})`:                                         `3: subtree 's' has no port 'q'`,
	// functions that keep state
	`local n = 0 return BT.tree("t", {root=BT.script("x", function() n = n + 1 end)})`: `3: variable 'n' is assigned by a function that is called later`,
	// too much
	`for i = 1, 100001 do BT.key("k") end`:                     `3: the file calls BT more than 100000 times`,
	`local n = a for i = 1, 40 do n = BT.sequence({n, n}) end`: `3: the tree has more than 250000 nodes: a node counts each time it is used`,
	`local n = a for i = 1, 400 do n = BT.inverter(n) end`:     `3: nodes are nested more than 200 deep`,
	`error("stop here")`:                                       `3: stop here`,
	`while true do end`:                                        `3: instruction limit of 5000000 reached`,
}

// Each source is line 3 of a file, and must fail there with the text.
func TestErrorsNameFileAndLine(t *testing.T) {
	for source, want := range loadErrors {
		t.Run(source, func(t *testing.T) {
			_, err := loadText(t,
				"local c = BT.condition(\"c\", {fn=\"is\"})\nlocal a = BT.action(\"a\", {fn=\"do\"})\n"+source)
			if err == nil {
				t.Fatal("it loads")
			}
			// A text that does not begin with a line number is part of the message for line 3.
			got, begin := err.Error(), "t.lua:3: "
			if want[0] >= '0' && want[0] <= '9' {
				begin = "t.lua:" + want
			}
			if !strings.HasPrefix(got, begin) || !strings.Contains(got, want) {
				t.Errorf("got  %s\nwant %s … %s", got, begin, want)
			}
			var own *Error
			var compile *tree.CompileError
			if !errors.As(err, &own) && !errors.As(err, &compile) {
				t.Errorf("the error is a %T", err)
			}
		})
	}
}

// The position of a declaration of several lines is the line of its constructor.
func TestPositions(t *testing.T) {
	f := loaded(t, `
return BT.tree("t", {
  root = BT.sequence({
    BT.action("a",
      {
        fn = "do",
      }),
    BT.retry(3,
      BT.condition("b", { fn = "is" })
    ),
    BT.script("c", function(t)
      return true
    end),
  }),
})`)
	got := map[string]int{}
	for i := range f.Tree().Len() {
		got[f.Tree().Info(i).Path] = f.Tree().Info(i).At.Line
	}
	want := map[string]int{"sequence": 3, "sequence/a": 4, "sequence/retry": 8, "sequence/retry/b": 9, "sequence/c": 11}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// All faults of a tree are reported together, each with its hint.
func TestFaultsTogether(t *testing.T) {
	_, err := loadText(t, `return BT.tree("t", {root = BT.sequence({
  BT.action("a", {fn="dos"}),
  BT.subtree("nope"),
})})`)
	want := []tree.Fault{
		{At: tree.Position{File: "t.lua", Line: 2}, Msg: "unknown function 'dos'",
			Hint: "did you mean 'do'?"},
		{At: tree.Position{File: "t.lua", Line: 3}, Msg: "unknown subtree 'nope'",
			Hint: "no subtree is defined"},
	}
	if diff := cmp.Diff(want, tree.Faults(err)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The file continues after an invalid call of BT. Using the result of such a call is not another
// fault.
func TestFaultsOfCallsTogether(t *testing.T) {
	fault := func(line int, msg string) tree.Fault {
		return tree.Fault{At: tree.Position{File: "t.lua", Line: line}, Msg: msg}
	}
	many := "too many mistakes: only the first 19 are shown"
	for _, tt := range []struct {
		source string
		want   []tree.Fault
	}{
		{`return BT.tree("t", {root = BT.sequence("", {
  BT.retry({atempts=3}, BT.wait("x")),
  BT.inverter(BT.subtree(5)),
  BT.action("a", {fn="dos", args={k=BT.key(5)}}),
})})`, []tree.Fault{fault(1, "the name of sequence is empty"), fault(2, "seconds of wait: nil is not a number"),
			fault(2, "retry has no option 'atempts': did you mean attempts?"),
			fault(3, "subtree needs the name of a subtree, not the number 5"),
			fault(4, "key needs the name of a key, not the number 5")}},
		{"local a = BT.wait()\nBT.tree('t', {root=a})\nerror('stop')",
			[]tree.Fault{fault(1, "seconds of wait: nil is not a number"), fault(3, "stop")}},
		{"pcall(BT.wait)", []tree.Fault{fault(1, "seconds of wait: nil is not a number")}},
		{"\nreturn BT.tree('t', {root=BT.wait()})",
			[]tree.Fault{fault(2, "seconds of wait: nil is not a number")}},
		{"for i = 1, 100 do BT.wait() end",
			append(slices.Repeat([]tree.Fault{fault(1, "seconds of wait: nil is not a number")},
				19), fault(1, many))},
	} {
		_, err := loadText(t, tt.source)
		if diff := cmp.Diff(tt.want, tree.Faults(err)); diff != "" {
			t.Errorf("%s\n%v (-want +got):\n%s", tt.source, err, diff)
		}
	}
}

func TestValuesAreOpaque(t *testing.T) {
	loaded(t, `
local a = BT.action("a", {fn="do"})
assert(type(a) == "userdata" and tostring(a) == "userdata")
assert(not pcall(function() return a.name end))
assert(not pcall(function() a.name = "x" end))
assert(not pcall(function() BT.SUCCESS = "x" end))
assert(BT.SUCCESS == "SUCCESS" and BT.FAILURE == "FAILURE" and BT.RUNNING == "RUNNING")
return BT.tree("t", {root=a})`)
}

// The limits of size and depth are exactly those of the compiler.
func TestLargestTrees(t *testing.T) {
	deep := func(n int) string {
		return fmt.Sprintf(`local n = BT.wait(0) for i = 1, %d do n = BT.inverter(n) end return BT.tree("t", {root=n})`, n)
	}
	wide := func(more string) string {
		return `local l, m = {}, {} for i = 1, 500 do l[i] = BT.wait(0) end local s = BT.sequence(l)
for i = 1, 499 do m[i] = s end
` + more + ` return BT.tree("t", {root=BT.sequence(m)})`
	}
	for _, tt := range []struct {
		source string
		want   int
		fails  string
	}{
		{deep(tree.MaxDepth), tree.MaxDepth + 1, ""},
		{deep(tree.MaxDepth + 1), 0, "t.lua:1: nodes are nested more than 200 deep"},
		{wide(""), tree.MaxNodes, ""},
		{wide("m[500] = BT.wait(0)"), 0,
			"t.lua:3: the tree has more than 250000 nodes: a node counts each time it is used"},
	} {
		f, err := loadText(t, tt.source)
		switch {
		case tt.fails == "" && err != nil, tt.fails != "" &&
			(err == nil || err.Error() != tt.fails):
			t.Errorf("%s\ngot %v, want %q", tt.source, err, tt.fails)
		case err == nil && f.Tree().Len() != tt.want:
			t.Errorf("%s\nhas %d nodes, want %d", tt.source, f.Tree().Len(), tt.want)
		}
	}
}

// The memory that constructors use counts: a file may pass the same large table to many of them.
func TestDeclaringIsBounded(t *testing.T) {
	for _, source := range []string{
		`local l = {} for i = 1, 5000 do l[i] = i end local n = {} for i = 1, 1000 do n[i] = BT.action("x", {fn="do", args={l=l}}) end`,
		`local a, l = BT.wait(1), {} for i = 1, 5000 do l[i] = a end local n = {} for i = 1, 1000 do n[i] = BT.sequence(l) end`,
		`local a, l = BT.wait(1), {} for i = 1, 5000 do l["k" .. i] = "int" end for i = 1, 1000 do BT.tree("t" .. i, {root=a, blackboard=l}) end`,
		`local l = 1 for i = 1, 45 do l = {l, l} end BT.llm_call({l=l})`,
		`local l = 1 for i = 1, 45 do l = {a=l, b=l} end BT.llm_call({l=l})`,
	} {
		_, err := Load(t.Context(), "t.lua", []byte("\n"+source),
			&Options{Limits: Limits{Memory: 4 << 20, Time: time.Hour}})
		if want := "t.lua:2: memory limit of 4194304 bytes reached"; err == nil ||
			err.Error() != want {
			t.Errorf("%s\ngot %v, want %s", source, err, want)
		}
	}
}
