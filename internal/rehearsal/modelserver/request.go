package modelserver

import (
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Request is a recorded request. The caller must not modify what it refers to.
type Request struct {
	// Number counts all requests, from 1.
	Number int
	// Protocol is chat, responses, messages or gemini.
	Protocol string
	Method   string
	// Path is the path with the query, without the values of keys.
	Path string
	// Header is the header, without the values of keys, tokens and cookies.
	Header http.Header
	// Body is the unchanged body, nil if it is not JSON.
	Body json.RawMessage
	// The fields below are empty if the body is invalid.
	Model    string
	System   string
	Stream   bool
	Messages []Message
	Tools    []Tool
	// Conversation is the name of the script's conversation that answered.
	Conversation string
	// Outcome is the place in the script, the fault, or the refusal. It is empty while the request
	// is in progress.
	Outcome string
	// Status is the HTTP status, 200 even if the connection was cut before it was sent. It is zero
	// while the request is in progress.
	Status int
	// Usage is the token count of the answer, zero if it was refused.
	Usage Usage

	usageAsked bool
}

// Role is the author of a message.
type Role string

// The roles. System prompts are in Request.System.
const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
)

// Message is a message of the history.
type Message struct {
	Role Role
	Text string
	// Calls belong to a message of the assistant.
	Calls []MadeCall
	// Results belong to a message of a tool.
	Results []Result
}

// MadeCall is a call in the history that the client sends.
type MadeCall struct{ ID, Name, Arguments string }

// Result is a tool's result.
type Result struct {
	// ID is the id of the call. Name is set only in the gemini protocol.
	ID, Name, Text string
	Error          bool
}

// Tool is a tool that the client offers.
type Tool struct {
	Name, Description string
	Schema            json.RawMessage
}

// add appends a message. Consecutive messages of one role are joined.
func (r *Request) add(m Message) {
	if n := len(r.Messages); n > 0 && r.Messages[n-1].Role == m.Role {
		last := &r.Messages[n-1]
		if last.Text != "" && m.Text != "" {
			last.Text += "\n"
		}
		last.Text += m.Text
		last.Calls = append(last.Calls, m.Calls...)
		last.Results = append(last.Results, m.Results...)
		return
	}
	r.Messages = append(r.Messages, m)
}

func (r *Request) addSystem(text string) {
	if r.System != "" && text != "" {
		r.System += "\n"
	}
	r.System += text
}

// size returns the number of bytes that count as input.
func (r *Request) size() int {
	n := len(r.System)
	for _, m := range r.Messages {
		n += len(m.Text)
		for _, c := range m.Calls {
			n += len(c.Name) + len(c.Arguments)
		}
		for _, res := range m.Results {
			n += len(res.Text)
		}
	}
	for _, t := range r.Tools {
		n += len(t.Name) + len(t.Description) + len(t.Schema)
	}
	return n
}

// answers returns the number of answers in the history.
func (r *Request) answers() int {
	n := 0
	for _, m := range r.Messages {
		if m.Role == RoleAssistant {
			n++
		}
	}
	return n
}

// lastUser returns the last message of the user.
func (r *Request) lastUser() string {
	for _, m := range slices.Backward(r.Messages) {
		if m.Role == RoleUser {
			return m.Text
		}
	}
	return ""
}

// opening returns the user's messages before the first answer. The first message alone is not
// enough, because some programs begin every conversation with the same preamble.
func (r *Request) opening() string {
	var b strings.Builder
	for _, m := range r.Messages {
		if m.Role == RoleAssistant {
			break
		}
		b.WriteString(m.Text)
		b.WriteByte(0)
	}
	return b.String()
}

// newResults returns the tool results after the last answer.
func (r *Request) newResults() []Result {
	var out []Result
	for _, m := range slices.Backward(r.Messages) {
		if m.Role == RoleAssistant {
			break
		}
		out = append(out, m.Results...)
	}
	return out
}

// refusal is an error that is sent to the client.
type refusal struct {
	status  int
	message string
	// param and code belong to OpenAI's errors; code is also the reason in Google's.
	param, code string
	retryAfter  time.Duration
	// final asks clients not to retry.
	final bool
}

func badRequest(format string, args ...any) *refusal {
	return &refusal{status: http.StatusBadRequest, message: fmt.Sprintf(format, args...)}
}

// at sets the invalid parameter and the error code of OpenAI.
func (f *refusal) at(param, code string) *refusal {
	f.param, f.code = param, code
	return f
}

func (f *Fault) refusal(script string) *refusal {
	r := &refusal{status: f.Status, message: f.Message, retryAfter: time.Duration(f.RetryAfter)}
	if r.status == 0 {
		r.status = http.StatusInternalServerError
	}
	if r.message == "" {
		r.message = fmt.Sprintf("%s: scripted fault with status %d", script, r.status)
	}
	if r.status == http.StatusTooManyRequests {
		r.code = "rate_limit_exceeded"
	}
	return r
}

func unknownModel(protocol, model string) *refusal {
	f := &refusal{status: http.StatusNotFound, param: "model", code: "model_not_found",
		message: fmt.Sprintf("The model `%s` does not exist or you do not have access to it.",
			model)}
	switch protocol {
	case "messages":
		f.message = "model: " + model
	case "gemini":
		f.message = fmt.Sprintf(
			"models/%s is not found for API version v1beta, or is not supported for generateContent.", model)
	}
	return f
}

func (c *compiled) hasModel(model string) bool {
	return len(c.script.Models) == 0 || slices.Contains(c.script.Models, model)
}

func (s *Server) acceptsKey(key string) bool {
	want := s.script.script.APIKey
	return want == "" || subtle.ConstantTimeCompare([]byte(key), []byte(want)) == 1
}

func bearer(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// addRequest adds a request to the record, and removes the oldest if there are too many.
func (s *Server) addRequest(protocol string, r *http.Request, body []byte) *Request {
	req := &Request{Protocol: protocol, Method: r.Method, Path: cleanPath(r.URL),
		Header: cleanHeader(r.Header, s.script.script.KeyHeader)}
	if json.Valid(body) {
		req.Body = body
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.number++
	req.Number = s.number
	if len(s.record) >= s.opts.Keep {
		s.record = slices.Delete(s.record, 0, len(s.record)-s.opts.Keep+1)
	}
	s.record = append(s.record, req)
	return req
}

// finish records the outcome of a request. Only the first call has an effect.
func (s *Server) finish(req *Request, outcome string, status int) {
	s.mu.Lock()
	first := req.Status == 0
	if first {
		req.Outcome, req.Status = outcome, status
	}
	answered := *req
	s.mu.Unlock()
	if first {
		s.opts.Answered(answered)
	}
}

const removed = "(removed)"

func secret(name string) bool {
	return slices.ContainsFunc([]string{"auth", "key", "token", "cookie", "secret", "password"},
		func(word string) bool { return strings.Contains(strings.ToLower(name), word) })
}

func cleanHeader(h http.Header, keep string) http.Header {
	out := h.Clone()
	for name := range out {
		if secret(name) && !strings.EqualFold(name, keep) {
			out[name] = []string{removed}
		}
	}
	return out
}

func cleanPath(u *url.URL) string {
	query := u.Query()
	for name := range query {
		if secret(name) {
			query[name] = []string{removed}
		}
	}
	if len(query) == 0 {
		return u.Path
	}
	return u.Path + "?" + query.Encode()
}
