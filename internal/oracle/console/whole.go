package console

import (
	"strings"

	"signalbox/internal/oracle/chunk"
)

// WholeTurns holds the text of a turn back until the turn is whole: whoever cannot take back what was printed must not get a
// reply that was cut off and begins again twice.
type WholeTurns struct {
	next func(chunk.Chunk) error
	turn int
	text strings.Builder
}

// NewWholeTurns returns one that hands chunks on to a function.
func NewWholeTurns(next func(chunk.Chunk) error) *WholeTurns { return &WholeTurns{next: next} }

// Take takes the next chunk. The error is that of the function.
func (w *WholeTurns) Take(c chunk.Chunk) error {
	switch c := c.(type) {
	case chunk.Content:
		if c.Turn != w.turn {
			if err := w.flush(); err != nil {
				return err
			}
		}
		w.turn = c.Turn
		w.text.WriteString(c.Text)
		return nil
	case chunk.Reasoning:
		return w.next(c)
	case chunk.System:
		switch c.Name {
		case chunk.ReplyRestarted, chunk.ReplyCut:
			w.text.Reset()
			return w.next(c)
		case chunk.Retry:
			return w.next(c)
		}
	}
	if err := w.flush(); err != nil {
		return err
	}
	return w.next(c)
}

func (w *WholeTurns) flush() error {
	if w.text.Len() == 0 {
		return nil
	}
	text := w.text.String()
	w.text.Reset()
	return w.next(chunk.Content{Turn: w.turn, Text: text})
}
