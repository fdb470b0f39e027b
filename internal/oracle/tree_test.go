package oracle_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/oracle"
	"signalbox/internal/oracle/chunk"
	"signalbox/internal/oracle/model"
	"signalbox/internal/oracle/session"
	"signalbox/internal/oracle/toolbox"
	"signalbox/internal/rehearsal/modelserver"
	"signalbox/internal/testkit/must"
)

// ownTree uses every feature for users' trees.
const ownTree = `
return BT.tree("own", {
    root = BT.sequence({
        BT.selector("greet", {
            BT.sequence({
                BT.condition("code", { fn = "class_is", args = { class = "code" } }),
                BT.action("about-code", { fn = "say", args = { text = "This is about code." } }),
            }),
            BT.action("about-something", { fn = "say", args = { text = "This is about something." } }),
        }),
        BT.tool("read_file", { args = { query = "auth.go" } }),
        BT.llm_call("think", { system = "Be terse.", tools = false, model = "other", prompt = BT.key("_tool_result") }),
        BT.action("parse", { fn = "parse_response_signal" }),
        BT.action("update", { fn = "update_signal_state" }),
        BT.action("log", { fn = "log_signal" }),
        BT.action("strip", { fn = "strip_signal_from_response" }),
        BT.action("decide", { fn = "decide" }),
        BT.condition("over", { fn = "decision_is", args = { decision = "final" } }),
        BT.condition("why", { fn = "reason_is", args = { reason = "context_sufficient" } }),
        BT.action("bye", { fn = "say", args = { text = "That is all." } }),
    }),
})`

// TestOwnTree checks a user's tree that writes to the user, calls a tool, and calls another model
// with its own prompt.
func TestOwnTree(t *testing.T) {
	both(t, func(t *testing.T, p model.Provider) {
		main, other := newServer(t, script()),
			newServer(t, script(says("It lets everybody in."+enough)))
		var used []string
		read := tool("read_file", func(_ context.Context, c toolbox.Call) (toolbox.Result, error) {
			used = append(used, string(c.Arguments))
			return toolbox.Result{Text: "func auth() bool",
				Sources: []chunk.Source{{Type: "code", Path: "auth.go"}}}, nil
		})
		s := newSession(t)
		o := newOracle(t, oracle.Options{Model: client(t, p, main, nil),
			Models: map[string]oracle.Model{"other": client(t, p, other, nil)},
			Tools:  []toolbox.Tool{read}, File: "own.lua", Source: ownTree})
		h := &heard{}
		answer, err := o.Ask(t.Context(), s, question, h.take)
		must.Succeed(t, err)
		if done := h.done(t, answer); done.Reason != "context_sufficient" || done.Turns != 1 {
			t.Errorf("it ended with %+v, %+v", done, answer.Error)
		}
		if diff := cmp.Diff([]string{`{"query":"auth.go"}`}, used); diff != "" {
			t.Errorf("the tool (-want +got):\n%s", diff)
		}
		if got := answer.Text; got != "It lets everybody in.\nThat is all." {
			t.Errorf("the answer is %q", got)
		}
		var kinds []string
		for _, c := range joined(h.chunks) {
			kind := string(c.Kind())
			if said, ok := c.(chunk.Content); ok {
				kind += " " + said.Text
			}
			kinds = append(kinds, kind)
		}
		want := []string{"content This is about code.", "tool_call", "tool_result",
			"content It lets everybody in.", "signal", "content That is all.", "sources", "done"}
		if diff := cmp.Diff(want, kinds); diff != "" {
			t.Errorf("chunks (-want +got):\n%s", diff)
		}
		if n := len(main.Requests()); n != 0 {
			t.Errorf("the oracle's own model was asked %d times", n)
		}
		asked := other.Requests()
		if len(asked) != 1 || asked[0].System != "Be terse." || len(asked[0].Tools) != 0 {
			t.Fatalf("the other model was asked %+v", asked)
		}
		if told := told(other); !strings.Contains(told, question) ||
			!strings.Contains(told, "func auth() bool") {
			t.Errorf("the other model was told:\n%s", told)
		}
		// the record has the same
		again := &heard{chunks: oracle.Chunks(s.Entries(), 1)}
		if diff := cmp.Diff(h.text(), again.text()); diff != "" {
			t.Errorf("text of the record (-shown +got):\n%s", diff)
		}
	})
}

// TestInputsAfterEarlyKill checks that a question interrupted before its tree started keeps its
// class.
func TestInputsAfterEarlyKill(t *testing.T) {
	dir := t.TempDir()
	s, err := session.Create(dir, "O-1")
	must.Succeed(t, err)
	for _, e := range []session.Entry{{Kind: session.Question, Question: 1, Text: question,
		Class: "code"},
		{Kind: session.RunStart, Question: 1, Run: "O-1.1.1", Journal: session.JournalName(1, 1)}} {
		must.Succeed(t, s.Append(e, false))
	}
	defer s.Close()
	o := newOracle(t, oracle.Options{Model: client(t, model.OpenAI, newServer(t, script(says("Yes."))), nil), File: "own.lua", Source: `
return BT.tree("own", { root = BT.sequence({ BT.condition("code", { fn = "class_is", args = { class = "code" } }), BT.action("say", { fn = "say", args = { text = BT.key("_question") } }) }) })`})
	h := &heard{}
	answer, err := o.Resume(t.Context(), s, h.take)
	must.Succeed(t, err)
	if done := h.done(t, answer); done.Reason != oracle.ReasonTreeEnded || answer.Text != question {
		t.Errorf("it ended with %+v, %+v, %q", done, answer.Error, answer.Text)
	}
}

// TestKilledTwice checks that the pieces of a reply before each of two kills are not part of the
// complete reply.
func TestKilledTwice(t *testing.T) {
	both(t, func(t *testing.T, p model.Provider) {
		dir := t.TempDir()
		turns := func() *modelserver.Script {
			return script(modelserver.Turn{Parts: []modelserver.Part{{Pieces: []string{"It lets",
				" <signal type=\"stuck\">", " everybody</signal>", " in."}}}})
		}
		var h *heard
		folder := ""
		for kill := 1; kill <= 4; kill++ {
			from := folder
			folder = filepath.Join(dir, fmt.Sprint(kill), "O-1")
			if kill == 1 {
				must.Succeed(t, os.MkdirAll(folder, 0o700))
			} else {
				copyFolder(t, from, folder)
			}
			s, err := session.Open(folder)
			must.Succeed(t, err)
			o := newOracle(t, oracle.Options{Model: client(t, p, newServer(t, turns()), nil),
				File: "one.lua", Source: oneTurn})
			// A kill is simulated by copying the folder in the middle.
			next := filepath.Join(dir, fmt.Sprint(kill, " killed"), "O-1")
			h = &heard{}
			said := 0
			h.each = func(c chunk.Chunk) error {
				if c.Kind() == chunk.KindContent {
					// each earlier process got one piece, which is repeated
					if said++; said == kill {
						copyFolder(t, folder, next)
					}
				}
				return nil
			}
			answer := (*oracle.Answer)(nil)
			if kill == 1 {
				answer, err = o.Ask(t.Context(), s, question, h.take)
			} else {
				answer, err = o.Resume(t.Context(), s, h.take)
			}
			if err != nil || answer.Error != nil {
				t.Fatal(answer, err)
			}
			if diff := cmp.Diff(map[int]string{1: "It lets  in."}, h.text()); diff != "" {
				t.Errorf("process %d (-want +got):\n%s\n%s", kill, diff, lines(h.chunks))
			}
			if n := len(of[chunk.System](h.chunks)); kill > 1 && n != kill {
				t.Errorf("process %d was told of %d beginnings:\n%s", kill, n, lines(h.chunks))
			}
			_ = s.Close()
			folder = next
		}
	})
}

// TestPiecesDuringOtherWork checks that a reply that arrives while a tool runs is one reply, also
// when it is replayed.
func TestPiecesDuringOtherWork(t *testing.T) {
	const source = `return BT.tree("own", { root = BT.parallel("both", { BT.llm_call("think", {}), BT.tool("look", { args = {} }) }) })`
	turn := modelserver.Turn{Parts: []modelserver.Part{{Pieces: []string{"It lets <sig",
		"nal type=\"stuck\"><blocker>secret</blo", "cker></signal>everybody", " in."}}}}
	goOn, heardPiece := make(chan struct{}), make(chan struct{})
	look := tool("look", func(context.Context, toolbox.Call) (toolbox.Result, error) {
		<-heardPiece
		return toolbox.Result{Text: "found"}, nil
	})
	// The server stops in the middle of the reply until the tool has its result.
	server := newServer(t, script(turn))
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		server.ServeHTTP(&pausing{ResponseWriter: w, after: "secret", pause: func() { <-goOn }}, r)
	})
	s := newSession(t)
	folder := filepath.Join(t.TempDir(), "O-1")
	h := &heard{}
	pieces := 0
	h.each = func(c chunk.Chunk) error {
		switch c.Kind() {
		case chunk.KindContent:
			if pieces++; pieces == 1 {
				close(heardPiece)
			}
			if pieces == 2 {
				copyFolder(t, s.Dir, folder)
			}
		case chunk.KindToolResult:
			close(goOn)
		}
		return nil
	}
	o := newOracle(t, oracle.Options{Model: client(t, model.OpenAI, handler, nil),
		Tools: []toolbox.Tool{look}, File: "own.lua", Source: source})
	answer, err := o.Ask(t.Context(), s, question, h.take)
	if err != nil || answer.Error != nil {
		t.Fatal(answer, err)
	}
	want := map[int]string{1: "It lets everybody in."}
	if diff := cmp.Diff(want, h.text()); diff != "" {
		t.Fatalf("text (-want +got):\n%s", diff)
	}
	entries, err := session.Read(folder)
	must.Succeed(t, err)
	told := oracle.Chunks(entries, 1)
	if text := strings.Join(contents(told), ""); !strings.HasPrefix("It lets everybody in.", text) {
		t.Errorf("of the reply that was cut %q is told", text)
	}
}

// pausing pauses a stream after a given text.
type pausing struct {
	http.ResponseWriter
	after string
	pause func()
	done  bool
}

func (p *pausing) Write(data []byte) (int, error) {
	n, err := p.ResponseWriter.Write(data)
	if err == nil && !p.done && strings.Contains(string(data), p.after) {
		p.done = true
		err = errors.Join(http.NewResponseController(p.ResponseWriter).Flush())
		p.pause()
	}
	return n, err
}

func (p *pausing) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// TestQuestionsFollowEachOther checks that each question of a session is asked with the
// conversation so far, including calls without results, and has numbers of its own.
func TestQuestionsFollowEachOther(t *testing.T) {
	both(t, func(t *testing.T, p model.Provider) {
		server := newServer(t, script(says("It lets everybody in."+enough),
			calls(says("Let me look."), "call_1", "look", `{}`), says("Nobody calls it."+enough)))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		look := tool("look", func(ctx context.Context, _ toolbox.Call) (toolbox.Result, error) {
			cancel()
			return toolbox.Result{}, ctx.Err()
		})
		o := newOracle(t, oracle.Options{Model: client(t, p, server, nil),
			Tools: []toolbox.Tool{look}})
		s := newSession(t)
		for n, want := range []struct{ question, reason, text string }{
			{question, "context_sufficient", "It lets everybody in."},
			{"Who calls that function?", "cancelled", "Let me look."},
			{"Well, who does?", "context_sufficient", "Nobody calls it."},
		} {
			h := &heard{}
			if n == 2 {
				ctx = t.Context()
			}
			answer, err := o.Ask(ctx, s, want.question, h.take)
			must.Succeed(t, err)
			if done := h.done(t, answer); done.Reason != want.reason || done.Question != n+1 ||
				done.Turns != 1 || answer.Text != want.text {
				t.Errorf("question %d ended with %+v, %q", n+1, done, answer.Text)
			}
		}
		last := server.Requests()[2]
		var roles []string
		for _, m := range last.Messages {
			roles = append(roles, string(m.Role))
		}
		if diff := cmp.Diff([]string{"user", "assistant", "user", "assistant", "tool", "user"},
			roles); diff != "" {
			t.Errorf("messages (-want +got):\n%s", diff)
		}
	})
}

// TestAskedAgain checks that a question is asked again from its beginning after the model failed,
// with the earlier results.
func TestAskedAgain(t *testing.T) {
	both(t, func(t *testing.T, p model.Provider) {
		s := newSession(t)
		look := finds("look", "found")
		turns := func(faults ...modelserver.Fault) *modelserver.Script {
			return script(calls(says("Let me look."), "call_1", "look", `{}`),
				faulty(says("It lets everybody in."+enough), faults...))
		}
		h := &heard{}
		broken := newOracle(t,
			oracle.Options{Model: client(t, p, newServer(t, turns(always(status(500)))), nil),
				Tools: []toolbox.Tool{look}})
		answer, err := broken.Ask(t.Context(), s, question, h.take)
		must.Succeed(t, err)
		if done := h.done(t, answer); done.Reason != oracle.ReasonModelFailed {
			t.Fatalf("it ended with %+v", done)
		}
		server := newServer(t, turns())
		h = &heard{}
		answer, err = newOracle(t, oracle.Options{Model: client(t, p, server, nil),
			Tools: []toolbox.Tool{look}}).Resume(t.Context(), s, h.take)
		must.Succeed(t, err)
		if done := h.done(t, answer); done.Reason != "context_sufficient" ||
			answer.Text != "It lets everybody in." {
			t.Errorf("it ended with %+v, %+v, %q", done, answer.Error, answer.Text)
		}
		if told := told(server); !strings.Contains(told, "result call_1: found") {
			t.Errorf("the model was told:\n%s", told)
		}
		if sources := of[chunk.Sources](h.chunks); len(sources) != 1 ||
			len(sources[0].Sources) != 1 {
			t.Errorf("sources: %+v", sources)
		}
	})
}

// TestSubAgentFails checks that the model is told when a sub-agent fails.
func TestSubAgentFails(t *testing.T) {
	both(t, func(t *testing.T, p model.Provider) {
		server := newServer(t, delegates())
		reader := newOracle(t,
			oracle.Options{Model: client(t, p,
				newServer(t, script(faulty(says("Never."), always(status(500))))), nil)})
		o := newOracle(t, oracle.Options{Model: client(t, p, server, nil),
			SubAgents: map[string]*oracle.Oracle{"reader": reader}})
		h := &heard{}
		s := newSession(t)
		answer, err := o.Ask(t.Context(), s, question, h.take)
		must.Succeed(t, err)
		if done := h.done(t, answer); done.Reason != "context_sufficient" ||
			answer.Text != "It lets everybody in." {
			t.Errorf("it ended with %+v, %+v, %q", done, answer.Error, answer.Text)
		}
		if results := of[chunk.ToolResult](h.chunks); len(results) != 1 || results[0].OK {
			t.Errorf("results: %+v", results)
		}
		if told := told(server); !strings.Contains(told, "It failed: ") {
			t.Errorf("the model was told:\n%s", told)
		}
		subs, err := session.List(filepath.Join(s.Dir, "sub"))
		if err != nil || len(subs) != 1 || subs[0].Reason != oracle.ReasonModelFailed ||
			!strings.HasPrefix(subs[0].First, "read auth.go") {
			t.Errorf("sessions of sub-agents: %+v, %v", subs, err)
		}
	})
}

// TestNew checks that New refuses invalid options.
func TestNew(t *testing.T) {
	ask := client(t, model.OpenAI, newServer(t, script(says("Yes."))), nil)
	for name, c := range map[string]struct {
		opts oracle.Options
		want string
	}{
		"no model": {oracle.Options{}, "needs a model"},
		"a tool twice": {oracle.Options{Model: ask, Tools: []toolbox.Tool{finds("look", ""),
			finds("look", "")}}, "twice"},
		"a broken tree": {oracle.Options{Model: ask, File: "own.lua", Source: "return 1 +"},
			"own.lua"},
		"an unknown action": {oracle.Options{Model: ask, File: "own.lua",
			Source: `return BT.tree("own", {root = BT.action("x", {fn = "dance"})})`}, "dance"},
	} {
		if _, err := oracle.New(t.Context(), &c.opts); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
		}
	}
}
