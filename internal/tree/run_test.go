package tree

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The answers of leaves for the results of their jobs.
func TestJobEnds(t *testing.T) {
	for name, tt := range map[string]struct {
		leaf   Leaf
		result Result
		want   Status
		err    string
	}{
		"success": {Leaf{}, Result{Status: Success, Writes: map[string]any{"n": 1}}, Success,
			""},
		"failure": {Leaf{}, Result{Status: Failure}, Failure, ""},
		"no end": {Leaf{}, Result{Status: Running}, Failure,
			"the job ended as RUNNING, not as SUCCESS or FAILURE"},
		"nothing": {Leaf{}, Result{}, Failure,
			"the job ended as IDLE, not as SUCCESS or FAILURE"},
		"bad write": {Leaf{}, Result{Status: Success, Writes: map[string]any{"n": "x"}},
			Failure, "mistyped value for key 'n'"},
		"finish": {Leaf{Finish: func(c *Call,
			r Result) Status {
			return c.Fail("saw %s", r.Err)
		}}, Result{Err: "it"}, Failure,
			"saw it"},
		"finish panics": {Leaf{Finish: func(*Call, Result) Status { panic("x") }},
			Result{Status: Success}, Failure, "panic: x"},
		"finish runs": {Leaf{Finish: func(*Call, Result) Status { return Running }},
			Result{Status: Success}, Failure, "not as SUCCESS or FAILURE"},
		"no request": {Leaf{Prepare: func(*Call) (any,
			error) {
			return nil, errors.New("no paper")
		}}, Result{}, Failure, "no paper"},
		"prepare fails": {Leaf{Prepare: func(*Call) (any, error) { panic("x") }}, Result{}, Failure,
			"panic: x"},
		"bad request": {Leaf{Prepare: func(*Call) (any, error) { return make(chan int), nil }},
			Result{}, Failure, "the request cannot be recorded"},
	} {
		reg := &Registry{}
		tt.leaf.Job = noJob
		reg.Add(Action, "job", tt.leaf)
		compiled := mustCompile(t, &Definition{Name: "x", Keys: []Key{{Name: "n", Type: Int}},
			Root: job("j")}, reg)
		r := mustRun(t, compiled, &RunOptions{})
		if r.Tick(epoch) == Running {
			r.Finish(r.Started()[0], tt.result)
			r.Tick(epoch)
		}
		if view := r.View(0); view.Status != tt.want || !strings.Contains(view.Err, tt.err) ||
			(view.Err == "") != (tt.err == "") {
			t.Errorf("%s: %+v, want %s %q", name, view, tt.want, tt.err)
		}
	}
}

// Missing tools and models, and replacements.
func TestServices(t *testing.T) {
	call := &Node{Kind: LLMCall, At: line(2)}
	search := &Node{Kind: Tool, Fn: "web.serch", At: line(3), Args: map[string]any{"q": "x"}}
	compiled := mustCompile(t, &Definition{Name: "x", Root: of(Sequence, call, search)}, nil)
	services := &Registry{}
	services.Add(Tool, "search", Leaf{Job: noJob, Params: []Param{{Name: "q", Type: String}}})
	_, err := NewRun(compiled, &RunOptions{Services: services})
	wantError(t, err, "post.lua:2: the tree calls a model, and none is configured",
		"post.lua:3: unknown tool 'web.serch'")
	if hint := Faults(err)[1].Hint; hint != "did you mean 'search'?" {
		t.Errorf("the hint is %q", hint)
	}
	search.Fn = "web.search"
	compiled = mustCompile(t, &Definition{Name: "x", Root: of(Sequence, call, search)}, nil)
	search.Args = map[string]any{"p": "x"}
	_, err = NewRun(compiled,
		&RunOptions{Services: services,
			Replace: []Replacement{{Pattern: "llm_call:*", Do: answer(Success)}}})
	wantError(t, err, "web.search has no argument 'p'")
	o := &RunOptions{Replace: []Replacement{{Pattern: "tool:web.*", Do: answer(Failure)},
		{Pattern: "*:*", Do: answer(Success)}}}
	wantStatus(t, mustRun(t, compiled, o).Tick(epoch), Failure)
	if _, err := NewRun(compiled, &RunOptions{}); err == nil {
		t.Error("a replacement of one run is used in another")
	}
}

// Accessors that runners use.
func TestRunAccessors(t *testing.T) {
	long := &Node{Kind: Action, Do: func(c *Call) Status { c.WakeAfter(1<<63 - 1); return Running }}
	r := runOf(t, long)
	if _, due := r.Wake(); due || r.Ticks() != 0 || r.Status() != Idle {
		t.Error("a run that was not ticked is waiting")
	}
	wantStatus(t, r.Tick(epoch), Running)
	if at, due := r.Wake(); due && at.Before(epoch.Add(time.Hour)) {
		t.Errorf("a wait without end ends at %v", at)
	}
	want := []Transition{{Node: 0, From: Idle, To: Running}}
	if diff := cmp.Diff(want, r.Transitions()); diff != "" || !r.Changed() {
		t.Errorf("changed %t (-want +got):\n%s", r.Changed(), diff)
	}
	r.Tick(epoch)
	if r.Changed() || len(r.Transitions()) != 0 {
		t.Error("Changed or Transitions report a change, and there was none")
	}
	r.Halt()
	if r.Ticks() != 2 || r.Status() != Idle || !r.Changed() {
		t.Errorf("halted: %d ticks, %s", r.Ticks(), r.Status())
	}
	for _, st := range []Status{Idle, Success, Failure, Running} {
		text, err := st.MarshalText()
		if back, ok := ParseStatus(string(text)); err != nil || !ok || back != st {
			t.Errorf("%s is formatted as %s and parsed as %s", st, text, back)
		}
	}
	if _, ok := ParseStatus("DONE"); ok {
		t.Error("DONE is parsed as a status")
	}
}

// Inputs that together exceed the size of a value can be recorded.
func TestLargeInputs(t *testing.T) {
	large := strings.Repeat("x", MaxValue/2)
	o := &RunOptions{Inputs: map[string]any{"_a": large, "_b": large, "_c": large}}
	r := mustRun(t, mustCompile(t, &Definition{Name: "x", Root: does(Success)}, nil), o)
	inputs, _, err := r.Header(o, epoch).ReadInputs()
	if changes := Diff(o.Inputs, inputs); err != nil || changes != nil {
		t.Errorf("%d inputs differ (%v)", len(changes), err)
	}
}

// The last of a million attempts costs no more than the first.
func TestRetryCost(t *testing.T) {
	n := of(Retry, does(Failure))
	n.Times = 1_000_000
	r := runOf(t, n)
	r.record, r.observed = false, false
	ticks := 1
	for ; r.Tick(epoch) == Running; ticks++ {
	}
	if ticks != n.Times {
		t.Errorf("%d attempts, want %d", ticks, n.Times)
	}
}

func TestAsk(t *testing.T) {
	reg := library()
	reg.Add(Action, "write", Leaf{Params: []Param{{Name: "v", Default: 7}},
		Do: func(c *Call) Status {
			if err := c.Set("n", c.Arg("v")); err != nil {
				return c.Fail("%v", err)
			}
			return Success
		}})
	b := mustBoard(t, Key{Name: "n"})
	c := NewCall(b, map[string]any{"mine": 1}, epoch)
	if st, err := reg.Invoke(c, Action, "x.write", nil); st != Success || err != nil ||
		mustGet(t, b, "n") != int64(7) || c.Arg("mine") != 1 {
		t.Errorf("%s, %v, n is %v", st, err, mustGet(t, b, "n"))
	}
	for name, args := range map[string]map[string]any{"none": nil, "job": nil, "write": {"x": 1},
		"send": nil} {
		if st, err := reg.Invoke(c, Action, name, args); err == nil || st != Failure {
			t.Errorf("%s: %s, %v", name, st, err)
		}
	}
}
