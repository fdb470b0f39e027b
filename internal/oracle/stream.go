package oracle

import (
	"context"
	"strings"
	"sync"

	"signalbox/internal/oracle/chunk"
)

// stream hands chunks to whoever listens: one at a time, and none after Done.
type stream struct {
	mu     sync.Mutex // guards all below, and the calls of emit
	emit   Emit
	done   bool
	err    error // why nobody listens any more
	last   chunk.Content
	cancel context.CancelCauseFunc
}

// send hands a chunk over. Once nobody takes them the conversation is cancelled, and chunks are dropped.
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

// midLine tells whether content of a turn would go on in the middle of a line.
func (s *stream) midLine(turn int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last.Turn == turn && s.last.Text != "" && !strings.HasSuffix(s.last.Text, "\n")
}

// failed is why nobody listens any more, nil if somebody does.
func (s *stream) failed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}
