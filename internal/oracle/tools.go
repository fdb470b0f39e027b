package oracle

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"signalbox/internal/oracle/chunk"
	"signalbox/internal/oracle/decide"
	"signalbox/internal/oracle/model"
	"signalbox/internal/oracle/prompt"
	"signalbox/internal/oracle/session"
	"signalbox/internal/oracle/toolbox"
	"signalbox/internal/tree"
	"signalbox/internal/tree/runner"
)

// round is the payload of the job that makes the calls of one reply. The calls themselves, which
// may be large, are in the session.
type round struct {
	Turn     int              `json:"turn"`
	Verdicts []decide.Verdict `json:"verdicts"`
	// Last means that the model had to answer without tools, NoTools that the tree offered none.
	Last    bool `json:"last,omitempty"`
	NoTools bool `json:"no_tools,omitempty"`
	// Cut is why the reply ended early, "" if it did not.
	Cut string `json:"cut,omitempty"`
	// Millis is how long the calls may take. Zero means no limit.
	Millis int64 `json:"millis,omitempty"`
}

// callOutcome is the result of a call, for the blackboard.
type callOutcome struct {
	Name    string `json:"name"`
	OK      bool   `json:"ok"`
	Text    string `json:"text"`
	Sources int    `json:"sources"`
}

type roundResult struct {
	Results []callOutcome `json:"results"` // at most maxResults
	Sources int           `json:"sources"` // of all
	Millis  int64         `json:"millis"`
}

// toolCallsLeaf returns the leaf that makes the calls of the last reply concurrently.
func (v *conversation) toolCallsLeaf() tree.Leaf {
	return tree.Leaf{Params: []tree.Param{}, Prepare: v.prepareRound, Job: v.makeCalls,
		Finish: finishRound}
}

// toolLeaf returns the leaf of a tool that the tree itself calls. When a question is asked again
// after a failure, calls that succeeded in an earlier run are not repeated.
func (v *conversation) toolLeaf(name string) tree.Leaf {
	return runner.Tool(name, func(ctx context.Context, key string,
		args map[string]any) (any, error) {
		arguments := tree.FormatValue(args)
		questionKey := v.questionKey(key, arguments)
		m := pendingCall{key: questionKey + "@" + key[:strings.IndexByte(key, '/')],
			turn: int(v.turn.Load()), verdict: decide.Allow}
		m.call = model.Call{ID: m.key, Name: name, Arguments: arguments}
		outcome, done := v.doneBefore(questionKey, m.key, v.tools[name])
		var err error
		if !done {
			if m.begun, err = v.beginCall(&m); err == nil {
				limited, cancel := v.withTimeFor(ctx, math.MaxInt32)
				outcome, err = v.makeCall(ctx, limited, m)
				cancel()
			}
		}
		switch {
		case err != nil:
			return nil, err
		case !outcome.OK:
			return nil, errors.New(outcome.Text)
		}
		return outcome.Text, nil
	})
}

// questionKey returns the key of work that is done once per question, whichever run of the tree
// does it.
func (v *conversation) questionKey(key, about string) string {
	place := key[strings.IndexByte(key, '/')+1:] // without the run's id
	sum := sha256.Sum256([]byte(about))
	return fmt.Sprintf("%s.%d/%s/%x", v.session.ID, v.number, place, sum[:6])
}

// doneBefore returns the outcome of a call that the tree made in an earlier run and that must not
// be repeated: it succeeded, or its outcome is unknown and the tool is not read-only. A failed call
// may be repeated.
func (v *conversation) doneBefore(questionKey, own string, tool toolbox.Tool) (callOutcome, bool) {
	if _, begun := v.session.Find(session.Call, own); begun {
		return callOutcome{}, false
	}
	open := map[string]*session.Entry{}
	entries := v.session.Entries()
	for i := range entries {
		e := &entries[i]
		switch {
		case !strings.HasPrefix(e.Key, questionKey+"@"):
		case e.Kind == session.Call:
			open[e.Key] = e
		case e.Kind == session.Result && (e.OK || e.Text == unknownOutcome && !tool.ReadOnly):
			return outcomeOf(*e), true
		case e.Kind == session.Result:
			delete(open, e.Key)
		}
	}
	if len(open) > 0 && !tool.ReadOnly {
		return callOutcome{Name: tool.Name, Text: unknownOutcome}, true
	}
	return callOutcome{}, false
}

// calls returns the calls in the reply of a turn.
func (v *conversation) calls(turn int) []model.Call {
	if turn == 0 {
		return nil
	}
	reply, _ := v.session.ReplyOf(v.number, turn)
	return reply.Calls
}

func (v *conversation) prepareRound(c *tree.Call) (any, error) {
	r := round{Turn: int(get[int64](c, keyTurn)), Last: get[string](c, keyAsked) != "",
		NoTools: get[bool](c, keyNoTools), Cut: get[string](c, keyCut)}
	if hasToolCalls(c) != tree.Success { // no calls, or they are already made
		return toValue(round{}), nil
	}
	if limit := limits(c); limit.Time > 0 {
		r.Millis = remaining(c, workLimit(limit)).Time.Milliseconds()
	}
	history := repeats(c)
	for _, call := range v.calls(r.Turn) { // at most model.MaxCalls
		var verdict decide.Verdict
		history, verdict = history.Next(call.Name, []byte(call.Arguments))
		r.Verdicts = append(r.Verdicts, verdict)
	}
	return toValue(r), cmp.Or(setRepeats(c, history), c.Set(keyCalls, nil))
}

// makeCalls makes the calls of a reply concurrently and returns when all have ended.
func (v *conversation) makeCalls(ctx context.Context, r tree.Request) tree.Result {
	if ctx.Err() != nil {
		return tree.Result{Status: tree.Failure, Err: ctx.Err().Error()}
	}
	var q round
	fromValue(r.Payload, &q)
	start := time.Now()
	limited, cancel := v.withTimeFor(ctx, q.Millis)
	defer cancel()
	calls := v.calls(q.Turn)
	if len(calls) != len(q.Verdicts) {
		return tree.Result{Status: tree.Failure,
			Err: "the calls differ from those in the session: its record was changed"}
	}
	results := make([]callOutcome, len(calls))
	errs := make([]error, len(calls))
	pending := make([]pendingCall, len(calls))
	// sequentially, so that they are recorded and shown in the order of the reply
	for i, call := range calls {
		pending[i] = pendingCall{key: callKey(r.Key, i), turn: q.Turn, call: call,
			verdict: q.Verdicts[i], refusal: v.refusal(&q, calls, i)}
		pending[i].begun, errs[i] = v.beginCall(&pending[i])
	}
	var wg sync.WaitGroup
	slots := make(chan struct{}, maxConcurrentCalls)
	for i := range calls {
		if errs[i] == nil {
			slots <- struct{}{}
			wg.Go(func() {
				results[i], errs[i] = v.makeCall(ctx, limited, pending[i])
				<-slots
			})
		}
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return tree.Result{Status: tree.Failure, Err: err.Error()}
	}
	if err := v.abort(v.session.Sync()); err != nil {
		return tree.Result{Status: tree.Failure, Err: err.Error()}
	}
	result := roundResult{Results: results[:min(len(results), maxResults)], Millis: time.Since(start).Milliseconds()}
	if limited.Err() != nil && ctx.Err() == nil {
		// or a clock that is read a little later could leave time for another turn
		result.Millis = max(result.Millis, q.Millis)
	}
	for _, r := range results {
		result.Sources += r.Sources
	}
	return tree.Result{Status: tree.Success, Writes: map[string]any{"round": toValue(result)}}
}

// unknownOutcome is the result of a call whose process was killed. Sessions contain it, and
// doneBefore compares with it: do not change it.
const unknownOutcome = "it is not known what came of this call: the program was stopped while it ran, and it is not made again by " +
	"itself. Find out whether it was done before you ask for it again"

func callKey(key string, i int) string { return key + "/" + strconv.Itoa(i) }

// beginCall records that a call is about to be made, and reports whether an earlier process has
// already recorded it.
func (v *conversation) beginCall(m *pendingCall) (begun bool, err error) {
	e := session.Entry{Kind: session.Call, Key: m.key, Question: v.number, Turn: m.turn,
		Call: &m.call}
	added, err := v.session.Once(e, v.hasEffects(m))
	if err == nil && added {
		v.out.send(toolCallChunk(&e))
	}
	return !added, v.abort(err)
}

// hasEffects reports whether a call may change something. If so, its start must be on disk before
// it runs.
func (v *conversation) hasEffects(m *pendingCall) bool {
	return m.refusal == "" && !v.tools[m.call.Name].ReadOnly
}

const (
	maxConcurrentCalls = 8
	maxCalls           = 64 // calls per reply that are made
)

// refusal returns why the ith call of a reply must not be made, or "".
func (v *conversation) refusal(r *round, calls []model.Call, i int) string {
	name := calls[i].Name
	offered := v.offered(prompt.Class(v.class))
	switch {
	case r.Last:
		return "no tool can be called in the last turn"
	case r.NoTools || !slices.ContainsFunc(offered,
		func(t model.ToolSpec) bool { return t.Name == name }):
		return "there is no tool '" + truncate(name, 100) + "'" + v.toolNames(r.NoTools)
	case r.Verdicts[i] == decide.Refuse:
		return v.advice(prompt.RefusedCall)
	case i >= maxCalls:
		return fmt.Sprintf("not made: a reply may have %d calls", maxCalls)
	case r.Cut == string(model.StopRefusal), r.Cut != "" && i == len(calls)-1:
		return "not made: the reply was cut off, and this call may be too"
	}
	return ""
}

// pendingCall is a call that is about to be made.
type pendingCall struct {
	key     string
	turn    int
	call    model.Call
	begun   bool // by an earlier process
	verdict decide.Verdict
	refusal string
}

// withTimeFor returns a context for tools that may take this long, and in any case leave time for
// the turn that must answer. The context is ctx if the question has no time limit.
func (v *conversation) withTimeFor(ctx context.Context,
	millis int64) (context.Context, context.CancelFunc) {
	if v.deadline.IsZero() || millis <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, v.timeFor(millis, false))
}

// outOfTime is the result of a call that was stopped at the time limit of the question.
const outOfTime = "stopped: the time of the question is spent. If the call changes something, it is not known whether it did"

// makeCall makes a call after beginCall, unless the session has its result. An error of the tool is
// part of the outcome; the error returned means that the conversation cannot continue. The context
// limited ends no later than ctx: at the time limit.
func (v *conversation) makeCall(ctx, limited context.Context, m pendingCall) (callOutcome, error) {
	if e, found := v.session.Find(session.Result, m.key); found {
		return outcomeOf(e), nil
	}
	tool := v.tools[m.call.Name]
	start := time.Now()
	var outcome toolbox.Outcome
	switch {
	case m.refusal != "":
		outcome.Text = m.refusal
	case m.begun && !tool.ReadOnly:
		if err := v.abort(endLeftover(tool, m.key)); err != nil {
			return callOutcome{}, err
		}
		outcome.Text = unknownOutcome
	default:
		outcome = toolbox.Run(limited, tool,
			toolbox.Call{Key: m.key, Arguments: []byte(m.call.Arguments)})
		if ctx.Err() != nil && !outcome.OK { // the outcome is unknown
			return callOutcome{}, ctx.Err()
		}
		if limited.Err() != nil && !outcome.OK {
			outcome.Text = outOfTime
		}
		if m.verdict == decide.Tell {
			outcome.Text = strings.TrimSpace(outcome.Text + "\n\n" + v.advice(prompt.RepeatedCall))
		}
	}
	e := session.Entry{Kind: session.Result, Key: m.key, Question: v.number, Turn: m.turn,
		Call: &m.call, OK: outcome.OK, Text: outcome.Text,
		Sources: outcome.Sources, Millis: time.Since(start).Milliseconds()}
	if err := v.abort(v.session.Append(e, v.hasEffects(&m))); err != nil {
		return callOutcome{}, err
	}
	v.out.send(toolResultChunk(&e))
	return outcomeOf(e), nil
}

// endLeftover ends processes that a call may have left running: they could have effects after the
// model was told the outcome.
func endLeftover(tool toolbox.Tool, key string) error {
	if tool.End == nil {
		return nil
	}
	if err := tool.End(key); err != nil {
		return fmt.Errorf("end the processes of a call of %s: %w", tool.Name, err)
	}
	return nil
}

// settleCalls ends the processes that interrupted calls of earlier questions left running, and
// records the outcome of those calls as unknown, so that the model learns of them although another
// question is asked.
func (v *conversation) settleCalls() error {
	entries := v.session.Entries()
	results := map[string]bool{}
	for _, e := range entries {
		if e.Kind == session.Result {
			results[e.Key] = true
		}
	}
	for _, e := range entries {
		if e.Kind != session.Call || results[e.Key] {
			continue
		}
		tool, known := v.tools[e.Call.Name]
		if known && tool.ReadOnly {
			continue
		}
		if err := endLeftover(tool, e.Key); err != nil {
			return err
		}
		lost := session.Entry{Kind: session.Result, Key: e.Key, Question: e.Question, Turn: e.Turn, Call: e.Call, Text: unknownOutcome}
		if err := v.session.Append(lost, false); err != nil {
			return err
		}
	}
	return nil
}

func toolCallChunk(e *session.Entry) chunk.ToolCall {
	return chunk.ToolCall{Turn: e.Turn, ID: e.Call.ID, Name: e.Call.Name,
		Arguments: []byte(e.Call.Arguments)}
}

func toolResultChunk(e *session.Entry) chunk.ToolResult {
	return chunk.ToolResult{Turn: e.Turn, ID: e.Call.ID, Name: e.Call.Name, OK: e.OK, Text: e.Text}
}

func outcomeOf(e session.Entry) callOutcome {
	return callOutcome{Name: truncate(e.Call.Name, 200), OK: e.OK, Text: truncate(e.Text, maxShown),
		Sources: len(e.Sources)}
}

// advice returns a piece of advice that needs no data.
func (v *conversation) advice(name string) string {
	text, _ := v.Prompt.Advice(name, prompt.AdviceData{}) // prompt.New has tried it
	return text
}

func (v *conversation) toolNames(none bool) string {
	var names []string
	for _, t := range v.offered(prompt.Class(v.class)) {
		names = append(names, t.Name)
	}
	if none {
		names = nil
	}
	if len(names) == 0 {
		return ": there are none for this question"
	}
	return ": there are " + strings.Join(names, ", ")
}

const (
	maxShown   = 4 << 10 // bytes of a result on the blackboard
	maxResults = 100     // results on the blackboard; older ones are removed
)

// finishRound puts the results on the blackboard, in the order of the calls.
func finishRound(c *tree.Call, result tree.Result) tree.Status {
	if result.Status != tree.Success {
		return c.Fail("%s", result.Err)
	}
	var r roundResult
	fromValue(result.Writes["round"], &r)
	before, _ := c.Get("tool_results")
	list, _ := before.([]any)
	list = append([]any{}, list...)
	for _, outcome := range r.Results {
		entry := map[string]any{"tool": outcome.Name, "success": outcome.OK}
		if outcome.OK {
			entry["result"] = outcome.Text
		} else {
			entry["error"] = outcome.Text
		}
		list = append(list, entry)
	}
	err := cmp.Or(c.Set("tool_results", list[max(0, len(list)-maxResults):]),
		c.Set(keySources, get[int64](c, keySources)+int64(r.Sources)),
		spend(c, model.Usage{}, time.Duration(r.Millis)*time.Millisecond))
	if err != nil {
		return c.Fail("%v", err)
	}
	return tree.Success
}
