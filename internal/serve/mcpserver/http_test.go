package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"signalbox/internal/testkit/must"
)

const token = "a-token-for-tests"

// served starts a server over HTTP and returns its address.
func served(t *testing.T, opts *Options) (address string) {
	t.Helper()
	o := Options{}
	if opts != nil {
		o = *opts
	}
	o.Client.Token = token
	s := newServer(t, newBox(t), &o)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("ended with %v", err)
		}
	})
	return "http://" + l.Addr().String() + "/mcp"
}

// shown is a transport that adds the token to requests.
type shown struct{ http.RoundTripper }

func (s shown) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+token)
	return s.RoundTripper.RoundTrip(r)
}

func overHTTP(address string) mcp.Transport {
	return &mcp.StreamableClientTransport{Endpoint: address,
		HTTPClient: &http.Client{Transport: shown{http.DefaultTransport}}}
}

func TestHTTP(t *testing.T) {
	c := callerOver(t, overHTTP(served(t, nil)))
	c.ok("open_work", args{"work": "w"})
	c.ok("claim_work", args{"work": "w", "role": "developer"})
	a := c.ok("scan_transcript", args{"text": "READY_FOR_REVIEW: T1\nSummary: x\n"})
	if _, err := c.session.ReadResource(t.Context(),
		&mcp.ReadResourceParams{URI: a.links[0].URI}); err != nil {
		t.Error(err)
	}
}

// post sends a request and returns the status, the body and the headers.
func post(t *testing.T, address, body string,
	change func(*http.Request)) (int, string, http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address,
		strings.NewReader(body))
	must.Succeed(t, err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Authorization", "Bearer "+token)
	if change != nil {
		change(r)
	}
	response, err := http.DefaultClient.Do(r)
	must.Succeed(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	must.Succeed(t, err)
	return response.StatusCode, string(text), response.Header
}

var initialize = strings.SplitAfter(hello, "\n")[0]

func TestHTTPAuthorization(t *testing.T) {
	address := served(t, &Options{Hosts: []string{"Box.example.org"}})
	set := func(key, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(key, value) }
	}
	host := func(name string) func(*http.Request) { return func(r *http.Request) { r.Host = name } }
	for _, tt := range []struct {
		name   string
		change func(*http.Request)
		want   int
	}{
		{"as it should be", nil, 200},
		{"no token", set("Authorization", ""), 401},
		{"a wrong token", set("Authorization", "Bearer "+token+"x"), 401},
		{"the beginning of the token", set("Authorization", "Bearer "+token[:5]), 401},
		{"no scheme", set("Authorization", token), 401},
		{"another scheme", set("Authorization", "Basic "+token), 401},
		{"the scheme in lower case", set("Authorization", "bearer "+token), 200},
		{"the name of the loopback", host("localhost:1234"), 200},
		{"the loopback of IPv6", host("[::1]:80"), 200},
		{"a configured name", host("box.example.org"), 200},
		{"another name", host("evil.example.org"), 403},
		{"a name that begins like it", host("localhost.evil.example.org"), 403},
		{"a name that ends like it", host("evil.localhost"), 403},
		{"another address", host("192.0.2.1"), 403},
		{"no name", host(":80"), 403},
		{"a page of another origin", set("Origin", "https://evil.example.org"), 403},
		{"a page of another port", set("Origin", "http://localhost:1"), 403},
		{"a page without origin", set("Origin", "null"), 403},
		{"a page of its own",
			func(r *http.Request) { r.Header.Set("Origin", "http://"+r.URL.Host) }, 200},
		{"another kind of content", set("Content-Type", "text/plain"), 415},
		{"a session that is not there", set("Mcp-Session-Id", "nope"), 404},
		{"a version that is not there", set("Mcp-Protocol-Version", "1999-01-01"), 400},
	} {
		t.Run(tt.name, func(t *testing.T) {
			status, body, header := post(t, address, initialize, tt.change)
			if status != tt.want {
				t.Fatalf("status %d, want %d: %s", status, tt.want, body)
			}
			if status == 200 {
				return
			}
			var fault struct{ Error struct{ Message string } }
			if err := json.Unmarshal([]byte(body), &fault); err != nil ||
				fault.Error.Message == "" || header.Get("Content-Type") != "application/json" {
				t.Errorf("no error in JSON: %s, %s", header.Get("Content-Type"), body)
			}
			if strings.Contains(body, token) {
				t.Errorf("tells the token: %s", body)
			}
		})
	}
}

func TestHTTPLimits(t *testing.T) {
	address := served(t, &Options{MaxSessions: 2})
	if status, body, _ := post(t, address, string(bytes.Repeat([]byte(" "), maxMessage+1)),
		nil); status != 413 {
		t.Errorf("a large body: %d %s", status, body)
	}
	if status, body, _ := post(t, address, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`,
		nil); status >= 500 {
		t.Errorf("a call without a session: %d %s", status, body)
	}
	var sessions []string
	for range 2 {
		status, body, header := post(t, address, initialize, nil)
		if status != 200 {
			t.Fatalf("%d %s", status, body)
		}
		sessions = append(sessions, header.Get("Mcp-Session-Id"))
	}
	if status, body, header := post(t, address, initialize, nil); status != 503 ||
		header.Get("Retry-After") == "" {
		t.Errorf("one session too many: %d %s", status, body)
	}
	end := func(r *http.Request) {
		r.Method = http.MethodDelete
		r.Header.Set("Mcp-Session-Id", sessions[0])
	}
	if status, body, _ := post(t, address, "", end); status != 204 {
		t.Errorf("ending one: %d %s", status, body)
	}
	if status, body, _ := post(t, address, initialize, nil); status != 200 {
		t.Errorf("after one ended: %d %s", status, body)
	}
	if status, body, _ := post(t, strings.TrimSuffix(address, "mcp")+"other", initialize,
		nil); status != 404 || !strings.Contains(body, "/mcp") {
		t.Errorf("elsewhere: %d %s", status, body)
	}
}

func TestHTTPRequiresToken(t *testing.T) {
	for _, none := range []string{"", " "} {
		s := newServer(t, newBox(t), &Options{Client: Client{Token: none}})
		if _, err := s.Handler(); err == nil {
			t.Errorf("a handler without a token %q", none)
		}
	}
}

// TestHTTPWithoutSessions uses the protocol version without sessions.
func TestHTTPWithoutSessions(t *testing.T) {
	address := served(t, nil)
	call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_status","arguments":{},"_meta":{` +
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`
	status, body, header := post(t, address, call, func(r *http.Request) {
		r.Header.Set("Mcp-Protocol-Version", "2026-07-28")
		r.Header.Set("Mcp-Method", "tools/call")
		r.Header.Set("Mcp-Name", "get_status")
	})
	if status != 200 || !strings.Contains(body, "verdict") || header.Get("Mcp-Session-Id") != "" {
		t.Errorf("%d %s", status, body)
	}
}

// After a cancelled call the next one is answered.
func TestCancelledCall(t *testing.T) {
	c := callerOver(t, overHTTP(served(t, nil)))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.session.CallTool(ctx, &mcp.CallToolParams{Name: "verify_ledger"}); err == nil {
		t.Error("a cancelled call was answered")
	}
	c.ok("get_status", nil)
}

// A request without the token is answered at once, before its body arrives.
func TestUnauthorizedBodyIsNotRead(t *testing.T) {
	address := served(t, nil)
	at, err := url.Parse(address)
	must.Succeed(t, err)
	conn, err := net.Dial("tcp", at.Host)
	must.Succeed(t, err)
	defer conn.Close()
	fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n", at.Host)
	answer, err := io.ReadAll(conn) // ends when the server closes the connection
	if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 401 ") {
		t.Errorf("%v: %s", err, answer)
	}
}
