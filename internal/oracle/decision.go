package oracle

import (
	"cmp"
	"strings"

	"signalbox/internal/oracle/decide"
	"signalbox/internal/oracle/model"
	"signalbox/internal/oracle/prompt"
	"signalbox/internal/tree"
	"signalbox/internal/tree/turnsignal"
)

// Topics under which the oracle's actions emit.
const (
	topicSystem = "oracle_system" // {name, level, text} of a system chunk
	topicSay    = "oracle_said"   // the text of a content chunk
)

// situation returns the state of the conversation as the blackboard has it.
func (o *Oracle) situation(c *tree.Call) decide.Situation {
	s := decide.Situation{
		Spent: spent(c), Limit: workLimit(limits(c)), Turn: int(get[int64](c, keyTurn)),
		TurnLimit:          o.TurnLimit,
		SameReason:         int(get[int64](c, "consecutive_same_reason")),
		TurnsWithoutSignal: int(get[int64](c, "turns_without_signal")),
		PendingToolCalls:   int(get[int64](c, keyMade)), Text: get[bool](c, keyText),
		Cut:             cutReason(model.Stop(get[string](c, keyCut))),
		StrategiesTried: int(get[int64](c, keyStrategies)),
		HintsGiven:      int(get[int64](c, keyHints)),
		Asked:           decide.Reason(get[string](c, keyAsked)),
	}
	last, _ := c.Get("last_signal")
	if h, ok := turnsignal.ParseSignal(last); ok {
		s.Signal = &decide.Signal{Type: h.Type, Confidence: h.Confidence, Fields: h.Fields}
		capability, _ := h.Fields["capability"].(string)
		_, s.Workaround = o.workaround(capability)
		agent, _ := h.Fields["subagent_type"].(string)
		_, s.SubAgent = o.SubAgents[strings.TrimSpace(agent)]
	}
	return s
}

// cutReason returns why the conversation is incomplete if its last reply stopped like this, or "".
func cutReason(stop model.Stop) decide.Reason {
	switch stop {
	case model.StopLength:
		return decide.ReasonTokenLimit
	case model.StopRefusal:
		return decide.ReasonRefused
	case StopTime:
		return decide.ReasonTimeLimit
	}
	return ""
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

// decide applies the decision table to the last turn. It puts the decision on the blackboard,
// counts it, and tells the user about it unless it is routine.
func (o *Oracle) decide(c *tree.Call) tree.Status {
	d := decide.Decide(o.situation(c))
	err := cmp.Or(
		c.Set(keyDecision, map[string]any{"decision": string(d.Action), "reason": string(d.Reason),
			"level": string(d.Level), "detail": d.Detail}),
		c.Set(keyAsked, nil))
	switch {
	case err != nil:
	case d.Action.AsksForAnswer():
		err = c.Set(keyAsked, string(d.Reason))
	case d.Action == decide.OtherStrategy:
		err = cmp.Or(c.Set(keyStrategies, get[int64](c, keyStrategies)+1),
			c.Set(keyStuck, d.Detail))
	case d.Action == decide.Hint:
		err = c.Set(keyHints, get[int64](c, keyHints)+1)
	}
	noSubAgent := d.Action == decide.Continue && d.Reason == decide.ReasonDelegation
	if err == nil && (d.Level != decide.Quiet || noSubAgent || d.Action != decide.Continue &&
		!d.Action.Ends()) {
		err = c.Emit(topicSystem, map[string]any{"name": string(d.Reason), "level": string(d.Level),
			"text": describe(d)})
	}
	if err != nil {
		return c.Fail("%v", err)
	}
	return tree.Success
}

// describe explains a decision to the user.
func describe(d decide.Decision) string {
	why := map[decide.Reason]string{
		decide.ReasonCancelled:         "it was cancelled",
		decide.ReasonBudgetSpent:       "the budget is spent",
		decide.ReasonMaxTurns:          "the turn limit is reached",
		decide.ReasonContextSufficient: "the model says that it knows enough",
		decide.ReasonPartialAnswer:     "the model can answer a part",
		decide.ReasonStuck:             "the model is stuck",
		decide.ReasonSameReason:        "the model repeatedly asks for another turn for the same reason",
		decide.ReasonNeedCapability:    "the model lacks a capability",
		decide.ReasonDelegation:        "the model wants to delegate this",
		decide.ReasonNoSignal:          "the model has not signalled for three turns",
		decide.ReasonLowConfidence:     "the model is not sure",
		decide.ReasonNoAnswer:          "the model gave no answer when asked for one",
		decide.ReasonTokenLimit:        "the answer is incomplete: it was cut at the longest reply allowed",
		decide.ReasonRefused:           "there is no complete answer: the model, or a filter of its server, refused to continue",
		decide.ReasonTimeLimit:         "the answer is incomplete: it was cut at the time limit of the question",
	}[d.Reason]
	if why == "" {
		why = string(d.Reason)
	}
	if d.Detail != "" {
		why += " (" + truncate(strings.Join(strings.Fields(d.Detail), " "), 300) + ")"
	}
	switch d.Action {
	case decide.AskFinal, decide.ForceAnswer:
		return why + ": it is asked for its answer"
	case decide.Acknowledge:
		return why + ": it is asked for an answer that states its limits"
	case decide.OtherStrategy:
		return why + ": it is asked to try another way"
	case decide.Hint:
		return why + ": it is asked to signal"
	case decide.Delegate:
		return why + ": the sub-agent is asked"
	case decide.Continue:
		if d.Reason == decide.ReasonDelegation {
			return why + ", but there is no such sub-agent: it continues by itself"
		}
		return why + ": it continues"
	}
	return why
}

// advise puts the message for the next model call on the blackboard.
func (o *Oracle) advise(c *tree.Call) tree.Status {
	d := lastDecision(c)
	name := ""
	switch decide.Action(d["decision"]) {
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
	case decide.Continue:
		switch {
		case d["reason"] == string(decide.ReasonNeedCapability):
			name = prompt.WithoutCapability
		case d["reason"] == string(decide.ReasonDelegation):
			name = prompt.NoSubAgent
		case get[int64](c, keyMade) == 0: // after tool results the model needs no message
			name = prompt.Continue
		}
	}
	if name == "" {
		return tree.Success
	}
	workaround, _ := o.workaround(d["detail"])
	advice, err := o.Prompt.Advice(name, prompt.AdviceData{Reason: d["reason"], Detail: d["detail"],
		Workaround: workaround})
	if err == nil {
		err = c.Set(keyAdvice, advice)
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
	return statusOf(lastDecision(c)["decision"] == want)
}

func reasonIs(c *tree.Call) tree.Status {
	want, _ := c.Arg("reason").(string)
	return statusOf(lastDecision(c)["reason"] == want)
}

func decisionEnds(c *tree.Call) tree.Status {
	return statusOf(decide.Action(lastDecision(c)["decision"]).Ends())
}

func hasToolCalls(c *tree.Call) tree.Status {
	v, _ := c.Get(keyCalls)
	list, _ := v.([]any)
	return statusOf(len(list) > 0)
}

func modelFailed(c *tree.Call) tree.Status {
	v, _ := c.Get(keyModelError)
	return statusOf(v != nil)
}

func classIs(c *tree.Call) tree.Status {
	want, _ := c.Arg("class").(string)
	return statusOf(get[string](c, keyClass) == want)
}

func statusOf(yes bool) tree.Status {
	if yes {
		return tree.Success
	}
	return tree.Failure
}

// say is the action with which a tree writes to the user.
func say(c *tree.Call) tree.Status {
	message, ok := c.Arg("text").(string)
	if !ok {
		message = tree.FormatValue(c.Arg("text"))
	}
	if message == "" {
		return tree.Success
	}
	if err := c.Emit(topicSay, message); err != nil {
		return c.Fail("say: %v", err)
	}
	return tree.Success
}
