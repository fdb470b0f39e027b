package model

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// failure is why a try failed.
type failure struct {
	kind   ErrorKind
	status int
	err    error
	hint   string // Zero: that of the kind
	retry  bool
	after  time.Duration // what the server says
}

// limit is how many tries there may be, of most, if the last ended so. A server that nobody started does not start soon.
func (f *failure) limit(most int) int {
	switch {
	case !f.retry:
		return 0
	case f.kind == ErrorNoServer:
		return min(most, 3)
	}
	return most
}

func (c *Client) cancelled(ctx context.Context, err error) *failure {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	return &failure{kind: ErrorCancelled, err: err}
}

// explain classes an error of a try.
func (c *Client) explain(ctx context.Context, a *attempt, err error) *failure {
	if ended := ctx.Err(); ended != nil {
		return c.cancelled(ctx, ended)
	}
	if errors.Is(context.Cause(a.ctx), errSilent) {
		return &failure{kind: ErrorDropped, retry: true, err: fmt.Errorf("%w for %v", errSilent, a.timeout)}
	}
	var answer *responseError
	var event *eventError
	var dial *net.OpError
	switch {
	case errors.As(err, &answer):
		return c.answered(answer)
	case errors.As(err, &event):
		f := c.byStatus(event.said.standsFor(), event.said)
		f.status = 0
		return f
	case errors.Is(err, errTooBig):
		return &failure{kind: ErrorServer, err: errTooBig}
	case isTLS(err):
		return &failure{kind: ErrorNoServer, err: bare(err), hint: "check the base URL, " + c.base.Redacted() + ", and the server's certificate"}
	case errors.As(err, &dial) && (dial.Op == "dial" || dial.Op == "proxyconnect"):
		return &failure{kind: ErrorNoServer, retry: true, err: fmt.Errorf("cannot reach %s: %w", c.base.Host, bare(err))}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return &failure{kind: ErrorDropped, retry: true, err: errCut}
	}
	return &failure{kind: ErrorDropped, retry: true, err: bare(err)}
}

func isTLS(err error) bool {
	var record tls.RecordHeaderError
	var certificate *tls.CertificateVerificationError
	return errors.As(err, &record) || errors.As(err, &certificate) || errors.Is(err, http.ErrSchemeMismatch)
}

// bare is an error without the request's URL, which may hold a password.
func bare(err error) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		return wrapped.Err
	}
	return err
}

// answered classes an answer that is no stream.
func (c *Client) answered(r *responseError) *failure {
	said := parseComplaint(r.body)
	switch {
	case r.status < 300 && said.isError:
		return c.byStatus(said.standsFor(), said) // gateways pass on what went wrong behind them
	case r.status < 300:
		return &failure{kind: ErrorNotFound, status: r.status,
			err: fmt.Errorf("it answered with %s instead of a stream: %s", cmp.Or(r.mediaType, "something"), c.hide(string(r.body)))}
	case r.status < 400:
		return &failure{kind: ErrorNotFound, status: r.status, hint: "set the base URL to where the server is now",
			err: fmt.Errorf("it redirects to %s", c.hide(r.header.Get("Location")))}
	}
	f := c.byStatus(r.status, said)
	if r.header.Get("X-Should-Retry") == "false" {
		f.retry = false
	}
	f.after = retryAfter(r.header, time.Now())
	return f
}

// byStatus classes what a server says, by the status that it has or stands for.
func (c *Client) byStatus(status int, said complaint) *failure {
	f := &failure{status: status}
	text := strings.ToLower(http.StatusText(status))
	if status == statusOverloaded {
		text = "overloaded"
	}
	f.err = errors.New(strings.TrimSpace(fmt.Sprintf("%d %s", status, text)))
	if message := c.hide(said.message); message != "" {
		f.err = fmt.Errorf("%w: %s", f.err, message)
	}
	switch {
	case status == http.StatusPaymentRequired || said.code == "insufficient_quota":
		f.kind, f.hint = ErrorBusy, "the account has nothing left to spend: add to it, or use another key"
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		f.kind = ErrorKey
	case status == http.StatusNotFound || status == http.StatusMethodNotAllowed:
		f.kind = ErrorNotFound
	case status == http.StatusTooManyRequests:
		f.kind, f.retry = ErrorBusy, true
	case status >= 500 || status == http.StatusRequestTimeout || status == http.StatusConflict:
		f.kind, f.retry = ErrorServer, true
	case status == http.StatusRequestEntityTooLarge || said.tooLong():
		f.kind = ErrorTooLong
	default:
		f.kind = ErrorRequest
	}
	return f
}

// statusOverloaded is Anthropic's.
const statusOverloaded = 529

// complaint is what a server says is wrong.
type complaint struct {
	message, kind, code string
	isError             bool // it is under error, and no other answer
}

// parseComplaint reads the forms that servers use: an object or a text under error, the fields of that at the top, detail, or no
// JSON at all.
func parseComplaint(body []byte) complaint {
	type fields struct {
		Message string          `json:"message"`
		Type    string          `json:"type"`
		Code    json.RawMessage `json:"code"` // a text or a number
	}
	var top struct {
		fields
		Error  json.RawMessage `json:"error"`
		Detail json.RawMessage `json:"detail"`
	}
	if json.Unmarshal(body, &top) != nil {
		return complaint{message: string(body)}
	}
	found := top.fields
	if !blank(top.Error) {
		found = fields{}
		if json.Unmarshal(top.Error, &found) != nil {
			found = fields{Message: unquote(top.Error)}
		}
	}
	if found.Message == "" && !blank(top.Detail) {
		found.Message = unquote(top.Detail)
	}
	return complaint{message: cmp.Or(found.Message, string(body)), kind: found.Type, code: unquote(found.Code), isError: !blank(top.Error)}
}

func blank(raw json.RawMessage) bool { return len(raw) == 0 || bytes.Equal(raw, []byte("null")) }

// unquote is the text that raw holds, or raw as it is.
func unquote(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}

func (s complaint) tooLong() bool {
	if s.code == "context_length_exceeded" {
		return true
	}
	message := strings.ToLower(s.message)
	for _, phrase := range []string{"prompt is too long", "context length", "context window", "context size"} {
		if strings.Contains(message, phrase) {
			return true
		}
	}
	return false
}

// standsFor is the status that an error in a stream would have had before it. What is not known is the server's fault, and may pass.
func (s complaint) standsFor() int {
	if status, err := strconv.Atoi(s.code); err == nil && status >= 400 && status < 600 {
		return status
	}
	for _, name := range []string{s.kind, s.code} {
		switch name {
		case "invalid_request_error", "context_length_exceeded":
			return http.StatusBadRequest
		case "authentication_error", "invalid_api_key":
			return http.StatusUnauthorized
		case "billing_error", "insufficient_quota":
			return http.StatusPaymentRequired
		case "permission_error":
			return http.StatusForbidden
		case "not_found_error", "model_not_found":
			return http.StatusNotFound
		case "request_too_large":
			return http.StatusRequestEntityTooLarge
		case "rate_limit_error", "rate_limit_exceeded", "requests", "tokens":
			return http.StatusTooManyRequests
		case "timeout_error":
			return http.StatusGatewayTimeout
		case "overloaded_error":
			return statusOverloaded
		}
	}
	return http.StatusInternalServerError
}

// eventError is an error that a server tells in its stream.
type eventError struct{ said complaint }

func (e *eventError) Error() string { return e.said.message }

// retryAfter is how long the server asks to wait, zero if it does not.
func retryAfter(h http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil {
		return seconds(ms / 1000)
	}
	text := h.Get("Retry-After")
	if s, err := strconv.ParseFloat(text, 64); err == nil {
		return seconds(s)
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}

// seconds is s as a duration, at most a day, so that nothing overflows. What is no number is zero.
func seconds(s float64) time.Duration {
	if !(s > 0) {
		return 0
	}
	return time.Duration(min(s, 24*3600) * float64(time.Second))
}
