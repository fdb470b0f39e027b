package blackboard

import (
	"strings"
	"testing"

	"signalbox/internal/testkit/must"
)

func mustDeclare(t *testing.T, l *Layout, in Scope, key Key, path string, global bool) Slot {
	t.Helper()
	slot, err := l.Declare(in, key, path, global)
	if err != nil {
		t.Fatalf("declare %s: %v", key.Name, err)
	}
	return slot
}

// The path of the key that is found for each name in each scope.
func TestLookup(t *testing.T) {
	l := NewLayout()
	mustDeclare(t, l, TreeScope, Key{Name: "a"}, "", false)
	mustDeclare(t, l, TreeScope, Key{Name: "g"}, "", true)
	part := l.Open(TreeScope)
	mustDeclare(t, l, part, Key{Name: "a"}, "part", false)
	inner := mustDeclare(t, l, part, Key{Name: "b"}, "part", false)
	each := l.Open(part)
	mustDeclare(t, l, each, Key{Name: "x"}, "each", false)
	other := l.Open(TreeScope)
	l.Alias(other, "port", inner)
	l.Alias(other, "g", inner)
	for _, tt := range []struct {
		in         Scope
		name, want string
	}{
		{TreeScope, "a", "a"}, {TreeScope, "g", "g"}, {TreeScope, "b", ""}, {TreeScope, "x", ""},
		{TreeScope, "tool_results", "tool_results"},
		{part, "a", "part:a"}, {part, "b", "part:b"}, {part, "g", "g"}, {part, "x", ""},
		{each, "a", "part:a"}, {each, "x", "each:x"}, {each, "tool_results", "tool_results"},
		{each, "port", ""},
		{other, "a", "a"}, {other, "port", "part:b"}, {other, "g", "part:b"}, {other, "b", ""},
	} {
		got := ""
		if slot, ok := l.Lookup(tt.in, tt.name); ok {
			got = l.declared[slot].full()
		}
		if got != tt.want {
			t.Errorf("scope %d sees %q as %q, want %q", tt.in, tt.name, got, tt.want)
		}
	}
	b := l.Board()
	if _, err := b.SetIn(other, "port", 5); err != nil {
		t.Fatal(err)
	}
	if v, err := b.GetIn(each, "b"); v != int64(5) || err != nil || b.Value(inner) != int64(5) ||
		l.Type(inner) != Any {
		t.Errorf("what was set by another name is %v (%v)", v, err)
	}
}

// Keys that are declared twice.
func TestDeclareAgain(t *testing.T) {
	for name, tt := range map[string]struct {
		first, second Key
		globals       [2]bool
		err           string
		value         any
	}{
		"default": {first: Key{Name: "x", Default: 1}, second: Key{Name: "x", Default: 2},
			value: int64(2)},
		"no default": {first: Key{Name: "x", Default: 1}, second: Key{Name: "x"}, value: int64(1)},
		"type": {first: Key{Name: "x", Type: Int}, second: Key{Name: "x", Type: List},
			err: "key 'x' is declared twice, as an int and as a list"},
		"built in": {first: Key{Name: "turns_without_signal", Type: Int, Default: 3},
			second: Key{Name: "turns_without_signal", Type: Int}, value: int64(3)},
		"both": {first: Key{Name: "x"}, second: Key{Name: "x"},
			globals: [2]bool{true, false},
			err:     "key 'x' is declared twice, in blackboard and in globals"},
		"other order": {first: Key{Name: "x"}, second: Key{Name: "x"},
			globals: [2]bool{false, true},
			err:     "key 'x' is declared twice, in blackboard and in globals"},
		"globals": {first: Key{Name: "llm_response", Type: String},
			second:  Key{Name: "llm_response", Type: String, Default: "x"},
			globals: [2]bool{true, true}, value: "x"},
	} {
		l := NewLayout()
		slot := mustDeclare(t, l, TreeScope, tt.first, "", tt.globals[0])
		again, err := l.Declare(TreeScope, tt.second, "", tt.globals[1])
		if tt.err != "" {
			wantError(t, err, tt.err)
			continue
		}
		b := l.Board()
		if err != nil || again != slot || b.Value(slot) != tt.value {
			t.Errorf("%s: slot %d and %d, value %v (%v)", name, slot, again, b.Value(slot), err)
		}
		if _, global := b.Globals()[tt.first.Name]; global != tt.globals[1] {
			t.Errorf("%s: it is global: %t", name, global)
		}
	}
}

// Adding to a clone does not change the original.
func TestClone(t *testing.T) {
	l := NewLayout()
	mustDeclare(t, l, TreeScope, Key{Name: "a"}, "", false)
	before := described(t, l)
	c := l.Clone()
	if described(t, c) != before {
		t.Error("the clone differs")
	}
	mustDeclare(t, c, TreeScope, Key{Name: "b"}, "", false)
	mustDeclare(t, c, TreeScope, Key{Name: "a", Default: 1}, "", false)
	c.Open(TreeScope)
	if _, seen := l.Lookup(TreeScope, "b"); seen || described(t, l) != before {
		t.Errorf("the layout is now\n%s", described(t, l))
	}
}

func described(t *testing.T, l *Layout) string {
	t.Helper()
	var text strings.Builder
	must.Succeed(t, l.Describe(&text))
	return text.String()
}

// Layouts that differ have different descriptions.
func TestDescribe(t *testing.T) {
	seen := map[string]string{}
	for name, declare := range map[string]func(*Layout) (Slot, error){
		"key": func(l *Layout) (Slot,
			error) {
			return l.Declare(TreeScope, Key{Name: "x"}, "", false)
		},
		"name": func(l *Layout) (Slot,
			error) {
			return l.Declare(TreeScope, Key{Name: "y"}, "", false)
		},
		"type": func(l *Layout) (Slot,
			error) {
			return l.Declare(TreeScope, Key{Name: "x", Type: Int}, "", false)
		},
		"default": func(l *Layout) (Slot,
			error) {
			return l.Declare(TreeScope, Key{Name: "x", Default: 1}, "", false)
		},
		"float": func(l *Layout) (Slot,
			error) {
			return l.Declare(TreeScope, Key{Name: "x", Default: 1.0}, "", false)
		},
		"global": func(l *Layout) (Slot,
			error) {
			return l.Declare(TreeScope, Key{Name: "x"}, "", true)
		},
		"path": func(l *Layout) (Slot,
			error) {
			return l.Declare(TreeScope, Key{Name: "x"}, "part", false)
		},
		"scope": func(l *Layout) (Slot,
			error) {
			return l.Declare(l.Open(TreeScope), Key{Name: "x"}, "", false)
		},
	} {
		l := NewLayout()
		if _, err := declare(l); err != nil {
			t.Fatal(err)
		}
		text := described(t, l)
		if other, twice := seen[text]; twice {
			t.Errorf("%s and %s are described the same", name, other)
		}
		seen[text] = name
	}
}
