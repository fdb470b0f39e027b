package api

import (
	"context"
	"errors"
	"net/http"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/serve/access"
	"signalbox/internal/text"
)

// Problem is the answer to a request that failed.
type Problem struct {
	Error string `json:"error"`
	// Hint is what to do about it.
	Hint string `json:"hint,omitempty"`
	// Reason is why the rules refused a signal or a claim, such as stale_lease.
	Reason signalbox.Reason `json:"reason,omitempty"`
}

// fail answers a request with an error. An answer that has started stays as it is.
func (a *API) fail(w http.ResponseWriter, r *http.Request, err error) {
	status := statusOf(err)
	if status == 0 || r.Context().Err() != nil {
		return // the client has left
	}
	problem := Problem{Error: text.Shorten(err.Error(), 1000), Hint: signalbox.HintOf(err)}
	if refused := (*rules.RefusedError)(nil); errors.As(err, &refused) {
		problem.Reason = refused.Reason
	}
	switch status {
	case http.StatusInternalServerError:
		a.opts.Log.Error("a request failed", "method", r.Method, "path", r.URL.Path, "error", err)
		// the error may have paths of this machine
		problem = Problem{Error: "the request failed: see the output of signalbox serve"}
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", `Bearer realm="signalbox"`)
	}
	writeJSON(w, status, problem)
}

// statusOf returns the HTTP status for an error, 0 if the client has left.
func statusOf(err error) int {
	switch {
	case errors.Is(err, rules.ErrNothingToClaim):
		return http.StatusNotFound
	case errors.Is(err, context.Canceled):
		return 0
	}
	return access.StatusOf(err)
}
