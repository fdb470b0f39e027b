package box

import (
	"context"
	"errors"
	"fmt"

	"signalbox"
	"signalbox/internal/core/engine"
)

// followAtOnce is how many events Follow and ReadTo pass on at once.
const followAtOnce = 256

// Follow calls f with batches of the events after a sequence, old and new, until ctx is done and f
// has got everything that was written by then, or until the engine is closed. The engine's state
// includes the events of each batch. Follow returns the first error of f or of the ledger. While
// the journal is not available it waits, until ctx is done.
func (b *Box) Follow(ctx context.Context, after uint64, f func([]signalbox.Event) error) error {
	for {
		over := ctx.Err() != nil
		if over { // the engine may not have noticed the last events of other processes
			b.Engine.RefreshFinally(ctx)
		}
		if err := b.ReadTo(ctx, &after, b.Engine.Tail().Seq, f); err != nil {
			return err
		}
		if over {
			return nil
		}
		switch err := b.Engine.Wait(ctx, after); {
		case err == nil || ctx.Err() != nil:
		case errors.Is(err, engine.ErrClosed):
			return nil
		default:
			return err
		}
	}
}

// ReadTo calls f with the events after *after, up to tail, and advances *after. If ctx is done it
// does not stop reading, but no longer waits for a journal that is not available.
func (b *Box) ReadTo(ctx context.Context, after *uint64, tail uint64,
	f func([]signalbox.Event) error) error {
	for *after < tail {
		var events []signalbox.Event
		err := b.Engine.WhenAvailable(ctx, func() (err error) {
			events, err = b.Journal.Read(context.WithoutCancel(ctx), *after,
				int(min(tail-*after, followAtOnce)))
			return err
		})
		if err != nil {
			return err
		}
		if len(events) == 0 {
			return fmt.Errorf("the ledger ends after event %d, and had %d", *after, tail)
		}
		*after = events[len(events)-1].Seq
		if err := f(events); err != nil {
			return err
		}
	}
	return nil
}
