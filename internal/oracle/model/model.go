// Package model talks to language models behind one small interface: OpenAI-compatible servers and
// Anthropic.
//
// A Client requests one reply at a time and passes its pieces on as they arrive. It retries when a
// server is busy, fails or drops the connection, and reports each retry; cancelling the context
// aborts the request. It reads no environment variables and keeps nothing between replies but idle
// connections. It is safe for concurrent use.
//
// A reply is complete or it is an error: a stream that ends before the server says so is requested
// again. EventRestart withdraws what was passed on of a failed attempt, so the text after the last
// EventRestart is Reply.Text.
//
// The two protocols are plain structs on net/http. The official clients were tried first: they were
// two thirds of the binary and of the build time, and only their transport was used.
package model

import (
	"encoding/json"
	"time"
)

// Role is the author of a message.
type Role string

const (
	User      Role = "user"
	Assistant Role = "assistant"
	// Tool is the role of a message with the results of the calls in the assistant's message before
	// it.
	Tool Role = "tool"
)

// Message is one entry of a conversation.
type Message struct {
	Role Role `json:"role"`
	// Text may be empty for an Assistant that only calls tools.
	Text string `json:"text,omitempty"`
	// Calls are the calls of an Assistant message, Results the results in a Tool message, one for
	// each call. A call without a result, as an interrupted turn leaves it, is reported to the
	// model as failed.
	Calls   []Call   `json:"calls,omitempty"`
	Results []Result `json:"results,omitempty"`
}

// Call is a tool call.
type Call struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	// Arguments are as the model wrote them, which may not be valid JSON; {} if it wrote none.
	Arguments string `json:"arguments"`
}

// Result is the result of a tool call.
type Result struct {
	CallID string `json:"call_id"`
	Name   string `json:"name"`
	Text   string `json:"text"`
	Failed bool   `json:"failed,omitempty"`
}

// ToolSpec is a tool that the model may call.
type ToolSpec struct {
	// Name consists of 1 to 64 letters, digits, _ and -.
	Name        string
	Description string
	// Schema is the JSON schema of an object. Nil means an object without properties.
	Schema json.RawMessage
}

// Request is a request for a reply.
type Request struct {
	// System is the system prompt; it may be empty.
	System string
	// Messages begin with a User and end with a User or a Tool. Consecutive User messages are
	// joined and messages without content are left out, because servers refuse them.
	Messages []Message
	// Tools are the tools that the model may call.
	Tools []ToolSpec
	// Temperature is how much chance there is in the reply. Nil means the server's own.
	Temperature *float64
}

// EventKind is the kind of an Event.
type EventKind int

const (
	EventText      EventKind = iota + 1 // a piece of the reply
	EventReasoning                      // a piece of the model's reasoning
	EventRetry                          // an attempt failed, and another follows after Wait
	// the reply starts again: discard its text and reasoning so far
	EventRestart
)

// Event is something that happens while a reply is received.
type Event struct {
	Kind EventKind
	// Text is the piece of an EventText or EventReasoning, and the reason for an EventRetry.
	Text string
	// Try and Wait belong to EventRetry: the number of the attempt that failed, from 1, and the
	// pause before the next.
	Try  int
	Wait time.Duration
}

// Stop is why a reply ended.
type Stop string

const (
	StopEnd     Stop = "end"
	StopCalls   Stop = "tool_calls"
	StopLength  Stop = "length"  // cut at the longest reply allowed
	StopRefusal Stop = "refusal" // refused by the model or a filter
)

// Usage is what a reply cost, without failed attempts: servers do not report those.
type Usage struct {
	Input  int64 `json:"input"`
	Output int64 `json:"output"`
	// Cached is the part of Input that the server had seen before.
	Cached int64 `json:"cached,omitempty"`
	// Reasoning is the part of Output that was reasoning.
	Reasoning int64 `json:"reasoning,omitempty"`
	// CostUSD is computed from the price in Options; zero without one.
	CostUSD float64 `json:"cost_usd,omitempty"`
	// Known reports whether the server sent plausible counts. Otherwise counts and cost are
	// estimates.
	Known bool `json:"known"`
}

// Reply is a complete reply.
type Reply struct {
	Text      string `json:"text"`
	Reasoning string `json:"reasoning,omitempty"`
	// Calls are in the model's order and have distinct ids. With StopLength the last one may be
	// cut.
	Calls []Call `json:"calls,omitempty"`
	// Dropped is the number of calls that were left out because there were more than MaxCalls.
	Dropped int   `json:"dropped,omitempty"`
	Stop    Stop  `json:"stop"`
	Usage   Usage `json:"usage"`
	// Model is the name of the model that answered, as the server reports it.
	Model string `json:"model,omitempty"`
	// Tries is the number of attempts, 1 if the first succeeded.
	Tries int `json:"tries"`
}

// MaxCalls is the most tool calls of a reply. A working model never makes so many.
const MaxCalls = 128

// ErrorKind classifies an Error.
type ErrorKind string

const (
	ErrorKey       ErrorKind = "no_access"    // the key is missing or refused
	ErrorNotFound  ErrorKind = "not_found"    // no such model, or the base URL is wrong
	ErrorRequest   ErrorKind = "bad_request"  // the server refused the request
	ErrorTooLong   ErrorKind = "too_long"     // the conversation is longer than the model can read
	ErrorBusy      ErrorKind = "rate_limited" // 429 after all retries, or no credit left
	ErrorServer    ErrorKind = "server_error" // 5xx after all retries
	ErrorDropped   ErrorKind = "dropped"      // the connection was cut, after all retries
	ErrorNoServer  ErrorKind = "no_server"    // the server cannot be reached
	ErrorCancelled ErrorKind = "cancelled"    // the context ended
)

// Error reports why there is no reply.
type Error struct {
	Kind   ErrorKind
	Status int // the HTTP status, 0 without a response
	Tries  int
	Err    error
	// Hint tells the user what to do; it may be empty.
	Hint string
}

func (e *Error) Error() string { return e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

// Provider is a wire protocol.
type Provider string

const (
	OpenAI    Provider = "openai"    // chat completions, from OpenAI or a compatible server
	Anthropic Provider = "anthropic" // messages
)
