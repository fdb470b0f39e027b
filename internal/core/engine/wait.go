package engine

import (
	"context"
	"errors"
	"sync"

	"signalbox/internal/core/rules"
)

// DoWhenPossible is Do for a claim of the next available work: while there is nothing to claim it
// follows the log, and retries whenever there are new events.
func (e *Engine) DoWhenPossible(ctx context.Context, c rules.Command) (rules.Answer, error) {
	following, stop := context.WithCancelCause(ctx)
	var follower sync.WaitGroup
	defer follower.Wait()
	defer stop(nil)
	for first := true; ; first = false {
		seen := e.Tail().Seq
		answer, err := e.Do(ctx, c)
		if !errors.Is(err, rules.ErrNothingToClaim) {
			return answer, err
		}
		if first {
			follower.Go(func() { stop(e.Follow(following)) })
		}
		if err := e.Wait(following, seen); err != nil {
			if following.Err() != nil && ctx.Err() == nil {
				err = context.Cause(following) // the error of Follow
			}
			return rules.Answer{}, err
		}
	}
}
