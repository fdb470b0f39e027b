package model

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/rehearsal/modelserver"
	"signalbox/internal/testkit/must"
)

const (
	seconds3 = modelserver.Duration(3 * time.Second)
	hour     = modelserver.Duration(time.Hour)
)

// temporary are faults that a retry overcomes.
var temporary = []struct {
	name    string
	fault   modelserver.Fault
	reason  string // of the retry
	restart bool   // something was passed on before the fault
}{
	{"408", modelserver.Fault{Kind: "status", Status: 408}, "408 request timeout", false},
	{"409", modelserver.Fault{Kind: "status", Status: 409}, "409 conflict", false},
	{"429", modelserver.Fault{Kind: "status", Status: 429, Message: "slow down"},
		"429 too many requests: slow down", false},
	{"500", modelserver.Fault{Kind: "status", Status: 500, Message: "oh"},
		"500 internal server error: oh", false},
	{"502", modelserver.Fault{Kind: "status", Status: 502}, "502 bad gateway", false},
	{"529", modelserver.Fault{Kind: "status", Status: 529}, "529 overloaded", false},
	{"cut before all", modelserver.Fault{Kind: "cut"}, errCut.Error(), false},
	{"cut in the head of the first event", modelserver.Fault{Kind: "cut", AfterBytes: 10},
		errCut.Error(), false},
	{"cut within the text", modelserver.Fault{Kind: "cut", AfterPieces: 2}, errCut.Error(), true},
	{"cut after the text", modelserver.Fault{Kind: "cut", AfterPieces: 6}, errCut.Error(), true},
	{"malformed event at once", modelserver.Fault{Kind: "malformed"}, errEvent.Error(), false},
	{"malformed event", modelserver.Fault{Kind: "malformed", AfterPieces: 2}, errEvent.Error(),
		true},
	{"error event at once", modelserver.Fault{Kind: "error", Message: "oh"},
		"500 internal server error: oh", false},
	{"error event", modelserver.Fault{Kind: "error", AfterPieces: 2, Message: "oh"},
		"500 internal server error: oh", true},
	{"busy event", modelserver.Fault{Kind: "error", AfterPieces: 2, Status: 429,
		Message: "slow down"}, "429 too many requests: slow down", true},
}

func TestRetry(t *testing.T) {
	for _, tt := range temporary {
		t.Run(tt.name, func(t *testing.T) {
			both(t, func(t *testing.T, p Provider) {
				tt.fault.Times = 2
				turn := say("Hello.", tt.fault)
				turn.Parts[0].Cut.EveryByte = true
				s := newStage(t, p, play(turn), nil)
				r, l := reply(t, s.client, ask("hello"))
				if r.Text != "Hello." || r.Tries != 3 {
					t.Errorf("%q after %d tries", r.Text, r.Tries)
				}
				kinds := []EventKind{EventRetry, EventText}
				if tt.restart {
					kinds = []EventKind{EventText, EventRetry, EventRestart, EventText, EventRetry,
						EventRestart, EventText}
				}
				if diff := cmp.Diff(kinds, l.kinds); diff != "" {
					t.Errorf("events (-want +got):\n%s", diff)
				}
				for i, e := range l.retries {
					low, high := firstBackoff<<i/2, firstBackoff<<i
					if e.Try != i+1 || !strings.HasPrefix(e.Text, tt.reason) || e.Wait < low ||
						e.Wait > high || s.sleeper.waits[i] != e.Wait {
						t.Errorf("retry %d: %+v, slept %v", i+1, e, s.sleeper.waits)
					}
				}
			})
		})
	}
}

// TestRestartAfterReasoning checks that there is a restart even if only reasoning was passed on.
func TestRestartAfterReasoning(t *testing.T) {
	both(t, func(t *testing.T, p Provider) {
		s := newStage(t, p, play(modelserver.Turn{Parts: []modelserver.Part{{Reasoning: "Hm."},
			{Text: "Yes."}},
			Faults: []modelserver.Fault{{Kind: "cut", AfterPieces: 1}}}), nil)
		if _, l := reply(t, s.client, ask("hello")); l.restarts != 1 {
			t.Errorf("%d restarts", l.restarts)
		}
	})
}

func TestGiveUp(t *testing.T) {
	for _, tt := range []struct {
		name   string
		fault  modelserver.Fault
		kind   ErrorKind
		status int
	}{
		{"429", modelserver.Fault{Kind: "status", Status: 429}, ErrorBusy, 429},
		{"500", modelserver.Fault{Kind: "status", Status: 500}, ErrorServer, 500},
		{"529", modelserver.Fault{Kind: "status", Status: 529}, ErrorServer, 529},
		{"cut", modelserver.Fault{Kind: "cut", AfterPieces: 2}, ErrorDropped, 0},
		{"malformed event", modelserver.Fault{Kind: "malformed", AfterPieces: 1}, ErrorDropped, 0},
		{"error event", modelserver.Fault{Kind: "error", AfterPieces: 1}, ErrorServer, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			both(t, func(t *testing.T, p Provider) {
				tt.fault.Times = -1
				turn := say("Hello.", tt.fault)
				turn.Parts[0].Cut.EveryByte = true
				s := newStage(t, p, play(turn), nil)
				e := failed(t, s.client, ask("hello"))
				if e.Kind != tt.kind || e.Status != tt.status || e.Tries != 5 || e.Hint == "" {
					t.Errorf("%+v", e)
				}
				if !strings.Contains(e.Error(), "tried 5 times") || len(s.sleeper.waits) != 4 ||
					len(s.server.Requests()) != 5 {
					t.Errorf("%v, waits %v, %d requests", e, s.sleeper.waits,
						len(s.server.Requests()))
				}
			})
		})
	}
}

func TestStormOf429(t *testing.T) {
	both(t, func(t *testing.T, p Provider) {
		s := newStage(t, p, play(say("Yes.", modelserver.Fault{Kind: "status", Status: 429,
			RetryAfter: seconds3, Times: 5},
			modelserver.Fault{Kind: "status", Status: 429, RetryAfter: hour})),
			&Options{Tries: 10, MaxWait: 20 * time.Second})
		if r, _ := reply(t, s.client, ask("hello")); r.Tries != 7 {
			t.Errorf("%d tries", r.Tries)
		}
		for _, wait := range s.sleeper.waits[:5] {
			if wait < 3*time.Second || wait > 4*time.Second {
				t.Errorf("waited %v where 3s were asked for", wait)
			}
		}
		if got := s.sleeper.waits[5]; got != 20*time.Second {
			t.Errorf("waited %v where an hour was asked for, and 20s allowed", got)
		}
	})
}

func TestNotRetried(t *testing.T) {
	for _, tt := range []struct {
		status  int
		message string
		kind    ErrorKind
		hint    string
	}{
		{400, "no such field", ErrorRequest, "rehearsal"},
		{400, "prompt is too long: 300000 tokens > 200000 maximum", ErrorTooLong,
			"new conversation"},
		{401, "who are you", ErrorKey, "MY_KEY"},
		{402, "pay", ErrorBusy, "credit"},
		{403, "not for you", ErrorKey, "MY_KEY"},
		{404, "no such model", ErrorNotFound,
			"model's name, rehearsal, and the base URL, http://127.0.0.1"},
		{413, "too large", ErrorTooLong, "new conversation"},
		{422, "no", ErrorRequest, "rehearsal"},
	} {
		t.Run(fmt.Sprint(tt.status, " ", tt.message), func(t *testing.T) {
			both(t, func(t *testing.T, p Provider) {
				s := newStage(t, p, play(say("x",
					modelserver.Fault{Kind: "status", Status: tt.status, Message: tt.message})),
					&Options{KeyName: "MY_KEY"})
				e := failed(t, s.client, ask("hello"))
				if e.Kind != tt.kind || e.Status != tt.status || e.Tries != 1 ||
					len(s.sleeper.waits) > 0 {
					t.Errorf("%+v, waits %v", e, s.sleeper.waits)
				}
				if !strings.Contains(e.Error(), tt.message) ||
					!strings.Contains(e.Error(), "127.0.0.1") ||
					!strings.Contains(e.Hint, tt.hint) {
					t.Errorf("%v: %s", e, e.Hint)
				}
			})
		})
	}
}

func TestServerRefuses(t *testing.T) {
	both(t, func(t *testing.T, p Provider) {
		script := play(say("x"))
		script.APIKey, script.Models = "right", []string{"other"}
		s := newStage(t, p, script, &Options{Key: "sk-wrong"})
		if e := failed(t, s.client, ask("hello")); e.Kind != ErrorKey || e.Status != 401 ||
			strings.Contains(e.Error(), "sk-wrong") {
			t.Errorf("%+v", e)
		}
		s.client, _ = serve(t, p, s.server, &Options{Key: "right"})
		if e := failed(t, s.client, ask("hello")); e.Kind != ErrorNotFound || e.Status != 404 {
			t.Errorf("%+v", e)
		}
	})
}

func TestNew(t *testing.T) {
	for _, tt := range []struct {
		provider Provider
		model    string
		opts     Options
		base     string // empty if it fails
		fails    string
	}{
		{OpenAI, "m", Options{}, "", "no key for api.openai.com: OPENAI_API_KEY is not set"},
		{Anthropic, "m", Options{}, "",
			"no key for api.anthropic.com: ANTHROPIC_API_KEY is not set"},
		{OpenAI, "m", Options{BaseURL: "https://eu.api.openai.com/v1"}, "",
			"no key for eu.api.openai.com"},
		{OpenAI, "m", Options{Key: "k"}, "https://api.openai.com/v1", ""},
		{Anthropic, "m", Options{Key: "k"}, "https://api.anthropic.com", ""},
		{OpenAI, "m", Options{BaseURL: "http://localhost:11434"}, "http://localhost:11434/v1", ""},
		{OpenAI, "m", Options{BaseURL: "https://proxy.example/openai.com/"},
			"https://proxy.example/openai.com", ""},
		{Anthropic, "m", Options{BaseURL: "http://localhost:8080/v1/"}, "http://localhost:8080",
			""},
		{OpenAI, "m", Options{BaseURL: "localhost:8080"}, "",
			"does not begin with http:// or https://: write it like"},
		{OpenAI, "m", Options{BaseURL: "http://localhost:8080/v1?x=1"}, "",
			"must end with its path"},
		{OpenAI, " ", Options{Key: "k"}, "", "the name of the model is empty"},
		{"other", "m", Options{Key: "k"}, "", `model provider "other" is not known`},
		{OpenAI, "m", Options{Key: "k", Tries: -1}, "", "cannot be negative"},
	} {
		c, err := New(tt.provider, tt.model, &tt.opts)
		switch {
		case tt.fails != "" && (err == nil || !strings.Contains(err.Error(), tt.fails)):
			t.Errorf("%s %+v: %v, want %s", tt.provider, tt.opts, err, tt.fails)
		case tt.fails == "" && (err != nil || c.base.String() != tt.base):
			t.Errorf("%s %+v: %v, %v", tt.provider, tt.opts, c, err)
		}
		if strings.HasPrefix(tt.fails, "no key") {
			if e := asError(t, nil, err); e.Kind != ErrorKey ||
				!strings.Contains(e.Hint, "_API_KEY") {
				t.Errorf("%+v", e)
			}
		}
	}
}

func TestRefusedConnection(t *testing.T) {
	both(t, func(t *testing.T, p Provider) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must.Succeed(t, err)
		address := l.Addr().String()
		must.Succeed(t, l.Close())
		n := &sleeper{}
		c := newClient(t, p, &Options{BaseURL: "http://user:secret@" + address, Sleep: n.sleep})
		e := failed(t, c, ask("hello"))
		if e.Kind != ErrorNoServer || e.Tries != 3 || !strings.Contains(e.Error(), "cannot reach "+
			address) ||
			!strings.Contains(e.Hint, "is the server running? The base URL is http://user:xxxxx@"+
				address) || strings.Contains(e.Error(), "secret") {
			t.Errorf("%+v: %v", e, e)
		}
	})
}

// TestWrongServers checks the errors for responses that are not from a model server.
func TestWrongServers(t *testing.T) {
	answer := func(status int, kind, body string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.Header().Set("Location", "https://elsewhere.example/")
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		})
	}
	for _, tt := range []struct {
		name    string
		handler http.Handler
		kind    ErrorKind
		tries   int
		text    string
	}{
		{"a web page", answer(200, "text/html; charset=utf-8", "<html>Welcome</html>"),
			ErrorNotFound, 1, "the response is text/html instead of a stream: <html>Welcome</html>"},
		{"no stream", answer(200, "application/json", `{"choices":[]}`), ErrorNotFound, 1,
			"application/json"},
		{"elsewhere", answer(307, "text/plain", ""), ErrorNotFound, 1,
			"the server redirects to https://elsewhere.example/"},
		{"a gateway's error",
			answer(200, "application/json", `{"error":{"message":"gone","code":502}}`), ErrorServer,
			5, "502 bad gateway: gone"},
		{"a gateway's page", answer(502, "text/html", "<html>nginx</html>"), ErrorServer, 5,
			"502 bad gateway: <html>nginx</html>"},
		{"an error in words", answer(404, "application/json", `{"error":"model 'x' not found"}`),
			ErrorNotFound, 1, "404 not found: model 'x' not found"},
		{"an error of another form", answer(422, "application/json", `{"detail":[{"msg":"bad"}]}`),
			ErrorRequest, 1, `[{"msg":"bad"}]`},
		{"long words", answer(400, "text/plain", strings.Repeat("ä\n", 100_000)), ErrorRequest, 1,
			strings.Repeat("ä ", 100)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			both(t, func(t *testing.T, p Provider) {
				c, _ := serve(t, p, tt.handler, nil)
				e := failed(t, c, ask("hello"))
				if e.Kind != tt.kind || e.Tries != tt.tries ||
					!strings.Contains(e.Error(), tt.text) ||
					utf8.RuneCountInString(e.Error()) > 700 || e.Hint == "" {
					t.Errorf("%+v: %v", e, e)
				}
			})
		})
	}
}

func TestNoCreditIsNotRetried(t *testing.T) {
	c, n := serve(t, OpenAI, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(429)
		_, _ = w.Write([]byte(
			`{"error":{"message":"You exceeded your quota","type":"insufficient_quota","code":"insufficient_quota"}}`))
	}), nil)
	if e := failed(t, c, ask("hello")); e.Kind != ErrorBusy || e.Tries != 1 || len(n.waits) > 0 ||
		!strings.Contains(e.Hint, "credit") {
		t.Errorf("%+v, waits %v", e, n.waits)
	}
}

func TestServerForbidsRetry(t *testing.T) {
	both(t, func(t *testing.T, p Provider) {
		c, _ := serve(t, p, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Should-Retry", "false")
			w.WriteHeader(500)
		}), nil)
		if e := failed(t, c, ask("hello")); e.Tries != 1 {
			t.Errorf("%+v", e)
		}
	})
}

func TestErrorEvents(t *testing.T) {
	for _, tt := range []struct {
		provider Provider
		event    string
		kind     ErrorKind
		tries    int
	}{
		{OpenAI, `data: {"error":{"message":"x","type":"invalid_request_error"}}`, ErrorRequest, 1},
		{OpenAI, `data: {"error":{"message":"x","type":"invalid_request_error","code":"context_length_exceeded"}}`, ErrorTooLong, 1},
		{OpenAI, `data: {"error":{"message":"x","code":401}}`, ErrorKey, 1},
		{OpenAI, `data: {"object":"error","message":"x","type":"BadRequestError","code":400}`,
			ErrorRequest, 1},
		{OpenAI, `data: {"error":"something"}`, ErrorServer, 5},
		{OpenAI, "data: 5\n\ndata: [DONE]", ErrorDropped, 5},
		{Anthropic, "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"x\"}}", ErrorServer, 5},
		{Anthropic, "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"rate_limit_error\",\"message\":\"x\"}}", ErrorBusy, 5},
		{Anthropic, "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"not_found_error\",\"message\":\"x\"}}", ErrorNotFound, 1},
		{Anthropic, "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"request_too_large\",\"message\":\"x\"}}", ErrorTooLong, 1},
		{Anthropic, "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"permission_error\",\"message\":\"x\"}}", ErrorKey, 1},
	} {
		c, _ := serve(t, tt.provider, sse(tt.event), nil)
		if e := failed(t, c, ask("hello")); e.Kind != tt.kind || e.Tries != tt.tries ||
			e.Status != 0 {
			t.Errorf("%s: %+v", tt.event, e)
		}
	}
}

func TestEndlessReply(t *testing.T) {
	line := []byte("data: {\"choices\":[{\"delta\":{}}],\"x\":\"" + strings.Repeat("x", 1<<20) +
		"\"}\n\n")
	c, _ := serve(t, OpenAI, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for {
			if _, err := w.Write(line); err != nil {
				return
			}
		}
	}), nil)
	if e := failed(t, c, ask("hello")); e.Kind != ErrorServer || e.Tries != 1 ||
		!errors.Is(e, errTooBig) {
		t.Errorf("%+v", e)
	}
}

// TestCancel cancels at each place where a reply can hang, and checks that no goroutines are left.
func TestCancel(t *testing.T) {
	hang := modelserver.Fault{Kind: "hang", Times: -1}
	hangWithin := modelserver.Fault{Kind: "hang", AfterPieces: 1, Times: -1}
	before := runtime.NumGoroutine()
	t.Run("", func(t *testing.T) {
		both(t, func(t *testing.T, p Provider) {
			ctx, cancel := context.WithCancelCause(t.Context())
			cause := errors.New("enough")
			check := func(r *Reply, err error) {
				t.Helper()
				e := asError(t, r, err)
				if e.Kind != ErrorCancelled || !errors.Is(e, context.Canceled) ||
					!errors.Is(e, cause) {
					t.Errorf("%+v: %v", e, e)
				}
			}
			server := newServer(t, play(say("x", hang)))
			c, _ := serve(t, p, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				cancel(cause)
				server.ServeHTTP(w, r)
			}), nil)
			r, err := c.Reply(ctx, ask("hello"), nil)
			check(r, err)
			r, err = c.Reply(ctx, ask("hello"), nil)
			check(r, err)
			if n := len(server.Requests()); n > 1 {
				t.Errorf("%d requests, one of them after the cancel", n)
			}

			ctx, cancel = context.WithCancelCause(t.Context())
			turn := say("Hello.", hangWithin)
			turn.Parts[0].Cut.At = []int{2}
			r, err = newStage(t, p, play(turn), nil).client.Reply(ctx, ask("hello"),
				func(Event) { cancel(cause) })
			check(r, err)

			ctx, cancel = context.WithCancelCause(t.Context())
			s := newStage(t, p, play(say("x", modelserver.Fault{Kind: "status", Status: 429,
				RetryAfter: hour})), &Options{Sleep: sleep})
			r, err = s.client.Reply(ctx, ask("hello"), func(Event) { cancel(cause) })
			check(r, err)
		})
	})
	// Goroutines of closed connections end soon, but not immediately.
	for end := time.Now().Add(time.Minute); runtime.NumGoroutine() > before &&
		time.Now().Before(end); {
		runtime.Gosched()
	}
	if n := runtime.NumGoroutine(); n > before {
		stack := make([]byte, 1<<16)
		t.Errorf("%d goroutines, %d before:\n%s", n, before, stack[:runtime.Stack(stack, true)])
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, tt := range []struct {
		name, value string
		want        time.Duration
	}{
		{"Retry-After", "7", 7 * time.Second},
		{"Retry-After", "0.5", 500 * time.Millisecond},
		{"Retry-After", now.Add(time.Minute).Format(http.TimeFormat), time.Minute},
		{"Retry-After", now.Add(-time.Minute).Format(http.TimeFormat), 0},
		{"Retry-After", "soon", 0},
		{"Retry-After", "-3", 0},
		{"Retry-After", "NaN", 0},
		{"Retry-After", "1e300", 24 * time.Hour},
		{"Retry-After-Ms", "250", 250 * time.Millisecond},
		{"X-Other", "7", 0},
	} {
		if got := retryAfter(http.Header{tt.name: {tt.value}}, now); got != tt.want {
			t.Errorf("%s: %s is %v, want %v", tt.name, tt.value, got, tt.want)
		}
	}
}

// TestCertificate checks that a server with an invalid certificate gets no request and no retry.
func TestCertificate(t *testing.T) {
	both(t, func(t *testing.T, p Provider) {
		server := httptest.NewUnstartedServer(http.NotFoundHandler())
		server.Config.ErrorLog = log.New(io.Discard, "", 0)
		server.StartTLS()
		defer server.Close()
		c := newClient(t, p, &Options{BaseURL: server.URL})
		if e := failed(t, c, ask("hello")); e.Kind != ErrorNoServer || e.Tries != 1 ||
			!strings.Contains(e.Hint, "certificate") {
			t.Errorf("%+v: %v", e, e)
		}
		plain := httptest.NewServer(http.NotFoundHandler())
		defer plain.Close()
		c = newClient(t, p, &Options{BaseURL: strings.Replace(plain.URL, "http:", "https:", 1)})
		if e := failed(t, c, ask("hello")); e.Kind != ErrorNoServer || e.Tries != 1 {
			t.Errorf("%+v: %v", e, e)
		}
	})
}

// TestCancelAfterText checks that a cancelled request is an error even if only the usage was
// missing.
func TestCancelAfterText(t *testing.T) {
	c, _ := serve(t, OpenAI, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sse(data(`{"choices":[{"delta":{"content":"Yes."},"finish_reason":"stop"}]}`)...).ServeHTTP(
			w, r)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}), nil)
	ctx, cancel := context.WithCancel(t.Context())
	r, err := c.Reply(ctx, ask("hello"), func(Event) { cancel() })
	if e := asError(t, r, err); e.Kind != ErrorCancelled {
		t.Errorf("%+v", e)
	}
}
