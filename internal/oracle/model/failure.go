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

// failure is why an attempt failed.
type failure struct {
	kind   ErrorKind
	status int
	err    error
	hint   string // empty means the hint of the kind
	retry  bool
	// retryAfter is the pause that the server requests; zero if it requests none.
	retryAfter time.Duration
}

// maxTries returns how many attempts to make, at most n, when one has failed this way. A server
// that is not running will hardly start in the meantime.
func (f *failure) maxTries(n int) int {
	switch {
	case !f.retry:
		return 0
	case f.kind == ErrorNoServer:
		return min(n, 3)
	}
	return n
}

func cancelled(ctx context.Context, err error) *failure {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	return &failure{kind: ErrorCancelled, err: err}
}

// explain classifies an error of an attempt.
func (c *Client) explain(ctx context.Context, a *attempt, err error) *failure {
	if ended := ctx.Err(); ended != nil {
		return cancelled(ctx, ended)
	}
	if errors.Is(context.Cause(a.ctx), errSilent) {
		return &failure{kind: ErrorDropped, retry: true,
			err: fmt.Errorf("%w for %v", errSilent, a.timeout)}
	}
	var response *responseError
	var event *eventError
	var dial *net.OpError
	switch {
	case errors.As(err, &response):
		return c.explainResponse(response)
	case errors.As(err, &event):
		f := c.byStatus(event.reported.equivalentStatus(), event.reported)
		f.status = 0
		return f
	case errors.Is(err, errTooBig):
		return &failure{kind: ErrorServer, err: errTooBig}
	case isTLS(err):
		return &failure{kind: ErrorNoServer, err: withoutURL(err), hint: "check the base URL, " +
			c.base.Redacted() + ", and the server's certificate"}
	case errors.As(err, &dial) && (dial.Op == "dial" || dial.Op == "proxyconnect"):
		return &failure{kind: ErrorNoServer, retry: true,
			err: fmt.Errorf("cannot reach %s: %w", c.base.Host, withoutURL(err))}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return &failure{kind: ErrorDropped, retry: true, err: errCut}
	}
	return &failure{kind: ErrorDropped, retry: true, err: withoutURL(err)}
}

func isTLS(err error) bool {
	var record tls.RecordHeaderError
	var certificate *tls.CertificateVerificationError
	return errors.As(err, &record) || errors.As(err, &certificate) ||
		errors.Is(err, http.ErrSchemeMismatch)
}

// withoutURL removes the request's URL from an error: it may contain a password.
func withoutURL(err error) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		return wrapped.Err
	}
	return err
}

// explainResponse classifies a response that is not a stream.
func (c *Client) explainResponse(r *responseError) *failure {
	reported := parseServerError(r.body)
	switch {
	case r.status < 300 && reported.isError:
		return c.byStatus(reported.equivalentStatus(), reported) // gateways pass on errors this way
	case r.status < 300:
		return &failure{kind: ErrorNotFound, status: r.status,
			err: fmt.Errorf("the response is %s instead of a stream: %s",
				cmp.Or(r.mediaType, "something else"), c.redact(string(r.body)))}
	case r.status < 400:
		return &failure{kind: ErrorNotFound, status: r.status,
			hint: "set the base URL to the new address",
			err:  fmt.Errorf("the server redirects to %s", c.redact(r.header.Get("Location")))}
	}
	f := c.byStatus(r.status, reported)
	if r.header.Get("X-Should-Retry") == "false" {
		f.retry = false
	}
	f.retryAfter = retryAfter(r.header, time.Now())
	return f
}

// byStatus classifies an error of the server by its HTTP status, real or equivalent.
func (c *Client) byStatus(status int, reported serverError) *failure {
	f := &failure{status: status}
	text := strings.ToLower(http.StatusText(status))
	if status == statusOverloaded {
		text = "overloaded"
	}
	f.err = errors.New(strings.TrimSpace(fmt.Sprintf("%d %s", status, text)))
	if message := c.redact(reported.message); message != "" {
		f.err = fmt.Errorf("%w: %s", f.err, message)
	}
	switch {
	case status == http.StatusPaymentRequired || reported.code == "insufficient_quota":
		f.kind, f.hint = ErrorBusy, "the account has no credit left: add some, or use another key"
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		f.kind = ErrorKey
	case status == http.StatusNotFound || status == http.StatusMethodNotAllowed:
		f.kind = ErrorNotFound
	case status == http.StatusTooManyRequests:
		f.kind, f.retry = ErrorBusy, true
	case status >= 500 || status == http.StatusRequestTimeout || status == http.StatusConflict:
		f.kind, f.retry = ErrorServer, true
	case status == http.StatusRequestEntityTooLarge || reported.tooLong():
		f.kind = ErrorTooLong
	default:
		f.kind = ErrorRequest
	}
	return f
}

// statusOverloaded is a status of Anthropic's that net/http has no name for.
const statusOverloaded = 529

// serverError is an error that a server reported in a body.
type serverError struct {
	message, kind, code string
	isError             bool // the body has an error field
}

// parseServerError parses the forms that servers use: an object or a string under error, its fields
// at the top, detail, or plain text.
func parseServerError(body []byte) serverError {
	type fields struct {
		Message string          `json:"message"`
		Type    string          `json:"type"`
		Code    json.RawMessage `json:"code"` // a string or a number
	}
	var top struct {
		fields
		Error  json.RawMessage `json:"error"`
		Detail json.RawMessage `json:"detail"`
	}
	if json.Unmarshal(body, &top) != nil {
		return serverError{message: string(body)}
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
	return serverError{message: cmp.Or(found.Message, string(body)), kind: found.Type,
		code: unquote(found.Code), isError: !blank(top.Error)}
}

func blank(raw json.RawMessage) bool { return len(raw) == 0 || bytes.Equal(raw, []byte("null")) }

// unquote returns the string in raw, or raw itself if it is not a JSON string.
func unquote(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}

func (s serverError) tooLong() bool {
	if s.code == "context_length_exceeded" {
		return true
	}
	message := strings.ToLower(s.message)
	for _, phrase := range []string{"prompt is too long", "context length", "context window",
		"context size"} {
		if strings.Contains(message, phrase) {
			return true
		}
	}
	return false
}

// equivalentStatus returns the HTTP status that an error inside a stream would have had. Unknown
// errors count as the server's fault and are retried.
func (s serverError) equivalentStatus() int {
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

// eventError is an error event in a stream.
type eventError struct{ reported serverError }

func (e *eventError) Error() string { return e.reported.message }

// retryAfter returns the pause that the server requests, zero if it requests none.
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

// seconds converts s to a duration of at most a day, so that nothing overflows. A negative number
// or NaN is zero.
func seconds(s float64) time.Duration {
	if !(s > 0) {
		return 0
	}
	return time.Duration(min(s, 24*3600) * float64(time.Second))
}
