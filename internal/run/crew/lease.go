package crew

import (
	"context"
	"fmt"
	"time"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/core/engine"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/rules"
)

// ttl returns how long the session's lease lasts if it is not renewed.
func (s *session) ttl() time.Duration {
	if s.isShort() {
		return s.crew.shortTTL()
	}
	return s.crew.box.Config.Lease.TTL
}

// isShort reports whether other machines wait for the work of the session, because only one merges,
// or a few run checks, at a time.
func (s *session) isShort() bool {
	return s.role == signalbox.RoleCI || s.role == signalbox.RoleMerger
}

// shortTTL returns how long leases of checks and merges last. If only this machine uses the ledger,
// they need not be short: another crew of the machine notices at once that this one is gone.
func (c *Crew) shortTTL() time.Duration {
	if c.exchange.Shared() {
		return c.box.Config.Lease.Short()
	}
	return c.box.Config.Lease.TTL
}

// keepLease keeps the leases of the session and its train alive until the result is called, and
// cancels the session if that is not possible.
func (s *session) keepLease(ctx context.Context) (stop func()) {
	if s.isShort() {
		return s.crew.heartbeat.keep(append([]*session{s}, s.train...))
	}
	renewing, cancel := context.WithCancel(ctx)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		s.renewLease(renewing)
	}()
	return func() {
		cancel()
		<-stopped
	}
}

// renewLease keeps the session's lease alive until ctx is done, and cancels the session if that is
// not possible.
func (s *session) renewLease(ctx context.Context) {
	ttl := s.ttl()
	k := leaseKeeper{
		ttl:  ttl,
		lost: s.loseLease,
		renew: func(ctx context.Context) (time.Time, error) {
			answer, err := s.crew.box.Engine.Do(ctx, rules.Renew{Work: s.work, Session: s.id,
				Epoch: s.epoch, TTL: ttl})
			if err != nil && !isRefusal(err) && ctx.Err() == nil && !engine.IsReported(err) {
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

// leaseGrace returns how long programs may take to end when their lease is lost.
func leaseGrace(ttl, grace time.Duration) time.Duration { return min(grace, config.LeaseMargin(ttl)/3) }

// checkLease returns an error if a lease is too short for machines that share a ledger: one whose
// clock is ahead, as far as the ledger allows, would take over work before the program that has
// lost its lease could end, although its machine is connected and renews the lease in time.
func checkLease(setting string, ttl, standard, grace time.Duration) error {
	needed := 3 * (journal.MaxAhead + leaseGrace(ttl, grace))
	if needed < ttl {
		return nil
	}
	return signalbox.CodeUsage.Errorf(
		fmt.Sprintf("raise %s; the default is %s", setting, standard),
		"%s is %s, but machines that share a ledger need more than %s: three times the %s by which their clocks may differ and the %s that a program gets to end (grace)",
		setting, ttl, needed, journal.MaxAhead, leaseGrace(ttl, grace))
}

// keep renews the lease whenever a third of its time has passed, and more often after a failure. It
// calls lost when the rules refuse to renew, or when the margin before expiry is reached.
func (k *leaseKeeper) keep(ctx context.Context, expires time.Time) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	next := time.NewTimer(k.ttl / 3)
	defer next.Stop()
	deadline := time.AfterFunc(k.left(expires), func() {
		cancel() // it must not be renewed after its agent was ended
		k.lost()
	})
	defer deadline.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
		}
		asked := time.Now()
		expires, err := k.renew(ctx)
		switch {
		case err == nil:
			deadline.Reset(min(k.left(expires), k.left(asked.Add(k.ttl))))
			next.Reset(k.ttl / 3)
		case isRefusal(err):
			k.lost()
			return
		default:
			next.Reset(retryLease(k.ttl))
		}
	}
}

// retryLease returns the pause after a lease could not be renewed.
func retryLease(ttl time.Duration) time.Duration { return min(ttl/20, 5*time.Second) }

// left returns how long work may continue under a lease. If the clock of another machine is ahead,
// and the time of the ledger with it, expires is later than a whole ttl from now; but on that
// machine the lease expires after the ttl.
func (k *leaseKeeper) left(expires time.Time) time.Duration { return k.leftAt(time.Now(), expires) }

func (k *leaseKeeper) leftAt(now, expires time.Time) time.Duration {
	return min(expires.Sub(now), k.ttl) - config.LeaseMargin(k.ttl)
}
