package agentsocket

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/testkit/must"
)

// newPath returns a path for a socket that is short on every system.
func newPath(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "s-")
	must.Succeed(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "s")
}

func serve(t *testing.T, handle Handler) *Server {
	t.Helper()
	s, err := Listen(newPath(t), handle)
	must.Succeed(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

func wantStale(t *testing.T, err error) {
	t.Helper()
	refused := (*rules.RefusedError)(nil)
	if signalbox.CodeOf(err) != signalbox.CodeConflict || !errors.As(err, &refused) ||
		refused.Reason != signalbox.ReasonStaleLease {
		t.Errorf("got %v, want a stale lease", err)
	}
}

func TestInvoke(t *testing.T) {
	phase := signalbox.PhaseCIPending
	want, sent := Exit{"T1", signalbox.PhaseImplementation, signalbox.ExitCompleted, &phase},
		Request{}
	s := serve(t, func(_ context.Context, r Request) (Reply, error) {
		sent = r
		return Reply{Result: want}, nil
	})
	request := Request{Session: "w-1.1", Epoch: 7, Secret: "secret", Call: CallExit,
		Exit: []byte("{}\xff"), Work: "T1"}
	var got Exit
	must.Succeed(t, Invoke(t.Context(), s.path, request, &got))
	if diff := cmp.Diff(want, got) + cmp.Diff(request, sent); diff != "" {
		t.Error(diff)
	}
}

// An error has the same code, text and hint on both sides, and a refusal its reason.
func TestErrorsOfHandlers(t *testing.T) {
	var failure error
	s := serve(t, func(context.Context, Request) (Reply, error) { return Reply{}, failure })
	for _, failure = range []error{
		errors.New("broken"),
		&signalbox.Error{Code: signalbox.CodeNotFound, Err: errors.New("gone"),
			Hint: "look elsewhere"},
		&signalbox.Error{Code: signalbox.CodeFailed,
			Err:  &rules.RefusedError{Reason: signalbox.ReasonPhaseMismatch, Msg: "phase mismatch"},
			Hint: "correct it"},
	} {
		err := Invoke(t.Context(), s.path, Request{}, nil)
		code := signalbox.CodeOf(failure)
		if code == 0 {
			code = signalbox.CodeFailed
		}
		if err == nil || err.Error() != failure.Error() || signalbox.CodeOf(err) != code ||
			signalbox.HintOf(err) != signalbox.HintOf(failure) {
			t.Errorf("got %v (%d, %q), want %v", err, signalbox.CodeOf(err), signalbox.HintOf(err),
				failure)
		}
		got, want := (*rules.RefusedError)(nil), (*rules.RefusedError)(nil)
		if errors.As(failure, &want) && (!errors.As(err, &got) || *got != *want) {
			t.Errorf("got the refusal %v, want %v", got, want)
		}
	}
}

// Only the user may connect. After Close there is no socket, and calls are stale.
func TestSocketOfTheUser(t *testing.T) {
	s := serve(t, func(context.Context, Request) (Reply, error) { return Reply{}, nil })
	info, err := os.Stat(s.path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket: %v, %v", info, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(s.path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after Close: %v", err)
	}
	wantStale(t, Invoke(t.Context(), s.path, Request{Session: "w-1.1"}, nil))

	// A socket that a killed process left behind.
	left, err := net.ListenUnix("unix", &net.UnixAddr{Name: s.path, Net: "unix"})
	must.Succeed(t, err)
	left.SetUnlinkOnClose(false)
	left.Close()
	wantStale(t, Invoke(t.Context(), s.path, Request{Session: "w-1.1"}, nil))
}

// Close ends a call that is being handled, and its caller learns that the session has ended.
func TestCloseEndsCalls(t *testing.T) {
	called, path := make(chan struct{}), newPath(t)
	s, err := Listen(path, func(ctx context.Context, _ Request) (Reply, error) {
		close(called)
		<-ctx.Done()
		return Reply{}, ctx.Err()
	})
	must.Succeed(t, err)
	result := make(chan error)
	go func() { result <- Invoke(t.Context(), path, Request{Session: "w-1.1"}, nil) }()
	<-called
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	wantStale(t, <-result)
}

func TestStream(t *testing.T) {
	over := make(chan error, 1)
	s := serve(t, func(context.Context, Request) (Reply, error) {
		return Reply{Stream: func(_ context.Context, conn io.ReadWriter) error {
			_, err := io.Copy(conn, conn)
			over <- err
			return err
		}}, nil
	})
	conn, err := Connect(t.Context(), s.path, Request{Call: CallMCP})
	must.Succeed(t, err)
	defer conn.Close()
	if _, err := io.WriteString(conn, "hello\n"); err != nil {
		t.Fatal(err)
	}
	conn.CloseWrite()
	if got, err := io.ReadAll(conn); string(got) != "hello\n" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if err := <-over; err != nil {
		t.Error(err)
	}

	// Close ends a stream.
	open, err := Connect(t.Context(), s.path, Request{Call: CallMCP})
	must.Succeed(t, err)
	defer open.Close()
	s.Close()
	<-over
	if got, err := io.ReadAll(open); len(got) > 0 {
		t.Errorf("got %q, %v", got, err)
	}
}

// What follows the request in the same packet belongs to the stream.
func TestStreamBegunWithTheRequest(t *testing.T) {
	s := serve(t, func(context.Context, Request) (Reply, error) {
		return Reply{Stream: func(_ context.Context, conn io.ReadWriter) error {
			_, err := io.Copy(conn, conn)
			return err
		}}, nil
	})
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: s.path, Net: "unix"})
	must.Succeed(t, err)
	defer conn.Close()
	if _, err := io.WriteString(conn, "{\"call\":\"mcp\"}\nearly\n"); err != nil {
		t.Fatal(err)
	}
	conn.CloseWrite()
	in := bufio.NewReader(conn)
	first, _ := in.ReadString('\n')
	second, err := in.ReadString('\n')
	if first != "{\"result\":null}\n" || second != "early\n" || err != nil {
		t.Errorf("got %q, %q, %v", first, second, err)
	}
}

// answerTo sends a text and returns the answer.
func answerTo(t *testing.T, path, text string) string {
	t.Helper()
	conn, err := net.Dial("unix", path)
	must.Succeed(t, err)
	defer conn.Close()
	io.WriteString(conn, text) // the server may close before it has read everything
	answer, _ := bufio.NewReader(conn).ReadString('\n')
	return answer
}

func TestInvalidRequests(t *testing.T) {
	s := serve(t, func(context.Context, Request) (Reply, error) {
		t.Error("an invalid request was handled")
		return Reply{}, nil
	})
	for _, text := range []string{"GET / HTTP/1.1\n", "[]\n", "{\"epoch\":\"x\"}\n",
		"{\"work\":\"" + strings.Repeat("x", maxRequest) + "\"}\n"} {
		if got := answerTo(t, s.path, text); !strings.Contains(got, "not a request") {
			t.Errorf("answer to %.20q: %q", text, got)
		}
	}
}

// A client that sends nothing does not keep its connection.
func TestSilentClient(t *testing.T) {
	s, err := listen(newPath(t), time.Nanosecond,
		func(context.Context, Request) (Reply, error) { return Reply{}, nil })
	must.Succeed(t, err)
	defer s.Close()
	if got := answerTo(t, s.path, ""); !strings.Contains(got, "not a request") {
		t.Errorf("got %q", got)
	}
}

func TestTooManyConnections(t *testing.T) {
	over := make(chan struct{}, MaxConnections+1)
	s := serve(t, func(context.Context, Request) (Reply, error) {
		return Reply{Stream: func(_ context.Context, conn io.ReadWriter) error {
			io.Copy(io.Discard, conn)
			over <- struct{}{}
			return nil
		}}, nil
	})
	var open []*Conn
	for range MaxConnections {
		conn, err := Connect(t.Context(), s.path, Request{})
		must.Succeed(t, err)
		defer conn.Close()
		open = append(open, conn)
	}
	if _, err := Connect(t.Context(), s.path, Request{}); err == nil ||
		err.Error() != "this session has 8 connections already" {
		t.Fatalf("one more connection: %v", err)
	}
	open[0].CloseWrite()
	<-over
	io.ReadAll(open[0]) // until the server has closed it
	for {               // the place is free very soon
		conn, err := Connect(t.Context(), s.path, Request{})
		if err == nil {
			conn.Close()
			break
		}
	}
}

func TestLongPath(t *testing.T) {
	if _, err := Listen(filepath.Join(newPath(t), strings.Repeat("x", MaxPath)), nil); err == nil ||
		!strings.Contains(err.Error(), "longer than 103 bytes") {
		t.Errorf("got %v", err)
	}
}
