package workspace

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"signalbox"
)

// Merged is the result of a merge.
type Merged struct {
	// Commit is the new commit of the base branch, and Before the old one.
	Commit, Before string
	// UpToDate reports that the base branch already contained the task's branch.
	UpToDate bool
	// Warning is a message for people: the merge is done, but some files in the checkout of the base branch were not updated.
	Warning string
}

// ConflictError lists the files in which two branches conflict. Nothing was merged.
type ConflictError struct {
	Branch, Base string
	Files        []string
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("%s conflicts with %s in %s", e.Branch, e.Base, strings.Join(e.Files, ", "))
}

// Trailers of merge commits, which Landed looks for.
const (
	taskTrailer = "Signalbox-Task"
	tipTrailer  = "Signalbox-Tip"
)

const (
	mergeTree     = ".merge"
	mergeAttempts = 20
)

// Merge merges the task's branch into the base branch, always with a merge commit. It calls check, if not nil, with a temporary
// worktree of the result. If the base branch moves in the meantime, Merge starts again, including check. If it returns an error, the
// base branch is unchanged; the error is a *ConflictError, the error of check, or a git error.
func (r *Repo) Merge(ctx context.Context, task, message string, check func(ctx context.Context, dir string) error) (Merged, error) {
	if err := signalbox.CheckID(task); err != nil {
		return Merged{}, err
	}
	held, err := r.lock(ctx, mergeLock)
	if err != nil {
		return Merged{}, err
	}
	defer held.release()
	for range mergeAttempts {
		merged, err := r.mergeOnce(ctx, task, message, check)
		if !errors.Is(err, errMoved) {
			return merged, err
		}
	}
	return Merged{}, refusal(signalbox.CodeConflict, "find out what moves it, then try again", "the branch %s moved during each of %d merges of %s", r.Base, mergeAttempts, task)
}

func (r *Repo) mergeOnce(ctx context.Context, task, message string, check func(ctx context.Context, dir string) error) (Merged, error) {
	branch := branchPrefix + task
	found, err := r.refs(ctx, r.Base, branch)
	if err != nil {
		return Merged{}, err
	}
	base, err := r.baseOf(found)
	if err != nil {
		return Merged{}, err
	}
	tip := found[branch].commit
	if tip == "" {
		return Merged{}, branchGone(branch)
	}
	if upToDate, err := r.isAncestor(ctx, tip, base); upToDate || err != nil {
		return Merged{Commit: base, Before: base, UpToDate: err == nil}, err
	}
	if message = strings.TrimSpace(message); message == "" {
		message = "Merge " + task
	}
	message = fmt.Sprintf("%s\n\n%s: %s\n%s: %s\n", message, taskTrailer, task, tipTrailer, tip)
	commit, err := r.mergeCommit(ctx, base, tip, message, branch, r.Base)
	if err != nil {
		return Merged{}, err
	}
	r.step("merged")
	if check != nil {
		if err := r.checkMerge(ctx, commit, check); err != nil {
			return Merged{}, err
		}
	}
	r.step("checked")
	warning, err := r.landWithRetry(ctx, landing{Task: task, Base: r.Base, Before: base, After: commit})
	if err != nil {
		return Merged{}, err
	}
	return Merged{Commit: commit, Before: base, Warning: warning}, nil
}

// checkMerge calls check with a temporary worktree of a merge commit.
func (r *Repo) checkMerge(ctx context.Context, commit string, check func(ctx context.Context, dir string) error) (err error) {
	tree, err := r.checkOut(ctx, mergeTree, commit)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, tree.Close()) }()
	return check(ctx, tree.Dir)
}

func branchGone(branch string) error {
	return refusal(signalbox.CodeNotFound, "find its last commit with git reflog, then: git branch "+branch+" COMMIT", "the branch %s is gone", branch)
}

// mergeCommit creates a merge commit of two commits without touching a branch or a worktree.
func (r *Repo) mergeCommit(ctx context.Context, first, second, message, branch, base string) (string, error) {
	out, err := r.git(ctx, r.Root, "merge-tree", "--write-tree", "--no-messages", "--name-only", "-z", first, second)
	fields := strings.Split(strings.Trim(out, "\x00\n"), "\x00")
	if status(err) == 1 && len(fields) > 1 {
		files := fields[1:]
		slices.Sort(files)
		return "", &ConflictError{Branch: branch, Base: base, Files: slices.Compact(files)}
	}
	if err != nil {
		return "", err
	}
	out, err = r.run(ctx, call{dir: r.Root, stdin: []byte(message),
		args: []string{"commit-tree", "-p", first, "-p", second, "-F", "-", fields[0]}})
	return strings.TrimSpace(out), err
}

// Landed reports whether Merge has merged the task's branch as it is now, as after a crash between the merge and its record in the
// ledger. It finishes what the crash left undone. If the branch is gone, the last merge of the task counts.
func (r *Repo) Landed(ctx context.Context, task string) (Merged, bool, error) {
	if err := signalbox.CheckID(task); err != nil {
		return Merged{}, false, err
	}
	held, err := r.lock(ctx, landingLock)
	if err != nil {
		return Merged{}, false, err
	}
	defer held.release()
	warning, err := r.finishLanding(ctx, held)
	if err != nil {
		return Merged{}, false, err
	}
	found, err := r.refs(ctx, r.Base, branchPrefix+task)
	if err != nil {
		return Merged{}, false, err
	}
	base, err := r.baseOf(found)
	if err != nil {
		return Merged{}, false, err
	}
	tip := found[branchPrefix+task].commit
	args := []string{"log", "--no-show-signature", "--merges", "--format=%H %P%x00%(trailers:key=" + taskTrailer + ",valueonly,separator=%x2c)%x00"}
	if tip == "" {
		args = append(args, "--first-parent", "--fixed-strings", "--grep="+taskTrailer+": "+task, base)
	} else {
		args = append(args, "--ancestry-path", tip+".."+base)
	}
	out, err := r.git(ctx, r.Root, args...)
	if err != nil {
		return Merged{}, false, err
	}
	fields := strings.Split(out, "\x00")
	for i := 0; i+1 < len(fields); i += 2 {
		commits := strings.Fields(fields[i])
		if len(commits) == 3 && fields[i+1] == task && (tip == "" || commits[2] == tip) {
			return Merged{Commit: commits[0], Before: commits[1], Warning: warning}, true, nil
		}
	}
	return Merged{}, false, nil
}
