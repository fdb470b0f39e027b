package workspace

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"signalbox"
)

// MergeRequest names exactly what to merge. Merge reads no branch: another process may have moved a
// branch since the commit was checked and reviewed.
type MergeRequest struct {
	Task string
	// Commit is the task's commit, and Base the one that the base branch must be at.
	Commit, Base string
	// Message is the message of the merge commit, as CommitText returns it; "" means a short
	// default.
	Message string
	// Squash makes one commit of the task's changes, instead of a merge commit.
	Squash bool
	// Check, if not nil, is called with a temporary worktree of the merge commit.
	Check func(ctx context.Context, dir string) error
	// Prepared, if not nil, is called with the merge commit before the base branch moves to it. The
	// caller records it, so that after a crash it can ask Landed about exactly this merge.
	Prepared func(commit string) error
}

// Merged is the result of a merge.
type Merged struct {
	// Commit is the new commit of the base branch, and Before the old one.
	Commit, Before string
}

// ErrUnchanged means that there is nothing to merge: the base branch already has everything that
// the task's commit has.
var ErrUnchanged = errors.New("the base branch already contains everything in this commit")

// MovedError means that the base branch is not at the commit that the caller named. Nothing was
// merged.
type MovedError struct {
	Base     string // the branch
	From, To string // From is what the caller expected, and To where the branch is
}

func (e *MovedError) Error() string {
	return fmt.Sprintf("the branch %s moved from %.12s to %.12s", e.Base, e.From, e.To)
}

const mergeTree = ".merge"

// Merge merges one commit of a task into one commit of the base branch, with a merge commit unless
// Squash is set. If it returns an error, the base branch is unchanged; the error is ErrUnchanged, a
// *ConflictError, a *MovedError, the error of Check or Prepared, or a git error.
func (r *merging) Merge(ctx context.Context, m MergeRequest) (Merged, error) {
	held, err := r.beginMerge(ctx, m)
	if err != nil {
		return Merged{}, err
	}
	defer held.release()
	base, err := r.BaseCommit(ctx)
	if err != nil {
		return Merged{}, err
	}
	if base != m.Base {
		return Merged{}, &MovedError{r.Base, m.Base, base}
	}
	commit, err := r.prepareMerge(ctx, m)
	if err != nil {
		return Merged{}, err
	}
	if err := r.landMerge(ctx, landing{Task: m.Task, Base: r.Base, Before: base,
		After: commit}); err != nil {
		return Merged{}, err
	}
	return Merged{Commit: commit, Before: m.Base}, nil
}

// landMerge lands, and says where the base is if it has moved.
func (r *merging) landMerge(ctx context.Context, l landing) error {
	err := r.land(ctx, l)
	if errors.Is(err, errMoved) {
		base := ""
		if base, err = r.BaseCommit(ctx); err == nil {
			err = &MovedError{l.Base, l.Before, base}
		}
	}
	return err
}

// CreateMerge does what Merge does before the base branch moves, and returns the merge commit. The
// base branch may be anywhere.
func (r *merging) CreateMerge(ctx context.Context, m MergeRequest) (commit string, err error) {
	held, err := r.beginMerge(ctx, m)
	if err != nil {
		return "", err
	}
	defer held.release()
	return r.prepareMerge(ctx, m)
}

// beginMerge validates a request and waits for mergeLock.
func (r *merging) beginMerge(ctx context.Context, m MergeRequest) (*heldLock, error) {
	if err := signalbox.CheckID(m.Task); err != nil {
		return nil, err
	}
	return r.lock(ctx, mergeLock)
}

// prepareMerge creates and checks the merge commit, and calls Prepared. The caller holds mergeLock.
func (r *merging) prepareMerge(ctx context.Context, m MergeRequest) (commit string, err error) {
	if err := r.checkHistory(); err != nil {
		return "", err
	}
	if commit, err = r.createMerge(ctx, m); err != nil {
		return "", err
	}
	r.step("merged")
	if m.Check != nil {
		if err := r.checkMerge(ctx, commit, m.Check); err != nil {
			return "", err
		}
	}
	r.step("checked")
	if m.Prepared != nil {
		err = m.Prepared(commit)
	}
	return commit, err
}

// createMerge creates the merge commit.
func (r *merging) createMerge(ctx context.Context, m MergeRequest) (string, error) {
	if contained, err := r.isAncestor(ctx, m.Commit, m.Base); err != nil {
		return "", err
	} else if contained {
		return "", ErrUnchanged
	}
	message := strings.TrimSpace(m.Message)
	if message == "" {
		message = "Merge " + m.Task
	}
	message = withTrailers(message, m.Task, m.Commit)
	tree, err := r.mergeTrees(ctx, m.Commit, m.Base, branchPrefix+m.Task, r.Base)
	if err != nil {
		return "", err
	}
	commit := ""
	if m.Squash {
		commit, err = r.Squash(ctx, tree, m.Base, message)
	} else {
		commit, err = r.commitMerge(ctx, m.Base, m.Commit, tree, message)
	}
	if err != nil {
		return "", err
	}
	changed, err := r.Changed(ctx, m.Base, commit)
	if err == nil && len(changed) == 0 {
		err = ErrUnchanged
	}
	return commit, err
}

// checkMerge calls check with a temporary worktree of a merge commit.
func (r *merging) checkMerge(ctx context.Context, commit string,
	check func(ctx context.Context, dir string) error) (err error) {
	tree, err := r.checkOut(ctx, mergeTree, commit)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, tree.Close()) }()
	return check(ctx, tree.Dir)
}

func branchGone(branch string) error {
	return signalbox.CodeNotFound.Errorf(
		"find its last commit with git reflog, then: git branch "+branch+" COMMIT",
		"the branch %s is gone", branch)
}

// mergeCommit creates a merge commit of two commits without touching a branch or a worktree.
func (r *commits) mergeCommit(ctx context.Context, first, second, message, branch,
	base string) (string, error) {
	tree, err := r.mergeTrees(ctx, first, second, branch, base)
	if err != nil {
		return "", err
	}
	return r.commitMerge(ctx, first, second, tree, message)
}

// commitMerge creates a merge commit with a tree.
func (r *commits) commitMerge(ctx context.Context, first, second, tree,
	message string) (string, error) {
	return r.line(ctx, message, "commit-tree", "-p", first, "-p", second, "-F", "-", tree)
}

// Landed reports whether the base contains a merge commit that Prepared named, as after a crash
// between the merge and its record in the ledger. It finishes what the crash left undone.
func (r *merging) Landed(ctx context.Context, merge string) (bool, error) {
	held, err := r.lock(ctx, landingLock)
	if err != nil {
		return false, err
	}
	defer held.release()
	if err := r.finishLanding(ctx, held); err != nil {
		return false, err
	}
	base, err := r.BaseCommit(ctx)
	if err != nil {
		return false, err
	}
	// git may have removed it, so that no branch has it
	if here, err := r.exists(ctx, merge, nil); !here {
		return false, err
	}
	return r.isAncestor(ctx, merge, base)
}
