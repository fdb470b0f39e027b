package oracle

import (
	"encoding/json"
	"slices"
	"time"

	"signalbox"
	"signalbox/internal/oracle/decide"
	"signalbox/internal/oracle/model"
	"signalbox/internal/oracle/toolbox"
	"signalbox/internal/tree"
	"signalbox/transcript"
)

// The keys of the blackboard, all hidden, so that a tree need not declare them. docs/oracle.md lists them.
const (
	keyQuestion   = "_question"
	keyClass      = "_class"
	keyTurn       = "_turn"       // counts the model's replies
	keyCalls      = "_tool_calls" // the calls of the last reply that were not made yet, to look at
	keyMade       = "_calls_made" // how many calls the last reply had
	keyNoTools    = "_no_tools"   // whether the last model call offered none
	keyCut        = "_reply_cut"  // why the last reply ended early: a model.Stop, or absent
	keyRepeats    = "_repeats"    // decide.Calls
	keyText       = "_has_text"   // whether the last reply had text, signals aside
	keyTokens     = "_tokens"
	keyCost       = "_cost_usd"
	keyMillis     = "_millis" // how long model and tools have taken
	keyHints      = "_hints"
	keyStrategies = "_strategies"
	keyAsked      = "_asked"    // decide.Situation.Asked
	keyDecision   = "_decision" // {decision, reason, level, detail}
	keyAdvice     = "_advice"   // what the model is told with the next turn
	keyStuck      = "_stuck"    // the blocker, once another strategy was asked for
	keyModelError = "_model_error"
	keySources    = "_sources_found"
	// What the question may cost; absent: as much as it takes.
	keyTokenLimit  = "_limit_tokens"
	keyCostLimit   = "_limit_cost_usd"
	keyMillisLimit = "_limit_millis"
)

// maxBoardText is how much of a text is put on the blackboard; the session has all of it.
const maxBoardText = 256 << 10

func text(c *tree.Call, key string) string {
	v, _ := c.Get(key)
	s, _ := v.(string)
	return s
}

func count(c *tree.Call, key string) int64 {
	v, _ := c.Get(key)
	n, _ := v.(int64)
	return n
}

func dollars(c *tree.Call, key string) float64 {
	v, _ := c.Get(key)
	f, _ := v.(float64)
	return f
}

func truth(c *tree.Call, key string) bool {
	v, _ := c.Get(key)
	b, _ := v.(bool)
	return b
}

// spend adds to what the question has cost.
func spend(c *tree.Call, u model.Usage, took time.Duration) error {
	return firstError(
		c.Set(keyTokens, count(c, keyTokens)+max(0, u.Input)+max(0, u.Output)),
		c.Set(keyCost, dollars(c, keyCost)+max(0, u.CostUSD)),
		c.Set(keyMillis, count(c, keyMillis)+took.Milliseconds()))
}

func spent(c *tree.Call) decide.Resources {
	return decide.Resources{Tokens: count(c, keyTokens), CostUSD: dollars(c, keyCost),
		Time: time.Duration(count(c, keyMillis)) * time.Millisecond}
}

const maxCallsShown = 100

// callsValue is what a tree sees of calls.
func callsValue(calls []model.Call) []any {
	list := make([]any, 0, min(len(calls), maxCallsShown))
	for _, call := range calls[:min(len(calls), maxCallsShown)] {
		list = append(list, map[string]any{"id": startOf(call.ID, 200), "name": startOf(call.Name, 200), "arguments": startOf(call.Arguments, maxShown)})
	}
	return list
}

func limits(c *tree.Call) decide.Resources {
	return decide.Resources{Tokens: count(c, keyTokenLimit), CostUSD: dollars(c, keyCostLimit),
		Time: time.Duration(count(c, keyMillisLimit)) * time.Millisecond}
}

// limitInputs are what a tree begins with.
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

// left is what is left of a limit, never so little that it would mean no limit.
func left(c *tree.Call) decide.Resources {
	limit, gone := limits(c), spent(c)
	if limit.Tokens > 0 {
		limit.Tokens = max(1, limit.Tokens-gone.Tokens)
	}
	if limit.CostUSD > 0 {
		limit.CostUSD = max(1e-6, limit.CostUSD-gone.CostUSD)
	}
	if limit.Time > 0 {
		limit.Time = max(time.Millisecond, limit.Time-gone.Time)
	}
	return limit
}

// repeats reads what is remembered of earlier calls.
func repeats(c *tree.Call) decide.Calls {
	var calls decide.Calls
	_ = json.Unmarshal([]byte(text(c, keyRepeats)), &calls) // nothing there: none
	return calls
}

func setRepeats(c *tree.Call, calls decide.Calls) error {
	data, err := json.Marshal(calls)
	if err != nil {
		return err
	}
	return c.Set(keyRepeats, string(data))
}

// boardText is a reply as the blackboard keeps it: all of it, or, if that is too long, the signal that counts in it and the
// beginning of the rest. What counts is looked for in the whole.
func boardText(reply string) string {
	if len(reply) <= maxBoardText {
		return reply
	}
	raw := ""
	scanner := transcript.NewScanner(&transcript.Options{Format: transcript.FormatPlain})
	for _, s := range append(slices.Clone(scanner.Push([]byte(reply))), scanner.Close()...) {
		if s.Dialect == signalbox.DialectTurn && s.Taken() && s.Turn != nil {
			raw = s.Turn.Raw + "\n"
		}
	}
	return raw + startOf(transcript.Content(reply), maxBoardText-len(raw))
}

func startOf(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return toolbox.Cut(s, most) + "…"
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
