package progress

import (
	"encoding/json"
	"regexp"
	"strings"
)

// hearing is what an agent is doing, as far as what it wrote tells.
type hearing struct {
	text    string
	streams bool // it writes JSON lines: other lines are parts of them
	open    bool // the text is a message that may go on
	turn    int  // in which the oracle said it
}

// hear takes a line that an agent wrote. What is not the agent's own words or its call of a tool leaves the text as it is:
// records about the stream, prompts that are repeated, and what was cut and cannot be read.
func (h hearing) hear(line string) hearing {
	if !strings.HasPrefix(line, "{") {
		if text := strings.TrimSpace(line); text != "" && !h.streams && !partOfJSON.MatchString(text) {
			h.text = clipped(text)
		}
		return h
	}
	var r record
	if json.Unmarshal([]byte(line), &r) != nil {
		return h
	}
	h.streams = h.streams || r.Type != ""
	text := strings.TrimSpace(r.words())
	switch {
	case r.Delta && r.Type == "message" && r.Role == "assistant":
		before := ""
		if h.open {
			before = h.text
		}
		h.text, h.open = lastWords(before+r.text()), true
	case r.Type == "content" && r.Turn != nil:
		before := ""
		if h.open && h.turn == *r.Turn {
			before = h.text
		}
		h.text, h.open, h.turn = lastWords(before+r.Text), true, *r.Turn
	case r.Type == "system" && (r.Name == "reply_restarted" || r.Name == "reply_cut"):
		h.open = false
	case text != "":
		h.text, h.open = clipped(text), false
	}
	return h
}

// gist is what an agent said in the beginning of its output: of JSON lines the last words, else all of it.
func gist(output string) string {
	if !strings.HasPrefix(strings.TrimSpace(output), "{") {
		return output
	}
	var h hearing
	for line := range strings.Lines(output) {
		h = h.hear(strings.TrimSpace(line))
	}
	return h.text
}

// partOfJSON is in the rest of an object whose beginning is not there: a key and its value.
var partOfJSON = regexp.MustCompile(`":\s*(["{\[\d-]|true|false|null)|"\}*[\]}]*\}$`)

// maxHeard is how much is kept of what an agent wrote: more than any screen is wide.
const maxHeard = 1000

func clipped(text string) string { return strings.ToValidUTF8(text[:min(len(text), maxHeard)], "") }

// lastWords is the end of a message that comes in pieces: its last line, with the white space that the next piece goes on at.
func lastWords(text string) string {
	if at := strings.LastIndexByte(strings.TrimRight(text, "\r\n"), '\n'); at >= 0 {
		text = text[at+1:]
	}
	return strings.ToValidUTF8(text[max(0, len(text)-maxHeard):], "")
}

// record is a line of a stream of claude, codex, gemini, opencode or the oracle: what is common to them, and of each where its words and
// its calls of tools are.
type record struct {
	Type string `json:"type"`
	// Message is claude's.
	Message json.RawMessage `json:"message"`
	// Item is codex's.
	Item struct {
		Type    string                  `json:"type"`
		Text    string                  `json:"text"`
		Command string                  `json:"command"`
		Tool    string                  `json:"tool"`
		Query   string                  `json:"query"`
		Changes []struct{ Path string } `json:"changes"`
	} `json:"item"`
	// Role, Content, Delta and the tool are gemini's.
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	Delta      bool            `json:"delta"`
	ToolName   string          `json:"tool_name"`
	Parameters json.RawMessage `json:"parameters"`
	// Part is opencode's.
	Part struct {
		Text  string `json:"text"`
		Tool  string `json:"tool"`
		State struct {
			Title string          `json:"title"`
			Input json.RawMessage `json:"input"`
		} `json:"state"`
	} `json:"part"`
	// Turn, Text and the tool are the oracle's.
	Turn      *int            `json:"turn"`
	Text      string          `json:"text"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

// words are what the agent says in a record, or the tool that it calls; "" for all others.
func (r *record) words() string {
	switch r.Type {
	case "assistant":
		return r.claude()
	case "message":
		if r.Role == "assistant" {
			return r.text()
		}
	case "item.started", "item.updated", "item.completed":
		return r.codex()
	case "text":
		return r.Part.Text
	case "tool_call":
		return call(r.Name, r.Arguments)
	case "tool_use":
		if r.ToolName != "" {
			return call(r.ToolName, r.Parameters)
		}
		if title := r.Part.State.Title; title != "" {
			return strings.TrimSpace(r.Part.Tool + " " + title)
		}
		return call(r.Part.Tool, r.Part.State.Input)
	}
	return ""
}

// text is gemini's content.
func (r *record) text() string {
	var text string
	json.Unmarshal(r.Content, &text) // what is no text says nothing
	return text
}

// claude is the last thing that a message of claude says or does.
func (r *record) claude() string {
	var message struct {
		Content []struct {
			Type  string          `json:"type"`
			Text  string          `json:"text"`
			Name  string          `json:"name"`
			Input json.RawMessage `json:"input"`
		} `json:"content"`
	}
	json.Unmarshal(r.Message, &message) // as far as it is known
	words := ""
	for _, part := range message.Content {
		switch {
		case part.Type == "text" && strings.TrimSpace(part.Text) != "":
			words = part.Text
		case part.Type == "tool_use":
			words = call(part.Name, part.Input)
		}
	}
	return words
}

func (r *record) codex() string {
	item := &r.Item
	switch item.Type {
	case "agent_message", "reasoning":
		return item.Text
	case "command_execution":
		return item.Command
	case "mcp_tool_call", "collab_tool_call":
		return item.Tool
	case "web_search":
		return item.Query
	case "file_change":
		var paths []string
		for _, change := range item.Changes {
			paths = append(paths, change.Path)
		}
		return strings.Join(paths, ", ")
	}
	return ""
}

// tellingKeys are where calls of tools have what people want to know, the best first.
var tellingKeys = [...]string{"command", "file_path", "filePath", "absolute_path", "path", "pattern", "query", "url", "description", "prompt"}

// call is a call of a tool.
func call(tool string, input json.RawMessage) string {
	var fields map[string]any
	json.Unmarshal(input, &fields) // what is no object tells nothing
	for _, key := range tellingKeys {
		switch value := fields[key].(type) {
		case string:
			return strings.TrimSpace(tool + " " + value)
		case []any:
			var words []string
			for _, word := range value {
				if text, ok := word.(string); ok {
					words = append(words, text)
				}
			}
			return strings.TrimSpace(tool + " " + strings.Join(words, " "))
		}
	}
	return tool
}
