package workspace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"signalbox"
	"signalbox/internal/durable"
)

// Tree is the worktree of one task, on the branch signalbox/TASK.
type Tree struct {
	Dir, Branch, Task string

	repo   *Repo
	gitDir string
}

// Open returns the task's tree. If it is not there it is made, from the task's branch, or from base with a new branch. One that
// a killed process left half-made is made again; a move of it that was interrupted is finished. What an agent left in it, and
// how, is Keep's or Discard's concern.
func (r *Repo) Open(ctx context.Context, task string) (*Tree, error) {
	if err := signalbox.CheckID(task); err != nil {
		return nil, err
	}
	return r.open(ctx, task, false)
}

// open makes the tree from base if fresh is set, and what is on the branch is put aside.
func (r *Repo) open(ctx context.Context, task string, fresh bool) (*Tree, error) {
	t := &Tree{Dir: filepath.Join(r.folder, task), Branch: branchPrefix + task, Task: task, repo: r}
	if !t.whole() {
		if err := t.restore(ctx, fresh); err != nil {
			return nil, fmt.Errorf("make the tree of %s: %w", task, err)
		}
	}
	if !t.whole() {
		return nil, fmt.Errorf("the tree of %s in %s is not in order", task, t.Dir)
	}
	return t, t.finishMove(ctx)
}

// whole tells whether the tree is complete and git knows it. It needs no git: it looks at the links both ways, and at the mark
// that git keeps in a tree until all files are there.
func (t *Tree) whole() bool {
	gitDir, err := gitDirOf(t.Dir)
	if err != nil || filepath.Dir(gitDir) != filepath.Join(t.repo.common, "worktrees") {
		return false
	}
	t.gitDir = gitDir
	if worktreeOf(gitDir) != t.Dir {
		return false
	}
	if _, err := os.Stat(filepath.Join(gitDir, "index")); err != nil {
		return false
	}
	return !beingMade(gitDir)
}

func beingMade(gitDir string) bool {
	why, err := os.ReadFile(filepath.Join(gitDir, "locked"))
	return err == nil && strings.TrimSpace(string(why)) == "initializing"
}

// restore makes the tree, or makes it whole. A fresh one begins at base.
func (t *Tree) restore(ctx context.Context, fresh bool) error {
	if err := t.clearTheWay(ctx); err != nil || t.whole() {
		return err
	}
	r := t.repo
	found, err := r.refs(ctx, r.Base, t.Branch)
	if err != nil {
		return err
	}
	if at := found[t.Branch].checkout; at != "" && at != t.Dir {
		if _, err := os.Stat(at); err == nil {
			return refusal(signalbox.CodeConflict, "switch to another branch there", "the branch %s is checked out in %s", t.Branch, at)
		}
	}
	if fresh && found[t.Branch].commit != "" {
		if err := r.leave(ctx, found, t.Task); err != nil {
			return err
		}
		delete(found, t.Branch)
	}
	r.step("tree to be made")
	if found[t.Branch].commit != "" {
		err = r.addTree(ctx, t.Dir, t.Dir, t.Branch)
	} else {
		var base string
		if base, err = r.baseOf(found); err == nil {
			err = r.addTree(ctx, t.Dir, "-b", t.Branch, t.Dir, base)
		}
	}
	r.step("tree made")
	return err
}

// clearTheWay deals with a folder that is there but is not the tree: half-made, it goes; cut off from the repository, as after
// that was moved, it is joined again; anything else is somebody's, and put aside.
func (t *Tree) clearTheWay(ctx context.Context) error {
	entries, err := os.ReadDir(t.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if t.halfMade() || len(entries) == 0 {
		return t.repo.removeTree(ctx, t.Dir)
	}
	_, err = t.repo.git(ctx, t.repo.Root, "worktree", "repair", t.Dir) // which fails if it has nothing but the list to go by, and yet repairs
	if t.whole() {
		return nil
	}
	if ctx.Err() != nil {
		return err
	}
	aside, err := os.MkdirTemp(t.repo.folder, asidePrefix+t.Task+"-")
	if err != nil {
		return err
	}
	return os.Rename(t.Dir, filepath.Join(aside, t.Task))
}

// halfMade tells whether git was killed while it made the tree.
func (t *Tree) halfMade() bool {
	return slices.ContainsFunc(t.repo.registrations(), func(gitDir string) bool { return worktreeOf(gitDir) == t.Dir && beingMade(gitDir) })
}

// Commit returns the commit that the branch is at.
func (t *Tree) Commit(ctx context.Context) (string, error) {
	found, err := t.repo.refs(ctx, t.Branch)
	if err == nil && found[t.Branch].commit == "" {
		err = branchGone(t.Branch)
	}
	return found[t.Branch].commit, err
}

// Changed returns the files that the branch changes since it left base, or last took base in, sorted. A file that was renamed
// counts under both names.
func (t *Tree) Changed(ctx context.Context) ([]string, error) {
	out, err := t.repo.git(ctx, t.Dir, "diff", "--name-only", "--no-renames", "--no-ext-diff", "-z",
		headsPrefix+t.repo.Base+"..."+headsPrefix+t.Branch)
	if err != nil || out == "" {
		return nil, err
	}
	files := strings.Split(strings.TrimSuffix(out, "\x00"), "\x00")
	slices.Sort(files)
	return files, nil
}

// Refresh merges base into the branch if base has moved. If they conflict, it returns the files, and nothing has happened. Changes
// that are not committed stay, unless they are in the way: then Refresh fails and nothing has happened.
func (t *Tree) Refresh(ctx context.Context) (conflicts []string, err error) {
	r := t.repo
	found, err := r.refs(ctx, r.Base, t.Branch)
	if err != nil {
		return nil, err
	}
	base, err := r.baseOf(found)
	if err != nil {
		return nil, err
	}
	tip := found[t.Branch].commit
	if tip == "" {
		return nil, branchGone(t.Branch)
	}
	if found[t.Branch].checkout != t.Dir {
		return nil, refusal(signalbox.CodeConflict, "", "the tree of %s is not on its branch", t.Task)
	}
	out, err := r.git(ctx, r.Root, "merge-base", base, tip)
	if err != nil && status(err) != 1 { // 1: nothing in common, which the merge will say
		return nil, err
	}
	to := base
	switch strings.TrimSpace(out) {
	case base:
		return nil, nil
	case tip: // the branch has nothing of its own yet
	default:
		to, err = r.mergeCommit(ctx, tip, base, fmt.Sprintf("Merge %s into %s\n", r.Base, t.Branch), t.Branch, r.Base)
		if conflict := (*ConflictError)(nil); errors.As(err, &conflict) {
			return conflict.Files, nil
		}
		if err != nil {
			return nil, err
		}
	}
	return nil, t.move(ctx, moving{From: tip, Branch: tip, To: to})
}

// Discard throws away all that is not committed, and moves the branch to commit: what a reviewer did to the files does not
// count. Ignored files stay, such as installed dependencies, as Keep does not commit them either.
func (t *Tree) Discard(ctx context.Context, commit string) error {
	if err := t.announce(moving{To: commit, Discard: true}); err != nil {
		return err
	}
	t.repo.step("discarding")
	for _, o := range operations { // git would not leave a branch in the middle of some of these
		if err := os.RemoveAll(filepath.Join(t.gitDir, o.file)); err != nil {
			return err
		}
	}
	if _, err := t.repo.git(ctx, t.Dir, "checkout", "--quiet", "--force", "--no-track", "-B", t.Branch, commit); err != nil {
		return errors.Join(err, t.unannounce())
	}
	t.repo.step("checked out")
	if _, err := t.repo.git(ctx, t.Dir, "clean", "--quiet", "-d", "--force", "--force"); err != nil {
		return err
	}
	return t.unannounce()
}

// moving is what is being done to a tree, so that it can be finished should its process be killed.
type moving struct {
	// From is the commit whose files are there, To the one whose are to be there.
	From, To string
	// Branch is what the branch was at.
	Branch string
	// Discard says that nothing of what is there counts.
	Discard bool
}

const movingFile = "signalbox-moving"

func (t *Tree) announce(m moving) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return durable.Replace(filepath.Join(t.gitDir, movingFile), text, 0o600)
}

func (t *Tree) unannounce() error { return durable.Remove(filepath.Join(t.gitDir, movingFile)) }

// move brings the tree's files, the branch and the head to a commit.
func (t *Tree) move(ctx context.Context, m moving) error {
	if err := t.announce(m); err != nil {
		return err
	}
	t.repo.step("moving")
	refused, err := t.repo.advance(ctx, checkout{dir: t.Dir}, m.From, m.To)
	if refused {
		return errors.Join(refusal(signalbox.CodeConflict, "commit or discard them first", "uncommitted changes in the tree of %s are in the way: %w", t.Task, err), t.unannounce())
	}
	if err != nil {
		return err
	}
	t.repo.step("moved")
	return t.attach(ctx, m)
}

// attach moves the branch, and puts the head on it.
func (t *Tree) attach(ctx context.Context, m moving) error {
	if m.Branch != m.To {
		if err := t.repo.moveRef(ctx, nil, t.Branch, m.To, m.Branch, "signalbox: bring along"); err != nil {
			return err
		}
	}
	t.repo.step("branch moved")
	if head, err := os.ReadFile(filepath.Join(t.gitDir, "HEAD")); err != nil || strings.TrimSpace(string(head)) != "ref: "+headsPrefix+t.Branch {
		if _, err := t.repo.git(ctx, t.Dir, "symbolic-ref", "HEAD", headsPrefix+t.Branch); err != nil {
			return err
		}
	}
	return t.unannounce()
}

// finishMove finishes what a killed process left.
func (t *Tree) finishMove(ctx context.Context) error {
	text, err := os.ReadFile(filepath.Join(t.gitDir, movingFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var m moving
	if err := errors.Join(err, json.Unmarshal(text, &m)); err != nil {
		return fmt.Errorf("read %s of %s: %w", movingFile, t.Task, err)
	}
	if m.Discard {
		return t.Discard(ctx, m.To)
	}
	found, err := t.repo.refs(ctx, t.Branch)
	if err != nil {
		return err
	}
	if at := found[t.Branch].commit; at != m.Branch && at != m.To {
		return t.unannounce() // somebody moved it since
	}
	m.Branch = found[t.Branch].commit
	if _, err := t.repo.follow(ctx, checkout{dir: t.Dir}, m.From, m.To, true); err != nil {
		return err
	}
	return t.attach(ctx, m)
}
