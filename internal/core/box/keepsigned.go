package box

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"signalbox/internal/core/engine"
)

// signDelay is how long an event may stay unsigned.
const signDelay = time.Second

// KeepSigned signs and publishes checkpoints of the ledger until ctx is done, each at most a second
// after an event, and one at the end. It returns at once if the key is not on this host. It logs
// the same error only once; the next checkpoint covers what was missed. It does not log that the
// ledger is unavailable or was moved: the engine logs the one, and the caller ends with the other.
func (b *Box) KeepSigned(ctx context.Context, log *slog.Logger) {
	logged := ""
	for {
		seen := b.Engine.Tail().Seq
		err := b.Engine.WhenAvailable(ctx, func() error { return b.signNow() })
		if errors.Is(err, ErrNoKey) {
			return
		}
		if err != nil && err.Error() != logged && !engine.IsReported(err) {
			logged = err.Error()
			log.Warn(signWarning(err), "error", err)
		}
		if b.Engine.Wait(ctx, seen) != nil {
			if b.Engine.Tail().Seq > seen {
				b.signNow()
			}
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(signDelay):
		}
	}
}

// signNow is not interrupted when the program is told to stop.
func (b *Box) signNow() error { return b.SignAndPublish(context.Background()) }

func signWarning(err error) string {
	if _, unpublished := errors.AsType[*PublishError](err); unpublished {
		return "a checkpoint is signed, but could not be published"
	}
	return "events are recorded, but cannot be signed"
}
