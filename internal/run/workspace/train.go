package workspace

import (
	"context"
	"errors"

	"signalbox"
	"signalbox/internal/text"
)

// Train merges several tasks one after the other, and moves the base branch once. Each task gets a
// merge commit as Merge makes it, on top of the one before. Until Land, no branch has them.
//
// A Train holds the lock of merges. Close it.
type Train struct {
	repo   *merging
	held   *heldLock
	base   string
	merges []trainMerge
}

// trainMerge is the merge commit of a task.
type trainMerge struct{ task, commit string }

// OpenTrain returns a train on top of a commit of the base.
func (r *merging) OpenTrain(ctx context.Context, base string) (*Train, error) {
	held, err := r.lock(ctx, mergeLock)
	if err != nil {
		return nil, err
	}
	if err := r.checkHistory(); err != nil {
		held.release()
		return nil, err
	}
	return &Train{repo: r, held: held, base: base}, nil
}

// Close releases the lock of merges.
func (t *Train) Close() { t.held.release() }

// ErrNextTrain means that a task can be merged into the base, but not after the tasks that are in
// the train before it: it conflicts with them, or they contain everything that it changes.
var ErrNextTrain = errors.New("the task must wait until the tasks before it are merged")

// Add merges the commit of a task. Base, Check and Prepared of the request are not used. If it
// returns an error, the train goes without the task. ErrUnchanged and *ConflictError are about the
// base; ErrNextTrain is about the tasks before it.
func (t *Train) Add(ctx context.Context, m MergeRequest) error {
	if err := signalbox.CheckID(m.Task); err != nil {
		return err
	}
	m.Base = t.Commit(len(t.merges))
	commit, err := t.repo.createMerge(ctx, m)
	conflict := (*ConflictError)(nil)
	if len(t.merges) > 0 && (errors.Is(err, ErrUnchanged) || errors.As(err, &conflict)) {
		m.Base = t.base
		if _, err = t.repo.createMerge(ctx, m); err == nil {
			err = ErrNextTrain
		}
	}
	if err != nil {
		return err
	}
	t.merges = append(t.merges, trainMerge{m.Task, commit})
	return nil
}

// Commit returns the merge commit of the nth task, counted from 1. The base is number 0.
func (t *Train) Commit(n int) string {
	if n == 0 {
		return t.base
	}
	return t.merges[n-1].commit
}

// Tree returns the git tree of the first n tasks together.
func (t *Train) Tree(ctx context.Context, n int) (string, error) {
	return t.repo.line(ctx, "", "rev-parse", "--verify", "--end-of-options", t.Commit(n)+"^{tree}")
}

// Check calls check with a temporary worktree of the first n tasks together.
func (t *Train) Check(ctx context.Context, n int,
	check func(ctx context.Context, dir string) error) error {
	return t.repo.checkMerge(ctx, t.Commit(n), check)
}

// Land moves the base branch to the merge commit of the nth task. If it returns an error, the base
// branch is unchanged; a *MovedError means that it was somewhere else.
func (t *Train) Land(ctx context.Context, n int) error {
	var tasks []string
	for _, m := range t.merges[:n] {
		tasks = append(tasks, m.task)
	}
	return t.repo.landMerge(ctx, landing{Task: text.JoinSome(tasks, 5), Base: t.repo.Base,
		Before: t.base, After: t.Commit(n)})
}
