package luatree

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/testkit/must"
	"signalbox/internal/tree"
)

func TestLuaTests(t *testing.T) {
	for _, path := range []string{"testdata/support.lua", "testdata/support_test.lua"} {
		r, err := Test(t.Context(), path, &Options{Functions: testFunctions()})
		must.Succeed(t, err)
		if r.File != "testdata/support_test.lua" || r.Tree != "testdata/support.lua" {
			t.Errorf("%s: the files are %s and %s", path, r.File, r.Tree)
		}
		var got []string
		for _, test := range r.Tests {
			got = append(got, fmt.Sprintf("%d %s %d", test.Line, test.Name, test.Ticks))
			if !test.OK {
				t.Errorf("%s failed: %s:%d: %s", test.Name, test.File, test.Line, test.Msg)
			}
			if test.Duration <= 0 {
				t.Errorf("%s took %v", test.Name, test.Duration)
			}
		}
		want := []string{"3 routes a stuck agent 1", "15 answers after a pause 3",
			"28 looks up again, and keeps count 4",
			"46 fails when nothing can be looked up 3",
			"55 a function may be replaced too, and replies come in order 3",
			"67 says when there is nothing to ask 3",
			"78 hears each turn 3"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if r.Failed() != 0 {
			t.Errorf("%d failed", r.Failed())
		}
	}
}

// beside writes a tree and its tests to files and runs the tests.
func beside(t *testing.T, source, tests string) (*Report, error) {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, content := range map[string]string{"x.lua": source, "x_test.lua": tests} {
		must.Succeed(t, os.WriteFile(name, []byte(content), 0o600))
	}
	functions := testFunctions()
	functions.Add(tree.Action, "job",
		tree.Leaf{Job: func(context.Context, tree.Request) tree.Result { return tree.Result{} }})
	return Test(t.Context(), "x.lua",
		&Options{Functions: functions, Limits: Limits{Time: time.Hour}})
}

const tested = `return BT.tree("t", {blackboard={n="int"}, root=BT.sequence({
  BT.tool("search"), BT.llm_call({}), BT.script("s", function(t) if t:get("n") == 13 then error("thirteen") end end),
  BT.action("again", {fn="do"}), BT.action("again", {fn="do"})})})`

// ready replaces the leaves that a test must replace.
const ready = `t:replace("tool:*", BT.SUCCESS) t:reply("llm_call:*", "x") `

// testBodies maps bodies of tests to the reasons why they fail.
var testBodies = map[string]string{
	``:                "",
	ready + `t:run()`: "",
	`t:equal(1, 1) t:equal("a", "a") t:equal(nil, nil) t:equal({a={1}}, {a={1}}) t:equal(t, t)`: "",
	`t:equal(1, 2)`:                            "got 1, want 2",
	`t:equal(1, "1")`:                          `got 1, want "1"`,
	`t:equal(nil, 1, "the thing")`:             "the thing: got nil, want 1",
	`t:equal({1, {a="x"}}, {1, {a="y"}})`:      `got [1,{"a":"x"}], want [1,{"a":"y"}]`,
	`t:equal(t, 5)`:                            "got t, want 5",
	`t:equal(function() end, nil)`:             "got a function, want nil",
	`t:ok(false)`:                              "got false, want a true value",
	`t:ok(nil, "it")`:                          "it: got nil, want a true value",
	`pcall(function() t:equal(1, 2) end)`:      "got 1, want 2",
	`error("oops")`:                            "oops",
	`local x = nil + 1`:                        "cannot perform",
	`t:run()`:                                  `sequence/search calls a tool, which a test cannot do: use t:replace("tool:search", BT.SUCCESS)`,
	`t:replace("tool:*", BT.SUCCESS) t:tick()`: `sequence/llm_call calls a model, which a test cannot do: use t:reply("llm_call:", "text")`,
	`t:replace("tol:*", BT.SUCCESS)`:           "no leaf matches 'tol:*': known: action:again, llm_call:, script:s, tool:search",
	`t:replace("tool:serch", BT.SUCCESS)`:      "no leaf matches 'tool:serch': did you mean tool:search?",
	`t:replace("tool:[", BT.SUCCESS)`:          `the pattern "tool:[": syntax error in pattern`,
	`t:replace("tool:*", "DONE")`:              `a leaf can be replaced by BT.SUCCESS, BT.FAILURE, BT.RUNNING or a function, not by the string "DONE"`,
	`t:replace("tool:*")`:                      `a leaf can be replaced by BT.SUCCESS, BT.FAILURE, BT.RUNNING or a function, not by nil`,
	`t:replace("tool:*", tostring)`:            "a library function cannot replace a leaf",
	`t:replace(5)`:                             `expected a pattern, such as "tool:*", got the number 5`,
	`t:replace("tool:*", BT.SUCCESS) t:replace("tool:search", BT.FAILURE)`: "every leaf that matches 'tool:search' is replaced already: the first matching rule applies",
	ready + `t:run() t:replace("script:*", BT.SUCCESS)`:                    "the run has started: replace leaves before that",
	`t:reply("llm_call:*")`:              "expected a reply, got nil",
	`t:set("nope", 1)`:                   "undeclared key 'nope': declare it in blackboard",
	`t:set("n", "x")`:                    "mistyped value for key 'n': it takes an int, not a string",
	ready + `t:run() t:set("nope", 1)`:   "undeclared key 'nope': declare it in blackboard",
	ready + `t:get("nope")`:              "undeclared key 'nope': declare it in blackboard",
	ready + `t:visits("nope")`:           "there is no node 'nope'",
	ready + `t:visits("sequence/serch")`: "there is no node 'sequence/serch': did you mean sequence/search?",
	ready + `t:status("action:again")`:   "'action:again' matches 2 nodes: give the path of one, such as sequence/again",
	ready + `t:equal(t:visits("action:again"), 0) t:equal(t:status("sequence/again#2"), "IDLE")`: "",
	`t:advance("x")`:                `t:advance takes seconds: the string "x" is not a number`,
	`t:nope()`:                      "there is no t:nope",
	`t.run()`:                       "this is a method of t: write it with a colon, as t:run(…)",
	`t.run(BT)`:                     "this is a method of a test's t, not of BT",
	`t.x = 1`:                       "t cannot be changed",
	`BT.sequence({})`:               "there is no BT.sequence in a test: known: SUCCESS, FAILURE and RUNNING",
	`BT.SUCCESS = 1`:                "BT cannot be changed",
	`test("inner", function() end)`: "a test cannot contain a test",
	ready + `t:replace("script:*", BT.RUNNING) t:run()`:                                  "nothing can wake the tree: running: sequence/s",
	ready + `t:replace("script:*", function(l) l:wake(1) return BT.RUNNING end) t:run()`: "the tree did not end within 10000 ticks: running: sequence/s",
	`while true do end`: "instruction limit of 5000000 reached",
	ready + `t:replace("script:*", function() while true do end end) t:run()`:                                                                                                                 "instruction limit of 5000000 reached",
	ready + `t:replace("script:*", function() pcall(function() while true do end end) end) pcall(function() t:run() end)`:                                                                     "instruction limit of 5000000 reached",
	ready + `t:replace("script:*", function() t:run() end) t:equal(t:run(), BT.FAILURE) t:ok(t:error("sequence/s"):find("the tree is being ticked", 1, true))`:                                "",
	ready + `t:replace("script:*", function(l) l:get("nope") end) t:equal(t:run(), BT.FAILURE) t:equal(t:error("script:s"), "x_test.lua:2: undeclared key 'nope': declare it in blackboard")`: "",
	ready + `t:replace("script:*", function() return 5 end) t:run() t:ok(t:error("script:s"):find("returned the number 5", 1, true))`:                                                         "",
	ready + `t:replace("script:*", function(l) error({}) end) t:equal(t:run(), BT.FAILURE) t:equal(t:error("script:s"), "table")`:                                                             "",
	ready + `local kept t:replace("script:*", function(l) kept = l end) t:run() kept:now()`:                                                                                                   "t is valid only while its function is called",
	ready + `t:set("n", 13) t:equal(t:run(), BT.FAILURE) t:equal(t:error("script:s"), "x.lua:2: thirteen")`:                                                                                   "",
	ready + `t:replace("action:*", function(l) t:equal(1, 2) end) t:run()`:                                                                                                                    "got 1, want 2",
	`old = t`:                         "",
	`t:set("nn", 1)`:                  "undeclared key 'nn': declare it in blackboard, or did you mean 'n'?",
	ready + `t:tick() t:set("nn", 1)`: "undeclared key 'nn': declare it in blackboard, or did you mean 'n'?",
	ready + `t:get("tool_result")`:    "undeclared key 'tool_result': declare it in blackboard, or did you mean 'tool_results'?",

	// explanations of failed checks
	ready + `t:set("n", 13) t:equal(t:run(), BT.SUCCESS)`:                                                                         `got "FAILURE", want "SUCCESS"; the tree failed at sequence/s: x.lua:2: thirteen`,
	ready + `t:set("n", 13) t:run() t:equal(t:visits("action:again"), 2, "times")`:                                                `times: got 0, want 2; the tree failed at sequence/s: x.lua:2: thirteen`,
	ready + `t:set("n", 13) t:ok(t:run() == BT.SUCCESS)`:                                                                          `got false, want a true value; the tree failed at sequence/s: x.lua:2: thirteen`,
	`t:replace("tool:*", BT.FAILURE) t:reply("llm_call:*", "x") t:equal(t:run(), BT.SUCCESS)`:                                     `got "FAILURE", want "SUCCESS"; the tree failed at sequence/search`,
	ready + `t:replace("script:*", BT.RUNNING) t:equal(t:tick(), BT.SUCCESS)`:                                                     `got "RUNNING", want "SUCCESS"; running: sequence/s`,
	ready + `t:replace("script:*", function(l) t:equal(1, 2) end) t:set("n", 13) t:run() t:ok(true)`:                              "got 1, want 2",
	ready + `t:replace("script:*", function(l) l:fail("no") end) t:equal(t:run(), BT.FAILURE) t:equal(t:error("script:s"), "no")`: "",
}

// Checks without an explanation.
func TestChecksThatDoNotExplain(t *testing.T) {
	for body, want := range map[string]string{
		ready + `t:equal(t:run(), BT.FAILURE)`:                             `got "SUCCESS", want "FAILURE"`,
		ready + `t:equal(1, 2)`:                                            "got 1, want 2",
		ready + `t:replace("script:*", BT.RUNNING) t:tick() t:equal(1, 2)`: "got 1, want 2",
		ready + `local again t:replace("script:*", function(l) if again then t:equal(1, 2) end again = true return false end) t:run() t:run()`: "got 1, want 2",
		ready + `t:replace("script:*", function(l) t:equal(1, 2) end) t:run()`:                                                                 "got 1, want 2",
		ready + `t:replace("action:*", function(l) l:set("_x", 1) end) t:run() t:equal(t:get("_x"), 2)`:                                        "got 1, want 2",
	} {
		r, err := beside(t, tested, "test(\"it\", function(t)\n"+body+"\nend)")
		must.Succeed(t, err)
		if got := r.Tests[0].Msg; got != want {
			t.Errorf("%s\ngot %q, want %q", body, got, want)
		}
	}
}

// The explanation of a failure names the deepest last node that failed.
func TestChecksExplainFailures(t *testing.T) {
	for root, want := range map[string]string{
		`BT.selector({no("a"), BT.sequence({no("b")})})`:                     "selector/sequence/b: b failed",
		`BT.sequence({BT.always_succeed(no("a")), BT.inverter(BT.wait(0))})`: "sequence/inverter",
		`BT.retry(2, no("a"))`:       "retry/a: a failed",
		`BT.timeout(5, BT.wait(10))`: "timeout: timed out after 5s",
		`BT.guard(BT.condition("c", {fn=function() return false end}), BT.wait(10))`: "guard/c",
		`BT.parallel({require="one", no("a"), no("b")})`:                             "parallel/b: b failed",
		`BT.subtree("s")`: "s/inside: inside failed",
		`no("a")`:         "a: a failed",
	} {
		r, err := beside(t, `local function no(name) return BT.script(name, function(t) t:fail(name .. " failed") end) end
BT.subtree("s", {root=no("inside")})
return BT.tree("t", {root=`+root+`})`, "test(\"it\", function(t)\nt:equal(t:run(), BT.SUCCESS)\nend)")
		must.Succeed(t, err)
		if got, want := r.Tests[0].Msg, `got "FAILURE", want "SUCCESS"; the tree failed at `+
			want; got != want {
			t.Errorf("%s\ngot  %s\nwant %s", root, got, want)
		}
	}
}

// t:reply writes the same keys as a model call.
func TestReplyWritesLikeAModel(t *testing.T) {
	const body = "test(\"it\", function(t)\nt:reply(\"llm_call:*\", \"hello\")\nt:equal(t:run(), BT.SUCCESS)\n" +
		"for _, k in ipairs({\"llm_response\", \"accumulated_content\", \"answer\"}) do t:equal(t:get(k), \"hello\", k) end\nend)"
	for settings, want := range map[string]string{
		`response_key="answer"`:                 "",
		`prompt="p", response_key=BT.key("to")`: "",
		``:                                      `answer: got nil, want "hello"`,
		`response_key=BT.key("n")`:              `got "FAILURE", want "SUCCESS"; the tree failed at llm_call: response_key must be the name of a key`,
		`response_key="n"`:                      `got "FAILURE", want "SUCCESS"; the tree failed at llm_call: mistyped value for key 'n': it takes an int, not a string`,
		`response_key=BT.key("wrong")`:          `got "FAILURE", want "SUCCESS"; the tree failed at llm_call: undeclared key 'anser': declare it in blackboard, or did you mean 'answer'?`,
	} {
		r, err := beside(t, `return BT.tree("t", {blackboard={answer="string", n={type="int", default=1}, to={type="string", default="answer"},
  wrong={type="string", default="anser"}}, root=BT.llm_call({`+settings+`})})`, body)
		if err != nil {
			t.Errorf("%s: %v", settings, err)
			continue
		}
		if got := r.Tests[0].Msg; got != want {
			t.Errorf("%s\ngot %q, want %q", settings, got, want)
		}
	}
}

// A function that replaces a condition cannot change anything either.
func TestReplacedConditionsCannotChange(t *testing.T) {
	r, err := beside(t, `return BT.tree("t", {blackboard={n="int"}, root=BT.condition("c", {fn="is"})})`, `test("it", function(t)
t:replace("condition:*", function(l) l:set("n", 1) return true end)
t:equal(t:run(), BT.SUCCESS)
end)`)
	must.Succeed(t, err)
	if got, want := r.Tests[0].Msg, "a condition cannot use t:set"; !strings.Contains(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Each body is a test on line 2, which must fail there with the text, or pass.
func TestLuaTestsThatFail(t *testing.T) {
	for body, want := range testBodies {
		t.Run(body, func(t *testing.T) {
			r, err := beside(t, tested, "test(\"it\", function(t)\n"+body+"\nend)")
			must.Succeed(t, err)
			got := r.Tests[0]
			if got.OK != (want == "") || !strings.HasPrefix(got.Msg, want) || got.OK &&
				got.Msg != "" {
				t.Errorf("got %v: %s\nwant %q", got.OK, got.Msg, want)
			}
			line := 2
			if got.OK {
				line = 1
			}
			if got.File != "x_test.lua" || got.Line != line {
				t.Errorf("its position is %s:%d, want line %d", got.File, got.Line, line)
			}
			if (r.Failed() == 1) == got.OK {
				t.Errorf("%d failed", r.Failed())
			}
		})
	}
}

func TestLuaTestsAreIndependent(t *testing.T) {
	r, err := beside(t, tested, `
local kept
test("keeps t", function(t)
  kept = t
  t:replace("tool:*", BT.FAILURE)
  t:reply("llm_call:*", "x")
  t:set("n", 1)
  t:equal(t:run(), BT.FAILURE)
end)
test("begins afresh", function(t)
  t:replace("tool:*", BT.SUCCESS)
  t:reply("llm_call:*", "y")
  t:equal(t:get("n"), nil)
  t:equal(t:visits("sequence"), 0)
  t:equal(t:run(), BT.SUCCESS)
end)
test("uses the other's t", function(t)
  kept:run()
end)
test("goes on after a limit", function(t) while true do end end)
test("is fine", function(t) t:ok(true) end)`)
	must.Succeed(t, err)
	var got []string
	for _, test := range r.Tests {
		got = append(got, fmt.Sprintf("%s:%d: %v %s", test.File, test.Line, test.OK, test.Msg))
	}
	want := []string{"x_test.lua:3: true ", "x_test.lua:10: true ",
		"x_test.lua:18: false t is valid only while its test runs",
		"x_test.lua:20: false instruction limit of 5000000 reached", "x_test.lua:21: true "}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if r.Failed() != 2 {
		t.Errorf("%d failed, want 2", r.Failed())
	}
}

// Names that contain the special characters of patterns can be replaced.
func TestLuaTestsReplaceOddNames(t *testing.T) {
	r, err := beside(t, `return BT.tree("t", {root=BT.tool("a*[b]?\\c")})`, `test("it", function(t)
t:replace("tool:a*", BT.FAILURE)
t:equal(t:run(), BT.FAILURE)
end)`)
	must.Succeed(t, err)
	if test := r.Tests[0]; !test.OK {
		t.Errorf("line %d: %s", test.Line, test.Msg)
	}
}

func TestLuaTestsCannotRunJobs(t *testing.T) {
	r, err := beside(t, `return BT.tree("t", {root=BT.action("slow", {fn="job"})})`,
		"test(\"it\", function(t)\nt:run()\nend)")
	must.Succeed(t, err)
	if got, want := r.Tests[0].Msg,
		"slow is a job, which a test cannot run: replace 'action:slow'"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Errors that prevent tests from running.
func TestLuaTestsThatCannotRun(t *testing.T) {
	const fine = `test("it", function() end)`
	for _, tt := range []struct{ name, source, tests, want string }{
		{"no tests", tested, "\nlocal x = 1", "x_test.lua:1: there are no tests"},
		{"syntax", tested, "\ntest(", "x_test.lua:2: "},
		{"error", tested, "\nerror('x')", "x_test.lua:2: x"},
		{"no function", tested, "\ntest('x')",
			"x_test.lua:2: test needs a function after the name, not nil"},
		{"no name", tested, "\ntest(function() end)",
			"x_test.lua:2: expected the name of a test, got a function"},
		{"empty name", tested, "\ntest('', function() end)",
			"x_test.lua:2: the name of the test is empty"},
		{"library", tested, "\ntest('x', tostring)",
			"x_test.lua:2: test needs a function after the name"},
		{"twice", tested, "test('x', function() end)\ntest('x', function() end)",
			"x_test.lua:2: test 'x' is declared twice, first at x_test.lua:1"},
		{"tree", "return 5", fine, "x.lua:1: the file returns the number 5"},
		{"faults", "\nreturn BT.tree('t', {root=BT.sequence({})})", fine,
			"x.lua:2: sequence has 0 children"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := beside(t, tt.source, tt.tests); err == nil ||
				!strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
	dir := t.TempDir()
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "x.lua"), []byte(tested), 0o600))
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "y_test.lua"), []byte(fine), 0o600))
	must.Succeed(t, os.Mkdir(filepath.Join(dir, "x_test.lua"), 0o700))
	t.Chdir(dir)
	for path, want := range map[string]string{
		"y_test.lua": "y.lua does not exist, and y_test.lua are its tests: write it, or rename the tests",
		"y.lua":      "y.lua does not exist, and y_test.lua are its tests: write it, or rename the tests",
		"z.lua":      "neither z.lua nor its tests z_test.lua exist: is the name misspelled?",
		"x.lua":      "the tests of x.lua cannot be read: x_test.lua is not a regular file",
	} {
		if _, err := Test(t.Context(), path, nil); err == nil || err.Error() != want ||
			errors.Is(err, os.ErrNotExist) == (path == "x.lua") {
			t.Errorf("%s: got %v, want %s", path, err, want)
		}
	}
	must.Succeed(t, os.Remove("x_test.lua"))
	if _, err := Test(t.Context(), "x.lua", nil); !errors.Is(err, os.ErrNotExist) ||
		err.Error() != "x.lua has no tests: write them to x_test.lua" {
		t.Errorf("without tests: got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	must.Succeed(t, os.WriteFile("x_test.lua", []byte(fine), 0o600))
	if _, err := Test(ctx, "x.lua", &Options{Functions: testFunctions()}); err == nil ||
		!strings.Contains(err.Error(), "context canceled") {
		t.Errorf("cancelled: got %v", err)
	}
}
