package turnsignal

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox"
	"signalbox/internal/tree"
	"signalbox/transcript"
)

const looking = `<signal type="need_turn"><reason>look again</reason><confidence>0.8</confidence></signal>`

func lookingValue() values {
	return values{"type": "need_turn", "confidence": 0.8, "fields": values{"reason": "look again"},
		"raw_xml": looking, "timestamp": "2026-03-01T12:00:00.000000005Z"}
}

// do calls an action, which must succeed.
func do(t interface{ Fatalf(string, ...any) }, b *tree.Board, name string, action tree.Func) {
	c := tree.NewCall(b, nil, noon)
	if got := action(c); got != tree.Success || c.Err() != "" {
		t.Fatalf("%s: %v %s", name, got, c.Err())
	}
}

// changes calls an action, which must succeed, on a board with values, and returns the changes.
func changes(t *testing.T, set values, name string, action tree.Func) []tree.Change {
	t.Helper()
	b := newBoard(t, set)
	before := b.Snapshot()
	do(t, b, name, action)
	return tree.Diff(before, b.Snapshot())
}

type actionTest struct {
	name string
	set  values
	want []tree.Change
}

func testAction(t *testing.T, action tree.Func, tests []actionTest) {
	t.Helper()
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, changes(t, test.set, test.name, action)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

var isParsed = tree.Change{Key: "_signal_parsed_this_turn", To: true}

// silent returns the changes of a turn without a signal.
func silent(remarks ...any) []tree.Change {
	var list []tree.Change
	if len(remarks) > 0 {
		list = []tree.Change{{Key: "_signal_diagnostics", To: remarks}}
	}
	return append(list, isParsed, tree.Change{Key: "turns_without_signal", From: int64(0),
		To: int64(1)})
}

func heardChanges(v values) []tree.Change {
	return []tree.Change{isParsed, {Key: "last_signal", To: v}}
}

func TestParseResponseSignal(t *testing.T) {
	said := func(text string) values { return values{"accumulated_content": text} }
	testAction(t, ParseResponseSignal, []actionTest{
		{"signal", said("I will.\n" + looking), heardChanges(lookingValue())},
		{"nothing said", nil, silent()},
		{"no signal", said("All done."), silent()},
		{"ends the turns without one",
			values{"accumulated_content": looking, "turns_without_signal": 7},
			append(heardChanges(lookingValue()), tree.Change{Key: "turns_without_signal",
				From: int64(7), To: int64(0)})},
		{"continues counting", values{"turns_without_signal": 7},
			[]tree.Change{isParsed, {Key: "turns_without_signal", From: int64(7), To: int64(8)}}},
		{"counts no further than it can", values{"turns_without_signal": math.MaxInt64},
			[]tree.Change{isParsed}},
		{"takes the old signal away", values{"last_signal": values{"type": "stuck"}},
			[]tree.Change{isParsed, {Key: "last_signal", From: values{"type": "stuck"}},
				{Key: "turns_without_signal", From: int64(0), To: int64(1)}}},
		{"parsed already", values{"accumulated_content": looking, "_signal_parsed_this_turn": true},
			nil},
		{"only true is parsed already",
			values{"accumulated_content": looking, "_signal_parsed_this_turn": "true"},
			[]tree.Change{{Key: "_signal_parsed_this_turn", From: "true", To: true},
				{Key: "last_signal", To: lookingValue()}}},
		{"may be counted and published", values{"accumulated_content": looking, counted: true,
			logged: true, diagnostics: []any{"old"}},
			[]tree.Change{{Key: counted, From: true}, {Key: diagnostics, From: []any{"old"}},
				{Key: logged, From: true}, isParsed, {Key: "last_signal", To: lookingValue()}}},
		{"fenced", said("```\n" + looking + "\n```"), silent("line 2: fenced: need_turn")},
		{"unknown type", said(`<signal type="bored"/>`),
			silent("line 1: unknown_type: bored: the types are " +
				"need_turn, context_sufficient, stuck, need_capability, partial_answer, delegation_recommended")},
		{"malformed", said("\n<signal type=\"stuck\">"),
			silent("line 2: malformed: the block is not closed by </signal>")},
		{"bad ones do not hide a good one", said("```\n" + looking + "\n```\n" + looking),
			append([]tree.Change{{Key: diagnostics, To: []any{"line 2: fenced: need_turn"}}},
				heardChanges(lookingValue())...)},
		{"first wins", said(looking + `<signal type="stuck"/>`),
			append([]tree.Change{{Key: diagnostics,
				To: []any{"line 1: superseded: stuck: only the first turn signal of a message counts"}}},
				heardChanges(lookingValue())...)},
		{"line signals are none", said("READY_FOR_REVIEW: t1\n**REVIEW_PASSED**: t1\n"), silent()},
		{"exit signals are none",
			said(`{"protocol": "apm2_agent_exit", "version": "1.0.0", "phase_completed": "IMPLEMENTATION", "exit_reason": "completed"}`),
			silent()},
		{"nor are bad ones", said(`{"protocol": "apm2_agent_exit"}`), silent()},
		{"a bad field", said(`<signal type="need_turn"/>`),
			append([]tree.Change{{Key: diagnostics,
				To: []any{"line 1: invalid_field: need_turn: reason must be text of 1 to 500 characters; it is missing"}}},
				heardChanges(values{"type": "need_turn", "confidence": 0.5, "fields": values{},
					"raw_xml":   `<signal type="need_turn"/>`,
					"timestamp": "2026-03-01T12:00:00.000000005Z"})...)},
	})
}

func TestParseReadsPlainText(t *testing.T) {
	// Two lines that format detection would take for an envelope.
	line := `{"type":"user","message":{"role":"user","content":"` +
		strings.ReplaceAll(looking, `"`, `'`) + `"},"session_id":"s"}` + "\n"
	b := newBoard(t, values{"accumulated_content": line + line})
	do(t, b, "parse", ParseResponseSignal)
	h, ok := last(tree.NewCall(b, nil, noon))
	if !ok || h.Reason() != "look again" {
		t.Errorf("got %+v", h)
	}
}

func TestParseKeepsFields(t *testing.T) {
	deep := strings.Repeat("[", 500) + strings.Repeat("]", 500)
	text := `<signal type="stuck"><attempted>["a", 2.5]</attempted><blocker>x &lt; y</blocker><expected_turns>4</expected_turns><deep>` + deep + `</deep></signal>`
	b := newBoard(t, values{"accumulated_content": text})
	do(t, b, "parse", ParseResponseSignal)
	do(t, b, "update", UpdateSignalState)
	got, _ := last(tree.NewCall(b, nil, noon))
	want := Signal{"stuck", 0.5, values{"attempted": []any{"a", 2.5}, "blocker": "x < y",
		"expected_turns": int64(4), "deep": deep},
		text, "2026-03-01T12:00:00.000000005Z"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestParseKeepsFewDiagnostics(t *testing.T) {
	b := newBoard(t, values{"accumulated_content": strings.Repeat(`<signal type="`+
		strings.Repeat("x", 1000)+`"/>`, 100)})
	do(t, b, "parse", ParseResponseSignal)
	list, _ := get(tree.NewCall(b, nil, noon), diagnostics).([]any)
	if len(list) != maxRemarks || len(list[0].(string)) > 300 {
		t.Errorf("%d diagnostics: %v", len(list), list)
	}
}

func TestDeeper(t *testing.T) {
	for _, test := range []struct {
		v     any
		depth int
		want  bool
	}{
		{"x", 0, false},
		{[]any{}, 0, false},
		{[]any{1}, 0, true},
		{[]any{1}, 1, false},
		{[]any{1, values{"a": []any{1}}}, 2, true},
		{[]any{1, values{"a": []any{1}}}, 3, false},
	} {
		if got := deeper(test.v, test.depth); got != test.want {
			t.Errorf("deeper(%v, %d) = %v", test.v, test.depth, got)
		}
	}
}

func TestUpdateSignalState(t *testing.T) {
	need := func(reason string) values { return values{"type": "need_turn", "fields": values{"reason": reason}} }
	stuck := values{"type": "stuck", "fields": values{"reason": "look"}}
	isCounted := tree.Change{Key: "_signal_counted_this_turn", To: true}
	added := func(from []any, v values) tree.Change {
		return tree.Change{Key: "signals_emitted", From: from,
			To: append(append([]any{}, from...), v)}
	}
	row := func(from, to int64) tree.Change {
		return tree.Change{Key: "consecutive_same_reason", From: from, To: to}
	}
	testAction(t, UpdateSignalState, []actionTest{
		{"no signal", values{"signals_emitted": []any{need("look")}, "consecutive_same_reason": 2},
			[]tree.Change{row(2, 0)}},
		{"no signal before", values{"signals_emitted": []any{need("look")}}, nil},
		{"first", values{"last_signal": need("look")},
			[]tree.Change{isCounted, row(0, 1), added([]any{}, need("look"))}},
		{"same reason", values{"last_signal": need("LOOK "), "signals_emitted": []any{need("look")},
			"consecutive_same_reason": 2},
			[]tree.Change{isCounted, row(2, 3), added([]any{need("look")}, need("LOOK "))}},
		{"other reason", values{"last_signal": need("search"),
			"signals_emitted": []any{need("look")}, "consecutive_same_reason": 2},
			[]tree.Change{isCounted, row(2, 1), added([]any{need("look")}, need("search"))}},
		{"another signal between",
			values{"last_signal": need("look"), "signals_emitted": []any{need("look"), stuck},
				"consecutive_same_reason": 2},
			[]tree.Change{isCounted, row(2, 1), added([]any{need("look"), stuck}, need("look"))}},
		{"only need_turn is compared", values{"last_signal": stuck, "signals_emitted": []any{stuck},
			"consecutive_same_reason": 2},
			[]tree.Change{isCounted, row(2, 1), added([]any{stuck}, stuck)}},
		{"counted already", values{"last_signal": need("look"),
			"signals_emitted": []any{need("look")}, counted: true}, nil},
		{"a list of other things",
			values{"last_signal": need("look"), "signals_emitted": []any{"look"}},
			[]tree.Change{isCounted, row(0, 1), added([]any{"look"}, need("look"))}},
		{"no list", values{"last_signal": need("look"), "signals_emitted": nil},
			[]tree.Change{isCounted, row(0, 1), {Key: "signals_emitted", To: []any{need("look")}}}},
		{"counts no further than it can",
			values{"last_signal": need("look"), "signals_emitted": []any{need("look")},
				"consecutive_same_reason": math.MaxInt64},
			[]tree.Change{isCounted, added([]any{need("look")}, need("look"))}},
	})
}

func emittedList(b *tree.Board) []any {
	list, _ := get(tree.NewCall(b, nil, noon), emitted).([]any)
	return list
}

func TestSignalsEmittedIsBounded(t *testing.T) {
	var full []any
	for i := range maxEmitted {
		full = append(full, values{"type": "stuck", "n": int64(i)})
	}
	newest := values{"type": "stuck", "n": int64(maxEmitted)}
	b := newBoard(t, values{"signals_emitted": full, "last_signal": newest})
	do(t, b, "update", UpdateSignalState)
	if diff := cmp.Diff(append(full[1:], newest), emittedList(b)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestSignalsEmittedFits(t *testing.T) {
	for _, test := range []struct {
		name      string
		old, each int // number and size of the old signals
		newest    int
		min, max  int // number of signals that are kept
	}{
		{"one goes for one", 65, 16000, 16000, 65, 65},
		{"many go for a large one", 900, 1000, 600_000, 300, 430},
		{"the newest remains", 10, 50_000, 1_040_000, 1, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			var old []any
			for range test.old {
				old = append(old, values{"type": "stuck",
					"raw_xml": strings.Repeat("x", test.each)})
			}
			newest := values{"type": "stuck", "raw_xml": strings.Repeat("y", test.newest)}
			b := newBoard(t, values{"signals_emitted": old, "last_signal": newest})
			do(t, b, "update", UpdateSignalState)
			list := emittedList(b)
			if len(list) < test.min || len(list) > test.max {
				t.Fatalf("%d remain, want %d to %d", len(list), test.min, test.max)
			}
			if diff := cmp.Diff(any(newest), list[len(list)-1]); diff != "" {
				t.Errorf("the newest: (-want +got)\n%s", diff)
			}
		})
	}
}

// fullBoard returns a board without room.
func fullBoard(t *testing.T, set values) *tree.Board {
	t.Helper()
	b := newBoard(t, set)
	for size := tree.MaxValue - 16; size > 0; size /= 2 {
		for n := 0; n < 20 && b.Set(fmt.Sprintf("_fill_%d_%d", size, n),
			strings.Repeat("x", size)) == nil; n++ {
		}
	}
	return b
}

func TestActionsFailOnAFullBoard(t *testing.T) {
	stuck := values{"type": "stuck", "raw_xml": strings.Repeat("x", 100)}
	for _, test := range []struct {
		name   string
		action tree.Func
		set    values
		key    string
	}{
		{"parse", ParseResponseSignal,
			values{"accumulated_content": looking, "last_signal": values{"type": "stuck"}},
			"last_signal"},
		{"update", UpdateSignalState, values{"last_signal": stuck}, "signals_emitted"},
		{"log", LogSignal, values{"last_signal": stuck}, "_signal_logged_this_turn"},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := fullBoard(t, test.set)
			c := tree.NewCall(b, nil, noon)
			if got := test.action(c); got != tree.Failure ||
				!strings.Contains(c.Err(), "'"+test.key+"'") {
				t.Errorf("%v %q, want a failure that names %s", got, c.Err(), test.key)
			}
			if _, heard := last(c); heard && test.name == "parse" {
				t.Error("the signal of an earlier turn is still there")
			}
		})
	}
}

func TestActionsWithoutABoard(t *testing.T) {
	for _, test := range []struct {
		name   string
		action tree.Func
		want   tree.Status
	}{
		{"parse", ParseResponseSignal, tree.Failure},
		{"update", UpdateSignalState, tree.Success},
		{"log", LogSignal, tree.Success},
		{"strip", StripSignalFromResponse, tree.Success},
		{"reset", ResetState, tree.Failure},
		{"noop", Noop, tree.Success},
	} {
		c := tree.NewCall(nil, nil, noon)
		if got := test.action(c); got != test.want ||
			(got == tree.Failure) != strings.Contains(c.Err(), "no blackboard") {
			t.Errorf("%s: %v %q, want %v", test.name, got, c.Err(), test.want)
		}
	}
	if NewTurn(tree.NewCall(nil, nil, noon)) == nil {
		t.Error("a turn began without a blackboard")
	}
}

func TestStripSignalFromResponse(t *testing.T) {
	becomes := func(from, to string) []tree.Change {
		return []tree.Change{{Key: "accumulated_content", From: from, To: to}}
	}
	var tests []actionTest
	for _, test := range []struct{ name, from, to string }{
		{"signal", "Yes.\n\n" + looking + "\n", "Yes."},
		{"only a signal", looking, ""},
		{"every signal", looking + "a" + looking + "b", "ab"},
		{"unknown type", `a<signal type="bored"/>b`, "ab"},
		{"joined by what was between", `<sig<signal type="stuck"/>nal type="stuck"/>`,
			`[signal type="stuck"/>`},
		{"a fence that moved", "<signal type=\"stuck\"/>```\n```\n<SIGNAL type=\"stuck\"/>\n```",
			"```\n```\n[SIGNAL type=\"stuck\"/>\n```"},
		{"not closed", `a <signal type="stuck"> b`, `a [signal type="stuck"> b`},
		{"no type", "<signal>x</signal>", "[signal>x[/signal>"},
		{"byte order mark", "\uFEFF```\n```\n<signal type=\"stuck\"/>", "\uFEFF```\n```"},
	} {
		tests = append(tests, actionTest{test.name, values{"accumulated_content": test.from},
			becomes(test.from, test.to)})
	}
	tests = append(tests,
		actionTest{"nothing said", nil, nil},
		actionTest{"no signal", values{"accumulated_content": "a < b, <signals>"}, nil},
		actionTest{"fenced", values{"accumulated_content": "```\n" + looking + "\n```"}, nil},
	)
	testAction(t, StripSignalFromResponse, tests)
}

func TestResetState(t *testing.T) {
	dirty := values{"last_signal": values{"type": "stuck"},
		"signals_emitted": []any{values{"type": "stuck"}}, "consecutive_same_reason": 3,
		"turns_without_signal": 2, Parsed: true, counted: true, logged: true,
		diagnostics: []any{"x"}, "accumulated_content": "kept"}
	b := newBoard(t, dirty)
	do(t, b, "reset", ResetState)
	want := newBoard(t, values{Parsed: false, "accumulated_content": "kept"}).Snapshot()
	if diff := cmp.Diff(want, b.Snapshot()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestNoop(t *testing.T) {
	testAction(t, Noop, []actionTest{{"nothing", values{"accumulated_content": looking}, nil}})
}

func TestNewTurn(t *testing.T) {
	testAction(t, func(c *tree.Call) tree.Status { return failed(c, NewTurn(c)) }, []actionTest{
		{"first", nil, []tree.Change{{Key: Parsed, To: false}}},
		{"next", values{"last_signal": values{"type": "stuck"}, Parsed: true, counted: true,
			logged: true, diagnostics: []any{"x"}},
			[]tree.Change{{Key: diagnostics, From: []any{"x"}},
				{Key: Parsed, From: true, To: false}}},
	})
}

func FuzzParseResponse(f *testing.F) {
	for _, seed := range []string{"", looking, "```\n" + looking + "\n```",
		`<sig<signal type="stuck"/>nal type="stuck"/>`,
		"\uFEFF```\n```\n<signal type='stuck'/>",
		"<signal type=\"stuck\"/>```\n```\n<signal type=\"stuck\"/>\n```",
		"---DELEGATION PROMPT START---\n" + looking + "\n---DELEGATION PROMPT END---\n",
		"\xff<signal type='need_turn'\xff>",
		`<signal type="stuck"><attempted>[[[[1]]]]</attempted></signal>`, "CHECKPOINT: t1\n" +
			looking} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		b := newBoard(t, nil)
		if b.Set("accumulated_content", text) != nil {
			return // too large for a value
		}
		text = get(tree.NewCall(b, nil, noon), content).(string)
		for _, name := range []string{"parse", "update", "log", "strip"} {
			do(t, b, name, map[string]tree.Func{"parse": ParseResponseSignal,
				"update": UpdateSignalState, "log": LogSignal,
				"strip": StripSignalFromResponse}[name])
		}
		c := tree.NewCall(b, nil, noon)
		for _, condition := range []tree.Func{CheckSignal, HasSignal, SignalTypeIs,
			SignalConfidenceAbove, ConsecutiveSameReasonGTE, TurnsWithoutSignalGTE} {
			if got := condition(c); !got.Done() {
				t.Errorf("a condition answers %v", got)
			}
		}
		h, heard := last(c)
		silentTurns, _ := get(c, withoutSignal).(int64)
		if heard != (silentTurns == 0) || heard != (len(emittedList(b)) == 1) {
			t.Errorf("heard %v, turns without signal %d, emitted %d", heard, silentTurns,
				len(emittedList(b)))
		}
		if known := signalbox.IsTurnType(h.Type); heard &&
			(!known || !strings.Contains(text, h.RawXML)) {
			t.Errorf("heard %+v in %q", h, text)
		}
		rest, _ := get(c, content).(string)
		if sig, _ := read(rest); sig != nil || rest != transcript.Content(text) {
			t.Errorf("%q becomes %q, in which a signal counts or which is not what was shown: %+v",
				text, rest, sig)
		}
	})
}

// A function of a tree may write anything to last_signal, but only turn signals are published.
func TestLogPublishesTurnSignalsOnly(t *testing.T) {
	for name, signal := range map[string]values{
		"unknown type":   {"type": "bored", "confidence": 0.5},
		"too confident":  {"type": "stuck", "confidence": 1.5},
		"less than none": {"type": "stuck", "confidence": -0.1},
	} {
		c := tree.NewCall(newBoard(t, values{"last_signal": signal}), nil, noon)
		if st := LogSignal(c); st != tree.Failure ||
			!strings.Contains(c.Err(), "not a turn signal") {
			t.Errorf("%s: %s, %q", name, st, c.Err())
		}
	}
	functions := &tree.Registry{}
	if Register(functions); !functions.Reserved(Topic) || functions.Reserved("said") {
		t.Error("the topic is not reserved, or all are")
	}
}
