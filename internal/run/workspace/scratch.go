package workspace

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"signalbox"
	"signalbox/internal/contain"
	"signalbox/internal/git"
)

// Prefixes of folders that are not worktrees of tasks. A task id never starts with a dot.
const (
	scratchPrefix = ".scratch-"
	trashPrefix   = ".trash-"
	asidePrefix   = ".aside-"
)

// forgottenPrefix is the prefix of folders in git's own folder that are no longer in its list of
// worktrees and are to be removed.
const forgottenPrefix = "signalbox-forgotten-"

// Scratch is a temporary worktree of one commit. Changes in it are discarded.
type Scratch struct {
	Dir string

	repo   *worktrees
	commit string
	lock   *heldLock // nil for a merge, which holds mergeLock
	// steering is what Steer found about base the last time.
	base     string
	steering *steeringChange
}

// OpenScratch checks out a commit in a temporary worktree. If the name is in use, it waits until
// that one is closed.
func (r *worktrees) OpenScratch(ctx context.Context, name, commit string) (*Scratch, error) {
	if err := cmp.Or(signalbox.CheckID(name), checkCommits(commit)); err != nil {
		return nil, err
	}
	held, err := r.lock(ctx, scratchPrefix+name+".lock")
	if err != nil {
		return nil, err
	}
	s, err := r.checkOut(ctx, scratchPrefix+name, commit)
	if err != nil {
		held.release()
		return nil, err
	}
	s.lock = held
	return s, nil
}

// Close removes the worktree.
func (s *Scratch) Close() error {
	defer s.lock.release()
	return s.repo.removeTree(context.Background(), s.Dir)
}

// checkOut checks out a commit in a new worktree of that name, replacing an old one. The caller
// holds the lock of the name.
func (r *worktrees) checkOut(ctx context.Context, name, commit string) (*Scratch, error) {
	s := &Scratch{Dir: filepath.Join(r.folder, name), repo: r, commit: commit}
	if err := r.removeTree(ctx, s.Dir); err != nil {
		return nil, err
	}
	r.step("creating worktree")
	if err := r.addTree(ctx, s.Dir, commit, "--detach", s.Dir, commit); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	r.step("worktree created")
	return s, nil
}

// addTree creates a worktree with the files of a commit. Until they are complete, the worktree is
// marked as initializing.
func (r *worktrees) addTree(ctx context.Context, dir, commit string, args ...string) error {
	gitDir, err := r.registerTree(ctx, dir, args)
	if err != nil {
		return err
	}
	// Outside treesLock, so that several worktrees can be checked out at once. By commit, and
	// without touching HEAD: another process may have changed that by now.
	if _, err := r.gitIn(ctx, dir, "read-tree", "--reset", "-u", "--no-recurse-submodules",
		commit); err != nil {
		return err
	}
	if err := r.updateSubmodules(ctx, dir, gitDir, commit); err != nil {
		return err
	}
	return os.Remove(filepath.Join(gitDir, lockedFile))
}

// registerTree runs git worktree add without a checkout, and returns the git folder of the
// worktree.
func (r *worktrees) registerTree(ctx context.Context, dir string,
	args []string) (gitDir string, err error) {
	held, err := r.lock(ctx, treesLock)
	if err != nil {
		return "", err
	}
	defer held.release()
	if err := r.repository.CreateWorktrees(); err != nil {
		return "", err
	}
	// Git requires --force twice to replace a worktree that is registered, locked and missing, as a
	// killed git leaves it.
	args = append([]string{"worktree", "add", "--quiet", "--force", "--force", "--no-checkout",
		"--lock", "--reason", initializing}, args...)
	if _, err = r.run(ctx, call{dir: r.Root, args: args, inherit: held, inWorktrees: true,
		helpers: true}); err != nil {
		return "", err
	}
	r.step("worktree registered")
	// Git has written the path through the view.
	if gitDir, err = git.DirOf(dir); err != nil {
		return "", err
	}
	gitDir = filepath.Join(r.common, "worktrees", filepath.Base(gitDir))
	return gitDir, os.WriteFile(filepath.Join(dir, ".git"),
		[]byte("gitdir: "+filepath.ToSlash(gitDir)+"\n"), 0o666)
}

// removeTree removes a worktree, complete or not, and its entry in git's list. It renames the
// folder first, so that a half-removed one is never taken for the worktree of a task.
func (r *worktrees) removeTree(ctx context.Context, dir string) error {
	_, err := os.Lstat(dir)
	missing := errors.Is(err, fs.ErrNotExist)
	if missing && !r.registered(dir) {
		return nil
	}
	held, err := r.lock(ctx, treesLock)
	if err != nil {
		return err
	}
	defer held.release()
	trash := ""
	if !missing {
		parent, err := os.MkdirTemp(r.folder, trashPrefix)
		if err != nil {
			return err
		}
		trash = parent
		if err := os.Rename(dir, filepath.Join(parent, "tree")); err != nil {
			return err
		}
	}
	r.step("worktree renamed")
	if err := r.forget(dir); err != nil {
		return err
	}
	r.step("worktree unlisted")
	held.release() // deleting takes a while and needs no lock
	if trash == "" {
		return nil
	}
	return contain.RemoveAll(trash)
}

// forget removes a worktree whose folder is gone from git's list, like git worktree remove but
// faster. It renames the entry first, so that no git reads half of it. The caller holds treesLock.
func (r *worktrees) forget(dir string) error {
	for _, gitDir := range r.registrations() {
		if git.WorktreeOf(gitDir) != dir {
			continue
		}
		trash, err := os.MkdirTemp(r.common, forgottenPrefix)
		if err != nil {
			return err
		}
		if err := os.Rename(gitDir, filepath.Join(trash, "tree")); err != nil {
			return err
		}
		r.step("entry renamed")
		if err := os.RemoveAll(trash); err != nil {
			return err
		}
	}
	return nil
}

// registered reports whether git lists a worktree at dir.
func (r *worktrees) registered(dir string) bool {
	return slices.ContainsFunc(r.registrations(),
		func(gitDir string) bool { return git.WorktreeOf(gitDir) == dir })
}

// registrations returns the git folders of all linked worktrees.
func (r *worktrees) registrations() []string {
	gitDirs, _ := filepath.Glob(filepath.Join(globQuote(r.common), "worktrees", "*"))
	return gitDirs
}

func globQuote(name string) string {
	if filepath.Separator == '\\' { // Windows, where patterns cannot be quoted
		return name
	}
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(name)
}

// Prune removes what killed processes left: scratch and merge worktrees that are not in use, and
// half-removed folders.
func (r *worktrees) Prune(ctx context.Context) error {
	entries, err := os.ReadDir(r.folder)
	if err != nil {
		return err
	}
	trees := map[string]bool{mergeTree: true}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), scratchPrefix) {
			trees[strings.TrimSuffix(entry.Name(), ".lock")] = true
		}
	}
	var errs []error
	for name := range trees {
		held, err := r.tryLock(name + ".lock")
		if err != nil {
			errs = append(errs, err)
		}
		if held != nil {
			errs = append(errs, r.removeTree(ctx, filepath.Join(r.folder, name)))
			held.release()
		}
	}
	errs = append(errs, r.forgetMissing(ctx))
	return errors.Join(errs...)
}

// forgetMissing removes our worktrees that are gone from git's list, and deletes folders that were
// renamed for deletion.
func (r *worktrees) forgetMissing(ctx context.Context) error {
	held, err := r.lock(ctx, treesLock)
	if err != nil {
		return err
	}
	defer held.release()
	var errs []error
	for _, gitDir := range r.registrations() {
		dir := git.WorktreeOf(gitDir)
		_, err := os.Lstat(dir)
		if filepath.Dir(dir) == r.folder && errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, r.forget(dir))
		}
	}
	errs = append(errs, r.forgetIncomplete())
	forgotten, _ := filepath.Glob(filepath.Join(globQuote(r.common), forgottenPrefix+"*"))
	for _, dir := range forgotten {
		errs = append(errs, os.RemoveAll(dir))
	}
	entries, err := os.ReadDir(r.folder)
	errs = append(errs, err)
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), trashPrefix) {
			errs = append(errs, contain.RemoveAll(filepath.Join(r.folder, entry.Name())))
		}
	}
	return errors.Join(errs...)
}

// forgetIncomplete removes entries of git's list without a gitdir file, which a killed git leaves
// and git never removes. Another git may be creating an entry right now, so only old ones are
// removed.
func (r *worktrees) forgetIncomplete() error {
	var errs []error
	for _, gitDir := range r.registrations() {
		_, err := os.Stat(filepath.Join(gitDir, "gitdir"))
		info, statErr := os.Stat(gitDir)
		if errors.Is(err, fs.ErrNotExist) && statErr == nil && isInitializing(gitDir) &&
			time.Since(info.ModTime()) > oldLock {
			errs = append(errs, os.RemoveAll(gitDir))
		}
	}
	return errors.Join(errs...)
}
