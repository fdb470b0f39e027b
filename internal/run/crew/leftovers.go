package crew

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"signalbox"
	"signalbox/internal/contain"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/agent"
	"signalbox/internal/run/checkrun"
	"signalbox/internal/run/workspace"
	"signalbox/internal/tree/treeruns"
)

// removeLeftovers removes files of crews that were killed: worktrees of completed work, what its
// agents kept, and temporary files. Before, the user gets the tokens that their agents renewed.
func (c *Crew) removeLeftovers(ctx context.Context) error {
	if refused, err := contain.RenewLeftovers(c.box.Dir, ""); err != nil || len(refused) > 0 {
		c.log.Warn("the logins of killed agents", "not_copied_back", refused, "error", err)
	}
	if c.project.Repo != nil {
		if err := c.closeCompleted(ctx); err != nil {
			return fmt.Errorf("remove worktrees of completed work: %w", err)
		}
	}
	// A crew that joins from now on writes newer files. The second allows for file systems with
	// coarse timestamps.
	before := time.Now().Add(-time.Second)
	if empty, err := agent.Empty(c.file(agent.RegisterFolder)); !empty || err != nil {
		return err
	}
	var errs []error
	for _, pattern := range []string{"prompt-*.md", "transcript-*", checkrun.Prefix + "*",
		contain.HomePrefix + "*"} {
		names, _ := filepath.Glob(filepath.Join(c.file(contain.TempFolder), pattern))
		for _, name := range names {
			if info, err := os.Lstat(name); err == nil && info.ModTime().Before(before) {
				errs = append(errs, contain.RemoveAll(name))
			}
		}
	}
	return errors.Join(append(errs, c.removeStates(), c.site.Cache.Sweep())...)
}

// removeStates removes what the agents of completed work have kept, and home folders of other work
// that no one keeps.
func (c *Crew) removeStates() error {
	entries, err := os.ReadDir(c.file(contain.StateFolder))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var errs []error
	for _, entry := range entries {
		switch work := entry.Name(); {
		case signalbox.CheckID(work) != nil:
		case c.isCompleted(work):
			errs = append(errs, c.removeState(work))
		default:
			errs = append(errs, c.removeHomes(work))
		}
	}
	return errors.Join(errs...)
}

// removeHomes removes the home folders of the programs of a task that were killed, except for those
// of authors.
func (c *Crew) removeHomes(work string) error {
	entries, err := os.ReadDir(filepath.Join(c.file(contain.StateFolder), work))
	if err != nil {
		return err
	}
	var errs []error
	for _, entry := range entries {
		home := entry.Name()
		role, _, isAgent := contain.AgentOfHome(home)
		switch {
		case !entry.IsDir() || isAgent && signalbox.Role(role).IsAuthor():
			continue
		case isAgent:
			if err := treeruns.Keep(c.box.Dir, work, home); err != nil {
				c.log.Warn("cannot keep the recorded runs of trees", "work", work, "error", err)
			}
		}
		errs = append(errs, c.site.RemoveHome(work, home))
	}
	return errors.Join(errs...)
}

// removeState removes the home folders of a task's agents and checks, except for the recorded runs
// of trees.
func (c *Crew) removeState(work string) error {
	if err := treeruns.Keep(c.box.Dir, work); err != nil {
		c.log.Warn("cannot keep the recorded runs of trees", "work", work, "error", err)
	}
	return contain.RemoveState(c.box.Dir, work)
}

// isCompleted reports whether work is completed and has no lease.
func (c *Crew) isCompleted(work string) (completed bool) {
	c.box.Engine.View(func(s *rules.State) {
		w, known := s.Work(work)
		completed = known && w.Task != nil && w.Lease == nil && w.Phase == signalbox.PhaseCompleted
	})
	return completed
}

// removeCompleted removes the worktree of work if it is completed.
func (c *Crew) removeCompleted(ctx context.Context, work string) {
	if c.isCompleted(work) {
		c.removeWorktree(context.WithoutCancel(ctx), work)
	}
}

// closeCompleted removes the worktrees and branches of completed work. Cancelled work keeps them,
// because it may be retried.
func (c *Crew) closeCompleted(ctx context.Context) error {
	tasks, err := c.project.Repo.Tasks(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, task := range tasks {
		if c.isCompleted(task) {
			errs = append(errs, c.closeUnused(ctx, task))
		}
	}
	return errors.Join(errs...)
}

// closeUnused removes the worktree of a work item unless a session is still using it.
func (c *Crew) closeUnused(ctx context.Context, work string) error {
	lock, err := c.tryLockWork(work)
	if lock == nil {
		return err
	}
	defer lock.Close()
	return c.closeWork(ctx, work)
}

// tryLockWork locks a work item against other sessions of this machine until the result is closed.
// It returns nil if a session is using it.
func (c *Crew) tryLockWork(work string) (io.Closer, error) {
	return agent.TryLockWork(c.box.Dir, work)
}

// tidy removes the worktrees of work that other machines have completed, and what it published.
func (c *Crew) tidy(ctx context.Context) {
	if !c.exchange.Shared() {
		return
	}
	completed := 0
	c.box.Engine.View(func(s *rules.State) {
		for w := range s.Works() {
			if w.Task != nil && w.Phase == signalbox.PhaseCompleted {
				completed++
			}
		}
	})
	if completed == c.completed {
		return
	}
	c.completed = completed
	if err := errors.Join(c.closeCompleted(ctx), c.exchange.Tidy(ctx)); err != nil &&
		ctx.Err() == nil {
		c.log.Warn("cannot remove what completed work left", "error", workspace.Explain(err))
	}
}

// removeWorktree removes the worktree of completed work, and what its agents and checks have kept.
func (c *Crew) removeWorktree(ctx context.Context, work string) {
	if err := c.closeWork(ctx, work); err != nil {
		c.log.Warn("cannot remove the worktree of completed work", "work", work, "error", err)
	}
	if err := c.removeState(work); err != nil {
		c.log.Warn("cannot remove the files of agents of completed work", "work", work, "error",
			err)
	}
}

// closeWork removes the worktree of completed work, and its branch unless it was delivered there.
func (c *Crew) closeWork(ctx context.Context, work string) error {
	var d *rules.DeliveredTask
	c.box.Engine.View(func(s *rules.State) {
		if w, known := s.Work(work); known && w.Task != nil {
			d = w.Task.Delivered
		}
	})
	if d != nil && d.Request == "" {
		if err := c.exchange.Obtain(ctx, work, d.Tip, d.Commit); err != nil {
			return err
		}
		return c.project.Repo.CloseDelivered(ctx, work, d.Tip, d.Commit)
	}
	return c.project.Repo.Close(ctx, work)
}
