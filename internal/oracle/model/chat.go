package model

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/packages/ssestream"
	"github.com/openai/openai-go/v3/shared"
)

// chat is OpenAI's chat completions protocol.
type chat struct{ client openai.Client }

// newChat does without openai.NewClient, which reads OPENAI_* from the environment, headers and organisation included.
func newChat(c *Client) chat {
	options := []option.RequestOption{
		option.WithBaseURL(c.base.String()),
		option.WithHTTPClient(c.http),
		option.WithMaxRetries(0),
		option.WithHeader("Accept", "text/event-stream"),
	}
	if c.opts.Key != "" {
		options = append(options, option.WithAPIKey(c.opts.Key))
	}
	return chat{openai.Client{Options: options}}
}

func (chat) encode(c *Client, h *history) ([]byte, error) {
	p := openai.ChatCompletionNewParams{Model: c.model}
	p.StreamOptions.IncludeUsage = openai.Bool(true)
	if c.opts.MaxTokens > 0 {
		// Other servers know the old name only, and OpenAI's newer models the new one only.
		if c.official {
			p.MaxCompletionTokens = openai.Int(c.opts.MaxTokens)
		} else {
			p.MaxTokens = openai.Int(c.opts.MaxTokens)
		}
	}
	if h.system != "" {
		p.Messages = append(p.Messages, openai.SystemMessage(h.system))
	}
	for _, m := range h.messages {
		switch m.Role {
		case User:
			p.Messages = append(p.Messages, openai.UserMessage(m.Text))
		case Assistant:
			p.Messages = append(p.Messages, chatAssistant(m))
		case Tool:
			for _, r := range m.Results {
				if r.Failed && r.Text == "" {
					r.Text = "failed" // the protocol has no other way to say so
				}
				p.Messages = append(p.Messages, openai.ToolMessage(r.Text, r.CallID))
			}
		}
	}
	for _, t := range h.tools {
		p.Tools = append(p.Tools, chatTool(t))
	}
	return json.Marshal(p)
}

func chatAssistant(m Message) openai.ChatCompletionMessageParamUnion {
	var out openai.ChatCompletionAssistantMessageParam
	if m.Text != "" {
		out.Content.OfString = openai.String(m.Text)
	}
	for _, c := range m.Calls {
		out.ToolCalls = append(out.ToolCalls, openai.ChatCompletionMessageToolCallUnionParam{
			OfFunction: &openai.ChatCompletionMessageFunctionToolCallParam{
				ID:       c.ID,
				Function: openai.ChatCompletionMessageFunctionToolCallFunctionParam{Name: c.Name, Arguments: c.Arguments},
			},
		})
	}
	return openai.ChatCompletionMessageParamUnion{OfAssistant: &out}
}

// chatTool gives the schema as it is: the client's own type is a map, which loses the order that the model would see.
func chatTool(t ToolSpec) openai.ChatCompletionToolUnionParam {
	return openai.ChatCompletionFunctionTool(param.Override[shared.FunctionDefinitionParam](struct {
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		Parameters  json.RawMessage `json:"parameters"`
	}{t.Name, t.Description, t.Schema}))
}

func (w chat) post(ctx context.Context, body []byte, m middleware) (*events, error) {
	var res *http.Response
	err := w.client.Post(ctx, "chat/completions", body, &res, option.WithJSONSet("stream", true), option.WithMiddleware(m))
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

func (chat) read(g *gather, _ string, data []byte) (last bool, err error) {
	if strings.TrimSpace(string(data)) == "[DONE]" {
		if g.stop == "" {
			g.stop = StopEnd
		}
		return true, nil
	}
	var chunk openai.ChatCompletionChunk
	if err := json.Unmarshal(data, &chunk); err != nil {
		return false, errEvent
	}
	wrong := chunk.JSON.ExtraFields["error"].Raw()
	if wrong != "" && wrong != "null" || chunk.Object == "error" {
		return false, &eventError{parseComplaint(data)}
	}
	if chunk.Model != "" {
		g.model = chunk.Model
	}
	if u := chunk.Usage; chunk.JSON.Usage.Valid() {
		g.usage = Usage{Known: true, Input: u.PromptTokens, Output: u.CompletionTokens, Cached: u.PromptTokensDetails.CachedTokens,
			Reasoning: u.CompletionTokensDetails.ReasoningTokens}
	}
	for _, choice := range chunk.Choices {
		if choice.Index == 0 {
			chatDelta(g, choice)
		}
	}
	return false, nil
}

func chatDelta(g *gather, choice openai.ChatCompletionChunkChoice) {
	d := choice.Delta
	// Not in OpenAI's protocol, and called one or the other by those who have it; some send both.
	for _, name := range []string{"reasoning_content", "reasoning"} {
		var thought string
		if json.Unmarshal([]byte(d.JSON.ExtraFields[name].Raw()), &thought) == nil && thought != "" {
			g.think(thought)
			break
		}
	}
	g.say(d.Content)
	if d.Refusal != "" {
		g.refused = true
		g.say(d.Refusal)
	}
	for _, c := range d.ToolCalls {
		chatFragment(g, c)
	}
	switch choice.FinishReason {
	case "":
		return
	case "tool_calls", "function_call":
		g.stop = StopCalls
	case "length":
		g.stop = StopLength
	case "content_filter":
		g.stop = StopRefusal
	default:
		g.stop = StopEnd
	}
	g.finished = true
}

func chatFragment(g *gather, c openai.ChatCompletionChunkChoiceDeltaToolCall) {
	p := g.call(c.Index)
	switch {
	case p == nil || c.ID != "" && p.id != "" && c.ID != p.id: // servers exist that number all calls 0
		p = g.newCall(c.Index, c.ID, c.Function.Name)
	case c.ID == "":
		g.size += len(c.Function.Name)
		p.name += c.Function.Name
	default:
		p.id = c.ID
		if p.name == "" {
			p.name = c.Function.Name // and servers that repeat id and name with every fragment
		}
	}
	g.argue(p, c.Function.Arguments)
}
