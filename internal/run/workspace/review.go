package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"signalbox"
)

// Review looks at the work of tasks. It changes nothing, and can be used while agents work. Git runs no program that a repository
// names: neither external diffs nor text conversions.
type Review struct {
	repo   *Repo
	remove func()
}

// OpenReview returns a Review of the repository around dir, whose tasks have their worktrees in folder. The caller closes it.
func OpenReview(ctx context.Context, dir, folder string) (*Review, error) {
	r, err := newRepo(ctx, dir)
	if err != nil {
		return nil, err
	}
	if r.folder, err = filepath.Abs(folder); err != nil {
		return nil, err
	}
	if resolved, err := filepath.EvalSymlinks(r.folder); err == nil {
		r.folder = resolved // as git writes it
	}
	remove, err := r.useTemporary()
	return &Review{r, remove}, err
}

// Close removes temporary files.
func (v *Review) Close() { v.remove() }

// DiffOptions are options for a diff.
type DiffOptions struct {
	// Stat lists the files with the number of changed lines instead.
	Stat bool
	// Width is the width of the list of files; 0 means 80.
	Width int
}

func (o DiffOptions) args(command string) []string {
	args := []string{command, "--no-color", "--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty", "--find-renames"}
	switch {
	case o.Stat && o.Width > 0:
		return append(args, fmt.Sprintf("--stat=%d", o.Width))
	case o.Stat:
		return append(args, "--stat")
	}
	return append(args, "--patch")
}

// Head returns the commit that is checked out in the person's own worktree.
func (v *Review) Head(ctx context.Context) (string, error) {
	out, err := v.repo.git(ctx, v.repo.Root, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
	return strings.TrimSpace(out), err
}

// MergeBase returns the commit that two commits have in common, or base if they have none.
func (v *Review) MergeBase(ctx context.Context, base, commit string) (string, error) {
	bases, err := v.repo.mergeBases(ctx, base, commit)
	if err != nil {
		return "", v.explain(err, commit)
	}
	return bases[0], nil
}

// Diff writes what changed from one commit to another.
func (v *Review) Diff(ctx context.Context, w io.Writer, from, to string, o DiffOptions) error {
	_, err := v.repo.run(ctx, call{dir: v.repo.Root, args: append(o.args("diff"), "--end-of-options", from+"^{commit}", to+"^{commit}", "--"), stdout: w}) // -- would not be a commit
	return v.explain(err, to)
}

// explain names a commit that is not in the repository.
func (v *Review) explain(err error, commit string) error {
	if stderrHas(err, "bad object", "unknown revision", "bad revision", "Not a valid") {
		return &signalbox.Error{Code: signalbox.CodeNotFound, Err: fmt.Errorf("commit %.12s is not in this repository", commit),
			Hint: "run the command in the repository in which the agents work"}
	}
	return err
}

// ErrNoTree means that a task has no worktree.
var ErrNoTree = errors.New("the task has no working copy")

// tree returns the worktree of a task, or ErrNoTree.
func (v *Review) tree(task string) (string, error) {
	if err := signalbox.CheckID(task); err != nil {
		return "", err
	}
	dir := filepath.Join(v.repo.folder, task)
	info, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
		return "", ErrNoTree
	}
	return dir, err
}

// TreeHead returns the commit that is checked out in the worktree of a task.
func (v *Review) TreeHead(ctx context.Context, task string) (string, error) {
	dir, err := v.tree(task)
	if err != nil {
		return "", err
	}
	state, err := v.repo.status(ctx, dir, "--untracked-files=no", "--ignore-submodules=dirty")
	return state.commit, err
}

// Uncommitted returns the files of a task's worktree that are changed or new, and not committed. It returns ErrNoTree if there is no
// worktree.
func (v *Review) Uncommitted(ctx context.Context, task string) ([]string, error) {
	dir, err := v.tree(task)
	if err != nil {
		return nil, err
	}
	state, err := v.repo.status(ctx, dir, "--untracked-files=all", "--ignore-submodules=dirty")
	return state.files, err
}

// maxNewFiles is how many new files DiffWorking shows.
const maxNewFiles = 200

// DiffWorking writes what changed from a commit to the worktree of a task: what the agent has not saved yet, with new files.
func (v *Review) DiffWorking(ctx context.Context, w io.Writer, task, from string, o DiffOptions) error {
	dir, err := v.tree(task)
	if err != nil {
		return err
	}
	if _, err := v.repo.run(ctx, call{dir: dir, args: append(o.args("diff"), "--end-of-options", from+"^{commit}", "--"), stdout: w}); err != nil {
		return v.explain(err, from)
	}
	out, err := v.repo.git(ctx, dir, "ls-files", "--others", "--exclude-standard", "-z")
	if err != nil {
		return err
	}
	files := strings.Split(strings.TrimSuffix(out, "\x00"), "\x00")
	if out == "" {
		return nil
	}
	for _, name := range files[:min(len(files), maxNewFiles)] {
		_, err := v.repo.run(ctx, call{dir: dir, args: append(o.args("diff"), "--no-index", "--", os.DevNull, name), stdout: w})
		if err != nil && status(err) != 1 { // 1 means that they differ
			return err
		}
	}
	if more := len(files) - maxNewFiles; more > 0 {
		_, err = fmt.Fprintf(w, "… and %d more new files\n", more)
	}
	return err
}
