package session

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"signalbox/internal/oracle/model"
	"signalbox/internal/testkit/property"
)

func TestLast(t *testing.T) {
	all := oneOfEach()
	for n, want := range map[int]QuestionState{
		0: {},
		1: {Number: 1, Text: all[0].Text, Class: "code"},
		2: {Number: 1, Text: all[0].Text, Class: "code", Runs: 1, Run: "O-1.1.1",
			Journal: "1-1.journal"},
		13: {Number: 1, Text: all[0].Text, Class: "code", Runs: 1, Run: "O-1.1.1",
			Journal: "1-1.journal", Done: true, Reason: "answered"},
	} {
		if diff := cmp.Diff(want, Last(all[:n])); diff != "" {
			t.Errorf("after %d entries (-want +got):\n%s", n, diff)
		}
	}
	again := append(all, Entry{Kind: RunStart, Question: 1, Run: "O-1.1.2", Journal: "1-2.journal"})
	want := QuestionState{Number: 1, Text: all[0].Text, Class: "code", Runs: 2, Run: "O-1.1.2",
		Journal: "1-2.journal"}
	if diff := cmp.Diff(want, Last(again)); diff != "" {
		t.Errorf("restarted (-want +got):\n%s", diff)
	}
	next := append(again, Entry{Kind: Question, Question: 2, Text: "And?", Class: "research"})
	if diff := cmp.Diff(QuestionState{Number: 2, Text: "And?", Class: "research"},
		Last(next)); diff != "" {
		t.Errorf("the next question (-want +got):\n%s", diff)
	}
}

func TestMessages(t *testing.T) {
	call := func(id string) model.Call { return model.Call{ID: id, Name: "look", Arguments: "{}"} }
	result := func(id, text string, ok bool) Entry {
		c := call(id)
		return Entry{Kind: Result, Call: &c, Text: text, OK: ok}
	}
	entries := []Entry{
		{Kind: Question, Text: "What?"},
		{Kind: RunStart},
		{Kind: Reply, Reply: &model.Reply{Text: "Look.", Calls: []model.Call{call("a"), call("b"),
			call("c")}}},
		result("b", "second", true),
		result("other", "of the tree itself", true),
		result("a", "first", false),
		{Kind: Signal}, {Kind: System}, {Kind: TreeText, Text: "not the model's"},
		{Kind: Note, Text: "Go on."},
		{Kind: Piece, Text: "cut"},
		{Kind: Reply, Reply: &model.Reply{Calls: []model.Call{call("a")}}},
		{Kind: Answer, Text: "Look."},
	}
	failed := func(id string) model.Result {
		return model.Result{CallID: id, Name: "look",
			Text: "there is no result: the conversation was interrupted", Failed: true}
	}
	want := []model.Message{
		{Role: model.User, Text: "What?"},
		{Role: model.Assistant, Text: "Look.", Calls: []model.Call{call("a"), call("b"),
			call("c")}},
		{Role: model.Tool, Results: []model.Result{{CallID: "a", Name: "look", Text: "first",
			Failed: true}, {CallID: "b", Name: "look", Text: "second"}, failed("c")}},
		{Role: model.User, Text: "Go on."},
		{Role: model.Assistant, Calls: []model.Call{call("a")}},
		{Role: model.Tool, Results: []model.Result{failed("a")}},
	}
	if diff := cmp.Diff(want, Messages(entries)); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}

// drawEntries draws entries in any order, even one that the oracle never writes.
func drawEntries(t *rapid.T) []Entry {
	var all []Entry
	ids := rapid.SampledFrom([]string{"a", "b", "c"})
	for range rapid.IntRange(0, 30).Draw(t, "entries") {
		switch rapid.SampledFrom([]Kind{Question, Note, Reply, Result, Call, Piece, Signal,
			Answer}).Draw(t, "kind") {
		case Question:
			all = append(all, Entry{Kind: Question, Text: "q"})
		case Note:
			all = append(all, Entry{Kind: Note, Text: "n"})
		case Reply:
			r := &model.Reply{Text: "r"}
			for _, id := range rapid.SliceOfNDistinct(ids, 0, 3, rapid.ID).Draw(t, "calls") {
				r.Calls = append(r.Calls, model.Call{ID: id, Name: "tool-" + id})
			}
			all = append(all, Entry{Kind: Reply, Reply: r})
		case Result:
			id := ids.Draw(t, "result")
			all = append(all, Entry{Kind: Result, Call: &model.Call{ID: id, Name: "tool-" + id},
				OK: true, Text: fmt.Sprint("result ", len(all))})
		default:
			all = append(all, Entry{Kind: Piece, Text: "p"})
		}
	}
	return all
}

// TestEveryCallHasAResult checks that each message with calls is followed by one with a result for
// each call, in order, and that a result is the one recorded after its call.
func TestEveryCallHasAResult(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		entries := drawEntries(t)
		messages := Messages(entries)
		replies, asked := 0, 0
		for i, m := range messages {
			switch m.Role {
			case model.User:
				asked++
			case model.Assistant:
				replies++
				if len(m.Calls) > 0 && (i+1 == len(messages) || messages[i+1].Role != model.Tool) {
					t.Fatalf("the calls of message %d have no results: %+v", i, messages)
				}
			case model.Tool:
				before := messages[i-1]
				if before.Role != model.Assistant || len(before.Calls) != len(m.Results) {
					t.Fatalf("message %d has results for other calls: %+v", i, messages)
				}
				for j, call := range before.Calls {
					if got, want := m.Results[j], lastResult(entries, replies, call); got != want {
						t.Fatalf("result %+v for %+v, want %+v", got, call, want)
					}
				}
			}
		}
		for _, e := range entries {
			switch e.Kind {
			case Question, Note:
				asked--
			case Reply:
				replies--
			}
		}
		if asked != 0 || replies != 0 {
			t.Fatalf("something was lost or added: %+v of %+v", messages, entries)
		}
	})
}

// lastResult returns the last result of a call between the nth reply and the next message.
func lastResult(entries []Entry, nth int, call model.Call) model.Result {
	r := model.Result{CallID: call.ID, Name: call.Name, Text: interruptedResult, Failed: true}
	n := 0
	for _, e := range entries {
		switch {
		case e.Kind == Reply:
			n++
		case n == nth && (e.Kind == Question || e.Kind == Note):
			return r
		case n == nth && e.Kind == Result && e.Call.ID == call.ID:
			r.Text, r.Failed = e.Text, !e.OK
		}
	}
	return r
}

func TestReplyOf(t *testing.T) {
	reply := func(question, turn int, text string) Entry {
		return Entry{Kind: Reply, At: at, Key: text, Question: question, Turn: turn,
			Reply: &model.Reply{Text: text}}
	}
	s := open(t, write(t, reply(1, 1, "one"), reply(1, 2, "two"), reply(1, 1, "one again"),
		reply(2, 1, "other")))
	for _, c := range []struct {
		question, turn int
		want           string
	}{{1, 1, "one again"}, {1, 2, "two"}, {2, 1, "other"}, {2, 2, ""}} {
		if r, there := s.ReplyOf(c.question, c.turn); r.Text != c.want || there != (c.want != "") {
			t.Errorf("turn %d of question %d is %q, %t", c.turn, c.question, r.Text, there)
		}
	}
}
