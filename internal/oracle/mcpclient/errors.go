package mcpclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"signalbox"
)

var (
	errStartTimeout = errors.New("the server did not answer in time")
	errCallTimeout  = errors.New("the call took too long")
	errStopped      = errors.New("the server was stopped")
	errClosed       = errors.New("the client is closed")
)

// unknownEffect is the advice for calls that were sent but not answered.
const unknownEffect = "the call may or may not have had an effect: check before you repeat it"

// startError returns the error for a server that did not start, with what it printed.
func (c *Client) startError(ctx context.Context, s *session, err error) error {
	code, hint := signalbox.CodeFailed,
		"check its address, and that it serves MCP over streamable HTTP"
	if s.http == nil {
		hint = "run its command by hand: it must keep running and speak MCP on its standard input and output"
	}
	var known *signalbox.Error
	var what string
	switch {
	case errors.As(err, &known):
		code, hint, what = known.Code, known.Hint, known.Error()
	case errors.Is(context.Cause(ctx), errStartTimeout):
		what = fmt.Sprintf("it did not answer within %s", c.opts.StartTimeout)
	case errors.Is(context.Cause(ctx), errCallTimeout):
		what = fmt.Sprintf("it did not answer within %s", c.server.Timeout)
	case ctx.Err() != nil:
		code, hint, what = signalbox.CodeInterrupted, "", "starting it was cancelled"
	case s.program != nil && s.exited():
		what = s.program.exitText() + " before it listed its tools"
	default:
		what = reason(err)
		if text := strings.ToLower(what); s.http != nil &&
			(strings.Contains(text, "unauthorized") || strings.Contains(text, "forbidden")) {
			hint = "set the header that it requires, such as Authorization, in its headers"
		}
	}
	if s.program != nil {
		what += s.program.printed()
	}
	return &signalbox.Error{Code: code, Err: &causedError{text: what, cause: err}, Hint: hint}
}

// causedError is an error whose text is for people, and whose cause is for errors.Is.
type causedError struct {
	text  string
	cause error
}

func (e *causedError) Error() string { return e.text }
func (e *causedError) Unwrap() error { return e.cause }

// exited reports whether the program exited without being asked to.
func (s *session) exited() bool {
	select {
	case <-s.program.done:
		return !s.program.stopRequested.Load()
	default:
		return false
	}
}

// exitText describes how the program exited.
func (p *program) exitText() string {
	if p.exit.Signal != "" {
		return "it was killed by " + p.exit.Signal
	}
	return fmt.Sprintf("it exited with status %d", p.exit.Code)
}

// restartTooSoon returns the error for a server that died again soon after a restart. restartErr is
// why the restart failed, nil if it did not.
func (c *Client) restartTooSoon(s *session, restartErr error, wait time.Duration) error {
	what := s.endText()
	if restartErr != nil {
		what = restartErr.Error()
	}
	return fmt.Errorf("%s; it was restarted less than a minute ago and will not be restarted for %d more seconds: use other tools, or report what is missing",
		what, int((wait+time.Second-1)/time.Second))
}

// endText describes how a session ended. It must be called after s.stopped is closed.
func (s *session) endText() string {
	what := "the connection was closed"
	switch {
	case s.cause != nil &&
		!errors.Is(s.cause, io.ErrClosedPipe): // that means that this side closed it
		what = reason(s.cause)
	case s.program != nil:
		what = s.program.exitText()
	}
	if s.program != nil {
		what += s.program.printed()
	}
	return what
}

// callError returns the error for a call that was sent but has no result.
func (c *Client) callError(ctx context.Context, s *session, err error) error {
	rejection := serverError(err)
	switch {
	case errors.Is(err, errStopped) && ctx.Err() == nil:
		return fmt.Errorf("%w before it answered; %s", errStopped, unknownEffect)
	case ctx.Err() != nil && errors.Is(context.Cause(ctx), errCallTimeout):
		return fmt.Errorf("it did not answer within %s, and the call was cancelled; %s",
			c.server.Timeout, unknownEffect)
	case ctx.Err() != nil:
		return fmt.Errorf("the call was cancelled: %w", context.Cause(ctx))
	case rejection != nil:
		if s.http != nil && strings.Contains(strings.ToLower(rejection.Message), "session") {
			// Many servers report an unknown session this way, instead of with the HTTP status that
			// the protocol requires. If the error means something else, the next call starts a
			// session needlessly.
			s.stop()
		}
		return fmt.Errorf("it rejected the call: %s (code %d)",
			oneLine(rejection.Message, maxQuoted), rejection.Code)
	case s.program != nil && (errors.Is(err, io.EOF) || errors.Is(err, errTooLong)),
		errors.Is(err, mcp.ErrSessionMissing), s.isBroken():
		s.markBroken()
		select {
		case <-s.stopped:
		case <-ctx.Done():
			return fmt.Errorf("the connection was lost during the call; %s", unknownEffect)
		}
		return fmt.Errorf("the connection was lost during the call: %s; the next call restarts the server; %s", s.endText(), unknownEffect)
	}
	return fmt.Errorf("%s; %s", reason(err), unknownEffect)
}

// codeRejected is the code of errors that the SDK creates itself for requests that it could not
// send.
const codeRejected = -32005

// serverError returns the error response of the server in err, or nil if there is none.
func serverError(err error) *jsonrpc.Error {
	var answer *jsonrpc.Error
	if errors.As(err, &answer) && answer.Code != codeRejected {
		return answer
	}
	return nil
}

// isBroken reports whether the connection is unusable.
func (s *session) isBroken() bool {
	select {
	case <-s.broken:
		return true
	default:
		return false
	}
}

// reason returns the text of an error on one line, without the URL of the server, whose query may
// be secret.
func reason(err error) string {
	var request *url.Error
	if errors.As(err, &request) {
		err = request.Err
	}
	return oneLine(err.Error(), maxQuoted)
}
