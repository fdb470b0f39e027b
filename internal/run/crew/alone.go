package crew

import (
	"context"
	"path/filepath"
	"strings"

	"signalbox/internal/core/rules"
	"signalbox/internal/durable"
	"signalbox/internal/run/agent"
)

// alone does something when nobody else on this machine is at the session's work any more. A lease that was taken away or ran out
// is free at once, but its agent may need a while to end, and would write into the successor's tree.
func (s *session) alone(ctx context.Context, do func(context.Context) error) error {
	lock, err := durable.Acquire(ctx, s.crew.lockFile(s.work))
	if err != nil {
		return err
	}
	defer lock.Release()
	if s.succeedsAnother() { // whose process may have been killed, and its agent not
		if err := s.crew.inherit(ctx); err != nil {
			return err
		}
	}
	return do(ctx)
}

func (c *Crew) lockFile(work string) string { return filepath.Join(c.file("crews"), work+".lock") }

// succeedsAnother tells whether the last lease of the work was another crew's.
func (s *session) succeedsAnother() bool {
	past := s.view().Past
	return len(past) > 0 && !strings.HasPrefix(past[len(past)-1].Session, s.crew.owner.ID()+".")
}

// mourn waits for the ends of the other crews of this machine that hold work, and frees what they held if they were killed.
func (c *Crew) mourn(ctx context.Context) {
	var others []string
	c.box.Engine.View(func(s *rules.State) {
		for w := range s.Works() {
			if w.Lease != nil {
				if owner, _, ok := strings.Cut(w.Lease.Session, "."); ok && owner != c.owner.ID() {
					others = append(others, owner)
				}
			}
		}
	})
	for _, other := range others {
		if c.mourned[other] {
			continue
		}
		c.mourned[other] = true
		go func() { // not waited for, since nothing can interrupt it
			agent.AwaitEnd(c.file("crews"), other)
			if ctx.Err() != nil {
				return
			}
			if err := c.inherit(ctx); err != nil && ctx.Err() == nil {
				c.log.Warn("cannot free what a crew held that is gone; it comes free when its leases run out", "crew", other, "error", err)
			}
		}()
	}
}
