package crew

import (
	"context"
	"time"

	"signalbox/internal/core/rules"
)

// renewLease keeps the session's lease alive until ctx is done, and cancels the session if that is not possible.
func (s *session) renewLease(ctx context.Context) {
	ttl := s.crew.box.Config.Lease.TTL
	k := leaseKeeper{
		ttl:  ttl,
		lost: func() { s.cancel(errLeaseLost) },
		renew: func(ctx context.Context) (time.Time, error) {
			answer, err := s.crew.box.Engine.Do(ctx, rules.Renew{Work: s.work, Session: s.id, Epoch: s.epoch, TTL: ttl})
			if err != nil && !isRefusal(err) && ctx.Err() == nil {
				s.crew.log.Warn("cannot renew a lease; retrying", "work", s.work, "error", err)
			}
			if err != nil {
				return time.Time{}, err
			}
			return answer.Lease.Expires, nil
		},
	}
	k.keep(ctx, s.expires)
}

// leaseKeeper renews a lease in time, or reports that it is lost.
type leaseKeeper struct {
	ttl   time.Duration
	renew func(context.Context) (expires time.Time, err error)
	lost  func() // may be called more than once
}

// leaseMargin is how long before a lease expires its agent is ended if the lease could not be renewed: two agents must never
// write to the same workspace.
func leaseMargin(ttl time.Duration) time.Duration { return min(30*time.Second, ttl/6) }

// keep renews the lease whenever a third of its time has passed, and more often after a failure. It calls lost when the rules
// refuse to renew, or when the margin before expiry is reached.
func (k *leaseKeeper) keep(ctx context.Context, expires time.Time) {
	next := time.NewTimer(k.ttl / 3)
	defer next.Stop()
	deadline := time.AfterFunc(time.Until(expires)-leaseMargin(k.ttl), k.lost)
	defer deadline.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
		}
		expires, err := k.renew(ctx)
		switch {
		case err == nil:
			deadline.Reset(time.Until(expires) - leaseMargin(k.ttl))
			next.Reset(k.ttl / 3)
		case isRefusal(err):
			k.lost()
			return
		default:
			next.Reset(min(k.ttl/20, 5*time.Second))
		}
	}
}
