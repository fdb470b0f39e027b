package progress

import (
	"bytes"
	"io"
	"strings"
	"sync"
)

// Sideline is standard error while a run is shown: several goroutines write to it, and what they write while the screen is in
// use is kept until it is free.
type Sideline struct {
	mu     sync.Mutex // guards what follows
	w      io.Writer
	held   bool
	kept   bytes.Buffer
	latest string
	heard  func() // called for what is kept
}

// NewSideline returns a sideline that writes to w. From then on nothing else may: the program's standard error is replaced by it.
func NewSideline(w io.Writer) *Sideline { return &Sideline{w: w} }

// maxKept is how much is kept of what is written meanwhile.
const maxKept = 1 << 20

// Write writes, or keeps the text. It may be called by any number of goroutines.
func (s *Sideline) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.held {
		return s.w.Write(text)
	}
	if s.kept.Len() < maxKept {
		s.kept.Write(text)
	}
	s.latest = strings.TrimSpace(string(text))
	s.heard()
	return len(text), nil
}

// hold keeps what is written from here on.
func (s *Sideline) hold(heard func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held, s.heard = true, heard
}

// last is the last thing that was kept.
func (s *Sideline) last() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.latest
}

// letGo writes what was kept, and keeps no more.
func (s *Sideline) letGo() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = false
	s.w.Write(s.kept.Bytes()) // best effort, as all that goes to standard error
	s.kept.Reset()
	s.latest = ""
}
