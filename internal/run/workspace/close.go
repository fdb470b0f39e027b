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
	"signalbox/internal/durable"
)

// leftPrefix is the prefix of refs that keep commits of removed branches that were not merged.
const leftPrefix = "refs/signalbox/left/"

// Close removes the task's worktree, including uncommitted changes, and its branch. If the branch
// was not merged, its commit is kept under refs/signalbox/left/.
func (r *worktrees) Close(ctx context.Context, task string) error {
	if err := signalbox.CheckID(task); err != nil {
		return err
	}
	if err := r.removeTask(ctx, task); err != nil {
		return err
	}
	branch := branchPrefix + task
	found, err := r.refs(ctx, append(r.baseRefs(), branch)...)
	if err != nil || found[branch].commit == "" || found[branch].checkout != "" {
		return err // a person may have the branch checked out in another worktree
	}
	return r.removeBranch(ctx, found, task)
}

// note returns the file of the folder that has something about a task.
func (r *runner) note(prefix, task string) string { return filepath.Join(r.folder, prefix+task) }

// removeTask removes the worktree of a task, and what is noted about it.
func (r *worktrees) removeTask(ctx context.Context, task string) error {
	if err := r.removeTree(ctx, filepath.Join(r.folder, task)); err != nil {
		return err
	}
	return errors.Join(durable.Remove(r.note(preparedPrefix, task)),
		durable.Remove(r.note(pushedPrefix, task)), durable.Remove(r.note(authorPrefix, task)))
}

// removeBranch removes the task's branch, and keeps its commit if it was not merged.
func (r *worktrees) removeBranch(ctx context.Context, found map[string]ref, task string) error {
	base, err := r.baseOf(ctx, found)
	if err != nil {
		return err
	}
	tip := found[branchPrefix+task].commit
	merged, err := r.isAncestor(ctx, tip, base)
	if err == nil && !merged {
		err = r.keepCommit(ctx, task, tip)
	}
	if err != nil {
		return err
	}
	r.step("commit kept")
	_, err = r.git(ctx, "update-ref", "--no-deref", "-d", headsPrefix+branchPrefix+task,
		tip)
	return err
}

// keepCommit keeps a commit reachable after its branch is gone.
func (r *commits) keepCommit(ctx context.Context, task, commit string) error {
	_, err := r.git(ctx, "update-ref", "--no-deref", leftPrefix+task+"/"+commit, commit)
	return err
}

// OpenNew is like Open for a task that has not been worked on: its worktree starts at the base
// branch. If another box left a branch of the same name, its commits are kept under
// refs/signalbox/left/, with uncommitted changes if they can be committed.
func (r *Repo) OpenNew(ctx context.Context, task string) (*Tree, error) {
	return r.OpenNewAt(ctx, task, "")
}

// OpenNewAt is OpenNew for a worktree that starts at a commit; "" means the base branch.
func (r *Repo) OpenNewAt(ctx context.Context, task, commit string) (*Tree, error) {
	if err := signalbox.CheckID(task); err != nil {
		return nil, err
	}
	if commit != "" {
		if err := checkCommits(commit); err != nil {
			return nil, err
		}
	}
	if _, err := os.Lstat(filepath.Join(r.folder, task)); err == nil {
		old, err := r.Open(ctx, task)
		if err != nil {
			return nil, err
		}
		if _, _, err := old.Save(ctx, "Changes of an earlier box"); err != nil && !NeedsAgent(err) {
			return nil, err
		}
		if err := r.removeTree(ctx, old.Dir); err != nil {
			return nil, err
		}
	}
	return r.open(ctx, task, true, commit)
}

// NeedsAgent reports whether err means that the worktree is in a state that only an agent can clean
// up. Other errors come from git, the disk or a lock.
func NeedsAgent(err error) bool {
	_, conflict := asConflict(err)
	return conflict || signalbox.CodeOf(err) == signalbox.CodeConflict && !errors.Is(err, ErrLocked)
}

// BranchCommit returns the commit of a task's branch, or "" if it has none.
func (r *worktrees) BranchCommit(ctx context.Context, task string) (string, error) {
	if err := signalbox.CheckID(task); err != nil {
		return "", err
	}
	found, err := r.refs(ctx, branchPrefix+task)
	return found[branchPrefix+task].commit, err
}

// Tasks returns the tasks that have a worktree or a branch, sorted.
func (r *worktrees) Tasks(ctx context.Context) ([]string, error) {
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
	tasks = slices.DeleteFunc(tasks,
		func(task string) bool { return strings.HasPrefix(task, ".") || signalbox.CheckID(task) != nil })
	slices.Sort(tasks)
	return slices.Compact(tasks), nil
}

// Reopen returns the repository around dir, to remove what is in a folder of worktrees. Unlike Find
// it does not check whether work is possible. base is the base branch, "" the one checked out.
func Reopen(ctx context.Context, dir, folder, base string) (*Repo, error) {
	r, err := newRepo(ctx, dir)
	if err != nil {
		return nil, err
	}
	if r.folder, err = filepath.Abs(folder); err != nil {
		return nil, err
	}
	if r.shallow, err = r.readShallow(); err != nil {
		return nil, err
	}
	if err := r.createFolder(); err != nil {
		return nil, err
	}
	if r.Base = base; base == "" {
		r.Base, err = r.branchHere(ctx)
	}
	return r, err
}

// TreeDir returns the folder of the worktree of a task.
func (r *worktrees) TreeDir(task string) string { return filepath.Join(r.folder, task) }

// Retire removes the worktree and the branch of a task that has ended. What was not merged, with
// changes that were not committed, is kept under the ref that it returns; "" means that nothing is.
// If the changes cannot be saved, the error is one that NeedsAgent reports, and all of it stays.
func (r *Repo) Retire(ctx context.Context, task string) (kept string, err error) {
	tip := ""
	if r.HasTree(task) {
		tree, err := r.Open(ctx, task)
		if err != nil {
			return "", err
		}
		tip, _, err = tree.Save(ctx, task+": changes that were not committed")
		if err != nil {
			return "", err
		}
	} else if tip, err = r.BranchCommit(ctx, task); err != nil {
		return "", err
	}
	base, err := r.BaseCommit(ctx)
	if err != nil {
		return "", err
	}
	if merged, err := r.Contains(ctx, base, tip); err != nil {
		return "", err
	} else if !merged {
		kept = leftPrefix + task + "/" + tip
		if err := r.keepCommit(ctx, task, tip); err != nil {
			return "", err
		}
	}
	return kept, r.Close(ctx, task)
}
