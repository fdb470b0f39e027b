//go:build unix

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"signalbox/internal/testkit/must"
)

// The model answers over HTTP in each protocol, prints each request, and stops on an interrupt even
// while an answer hangs.
func TestRehearseModelServes(t *testing.T) {
	// and never stopped: a late interrupt would kill the tests
	signal.Notify(make(chan os.Signal, 1), os.Interrupt)

	dir := t.TempDir()
	script, log := filepath.Join(dir, "model.yaml"), filepath.Join(dir, "requests.jsonl")
	must.Succeed(t, os.WriteFile(script, []byte(`
conversations:
  - match: {user: hello}
    turns: [{match: {turn: 1}, parts: [{text: Hello.}]}]
  - match: {user: wait}
    turns: [{parts: [{text: Never.}], faults: [{kind: hang, after_pieces: 1}]}]
`), 0o600))
	reader, stdout := io.Pipe()
	p, _, stderr := start("rehearse", "model", script, "--json", "--log", log)
	p.Stdout = stdout
	ended := make(chan int, 1)
	go func() { ended <- execute(p) }()
	line, err := bufio.NewReader(reader).ReadString('\n')
	var at struct{ OpenAI, Anthropic, Gemini string }
	if err == nil {
		err = json.Unmarshal([]byte(line), &at)
	}
	if err != nil {
		t.Fatalf("%v: %s%s", err, line, stderr)
	}

	const key = "sk-very-secret"
	post := func(url, body string) *http.Response { return postAs(t, key, url, body) }
	for url, body := range map[string]string{
		at.OpenAI + "/chat/completions": `{"model":"m","messages":[{"role":"user","content":"hello"}]}`,
		at.OpenAI + "/responses":        `{"model":"m","input":"hello"}`,
		at.Anthropic + "/v1/messages":   `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hello"}]}`,
		at.Gemini + "/v1beta/models/m:generateContent?key=" +
			key: `{"contents":[{"role":"user","parts":[{"text":"hello"}]}]}`,
	} {
		response := post(url, body)
		text, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode != http.StatusOK ||
			!bytes.Contains(text, []byte(`Hello.`)) {
			t.Errorf("%s: %d %s, %v", url, response.StatusCode, text, err)
		}
	}
	if response := post(at.OpenAI+"/chat/completions",
		`{"model":"m","messages":[{"role":"user","content":"who?"}]}`); response.StatusCode != http.StatusBadRequest {
		t.Errorf("a request that nothing matches: %d", response.StatusCode)
	}
	// Only its first piece arrives.
	hanging := post(at.OpenAI+"/chat/completions",
		`{"model":"m","stream":true,"messages":[{"role":"user","content":"wait"}]}`)
	if _, err := bufio.NewReader(hanging.Body).ReadString('\n'); err != nil {
		t.Error(err)
	}

	must.Succeed(t, syscall.Kill(os.Getpid(), syscall.SIGINT))
	if status := <-ended; status != 0 {
		t.Errorf("status %d", status)
	}
	for _, want := range []string{"note: request 1: ", " 200, conversations[0].turns[0]\n",
		"warning: request 5: chat /v1/chat/completions 400, refused: ",
		"note: request 6: chat /v1/chat/completions 200, conversations[1].turns[0]: fault hang\n"} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("no %q in:\n%s", want, stderr)
		}
	}
	checkModelLog(t, log, key)
}

func postAs(t *testing.T, key, url, body string) *http.Response {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url,
		strings.NewReader(body))
	must.Succeed(t, err)
	request.Header.Set("Authorization", "Bearer "+key)
	request.Header.Set("User-Agent", "tester/1")
	request.Header.Set("Anthropic-Version", "2023-06-01")
	response, err := http.DefaultClient.Do(request)
	must.Succeed(t, err)
	t.Cleanup(func() { response.Body.Close() })
	return response
}

func checkModelLog(t *testing.T, name, key string) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil || bytes.Contains(text, []byte(key)) {
		t.Errorf("%v, or a key in the log:\n%s", err, text)
	}
	var protocols []string
	for line := range bytes.Lines(text) {
		var r struct {
			Protocol, Model, Outcome string
			UserAgent                string `json:"user_agent"`
			Body                     json.RawMessage
		}
		if err := json.Unmarshal(line, &r); err != nil || r.UserAgent != "tester/1" ||
			r.Model != "m" || len(r.Body) == 0 || r.Outcome == "" {
			t.Errorf("%v: %s", err, line)
		}
		protocols = append(protocols, r.Protocol)
	}
	all := strings.Join(protocols, " ")
	if len(protocols) != 6 || strings.Count(all, "chat") != 3 || !strings.Contains(all, "gemini") ||
		!strings.Contains(all, "messages") || !strings.Contains(all, "responses") {
		t.Errorf("logged: %s", all)
	}
}
