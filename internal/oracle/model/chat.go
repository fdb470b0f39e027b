package model

import (
	"encoding/json"
	"net/http"
	"strings"
)

// chat is OpenAI's chat completions protocol.
type chat struct{}

type chatRequest struct {
	Model               string        `json:"model"`
	Messages            []chatMessage `json:"messages"`
	Tools               []chatTool    `json:"tools,omitempty"`
	MaxTokens           int64         `json:"max_tokens,omitempty"`
	MaxCompletionTokens int64         `json:"max_completion_tokens,omitempty"`
	Temperature         *float64      `json:"temperature,omitempty"`
	Stream              bool          `json:"stream"`
	StreamOptions       struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
}

type chatMessage struct {
	Role       string     `json:"role"`
	Content    *string    `json:"content,omitempty"` // nil for an assistant that only calls tools
	ToolCalls  []chatCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
}

type chatCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

type chatTool struct {
	Type     string       `json:"type"`
	Function chatFunction `json:"function"`
}

type chatFunction struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"`
}

func (chat) path() string { return "chat/completions" }

func (chat) setHeader(h http.Header, key string) {
	if key != "" {
		h.Set("Authorization", "Bearer "+key)
	}
}

func (chat) encode(c *Client, h *history) ([]byte, error) {
	r := chatRequest{Model: c.model, Temperature: h.temperature, Stream: true}
	r.StreamOptions.IncludeUsage = true
	switch c.opts.LimitName {
	case LimitMaxTokens:
		r.MaxTokens = c.opts.MaxTokens
	case LimitMaxCompletionTokens:
		r.MaxCompletionTokens = c.opts.MaxTokens
	}
	if h.system != "" {
		r.Messages = append(r.Messages, chatMessage{Role: "system", Content: &h.system})
	}
	for _, m := range h.messages {
		switch m.Role {
		case User:
			r.Messages = append(r.Messages, chatMessage{Role: "user", Content: &m.Text})
		case Assistant:
			r.Messages = append(r.Messages, chatAssistant(m))
		case Tool:
			for _, result := range m.Results {
				if result.Failed && result.Text == "" {
					result.Text = "failed" // the protocol has no other way to mark it
				}
				r.Messages = append(r.Messages, chatMessage{Role: "tool", ToolCallID: result.CallID,
					Content: &result.Text})
			}
		}
	}
	for _, t := range h.tools {
		r.Tools = append(r.Tools,
			chatTool{"function", chatFunction{t.Name, t.Description, t.Schema}})
	}
	return encodeJSON(r)
}

func chatAssistant(m Message) chatMessage {
	out := chatMessage{Role: "assistant"}
	if m.Text != "" {
		out.Content = &m.Text
	}
	for _, c := range m.Calls {
		call := chatCall{ID: c.ID, Type: "function"}
		call.Function.Name, call.Function.Arguments = c.Name, c.Arguments
		out.ToolCalls = append(out.ToolCalls, call)
	}
	return out
}

type chatChunk struct {
	Object  string          `json:"object"`
	Error   json.RawMessage `json:"error"`
	Model   string          `json:"model"`
	Choices []chatChoice    `json:"choices"`
	Usage   *struct {
		PromptTokens        int64 `json:"prompt_tokens"`
		CompletionTokens    int64 `json:"completion_tokens"`
		PromptTokensDetails struct {
			CachedTokens int64 `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
		CompletionTokensDetails struct {
			ReasoningTokens int64 `json:"reasoning_tokens"`
		} `json:"completion_tokens_details"`
	} `json:"usage"`
}

type chatChoice struct {
	Index int `json:"index"`
	Delta struct {
		Content string `json:"content"`
		Refusal string `json:"refusal"`
		// OpenAI's protocol has no reasoning. Servers that add it use one of these names, and some
		// use both.
		ReasoningContent string         `json:"reasoning_content"`
		Reasoning        string         `json:"reasoning"`
		ToolCalls        []chatFragment `json:"tool_calls"`
	} `json:"delta"`
	FinishReason string `json:"finish_reason"`
}

// chatFragment is a piece of a tool call.
type chatFragment struct {
	Index int64 `json:"index"`
	chatCall
}

func (chat) decode(b *replyBuilder, _ string, data []byte) (last bool, err error) {
	if strings.TrimSpace(string(data)) == "[DONE]" {
		b.end()
		return true, nil
	}
	var chunk chatChunk
	if !decodeJSON(data, &chunk) {
		return false, errEvent
	}
	if !blank(chunk.Error) || chunk.Object == "error" {
		return false, &eventError{parseServerError(data)}
	}
	if chunk.Model != "" {
		b.model = chunk.Model
	}
	if u := chunk.Usage; u != nil {
		b.usage = Usage{Known: true, Input: u.PromptTokens, Output: u.CompletionTokens,
			Cached:    u.PromptTokensDetails.CachedTokens,
			Reasoning: u.CompletionTokensDetails.ReasoningTokens}
	}
	for _, choice := range chunk.Choices {
		if choice.Index == 0 {
			choice.addTo(b)
		}
	}
	return false, nil
}

func (c *chatChoice) addTo(b *replyBuilder) {
	d := &c.Delta
	if d.ReasoningContent != "" {
		b.addReasoning(d.ReasoningContent)
	} else {
		b.addReasoning(d.Reasoning)
	}
	b.addText(d.Content)
	if d.Refusal != "" {
		b.refused = true
		b.addText(d.Refusal)
	}
	for _, f := range d.ToolCalls {
		f.addTo(b)
	}
	switch c.FinishReason {
	case "":
		return
	case "tool_calls", "function_call":
		b.stop = StopCalls
	case "length":
		b.stop = StopLength
	case "content_filter":
		b.stop = StopRefusal
	default:
		b.stop = StopEnd
	}
	b.finished = true
}

func (f *chatFragment) addTo(b *replyBuilder) {
	p, known := b.byIndex[f.Index]
	switch {
	case known && p == nil && f.ID == "": // of a call that was dropped
	case p == nil || f.ID != "" && p.id != "" &&
		f.ID != p.id: // some servers give every call the index 0
		p = b.addCall(f.Index, f.ID, f.Function.Name)
	case f.ID == "":
		b.appendName(p, f.Function.Name)
	default:
		p.id = f.ID
		if p.name.Len() == 0 {
			b.appendName(p, f.Function.Name) // some servers repeat id and name in every fragment
		}
	}
	b.appendArguments(p, f.Function.Arguments)
}
