package progress

import (
	"bytes"
	"io"
	"strings"
	"sync"
)

// DeferredWriter replaces standard error while a run is shown. It passes writes through, except while a screen is in use:
// then it keeps them until the screen is closed. It is safe for concurrent use.
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
func (s *DeferredWriter) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.held {
		return s.w.Write(text)
	}
	if s.kept.Len() < maxKept {
		s.kept.Write(text)
	}
	s.latest = strings.TrimSpace(string(text))
	s.notify()
	return len(text), nil
}

// hold starts keeping writes.
func (s *DeferredWriter) hold(notify func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held, s.notify = true, notify
}

// last returns the last write that was kept.
func (s *DeferredWriter) last() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.latest
}

// release writes what was kept and passes writes through again.
func (s *DeferredWriter) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = false
	s.w.Write(s.kept.Bytes()) // best effort, as for all of standard error
	s.kept.Reset()
	s.latest = ""
}
