package oracle

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"signalbox/internal/durable"
	"signalbox/internal/oracle/chunk"
	"signalbox/internal/oracle/decide"
	"signalbox/internal/oracle/model"
	"signalbox/internal/oracle/prompt"
	"signalbox/internal/oracle/session"
	"signalbox/internal/tree"
	"signalbox/internal/tree/turnsignal"
)

// errand is what a sub-agent is to do: the payload of its job.
type errand struct {
	Turn   int    `json:"turn"`
	Agent  string `json:"agent"`
	Scope  string `json:"scope"`
	Reason string `json:"reason"`
	// What it may cost; zero: as much as it takes.
	Tokens  int64   `json:"tokens,omitempty"`
	CostUSD float64 `json:"cost_usd,omitempty"`
	Millis  int64   `json:"millis,omitempty"`
}

type found struct {
	Text    string  `json:"text"`
	Tokens  int64   `json:"tokens"`
	CostUSD float64 `json:"cost_usd"`
	Millis  int64   `json:"millis"`
}

// delegate is the leaf that hands a question to the sub-agent that the last signal names. It has a session of its own in
// that of the conversation.
func (v *conversation) delegate() tree.Leaf {
	return tree.Leaf{Params: []tree.Param{}, Prepare: v.prepareErrand, Job: v.send, Finish: v.finishErrand}
}

func (v *conversation) prepareErrand(c *tree.Call) (any, error) {
	last, _ := c.Get("last_signal")
	h, _ := turnsignal.ParseHeard(last)
	field := func(name string) string {
		s, _ := h.Fields[name].(string)
		return strings.TrimSpace(s)
	}
	e := errand{Turn: int(count(c, keyTurn)), Agent: field("subagent_type"), Scope: field("scope"), Reason: field("reason")}
	rest := left(c)
	e.Tokens, e.CostUSD, e.Millis = rest.Tokens, rest.CostUSD, rest.Time.Milliseconds()
	if _, there := v.SubAgents[e.Agent]; !there {
		return nil, errors.New("there is no sub-agent '" + e.Agent + "'")
	}
	return toValue(e), nil
}

func (v *conversation) send(ctx context.Context, r tree.Request) tree.Result {
	if ctx.Err() != nil {
		return tree.Result{Status: tree.Failure, Err: ctx.Err().Error()}
	}
	var e errand
	fromValue(r.Payload, &e)
	begun := time.Now()
	answer, err := v.askSubAgent(ctx, r.Key, e)
	if err != nil {
		return tree.Result{Status: tree.Failure, Err: err.Error()}
	}
	what := found{Text: startOf(answer.Text, maxBoardText), Tokens: answer.Done.Tokens, CostUSD: answer.Done.CostUSD, Millis: time.Since(begun).Milliseconds()}
	if v.askedBefore(v.lastingKey(r.Key, e.about())) { // which the run began with
		what.Tokens, what.CostUSD = 0, 0
	}
	if answer.Error != nil {
		what.Text = strings.TrimSpace(what.Text + "\n\nIt failed: " + answer.Error.Text)
	}
	return tree.Result{Status: tree.Success, Writes: map[string]any{"found": toValue(what)}}
}

func (e errand) about() string { return e.Agent + "\n" + e.Scope + "\n" + e.Reason }

// askedBefore reports whether an errand was over before this run of the tree began.
func (v *conversation) askedBefore(key string) bool {
	over, before := false, false
	for _, e := range v.session.Entries() {
		switch {
		case e.Kind == session.Result && e.Key == key:
			over = true
		case e.Kind == session.Begun:
			before = over
		}
	}
	return before
}

// askSubAgent has the sub-agent answer, or go on with its answer.
func (v *conversation) askSubAgent(ctx context.Context, key string, e errand) (*Answer, error) {
	key = v.lastingKey(key, e.about())
	sum := sha256.Sum256([]byte(key))
	id := v.session.ID + "-" + hex.EncodeToString(sum[:4])
	folder := filepath.Join(v.session.Dir, "sub")
	if err := durable.MakeFolder(folder); err != nil {
		return nil, err
	}
	open := session.Create
	if _, err := os.Stat(filepath.Join(folder, id, session.RecordName)); err == nil {
		open = func(dir, id string) (*session.Session, error) { return session.Open(filepath.Join(dir, id)) }
	}
	s, err := open(folder, id)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	call := &model.Call{ID: "delegate-" + hex.EncodeToString(sum[:4]), Name: "delegate:" + e.Agent,
		Arguments: tree.FormatValue(map[string]any{"scope": e.Scope, "reason": e.Reason})}
	begun := session.Entry{Kind: session.Called, Key: key, Question: v.number, Turn: e.Turn, Call: call}
	if fresh, err := v.session.Once(begun, false); err != nil {
		return nil, v.halt(err)
	} else if fresh {
		v.out.send(toolCallChunk(&begun))
	}
	quiet := func(chunk.Chunk) error { return nil }
	limit := decide.Resources{Tokens: e.Tokens, CostUSD: e.CostUSD, Time: time.Duration(e.Millis) * time.Millisecond}
	answer, err := v.SubAgents[e.Agent].resume(ctx, s, limit, quiet)
	if errors.Is(err, ErrNoQuestion) {
		answer, err = v.SubAgents[e.Agent].ask(ctx, s, e.Scope+"\n\nWhy: "+e.Reason, limit, quiet)
	}
	if err == nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	result := session.Entry{Kind: session.Result, Key: key, Question: v.number, Turn: e.Turn, Call: call, OK: answer.Error == nil, Text: answer.Text,
		Done: &answer.Done}
	fresh, err := v.session.Once(result, true)
	if err == nil && fresh {
		v.out.send(toolResultChunk(&result))
	}
	return answer, v.halt(err)
}

// finishErrand tells the model what was found.
func (v *conversation) finishErrand(c *tree.Call, result tree.Result) tree.Status {
	var f found
	fromValue(result.Writes["found"], &f)
	if result.Status != tree.Success {
		f.Text = "It failed: " + result.Err
	}
	words, err := v.Prompt.Advice(prompt.Delegated, prompt.Occasion{Detail: lastDecision(c)["detail"], Text: f.Text})
	if err == nil {
		err = firstError(c.Set(keyAdvice, words),
			spend(c, model.Usage{Input: f.Tokens, CostUSD: f.CostUSD}, time.Duration(f.Millis)*time.Millisecond))
	}
	if err != nil {
		return c.Fail("%v", err)
	}
	return tree.Success
}
