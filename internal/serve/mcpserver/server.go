// Package mcpserver serves a box to agents over the Model Context Protocol: seventeen tools for
// work, leases, signals, the ledger, transcripts and the portfolio, over stdio or streamable HTTP.
//
// Invariants, which tests check:
//   - Every answer is a brief: a status, a snapshot with a verdict that says what to do next,
//     flags, and the path of a file. A
//     snapshot has the same keys whether the tool succeeded or failed, and an agent brief has at most 4 KB.
//   - Errors are briefs too, with a flag for the kind of error. They are never protocol errors.
//   - A connection is one client ([Client]), which claims only in its roles and does not review
//     what it developed. What it does under
//     a lease needs the secret that the claim returned, which is in no other answer.
//   - A server with its own session ([Options.Session]) acts only for that session, as the commands
//     do. With [Options.Work] it also sees
//     only the work of that session.
//   - What does not fit into an answer is in a file. resources/read returns only files that this
//     server wrote, and only while
//     they are unchanged.
//   - Over HTTP, requests without the token, for another Host, or from a page of another Origin are
//     rejected.
//
// The tools use the same functions as the commands, so that the same rules apply.
package mcpserver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/serve/mcpserver/files"
	"signalbox/internal/serve/mcpserver/stdio"
)

// Options configures a Server. The zero value serves a developer over stdio, without a portfolio.
type Options struct {
	// Version is the version of the program. Empty means "devel".
	Version string
	// Box has the options for opening the box. Nil means the zero value.
	Box *box.Options
	// Session is the session that the server acts for, from SIGNALBOX_SESSION. Empty means that its
	// clients open and claim work themselves. Secret is the secret of the session's lease, from
	// SIGNALBOX_SECRET.
	Session, Secret string
	// Crew means that a crew runs the agent that uses this server. The crew reads the signal at the
	// end of the agent's turn, after it has saved the agent's work. So signals that end a turn are
	// rejected here.
	Crew bool
	// Work limits a server with a session to one work item: its tools show no other work and
	// nothing of the ledger. Empty means no limit.
	Work string
	// Opened is an open box, which the server uses and does not close. Nil means that it opens the
	// box that findBox returns.
	Opened *box.Box
	// Client is the client over stdio, and over HTTP the one that sends its token. HTTP cannot be
	// served without a token. An empty name means "mcp".
	Client Client
	// Clients are further clients over HTTP. Nil means none.
	Clients []Client
	// ExitFlag is the value of the environment variable signalbox.ExitFlag, which enables exit
	// signals.
	ExitFlag string
	// Portfolio answers the portfolio tools. Nil means that they answer no_portfolio.
	Portfolio Portfolio
	// Hosts are names and addresses, without a port, that HTTP clients may use in addition to
	// loopback names. Nil means none.
	Hosts []string
	// MaxSessions is the maximum number of HTTP sessions, and of concurrent requests without a
	// session. 0 means 64.
	MaxSessions int
	// Now is the clock. Nil means time.Now.
	Now func() time.Time
	// Log receives diagnostics. Nil discards them.
	Log *slog.Logger
}

// Server is an MCP server for a box. Its methods are safe for concurrent use.
type Server struct {
	find func() (string, error)
	opts Options
	log  *slog.Logger
	mcp  *mcp.Server

	files *files.Store

	mu          sync.Mutex     // guards the fields below
	open        *box.Box       // nil until a call needs it
	closed      bool           // new calls are rejected
	calls       sync.WaitGroup // running calls that use the box
	stopSigning func()         // nil until something was written
	// the sessions that were claimed over each connection
	claims map[*mcp.ServerSession]map[string]bool

	starting sync.Mutex    // held while an HTTP session starts, so that they can be counted
	singles  chan struct{} // holds a value for each running request without a session
}

const instructions = `signalbox manages work, leases and a tamper-evident ledger for agents. Call get_status first: its verdict says what to do next. ` +
	`Usual sequence: list_work, claim_work (keep the session, epoch and secret of its answer: later calls need them), renew_lease before the lease expires, then submit_exit, or ` +
	`emit_signal if the work belongs to a plan. ask_human asks a person a question about work of a plan. Five tools are about a portfolio and need no work: ` +
	`check_exit_signals reports whether to sell a position, suggest_tax_loss_harvest which losses could be harvested for taxes, realized_gains what a year's sales realized, simulate_sale what a sale would do, reconcile_positions whether the lots agree with the broker. Every answer has a verdict ` +
	`to act on and flags (flag; severity: error, warning, info or success; message). Details that do not fit are in the file at file_path.`

// New returns a server. findBox returns the folder of the box. It is called when a tool needs the
// box, again after each failure. The caller must close the server.
func New(findBox func() (string, error), opts *Options) (*Server, error) {
	if findBox == nil {
		return nil, errors.New("findBox is nil")
	}
	s := &Server{find: findBox, claims: map[*mcp.ServerSession]map[string]bool{}}
	if opts != nil {
		s.opts, s.open = *opts, opts.Opened
	}
	s.opts.Version = cmp.Or(s.opts.Version, "devel")
	s.opts.Client.Name, s.opts.Clients = cmp.Or(s.opts.Client.Name, "mcp"),
		slices.Clone(s.opts.Clients)
	if err := s.opts.Client.validate(); err != nil {
		return nil, err
	}
	for i := range s.opts.Clients {
		if err := s.opts.Clients[i].validate(); err != nil {
			return nil, err
		}
	}
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
			return nil, &signalbox.Error{Code: signalbox.CodeUsage, Err: err,
				Hint: "SIGNALBOX_SESSION is not a valid id: unset it, or set it to the session of a claim"}
		}
	}
	s.mcp = mcp.NewServer(&mcp.Implementation{Name: "signalbox", Title: "signalbox",
		Version: s.opts.Version}, &mcp.ServerOptions{
		Instructions: instructions,
		Capabilities: &mcp.ServerCapabilities{
			Tools:     &mcp.ToolCapabilities{},
			Resources: &mcp.ResourceCapabilities{ListChanged: true},
		},
	})
	s.files, s.singles = files.New(s.find, s.opts.Now, s.mcp, s.log),
		make(chan struct{}, s.opts.MaxSessions)
	s.mcp.AddReceivingMiddleware(validErrors)
	s.addTools()
	return s, nil
}

// validErrors removes error data that is not JSON. The SDK creates such data for a URI with control
// characters. It then cannot encode the answer, which ends the connection.
func validErrors(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, request mcp.Request) (mcp.Result, error) {
		result, err := next(ctx, method, request)
		if wire, ok := errors.AsType[*jsonrpc.Error](err); ok && len(wire.Data) > 0 &&
			!json.Valid(wire.Data) {
			err = &jsonrpc.Error{Code: wire.Code, Message: wire.Message}
		}
		return result, err
	}
}

// addTools adds all tools.
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
	s.addGains()
	s.addSimulation()
	s.addReconcile()
}

// maxMessage is the maximum size of a request. The largest argument is a transcript.
const maxMessage = 8 << 20

// ServeStdio serves calls from in and answers them on out until in ends or ctx is done. It writes
// only protocol messages to out.
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

// Close closes all sessions, waits for running calls, signs what they wrote, and closes the box.
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
	if s.stopSigning != nil {
		s.stopSigning()
		s.stopSigning = nil
	}
	if s.open == nil || s.open == s.opts.Opened {
		return nil
	}
	err := s.open.Close()
	s.open = nil
	return err
}
