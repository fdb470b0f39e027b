package modelserver

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// messages is Anthropic's messages protocol.
type messages struct {
	// counting means count_tokens, which has the same request without max_tokens.
	counting bool
}

func (messages) name() string { return "messages" }

func (messages) key(r *http.Request) string {
	if key := r.Header.Get("X-Api-Key"); key != "" {
		return key
	}
	return bearer(r)
}

func (messages) wrongKey() *refusal {
	return &refusal{status: http.StatusUnauthorized, message: "invalid x-api-key"}
}

type messagesError struct {
	Type      string            `json:"type"`
	Error     messagesErrorBody `json:"error"`
	RequestID string            `json:"request_id,omitempty"`
}

type messagesErrorBody struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}

func (messages) failure(f *refusal, id string) any {
	kind := map[int]string{401: "authentication_error", 403: "permission_error",
		404: "not_found_error", 413: "request_too_large",
		429: "rate_limit_error", 529: "overloaded_error"}[f.status]
	if kind == "" && f.status >= 500 {
		kind = "api_error"
	}
	kind = cmp.Or(kind, "invalid_request_error")
	return messagesError{Type: "error", Error: messagesErrorBody{kind, f.message}, RequestID: id}
}

type messagesRequest struct {
	Model     string              `json:"model"`
	MaxTokens *int                `json:"max_tokens"`
	System    json.RawMessage     `json:"system"`
	Messages  *[]messagesIncoming `json:"messages"`
	Stream    bool                `json:"stream"`
	Tools     []struct {
		Type        string          `json:"type"`
		Name        string          `json:"name"`
		Description string          `json:"description"`
		InputSchema json.RawMessage `json:"input_schema"`
	} `json:"tools"`
}

type messagesIncoming struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

type messagesIncomingBlock struct {
	Type      string          `json:"type"`
	Text      *string         `json:"text"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
	IsError   bool            `json:"is_error"`
}

func (p messages) parse(body []byte, req *Request) *refusal {
	if req.Header.Get("Anthropic-Version") == "" {
		return badRequest("anthropic-version: header is required")
	}
	var in messagesRequest
	if err := json.Unmarshal(body, &in); err != nil {
		return badRequest("The request body is not valid JSON: %v", err)
	}
	req.Model, req.Stream = in.Model, in.Stream && !p.counting
	switch {
	case in.Model == "":
		return badRequest("model: Field required")
	case in.MaxTokens == nil && !p.counting:
		return badRequest("max_tokens: Field required")
	case in.MaxTokens != nil && *in.MaxTokens < 1:
		return badRequest("max_tokens: Input should be greater than or equal to 1")
	case in.Messages == nil:
		return badRequest("messages: Field required")
	case len(*in.Messages) == 0:
		return badRequest("messages: at least one message is required")
	}
	system, err := contentText(in.System)
	if err != nil {
		return badRequest("system: %v", err)
	}
	req.System = system
	for i, t := range in.Tools {
		if t.Name == "" {
			return badRequest("tools.%d.name: Field required", i)
		}
		if len(t.InputSchema) == 0 && (t.Type == "" || t.Type == "custom") {
			return badRequest("tools.%d.input_schema: Field required", i)
		}
		req.Tools = append(req.Tools, Tool{Name: t.Name, Description: t.Description,
			Schema: t.InputSchema})
	}
	return in.history(req)
}

// history validates the messages. The results of an assistant's calls must be in the next message.
func (in *messagesRequest) history(req *Request) *refusal {
	open := &callSet{}
	for i, m := range *in.Messages {
		if m.Role != "user" && m.Role != "assistant" {
			if m.Role == "system" {
				return badRequest("messages: Unexpected role \"system\". The Messages API accepts a top-level `system` parameter, " +
					"not \"system\" as an input message role.")
			}
			return badRequest("messages.%d.role: Input should be 'user' or 'assistant'", i)
		}
		blocks, wrong := messagesBlocks(m.Content)
		if wrong != "" {
			return badRequest("messages.%d.content: %s", i, wrong)
		}
		calls := &callSet{}
		results := Message{Role: RoleTool}
		out := Message{Role: Role(m.Role)}
		for j, b := range blocks {
			where := fmt.Sprintf("messages.%d.content.%d", i, j)
			if refused := b.into(where, m.Role, &out, &results, open, calls); refused != nil {
				return refused
			}
		}
		if !open.empty() {
			return messagesUnanswered(i-1, open)
		}
		open = calls
		if results.Results != nil {
			req.add(results)
		}
		if results.Results == nil || out.Text != "" {
			req.add(out)
		}
	}
	if !open.empty() {
		return messagesUnanswered(len(*in.Messages)-1, open)
	}
	return nil
}

func messagesUnanswered(i int, open *callSet) *refusal {
	return badRequest("messages.%d: `tool_use` ids were found without `tool_result` blocks immediately after: %s. "+
		"Each `tool_use` block must have a corresponding `tool_result` block in the next message.",
		i, strings.Join(open.ids, ", "))
}

// messagesBlocks returns the content as blocks, or the server's error message.
func messagesBlocks(raw json.RawMessage) (blocks []messagesIncomingBlock, wrong string) {
	if len(raw) == 0 {
		return nil, "Field required"
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return []messagesIncomingBlock{{Type: "text", Text: &text}}, ""
	}
	if err := json.Unmarshal(raw, &blocks); err != nil {
		return nil, "Input should be a valid list"
	}
	return blocks, ""
}

func (b *messagesIncomingBlock) into(where, role string, out, results *Message, open,
	calls *callSet) *refusal {
	switch b.Type {
	case "text":
		if b.Text == nil {
			return badRequest("%s.text.text: Field required", where)
		}
		if *b.Text == "" {
			return badRequest("messages: text content blocks must be non-empty")
		}
		if out.Text != "" {
			out.Text += "\n"
		}
		out.Text += *b.Text
	case "tool_use":
		if role != "assistant" {
			return badRequest("%s: `tool_use` blocks can only be in `assistant` messages", where)
		}
		out.Calls = append(out.Calls, MadeCall{ID: b.ID, Name: b.Name, Arguments: string(b.Input)})
		calls.add(b.ID)
	case "tool_result":
		if role != "user" {
			return badRequest("%s: `tool_result` blocks can only be in `user` messages", where)
		}
		if !open.remove(b.ToolUseID) {
			return badRequest("%s: unexpected `tool_use_id` found in `tool_result` blocks: %s. Each `tool_result` block must have a "+
				"corresponding `tool_use` block in the previous message.", where, b.ToolUseID)
		}
		text, err := contentText(b.Content)
		if err != nil {
			return badRequest("%s.tool_result.content: %v", where, err)
		}
		results.Results = append(results.Results,
			Result{ID: b.ToolUseID, Text: text, Error: b.IsError})
	case "":
		return badRequest("%s.type: Field required", where)
	}
	return nil // images, documents, thinking and unknown types are accepted and ignored
}

type messagesBody struct {
	ID           string          `json:"id"`
	Type         string          `json:"type"`
	Role         string          `json:"role"`
	Model        string          `json:"model"`
	Content      []messagesBlock `json:"content"`
	StopReason   *string         `json:"stop_reason"`
	StopSequence *string         `json:"stop_sequence"`
	Usage        messagesUsage   `json:"usage"`
}

type messagesBlock struct {
	Type      string          `json:"type"`
	Text      *string         `json:"text,omitempty"`
	Thinking  *string         `json:"thinking,omitempty"`
	Signature *string         `json:"signature,omitempty"`
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
}

type messagesUsage struct {
	Input         int `json:"input_tokens"`
	CacheCreation int `json:"cache_creation_input_tokens"`
	CacheRead     int `json:"cache_read_input_tokens"`
	Output        int `json:"output_tokens"`
}

// newMessagesUsage counts like the protocol: cached tokens are not part of the input.
func newMessagesUsage(u Usage, output int) messagesUsage {
	return messagesUsage{Input: max(u.Input-u.Cached, 0), CacheRead: u.Cached, Output: output}
}

func (a *answer) stopReason() *string {
	reason := map[string]string{finishStop: "end_turn", finishLength: "max_tokens",
		finishCalls: "tool_use", finishFilter: "refusal"}[a.finish]
	return &reason
}

// signature replaces the signature that the real server adds to thinking blocks.
const signature = "cmVoZWFyc2Fs"

func (messages) whole(a *answer) (any, error) {
	body := messagesBody{ID: a.id("msg"), Type: "message", Role: "assistant", Model: a.model,
		Content:    []messagesBlock{},
		StopReason: a.stopReason(), Usage: newMessagesUsage(a.usage, a.usage.Output)}
	for _, p := range a.parts {
		b := messagesBlock{Type: "text"}
		text := p.whole()
		switch p.kind {
		case partText:
			b.Text = &text
		case partReasoning:
			sig := signature
			b.Type, b.Thinking, b.Signature = "thinking", &text, &sig
		case partCall:
			input, err := p.object()
			if err != nil {
				return nil, err
			}
			b.Type, b.ID, b.Name, b.Input = "tool_use", p.id, p.name, input
		}
		body.Content = append(body.Content, b)
	}
	return body, nil
}

type messagesEvent struct {
	Type    string         `json:"type"`
	Message *messagesBody  `json:"message,omitempty"`
	Index   *int           `json:"index,omitempty"`
	Block   *messagesBlock `json:"content_block,omitempty"`
	Delta   any            `json:"delta,omitempty"`
	Usage   *messagesUsage `json:"usage,omitempty"`
}

type messagesDelta struct {
	Type        string  `json:"type,omitempty"`
	Text        *string `json:"text,omitempty"`
	Thinking    *string `json:"thinking,omitempty"`
	Signature   *string `json:"signature,omitempty"`
	PartialJSON *string `json:"partial_json,omitempty"`
}

type messagesEncoder struct {
	a   *answer
	out *stream
}

func (messages) encoder(a *answer, out *stream) encoder { return messagesEncoder{a, out} }

func (e messagesEncoder) send(ev messagesEvent) { e.out.event(ev.Type, ev) }

func (e messagesEncoder) begin() {
	e.send(messagesEvent{Type: "message_start", Message: &messagesBody{ID: e.a.id("msg"),
		Type: "message", Role: "assistant",
		Model: e.a.model, Content: []messagesBlock{}, Usage: newMessagesUsage(e.a.usage, 1)}})
}

func (e messagesEncoder) piece(p piece) error {
	empty := ""
	block := messagesBlock{Type: "text", Text: &empty}
	delta := messagesDelta{Type: "text_delta", Text: &p.text}
	switch p.kind {
	case partReasoning:
		block = messagesBlock{Type: "thinking", Thinking: &empty, Signature: &empty}
		delta = messagesDelta{Type: "thinking_delta", Thinking: &p.text}
	case partCall:
		block = messagesBlock{Type: "tool_use", ID: p.id, Name: p.name,
			Input: json.RawMessage("{}")}
		delta = messagesDelta{Type: "input_json_delta", PartialJSON: &p.text}
	}
	if p.first {
		e.send(messagesEvent{Type: "content_block_start", Index: &p.index, Block: &block})
		if p.index == 0 {
			e.send(messagesEvent{Type: "ping"})
		}
	}
	e.send(messagesEvent{Type: "content_block_delta", Index: &p.index, Delta: &delta})
	if p.last {
		if p.kind == partReasoning {
			sig := signature
			e.send(messagesEvent{Type: "content_block_delta", Index: &p.index,
				Delta: &messagesDelta{Type: "signature_delta", Signature: &sig}})
		}
		e.send(messagesEvent{Type: "content_block_stop", Index: &p.index})
	}
	return nil
}

func (e messagesEncoder) end() {
	type stop struct {
		StopReason   *string `json:"stop_reason"`
		StopSequence *string `json:"stop_sequence"`
	}
	usage := newMessagesUsage(e.a.usage, e.a.usage.Output)
	e.send(messagesEvent{Type: "message_delta", Delta: stop{StopReason: e.a.stopReason()},
		Usage: &usage})
	e.send(messagesEvent{Type: "message_stop"})
}

func (e messagesEncoder) fail(f *refusal) { e.out.event("error", messages{}.failure(f, "")) }
