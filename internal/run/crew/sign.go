package crew

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"signalbox/internal/core/box"
)

// signPause is how long after the last event the ledger is signed at most.
const signPause = time.Second

// Sign signs what is written while ctx lasts, a second after it was written at the latest, and once more at the end, and hands
// the checkpoints out. It returns at once if the key is not on this host. What fails is said once; the next checkpoint makes up
// for it.
func Sign(ctx context.Context, b *box.Box, log *slog.Logger) {
	said := ""
	for {
		seen := b.Engine.Tail().Seq
		err := sign(b)
		if errors.Is(err, box.ErrNoKey) {
			return
		}
		if err != nil && err.Error() != said {
			said = err.Error()
			log.Warn(unsigned(err), "error", err)
		}
		if b.Engine.Wait(ctx, seen) != nil {
			if b.Engine.Tail().Seq > seen {
				sign(b)
			}
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(signPause):
		}
	}
}

// sign is done to its end, also while the program is told to stop.
func sign(b *box.Box) error { return b.SignAndHandOut(context.Background()) }

func unsigned(err error) string {
	if kept := (*box.HandOutError)(nil); errors.As(err, &kept) {
		return "the checkpoint is signed, but it could not be handed out"
	}
	return "what was done is recorded, but it is not signed"
}
