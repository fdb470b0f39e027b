package oracle_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"signalbox/internal/oracle"
	"signalbox/internal/oracle/chunk"
	"signalbox/internal/oracle/model"
	"signalbox/internal/oracle/session"
	"signalbox/internal/oracle/toolbox"
	"signalbox/internal/rehearsal/modelserver"
	"signalbox/internal/testkit/must"
	"signalbox/internal/tree/turnlog"
)

// scene is the setup of a conversation.
type scene struct {
	t       *testing.T
	ctx     context.Context
	cancel  context.CancelFunc
	opts    oracle.Options
	session *session.Session
	heard   heard
}

// on calls a function at the first chunk that matches.
func (s *scene) on(fits func(chunk.Chunk) bool, do func()) {
	done := false
	s.heard.each = func(c chunk.Chunk) error {
		if !done && fits(c) {
			done = true
			do()
		}
		return nil
	}
}

func isContent(c chunk.Chunk) bool { return c.Kind() == chunk.KindContent }

func isRetry(c chunk.Chunk) bool {
	s, ok := c.(chunk.System)
	return ok && s.Name == "retry"
}

// toolDoes adds the tool look, which is not read-only.
func (s *scene) toolDoes(use func(context.Context) error) {
	look := tool("look", func(ctx context.Context, _ toolbox.Call) (toolbox.Result, error) {
		return toolbox.Result{Text: "found"}, use(ctx)
	})
	look.ReadOnly = false
	s.opts.Tools = append(s.opts.Tools, look)
}

// sleeps returns a tool function that ignores cancellation. The bubble waits for its end.
func (s *scene) sleeps() error {
	s.t.Cleanup(func() { time.Sleep(2 * time.Hour) })
	time.Sleep(time.Hour)
	return nil
}

// ending is a way in which a question can end.
type ending struct {
	name string
	// turns is the script of the model; prepare causes the failure.
	turns   []modelserver.Turn
	prepare func(*scene)
	// reason is the reason in Done, wrong the name of the error, text a part of its text.
	reason, wrong, text string
	// resumes means that the question can be resumed and is answered then.
	resumes bool
}

var slowly = modelserver.Turn{Every: modelserver.Duration(time.Second), Parts: []modelserver.Part{{Pieces: []string{"It lets", " everybody", " in."}}}}

func always(f modelserver.Fault) modelserver.Fault {
	f.Times = -1
	return f
}

func status(n int) modelserver.Fault {
	return modelserver.Fault{Kind: modelserver.FaultStatus, Status: n}
}

func endings() []ending {
	answer := says("It lets everybody in." + enough)
	look := calls(says("Let me look."), "call_1", "look", `{}`)
	var cutAfter []modelserver.Fault
	for _, kind := range []modelserver.FaultKind{modelserver.FaultCut, modelserver.FaultMalformed,
		modelserver.FaultError, modelserver.FaultHang} {
		cutAfter = append(cutAfter, modelserver.Fault{Kind: kind, AfterPieces: 2})
	}
	all := []ending{
		{name: "well", turns: []modelserver.Turn{answer}, reason: "context_sufficient"},
		{name: "cancelled before", turns: []modelserver.Turn{answer},
			prepare: func(s *scene) { s.cancel() },
			reason:  "cancelled", wrong: "cancelled", resumes: true},
		{name: "cancelled while streaming", turns: []modelserver.Turn{slowly},
			prepare: func(s *scene) { s.on(isContent, s.cancel) },
			reason:  "cancelled", wrong: "cancelled", resumes: true},
		{name: "cancelled while a tool runs", turns: []modelserver.Turn{look, answer},
			prepare: func(s *scene) {
				s.toolDoes(func(ctx context.Context) error {
					s.cancel()
					<-ctx.Done()
					return ctx.Err()
				})
			}, reason: "cancelled", wrong: "cancelled", resumes: true},
		{name: "cancelled while a tool runs that does not care",
			turns: []modelserver.Turn{look, answer}, prepare: func(s *scene) {
				s.toolDoes(func(context.Context) error {
					s.cancel()
					return s.sleeps()
				})
			}, reason: "cancelled", wrong: "cancelled"},
		{name: "cancelled while waiting to retry",
			turns:   []modelserver.Turn{faulty(answer, always(status(429)))},
			prepare: func(s *scene) { s.on(isRetry, s.cancel) }, reason: "cancelled",
			wrong: "cancelled", resumes: true},
		{name: "cancelled while the model hangs",
			turns: []modelserver.Turn{faulty(answer,
				always(modelserver.Fault{Kind: modelserver.FaultHang}))},
			prepare: func(s *scene) { time.AfterFunc(time.Second, s.cancel) }, reason: "cancelled",
			wrong: "cancelled", resumes: true},
		{name: "cancelled while the reply hangs",
			turns: []modelserver.Turn{faulty(slowly,
				always(modelserver.Fault{Kind: modelserver.FaultHang, AfterPieces: 1}))},
			prepare: func(s *scene) { s.on(isContent, s.cancel) }, reason: "cancelled",
			wrong: "cancelled", resumes: true},
		{name: "cancelled with a cause", turns: []modelserver.Turn{slowly},
			prepare: func(s *scene) {
				ctx, cancel := context.WithCancelCause(s.ctx)
				s.ctx = ctx
				s.on(isContent, func() { cancel(errors.New("the house is on fire")) })
			}, reason: "cancelled", wrong: "cancelled", resumes: true},
		{name: "deadline", turns: []modelserver.Turn{slowly}, prepare: func(s *scene) {
			ctx, cancel := context.WithTimeout(s.ctx, 1500*time.Millisecond)
			s.t.Cleanup(cancel)
			s.ctx = ctx
		}, reason: "cancelled", wrong: "cancelled", resumes: true},
		{name: "model down", prepare: func(s *scene) { s.opts.Model = nowhere(s.t) },
			reason: "model_failed", wrong: "no_server", text: "is the server running?",
			resumes: true},
		{name: "rate limit, to the last try",
			turns:  []modelserver.Turn{faulty(answer, always(status(429)))},
			reason: "model_failed", wrong: "rate_limited", text: "tried 3 times", resumes: true},
		{name: "rate limit, which passes",
			turns:  []modelserver.Turn{faulty(answer, status(429), status(529))},
			reason: "context_sufficient"},
		{name: "server errors, to the last try",
			turns:  []modelserver.Turn{faulty(answer, always(status(500)))},
			reason: "model_failed", wrong: "server_error", resumes: true},
		{name: "no access", turns: []modelserver.Turn{faulty(answer, always(status(401)))},
			reason: "model_failed", wrong: "no_access", resumes: true},
		{name: "not in the script", turns: nil, reason: "model_failed", wrong: "bad_request",
			resumes: true},
		{name: "the model fails in the second turn",
			turns: []modelserver.Turn{says("Let me think." + another),
				faulty(answer, always(status(500)))},
			reason: "model_failed", wrong: "server_error", resumes: true},
		{name: "tool panics", turns: []modelserver.Turn{look, answer}, prepare: func(s *scene) {
			s.toolDoes(func(context.Context) error { panic("oops") })
		}, reason: "context_sufficient"},
		{name: "tool ends its goroutine", turns: []modelserver.Turn{look, answer},
			prepare: func(s *scene) {
				s.toolDoes(func(context.Context) error { s.t.SkipNow(); return nil })
			}, reason: "context_sufficient"},
		{name: "tool takes too long", turns: []modelserver.Turn{look, answer},
			prepare: func(s *scene) {
				s.toolDoes(func(ctx context.Context) error {
					<-ctx.Done()
					return ctx.Err()
				})
			}, reason: "context_sufficient"},
		{name: "tool takes too long and does not care", turns: []modelserver.Turn{look, answer},
			prepare: func(s *scene) {
				s.toolDoes(func(context.Context) error { return s.sleeps() })
			}, reason: "context_sufficient"},
		{name: "reply too long", turns: []modelserver.Turn{{Finish: "length", Parts: answer.Parts}},
			reason: "token_limit"},
		{name: "reply filtered",
			turns:  []modelserver.Turn{{Finish: "content_filter", Parts: answer.Parts}},
			reason: "refused"},
		{name: "reply too long without deciding",
			turns:  []modelserver.Turn{{Finish: "length", Parts: answer.Parts}},
			reason: "token_limit", prepare: func(s *scene) {
				s.opts.File, s.opts.Source = "one.lua", oneTurn
			}},
	}
	for _, f := range cutAfter {
		three := modelserver.Turn{Parts: []modelserver.Part{{Pieces: []string{"It lets", " every",
			"body in." + enough}}}}
		all = append(all, ending{name: string(f.Kind) + " in the reply, which passes",
			turns: []modelserver.Turn{faulty(three, f)}, reason: "context_sufficient"})
		wrong := "dropped"
		if f.Kind == modelserver.FaultError {
			wrong = "server_error"
		}
		all = append(all, ending{name: string(f.Kind) + " in the reply, to the last try",
			turns:  []modelserver.Turn{faulty(three, always(f))},
			reason: "model_failed", wrong: wrong, resumes: true})
	}
	return append(all, outerEndings(look, answer)...)
}

// outerEndings are endings not caused by the model or its tools.
func outerEndings(look, answer modelserver.Turn) []ending {
	closes := func(s *scene) func() { return func() { _ = s.session.Close() } }
	tree := func(source string) func(*scene) {
		return func(s *scene) { s.opts.File, s.opts.Source = "own.lua", source }
	}
	return []ending{
		{name: "record closed before", turns: []modelserver.Turn{answer},
			prepare: func(s *scene) { closes(s)() }, reason: "failed", wrong: "failed",
			text: "could not be recorded"},
		{name: "record closed while streaming", turns: []modelserver.Turn{slowly},
			prepare: func(s *scene) { s.on(isContent, closes(s)) },
			reason:  "failed", wrong: "failed", text: "could not be recorded", resumes: true},
		{name: "record closed in a tool", turns: []modelserver.Turn{look, answer},
			prepare: func(s *scene) {
				s.toolDoes(func(context.Context) error {
					closes(s)()
					return nil
				})
			}, reason: "failed", wrong: "failed", text: "could not be recorded", resumes: true},
		{name: "record closed before the next turn",
			turns: []modelserver.Turn{says("Let me think." + another), answer},
			prepare: func(s *scene) {
				s.on(func(c chunk.Chunk) bool { return c.Kind() == chunk.KindSignal }, closes(s))
			}, reason: "failed", wrong: "failed", text: "could not be recorded", resumes: true},
		{name: "journal cannot be made", turns: []modelserver.Turn{answer},
			prepare: func(s *scene) {
				must.Succeed(s.t, os.Mkdir(filepath.Join(s.session.Dir, session.JournalName(1, 1)),
					0o700))
			}, reason: "failed", wrong: "failed"},
		{name: "ledger closed", turns: []modelserver.Turn{answer}, prepare: func(s *scene) {
			b := newBox(s.t)
			s.opts.Record = turnlog.To(b.Engine, "ann")
			must.Succeed(s.t, b.Close())
		}, reason: "failed", wrong: "failed", text: "closed", resumes: true},
		{name: "tree fails", turns: []modelserver.Turn{answer}, reason: "tree_failed",
			wrong: "tree_failed", text: "none of its leaves reported an error", resumes: true,
			prepare: tree(`return BT.tree("own", {root = BT.sequence({BT.llm_call("think", {}), BT.condition("no", {fn = "class_is", args = {class = "none"}})})})`)},
		{name: "tree names a model that is not there", reason: "tree_failed", wrong: "tree_failed",
			text: "there is no model 'best'", resumes: true,
			prepare: tree(`return BT.tree("own", {root = BT.llm_call("think", {model = "best"})})`)},
		{name: "tree has an error", reason: "tree_failed", wrong: "tree_failed", text: "own.lua",
			resumes: true,
			prepare: tree(`return BT.tree("own", {root = BT.script("broken", {fn = function() error("oh dear") end})})`)},
		{name: "tree ends without deciding", turns: []modelserver.Turn{answer},
			reason: "tree_ended", prepare: tree(oneTurn)},
		{name: "tree ends without asking", reason: "tree_ended",
			prepare: tree(`return BT.tree("own", {root = BT.action("no", {fn = "noop"})})`)},
	}
}

// nowhere returns a model whose server does not run.
func nowhere(t *testing.T) *model.Client {
	c, end := pipeClient(t, model.OpenAI, nil)
	end()
	return c
}

// TestDoneOnceAndLast checks that however a question ends, there is exactly one Done chunk, it is
// the last, and an error chunk precedes it if there is no answer. Nothing is left running, or the
// bubble would deadlock.
func TestDoneOnceAndLast(t *testing.T) {
	for _, e := range endings() {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel() // they mostly wait for the disk
			both(t, func(t *testing.T, p model.Provider) {
				synctest.Test(t, func(t *testing.T) { e.play(t, p) })
			})
		})
	}
}

func (e *ending) play(t *testing.T, p model.Provider) {
	s := &scene{t: t, session: newSession(t)}
	s.ctx, s.cancel = context.WithCancel(t.Context())
	defer s.cancel()
	turns := script(e.turns...)
	network, end := pipeClient(t, p, newServer(t, turns))
	defer end()
	s.opts.Model = network
	if e.prepare != nil {
		e.prepare(s)
	}
	answer, err := newOracle(t, s.opts).Ask(s.ctx, s.session, question, s.heard.take)
	if err != nil {
		t.Fatalf("error %v and chunks:\n%s", err, lines(s.heard.chunks))
	}
	e.check(t, s, answer)
	_ = s.session.Close()
	e.resumeEnded(t, p, s)
}

func (e *ending) check(t *testing.T, s *scene, answer *oracle.Answer) {
	t.Helper()
	if done := s.heard.done(t, answer); done.Reason != e.reason {
		t.Errorf("it ended with %q, want %q:\n%s", done.Reason, e.reason, lines(s.heard.chunks))
	}
	wrong := of[chunk.Error](s.heard.chunks)
	switch {
	case e.wrong == "" && (len(wrong) > 0 || answer.Error != nil):
		t.Errorf("errors %+v, answer %+v", wrong, answer.Error)
	case e.wrong == "":
	case len(wrong) != 1 || answer.Error == nil || *answer.Error != wrong[0]:
		t.Errorf("errors %+v, answer %+v", wrong, answer.Error)
	case wrong[0].Name != e.wrong || !strings.Contains(wrong[0].Text, e.text):
		t.Errorf("error %+v, want %s with %q", wrong[0], e.wrong, e.text)
	}
	if e.wrong == "" && e.reason != "tree_ended" && answer.Text != "It lets everybody in." {
		t.Errorf("the answer is %q", answer.Text)
	}
	// the record, if it could be written, has the same end
	if last := session.Last(s.session.Entries()); last.Done && last.Reason != e.reason {
		t.Errorf("the record says that it ended with %q", last.Reason)
	}
}

// resumeEnded resumes a question with a model and a tree that work.
func (e *ending) resumeEnded(t *testing.T, p model.Provider, s *scene) {
	t.Helper()
	again, err := session.Open(s.session.Dir)
	must.Succeed(t, err)
	defer again.Close()
	answer := says("It lets everybody in." + enough)
	network, end := pipeClient(t, p, newServer(t, &modelserver.Script{Otherwise: &answer}))
	defer end()
	h := &heard{}
	opts := oracle.Options{Model: network, Tools: s.opts.Tools, File: s.opts.File,
		Source: s.opts.Source}
	if e.reason == "tree_failed" {
		opts.File, opts.Source = "", ""
	}
	got, err := newOracle(t, opts).Resume(t.Context(), again, h.take)
	if !e.resumes {
		if e.wrong == "" && (err != nil || got.Done.Reason != e.reason ||
			h.done(t, got).Reason != e.reason) {
			t.Errorf("what is answered is not told again: %v, %v", got, err)
		}
		return
	}
	must.Succeed(t, err)
	if done := h.done(t, got); done.Reason != "context_sufficient" || got.Error != nil ||
		got.Text != "It lets everybody in." {
		t.Errorf("it continued to %+v, %+v, %q:\n%s", done, got.Error, got.Text, lines(h.chunks))
	}
}

// TestEmitFails checks that an error of emit ends the conversation with that error, and that emit
// is not called again.
func TestEmitFails(t *testing.T) {
	turns := func() *modelserver.Script {
		return script(calls(says("Let me look."+another), "call_1", "look", `{}`),
			says("It lets everybody in."+enough))
	}
	full := errors.New("the pipe is closed")
	both(t, func(t *testing.T, p model.Provider) {
		tried := 0
		for limit := 0; ; limit++ {
			over := false
			synctest.Test(t, func(t *testing.T) {
				network, end := pipeClient(t, p, newServer(t, turns()))
				defer end()
				o := newOracle(t, oracle.Options{Model: network,
					Tools: []toolbox.Tool{finds("look", "found")}})
				offered := 0
				s := newSession(t)
				answer, err := o.Ask(t.Context(), s, question, func(chunk.Chunk) error {
					if offered++; offered > limit {
						return full
					}
					return nil
				})
				if over = err == nil; over {
					return
				}
				if !errors.Is(err, full) {
					t.Errorf("after %d chunks: %v, %v", limit, answer, err)
				}
				if offered != limit+1 {
					t.Errorf("after %d chunks %d were offered", limit, offered)
				}
				h := &heard{}
				if answer, err = o.Resume(t.Context(), s, h.take); err != nil {
					if last := session.Last(s.Entries()); !last.Done {
						t.Errorf("after %d chunks it cannot be resumed: %v", limit, err)
					}
					return
				}
				if done := h.done(t, answer); done.Reason != "context_sufficient" ||
					answer.Text != "It lets everybody in." {
					t.Errorf("after %d chunks it continued to %+v", limit, answer)
				}
			})
			if over {
				break
			}
			tried++
		}
		if tried < 7 {
			t.Errorf("there are only %d chunks", tried)
		}
	})
}

// TestNoServer checks the error for a server that does not run, on a real network.
func TestNoServer(t *testing.T) {
	both(t, func(t *testing.T, p model.Provider) {
		server := httptest.NewServer(nil)
		url := server.URL
		server.Close()
		c := clientOf(t, p, url, nil)
		defer c.Close()
		h := &heard{}
		answer, err := newOracle(t, oracle.Options{Model: c}).Ask(t.Context(), newSession(t),
			question, h.take)
		must.Succeed(t, err)
		if done := h.done(t, answer); done.Reason != oracle.ReasonModelFailed ||
			answer.Error.Name != string(model.ErrorNoServer) {
			t.Errorf("it ended with %+v, %+v", done, answer.Error)
		}
	})
}

// lateModel is a model that ignores its context.
type lateModel struct{}

func (lateModel) Reply(_ context.Context, _ model.Request,
	on func(model.Event)) (*model.Reply, error) {
	time.Sleep(time.Hour)
	on(model.Event{Kind: model.EventReasoning, Text: "late"})
	return nil, errors.New("late")
}

// TestNothingAfterDone checks that no chunk follows Done, even if a model outlives its
// conversation.
func TestNothingAfterDone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		h := &heard{}
		answer, err := newOracle(t, oracle.Options{Model: lateModel{}}).Ask(ctx, newSession(t),
			question, h.take)
		must.Succeed(t, err)
		time.Sleep(2 * time.Hour) // on the clock of the bubble
		if reason := h.done(t, answer).Reason; reason != "cancelled" {
			t.Errorf("it ended with %q", reason)
		}
	})
}
