// Package dashboard serves pages that show a box and take the decisions of the human:
// server-rendered HTML, one style sheet, and a small script for live updates. The pages work
// without the script, without the internet, and on a phone.
//
// Text of agents is data: html/template escapes it, it is isolated from the direction of the text
// around it, and the content policy allows neither inline scripts nor inline styles.
package dashboard

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/rules"
	"signalbox/internal/portfolio"
	"signalbox/internal/run/history"
	"signalbox/internal/run/inspect"
	"signalbox/internal/serve/access"
	"signalbox/internal/serve/ask"
	"signalbox/internal/serve/transfer"
)

//go:embed templates static
var files embed.FS

// policy is the content policy of every page: nothing from elsewhere, and nothing inline.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; manifest-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// Options configures a dashboard.
type Options struct {
	// Root is the folder of the project, and Name its name in titles.
	Root, Name string
	// Portfolio returns the desk of the portfolio, which need not exist. It is called for each
	// page, since a portfolio may be created at any time. Nil means that its pages show how
	// to begin.
	Portfolio func() *portfolio.Desk
	// Oracle answers questions; nil means that there is none.
	Oracle *ask.Service
	// History reads where time and money went; nil means a reader of its own.
	History *history.Reader
	// Log receives diagnostics; nil discards them.
	Log *slog.Logger
	// Now returns the time; nil means time.Now.
	Now func() time.Time
}

// Dashboard serves the pages of a box.
type Dashboard struct {
	box   *box.Box
	guard *access.Guard
	opts  Options
	pages map[string]*template.Template
	// costs has read what agents have used.
	costs      inspect.CostReader
	machine    machineReader
	recordings recordings
	// heavy is for the pages that need much memory, until they are written, publicHeavy for those
	// of callers without a token, and searches for searches in the ledger.
	heavy, publicHeavy, searches *transfer.Slots
	verification                 *verification
	// indexes are for transcripts.
	indexes indexes
}

// New returns a dashboard for an open box, whose engine must follow the ledger.
func New(b *box.Box, guard *access.Guard, opts Options) (*Dashboard, error) {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if opts.History == nil {
		opts.History = new(history.Reader)
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	d := &Dashboard{box: b, guard: guard, opts: opts, pages: map[string]*template.Template{}, heavy: transfer.NewSlots(maxHeavy, heavyWait),
		publicHeavy: transfer.NewSlots(maxPublicHeavy, heavyWait),
		searches:    transfer.NewSlots(maxSearches, heavyWait), verification: newVerification()}
	layout, err := template.New("layout.html").Funcs(functions(opts.Now)).ParseFS(files,
		"templates/layout.html", "templates/parts.html", "templates/treestep.html")
	if err != nil {
		return nil, err
	}
	names, err := fs.Glob(files, "templates/*.html")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		page, err := template.Must(layout.Clone()).ParseFS(files, name)
		if err != nil {
			return nil, err
		}
		d.pages[strings.TrimSuffix(strings.TrimPrefix(name, "templates/"), ".html")] = page
	}
	return d, nil
}

// Register adds the pages to a server.
func (d *Dashboard) Register(mux *http.ServeMux) {
	d.page(mux, "GET /{$}", access.Read, d.inbox)
	d.page(mux, "/", access.Read, func(_ context.Context, r *http.Request) (view, error) {
		return view{}, notFound("there is no page %.100s", r.URL.Path)
	})
	d.page(mux, "GET /board", access.Read, d.board)
	d.page(mux, "GET /work/{task}", access.Read, d.task)
	d.heavyPage(mux, "GET /work/{task}/diff", access.Read, d.diff)
	d.heavyPage(mux, "GET /work/{task}/log", access.Read, d.log)
	d.heavyPage(mux, "GET /work/{task}/log/piece", access.Read, d.logPiece)
	d.heavyPage(mux, "GET /blob/{digest}", access.Read, d.blob)
	d.heavyPage(mux, "GET /blob/{digest}/piece", access.Read, d.blobPiece)
	d.page(mux, "GET /run", access.Read, d.run)
	d.page(mux, "GET /crew", access.Read, d.crew)
	d.heavyPage(mux, "GET /cost", access.Read, d.cost)
	d.page(mux, "GET /ledger", access.Read, d.ledger)
	d.page(mux, "GET /ledger/{seq}", access.Read, d.event)
	d.heavyPage(mux, "GET /portfolio", access.Private, d.portfolio)
	d.heavyPage(mux, "GET /portfolio/{ticker}", access.Private, d.position)
	d.heavyPage(mux, "GET /oracle", access.Read, d.oracle)
	d.heavyPage(mux, "GET /oracle/{session}", access.Operate, d.conversation)
	d.page(mux, "GET /ledger/verify", access.Read, d.verified)
	d.form(mux, "POST /ledger/verify", access.Read, d.verify)
	d.page(mux, "GET /verify", access.Public, d.checkProof)
	d.heavyPage(mux, "GET /trees", access.Private, d.trees)
	for _, path := range []string{"/trees/oracle", "/trees/agents/{name}",
		"/trees/subagents/{name}"} {
		d.heavyPage(mux, "GET "+path, access.Private, d.tree)
	}
	d.heavyPage(mux, "GET /trees/{run}", access.Private, d.treeRun)
	d.page(mux, "GET /login", access.Public, d.login)
	d.form(mux, "POST /questions/{question}/answer", access.Answer, d.answer)
	d.form(mux, "POST /work/{task}/approve", access.Answer, d.approve)
	d.form(mux, "POST /work/{task}/reject", access.Answer, d.rework)
	d.form(mux, "POST /work/{task}/rework", access.Answer, d.rework)
	d.form(mux, "POST /work/{task}/findings/{finding}/waive", access.Answer, d.waive)
	d.form(mux, "POST /work/{task}/tell", access.Answer, d.tell)
	d.form(mux, "POST /work/{task}/order", access.Operate, d.order)
	d.form(mux, "POST /oracle", access.Operate, d.ask)
	mux.HandleFunc("POST /login", d.logIn)
	mux.HandleFunc("POST /logout", d.logOut)
	static, err := fs.Sub(files, "static")
	if err != nil {
		panic(err) // the folder is embedded
	}
	mux.Handle("GET /static/tree-picture.css", d.headers(http.HandlerFunc(d.treeStyle)))
	mux.Handle("GET /static/{file}",
		d.headers(http.StripPrefix("/static/", http.FileServerFS(static))))
}

// headers sets the headers of every answer.
func (d *Dashboard) headers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		setHeaders(w)
		next.ServeHTTP(w, r)
	})
}

func setHeaders(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	// with no-referrer, browsers send forms with Origin: null, which is refused
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}

// view is what a page shows: the name of its template, its title and its data.
type view struct {
	template, title string
	data            any
	status          int // 0 means 200
	// known is the status of the box, if the page has read it.
	known *inspect.Status
	// part is the template of a part of the page that is shown without the rest; "" means all of
	// the page.
	part string
	// redirect is the address of another page to show instead, and refresh of one to show next.
	redirect, refresh string
	// away is since when the ledger cannot be reached.
	away time.Time
}

// link is an entry of the navigation: the template of the page that it leads to, its path and its
// name.
type link struct{ Template, Path, Name string }

// navigation lists the pages that every page links to.
var navigation = []link{
	{"inbox", "/", "Inbox"},
	{"board", "/board", "Board"},
	{"run", "/run", "Run"},
	{"crew", "/crew", "Crew"},
	{"cost", "/cost", "Cost"},
	{"ledger", "/ledger", "Ledger"},
}

// navigationOf returns the pages that a caller may see, and that have something to show.
func (d *Dashboard) navigationOf(caller access.Caller) []link {
	pages := slices.Clone(navigation)
	if d.showsTrees(caller) {
		pages = append(pages, link{"trees", "/trees", "Trees"})
	}
	if d.showsPortfolio(caller) {
		pages = append(pages, link{"portfolio", "/portfolio", "Portfolio"})
	}
	if d.oracleReady() {
		pages = append(pages, link{"oracle", "/oracle", "Oracle"})
	}
	return pages
}

// frame is what every page has. A template can define "head" for a script or style sheet of its
// own.
type frame struct {
	Title, Project, Page string
	Pages                []link
	// Bare means that the page shows nothing of the box, because the caller may not read it, or is
	// asked to log in.
	Bare   bool
	Caller access.Caller
	// MayAnswer and MayOperate say what the caller may do. Forms that would be refused are not
	// shown.
	MayAnswer, MayOperate bool
	Waiting               int
	Standing              string
	Seq                   uint64
	// Away is since when the ledger cannot be reached. The page shows what was known then.
	Away time.Time
	Data any
}

// shower collects what a page shows.
type shower func(context.Context, *http.Request) (view, error)

// page adds a page.
func (d *Dashboard) page(mux *http.ServeMux, pattern string, scope access.Scope, show shower) {
	d.limitedPage(mux, pattern, scope, false, show)
}

// heavyPage adds a page that only a few callers can open at the same time.
func (d *Dashboard) heavyPage(mux *http.ServeMux, pattern string, scope access.Scope, show shower) {
	d.limitedPage(mux, pattern, scope, true, show)
}

// limitedPage adds a page that needs a slot if it is heavy.
func (d *Dashboard) limitedPage(mux *http.ServeMux, pattern string, scope access.Scope, heavy bool,
	show shower) {
	mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		setHeaders(w)
		w.Header().Set("Cache-Control", "no-store")
		caller, err := d.guard.Check(r, scope, false)
		if denied := (*access.DeniedError)(nil); errors.As(err, &denied) &&
			denied.Status == http.StatusUnauthorized {
			d.render(w, r, caller, view{template: "login", title: "Log in",
				status: http.StatusUnauthorized})
			return
		}
		if err == nil && heavy {
			slots := d.heavy
			if !caller.HasToken() {
				slots = d.publicHeavy
			}
			if err = slots.Enter(r.Context()); err == nil {
				defer slots.Leave()
				transfer.TakeTime(w)
			}
		}
		var v view
		if err == nil {
			v, err = d.showKnown(r, show)
		}
		if err != nil {
			d.fail(w, r, caller, err)
			return
		}
		if v.redirect != "" {
			http.Redirect(w, r, v.redirect, http.StatusSeeOther)
			return
		}
		d.render(w, r, caller, v)
	})
}

// awayPatience is how long a page waits for other things on the ledger if it cannot be reached.
const awayPatience = 2 * time.Second

// showKnown collects what a page shows. If the ledger cannot be reached, that is the last known
// state, as far as it suffices for the page.
func (d *Dashboard) showKnown(r *http.Request, show shower) (view, error) {
	ctx := r.Context()
	away, err := d.box.Engine.RefreshOrKnown(ctx)
	if err != nil {
		return view{}, err
	}
	if !away.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, awayPatience)
		defer cancel()
	}
	v, err := show(ctx, r)
	if err != nil && ctx.Err() != nil && r.Context().Err() == nil {
		err = fmt.Errorf("%w: the ledger does not answer", journal.ErrUnavailable)
	}
	v.away = away
	return v, err
}

// form adds a form that changes something, and then leads back to the page that it is on.
func (d *Dashboard) form(mux *http.ServeMux, pattern string, scope access.Scope,
	do func(*http.Request, access.Caller) error) {
	mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		setHeaders(w)
		limitBody(w)
		caller, err := d.guard.Check(r, scope, true)
		if err == nil {
			err = readForm(w, r)
		}
		if err == nil {
			err = do(r, caller)
		}
		if err != nil {
			d.fail(w, r, caller, err)
			return
		}
		http.Redirect(w, r, backTo(r.PostForm.Get("back")), http.StatusSeeOther)
	})
}

// backTo returns a path of this server, never another address. Browsers drop control characters and
// take a backslash for a slash, which could make "//" of something else.
func backTo(path string) string {
	unsafe := func(r rune) bool { return r < ' ' || r == 0x7f || r == '\\' }
	if !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") ||
		strings.ContainsFunc(path, unsafe) {
		return "/"
	}
	return path
}

// render writes a page.
func (d *Dashboard) render(w http.ResponseWriter, r *http.Request, caller access.Caller, v view) {
	f := frame{Title: v.title, Project: "signalbox", Page: v.template,
		Bare: v.template == "login" || !caller.Scope.Allows(access.Read), Caller: caller,
		MayAnswer:  caller.Scope.Allows(access.Answer),
		MayOperate: caller.Scope.Allows(access.Operate), Data: v.data}
	if !f.Bare {
		f.Project, f.Pages = d.opts.Name, d.navigationOf(caller)
	}
	if !f.Bare && v.part == "" {
		st, err := v.known, error(nil)
		if st == nil {
			ctx, cancel := context.WithTimeout(r.Context(), awayPatience)
			defer cancel()
			st, err = inspect.ReadStatus(ctx, d.box, d.opts.Now())
		}
		if err != nil {
			d.opts.Log.Error("the status cannot be read", "error", err)
			http.Error(w, "the page cannot be shown", http.StatusInternalServerError)
			return
		}
		questions, approvals := st.Waiting()
		f.Waiting, f.Standing, f.Seq, f.Away = questions+approvals, string(st.Standing), st.Events,
			v.away
		if st.Standing == rules.StandingWorking && st.Continue != "" {
			f.Standing = stopped
		}
	}
	var buf bytes.Buffer
	if err := d.pages[v.template].ExecuteTemplate(&buf, cmp.Or(v.part, "layout.html"),
		f); err != nil {
		d.opts.Log.Error("a page cannot be rendered", "page", v.template, "error", err)
		http.Error(w, "the page cannot be shown", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if v.refresh != "" {
		w.Header().Set("Refresh", "0;url="+v.refresh)
	}
	if v.status != 0 {
		w.WriteHeader(v.status)
	}
	transfer.NewWriter(w).Write(buf.Bytes()) // an error is that of a client that has left
}

// stopped is the standing of a run that could continue, and that no process carries out.
const stopped = "stopped"

// problem is an error for a person.
type problem struct{ Message, Hint string }

// fail shows an error.
func (d *Dashboard) fail(w http.ResponseWriter, r *http.Request, caller access.Caller, err error) {
	if r.Context().Err() != nil {
		return // the client has left
	}
	status, shown := access.StatusOf(err), problem{err.Error(), signalbox.HintOf(err)}
	if status == http.StatusInternalServerError {
		d.opts.Log.Error("a page failed", "path", r.URL.Path, "error", err)
		// the error may have paths of this machine
		shown = problem{"The page cannot be shown.", "The output of signalbox serve says why."}
	}
	if d.guard.CheckHost(r) != nil { // it is not a page of this server for whoever made the request
		http.Error(w, shown.Message, status)
		return
	}
	d.render(w, r, caller, view{template: "problem", title: "That did not work", data: shown,
		status: status})
}

// find returns the work item that a path names.
func (d *Dashboard) find(name string) (w *rules.Work, err error) {
	d.box.Engine.View(func(s *rules.State) { w, err = inspect.FindWork(s, name) })
	return w, err
}

func (d *Dashboard) login(_ context.Context, r *http.Request) (view, error) {
	return view{template: "login", title: "Log in", data: r.URL.Query().Get("link")}, nil
}

// logIn logs a browser in. It takes a form, not a link alone, so that programs that follow links do
// not use it up.
func (d *Dashboard) logIn(w http.ResponseWriter, r *http.Request) {
	setHeaders(w)
	limitBody(w)
	_, err := d.guard.Check(r, access.Public, true) // before the form is read
	if err == nil {
		err = readForm(w, r)
	}
	if err == nil {
		err = d.guard.LogIn(w, r, r.PostForm.Get("link"))
	}
	if err != nil {
		d.fail(w, r, access.Caller{}, err)
		return
	}
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

func (d *Dashboard) logOut(w http.ResponseWriter, r *http.Request) {
	setHeaders(w)
	limitBody(w)
	if err := d.guard.LogOut(w, r); err != nil {
		d.fail(w, r, access.Caller{}, err)
		return
	}
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}

// usage returns an error about a form.
func usage(format string, args ...any) error {
	return signalbox.CodeUsage.Errorf("", format, args...)
}

func notFound(format string, args ...any) error {
	return signalbox.CodeNotFound.Errorf("", format, args...)
}
