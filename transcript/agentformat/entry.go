package agentformat

import (
	"encoding/json"
	"strings"
	"time"
)

// EntryKind is what an entry of a transcript shows.
type EntryKind string

const (
	EntryText       EntryKind = "text"     // what the agent writes
	EntryThinking   EntryKind = "thinking" // what it thinks
	EntryToolCall   EntryKind = "tool_call"
	EntryToolResult EntryKind = "tool_result"
	EntryError      EntryKind = "error" // what the program reports
)

// Entry is a part of a transcript that people read.
type Entry struct {
	Kind EntryKind
	// Text is the text, or the tool that is called and its most telling argument.
	Text string
	// Tool is the name of the tool that is called.
	Tool string
	// Call identifies the call. A call and its result have the same one; it is "" if the program
	// does not report it.
	Call string
	// Took is how long the tool ran, in its result, if the program reports it.
	Took time.Duration
	// Failed is set for the result of a tool that failed.
	Failed bool
	// Partial is set if Text is a piece of a message, which continues with the next entry of the
	// same kind and Turn.
	Partial bool
	// Turn is the number of the oracle's turn, 0 in other formats.
	Turn int
	// Nested is set for what a sub-agent writes and does.
	Nested bool
	// Withdrawn is set if the message so far does not count. Then there is no Text.
	Withdrawn bool
}

// ParseEntries returns the entries of a line in the format of any of the agent programs: none for a
// line that people need not see, such as a repeated prompt. It returns false if the line is not an
// event.
func ParseEntries(line []byte) ([]Entry, bool) {
	var e event
	if json.Unmarshal(line, &e) != nil || e.Type == "" {
		return nil, false
	}
	return e.entries(), true
}

func (e *event) entries() []Entry {
	switch e.Type {
	case ClaudeAssistant, ClaudeUser:
		return e.claudeEntries()
	case CodexItemStarted, CodexItemCompleted:
		return e.codexEntries()
	case CodexTurnFailed, GeminiError: // and CodexError, OpencodeError and OracleError
		return e.errorEntries()
	case GeminiMessage:
		if e.Role == GeminiAssistant {
			return text(Entry{Kind: EntryText, Text: e.geminiText(), Partial: e.Delta})
		}
	case GeminiResult: // and ClaudeResult
		if is(e.IsError, `true`) || is(e.Status, `"error"`) {
			return e.errorEntries()
		}
	case OracleToolCall:
		return text(Entry{Kind: EntryToolCall, Text: toolCall(e.Name, e.Arguments), Tool: e.Name,
			Call: contentText(e.ID)})
	case GeminiToolUse: // and OpencodeToolUse
		if e.ToolName != "" {
			return text(Entry{Kind: EntryToolCall, Text: toolCall(e.ToolName, e.Parameters),
				Tool: e.ToolName, Call: contentText(e.ToolID)})
		}
		return e.opencodeEntries()
	case GeminiToolResult: // and OracleToolResult
		failed := is(e.Status, `"error"`) || is(e.OK, `false`)
		return []Entry{{Kind: EntryToolResult, Text: firstText(contentText(e.Output), e.Text,
			contentText(e.Error)), Call: firstText(contentText(e.ToolID), contentText(e.ID)),
			Failed: failed}}
	case OpencodeText:
		return text(Entry{Kind: EntryText, Text: e.Part.Text})
	case OpencodeReasoning: // and OracleReasoning
		if e.Turn != nil {
			return text(Entry{Kind: EntryThinking, Text: e.Text, Partial: true, Turn: *e.Turn})
		}
		return text(Entry{Kind: EntryThinking, Text: e.Part.Text})
	case OracleContent:
		if e.Turn != nil {
			return text(Entry{Kind: EntryText, Text: e.Text, Partial: true, Turn: *e.Turn})
		}
	case OracleSystem: // and ClaudeSystem
		if e.Name == OracleReplyRestarted || e.Name == OracleReplyCut {
			return []Entry{{Kind: EntryText, Withdrawn: true}}
		}
	}
	return nil
}

// is reports whether a member has a value. Members are kept as they are, so that one of an unknown
// type does not hide the rest.
func is(member json.RawMessage, value string) bool { return string(member) == value }

// text returns an entry unless it has no text.
func text(e Entry) []Entry {
	if e.Text == "" {
		return nil
	}
	return []Entry{e}
}

func (e *event) claudeEntries() (entries []Entry) {
	var message struct {
		Content json.RawMessage `json:"content"`
	}
	var parts []struct {
		Type      string          `json:"type"`
		Text      string          `json:"text"`
		Thinking  string          `json:"thinking"`
		ID        string          `json:"id"`
		Name      string          `json:"name"`
		Input     json.RawMessage `json:"input"`
		ToolUseID string          `json:"tool_use_id"`
		Content   json.RawMessage `json:"content"`
		IsError   bool            `json:"is_error"`
	}
	json.Unmarshal(e.Message, &message) // an unknown shape shows nothing
	json.Unmarshal(message.Content, &parts)
	for _, part := range parts {
		entry := Entry{Nested: len(e.Parent) > 0 && !is(e.Parent, `null`)}
		switch {
		case part.Type == ClaudeText && e.Type == ClaudeAssistant:
			entry.Kind, entry.Text = EntryText, part.Text
		case part.Type == ClaudeThinking:
			entry.Kind, entry.Text = EntryThinking, part.Thinking
		case part.Type == ClaudeToolUse:
			entry.Kind, entry.Text, entry.Tool, entry.Call = EntryToolCall,
				toolCall(part.Name, part.Input), part.Name, part.ID
		case part.Type == ClaudeToolResult:
			entry.Kind, entry.Text, entry.Call, entry.Failed = EntryToolResult,
				contentText(part.Content), part.ToolUseID, part.IsError
			entries = append(entries, entry) // also without text
			continue
		}
		entries = append(entries, text(entry)...)
	}
	return entries
}

func (e *event) codexEntries() []Entry {
	started := e.Type == CodexItemStarted
	failed := is(e.Item.Status, `"failed"`) || len(e.Item.Exit) > 0 && !is(e.Item.Exit, `0`) &&
		!is(e.Item.Exit, `null`)
	switch {
	case started && e.Item.Type == CodexCommand, started && e.Item.Type == CodexMCPToolCall,
		started && e.Item.Type == CodexCollabCall:
		return text(Entry{Kind: EntryToolCall, Text: e.codexText(),
			Tool: firstText(e.Item.Tool, e.Item.Type), Call: contentText(e.Item.ID)})
	case started:
	case e.Item.Type == CodexAgentMessage:
		return text(Entry{Kind: EntryText, Text: e.Item.Text})
	case e.Item.Type == CodexReasoning:
		return text(Entry{Kind: EntryThinking, Text: e.Item.Text})
	case e.Item.Type == CodexCommand:
		return []Entry{{Kind: EntryToolResult, Text: contentText(e.Item.Output),
			Call: contentText(e.Item.ID), Failed: failed}}
	case e.Item.Type == CodexMCPToolCall, e.Item.Type == CodexCollabCall:
		return []Entry{{Kind: EntryToolResult, Text: contentText(e.Item.Result),
			Call: contentText(e.Item.ID), Failed: failed}}
	case e.Item.Type == CodexWebSearch:
		return text(Entry{Kind: EntryToolCall, Text: strings.TrimSpace("search " + e.codexText()),
			Tool: e.Item.Type, Call: contentText(e.Item.ID)})
	case e.Item.Type == CodexFileChange:
		return text(Entry{Kind: EntryToolCall, Text: strings.TrimSpace("edit " + e.codexText()),
			Tool: e.Item.Type, Call: contentText(e.Item.ID)})
	case e.Item.Type == CodexError:
		return text(Entry{Kind: EntryError, Text: contentText(e.Item.Message)})
	}
	return nil
}

// opencodeEntries returns a tool call of opencode and its result, which are one event.
func (e *event) opencodeEntries() []Entry {
	state, call := &e.Part.State, contentText(e.Part.CallID)
	var ran struct{ Start, End int64 } // in milliseconds
	json.Unmarshal(state.Time, &ran)   // an unknown shape has no times
	return append(text(Entry{Kind: EntryToolCall, Text: e.text(), Tool: e.Part.Tool, Call: call}),
		Entry{Kind: EntryToolResult, Text: firstText(contentText(state.Output),
			contentText(state.Error)), Call: call,
			Took:   time.Duration(max(0, ran.End-ran.Start)) * time.Millisecond,
			Failed: is(state.Status, `"error"`)})
}

// errorEntries returns what an event says about a failure.
func (e *event) errorEntries() []Entry {
	return text(Entry{Kind: EntryError,
		Text: firstText(contentText(e.Error), contentText(e.Message), contentText(e.Result),
			e.Text)})
}

// contentText returns the text in a value: a string, an object with a text or a message, or a list
// of those.
func contentText(value json.RawMessage) string { return textIn(value, maxDepth) }

// maxDepth bounds how deep contentText looks.
const maxDepth = 4

func textIn(value json.RawMessage, depth int) string {
	if len(value) == 0 || depth == 0 {
		return ""
	}
	switch value[0] {
	case '"':
		var s string
		json.Unmarshal(value, &s) // it is valid JSON
		return s
	case '[':
		var list []json.RawMessage
		json.Unmarshal(value, &list)
		var texts []string
		for _, item := range list {
			if s := textIn(item, depth-1); s != "" {
				texts = append(texts, s)
			}
		}
		return strings.Join(texts, "\n")
	case '{':
		var object struct {
			Text    json.RawMessage `json:"text"`
			Message json.RawMessage `json:"message"`
			Content json.RawMessage `json:"content"`
			Data    json.RawMessage `json:"data"`
		}
		json.Unmarshal(value, &object)
		return firstText(textIn(object.Text, depth-1), textIn(object.Message, depth-1),
			textIn(object.Content, depth-1), textIn(object.Data, depth-1))
	}
	return ""
}

// firstText returns the first text that is not empty.
func firstText(texts ...string) string {
	for _, s := range texts {
		if s != "" {
			return s
		}
	}
	return ""
}
