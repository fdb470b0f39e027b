package crew

import (
	"context"
	"sync"
	"time"

	"signalbox/internal/core/engine"
	"signalbox/internal/core/rules"
)

// heartbeat keeps the leases of all checks and merges of a crew alive, with one event for all of
// them. They are short, so that another machine takes over soon after this one has vanished. A crew
// that neither checks nor merges sends nothing.
//
// Each lease has a deadline of its own. If the heartbeat fails, or does not include the lease, the
// session ends before another machine can get it, as with leaseKeeper.
type heartbeat struct {
	ttl time.Duration
	// renew renews leases, and returns when those of them expire that are live.
	renew func(ctx context.Context, epochs []uint64) (live map[uint64]time.Time, err error)
	// spawn starts a goroutine that the crew waits for.
	spawn func(func())

	mu   sync.Mutex            // guards the fields below
	held map[uint64]*heldLease // by epoch
	stop context.CancelFunc    // ends beat; nil if it does not run
}

// heldLease is a lease that is kept alive, with the timer that ends its session.
type heldLease struct {
	session  *session
	deadline *time.Timer
}

// keep keeps leases alive until the result is called. The caller is one of the crew's sessions.
func (h *heartbeat) keep(sessions []*session) (stop func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.held == nil {
		h.held = map[uint64]*heldLease{}
	}
	for _, s := range sessions {
		h.held[s.epoch] = &heldLease{s, time.AfterFunc(h.left(s.expires),
			func() { h.lose(s) })}
	}
	if h.stop == nil {
		ctx, cancel := context.WithCancel(context.Background())
		h.stop = cancel
		h.spawn(func() { h.beat(ctx) })
	}
	return func() { h.forget(sessions...) }
}

func (h *heartbeat) left(expires time.Time) time.Duration {
	return (&leaseKeeper{ttl: h.ttl}).left(expires)
}

// lose ends a session. Its lease must not be renewed after its programs were ended.
func (h *heartbeat) lose(s *session) {
	h.forget(s)
	s.loseLease()
}

// forget stops renewing leases.
func (h *heartbeat) forget(sessions ...*session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range sessions {
		if lease := h.held[s.epoch]; lease != nil {
			lease.deadline.Stop()
			delete(h.held, s.epoch)
		}
	}
	if len(h.held) == 0 && h.stop != nil {
		h.stop()
		h.stop = nil
	}
}

// beat renews the leases whenever a third of their time has passed, and more often after a failure,
// until ctx is done.
func (h *heartbeat) beat(ctx context.Context) {
	next := time.NewTimer(h.ttl / 3)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
		}
		if h.renewAll(ctx) == nil {
			next.Reset(h.ttl / 3)
		} else {
			next.Reset(retryLease(h.ttl))
		}
	}
}

// renewAll sends one heartbeat, and moves the deadlines of the leases that are live after it.
func (h *heartbeat) renewAll(ctx context.Context) error {
	h.mu.Lock()
	sent := make(map[uint64]*heldLease, len(h.held))
	epochs := make([]uint64, 0, len(h.held))
	for epoch, lease := range h.held {
		sent[epoch], epochs = lease, append(epochs, epoch)
	}
	h.mu.Unlock()
	asked := time.Now()
	live, err := h.renew(ctx, epochs)
	if err != nil {
		return err
	}
	for epoch, lease := range sent {
		expires, isLive := live[epoch]
		if !isLive {
			h.lose(lease.session)
			continue
		}
		h.mu.Lock()
		if h.held[epoch] == lease {
			lease.deadline.Reset(min(h.left(expires), h.left(asked.Add(h.ttl))))
		}
		h.mu.Unlock()
	}
	return nil
}

// renewLeases is renew of the crew's heartbeat.
func (c *Crew) renewLeases(ctx context.Context, epochs []uint64) (map[uint64]time.Time, error) {
	_, err := c.box.Engine.Do(ctx, rules.Heartbeat{Epochs: epochs, TTL: c.shortTTL(),
		Actor: c.opts.Actor})
	if err != nil && ctx.Err() == nil && !engine.IsReported(err) {
		c.log.Warn("cannot renew the leases of checks and merges; retrying", "error", err)
	}
	if err != nil {
		return nil, err
	}
	live := map[uint64]time.Time{}
	c.box.Engine.View(func(state *rules.State) {
		for _, epoch := range epochs {
			if lease := state.Lease(epoch); lease != nil {
				live[epoch] = lease.Expires
			}
		}
	})
	return live, nil
}
