package modelserver

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// chat is OpenAI's chat completions protocol. Reasoning is sent as reasoning_content, as local
// servers do.
type chat struct{ openAI }

func (chat) name() string { return "chat" }

// openAI is the common part of OpenAI's two protocols.
type openAI struct{}

func (openAI) key(r *http.Request) string { return bearer(r) }

func (openAI) failure(f *refusal, _ string) any { return openAIFailure(f) }
func (openAI) wrongKey() *refusal {
	return &refusal{status: http.StatusUnauthorized, code: "invalid_api_key",
		message: "Incorrect API key provided. You can find your API key at https://platform.openai.com/account/api-keys."}
}

type openAIErrorBody struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    *string `json:"code"`
}

func openAIFailure(f *refusal) map[string]openAIErrorBody {
	kind := "invalid_request_error"
	switch {
	case f.status == http.StatusTooManyRequests:
		kind = "requests"
	case f.status >= 500:
		kind = "server_error"
	}
	return map[string]openAIErrorBody{"error": {Message: f.message, Type: kind,
		Param: orNull(f.param), Code: orNull(f.code)}}
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func openAIMissing(param string) *refusal {
	return badRequest("Missing required parameter: '%s'.", param).at(param,
		"missing_required_parameter")
}

func openAIBadJSON(err error) *refusal {
	return badRequest("We could not parse the JSON body of your request. (%v)", err)
}

type chatRequest struct {
	Model         string          `json:"model"`
	Messages      *[]chatIncoming `json:"messages"`
	Stream        bool            `json:"stream"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	Tools []struct {
		Type     string   `json:"type"`
		Function wireTool `json:"function"`
	} `json:"tools"`
}

type wireTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
}

type chatIncoming struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	ToolCalls  []chatCall      `json:"tool_calls"`
	ToolCallID string          `json:"tool_call_id"`
}

func (chat) parse(body []byte, req *Request) *refusal {
	var in chatRequest
	if err := json.Unmarshal(body, &in); err != nil {
		return openAIBadJSON(err)
	}
	req.Model, req.Stream, req.usageAsked = in.Model, in.Stream, in.StreamOptions.IncludeUsage
	if in.Model == "" {
		return badRequest("you must provide a model parameter")
	}
	if in.Messages == nil {
		return openAIMissing("messages")
	}
	if len(*in.Messages) == 0 {
		return badRequest("Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead.").at("messages", "empty_array")
	}
	for i, t := range in.Tools {
		if t.Type == "function" && t.Function.Name == "" {
			return openAIMissing(fmt.Sprintf("tools[%d].function.name", i))
		}
		req.Tools = append(req.Tools, Tool{Name: cmp.Or(t.Function.Name, t.Type),
			Description: t.Function.Description, Schema: t.Function.Parameters})
	}
	return in.history(req)
}

// history validates the messages. The results of an assistant's calls must follow it immediately.
func (in *chatRequest) history(req *Request) *refusal {
	open := &callSet{}
	for i, m := range *in.Messages {
		text, err := contentText(m.Content)
		if err != nil {
			return badRequest("Invalid type for 'messages[%d].content': %v.", i,
				err).at(fmt.Sprintf("messages[%d].content", i), "invalid_type")
		}
		if m.Role != "tool" && !open.empty() {
			return chatUnanswered(open)
		}
		switch m.Role {
		case "system", "developer":
			req.addSystem(text)
		case "user":
			req.add(Message{Role: RoleUser, Text: text})
		case "assistant":
			out := Message{Role: RoleAssistant, Text: text}
			for _, c := range m.ToolCalls {
				out.Calls = append(out.Calls, MadeCall{ID: c.ID, Name: c.Function.Name,
					Arguments: c.Function.Arguments})
				open.add(c.ID)
			}
			req.add(out)
		case "tool":
			if !open.remove(m.ToolCallID) {
				return badRequest("Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.").at(fmt.Sprintf("messages.[%d].role", i), "")
			}
			req.add(Message{Role: RoleTool, Results: []Result{{ID: m.ToolCallID, Text: text}}})
		default:
			return badRequest("Invalid value: '%s'. Supported values are: 'system', 'assistant', 'user', 'tool', and 'developer'.", m.Role).at(fmt.Sprintf("messages[%d].role", i), "invalid_value")
		}
	}
	if !open.empty() {
		return chatUnanswered(open)
	}
	return nil
}

func chatUnanswered(open *callSet) *refusal {
	return badRequest("An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "+
		"The following tool_call_ids did not have response messages: %s",
		strings.Join(open.ids, ", ")).at("messages", "")
}

type chatCall struct {
	Index    *int         `json:"index,omitempty"`
	ID       string       `json:"id,omitempty"`
	Type     string       `json:"type,omitempty"`
	Function chatFunction `json:"function"`
}

type chatFunction struct {
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments"`
}

type chatMessage struct {
	Role      string     `json:"role,omitempty"`
	Content   *string    `json:"content"`
	Reasoning string     `json:"reasoning_content,omitempty"`
	ToolCalls []chatCall `json:"tool_calls,omitempty"`
	Refusal   *string    `json:"refusal"`
}

type chatDelta struct {
	Role      string     `json:"role,omitempty"`
	Content   *string    `json:"content,omitempty"`
	Reasoning string     `json:"reasoning_content,omitempty"`
	ToolCalls []chatCall `json:"tool_calls,omitempty"`
}

type chatChoice struct {
	Index        int          `json:"index"`
	Message      *chatMessage `json:"message,omitempty"`
	Delta        *chatDelta   `json:"delta,omitempty"`
	Logprobs     *struct{}    `json:"logprobs"`
	FinishReason *string      `json:"finish_reason"`
}

type chatUsage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Total      int `json:"total_tokens"`
	PromptMore struct {
		Cached int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionMore struct {
		Reasoning int `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

type chatBody struct {
	ID      string       `json:"id"`
	Object  string       `json:"object"`
	Created int64        `json:"created"`
	Model   string       `json:"model"`
	Choices []chatChoice `json:"choices"`
	Usage   *chatUsage   `json:"usage,omitempty"`
}

func newChatUsage(u Usage) *chatUsage {
	c := &chatUsage{Prompt: u.Input, Completion: u.Output, Total: u.Input + u.Output}
	c.PromptMore.Cached, c.CompletionMore.Reasoning = u.Cached, u.Reasoning
	return c
}

func (chat) whole(a *answer) (any, error) {
	m := &chatMessage{Role: "assistant", Reasoning: a.joined(partReasoning)}
	for _, p := range a.parts {
		if p.kind == partCall {
			m.ToolCalls = append(m.ToolCalls,
				chatCall{ID: p.id, Type: "function", Function: chatFunction{p.name, p.whole()}})
		}
	}
	if text := a.joined(partText); text != "" || m.ToolCalls == nil {
		m.Content = &text
	}
	return chatBody{ID: a.id("chatcmpl"), Object: "chat.completion", Created: a.created,
			Model:   a.model,
			Choices: []chatChoice{{Message: m, FinishReason: &a.finish}}, Usage: newChatUsage(a.usage)},
		nil
}

type chatEncoder struct {
	a   *answer
	out *stream
}

func (chat) encoder(a *answer, out *stream) encoder { return chatEncoder{a, out} }

func (e chatEncoder) send(choices []chatChoice, usage *chatUsage) {
	e.out.event("", chatBody{ID: e.a.id("chatcmpl"), Object: "chat.completion.chunk",
		Created: e.a.created, Model: e.a.model,
		Choices: choices, Usage: usage})
}

func (e chatEncoder) begin() {
	empty := ""
	e.send([]chatChoice{{Delta: &chatDelta{Role: "assistant", Content: &empty}}}, nil)
}

func (e chatEncoder) piece(p piece) error {
	d := &chatDelta{}
	switch p.kind {
	case partText:
		d.Content = &p.text
	case partReasoning:
		d.Reasoning = p.text
	case partCall:
		c := chatCall{Index: &p.nth, Function: chatFunction{Arguments: p.text}}
		if p.first {
			// Like the real server, announce the call before its arguments.
			head := chatCall{Index: &p.nth, ID: p.id, Type: "function",
				Function: chatFunction{Name: p.name}}
			e.send([]chatChoice{{Delta: &chatDelta{ToolCalls: []chatCall{head}}}}, nil)
		}
		d.ToolCalls = []chatCall{c}
	}
	e.send([]chatChoice{{Delta: d}}, nil)
	return nil
}

func (e chatEncoder) end() {
	e.send([]chatChoice{{Delta: &chatDelta{}, FinishReason: &e.a.finish}}, nil)
	if e.a.usageAsked {
		e.send([]chatChoice{}, newChatUsage(e.a.usage))
	}
	e.out.raw("data: [DONE]\n\n")
}

func (e chatEncoder) fail(f *refusal) { e.out.event("", openAIFailure(f)) }
