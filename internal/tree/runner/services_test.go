package runner

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/testkit/must"
	"signalbox/internal/tree"
	"signalbox/internal/tree/turnsignal"
)

// asked is a recorded call of a model or tool.
type asked struct {
	Key      string
	Text     any
	Settings map[string]any
}

func modelRun(t *testing.T, node *tree.Node, inputs args,
	reply func() (string, error)) (*tree.Run, []asked) {
	t.Helper()
	var calls []asked
	services := &tree.Registry{}
	services.Add(tree.LLMCall, "",
		Model(func(_ context.Context, key string, p Prompt) (string, error) {
			calls = append(calls, asked{key, p.Text, p.Settings})
			return reply()
		}))
	node.Kind = tree.LLMCall
	compiled := compile(t,
		&tree.Definition{Name: "test",
			Keys: []tree.Key{{Name: "answer"}, {Name: "number", Type: tree.Int}}, Root: node}, nil)
	run, err := Do(t.Context(), compiled,
		&Options{Journal: journalName(t), Run: tree.RunOptions{ID: "m", Services: services,
			Inputs: inputs}})
	must.Succeed(t, err)
	return run, calls
}

func TestModel(t *testing.T) {
	hello := func() (string, error) { return "hello", nil }
	both := args{"llm_response": "hello", "accumulated_content": "hello"}
	structured := []any{args{"role": "user", "n": int64(1)}}
	for name, c := range map[string]struct {
		args   args
		inputs args
		reply  func() (string, error)
		asked  *asked
		board  args
		err    string
	}{
		"prompt": {args{"prompt": "hi"}, nil, hello, &asked{"m/0/1", "hi", args{}}, both, ""},
		"settings": {args{"prompt": "hi", "system": "be kind", "max": 3}, nil, hello,
			&asked{"m/0/1", "hi", args{"system": "be kind", "max": int64(3)}}, both, ""},
		"request": {nil, args{"llm_request": "from before"}, hello,
			&asked{"m/0/1", "from before", args{}}, both, ""},
		"structured": {nil, args{"llm_request": structured}, hello,
			&asked{"m/0/1", structured, args{}}, both, ""},
		"prompt wins": {args{"prompt": "hi"}, args{"llm_request": "from before"}, hello,
			&asked{"m/0/1", "hi", args{}}, both, ""},
		"a key as prompt": {args{"prompt": tree.Ref{Key: "answer"}}, args{"answer": "42"}, hello,
			&asked{"m/0/1", "42", args{}},
			args{"llm_response": "hello", "accumulated_content": "hello", "answer": "42"}, ""},
		"response key": {args{"prompt": "hi", "response_key": "answer"}, nil, hello,
			&asked{"m/0/1", "hi", args{}},
			args{"llm_response": "hello", "accumulated_content": "hello", "answer": "hello"}, ""},
		"no prompt": {nil, nil, hello, nil, args{}, "there is no prompt"},
		"response key undeclared": {args{"prompt": "hi", "response_key": tree.Ref{Key: "answer"}},
			args{"answer": "gone"}, hello, nil, args{"answer": "gone"}, "'gone'"},
		"response key mistyped": {args{"prompt": "hi", "response_key": "number"}, nil, hello,
			&asked{"m/0/1", "hi", args{}}, both, "'number'"},
		"response key no text": {args{"prompt": "hi", "response_key": 7}, nil, hello, nil,
			args{}, "response_key must be the name of a key"},
		"error": {args{"prompt": "hi"}, nil,
			func() (string, error) { return "half", errors.New("the line is dead") },
			&asked{"m/0/1", "hi", args{}}, args{}, "the line is dead"},
		"panic": {args{"prompt": "hi"}, nil, func() (string, error) { panic("broken") },
			&asked{"m/0/1", "hi", args{}}, args{}, "panic: broken"},
	} {
		t.Run(name, func(t *testing.T) {
			run, calls := modelRun(t, &tree.Node{Args: c.args}, c.inputs, c.reply)
			var want []asked
			if c.asked != nil {
				want = []asked{*c.asked}
			}
			if diff := cmp.Diff(want, calls); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.board, only(run, "llm_response", "accumulated_content", "answer",
				"number")); diff != "" {
				t.Errorf("the board (-want +got):\n%s", diff)
			}
			if got := run.View(0).Err; (got == "") != (c.err == "") ||
				!strings.Contains(got, c.err) {
				t.Errorf("the leaf says %q, want %q", got, c.err)
			}
			if want := c.err == ""; (run.Status() == tree.Success) != want {
				t.Errorf("the run ended as %s", run.Status())
			}
		})
	}
}

// A call starts a turn, so that the next reply is parsed.
func TestModelStartsTurn(t *testing.T) {
	for _, err := range []error{nil, errors.New("the line is dead")} {
		run, _ := modelRun(t, &tree.Node{Args: args{"prompt": "hi"}}, args{turnsignal.Parsed: true},
			func() (string, error) { return "", err })
		if got := run.Board().Snapshot()[turnsignal.Parsed]; got != false {
			t.Errorf("the model answers %v, and the turn is parsed: %v", err, got)
		}
	}
}

// Parsing while the model is working parses the previous reply.
func TestReplyIsParsedOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newWorld()
		ask := &tree.Node{Kind: tree.LLMCall, Args: args{"prompt": "hi"}}
		root := inner(tree.Parallel, ask, sequence(after(tree.Wait, time.Millisecond),
			action("", "parse_response_signal", nil)))
		root = sequence(root, action("", "parse_response_signal", nil))
		compiled := compile(t, &tree.Definition{Name: "test", Root: root}, w.functions())
		run, err := Do(t.Context(), compiled,
			&Options{Run: tree.RunOptions{Services: w.services()}})
		wantDone(t, run, err)
		if signal, _ := run.Board().Snapshot()["last_signal"].(args); signal["type"] != "need_turn" {
			t.Errorf("the signal is %v", signal)
		}
	})
}

// toolRun calls a tool several times.
func toolRun(t *testing.T, times int, use func(n int, a map[string]any) (any, error)) *tree.Run {
	t.Helper()
	services := &tree.Registry{}
	services.Add(tree.Tool, "hammer",
		Tool("hammer", func(_ context.Context, key string, a map[string]any) (any, error) {
			return use(int(attempt(key)), a)
		}))
	root := inner(tree.Repeat,
		inner(tree.AlwaysSucceed, &tree.Node{Kind: tree.Tool, Fn: "hammer",
			Args: args{"nail": tree.Ref{Key: "nail"}}}))
	root.Times = times
	compiled := compile(t, &tree.Definition{Name: "test", Keys: keys("nail"), Root: root}, nil)
	run, err := Do(t.Context(), compiled,
		&Options{Journal: journalName(t), Run: tree.RunOptions{Services: services,
			Inputs: args{"nail": 7}}})
	wantDone(t, run, err)
	return run
}

func results(run *tree.Run) []any {
	list, _ := run.Board().Snapshot()["tool_results"].([]any)
	return list
}

func TestTool(t *testing.T) {
	run := toolRun(t, 4, func(n int, a map[string]any) (any, error) {
		switch n {
		case 1:
			return args{"hit": a["nail"]}, nil
		case 2:
			return "ignored", errors.New("it slipped")
		case 3:
			panic("thumb")
		}
		return nil, nil
	})
	want := []any{
		args{"tool": "hammer", "success": true, "result": args{"hit": int64(7)}},
		args{"tool": "hammer", "success": false, "error": "it slipped"},
		args{"tool": "hammer", "success": false, "error": "panic: thumb"},
		args{"tool": "hammer", "success": true, "result": nil},
	}
	if diff := cmp.Diff(want, results(run)); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want[3], run.Board().Snapshot()[lastResult]); diff != "" {
		t.Errorf("the last result (-want +got):\n%s", diff)
	}
}

func TestToolFailsWithItsError(t *testing.T) {
	run := toolRun(t, 1,
		func(int, map[string]any) (any, error) { return nil, errors.New("it slipped") })
	if view := run.View(2); view.Status != tree.Failure || view.Err != "it slipped" {
		t.Errorf("the leaf is %s: %s", view.Status, view.Err)
	}
}

func TestToolResultsAreBounded(t *testing.T) {
	run := toolRun(t, 130, func(n int, _ map[string]any) (any, error) { return n, nil })
	list := results(run)
	if len(list) != 100 {
		t.Fatalf("%d results are kept", len(list))
	}
	for i, entry := range list {
		if got := entry.(args)["result"]; got != int64(31+i) {
			t.Fatalf("result %d is %v", i, got)
		}
	}
}

// If results are large, fewer are kept.
func TestLargeToolResults(t *testing.T) {
	run := toolRun(t, 6, func(n int, _ map[string]any) (any, error) {
		return strings.Repeat(fmt.Sprint(n), 300_000), nil
	})
	var kept []string
	for _, entry := range results(run) {
		kept = append(kept, entry.(args)["result"].(string)[:1])
	}
	if diff := cmp.Diff([]string{"4", "5", "6"}, kept); diff != "" {
		t.Errorf("kept (-want +got):\n%s", diff)
	}
}

// A result that cannot be kept is a failure; the model is told too, and earlier results
// are kept.
func TestToolResultThatCannotBeKept(t *testing.T) {
	for name, v := range map[string]any{"too large": strings.Repeat("x", tree.MaxValue+1),
		"no value": struct{}{}} {
		t.Run(name, func(t *testing.T) {
			run := toolRun(t, 2, func(n int, _ map[string]any) (any, error) {
				if n == 1 {
					return "fine", nil
				}
				return v, nil
			})
			if view := run.View(2); view.Status != tree.Failure ||
				!strings.Contains(view.Err, "the result of hammer cannot be kept") {
				t.Errorf("the leaf is %s: %s", view.Status, view.Err)
			}
			want := []any{
				args{"tool": "hammer", "success": true, "result": "fine"},
				args{"tool": "hammer", "success": false, "error": run.View(2).Err},
			}
			if diff := cmp.Diff(want, results(run)); diff != "" {
				t.Errorf("results (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(want[1], run.Board().Snapshot()[lastResult]); diff != "" {
				t.Errorf("the last result (-want +got):\n%s", diff)
			}
		})
	}
}

// The leaf has an answer whatever Job and Finish do.
func TestJobsThatMisbehave(t *testing.T) {
	answer := func(st tree.Status) tree.Job {
		return func(context.Context, tree.Request) tree.Result { return tree.Result{Status: st} }
	}
	for name, c := range map[string]struct {
		leaf tree.Leaf
		err  string
	}{
		"panics": {tree.Leaf{Job: func(context.Context,
			tree.Request) tree.Result {
			panic("oh")
		}}, "panic: oh"},
		"answers RUNNING": {tree.Leaf{Job: answer(tree.Running)},
			"RUNNING, not as SUCCESS or FAILURE"},
		"answers nothing": {tree.Leaf{Job: answer(tree.Idle)}, "IDLE, not as SUCCESS or FAILURE"},
		"writes what is not declared": {tree.Leaf{Job: func(context.Context,
			tree.Request) tree.Result {
			return tree.Result{Status: tree.Success, Writes: args{"gone": 1}}
		}}, "'gone'"},
		"finishes with a panic": {tree.Leaf{Job: quick,
			Finish: func(*tree.Call, tree.Result) tree.Status { panic("late") }}, "panic: late"},
		"finishes as RUNNING": {tree.Leaf{Job: quick,
			Finish: func(*tree.Call, tree.Result) tree.Status { return tree.Running }},
			"RUNNING, not as SUCCESS or FAILURE"},
		"prepares a panic": {tree.Leaf{Job: quick,
			Prepare: func(*tree.Call) (any, error) { panic("early") }}, "panic: early"},
		"prepares an error": {tree.Leaf{Job: quick,
			Prepare: func(*tree.Call) (any, error) { return nil, errors.New("no paper") }},
			"no paper"},
		"prepares nonsense": {tree.Leaf{Job: quick,
			Prepare: func(*tree.Call) (any, error) { return struct{}{}, nil }},
			"cannot be recorded"},
	} {
		t.Run(name, func(t *testing.T) {
			functions := &tree.Registry{}
			functions.Add(tree.Action, "bad", c.leaf)
			compiled := compile(t, &tree.Definition{Name: "test", Root: action("", "bad", nil)},
				functions)
			journal := journalName(t)
			run, err := Do(t.Context(), compiled, &Options{Journal: journal})
			must.Succeed(t, err)
			if view := run.View(0); view.Status != tree.Failure ||
				!strings.Contains(view.Err, c.err) {
				t.Errorf("the leaf is %s: %s", view.Status, view.Err)
			}
			again, err := Do(t.Context(), compiled, &Options{Journal: journal})
			if err != nil || again.View(0) != run.View(0) {
				t.Errorf("the journal says %+v, %v", again.View(0), err)
			}
		})
	}
}
