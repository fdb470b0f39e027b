package model

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/anthropics/anthropic-sdk-go/packages/param"
	"github.com/anthropics/anthropic-sdk-go/packages/ssestream"
)

// messages is Anthropic's protocol.
type messages struct{ client anthropic.Client }

const defaultMaxTokens = 8192

func newMessages(c *Client) messages {
	options := []option.RequestOption{
		option.WithoutEnvironmentDefaults(), // ANTHROPIC_* and the profiles in the user's files
		option.WithBaseURL(c.base.String()),
		option.WithHTTPClient(c.http),
		option.WithMaxRetries(0),
		option.WithHeader("Accept", "text/event-stream"),
	}
	if c.opts.Key != "" {
		options = append(options, option.WithAPIKey(c.opts.Key))
	}
	return messages{anthropic.NewClient(options...)}
}

func (messages) encode(c *Client, h *history) ([]byte, error) {
	p := anthropic.MessageNewParams{Model: anthropic.Model(c.model), MaxTokens: defaultMaxTokens}
	if c.opts.MaxTokens > 0 {
		p.MaxTokens = c.opts.MaxTokens
	}
	if h.system != "" {
		p.System = []anthropic.TextBlockParam{{Text: h.system}}
	}
	for i, m := range h.messages {
		switch m.Role {
		case User:
			block := anthropic.NewTextBlock(m.Text)
			if i > 0 && h.messages[i-1].Role == Tool {
				// Results and what the user says after them are one message, results first.
				last := &p.Messages[len(p.Messages)-1]
				last.Content = append(last.Content, block)
				continue
			}
			p.Messages = append(p.Messages, anthropic.NewUserMessage(block))
		case Assistant:
			p.Messages = append(p.Messages, messagesAssistant(m))
		case Tool:
			p.Messages = append(p.Messages, messagesResults(m))
		}
	}
	for _, t := range h.tools {
		p.Tools = append(p.Tools, messagesTool(t))
	}
	if len(h.tools) == 0 {
		messagesPastTools(&p, h)
	}
	return json.Marshal(p)
}

// messagesPastTools declares what was called before and may not be called now: the server wants to know of the tools that
// a conversation mentions.
func messagesPastTools(p *anthropic.MessageNewParams, h *history) {
	seen := map[string]bool{}
	for _, m := range h.messages {
		for _, c := range m.Calls {
			if !seen[c.Name] {
				seen[c.Name] = true
				p.Tools = append(p.Tools, messagesTool(ToolSpec{Name: c.Name, Schema: json.RawMessage(`{"type":"object"}`)}))
			}
		}
	}
	if len(seen) > 0 {
		none := anthropic.NewToolChoiceNoneParam()
		p.ToolChoice = anthropic.ToolChoiceUnionParam{OfNone: &none}
	}
}

func messagesAssistant(m Message) anthropic.MessageParam {
	var blocks []anthropic.ContentBlockParamUnion
	if m.Text != "" {
		blocks = append(blocks, anthropic.NewTextBlock(m.Text))
	}
	for _, c := range m.Calls {
		input, ok := object([]byte(c.Arguments))
		if !ok {
			input, _ = json.Marshal(map[string]string{"_raw": c.Arguments}) // a map of strings always marshals
		}
		blocks = append(blocks, anthropic.NewToolUseBlock(c.ID, input, c.Name))
	}
	return anthropic.NewAssistantMessage(blocks...)
}

func messagesResults(m Message) anthropic.MessageParam {
	var blocks []anthropic.ContentBlockParamUnion
	for _, r := range m.Results {
		b := anthropic.ToolResultBlockParam{ToolUseID: r.CallID}
		if r.Text != "" {
			b.Content = []anthropic.ToolResultBlockParamContentUnion{{OfText: &anthropic.TextBlockParam{Text: r.Text}}}
		}
		if r.Failed {
			b.IsError = anthropic.Bool(true)
		}
		blocks = append(blocks, anthropic.ContentBlockParamUnion{OfToolResult: &b})
	}
	return anthropic.NewUserMessage(blocks...)
}

func messagesTool(t ToolSpec) anthropic.ToolUnionParam {
	tool := anthropic.ToolParam{Name: t.Name, InputSchema: param.Override[anthropic.ToolInputSchemaParam](t.Schema)}
	if t.Description != "" {
		tool.Description = anthropic.String(t.Description)
	}
	return anthropic.ToolUnionParam{OfTool: &tool}
}

func (w messages) post(ctx context.Context, body []byte, m middleware) (*events, error) {
	var res *http.Response
	err := w.client.Post(ctx, "v1/messages", body, &res, option.WithJSONSet("stream", true), option.WithMiddleware(m))
	if err != nil {
		return nil, err
	}
	decoder := ssestream.NewDecoder(res)
	next := func() (string, []byte, bool) {
		more := decoder.Next()
		return decoder.Event().Type, decoder.Event().Data, more
	}
	return &events{next: next, err: decoder.Err}, nil
}

func (messages) read(g *gather, kind string, data []byte) (last bool, err error) {
	if kind == "ping" {
		return false, nil
	}
	var e anthropic.MessageStreamEventUnion
	if err := json.Unmarshal(data, &e); err != nil {
		return false, errEvent
	}
	switch e.Type {
	case "error":
		return false, &eventError{parseComplaint(data)}
	case "message_start":
		u := e.Message.Usage
		g.model = string(e.Message.Model)
		g.usage = Usage{Known: e.Message.JSON.Usage.Valid(), Input: sum(u.InputTokens, u.CacheCreationInputTokens, u.CacheReadInputTokens),
			Cached: u.CacheReadInputTokens, Output: u.OutputTokens, Reasoning: u.OutputTokensDetails.ThinkingTokens}
	case "content_block_start":
		messagesBlock(g, e)
	case "content_block_delta":
		g.say(e.Delta.Text)
		g.think(e.Delta.Thinking)
		if p := g.call(e.Index); p != nil {
			g.argue(p, e.Delta.PartialJSON)
		}
	case "message_delta":
		messagesEnd(g, e)
	case "message_stop":
		if g.stop == "" {
			g.stop = StopEnd
		}
		return true, nil
	}
	return false, nil
}

func messagesBlock(g *gather, e anthropic.MessageStreamEventUnion) {
	b := e.ContentBlock
	switch b.Type {
	case "text":
		g.say(b.Text)
	case "thinking":
		g.think(b.Thinking)
	case "tool_use":
		p := g.newCall(e.Index, b.ID, b.Name)
		// As a rule this is {} and the arguments follow; a server may as well give them here.
		if raw := b.JSON.Input.Raw(); raw != "{}" && raw != "null" {
			g.argue(p, raw)
		}
	}
}

func messagesEnd(g *gather, e anthropic.MessageStreamEventUnion) {
	switch e.Delta.StopReason {
	case "":
	case "tool_use":
		g.stop = StopCalls
	case "max_tokens", "model_context_window_exceeded":
		g.stop = StopLength
	case "refusal":
		g.stop = StopRefusal
	default:
		g.stop = StopEnd
	}
	u := e.Usage
	if !e.JSON.Usage.Valid() {
		return
	}
	g.usage.Known = true
	g.usage.Output = u.OutputTokens
	g.usage.Reasoning = max(g.usage.Reasoning, u.OutputTokensDetails.ThinkingTokens)
	// The counts are of the whole message; of the input they repeat, or correct, what the start said.
	if u.JSON.InputTokens.Valid() && (u.InputTokens != 0 || u.CacheReadInputTokens != 0) {
		g.usage.Input = sum(u.InputTokens, u.CacheCreationInputTokens, u.CacheReadInputTokens)
		g.usage.Cached = u.CacheReadInputTokens
	}
}
