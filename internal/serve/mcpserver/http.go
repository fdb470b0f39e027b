package mcpserver

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"signalbox/internal/serve/mcpserver/guard"
)

// Limits of HTTP.
const (
	headerTime  = 10 * time.Second // to send the headers in
	idleTime    = 2 * time.Minute  // for which a connection is kept for the next request
	sessionTime = 30 * time.Minute // after which a session that asks nothing is forgotten
	stopTime    = 5 * time.Second  // for calls that are under way when the server stops
	maxHeader   = 64 << 10
)

// Handler answers calls over streamable HTTP, at whatever path it is mounted. Whoever calls must show the token, name a host that is this
// one, and not be a page of another origin; else the answer is an error in JSON.
func (s *Server) Handler() (http.Handler, error) {
	sessions := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s.mcp }, &mcp.StreamableHTTPOptions{
		SessionTimeout: sessionTime, MaxRequestBodyBytes: maxMessage,
		DisableLocalhostProtection: true, // guard does it, also for names that are configured
	})
	// Callers of the protocol from 2026-07-28 on have no sessions: each of their requests stands for itself.
	single := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s.mcp }, &mcp.StreamableHTTPOptions{
		Stateless: true, MaxRequestBodyBytes: maxMessage, DisableLocalhostProtection: true, PropagateRequestCancellation: true,
	})
	return guard.New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Mcp-Session-Id") != "":
			sessions.ServeHTTP(w, r)
		case r.Header.Get("Mcp-Protocol-Version") >= "2026-07-28":
			s.serveSingle(w, r, single)
		default:
			s.beginSession(w, r, sessions)
		}
	}), s.opts.Token, &guard.Options{Hosts: s.opts.Hosts, MaxBody: maxMessage})
}

// beginSession lets one session begin at a time, so that there are never more than there may be.
func (s *Server) beginSession(w http.ResponseWriter, r *http.Request, sessions http.Handler) {
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

// serveSingle answers a request without a session, of which some last as long as their caller listens.
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
	http.Error(w, "too many sessions: end one with DELETE, or try again later", http.StatusServiceUnavailable)
}

// Serve answers calls over HTTP that come in on a listener, at the path /mcp, until ctx ends.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	handler, err := s.Handler()
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", handler)
	mux.Handle("/", guard.Errors(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "there is nothing here: the server is at /mcp", http.StatusNotFound)
	})))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader}
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		for session := range s.mcp.Sessions() { // their streams would not end by themselves
			session.Close()
		}
		patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
		defer cancel()
		if server.Shutdown(patience) != nil {
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
