package main

import (
	"bufio"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"signalbox/internal/testkit/must"
)

// webhook makes the box post its checkpoints to a handler.
func (b *testBox) webhook(handle http.HandlerFunc) {
	b.t.Helper()
	server := httptest.NewServer(handle)
	b.t.Cleanup(server.Close)
	text := "checkpoint: {webhook: '" + server.URL + "/checkpoints'}\n"
	must.Succeed(b.t, os.WriteFile(filepath.Join(b.dir, "signalbox.yaml"), []byte(text),
		0o600))
}

func TestCheckpointIsPostedToAWebhook(t *testing.T) {
	b := newTestBox(t)
	posts := make(chan string, 10)
	b.webhook(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		posts <- r.Method + " " + r.URL.Path + " " + r.Header.Get("Content-Type") + "\n" +
			string(body)
	})
	b.must("work", "open", "t1")
	b.must("work", "list")
	b.must("ledger", "verify")
	checkpoint, err := os.ReadFile(filepath.Join(b.dir, "checkpoint"))
	must.Succeed(t, err)
	want := "POST /checkpoints text/plain; charset=utf-8\n" + string(checkpoint)
	if got := <-posts; got != want || len(posts) > 0 {
		t.Errorf("posted %q and %d more, want %q", got, len(posts), want)
	}
	b.must("ledger", "checkpoint")
	if got := <-posts; got != want {
		t.Errorf("after ledger checkpoint: posted %q, want %q", got, want)
	}
}

func TestWebhookThatRefuses(t *testing.T) {
	b := newTestBox(t)
	b.webhook(func(w http.ResponseWriter,
		_ *http.Request) {
		http.Error(w, "no", http.StatusTeapot)
	})
	p, stdout, stderr := b.program("work", "open", "t1", "--json")
	status := execute(p)
	if status != 0 || stdout.String() != `{"work":"t1","phase":"IMPLEMENTATION","seq":2}`+"\n" {
		t.Errorf("status %d, stdout %q", status, stdout)
	}
	want := "warning: the change is recorded, but: the checkpoint could not be published to the webhook (the server answered 418 I'm a teapot)\nhint: "
	if !strings.HasPrefix(stderr.String(), want) {
		t.Errorf("stderr %q, want %q", stderr, want)
	}
	p, _, _ = b.program("ledger", "checkpoint")
	if status := execute(p); status != 1 {
		t.Errorf("ledger checkpoint: status %d", status)
	}
}

// The answer is printed before the checkpoint is published.
func TestAnswerDoesNotWaitForPublishing(t *testing.T) {
	b := newTestBox(t)
	answered := make(chan struct{})
	b.webhook(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-answered:
		case <-r.Context().Done():
		}
	})
	reader, stdout := io.Pipe()
	p, _, stderr := b.program("work", "open", "t1", "--json")
	p.Stdout = stdout
	ended := make(chan int)
	go func() { ended <- execute(p) }()
	if line, err := bufio.NewReader(reader).ReadString('\n'); err != nil ||
		!strings.Contains(line, `"work":"t1"`) {
		t.Errorf("answer %q, %v", line, err)
	}
	close(answered)
	if status := <-ended; status != 0 || stderr.Len() > 0 {
		t.Errorf("status %d, stderr %s", status, stderr)
	}
}
