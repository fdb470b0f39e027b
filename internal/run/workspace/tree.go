package workspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"signalbox"
	"signalbox/internal/durable"
	"signalbox/internal/git"
)

// Tree is the worktree of one task, on the branch signalbox/TASK.
type Tree struct {
	Dir, Branch, Task string

	repo   *Repo
	gitDir string
}

func (t *Tree) checkout() checkout { return checkout{commits: &t.repo.commits, dir: t.Dir} }

// Open returns the task's worktree. If it does not exist, it is created from the task's branch, or
// from the base branch with a new branch. If a killed process left it incomplete, it is created
// again; an interrupted move is finished. Open does not look at changes in it: see Save and
// Discard.
func (r *Repo) Open(ctx context.Context, task string) (*Tree, error) {
	if err := signalbox.CheckID(task); err != nil {
		return nil, err
	}
	return r.open(ctx, task, false, "")
}

// open opens the worktree. A new branch starts at a commit; "" means the base branch. If fresh is
// set, commits on an existing branch are kept elsewhere, and a new one is made.
func (r *Repo) open(ctx context.Context, task string, fresh bool, start string) (*Tree, error) {
	t := &Tree{Dir: filepath.Join(r.folder, task), Branch: branchPrefix + task, Task: task, repo: r}
	if !t.isComplete() {
		if err := t.create(ctx, fresh, start); err != nil {
			return nil, fmt.Errorf("create the worktree of %s: %w", task, err)
		}
	}
	if !t.isComplete() {
		return nil, fmt.Errorf("the worktree of %s in %s is damaged", task, t.Dir)
	}
	if err := t.finishMove(ctx); err != nil {
		return nil, err
	}
	return t, t.finishSetup(ctx)
}

// isComplete reports whether the worktree is complete and in git's list. It does not run git: it
// checks the links in both directions, and the mark that git keeps until all files are checked out.
func (t *Tree) isComplete() bool {
	gitDir, err := git.DirOf(t.Dir)
	if err != nil || filepath.Dir(gitDir) != filepath.Join(t.repo.common, "worktrees") {
		return false
	}
	t.gitDir = gitDir
	if git.WorktreeOf(gitDir) != t.Dir {
		return false
	}
	if _, err := os.Stat(filepath.Join(gitDir, "index")); err != nil {
		return false
	}
	return !isInitializing(gitDir)
}

// While a worktree is being created, its git folder has this file with this text. Git does the
// same.
const (
	lockedFile   = "locked"
	initializing = "initializing"
)

// isInitializing reports whether a worktree is not complete.
func isInitializing(gitDir string) bool {
	why, err := os.ReadFile(filepath.Join(gitDir, lockedFile))
	return err == nil && strings.TrimSpace(string(why)) == initializing
}

// create creates the worktree, or repairs it. See open for fresh and start.
func (t *Tree) create(ctx context.Context, fresh bool, start string) error {
	if err := t.clearFolder(ctx); err != nil || t.isComplete() {
		return err
	}
	r := t.repo
	// it was about another worktree
	if err := durable.Remove(r.note(preparedPrefix, t.Task)); err != nil {
		return err
	}
	found, err := r.refs(ctx, append(r.baseRefs(), t.Branch)...)
	if err != nil {
		return err
	}
	if at := found[t.Branch].checkout; at != "" && at != t.Dir {
		if _, err := os.Stat(at); err == nil {
			return signalbox.CodeConflict.Errorf("switch to another branch there",
				"the branch %s is checked out in %s", t.Branch, at)
		}
	}
	if fresh && found[t.Branch].commit != "" {
		if err := r.removeBranch(ctx, found, t.Task); err != nil {
			return err
		}
		delete(found, t.Branch)
	}
	r.step("creating worktree")
	if found[t.Branch].commit != "" {
		err = r.addTree(ctx, t.Dir, found[t.Branch].commit, t.Dir, t.Branch)
	} else {
		if start == "" {
			start, err = r.baseOf(ctx, found)
		}
		if err == nil {
			err = r.addTree(ctx, t.Dir, start, "-b", t.Branch, t.Dir, start)
		}
	}
	r.step("worktree created")
	return err
}

// clearFolder handles a folder that exists but is not a complete worktree. An incomplete one is
// removed. One that lost its link to the repository, as after the repository was moved, is
// repaired. Anything else belongs to a person, and is moved aside.
func (t *Tree) clearFolder(ctx context.Context) error {
	entries, err := os.ReadDir(t.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if t.isIncomplete() || len(entries) == 0 {
		return t.repo.removeTree(ctx, t.Dir)
	}
	// it can repair the worktree and still fail
	_, err = t.repo.git(ctx, "worktree", "repair", t.Dir)
	if t.isComplete() {
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

// isIncomplete reports whether git was killed while it created the worktree.
func (t *Tree) isIncomplete() bool {
	return slices.ContainsFunc(t.repo.registrations(),
		func(gitDir string) bool { return git.WorktreeOf(gitDir) == t.Dir && isInitializing(gitDir) })
}

// Commit returns the commit of the branch.
func (t *Tree) Commit(ctx context.Context) (string, error) {
	found, err := t.repo.refs(ctx, t.Branch)
	if err == nil && found[t.Branch].commit == "" {
		err = branchGone(t.Branch)
	}
	return found[t.Branch].commit, err
}

// Combine returns a commit that contains a task's commit and a commit of the base branch. It moves
// no branch. If the two conflict, the error is a *ConflictError.
func (r *commits) Combine(ctx context.Context, task, commit, base string) (string, error) {
	if err := cmp.Or(checkCommits(commit, base), r.checkHistory()); err != nil {
		return "", err
	}
	out, err := r.git(ctx, "merge-base", "--end-of-options", base, commit)
	if err != nil && status(err) != 1 { // status 1: no common commit, which the merge reports
		return "", err
	}
	switch strings.TrimSpace(out) {
	case base:
		return commit, nil
	case commit: // it has nothing of its own yet
		return base, nil
	}
	branch := branchPrefix + task
	return r.mergeCommit(ctx, commit, base, fmt.Sprintf("Merge %s into %s\n", r.Base, branch),
		branch, r.Base)
}

// Refresh merges a commit of the base branch into the task's branch, if it is not there yet. If
// they conflict, it returns the conflict and changes nothing. Uncommitted changes stay; if they are
// in the way, Refresh fails and changes nothing.
func (t *Tree) Refresh(ctx context.Context, base string) (*ConflictError, error) {
	tip, err := t.checkedOut(ctx)
	if err != nil {
		return nil, err
	}
	to, err := t.repo.Combine(ctx, t.Task, tip, base)
	if conflict, found := asConflict(err); found {
		return conflict, nil
	}
	if err != nil || to == tip {
		return nil, err
	}
	return nil, t.move(ctx, moving{From: tip, Branch: tip, To: to})
}

// Advance moves the branch and the worktree to a commit that continues the branch, such as a draft.
// Uncommitted changes stay; if they are in the way, Advance fails and changes nothing.
func (t *Tree) Advance(ctx context.Context, to string) error {
	tip, err := t.checkedOut(ctx)
	if err != nil {
		return err
	}
	return t.move(ctx, moving{From: tip, Branch: tip, To: to})
}

// checkedOut returns the commit of the task's branch, which must be checked out in the worktree.
func (t *Tree) checkedOut(ctx context.Context) (string, error) {
	found, err := t.repo.refs(ctx, t.Branch)
	switch {
	case err != nil:
		return "", err
	case found[t.Branch].commit == "":
		return "", branchGone(t.Branch)
	case found[t.Branch].checkout != t.Dir:
		return "", signalbox.CodeConflict.Errorf("", "the worktree of %s is not on its branch",
			t.Task)
	}
	return found[t.Branch].commit, nil
}

// Restore puts the branch and the worktree on a commit, and discards other changes. If the branch
// was at none of the expected commits, or the worktree had changes, found is the commit with all of
// that. It is kept under refs/signalbox/left/.
func (t *Tree) Restore(ctx context.Context, commit string,
	expected ...string) (found string, err error) {
	here, err := t.saveOrKeep(ctx, "Changes made after the work on "+t.Task+" was saved")
	if err != nil || here == commit {
		return "", err
	}
	if !slices.Contains(expected, here) {
		found = here
		if err := t.repo.keepCommit(ctx, t.Task, here); err != nil {
			return found, err
		}
	}
	return found, t.Discard(ctx, commit)
}

// saveOrKeep saves the worktree and returns the commit of the branch, also if there are changes
// that cannot be committed.
func (t *Tree) saveOrKeep(ctx context.Context, message string) (string, error) {
	commit, _, err := t.Save(ctx, message)
	if err != nil {
		return t.Commit(ctx)
	}
	return commit, nil
}

// Discard discards all uncommitted changes and moves the branch to commit. Ignored files stay, such
// as installed dependencies; Save does not commit them either.
func (t *Tree) Discard(ctx context.Context, commit string) error {
	if err := checkCommits(commit); err != nil {
		return err
	}
	if err := t.recordMove(moving{To: commit, Discard: true}); err != nil {
		return err
	}
	t.repo.step("discarding")
	if err := t.removeSpecialFiles(); err != nil {
		return err
	}
	// git refuses to leave a branch in the middle of some of these
	if err := t.clearOperations(); err != nil {
		return err
	}
	// Not checkout -B: if the branch has become a symbolic ref, that would move the branch which it
	// names.
	if _, err := t.repo.gitIn(ctx, t.Dir, "checkout", "--quiet", "--force", "--detach",
		commit); err != nil {
		return errors.Join(err, t.clearMove())
	}
	if _, err := t.repo.git(ctx, "update-ref", "--no-deref", "-m", "signalbox: discard",
		headsPrefix+t.Branch, commit); err != nil {
		return err
	}
	if err := t.attachHead(ctx); err != nil {
		return err
	}
	t.repo.step("checked out")
	clean := []string{"clean", "--quiet", "-d", "--force", "--force"}
	p, err := t.Preparation()
	if err != nil {
		return err
	}
	for _, pattern := range p.excluded() {
		clean = append(clean, "--exclude="+pattern)
	}
	if _, err := t.repo.gitIn(ctx, t.Dir, clean...); err != nil {
		return err
	}
	if err := t.repo.updateSubmodules(ctx, t.Dir, t.gitDir, commit); err != nil {
		return err
	}
	return t.clearMove()
}

// removeSpecialFiles removes what keeps git from running, such as a pipe in place of a .gitignore.
func (t *Tree) removeSpecialFiles() error {
	for name := range git.SpecialFiles(t.Dir) {
		if err := os.RemoveAll(filepath.Join(t.Dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// moving describes a move of a worktree, so that it can be finished if its process is killed.
type moving struct {
	// From is the commit of the files before the move, and To the one after it.
	From, To string
	// Branch is the commit of the branch before the move.
	Branch string
	// Discard reports that local changes are discarded.
	Discard bool
}

const movingFile = "signalbox-moving"

// recordMove saves a move that is about to start, so that another process can finish it if this one
// is killed.
func (t *Tree) recordMove(m moving) error {
	return writeJSON(filepath.Join(t.gitDir, movingFile), m)
}

func (t *Tree) clearMove() error { return durable.Remove(filepath.Join(t.gitDir, movingFile)) }

// move moves the worktree's files, its branch and its HEAD to a commit.
func (t *Tree) move(ctx context.Context, m moving) error {
	if err := t.recordMove(m); err != nil {
		return err
	}
	t.repo.step("moving")
	refused, err := t.checkout().readTree(ctx, m.From, m.To)
	if refused {
		return errors.Join(signalbox.CodeConflict.Errorf("commit or discard them first",
			"uncommitted changes in the worktree of %s are in the way: %w", t.Task, err),
			t.clearMove())
	}
	if err != nil {
		return err
	}
	t.repo.step("moved")
	return t.attach(ctx, m)
}

// attach moves the branch and attaches HEAD to it.
func (t *Tree) attach(ctx context.Context, m moving) error {
	// Even if it is there already: it may be a symbolic ref, which this replaces.
	if err := t.repo.moveRef(ctx, nil, t.Branch, m.To, m.Branch, "signalbox: update"); err != nil {
		return err
	}
	t.repo.step("branch moved")
	if err := t.attachHead(ctx); err != nil {
		return err
	}
	if err := t.repo.updateSubmodules(ctx, t.Dir, t.gitDir, m.To); err != nil {
		return err
	}
	return t.clearMove()
}

// attachHead makes the branch the current one of the worktree, without looking at files.
func (t *Tree) attachHead(ctx context.Context) error {
	head, err := os.ReadFile(filepath.Join(t.gitDir, "HEAD"))
	if err == nil && strings.TrimSpace(string(head)) == "ref: "+headsPrefix+t.Branch {
		return nil
	}
	_, err = t.repo.gitIn(ctx, t.Dir, "symbolic-ref", "HEAD", headsPrefix+t.Branch)
	return err
}

// finishMove finishes a move that a killed process left.
func (t *Tree) finishMove(ctx context.Context) error {
	var m moving
	if found, err := readJSON(filepath.Join(t.gitDir, movingFile), &m); err != nil {
		return fmt.Errorf("read %s of %s: %w", movingFile, t.Task, err)
	} else if !found {
		return nil
	}
	if m.Discard {
		return t.Discard(ctx, m.To)
	}
	found, err := t.repo.refs(ctx, t.Branch)
	if err != nil {
		return err
	}
	if at := found[t.Branch].commit; at != m.Branch && at != m.To {
		return t.clearMove() // the branch has moved since
	}
	m.Branch = found[t.Branch].commit
	if _, err := t.checkout().moveFiles(ctx, m.From, m.To, true); err != nil {
		return err
	}
	return t.attach(ctx, m)
}
