package tree

import (
	"errors"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func mustBoard(t failer, keys ...Key) *Board {
	t.Helper()
	b, err := NewBoard(keys)
	if err != nil {
		t.Fatalf("new board: %v", err)
	}
	return b
}

func mustGet(t failer, b *Board, key string) any {
	t.Helper()
	v, err := b.Get(key)
	if err != nil {
		t.Fatalf("get %s: %v", key, err)
	}
	return v
}

// Keys that leaves see, named as in the snapshot.
func TestBoardScopes(t *testing.T) {
	write := func(key string, v any) *Node {
		return &Node{Kind: Action, Name: "write", Do: func(c *Call) Status {
			if err := c.Set(key, v); err != nil {
				return c.Fail("%v", err)
			}
			return Success
		}}
	}
	def := &Definition{Name: "scopes",
		Keys:    []Key{{Name: "own", Type: Int}, {Name: "same", Type: Int, Default: 1}},
		Globals: []Key{{Name: "world", Type: Int}},
		Subtrees: []*SubtreeDefinition{{Name: "part", Keys: []Key{{Name: "same", Type: String},
			{Name: "mine", Type: Int, Default: 4}}, Ports: []Key{{Name: "port", Type: Int}},
			Root: of(Sequence, write("same", "hidden"), write("port", 7), write("world", 8),
				write("_h", 9))}},
		Root: of(Sequence, write("same", 2),
			&Node{Kind: Subtree, Uses: "part", Ports: map[string]string{"port": "own"}},
			&Node{Kind: Subtree, Uses: "part", Name: "second",
				Ports: map[string]string{"port": "own"}})}
	r := mustRun(t, mustCompile(t, def, nil), &RunOptions{Globals: map[string]any{"world": 1},
		Inputs: map[string]any{"own": 3, "_h": "x"}})
	before := r.Board().Snapshot()
	wantStatus(t, r.Tick(epoch), Success)
	want := []Change{
		{Key: "_h", From: "x", To: int64(9)}, {Key: "own", From: int64(3), To: int64(7)},
		{Key: "same", From: int64(1), To: int64(2)},
		{Key: "sequence/part:same", From: nil, To: "hidden"},
		{Key: "sequence/second:same", From: nil, To: "hidden"},
		{Key: "world", From: int64(1), To: int64(8)},
	}
	if diff := cmp.Diff(want, Diff(before, r.Board().Snapshot())); diff != "" {
		t.Errorf("what changed (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]any{"world": int64(8)}, r.Board().Globals()); diff != "" {
		t.Errorf("globals (-want +got):\n%s", diff)
	}
	if _, err := r.Board().Get("mine"); !errors.Is(err, ErrUndeclared) {
		t.Errorf("a key of a subtree is seen outside: %v", err)
	}
}

func TestRunInputs(t *testing.T) {
	compiled := mustCompile(t, &Definition{Name: "x", Keys: []Key{{Name: "n", Type: Int}},
		Root: does(Success)}, nil)
	_, err := NewRun(compiled, &RunOptions{Inputs: map[string]any{"n": "text"}})
	wantError(t, err, "key 'n'", "an int")
	_, err = NewRun(compiled, &RunOptions{Globals: map[string]any{"other": 1}})
	wantError(t, err, "undeclared key 'other'")
}

// Arguments that a function sees, in a run and without one.
func TestCall(t *testing.T) {
	b := mustBoard(t, Key{Name: "n", Default: 5})
	c := NewCall(b, map[string]any{"plain": "x", "ref": Ref{"n"},
		"deep": []any{map[string]any{"in": Ref{"n"}}, Ref{"none"}}}, epoch)
	if c.Arg("plain") != "x" || c.Arg("ref") != int64(5) || c.Arg("absent") != nil ||
		!c.Now().Equal(epoch) {
		t.Errorf("arguments are %v %v %v at %v", c.Arg("plain"), c.Arg("ref"), c.Arg("absent"),
			c.Now())
	}
	want := map[string]any{"plain": "x", "ref": int64(5),
		"deep": []any{map[string]any{"in": int64(5)}, nil}}
	if diff := cmp.Diff(want, c.Args()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if st := c.Fail("no %s", "paper"); st != Failure || c.Err() != "no paper" {
		t.Errorf("%s %q", st, c.Err())
	}
	wantError(t, c.Emit("topic", math.NaN()), "'topic'")
	if err := c.Emit("topic", 1); err != nil {
		t.Error(err)
	}
	bare := NewCall(nil, nil, epoch)
	if v, err := bare.Get("n"); v != nil || err != nil {
		t.Errorf("without a board: %v, %v", v, err)
	}
	wantError(t, bare.Set("n", 1), "'n'", "no blackboard")
	if args := bare.Args(); len(args) != 0 || bare.Err() != "" {
		t.Errorf("arguments %v, error %q", args, bare.Err())
	}
}
