package oracle

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"signalbox/internal/oracle/chunk"
	"signalbox/internal/oracle/decide"
	"signalbox/internal/oracle/model"
	"signalbox/internal/oracle/prompt"
	"signalbox/internal/oracle/session"
	"signalbox/internal/tree"
	"signalbox/internal/tree/turnsignal"
	"signalbox/transcript"
)

// turnRequest is the payload of the job that calls the model.
type turnRequest struct {
	Turn   int    `json:"turn"`
	Advice string `json:"advice,omitempty"`
	// Last means that the model must answer in this turn, without tools.
	Last    bool   `json:"last,omitempty"`
	Stuck   bool   `json:"stuck,omitempty"`
	Blocker string `json:"blocker,omitempty"`
	// Model, System and NoTools are arguments of the tree's llm_call.
	Model   string `json:"model,omitempty"`
	System  string `json:"system,omitempty"`
	NoTools bool   `json:"no_tools,omitempty"`
	// Millis is how long the reply may take. Zero means no limit.
	Millis int64 `json:"millis,omitempty"`
	// Temperature is an argument of the tree's llm_call. Nil means the server's own.
	Temperature *float64 `json:"temperature,omitempty"`
	// What is left of the limits, for the prompt. Zero means that there is no limit, or nothing
	// left.
	TurnsLeft  int     `json:"turns_left,omitempty"`
	TokensLeft int64   `json:"tokens_left,omitempty"`
	CostLeft   float64 `json:"cost_left,omitempty"`
	MillisLeft int64   `json:"millis_left,omitempty"`
}

// turnReply is the result of a model call, for the blackboard.
type turnReply struct {
	Text    string      `json:"text"`
	HasText bool        `json:"has_text"`
	Calls   []any       `json:"calls,omitempty"`
	Made    int         `json:"made"` // the number of calls
	Dropped int         `json:"dropped,omitempty"`
	NoTools bool        `json:"no_tools,omitempty"`
	Usage   model.Usage `json:"usage"`
	Millis  int64       `json:"millis"`
	Stop    model.Stop  `json:"stop"`
	// Name and Hint belong to a failure.
	Name string `json:"name,omitempty"`
	Hint string `json:"hint,omitempty"`
}

// modelLeaf returns the leaf that calls the model. Its arguments are all optional: prompt is an
// additional message to the model (without it, the key llm_request), system replaces the system
// prompt, model names another model, temperature is passed to it, and tools = false offers no
// tools.
func (v *conversation) modelLeaf() tree.Leaf {
	return tree.Leaf{
		Params: []tree.Param{{Name: "prompt", Type: tree.Any}, {Name: "system", Type: tree.String},
			{Name: "model", Type: tree.String},
			{Name: "temperature", Type: tree.Float},
			{Name: "tools", Type: tree.Bool, Default: true}},
		Prepare: v.prepareTurn,
		Job:     v.askModel,
		Finish:  finishTurn,
	}
}

func (v *conversation) prepareTurn(c *tree.Call) (any, error) {
	r := turnRequest{Turn: int(get[int64](c, keyTurn)) + 1, Advice: get[string](c, keyAdvice),
		Last:  get[string](c, keyAsked) != "",
		Stuck: get[int64](c, keyStrategies) > 0, Blocker: get[string](c, keyStuck)}
	request, err := takeRequest(c, r.Advice)
	if err != nil {
		return nil, err
	}
	switch prompt := c.Arg("prompt").(type) {
	case nil:
		r.Advice = strings.TrimSpace(r.Advice + "\n\n" + request)
	case string:
		r.Advice = strings.TrimSpace(r.Advice + "\n\n" + prompt)
	default:
		r.Advice = strings.TrimSpace(r.Advice + "\n\n" + tree.FormatValue(prompt))
	}
	r.Model, _ = c.Arg("model").(string)
	r.System, _ = c.Arg("system").(string)
	if offer, given := c.Arg("tools").(bool); given {
		r.NoTools = !offer
	}
	if _, err := v.modelNamed(r.Model); err != nil {
		return nil, err
	}
	if temperature, given := c.Arg("temperature").(float64); given {
		r.Temperature = &temperature
	}
	limit := limits(c)
	if limit.Time > 0 {
		until := workLimit(limit)
		if r.Last {
			until = limit
		}
		r.Millis = remaining(c, until).Time.Milliseconds()
	}
	v.countDown(&r, limit, spent(c))
	return toValue(r), cmp.Or(turnsignal.NewTurn(c), c.Set(keyTurn, int64(r.Turn)),
		c.Set(keyAdvice, nil), c.Set(keyModelError, nil))
}

// countDown sets the limits that remain at the beginning of a turn.
func (v *conversation) countDown(r *turnRequest, limit, used decide.Resources) {
	r.TurnsLeft = max(1, v.TurnLimit-r.Turn+1)
	if r.Last {
		r.TurnsLeft = 1
	}
	if limit.Tokens > 0 {
		r.TokensLeft = max(0, limit.Tokens-used.Tokens)
	}
	if limit.CostUSD > 0 {
		r.CostLeft = max(0, limit.CostUSD-used.CostUSD)
	}
	if limit.Time > 0 {
		r.MillisLeft = max(0, (limit.Time - used.Time).Milliseconds())
	}
}

// askModel returns the reply of a turn, from the session if it is recorded there.
func (v *conversation) askModel(ctx context.Context, r tree.Request) tree.Result {
	if ctx.Err() != nil {
		return failure(turnReply{Name: string(model.ErrorCancelled)}, ctx.Err())
	}
	var q turnRequest
	fromValue(r.Payload, &q)
	start := time.Now()
	reply, err := v.reply(ctx, r.Key, q)
	if err != nil {
		f := turnReply{Name: ReasonModelFailed, Millis: time.Since(start).Milliseconds()}
		var modelError *model.Error
		if errors.As(err, &modelError) {
			f.Name, f.Hint = string(modelError.Kind), modelError.Hint
		}
		return failure(f, err)
	}
	took := time.Since(start).Milliseconds()
	if reply.Stop == StopTime {
		// or a clock that is read a little later could leave time for another turn
		took = max(took, q.Millis)
	}
	content := transcript.Content(reply.Text)
	result := turnReply{Text: boardText(reply.Text), HasText: strings.TrimSpace(content) != "", Calls: callsValue(reply.Calls), Made: len(reply.Calls),
		Dropped: reply.Dropped, NoTools: q.NoTools, Usage: reply.Usage, Millis: took,
		Stop: reply.Stop}
	return tree.Result{Status: tree.Success, Writes: map[string]any{"reply": toValue(result)}}
}

// reply calls the model unless the session has its reply. Every piece is recorded before it is
// shown.
func (v *conversation) reply(ctx context.Context, key string, q turnRequest) (*model.Reply, error) {
	if e, found := v.session.Find(session.Reply, key); found {
		return e.Reply, nil
	}
	if q.Advice != "" {
		if _, err := v.session.Once(session.Entry{Kind: session.Note, Key: key, Question: v.number,
			Turn: q.Turn, Text: q.Advice}, false); err != nil {
			return nil, v.abort(err)
		}
	}
	if _, cut := v.session.Find(session.Piece, key); cut {
		// An earlier process received a part of the reply. Chunks has withdrawn it.
		if err := v.session.Append(session.Entry{Kind: session.Restart, Key: key,
			Question: v.number, Turn: q.Turn}, false); err != nil {
			return nil, v.abort(err)
		}
	}
	request, err := v.request(q)
	if err != nil {
		return nil, err
	}
	m, err := v.modelNamed(q.Model)
	if err != nil {
		return nil, err
	}
	in := &replyReader{v: v, key: key, turn: q.Turn, content: transcript.NewContentStream()}
	start := time.Now()
	limited, cancel := ctx, context.CancelFunc(func() {})
	if q.Millis > 0 {
		limited, cancel = context.WithTimeout(ctx, v.timeFor(q.Millis, q.Last))
	}
	defer cancel()
	reply, err := m.Reply(limited, *request, in.handle)
	if in.err != nil {
		err = in.err
	}
	if err != nil && in.err == nil && ctx.Err() == nil && limited.Err() != nil {
		// The time limit is reached. The reply so far counts, and the decision table determines
		// what follows.
		reply, err = &model.Reply{Text: in.text.String(), Stop: StopTime, Tries: 1,
			Usage: model.Estimate(*request, in.text.String())}, nil
	}
	in.end()
	if err != nil {
		if in.shown {
			v.out.send(chunk.System{Turn: q.Turn, Name: chunk.ReplyCut, Level: chunk.Warning,
				Text: fmt.Sprintf("the reply of turn %d was cut off", q.Turn)})
		}
		return nil, err
	}
	reply.Calls = withUniqueIDs(reply.Calls)
	return reply, v.abort(v.session.Append(session.Entry{Kind: session.Reply, Key: key,
		Question: v.number, Turn: q.Turn, Reply: reply, Millis: time.Since(start).Milliseconds()},
		true))
}

// request returns the conversation so far with the system prompt for this turn.
func (v *conversation) request(q turnRequest) (*model.Request, error) {
	class := prompt.Class(v.class)
	timeLeft := time.Duration(q.MillisLeft) * time.Millisecond
	if timeLeft > time.Second {
		timeLeft = timeLeft.Truncate(time.Second)
	}
	data := &prompt.Data{TurnsLeft: q.TurnsLeft, TokensLeft: q.TokensLeft, CostLeft: q.CostLeft, TimeLeft: timeLeft, Stuck: q.Stuck, Blocker: q.Blocker}
	r := &model.Request{Messages: session.Messages(v.session.Entries()), System: q.System,
		Temperature: q.Temperature}
	if !q.NoTools {
		data.Tools = v.promptTools()
		// Tools stay declared in the last turn because the conversation contains calls of them. The
		// model is told not to call them, and calls are refused.
		r.Tools = v.offered(class)
	}
	if r.System == "" {
		words, err := v.Prompt.Prompt(class, data)
		if err != nil {
			return nil, err
		}
		r.System = words
	}
	return r, nil
}

// StopTime is the reason of a reply that was cut at the time limit of the question.
const StopTime model.Stop = "time"

// replyReader records and shows the pieces of a reply as they arrive.
type replyReader struct {
	v       *conversation
	key     string
	turn    int
	content *transcript.ContentStream
	shown   bool // content was shown since the last restart
	text    strings.Builder
	err     error
}

func (r *replyReader) handle(e model.Event) {
	if r.err != nil {
		return
	}
	v := r.v
	switch e.Kind {
	case model.EventText:
		r.record(session.Entry{Kind: session.Piece, Key: r.key, Question: v.number, Turn: r.turn,
			Text: e.Text})
		r.text.WriteString(e.Text)
		r.show(r.content.Push([]byte(e.Text)))
	case model.EventReasoning:
		v.out.send(chunk.Reasoning{Turn: r.turn, Text: e.Text})
	case model.EventRetry:
		v.out.send(chunk.System{Turn: r.turn, Name: chunk.Retry, Level: chunk.Warning,
			Text: fmt.Sprintf("%s; attempt %d follows in %s", e.Text, e.Try+1,
				e.Wait.Round(time.Millisecond))})
	case model.EventRestart:
		r.end()
		r.content, r.shown = transcript.NewContentStream(), false
		r.text.Reset()
		r.record(session.Entry{Kind: session.Restart, Key: r.key, Question: v.number, Turn: r.turn})
		v.out.send(restarted(r.turn))
	}
}

// restarted returns the chunk that withdraws the content of a turn.
func restarted(turn int) chunk.System {
	return chunk.System{Turn: turn, Name: chunk.ReplyRestarted, Level: chunk.Warning,
		Text: fmt.Sprintf("the reply of turn %d was cut off and starts again", turn)}
}

func (r *replyReader) record(e session.Entry) {
	r.err = r.v.abort(r.v.session.Append(e, false))
}

func (r *replyReader) show(content string) {
	if content != "" {
		r.shown = true
		r.v.out.send(chunk.Content{Turn: r.turn, Text: content})
	}
}

// end shows text that was held back because it could have been the start of a signal.
func (r *replyReader) end() {
	r.show(r.content.Close())
}

// withUniqueIDs replaces missing and repeated ids of calls. Some servers send them.
func withUniqueIDs(calls []model.Call) []model.Call {
	seen := map[string]bool{}
	for i := range calls {
		for n := i + 1; calls[i].ID == "" || seen[calls[i].ID]; n++ {
			calls[i].ID = fmt.Sprintf("call_%d", n)
		}
		seen[calls[i].ID] = true
	}
	return calls
}

// finishTurn puts the reply on the blackboard.
func finishTurn(c *tree.Call, result tree.Result) tree.Status {
	var r turnReply
	fromValue(result.Writes["reply"], &r)
	if result.Status != tree.Success {
		err := cmp.Or(c.Set(keyModelError, map[string]any{"name": r.Name, "text": result.Err,
			"hint": r.Hint}),
			spend(c, model.Usage{}, time.Duration(r.Millis)*time.Millisecond))
		if err != nil {
			return c.Fail("%v", err)
		}
		return c.Fail("%s", result.Err)
	}
	err := cmp.Or(
		// A signal parsed during the model call was that of the reply before.
		c.Set(turnsignal.Parsed, false),
		c.Set("llm_response", r.Text), c.Set("accumulated_content", r.Text),
		c.Set(keyText, r.HasText), c.Set(keyCalls, r.Calls), c.Set(keyMade, int64(r.Made)),
		c.Set(keyNoTools, r.NoTools),
		setOrClear(c, keyCut, string(r.Stop), r.Stop == model.StopLength ||
			r.Stop == model.StopRefusal || r.Stop == StopTime),
		spend(c, r.Usage, time.Duration(r.Millis)*time.Millisecond))
	if err == nil && get[string](c, keyCut) != "" {
		message := map[model.Stop]string{
			StopTime:          "the reply was cut because the time limit of the question was reached",
			model.StopLength:  "the reply was cut at its maximum length: to allow more, raise max_tokens of the model",
			model.StopRefusal: "the model, or a filter of its server, refused to continue"}
		err = c.Emit(topicSystem, map[string]any{"name": chunk.ReplyStopped(string(r.Stop)),
			"level": chunk.Warning, "text": message[r.Stop]})
	}
	if err == nil && r.Dropped > 0 {
		err = c.Emit(topicSystem, map[string]any{"name": chunk.CallsDropped, "level": chunk.Warning,
			"text": fmt.Sprintf(
				"the reply has %d tool calls, and those after the first %d are ignored",
				r.Made+r.Dropped, r.Made)})
	}
	if err != nil {
		return c.Fail("%v", err)
	}
	return tree.Success
}

func failure(r turnReply, err error) tree.Result {
	return tree.Result{Status: tree.Failure, Err: err.Error(),
		Writes: map[string]any{"reply": toValue(r)}}
}

func setOrClear(c *tree.Call, key string, v any, set bool) error {
	if !set {
		v = nil
	}
	return c.Set(key, v)
}

// toValue converts a value to one for the blackboard, by way of JSON. fromValue is its inverse. The
// caller bounds the size of the value, so that it fits on the blackboard.
func toValue(v any) any {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // makes the leaf fail and records the error
	}
	value, err := tree.ParseValue(string(data))
	if err != nil {
		panic(err)
	}
	return value
}

func fromValue(value, into any) {
	_ = json.Unmarshal([]byte(tree.FormatValue(value)), into) // missing fields stay zero
}
