package turnsignal

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseSignal(t *testing.T) {
	for _, test := range []struct {
		name string
		v    any
		want Signal
		ok   bool
	}{
		{name: "nothing"},
		{name: "a text", v: "need_turn"},
		{name: "a number", v: 3.5},
		{name: "a list", v: []any{values{"type": "stuck"}}},
		{name: "an empty map", v: values{}},
		{name: "a nil map", v: values(nil)},
		{name: "a type that is not a string", v: values{"type": int64(1)}},
		{name: "an empty type", v: values{"type": "", "confidence": 0.5}},
		{"only a type", values{"type": "stuck"}, Signal{Type: "stuck"}, true},
		{"all mistyped", values{"type": "stuck", "confidence": "1", "fields": []any{}, "raw_xml": 1,
			"timestamp": 2.5}, Signal{Type: "stuck"}, true},
		{"whole", values{"type": "stuck", "confidence": 0.25, "fields": values{"blocker": "b"},
			"raw_xml": "<signal/>", "timestamp": "now"},
			Signal{"stuck", 0.25, values{"blocker": "b"}, "<signal/>", "now"}, true},
		{"a whole number", values{"type": "stuck", "confidence": int64(1)},
			Signal{Type: "stuck", Confidence: 1}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, ok := ParseSignal(test.v)
			if diff := cmp.Diff(test.want, got); diff != "" || ok != test.ok {
				t.Errorf("ok %v, want %v; (-want +got)\n%s", ok, test.ok, diff)
			}
		})
	}
}

func TestReason(t *testing.T) {
	for _, test := range []struct {
		fields values
		want   string
	}{
		{nil, ""},
		{values{"reason": "r", "blocker": "b"}, "r"},
		{values{"reason": " \n", "blocker": "b", "missing": "m"}, "b"},
		{values{"missing": "m", "caveat": "c"}, "m"},
		{values{"caveat": "c"}, "c"},
		{values{"sources_found": int64(3)}, ""},
		{values{"reason": []any{"a", int64(1)}}, `["a",1]`},
	} {
		if got := (Signal{Fields: test.fields}).Reason(); got != test.want {
			t.Errorf("%v: got %q, want %q", test.fields, got, test.want)
		}
	}
}

func TestRepeats(t *testing.T) {
	heard := func(typ string,
		reason any) Signal {
		return Signal{Type: typ, Fields: values{"reason": reason}}
	}
	for _, test := range []struct {
		name string
		a, b Signal
		want bool
	}{
		{"same", heard("need_turn", "look"), heard("need_turn", "look"), true},
		{"case and white space", heard("need_turn", " Look\n\tAGAIN "),
			heard("need_turn", "look again"), true},
		{"letters beyond ASCII", heard("need_turn", "ÜBER Σ\u00a0x"),
			heard("need_turn", "über ς x"), true},
		{"another reason", heard("need_turn", "look"), heard("need_turn", "search"), false},
		{"white space parts words", heard("need_turn", "a b"), heard("need_turn", "ab"), false},
		{"another type", heard("stuck", "look"), heard("stuck", "look"), false},
		{"one of another type", heard("need_turn", "look"), heard("need_capability", "look"),
			false},
		{"no reason is the same as none", Signal{Type: "need_turn"}, heard("need_turn", " "), true},
		{"lists", heard("need_turn", []any{"A"}), heard("need_turn", []any{"a"}), true},
		{"other lists", heard("need_turn", []any{"a"}), heard("need_turn", []any{"b"}), false},
	} {
		if got := test.a.repeats(test.b); got != test.want {
			t.Errorf("%s: got %v", test.name, got)
		}
		if got := test.b.repeats(test.a); got != test.want {
			t.Errorf("%s, the other way: got %v", test.name, got)
		}
	}
}
