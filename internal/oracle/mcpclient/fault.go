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
	errStartTimeout = errors.New("it did not answer in time")
	errCallTimeout  = errors.New("the call took too long")
	errEnding       = errors.New("the server was ended")
)

// unknownEffect is said of calls that were sent and not answered.
const unknownEffect = "whether the call had an effect is not known: look before you repeat it"

// named says which server it was.
func (c *Client) named(err error) error { return fmt.Errorf("MCP server %s: %w", c.server.Name, err) }

func (c *Client) closedFault() error { return errors.New("it was closed") }

// startFault says why a server did not start, with what it printed.
func (c *Client) startFault(ctx context.Context, s *session, err error) error {
	code, hint := signalbox.CodeFailed, "check its address, and that it speaks MCP by streamable HTTP"
	if s.web == nil {
		hint = "run its command by hand: it must stay, and speak MCP on its standard input and output"
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
		what = s.program.ending() + " before it had told its tools"
	default:
		what = reason(err)
		if text := strings.ToLower(what); s.web != nil && (strings.Contains(text, "unauthorized") || strings.Contains(text, "forbidden")) {
			hint = "set the header that it asks for, such as Authorization, in its headers"
		}
	}
	if s.program != nil {
		if said := s.program.said(); said != "" {
			what += "; " + said
		}
	}
	return &signalbox.Error{Code: code, Err: &startError{text: what, cause: err}, Hint: hint}
}

// startError keeps the cause for programs, while the text is for people.
type startError struct {
	text  string
	cause error
}

func (e *startError) Error() string { return e.text }
func (e *startError) Unwrap() error { return e.cause }

// exited tells whether the program has ended by itself.
func (s *session) exited() bool {
	select {
	case <-s.program.done:
		return !s.program.asked.Load()
	default:
		return false
	}
}

// ending says how the program ended.
func (p *program) ending() string {
	switch {
	case p.exit.Signal != "":
		return "it was ended by " + p.exit.Signal
	default:
		return fmt.Sprintf("it ended with exit status %d", p.exit.Code)
	}
}

// deadFault says why a server that died is not there now.
func (c *Client) deadFault(s *session, failed error, wait time.Duration) error {
	what := s.death()
	if failed != nil {
		what = failed.Error()
	}
	return fmt.Errorf("%s; it was started again less than a minute ago and is left alone for %d more seconds: use other tools, or say what is missing",
		what, int((wait+time.Second-1)/time.Second))
}

// death says how a session ended, after it did.
func (s *session) death() string {
	what := "the connection to it ended"
	switch {
	case s.broke != nil && !errors.Is(s.broke, io.ErrClosedPipe): // this side closed that
		what = reason(s.broke)
	case s.program != nil:
		what = s.program.ending()
	}
	if s.program == nil {
		return what
	}
	if said := s.program.said(); said != "" {
		what += "; " + said
	}
	return what
}

// callFault says why a call that was sent has no result.
func (c *Client) callFault(ctx context.Context, s *session, err error) error {
	refused := refusal(err)
	switch {
	case errors.Is(err, errEnding) && ctx.Err() == nil:
		return fmt.Errorf("%w before it answered; %s", errEnding, unknownEffect)
	case ctx.Err() != nil && errors.Is(context.Cause(ctx), errCallTimeout):
		return fmt.Errorf("it did not answer within %s and was told to stop; %s", c.server.Timeout, unknownEffect)
	case ctx.Err() != nil:
		return fmt.Errorf("the call was given up and the server told to stop: %w", context.Cause(ctx))
	case refused != nil:
		if s.web != nil && strings.Contains(strings.ToLower(refused.Message), "session") {
			// Many servers say so, instead of with the status that the protocol has for it, that they do not know the
			// session any more. If it was something else, the next call begins a session needlessly.
			s.end()
		}
		return fmt.Errorf("it refused the call: %s (code %d)", oneLine(refused.Message, maxSaid), refused.Code)
	case s.program != nil && (errors.Is(err, io.EOF) || errors.Is(err, errTooLong)), errors.Is(err, mcp.ErrSessionMissing), s.over():
		s.lost()
		select {
		case <-s.ended:
		case <-ctx.Done():
			return fmt.Errorf("the connection to it ended during the call; %s", unknownEffect)
		}
		return fmt.Errorf("it was lost during the call: %s; it is started again at the next call; %s", s.death(), unknownEffect)
	}
	return fmt.Errorf("%s; %s", reason(err), unknownEffect)
}

// rejected is the code of errors that are no answers: the SDK makes them of requests that did not arrive.
const rejected = -32005

// refusal is the error that the server answered with, nil if there is none.
func refusal(err error) *jsonrpc.Error {
	var answer *jsonrpc.Error
	if errors.As(err, &answer) && answer.Code != rejected {
		return answer
	}
	return nil
}

// over tells whether the connection has ended.
func (s *session) over() bool {
	select {
	case <-s.gone:
		return true
	default:
		return false
	}
}

// reason is an error in one line, without the address of the server, whose query may be a secret.
func reason(err error) string {
	var request *url.Error
	if errors.As(err, &request) {
		err = request.Err
	}
	return oneLine(err.Error(), maxSaid)
}
