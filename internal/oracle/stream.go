package oracle

import (
	"context"
	"strings"
	"sync"

	"signalbox/internal/oracle/chunk"
)

// stream passes chunks to emit, one at a time and none after Done.
type stream struct {
	mu     sync.Mutex // guards the fields below and the calls of emit
	emit   Emit
	done   bool
	err    error // of emit
	last   chunk.Content
	cancel context.CancelCauseFunc
}

// send emits a chunk. After an error of emit the conversation is cancelled and further chunks are
// dropped.
func (s *stream) send(c chunk.Chunk) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done || s.err != nil {
		return
	}
	_, s.done = c.(chunk.Done)
	if text, ok := c.(chunk.Content); ok {
		s.last = text
	}
	if s.err = s.emit(c); s.err != nil {
		s.cancel(s.err)
	}
}

// midLine reports whether the content of a turn so far ends in the middle of a line.
func (s *stream) midLine(turn int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last.Turn == turn && s.last.Text != "" && !strings.HasSuffix(s.last.Text, "\n")
}

// Err returns the error of emit, if any.
func (s *stream) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}
