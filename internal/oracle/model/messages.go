package model

import (
	"cmp"
	"encoding/json"
	"net/http"
)

// messages is Anthropic's messages protocol.
type messages struct{}

const defaultMaxTokens = 8192

type messagesRequest struct {
	Model      string              `json:"model"`
	MaxTokens  int64               `json:"max_tokens"`
	System     []messagesBlock     `json:"system,omitempty"`
	Messages   []messagesMessage   `json:"messages"`
	Tools      []messagesTool      `json:"tools,omitempty"`
	ToolChoice *messagesToolChoice `json:"tool_choice,omitempty"`
	// Temperature is nil for the server's own.
	Temperature *float64 `json:"temperature,omitempty"`
	Stream      bool     `json:"stream"`
}

type messagesMessage struct {
	Role    string          `json:"role"`
	Content []messagesBlock `json:"content"`
}

// messagesBlock is a block of content, in a request or in a reply. Its type determines which of the
// other fields it has.
type messagesBlock struct {
	Type     string `json:"type"`
	Text     string `json:"text,omitempty"`     // text
	Thinking string `json:"thinking,omitempty"` // thinking

	// tool_use
	ID    string          `json:"id,omitempty"`
	Name  string          `json:"name,omitempty"`
	Input json.RawMessage `json:"input,omitempty"`

	// tool_result
	ToolUseID string          `json:"tool_use_id,omitempty"`
	Content   []messagesBlock `json:"content,omitempty"`
	IsError   bool            `json:"is_error,omitempty"`
}

type messagesTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	InputSchema json.RawMessage `json:"input_schema"`
}

type messagesToolChoice struct {
	Type string `json:"type"`
}

func (messages) path() string { return "v1/messages" }

func (messages) setHeader(h http.Header, key string) {
	h.Set("Anthropic-Version", "2023-06-01")
	if key != "" {
		h.Set("X-Api-Key", key)
	}
}

func (messages) encode(c *Client, h *history) ([]byte, error) {
	r := messagesRequest{Model: c.model, MaxTokens: cmp.Or(c.opts.MaxTokens, defaultMaxTokens),
		Temperature: h.temperature, Stream: true}
	if h.system != "" {
		r.System = []messagesBlock{textBlock(h.system)}
	}
	for i, m := range h.messages {
		switch m.Role {
		case User:
			if i > 0 && h.messages[i-1].Role == Tool {
				// Tool results and what the user says after them are one message, results first.
				last := &r.Messages[len(r.Messages)-1]
				last.Content = append(last.Content, textBlock(m.Text))
				continue
			}
			r.Messages = append(r.Messages,
				messagesMessage{"user", []messagesBlock{textBlock(m.Text)}})
		case Assistant:
			r.Messages = append(r.Messages, messagesMessage{"assistant", assistantBlocks(m)})
		case Tool:
			r.Messages = append(r.Messages, messagesMessage{"user", resultBlocks(m)})
		}
	}
	for _, t := range h.tools {
		r.Tools = append(r.Tools, messagesTool{t.Name, t.Description, t.Schema})
	}
	if len(h.tools) == 0 {
		r.declarePastTools(h)
	}
	return encodeJSON(r)
}

// declarePastTools declares the tools that were called earlier, and forbids to call them now: the
// server refuses a conversation that mentions undeclared tools.
func (r *messagesRequest) declarePastTools(h *history) {
	seen := map[string]bool{}
	for _, m := range h.messages {
		for _, c := range m.Calls {
			if !seen[c.Name] {
				seen[c.Name] = true
				r.Tools = append(r.Tools,
					messagesTool{Name: c.Name, InputSchema: json.RawMessage(`{"type":"object"}`)})
			}
		}
	}
	if len(seen) > 0 {
		r.ToolChoice = &messagesToolChoice{"none"}
	}
}

func textBlock(text string) messagesBlock { return messagesBlock{Type: "text", Text: text} }

func assistantBlocks(m Message) []messagesBlock {
	var blocks []messagesBlock
	if m.Text != "" {
		blocks = append(blocks, textBlock(m.Text))
	}
	for _, c := range m.Calls {
		input, ok := object([]byte(c.Arguments))
		if !ok {
			// a map of strings always marshals
			input, _ = json.Marshal(map[string]string{"_raw": c.Arguments})
		}
		blocks = append(blocks, messagesBlock{Type: "tool_use", ID: c.ID, Name: c.Name,
			Input: input})
	}
	return blocks
}

func resultBlocks(m Message) []messagesBlock {
	var blocks []messagesBlock
	for _, r := range m.Results {
		b := messagesBlock{Type: "tool_result", ToolUseID: r.CallID, IsError: r.Failed}
		if r.Text != "" {
			b.Content = []messagesBlock{textBlock(r.Text)}
		}
		blocks = append(blocks, b)
	}
	return blocks
}

// messagesEvent is an event of the stream. Its type determines which of the other fields it has.
type messagesEvent struct {
	Type    string `json:"type"`
	Message struct {
		Model string         `json:"model"`
		Usage *messagesUsage `json:"usage"`
	} `json:"message"`
	Index        int64         `json:"index"`
	ContentBlock messagesBlock `json:"content_block"`
	Delta        struct {
		Text        string `json:"text"`
		Thinking    string `json:"thinking"`
		PartialJSON string `json:"partial_json"`
		StopReason  string `json:"stop_reason"`
	} `json:"delta"`
	Usage *messagesUsage `json:"usage"`
}

type messagesUsage struct {
	// nil in a message_delta that does not repeat the counts of the input
	InputTokens              *int64 `json:"input_tokens"`
	CacheCreationInputTokens int64  `json:"cache_creation_input_tokens"`
	CacheReadInputTokens     int64  `json:"cache_read_input_tokens"`
	OutputTokens             int64  `json:"output_tokens"`
	OutputTokensDetails      struct {
		ThinkingTokens int64 `json:"thinking_tokens"`
	} `json:"output_tokens_details"`
}

func (messages) decode(b *replyBuilder, name string, data []byte) (last bool, err error) {
	if name == "ping" {
		return false, nil
	}
	var e messagesEvent
	if !decodeJSON(data, &e) {
		return false, errEvent
	}
	switch e.Type {
	case "error":
		return false, &eventError{parseServerError(data)}
	case "message_start":
		b.model = e.Message.Model
		if u := e.Message.Usage; u != nil {
			b.usage = Usage{Known: true, Input: u.input(), Cached: u.CacheReadInputTokens,
				Output:    u.OutputTokens,
				Reasoning: u.OutputTokensDetails.ThinkingTokens}
		}
	case "content_block_start":
		e.startBlock(b)
	case "content_block_delta":
		b.addText(e.Delta.Text)
		b.addReasoning(e.Delta.Thinking)
		b.appendArguments(b.byIndex[e.Index], e.Delta.PartialJSON)
	case "message_delta":
		e.finish(b)
	case "message_stop":
		b.end()
		return true, nil
	}
	return false, nil
}

func (u *messagesUsage) input() int64 {
	if u.InputTokens == nil {
		return 0
	}
	return sum(*u.InputTokens, u.CacheCreationInputTokens, u.CacheReadInputTokens)
}

func (e *messagesEvent) startBlock(b *replyBuilder) {
	block := &e.ContentBlock
	switch block.Type {
	case "text":
		b.addText(block.Text)
	case "thinking":
		b.addReasoning(block.Thinking)
	case "tool_use":
		p := b.addCall(e.Index, block.ID, block.Name)
		// The input is usually {} and the arguments follow in deltas, but a server may send them
		// here.
		if raw := string(block.Input); raw != "{}" && raw != "null" {
			b.appendArguments(p, raw)
		}
	}
}

func (e *messagesEvent) finish(b *replyBuilder) {
	switch e.Delta.StopReason {
	case "":
	case "tool_use":
		b.stop = StopCalls
	case "max_tokens", "model_context_window_exceeded":
		b.stop = StopLength
	case "refusal":
		b.stop = StopRefusal
	default:
		b.stop = StopEnd
	}
	u := e.Usage
	if u == nil {
		return
	}
	b.usage.Known = true
	b.usage.Output = u.OutputTokens
	b.usage.Reasoning = max(b.usage.Reasoning, u.OutputTokensDetails.ThinkingTokens)
	// The counts cover the whole message. Those of the input, if given, repeat or correct the
	// counts of message_start.
	if input := u.input(); input != 0 {
		b.usage.Input = input
		b.usage.Cached = u.CacheReadInputTokens
	}
}
