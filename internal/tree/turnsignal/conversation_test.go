package turnsignal_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"signalbox/internal/testkit/must"
	"signalbox/internal/testkit/property"
	"signalbox/internal/tree"
	"signalbox/internal/tree/turnsignal"
)

// conversation is a run of a tree that takes a reply in each tick, runs the named actions, and
// collects the published values.
type conversation struct {
	run   *tree.Run
	reply string
	now   time.Time
	heard []turnsignal.Signal
}

func functions() *tree.Registry {
	var r tree.Registry
	turnsignal.Register(&r)
	return &r
}

var inOrder = []string{"parse_response_signal", "update_signal_state", "log_signal", "strip_signal_from_response"}

func converse(t must.Test, names ...string) *conversation {
	conv := &conversation{now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	model := func(c *tree.Call) tree.Status {
		if err := turnsignal.NewTurn(c); err != nil {
			return c.Fail("%v", err)
		}
		if err := c.Set("accumulated_content", conv.reply); err != nil {
			return c.Fail("%v", err)
		}
		return tree.Success
	}
	root := &tree.Node{Kind: tree.Sequence,
		Children: []*tree.Node{{Kind: tree.Action, Name: "model", Do: model}}}
	for _, name := range names {
		root.Children = append(root.Children, &tree.Node{Kind: tree.Action, Fn: name})
	}
	compiled, err := tree.Compile(&tree.Definition{Name: "conversation", Root: root}, functions())
	must.Succeed(t, err)
	if conv.run, err = tree.NewRun(compiled, &tree.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	return conv
}

func (conv *conversation) say(t must.Test, reply string) {
	conv.reply = reply
	conv.now = conv.now.Add(time.Second)
	if got := conv.run.Tick(conv.now); got != tree.Success {
		t.Fatal(fmt.Sprintf("the tick answers %v", got))
	}
	for _, e := range conv.run.Emitted() {
		h, ok := turnsignal.ParseSignal(e.Value)
		if !ok || e.Topic != turnsignal.Topic {
			t.Fatal(fmt.Sprintf("published %+v", e))
		}
		conv.heard = append(conv.heard, h)
	}
}

func (conv *conversation) get(t must.Test, key string) any {
	v, err := conv.run.Board().Get(key)
	must.Succeed(t, err)
	return v
}

func need(reason string) string {
	return "Text.\n<signal type=\"need_turn\"><reason>" + reason + "</reason></signal>\n"
}

const stuck = `<signal type="stuck"><attempted>["a"]</attempted><blocker>look</blocker></signal>`

func TestConversation(t *testing.T) {
	conv := converse(t, inOrder...)
	for i, turn := range []struct {
		reply   string
		typ     string // type of last_signal, "" if it is absent
		same    int64
		without int64
		emitted int
		text    string
	}{
		{"Hello.", "", 0, 1, 0, "Hello."},
		{"Hm.", "", 0, 2, 0, "Hm."},
		{need("look"), "need_turn", 1, 0, 1, "Text."},
		{need(" LOOK\n"), "need_turn", 2, 0, 2, "Text."},
		{"Silence ends the row.", "", 0, 1, 2, "Silence ends the row."},
		{need("Look"), "need_turn", 1, 0, 3, "Text."},
		{stuck, "stuck", 1, 0, 4, ""},
		{need("look"), "need_turn", 1, 0, 5, "Text."},
		{need("look") + stuck, "need_turn", 2, 0, 6, "Text."},
		{need("search"), "need_turn", 1, 0, 7, "Text."},
	} {
		conv.say(t, turn.reply)
		h, _ := turnsignal.ParseSignal(conv.get(t, "last_signal"))
		list, _ := conv.get(t, "signals_emitted").([]any)
		got := []any{h.Type, conv.get(t, "consecutive_same_reason"),
			conv.get(t, "turns_without_signal"), len(list),
			len(conv.heard), strings.TrimSpace(conv.get(t, "accumulated_content").(string))}
		want := []any{turn.typ, turn.same, turn.without, turn.emitted, turn.emitted, turn.text}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("turn %d (-want +got)\n%s", i+1, diff)
		}
	}
	first := turnsignal.Signal{Type: "need_turn", Confidence: 0.5,
		Fields:    map[string]any{"reason": "look"},
		RawXML:    strings.TrimSpace(strings.TrimPrefix(need("look"), "Text.")),
		Timestamp: "2026-03-01T12:00:03Z"}
	if diff := cmp.Diff(first, conv.heard[0]); diff != "" {
		t.Errorf("published first (-want +got)\n%s", diff)
	}
}

func TestActionsRunOncePerTurn(t *testing.T) {
	twice := converse(t, slices.Concat(inOrder, inOrder, inOrder[1:])...)
	for _, reply := range []string{need("look"), need("look"), "Hm."} {
		twice.say(t, reply)
	}
	list, _ := twice.get(t, "signals_emitted").([]any)
	got := []any{len(list), len(twice.heard), twice.get(t, "consecutive_same_reason"),
		twice.get(t, "turns_without_signal")}
	if diff := cmp.Diff([]any{2, 2, int64(0), int64(1)}, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// In a turn that is not parsed, the signal of the previous turn is neither counted nor published
// again.
func TestOldSignalIsNotCountedAgain(t *testing.T) {
	conv := converse(t, inOrder...)
	conv.say(t, need("look"))
	lazy := converse(t, inOrder[1:]...)
	for _, key := range []string{"last_signal", "signals_emitted", "_signal_counted_this_turn",
		"_signal_logged_this_turn"} {
		must.Succeed(t, lazy.run.Board().Set(key, conv.get(t, key)))
	}
	lazy.say(t, need("look"))
	if list, _ := lazy.get(t, "signals_emitted").([]any); len(list) != 1 || len(lazy.heard) != 0 {
		t.Errorf("%d emitted, %d published", len(list), len(lazy.heard))
	}
}

// The counters equal those of a simple model.
func TestCountersInRandomConversations(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		conv := converse(t, inOrder...)
		previous, same, without, emitted := "", int64(0), int64(0), 0
		for range rapid.IntRange(1, 30).Draw(t, "turns") {
			kind := rapid.SampledFrom([]string{"need", "need", "need", "stuck", "silent", "fenced",
				"unknown"}).Draw(t, "kind")
			reason := rapid.SampledFrom([]string{"a b", "c", ""}).Draw(t, "reason")
			spelt := strings.ReplaceAll(reason, " ",
				rapid.SampledFrom([]string{" ", "\n", " \t "}).Draw(t, "space"))
			if rapid.Bool().Draw(t, "upper") {
				spelt = strings.ToUpper(spelt)
			}
			reply := map[string]string{"need": need(spelt), "stuck": stuck, "silent": "Hm.", "fenced": "```\n" + need(spelt) + "```\n",
				"unknown": `<signal type="bored"/>`}[kind]
			conv.say(t, reply)
			switch {
			case kind == "need" && previous == "need "+reason:
				same, without, emitted = same+1, 0, emitted+1
			case kind == "need":
				previous, same, without, emitted = "need "+reason, 1, 0, emitted+1
			case kind == "stuck":
				previous, same, without, emitted = "stuck", 1, 0, emitted+1
			default:
				same = 0
				without++
			}
			list, _ := conv.get(t, "signals_emitted").([]any)
			got := []any{conv.get(t, "consecutive_same_reason"),
				conv.get(t, "turns_without_signal"), len(list), len(conv.heard)}
			if diff := cmp.Diff([]any{same, without, emitted, emitted}, got); diff != "" {
				t.Fatalf("after %q (-want +got)\n%s", reply, diff)
			}
		}
	})
}

// A subtree may declare these keys itself with any types, which must not break anything.
func TestKeysOfOtherTypes(t *testing.T) {
	functions := functions()
	args := map[string]map[string]any{"signal_type_is": {"expected_type": "x"},
		"signal_confidence_above":     {"threshold": 0.0},
		"consecutive_same_reason_gte": {"count": int64(0)},
		"turns_without_signal_gte":    {"count": int64(0)}}
	body := &tree.Node{Kind: tree.Parallel, Require: 1}
	for _, name := range functions.Names(tree.Condition) {
		body.Children = append(body.Children, &tree.Node{Kind: tree.Condition, Fn: name,
			Args: args[name]})
	}
	for _, v := range []any{nil, true, 3.5, "x", []any{"type"}, map[string]any{"type": int64(1)}} {
		var keys []tree.Key
		for _, name := range []string{"last_signal", "consecutive_same_reason",
			"turns_without_signal", "signals_emitted", "accumulated_content"} {
			keys = append(keys, tree.Key{Name: name, Default: v})
		}
		if got := inSubtree(t, functions, keys, body); got != tree.Failure {
			t.Errorf("%v: a condition holds", v)
		}
		actions := &tree.Node{Kind: tree.Sequence}
		for _, name := range inOrder {
			actions.Children = append(actions.Children, &tree.Node{Kind: tree.Action, Fn: name})
		}
		if got := inSubtree(t, functions, keys, actions); got != tree.Success {
			t.Errorf("%v: the actions answer %v", v, got)
		}
	}
}

func inSubtree(t *testing.T, functions *tree.Registry, keys []tree.Key,
	body *tree.Node) tree.Status {
	t.Helper()
	compiled, err := tree.Compile(&tree.Definition{Name: "main",
		Root:     &tree.Node{Kind: tree.Subtree, Uses: "sub"},
		Subtrees: []*tree.SubtreeDefinition{{Name: "sub", Keys: keys, Root: body}}}, functions)
	must.Succeed(t, err)
	run, err := tree.NewRun(compiled, &tree.RunOptions{})
	must.Succeed(t, err)
	status := run.Tick(time.Unix(0, 0))
	for i, v := range run.Views() {
		if v.Err != "" {
			t.Errorf("%s: %s", compiled.Info(i).Path, v.Err)
		}
	}
	return status
}

func TestRegister(t *testing.T) {
	r := functions()
	want := map[tree.Kind]map[string][]tree.Param{
		tree.Condition: {
			"check_signal": {},
			"has_signal":   {{Name: "signal_type", Type: tree.String}},
			"signal_type_is": {{Name: "expected_type", Type: tree.String,
				Required: true}},
			"signal_confidence_above":     {{Name: "threshold", Type: tree.Float, Default: 0.5}},
			"consecutive_same_reason_gte": {{Name: "count", Type: tree.Int, Default: int64(3)}},
			"turns_without_signal_gte":    {{Name: "count", Type: tree.Int, Default: int64(3)}},
		},
		tree.Action: {"parse_response_signal": {}, "update_signal_state": {}, "log_signal": {},
			"strip_signal_from_response": {},
			"reset_state":                {}, "noop": {}},
	}
	got := map[tree.Kind]map[string][]tree.Param{}
	for _, kind := range tree.Kinds() {
		for _, name := range r.Names(kind) {
			if got[kind] == nil {
				got[kind] = map[string][]tree.Param{}
			}
			leaf, _ := r.Find(kind, "backend.src.bt."+name)
			got[kind][name] = leaf.Params
			if leaf.Do == nil {
				t.Errorf("%s does nothing", name)
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
