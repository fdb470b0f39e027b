package dashboard

import (
	"context"
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
	// chunkTimeout is for reading a chunk of a page.
	chunkTimeout = 30 * time.Second
	chunkSize    = 64 << 10
	// maxHeavy is the number of heavy pages at the same time, and heavyWait how long a request waits for its turn.
	maxHeavy  = 4
	heavyWait = 10 * time.Second
)

// slots limits how many requests do something at the same time.
type slots struct {
	taken chan struct{}
	wait  time.Duration
}

func newSlots(n int, wait time.Duration) *slots {
	return &slots{taken: make(chan struct{}, n), wait: wait}
}

// enter waits for a slot. The caller must leave.
func (s *slots) enter(ctx context.Context) error {
	timeout := time.NewTimer(s.wait)
	defer timeout.Stop()
	select {
	case s.taken <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-timeout.C:
		return &access.DeniedError{Status: http.StatusServiceUnavailable, Message: "too many diffs and logs are being read at the moment: try again"}
	}
}

func (s *slots) leave() { <-s.taken }

// limitBody sets a deadline for the body of a request, also for a body that is refused: the server reads the rest of it. Call readForm to
// read it.
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
		return &access.DeniedError{Status: http.StatusBadRequest, Message: "the form is incomplete or too large"}
	}
	http.NewResponseController(w).SetReadDeadline(time.Time{}) // otherwise, it would cancel the request while that is carried out
	return nil
}

// writePage writes a page in chunks. Each must be read in time, so that a client that does not read is dropped.
func writePage(w http.ResponseWriter, page []byte) {
	deadline := http.NewResponseController(w)
	for len(page) > 0 {
		n := min(len(page), chunkSize)
		deadline.SetWriteDeadline(time.Now().Add(chunkTimeout))
		if _, err := w.Write(page[:n]); err != nil {
			return // the client has left
		}
		page = page[n:]
	}
}
