package luatree

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/testkit/must"
	"signalbox/internal/tree"
)

// ticked ticks a tree once and returns the run and the answer of the root.
func ticked(t testing.TB, f *File, inputs map[string]any) (*tree.Run, tree.Status) {
	t.Helper()
	run, err := tree.NewRun(f.Tree(), &tree.RunOptions{Inputs: inputs, Observe: true})
	must.Succeed(t, err)
	return run, run.Tick(time.Unix(1_000_000_000, 500_000_000))
}

func TestLeafResults(t *testing.T) {
	const (
		success, failure, running = tree.Success, tree.Failure, tree.Running
		bad                       = tree.Idle // a failure with an error
	)
	for result, want := range map[string]struct{ action, script, condition tree.Status }{
		``:                               {success, success, failure},
		`return`:                         {success, success, failure},
		`return nil`:                     {success, success, failure},
		`return BT.SUCCESS`:              {success, success, success},
		`return BT.FAILURE`:              {failure, failure, failure},
		`return BT.RUNNING`:              {running, running, bad},
		`return "SUCCESS"`:               {success, success, success},
		`return true`:                    {success, success, success},
		`return false`:                   {failure, failure, failure},
		`return 0`:                       {bad, bad, success},
		`return 5`:                       {bad, bad, success},
		`return ""`:                      {bad, bad, success},
		`return "done"`:                  {bad, bad, success},
		`return "IDLE"`:                  {bad, bad, success},
		`return {}`:                      {bad, bad, success},
		`return t`:                       {bad, bad, success},
		`return BT.SUCCESS, 5`:           {success, success, success},
		`return t:fail("no")`:            {bad, bad, bad},
		`t:fail("no") return true`:       {success, success, success},
		`t:fail("no")`:                   {bad, bad, bad},
		`t:fail("no") return`:            {bad, bad, bad},
		`t:fail("no") return BT.FAILURE`: {bad, bad, bad},
		`t:fail("no") return BT.SUCCESS`: {success, success, success},
		`error("no")`:                    {bad, bad, bad},
	} {
		for kind, want := range map[tree.Kind]tree.Status{tree.Action: want.action,
			tree.Script: want.script, tree.Condition: want.condition} {
			f := loaded(t, "return BT.tree(\"t\", {root=BT."+kind.String()+
				"(\"x\", {fn=function(t)\n"+result+"\nend})})")
			run, got := ticked(t, f, nil)
			failed := run.View(0).Err
			if want == bad && (got != failure || failed == "") || want != bad &&
				(got != want || failed != "") {
				t.Errorf("%s: %s: got %s (%q), want %s", kind, result, got, failed, want)
			}
			if strings.HasPrefix(result, "error") && failed != "t.lua:2: no" {
				t.Errorf("%s: %s: got the error %q", kind, result, failed)
			}
		}
	}
}

// scripts maps bodies of a function to the error with which it fails.
var scripts = map[string]string{
	`assert(t:get("n") == 3 and t:get("absent") == nil)`:                              "",
	`t:set("n", 4) assert(t:get("n") == 4)`:                                           "",
	`t:set("n", nil) assert(t:get("n") == nil)`:                                       "",
	`t:set("_hidden", {a={1,2}}) assert(t:get("_hidden").a[2] == 2)`:                  "",
	`local l = t:get("list") l[1] = "changed" assert(t:get("list")[1] == "x")`:        "",
	`local l = {1} t:set("list", l) l[1] = 2 assert(t:get("list")[1] == 1)`:           "",
	`assert(t:arg("a") == 1 and t:arg("nope") == nil)`:                                "",
	`assert(t:arg("ref") == 3)`:                                                       "",
	`assert(t:arg("deep")[1].k == 3)`:                                                 "",
	`local all = t:args() assert(all.a == 1 and all.ref == 3 and all.deep[1].k == 3)`: "",
	`assert(t:now() == 1000000000.5)`:                                                 "",
	`t:emit("topic", {a=1})`:                                                          "",
	`assert(t:condition("is") == true)`:                                               "",
	`assert(t:condition("signal_type_is", {expected_type="stuck"}) == false)`:         "",
	`t:set("last_signal", {type="stuck"}) assert(t:condition("backend.conditions.signal_type_is", {expected_type="stuck"}))`: "",
	`assert(t:condition("turns_without_signal_gte", {}) == false)`:                                                           "",
	`assert(t:action("do") == BT.SUCCESS)`:                                                                                   "",
	`assert(t:action("run on") == BT.RUNNING)`:                                                                               "",
	`assert(t:action("tell", {a=5}) == BT.FAILURE) return BT.FAILURE`:                                                        "told 5",
	`assert(t:action("tell", {a=5}) == BT.FAILURE) assert(t:arg("a") == 1)`:                                                  "",
	`t:wake(5)`: "",
	`assert(not pcall(function() t:get("nope") end))`: "",

	`t:get("nope")`:                             "t.lua:2: undeclared key 'nope': declare it in blackboard",
	`t:set("nope", 1)`:                          "t.lua:2: undeclared key 'nope': declare it in blackboard",
	`t:set("n", "x")`:                           "t.lua:2: mistyped value for key 'n': it takes an int, not a string",
	`t:emit("kept", 1)`:                         "t.lua:2: topic 'kept' is reserved for signalbox",
	`t:set("list", {1, nil})`:                   "",
	`t:set("list", {1, print_me})`:              "t.lua:2: there is no variable 'print_me'",
	`t:set("list", {function() end})`:           "t.lua:2: the value for key 'list': at [1]: a function cannot be kept on the blackboard",
	`t:set("_x", 0/0)`:                          "t.lua:2: mistyped value for key '_x': it is not a finite number",
	`t:set()`:                                   "t.lua:2: expected a key, got nil",
	`t:get(5)`:                                  "t.lua:2: expected a key, got the number 5",
	`t.get("n")`:                                `t.lua:2: this is a method of t: write it with a colon, as t:get(…)`,
	`t.set("n", 1)`:                             `t.lua:2: this is a method of t: write it with a colon, as t:set(…)`,
	`t.fail("n")`:                               `t.lua:2: this is a method of t: write it with a colon, as t:fail(…)`,
	`t:get("lisst")`:                            "t.lua:2: undeclared key 'lisst': declare it in blackboard, or did you mean 'list'?",
	`t:set("Absent", "x")`:                      "t.lua:2: undeclared key 'Absent': declare it in blackboard, or did you mean 'absent'?",
	`t:get("last_signl")`:                       "t.lua:2: undeclared key 'last_signl': declare it in blackboard, or did you mean 'last_signal'?",
	`t:set("list", 5)`:                          "t.lua:2: mistyped value for key 'list': it takes a list, not an int",
	`t:fail("because") t:action("tell", {a=5})`: "because",
	`t:gett("n")`:                               "t.lua:2: there is no t:gett: did you mean t:get?",
	`t.x = 1`:                                   "t.lua:2: t cannot be changed",
	`t.get(BT, "n")`:                            "t.lua:2: this is a method of a leaf's t, not of BT",
	`t:wake("x")`:                               `t.lua:2: t:wake takes seconds: the string "x" is not a number`,
	`t:wake(-1)`:                                "t.lua:2: t:wake takes seconds: -1 is not between 0 and ten years",
	`return t:fail("because")`:                  "because",
	`return t:fail()`:                           "it failed without a reason",
	`return t:fail(5)`:                          "5",
	`t:condition("nope")`:                       "t.lua:2: there is no condition 'nope' that can be called",
	`t:action("is")`:                            "t.lua:2: there is no action 'is' that can be called",
	`t:action("job")`:                           "t.lua:2: there is no action 'job' that can be called",
	`t:condition("signal_type_is")`:             "t.lua:2: signal_type_is needs the argument 'expected_type'",
	`t:condition("is", 5)`:                      "t.lua:2: the arguments of is must be a table of names and values, not the number 5",
	`t:condition("is", {1})`:                    "t.lua:2: the arguments of is must be a table of names and values, not a table",
	`t:action("panics")`:                        "t.lua:2: action 'panics' panicked: oh",
	`BT.sequence({})`:                           "t.lua:2: BT.sequence can be called only while the file is loaded",
	`x = 1`:                                     "t.lua:2: global 'x' is assigned: a tree's functions keep nothing between calls: write to the blackboard instead",
	`kept[1] = 1`:                               "t.lua:2: a table that exists between calls is changed: a tree's functions keep nothing between calls: write to the blackboard instead",
	`local x = nil + 1`:                         "t.lua:2: ",
	`while true do end`:                         "t.lua:2: instruction limit of 5000000 reached",
	`local function deep() return 1 + deep() end deep()`: "t.lua:2: stack overflow",
}

func TestLeafMethods(t *testing.T) {
	functions := testFunctions()
	functions.Add(tree.Action, "panics",
		tree.Leaf{Do: func(*tree.Call) tree.Status { panic("oh") }})
	functions.Add(tree.Action, "job",
		tree.Leaf{Job: func(context.Context, tree.Request) tree.Result { return tree.Result{} }})
	functions.Add(tree.Action, "run on",
		tree.Leaf{Do: func(c *tree.Call) tree.Status { return tree.Running }})
	functions.Add(tree.Action, "tell",
		tree.Leaf{Do: func(c *tree.Call) tree.Status { return c.Fail("told %v", c.Arg("a")) }})
	functions.Reserve("kept")
	// Each script must pass, or fail with the text.
	for script, want := range scripts {
		t.Run(script, func(t *testing.T) {
			source := `local kept = {} return BT.tree("t", {blackboard={n={type="int", default=3}, list={type="list", default={"x"}}, absent="string"}, root=BT.script("x", {args={a=1, ref=BT.key("n"), deep={{k=BT.key("n")}}}, fn=function(t)
` + script + `
end})})`
			f, err := Load(t.Context(), "t.lua", []byte(source),
				&Options{Functions: functions, Limits: Limits{Time: time.Hour}})
			must.Succeed(t, err)
			run, st := ticked(t, f, nil)
			got := run.View(0).Err
			switch {
			case want == "" && (st != tree.Success || got != ""):
				t.Errorf("it answered %s: %s", st, got)
			case want != "" && (st != tree.Failure || !strings.HasPrefix(got, want)):
				t.Errorf("it answered %s: %s\nwant FAILURE: %s", st, got, want)
			}
			if f.leaf.call != nil {
				t.Error("t outlives its call")
			}
			// The file works afterwards in any case.
			if again, st2 := ticked(t, f, nil); st2 != st || again.View(0).Err != got {
				t.Errorf("the second time it answered %s: %s", st2, again.View(0).Err)
			}
		})
	}
}

// The function of a condition cannot change anything, wherever the condition is used.
func TestConditionsCannotChange(t *testing.T) {
	const only = ": use a script to change something"
	for body, want := range map[string]string{
		`t:set("n", 1) return true`:           "t.lua:2: a condition cannot use t:set" + only,
		`t:set("n", nil) return true`:         "t.lua:2: a condition cannot use t:set" + only,
		`t:emit("n", 1) return true`:          "t.lua:2: a condition cannot use t:emit" + only,
		`t:action("do") return true`:          "t.lua:2: a condition cannot use t:action" + only,
		`pcall(t.set, t, "n", 1) return true`: "",
		`return t:condition("is") and t:get("n") == nil and t:arg("a") == nil and t:now() and t:args()`: "",
	} {
		for _, place := range []string{"%s", `BT.guard(%s, BT.wait(0))`} {
			node := "BT.condition(\"x\", {fn=function(t)\n" + body + "\nend})"
			f := loaded(t, `return BT.tree("t", {blackboard={n="int"}, root=`+
				strings.Replace(place, "%s", node, 1)+`})`)
			run, st := ticked(t, f, nil)
			errs := ""
			for _, v := range run.Views() {
				errs += v.Err
			}
			if n, _ := run.Board().Get("n"); errs != want || (st == tree.Success) != (want == "") ||
				n != nil {
				t.Errorf("%s: answered %s: %q, want %q; n is %v", body, st, errs, want, n)
			}
		}
	}
	// The same function may change something as a script.
	f := loaded(t, `local function f(t) t:set("n", 1) return true end
return BT.tree("t", {blackboard={n="int"}, root=BT.selector({BT.condition("c", {fn=f}), BT.script("s", f)})})`)
	if run, st := ticked(t, f, nil); st != tree.Success {
		t.Errorf("the script answered %s: %s", st, run.View(2).Err)
	}
}

// A key is suggested only where it is visible.
func TestSuggestedKeysAreVisible(t *testing.T) {
	f := loaded(t, `local function ask(key) return BT.always_succeed(BT.script(key, function(t) t:get(key) end)) end
BT.subtree("other", {blackboard={hidden_here="int"}, root=BT.wait(0)})
BT.subtree("sub", {blackboard={inner_one="int"}, ports={portal="int"},
  root=BT.sequence({ask("iner_one"), ask("portl"), ask("golbal_one"), ask("hiden_here"), ask("counts")})})
return BT.tree("t", {blackboard={count="int", list="list"}, globals={global_one="int"},
  root=BT.sequence({BT.subtree("other"), BT.subtree("sub", {ports={portal="count"}}), ask("inr_one"),
    BT.for_each({items="list", as="thing", index="place", BT.sequence({ask("thign"), ask("plce")})})})})`)
	run, st := ticked(t, f, map[string]any{"list": []any{1}})
	if st != tree.Success {
		t.Fatalf("the tree answered %s", st)
	}
	want := map[string]string{"iner_one": "inner_one", "portl": "portal", "golbal_one": "global_one", "hiden_here": "", "counts": "count",
		"inr_one": "", "thign": "thing", "plce": "place"}
	for i := range f.Tree().Len() {
		info := f.Tree().Info(i)
		proposed, ok := want[info.Name]
		if info.Kind != tree.Script || !ok {
			continue
		}
		delete(want, info.Name)
		got, end := run.View(i).Err, ": declare it in blackboard"
		if proposed != "" {
			end += ", or did you mean '" + proposed + "'?"
		}
		if !strings.HasSuffix(got, end) {
			t.Errorf("%s: got %q, want … %q", info.Path, got, end)
		}
	}
	if len(want) > 0 {
		t.Errorf("there is no script for %v", want)
	}
	for _, key := range builtinKeys() {
		if _, err := run.Board().Get(key); err != nil {
			t.Error(err)
		}
	}
}

// A leaf's writes, and the copies that it keeps, are limited.
func TestLeafIsBounded(t *testing.T) {
	const memory = "memory limit of 4194304 bytes reached"
	for script, want := range map[string]string{
		`t:set("_l", l)`:         "mistyped value for key '_l': one tick writes more than 33554432 bytes",
		`t:emit("l", l)`:         memory,
		`kept[i] = t:get("big")`: memory,
		`kept[i] = t:args()`:     memory,
	} {
		source := `return BT.tree("t", {blackboard={big="list"}, root=BT.script("x", {args={l=BT.key("big")}, fn=function(t)
local l, kept = t:get("big"), {}
for i = 1, 1000 do ` + script + ` end end})})`
		f, err := Load(t.Context(), "t.lua", []byte(source),
			&Options{Limits: Limits{Memory: 4 << 20, Time: time.Hour}})
		must.Succeed(t, err)
		big := make([]any, 5000)
		for i := range big {
			big[i] = "x"
		}
		run, _ := ticked(t, f, map[string]any{"big": big})
		if got, want := run.View(0).Err, "t.lua:3: "+want; got != want {
			t.Errorf("%s: got %q, want %q", script, got, want)
		}
	}
}

func TestLeafWakesAndEmits(t *testing.T) {
	f := loaded(t, `return BT.tree("t", {root=BT.script("x", function(t) t:wake(2.5) t:emit("a", {1}) t:emit("b", "x") return BT.RUNNING end)})`)
	run, st := ticked(t, f, nil)
	if wake, ok := run.Wake(); st != tree.Running || !ok ||
		!wake.Equal(time.Unix(1_000_000_003, 0)) {
		t.Errorf("it answered %s and wakes at %v, %v", st, wake, ok)
	}
	want := []tree.Emit{{Seq: 1, Nth: 1, Topic: "a", Value: []any{int64(1)}},
		{Seq: 2, Nth: 1, Topic: "b", Value: "x"}}
	if diff := cmp.Diff(want, run.Emitted()); diff != "" {
		t.Errorf("emitted (-want +got):\n%s", diff)
	}
}

// All kinds of leaves report errors with their lines.
func TestErrorsInEveryLeafKind(t *testing.T) {
	f := loaded(t, `return BT.tree("t", {root = BT.parallel({require=3,
  BT.action("a", {fn=function(t)
    t:get("nope") end}),
  BT.condition("c", {fn=function(t)
    return t:get("nope") end}),
  BT.script("s", function(t)
    local x = t.y.z end),
  BT.action("fine", {fn="do"}), BT.action("fine", {fn="do"}), BT.action("fine", {fn="do"}),
})})`)
	run, st := ticked(t, f, nil)
	if st != tree.Success {
		t.Errorf("the tree answered %s", st)
	}
	want := map[string]string{
		"parallel/a": "t.lua:3: undeclared key 'nope': declare it in blackboard",
		"parallel/c": "t.lua:5: undeclared key 'nope': declare it in blackboard",
		"parallel/s": "t.lua:7: there is no t:y: known: action, arg, args, condition, emit, fail, get, now, set, wake",
	}
	got := map[string]string{}
	for i, v := range run.Views() {
		if v.Err != "" {
			got[f.Tree().Info(i).Path] = v.Err
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
}

func TestClosedFile(t *testing.T) {
	f := loaded(t, `return BT.tree("t", {root=BT.script("x", function() end)})`)
	f.Close()
	f.Close()
	run, st := ticked(t, f, nil)
	if got := run.View(0).Err; st != tree.Failure || got != "t.lua is closed" {
		t.Errorf("it answered %s: %s", st, got)
	}
}

// Any number of runs can share a file. Each has its own blackboard.
func TestRunsShareAFile(t *testing.T) {
	f := loaded(t, `return BT.tree("t", {blackboard={me="int", sum={type="int", default=0}}, root=BT.repeat_times(100, BT.script("x", function(t)
  local before = t:get("sum")
  for i = 1, 50 do t:set("sum", t:get("sum") + t:get("me")) end
  assert(t:get("sum") == before + 50 * t:get("me"))
end))})`)
	var wg sync.WaitGroup
	for me := range 4 {
		wg.Go(func() {
			run, err := tree.NewRun(f.Tree(), &tree.RunOptions{Inputs: map[string]any{"me": me}})
			if err != nil {
				t.Error(err)
				return
			}
			for run.Tick(time.Unix(0, 0)) == tree.Running {
			}
			if sum, _ := run.Board().Get("sum"); run.Status() != tree.Success ||
				sum != int64(5000*me) {
				t.Errorf("run %d answered %s with sum %v", me, run.Status(), sum)
			}
		})
	}
	wg.Wait()
}

// Calling a function of a leaf allocates little, because its t is created once.
func TestLeafAllocations(t *testing.T) {
	f := loaded(t, `return BT.tree("t", {root=BT.script("x", function(t) return BT.SUCCESS end)})`)
	run, err := tree.NewRun(f.Tree(), &tree.RunOptions{})
	must.Succeed(t, err)
	now := time.Unix(0, 0)
	if n := testing.AllocsPerRun(100, func() { run.Tick(now) }); n > 20 {
		t.Errorf("a tick of one function allocates %v times", n)
	}
}

func TestLoadStopsWithContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Load(ctx, "t.lua", []byte("while true do end"), nil)
	var own *Error
	if !errors.As(err, &own) || own.File != "t.lua" ||
		!strings.Contains(own.Msg, "context canceled") {
		t.Errorf("got %v", err)
	}
}

func TestOptionsLimits(t *testing.T) {
	_, err := Load(t.Context(), "t.lua", []byte("\nfor i = 1, 10000 do local x = i end"),
		&Options{Limits: Limits{Instructions: 1000}})
	if err == nil || err.Error() != "t.lua:2: instruction limit of 1000 reached" {
		t.Errorf("got %v", err)
	}
}

// FuzzLoad checks that Load always ends, with a tree that can be run or an error that names the
// file.
func FuzzLoad(f *testing.F) {
	files, err := filepath.Glob("testdata/*.lua")
	if err != nil || len(files) == 0 {
		f.Fatalf("there is no testdata: %v", err)
	}
	for _, name := range files {
		source, err := os.ReadFile(name)
		must.Succeed(f, err)
		f.Add(string(source))
	}
	f.Add(`return BT.tree("t", {root=BT.script("x", function(t) t:set("_a", t:args()) return t:action("do") end)})`)
	f.Add(`local n = BT.wait(1) for i=1,50 do n = BT.sequence({n, n, n}) end return BT.tree("t", {root=n})`)
	f.Add(`return BT.tree("t", {blackboard={l={type="list", default={{{}}}}}, root=BT.for_each({items="l", BT.guard(BT.condition("c", {fn="is"}), BT.llm_call({a=BT.key("l")}))})})`)
	limits := Limits{Instructions: 100_000, Memory: 16 << 20, Time: time.Second}
	functions := testFunctions()
	f.Fuzz(func(t *testing.T, source string) {
		file, err := Load(t.Context(), "t.lua", []byte(source),
			&Options{Functions: functions, Limits: limits})
		if err != nil {
			if !strings.HasPrefix(err.Error(), "t.lua:") {
				t.Fatalf("the error names no file: %v", err)
			}
			return
		}
		defer file.Close()
		run, err := tree.NewRun(file.Tree(), &tree.RunOptions{Replace: []tree.Replacement{
			{Pattern: "tool:*", Do: func(*tree.Call) tree.Status { return tree.Success }},
			{Pattern: "llm_call:*", Do: func(*tree.Call) tree.Status { return tree.Success }}}})
		if err != nil {
			return // a tool whose name has a slash
		}
		for i := range 3 {
			run.Tick(time.Unix(int64(i), 0))
		}
	})
}
