package agentsocket

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"signalbox"
)

// Limits of a server, so that an agent cannot use up the memory and the descriptors of the crew.
const (
	// MaxConnections is how many connections are served at the same time.
	MaxConnections = 8
	// transferTimeout is how long a client may take to send its request, and to take the response.
	transferTimeout = 10 * time.Second
	// handleTimeout is how long a handler may take.
	handleTimeout = time.Minute
	// acceptPause is the pause after a connection could not be accepted, as when there are too many
	// open files.
	acceptPause = 50 * time.Millisecond
)

// MaxPath is the length of the longest path of a socket that all systems accept.
const MaxPath = 103

// Reply is the answer of a handler.
type Reply struct {
	// Result is sent as JSON.
	Result any
	// Stream then takes over the connection; nil means that it is closed. Stream must return when
	// conn or ctx ends.
	Stream func(ctx context.Context, conn io.ReadWriter) error
}

// Handler answers a request. It decides whether the caller may make it, and may be called
// concurrently. It must return when ctx is done.
type Handler func(ctx context.Context, r Request) (Reply, error)

// Server serves a socket.
type Server struct {
	path     string
	listener *net.UnixListener
	handle   Handler
	// requestTimeout is how long a client may take to send its request.
	requestTimeout time.Duration
	ctx            context.Context
	cancel         context.CancelFunc
	slots          chan struct{} // holds a value for each connection
	running        sync.WaitGroup
}

// Listen creates a socket at path and serves it until Close. Only the user may connect. The folder
// of the socket should be closed to others, too: the socket is open to them for a moment.
func Listen(path string, handle Handler) (*Server, error) {
	return listen(path, transferTimeout, handle)
}

func listen(path string, requestTimeout time.Duration, handle Handler) (*Server, error) {
	if len(path) > MaxPath {
		return nil, fmt.Errorf("the path of the socket is longer than %d bytes: %s", MaxPath, path)
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	s := &Server{path: path, listener: listener, handle: handle, requestTimeout: requestTimeout, slots: make(chan struct{}, MaxConnections)}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.running.Go(s.accept)
	return s, nil
}

// Close removes the socket, closes its connections, and waits for their handlers.
func (s *Server) Close() error {
	s.cancel()
	err := s.listener.Close() // also removes the file
	s.running.Wait()
	return err
}

func (s *Server) accept() {
	for {
		conn, err := s.listener.AcceptUnix()
		if err != nil {
			select {
			case <-s.ctx.Done():
				return
			case <-time.After(acceptPause):
				continue
			}
		}
		select {
		case s.slots <- struct{}{}:
			s.running.Go(func() {
				defer func() { <-s.slots }()
				s.serve(conn)
			})
		default:
			// A new connection has room for the answer, so this does not block.
			respond(conn, nil, signalbox.CodeFailed.Errorf("close one, or try again later",
				"this session has %d connections already", MaxConnections))
			conn.Close()
		}
	}
}

// serve answers the request of a connection.
func (s *Server) serve(conn *net.UnixConn) {
	defer conn.Close()
	defer context.AfterFunc(s.ctx, func() { conn.Close() })()
	conn.SetReadDeadline(time.Now().Add(s.requestTimeout))
	in := bufio.NewReader(conn)
	line, err := readLine(in, maxRequest)
	var request Request
	if err == nil {
		err = json.Unmarshal(line, &request)
	}
	if err != nil {
		respond(conn, nil, signalbox.CodeUsage.Errorf("",
			"not a request: %w", err))
		return
	}
	ctx, cancel := context.WithTimeout(s.ctx, handleTimeout)
	reply, err := s.handle(ctx, request)
	cancel()
	if err != nil && s.ctx.Err() != nil {
		// the caller learns from the end of the connection that the session has ended, and not how
		// that stopped the handler
		return
	}
	if !respond(conn, reply.Result, err) || err != nil || reply.Stream == nil {
		return
	}
	conn.SetDeadline(time.Time{})
	reply.Stream(s.ctx, struct {
		io.Reader
		io.Writer
	}{in, conn}) // the peer sees how it ends
}

// respond sends the response to a request, and reports whether that succeeded.
func respond(conn *net.UnixConn, result any, failure error) bool {
	var r response
	if failure == nil {
		r.Result, failure = json.Marshal(result)
	}
	if failure != nil {
		r = response{Error: encodeError(failure)}
	}
	line, err := json.Marshal(r)
	if err != nil {
		return false
	}
	conn.SetWriteDeadline(time.Now().Add(transferTimeout))
	_, err = conn.Write(append(line, '\n'))
	return err == nil
}
