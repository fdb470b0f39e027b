package workspace

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"signalbox"
)

// leftPrefix is where commits are kept that are on no branch of ours any more and not in base.
const leftPrefix = "refs/signalbox/left/"

// Close removes the task's tree with all that is not committed in it, and its branch. What the branch has and base has not is kept
// under refs/signalbox/left/.
func (r *Repo) Close(ctx context.Context, task string) error {
	if err := signalbox.CheckID(task); err != nil {
		return err
	}
	if err := r.removeTree(ctx, filepath.Join(r.folder, task)); err != nil {
		return err
	}
	branch := branchPrefix + task
	found, err := r.refs(ctx, r.Base, branch)
	if err != nil || found[branch].commit == "" || found[branch].checkout != "" {
		return err // somebody else may look at the branch in a worktree of theirs
	}
	return r.leave(ctx, found, task)
}

// leave removes the task's branch, and keeps what base has not.
func (r *Repo) leave(ctx context.Context, found map[string]ref, task string) error {
	base, err := r.baseOf(found)
	if err != nil {
		return err
	}
	tip := found[branchPrefix+task].commit
	merged, err := r.ancestor(ctx, tip, base)
	if err == nil && !merged {
		err = r.putAside(ctx, task, tip)
	}
	if err != nil {
		return err
	}
	r.step("put aside")
	_, err = r.git(ctx, r.Root, "update-ref", "-d", headsPrefix+branchPrefix+task, tip)
	return err
}

func (r *Repo) putAside(ctx context.Context, task, commit string) error {
	_, err := r.git(ctx, r.Root, "update-ref", leftPrefix+task+"/"+commit, commit)
	return err
}

// OpenNew is Open for a task on which nobody has worked yet: its tree begins at base. What another box left under the task's name
// is put aside: commits under refs/signalbox/left/, with what was not committed if that can be.
func (r *Repo) OpenNew(ctx context.Context, task string) (*Tree, error) {
	if err := signalbox.CheckID(task); err != nil {
		return nil, err
	}
	if _, err := os.Lstat(filepath.Join(r.folder, task)); err == nil {
		old, err := r.Open(ctx, task)
		if err != nil {
			return nil, err
		}
		// In no state that could be committed, it is of no more use to anybody than what was thrown away.
		if _, _, err := old.Keep(ctx, "Left here by another box"); err != nil && !Disorderly(err) {
			return nil, err
		}
		if err := r.removeTree(ctx, old.Dir); err != nil {
			return nil, err
		}
	}
	return r.open(ctx, task, true)
}

// Disorderly tells an error that says that only an agent could bring its tree into order from one of git, the disk, or a lock.
func Disorderly(err error) bool {
	classed, conflict := (*signalbox.Error)(nil), (*ConflictError)(nil)
	return errors.As(err, &conflict) || errors.As(err, &classed) && classed.Code == signalbox.CodeConflict && !errors.Is(err, ErrLocked)
}

// BranchCommit returns the commit that a task's branch is at, without a look at its tree; "" if it has no branch.
func (r *Repo) BranchCommit(ctx context.Context, task string) (string, error) {
	if err := signalbox.CheckID(task); err != nil {
		return "", err
	}
	found, err := r.refs(ctx, branchPrefix+task)
	return found[branchPrefix+task].commit, err
}

// Tasks returns the tasks that have a tree or a branch, sorted.
func (r *Repo) Tasks(ctx context.Context) ([]string, error) {
	var tasks []string
	entries, err := os.ReadDir(r.folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, entry := range entries {
		tasks = append(tasks, entry.Name())
	}
	found, err := r.refs(ctx, branchPrefix)
	if err != nil {
		return nil, err
	}
	for branch := range found {
		tasks = append(tasks, strings.TrimPrefix(branch, branchPrefix))
	}
	tasks = slices.DeleteFunc(tasks, func(task string) bool { return strings.HasPrefix(task, ".") || signalbox.CheckID(task) != nil })
	slices.Sort(tasks)
	return slices.Compact(tasks), nil
}
