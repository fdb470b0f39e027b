// Package auth restricts access to an HTTP handler: it checks the Host, the Origin and the bearer
// token of each request, and reads its body within a time and size limit. The token identifies the
// client. All errors are JSON.
package auth

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"

	"signalbox/internal/serve/access"
	"signalbox/internal/text"
)

// Options configures which requests are accepted.
type Options struct {
	// Hosts are names and addresses, without a port, that clients may use in addition to loopback
	// names. Nil means none.
	Hosts []string
	// MaxBody is the maximum size of a request body, in bytes. 0 allows only empty bodies.
	MaxBody int64
}

// bodyTimeout is how long a client may take to send the body.
const bodyTimeout = 30 * time.Second

// Client is a client of the handler.
type Client struct{ Name, Token string }

type handler struct {
	next    http.Handler
	names   []string
	tokens  [][sha256.Size]byte // of the client at the same index of names
	hosts   []string
	maxBody int64
}

// New returns a handler that passes a request to next only if it has the token of a client, names
// this host, and does not come from a page of another origin. The body has then been read
// completely, and ClientFrom returns the name of the client. Each client must have a name and a
// token of its own.
func New(next http.Handler, clients []Client, opts *Options) (http.Handler, error) {
	h := &handler{next: next}
	for _, c := range clients {
		digest := sha256.Sum256([]byte(c.Token))
		switch {
		case strings.TrimSpace(c.Token) == "":
			return nil, fmt.Errorf(
				"no token for client '%s': HTTP clients need one, even on loopback, because an agent's own shell can connect", c.Name)
		case strings.ContainsFunc(c.Token, unicode.IsSpace):
			return nil, fmt.Errorf("the token of client '%s' contains a space", c.Name)
		case c.Name == "" || slices.Contains(h.names, c.Name):
			return nil, fmt.Errorf("two clients have the name '%s'", c.Name)
		case slices.Contains(h.tokens, digest):
			return nil, fmt.Errorf("client '%s' has the token of another client", c.Name)
		}
		h.names, h.tokens = append(h.names, c.Name), append(h.tokens, digest)
	}
	if len(h.names) == 0 {
		return nil, errors.New("no clients")
	}
	if opts != nil {
		h.hosts, h.maxBody = slices.Clone(opts.Hosts), opts.MaxBody
	}
	return JSONErrors(h), nil
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	client, status, message := h.authorize(r)
	if status == http.StatusOK {
		status, message = h.readBody(w, r)
	}
	switch status {
	case http.StatusOK:
		h.next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), clientKey{}, client)))
		return
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", `Bearer realm="signalbox"`)
	}
	// Do not wait for the rest of the body of a client that is not authorized.
	w.Header().Set("Connection", "close")
	_ = http.NewResponseController(w).SetReadDeadline(time.Now())
	http.Error(w, message, status)
}

type clientKey struct{}

// ClientFrom returns the name of the client that made a request, from the context of the request.
func ClientFrom(ctx context.Context) string {
	name, _ := ctx.Value(clientKey{}).(string)
	return name
}

// authorize returns the client and StatusOK if a request is allowed, and otherwise an error status
// and message.
func (h *handler) authorize(r *http.Request) (client string, status int, message string) {
	if !access.IsThisHost(r.Host, h.hosts) {
		return "", http.StatusForbidden,
			"unknown Host: use a loopback name, or ask the operator to add this one with --host"
	}
	if origin := r.Header.Get("Origin"); origin != "" && !access.SameHost(origin, r.Host) {
		return "", http.StatusForbidden, "requests from pages of another Origin are not allowed"
	}
	scheme, shown, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	// Digests have the same length, so that the time of the comparison does not even reveal the
	// length of the token.
	digest := sha256.Sum256([]byte(strings.TrimSpace(shown)))
	for i := range h.tokens {
		if subtle.ConstantTimeCompare(digest[:], h.tokens[i][:]) == 1 {
			client = h.names[i]
		}
	}
	if client == "" || !strings.EqualFold(scheme, "Bearer") {
		return "", http.StatusUnauthorized, "send the token: Authorization: Bearer TOKEN"
	}
	return client, http.StatusOK, ""
}

// readBody reads the whole body, within its size limit and timeout, so that a slow client does not
// occupy a handler.
func (h *handler) readBody(w http.ResponseWriter, r *http.Request) (status int, message string) {
	if r.Method != http.MethodPost {
		return http.StatusOK, ""
	}
	deadlines := http.NewResponseController(w)
	// if that is not supported, the server's own limits apply
	deadlines.SetReadDeadline(time.Now().Add(bodyTimeout))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, h.maxBody))
	deadlines.SetReadDeadline(time.Time{})
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return http.StatusRequestEntityTooLarge,
			fmt.Sprintf("the request is too large: %d bytes is the limit", h.maxBody)
	}
	if err != nil {
		return http.StatusBadRequest, "the request is incomplete or too slow"
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return http.StatusOK, ""
}

// jsonErrors converts plain text errors to JSON-RPC errors.
type jsonErrors struct {
	http.ResponseWriter
	began  bool
	status int // of an error whose text is being buffered
	text   bytes.Buffer
}

// Unwrap is for http.ResponseController.
func (w *jsonErrors) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *jsonErrors) WriteHeader(status int) {
	if w.began {
		return
	}
	w.began = true
	if status >= http.StatusBadRequest && !strings.HasPrefix(w.Header().Get("Content-Type"),
		"application/json") {
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

// Flush implements [http.Flusher], which event streams need.
func (w *jsonErrors) Flush() {
	if w.status == 0 {
		http.NewResponseController(w.ResponseWriter).Flush()
	}
}

// finish sends the buffered error.
func (w *jsonErrors) finish() {
	if w.status == 0 {
		return
	}
	type rpcError struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	}
	body, err := json.Marshal(struct {
		Version string   `json:"jsonrpc"`
		ID      *int     `json:"id"`
		Error   rpcError `json:"error"`
	}{"2.0", nil, rpcError{-32000, text.Shorten(text.OneLine(w.text.String()), 300)}})
	if err != nil {
		body = []byte("{}") // cannot happen
	}
	w.Header().Del("Content-Length")
	w.Header().Set("Content-Type", "application/json")
	w.ResponseWriter.WriteHeader(w.status)
	w.ResponseWriter.Write(body)
}

// JSONErrors returns a handler that sends the plain text errors of next as JSON.
func JSONErrors(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		plain := &jsonErrors{ResponseWriter: w}
		defer plain.finish()
		next.ServeHTTP(plain, r)
	})
}
