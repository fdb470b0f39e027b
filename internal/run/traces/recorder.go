package traces

import (
	"encoding/json"
	"strings"
	"time"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/agent"
	"signalbox/internal/text"
)

// recorder turns the events of sessions, and the tool calls of their agents, into spans.
type recorder struct {
	box      string
	sessions map[holding]*session
	tools    map[string][]tool // by session, those of turns that have not ended
}

// holding is a session and the work that it holds. A merger can hold several tasks.
type holding struct{ session, work string }

// session is a session that holds work.
type session struct {
	span         span
	role         signalbox.Role
	conversation string
	turn         *span // the turn that runs, or has just ended
}

// tool is the call of a tool.
type tool struct {
	name, call   string
	began, ended time.Time // ended is zero until there is a result
	failed       bool
}

func newRecorder(box string) *recorder {
	return &recorder{box: box, sessions: map[holding]*session{}, tools: map[string][]tool{}}
}

// maxTools bounds the tool calls that are remembered of one turn.
const maxTools = 10000

// tool records the call of a tool, or its result.
func (r *recorder) tool(u agent.ToolUse, now time.Time) {
	tools := r.tools[u.Session]
	if !u.Result {
		if len(tools) < maxTools {
			r.tools[u.Session] = append(tools, tool{name: u.Tool, call: u.Call, began: now})
		}
		return
	}
	for i := range tools { // without an id, results come in the order of the calls
		if t := &tools[i]; t.ended.IsZero() && t.call == u.Call {
			t.ended, t.failed = now, u.Failed
			if u.Took > 0 {
				t.began = now.Add(-u.Took)
			}
			return
		}
	}
}

// event returns the spans that end with an event of a session. find returns a work item.
func (r *recorder) event(e *signalbox.Event, find func(id string) *rules.Work) (ended []span) {
	if e.Type == rules.TypeLeaseGranted {
		r.begin(e)
		return nil
	}
	s := r.sessions[holding{e.Session, e.Work}]
	if s == nil {
		return nil
	}
	switch e.Type {
	case rules.TypeConversationOpened:
		s.conversation = body[rules.ConversationOpened](e).ID
	case rules.TypeAgentStarted:
		ended = r.endTurn(e.Session, s)
		s.turn = r.newTurn(e, s)
	case rules.TypeSignalHeard:
		heard := body[rules.SignalHeard](e)
		s.note(e, "signal", attribute{"signalbox.signal", heard.Signal})
	case rules.TypeSignalRefused: // what it said may be words of the agent
		s.note(e, "signal refused",
			attribute{"signalbox.reason", string(body[rules.SignalRefused](e).Reason)})
	case rules.TypeAgentTurnEnded:
		s.measure(e)
	case rules.TypeAgentFailed:
		s.fail(e)
	case rules.TypeChecksRan:
		s.addChecks(e)
	case rules.TypePhaseChanged:
		if body[rules.PhaseChanged](e).To == signalbox.PhaseCompleted {
			ended = append(ended, r.task(e, find(e.Work))...)
		}
	case rules.TypeLeaseReleased, rules.TypeLeaseExpired:
		ended = r.endTurn(e.Session, s)
		s.span.ended = e.Time
		if e.Type == rules.TypeLeaseExpired {
			s.span.failed, s.span.failure = true, "the lease expired"
		}
		ended = append(ended, s.span)
		delete(r.sessions, holding{e.Session, e.Work})
		delete(r.tools, e.Session)
	}
	return ended
}

// body returns the body of an event.
func body[T any](e *signalbox.Event) (b T) {
	json.Unmarshal(e.Data, &b) // it was valid when it was appended
	return b
}

// short returns a text of an agent as one line of limited length.
func short(s string) string { return text.Shorten(text.OneLine(s), 200) }

func (r *recorder) begin(e *signalbox.Event) {
	role := body[rules.LeaseGranted](e).Role
	s := &session{role: role, span: span{trace: traceID(r.box, e.Work), id: eventID(r.box, e.Seq),
		parent: taskID(r.box, e.Work), name: string(role) + " " + e.Work, began: e.Time}}
	s.span.set("signalbox.box", r.box)
	s.span.set("signalbox.work", e.Work)
	s.span.set("signalbox.session", e.Session)
	s.span.set("signalbox.role", string(role))
	r.sessions[holding{e.Session, e.Work}] = s
}

// providers are the names of the conventions for those who make agent programs.
var providers = map[signalbox.Format]string{signalbox.FormatClaude: "anthropic",
	signalbox.FormatCodex: "openai", signalbox.FormatGemini: "gcp.gemini"}

func (r *recorder) newTurn(e *signalbox.Event, s *session) *span {
	started := body[rules.AgentStarted](e)
	t := &span{trace: s.span.trace, id: eventID(r.box, e.Seq), parent: s.span.id,
		name: "invoke_agent " + started.Agent, began: e.Time}
	t.set("gen_ai.operation.name", "invoke_agent")
	t.set("gen_ai.agent.name", started.Agent)
	provider := providers[started.Format]
	if provider == "" {
		provider = string(started.Format)
	}
	t.set("gen_ai.provider.name", provider)
	t.set("signalbox.work", e.Work)
	t.set("signalbox.session", e.Session)
	t.set("signalbox.role", string(s.role))
	t.set("signalbox.attempt", int64(started.Attempt))
	t.set("signalbox.sandbox", started.Sandbox.Mode)
	return t
}

// note adds an event to the running turn, or to the session if there is none.
func (s *session) note(e *signalbox.Event, name string, attributes ...attribute) {
	to := &s.span
	if s.turn != nil {
		to = s.turn
	}
	to.events = append(to.events, spanEvent{name, e.Time, attributes})
}

// measure records what a turn has used.
func (s *session) measure(e *signalbox.Event) {
	if s.turn == nil {
		return
	}
	t, b := s.turn, body[rules.AgentTurnEnded](e)
	t.ended = e.Time
	t.set("gen_ai.request.model", short(b.Model))
	t.set("gen_ai.conversation.id", s.conversation)
	if b.Spent.UnknownTokens == 0 {
		t.set("gen_ai.usage.input_tokens", b.InputTokens)
		t.set("gen_ai.usage.output_tokens", b.OutputTokens)
	}
	if b.Spent.UnknownCost == 0 {
		t.set("signalbox.cost_usd", float64(b.Spent.CostMicros)/1e6)
	}
	t.set("signalbox.estimated", b.Estimated)
	t.set("signalbox.exit", int64(b.Exit))
	t.set("signalbox.interrupted", b.Interrupted)
}

// fail records that the agent failed.
func (s *session) fail(e *signalbox.Event) {
	b := body[rules.AgentFailed](e)
	failed := &s.span
	if s.turn != nil {
		failed = s.turn
		if failed.ended.IsZero() {
			failed.ended = e.Time
		}
	}
	failed.failed = true // without the detail, which has words of the agent
	failed.set("error.type", b.Cause)
}

// addChecks records the result of the checks.
func (s *session) addChecks(e *signalbox.Event) {
	var failed []string
	b := body[rules.ChecksRan](e)
	for _, row := range b.Rows {
		if !row.Passed {
			failed = append(failed, row.Name())
		}
	}
	s.span.set("signalbox.checks", int64(len(b.Rows)))
	if len(failed) > 0 {
		// names in the configuration
		s.span.failed, s.span.failure = true, "failed: "+
			short(strings.Join(rules.ChecksInWords(failed), ", "))
	}
}

// endTurn returns the spans of the turn that has ended, and of its tool calls.
func (r *recorder) endTurn(id string, s *session) (ended []span) {
	t := s.turn
	if t == nil {
		return nil
	}
	s.turn = nil
	if t.ended.IsZero() { // it was cut short
		t.ended = t.began
	}
	var later []tool
	for _, call := range r.tools[id] {
		if call.began.After(t.ended) {
			later = append(later, call) // of the next turn
			continue
		}
		ended = append(ended, call.span(t, len(ended)))
	}
	r.tools[id] = later
	return append(ended, *t)
}

func (c tool) span(turn *span, number int) span {
	s := span{trace: turn.trace, id: toolID(turn.id, number), parent: turn.id,
		name: "execute_tool " + short(c.name), began: c.began, ended: c.ended, failed: c.failed}
	if s.ended.IsZero() {
		s.ended = turn.ended
	}
	s.set("gen_ai.operation.name", "execute_tool")
	s.set("gen_ai.tool.name", short(c.name))
	s.set("gen_ai.tool.call.id", short(c.call))
	if c.failed {
		s.set("error.type", "tool_error")
	}
	return s
}

// task returns the span of a task that is completed.
func (r *recorder) task(e *signalbox.Event, w *rules.Work) []span {
	if w == nil {
		return nil
	}
	s := span{trace: traceID(r.box, e.Work), id: taskID(r.box, e.Work), name: "task " + e.Work, began: w.Opened, ended: e.Time}
	s.set("signalbox.box", r.box)
	s.set("signalbox.work", e.Work)
	s.set("signalbox.title", short(w.Title))
	if w.Task != nil {
		s.set("signalbox.plan", w.Task.Plan)
	}
	return []span{s}
}
