package transport

import (
	"context"

	"signalbox/internal/core/rules"
	"signalbox/internal/run/workspace"
)

// The next author of a task may be on another machine than the last one. It continues from what the
// ledger names. A worktree in which an earlier author worked is then out of date.

// lastAuthor returns the epoch of the last lease under which an author had the work, 0 if none had
// it.
func lastAuthor(w *rules.Work) uint64 {
	for i := len(w.Past) - 1; i >= 0; i-- {
		if w.Past[i].Role.IsAuthor() {
			return w.Past[i].Epoch
		}
	}
	return 0
}

// HasLatest reports whether the worktree of a task on this machine is the one that its last author
// worked in. Those on other machines are older. epoch is the one of the caller's lease.
func (x *Exchange) HasLatest(w *rules.Work, epoch uint64) bool {
	if x.carrier == nil {
		return true
	}
	here := x.repo.LastAuthor(w.ID)
	return here != 0 && (here == lastAuthor(w) || here == epoch)
}

// Committed returns what a task has committed, "" if it has nothing. It is in this clone then.
func (x *Exchange) Committed(ctx context.Context, work string) (commit string, err error) {
	if x.carrier == nil {
		return x.repo.BranchCommit(ctx, work)
	}
	var w *rules.Work
	x.box.Engine.View(func(s *rules.State) { w, _ = s.Work(work) })
	if w == nil || w.Task == nil {
		return "", nil
	}
	return x.latest(ctx, w)
}

// latest returns the commit that the next author of a task continues from, "" if nothing was saved.
// It is in this clone then, and so are the commits of a conflict to resolve.
func (x *Exchange) latest(ctx context.Context, w *rules.Work) (commit string, err error) {
	t := w.Task
	saved, savedAt := "", uint64(0)
	if t.Saved != nil {
		saved, savedAt = t.Saved.Commit, t.Saved.Epoch
	}
	switch found := t.Conflict; {
	case found != nil:
		if err := x.Obtain(ctx, w.ID, found.Commit, found.Base, found.Draft, saved); err != nil {
			return "", err
		}
		resolving, err := x.repo.Contains(ctx, saved, found.Draft)
		switch {
		case err != nil:
			return "", err
		case found.Draft == "": // it was found after the work was saved
			return found.Commit, nil
		case saved != "" && (resolving || savedAt == lastAuthor(w)):
			return saved, nil
		}
		return found.Draft, nil
	case t.Commit != "" && t.Checks > savedAt: // what was saved, with the base
		commit = t.Commit
	default:
		commit = saved
	}
	return commit, x.Obtain(ctx, w.ID, commit)
}

// OpenTree opens the worktree of an author, whose lease has the epoch. first means that no author
// has worked on the task. here reports whether the last author worked in the same worktree, so that
// it may have changes that were not saved.
func (x *Exchange) OpenTree(ctx context.Context, w *rules.Work, epoch uint64, first bool) (
	tree *workspace.Tree, here bool, err error,
) {
	if x.carrier == nil {
		open := x.repo.Open
		if first { // a branch of this name belongs to an earlier box
			open = x.repo.OpenNew
		}
		tree, err = open(ctx, w.ID)
		return tree, true, err
	}
	latest := ""
	if here = x.HasLatest(w, epoch) && !first; !first {
		if latest, err = x.latest(ctx, w); err != nil {
			return nil, false, err
		}
	}
	switch {
	case here:
		tree, err = x.continueTree(ctx, w, latest)
	case latest != "":
		tree, err = x.repo.OpenAt(ctx, w.ID, latest)
	default:
		if latest, err = x.Base(ctx); err == nil {
			tree, err = x.repo.OpenNewAt(ctx, w.ID, latest)
		}
	}
	if err == nil {
		err = x.repo.SetLastAuthor(w.ID, epoch)
	}
	return tree, here, err
}

// continueTree opens the worktree of the last author. If nothing in it has changed since, but other
// machines have continued the work, it gets that.
func (x *Exchange) continueTree(ctx context.Context, w *rules.Work, latest string) (
	*workspace.Tree, error,
) {
	tree, err := x.repo.Open(ctx, w.ID)
	saved := w.Task.Saved
	if err != nil || saved == nil || latest == saved.Commit {
		return tree, err
	}
	tip, _, err := tree.Save(ctx, w.ID+": changes of an interrupted agent")
	if err == nil && tip == saved.Commit {
		err = tree.Discard(ctx, latest)
	}
	if workspace.NeedsAgent(err) { // who is told when it is saved again
		err = nil
	}
	return tree, err
}
