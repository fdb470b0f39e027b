// Package model talks to language models behind one small interface: OpenAI-compatible servers and Anthropic.
//
// A Client requests one reply at a time and passes its pieces on as they arrive. It retries when a server is busy, fails or drops the
// connection, and reports each retry; cancelling the context aborts the request. It reads no environment variables and keeps
// nothing between replies but idle connections. It is safe for concurrent use.
//
// A reply is complete or it is an error: a stream that ends before the server says so is requested again. EventRestart withdraws what
// was passed on of a failed attempt, so the text after the last EventRestart is Reply.Text.
//
// The two protocols are plain structs on net/http. The official clients were tried first: they were two thirds of the binary
// and of the build time, and only their transport was used.
package model

import (
	"encoding/json"
	"time"
)

// Role says who speaks.
type Role string

const (
	User      Role = "user"
	Assistant Role = "assistant"
	// Tool is the message with the results of the calls of the assistant's message before it.
	Tool Role = "tool"
)

// Message is one entry of a conversation.
type Message struct {
	Role Role `json:"role"`
	// Text may be empty for an Assistant that only calls tools.
	Text string `json:"text,omitempty"`
	// Calls are what an Assistant asked for, Results what a Tool message answers, one for each call. A call without a result,
	// as an interrupted turn leaves it, is told to the model as a failed one.
	Calls   []Call   `json:"calls,omitempty"`
	Results []Result `json:"results,omitempty"`
}

// Call is a call of a tool.
type Call struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	// Arguments are as the model wrote them, which may be no JSON at all; {} if it wrote none.
	Arguments string `json:"arguments"`
}

// Result is what a call brought.
type Result struct {
	CallID string `json:"call_id"`
	Name   string `json:"name"`
	Text   string `json:"text"`
	Failed bool   `json:"failed,omitempty"`
}

// ToolSpec is a tool that the model may call.
type ToolSpec struct {
	// Name has letters, digits, _ and - only, at most 64.
	Name        string
	Description string
	// Schema is the JSON schema of an object. Zero: an object without properties.
	Schema json.RawMessage
}

// Request asks for a reply.
type Request struct {
	// System is the system prompt. Zero: none.
	System string
	// Messages begin with a User and end with a User or a Tool. Users that follow each other are joined, and messages without
	// any content are left out, as the servers want it.
	Messages []Message
	// Tools are those that may be called. None: none may.
	Tools []ToolSpec
}

// EventKind is what an Event tells.
type EventKind int

const (
	EventText      EventKind = iota + 1 // a piece of the reply
	EventReasoning                      // a piece of what the model thinks aloud
	EventRetry                          // a try failed, and another follows after Wait
	EventRestart                        // the reply begins again: what came of it so far does not count
)

// Event is something that happens while a reply comes.
type Event struct {
	Kind EventKind
	// Text is the piece of an EventText or EventReasoning, and the reason of an EventRetry.
	Text string
	// Try is the number of the try that failed, from 1, and Wait what is waited before the next, of an EventRetry.
	Try  int
	Wait time.Duration
}

// Stop is why a reply ended.
type Stop string

const (
	StopEnd     Stop = "end"
	StopCalls   Stop = "tool_calls"
	StopLength  Stop = "length"  // it is longer than allowed, and cut
	StopRefusal Stop = "refusal" // the model, or a filter, would not say it
)

// Usage is what a reply cost. Tries that failed are not in it, since servers do not tell.
type Usage struct {
	Input  int64 `json:"input"`
	Output int64 `json:"output"`
	// Cached is the part of Input that the server had seen before.
	Cached int64 `json:"cached,omitempty"`
	// Reasoning is the part of Output that was thought and not said.
	Reasoning int64 `json:"reasoning,omitempty"`
	// CostUSD is by the price in Options; zero without one.
	CostUSD float64 `json:"cost_usd,omitempty"`
	// Known is false if the server told nothing that can be believed: then the counts are estimated, and the cost with them.
	Known bool `json:"known"`
}

// Reply is a whole reply.
type Reply struct {
	Text      string `json:"text"`
	Reasoning string `json:"reasoning,omitempty"`
	// Calls are in the model's order, with an id each that no other of them has. With StopLength the last may be cut.
	Calls []Call `json:"calls,omitempty"`
	Stop  Stop   `json:"stop"`
	Usage Usage  `json:"usage"`
	// Model is what the server says answered.
	Model string `json:"model,omitempty"`
	// Tries is how often it was asked, 1 if all went well.
	Tries int `json:"tries"`
}

// ErrorKind classes what went wrong.
type ErrorKind string

const (
	ErrorKey       ErrorKind = "no_access"    // the key is missing or refused
	ErrorNotFound  ErrorKind = "not_found"    // no such model, or no such server path
	ErrorRequest   ErrorKind = "bad_request"  // the server will not take the request
	ErrorTooLong   ErrorKind = "too_long"     // the conversation is longer than the model can read
	ErrorBusy      ErrorKind = "rate_limited" // 429, to the last try
	ErrorServer    ErrorKind = "server_error" // 5xx, to the last try
	ErrorDropped   ErrorKind = "dropped"      // the connection was cut, to the last try
	ErrorNoServer  ErrorKind = "no_server"    // nobody answers at the address
	ErrorCancelled ErrorKind = "cancelled"    // the context ended
)

// Error is why there is no reply.
type Error struct {
	Kind   ErrorKind
	Status int // of HTTP, 0 if there was none
	Tries  int
	Err    error
	// Hint says what to do; it may be empty.
	Hint string
}

func (e *Error) Error() string { return e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

// Provider is a wire protocol.
type Provider string

const (
	OpenAI    Provider = "openai"    // chat completions, of OpenAI or any compatible server
	Anthropic Provider = "anthropic" // messages
)
