package tree

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
)

// FuzzParseRecord: no line makes the parser or a replay panic, and what is replayed is recorded again as it was read.
func FuzzParseRecord(f *testing.F) {
	lines, _ := story(f)
	for _, line := range lines {
		f.Add(line)
	}
	f.Add([]byte(`{"tick":1,"at":9223372036854775807,"status":"RUNNING","visits":"2R1R0R","wakes":[[2,9223372036854775807]],"jobs":[[2,null]]}`))
	compiled := storyTree(f)
	f.Fuzz(func(t *testing.T, line []byte) {
		rec, err := ParseRecord(line)
		if err != nil {
			return
		}
		r, err := NewReplay(compiled, &RunOptions{Inputs: map[string]any{"list": []any{1}}})
		if err != nil {
			t.Fatal(err)
		}
		if r.Replay(rec) != nil {
			return
		}
		again, err := ParseRecord(append(r.AppendRecord(nil), '}'))
		if err != nil || !reflect.DeepEqual(again.visits, rec.visits) || again.Status != rec.Status || again.At != rec.At {
			t.Fatalf("%s is recorded again as %+v (%v)", line, again, err)
		}
		if err := r.GoOn(&RunOptions{}); err != nil {
			t.Fatal(err)
		}
		for range 5 {
			r.Tick(epoch)
		}
	})
}

// hostileTree has a node of every kind that remembers something.
func hostileTree(t failer) *Tree {
	t.Helper()
	set := func(kind Kind, change func(*Node), child *Node) *Node { return of(kind, child).with(change) }
	each := set(ForEach, func(n *Node) { n.Items, n.As, n.Index = "list", "x", "i" }, of(Selector, does(Failure), does(Running)))
	again := set(Repeat, func(n *Node) { n.Times = 3 }, set(Retry, func(n *Node) { n.Times, n.After = 3, 1 }, does(Failure)))
	timed := set(Timeout, func(n *Node) { n.After = 1 }, set(Cooldown, func(n *Node) { n.After = 1 }, &Node{Kind: Wait, After: 5}))
	def := &Definition{Name: "hostile", Keys: []Key{{Name: "list", Type: List, Default: []any{1, 2}}},
		Subtrees: []*SubtreeDefinition{{Name: "part", Keys: []Key{{Name: "k", Type: Int}}, Root: of(ReactiveSelector, does(Failure), job("j"))}},
		Root:     of(Parallel, of(Sequence, does(Success), each), again, timed, &Node{Kind: Subtree, Uses: "part"}, of(Guard, asks(Success), does(Running)))}
	def.Root.MaxConcurrent = 4
	return mustCompile(t, def, functions())
}

// disturb changes what a saved run says about its nodes: each three bytes name a node, one of its numbers, and a number.
func disturb(text, how []byte) []byte {
	var s saved
	if len(how) < 3 || json.Unmarshal(text, &s) != nil || len(s.Nodes) == 0 {
		return text
	}
	edges := []int64{0, 1, 2, 3, 4, -1, 1<<31 - 1, -1 << 31, 1<<63 - 1, -1 << 63, epoch.UnixNano()}
	for ; len(how) >= 3; how = how[3:] {
		v := int64(how[2])
		if int(how[2]) < len(edges) {
			v = edges[how[2]]
		}
		s.Nodes[int(how[0])%len(s.Nodes)][how[1]%7] = v
	}
	text, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return text
}

// FuzzRestore: whatever is restored can be ticked, saved and halted without a panic.
func FuzzRestore(f *testing.F) {
	compiled := hostileTree(f)
	o := &RunOptions{Record: true, Observe: true}
	r := mustRun(f, compiled, o)
	for i := range 6 {
		text := r.Save()
		f.Add(text, []byte{1, 2, 5, 2, 2, 1})
		f.Add(bytes.ReplaceAll(text, []byte("[3,"), []byte("[2,")), []byte{})
		f.Add(bytes.ReplaceAll(text, []byte("null"), []byte(`"x"`)), []byte{9, 3, 6})
		for n := range byte(compiled.Len()) {
			f.Add(text, []byte{n, 0, 3})
			f.Add(text, []byte{n, 2, 5, n, 0, 3})
			f.Add(text, []byte{n, 2, n, n, 0, 3, n, 3, 6, n, 6, 9})
			f.Add(text, []byte{n, 0, 99})
		}
		r.Tick(epoch.Add(1))
		if i == 3 {
			r.Halt()
		}
	}
	f.Fuzz(func(t *testing.T, text, how []byte) {
		r, err := Restore(compiled, disturb(text, how), o)
		if err != nil {
			return
		}
		for range 5 {
			r.Tick(epoch.Add(2))
			r.Views()
			for _, s := range r.Pending() {
				r.Finish(s, Result{Status: Success})
			}
			if _, err := ParseRecord(append(r.AppendRecord(nil), '}')); err != nil {
				t.Fatalf("the tick is recorded as %s: %v", r.AppendRecord(nil), err)
			}
		}
		if _, err := Restore(compiled, r.Save(), o); err != nil {
			t.Fatalf("restored and saved it cannot be restored: %v", err)
		}
		r.Halt()
	})
}
