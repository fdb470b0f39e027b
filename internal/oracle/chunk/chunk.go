// Package chunk defines the chunks of the oracle's output stream and their encoding as lines of
// JSON.
//
// A chunk is one JSON object on one line, with its kind in "type". Parse refuses unknown kinds and
// ignores unknown fields, so that a program can read what a newer version writes. Parse after Line
// is the identity for text in UTF-8. The package does no I/O.
package chunk

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"

	"signalbox/internal/text"
)

// Kind is a chunk's "type".
type Kind string

const (
	KindContent    Kind = "content"
	KindReasoning  Kind = "reasoning"
	KindToolCall   Kind = "tool_call"
	KindToolResult Kind = "tool_result"
	KindSources    Kind = "sources"
	KindSignal     Kind = "signal"
	KindSystem     Kind = "system"
	KindError      Kind = "error"
	KindDone       Kind = "done"
)

// A Chunk is one of the types below.
type Chunk interface{ Kind() Kind }

var chunks = []Chunk{Content{}, Reasoning{}, ToolCall{}, ToolResult{}, Sources{}, Signal{}, System{},
	Error{}, Done{}}

// Content is a piece of the answer, without signal markup.
type Content struct {
	// Turn is the model's turn within the question, from 1, here and in the other kinds.
	Turn int    `json:"turn"`
	Text string `json:"text"`
}

// Reasoning is a piece of the model's reasoning.
type Reasoning struct {
	Turn int    `json:"turn"`
	Text string `json:"text"`
}

// ToolCall is a call of a tool.
type ToolCall struct {
	Turn int    `json:"turn"`
	ID   string `json:"id"`
	Name string `json:"name"`
	// Arguments is JSON. Arguments that are not valid JSON become a JSON string, and no arguments
	// become null.
	Arguments json.RawMessage `json:"arguments"`
}

// ToolResult is the result of a tool call, failed or not.
type ToolResult struct {
	Turn int    `json:"turn"`
	ID   string `json:"id"`
	Name string `json:"name"`
	OK   bool   `json:"ok"`
	// Text is the result, or the error.
	Text string `json:"text"`
}

// Sources lists the places that the answer is based on.
type Sources struct {
	Sources []Source `json:"sources"`
}

// Source is a place where a tool found something.
type Source struct {
	// Type is code, note, portfolio, or the name of a tool.
	Type string `json:"source_type"`
	// Path is a file, a note or an address. Line counts from 1; 0 means the whole.
	Path  string `json:"path"`
	Line  int    `json:"line,omitempty"`
	Title string `json:"title,omitempty"`
}

// Signal is the turn signal that is valid for a turn.
type Signal struct {
	Turn       int            `json:"turn"`
	Name       string         `json:"signal"`
	Confidence float64        `json:"confidence"`
	Fields     map[string]any `json:"fields"`
	// Raw is the signal's block as the model wrote it.
	Raw string `json:"raw_xml"`
}

// Names of System chunks. The others are reasons of package decide and names from ReplyStopped.
const (
	// ReplyRestarted and ReplyCut withdraw the content of the turn so far.
	ReplyRestarted = "reply_restarted" // the reply starts again
	ReplyCut       = "reply_cut"       // the reply failed
	// CallsDropped means that a reply has more tool calls than a working model makes.
	CallsDropped = "calls_dropped"
	// Retry may come in the middle of a turn and does not affect it.
	Retry = "retry"
	// Resumed begins a stream that repeats what happened before the interruption.
	Resumed = "resumed"
	// AskedAgain separates the attempts to answer a question.
	AskedAgain = "asked_again"
	// SetupNote means that a server or a tool is missing. A stream over HTTP begins with it; the
	// command line prints a warning instead.
	SetupNote = "setup_note"
)

// ReplyStopped returns the name of the System chunk about a reply that ended early, such as
// reply_length.
func ReplyStopped(reason string) string { return "reply_" + reason }

// Warning is the Level of a System chunk that needs attention.
const Warning = "warning"

// System is a message of the oracle itself: a decision, a warning, a refused signal.
type System struct {
	// Turn is the turn that the message is about, or 0.
	Turn int `json:"turn,omitempty"`
	// Name is for programs, such as max_turns_exceeded. Text is for people.
	Name string `json:"name"`
	// Level is Warning or "".
	Level string `json:"level,omitempty"`
	Text  string `json:"text"`
}

// Error reports why there is no answer, or only a part of it.
type Error struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// Done is the last chunk of every stream.
type Done struct {
	// Reason is the reason of the last decision. Detail explains it where that does not suffice; it
	// may be empty.
	Reason  string  `json:"reason"`
	Detail  string  `json:"detail,omitempty"`
	Turns   int     `json:"turns"`
	Tokens  int64   `json:"tokens"`
	CostUSD float64 `json:"cost_usd"`
	// Session is the session that can be continued, "" if there is none, and Question the number of
	// the question in it, from 1.
	Session  string `json:"session,omitempty"`
	Question int    `json:"question,omitempty"`
	// Answer is the content of the last turn.
	Answer string `json:"answer"`
	// Model is the name of the model that answered, as the server reports it.
	Model string `json:"model,omitempty"`
}

func (Content) Kind() Kind    { return KindContent }
func (Reasoning) Kind() Kind  { return KindReasoning }
func (ToolCall) Kind() Kind   { return KindToolCall }
func (ToolResult) Kind() Kind { return KindToolResult }
func (Sources) Kind() Kind    { return KindSources }
func (Signal) Kind() Kind     { return KindSignal }
func (System) Kind() Kind     { return KindSystem }
func (Error) Kind() Kind      { return KindError }
func (Done) Kind() Kind       { return KindDone }

// Line returns a chunk as a line of JSON, with its line end. It does not escape HTML characters,
// but everything that a terminal may obey.
func Line(c Chunk) ([]byte, error) {
	if call, ok := c.(ToolCall); ok {
		call.Arguments = argumentsJSON(call.Arguments)
		c = call
	}
	var buf bytes.Buffer
	fmt.Fprintf(&buf, `{"type":%q,`, c.Kind())
	at := buf.Len()
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(c); err != nil {
		return nil, fmt.Errorf("%s chunk: %w", c.Kind(), err)
	}
	// Remove the encoder's opening brace. Every kind has fields, so one follows the comma.
	line := buf.Bytes()
	return text.PrintableJSON(append(line[:at], line[at+1:]...)), nil
}

// argumentsJSON returns a model's arguments as JSON on one line, as a JSON string if they are not
// valid.
func argumentsJSON(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("null")
	}
	var buf bytes.Buffer
	if json.Compact(&buf, raw) == nil {
		return buf.Bytes()
	}
	text, err := json.Marshal(string(raw))
	if err != nil {
		return json.RawMessage("null") // unreachable: a string always marshals
	}
	return text
}

// Parse parses a line that Line returned, with or without its line end.
func Parse(line []byte) (Chunk, error) {
	var head struct {
		Type Kind `json:"type"`
	}
	if err := json.Unmarshal(line, &head); err != nil {
		return nil, fmt.Errorf("chunk: %w", err)
	}
	for _, c := range chunks {
		if c.Kind() == head.Type {
			parsed := reflect.New(reflect.TypeOf(c))
			if err := json.Unmarshal(line, parsed.Interface()); err != nil {
				return nil, fmt.Errorf("%s chunk: %w", c.Kind(), err)
			}
			return parsed.Elem().Interface().(Chunk), nil
		}
	}
	return nil, fmt.Errorf("chunk: unknown type %.40q", head.Type)
}

// UnmarshalJSON decodes fields to the types that behaviour trees use: an integer becomes an int64.
func (s *Signal) UnmarshalJSON(data []byte) error {
	type plain Signal
	if err := json.Unmarshal(data, (*plain)(s)); err != nil {
		return err
	}
	var raw struct {
		Fields map[string]json.RawMessage `json:"fields"`
	}
	if err := json.Unmarshal(data, &raw); err != nil {
		return err
	}
	for name, text := range raw.Fields {
		if n, err := strconv.ParseInt(string(text), 10, 64); err == nil {
			s.Fields[name] = n
		}
	}
	return nil
}
