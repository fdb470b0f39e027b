package tree

import (
	"strings"
	"testing"
	"time"
)

// Trees have the same shape only if they behave the same.
func TestShape(t *testing.T) {
	full := func(change func(*Definition, *Node)) string {
		leaf := &Node{Kind: Action, Fn: "noop", Args: map[string]any{"a": []any{Ref{"n"}}}}
		body := of(Parallel, leaf,
			of(Retry, &Node{Kind: Action,
				Fn: "noop"}).with(func(n *Node) { n.Times, n.After = 2, time.Second }))
		each := of(ForEach, body).with(func(n *Node) { n.Items, n.As, n.Index = "list", "x", "i" })
		again := of(Repeat, each).with(func(n *Node) { n.Times, n.Until = 2, UntilSuccess })
		d := &Definition{Name: "shape",
			Keys: []Key{{Name: "n"}, {Name: "m"}, {Name: "list", Type: List},
				{Name: "other", Type: List}}, Root: of(Sequence, again, uses("part"))}
		d.Root.Children[1].Name, d.Root.Children[1].Ports = "use", map[string]string{"in": "n"}
		sub := part("part", 4, &Node{Kind: Action, Fn: "noop", Name: "inside",
			Args: map[string]any{"a": Ref{"in"}}})
		sub.Ports, sub.Keys = []Key{{Name: "in"}}, []Key{{Name: "own", Default: 1}}
		d.Subtrees = []*SubtreeDefinition{sub, {Name: "alike", Ports: sub.Ports, Keys: sub.Keys,
			Root: sub.Root}}
		change(d, leaf)
		return mustCompile(t, d, library()).Shape()
	}
	first := full(func(*Definition, *Node) {})
	if len(first) != 64 {
		t.Errorf("the shape is %q", first)
	}
	args := func(v any) func(*Definition, *Node) {
		return func(_ *Definition, leaf *Node) { leaf.Args = map[string]any{"a": v} }
	}
	again := func(d *Definition) *Node { return d.Root.Children[0] }
	each := func(d *Definition) *Node { return again(d).Children[0] }
	retry := func(d *Definition) *Node { return each(d).Children[0].Children[1] }
	long := strings.Repeat("x", 100)
	changes := map[string]func(*Definition, *Node){
		"kind":     func(d *Definition, _ *Node) { d.Root.Kind = Selector },
		"name":     func(d *Definition, _ *Node) { d.Root.Name = "first" },
		"function": func(_ *Definition, leaf *Node) { leaf.Fn = "job" },
		"more": func(d *Definition,
			_ *Node) {
			d.Root.Children = append(d.Root.Children, does(Success))
		},
		"order": func(d *Definition,
			_ *Node) {
			c := d.Root.Children
			c[0], c[1] = c[1], c[0]
		},
		"times":       func(d *Definition, _ *Node) { again(d).Times = 3 },
		"until":       func(d *Definition, _ *Node) { again(d).Until = UntilFailure },
		"attempts":    func(d *Definition, _ *Node) { retry(d).Times = 3 },
		"after":       func(d *Definition, _ *Node) { retry(d).After = 2 * time.Second },
		"require":     func(d *Definition, _ *Node) { each(d).Children[0].Require = 1 },
		"at once":     func(d *Definition, _ *Node) { each(d).Children[0].MaxConcurrent = 1 },
		"items":       func(d *Definition, _ *Node) { each(d).Items = "other" },
		"as":          func(d *Definition, _ *Node) { each(d).As = "y" },
		"index":       func(d *Definition, _ *Node) { each(d).Index = "" },
		"keep going":  func(d *Definition, _ *Node) { each(d).KeepGoing = true },
		"key":         func(d *Definition, _ *Node) { d.Keys = append(d.Keys, Key{Name: "o"}) },
		"type":        func(d *Definition, _ *Node) { d.Keys[1].Type = Map },
		"default":     func(d *Definition, _ *Node) { d.Keys[1].Default = 1 },
		"default 1.0": func(d *Definition, _ *Node) { d.Keys[1].Default = 1.0 },
		"global":      func(d *Definition, _ *Node) { d.Keys, d.Globals = d.Keys[1:], d.Keys[:1] },
		"sub's key":   func(d *Definition, _ *Node) { d.Subtrees[0].Keys = nil },
		"port": func(d *Definition,
			_ *Node) {
			d.Root.Children[1].Ports = map[string]string{"in": "m"}
		},
		"uses": func(d *Definition, _ *Node) { d.Root.Children[1].Uses = "alike" },
		"text": args("$n"), "reference": args(Ref{"n"}), "number": args(1),
		"float": args(1.0), "digit": args("1"), "nothing": args(nil),
		"empty list": args([]any{}), "list": args([]any{"a", "b"}), "joined": args([]any{"a,b"}),
		"nested": args([]any{Ref{"m"}}), "quote": args([]any{`a","b`}),
		"map": args(map[string]any{"k": Ref{"n"}}), "long": args(long + "1"),
		"longer": args(long + "2"),
	}
	seen := map[string]string{first: "nothing at all"}
	for name, change := range changes {
		shape := full(change)
		if other, twice := seen[shape]; twice {
			t.Errorf("%s and %s give the same shape", name, other)
		}
		seen[shape] = name
	}
	same := full(func(d *Definition, leaf *Node) {
		d.Name, d.Description, leaf.Description, leaf.At = "other", "for people", "for people",
			line(99)
		d.Subtrees = append(d.Subtrees, part("unused", 9, does(Success)))
	})
	if same != first {
		t.Error("what only people read changes the shape")
	}
}
