package model

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"signalbox/internal/lazy"
)

// history is a conversation in a form that both protocols accept: User and Assistant messages are
// not empty, neighbours of one role are joined, and an Assistant that calls tools is followed by a
// Tool message with a result for each call, in the order of the calls.
type history struct {
	system   string
	messages []Message
	tools    []ToolSpec

	temperature *float64

	ids map[string]bool // of all calls, as they are sent
	// of the last message's calls by their original ids, which results refer to
	indexes map[string]int
}

var (
	toolName   = lazy.Regexp(`^[a-zA-Z0-9_-]{1,64}$`)
	callID     = lazy.Regexp(`^[a-zA-Z0-9_-]{1,40}$`)
	notInNames = lazy.Regexp(`[^a-zA-Z0-9_-]`)
)

// noResult is sent in place of a missing result.
const noResult = "there is no result: the call was interrupted"

func newHistory(req Request) (*history, error) {
	h := &history{system: clean(req.System), temperature: req.Temperature, ids: map[string]bool{}}
	for i, m := range req.Messages {
		if err := h.add(m); err != nil {
			return nil, fmt.Errorf("message %d of the conversation: %w", i+1, err)
		}
	}
	h.fillResults()
	switch n := len(h.messages); {
	case n == 0:
		return nil, errors.New("the conversation is empty: add a user message")
	case h.messages[0].Role != User:
		return nil, errors.New(
			"the conversation does not begin with a user message: put the question before the answer")
	case h.messages[n-1].Role == Assistant:
		return nil, errors.New(
			"the conversation ends with an assistant message: add the next user message")
	}
	return h, h.addTools(req.Tools)
}

func (h *history) addTools(tools []ToolSpec) error {
	names := map[string]bool{}
	for _, t := range tools {
		if !toolName().MatchString(t.Name) {
			return fmt.Errorf("tool name %q is not valid: use 1 to 64 letters, digits, _ and -",
				t.Name)
		}
		if names[t.Name] {
			return fmt.Errorf("two tools have the name %s: rename one", t.Name)
		}
		names[t.Name] = true
		if blank(t.Schema) {
			t.Schema = json.RawMessage(`{"type":"object","properties":{}}`)
		}
		if _, isObject := object(t.Schema); !isObject {
			return fmt.Errorf("the schema of tool %s is not a JSON object", t.Name)
		}
		t.Description = clean(t.Description)
		h.tools = append(h.tools, t)
	}
	return nil
}

func (h *history) last() *Message {
	if len(h.messages) == 0 {
		return &Message{}
	}
	return &h.messages[len(h.messages)-1]
}

func (h *history) add(m Message) error {
	m.Text = clean(m.Text)
	switch m.Role {
	case User, Assistant:
		if len(m.Results) > 0 || m.Role == User && len(m.Calls) > 0 {
			return fmt.Errorf("a message with role %s cannot have these calls or results", m.Role)
		}
		if m.Text == "" && len(m.Calls) == 0 {
			return nil
		}
		h.fillResults()
		calls, err := h.cleanCalls(m.Calls)
		if err != nil {
			return err
		}
		if last := h.last(); last.Role == m.Role {
			last.Text = join(last.Text, m.Text)
			last.Calls = append(last.Calls, calls...)
			return nil
		}
		h.messages = append(h.messages, Message{Role: m.Role, Text: m.Text, Calls: calls})
		return nil
	case Tool:
		if m.Text != "" || len(m.Calls) > 0 {
			return errors.New("a tool message can only have results")
		}
		return h.addResults(m.Results)
	}
	return fmt.Errorf("unknown role %q", m.Role)
}

// addResults adds results in the order of their calls. The results of one Assistant message may
// come in several Tool messages.
func (h *history) addResults(results []Result) error {
	for _, r := range results {
		calls, results := h.lastRound()
		i, found := h.indexes[r.CallID]
		switch {
		case !found || len(calls) == 0:
			return fmt.Errorf("result for call %q, which is not in the message before", r.CallID)
		case results[i].CallID != "":
			return fmt.Errorf("a second result for call %q", r.CallID)
		}
		r.CallID, r.Text = calls[i].ID, clean(r.Text)
		results[i] = r
	}
	return nil
}

// lastRound returns the calls of the last Assistant message and the slots for their results, nil if
// a User message followed them.
func (h *history) lastRound() ([]Call, []Result) {
	if last := h.last(); last.Role == Assistant && len(last.Calls) > 0 {
		h.messages = append(h.messages,
			Message{Role: Tool, Results: make([]Result, len(last.Calls))})
	}
	if h.last().Role != Tool {
		return nil, nil
	}
	return h.messages[len(h.messages)-2].Calls, h.last().Results
}

// fillResults adds a failed result for each call without one: servers refuse a conversation with an
// unanswered call.
func (h *history) fillResults() {
	calls, results := h.lastRound()
	for i, c := range calls {
		if results[i].CallID == "" {
			results[i] = Result{CallID: c.ID, Name: c.Name, Text: noResult, Failed: true}
		}
	}
}

func (h *history) cleanCalls(calls []Call) ([]Call, error) {
	var out []Call
	h.indexes = map[string]int{}
	for i, c := range calls {
		if _, taken := h.indexes[c.ID]; taken || c.ID == "" {
			return nil, fmt.Errorf("call of %s: its id %q is empty or taken", c.Name, c.ID)
		}
		h.indexes[c.ID] = i
		c.ID = h.uniqueID(c.ID, i)
		// A model may call a tool that does not exist, by a name that its server would refuse.
		c.Name = notInNames().ReplaceAllString(c.Name, "_")
		c.Name = c.Name[:min(len(c.Name), 64)]
		if c.Name == "" {
			c.Name = "unnamed"
		}
		c.Arguments = cmp.Or(strings.ToValidUTF8(c.Arguments, "�"), "{}")
		out = append(out, c)
	}
	return out, nil
}

// uniqueID returns the id to send for the nth call of the next message. It is the original one if
// every server accepts that: some servers invent long ids, or use the same ones in every turn. It
// depends only on the messages before, or servers could not cache them.
func (h *history) uniqueID(id string, nth int) string {
	for n := 0; !callID().MatchString(id) || h.ids[id]; n++ {
		id = fmt.Sprintf("call_%d_%d", len(h.messages), nth)
		if n > 0 {
			id = fmt.Sprintf("%s_%d", id, n)
		}
	}
	h.ids[id] = true
	return id
}

// clean makes text valid UTF-8, and empty if it is only white space.
func clean(text string) string {
	if strings.TrimSpace(text) == "" {
		return ""
	}
	return strings.ToValidUTF8(text, "�")
}

func join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "\n\n" + b
}

// object returns raw and true if raw is a JSON object.
func object(raw []byte) (json.RawMessage, bool) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil || fields == nil {
		return nil, false
	}
	return raw, true
}
