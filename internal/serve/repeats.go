package serve

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// quietHandler leaves out warnings and errors that repeat, so that clients cannot flood the
// terminal with what their requests cause. In a minute, it lets a message pass once with the same
// attributes, and maxVariants times with different ones.
type quietHandler struct {
	slog.Handler
	mu   *sync.Mutex
	seen map[string]*repeats // by message; the messages are constants
}

type repeats struct {
	since    time.Time
	variants map[string]bool
}

const maxVariants = 10

func newQuietHandler(h slog.Handler) *quietHandler {
	return &quietHandler{h, &sync.Mutex{}, map[string]*repeats{}}
}

func (q *quietHandler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelWarn && q.repeated(r) {
		return nil
	}
	return q.Handler.Handle(ctx, r)
}

func (q *quietHandler) repeated(r slog.Record) bool {
	attributes := ""
	r.Attrs(func(a slog.Attr) bool { attributes += a.String() + "\n"; return true })
	q.mu.Lock()
	defer q.mu.Unlock()
	m := q.seen[r.Message]
	if m == nil || r.Time.Sub(m.since) >= time.Minute {
		m = &repeats{r.Time, map[string]bool{}}
		q.seen[r.Message] = m
	}
	if m.variants[attributes] || len(m.variants) == maxVariants {
		return true
	}
	m.variants[attributes] = true
	return false
}
