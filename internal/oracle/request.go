package oracle

import (
	"strings"

	"signalbox/internal/oracle/prompt"
	"signalbox/internal/tree"
	"signalbox/internal/tree/blackboard"
)

// buildRequest puts the request for the next llm_call on the blackboard: the argument prompt, or
// else what the next call is about. In a conversation of the oracle that is the message that the
// model gets next; the llm_call sends the conversation itself. In other trees it is the question
// with the tool results and the last reply, because nothing else remembers them.
func (o *Oracle) buildRequest(c *tree.Call) tree.Status {
	request := c.Arg("prompt")
	if request == nil {
		request = o.nextMessage(c)
	}
	if request == nil {
		if set, _ := c.Get(blackboard.KeyRequest); set != nil {
			return tree.Success
		}
		return c.Fail("there is no question: declare the key question, set llm_request, or give the argument prompt")
	}
	if err := c.Set(blackboard.KeyRequest, request); err != nil {
		return c.Fail("%v", err)
	}
	return tree.Success
}

// nextMessage returns the request of buildRequest without a prompt, or nil if there is no question.
func (o *Oracle) nextMessage(c *tree.Call) any {
	if question := get[string](c, keyQuestion); question != "" {
		if advice := get[string](c, keyAdvice); advice != "" {
			return advice
		}
		// a reply without tool results needs a message after it
		if get[int64](c, keyTurn) > 0 && get[int64](c, keyMade) == 0 {
			// prompt.New has tried it
			text, _ := o.Prompt.Advice(prompt.Continue, prompt.AdviceData{})
			return text
		}
		return question
	}
	question := get[string](c, "question")
	if question == "" {
		return nil
	}
	parts := []string{question}
	if results := get[[]any](c, blackboard.KeyToolResults); len(results) > 0 {
		parts = append(parts, "Results of tools:")
		for _, result := range results {
			parts = append(parts, tree.FormatValue(result))
		}
	}
	if last := strings.TrimSpace(get[string](c, blackboard.KeyContent)); last != "" {
		parts = append(parts, "Your last reply:", last)
	}
	return strings.Join(parts, "\n\n")
}

// takeRequest returns the message that the tree put into llm_request for this call, "" if there is
// none or if the conversation has it already, and removes it.
func takeRequest(c *tree.Call, advice string) (string, error) {
	request, err := c.Get(blackboard.KeyRequest)
	if err != nil || request == nil {
		return "", err
	}
	text, ok := request.(string)
	if !ok {
		text = tree.FormatValue(request)
	}
	if text == advice || text == get[string](c, keyQuestion) {
		text = ""
	}
	return text, c.Set(blackboard.KeyRequest, nil)
}
