package oracle

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"signalbox"
	"signalbox/internal/oracle/decide"
	"signalbox/internal/oracle/model"
	"signalbox/internal/text"
	"signalbox/internal/tree"
	"signalbox/transcript"
)

// Keys of the blackboard. All are hidden, so that a tree need not declare them.
// docs/reference/oracle.md lists them.
const (
	keyQuestion   = "_question"
	keyClass      = "_class"
	keyTurn       = "_turn"       // counts the model's replies
	keyCalls      = "_tool_calls" // the pending calls of the last reply, for trees to read
	keyMade       = "_calls_made" // how many calls the last reply had
	keyNoTools    = "_no_tools"   // whether the last model call offered no tools
	keyCut        = "_reply_cut"  // why the last reply ended early: a model.Stop, or absent
	keyRepeats    = "_repeats"    // decide.Calls
	keyText       = "_has_text"   // whether the last reply had content other than signals
	keyTokens     = "_tokens"
	keyCost       = "_cost_usd"
	keyMillis     = "_millis" // how long model and tools have taken
	keyHints      = "_hints"
	keyStrategies = "_strategies"
	keyAsked      = "_asked"    // decide.Situation.Asked
	keyDecision   = "_decision" // {decision, reason, level, detail}
	keyAdvice     = "_advice"   // the message to the model in the next turn
	keyStuck      = "_stuck"    // the blocker, after decide.OtherStrategy
	keyModelError = "_model_error"
	keySources    = "_sources_found"
	// The limits of the question; absent means no limit.
	keyTokenLimit  = "_limit_tokens"
	keyCostLimit   = "_limit_cost_usd"
	keyMillisLimit = "_limit_millis"
)

// maxBoardText bounds a text on the blackboard; the session has all of it.
const maxBoardText = 256 << 10

// get returns a value of the blackboard, or the zero value if it is absent or of another type.
func get[T any](c *tree.Call, key string) T {
	v, _ := c.Get(key)
	value, _ := v.(T)
	return value
}

// spend adds to the cost of the question.
func spend(c *tree.Call, u model.Usage, took time.Duration) error {
	return cmp.Or(
		c.Set(keyTokens, get[int64](c, keyTokens)+max(0, u.Input)+max(0, u.Output)),
		c.Set(keyCost, get[float64](c, keyCost)+max(0, u.CostUSD)),
		c.Set(keyMillis, get[int64](c, keyMillis)+took.Milliseconds()))
}

func spent(c *tree.Call) decide.Resources {
	return decide.Resources{Tokens: get[int64](c, keyTokens), CostUSD: get[float64](c, keyCost),
		Time: time.Duration(get[int64](c, keyMillis)) * time.Millisecond}
}

const maxCallsShown = 100

// callsValue returns calls as a tree sees them.
func callsValue(calls []model.Call) []any {
	list := make([]any, 0, min(len(calls), maxCallsShown))
	for _, call := range calls[:min(len(calls), maxCallsShown)] {
		list = append(list, map[string]any{"id": truncate(call.ID, 200),
			"name": truncate(call.Name, 200), "arguments": truncate(call.Arguments, maxShown)})
	}
	return list
}

func limits(c *tree.Call) decide.Resources {
	return decide.Resources{Tokens: get[int64](c, keyTokenLimit),
		CostUSD: get[float64](c, keyCostLimit),
		Time:    time.Duration(get[int64](c, keyMillisLimit)) * time.Millisecond}
}

// limitInputs returns limits as inputs of the tree.
func limitInputs(l decide.Resources) map[string]any {
	inputs := map[string]any{}
	if l.Tokens > 0 {
		inputs[keyTokenLimit] = l.Tokens
	}
	if l.CostUSD > 0 {
		inputs[keyCostLimit] = l.CostUSD
	}
	if l.Time > 0 {
		inputs[keyMillisLimit] = max(1, l.Time.Milliseconds())
	}
	return inputs
}

// maxFinalTime is the most of the time limit that is kept for the turn that must answer.
const maxFinalTime = time.Minute

// finalTime returns the part of a time limit that is kept for the turn that must answer, so that
// the whole question stays within the limit.
func finalTime(limit time.Duration) time.Duration { return min(maxFinalTime, limit/4) }

// workLimit returns the limits up to which the model may work before it must answer.
func workLimit(l decide.Resources) decide.Resources {
	if l.Time > 0 {
		l.Time = max(time.Millisecond, l.Time-finalTime(l.Time))
	}
	return l
}

// remaining returns the rest of limits. For a spent one it is a tiny amount, because zero would
// mean no limit.
func remaining(c *tree.Call, limit decide.Resources) decide.Resources {
	used := spent(c)
	if limit.Tokens > 0 {
		limit.Tokens = max(1, limit.Tokens-used.Tokens)
	}
	if limit.CostUSD > 0 {
		limit.CostUSD = max(1e-6, limit.CostUSD-used.CostUSD)
	}
	if limit.Time > 0 {
		limit.Time = max(time.Millisecond, limit.Time-used.Time)
	}
	return limit
}

// repeats returns the history of tool calls.
func repeats(c *tree.Call) decide.Calls {
	var calls decide.Calls
	_ = json.Unmarshal([]byte(get[string](c, keyRepeats)), &calls) // absent means no calls
	return calls
}

func setRepeats(c *tree.Call, calls decide.Calls) error {
	data, err := json.Marshal(calls)
	if err != nil {
		return err
	}
	return c.Set(keyRepeats, string(data))
}

// boardText returns a reply for the blackboard. If it is too long, that is the reply's valid signal
// and the beginning of its content.
func boardText(reply string) string {
	if len(reply) <= maxBoardText {
		return reply
	}
	raw := ""
	scanner := transcript.NewScanner(&transcript.Options{Format: signalbox.FormatPlain})
	for _, s := range append(slices.Clone(scanner.Push([]byte(reply))), scanner.Close()...) {
		if s.Dialect == signalbox.DialectTurn && s.Taken() && s.Turn != nil {
			raw = s.Turn.Raw + "\n"
		}
	}
	return raw + truncate(transcript.Content(reply), maxBoardText-len(raw))
}

func truncate(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return text.Truncate(s, limit) + "…"
}
