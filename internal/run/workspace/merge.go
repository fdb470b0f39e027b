package workspace

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"signalbox"
)

// Merged is what a merge did.
type Merged struct {
	// Commit is what base is at, and Before what it was at.
	Commit, Before string
	// Nothing says that base had everything of the branch already.
	Nothing bool
	// Warning is for people: the merge counts, and the checkout of base could not follow in all files.
	Warning string
}

// ConflictError says which files two branches change in ways that exclude each other. Nothing was merged.
type ConflictError struct {
	Branch, Base string
	Files        []string
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("%s conflicts with %s in %s", e.Branch, e.Base, strings.Join(e.Files, ", "))
}

// Trailers of merge commits, by which Landed knows them.
const (
	taskTrailer = "Signalbox-Task"
	tipTrailer  = "Signalbox-Tip"
)

const (
	mergeTree     = ".merge"
	mergeAttempts = 20
)

// Merge merges the task's branch into base, always with a merge commit. check looks at the result in a tree of its own, and
// nothing that it changes there counts; nil looks at nothing. If base moved meanwhile it starts over, check included. An error
// means that base never saw the merge; it is a *ConflictError, or check's own, or one of git.
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
	return Merged{}, refusal(signalbox.CodeConflict, "see what moves it, then try again", "%s was moved during each of %d merges of %s", r.Base, mergeAttempts, task)
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
	if nothing, err := r.ancestor(ctx, tip, base); nothing || err != nil {
		return Merged{Commit: base, Before: base, Nothing: err == nil}, err
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
		err := r.inTree(ctx, mergeTree, commit, func(dir string) error { return check(ctx, dir) })
		if err != nil {
			return Merged{}, err
		}
	}
	r.step("checked")
	warning, err := r.landPatiently(ctx, landing{Task: task, Base: r.Base, Before: base, After: commit})
	if err != nil {
		return Merged{}, err
	}
	return Merged{Commit: commit, Before: base, Warning: warning}, nil
}

func branchGone(branch string) error {
	return refusal(signalbox.CodeNotFound, "find its last commit with git reflog, then: git branch "+branch+" COMMIT", "the branch %s is gone", branch)
}

// mergeCommit makes a merge of two commits that is on no branch and in no folder yet.
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

// Landed tells whether what is on the task's branch now was merged into base by Merge, as after a crash between the merge and its
// record, and finishes what the crash left. If the branch is gone, it is the last merge of the task that counts.
func (r *Repo) Landed(ctx context.Context, task string) (Merged, bool, error) {
	if err := signalbox.CheckID(task); err != nil {
		return Merged{}, false, err
	}
	held, err := r.lock(ctx, landingLock)
	if err != nil {
		return Merged{}, false, err
	}
	defer held.release()
	warning, err := r.recover(ctx, held)
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

// inTree checks a commit out in a tree of that name for f.
func (r *Repo) inTree(ctx context.Context, name, commit string, f func(dir string) error) (err error) {
	dir := filepath.Join(r.folder, name)
	if err := r.removeTree(ctx, dir); err != nil {
		return err
	}
	r.step("tree to be made")
	// The caller's patience may end; the tree is removed all the same.
	defer func() { err = errors.Join(err, r.removeTree(context.WithoutCancel(ctx), dir)) }()
	if err := r.addTree(ctx, dir, "--no-checkout", "--detach", dir, commit); err != nil {
		return err
	}
	// Beside other trees that are made: only git's list of them is locked.
	if _, err := r.git(ctx, dir, "reset", "--quiet", "--hard", "--no-recurse-submodules"); err != nil {
		return err
	}
	r.step("tree made")
	return f(dir)
}
