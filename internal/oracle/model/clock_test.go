package model

import (
	"context"
	"errors"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/rehearsal/modelserver"
)

// pipes is a listener with in-memory connections, which synctest can wait for.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { close(p.closed); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	mine, theirs := net.Pipe()
	select {
	case p.conns <- theirs:
		return mine, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// inBubble runs a test with each protocol in a synctest bubble, which also fails if a goroutine is
// left.
func inBubble(t *testing.T, h http.Handler, opts Options, test func(*testing.T, *Client)) {
	t.Helper()
	both(t, func(t *testing.T, p Provider) {
		synctest.Test(t, func(t *testing.T) {
			l := &pipes{make(chan net.Conn), make(chan struct{})}
			server := &http.Server{Handler: h}
			go func() { _ = server.Serve(l) }()
			transport := &http.Transport{DialContext: l.dial}
			o := opts
			o.BaseURL, o.Transport = "http://model.example", transport
			test(t, newClient(t, p, &o))
			transport.CloseIdleConnections()
			if err := server.Close(); err != nil {
				t.Error(err)
			}
		})
	})
}

func TestSilence(t *testing.T) {
	turn := say("Hello.", modelserver.Fault{Kind: "hang"},
		modelserver.Fault{Kind: "hang", AfterPieces: 2})
	turn.Parts[0].Cut.EveryByte = true
	// in all more than the timeout, but never silent for so long
	turn.Every = modelserver.Duration(50 * time.Second)
	for _, silence := range []time.Duration{0, 3 * time.Minute} {
		inBubble(t, perProtocol(t, play(turn)), Options{Timeout: silence},
			func(t *testing.T, c *Client) {
				start := time.Now()
				r, l := reply(t, c, ask("hello"))
				if silence == 0 {
					silence = 2 * time.Minute
				}
				want := silence + l.retries[0].Wait + 50*time.Second + silence + l.retries[1].Wait + 5*50*time.Second
				if got := time.Since(start); r.Text != "Hello." || r.Tries != 3 || got != want {
					t.Errorf("%+v after %v, want it after %v", r, got, want)
				}
				if got, want := l.retries[0].Text, "the server sent nothing for "+
					silence.String(); got != want {
					t.Errorf("reason %q, want %q", got, want)
				}
			})
	}
}

// perProtocol returns a server that plays the script from its beginning for each protocol.
func perProtocol(t *testing.T, script *modelserver.Script) http.Handler {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle("/v1/chat/completions", newServer(t, script))
	mux.Handle("/v1/messages", newServer(t, script))
	return mux
}

// TestPiecesArriveAtOnce checks that each piece is passed on at the moment it is sent.
func TestPiecesArriveAtOnce(t *testing.T) {
	turn := say("Hello.")
	turn.Parts[0].Cut.EveryByte = true
	turn.Every = modelserver.Duration(time.Second)
	inBubble(t, perProtocol(t, play(turn)), Options{}, func(t *testing.T, c *Client) {
		start := time.Now()
		var at []time.Duration
		if _, err := c.Reply(t.Context(), ask("hello"),
			func(Event) { at = append(at, time.Since(start)) }); err != nil {
			t.Fatal(err)
		}
		want := []time.Duration{0, 1e9, 2e9, 3e9, 4e9, 5e9}
		if diff := cmp.Diff(want, at); diff != "" {
			t.Errorf("pieces (-want +got):\n%s", diff)
		}
	})
}

// TestSlowCaller checks that the time that the caller takes for an event does not count as the
// server's silence.
func TestSlowCaller(t *testing.T) {
	turn := say("Hello.")
	turn.Parts[0].Cut.EveryByte = true
	inBubble(t, perProtocol(t, play(turn)), Options{}, func(t *testing.T, c *Client) {
		r, err := c.Reply(t.Context(), ask("hello"), func(Event) { time.Sleep(time.Hour) })
		if err != nil || r.Text != "Hello." || r.Tries != 1 {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

// TestStreamKeptOpen checks that a complete reply does not wait for a server that keeps the stream
// open.
func TestStreamKeptOpen(t *testing.T) {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		last := data(`{"choices":[{"delta":{"content":"Yes."},"finish_reason":"stop"}]}`)
		if r.URL.Path == "/v1/messages" {
			last = data(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Yes."}}`, `{"type":"message_stop"}`)
		}
		sse(last...).ServeHTTP(w, r)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	inBubble(t, h, Options{}, func(t *testing.T, c *Client) {
		start := time.Now()
		r, err := c.Reply(t.Context(), ask("hello"), nil)
		if took := time.Since(start); err != nil || r.Text != "Yes." || took > endTimeout {
			t.Errorf("%+v, %v after %v", r, err, took)
		}
	})
}

// TestDeadline checks that a deadline ends a hung stream, or a pause, at the moment it passes.
func TestDeadline(t *testing.T) {
	for _, fault := range []modelserver.Fault{{Kind: "hang", Times: -1},
		{Kind: "hang", AfterPieces: 1, Times: -1},
		{Kind: "status", Status: 429, RetryAfter: hour, Times: -1}} {
		inBubble(t, perProtocol(t, play(say("Hello.", fault))), Options{MaxWait: 2 * time.Hour},
			func(t *testing.T, c *Client) {
				start := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				r, err := c.Reply(ctx, ask("hello"), nil)
				e := asError(t, r, err)
				if got := time.Since(start); e.Kind != ErrorCancelled ||
					!errors.Is(e, context.DeadlineExceeded) || got != time.Minute {
					t.Errorf("%v after %v", e, got)
				}
			})
	}
}
