package workspace

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"signalbox"
)

// Trees and leftovers that are no task's. No task's name begins with a dot.
const (
	scratchPrefix = ".scratch-"
	trashPrefix   = ".trash-"
	asidePrefix   = ".aside-"
)

// forgottenPrefix begins the names of folders in git's own for what is off its list and to be removed.
const forgottenPrefix = "signalbox-forgotten-"

// Scratch checks a commit out in a tree of that name for f, and removes it afterwards. Whoever wants the same name waits.
func (r *Repo) Scratch(ctx context.Context, name, commit string, f func(dir string) error) error {
	if err := signalbox.CheckID(name); err != nil {
		return err
	}
	held, err := r.lock(ctx, scratchPrefix+name+".lock")
	if err != nil {
		return err
	}
	defer held.release()
	return r.inTree(ctx, scratchPrefix+name, commit, f)
}

// addTree is git worktree add.
func (r *Repo) addTree(ctx context.Context, dir string, args ...string) error {
	held, err := r.lock(ctx, treesLock)
	if err != nil {
		return err
	}
	defer held.release()
	// Twice, as git asks of those who replace a tree that is registered, locked and missing: a killed git leaves such.
	args = append([]string{"worktree", "add", "--quiet", "--force", "--force"}, args...)
	_, err = r.run(ctx, call{dir: r.Root, args: args, carry: held, ours: true})
	return err
}

// removeTree removes a tree, however complete, and what git knows of it. The folder is renamed first, so that nobody ever takes
// one with half its files for a task's.
func (r *Repo) removeTree(ctx context.Context, dir string) error {
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
	r.step("tree renamed")
	if err := r.forget(dir); err != nil {
		return err
	}
	r.step("tree forgotten")
	held.release() // deleting takes its time, and is nobody's concern
	if trash == "" {
		return nil
	}
	return removeAll(trash)
}

// forget removes a tree whose folder is gone from git's list, as git worktree remove does, which takes longer. It goes at once, so
// that no git ever meets half of it. The caller has the lock.
func (r *Repo) forget(dir string) error {
	for _, gitDir := range r.registrations() {
		if worktreeOf(gitDir) != dir {
			continue
		}
		trash, err := os.MkdirTemp(r.common, forgottenPrefix)
		if err != nil {
			return err
		}
		if err := os.Rename(gitDir, filepath.Join(trash, "tree")); err != nil {
			return err
		}
		r.step("tree off the list")
		if err := os.RemoveAll(trash); err != nil {
			return err
		}
	}
	return nil
}

// removeAll removes a folder also if something in it was made read-only, as module caches are.
func removeAll(dir string) error {
	if err := os.RemoveAll(dir); err == nil {
		return nil
	}
	filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			os.Chmod(name, 0o700)
		}
		return nil
	})
	return os.RemoveAll(dir)
}

// registered tells whether git has a worktree at dir in its list.
func (r *Repo) registered(dir string) bool {
	return slices.ContainsFunc(r.registrations(), func(gitDir string) bool { return worktreeOf(gitDir) == dir })
}

// registrations returns git's list of linked worktrees: the git folder of each.
func (r *Repo) registrations() []string {
	gitDirs, _ := filepath.Glob(filepath.Join(globQuote(r.common), "worktrees", "*"))
	return gitDirs
}

// worktreeOf returns the worktree of a git folder, whose file gitdir names the file .git there; "" if it cannot be told.
func worktreeOf(gitDir string) string {
	text, err := os.ReadFile(filepath.Join(gitDir, "gitdir"))
	if err != nil {
		return ""
	}
	link := filepath.FromSlash(strings.TrimSpace(string(text)))
	if !filepath.IsAbs(link) {
		link = filepath.Join(gitDir, link)
	}
	return filepath.Dir(link)
}

func globQuote(name string) string {
	if filepath.Separator == '\\' { // where the separator cannot quote
		return name
	}
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(name)
}

// Prune removes what killed processes left: trees of scratch and of merges that nobody uses, and what was to be removed.
func (r *Repo) Prune(ctx context.Context) error {
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

// forgetMissing makes git forget the trees of ours that are gone, and deletes what was renamed to be deleted.
func (r *Repo) forgetMissing(ctx context.Context) error {
	held, err := r.lock(ctx, treesLock)
	if err != nil {
		return err
	}
	defer held.release()
	var errs []error
	for _, gitDir := range r.registrations() {
		dir := worktreeOf(gitDir)
		_, err := os.Lstat(dir)
		if filepath.Dir(dir) == r.folder && errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, r.forget(dir))
		}
	}
	errs = append(errs, r.forgetUnborn())
	forgotten, _ := filepath.Glob(filepath.Join(globQuote(r.common), forgottenPrefix+"*"))
	for _, dir := range forgotten {
		errs = append(errs, os.RemoveAll(dir))
	}
	entries, err := os.ReadDir(r.folder)
	errs = append(errs, err)
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), trashPrefix) {
			errs = append(errs, removeAll(filepath.Join(r.folder, entry.Name())))
		}
	}
	return errors.Join(errs...)
}

// forgetUnborn removes what a git leaves in the list that was killed before it could say where its tree is to be. git itself
// never does. Others may be making one at this moment, hence the age.
func (r *Repo) forgetUnborn() error {
	var errs []error
	for _, gitDir := range r.registrations() {
		_, err := os.Stat(filepath.Join(gitDir, "gitdir"))
		info, statErr := os.Stat(gitDir)
		if errors.Is(err, fs.ErrNotExist) && statErr == nil && beingMade(gitDir) && time.Since(info.ModTime()) > oldLock {
			errs = append(errs, os.RemoveAll(gitDir))
		}
	}
	return errors.Join(errs...)
}
