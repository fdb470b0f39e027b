package agentformat

import (
	"encoding/json"
	"strings"
)

// Activity is what an agent does, as one line of its output shows it.
type Activity struct {
	// Text is what the agent writes, or the tool that it calls and the most telling argument. It is
	// "" for events that show neither, such as tool results and repeated prompts.
	Text string
	// Partial is set if Text is a piece of a message. Consecutive pieces with the same Turn belong
	// to one message.
	Partial bool
	// Turn is the number of the oracle's turn, 0 in other formats.
	Turn int
	// Withdrawn is set if the message so far does not count.
	Withdrawn bool
}

// ParseActivity returns the activity that a line in the format of any of the agent programs shows.
// It returns false if the line is not an event, for example because it is incomplete.
func ParseActivity(line []byte) (Activity, bool) {
	var e event
	if json.Unmarshal(line, &e) != nil || e.Type == "" {
		return Activity{}, false
	}
	switch {
	case e.Delta && e.Type == GeminiMessage && e.Role == GeminiAssistant:
		return Activity{Text: e.geminiText(), Partial: true}, true
	case e.Type == OracleContent && e.Turn != nil:
		return Activity{Text: e.Text, Partial: true, Turn: *e.Turn}, true
	case e.Type == OracleSystem && (e.Name == OracleReplyRestarted || e.Name == OracleReplyCut):
		return Activity{Withdrawn: true}, true
	}
	return Activity{Text: strings.TrimSpace(e.text())}, true
}

// event has the members of all formats that show what an agent does.
type event struct {
	Type string `json:"type"`
	// claude; codex has a string as Message
	Message json.RawMessage `json:"message"`
	Parent  json.RawMessage `json:"parent_tool_use_id"`
	IsError json.RawMessage `json:"is_error"`
	Result  json.RawMessage `json:"result"`
	// codex
	Item struct {
		ID      json.RawMessage         `json:"id"`
		Type    string                  `json:"type"`
		Text    string                  `json:"text"`
		Command string                  `json:"command"`
		Tool    string                  `json:"tool"`
		Query   string                  `json:"query"`
		Changes []struct{ Path string } `json:"changes"`
		Message json.RawMessage         `json:"message"`
		Output  json.RawMessage         `json:"aggregated_output"`
		Exit    json.RawMessage         `json:"exit_code"`
		Status  json.RawMessage         `json:"status"`
		Result  json.RawMessage         `json:"result"`
	} `json:"item"`
	// codex, gemini and opencode
	Error json.RawMessage `json:"error"`
	// gemini
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	Delta      bool            `json:"delta"`
	ToolName   string          `json:"tool_name"`
	ToolID     json.RawMessage `json:"tool_id"`
	Parameters json.RawMessage `json:"parameters"`
	Status     json.RawMessage `json:"status"`
	Output     json.RawMessage `json:"output"`
	// opencode
	Part struct {
		Text   string          `json:"text"`
		Tool   string          `json:"tool"`
		CallID json.RawMessage `json:"callID"`
		State  struct {
			Title  string          `json:"title"`
			Input  json.RawMessage `json:"input"`
			Status json.RawMessage `json:"status"`
			Output json.RawMessage `json:"output"`
			Error  json.RawMessage `json:"error"`
			Time   json.RawMessage `json:"time"`
		} `json:"state"`
	} `json:"part"`
	// oracle
	Turn      *int            `json:"turn"`
	Text      string          `json:"text"`
	ID        json.RawMessage `json:"id"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
	OK        json.RawMessage `json:"ok"`
}

func (e *event) text() string {
	switch e.Type {
	case ClaudeAssistant:
		return e.claudeText()
	case GeminiMessage:
		if e.Role == GeminiAssistant {
			return e.geminiText()
		}
	case CodexItemStarted, CodexItemUpdated, CodexItemCompleted:
		return e.codexText()
	case OpencodeText:
		return e.Part.Text
	case OracleToolCall:
		return toolCall(e.Name, e.Arguments)
	case GeminiToolUse: // and OpencodeToolUse
		if e.ToolName != "" {
			return toolCall(e.ToolName, e.Parameters)
		}
		if title := e.Part.State.Title; title != "" {
			return e.Part.Tool + " " + title
		}
		return toolCall(e.Part.Tool, e.Part.State.Input)
	}
	return ""
}

// claudeText returns the last text or tool call in a message.
func (e *event) claudeText() string {
	var message struct {
		Content []struct {
			Type  string          `json:"type"`
			Text  string          `json:"text"`
			Name  string          `json:"name"`
			Input json.RawMessage `json:"input"`
		} `json:"content"`
	}
	json.Unmarshal(e.Message, &message) // an unknown shape shows nothing
	text := ""
	for _, part := range message.Content {
		switch {
		case part.Type == ClaudeText && strings.TrimSpace(part.Text) != "":
			text = part.Text
		case part.Type == ClaudeToolUse:
			text = toolCall(part.Name, part.Input)
		}
	}
	return text
}

func (e *event) codexText() string {
	switch item := &e.Item; item.Type {
	case CodexAgentMessage, CodexReasoning:
		return item.Text
	case CodexCommand:
		return item.Command
	case CodexMCPToolCall, CodexCollabCall:
		return item.Tool
	case CodexWebSearch:
		return item.Query
	case CodexFileChange:
		var paths []string
		for _, change := range item.Changes {
			paths = append(paths, change.Path)
		}
		return strings.Join(paths, ", ")
	}
	return ""
}

func (e *event) geminiText() string {
	var text string
	json.Unmarshal(e.Content, &text) // content that is not a string shows nothing
	return text
}

// tellingArguments are the names of the arguments that describe a tool call best, the best first.
var tellingArguments = [...]string{"command", "file_path", "filePath", "absolute_path", "path", "pattern", "query", "url", "description", "prompt"}

// toolCall returns the name of a tool and its most telling argument.
func toolCall(tool string, input json.RawMessage) string {
	var arguments map[string]any
	json.Unmarshal(input, &arguments) // input that is not an object shows nothing
	for _, name := range tellingArguments {
		switch value := arguments[name].(type) {
		case string:
			return tool + " " + value
		case []any:
			words := []string{tool}
			for _, word := range value {
				if text, ok := word.(string); ok {
					words = append(words, text)
				}
			}
			return strings.Join(words, " ")
		}
	}
	return tool
}
