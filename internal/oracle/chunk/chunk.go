// Package chunk is the oracle's output stream: the kinds of chunks and their form as lines of JSON.
//
// A chunk is one JSON object on one line, with its kind in "type". The kinds are closed: Parse refuses any other, and
// takes no notice of fields that it does not know, so that a program reads what a newer one writes. Parse after Line is
// the identity for texts in UTF-8. Nothing in this package does I/O.
package chunk

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
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

// Kinds returns all kinds.
func Kinds() []Kind {
	return []Kind{KindContent, KindReasoning, KindToolCall, KindToolResult, KindSources, KindSignal, KindSystem, KindError, KindDone}
}

// A Chunk is one of the types below, and nothing else.
type Chunk interface {
	Kind() Kind
	sealed()
}

// Content is a piece of the answer, from a transcript.ContentStream: it never has signal markup.
type Content struct {
	// Turn is the model's turn within the question, from 1; so in the other kinds that have it.
	Turn int    `json:"turn"`
	Text string `json:"text"`
}

// Reasoning is a piece of what the model thinks aloud.
type Reasoning struct {
	Turn int    `json:"turn"`
	Text string `json:"text"`
}

// ToolCall tells that a tool is called.
type ToolCall struct {
	Turn int    `json:"turn"`
	ID   string `json:"id"`
	Name string `json:"name"`
	// Arguments is JSON; what the model wrote instead of it is a JSON string. Empty: null.
	Arguments json.RawMessage `json:"arguments"`
}

// ToolResult is what came of a tool call. A failed tool is a result as well.
type ToolResult struct {
	Turn int    `json:"turn"`
	ID   string `json:"id"`
	Name string `json:"name"`
	OK   bool   `json:"ok"`
	// Text is the result, or why there is none.
	Text string `json:"text"`
}

// Sources are what the answer rests on.
type Sources struct {
	Sources []Source `json:"sources"`
}

// Source is a place where something was found.
type Source struct {
	// Type says what it is: code, note, portfolio, or the name of a tool.
	Type string `json:"source_type"`
	// Path is a file, a note or an address; Line is 1-based, 0 for the whole.
	Path  string `json:"path"`
	Line  int    `json:"line,omitempty"`
	Title string `json:"title,omitempty"`
}

// Signal is the turn signal that counts in a turn.
type Signal struct {
	Turn       int            `json:"turn"`
	Name       string         `json:"signal"`
	Confidence float64        `json:"confidence"`
	Fields     map[string]any `json:"fields"`
	// Raw is the block as the model wrote it.
	Raw string `json:"raw_xml"`
}

// Names of System chunks that readers of a stream must know.
const (
	// After these two the content of the turn so far does not count.
	ReplyRestarted = "reply_restarted" // it comes again
	ReplyCut       = "reply_cut"       // it does not, or not now
	// Retry comes in the middle of a turn, and changes nothing about it.
	Retry = "retry"
)

// System is what the oracle itself has to say: a decision, a warning, a refused signal.
type System struct {
	// Turn is the turn that it is about, 0 if it is about none.
	Turn int `json:"turn,omitempty"`
	// Name is for programs, such as max_turns_exceeded; Text is for people.
	Name string `json:"name"`
	// Level is "warning" or "".
	Level string `json:"level,omitempty"`
	Text  string `json:"text"`
}

// Error is why there is no answer, or not all of it.
type Error struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// Done is the last chunk of every stream, and comes once.
type Done struct {
	// Reason is that of the last decision.
	Reason  string  `json:"reason"`
	Turns   int     `json:"turns"`
	Tokens  int64   `json:"tokens"`
	CostUSD float64 `json:"cost_usd"`
	// Session is the one that can be continued, and Question its number there, from 1. "" and 0: none.
	Session  string `json:"session,omitempty"`
	Question int    `json:"question,omitempty"`
	// Answer is the text of the last turn, as it was shown; empty if there is none.
	Answer string `json:"answer"`
	// Model is what the server says answered.
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

func (Content) sealed()    {}
func (Reasoning) sealed()  {}
func (ToolCall) sealed()   {}
func (ToolResult) sealed() {}
func (Sources) sealed()    {}
func (Signal) sealed()     {}
func (System) sealed()     {}
func (Error) sealed()      {}
func (Done) sealed()       {}

// Line returns a chunk as a line of JSON, with its line end. Characters such as < stay as they are.
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
	// The encoder's own brace goes: every kind has a field, so what follows is one.
	line := buf.Bytes()
	return append(line[:at], line[at+1:]...), nil
}

// argumentsJSON makes JSON of whatever a model gave as arguments, on one line.
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
		return json.RawMessage("null") // a string does not fail
	}
	return text
}

// Parse reads a line that Line wrote, with or without its line end.
func Parse(line []byte) (Chunk, error) {
	var head struct {
		Type *Kind `json:"type"`
	}
	if err := json.Unmarshal(line, &head); err != nil {
		return nil, fmt.Errorf("chunk: %w", err)
	}
	if head.Type == nil {
		return nil, errors.New("chunk: it has no type")
	}
	switch *head.Type {
	case KindContent:
		return parse[Content](line)
	case KindReasoning:
		return parse[Reasoning](line)
	case KindToolCall:
		return parse[ToolCall](line)
	case KindToolResult:
		return parse[ToolResult](line)
	case KindSources:
		return parse[Sources](line)
	case KindSignal:
		return parse[Signal](line)
	case KindSystem:
		return parse[System](line)
	case KindError:
		return parse[Error](line)
	case KindDone:
		return parse[Done](line)
	}
	return nil, fmt.Errorf("chunk: no such type as %.40q: the types are %s", *head.Type, kindNames())
}

func parse[T Chunk](line []byte) (Chunk, error) {
	var c T
	if err := json.Unmarshal(line, &c); err != nil {
		return nil, fmt.Errorf("%s chunk: %w", c.Kind(), err)
	}
	return c, nil
}

func kindNames() string {
	var names []string
	for _, k := range Kinds() {
		names = append(names, string(k))
	}
	return strings.Join(names, ", ")
}

// UnmarshalJSON reads the fields as a tree holds them: a whole number by itself is a count, so an int64.
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
