package modelserver

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"signalbox/internal/testkit/must"
)

// protocols are the names of all protocols.
var protocols = []string{"chat", "responses", "messages", "gemini"}

// rig is a server under test with a Sleep that only records the durations.
type rig struct {
	*Server
	url string

	mu     sync.Mutex // guards slept
	slept  []time.Duration
	closed func()
}

func newRig(t *testing.T, script string) *rig {
	t.Helper()
	s, err := ParseScript("test.yaml", []byte(script))
	must.Succeed(t, err)
	r := &rig{}
	r.Server, err = New(s, &Options{
		Now: func() time.Time { return time.Unix(1_700_000_000, 0) },
		Sleep: func(ctx context.Context, d time.Duration) error {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.slept = append(r.slept, d)
			return ctx.Err()
		},
	})
	must.Succeed(t, err)
	server := httptest.NewServer(r.Server)
	server.Config.ErrorLog = nil
	r.url, r.closed = server.URL, server.Close
	t.Cleanup(server.Close)
	return r
}

// turns returns a script with one conversation of these turns.
func turns(list ...string) string {
	return `{"conversations":[{"turns":[` + strings.Join(list, ",") + `]}]}`
}

// ask returns the body of a simple question.
func ask(protocol, question string, stream bool) (path, body string) {
	q, _ := json.Marshal(question)
	switch protocol {
	case "chat":
		return "/v1/chat/completions",
			fmt.Sprintf(`{"model":"m","stream":%t,"messages":[{"role":"user","content":%s}]}`,
				stream, q)
	case "responses":
		return "/v1/responses", fmt.Sprintf(`{"model":"m","stream":%t,"input":%s}`, stream, q)
	case "messages":
		return "/v1/messages",
			fmt.Sprintf(`{"model":"m","max_tokens":9,"stream":%t,"messages":[{"role":"user","content":%s}]}`, stream, q)
	}
	path = "/v1beta/models/m:generateContent"
	if stream {
		path = "/v1beta/models/m:streamGenerateContent?alt=sse"
	}
	return path, fmt.Sprintf(`{"contents":[{"role":"user","parts":[{"text":%s}]}]}`, q)
}

type reply struct {
	status int
	header http.Header
	body   string
	err    error // of reading the body
}

func (r *rig) do(t *testing.T, method, path, body string, header ...string) reply {
	t.Helper()
	out, err := r.try(method, path, body, header...)
	must.Succeed(t, err)
	return out
}

// try is like do, for requests that may get no response. Each request has its own connection, so
// that net/http does not retry.
func (r *rig) try(method, path, body string, header ...string) (reply, error) {
	req, err := http.NewRequest(method, r.url+path, strings.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	req.Header.Set("Anthropic-Version", "2023-06-01")
	if !strings.HasPrefix(path, "/v1/messages") {
		req.Header.Del("Anthropic-Version")
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	return reply{res.StatusCode, res.Header, string(data), err}, nil
}

func (r *rig) ask(t *testing.T, protocol, question string, stream bool, header ...string) reply {
	t.Helper()
	path, body := ask(protocol, question, stream)
	return r.do(t, "POST", path, body, header...)
}

// content is an answer as a client decodes it.
type content struct {
	Text, Reasoning string
	Calls           []MadeCall
	Finish          string
	Input, Output   int
}

// anyJSON gives access to JSON of a known shape.
type anyJSON struct{ v any }

func parseJSON(t tb, text string) anyJSON {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return anyJSON{v}
}

func (j anyJSON) at(path ...any) anyJSON {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, _ := j.v.(map[string]any)
			j = anyJSON{m[p]}
		case int:
			l, _ := j.v.([]any)
			if p >= len(l) {
				return anyJSON{}
			}
			j = anyJSON{l[p]}
		}
	}
	return j
}

func (j anyJSON) list() (out []anyJSON) {
	l, _ := j.v.([]any)
	for _, v := range l {
		out = append(out, anyJSON{v})
	}
	return out
}

func (j anyJSON) str() string { s, _ := j.v.(string); return s }
func (j anyJSON) num() int    { n, _ := j.v.(float64); return int(n) }
func (j anyJSON) has(key string) bool {
	m, _ := j.v.(map[string]any)
	_, ok := m[key]
	return ok
}

func (j anyJSON) raw() string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(j.v)
	return strings.TrimSpace(b.String())
}

type sse struct {
	name string
	data string
}

func parseSSE(t tb, body string) (out []sse) {
	t.Helper()
	if body != "" && !strings.HasSuffix(body, "\n\n") {
		t.Fatalf("the stream does not end with an event: %q", body)
	}
	for block := range strings.SplitSeq(strings.TrimSuffix(body, "\n\n"), "\n\n") {
		var e sse
		for line := range strings.SplitSeq(block, "\n") {
			switch name, value, _ := strings.Cut(line, ": "); name {
			case "event":
				e.name = value
			case "data":
				e.data = value
			default:
				t.Fatalf("line %q", line)
			}
		}
		out = append(out, e)
	}
	return out
}

func newRecorder() *httptest.ResponseRecorder { return httptest.NewRecorder() }

func mustRequest(method, path, body string) *http.Request {
	return httptest.NewRequest(method, path, strings.NewReader(body))
}

// tb is the common part of *testing.T and *rapid.T.
type tb interface {
	Helper()
	Fatalf(format string, args ...any)
}

func mustHeader(r *http.Request) *http.Request {
	r.Header.Set("Anthropic-Version", "2023-06-01")
	return r
}
