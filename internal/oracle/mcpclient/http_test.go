package mcpclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"signalbox"
	"signalbox/internal/oracle/toolbox"
	"signalbox/internal/testkit/must"
)

// site is an HTTP server that can be made to misbehave.
type site struct {
	*httptest.Server
	handler atomic.Pointer[http.Handler]
	wrap    atomic.Pointer[http.HandlerFunc]
	over    chan struct{}
}

func newSite(t *testing.T, options *mcp.StreamableHTTPOptions) *site {
	t.Helper()
	s := &site{over: make(chan struct{})}
	s.fresh(options)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if wrap := s.wrap.Load(); wrap != nil {
			(*wrap)(w, r)
			return
		}
		(*s.handler.Load()).ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		close(s.over)
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// fresh forgets all sessions, like a restarted server.
func (s *site) fresh(options *mcp.StreamableHTTPOptions) {
	var h http.Handler = mcp.NewStreamableHTTPHandler(
		func(*http.Request) *mcp.Server { return newServer("http", s.over) }, options)
	s.handler.Store(&h)
}

// instead replaces the handler of requests. Nil restores the normal one.
func (s *site) instead(handle http.HandlerFunc) {
	if handle == nil {
		s.wrap.Store(nil)
		return
	}
	s.wrap.Store(&handle)
}

func (s *site) server() Server { return Server{Name: "test", URL: s.URL + "/mcp?key=query-secret"} }

func open(t *testing.T, server Server, options *Options) *Client {
	t.Helper()
	c, err := Start(t.Context(), server, options)
	must.Succeed(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

func callTool(t *testing.T, c *Client, ctx context.Context, name,
	arguments string) (string, error) {
	t.Helper()
	for _, tool := range c.Tools() {
		if tool.Name == "test__"+name {
			r, err := tool.Use(ctx, toolbox.Call{Arguments: json.RawMessage(arguments)})
			return r.Text, err
		}
	}
	t.Fatalf("no tool %s", name)
	return "", nil
}

func TestHTTP(t *testing.T) {
	for name, options := range map[string]*mcp.StreamableHTTPOptions{"events": nil,
		"json": {JSONResponse: true}, "no sessions": {Stateless: true}} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, options)
			var without atomic.Int32
			s.instead(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Authorization") != "Bearer x" {
					without.Add(1)
				}
				(*s.handler.Load()).ServeHTTP(w, r)
			})
			server := s.server()
			server.Headers = map[string]string{"authorization": "Bearer x"}
			c := open(t, server, nil)
			if got, err := callTool(t, c, t.Context(), "echo", `{"message":"hi"}`); err != nil ||
				got != "you said hi" {
				t.Errorf("%q, %v", got, err)
			}
			if _, err := callTool(t, c, t.Context(), "fail", `{}`); err == nil ||
				err.Error() != "the disk is full" {
				t.Error(err)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			if n := without.Load(); n > 0 {
				t.Errorf("%d requests had no header", n)
			}
		})
	}
}

func TestHTTPListChanged(t *testing.T) {
	changed := make(chan struct{}, 10)
	c := open(t, newSite(t, nil).server(), &Options{Changed: func() { changed <- struct{}{} },
		streamTimeout: time.Hour})
	if _, err := callTool(t, c, t.Context(), "grow", `{}`); err != nil {
		t.Fatal(err)
	}
	<-changed
	if got, err := callTool(t, c, t.Context(), "more", `{}`); err != nil || got != "more" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestHTTPCancelAndClose(t *testing.T) {
	s := newSite(t, nil)
	told := make(chan string, 10)
	s.instead(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var message struct{ Method string }
		json.Unmarshal(body, &message)
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		if strings.Contains(string(body), `"wait"`) ||
			message.Method == "notifications/cancelled" || r.Method == http.MethodDelete {
			told <- r.Method + " " + message.Method
		}
		(*s.handler.Load()).ServeHTTP(w, r)
	})
	c := open(t, s.server(), nil)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-told
		cancel()
	}()
	if _, err := callTool(t, c, ctx, "wait", `{}`); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if got := <-told; got != "POST notifications/cancelled" {
		t.Errorf("the server is told %q", got)
	}
	waiting := make(chan error)
	go func() {
		_, err := callTool(t, c, t.Context(), "wait", `{}`)
		waiting <- err
	}()
	<-told
	c.Close()
	if err := <-waiting; err == nil ||
		!strings.Contains(err.Error(), "stopped before it answered") {
		t.Errorf("error %v", err)
	}
}

func TestHTTPSessionLost(t *testing.T) {
	inWords := func(id string) func(*site) {
		return func(s *site) {
			s.fresh(nil)
			s.instead(func(w http.ResponseWriter, r *http.Request) {
				s.instead(nil)
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusBadRequest)
				fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"No valid session ID"}}`, id)
			})
		}
	}
	for name, tt := range map[string]struct {
		forget func(*site)
		says   string
	}{
		"as the protocol says":     {func(s *site) { s.fresh(nil) }, "session not found"},
		"in words":                 {inWords("1"), "No valid session ID"},
		"in words without a place": {inWords("null"), "Bad Request"},
	} {
		t.Run(name, func(t *testing.T) {
			// A server without a stream cannot announce it before the call.
			s := newSite(t, nil)
			noStream := func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodGet {
					w.WriteHeader(http.StatusMethodNotAllowed)
					return
				}
				(*s.handler.Load()).ServeHTTP(w, r)
			}
			s.instead(noStream)
			c := open(t, s.server(), nil)
			tt.forget(s)
			_, err := callTool(t, c, t.Context(), "echo", `{"message":"1"}`)
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("error %v", err)
			}
			got, err := callTool(t, c, t.Context(), "echo", `{"message":"2"}`)
			if err != nil || !strings.HasSuffix(got, "you said 2") ||
				!strings.HasPrefix(got, "[MCP server test had stopped") {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}

func TestHTTPCallErrors(t *testing.T) {
	big := `{"jsonrpc":"2.0","id":1,"result":"` + strings.Repeat("x", maxMessage) + `"}`
	for name, tt := range map[string]struct {
		handle http.HandlerFunc
		says   string
	}{
		"busy": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) },
			"Service Unavailable"},
		"a page": {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") },
			"unsupported content type"},
		"cut": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "EOF"},
		"long": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, big)
		}, "more than 16,777,216 bytes"},
		"long event": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, "data: "+big)
		}, "exceeded"},
		"no message": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, "{")
		}, "decode"},
		"sent onward": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.2:1/", http.StatusTemporaryRedirect)
		}, "another host"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, nil)
			c := open(t, s.server(), nil)
			s.instead(tt.handle)
			_, err := callTool(t, c, t.Context(), "echo", `{"message":"1"}`)
			if err == nil || !strings.Contains(err.Error(), tt.says) ||
				!strings.Contains(err.Error(), "may or may not") ||
				strings.Contains(err.Error(), "query-secret") {
				t.Errorf("error %v, want one that says %q", err, tt.says)
			}
			s.instead(nil)
			if got, err := callTool(t, c, t.Context(), "echo", `{"message":"2"}`); err != nil ||
				!strings.HasSuffix(got, "you said 2") {
				t.Errorf("afterwards: %q, %v", got, err)
			}
		})
	}
}

func TestHTTPStartErrors(t *testing.T) {
	gone := httptest.NewServer(nil)
	gone.Close()
	for name, tt := range map[string]struct {
		handle     http.HandlerFunc
		says, hint string
	}{
		"no key": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401) },
			"Unauthorized", "headers"},
		"absent": {http.NotFound, "Not Found", "address"},
		"hangs": {func(_ http.ResponseWriter,
			r *http.Request) {
			io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		},
			"did not answer within", "address"},
		"not here": {nil, "refused", "address"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, nil)
			server := s.server()
			if s.instead(tt.handle); tt.handle == nil {
				server.URL = gone.URL + "/mcp?key=query-secret"
			}
			options := &Options{}
			if name == "hangs" {
				options.StartTimeout = 150 * time.Millisecond
			}
			_, err := Start(t.Context(), server, options)
			var known *signalbox.Error
			if !errors.As(err, &known) || !strings.Contains(err.Error(), tt.says) ||
				!strings.Contains(known.Hint, tt.hint) ||
				strings.Contains(err.Error(), "query-secret") {
				t.Errorf("error %v, %#v, want one that says %q", err, known, tt.says)
			}
		})
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestStreamTimeout has a server that opens its stream only with its first message, which never
// comes.
func TestStreamTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &httpTransport{base: roundTrip(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})}
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://x/", nil)
		if response, err := w.RoundTrip(request); err != nil ||
			response.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("%+v, %v", response, err)
		}
		// Other requests wait as long as the caller does.
		ctx, cancel := context.WithTimeout(t.Context(), 2*streamTimeout)
		defer cancel()
		request = httptest.NewRequestWithContext(ctx, http.MethodPost, "http://x/", nil)
		if _, err := w.RoundTrip(request); !errors.Is(err, context.DeadlineExceeded) &&
			!errors.Is(err, context.Canceled) || ctx.Err() == nil {
			t.Errorf("error %v", err)
		}
	})
}

// A redirect must not send the headers to another host, or in plain text.
func TestCheckRedirect(t *testing.T) {
	_, transport := (&Server{URL: "https://mcp.example.org/mcp"}).dial()
	for target, want := range map[string]string{
		"https://mcp.example.org/v2":      "",
		"http://mcp.example.org/mcp":      "another host",
		"https://mcp.example.org:444/mcp": "another host",
		"https://other.example.org/mcp":   "another host",
	} {
		err := transport.checkRedirect(httptest.NewRequest(http.MethodPost, target, nil), nil)
		if want == "" && err != nil || want != "" &&
			(err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", target, err)
		}
	}
	again := make([]*http.Request, 5)
	if err := transport.checkRedirect(httptest.NewRequest(http.MethodPost,
		"https://mcp.example.org/mcp", nil), again); err == nil {
		t.Error("redirects are followed without end")
	}
}
