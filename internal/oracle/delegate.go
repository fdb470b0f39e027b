package oracle

import (
	"cmp"
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

// delegation is the payload of the job that runs a sub-agent.
type delegation struct {
	Turn   int    `json:"turn"`
	Agent  string `json:"agent"`
	Scope  string `json:"scope"`
	Reason string `json:"reason"`
	// The limits of the sub-agent. Zero means no limit.
	Tokens  int64   `json:"tokens,omitempty"`
	CostUSD float64 `json:"cost_usd,omitempty"`
	Millis  int64   `json:"millis,omitempty"`
}

// delegationResult is the result of a sub-agent, for the blackboard.
type delegationResult struct {
	Text    string  `json:"text"`
	Tokens  int64   `json:"tokens"`
	CostUSD float64 `json:"cost_usd"`
	Millis  int64   `json:"millis"`
}

// delegateLeaf returns the leaf that asks the sub-agent named by the last signal. The sub-agent has
// its own session inside the session of the conversation.
func (v *conversation) delegateLeaf() tree.Leaf {
	return tree.Leaf{Params: []tree.Param{}, Prepare: v.prepareDelegation, Job: v.runSubAgent,
		Finish: v.finishDelegation}
}

func (v *conversation) prepareDelegation(c *tree.Call) (any, error) {
	last, _ := c.Get("last_signal")
	signal, _ := turnsignal.ParseSignal(last)
	field := func(name string) string {
		s, _ := signal.Fields[name].(string)
		return strings.TrimSpace(s)
	}
	d := delegation{Turn: int(get[int64](c, keyTurn)), Agent: field("subagent_type"), Scope: field("scope"), Reason: field("reason")}
	limit := remaining(c, workLimit(limits(c)))
	d.Tokens, d.CostUSD, d.Millis = limit.Tokens, limit.CostUSD, limit.Time.Milliseconds()
	if _, known := v.SubAgents[d.Agent]; !known {
		return nil, errors.New("there is no sub-agent '" + d.Agent + "'")
	}
	return toValue(d), nil
}

func (v *conversation) runSubAgent(ctx context.Context, r tree.Request) tree.Result {
	if ctx.Err() != nil {
		return tree.Result{Status: tree.Failure, Err: ctx.Err().Error()}
	}
	var d delegation
	fromValue(r.Payload, &d)
	start := time.Now()
	answer, err := v.askSubAgent(ctx, r.Key, d)
	if err != nil {
		return tree.Result{Status: tree.Failure, Err: err.Error()}
	}
	result := delegationResult{Text: truncate(answer.Text, maxBoardText), Tokens: answer.Done.Tokens, CostUSD: answer.Done.CostUSD, Millis: time.Since(start).Milliseconds()}
	if v.delegatedBefore(v.questionKey(r.Key, d.about())) { // spentBefore has counted the cost
		result.Tokens, result.CostUSD = 0, 0
	}
	if answer.Error != nil {
		result.Text = strings.TrimSpace(result.Text + "\n\nIt failed: " + answer.Error.Text)
	}
	return tree.Result{Status: tree.Success, Writes: map[string]any{"found": toValue(result)}}
}

// about identifies the delegation within its place in the tree.
func (d delegation) about() string { return d.Agent + "\n" + d.Scope + "\n" + d.Reason }

// delegatedBefore reports whether a delegation ended before this run of the tree began.
func (v *conversation) delegatedBefore(key string) bool {
	ended, before := false, false
	for _, e := range v.session.Entries() {
		switch {
		case e.Kind == session.Result && e.Key == key:
			ended = true
		case e.Kind == session.RunStart:
			before = ended
		}
	}
	return before
}

// askSubAgent asks the sub-agent, or resumes its answer.
func (v *conversation) askSubAgent(ctx context.Context, key string, d delegation) (*Answer, error) {
	key = v.questionKey(key, d.about())
	sum := sha256.Sum256([]byte(key))
	id := v.session.ID + "-" + hex.EncodeToString(sum[:4])
	folder := filepath.Join(v.session.Dir, "sub")
	if err := durable.MakeFolder(folder); err != nil {
		return nil, err
	}
	open := session.Create
	if _, err := os.Stat(filepath.Join(folder, id, session.RecordName)); err == nil {
		open = func(dir,
			id string) (*session.Session, error) {
			return session.Open(filepath.Join(dir, id))
		}
	}
	s, err := open(folder, id)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	call := &model.Call{ID: "delegate-" + hex.EncodeToString(sum[:4]), Name: "delegate:" + d.Agent,
		Arguments: tree.FormatValue(map[string]any{"scope": d.Scope, "reason": d.Reason})}
	started := session.Entry{Kind: session.Call, Key: key, Question: v.number, Turn: d.Turn,
		Call: call}
	if added, err := v.session.Once(started, false); err != nil {
		return nil, v.abort(err)
	} else if added {
		v.out.send(toolCallChunk(&started))
	}
	// The sub-agent records its signals itself. On the ledger they follow the one that asked for
	// it.
	if err := v.ledger.wait(ctx); err != nil {
		return nil, err
	}
	discard := func(chunk.Chunk) error { return nil }
	limit := decide.Resources{Tokens: d.Tokens, CostUSD: d.CostUSD, Time: time.Duration(d.Millis) * time.Millisecond}
	answer, err := v.SubAgents[d.Agent].resume(ctx, s, limit, discard)
	if errors.Is(err, ErrNoQuestion) {
		answer, err = v.SubAgents[d.Agent].ask(ctx, s, d.Scope+"\n\nWhy: "+d.Reason, limit, discard)
	}
	if err == nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	result := session.Entry{Kind: session.Result, Key: key, Question: v.number, Turn: d.Turn, Call: call, OK: answer.Error == nil, Text: answer.Text,
		Done: &answer.Done}
	added, err := v.session.Once(result, true)
	if err == nil && added {
		v.out.send(toolResultChunk(&result))
	}
	return answer, v.abort(err)
}

// finishDelegation puts the sub-agent's answer on the blackboard, as the message for the next model
// call.
func (v *conversation) finishDelegation(c *tree.Call, result tree.Result) tree.Status {
	var f delegationResult
	fromValue(result.Writes["found"], &f)
	if result.Status != tree.Success {
		f.Text = "It failed: " + result.Err
	}
	advice, err := v.Prompt.Advice(prompt.Delegated,
		prompt.AdviceData{Detail: lastDecision(c)["detail"], Text: f.Text})
	if err == nil {
		err = cmp.Or(c.Set(keyAdvice, advice),
			spend(c, model.Usage{Input: f.Tokens, CostUSD: f.CostUSD},
				time.Duration(f.Millis)*time.Millisecond))
	}
	if err != nil {
		return c.Fail("%v", err)
	}
	return tree.Success
}
