package luatree

import (
	"testing"
	"time"

	"signalbox/internal/testkit/must"
	"signalbox/internal/tree"
	"signalbox/internal/tree/turnsignal"
)

// defineTree is a tree that uses leaves which it defines: before and after their definition, by
// their last element, and with arguments.
const defineTree = `
BT.define_condition("small", function(t) return t:get("n") < t:arg("limit") end)
local tree = BT.tree("own", {blackboard = {n = {type = "int", default = 3}}, root = BT.sequence({
    BT.condition("is-small", {fn = "my.own.small", args = {limit = 4}}),
    BT.inverter(BT.condition("is-smaller", {fn = "small", args = {limit = 2}})),
    BT.action("double", {fn = "double"}),
    BT.action("ours", {fn = "noop"}),
    BT.action("look", {fn = "my.own.look", args = {b = 3}}),
})})
BT.define_action("double", function(t) t:set("n", 2 * t:get("n")) end)
BT.define_action("noop", function(t) t:set("n", t:get("n") + 1) end) -- replaces the built-in one
BT.define_action("look", {tool = "search", args = {a = 1, b = 2}})
return tree`

func TestDefinedLeaves(t *testing.T) {
	functions := &tree.Registry{}
	turnsignal.Register(functions)
	f, err := Load(t.Context(), "own.lua", []byte(defineTree), &Options{Functions: functions})
	must.Succeed(t, err)
	defer f.Close()
	var asked string
	search := tree.Leaf{Do: func(c *tree.Call) tree.Status {
		asked = tree.FormatValue(c.Args())
		return tree.Success
	}}
	services := &tree.Registry{}
	services.Add(tree.Tool, "search", search)
	run, err := tree.NewRun(f.Tree(), &tree.RunOptions{Services: services})
	must.Succeed(t, err)
	if st := run.Tick(time.Unix(0, 0)); st != tree.Success {
		t.Errorf("the tree answered %s: %+v", st, run.Views())
	}
	if n, _ := run.Board().Get("n"); n != int64(7) {
		t.Errorf("n is %v", n)
	}
	if asked != `{"a":1,"b":3}` {
		t.Errorf("the tool was called with %s", asked)
	}
	// The registry is shared by all files, so a file must not change it.
	if _, found := functions.Find(tree.Action, "double"); found {
		t.Error("the definitions of a file are visible to other files")
	}
}

func TestDefinitionFaults(t *testing.T) {
	for source, want := range map[string]string{
		`BT.define_action("a", function(t) end)
BT.define_action("a", function(t) end)`: "own.lua:2: action 'a' is defined twice, first at own.lua:1",
		`BT.define_action(function(t) end)`:              "own.lua:1: define_action needs a name first, not a function",
		`BT.define_action("a")`:                          "own.lua:1: define_action 'a' needs a function, or a table with the name of a tool, not nil",
		`BT.define_action("a", {})`:                      "own.lua:1: define_action 'a' needs a function, or a table with the name of a tool",
		`BT.define_action("a", {tol = "x"})`:             "own.lua:1: define_action has no option 'tol': did you mean tool?",
		`BT.define_action("a", pairs)`:                   "own.lua:1: fn of define_action is a library function: write function(t) … end",
		`BT.define_condition("a", {tool = "x"})`:         "own.lua:1: define_condition needs a function: a condition must answer at once; for a tool, use BT.define_action and check what it returned",
		`BT.define_action("a", function(t) end, "more")`: `own.lua:1: define_action has an unexpected argument: the string "more"`,
		`return BT.tree("own", {root = BT.condition("c", {fn = "a"})}), BT.define_action("a", function(t) end)`: "own.lua:1: 'a' is a function for action, not for condition",
	} {
		_, err := Load(t.Context(), "own.lua", []byte(source+"\n"), nil)
		if err == nil || err.Error() != want {
			t.Errorf("%s\ngot  %v\nwant %s", source, err, want)
		}
	}
}
