package mcp_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"sync"
	"testing"

	"signalbox/internal/testkit/must"
)

// withToken starts a proxy that adds the token, and returns its address. The proxy passes
// everything else on unchanged, in particular Host and Origin.
func withToken(t *testing.T, address string) string {
	t.Helper()
	target, err := url.Parse(address)
	must.Succeed(t, err)
	proxy := httptest.NewServer(&httputil.ReverseProxy{FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = target.Scheme, target.Host, r.In.Host
			r.Out.Header.Set("Authorization", "Bearer "+token)
		}})
	t.Cleanup(proxy.Close)
	return proxy.URL + target.Path
}

// bridge passes messages from streamable HTTP to processes over stdio, one for each session. It
// parses a message only to distinguish calls from notifications, and to match answers by their id.
type bridge struct {
	t   *testing.T
	dir string

	mu       sync.Mutex // guards sessions
	sessions map[string]*child
}

// child is the process of a session.
type child struct {
	cmd *exec.Cmd
	in  io.WriteCloser

	mu      sync.Mutex // guards waiting, and writes to in
	waiting map[string]chan json.RawMessage
}

func newBridge(t *testing.T, dir string) string {
	t.Helper()
	b := &bridge{t: t, dir: dir, sessions: map[string]*child{}}
	server := httptest.NewServer(b)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, c := range b.sessions {
			c.end(t)
		}
	})
	return server.URL + "/mcp"
}

// message has the fields that the bridge needs.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
}

func (b *bridge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := r.Header.Get("Mcp-Session-Id")
	b.mu.Lock()
	c := b.sessions[id]
	b.mu.Unlock()
	switch {
	case r.Method == http.MethodGet:
		http.Error(w, "no stream", http.StatusMethodNotAllowed)
	case r.Method == http.MethodDelete && c != nil:
		b.mu.Lock()
		delete(b.sessions, id)
		b.mu.Unlock()
		c.end(b.t)
	case r.Method != http.MethodPost || id != "" && c == nil:
		http.Error(w, "no such session", http.StatusNotFound)
	default:
		b.relay(w, r, id, c)
	}
}

func (b *bridge) relay(w http.ResponseWriter, r *http.Request, id string, c *child) {
	body, err := io.ReadAll(r.Body)
	var m message
	if err != nil || json.Unmarshal(body, &m) != nil {
		http.Error(w, "not a message", http.StatusBadRequest)
		return
	}
	if c == nil {
		if id, c, err = b.start(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
	}
	w.Header().Set("Mcp-Session-Id", id)
	answer, err := c.send(body, m)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	if answer == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	select {
	case text := <-answer:
		w.Header().Set("Content-Type", "application/json")
		w.Write(text)
	case <-r.Context().Done():
	}
}

func (b *bridge) start() (string, *child, error) {
	args, env := server(b.t, b.dir)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return "", nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	c := &child{cmd: cmd, in: in, waiting: map[string]chan json.RawMessage{}}
	go c.receive(out)
	b.mu.Lock()
	defer b.mu.Unlock()
	id := fmt.Sprintf("child-%d", cmd.Process.Pid)
	b.sessions[id] = c
	return id, c, nil
}

// send writes a message, and returns a channel for its answer; nil if it is a notification.
func (c *child) send(body []byte, m message) (<-chan json.RawMessage, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var answer chan json.RawMessage
	if m.Method != "" && m.ID != nil {
		answer = make(chan json.RawMessage, 1)
		c.waiting[string(m.ID)] = answer
	}
	_, err := c.in.Write(append(body, '\n'))
	return answer, err
}

// receive passes answers to the callers that wait for them. It drops notifications and requests of
// the server.
func (c *child) receive(out io.Reader) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var m message
		if json.Unmarshal(lines.Bytes(), &m) != nil || m.Method != "" {
			continue
		}
		c.mu.Lock()
		if answer := c.waiting[string(m.ID)]; answer != nil {
			delete(c.waiting, string(m.ID))
			answer <- append(json.RawMessage(nil), lines.Bytes()...)
		}
		c.mu.Unlock()
	}
}

func (c *child) end(t *testing.T) {
	c.in.Close()
	if err := c.cmd.Wait(); err != nil {
		t.Errorf("the process of a session failed: %v", err)
	}
}
