package crew

import (
	"context"
	"fmt"
	"strings"

	"signalbox/internal/core/engine"
	"signalbox/internal/core/rules"
	"signalbox/internal/durable"
	"signalbox/internal/run/agent"
)

// Crews on the same machine coordinate through a register of processes (package agent) and through
// a lock file for each work item. The ledger alone is not enough: a lease that expired is free at
// once, but its agent may still be writing.

// lockWork waits until no other session of this machine works on the session's task, and then ends
// the agents that a killed crew left running.
func (s *session) lockWork(ctx context.Context) (*durable.Lock, error) {
	lock, err := durable.Acquire(ctx, s.crew.lockFile(s.work))
	if err != nil {
		return nil, err
	}
	if s.succeedsPeer() { // its process may have been killed without its agent
		if err := s.crew.reapOrphans(ctx); err != nil {
			lock.Release()
			return nil, err
		}
	}
	return lock, nil
}

func (c *Crew) lockFile(work string) string {
	return agent.WorkLock(c.box.Dir, work)
}

// succeedsPeer reports whether the previous lease of the work belonged to another crew.
func (s *session) succeedsPeer() bool {
	past := s.workItem().Past
	return len(past) > 0 && !s.crew.Owns(past[len(past)-1].Session)
}

// watchPeers waits, in the background, for the end of the other crews of this machine that hold
// leases. When a peer ends, it reaps the peer's agents, if any.
func (c *Crew) watchPeers(ctx context.Context) {
	var peers []string
	c.box.Engine.View(func(s *rules.State) {
		for w := range s.Works() {
			if w.Lease != nil {
				if owner, _, ok := strings.Cut(w.Lease.Session, "."); ok && owner != c.owner.ID() {
					peers = append(peers, owner)
				}
			}
		}
	})
	for _, peer := range peers {
		if c.watched[peer] {
			continue
		}
		c.watched[peer] = true
		go func() { // Run does not wait for it, because nothing can interrupt it
			agent.WaitForExit(c.file(agent.RegisterFolder), peer)
			if ctx.Err() != nil {
				return // Run has ended, and the box may be closed; the next crew cleans up
			}
			retryUntil(ctx, c.opts.delays.retry, func() bool {
				err := c.reapOrphans(ctx)
				if err != nil && ctx.Err() == nil && !engine.IsReported(err) {
					c.log.Warn("cannot release the work of a crew that ended; trying again", "crew",
						peer, "error", err)
				}
				return err == nil
			})
		}()
	}
}

// leasesOf returns the commands that release the leases of an owner.
func (c *Crew) leasesOf(owner string) (releases []rules.Release) {
	c.box.Engine.View(func(s *rules.State) {
		for w := range s.Works() {
			if w.Lease != nil && strings.HasPrefix(w.Lease.Session, owner+".") {
				releases = append(releases, rules.Release{Work: w.ID, Session: w.Lease.Session,
					Epoch: w.Lease.Epoch, Reason: "its process is gone"})
			}
		}
	})
	return releases
}

// reapOrphans ends the agents of crews that were killed, and releases their leases, which would
// otherwise last until they expire.
func (c *Crew) reapOrphans(ctx context.Context) error {
	_, err := agent.ReapOrphans(c.file(agent.RegisterFolder), c.box.Config.Grace,
		func(owner string) error {
			// a lease may have been granted to it just before it ended
			if err := c.box.Engine.Refresh(ctx); err != nil {
				return err
			}
			for _, release := range c.leasesOf(owner) {
				if _, err := c.box.Engine.Do(ctx, release); err != nil && !isRefusal(err) {
					return err
				}
			}
			return c.removeTemps(owner)
		})
	if err != nil {
		return fmt.Errorf("clean up after crews that were killed: %w", err)
	}
	if c.project.Repo != nil {
		return c.project.Repo.Prune(ctx)
	}
	return nil
}

// Owns reports whether a session is one of this crew.
func (c *Crew) Owns(session string) bool { return strings.HasPrefix(session, c.owner.ID()+".") }
