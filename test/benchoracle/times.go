package main

import (
	"context"
	"sync/atomic"
	"time"

	"signalbox/internal/oracle"
	"signalbox/internal/oracle/model"
)

// times is where the time of a question went. Replies follow one another, so one goroutine at a time uses it.
type times struct {
	begun time.Time
	turns []turnTime
	// from is when the last reply was there.
	from time.Time
	// tool is the time that tools took since then; they run in goroutines of their own.
	tool atomic.Int64
}

// turnTime is the time of a turn: from the beginning of its reply to that of the next, or to the end of the question. That
// before the first reply belongs to the first.
type turnTime struct {
	// model is the time in the model's client without callbacks, callbacks that in which the oracle took what came.
	model, callbacks time.Duration
	// between is the rest, without the time of tools.
	between time.Duration
}

// overhead is what the oracle adds to the model's time.
func (t turnTime) overhead() time.Duration { return t.callbacks + t.between }

type timesKey struct{}

// timesOf returns the times of the conversation that a context belongs to.
func timesOf(ctx context.Context) *times { return ctx.Value(timesKey{}).(*times) }

// settle gives the time since the last reply to its turn.
func (t *times) settle(now time.Time) {
	if n := len(t.turns); n > 0 {
		t.turns[n-1].between += now.Sub(t.from) - time.Duration(t.tool.Swap(0))
	}
}

// end is called when the question has ended.
func (t *times) end() { t.settle(time.Now()) }

// watched is a model whose time is taken.
type watched struct{ model oracle.Model }

func (w watched) Reply(ctx context.Context, r model.Request, on func(model.Event)) (*model.Reply, error) {
	t := timesOf(ctx)
	begun := time.Now()
	var turn turnTime
	if len(t.turns) == 0 {
		turn.between = begun.Sub(t.begun)
	}
	t.settle(begun)
	reply, err := w.model.Reply(ctx, r, func(e model.Event) {
		begun := time.Now()
		on(e)
		turn.callbacks += time.Since(begun)
	})
	t.from = time.Now()
	turn.model = t.from.Sub(begun) - turn.callbacks
	t.turns = append(t.turns, turn)
	return reply, err
}
