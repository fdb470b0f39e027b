package oracle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"signalbox/internal/oracle/chunk"
	"signalbox/internal/oracle/model"
	"signalbox/internal/oracle/prompt"
	"signalbox/internal/oracle/session"
	"signalbox/internal/tree"
	"signalbox/internal/tree/turnsignal"
	"signalbox/transcript"
)

// turnRequest is what a model call is to do: the payload of its job.
type turnRequest struct {
	Turn   int    `json:"turn"`
	Advice string `json:"advice,omitempty"`
	// Last: the answer is asked for, and no tool is offered.
	Last    bool   `json:"last,omitempty"`
	Stuck   bool   `json:"stuck,omitempty"`
	Blocker string `json:"blocker,omitempty"`
	// Model, System and NoTools are settings of the tree's llm_call.
	Model   string `json:"model,omitempty"`
	System  string `json:"system,omitempty"`
	NoTools bool   `json:"no_tools,omitempty"`
	// Millis is how long the reply may take. Zero: as long as it wants.
	Millis int64 `json:"millis,omitempty"`
}

// turnReply is what a model call brought, as it goes to the blackboard.
type turnReply struct {
	Text    string      `json:"text"`
	HasText bool        `json:"has_text"`
	Calls   []any       `json:"calls,omitempty"`
	Made    int         `json:"made"` // how many calls there are
	NoTools bool        `json:"no_tools,omitempty"`
	Usage   model.Usage `json:"usage"`
	Millis  int64       `json:"millis"`
	Stop    model.Stop  `json:"stop"`
	// Name and Hint are about a failure.
	Name string `json:"name,omitempty"`
	Hint string `json:"hint,omitempty"`
}

// think is the leaf that asks the model. Its arguments, all optional: prompt, a text that the model is told; system, a text
// in place of the system prompt; model, the name of another model; tools, false for none.
func (v *conversation) think() tree.Leaf {
	return tree.Leaf{
		Params: []tree.Param{{Name: "prompt", Type: tree.Any}, {Name: "system", Type: tree.String}, {Name: "model", Type: tree.String},
			{Name: "tools", Type: tree.Bool, Default: true}},
		Prepare: v.prepareTurn,
		Job:     v.askModel,
		Finish:  finishTurn,
	}
}

func (v *conversation) prepareTurn(c *tree.Call) (any, error) {
	r := turnRequest{Turn: int(count(c, keyTurn)) + 1, Advice: text(c, keyAdvice), Last: text(c, keyAsked) != "",
		Stuck: count(c, keyStrategies) > 0, Blocker: text(c, keyStuck)}
	switch words := c.Arg("prompt").(type) {
	case nil:
	case string:
		r.Advice = strings.TrimSpace(r.Advice + "\n\n" + words)
	default:
		r.Advice = strings.TrimSpace(r.Advice + "\n\n" + tree.FormatValue(words))
	}
	r.Model, _ = c.Arg("model").(string)
	r.System, _ = c.Arg("system").(string)
	if offer, given := c.Arg("tools").(bool); given {
		r.NoTools = !offer
	}
	if _, err := v.modelNamed(r.Model); err != nil {
		return nil, err
	}
	if limits(c).Time > 0 {
		if r.Millis = left(c).Time.Milliseconds(); r.Last {
			r.Millis = max(r.Millis, lastTurnTime.Milliseconds())
		}
	}
	return toValue(r), firstError(turnsignal.NewTurn(c), c.Set(keyTurn, int64(r.Turn)), c.Set(keyAdvice, nil), c.Set(keyModelError, nil))
}

// lastTurnTime is what a turn has that is asked for the answer because the time is spent.
const lastTurnTime = time.Minute

// askModel gets the reply of a turn, or finds it in the session.
func (v *conversation) askModel(ctx context.Context, r tree.Request) tree.Result {
	if ctx.Err() != nil {
		return failure(turnReply{Name: string(model.ErrorCancelled)}, ctx.Err())
	}
	var q turnRequest
	fromValue(r.Payload, &q)
	begun := time.Now()
	reply, err := v.reply(ctx, r.Key, q)
	if err != nil {
		f := turnReply{Name: "model_failed", Millis: time.Since(begun).Milliseconds()}
		var wrong *model.Error
		if errors.As(err, &wrong) {
			f.Name, f.Hint = string(wrong.Kind), wrong.Hint
		}
		return failure(f, err)
	}
	content := transcript.Content(reply.Text)
	brought := turnReply{Text: boardText(reply.Text), HasText: strings.TrimSpace(content) != "", Calls: callsValue(reply.Calls), Made: len(reply.Calls),
		NoTools: q.NoTools, Usage: reply.Usage, Millis: time.Since(begun).Milliseconds(), Stop: reply.Stop}
	return tree.Result{Status: tree.Success, Writes: map[string]any{"reply": toValue(brought)}}
}

// reply asks the model, unless the session has its reply. What comes is recorded before it is shown.
func (v *conversation) reply(ctx context.Context, key string, q turnRequest) (*model.Reply, error) {
	if e, there := v.session.Find(session.Reply, key); there {
		return e.Reply, nil
	}
	if q.Advice != "" {
		if _, err := v.session.Once(session.Entry{Kind: session.Note, Key: key, Question: v.number, Turn: q.Turn, Text: q.Advice}, false); err != nil {
			return nil, v.halt(err)
		}
	}
	if _, cut := v.session.Find(session.Piece, key); cut {
		// By a process before this one. What it heard does not count, which Chunks has told.
		if err := v.session.Append(session.Entry{Kind: session.Restart, Key: key, Question: v.number, Turn: q.Turn}, false); err != nil {
			return nil, v.halt(err)
		}
	}
	request, err := v.request(q)
	if err != nil {
		return nil, err
	}
	ask, err := v.modelNamed(q.Model)
	if err != nil {
		return nil, err
	}
	in := &incoming{v: v, key: key, turn: q.Turn, content: transcript.NewContentStream()}
	began := time.Now()
	limited, cancel := ctx, context.CancelFunc(func() {})
	if q.Millis > 0 {
		limited, cancel = context.WithTimeout(ctx, time.Duration(q.Millis)*time.Millisecond)
	}
	defer cancel()
	reply, err := ask.Reply(limited, *request, in.take)
	if in.err != nil {
		err = in.err
	}
	if err != nil && in.err == nil && ctx.Err() == nil && limited.Err() != nil {
		// The time is spent. What came by then is the reply, and the table says what follows.
		reply, err = &model.Reply{Text: in.text.String(), Stop: StopTime, Tries: 1, Usage: model.Estimate(*request, in.text.String())}, nil
	}
	in.end()
	if err != nil {
		if in.said {
			v.out.send(chunk.System{Turn: q.Turn, Name: chunk.ReplyCut, Level: Warning, Text: fmt.Sprintf("the reply of turn %d was cut off", q.Turn)})
		}
		return nil, err
	}
	reply.Calls = distinct(reply.Calls[:min(len(reply.Calls), maxRecorded)])
	return reply, v.halt(v.session.Append(session.Entry{Kind: session.Reply, Key: key, Question: v.number, Turn: q.Turn, Reply: reply, Millis: time.Since(began).Milliseconds()}, true))
}

// request is the conversation so far, with the words for this turn.
func (v *conversation) request(q turnRequest) (*model.Request, error) {
	class := prompt.Class(v.class)
	// What is left at the beginning of the question: a prompt that stays the same is cached by servers.
	data := &prompt.Data{TurnsLeft: v.TurnLimit, TokensLeft: v.limit.Tokens, CostLeft: v.limit.CostUSD, TimeLeft: v.limit.Time,
		Stuck: q.Stuck, Blocker: q.Blocker}
	r := &model.Request{Messages: session.Messages(v.session.Entries()), System: q.System}
	if !q.NoTools {
		data.Tools = v.promptTools()
		// Tools stay declared in the last turn, since the conversation has calls of them; that they are not to be used is
		// said, and a call is not made.
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

// StopTime is why a reply ended that took longer than the question may.
const StopTime model.Stop = "time"

// incoming is a reply that is coming in.
type incoming struct {
	v       *conversation
	key     string
	turn    int
	content *transcript.ContentStream
	said    bool // something was shown that counts so far
	text    strings.Builder
	err     error
}

func (in *incoming) take(e model.Event) {
	if in.err != nil {
		return
	}
	v := in.v
	switch e.Kind {
	case model.EventText:
		in.record(session.Entry{Kind: session.Piece, Key: in.key, Question: v.number, Turn: in.turn, Text: e.Text})
		in.text.WriteString(e.Text)
		in.show(in.content.Push([]byte(e.Text)))
	case model.EventReasoning:
		v.out.send(chunk.Reasoning{Turn: in.turn, Text: e.Text})
	case model.EventRetry:
		v.out.send(chunk.System{Turn: in.turn, Name: chunk.Retry, Level: Warning, Text: fmt.Sprintf("%s; try %d follows in %s", e.Text, e.Try+1, e.Wait.Round(time.Millisecond))})
	case model.EventRestart:
		in.end()
		in.content, in.said = transcript.NewContentStream(), false
		in.text.Reset()
		in.record(session.Entry{Kind: session.Restart, Key: in.key, Question: v.number, Turn: in.turn})
		v.out.send(restarted(in.turn))
	}
}

// restarted tells that what was said in a turn does not count.
func restarted(turn int) chunk.System {
	return chunk.System{Turn: turn, Name: chunk.ReplyRestarted, Level: Warning, Text: fmt.Sprintf("the reply of turn %d was cut off and begins again", turn)}
}

func (in *incoming) record(e session.Entry) {
	in.err = in.v.halt(in.v.session.Append(e, false))
}

func (in *incoming) show(content string) {
	if content != "" {
		in.said = true
		in.v.out.send(chunk.Content{Turn: in.turn, Text: content})
	}
}

// end shows what was held back because it might have become a signal.
func (in *incoming) end() {
	in.show(in.content.Close())
}

// maxRecorded is how many calls of a reply are kept. No model that works makes more, and each needs a result.
const maxRecorded = 1000

// distinct gives calls ids of their own, which some servers do not.
func distinct(calls []model.Call) []model.Call {
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
		if err := c.Set(keyModelError, map[string]any{"name": r.Name, "text": result.Err, "hint": r.Hint}); err != nil {
			return c.Fail("%v", err)
		}
		return c.Fail("%s", result.Err)
	}
	err := firstError(
		// What was parsed while the model was thinking was the reply before.
		c.Set(turnsignal.Parsed, false),
		c.Set("llm_response", r.Text), c.Set("accumulated_content", r.Text),
		c.Set(keyText, r.HasText), c.Set(keyCalls, r.Calls), c.Set(keyMade, int64(r.Made)), c.Set(keyNoTools, r.NoTools),
		setOrClear(c, keyCut, string(r.Stop), r.Stop == model.StopLength || r.Stop == model.StopRefusal || r.Stop == StopTime),
		spend(c, r.Usage, time.Duration(r.Millis)*time.Millisecond))
	if err == nil && text(c, keyCut) != "" {
		said := map[model.Stop]string{
			StopTime:          "the reply took longer than the question may, and was cut there",
			model.StopLength:  "the reply is longer than a reply may be, and was cut there: max_tokens of the model allows more",
			model.StopRefusal: "the model, or a filter of its server, would not say more"}
		err = c.Emit(topicSystem, map[string]any{"name": "reply_" + string(r.Stop), "level": Warning, "text": said[r.Stop]})
	}
	if err != nil {
		return c.Fail("%v", err)
	}
	return tree.Success
}

func failure(about turnReply, err error) tree.Result {
	return tree.Result{Status: tree.Failure, Err: err.Error(), Writes: map[string]any{"reply": toValue(about)}}
}

func setOrClear(c *tree.Call, key string, v any, set bool) error {
	if !set {
		v = nil
	}
	return c.Set(key, v)
}

// toValue makes a value of the blackboard of one that has a form in JSON. fromValue is its reverse. What is given to it is
// bounded, so that it always fits.
func toValue(v any) any {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // a leaf that fails, with the error recorded
	}
	value, err := tree.ParseValue(string(data))
	if err != nil {
		panic(err)
	}
	return value
}

func fromValue(value, into any) {
	_ = json.Unmarshal([]byte(tree.FormatValue(value)), into) // what is absent stays zero
}
