package tree

import (
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// library returns functions with and without declared arguments.
func library() *Registry {
	r := functions()
	r.Add(Action, "send",
		Leaf{Do: answer(Success), Params: []Param{{Name: "to", Type: String, Required: true},
			{Name: "copies", Type: Int, Default: 1}, {Name: "tags", Type: List}}})
	r.Add(Action, "noop", Leaf{Do: answer(Success)})
	r.Add(Condition, "has_mail", Leaf{Do: answer(Success), Params: []Param{}})
	r.Add(Condition, "fetched", Leaf{Job: noJob})
	return r
}

func line(n int) Position { return Position{File: "post.lua", Line: n} }

func action(fn string, args map[string]any) *Node { return &Node{Kind: Action, Fn: fn, Args: args} }

// faultCase is an invalid definition. Each text is a fault with its position and, after " | ", its
// hint.
type faultCase struct {
	def  *Definition
	want []string
}

func root(n *Node, keys ...Key) *Definition {
	if n != nil {
		n.At = line(7)
	}
	return &Definition{Name: "post", At: line(1), Keys: keys, Root: n}
}

func globals(d *Definition, keys ...Key) *Definition {
	d.Globals = keys
	return d
}

func part(name string, at int, root *Node) *SubtreeDefinition {
	return &SubtreeDefinition{Name: name, At: line(at), Root: root}
}

func uses(name string) *Node { return &Node{Kind: Subtree, Uses: name, At: line(3)} }

// with sets further fields of a node.
func (n *Node) with(set func(*Node)) *Node {
	set(n)
	return n
}

func TestFaultsOfDefinitions(t *testing.T) {
	faults(t, map[string]faultCase{
		"no name": {&Definition{Name: "", At: line(1), Root: does(Success)},
			[]string{`post.lua:1: "" is not a valid name for a tree`}},
		"slash": {&Definition{Name: "a/b", At: line(1), Root: does(Success)},
			[]string{`post.lua:1: "a/b" is not a valid name for a tree`}},
		"no root": {root(nil),
			[]string{"post.lua:1: tree 'post' has no root | give it a root"}},
		"key": {root(does(Success), Key{Name: "9", At: line(2)}),
			[]string{`post.lua:2: "9" is not a valid name for a key: letters, digits, '_', '.' and '-', at most 100, not a digit first`}},
		"default": {root(does(Success),
			Key{Name: "x", Type: List, Default: 1, At: line(2)}),
			[]string{"post.lua:2: the default of key 'x' does not fit: it takes a list, not an int"}},
		"twice": {root(does(Success), Key{Name: "x", Type: List, At: line(2)},
			Key{Name: "x", Type: Map, At: line(3)}),
			[]string{"post.lua:3: key 'x' is declared twice, as a list and as a map"}},
		"global too": {globals(root(does(Success), Key{Name: "x", Type: Int, At: line(3)}),
			Key{Name: "x", Type: Int, At: line(2)}),
			[]string{"post.lua:3: key 'x' is declared twice, in blackboard and in globals"}},
		"global type": {globals(root(does(Success), Key{Name: "x", Type: Int}), Key{Name: "x"}),
			[]string{"key 'x' is declared twice, in blackboard and in globals"}},
		"global built in": {globals(root(does(Success), Key{Name: "tool_results", Type: List}),
			Key{Name: "tool_results", Type: List}),
			[]string{"key 'tool_results' is declared twice, in blackboard and in globals"}},
		"node's name": {root(does(Success).with(func(n *Node) { n.Name = "a#2" })),
			[]string{`post.lua:7: "a#2" is not a valid name for a node | at most 100 printable characters, without '/' and '#'`}},
		"line break": {root(does(Success).with(func(n *Node) { n.Name = "a\nb" })),
			[]string{`post.lua:7: "a\nb" is not a valid name for a node | at most 100 printable characters, without '/' and '#'`}},
		"kind":    {root(&Node{}), []string{"post.lua:7: unknown node"}},
		"kind 99": {root(&Node{Kind: 99}), []string{"post.lua:7: unknown node"}},
	})
}

func TestFaultsOfNodes(t *testing.T) {
	set := func(kind Kind, change func(*Node), children ...*Node) *Definition {
		return root(of(kind, children...).with(change), Key{Name: "list", Type: List},
			Key{Name: "word", Type: String})
	}
	none := func(*Node) {}
	yes := does(Success)
	faults(t, map[string]faultCase{
		"sequence": {set(Sequence, none),
			[]string{"post.lua:7: sequence has 0 children and needs at least one child"}},
		"parallel": {set(Parallel, none),
			[]string{"post.lua:7: parallel has 0 children and needs at least one child"}},
		"inverter": {set(Inverter, none, yes, yes),
			[]string{"post.lua:7: inverter has 2 children and needs one child"}},
		"guard": {set(Guard, none, asks(Success)),
			[]string{"post.lua:7: guard has 1 children and needs a condition and one child"}},
		"leaf": {set(Wait, none, yes),
			[]string{"post.lua:7: wait has 1 children and needs no child"}},
		"missing": {set(Sequence, none, yes, nil),
			[]string{"post.lua:7: a child of sequence is missing"}},
		"guard acts": {set(Guard, none,
			of(Inverter, yes).with(func(n *Node) { n.At = line(8) }), yes),
			[]string{"post.lua:8: the first child of a guard must be a condition | use condition, inverter, sequence and selector only"}},
		"wait": {set(Wait, func(n *Node) { n.After = -1 }),
			[]string{"post.lua:7: wait needs a duration that is not negative"}},
		"timeout": {set(Timeout, none, yes),
			[]string{"post.lua:7: timeout needs a duration above 0 | give it seconds, as in 5 or 0.5"}},
		"cooldown": {set(Cooldown, func(n *Node) { n.After = -1 }, yes),
			[]string{"post.lua:7: cooldown needs a duration above 0 | give it seconds, as in 5 or 0.5"}},
		"retry": {set(Retry, none, yes),
			[]string{"post.lua:7: retry needs 1 to 1,000,000 attempts and a backoff that is not negative"}},
		"retry backoff": {set(Retry, func(n *Node) { n.Times, n.After = 1, -1 }, yes),
			[]string{"post.lua:7: retry needs 1 to 1,000,000 attempts and a backoff that is not negative"}},
		"retry too much": {set(Retry, func(n *Node) { n.Times = 1_000_001 }, yes),
			[]string{"post.lua:7: retry needs 1 to 1,000,000 attempts and a backoff that is not negative"}},
		"repeat": {set(Repeat, none, yes),
			[]string{"post.lua:7: repeat needs a number of times, or until"}},
		"repeat minus": {set(Repeat, func(n *Node) { n.Times, n.Until = -1, UntilSuccess }, yes),
			[]string{"post.lua:7: repeat needs a number of times, or until"}},
		"require": {set(Parallel, func(n *Node) { n.Require = 3 }, yes, yes),
			[]string{"post.lua:7: parallel requires 3 of 2 children"}},
		"require minus": {set(Parallel, func(n *Node) { n.Require = -1 }, yes),
			[]string{"post.lua:7: parallel requires -1 of 1 children"}},
		"at once": {set(Parallel, func(n *Node) { n.MaxConcurrent = -1 }, yes),
			[]string{"post.lua:7: parallel cannot run -1 children at once"}},
		"for_each key": {set(ForEach, func(n *Node) { n.Items, n.As = "lists", "x" }, yes),
			[]string{"post.lua:7: for_each uses undeclared key 'lists' | declare it in blackboard, as a list"}},
		"for_each type": {set(ForEach, func(n *Node) { n.Items, n.As = "word", "x" }, yes),
			[]string{"post.lua:7: for_each needs a list, and key 'word' is a string"}},
		"for_each as": {set(ForEach, func(n *Node) { n.Items = "list" }, yes),
			[]string{`post.lua:7: "" is not a valid name for a key: letters, digits, '_', '.' and '-', at most 100, not a digit first`}},
		"for_each same": {set(ForEach, func(n *Node) { n.Items, n.As, n.Index = "list", "x", "x" },
			yes), []string{"post.lua:7: for_each has the key 'x' for the item and for its number | give one of them another name"}},
		"for_each index": {set(ForEach,
			func(n *Node) { n.Items, n.As, n.Index = "list", "x", "a b" }, yes),
			[]string{`post.lua:7: "a b" is not a valid name for a key: letters, digits, '_', '.' and '-', at most 100, not a digit first`}},
	})
}

func TestFaultsOfLeaves(t *testing.T) {
	send := func(args map[string]any) *Definition { return root(action("send", args), Key{Name: "n", Type: Int}) }
	faults(t, map[string]faultCase{
		"unknown": {root(action("mail.sent", nil)),
			[]string{"post.lua:7: unknown function 'mail.sent' | did you mean 'send'?"}},
		"far": {root(action("something_else", nil)),
			[]string{"post.lua:7: unknown function 'something_else' | known: job, noop, send"}},
		"nothing": {root(&Node{Kind: Condition, Fn: "x"}),
			[]string{"post.lua:7: unknown function 'x' | known: fetched, has_mail"}},
		"no condition": {root(&Node{Kind: Condition, Fn: "send"}),
			[]string{"post.lua:7: 'send' is a function for action, not for condition | use BT.action"}},
		"no action": {root(action("has_mail", nil)),
			[]string{"post.lua:7: 'has_mail' is a function for condition, not for action | use BT.condition"}},
		"takes time": {root(&Node{Kind: Condition, Fn: "mail.fetched"}),
			[]string{"post.lua:7: 'mail.fetched' is a job, and a condition must answer within the tick | make it an action, and check what it wrote"}},
		"guard's time": {root(of(Guard, &Node{Kind: Condition, Fn: "fetched", At: line(8)},
			does(Success))), []string{"post.lua:8: 'fetched' is a job, and a condition must answer within the tick | make it an action, and check what it wrote"}},
		"hidden": {root(action("noop", map[string]any{"a": Ref{"_a b"}})),
			[]string{"post.lua:7: an argument of action refers to undeclared key '_a b' | declare it in blackboard"}},
		"script": {root(&Node{Kind: Script}),
			[]string{"post.lua:7: script needs a function"}},
		"tool": {root(&Node{Kind: Tool}),
			[]string{"post.lua:7: tool needs the tool's name"}},
		"required": {send(nil),
			[]string{"post.lua:7: send needs the argument 'to' | args = {to = …}"}},
		"required nil": {send(map[string]any{"to": nil}),
			[]string{"post.lua:7: send needs the argument 'to' | args = {to = …}"}},
		"type": {send(map[string]any{"to": 5}),
			[]string{"post.lua:7: argument 'to' of send: it takes a string, not an int"}},
		"not known": {send(map[string]any{"to": "x", "copys": 5}),
			[]string{"post.lua:7: send has no argument 'copys' | did you mean 'copies'?"}},
		"takes none": {root(&Node{Kind: Condition, Fn: "has_mail",
			Args: map[string]any{"x": 1}}),
			[]string{"post.lua:7: has_mail has no argument 'x' | no argument is defined"}},
		"reference": {send(map[string]any{"to": Ref{"m"}}),
			[]string{"post.lua:7: an argument of action refers to undeclared key 'm' | declare it in blackboard"}},
		"deep": {root(action("noop",
			map[string]any{"a": []any{map[string]any{"b": Ref{"m"}}}})),
			[]string{"post.lua:7: an argument of action refers to undeclared key 'm' | declare it in blackboard"}},
		"several, once": {root(of(Sequence, action("x", nil), action("x", nil), action("y", nil))),
			[]string{"unknown function 'x' | known: job, noop, send",
				"unknown function 'y' | known: job, noop, send"}},
	})
}

func TestFaultsOfSubtrees(t *testing.T) {
	tree := func(n *Node, parts ...*SubtreeDefinition) *Definition {
		d := root(n, Key{Name: "n", Type: Int})
		d.Subtrees = parts
		return d
	}
	ported := func() *SubtreeDefinition {
		p := part("part", 4, does(Success))
		p.Ports = []Key{{Name: "in", Type: List}}
		return p
	}
	named := func(keys, ports []Key) *SubtreeDefinition {
		p := part("part", 4, does(Success))
		p.Keys, p.Ports = keys, ports
		return p
	}
	connected := func(ports map[string]string) *Node { return uses("part").with(func(n *Node) { n.Ports = ports }) }
	const cycle = " | a subtree cannot use itself; repeat its child instead"
	faults(t, map[string]faultCase{
		"unknown": {tree(uses("prt"), part("part", 4, does(Success))),
			[]string{"post.lua:7: unknown subtree 'prt' | did you mean 'part'?"}},
		"none": {tree(uses("prt")),
			[]string{"post.lua:7: unknown subtree 'prt' | no subtree is defined"}},
		"twice": {tree(uses("part"), part("part", 4, does(Success)),
			part("part", 5, does(Success))),
			[]string{"post.lua:5: subtree 'part' is defined twice, first at post.lua:4 | give one of them another name"}},
		"tree's name": {tree(does(Success), part("post", 4, does(Success))),
			[]string{"post.lua:4: 'post' is the name of the tree and of a subtree | give one of them another name"}},
		"name": {tree(uses("a/b"), part("a/b", 4, does(Success))),
			[]string{`post.lua:4: "a/b" is not a valid name for a subtree`}},
		"no root": {tree(uses("part"), part("part", 4, nil)),
			[]string{"post.lua:4: subtree 'part' has no root | give it a root"}},
		"unused": {tree(does(Success), part("part", 4, action("x", nil))),
			[]string{"unknown function 'x' | known: job, noop, send"}},
		"unused root": {tree(does(Success), part("part", 4, nil)),
			[]string{"post.lua:4: subtree 'part' has no root | give it a root"}},
		"unused port": {tree(does(Success), part("outer", 5, connected(nil)), ported()),
			[]string{"post.lua:3: port 'in' of subtree 'part' is not connected | connect it to a key: ports = {in = \"…\"}"}},
		"self": {tree(uses("a"), part("a", 4, of(Sequence, uses("a")))),
			[]string{"post.lua:3: cycle among subtrees: a → a" + cycle}},
		"cycle": {tree(does(Success), part("a", 4, uses("b")),
			part("b", 5, of(Inverter, uses("c"))), part("c", 6, uses("a"))),
			[]string{"post.lua:3: cycle among subtrees: a → b → c → a" + cycle}},
		"port": {tree(connected(nil), ported()),
			[]string{"post.lua:7: port 'in' of subtree 'part' is not connected | connect it to a key: ports = {in = \"…\"}"}},
		"port key": {tree(connected(map[string]string{"in": "m"}), ported()),
			[]string{"post.lua:7: port 'in' refers to undeclared key 'm' | declare it in blackboard"}},
		"port type": {tree(connected(map[string]string{"in": "n"}), ported()),
			[]string{"post.lua:7: port 'in' takes a list, and key 'n' is an int"}},
		"port name": {tree(does(Success), named(nil, []Key{{Name: "a b", At: line(9)}})),
			[]string{`post.lua:9: "a b" is not a valid name for a port: letters, digits, '_', '.' and '-', at most 100, not a digit first`}},
		"port twice": {tree(does(Success), named(nil, []Key{{Name: "in"}, {Name: "in"}})),
			[]string{"post.lua:4: subtree 'part' has two ports 'in'"}},
		"port and key": {tree(connected(map[string]string{"in": "n"}),
			named([]Key{{Name: "in"}}, []Key{{Name: "in", At: line(9)}})),
			[]string{"post.lua:9: 'in' is a port of subtree 'part' and a key of its own | give one of them another name"}},
		"no such port": {tree(connected(map[string]string{"in": "signals_emitted", "out": "n"}),
			ported()), []string{"post.lua:7: subtree 'part' has no port 'out' | declare it in the subtree's ports"}},
		"used, unknown": {tree(of(Sequence, uses("a"), uses("a")), part("a", 4, action("x", nil))),
			[]string{"unknown function 'x' | known: job, noop, send"}},
	})
}

func faults(t *testing.T, cases map[string]faultCase) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		_, err := Compile(cases[name].def, library())
		var e *CompileError
		if !errors.As(err, &e) {
			t.Errorf("%s: the error is %v", name, err)
			continue
		}
		var got []string
		for _, f := range Faults(err) {
			text := f.Error()
			if f.Hint != "" {
				text += " | " + f.Hint
			}
			got = append(got, text)
		}
		if diff := cmp.Diff(cases[name].want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Only the first twenty faults are reported, each on a line.
func TestFaultLimit(t *testing.T) {
	actions, tools, args := of(Sequence), of(Sequence), map[string]any{"to": "x"}
	var keys []Key
	for i := range 50 {
		name := fmt.Sprintf("unknown%d", i)
		actions.Children = append(actions.Children, action(name, nil))
		tools.Children = append(tools.Children, &Node{Kind: Tool, Fn: name})
		args[name] = 1
		keys = append(keys, Key{Name: name + "?"})
	}
	compiled := mustCompile(t, root(tools), nil)
	for name, fails := range map[string]func() error{
		"actions":   func() error { _, err := Compile(root(actions), library()); return err },
		"arguments": func() error { _, err := Compile(root(action("send", args)), library()); return err },
		"keys":      func() error { _, err := Compile(root(does(Success), keys...), nil); return err },
		"tools":     func() error { _, err := NewRun(compiled, &RunOptions{}); return err },
	} {
		if err := fails(); len(Faults(err)) != maxFaults ||
			strings.Count(err.Error(), "\n") != maxFaults-1 {
			t.Errorf("%s: %d faults:\n%v", name, len(Faults(err)), err)
		}
	}
	if Faults(errors.New("other")) != nil {
		t.Error("another error has faults")
	}
}

// The hint of a fault is computed once, even if its node is compiled a hundred thousand times. The
// same applies to a tool that a run does not have.
func TestFaultCost(t *testing.T) {
	reg := &Registry{}
	for i := range 1000 {
		reg.Add(Action, fmt.Sprintf("function_with_a_long_name_%d", i), Leaf{Do: answer(Success)})
		reg.Add(Tool, fmt.Sprintf("tool_with_a_long_name_%d", i), Leaf{Job: noJob})
	}
	of := func(leaf *Node) *Definition {
		d := root(of(Sequence))
		d.Subtrees = []*SubtreeDefinition{part("part", 4, leaf)}
		use := uses("part")
		for range 20_000 {
			d.Root.Children = append(d.Root.Children, use)
		}
		return d
	}
	compiled := mustCompile(t, of(&Node{Kind: Tool, Fn: "tool_with_a_long_nam_7", At: line(9)}),
		reg)
	for name, fails := range map[string]func() error{
		"function": func() error { _, err := Compile(of(action("function_with_a_long_nam_7", nil)), reg); return err },
		"tool":     func() error { _, err := NewRun(compiled, &RunOptions{Services: reg}); return err },
	} {
		var err error
		if n := allocated(func() { err = fails() }); n > 100<<20 {
			t.Errorf("%s: %d bytes are allocated", name, n)
		}
		if f := Faults(err); len(f) != 1 || f[0].Hint != "did you mean '"+name+
			"_with_a_long_name_7'?" {
			t.Errorf("%s: %v", name, f)
		}
	}
}

// allocated returns the bytes that a call allocates. The tests of this package do not run in
// parallel.
func allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// The cost of using a subtree does not depend on the number of keys of the tree, and the cost of an
// unused subtree does not depend on how often the others are used.
func TestScopesAreSmall(t *testing.T) {
	d := root(of(Sequence))
	for i := range 1000 {
		d.Keys = append(d.Keys, Key{Name: fmt.Sprintf("key%d", i), Type: Int})
	}
	d.Subtrees = []*SubtreeDefinition{part("outer", 4, uses("inner")), part("inner", 5, action("noop", map[string]any{"a": Ref{"key7"}}))}
	for i := range 200 {
		d.Subtrees = append(d.Subtrees, part(fmt.Sprintf("unused%d", i), 6, does(Success)))
	}
	use := uses("outer")
	for range 80_000 { // each uses two
		d.Root.Children = append(d.Root.Children, use)
	}
	var compiled *Tree
	if n := allocated(func() { compiled = mustCompile(t, d, library()) }); n > 300<<20 {
		t.Errorf("%d bytes are allocated", n)
	}
	if compiled.Len() != 240_001 {
		t.Errorf("there are %d nodes", compiled.Len())
	}
}

// Small definitions of trees that are huge when expanded are rejected quickly.
func TestExpansion(t *testing.T) {
	var parts []*SubtreeDefinition
	for i := range 30 {
		parts = append(parts,
			part(fmt.Sprintf("p%d", i), i, of(Sequence, uses(fmt.Sprintf("p%d", i+1)),
				uses(fmt.Sprintf("p%d", i+1)))))
	}
	parts = append(parts, part("p30", 30, does(Success)))
	doubled, question := does(Success), asks(Success)
	for range 60 {
		doubled, question = of(Sequence, doubled, doubled), of(Sequence, question, question)
	}
	deep := does(Success)
	for range MaxDepth + 1 {
		deep = of(Inverter, deep)
	}
	endless := of(Sequence)
	endless.Children = []*Node{endless, endless}
	for name, tt := range map[string]struct {
		n    *Node
		want string
	}{
		"subtrees": {uses("p0"), "the tree has more than 250000 nodes"},
		"unused":   {does(Success), "the tree has more than 250000 nodes"},
		"shared":   {doubled, "the tree has more than 250000 nodes"},
		"guard": {of(Guard, question, does(Success)),
			"the first child of a guard must be a condition"},
		"deep":    {deep, "nodes are nested more than 200 deep"},
		"endless": {endless, "nodes are nested more than 200 deep"},
	} {
		d := root(tt.n)
		if name == "subtrees" || name == "unused" {
			d.Subtrees = parts
		}
		_, err := Compile(d, library())
		wantError(t, err, tt.want)
	}
	d := root(does(Success))
	for i := range 20 {
		d.Subtrees = append(d.Subtrees, part(fmt.Sprintf("huge%d", i), 4, doubled))
	}
	if n := allocated(func() {
		_, err := Compile(d, nil)
		wantError(t, err, "the tree has more than 250000 nodes")
	}); n > 300<<20 {
		t.Errorf("%d bytes are allocated for subtrees that are all too large", n)
	}
	deep = deep.Children[0]
	if compiled := mustCompile(t, root(deep), nil); compiled.Len() != MaxDepth+1 {
		t.Errorf("the deepest tree has %d nodes", compiled.Len())
	}
}

// The path of a node identifies it, whatever the names are.
func TestPaths(t *testing.T) {
	named := func(name string) *Node { return does(Success).with(func(n *Node) { n.Name = name }) }
	d := root(of(Sequence, named("a"), named("a"), named(""), named("action"), uses("part"),
		uses("part"), of(Selector, named("a"))))
	d.Subtrees = []*SubtreeDefinition{part("part", 4, named("a"))}
	compiled := mustCompile(t, d, nil)
	want := []string{"sequence", "sequence/a", "sequence/a#2", "sequence/action",
		"sequence/action#2", "sequence/part", "sequence/part/a",
		"sequence/part#2", "sequence/part#2/a", "sequence/selector", "sequence/selector/a"}
	var got []string
	for i := range compiled.Len() {
		info := compiled.Info(i)
		got = append(got, info.Path)
		if found, ok := compiled.Find(info.Path); !ok || found != i {
			t.Errorf("%s is found at %d", info.Path, found)
		}
		for _, child := range info.Children {
			if compiled.Info(child).Parent != i || compiled.Info(child).Depth != info.Depth+1 {
				t.Errorf("%s is not a child of %s", compiled.Info(child).Path, info.Path)
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, ok := compiled.Find("sequence/b"); ok || !slices.Equal(compiled.Info(0).Children,
		[]int{1, 2, 3, 4, 5, 7, 9}) {
		t.Errorf("children %v", compiled.Info(0).Children)
	}
}

// Details of every kind.
func TestDetail(t *testing.T) {
	two := func(n *Node) { n.Children = append(n.Children, does(Success)) }
	cases := []struct {
		kind Kind
		set  func(*Node)
		want string
	}{
		{Sequence, func(*Node) {}, ""}, {Selector, func(*Node) {}, ""},
		{ReactiveSequence, func(*Node) {}, ""}, {ReactiveSelector, func(*Node) {}, ""},
		{Parallel, func(*Node) {}, "all"}, {Parallel, func(n *Node) { two(n); n.Require = 1 },
			"1 of 2"},
		{Parallel, func(n *Node) { two(n); n.Require, n.MaxConcurrent = 2, 1 }, "all, 1 at once"},
		{ForEach, func(n *Node) { n.As, n.Items = "item", "list" }, "item in list"},
		{Timeout, func(n *Node) { n.After = 90 * time.Minute }, "1h30m"},
		{Timeout, func(n *Node) { n.After = 1500 * time.Millisecond }, "1.5s"},
		{Retry, func(n *Node) { n.Times = 1 }, "1 attempt"},
		{Retry, func(n *Node) { n.Times, n.After = 3, 2*time.Minute },
			"3 attempts, backoff 2m"},
		{Repeat, func(n *Node) { n.Times = 3 }, "3 times"},
		{Repeat, func(n *Node) { n.Until = UntilSuccess }, "until success"},
		{Repeat, func(n *Node) { n.Until, n.Times = UntilFailure, 1 },
			"until failure, at most 1 time"},
		{Guard, func(n *Node) { n.Children[0] = asks(Success); two(n) }, ""},
		{Cooldown, func(n *Node) { n.After = time.Hour }, "1h"}, {Inverter, func(*Node) {}, ""},
		{AlwaysSucceed, func(*Node) {}, ""}, {AlwaysFail, func(*Node) {}, ""},
		{Action, func(n *Node) { n.Fn = "mail.send"; n.Args = map[string]any{"to": Ref{"list"}, "copies": 2} }, "send(copies=2, to=$list)"},
		{Condition, func(n *Node) { n.Fn = "has_mail" }, "has_mail"},
		{Script, func(n *Node) { n.Do = answer(Success) }, ""},
		{Wait, func(n *Node) { n.After = 0 }, "0s"},
		{Subtree, func(n *Node) { n.Uses, n.Ports = "part", map[string]string{"in": "list"} },
			"part(in=list)"},
		{LLMCall, func(n *Node) { n.Args = map[string]any{"prompt": strings.Repeat("ä", 70)} },
			"(prompt=" + strings.Repeat("ä", 59) + "…)"},
		{Tool, func(n *Node) { n.Fn, n.Args = "search", map[string]any{"q": "x"} }, "search(q=x)"},
	}
	seen := map[Kind]bool{}
	for _, tt := range cases {
		seen[tt.kind] = true
		n := &Node{Kind: tt.kind}
		if !tt.kind.IsLeaf() {
			n.Children = []*Node{does(Success)}
		}
		tt.set(n)
		d := root(n, Key{Name: "list", Type: List})
		p := part("part", 4, does(Success))
		p.Ports = []Key{{Name: "in"}}
		d.Subtrees = []*SubtreeDefinition{p}
		info := mustCompile(t, d, library()).Info(0)
		if info.Detail != tt.want || info.Kind != tt.kind || info.At != line(7) ||
			info.Parent != -1 {
			t.Errorf("%s: detail %q, want %q (%+v)", tt.kind, info.Detail, tt.want, info)
		}
	}
	for _, kind := range Kinds() {
		back, ok := ParseKind(kind.String())
		if !seen[kind] || !ok || back != kind {
			t.Errorf("%s is not in the table, or is read as %s", kind, back)
		}
	}
	if _, ok := ParseKind("unknown"); ok || Kind(0).String() != "unknown" ||
		Kind(99).String() != "unknown" {
		t.Error("there is a kind that there is not")
	}
}
