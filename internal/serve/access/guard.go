// Package access decides which HTTP requests are allowed, and who makes them.
//
// A request is allowed if it names this server in its Host header, does not come from a page of
// another origin, and has a token whose scope includes what it needs. Checking the Host stops DNS
// rebinding: a web page can make a browser connect to 127.0.0.1, but not send another name than its
// own. A token is needed even on loopback, because every user and every agent on the machine can
// connect to it. Reading needs none there if the server is told so, except for what is private.
//
// Tokens have scopes and are stored as digests. A browser logs in by a link that works once, and
// then has a cookie.
package access

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"signalbox"
	"signalbox/internal/core/journal"
	"signalbox/internal/serve/transfer"
)

// leasePrefix is how the secret of a lease begins.
const leasePrefix = "secret-"

// cookiePrefix begins the name of the cookie of a browser that has logged in.
const cookiePrefix = "signalbox-"

// Options configures a Guard.
type Options struct {
	// Hosts are names and addresses, without a port, by which clients may reach the server besides
	// loopback names. Nil means none.
	Hosts []string
	// AnonymousReads allows reading without a token under a loopback name. Use it only for a server
	// that listens on loopback.
	AnonymousReads bool
	// Box is the id of the box, which is part of the name of the cookie: browsers send the cookies
	// of a host to all of its ports.
	Box string
	// LoginHost is the host name under which browsers on this machine log in; see Store.LoginHost.
	// The cookie does not count under other loopback names. Empty means that it counts under all of
	// them.
	LoginHost string
	// Now returns the time; nil means time.Now.
	Now func() time.Time
}

// Guard checks requests.
type Guard struct {
	store *Store
	opts  Options
}

// NewGuard returns a guard that knows the tokens of a store.
func NewGuard(store *Store, opts *Options) *Guard {
	g := &Guard{store: store}
	if opts != nil {
		g.opts = *opts
		g.opts.Hosts = slices.Clone(opts.Hosts)
	}
	if g.opts.Now == nil {
		g.opts.Now = time.Now
	}
	return g
}

// Caller is who makes a request.
type Caller struct {
	// Name is the name of the token, "" for a reader without one.
	Name  string
	Scope Scope
	// Browser means that the caller has a cookie, not a token.
	Browser bool
	// LeaseSecret is the secret of a lease, which the caller sent instead of a token. Nothing has
	// checked it: the rules do, when the caller uses the lease.
	LeaseSecret string
}

// HasToken reports whether the caller has a token or a cookie of this server.
func (c Caller) HasToken() bool { return c.Name != "" }

// DeniedError is why a request is not allowed. Status is the HTTP status of the answer.
type DeniedError struct {
	Status  int
	Message string
}

func (e *DeniedError) Error() string { return e.Message }

// StatusOf returns the HTTP status for an error.
func StatusOf(err error) int {
	if denied, ok := errors.AsType[*DeniedError](err); ok {
		return denied.Status
	}
	if errors.Is(err, transfer.ErrBusy) || errors.Is(err, journal.ErrUnavailable) {
		return http.StatusServiceUnavailable
	}
	switch signalbox.CodeOf(err) {
	case signalbox.CodeUsage:
		return http.StatusBadRequest
	case signalbox.CodeNotFound:
		return http.StatusNotFound
	case signalbox.CodeConflict:
		return http.StatusConflict
	case signalbox.CodeFailed:
		return http.StatusUnprocessableEntity
	}
	return http.StatusInternalServerError
}

func denied(status int, message string) error { return &DeniedError{status, message} }

// Check returns who makes a request, or a *DeniedError if it may not be made. needed is the scope
// that the request needs; writes says that it changes something.
func (g *Guard) Check(r *http.Request, needed Scope, writes bool) (Caller, error) {
	if !g.isThisHost(r.Host) {
		return Caller{}, denied(http.StatusForbidden,
			"unknown Host: use a loopback name, or ask the operator to add this one with --host")
	}
	if err := checkOrigin(r, writes); err != nil {
		return Caller{}, err
	}
	caller, err := g.identify(r)
	if err != nil {
		return Caller{}, err
	}
	switch {
	case needed == Public, caller.Scope.Allows(needed), caller.LeaseSecret != "" &&
		needed.isSession():
		return caller, nil
	case caller.LeaseSecret != "":
		return Caller{}, denied(http.StatusForbidden,
			"the secret of a lease is only for the operations of its session")
	case caller.Scope != Public:
		return Caller{}, denied(http.StatusForbidden, "the token has the scope "+
			string(caller.Scope)+", and this needs "+string(needed.OfToken()))
	case needed == Read && !writes && g.opts.AnonymousReads && g.isLoopbackName(r.Host):
		return Caller{Scope: Read}, nil
	}
	return Caller{}, denied(http.StatusUnauthorized,
		"send a token (Authorization: Bearer TOKEN), which signalbox token create prints, or log in with the link that signalbox token link prints")
}

// identify returns who sends a token or a cookie. A request with neither has a caller without a
// scope; one with a wrong token is denied, so that its sender learns of it.
func (g *Guard) identify(r *http.Request) (Caller, error) {
	if header := r.Header.Get("Authorization"); header != "" {
		scheme, secret, _ := strings.Cut(header, " ")
		if !strings.EqualFold(scheme, "Bearer") {
			return Caller{}, denied(http.StatusUnauthorized,
				"send the token as Authorization: Bearer TOKEN")
		}
		secret = strings.TrimSpace(secret)
		if strings.HasPrefix(secret, leasePrefix) {
			return Caller{LeaseSecret: secret}, nil
		}
		t, err := g.find(secret, KindToken)
		return Caller{Name: t.Name, Scope: t.Scope}, err
	}
	cookie, err := r.Cookie(g.CookieName())
	if err != nil || cookie.Value == "" || !g.takesCookies(r.Host) {
		return Caller{}, nil
	}
	t, err := g.find(cookie.Value, KindBrowser)
	if d := (*DeniedError)(nil); errors.As(err, &d) {
		// an expired cookie stays in the browser: it is asked to log in where that is needed
		return Caller{}, nil
	}
	return Caller{Name: t.Name, Scope: t.Scope, Browser: true}, err
}

func (g *Guard) find(secret string, kind Kind) (Token, error) {
	t, err := g.store.Find(secret, g.opts.Now(), kind)
	switch {
	case errors.Is(err, ErrExpiredToken):
		at := t.Expires.UTC().Format(time.DateTime)
		err = denied(http.StatusUnauthorized,
			"the token "+t.Name+" expired at "+at+" UTC: signalbox token create prints another one")
	case errors.Is(err, ErrUnknownToken):
		err = denied(http.StatusUnauthorized, err.Error())
	}
	return t, err
}

// checkOrigin denies requests that pages of another origin make. Browsers send Sec-Fetch-Site with
// every request, and Origin with those that may change something; programs send neither.
func checkOrigin(r *http.Request, writes bool) error {
	message := "requests from pages of another origin are not allowed"
	if origin := r.Header.Get("Origin"); origin != "" && !SameHost(origin, r.Host) {
		return denied(http.StatusForbidden, message)
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return nil
	case "same-site", "cross-site":
		// A link on another page may lead to a page of the dashboard.
		if writes || r.Header.Get("Sec-Fetch-Mode") != "navigate" ||
			r.Header.Get("Sec-Fetch-Dest") != "document" {
			return denied(http.StatusForbidden, message)
		}
		return nil
	}
	return denied(http.StatusForbidden, "unknown value of Sec-Fetch-Site")
}

// CookieName returns the name of the cookie of a browser that has logged in.
func (g *Guard) CookieName() string { return cookiePrefix + g.opts.Box }

// CheckHost denies a request that names another host, or that a page of another origin makes. Check
// does the same and more.
func (g *Guard) CheckHost(r *http.Request) error {
	if !g.isThisHost(r.Host) {
		return denied(http.StatusForbidden,
			"unknown Host: use a loopback name, or ask the operator to add this one with --host")
	}
	return checkOrigin(r, r.Method != http.MethodGet && r.Method != http.MethodHead)
}

func (g *Guard) isThisHost(host string) bool {
	return IsThisHost(host, g.opts.Hosts) || g.isLoopbackName(host)
}

// IsThisHost reports whether a Host header names this server, by a loopback name or by one of the
// known names and addresses. A web page cannot make a browser send a loopback name for its own
// host, so this stops DNS rebinding.
func IsThisHost(host string, known []string) bool {
	name := hostName(host)
	return isLoopback(name) ||
		slices.ContainsFunc(known,
			func(known string) bool { return name != "" && strings.EqualFold(known, name) })
}

// isLoopbackName reports whether a Host header is a name of this machine, or the one under which
// browsers log in.
func (g *Guard) isLoopbackName(host string) bool {
	name := hostName(host)
	return isLoopback(name) || name != "" && name == g.opts.LoginHost
}

// takesCookies reports whether a browser can be logged in under the name in a Host header. It
// cannot under an ordinary loopback name: a program on another port of it, such as one of an agent,
// would get the cookie.
func (g *Guard) takesCookies(host string) bool {
	return g.opts.LoginHost == "" || !isLoopback(hostName(host))
}

// isLoopback reports whether a host without its port is always this machine.
func isLoopback(name string) bool {
	address, err := netip.ParseAddr(name)
	return name == "localhost" || err == nil && address.IsLoopback()
}

// IsLocalName reports whether a Host header has a name that browsers resolve to their own machine:
// localhost, or a name below it.
func IsLocalName(host string) bool {
	name := strings.TrimSuffix(hostName(host), ".")
	return name == "localhost" || strings.HasSuffix(name, ".localhost")
}

// hostName returns a host without its port, in lower case.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"))
}

// SameHost reports whether an origin is the host of a request.
func SameHost(origin, host string) bool {
	u, err := url.Parse(origin)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") &&
		strings.EqualFold(u.Host, host)
}

// LinkLife is how long a login link works, and cookieLife how long a browser stays logged in.
const (
	LinkLife   = 15 * time.Minute
	cookieLife = 30 * 24 * time.Hour
)

// NewLink creates a secret for a login link, for a browser with a scope.
func (s *Store) NewLink(ctx context.Context, name string, scope Scope,
	now time.Time) (secret string, err error) {
	return s.Create(ctx, Token{Name: name, Kind: KindLink, Scope: scope, Created: now,
		Expires: now.Add(LinkLife)})
}

// LogIn exchanges the secret of a login link for a cookie, which it sets. The request must come
// from a page of this server.
func (g *Guard) LogIn(w http.ResponseWriter, r *http.Request, secret string) error {
	if err := g.CheckHost(r); err != nil {
		return err
	}
	if !g.takesCookies(r.Host) {
		return denied(http.StatusForbidden,
			"open the link as it was printed: under another name, programs on other ports of this machine would get the cookie")
	}
	value, err := g.store.Redeem(r.Context(), secret, g.opts.Now(), cookieLife)
	if errors.Is(err, ErrUnknownToken) {
		return denied(http.StatusUnauthorized,
			"the link has expired or was used: signalbox token link prints another one")
	}
	if err != nil {
		return err
	}
	http.SetCookie(w, &http.Cookie{Name: g.CookieName(), Value: value, Path: "/",
		MaxAge: int(cookieLife / time.Second), HttpOnly: true,
		Secure: r.TLS != nil, SameSite: http.SameSiteLaxMode})
	return nil
}

// LogOut revokes the cookie of a request and removes it from the browser.
func (g *Guard) LogOut(w http.ResponseWriter, r *http.Request) error {
	caller, err := g.Check(r, Public, true)
	if err != nil {
		return err
	}
	http.SetCookie(w, &http.Cookie{Name: g.CookieName(), Path: "/", MaxAge: -1, HttpOnly: true,
		Secure: r.TLS != nil, SameSite: http.SameSiteLaxMode})
	if !caller.Browser {
		return nil
	}
	if err := g.store.Revoke(r.Context(),
		caller.Name); signalbox.CodeOf(err) != signalbox.CodeNotFound {
		return err
	}
	return nil
}
