package stream

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"
)

// Filter selects events. A zero field selects all.
type Filter struct {
	Work string
	Type string
}

func (f Filter) matches(e *Entry) bool {
	return (f.Work == "" || f.Work == e.Work) && (f.Type == "" || f.Type == e.Type)
}

const (
	// heartbeat is how often a comment is sent on a quiet stream, so that proxies and clients
	// notice a lost connection.
	heartbeat = 15 * time.Second
	// writeTimeout is how long a client may take to read what is sent. A client that is cut off
	// resumes from its last event.
	writeTimeout = 30 * time.Second
	// sendBytes is how many bytes are collected before they are sent, which bounds the memory for a
	// client that does not read.
	sendBytes = 64 << 10
	// retryMillis is how long a browser waits before it connects again.
	retryMillis = 1000
)

// Serve sends the events after an event as a stream of server-sent events until the client leaves
// or ctx is done. The id of each is its sequence number. Events that the filter leaves out are not
// sent; the id of a comment line tells the client how far it has come. The stream ends with the
// error of allowed, which is called before everything that is sent.
func (h *Hub) Serve(ctx context.Context, w http.ResponseWriter, after uint64, f Filter,
	allowed func() error) error {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	out := http.NewResponseController(w)
	send := func(data []byte) error {
		if err := out.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil &&
			!errors.Is(err, http.ErrNotSupported) {
			return err
		}
		if _, err := w.Write(data); err != nil {
			return err
		}
		return out.Flush()
	}
	if err := send([]byte("retry: " + strconv.Itoa(retryMillis) + "\n\n")); err != nil {
		return err
	}
	var buf bytes.Buffer
	var entries []Entry
	for {
		if len(entries) == 0 {
			var err error
			if entries, err = h.nextWithin(ctx, after, heartbeat); err != nil {
				return err
			}
		}
		buf.Reset()
		for len(entries) > 0 && buf.Len() < sendBytes {
			after = entries[0].Seq
			if f.matches(&entries[0]) {
				writeEvent(&buf, &entries[0])
			}
			entries = entries[1:]
		}
		if buf.Len() == 0 {
			// An event without data only sets the id from which a client resumes.
			buf.WriteString("id: " + strconv.FormatUint(after, 10) + "\n: \n\n")
		}
		if err := allowed(); err != nil {
			return err
		}
		if err := send(buf.Bytes()); err != nil {
			return err
		}
	}
}

// nextWithin is Next, but returns no events after a while.
func (h *Hub) nextWithin(ctx context.Context, after uint64, d time.Duration) ([]Entry, error) {
	within, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	entries, err := h.Next(within, after)
	if err != nil && within.Err() != nil && ctx.Err() == nil {
		return nil, nil
	}
	return entries, err
}

func writeEvent(buf *bytes.Buffer, e *Entry) {
	buf.WriteString("id: ")
	buf.WriteString(strconv.FormatUint(e.Seq, 10))
	buf.WriteString("\ndata: ")
	buf.Write(e.JSON) // JSON has no line ends
	buf.WriteString("\n\n")
}
