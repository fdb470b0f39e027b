package dashboard

import (
	"io"
	"net/http"
	"time"

	"signalbox/internal/serve/access"
)

// Limits of what clients can make the dashboard wait for.
const (
	// maxForm is the largest form. Answers are text of people.
	maxForm = 256 << 10
	// formTimeout is for sending a form.
	formTimeout = 10 * time.Second
	// maxHeavy is the number of heavy pages at the same time, maxPublicHeavy how many besides for
	// callers without a token, who must not keep others out, and heavyWait how long a request waits
	// for its turn.
	maxHeavy       = 4
	maxPublicHeavy = 2
	heavyWait      = 10 * time.Second
)

// limitBody sets a deadline for the body of a request, also for a body that is refused: the server
// reads the rest of it. Call readForm to read it.
func limitBody(w http.ResponseWriter) {
	http.NewResponseController(w).SetReadDeadline(time.Now().Add(formTimeout))
}

// readForm reads the form of a request, after limitBody.
func readForm(w http.ResponseWriter, r *http.Request) error {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	err := r.ParseForm()
	if err == nil {
		_, err = io.Copy(io.Discard, r.Body) // ParseForm does not read a body of another type
	}
	if err != nil {
		return &access.DeniedError{Status: http.StatusBadRequest,
			Message: "the form is incomplete or too large"}
	}
	// otherwise, it would cancel the request while that is carried out
	http.NewResponseController(w).SetReadDeadline(time.Time{})
	return nil
}
