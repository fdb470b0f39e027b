package blackboard

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/property"
)

// failer is implemented by testing.TB and rapid.T.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

func wantError(t testing.TB, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("there is no error, want one with %q", parts)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error is %q, want %q in it", err, part)
		}
	}
}

func mustBoard(t failer, keys ...Key) *Board {
	t.Helper()
	b, err := New(keys)
	if err != nil {
		t.Fatalf("new board: %v", err)
	}
	return b
}

func mustSet(t failer, b *Board, key string, v any) {
	t.Helper()
	if err := b.Set(key, v); err != nil {
		t.Fatalf("set %s: %v", key, err)
	}
}

func mustGet(t failer, b *Board, key string) any {
	t.Helper()
	v, err := b.Get(key)
	if err != nil {
		t.Fatalf("get %s: %v", key, err)
	}
	return v
}

// Values of every kind for every type. A dash means an error, and = means that the value is
// unchanged.
func TestTypes(t *testing.T) {
	values := []any{nil, true, int64(3), 3.0, 3.5, 1e300, "text", []any{}, []any{int64(1)},
		map[string]any{}, map[string]any{"type": "stuck"},
		map[string]any{"type": int64(1)}}
	want := map[Type][]any{
		Any:    {"=", "=", "=", "=", "=", "=", "=", "=", "=", "=", "=", "="},
		Bool:   {"=", "=", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-"},
		Int:    {"=", "-", "=", int64(3), "-", "-", "-", "-", "-", "-", "-", "-"},
		Float:  {"=", "-", 3.0, "=", "=", "=", "-", "-", "-", "-", "-", "-"},
		String: {"=", "-", "-", "-", "-", "-", "=", "-", "-", "-", "-", "-"},
		List:   {"=", "-", "-", "-", "-", "-", "-", "=", "=", "-", "-", "-"},
		Map:    {"=", "-", "-", "-", "-", "-", "-", map[string]any{}, "-", "=", "=", "="},
		Signal: {"=", "-", "-", "-", "-", "-", "-", "-", "-", "-", "=", "-"},
	}
	for _, typ := range Types() {
		if len(want[typ]) != len(values) {
			t.Fatalf("%s: %d rows, want %d", typ, len(want[typ]), len(values))
		}
		if back, ok := ParseType(typ.String()); !ok || back != typ {
			t.Errorf("%s is read as %s, %t", typ, back, ok)
		}
		for i, v := range values {
			b := mustBoard(t, Key{Name: "key", Type: typ})
			err := b.Set("key", v)
			if want[typ][i] == "-" {
				if !errors.Is(err, ErrMistyped) || !strings.Contains(err.Error(), "key 'key'") ||
					!strings.Contains(err.Error(), typ.String()) {
					t.Errorf("%s takes %#v: %v", typ, v, err)
				}
				continue
			}
			kept := want[typ][i]
			if kept == "=" {
				kept = v
			}
			if got := mustGet(t, b, "key"); err != nil || !reflect.DeepEqual(got, kept) {
				t.Errorf("%s: %#v is kept as %#v (%v), want %#v", typ, v, got, err, kept)
			}
		}
	}
	if _, ok := ParseType("number"); ok || Type(99).String() != "unknown" {
		t.Error("there is a type that there is not")
	}
}

func TestBoardUndeclared(t *testing.T) {
	b := mustBoard(t, Key{Name: "key", Type: Int})
	for _, name := range []string{"other", "", "_ x", "Key", "key "} {
		if _, err := b.Get(name); !errors.Is(err, ErrUndeclared) ||
			!strings.Contains(err.Error(), "'"+name+"'") {
			t.Errorf("get %q: %v", name, err)
		}
		if err := b.Set(name, 1); !errors.Is(err, ErrUndeclared) ||
			!strings.Contains(err.Error(), "'"+name+"'") {
			t.Errorf("set %q: %v", name, err)
		}
	}
	for _, name := range []string{"last_signal", "signals_emitted", "consecutive_same_reason",
		"turns_without_signal", "llm_response", "tool_results"} {
		mustGet(t, b, name)
	}
	wantError(t, b.Set("turns_without_signal", "three"), "turns_without_signal", "an int",
		"a string")
}

func TestBoardDeclarations(t *testing.T) {
	for _, tt := range []struct {
		keys []Key
		want string
	}{
		{[]Key{{Name: "1x"}}, `"1x" is not a valid name for a key`},
		{[]Key{{Name: "ä"}}, "is not a valid name for a key"},
		{[]Key{{Name: strings.Repeat("x", 101)}}, "is not a valid name for a key"},
		{[]Key{{Name: "x", Type: Int}, {Name: "x", Type: Bool}},
			"key 'x' is declared twice, as an int and as a bool"},
		{[]Key{{Name: "last_signal", Type: Int}}, "key 'last_signal' is declared twice"},
		{[]Key{{Name: "x", Type: Int, Default: "text"}},
			"the default of key 'x' does not fit: it takes an int, not a string"},
		{[]Key{{Name: "x", Default: make(chan int)}}, "chan int cannot be stored on a blackboard"},
	} {
		_, err := New(tt.keys)
		wantError(t, err, tt.want)
	}
	b := mustBoard(t, Key{Name: "turns_without_signal", Type: Int, Default: 5},
		Key{Name: "a.b-c_9", Type: Float, Default: 1})
	if got := mustGet(t, b, "turns_without_signal"); got != int64(5) {
		t.Errorf("a default that is declared again is %v", got)
	}
	if got := mustGet(t, b, "a.b-c_9"); got != 1.0 {
		t.Errorf("the default is %#v, want a float", got)
	}
}

func TestBoardHidden(t *testing.T) {
	b := mustBoard(t)
	before := b.total
	if got := mustGet(t, b, "_x"); got != nil {
		t.Errorf("it is %v", got)
	}
	mustSet(t, b, "_x", "text")
	mustSet(t, b, "_x", 1)
	if got := mustGet(t, b, "_x"); got != int64(1) {
		t.Errorf("it is %v", got)
	}
	if got := b.Snapshot()["_x"]; got != int64(1) {
		t.Errorf("the snapshot has %v", got)
	}
	mustSet(t, b, "_x", nil)
	mustSet(t, b, "_never", nil)
	if _, there := b.Snapshot()["_x"]; there || b.total != before {
		t.Errorf("removed, it is there: %t, and %d bytes count, want %d", there, b.total, before)
	}
}

// Changing a value after it was set does not change the board.
func TestBoardIsolation(t *testing.T) {
	b := mustBoard(t, Key{Name: "list", Type: List}, Key{Name: "map", Type: Map})
	inner := map[string]any{"a": 1}
	list := []any{inner, []string{"x"}, 2, "bad \xff byte"}
	mustSet(t, b, "list", list)
	inner["a"], list[2] = 99, 99
	want := []any{map[string]any{"a": int64(1)}, []any{"x"}, int64(2), "bad \uFFFD byte"}
	if diff := cmp.Diff(want, mustGet(t, b, "list")); diff != "" {
		t.Errorf("the list (-want +got):\n%s", diff)
	}
	shot := b.Snapshot()
	delete(shot, "list")
	shot["map"] = "other"
	if mustGet(t, b, "list") == nil || mustGet(t, b, "map") != nil {
		t.Error("changing a snapshot changed the board")
	}
}

func TestValueLimits(t *testing.T) {
	b := mustBoard(t, Key{Name: "x"})
	fits := strings.Repeat("x", MaxValue-perElement)
	mustSet(t, b, "x", fits)
	wantError(t, b.Set("x", fits+"x"), "key 'x'", "larger than 1048576 bytes")
	wantError(t, b.Set("x", []any{fits}), "larger than")
	wantError(t, b.Set("x", map[string]any{fits: 1}), "larger than")
	wantError(t, b.Set("x", math.NaN()), "key 'x'", "not a finite number")
	wantError(t, b.Set("x", math.Inf(-1)), "not a finite number")
	wantError(t, b.Set("x", []any{struct{}{}}), "struct {} cannot be stored on a blackboard")
	nested := any("deep")
	for range maxNest {
		nested = []any{nested}
	}
	mustSet(t, b, "x", nested)
	wantError(t, b.Set("x", []any{nested}), "nested more than 50 deep")
	wantError(t, b.Set("x", map[string]any{"k": nested}), "nested more than 50 deep")
	loop := []any{nil}
	loop[0] = loop
	wantError(t, b.Set("x", loop), "nested")
	mustSet(t, b, "x", fits) // a value that was rejected uses no room
}

func TestBoardLimit(t *testing.T) {
	b := mustBoard(t, Key{Name: "x"})
	value, n := strings.Repeat("x", MaxValue-perElement), 0
	var err error
	for ; err == nil; n++ {
		err = b.Set(fmt.Sprintf("_%d", n), value)
	}
	if !errors.Is(err, ErrMistyped) ||
		!strings.Contains(err.Error(), fmt.Sprintf("key '_%d'", n-1)) || n != MaxBoard/MaxValue {
		t.Errorf("value %d is the first that is refused: %v", n, err)
	}
	if v := mustGet(t, b, fmt.Sprintf("_%d", n-1)); v != nil {
		t.Error("the refused value is there")
	}
	wantError(t, b.Set("x", value), "the blackboard would be larger than")
	mustSet(t, b, "_0", nil)
	mustSet(t, b, "x", value)
}

// drawValue draws a value that a leaf may write.
func drawValue(t *rapid.T, nest int) any {
	kinds := 9
	if nest == 0 {
		kinds = 7
	}
	switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
	case 0:
		return nil
	case 1:
		return rapid.Bool().Draw(t, "bool")
	case 2:
		return rapid.Int64().Draw(t, "int64")
	case 3:
		return rapid.Int().Draw(t, "int")
	case 4:
		return rapid.Float64Range(-math.MaxFloat64, math.MaxFloat64).Draw(t, "float")
	case 5:
		return rapid.SampledFrom([]any{1.0, 0.0, math.Copysign(0, -1), 1e21, 1e20, 5e-324,
			math.MaxFloat64, int64(math.MinInt64), int64(math.MaxInt64), 1 << 53, 1e-7}).Draw(t,
			"edge")
	case 6:
		return rapid.OneOf(rapid.String(),
			rapid.Map(rapid.SliceOf(rapid.Byte()),
				func(b []byte) string { return string(b) })).Draw(t, "text")
	case 7:
		list := make([]any, rapid.IntRange(0, 3).Draw(t, "length"))
		for i := range list {
			list[i] = drawValue(t, nest-1)
		}
		return list
	}
	fields := map[string]any{}
	for range rapid.IntRange(0, 3).Draw(t, "length") {
		fields[rapid.String().Draw(t, "key")] = drawValue(t, nest-1)
	}
	return fields
}

// Formatting and parsing a value gives its normal form with the same types.
func TestValueRoundTrip(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		kept, size, err := normal(drawValue(t, 3), 0)
		must.Succeed(t, err)
		text := Format(kept)
		back, err := Parse(text)
		if err != nil || !reflect.DeepEqual(kept, back) {
			t.Fatalf("%#v is written %s and read %#v (%v)", kept, text, back, err)
		}
		if f, ok := kept.(float64); ok && math.Signbit(f) != math.Signbit(back.(float64)) {
			t.Fatalf("the sign of %s is lost", text)
		}
		if again := Format(back); again != text {
			t.Fatalf("%s is written again as %s", text, again)
		}
		if size != Size(kept) {
			t.Fatalf("%s counts %d when it is set, and %d later", text, size, Size(kept))
		}
	})
}

func TestParse(t *testing.T) {
	for text, want := range map[string]any{
		"1": int64(1), "1.0": 1.0, "1e3": 1000.0, "1E3": 1000.0, "-0": int64(0),
		"9223372036854775807":  int64(math.MaxInt64),
		"9223372036854775808":  float64(1 << 63),
		` {"a":[1,2.0,null]} `: map[string]any{"a": []any{int64(1), 2.0, nil}},
	} {
		if got, err := Parse(text); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s is read as %#v (%v), want %#v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "1 2", "1]", "1}", "{}{}", "nul", "1e999", "[1e999]",
		`{"a":1e999}`, "[1", "NaN"} {
		if got, err := Parse(text); err == nil {
			t.Errorf("%q is read as %#v", text, got)
		}
	}
	if got := Format(make(chan int)); got != "null" {
		t.Errorf("what cannot be written is %s", got)
	}
}

// The size of a board is always the sum of the sizes of its values.
func TestBoardAccounting(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		b := mustBoard(t, Key{Name: "any"}, Key{Name: "int", Type: Int, Default: 1},
			Key{Name: "map", Type: Map, Default: map[string]any{"a": 1}})
		names := []string{"any", "int", "map", "_a", "_b", "unknown", "tool_results"}
		for range rapid.IntRange(1, 30).Draw(t, "writes") {
			name, v := rapid.SampledFrom(names).Draw(t, "name"), drawValue(t, 2)
			before := b.Snapshot()
			err := b.Set(name, v)
			if changes := Diff(before, b.Snapshot()); err != nil && len(changes) > 0 {
				t.Fatalf("a refused write changed %v", changes)
			}
			if rapid.IntRange(0, 9).Draw(t, "reset") == 0 {
				b.Reset(0, Slot(len(b.values)))
			}
			if want := boardSize(b); b.total != want {
				t.Fatalf("it counts %d bytes, and has %d", b.total, want)
			}
		}
	})
}

func TestDiff(t *testing.T) {
	from := map[string]any{"same": []any{int64(1)}, "gone": int64(1), "other": int64(1)}
	to := map[string]any{"same": []any{int64(1)}, "new": "x", "other": 1.0}
	want := []Change{{"gone", int64(1), nil}, {"new", nil, "x"}, {"other", int64(1), 1.0}}
	if diff := cmp.Diff(want, Diff(from, to)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := Diff(from, from); got != nil {
		t.Errorf("nothing changed, and there is %v", got)
	}
}

// boardSize computes the size of a board.
func boardSize(b *Board) (size int) {
	for _, v := range b.values {
		size += Size(v)
	}
	for key, v := range b.hidden {
		size += len(key) + Size(v)
	}
	return size
}

// TestExtend: extending a list is the same as setting it, as long as both succeed or fail.
func TestExtend(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		key := rapid.SampledFrom([]string{"list", "any", "_hidden"}).Draw(t, "key")
		keys := []Key{{Name: "list", Type: List}, {Name: "any"}, {Name: "other"}}
		set, extended := mustBoard(t, keys...), mustBoard(t, keys...)
		items := rapid.SliceOfN(rapid.SampledFrom([]any{nil, true, int64(3), 2.5, "text",
			[]any{"a", int64(1)}, map[string]any{"k": "v"}, strings.Repeat("x", MaxValue/3),
			func() {}}), 1, 6)
		start := []any{"first", int64(2), "third"}
		mustSet(t, set, key, start)
		mustSet(t, extended, key, start)
		for _, item := range items.Draw(t, "items") {
			before, _ := mustGet(t, set, key).([]any)
			kept := rapid.IntRange(1, len(before)).Draw(t, "kept")
			list, size, err := extended.ExtendIn(TreeScope, key, kept, item)
			setErr := set.Set(key, append(append([]any{}, before[len(before)-kept:]...), item))
			if (err == nil) != (setErr == nil) {
				t.Fatalf("extend: %v, set: %v", err, setErr)
			}
			want := mustGet(t, set, key)
			if diff := cmp.Diff(want, mustGet(t, extended, key)); diff != "" ||
				set.Size() != extended.Size() {
				t.Fatalf("size %d, want %d (-want +got):\n%s", extended.Size(), set.Size(), diff)
			}
			if err == nil && (size != Size(want) || !reflect.DeepEqual(want, any(list))) {
				t.Fatalf("returned %v of size %d, want size %d", list, size, Size(want))
			}
		}
		if _, _, err := extended.ExtendIn(TreeScope, key, 100, 1); !errors.Is(err, ErrMistyped) {
			t.Fatalf("keep more than there is: %v", err)
		}
		if _, _, err := extended.ExtendIn(TreeScope, "none", 1, 1); !errors.Is(err, ErrUndeclared) {
			t.Fatalf("an undeclared key: %v", err)
		}
	})
}
