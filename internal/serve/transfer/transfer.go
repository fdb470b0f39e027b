// Package transfer limits what clients can make a server wait for: how many do something at the same time, and how slowly they read.
package transfer

import (
	"context"
	"errors"
	"net/http"
	"time"
)

const (
	// ChunkTimeout is how long a client may take to read a chunk of ChunkSize bytes.
	ChunkTimeout = 30 * time.Second
	ChunkSize    = 64 << 10
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

// TakeTime lets an answer begin later than the server's limit for answers allows. Use a Writer to write it.
func TakeTime(w http.ResponseWriter) { http.NewResponseController(w).SetWriteDeadline(time.Time{}) }

// DropBody makes the server close the connection after the answer, and not wait for the rest of the body of a request that is refused.
func DropBody(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 {
		w.Header().Set("Connection", "close")
		http.NewResponseController(w).SetReadDeadline(time.Now())
	}
}

// Writer writes to a client in chunks. Each must be read in time, so that a client that does not read is dropped.
type Writer struct{ http.ResponseWriter }

func (w Writer) Write(data []byte) (n int, err error) {
	deadline := http.NewResponseController(w.ResponseWriter)
	for err == nil && n < len(data) {
		var written int
		deadline.SetWriteDeadline(time.Now().Add(ChunkTimeout)) // if that is not supported, the server's own limits apply
		written, err = w.ResponseWriter.Write(data[n:min(len(data), n+ChunkSize)])
		n += written
	}
	return n, err
}
