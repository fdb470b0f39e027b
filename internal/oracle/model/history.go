package model

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// history is a request that both protocols can take: users and assistants are not empty, neighbours of one role are joined, and after
// an assistant that calls comes a Tool with a result for each call, in the order of the calls.
type history struct {
	system   string
	messages []Message
	tools    []ToolSpec

	ids   map[string]bool // of all calls
	asked map[string]int  // the last calls by the ids that they have in the conversation, which is what results name
}

var (
	toolName   = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	callID     = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,40}$`)
	notInNames = regexp.MustCompile(`[^a-zA-Z0-9_-]`)
)

// noResult stands for the result of a call that has none.
const noResult = "there is no result: the call was interrupted"

func newHistory(req Request) (*history, error) {
	h := &history{system: clean(req.System), ids: map[string]bool{}}
	for i, m := range req.Messages {
		if err := h.add(m); err != nil {
			return nil, fmt.Errorf("message %d of the conversation: %w", i+1, err)
		}
	}
	h.answerAll()
	switch n := len(h.messages); {
	case n == 0:
		return nil, errors.New("the conversation is empty: say something")
	case h.messages[0].Role != User:
		return nil, errors.New("the conversation does not begin with the user: put what was asked before the model's answer")
	case h.messages[n-1].Role == Assistant:
		return nil, errors.New("the conversation ends with the model's own answer: add what the user says next")
	}
	return h, h.addTools(req.Tools)
}

func (h *history) addTools(tools []ToolSpec) error {
	names := map[string]bool{}
	for _, t := range tools {
		if !toolName.MatchString(t.Name) {
			return fmt.Errorf("tool name %q is not valid: use 1 to 64 letters, digits, _ and -", t.Name)
		}
		if names[t.Name] {
			return fmt.Errorf("two tools are called %s: rename one", t.Name)
		}
		names[t.Name] = true
		if blank(t.Schema) {
			t.Schema = json.RawMessage(`{"type":"object","properties":{}}`)
		}
		if _, isObject := object(t.Schema); !isObject {
			return fmt.Errorf("the schema of tool %s is no JSON object", t.Name)
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
			return fmt.Errorf("a message of the %s cannot hold these calls or results", m.Role)
		}
		if m.Text == "" && len(m.Calls) == 0 {
			return nil
		}
		h.answerAll()
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
			return errors.New("a message of a tool holds results only")
		}
		return h.addResults(m.Results)
	}
	return fmt.Errorf("role %q is not known", m.Role)
}

// addResults puts results where their calls are; the results of one message of calls may come in several.
func (h *history) addResults(results []Result) error {
	for _, r := range results {
		calls, given := h.open()
		at, made := h.asked[r.CallID]
		switch {
		case !made || len(calls) == 0:
			return fmt.Errorf("result for call %q, which the message before does not make", r.CallID)
		case given[at].CallID != "":
			return fmt.Errorf("a second result for call %q", r.CallID)
		}
		r.CallID, r.Text = calls[at].ID, clean(r.Text)
		given[at] = r
	}
	return nil
}

// open is the calls that the last results are for, and those results.
func (h *history) open() ([]Call, []Result) {
	if last := h.last(); last.Role == Assistant && len(last.Calls) > 0 {
		h.messages = append(h.messages, Message{Role: Tool, Results: make([]Result, len(last.Calls))})
	}
	if h.last().Role != Tool {
		return nil, nil
	}
	return h.messages[len(h.messages)-2].Calls, h.last().Results
}

// answerAll gives the calls that got no result one that says so: servers refuse a conversation with a call in the air.
func (h *history) answerAll() {
	calls, results := h.open()
	for i, c := range calls {
		if results[i].CallID == "" {
			results[i] = Result{CallID: c.ID, Name: c.Name, Text: noResult, Failed: true}
		}
	}
}

func (h *history) cleanCalls(calls []Call) ([]Call, error) {
	var out []Call
	h.asked = map[string]int{}
	for i, c := range calls {
		if _, taken := h.asked[c.ID]; taken || c.ID == "" {
			return nil, fmt.Errorf("call of %s: its id %q is empty or taken", c.Name, c.ID)
		}
		h.asked[c.ID] = i
		c.ID = h.freeID(c.ID, i)
		// A model may call what does not exist, and the server that made up the name would not take it back.
		c.Name = notInNames.ReplaceAllString(c.Name, "_")
		c.Name = c.Name[:min(len(c.Name), 64)]
		if c.Name == "" {
			c.Name = "unnamed"
		}
		c.Arguments = cmp.Or(strings.ToValidUTF8(c.Arguments, "�"), "{}")
		out = append(out, c)
	}
	return out, nil
}

// freeID is the id of the nth call of the next message: its own if every server takes that, which is not so of what some
// make up, or give to a call of every turn. It depends on what was said before only, or nothing could be cached.
func (h *history) freeID(id string, nth int) string {
	for n := 0; !callID.MatchString(id) || h.ids[id]; n++ {
		id = fmt.Sprintf("call_%d_%d", len(h.messages), nth)
		if n > 0 {
			id = fmt.Sprintf("%s_%d", id, n)
		}
	}
	h.ids[id] = true
	return id
}

// clean is text that is sent: valid, and nothing if there is nothing to see in it.
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

// object is raw if that is a JSON object.
func object(raw []byte) (json.RawMessage, bool) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil || fields == nil {
		return nil, false
	}
	return raw, true
}
