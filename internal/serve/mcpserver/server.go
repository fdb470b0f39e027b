// Package mcpserver is the box for agents that speak the Model Context Protocol: fourteen tools over the engine, the ledger, the
// scanner and the portfolio, served over stdio or streamable HTTP.
//
// What must hold, and tests hold it:
//   - every answer is a brief: status, a snapshot with a verdict that says what to do next, flags, and the path of a file. A
//     snapshot has the same keys when the tool succeeded and when it failed, and an agent's brief is at most 4 KB;
//   - what goes wrong is a brief too, with the flag of what it was, and never a protocol error or the text of an error of Go;
//   - a server with a session of its own ([Options.Session]) acts for that session and no other, as the commands do;
//   - what does not fit into an answer is in a file, and resources/read gives exactly the files that this server wrote, as long
//     as they are unchanged;
//   - over HTTP nothing is answered without the token, to a Host that is not this one, or to a page of another Origin.
//
// The tools call what the commands of the same names call, so that both keep the same rules.
package mcpserver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/serve/mcpserver/files"
	"signalbox/internal/serve/mcpserver/stdio"
)

// Options says how a server works. The zero value serves over stdio, for an operator, without a portfolio.
type Options struct {
	// Version is that of the program; "" is "devel".
	Version string
	// Box says how to open the box; nil is its zero value.
	Box *box.Options
	// Session is the one that the server acts for, as SIGNALBOX_SESSION names it; "" means that an operator started it, who may
	// open and claim work and name any session.
	Session string
	// Crew means that a crew started the agent that this server is for. The crew hears how the agent's turn ends and keeps what it
	// did first; so what ends a turn is not taken here.
	Crew bool
	// Actor is who opens and claims work if a call does not say; "" is "mcp".
	Actor string
	// ExitFlag is the value of signalbox.ExitFlag: whether exit signals may act.
	ExitFlag string
	// Portfolio answers the two portfolio tools; nil means that there is none, which they then say.
	Portfolio Portfolio
	// Token is what callers over HTTP have to show. Without one there is no HTTP.
	Token string
	// Hosts are names and addresses, without a port, that callers may use beside those of the loopback; nil is none.
	Hosts []string
	// MaxSessions is how many sessions of HTTP there are at most, and how many requests without one at a time; 0 is 64.
	MaxSessions int
	// Now is the clock; nil is the system's.
	Now func() time.Time
	// Log hears what is no answer to anybody; nil drops it.
	Log *slog.Logger
}

// Server answers agents. Its methods are safe for concurrent use.
type Server struct {
	find func() (string, error)
	opts Options
	log  *slog.Logger
	mcp  *mcp.Server

	files *files.Keeper

	mu      sync.Mutex                             // guards what follows
	open    *box.Box                               // nil until a call needs it
	closed  bool                                   // no call begins any more
	calls   sync.WaitGroup                         // those that use the box
	signing func()                                 // ends the signing of what was written, nil while nothing was
	claims  map[*mcp.ServerSession]map[string]bool // the sessions that were claimed over a connection

	starting sync.Mutex    // held while a session of HTTP begins, so that they can be counted
	singles  chan struct{} // has a place for each request that stands for itself
}

const instructions = `signalbox keeps work, leases and a tamper-evident ledger for agents. Ask get_status first: its verdict says what to do next. ` +
	`The usual way: list_work, claim_work (keep the session and the epoch it answers with), renew_lease before it expires, then submit_exit, or ` +
	`emit_signal for work of a plan. ask_human puts a question about work of a plan to a person. Two tools are about a portfolio and need no work: ` +
	`check_exit_signals tells whether to leave a position, suggest_tax_loss_harvest which losses could be taken for taxes. Every answer has a verdict ` +
	`to act on and flags to heed (flag, severity: error, warning, info or success, message); what is left out of it is in the file that it names.`

// New returns a server. findBox tells the folder of the box; it is asked when a tool needs one, until it finds one. The caller closes
// the server.
func New(findBox func() (string, error), opts *Options) (*Server, error) {
	if findBox == nil {
		return nil, errors.New("a server needs to know how to find the box: give findBox")
	}
	s := &Server{find: findBox, claims: map[*mcp.ServerSession]map[string]bool{}}
	if opts != nil {
		s.opts = *opts
	}
	s.opts.Version = cmp.Or(s.opts.Version, "devel")
	s.opts.Actor = cmp.Or(s.opts.Actor, "mcp")
	if s.opts.MaxSessions <= 0 {
		s.opts.MaxSessions = 64
	}
	if s.opts.Now == nil {
		s.opts.Now = time.Now
	}
	if s.log = s.opts.Log; s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.opts.Session != "" {
		if err := signalbox.CheckID(s.opts.Session); err != nil {
			return nil, &signalbox.Error{Code: signalbox.CodeUsage, Err: err, Hint: "the session of the environment is no id: unset SIGNALBOX_SESSION, or set it to that of a claim"}
		}
	}
	s.mcp = mcp.NewServer(&mcp.Implementation{Name: "signalbox", Title: "signalbox", Version: s.opts.Version}, &mcp.ServerOptions{
		Instructions: instructions,
		Capabilities: &mcp.ServerCapabilities{
			Tools:     &mcp.ToolCapabilities{},
			Resources: &mcp.ResourceCapabilities{ListChanged: true},
		},
	})
	s.files, s.singles = files.New(s.find, s.opts.Now, s.mcp, s.log), make(chan struct{}, s.opts.MaxSessions)
	s.mcp.AddReceivingMiddleware(soundErrors)
	s.addTools()
	return s, nil
}

// soundErrors drops the data of an error that is no JSON. The SDK makes such data of a URI with control characters, and could then not
// send the answer, which would end the connection.
func soundErrors(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, request mcp.Request) (mcp.Result, error) {
		result, err := next(ctx, method, request)
		if wire, ok := errors.AsType[*jsonrpc.Error](err); ok && len(wire.Data) > 0 && !json.Valid(wire.Data) {
			err = &jsonrpc.Error{Code: wire.Code, Message: wire.Message}
		}
		return result, err
	}
}

// addTools is the list of all tools.
func (s *Server) addTools() {
	s.addStatus()
	s.addListWork()
	s.addGetWork()
	s.addOpenWork()
	s.addClaimWork()
	s.addRenewLease()
	s.addSubmitExit()
	s.addEmitSignal()
	s.addAskHuman()
	s.addScanTranscript()
	s.addVerifyLedger()
	s.addProveEvent()
	s.addPortfolio()
}

// maxMessage is the size of the largest message that is read. The largest argument is a transcript.
const maxMessage = 8 << 20

// ServeStdio answers the calls that come in on one stream, on another, until the first ends or ctx does. Nothing but messages of the
// protocol is written to out.
func (s *Server) ServeStdio(ctx context.Context, in io.Reader, out io.Writer) error {
	session, err := s.mcp.Connect(ctx, stdio.New(in, out, maxMessage), nil)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { session.Close() })
	defer stop()
	err = session.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// Close waits for the calls that are under way, signs what they wrote, and closes the box. Sessions end as their transports do.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	for session := range s.mcp.Sessions() {
		session.Close()
	}
	s.calls.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.signing != nil {
		s.signing()
		s.signing = nil
	}
	if s.open == nil {
		return nil
	}
	err := s.open.Close()
	s.open = nil
	return err
}
