// Package serve serves a box over HTTP on one port: the dashboard, the API, the stream of events,
// MCP, metrics, and health checks.
package serve

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/history"
	"signalbox/internal/serve/access"
	"signalbox/internal/serve/api"
	"signalbox/internal/serve/ask"
	"signalbox/internal/serve/dashboard"
	"signalbox/internal/serve/metrics"
	"signalbox/internal/serve/stream"
)

// Limits of the server.
const (
	headerTimeout   = 10 * time.Second // for reading the headers of a request
	readTimeout     = time.Minute      // for reading a whole request
	writeTimeout    = time.Minute      // for an answer; what may take longer extends it
	idleTimeout     = 2 * time.Minute  // of a connection without requests
	shutdownTimeout = 5 * time.Second  // for requests that are being answered
	maxHeader       = 64 << 10
	maxConnections  = 4096 // unless the options say otherwise
)

// Options configures a server.
type Options struct {
	// API configures the API.
	API api.Options
	// Oracle answers questions; nil means that the server answers none. It must be closed after
	// Serve has returned.
	Oracle *ask.Service
	// Project is the name of the project, for the titles of pages.
	Project string
	// Hosts are names and addresses, without a port, by which clients may reach the server besides
	// loopback names.
	Hosts []string
	// AnonymousReads allows reading without a token. Use it only for a listener on loopback.
	AnonymousReads bool
	// TLS has the certificate; nil means that the connection is not encrypted.
	TLS *tls.Config
	// MCP serves MCP at /mcp; nil means that it is not served.
	MCP http.Handler
	// Publish sends the events of the ledger elsewhere until its context is done; nil means that
	// they are not sent.
	Publish func(context.Context)
	// Log receives diagnostics; nil discards them.
	Log *slog.Logger
	// MaxConnections is how many connections may be open at once; 0 means 4096.
	MaxConnections int
}

// Server serves an open box.
type Server struct {
	box  *box.Box
	hub  *stream.Hub
	opts Options
	mux  *http.ServeMux
	// pages carries out what a page has started.
	pages *dashboard.Dashboard
}

// New returns a server for an open box, which must stay open until Serve has returned.
func New(b *box.Box, opts Options) (*Server, error) {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	opts.Log = slog.New(newQuietHandler(opts.Log.Handler()))
	if opts.API.Log == nil {
		opts.API.Log = opts.Log
	}
	if opts.MaxConnections == 0 {
		opts.MaxConnections = maxConnections
	}
	opts.API.Oracle, opts.API.History = opts.Oracle, new(history.Reader)
	s := &Server{box: b, hub: stream.NewHub(followed{b}, b.Engine.Tail().Seq), opts: opts, mux: http.NewServeMux()}
	store := access.NewStore(b.Dir)
	host, err := store.LoginHost(context.Background())
	if err != nil {
		return nil, err
	}
	guard := access.NewGuard(store,
		&access.Options{Hosts: opts.Hosts, AnonymousReads: opts.AnonymousReads, Box: b.ID(),
			LoginHost: host, Now: opts.API.Now})
	a, err := api.New(b, guard, s.hub, &opts.API)
	if err != nil {
		return nil, err
	}
	a.Register(s.mux)
	s.pages, err = dashboard.New(b, guard,
		dashboard.Options{Root: opts.API.Root, Name: opts.Project, Portfolio: opts.API.Portfolio,
			Oracle: opts.Oracle, History: opts.API.History, Log: opts.Log, Now: opts.API.Now})
	if err != nil {
		return nil, err
	}
	s.pages.Register(s.mux)
	s.mux.HandleFunc("GET /healthz",
		func(w http.ResponseWriter, _ *http.Request) { answerText(w, http.StatusOK, "ok\n") })
	s.mux.HandleFunc("GET /readyz", s.ready)
	s.mux.HandleFunc("GET /metrics",
		func(w http.ResponseWriter, r *http.Request) { s.metrics(w, r, guard) })
	if opts.MCP != nil {
		s.mux.HandleFunc("/mcp", func(w http.ResponseWriter, r *http.Request) {
			deadlines := http.NewResponseController(w)
			deadlines.SetReadDeadline(time.Time{})  // it has a limit of its own for bodies
			deadlines.SetWriteDeadline(time.Time{}) // it has streams
			opts.MCP.ServeHTTP(w, r)
		})
	}
	return s, nil
}

// ready reports whether the server can answer: whether the ledger can be read.
func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	since, err := s.box.Engine.RefreshOrKnown(r.Context())
	if err != nil {
		s.opts.Log.Warn("the ledger cannot be read", "error", err)
	}
	if err != nil || !since.IsZero() { // which the engine reports
		answerText(w, http.StatusServiceUnavailable, "the ledger cannot be read\n")
		return
	}
	answerText(w, http.StatusOK, "ok\n")
}

// metrics describes the box for Prometheus.
func (s *Server) metrics(w http.ResponseWriter, r *http.Request, guard *access.Guard) {
	if _, err := guard.Check(r, access.Read, false); err != nil {
		answerText(w, access.StatusOf(err), err.Error()+"\n")
		return
	}
	if since, err := s.box.Engine.RefreshOrKnown(r.Context()); err != nil || !since.IsZero() {
		answerText(w, http.StatusServiceUnavailable, "the ledger cannot be read\n")
		return
	}
	copies, err := s.box.Copies(r.Context())
	if err != nil {
		answerText(w, http.StatusServiceUnavailable, "the ledger cannot be read\n")
		return
	}
	var text bytes.Buffer
	s.box.Engine.View(func(state *rules.State) { metrics.Write(&text, state, copies, s.now()) })
	w.Header().Set("Content-Type", metrics.ContentType)
	w.Write(text.Bytes()) // not in View, which would block the ledger while a slow client reads
}

func (s *Server) now() time.Time {
	if s.opts.API.Now != nil {
		return s.opts.API.Now()
	}
	return time.Now()
}

// strictTransport tells browsers that came over TLS to come back over TLS only (HSTS). Names below
// localhost are left out: a browser would apply it to every port, and so to other programs on the
// user's machine, and to this one when it is served there without TLS.
func strictTransport(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS != nil && !access.IsLocalName(r.Host) {
			w.Header().Set("Strict-Transport-Security", "max-age=31536000")
		}
		next.ServeHTTP(w, r)
	})
}

func answerText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	w.Write([]byte(text))
}

// followed is the journal of a box, whose watches wait while it is not available.
type followed struct{ *box.Box }

func (f followed) Read(ctx context.Context, after uint64, limit int) ([]signalbox.Event, error) {
	return f.Journal.Read(ctx, after, limit)
}

func (f followed) Watch(ctx context.Context, after uint64) iter.Seq2[signalbox.Event, error] {
	return f.Engine.Watch(ctx, after)
}

// Serve serves until ctx is done, and then returns nil after the requests in progress, or until the
// listener or the ledger fails.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var background sync.WaitGroup
	defer background.Wait()
	defer cancel(nil)
	background.Go(func() { cancel(s.hub.Run(ctx)) })
	background.Go(func() { cancel(s.box.Engine.Follow(ctx)) })
	background.Go(func() { s.pages.Run(ctx) })
	background.Go(func() { s.box.KeepSigned(ctx, s.opts.Log) })
	if s.opts.Publish != nil {
		background.Go(func() { s.opts.Publish(ctx) })
	}
	limited := newLimitedListener(l, s.opts.MaxConnections)
	server := &http.Server{Handler: strictTransport(s.mux), ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		TLSConfig: s.opts.TLS, ConnState: limited.setState,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    slog.NewLogLogger(s.opts.Log.Handler(), slog.LevelDebug)}
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		timeout, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
		defer cancel()
		if server.Shutdown(timeout) != nil {
			server.Close()
		}
	})
	var err error
	if s.opts.TLS != nil {
		err = server.ServeTLS(limited, "", "")
	} else {
		err = server.Serve(limited)
	}
	if !stop() {
		<-stopped
	}
	if cause := context.Cause(ctx); errors.Is(err, http.ErrServerClosed) {
		if errors.Is(cause, context.Canceled) {
			return nil
		}
		return cause
	}
	return err
}
