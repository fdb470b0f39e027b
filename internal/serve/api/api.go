// Package api serves a box over HTTP: the operations of the command line as JSON below /api/v1, and
// the events of the ledger as a stream.
//
// The operations are a table. The OpenAPI document, the checks of access, and the routes all come
// from it, so they cannot differ.
package api

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"signalbox/internal/core/box"
	"signalbox/internal/core/journal"
	"signalbox/internal/portfolio"
	"signalbox/internal/run/history"
	"signalbox/internal/serve/access"
	"signalbox/internal/serve/ask"
	"signalbox/internal/serve/stream"
	"signalbox/internal/serve/transfer"
)

// Options configures an API.
type Options struct {
	// Root is the folder of the project.
	Root string
	// Version is the version of the program, for the document.
	Version string
	// Oracle answers questions; nil means that there is none.
	Oracle *ask.Service
	// ExitFlag is the value of the environment variable that enables exit signals.
	ExitFlag string
	// Portfolio returns the desk of the portfolio, which need not exist; nil means that there is
	// none. It is called for each request.
	Portfolio func() *portfolio.Desk
	// History reads where time and money went; nil means a reader of its own.
	History *history.Reader
	// Log receives diagnostics; nil discards them.
	Log *slog.Logger
	// Now returns the time; nil means time.Now.
	Now func() time.Time
	// MaxStreams is how many streams of events callers with a token may have open at once; 0 means
	// 2000.
	MaxStreams int
	// MaxPublicStreams is how many callers without a token may have open besides; 0 means 64.
	MaxPublicStreams int
}

// API serves a box.
type API struct {
	box        *box.Box
	guard      *access.Guard
	hub        *stream.Hub
	opts       Options
	operations []operation
	document   []byte
	// streams has an element for each open stream, and publicStreams for those of callers without a
	// token.
	streams, publicStreams chan struct{}
	// heavy is for operations that take much time or memory, and publicHeavy for those of callers
	// without a token.
	heavy, publicHeavy *transfer.Slots

	listMu sync.Mutex // guards list
	list   encodedList
}

// maxHeavy is how many operations that take much time or memory run at once, maxPublicHeavy how
// many besides of callers without a token, who must not keep others out, and heavyTimeout how long
// others wait.
const (
	maxHeavy       = 4
	maxPublicHeavy = 2
	heavyTimeout   = 10 * time.Second
)

// New returns an API for an open box, whose engine must follow the ledger. The hub must run.
func New(b *box.Box, guard *access.Guard, hub *stream.Hub, opts *Options) (*API, error) {
	a := &API{box: b, guard: guard, hub: hub}
	if opts != nil {
		a.opts = *opts
	}
	if a.opts.Log == nil {
		a.opts.Log = slog.New(slog.DiscardHandler)
	}
	if a.opts.History == nil {
		a.opts.History = new(history.Reader)
	}
	if a.opts.Now == nil {
		a.opts.Now = time.Now
	}
	if a.opts.MaxStreams == 0 {
		a.opts.MaxStreams = 2000
	}
	if a.opts.MaxPublicStreams == 0 {
		a.opts.MaxPublicStreams = 64
	}
	a.streams, a.publicStreams = make(chan struct{}, a.opts.MaxStreams),
		make(chan struct{}, a.opts.MaxPublicStreams)
	a.heavy, a.publicHeavy = transfer.NewSlots(maxHeavy, heavyTimeout),
		transfer.NewSlots(maxPublicHeavy, heavyTimeout)
	a.addReads()
	a.addTexts()
	a.addWork()
	a.addOrders()
	a.addLedger()
	a.addEvents()
	a.addOracle()
	a.addPortfolio()
	var err error
	a.document, err = documentOf(a.operations, a.opts.Version, guard.CookieName())
	return a, err
}

// Register adds the routes of the API to a server.
func (a *API) Register(mux *http.ServeMux) {
	for i := range a.operations {
		o := &a.operations[i]
		mux.HandleFunc(o.method+" "+Prefix+o.path,
			func(w http.ResponseWriter, r *http.Request) { a.serve(w, r, o) })
	}
	mux.HandleFunc("GET "+Prefix+"/openapi.json", a.serveDocument)
	mux.HandleFunc(Prefix+"/", func(w http.ResponseWriter, r *http.Request) {
		a.fail(w, r, &access.DeniedError{Status: http.StatusNotFound,
			Message: "there is no such operation: see " + Prefix + "/openapi.json"})
	})
}

// serve checks a request and carries it out.
func (a *API) serve(w http.ResponseWriter, r *http.Request, o *operation) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	caller, err := a.guard.Check(r, o.needs(r), o.writes())
	if err == nil && o.ofSession {
		err = a.checkSession(r.PathValue("session"), caller)
	}
	if err != nil {
		transfer.DropBody(w, r)
	}
	if err == nil && o.heavy {
		slots := a.heavy
		if !caller.HasToken() {
			slots = a.publicHeavy
		}
		if err = slots.Enter(r.Context()); err == nil {
			defer slots.Leave()
			transfer.TakeTime(w)
		}
	}
	if err == nil {
		err = o.serve(w, r, caller)
	}
	if err != nil {
		a.fail(w, r, err)
	}
}

// actor returns the name of the caller on the ledger.
func (c *call) actor() string { return c.caller.Name }

// refresh reads the events that other processes have appended, so that an answer includes
// everything that the caller may know of. A program cannot see that an answer is outdated, so it
// gets an error instead, and soon.
func (a *API) refresh(ctx context.Context) error {
	since, err := a.box.Engine.RefreshOrKnown(ctx)
	if err == nil && !since.IsZero() {
		err = fmt.Errorf("%w since %s UTC", journal.ErrUnavailable,
			since.UTC().Format(time.TimeOnly))
	}
	return err
}
