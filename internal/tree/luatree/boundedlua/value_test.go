package boundedlua

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/property"
)

func TestFromLua(t *testing.T) {
	for _, tc := range []struct {
		source string
		want   any
	}{
		{"nil", nil},
		{"true", true},
		{"1", int64(1)},
		{"-7", int64(-7)},
		{"1.5", 1.5},
		{"2^53", int64(1 << 53)},
		{"2^53 + 2", float64(1<<53 + 2)},
		{"-(2^53)", int64(-1 << 53)},
		{"1e300", 1e300},
		{"math.huge", math.Inf(1)},
		{"'x'", "x"},
		{"{}", []any{}},
		{"{1, 'a', {true}}", []any{int64(1), "a", []any{true}}},
		{"{a = 1, b = {c = {}}}", map[string]any{"a": int64(1), "b": map[string]any{"c": []any{}}}},
		{"(function() local t = {1}; return {t, t} end)()",
			[]any{[]any{int64(1)}, []any{int64(1)}}},
	} {
		s := New(Limits{})
		got, err := s.FromLua(mustLoad(t, s, "return "+tc.source))
		if err != nil {
			t.Errorf("%s: %v", tc.source, err)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: %s", tc.source, diff)
		}
	}
}

func TestFromLuaErrors(t *testing.T) {
	for _, tc := range []struct{ source, want string }{
		{"nil", ""},
		{"type", "a function cannot be kept on the blackboard"},
		{"{a = {1, type}}", "at .a[2]: a function cannot be kept on the blackboard"},
		{"{1, a = 2}", "at .a: the table is a list and has named fields too"},
		{"{x = {[true] = 1}}", "at .x[true]: a key must be a string, or a list's 1, 2, 3 …"},
		{"{[0] = 1}", "at [0]: a key must be a string, or a list's 1, 2, 3 …"},
		{"{[1.5] = 1}", "at [1.5]: a key must be a string, or a list's 1, 2, 3 …"},
		{"{1, nil, 3}", "at [2]: the list has a hole"},
		{"(function() local t = {}; t.a = {t}; return t end)()",
			"at .a[1]: the table contains itself"},
		{"(function() local t = {}; for i = 1, 60 do t = {t} end; return t end)()",
			"tables nested more than 50 deep"},
		{"(function() local t = {1}; for i = 1, 40 do t = {t, t} end; return t end)()",
			"value too large"},
	} {
		s := New(Limits{Memory: 1 << 20})
		_, err := s.FromLua(mustLoad(t, s, "return "+tc.source))
		got := ""
		if err != nil {
			got = err.Error()
		}
		if (tc.want == "") != (got == "") || !strings.HasSuffix(got, tc.want) {
			t.Errorf("%s: got %q, want %q", tc.source, got, tc.want)
		}
	}
}

// value draws a value that both a blackboard and Lua can represent.
func value(depth int) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		kinds := 4
		if depth > 0 {
			kinds = 6
		}
		switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
		case 0:
			return rapid.Bool().Draw(t, "bool")
		case 1:
			return rapid.Int64Range(-maxExact, maxExact).Draw(t, "int")
		case 2:
			return rapid.Float64Range(-1000, 1000).Draw(t, "float") + math.Pi*1e-3
		case 3:
			return rapid.String().Draw(t, "string")
		case 4:
			return rapid.SliceOfN(value(depth-1), 0, 4).Draw(t, "list")
		}
		m := rapid.MapOfN(rapid.String(), value(depth-1), 1, 4).Draw(t, "map")
		return m
	})
}

func TestValuesSurvive(t *testing.T) {
	s := New(Limits{})
	defer s.Close()
	property.Check(t, func(t *rapid.T) {
		v := value(3).Draw(t, "value")
		got, err := s.FromLua(s.ToLua(v))
		must.Succeed(t, err)
		if f, ok := v.(float64); ok && f == math.Trunc(f) {
			t.Skip("a whole number comes back as an int64")
		}
		if diff := cmp.Diff(v, got); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestToLuaCopies(t *testing.T) {
	s := New(Limits{})
	defer s.Close()
	fn := frozen(t, s, "return function(v) v.list[1] = 'changed'; v.more = true; return v end")
	v := map[string]any{"list": []any{"a", nil}}
	got, err := s.Call(t.Context(), fn, s.ToLua(v))
	if err != nil {
		t.Fatal(err)
	}
	if want := (map[string]any{"list": []any{"a", nil}}); !cmp.Equal(v, want) {
		t.Errorf("the original is %v", v)
	}
	back, _ := s.FromLua(got)
	if want := (map[string]any{"list": []any{"changed"}, "more": true}); !cmp.Equal(back, want) {
		t.Errorf("got %v", back)
	}
}
