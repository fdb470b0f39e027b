package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"signalbox"
)

// Review looks at the work of tasks. It changes nothing, and can be used while agents work. Git
// runs no program that a repository names: neither external diffs nor text conversions.
type Review struct {
	repo   *Repo
	remove func()
}

// OpenReview returns a Review of the repository around dir, whose tasks have their worktrees in
// folder. The caller closes it.
func OpenReview(ctx context.Context, dir, folder string) (*Review, error) {
	r, remove, err := Borrow(ctx, dir)
	if err != nil {
		return nil, err
	}
	r.folder, err = filepath.Abs(folder)
	r.resolveFolder()
	return &Review{r, remove}, err
}

// Close removes temporary files.
func (v *Review) Close() { v.remove() }

// Head returns the commit that is checked out in the person's own worktree.
func (v *Review) Head(ctx context.Context) (string, error) {
	return v.repo.line(ctx, "", "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
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
	return v.explain(v.repo.Diff(ctx, w, from, to, o), to)
}

// Steering returns the files with which a commit changes what steers agents; see
// Repo.SteeringEdits.
func (v *Review) Steering(ctx context.Context, from, to string) ([]string, error) {
	files, err := v.repo.SteeringEdits(ctx, from, to)
	return files, v.explain(err, to)
}

// explain names a commit that is not in the repository.
func (v *Review) explain(err error, commit string) error {
	if stderrHas(err, "bad object", "unknown revision", "bad revision", "Not a valid") {
		return signalbox.CodeNotFound.Errorf(
			"run the command in the repository in which the agents work",
			"commit %.12s is not in this repository", commit)
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
	if _, err := os.Lstat(filepath.Join(dir, ".git")); errors.Is(err, fs.ErrNotExist) {
		return "", ErrNoTree // it is being created or removed
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

// Uncommitted returns the files of a task's worktree that are changed or new, and that Save would
// commit. It returns ErrNoTree if there is no worktree.
func (v *Review) Uncommitted(ctx context.Context, task string) ([]string, error) {
	state, err := v.state(ctx, task)
	return state.files, err
}

// state returns the state of a task's worktree, without what was put into it to make it ready.
func (v *Review) state(ctx context.Context, task string) (state treeState, err error) {
	dir, err := v.tree(task)
	if err != nil {
		return state, err
	}
	if state, err = v.repo.status(ctx, dir, "--untracked-files=all",
		"--ignore-submodules=dirty"); err != nil {
		return state, err
	}
	t := &Tree{Task: task, Dir: dir, repo: v.repo}
	return state, t.leaveOut(&state)
}

// WorkingBase returns the commit that a worktree is compared with to see what its author has not
// saved yet: saved, or the merge with which the base came into the worktree after that. base is the
// commit of the base.
func (v *Review) WorkingBase(ctx context.Context, task, saved, base string) (string, error) {
	head, err := v.TreeHead(ctx, task)
	if err != nil {
		return "", err
	}
	merge, err := v.repo.git(ctx, "rev-list", "--first-parent", "--merges",
		"--max-count=1", "--parents", "--end-of-options", head, "^"+saved+"^{commit}")
	if err != nil {
		return "", v.explain(err, saved)
	}
	commits := strings.Fields(merge)
	if len(commits) != 3 {
		return saved, nil
	}
	if _, err := v.repo.git(ctx, "merge-base", "--is-ancestor", "--end-of-options",
		commits[2], base+"^{commit}"); status(err) == 1 {
		return saved, nil // an agent has merged something else
	} else if err != nil {
		return "", v.explain(err, base)
	}
	return commits[0], nil
}

// maxNewFiles is how many new files DiffWorking shows.
const maxNewFiles = 200

// DiffWorking writes what changed from a commit to the worktree of a task: what the agent has not
// saved yet, with new files.
func (v *Review) DiffWorking(ctx context.Context, w io.Writer, task, from string,
	o DiffOptions) error {
	state, err := v.state(ctx, task)
	if err != nil {
		return err
	}
	index, remove, err := v.copyIndex(ctx, task)
	if err != nil {
		return err
	}
	defer remove()
	files := state.untracked[:min(len(state.untracked), maxNewFiles)]
	tree, err := v.stageAll(ctx, index, files)
	if err != nil {
		return err
	}
	if err := v.repo.diffTrees(ctx, w, from+"^{commit}", tree, index.objectsEnv, o); err != nil {
		return v.explain(err, from)
	}
	if more := len(state.untracked) - len(files); more > 0 {
		_, err = fmt.Fprintf(w, "… and %d more new files\n", more)
	}
	return err
}

// stageAll stores the files of a worktree as Save would, in the copy of its index, and returns the
// tree. newFiles are those that git does not know yet.
func (v *Review) stageAll(ctx context.Context, index copiedIndex,
	newFiles []string) (string, error) {
	args := []string{"diff-files", "--name-only", "-z", "--ignore-submodules=dirty"}
	changed, err := v.repo.run(ctx, call{dir: index.dir, args: args, env: index.env})
	if err != nil {
		return "", err
	}
	files := slices.DeleteFunc(append(strings.Split(changed, "\x00"), newFiles...),
		func(name string) bool {
			return name == "" || strings.HasSuffix(name, "/") // a repository of its own
		})
	if err := v.repo.stage(ctx, index.dir, index.env, files); err != nil {
		return "", err
	}
	tree, err := v.repo.run(ctx, call{dir: index.dir, args: []string{"write-tree"}, env: index.env})
	return strings.TrimSpace(tree), err
}

// copiedIndex is a copy of the index of a worktree.
type copiedIndex struct {
	dir string   // of the worktree
	env []string // in which git uses the copy
	// objectsEnv is the part of env with which git stores objects where they are not kept: looking
	// must change nothing in the repository.
	objectsEnv []string
}

// copyIndex copies the index of a task's worktree. In the copy no file is hidden from git, as an
// agent may have done in its own.
func (v *Review) copyIndex(ctx context.Context, task string) (c copiedIndex, remove func(),
	err error) {
	if c.dir, err = v.tree(task); err != nil {
		return c, nil, err
	}
	gitDir, err := v.repo.gitDir(c.dir)
	if err != nil {
		return c, nil, err
	}
	temp, err := os.MkdirTemp("", "signalbox-index-")
	if err != nil {
		return c, nil, err
	}
	remove = func() { os.RemoveAll(temp) }
	defer func() {
		if err != nil {
			remove()
		}
	}()
	content, err := os.ReadFile(filepath.Join(gitDir, "index"))
	if err == nil {
		err = os.WriteFile(filepath.Join(temp, "index"), content, 0o600)
	}
	objects := filepath.Join(temp, "objects")
	if err == nil {
		err = os.Mkdir(objects, 0o700)
	}
	if err != nil {
		return c, nil, err
	}
	c.objectsEnv = []string{"GIT_OBJECT_DIRECTORY=" + objects,
		"GIT_ALTERNATE_OBJECT_DIRECTORIES=" + filepath.Join(v.repo.common, "objects")}
	c.env = append([]string{"GIT_INDEX_FILE=" + filepath.Join(temp, "index")}, c.objectsEnv...)
	err = v.unhide(ctx, c)
	return c, remove, err
}

// unhide clears the flags with which files are hidden from git.
func (v *Review) unhide(ctx context.Context, c copiedIndex) error {
	out, err := v.repo.run(ctx, call{dir: c.dir, args: []string{"ls-files", "-v", "-z"},
		env: c.env})
	if err != nil {
		return err
	}
	var hidden []string
	for entry := range strings.SplitSeq(out, "\x00") {
		if mark, name, _ := strings.Cut(entry, " "); isHidden(mark) {
			hidden = append(hidden, name)
		}
	}
	return v.repo.unhide(ctx, c.dir, c.env, hidden)
}
