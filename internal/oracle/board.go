package oracle

import (
	"encoding/json"
	"time"

	"signalbox/internal/oracle/decide"
	"signalbox/internal/oracle/model"
	"signalbox/internal/tree"
)

// The keys of the blackboard, all hidden, so that a tree need not declare them. docs/oracle.md lists them.
const (
	keyQuestion   = "_question"
	keyClass      = "_class"
	keyTurn       = "_turn"       // counts the model's replies
	keyCalls      = "_tool_calls" // the calls of the last reply that were not made yet, to look at
	keyMade       = "_calls_made" // how many calls the last reply had
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
		c.Set(keyTokens, count(c, keyTokens)+u.Input+u.Output),
		c.Set(keyCost, dollars(c, keyCost)+u.CostUSD),
		c.Set(keyMillis, count(c, keyMillis)+took.Milliseconds()))
}

func spent(c *tree.Call) decide.Resources {
	return decide.Resources{Tokens: count(c, keyTokens), CostUSD: dollars(c, keyCost),
		Time: time.Duration(count(c, keyMillis)) * time.Millisecond}
}

// callsValue is what a tree sees of calls.
func callsValue(calls []model.Call) []any {
	list := make([]any, 0, len(calls))
	for _, call := range calls {
		list = append(list, map[string]any{"id": call.ID, "name": call.Name, "arguments": startOf(call.Arguments, maxShown)})
	}
	return list
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

// endOf is a text's end, where its signal is, at most as long as a value of the blackboard should be.
func endOf(s string) string {
	if len(s) <= maxBoardText {
		return s
	}
	return toValid(s[len(s)-maxBoardText:])
}

func startOf(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return toValid(s[:most]) + "…"
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
