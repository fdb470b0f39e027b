package modelserver

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Request is a request as it is recorded. What it points to must not be changed.
type Request struct {
	// Number counts all requests, from 1.
	Number int
	// Protocol is chat, responses, messages or gemini.
	Protocol string
	Method   string
	// Path is the path with the query, of which keys are removed.
	Path string
	// Header is the header, with the values of keys, tokens and cookies removed.
	Header http.Header
	// Body is the body as it came, if it is JSON.
	Body json.RawMessage
	// The rest is empty if the body could not be read.
	Model    string
	System   string
	Stream   bool
	Messages []Message
	Tools    []Tool
	// Conversation is the name of the script's conversation that answered.
	Conversation string
	// Outcome says what was answered: the place in the script, the fault, or the refusal. Empty: it is under way.
	Outcome string
	// Status is the HTTP status, 200 also if the connection was cut before it. Zero: it is under way.
	Status int

	usageAsked bool
}

// Role is who speaks.
type Role string

// The roles; system prompts are in Request.System.
const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
)

// Message is a message of the history.
type Message struct {
	Role Role
	Text string
	// Calls are what an assistant's message calls.
	Calls []MadeCall
	// Results are what a tool's message brings.
	Results []Result
}

// MadeCall is a call that the client sends back as a part of the history.
type MadeCall struct{ ID, Name, Arguments string }

// Result is a tool's result.
type Result struct {
	// ID is the call's; Name is known in the gemini protocol only.
	ID, Name, Text string
	Error          bool
}

// Tool is a tool that the client offers.
type Tool struct {
	Name, Description string
	Schema            json.RawMessage
}

// add appends to the history; messages of one role that follow each other are one.
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

// size is what is counted as input.
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

// answers is how many answers the history holds.
func (r *Request) answers() int {
	n := 0
	for _, m := range r.Messages {
		if m.Role == RoleAssistant {
			n++
		}
	}
	return n
}

// lastUser is the last thing the user said.
func (r *Request) lastUser() string {
	for _, m := range slices.Backward(r.Messages) {
		if m.Role == RoleUser {
			return m.Text
		}
	}
	return ""
}

// opening is what the user said before the first answer. It is not the first message only, since programs put a preamble there that
// is the same in every conversation.
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

// freshResults are the results after the last answer.
func (r *Request) freshResults() []Result {
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
	// param and code are OpenAI's; code is also Google's reason.
	param, code string
	retryAfter  time.Duration
	// final asks clients not to try again.
	final bool
}

func badRequest(format string, args ...any) *refusal {
	return &refusal{status: http.StatusBadRequest, message: fmt.Sprintf(format, args...)}
}

// at names the parameter that is wrong, and OpenAI's word for what is.
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
		r.message = fmt.Sprintf("%s: the script wants status %d here", script, r.status)
	}
	if r.status == http.StatusTooManyRequests {
		r.code = "rate_limit_exceeded"
	}
	return r
}

func unknownModel(protocol, model string) *refusal {
	f := &refusal{status: http.StatusNotFound, param: "model", code: "model_not_found",
		message: fmt.Sprintf("The model `%s` does not exist or you do not have access to it.", model)}
	switch protocol {
	case "messages":
		f.message = "model: " + model
	case "gemini":
		f.message = fmt.Sprintf("models/%s is not found for API version v1beta, or is not supported for generateContent.", model)
	}
	return f
}

func (c *compiled) hasModel(model string) bool {
	return len(c.script.Models) == 0 || slices.Contains(c.script.Models, model)
}

func (s *Server) keyFits(key string) bool {
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

// note adds a request to the record, and forgets the oldest if there are too many.
func (s *Server) note(protocol string, r *http.Request, body []byte) *Request {
	req := &Request{Protocol: protocol, Method: r.Method, Path: cleanPath(r.URL), Header: cleanHeader(r.Header, s.script.script.KeyHeader)}
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

// finish says what became of a request; the first word stands.
func (s *Server) finish(req *Request, outcome string, status int) {
	s.mu.Lock()
	first := req.Status == 0
	if first {
		req.Outcome, req.Status = outcome, status
	}
	s.mu.Unlock()
	if first {
		s.opts.Log.LogAttrs(context.Background(), slog.LevelInfo, "model request", slog.Int("number", req.Number),
			slog.String("protocol", req.Protocol), slog.String("path", req.Path), slog.Int("status", status), slog.String("outcome", outcome))
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
