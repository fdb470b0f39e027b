package console

import (
	"strings"

	"signalbox/internal/oracle/chunk"
)

// TurnBuffer holds back the text of each turn until the turn is complete. It is for output that
// cannot be withdrawn: without it, a reply that is cut off and restarted would appear twice.
type TurnBuffer struct {
	next func(chunk.Chunk) error
	turn int
	text strings.Builder
}

// NewTurnBuffer returns a TurnBuffer that passes chunks on to next.
func NewTurnBuffer(next func(chunk.Chunk) error) *TurnBuffer { return &TurnBuffer{next: next} }

// Add adds a chunk. The error is that of next.
func (b *TurnBuffer) Add(c chunk.Chunk) error {
	switch c := c.(type) {
	case chunk.Content:
		if c.Turn != b.turn {
			if err := b.flush(); err != nil {
				return err
			}
		}
		b.turn = c.Turn
		b.text.WriteString(c.Text)
		return nil
	case chunk.Reasoning:
		return b.next(c)
	case chunk.System:
		switch c.Name {
		case chunk.ReplyRestarted, chunk.ReplyCut:
			b.text.Reset()
			return b.next(c)
		case chunk.Retry:
			return b.next(c)
		}
	}
	if err := b.flush(); err != nil {
		return err
	}
	return b.next(c)
}

func (b *TurnBuffer) flush() error {
	if b.text.Len() == 0 {
		return nil
	}
	text := b.text.String()
	b.text.Reset()
	return b.next(chunk.Content{Turn: b.turn, Text: text})
}
