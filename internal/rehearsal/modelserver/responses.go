package modelserver

import (
	"cmp"
	"encoding/json"
	"fmt"
)

// responses is OpenAI's responses protocol. Its requests are in this file, its answers in
// responses_out.go.
type responses struct{ openAI }

func (responses) name() string { return "responses" }

type responsesRequest struct {
	Model        string          `json:"model"`
	Instructions string          `json:"instructions"`
	Input        json.RawMessage `json:"input"`
	Stream       bool            `json:"stream"`
	Previous     string          `json:"previous_response_id"`
	Tools        []struct {
		Type string `json:"type"`
		wireTool
	} `json:"tools"`
}

type responsesIncoming struct {
	Type      string          `json:"type"`
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Arguments string          `json:"arguments"`
	Input     string          `json:"input"`
	Output    json.RawMessage `json:"output"`
}

func (responses) parse(body []byte, req *Request) *refusal {
	var in responsesRequest
	if err := json.Unmarshal(body, &in); err != nil {
		return openAIBadJSON(err)
	}
	req.Model, req.Stream, req.System = in.Model, in.Stream, in.Instructions
	switch {
	case in.Model == "":
		return openAIMissing("model")
	case in.Previous != "":
		return badRequest("Previous response with id '%s' not found.",
			in.Previous).at("previous_response_id", "previous_response_not_found")
	case len(in.Input) == 0 || string(in.Input) == "null":
		return openAIMissing("input")
	}
	for i, t := range in.Tools {
		if t.Type == "" {
			return openAIMissing(fmt.Sprintf("tools[%d].type", i))
		}
		if t.Type == "function" && t.Name == "" {
			return openAIMissing(fmt.Sprintf("tools[%d].name", i))
		}
		req.Tools = append(req.Tools, Tool{Name: cmp.Or(t.Name, t.Type), Description: t.Description,
			Schema: t.Parameters})
	}
	var text string
	if json.Unmarshal(in.Input, &text) == nil {
		req.add(Message{Role: RoleUser, Text: text})
		return nil
	}
	var items []responsesIncoming
	if err := json.Unmarshal(in.Input, &items); err != nil {
		return badRequest("Invalid type for 'input': expected one of a string or array of input items. (%v)", err).at("input", "invalid_type")
	}
	return responsesHistory(items, req)
}

// responsesHistory validates the items. The result of a call may be anywhere after it.
func responsesHistory(items []responsesIncoming, req *Request) *refusal {
	open := &callSet{}
	for i, item := range items {
		switch item.Type {
		case "", "message":
			if refused := item.message(i, req); refused != nil {
				return refused
			}
		case "function_call", "custom_tool_call":
			arguments := item.Arguments
			if item.Type == "custom_tool_call" {
				arguments = item.Input
			}
			req.add(Message{Role: RoleAssistant,
				Calls: []MadeCall{{ID: item.CallID, Name: item.Name, Arguments: arguments}}})
			open.add(item.CallID)
		case "function_call_output", "custom_tool_call_output":
			if !open.remove(item.CallID) {
				return badRequest("No tool call found for function call output with call_id %s.",
					item.CallID).at("input", "")
			}
			text, err := contentText(item.Output)
			if err != nil {
				return badRequest("Invalid type for 'input[%d].output': %v.", i,
					err).at(fmt.Sprintf("input[%d].output", i), "invalid_type")
			}
			req.add(Message{Role: RoleTool, Results: []Result{{ID: item.CallID, Text: text}}})
		default: // reasoning, searches and unknown types are accepted and ignored
		}
	}
	if !open.empty() {
		return badRequest("No tool output found for function call %s.", open.ids[0]).at("input", "")
	}
	return nil
}

func (item *responsesIncoming) message(i int, req *Request) *refusal {
	text, err := contentText(item.Content)
	if err != nil {
		return badRequest("Invalid type for 'input[%d].content': %v.", i,
			err).at(fmt.Sprintf("input[%d].content", i), "invalid_type")
	}
	switch item.Role {
	case "system", "developer":
		req.addSystem(text)
	case "user":
		req.add(Message{Role: RoleUser, Text: text})
	case "assistant":
		req.add(Message{Role: RoleAssistant, Text: text})
	default:
		return badRequest("Invalid value: '%s'. Supported values are: 'assistant', 'system', 'developer', and 'user'.", item.Role).at(fmt.Sprintf("input[%d]", i), "invalid_value")
	}
	return nil
}
