package crew

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/durable"
	"signalbox/internal/run/agent"
)

// inherit ends the agents of crews that are gone, and frees what they held: nobody else would before their leases run out.
func (c *Crew) inherit(ctx context.Context) error {
	_, err := agent.Bereaved(c.file("crews"), c.box.Config.Grace, func(owner string) error {
		var left []rules.Release
		c.box.Engine.View(func(s *rules.State) {
			for w := range s.Works() {
				if w.Lease != nil && strings.HasPrefix(w.Lease.Session, owner+".") {
					left = append(left, rules.Release{Work: w.ID, Session: w.Lease.Session, Epoch: w.Lease.Epoch, Reason: "its process is gone"})
				}
			}
		})
		for _, release := range left {
			if _, err := c.box.Engine.Do(ctx, release); err != nil && !refused(err) {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("look after crews that are gone: %w", err)
	}
	if c.place.Repo != nil {
		return c.place.Repo.Prune(ctx)
	}
	return nil
}

// sweep removes what crews left that were killed: trees of work that is completed, and prompts that were to be read from files.
func (c *Crew) sweep(ctx context.Context) error {
	if c.place.Repo != nil {
		if err := c.closeCompleted(ctx); err != nil {
			return fmt.Errorf("remove the trees of completed work: %w", err)
		}
	}
	// A crew that joins after this moment writes files that are younger; the second is for coarse clocks of file systems.
	before := time.Now().Add(-time.Second)
	if free, err := agent.Deserted(c.file("crews")); !free || err != nil {
		return err
	}
	var errs []error
	for _, pattern := range []string{"prompt-*.md", "transcript-*"} {
		names, _ := filepath.Glob(filepath.Join(c.file("tmp"), pattern))
		for _, name := range names {
			if info, err := os.Lstat(name); err == nil && info.ModTime().Before(before) {
				errs = append(errs, os.Remove(name))
			}
		}
	}
	return errors.Join(errs...)
}

// closeCompleted removes trees and branches that nobody needs any more. Cancelled work keeps them: it may be taken up again.
func (c *Crew) closeCompleted(ctx context.Context) error {
	tasks, err := c.place.Repo.Tasks(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, task := range tasks {
		completed := false
		c.box.Engine.View(func(s *rules.State) {
			w, known := s.Work(task)
			completed = known && w.Task != nil && w.Lease == nil && w.Phase == signalbox.PhaseCompleted
		})
		if completed {
			errs = append(errs, c.closeAlone(ctx, task))
		}
	}
	return errors.Join(errs...)
}

// closeAlone removes the tree of work, unless somebody is still at it.
func (c *Crew) closeAlone(ctx context.Context, work string) error {
	name := c.lockFile(work)
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if free, err := durable.TryLockFile(f); !free || err != nil {
		return err
	}
	return c.place.Repo.Close(ctx, work)
}
