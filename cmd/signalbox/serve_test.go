//go:build unix

package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"signalbox/internal/testkit/must"
)

// lineWaiter collects output and reports a match of a pattern once it is complete.
type lineWaiter struct {
	mu      sync.Mutex
	text    bytes.Buffer
	pattern *regexp.Regexp
	found   chan []string
}

func (l *lineWaiter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Write(p)
	if match := l.pattern.FindStringSubmatch(l.text.String()); match != nil && l.found != nil {
		l.found <- match
		l.found = nil
	}
	return len(p), nil
}

func (l *lineWaiter) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// serving starts signalbox serve and returns its address, its notes, and a function that interrupts
// it and returns its status.
func (b *testBox) serving(args ...string) (url string, notes *lineWaiter, stop func() int) {
	b.t.Helper()
	// and never stopped: a late interrupt would kill the tests
	signal.Notify(make(chan os.Signal, 1), os.Interrupt)
	found := make(chan []string, 1)
	notes = &lineWaiter{pattern: regexp.MustCompile(
		`serving the dashboard at (\S+), and the API at \S+/api/v1\n`), found: found}
	p, _, _ := b.program(append([]string{"serve"}, args...)...)
	p.Stderr = notes
	ended := make(chan int, 1)
	go func() { ended <- execute(p) }()
	select {
	case match := <-found:
		url = match[1]
	case status := <-ended:
		b.t.Fatalf("serve ended with status %d: %s", status, notes)
	}
	return url, notes, func() int {
		must.Succeed(b.t, syscall.Kill(os.Getpid(), syscall.SIGINT))
		return <-ended
	}
}

func fetch(t *testing.T, client *http.Client, method, url, token, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	must.Succeed(t, err)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := client.Do(r)
	must.Succeed(t, err)
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	must.Succeed(t, err)
	return answer.StatusCode, string(data)
}

// TestServe reads and writes over HTTP, with tokens that are created and revoked while the server
// runs.
func TestServe(t *testing.T) {
	b := newTestBox(t)
	url, notes, stop := b.serving("--listen", "127.0.0.1:0")
	api := url + "/api/v1"
	for _, path := range []string{"/", "/board", "/metrics", "/api/v1/status",
		"/api/v1/openapi.json"} {
		if status, body := fetch(t, http.DefaultClient, "GET", url+path, "", ""); status != 401 ||
			!strings.Contains(body, "signalbox token link") {
			t.Errorf("%s without a token: %d %s", path, status, body)
		}
	}
	token := strings.TrimSpace(b.must("token", "create", "robot", "--scope", "operate"))
	if status, body := fetch(t, http.DefaultClient, "GET", api+"/status", token,
		""); status != 200 || !strings.Contains(body, `"events":1`) {
		t.Errorf("status: %d %s", status, body)
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		if status, body := fetch(t, http.DefaultClient, "GET", url+path, "", ""); status != 200 ||
			body != "ok\n" {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	if status, body := fetch(t, http.DefaultClient, "GET", url+"/board", token,
		""); status != 200 || !strings.Contains(body, "<h1>Board</h1>") {
		t.Errorf("board: %d %s", status, body)
	}
	const open = `{"work":"t1"}`
	if status, body := fetch(t, http.DefaultClient, "POST", api+"/work", "", open); status != 401 {
		t.Errorf("opened without a token: %d %s", status, body)
	}
	if status, body := fetch(t, http.DefaultClient, "POST", api+"/work", token,
		open); status != 200 {
		t.Errorf("open: %d %s", status, body)
	}
	expired := strings.TrimSpace(b.must("token", "create", "old", "--scope", "operate", "--expires",
		"1ns"))
	if status, body := fetch(t, http.DefaultClient, "GET", api+"/status", expired,
		""); status != 401 || !strings.Contains(body, "the token old expired at 2") {
		t.Errorf("read with an expired token: %d %s", status, body)
	}
	if tail := b.must("ledger", "tail"); !strings.Contains(tail, "robot") {
		t.Errorf("the ledger does not name the token:\n%s", tail)
	}
	b.must("work", "open", "t2") // by another program
	if status, body := fetch(t, http.DefaultClient, "GET", api+"/work/t2", token,
		""); status != 200 {
		t.Errorf("work of another program: %d %s", status, body)
	}
	if status, body := fetch(t, http.DefaultClient, "GET", url+"/metrics", token,
		""); status != 200 ||
		!strings.Contains(body, "signalbox_work{phase=\"IMPLEMENTATION\"} 2\n") {
		t.Errorf("metrics: %d %s", status, body)
	}
	if status, _ := fetch(t, http.DefaultClient, "POST", url+"/mcp", token, "{}"); status != 404 {
		t.Errorf("MCP without clients: %d", status)
	}
	port := url[strings.LastIndex(url, ":"):]
	if link := b.must("token", "link"); !strings.Contains(link, ".localhost"+port+"/login?link=") {
		t.Errorf("the link %s is not for the server at %s", link, url)
	}
	b.must("token", "revoke", "robot")
	if status, body := fetch(t, http.DefaultClient, "POST", api+"/work", token,
		`{"work":"t3"}`); status != 401 {
		t.Errorf("opened with a revoked token: %d %s", status, body)
	}
	if status := stop(); status != 0 {
		t.Errorf("status %d: %s", status, notes)
	}
	if strings.Contains(notes.String(), token) {
		t.Errorf("the token was printed:\n%s", notes)
	}
	if !strings.Contains(notes.String(), "signalbox token link --box "+b.dir+"\n") ||
		strings.Contains(notes.String(), "sbx_") {
		t.Errorf("how to log in, where there is no terminal:\n%s", notes)
	}
	p, out, stderr := b.program("token", "link")
	if status := execute(p); status != 0 ||
		!strings.Contains(out.String(), ".localhost:7700/login") ||
		!strings.Contains(stderr.String(), "no server serves the box") {
		t.Errorf("a link without a server: %d %s%s", status, out, stderr)
	}
	if out := b.must("ledger", "verify"); !strings.Contains(out, "verified 3 events") {
		t.Error(out)
	}
}

// TestServeFails reports errors that come after the box was opened.
func TestServeFails(t *testing.T) {
	b := newTestBox(t)
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	defer busy.Close()
	for _, args := range [][]string{{"--listen", busy.Addr().String()},
		{"--listen", "127.0.0.1:0", "--host", "https://box.example"},
		{"--listen", "127.0.0.1:0", "--host", "box.example:443"},
		{"--anonymous-read", "--listen", "0.0.0.0:0"},
		{"--anonymous-read", "--listen", "127.0.0.1:0", "--host", "box.example"},
		{"--listen", "127.0.0.1:0", "--tls-cert", "none.pem", "--tls-key", "none.pem"},
		{"--tls-cert", "none.pem"}, {"--listen", "nonsense"}} {
		p, _, stderr := b.program(append([]string{"serve"}, args...)...)
		if status := execute(p); status == 0 || !strings.Contains(stderr.String(), "hint: ") {
			t.Errorf("%q: status %d: %s", args, status, stderr)
		}
	}
}

// TestServeAnonymousReads lets everyone on the machine read, but neither change anything nor make
// the server work hard.
func TestServeAnonymousReads(t *testing.T) {
	b := newTestBox(t)
	url, notes, stop := b.serving("--listen", "127.0.0.1:0", "--anonymous-read")
	for path, want := range map[string]int{"/": 200, "/metrics": 200, "/api/v1/status": 200,
		"/api/v1/ledger/verify": 401, "/portfolio": 401} {
		if status, body := fetch(t, http.DefaultClient, "GET", url+path, "", ""); status != want {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	if status, body := fetch(t, http.DefaultClient, "POST", url+"/api/v1/work", "",
		`{"work":"t1"}`); status != 401 {
		t.Errorf("opened without a token: %d %s", status, body)
	}
	if status := stop(); status != 0 ||
		!strings.Contains(notes.String(),
			"everyone on this machine can read the box without a login") {
		t.Errorf("status %d: %s", status, notes)
	}
}

// TestLinksLeadToTheServer logs in with the link for each way to listen, as a browser does that
// knows the name.
func TestLinksLeadToTheServer(t *testing.T) {
	for _, test := range []struct {
		args []string
		host string // a pattern
	}{
		{[]string{"--listen", "127.0.0.1:0"}, `http://box-[a-z2-7]{26}\.localhost`},
		// the proxy has another port
		{[]string{"--listen", "127.0.0.1:0", "--host", "box.example"},
			`http://box-[a-z2-7]{26}\.localhost`},
		{[]string{"--listen", "0.0.0.0:0", "--host", "box.example", "--host", "other.example"},
			`https://box\.example`},
		{[]string{"--listen", "0.0.0.0:0", "--host", "fd00::7"}, `https://\[fd00::7\]`},
		{[]string{"--listen", "0.0.0.0:0"}, `https://box-[a-z2-7]{26}\.localhost`},
	} {
		b := newTestBox(t)
		address, notes, stop := b.serving(test.args...)
		_, port, err := net.SplitHostPort(address[strings.LastIndex(address, "/")+1:])
		must.Succeed(t, err)
		link := strings.TrimSpace(b.must("token", "link"))
		parts := regexp.MustCompile(`^(` + test.host + `:` + port +
			`)/login\?link=(sbx_\S+)$`).FindStringSubmatch(link)
		if parts == nil {
			t.Errorf("%q: the link is %s, and the server at %s", test.args, link, address)
			stop()
			continue
		}
		client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			Transport: &http.Transport{DisableKeepAlives: true,
				TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
				// whatever the name is
				DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
					return (&net.Dialer{}).DialContext(ctx, network, "127.0.0.1:"+port)
				}}}
		if status, page := fetch(t, client, "GET", link, "", ""); status != 200 ||
			!strings.Contains(page, "Log in on this device") {
			t.Errorf("%q: the link: %d %s", test.args, status, page)
		}
		answer, err := client.PostForm(parts[1]+"/login", url.Values{"link": {parts[2]}})
		must.Succeed(t, err)
		answer.Body.Close()
		if answer.StatusCode != http.StatusSeeOther || len(answer.Cookies()) != 1 {
			t.Errorf("%q: logging in at %s: %s", test.args, parts[1], answer.Status)
		} else if answer.Cookies()[0].Secure != strings.HasPrefix(link, "https:") {
			t.Errorf("%q: the cookie is %s", test.args, answer.Cookies()[0])
		}
		if status := stop(); status != 0 {
			t.Errorf("%q: status %d: %s", test.args, status, notes)
		}
	}
}

// TestServeBehindAProxy needs a token for reading if callers use another name.
func TestServeBehindAProxy(t *testing.T) {
	b := newTestBox(t)
	url, _, stop := b.serving("--listen", "127.0.0.1:0", "--host", "box.example")
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/api/v1/status", nil)
	must.Succeed(t, err)
	for _, host := range []string{"box.example", "127.0.0.1"} {
		r.Host = host
		answer, err := http.DefaultClient.Do(r)
		must.Succeed(t, err)
		answer.Body.Close()
		if answer.StatusCode != http.StatusUnauthorized {
			t.Errorf("read as %s: %d", host, answer.StatusCode)
		}
	}
	if status := stop(); status != 0 {
		t.Errorf("status %d", status)
	}
}

// TestServeMCP serves MCP to the clients of the configuration, and refuses everyone else.
func TestServeMCP(t *testing.T) {
	b := newTestBox(t)
	b.env["ROBOT_TOKEN"] = "a-long-random-text"
	must.Succeed(t, os.WriteFile(filepath.Join(b.dir, "signalbox.yaml"),
		[]byte("mcp: {clients: {robot: {token_env: ROBOT_TOKEN}}}\n"), 0o600))
	url, notes, stop := b.serving("--listen", "127.0.0.1:0")
	const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	for token, want := range map[string]int{"a-long-random-text": 200, "": 401, "wrong": 401} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/mcp",
			strings.NewReader(hello))
		must.Succeed(t, err)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		answer, err := http.DefaultClient.Do(r)
		must.Succeed(t, err)
		answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("token %q: status %d, want %d", token, answer.StatusCode, want)
		}
	}
	if status := stop(); status != 0 {
		t.Errorf("status %d: %s", status, notes)
	}
}

// TestServeEncrypts serves other machines: with a certificate whose fingerprint is printed, and
// only with a token.
func TestServeEncrypts(t *testing.T) {
	b := newTestBox(t)
	fingerprint := func() string {
		url, notes, stop := b.serving("--listen", "0.0.0.0:0", "--host", "box.example")
		port := url[strings.LastIndex(url, ":")+1:]
		shown := ""
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, VerifyConnection: func(s tls.ConnectionState) error {
			sum := sha256.Sum256(s.PeerCertificates[0].Raw)
			shown = strings.ReplaceAll(fmt.Sprintf("% X", sum), " ", ":")
			return s.PeerCertificates[0].VerifyHostname("box.example")
		}}}}
		defer client.CloseIdleConnections()
		if status, body := fetch(t, client, "GET", "https://127.0.0.1:"+port+"/api/v1/status", "",
			""); status != 401 {
			t.Errorf("read without a token: %d %s", status, body)
		}
		name := fmt.Sprintf("reader-%s", port)
		token := strings.TrimSpace(b.must("token", "create", name, "--scope", "read"))
		if status, body := fetch(t, client, "GET", "https://127.0.0.1:"+port+"/api/v1/status",
			token, ""); status != 200 {
			t.Errorf("read with a token: %d %s", status, body)
		}
		if shown == "" || !strings.Contains(notes.String(), shown) {
			t.Errorf("the fingerprint %s is not in:\n%s", shown, notes)
		}
		client.CloseIdleConnections()
		if status := stop(); status != 0 {
			t.Errorf("status %d", status)
		}
		return shown
	}
	if first, second := fingerprint(), fingerprint(); first != second {
		t.Errorf("the fingerprint changed from %s to %s", first, second)
	}
}

// TestDemo looks at the demo in the dashboard, during it and afterwards, and compares its output
// with the documents.
func TestDemo(t *testing.T) {
	needsAgents(t)
	t.Parallel()
	served, stays := make(chan []string, 1), make(chan []string, 1)
	notes := &lineWaiter{pattern: regexp.MustCompile(
		`serving the dashboard at (\S+), (?s:.*) signalbox token link --box (\S+)\n`),
		found: served}
	env := homeAt(t.TempDir())
	demo := exec.CommandContext(t.Context(), "signalbox", "demo", "--stay", "--plain")
	var out strings.Builder
	demo.Env, demo.Stdout = env, &out
	demo.Stderr = io.MultiWriter(notes,
		&lineWaiter{pattern: regexp.MustCompile(`the dashboard stays`), found: stays})
	must.Succeed(t, demo.Start())
	ended := make(chan error, 1)
	go func() { ended <- demo.Wait() }()
	wait := func(found chan []string) []string {
		select {
		case match := <-found:
			return match
		case err := <-ended:
			t.Fatalf("the demo ended: %v: %s", err, notes)
			return nil
		}
	}
	at := wait(served)
	url := at[1]
	create := exec.CommandContext(t.Context(), "signalbox", "token", "create", "me", "--scope",
		"read", "--box", at[2])
	create.Env = env
	created, err := create.Output()
	must.Succeed(t, err)
	token := strings.TrimSpace(string(created))
	if status, body := fetch(t, http.DefaultClient, "GET", url+"/board", token,
		""); status != 200 || !strings.Contains(body, "calc") {
		t.Errorf("the board during the demo: %d %s", status, body)
	}
	wait(stays)
	if status, body := fetch(t, http.DefaultClient, "GET", url+"/api/v1/status", token,
		""); status != 200 || !strings.Contains(body, `"standing":"complete"`) {
		t.Errorf("the status after the demo: %d %s", status, body)
	}
	for _, page := range []string{"/work/T2", "/work/T2/diff", "/work/T2/log", "/run", "/cost",
		"/crew", "/ledger"} {
		if status, body := fetch(t, http.DefaultClient, "GET", url+page, token, ""); status != 200 {
			t.Errorf("%s: %d %s", page, status, body)
		}
	}
	must.Succeed(t, demo.Process.Signal(os.Interrupt))
	if err := <-ended; err != nil {
		t.Errorf("%v: %s", err, notes)
	}
	documentsShowTheDemo(t, out.String())
}
