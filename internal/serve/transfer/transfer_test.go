package transfer

import (
	"context"
	"errors"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"signalbox/internal/testkit/must"
)

// connection is a client's connection, which records the deadline.
type connection struct {
	*httptest.ResponseRecorder
	writeBy time.Time
	write   func([]byte) (int, error)
}

func (c *connection) SetWriteDeadline(t time.Time) error { c.writeBy = t; return nil }
func (c *connection) Write(p []byte) (int, error)        { return c.write(p) }

// TestWriter writes to clients that read and that do not.
func TestWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 5*ChunkSize + 1
		got, writes := 0, 0
		c := &connection{ResponseRecorder: httptest.NewRecorder()}
		c.write = func(p []byte) (int, error) {
			if left := time.Until(c.writeBy); left != ChunkTimeout || len(p) > ChunkSize {
				t.Errorf("%d bytes with %v left", len(p), left)
			}
			got, writes = got+len(p), writes+1
			time.Sleep(ChunkTime * time.Duration(len(p)) / ChunkSize) // of the bubble
			return len(p), nil
		}
		if n, err := NewWriter(c).Write(make([]byte, size)); n != size || err != nil ||
			got != size || writes != 6 {
			t.Errorf("%d bytes, %v: %d in %d chunks", n, err, got, writes)
		}
		writes = 0
		c.write = func([]byte) (int, error) { writes++; return 0, errors.New("i/o timeout") }
		if n, err := NewWriter(c).Write(make([]byte, size)); n != 0 || err == nil || writes != 1 {
			t.Errorf("%d bytes, %v: %d chunks to a client that does not read", n, err, writes)
		}
	})
}

// TestSlowReader writes to a client that reads each chunk just in time: it is dropped soon, and not
// after 30 seconds for each chunk.
func TestSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 24 << 20
		c := &connection{ResponseRecorder: httptest.NewRecorder()}
		c.write = func(p []byte) (int, error) {
			left := time.Until(c.writeBy)
			if left < 2*ChunkTime {
				time.Sleep(left)
				return 0, errors.New("i/o timeout")
			}
			time.Sleep(max(2*ChunkTime, left-ChunkTime))
			return len(p), nil
		}
		start := time.Now()
		n, err := NewWriter(c).Write(make([]byte, size))
		if took := time.Since(start); err == nil ||
			took > ChunkTimeout+time.Duration(n/ChunkSize)*ChunkTime {
			t.Errorf("%d bytes in %v, %v", n, took, err)
		}
	})
}

func TestSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const wait = 10 * time.Second
		s := NewSlots(1, wait)
		must.Succeed(t, s.Enter(t.Context()))
		start := time.Now()
		if err := s.Enter(t.Context()); !errors.Is(err, ErrBusy) || time.Since(start) != wait {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.Enter(gone); !errors.Is(err, context.Canceled) {
			t.Error("a client that has left:", err)
		}
		time.AfterFunc(time.Second, s.Leave)
		if err := s.Enter(t.Context()); err != nil {
			t.Error("after another has left:", err)
		}
	})
}
