// Package agentsocket carries calls from an agent's process to the crew that runs the agent. In its
// sandbox an agent cannot open the box. So the crew serves a Unix socket for each session, and
// signalbox calls it when an agent runs signalbox.
//
// A connection has one request and one response, each a JSON object on a line of its own. After the
// response to CallMCP it carries MCP messages, one per line, in both directions. The package limits
// connections, sizes and times; who may do what is decided by the handler of the server.
package agentsocket

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"syscall"
	"time"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/tree/turnlog"
)

// Variable is the environment variable with the path of the socket. It is set in the processes of
// an agent, and nowhere else.
const Variable = "SIGNALBOX_SOCKET"

// Call is what a request asks for.
type Call string

const (
	CallExit Call = "exit" // submit an exit signal; the result is an Exit
	CallShow Call = "show" // show the session's work
	CallTurn Call = "turn" // report a turn signal of the tree that is the agent
	CallMCP  Call = "mcp"  // speak MCP from now on
)

// Request is a request of an agent's process. The first three fields identify the session, and
// prove that the process belongs to it.
type Request struct {
	Session string `json:"session"`
	// Epoch is that of the session's lease; 0 means that the caller does not know it.
	Epoch  uint64 `json:"epoch,omitempty"`
	Secret string `json:"secret"`
	Call   Call   `json:"call"`
	// Exit is the JSON of an exit signal, for CallExit.
	Exit []byte `json:"exit,omitempty"`
	// Ref is the branch, tag or commit that has the work, for CallExit. It is only for work that
	// belongs to no plan.
	Ref string `json:"ref,omitempty"`
	// Work is the work item to show, for CallShow.
	Work string `json:"work,omitempty"`
	// Turn is the report of a turn signal, for CallTurn.
	Turn *turnlog.Report `json:"turn,omitempty"`
}

// Exit is the result of CallExit: an exit signal that was accepted.
type Exit struct {
	Work           string               `json:"work"`
	PhaseCompleted signalbox.Phase      `json:"phase_completed"`
	ExitReason     signalbox.ExitReason `json:"exit_reason"`
	NextPhase      *signalbox.Phase     `json:"next_phase"`
}

// response is the answer to a request: a result or an error.
type response struct {
	Result json.RawMessage `json:"result,omitempty"`
	Error  *wireError      `json:"error,omitempty"`
}

type wireError struct {
	Code    signalbox.Code   `json:"code"`
	Reason  signalbox.Reason `json:"reason,omitempty"`
	Message string           `json:"message"`
	Hint    string           `json:"hint,omitempty"`
}

// encodeError returns what the caller may know about an error: its text, not its type, except for
// refusals.
func encodeError(err error) *wireError {
	wire := &wireError{Code: signalbox.CodeOf(err), Message: err.Error(),
		Hint: signalbox.HintOf(err)}
	if wire.Code == 0 {
		wire.Code = signalbox.CodeFailed
	}
	if refused := (*rules.RefusedError)(nil); errors.As(err, &refused) {
		wire.Reason, wire.Message = refused.Reason, refused.Msg
	}
	return wire
}

func (w *wireError) decode() error {
	err := errors.New(w.Message)
	if w.Reason != "" {
		err = &rules.RefusedError{Reason: w.Reason, Msg: w.Message}
	}
	return &signalbox.Error{Code: w.Code, Err: err, Hint: w.Hint}
}

// Stale returns the error of a call for a session that has ended, or whose lease is over.
func Stale(session string) error {
	return &signalbox.Error{Code: signalbox.CodeConflict,
		Hint: "stop; what this session says has no effect any more",
		Err: &rules.RefusedError{Reason: signalbox.ReasonStaleLease,
			Msg: fmt.Sprintf("stale lease: session '%s' has ended", session)}}
}

const (
	// The largest request is a turn signal with all its text, and the largest response a work item
	// with the output of its checks.
	maxRequest  = 1 << 20
	maxResponse = 64 << 20
	// callTimeout is how long a client waits for an answer. It is longer than a handler may take.
	callTimeout = handleTimeout + 2*transferTimeout
)

// Invoke sends a request to the socket at path, and decodes the result.
func Invoke(ctx context.Context, path string, r Request, result any) error {
	conn, _, err := send(ctx, path, r, result)
	if err != nil {
		return err
	}
	return conn.Close()
}

// Connect sends a request to the socket at path, and returns the connection for the messages that
// follow.
func Connect(ctx context.Context, path string, r Request) (*Conn, error) {
	conn, in, err := send(ctx, path, r, nil)
	if err != nil {
		return nil, err
	}
	return &Conn{conn, in}, nil
}

// Conn is a connection that carries messages.
type Conn struct {
	*net.UnixConn
	in *bufio.Reader // has what arrived with the response
}

// Read implements io.Reader.
func (c *Conn) Read(p []byte) (int, error) { return c.in.Read(p) }

func send(ctx context.Context, path string, r Request,
	result any) (*net.UnixConn, *bufio.Reader, error) {
	dialed, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
			return nil, nil, Stale(r.Session)
		}
		return nil, nil, fmt.Errorf("cannot reach the run: %w", err)
	}
	conn := dialed.(*net.UnixConn)
	in, err := exchange(conn, r, result)
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	return conn, in, conn.SetDeadline(time.Time{})
}

// exchange writes a request and reads the response.
func exchange(conn *net.UnixConn, r Request, result any) (*bufio.Reader, error) {
	if err := conn.SetDeadline(time.Now().Add(callTimeout)); err != nil {
		return nil, err
	}
	line, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	in := bufio.NewReader(conn)
	// A server that refuses the connection answers without reading the request.
	_, writeErr := conn.Write(append(line, '\n'))
	answer, err := readLine(in, maxResponse)
	if err != nil {
		if writeErr != nil || errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
			return nil, Stale(r.Session) // the server was closed
		}
		return nil, fmt.Errorf("cannot read the answer of the run: %w", err)
	}
	var decoded response
	if err := json.Unmarshal(answer, &decoded); err != nil {
		return nil, fmt.Errorf("cannot read the answer of the run: %w", err)
	}
	if decoded.Error != nil {
		return nil, decoded.Error.decode()
	}
	if result == nil {
		return in, nil
	}
	return in, json.Unmarshal(decoded.Result, result)
}

var errTooLong = errors.New("the line is too long")

// readLine reads a line of at most limit bytes, with its end.
func readLine(in *bufio.Reader, limit int) (line []byte, err error) {
	for {
		part, err := in.ReadSlice('\n')
		if line = append(line, part...); len(line) > limit {
			return nil, errTooLong
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}
