// Package guard stands before a handler that only some may reach: it checks the Host, the Origin and a bearer token of each request, reads
// its body in time and within a limit, and makes all errors JSON. It knows nothing of what it guards.
package guard

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Options says whom to let in.
type Options struct {
	// Hosts are names and addresses, without a port, that callers may use beside those of the loopback; nil is none.
	Hosts []string
	// MaxBody is the size of the largest body, in bytes; 0 allows none.
	MaxBody int64
}

// bodyTime is the time to send the body in.
const bodyTime = 30 * time.Second

type guard struct {
	next    http.Handler
	token   [sha256.Size]byte
	hosts   []string
	maxBody int64
}

// New lets requests through to next that show the token, name a host that is this one, and do not come from a page of another origin. The
// body that next reads is there already.
func New(next http.Handler, token string, opts *Options) (http.Handler, error) {
	if strings.TrimSpace(token) == "" {
		return nil, errors.New("no token: over HTTP, also on loopback, callers need one, because an agent's own shell can reach it")
	}
	g := &guard{next: next, token: sha256.Sum256([]byte(token))}
	if opts != nil {
		g.hosts, g.maxBody = slices.Clone(opts.Hosts), opts.MaxBody
	}
	return Errors(g), nil
}

func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	status, why := g.admit(r)
	if status == http.StatusOK {
		status, why = g.takeBody(w, r)
	}
	switch status {
	case http.StatusOK:
		g.next.ServeHTTP(w, r)
		return
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", `Bearer realm="signalbox"`)
	}
	// Else the rest of the body would be waited for, from somebody who has shown nothing.
	w.Header().Set("Connection", "close")
	_ = http.NewResponseController(w).SetReadDeadline(time.Now())
	http.Error(w, why, status)
}

// admit says whether a request may be answered, or why not.
func (g *guard) admit(r *http.Request) (status int, why string) {
	if !g.isThisHost(r.Host) {
		return http.StatusForbidden, "this server is not known by that Host: use a loopback name, or have the operator add the name"
	}
	if origin := r.Header.Get("Origin"); origin != "" && !sameHost(origin, r.Host) {
		return http.StatusForbidden, "requests from pages of another Origin are refused"
	}
	scheme, shown, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	// The digests have one length, so that the time says nothing about the token, not even how long it is.
	digest := sha256.Sum256([]byte(strings.TrimSpace(shown)))
	if !strings.EqualFold(scheme, "Bearer") || subtle.ConstantTimeCompare(digest[:], g.token[:]) != 1 {
		return http.StatusUnauthorized, "show the token: Authorization: Bearer TOKEN"
	}
	return http.StatusOK, ""
}

// isThisHost tells whether a Host header names this server: by a name of the loopback, which no other site can make a browser send
// for its own, or by one that is configured.
func (g *guard) isThisHost(host string) bool {
	name := hostName(host)
	if name == "localhost" {
		return true
	}
	if address, err := netip.ParseAddr(name); err == nil && address.IsLoopback() {
		return true
	}
	return slices.ContainsFunc(g.hosts, func(known string) bool { return name != "" && strings.EqualFold(known, name) })
}

// hostName is a host without its port.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"))
}

// sameHost tells whether a page of an origin came from the host that it now calls.
func sameHost(origin, host string) bool {
	u, err := url.Parse(origin)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && strings.EqualFold(u.Host, host)
}

// takeBody reads the whole body, in time and within its limit, so that nobody holds a handler by sending slowly.
func (g *guard) takeBody(w http.ResponseWriter, r *http.Request) (status int, why string) {
	if r.Method != http.MethodPost {
		return http.StatusOK, ""
	}
	deadlines := http.NewResponseController(w)
	deadlines.SetReadDeadline(time.Now().Add(bodyTime)) // where it cannot be set the server's own limits hold
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, g.maxBody))
	deadlines.SetReadDeadline(time.Time{})
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return http.StatusRequestEntityTooLarge, fmt.Sprintf("the request is too large: %d bytes is the limit", g.maxBody)
	}
	if err != nil {
		return http.StatusBadRequest, "the request did not come in whole and in time"
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return http.StatusOK, ""
}

// jsonErrors makes errors that are plain text into JSON, in the form that callers of the protocol know.
type jsonErrors struct {
	http.ResponseWriter
	began  bool
	status int // of an error whose text is being collected
	text   bytes.Buffer
}

// Unwrap lets the controller of the response reach what is beneath.
func (w *jsonErrors) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *jsonErrors) WriteHeader(status int) {
	if w.began {
		return
	}
	w.began = true
	if status >= http.StatusBadRequest && !strings.HasPrefix(w.Header().Get("Content-Type"), "application/json") {
		w.status = status
		return
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *jsonErrors) Write(p []byte) (int, error) {
	if !w.began {
		w.WriteHeader(http.StatusOK)
	}
	if w.status != 0 {
		return w.text.Write(p)
	}
	return w.ResponseWriter.Write(p)
}

// Flush sends what was written so far, as streams of events need it.
func (w *jsonErrors) Flush() {
	if w.status == 0 {
		http.NewResponseController(w.ResponseWriter).Flush()
	}
}

// finish sends the error that was collected.
func (w *jsonErrors) finish() {
	if w.status == 0 {
		return
	}
	type fault struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	}
	body, err := json.Marshal(struct {
		Version string `json:"jsonrpc"`
		ID      *int   `json:"id"`
		Error   fault  `json:"error"`
	}{"2.0", nil, fault{-32000, oneLine(w.text.String())}})
	if err != nil {
		body = []byte("{}") // cannot be: all of it is text
	}
	w.Header().Del("Content-Length")
	w.Header().Set("Content-Type", "application/json")
	w.ResponseWriter.WriteHeader(w.status)
	w.ResponseWriter.Write(body)
}

// Errors makes the errors of a handler JSON.
func Errors(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		plain := &jsonErrors{ResponseWriter: w}
		defer plain.finish()
		next.ServeHTTP(plain, r)
	})
}

// oneLine is the text of an error on one line of a bearable length.
func oneLine(text string) string {
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "")), " ")
	if len(text) > 300 {
		text = strings.ToValidUTF8(text[:300], "") + "…"
	}
	return text
}
