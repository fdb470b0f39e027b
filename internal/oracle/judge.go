package oracle

import (
	"fmt"
	"strings"

	"signalbox/internal/oracle/decide"
	"signalbox/internal/oracle/prompt"
	"signalbox/internal/tree"
	"signalbox/internal/tree/turnsignal"
)

// Topics under which the oracle's actions publish.
const (
	topicSystem = "oracle_system" // {name, level, text}, for a system chunk
	topicSaid   = "oracle_said"   // a text, for a content chunk
)

// situation is where the conversation stands, as the blackboard has it.
func (o *Oracle) situation(c *tree.Call) decide.Situation {
	s := decide.Situation{
		Spent: spent(c), Limit: limits(c), Turn: int(count(c, keyTurn)), TurnLimit: o.TurnLimit,
		SameReason: int(count(c, "consecutive_same_reason")), TurnsWithoutSignal: int(count(c, "turns_without_signal")),
		PendingToolCalls: int(count(c, keyMade)), Text: truth(c, keyText),
		StrategiesTried: int(count(c, keyStrategies)), HintsGiven: int(count(c, keyHints)), Asked: decide.Reason(text(c, keyAsked)),
	}
	last, _ := c.Get("last_signal")
	if h, ok := turnsignal.ParseHeard(last); ok {
		s.Signal = &decide.Signal{Type: h.Type, Confidence: h.Confidence, Fields: h.Fields}
		capability, _ := h.Fields["capability"].(string)
		_, s.Workaround = o.workaround(capability)
		agent, _ := h.Fields["subagent_type"].(string)
		_, s.SubAgent = o.SubAgents[strings.TrimSpace(agent)]
	}
	return s
}

func (o *Oracle) workaround(capability string) (string, bool) {
	capability = strings.TrimSpace(capability)
	for name, instead := range o.Workarounds {
		if strings.EqualFold(name, capability) {
			return instead, true
		}
	}
	return "", false
}

// decide applies the decision table to the turn that has just been heard. It keeps the decision, counts it, and tells the
// user of one that is more than routine.
func (o *Oracle) decide(c *tree.Call) tree.Status {
	d := decide.Decide(o.situation(c))
	err := firstError(
		c.Set(keyDecision, map[string]any{"decision": string(d.Do), "reason": string(d.Reason), "level": string(d.Level), "detail": d.Detail}),
		c.Set(keyAsked, nil))
	switch {
	case err != nil:
	case d.Do.AsksForAnswer():
		err = c.Set(keyAsked, string(d.Reason))
	case d.Do == decide.OtherStrategy:
		err = firstError(c.Set(keyStrategies, count(c, keyStrategies)+1), c.Set(keyStuck, d.Detail))
	case d.Do == decide.Hint:
		err = c.Set(keyHints, count(c, keyHints)+1)
	}
	alone := d.Do == decide.GoOn && d.Reason == decide.ReasonDelegation // there is no such sub-agent
	if err == nil && (d.Level != decide.Quiet || alone || d.Do != decide.GoOn && !d.Do.Ends()) {
		err = c.Emit(topicSystem, map[string]any{"name": string(d.Reason), "level": string(d.Level), "text": describe(d)})
	}
	if err != nil {
		return c.Fail("%v", err)
	}
	return tree.Success
}

// describe tells a user of a decision.
func describe(d decide.Decision) string {
	why := map[decide.Reason]string{
		decide.ReasonCancelled:         "it was cancelled",
		decide.ReasonBudgetSpent:       "the budget is spent",
		decide.ReasonMaxTurns:          "the turn limit is reached",
		decide.ReasonContextSufficient: "the model says that it knows enough",
		decide.ReasonPartialAnswer:     "the model can answer a part",
		decide.ReasonStuck:             "the model is stuck",
		decide.ReasonSameReason:        "the model asks for another turn for the same reason again and again",
		decide.ReasonNeedCapability:    "the model lacks a capability",
		decide.ReasonDelegation:        "the model would hand this over",
		decide.ReasonNoSignal:          "the model has not signalled for three turns",
		decide.ReasonLowConfidence:     "the model is not sure",
		decide.ReasonNoAnswer:          "the model gave no answer when asked for one",
	}[d.Reason]
	if why == "" {
		why = string(d.Reason)
	}
	if d.Detail != "" {
		why += " (" + startOf(strings.Join(strings.Fields(d.Detail), " "), 300) + ")"
	}
	switch d.Do {
	case decide.AskFinal, decide.ForceAnswer:
		return why + ": it is asked for its answer"
	case decide.Acknowledge:
		return why + ": it is asked for an answer that tells its limits"
	case decide.OtherStrategy:
		return why + ": it is asked to try another way"
	case decide.Hint:
		return why + ": it is asked to signal"
	case decide.Delegate:
		return why + ": the sub-agent is asked"
	case decide.GoOn:
		if d.Reason == decide.ReasonDelegation {
			return why + ", and there is no such sub-agent: it goes on by itself"
		}
		return why + ": it goes on"
	}
	return why
}

// advise leaves for the next model call what the model is told with it.
func (o *Oracle) advise(c *tree.Call) tree.Status {
	d := lastDecision(c)
	name := ""
	switch decide.Do(d["decision"]) {
	case decide.AskFinal:
		name = prompt.AskFinal
	case decide.Acknowledge:
		name = prompt.Acknowledge
	case decide.ForceAnswer:
		name = prompt.ForceAnswer
	case decide.OtherStrategy:
		name = prompt.OtherStrategy
	case decide.Hint:
		name = prompt.Hint
	case decide.GoOn:
		switch {
		case d["reason"] == string(decide.ReasonNeedCapability):
			name = prompt.WithoutCapability
		case d["reason"] == string(decide.ReasonDelegation):
			name = prompt.NoSubAgent
		case count(c, keyMade) == 0: // results of tools need no word from us
			name = prompt.GoOn
		}
	}
	if name == "" {
		return tree.Success
	}
	instead, _ := o.workaround(d["detail"])
	words, err := o.Prompt.Advice(name, prompt.Occasion{Reason: d["reason"], Detail: d["detail"], Workaround: instead})
	if err == nil {
		err = c.Set(keyAdvice, words)
	}
	if err != nil {
		return c.Fail("%v", err)
	}
	return tree.Success
}

func lastDecision(c *tree.Call) map[string]string {
	v, _ := c.Get(keyDecision)
	return decisionFrom(v)
}

func decisionFrom(v any) map[string]string {
	fields, _ := v.(map[string]any)
	d := map[string]string{}
	for name, value := range fields {
		d[name], _ = value.(string)
	}
	return d
}

func decisionIs(c *tree.Call) tree.Status {
	want, _ := c.Arg("decision").(string)
	return holds(lastDecision(c)["decision"] == want)
}

func reasonIs(c *tree.Call) tree.Status {
	want, _ := c.Arg("reason").(string)
	return holds(lastDecision(c)["reason"] == want)
}

func decisionEnds(c *tree.Call) tree.Status {
	return holds(decide.Do(lastDecision(c)["decision"]).Ends())
}

func hasToolCalls(c *tree.Call) tree.Status {
	v, _ := c.Get(keyCalls)
	list, _ := v.([]any)
	return holds(len(list) > 0)
}

func modelFailed(c *tree.Call) tree.Status {
	v, _ := c.Get(keyModelError)
	return holds(v != nil)
}

func classIs(c *tree.Call) tree.Status {
	want, _ := c.Arg("class").(string)
	return holds(text(c, keyClass) == want)
}

func holds(yes bool) tree.Status {
	if yes {
		return tree.Success
	}
	return tree.Failure
}

// say lets the tree itself say something.
func say(c *tree.Call) tree.Status {
	words, ok := c.Arg("text").(string)
	if !ok {
		words = tree.FormatValue(c.Arg("text"))
	}
	if words == "" {
		return tree.Success
	}
	if err := c.Emit(topicSaid, words); err != nil {
		return c.Fail("%v", fmt.Errorf("it cannot be said: %w", err))
	}
	return tree.Success
}
