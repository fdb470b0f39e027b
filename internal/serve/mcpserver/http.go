package mcpserver

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	sdkauth "github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"signalbox/internal/serve/mcpserver/auth"
)

// Limits of the HTTP server.
const (
	headerTimeout   = 10 * time.Second // for reading the headers of a request
	idleTimeout     = 2 * time.Minute  // of a connection
	sessionTimeout  = 30 * time.Minute // of a session without requests
	shutdownTimeout = 5 * time.Second  // for running calls
	maxHeader       = 64 << 10
)

// Handler returns a handler for streamable HTTP. It rejects requests that package auth does not
// allow.
func (s *Server) Handler() (http.Handler, error) {
	sessions := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s.mcp },
		&mcp.StreamableHTTPOptions{
			SessionTimeout: sessionTimeout, MaxRequestBodyBytes: maxMessage,
			// package auth does it, and knows the configured names
			DisableLocalhostProtection: true,
		})
	// Since protocol version 2026-07-28 there are no sessions: every request is independent.
	single := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s.mcp },
		&mcp.StreamableHTTPOptions{
			Stateless: true, MaxRequestBodyBytes: maxMessage, DisableLocalhostProtection: true,
			PropagateRequestCancellation: true,
		})
	// The SDK passes the client on to the tools, and refuses its session to others.
	identify := sdkauth.RequireBearerToken(func(ctx context.Context, _ string,
		_ *http.Request) (*sdkauth.TokenInfo, error) {
		return &sdkauth.TokenInfo{UserID: auth.ClientFrom(ctx)}, nil
	}, &sdkauth.RequireBearerTokenOptions{AllowMissingExpiration: true})
	var clients []auth.Client
	for i, client := range s.clients() {
		if i == 0 && client.Token == "" && len(s.opts.Clients) > 0 {
			continue // only configured clients connect
		}
		clients = append(clients, auth.Client{Name: client.Name, Token: client.Token})
	}
	return auth.New(identify(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Mcp-Session-Id") != "":
			sessions.ServeHTTP(w, r)
		case r.Header.Get("Mcp-Protocol-Version") >= "2026-07-28":
			s.serveSingle(w, r, single)
		default:
			s.startSession(w, r, sessions)
		}
	})), clients, &auth.Options{Hosts: s.opts.Hosts, MaxBody: maxMessage})
}

// startSession starts sessions one at a time, so that their number never exceeds MaxSessions.
func (s *Server) startSession(w http.ResponseWriter, r *http.Request, sessions http.Handler) {
	if r.Method != http.MethodPost {
		sessions.ServeHTTP(w, r)
		return
	}
	s.starting.Lock()
	defer s.starting.Unlock()
	count := 0
	for range s.mcp.Sessions() {
		count++
	}
	if count >= s.opts.MaxSessions {
		tooMany(w)
		return
	}
	sessions.ServeHTTP(w, r)
}

// serveSingle serves a request without a session. A request for a stream lasts as long as the
// client listens.
func (s *Server) serveSingle(w http.ResponseWriter, r *http.Request, single http.Handler) {
	select {
	case s.singles <- struct{}{}:
		defer func() { <-s.singles }()
		single.ServeHTTP(w, r)
	default:
		tooMany(w)
	}
}

func tooMany(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "60")
	http.Error(w, "too many sessions: close one with DELETE, or try again later",
		http.StatusServiceUnavailable)
}

// Serve serves HTTP on a listener, at the path /mcp, until ctx is done.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	handler, err := s.Handler()
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", handler)
	mux.Handle("/", auth.JSONErrors(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "not found: the server is at /mcp", http.StatusNotFound)
	})))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxHeader}
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		for session := range s.mcp.Sessions() { // their streams do not end otherwise
			session.Close()
		}
		timeout, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
		defer cancel()
		if server.Shutdown(timeout) != nil {
			server.Close()
		}
	})
	err = server.Serve(l)
	if !stop() {
		<-stopped
	}
	if errors.Is(err, http.ErrServerClosed) {
		return ctx.Err()
	}
	return err
}
