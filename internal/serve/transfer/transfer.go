// Package transfer limits what clients can make a server wait for: how many do something at the
// same time, and how slowly they read.
package transfer

import (
	"context"
	"errors"
	"net/http"
	"time"
)

const (
	// ChunkSize is how many bytes are written at once, ChunkTime how long a client may take to read
	// them on average, and ChunkTimeout at most.
	ChunkSize    = 64 << 10
	ChunkTime    = time.Second
	ChunkTimeout = 30 * time.Second
)

// ErrBusy means that all slots were taken for too long.
var ErrBusy = errors.New("too many diffs, logs and verifications at the moment: try again")

// Slots limits how many requests do something at the same time.
type Slots struct {
	taken chan struct{}
	wait  time.Duration
}

// NewSlots returns n slots, for which a request waits at most for a time.
func NewSlots(n int, wait time.Duration) *Slots {
	return &Slots{taken: make(chan struct{}, n), wait: wait}
}

// Enter waits for a slot. After it has returned nil, the caller must call Leave.
func (s *Slots) Enter(ctx context.Context) error {
	select {
	case s.taken <- struct{}{}: // also if there is no time to wait
		return nil
	default:
	}
	timeout := time.NewTimer(s.wait)
	defer timeout.Stop()
	select {
	case s.taken <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-timeout.C:
		return ErrBusy
	}
}

// Leave returns a slot.
func (s *Slots) Leave() { <-s.taken }

// TakeTime lets an answer begin later than the server's limit for answers allows. Use a Writer to
// write it.
func TakeTime(w http.ResponseWriter) { http.NewResponseController(w).SetWriteDeadline(time.Time{}) }

// DropBody makes the server close the connection after the answer, and not wait for the rest of the
// body of a request that is refused.
func DropBody(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 {
		w.Header().Set("Connection", "close")
		http.NewResponseController(w).SetReadDeadline(time.Now())
	}
}

// Writer writes to a client in chunks. A client may pause for ChunkTimeout altogether, and gets
// back ChunkTime for each chunk that it has read. One that reads more slowly is dropped, so that it
// does not hold a slot or memory for long.
type Writer struct {
	w    http.ResponseWriter
	left time.Duration // for which the client may still pause
}

// NewWriter returns a writer for an answer.
func NewWriter(w http.ResponseWriter) *Writer { return &Writer{w, ChunkTimeout} }

func (w *Writer) Write(data []byte) (n int, err error) {
	deadline := http.NewResponseController(w.w)
	for err == nil && n < len(data) {
		start := time.Now()
		// if that is not supported, the server's own limits apply
		deadline.SetWriteDeadline(start.Add(w.left))
		var written int
		written, err = w.w.Write(data[n:min(len(data), n+ChunkSize)])
		n += written
		earned := ChunkTime * time.Duration(written) / ChunkSize
		w.left = min(ChunkTimeout, max(0, w.left-time.Since(start))+earned)
	}
	return n, err
}
