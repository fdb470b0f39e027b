package progress

import (
	"bytes"
	"io"
	"strings"
	"sync"
)

// DeferredWriter replaces standard error while a run is shown. It passes writes through, except
// while a screen is in use: then it keeps them until the screen is closed. It is safe for
// concurrent use.
type DeferredWriter struct {
	mu     sync.Mutex // guards what follows
	w      io.Writer
	held   bool
	kept   bytes.Buffer
	latest string
	notify func() // called after each write that is kept
}

// NewDeferredWriter returns a writer in front of w. Nothing else may write to w from then on.
func NewDeferredWriter(w io.Writer) *DeferredWriter { return &DeferredWriter{w: w} }

// maxKept limits what is kept.
const maxKept = 1 << 20

// Write writes the text, or keeps it while a screen is in use.
func (w *DeferredWriter) Write(text []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.held {
		return w.w.Write(text)
	}
	if w.kept.Len() < maxKept {
		w.kept.Write(text)
	}
	w.latest = strings.TrimSpace(string(text))
	w.notify()
	return len(text), nil
}

// hold starts keeping writes.
func (w *DeferredWriter) hold(notify func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held, w.notify = true, notify
}

// last returns the last write that was kept.
func (w *DeferredWriter) last() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.latest
}

// release writes what was kept and passes writes through again.
func (w *DeferredWriter) release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held = false
	w.w.Write(w.kept.Bytes()) // best effort, as for all of standard error
	w.kept.Reset()
	w.latest = ""
}
