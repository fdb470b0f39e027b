package oracle

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
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

// round is the calls of one reply: the payload of their job. The session has the calls themselves, which may be large.
type round struct {
	Turn     int              `json:"turn"`
	Verdicts []decide.Verdict `json:"verdicts"`
	// Last: the answer was asked for, and no tool may be called. NoTools: the tree offered none.
	Last    bool `json:"last,omitempty"`
	NoTools bool `json:"no_tools,omitempty"`
	// Cut is why the reply ended early, "" if it did not.
	Cut string `json:"cut,omitempty"`
}

// called is how a call ended, as it goes to the blackboard.
type called struct {
	Name    string `json:"name"`
	OK      bool   `json:"ok"`
	Text    string `json:"text"`
	Sources int    `json:"sources"`
}

type roundResult struct {
	Results []called `json:"results"` // the first of them
	Sources int      `json:"sources"` // of all
	Millis  int64    `json:"millis"`
}

// useTools is the leaf that makes the calls of the last reply, all at once.
func (v *conversation) useTools() tree.Leaf {
	return tree.Leaf{Params: []tree.Param{}, Prepare: v.prepareRound, Job: v.makeCalls, Finish: finishRound}
}

// useTool is the leaf of a tool that the tree itself calls. A question that is asked again after a failure does not do again
// what was done in a run before.
func (v *conversation) useTool(name string) tree.Leaf {
	return runner.Tool(name, func(ctx context.Context, key string, args map[string]any) (any, error) {
		arguments := tree.FormatValue(args)
		lasting := v.lastingKey(key, arguments)
		m := madeCall{key: lasting + "@" + key[:strings.IndexByte(key, '/')], turn: int(v.turn.Load()), verdict: decide.Allow}
		m.call = model.Call{ID: m.key, Name: name, Arguments: arguments}
		one, done := v.doneBefore(lasting, m.key, v.tools[name])
		var err error
		if !done {
			if m.begun, err = v.beginCall(&m); err == nil {
				one, err = v.makeCall(ctx, m)
			}
		}
		switch {
		case err != nil:
			return nil, err
		case !one.OK:
			return nil, errors.New(one.Text)
		}
		return one.Text, nil
	})
}

// lastingKey is the key of work that is done once for a question, in whichever run of the tree.
func (v *conversation) lastingKey(key, about string) string {
	place := key[strings.IndexByte(key, '/')+1:] // without the run's id
	sum := sha256.Sum256([]byte(about))
	return fmt.Sprintf("%s.%d/%s/%x", v.session.ID, v.number, place, sum[:6])
}

// doneBefore returns what came of a call of the tree in a run before, if it must not be made again: it succeeded, or
// nobody knows what came of one that changes something. One that failed may be tried again.
func (v *conversation) doneBefore(lasting, own string, tool toolbox.Tool) (called, bool) {
	if _, begun := v.session.Find(session.Called, own); begun {
		return called{}, false
	}
	open := map[string]*session.Entry{}
	entries := v.session.Entries()
	for i := range entries {
		e := &entries[i]
		switch {
		case !strings.HasPrefix(e.Key, lasting+"@"):
		case e.Kind == session.Called:
			open[e.Key] = e
		case e.Kind == session.Result && (e.OK || e.Text == doubtful && !tool.ReadOnly):
			return calledFrom(*e), true
		case e.Kind == session.Result:
			delete(open, e.Key)
		}
	}
	if len(open) > 0 && !tool.ReadOnly {
		return called{Name: tool.Name, Text: doubtful}, true
	}
	return called{}, false
}

// calls are those of the reply of a turn.
func (v *conversation) calls(turn int) []model.Call {
	if turn == 0 {
		return nil
	}
	reply, _ := v.session.ReplyOf(v.number, turn)
	return reply.Calls
}

func (v *conversation) prepareRound(c *tree.Call) (any, error) {
	r := round{Turn: int(count(c, keyTurn)), Last: text(c, keyAsked) != "", NoTools: truth(c, keyNoTools), Cut: text(c, keyCut)}
	if hasToolCalls(c) != tree.Success { // there are none, or they were made
		return toValue(round{}), nil
	}
	seen := repeats(c)
	for _, call := range v.calls(r.Turn) { // at most maxRecorded
		var verdict decide.Verdict
		seen, verdict = seen.Next(call.Name, []byte(call.Arguments))
		r.Verdicts = append(r.Verdicts, verdict)
	}
	return toValue(r), firstError(setRepeats(c, seen), c.Set(keyCalls, nil))
}

// makeCalls makes calls at once and returns when all have ended.
func (v *conversation) makeCalls(ctx context.Context, r tree.Request) tree.Result {
	if ctx.Err() != nil {
		return tree.Result{Status: tree.Failure, Err: ctx.Err().Error()}
	}
	var asked round
	fromValue(r.Payload, &asked)
	begun := time.Now()
	calls := v.calls(asked.Turn)
	if len(calls) != len(asked.Verdicts) {
		return tree.Result{Status: tree.Failure, Err: "the calls are not those of the session: its record was changed"}
	}
	results := make([]called, len(calls))
	errs := make([]error, len(calls))
	made := make([]madeCall, len(calls))
	for i, call := range calls { // one after the other, so that they are told in the order of the reply
		made[i] = madeCall{key: callKey(r.Key, i), turn: asked.Turn, call: call, verdict: asked.Verdicts[i], refusal: v.refusal(&asked, calls, i)}
		made[i].begun, errs[i] = v.beginCall(&made[i])
	}
	var all sync.WaitGroup
	slots := make(chan struct{}, maxAtOnce)
	for i := range calls {
		if errs[i] == nil {
			slots <- struct{}{}
			all.Go(func() {
				results[i], errs[i] = v.makeCall(ctx, made[i])
				<-slots
			})
		}
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return tree.Result{Status: tree.Failure, Err: err.Error()}
	}
	if err := v.halt(v.session.Sync()); err != nil {
		return tree.Result{Status: tree.Failure, Err: err.Error()}
	}
	brought := roundResult{Results: results[:min(len(results), maxResults)], Millis: time.Since(begun).Milliseconds()}
	for _, one := range results {
		brought.Sources += one.Sources
	}
	return tree.Result{Status: tree.Success, Writes: map[string]any{"round": toValue(brought)}}
}

// doubtful is the result of a call that was begun by a process that was killed.
const doubtful = "it is not known what came of this call: the program was stopped while it ran, and it is not made again by " +
	"itself. Find out whether it was done before you ask for it again"

func callKey(key string, i int) string { return key + "/" + strconv.Itoa(i) }

// beginCall records that a call is about to be made, and reports whether it was before.
func (v *conversation) beginCall(m *madeCall) (before bool, err error) {
	e := session.Entry{Kind: session.Called, Key: m.key, Question: v.number, Turn: m.turn, Call: &m.call}
	fresh, err := v.session.Once(e, v.changes(m))
	if err == nil && fresh {
		v.out.send(toolCallChunk(&e))
	}
	return !fresh, v.halt(err)
}

// changes tells whether a call may change something: then it must be known to have begun before it does.
func (v *conversation) changes(m *madeCall) bool {
	return m.refusal == "" && !v.tools[m.call.Name].ReadOnly
}

const (
	maxAtOnce = 8  // calls under way at the same time
	maxCalls  = 64 // calls of one reply that are made
)

// refusal is why a call of a reply is not made, "" if it is.
func (v *conversation) refusal(r *round, calls []model.Call, i int) string {
	name := calls[i].Name
	offered := v.offered(prompt.Class(v.class))
	switch {
	case r.Last:
		return "no tool can be called in the last turn"
	case r.NoTools || !slices.ContainsFunc(offered, func(t model.ToolSpec) bool { return t.Name == name }):
		return "there is no tool '" + startOf(name, 100) + "'" + v.toolNames(r.NoTools)
	case r.Verdicts[i] == decide.Refuse:
		return v.words(prompt.RefusedCall)
	case i >= maxCalls:
		return fmt.Sprintf("not made: a reply may have %d calls", maxCalls)
	case r.Cut == string(model.StopRefusal), r.Cut != "" && i == len(calls)-1:
		return "not made: the reply was cut off, and this call may be too"
	}
	return ""
}

// madeCall is a call on its way.
type madeCall struct {
	key     string
	turn    int
	call    model.Call
	begun   bool // by a process before this one
	verdict decide.Verdict
	refusal string
}

// makeCall makes a call that was begun, perhaps by a process before this one, unless the session knows what came of it. The
// error is not the tool's: the conversation cannot go on.
func (v *conversation) makeCall(ctx context.Context, m madeCall) (called, error) {
	if e, there := v.session.Find(session.Result, m.key); there {
		return calledFrom(e), nil
	}
	tool := v.tools[m.call.Name]
	began := time.Now()
	var outcome toolbox.Outcome
	switch {
	case m.refusal != "":
		outcome.Text = m.refusal
	case m.begun && !tool.ReadOnly:
		if err := v.halt(endLeftover(tool, m.key)); err != nil {
			return called{}, err
		}
		outcome.Text = doubtful
	default:
		outcome = toolbox.Run(ctx, tool, toolbox.Call{Key: m.key, Arguments: []byte(m.call.Arguments)})
		if ctx.Err() != nil && !outcome.OK { // what came of it is not known
			return called{}, ctx.Err()
		}
		if m.verdict == decide.Tell {
			outcome.Text = strings.TrimSpace(outcome.Text + "\n\n" + v.words(prompt.RepeatedCall))
		}
	}
	e := session.Entry{Kind: session.Result, Key: m.key, Question: v.number, Turn: m.turn, Call: &m.call, OK: outcome.OK, Text: outcome.Text,
		Sources: outcome.Sources, Millis: time.Since(began).Milliseconds()}
	if err := v.halt(v.session.Append(e, v.changes(&m))); err != nil {
		return called{}, err
	}
	v.out.send(toolResultChunk(&e))
	return calledFrom(e), nil
}

// endLeftover ends what a call may have left running, or it may do its work after the model was told.
func endLeftover(tool toolbox.Tool, key string) error {
	if tool.End == nil {
		return nil
	}
	if err := tool.End(key); err != nil {
		return fmt.Errorf("what a call of %s left running does not end: %w", tool.Name, err)
	}
	return nil
}

// settle ends what calls of earlier questions left running whose process was killed, and has the model told that nobody
// knows what came of them: another question is asked in place of going on.
func (v *conversation) settle() error {
	entries := v.session.Entries()
	results := map[string]bool{}
	for _, e := range entries {
		if e.Kind == session.Result {
			results[e.Key] = true
		}
	}
	for _, e := range entries {
		if e.Kind != session.Called || results[e.Key] {
			continue
		}
		tool, known := v.tools[e.Call.Name]
		if known && tool.ReadOnly {
			continue
		}
		if err := endLeftover(tool, e.Key); err != nil {
			return err
		}
		lost := session.Entry{Kind: session.Result, Key: e.Key, Question: e.Question, Turn: e.Turn, Call: e.Call, Text: doubtful}
		if err := v.session.Append(lost, false); err != nil {
			return err
		}
	}
	return nil
}

func toolCallChunk(e *session.Entry) chunk.ToolCall {
	return chunk.ToolCall{Turn: e.Turn, ID: e.Call.ID, Name: e.Call.Name, Arguments: []byte(e.Call.Arguments)}
}

func toolResultChunk(e *session.Entry) chunk.ToolResult {
	return chunk.ToolResult{Turn: e.Turn, ID: e.Call.ID, Name: e.Call.Name, OK: e.OK, Text: e.Text}
}

func calledFrom(e session.Entry) called {
	return called{Name: startOf(e.Call.Name, 200), OK: e.OK, Text: startOf(e.Text, maxShown), Sources: len(e.Sources)}
}

// words is advice without an occasion; it was tried when the set was made.
func (v *conversation) words(name string) string {
	text, _ := v.Prompt.Advice(name, prompt.Occasion{})
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
	maxShown   = 4 << 10 // of a result on the blackboard
	maxResults = 100     // results on the blackboard, the newest
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
	for _, one := range r.Results {
		entry := map[string]any{"tool": one.Name, "success": one.OK}
		if one.OK {
			entry["result"] = one.Text
		} else {
			entry["error"] = one.Text
		}
		list = append(list, entry)
	}
	err := firstError(c.Set("tool_results", list[max(0, len(list)-maxResults):]), c.Set(keySources, count(c, keySources)+int64(r.Sources)),
		spend(c, model.Usage{}, time.Duration(r.Millis)*time.Millisecond))
	if err != nil {
		return c.Fail("%v", err)
	}
	return tree.Success
}
