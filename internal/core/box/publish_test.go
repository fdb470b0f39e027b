package box

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/testkit/must"
)

func TestPublishWithoutDestinations(t *testing.T) {
	if err := Publish(t.Context(), config.Checkpoint{}, []byte("signed")); err != nil {
		t.Error(err)
	}
}

// All places are tried, whatever comes of the ones before, and each that failed is named on one
// line.
func TestPublishTriesAllDestinations(t *testing.T) {
	received := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		received <- string(body)
	}))
	defer server.Close()
	dir := t.TempDir()
	places := config.Checkpoint{
		File:    filepath.Join(dir, "gone", "checkpoint"),
		Command: []string{filepath.Join(dir, "no-such-command")},
		Webhook: server.URL,
	}
	err := Publish(t.Context(), places, []byte("signed"))
	checkCode(t, err, signalbox.CodeFailed)
	select {
	case got := <-received:
		if got != "signed" {
			t.Errorf("the webhook got %q", got)
		}
	default:
		t.Error("the webhook got nothing")
	}
	for _, part := range []string{"could not be published to the file " + places.File + " (",
		", nor to the command " + places.Command[0] + " ("} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %v, want one with %q", err, part)
		}
	}
	if strings.ContainsAny(err.Error(), "\n") || strings.Contains(err.Error(), "webhook") {
		t.Errorf("error %q", err)
	}
}

func TestPublishToAFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "checkpoint")
	for _, signed := range []string{"first", "second"} {
		must.Succeed(t, Publish(t.Context(), config.Checkpoint{File: name}, []byte(signed)))
		if text, err := os.ReadFile(name); err != nil || string(text) != signed {
			t.Errorf("the file has %q, %v", text, err)
		}
	}
}

func TestPublishToACommand(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there is no sh")
	}
	name := filepath.Join(t.TempDir(), "checkpoint")
	command := config.Checkpoint{Command: []string{"sh", "-c", `cat >"$0"`, name}}
	must.Succeed(t, Publish(t.Context(), command, []byte("signed")))
	if text, err := os.ReadFile(name); err != nil || string(text) != "signed" {
		t.Errorf("the command got %q, %v", text, err)
	}
	command = config.Checkpoint{Command: []string{"sh", "-c", "echo no room >&2; exit 3"}}
	if err := Publish(t.Context(), command, []byte("signed")); err == nil ||
		!strings.Contains(err.Error(), "(exit status 3: no room)") {
		t.Errorf("a command that fails: %v", err)
	}
	command = config.Checkpoint{Command: []string{"sh", "-c", "yes | head -c 100000; exit 1"}}
	if err := Publish(t.Context(), command, []byte("signed")); err == nil ||
		len(err.Error()) > 1000 {
		t.Errorf("a command that says much: %d bytes", len(err.Error()))
	}
}

func TestPublishToAWebhook(t *testing.T) {
	for status, fine := range map[int]bool{200: true, 202: true, 204: true, 304: false, 404: false,
		500: false} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter,
			r *http.Request) {
			w.WriteHeader(status)
		}))
		err := Publish(t.Context(), config.Checkpoint{Webhook: server.URL}, []byte("signed"))
		server.Close()
		if (err == nil) != fine {
			t.Errorf("status %d: %v", status, err)
		}
	}
}

// The address of a webhook may be secret, so the error does not contain it.
func TestPublishErrorHasNoAddress(t *testing.T) {
	err := Publish(t.Context(), config.Checkpoint{Webhook: "http://127.0.0.1:1/s3cret"},
		[]byte("signed"))
	if err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("error %v", err)
	}
}

// Whoever does not wait any longer need not wait for a place that does not answer.
func TestPublishEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) // only then does the server notice that the client has gone
		cancel()
		<-r.Context().Done()
	}))
	defer server.Close()
	err := Publish(ctx, config.Checkpoint{Webhook: server.URL}, []byte("signed"))
	if classified := (*signalbox.Error)(nil); !errors.As(err, &classified) ||
		!strings.Contains(err.Error(), "context canceled") {
		t.Errorf("error %v", err)
	}
}
