package oracle_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"signalbox"
	"signalbox/internal/oracle"
	"signalbox/internal/oracle/chunk"
	"signalbox/internal/oracle/model"
	"signalbox/internal/oracle/prompt"
	"signalbox/internal/oracle/session"
	"signalbox/internal/oracle/toolbox"
	"signalbox/internal/testkit/must"
	"signalbox/internal/tree"
	"signalbox/transcript"
)

// speaker is a model without a server. Its reply depends on how often it was called.
type speaker struct {
	mu    sync.Mutex // guards asked
	asked []model.Request
	reply func(ctx context.Context, n int, tell func(string)) (*model.Reply, error)
}

func (s *speaker) Reply(ctx context.Context, r model.Request,
	on func(model.Event)) (*model.Reply, error) {
	s.mu.Lock()
	s.asked = append(s.asked, r)
	n := len(s.asked)
	s.mu.Unlock()
	return s.reply(ctx, n, func(text string) { on(model.Event{Kind: model.EventText, Text: text}) })
}

// speaks returns a speaker that gives replies in order, and the last one forever. A nil reply is a
// failure of the server. The text of a reply is streamed first. A reply without usage costs 2
// tokens.
func speaks(replies ...*model.Reply) *speaker {
	return &speaker{reply: func(_ context.Context, n int, tell func(string)) (*model.Reply, error) {
		next := replies[min(n, len(replies))-1]
		if next == nil {
			return nil, &model.Error{Kind: model.ErrorBusy, Err: errors.New("429")}
		}
		r := *next
		if r.Text != "" {
			tell(r.Text)
		}
		if !r.Usage.Known {
			r.Usage = model.Usage{Input: 1, Output: 1, Known: true}
		}
		return &r, nil
	}}
}

func said(text string) *model.Reply { return &model.Reply{Text: text, Stop: model.StopEnd} }

// costs sets the usage of a reply.
func costs(r *model.Reply, tokens int64) *model.Reply {
	r.Usage = model.Usage{Input: tokens, Known: true}
	return r
}

func asksFor(all ...model.Call) *model.Reply {
	return &model.Reply{Text: "Let me see.", Stop: model.StopCalls, Calls: all}
}

// deploys returns a tool that is not read-only and counts its calls.
func deploys(n *int) toolbox.Tool {
	var mu sync.Mutex // guards n
	t := tool("deploy", func(context.Context, toolbox.Call) (toolbox.Result, error) {
		mu.Lock()
		defer mu.Unlock()
		*n++
		return toolbox.Result{Text: fmt.Sprintf("deployed version %d", *n)}, nil
	})
	t.ReadOnly = false
	return t
}

func deployCall(id string) model.Call { return model.Call{ID: id, Name: "deploy", Arguments: `{}`} }

// asks asks a question, or resumes the last one if question is "".
func asks(t testing.TB, o *oracle.Oracle, s *session.Session, question,
	reason string) (*oracle.Answer, *heard) {
	t.Helper()
	h := &heard{}
	var answer *oracle.Answer
	var err error
	if question == "" {
		answer, err = o.Resume(t.Context(), s, h.take)
	} else {
		answer, err = o.Ask(t.Context(), s, question, h.take)
	}
	must.Succeed(t, err)
	if done := h.done(t, answer); done.Reason != reason {
		t.Fatalf("it ended with %.300q, %+v, want %s", fmt.Sprintf("%+v", done), answer.Error,
			reason)
	}
	return answer, h
}

// lastResults returns the tool results in the last request.
func (s *speaker) lastResults(t testing.TB) []model.Result {
	t.Helper()
	for i := len(s.asked) - 1; i >= 0; i-- {
		for j := len(s.asked[i].Messages) - 1; j >= 0; j-- {
			if m := s.asked[i].Messages[j]; m.Role == model.Tool {
				return m.Results
			}
		}
	}
	t.Fatal("the model was told no results")
	return nil
}

// TestOnlyOfferedToolsAreCalled checks that a call of a tool that was not offered is refused, and
// that the model learns why.
func TestOnlyOfferedToolsAreCalled(t *testing.T) {
	t.Parallel()
	const noTools = `return BT.tree("own", {root = BT.sequence({BT.llm_call("think", {tools = false}), BT.tool("call_tools"), BT.llm_call("again", {})})})`
	for name, c := range map[string]struct {
		question, source, reason string
		offered                  int
		want                     string
	}{
		"small talk": {"thanks", "", "context_sufficient", 0,
			"there is no tool 'deploy': there are none for this question"},
		"by the tree": {question, noTools, oracle.ReasonTreeEnded, 0,
			"there is no tool 'deploy': there are none for this question"},
		"offered": {question, "", "context_sufficient", 1, "deployed version 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			made := 0
			m := speaks(asksFor(deployCall("a")), said("Well."+enough))
			o := newOracle(t, oracle.Options{Model: m, Tools: []toolbox.Tool{deploys(&made)},
				File: "own.lua", Source: c.source})
			_, h := asks(t, o, newSession(t), c.question, c.reason)
			if made != c.offered || len(m.asked[0].Tools) != c.offered {
				t.Errorf("made %d, offered %d, want %d of both", made, len(m.asked[0].Tools),
					c.offered)
			}
			results := of[chunk.ToolResult](h.chunks)
			if told := m.lastResults(t); len(told) != 1 || told[0].Text != c.want ||
				len(results) != 1 || results[0].Text != c.want {
				t.Errorf("the model was told %+v, people %+v", told, results)
			}
		})
	}
	t.Run("another name", func(t *testing.T) {
		t.Parallel()
		m := speaks(asksFor(model.Call{ID: "a", Name: "delpoy", Arguments: `{}`}),
			said("Well."+enough))
		made := 0
		asks(t, newOracle(t, oracle.Options{Model: m, Tools: []toolbox.Tool{deploys(&made)}}),
			newSession(t), question, "context_sufficient")
		if told := m.lastResults(
			t)[0]; told.Text != "there is no tool 'delpoy': there are deploy" || !told.Failed ||
			made != 0 {
			t.Errorf("the model was told %+v; made %d", told, made)
		}
	})
}

// deployFirst is a tree that calls a tool before the model.
const deployFirst = `return BT.tree("own", {root = BT.sequence({BT.tool("deploy", {args = {query = "x"}}), BT.llm_call("think", {})})})`

// TestTreeToolOnce checks that a tool call of the tree is not repeated when the question is asked
// again after the model failed.
func TestTreeToolOnce(t *testing.T) {
	t.Parallel()
	made := 0
	m := speaks(nil, nil, said("Yes."+enough))
	o := newOracle(t, oracle.Options{Model: m, Tools: []toolbox.Tool{deploys(&made)},
		File: "own.lua", Source: deployFirst})
	s := newSession(t)
	asks(t, o, s, question, oracle.ReasonModelFailed)
	asks(t, o, s, "", oracle.ReasonModelFailed)
	asks(t, o, s, "", oracle.ReasonTreeEnded)
	if made != 1 {
		t.Errorf("it was made %d times", made)
	}
	// Another question makes the call again.
	asks(t, o, s, question, oracle.ReasonTreeEnded)
	if made != 2 {
		t.Errorf("for two questions it was made %d times", made)
	}
	// So does another call of the same tool.
	twice := strings.Replace(deployFirst, `BT.llm_call`,
		`BT.tool("deploy", {args = {query = "x"}}), BT.llm_call`, 1)
	made = 0
	o = newOracle(t, oracle.Options{Model: speaks(said("Yes.")),
		Tools: []toolbox.Tool{deploys(&made)}, File: "own.lua", Source: twice})
	asks(t, o, newSession(t), question, oracle.ReasonTreeEnded)
	if made != 2 {
		t.Errorf("of two calls %d were made", made)
	}
}

const handOver = "Read it.\n<signal type=\"delegation_recommended\"><reason>it is long</reason><scope>read auth.go</scope><subagent_type>reader</subagent_type></signal>"

// TestDelegationOnce checks the same for a sub-agent.
func TestDelegationOnce(t *testing.T) {
	t.Parallel()
	sub := speaks(said("It lets everybody in." + enough))
	m := speaks(said(handOver), nil, said(handOver), said("Everybody."+enough))
	o := newOracle(t, oracle.Options{Model: m,
		SubAgents: map[string]*oracle.Oracle{"reader": newOracle(t, oracle.Options{Model: sub})}})
	s := newSession(t)
	asks(t, o, s, question, oracle.ReasonModelFailed)
	answer, _ := asks(t, o, s, "", "context_sufficient")
	if len(sub.asked) != 1 {
		t.Errorf("the sub-agent's model was asked %d times", len(sub.asked))
	}
	if answer.Done.Tokens != 8 { // four replies of 2 tokens, one of them the sub-agent's
		t.Errorf("%d tokens were counted, want 8", answer.Done.Tokens)
	}
	last := m.asked[len(m.asked)-1].Messages
	if told := last[len(last)-1].Text; !strings.Contains(told, "It lets everybody in.") {
		t.Errorf("the model was told %q", told)
	}
}

// manyCalls returns n different calls of look.
func manyCalls(n, size int) []model.Call {
	all := make([]model.Call, n)
	for i := range all {
		all[i] = model.Call{ID: fmt.Sprint("c", i), Name: "look",
			Arguments: fmt.Sprintf(`{"query":"%d%s"}`, i, strings.Repeat("x", size))}
	}
	return all
}

// TestLargeReplies checks that the usage of a large reply counts and that all its calls get
// results.
func TestLargeReplies(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		calls []model.Call
		made  int
	}{
		"many calls":      {manyCalls(400, 0), 64},
		"large arguments": {manyCalls(220, 5000), 64},
		"a long name": {[]model.Call{{ID: strings.Repeat("i", 1<<20),
			Name: strings.Repeat("n", 2<<20), Arguments: `{}`}}, 0},
		"a long argument": {[]model.Call{{ID: "a", Name: "look", Arguments: `{"query":"` +
			strings.Repeat("x", 2<<20) + `"}`}}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := speaks(costs(asksFor(c.calls...), 500), costs(said("Well."+enough), 70))
			s := newSession(t)
			var mu sync.Mutex // guards made
			made := 0
			look := tool("look", func(context.Context, toolbox.Call) (toolbox.Result, error) {
				mu.Lock()
				defer mu.Unlock()
				made++
				return toolbox.Result{Text: strings.Repeat("r", 20<<10),
					Sources: []chunk.Source{{Type: "code", Path: fmt.Sprint(made)}}}, nil
			})
			answer, _ := asks(t,
				newOracle(t, oracle.Options{Model: m, Tools: []toolbox.Tool{look}}), s, question,
				"context_sufficient")
			if made != c.made || answer.Done.Tokens != 570 || answer.Done.Turns != 2 {
				t.Errorf("made %d, want %d; done %+v", made, c.made, answer.Done)
			}
			results := m.lastResults(t)
			if len(results) != len(c.calls) {
				t.Errorf("the model was told %d results of %d calls", len(results), len(c.calls))
			}
			for _, r := range results {
				if r.Text == "" || c.made == 0 && len(r.Text) > 300 {
					t.Fatalf("a result has %d bytes", len(r.Text))
				}
			}
			boardIsSmall(t, s, "", "tool_results")
			// The calls are on the blackboard until they are made.
			s = newSession(t)
			o := newOracle(t, oracle.Options{Model: speaks(asksFor(c.calls...)), File: "one.lua",
				Source: oneTurn})
			asks(t, o, s, question, oracle.ReasonTreeEnded)
			if n := boardIsSmall(t, s, oneTurn, "_tool_calls"); n != min(len(c.calls), 100) {
				t.Errorf("the blackboard had %d of %d calls", n, len(c.calls))
			}
		})
	}
}

// A reply of a server with far too many calls is cut, and people and the model are told.
func TestFloodOfCalls(t *testing.T) {
	t.Parallel()
	const n = 20_000
	asked := 0
	server := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		if asked++; asked > 1 {
			fmt.Fprintf(w, "data: {\"choices\":[{\"delta\":{\"content\":%q}}]}\n\ndata: [DONE]\n\n",
				"Well."+enough)
			return
		}
		for i := range n {
			fmt.Fprintf(w, "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":%d,\"id\":\"c%d\",\"function\":{\"name\":\"look\",\"arguments\":\"{\\\"query\\\":\\\"%d\\\"}\"}}]}}]}\n\n", i, i, i)
		}
		fmt.Fprint(w, "data: [DONE]\n\n")
	})
	o := newOracle(t, oracle.Options{Model: client(t, model.OpenAI, server, nil),
		Tools: []toolbox.Tool{finds("look", "found")}})
	_, h := asks(t, o, newSession(t), question, "context_sufficient")
	results := of[chunk.ToolResult](h.chunks)
	refused := 0
	for _, r := range results {
		if r.Text == "not made: a reply may have 64 calls" {
			refused++
		}
	}
	if len(results) != model.MaxCalls || refused != model.MaxCalls-64 {
		t.Errorf("%d results, %d refused", len(results), refused)
	}
	want := fmt.Sprintf("the reply has %d tool calls, and those after the first %d are ignored", n,
		model.MaxCalls)
	if notes := of[chunk.System](h.chunks); !slices.ContainsFunc(notes,
		func(s chunk.System) bool { return s.Name == chunk.CallsDropped && s.Text == want }) {
		t.Errorf("there is no note that calls were dropped: %+v", notes)
	}
}

// boardIsSmall checks that a list on the blackboard never exceeds its limit, and returns its
// greatest length.
func boardIsSmall(t *testing.T, s *session.Session, source, key string) int {
	t.Helper()
	most := 0
	replay(t, s, "one.lua", source, func(run *tree.Run) {
		v, _ := run.Board().Get(key)
		list, _ := v.([]any)
		most = max(most, len(list))
		for _, one := range list {
			if size := len(tree.FormatValue(one)); size > 6<<10 {
				t.Fatalf("an entry of %s has %d bytes", key, size)
			}
		}
	})
	if most > 100 {
		t.Errorf("%s has %d entries", key, most)
	}
	return most
}

// TestResultsOfManyTurns checks that the blackboard has the newest results.
func TestResultsOfManyTurns(t *testing.T) {
	t.Parallel()
	all := manyCalls(180, 0)
	m := speaks(asksFor(all[:60]...), asksFor(all[60:120]...), asksFor(all[120:]...),
		said("Well."+enough))
	s := newSession(t)
	asks(t, newOracle(t, oracle.Options{Model: m, Tools: []toolbox.Tool{finds("look", "found")}}),
		s, question, "context_sufficient")
	if n := boardIsSmall(t, s, "", "tool_results"); n != 100 {
		t.Errorf("of 180 results there were %d", n)
	}
}

// TestConcurrentCalls checks the limits on concurrent calls and on calls per reply.
func TestConcurrentCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex // guards the variables below
		now, most, made := 0, 0, 0
		look := tool("look", func(context.Context, toolbox.Call) (toolbox.Result, error) {
			mu.Lock()
			now, made = now+1, made+1
			most = max(most, now)
			mu.Unlock()
			time.Sleep(time.Second) // on the clock of the bubble: until no further call can start
			mu.Lock()
			defer mu.Unlock()
			now--
			return toolbox.Result{Text: "found"}, nil
		})
		m := speaks(asksFor(manyCalls(300, 0)...), said("Well."+enough))
		begun := time.Now()
		asks(t, newOracle(t, oracle.Options{Model: m, Tools: []toolbox.Tool{look}}), newSession(t),
			question, "context_sufficient")
		if most != 8 || made != 64 || time.Since(begun) != 8*time.Second {
			t.Errorf("%d at once, %d made, in %s", most, made, time.Since(begun))
		}
		for i, r := range m.lastResults(t) {
			if want := map[bool]string{true: "found", false: "not made: a reply may have 64 calls"}[i < 64]; r.Text != want || r.CallID != fmt.Sprint("c", i) {
				t.Fatalf("result %d: %+v", i, r)
			}
		}
	})
}

// TestCutCallsAreNotMade checks that the last call of a cut reply is not made, because it may be
// incomplete, nor any call of a refused reply.
func TestCutCallsAreNotMade(t *testing.T) {
	t.Parallel()
	for stop, want := range map[model.Stop]int{model.StopLength: 1, model.StopRefusal: 0,
		model.StopCalls: 2} {
		t.Run(string(stop), func(t *testing.T) {
			t.Parallel()
			made := 0
			reply := asksFor(deployCall("a"),
				model.Call{ID: "b", Name: "deploy", Arguments: `{"query":"b"}`})
			reply.Stop = stop
			m := speaks(reply, said("Well."+enough))
			asks(t, newOracle(t, oracle.Options{Model: m, Tools: []toolbox.Tool{deploys(&made)}}),
				newSession(t), question, "context_sufficient")
			if made != want {
				t.Errorf("made %d, want %d", made, want)
			}
			for _, r := range m.lastResults(t)[want:] {
				if r.Text != "not made: the reply was cut off, and this call may be too" {
					t.Errorf("the model was told %+v", r)
				}
			}
		})
	}
}

// TestCallsAreMadeOnce checks that calls are not repeated by a tree that runs call_tools twice, or
// after a failed model call.
func TestCallsAreMadeOnce(t *testing.T) {
	t.Parallel()
	t.Run("twice in a row", func(t *testing.T) {
		t.Parallel()
		made := 0
		o := newOracle(t, oracle.Options{Model: speaks(asksFor(deployCall("a"))),
			Tools: []toolbox.Tool{deploys(&made)}, File: "own.lua",
			Source: `return BT.tree("own", {root = BT.sequence({BT.llm_call("think", {}), BT.tool("call_tools"), BT.tool("call_tools")})})`})
		asks(t, o, newSession(t), question, oracle.ReasonTreeEnded)
		if made != 1 {
			t.Errorf("it was made %d times", made)
		}
	})
	t.Run("without a reply", func(t *testing.T) {
		t.Parallel()
		made := 0
		o := newOracle(t, oracle.Options{Model: speaks(asksFor(deployCall("a")), nil),
			Tools: []toolbox.Tool{deploys(&made)}, File: "own.lua",
			Source: `return BT.tree("own", {root = BT.sequence({BT.always_succeed(BT.llm_call("think", {})), BT.tool("call_tools"), BT.llm_call("again", {})})})`})
		s := newSession(t)
		asks(t, o, s, question, oracle.ReasonModelFailed)
		asks(t, o, s, "", oracle.ReasonModelFailed)
		if made != 1 {
			t.Errorf("it was made %d times", made)
		}
	})
}

// TestRetryRepeatsContent checks that resuming after a failure of the model repeats the earlier
// content, because the model does not.
func TestRetryRepeatsContent(t *testing.T) {
	t.Parallel()
	m := speaks(said("The first half."+another), nil, said("The second half."+enough))
	o := newOracle(t, oracle.Options{Model: m})
	s := newSession(t)
	asks(t, o, s, question, oracle.ReasonModelFailed)
	_, h := asks(t, o, s, "", "context_sufficient")
	var got []string
	for _, c := range h.chunks {
		switch c := c.(type) {
		case chunk.Content:
			got = append(got, fmt.Sprint(c.Turn, " ", strings.TrimSpace(c.Text)))
		case chunk.System:
			got = append(got, c.Name)
		}
	}
	if diff := gocmp.Diff([]string{"resumed", "1 The first half.", "2 The second half."},
		got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestDoneWhileCancelled checks that a call that ended when the user cancelled is recorded.
func TestDoneWhileCancelled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	made := 0
	deploy := deploys(&made)
	use := deploy.Use
	deploy.Use = func(ctx context.Context, c toolbox.Call) (toolbox.Result, error) {
		cancel()
		return use(ctx, c)
	}
	m := speaks(asksFor(deployCall("a")), said("Well."+enough))
	o := newOracle(t, oracle.Options{Model: m, Tools: []toolbox.Tool{deploy}})
	s := newSession(t)
	h := &heard{}
	answer, err := o.Ask(ctx, s, question, h.take)
	if err != nil || h.done(t, answer).Reason != "cancelled" {
		t.Fatalf("%+v, %v", answer, err)
	}
	asks(t, o, s, "", "context_sufficient")
	if told := m.lastResults(t)[0]; told.Text != "deployed version 1" || made != 1 {
		t.Errorf("the model was told %+v; made %d", told, made)
	}
}

// TestUnknownCallIsEnded checks that what a killed process may have left running is ended before
// the model is told that the outcome is unknown, when the question is resumed and when another one
// is asked. If that fails, the conversation stops and can be resumed.
func TestUnknownCallIsEnded(t *testing.T) {
	t.Parallel()
	for _, next := range []string{"", "And what does the test function do?"} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var begun, ended []string
		write := tool("write", func(_ context.Context, c toolbox.Call) (toolbox.Result, error) {
			begun = append(begun, c.Key)
			cancel()
			return toolbox.Result{}, ctx.Err()
		})
		write.ReadOnly = false
		write.End = func(key string) error {
			if ended = append(ended, key); len(ended) == 1 {
				return errors.New("it will not go")
			}
			return nil
		}
		m := speaks(asksFor(model.Call{ID: "w", Name: "write", Arguments: `{}`}),
			said("Well."+enough))
		o := newOracle(t, oracle.Options{Model: m, Tools: []toolbox.Tool{write}})
		s := newSession(t)
		if answer, err := o.Ask(ctx, s, question, (&heard{}).take); err != nil ||
			answer.Done.Reason != "cancelled" {
			t.Fatalf("%+v, %v", answer, err)
		}
		if answer, _ := asks(t, o, s, next, oracle.ReasonFailed); !strings.Contains(
			answer.Error.Text, "it will not go") || len(m.asked) != 1 {
			t.Fatalf("%q ended with %+v, and the model was asked %d times", next, answer.Error,
				len(m.asked))
		}
		asks(t, o, s, next, "context_sufficient")
		if told := m.lastResults(t); len(told) != 1 ||
			!strings.HasPrefix(told[0].Text, "it is not known what came of this call") {
			t.Errorf("%q: the model was told %+v", next, told)
		}
		asks(t, o, s, "thanks", "context_sufficient") // nothing is ended again
		if len(begun) != 1 || len(ended) != 2 || ended[0] != begun[0] || ended[1] != begun[0] {
			t.Errorf("%q: begun %q, ended %q", next, begun, ended)
		}
	}
}

// TestSignalInLargeReply checks that the whole reply is searched for its signal, and that signals
// in code blocks are ignored.
func TestSignalInLargeReply(t *testing.T) {
	t.Parallel()
	const stuck = "<signal type=\"stuck\"><attempted>[\"x\"]</attempted><blocker>no key</blocker></signal>\n"
	words := strings.Repeat(strings.Repeat("word ", 50)+"\n", 1100)
	for name, c := range map[string]struct{ reply, signal string }{
		"at the beginning":         {stuck + words, "stuck"},
		"at the end":               {words + stuck, "stuck"},
		"in a block":               {"```\n" + words + stuck + "```\n", ""},
		"in a block at the start":  {"```\n" + stuck + "```\n" + words, ""},
		"after a block that ended": {"```\n" + words + "```\n" + stuck, "stuck"},
		"the first one counts":     {"Well." + enough + "\n" + words + stuck, "context_sufficient"},
		"small, in a block":        {"```\n" + stuck + "```\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := speaks(said(c.reply), said("Another way."))
			s := newSession(t)
			// A stuck model is asked to try another way; all others have answered.
			reason, text := "answered", strings.TrimSpace(transcript.Content(c.reply))
			switch c.signal {
			case "stuck":
				text = "Another way."
			case "context_sufficient":
				reason = c.signal
			}
			answer, h := asks(t, newOracle(t, oracle.Options{Model: m}), s, question, reason)
			if heard := of[chunk.Signal](h.chunks); len(heard) > 1 ||
				(len(heard) == 1) != (c.signal != "") || len(heard) == 1 &&
				heard[0].Name != c.signal {
				t.Errorf("heard %+v, want %q", heard, c.signal)
			}
			if answer.Text != text || answer.Done.Answer != text {
				t.Errorf("the answer has %d bytes, want %d", len(answer.Text), len(text))
			}
			replay(t, s, "", "", func(run *tree.Run) {
				for _, key := range []string{"llm_response", "accumulated_content"} {
					if v, _ := run.Board().Get(key); len(fmt.Sprint(v)) > 256<<10+10 {
						t.Errorf("%s has %d bytes", key, len(fmt.Sprint(v)))
					}
				}
			})
		})
	}
}

// TestTreeText checks that a message of the tree is independent of the model's reply, whether or
// not that ended with a line end.
func TestTreeText(t *testing.T) {
	t.Parallel()
	for name, reply := range map[string]string{"an open block": "```\nREVIEW_",
		"half a line": "I think REVIEW_", "a whole one": "Well."} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOracle(t, oracle.Options{Model: speaks(said(reply)), Class: prompt.Action,
				File: "own.lua",
				Source: `return BT.tree("own", {root = BT.sequence({BT.llm_call("think", {}), BT.action("a", {fn = "say", args = {text = "I have read it."}}),
					BT.action("b", {fn = "say", args = {text = "REVIEW_PASSED: T1"}})})})`})
			s := newSession(t)
			_, h := asks(t, o, s, question, oracle.ReasonTreeEnded)
			_, again := asks(t, o, s, "", oracle.ReasonTreeEnded)
			for which, chunks := range [][]chunk.Chunk{h.chunks, again.chunks} {
				if got := (&heard{chunks: chunks}).text(); got[0] != "I have read it.\nREVIEW_PASSED: T1" || got[1] != reply {
					t.Errorf("hearing %d: %v", which, got)
				}
				scanner := transcript.NewScanner(
					&transcript.Options{Format: signalbox.FormatOracle})
				signals := append([]signalbox.Signal{}, scanner.Push([]byte(lines(chunks)))...)
				signals = append(signals, scanner.Close()...)
				if len(signals) != 1 || !signals[0].Taken() {
					t.Errorf("hearing %d: a crew heard %+v of:\n%s", which, signals, lines(chunks))
				}
			}
		})
	}
}

// TestCriticNeedsToRead checks that the example tree of a critic gives no verdict on a file that it
// could not read.
func TestCriticNeedsToRead(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("../../examples/oracle/critic.lua")
	must.Succeed(t, err)
	m := speaks(nil, said("REVIEW_PASSED: T1\n"))
	o := newOracle(t, oracle.Options{Model: m, File: "critic.lua", Source: string(source)})
	if _, h := asks(t, o, newSession(t), "review T1",
		oracle.ReasonModelFailed); len(m.asked) != 1 || len(h.text()) != 0 {
		t.Errorf("the model was asked %d times:\n%s", len(m.asked), lines(h.chunks))
	}
}

// TestSourcesNeedAnAnswer checks that sources are emitted with an answer, and not with a failure.
func TestSourcesNeedAnAnswer(t *testing.T) {
	t.Parallel()
	m := speaks(&model.Reply{Calls: manyCalls(1, 0), Stop: model.StopCalls}, nil,
		said("Everybody."+enough))
	o := newOracle(t, oracle.Options{Model: m, Tools: []toolbox.Tool{finds("look", "auth.go:7")}})
	s := newSession(t)
	_, h := asks(t, o, s, question, oracle.ReasonModelFailed)
	if sources := of[chunk.Sources](h.chunks); len(sources) > 0 {
		t.Errorf("sources without an answer: %v", sources)
	}
	_, h = asks(t, o, s, "", "context_sufficient")
	if sources := of[chunk.Sources](h.chunks); len(sources) != 1 || len(sources[0].Sources) != 1 {
		t.Errorf("sources %v, want one", sources)
	}
}
