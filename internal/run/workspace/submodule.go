package workspace

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"signalbox"
	"signalbox/internal/git"
)

// Submodules of our worktrees have the files of their commits, but are not repositories: there is
// no .git in them. The files come from the clones in the git folder of the project, or in its
// checkout. Nothing is fetched, and no configuration of a submodule is read: the objects are read
// through the view of the project's repository. So an agent cannot commit in a submodule, and git
// never looks into one.

// submodule is a submodule whose files are in a worktree.
type submodule struct {
	Path   string
	Commit string
	// Objects is the folder with its objects, and Index an index of its files.
	Objects, Index string
}

// submodulesFile is the file in the git folder of a worktree that lists its submodules. Their
// indexes have it as a prefix.
const submodulesFile = "signalbox-submodules"

// maxSubmodules bounds how many submodules, also inside each other, are put into a worktree.
const maxSubmodules = 500

// readSubmodules returns the submodules whose files are in a worktree.
func readSubmodules(gitDir string) (list []submodule, err error) {
	_, err = readJSON(filepath.Join(gitDir, submodulesFile), &list)
	return list, err
}

// updateSubmodules makes the files of the submodules in a worktree those that a commit of the
// project names. A submodule that is not there is reported to Warn, and its folder stays empty.
func (r *runner) updateSubmodules(ctx context.Context, dir, gitDir, commit string) error {
	before, err := readSubmodules(gitDir)
	if err != nil {
		return err
	}
	if before == nil && !isRegular(filepath.Join(dir, ".gitmodules")) {
		return nil
	}
	u := &submoduleUpdate{repo: r, dir: dir, gitDir: gitDir, before: before}
	if err := u.walk(ctx, "", commit, filepath.Join(r.common, "modules"), "",
		u.update); err != nil {
		return fmt.Errorf("put submodules into %s: %w", dir, err)
	}
	for _, old := range before {
		if !slices.ContainsFunc(u.now, func(s submodule) bool { return s.Path == old.Path }) {
			if err := u.remove(old); err != nil {
				return err
			}
		}
	}
	return writeJSON(filepath.Join(gitDir, submodulesFile), u.now)
}

// submoduleUpdate is a run of updateSubmodules.
type submoduleUpdate struct {
	repo        *runner
	dir, gitDir string
	before, now []submodule
	count       int
}

// update puts the files of a submodule into the worktree. It reports whether they are there.
func (u *submoduleUpdate) update(ctx context.Context, s submodule) (bool, error) {
	if s.Objects == "" {
		u.repo.warn(fmt.Sprintf(
			"the submodule %s is not in worktrees, because its commit %.12s is not on this machine: run git submodule update --init --recursive in %s",
			s.Path, s.Commit, u.repo.Root))
		return false, nil
	}
	s.Index = filepath.Join(u.gitDir, submodulesFile+"-"+strconv.Itoa(u.count))
	if i := slices.IndexFunc(u.before,
		func(old submodule) bool { return old.Path == s.Path }); i >= 0 {
		s.Index = u.before[i].Index
	}
	if err := u.checkOut(ctx, s); err != nil {
		if ctx.Err() != nil {
			return false, err
		}
		// such as a partial clone, without its files
		u.repo.warn(fmt.Sprintf("the submodule %s is not in worktrees: %v", s.Path, err))
		return false, nil
	}
	u.now = append(u.now, s)
	return true, nil
}

// walk visits the submodules of a repository that is itself at a path in the worktree, "" for the
// project, and then those inside each of them if visit returns true. Objects of one whose commit is
// not on this machine is "". objects is where the repository's own objects are, "" for those of the
// project, and modules where git keeps the clones of its submodules.
func (u *submoduleUpdate) walk(ctx context.Context, at, commit, modules, objects string,
	visit func(context.Context, submodule) (bool, error)) error {
	links, err := u.links(ctx, commit, objects)
	if err != nil || len(links) == 0 {
		return err
	}
	names, err := u.names(ctx, commit, objects)
	if err != nil {
		return err
	}
	for _, link := range links {
		if u.count++; u.count > maxSubmodules {
			return fmt.Errorf("there are more than %d submodules", maxSubmodules)
		}
		s := submodule{Path: path.Join(at, link.Path), Commit: link.Commit}
		clone, found := u.findClone(ctx, s.Path,
			filepath.Join(modules, filepath.FromSlash(names[link.Path])), names[link.Path],
			link.Commit)
		if found {
			s.Objects = filepath.Join(clone, "objects")
		}
		enter, err := visit(ctx, s)
		if err == nil && enter && found {
			err = u.walk(ctx, s.Path, s.Commit, filepath.Join(clone, "modules"), s.Objects, visit)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// withObjects returns the environment in which git reads objects from a folder; "" means those of
// the project.
func withObjects(objects string) []string {
	if objects == "" {
		return nil
	}
	return []string{"GIT_OBJECT_DIRECTORY=" + objects}
}

// links returns the submodules that a commit names.
func (u *submoduleUpdate) links(ctx context.Context, commit,
	objects string) (links []submodule, err error) {
	out, err := u.repo.run(ctx, call{dir: u.dir, env: withObjects(objects),
		args: []string{"ls-tree", "-r", "-z", "--full-tree", commit}})
	for entry := range strings.SplitSeq(out, "\x00") {
		about, name, _ := strings.Cut(entry, "\t")
		if fields := strings.Fields(about); len(fields) == 3 && fields[0] == modeSubmodule {
			links = append(links, submodule{Path: name, Commit: fields[2]})
		}
	}
	return links, err
}

// names returns the names that .gitmodules gives the submodules of a commit, by path. Those that
// could lead elsewhere are left out.
func (u *submoduleUpdate) names(ctx context.Context, commit,
	objects string) (map[string]string, error) {
	out, err := u.repo.run(ctx, call{dir: u.dir, env: withObjects(objects),
		args: []string{"config", "--blob", commit + ":.gitmodules", "--no-includes", "-z",
			"--get-regexp", `^submodule\..*\.path$`}})
	if err != nil && status(err) < 0 {
		return nil, err
	}
	names := map[string]string{} // there are none if .gitmodules is missing or wrong
	for entry := range strings.SplitSeq(out, "\x00") {
		key, at, _ := strings.Cut(entry, "\n")
		name := strings.TrimSuffix(strings.TrimPrefix(key, "submodule."), ".path")
		if name != "" && filepath.IsLocal(filepath.FromSlash(name)) && path.Clean(name) == name {
			names[path.Clean(at)] = name
		}
	}
	return names, nil
}

// findClone returns the git folder of a clone of a submodule on this machine that has a commit: the
// one that git keeps for the project, or that of the submodule in the checkout of the project.
func (u *submoduleUpdate) findClone(ctx context.Context, at, kept, name,
	commit string) (clone string, found bool) {
	var clones []string
	if name != "" {
		clones = append(clones, kept)
	}
	folder := filepath.Join(u.repo.Root, filepath.FromSlash(at))
	if dir, err := git.DirOf(folder); err == nil && !isBehindLink(u.repo.Root, at) &&
		(isWithin(dir, filepath.Join(u.repo.common, "modules")) ||
			dir == filepath.Join(folder, ".git")) {
		clones = append(clones, dir)
	}
	for _, clone := range clones {
		objects := filepath.Join(clone, "objects")
		if info, err := os.Lstat(objects); err != nil || !info.IsDir() {
			continue
		}
		if here, _ := u.repo.exists(ctx, commit, withObjects(objects)); here {
			return clone, true
		}
	}
	return "", false
}

// checkOut puts the files of a submodule into the worktree. Changes to them are lost.
func (u *submoduleUpdate) checkOut(ctx context.Context, s submodule) error {
	folder := filepath.Join(u.dir, filepath.FromSlash(s.Path))
	if info, err := os.Lstat(folder); err != nil || !info.IsDir() || isBehindLink(u.dir, s.Path) {
		return nil // somebody removed it
	}
	_, err := u.repo.run(ctx, call{dir: u.dir, env: s.environment(u.dir),
		args: []string{"read-tree", "--reset", "-u", "--no-recurse-submodules", s.Commit}})
	return err
}

// environment returns the environment in which git works on the files of a submodule in a worktree.
func (s submodule) environment(dir string) []string {
	return append(withObjects(s.Objects), "GIT_WORK_TREE="+
		filepath.Join(dir, filepath.FromSlash(s.Path)), "GIT_INDEX_FILE="+s.Index)
}

// remove removes the files of a submodule that the project does not have any more.
func (u *submoduleUpdate) remove(s submodule) error {
	root, err := os.OpenRoot(u.dir)
	if err != nil {
		return err
	}
	defer root.Close()
	os.Remove(s.Index)
	return root.RemoveAll(filepath.FromSlash(s.Path))
}

// addSubmoduleEdits adds to the state of a worktree what has changed inside its submodules.
func (r *runner) addSubmoduleEdits(ctx context.Context, dir string, state *treeState) (
	changed []string, err error,
) {
	gitDir, err := r.gitDir(dir)
	if err != nil {
		return nil, err
	}
	list, err := readSubmodules(gitDir)
	if err != nil {
		return nil, err
	}
	changed, added, err := r.submoduleEdits(ctx, dir, list)
	state.files = slices.Concat(state.files, changed, added)
	state.untracked = append(state.untracked, added...)
	return changed, err
}

// checkSubmodules refuses a worktree with changes inside a submodule of the project, and one in
// which an agent has made a repository of it: neither can be saved. links are the submodules in the
// index. One that the task itself adds needs the approval of the human, if its files are not here.
func (t *Tree) checkSubmodules(ctx context.Context, links []submodule) error {
	list, err := readSubmodules(t.gitDir)
	if err != nil {
		return err
	}
	for _, link := range links {
		known := func(s submodule) bool { return s.Path == link.Path }
		if entries, _ := os.ReadDir(filepath.Join(t.Dir, filepath.FromSlash(link.Path))); len(
			entries) == 0 || slices.ContainsFunc(list, known) {
			continue
		}
		// Its files are not on this machine, so its folder was empty.
		base, err := t.repo.BaseCommit(ctx)
		if err == nil {
			base, err = t.repo.line(ctx, "", "merge-base", "--end-of-options", base,
				headsPrefix+t.Branch)
		}
		if err == nil {
			_, err = t.repo.git(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options",
				base+":"+link.Path)
		}
		if err == nil {
			list = append(list, link)
		} else if status(err) != 1 {
			return err
		}
	}
	for _, s := range list {
		if isBehindLink(t.Dir, s.Path) || isMissing(t.Dir, s.Path) {
			continue
		}
		if _, err := os.Lstat(filepath.Join(t.Dir, filepath.FromSlash(s.Path),
			".git")); err == nil {
			return signalbox.CodeConflict.Errorf("remove "+s.Path+
				"/.git; a person must make the change in a clone of the submodule",
				"the worktree of %s has a repository in the submodule %s, and commits in submodules are not supported", t.Task, s.Path)
		}
	}
	changed, added, err := t.repo.submoduleEdits(ctx, t.Dir, list)
	if err != nil {
		return err
	}
	p, err := t.Preparation()
	if err != nil {
		return err
	}
	added = slices.DeleteFunc(added, func(name string) bool { return p.excludes(t.Dir, name) })
	if edited := append(changed, added...); len(edited) > 0 {
		return signalbox.CodeConflict.Errorf(
			"undo these changes, and remove files that a build has left there; a person must make the change in a clone of the submodule",
			"the work on %s changes files in a submodule, which cannot be saved: %s", t.Task,
			listFiles(edited))
	}
	return nil
}

// submoduleEdits returns the files in submodules of a worktree that differ from their commits, and
// those that git neither knows nor ignores.
func (r *runner) submoduleEdits(ctx context.Context, dir string, list []submodule) (changed,
	added []string, err error,
) {
	for _, s := range list {
		if isBehindLink(dir, s.Path) || isMissing(dir, s.Path) {
			continue
		}
		if s.Index == "" { // its files are not on this machine
			entries, err := os.ReadDir(filepath.Join(dir, filepath.FromSlash(s.Path)))
			if err != nil {
				return nil, nil, err
			}
			for _, entry := range entries {
				added = append(added, path.Join(s.Path, entry.Name()))
			}
			continue
		}
		names := func(args ...string) (names []string, err error) {
			out, err := r.run(ctx, call{dir: dir, env: s.environment(dir), args: args})
			for name := range strings.SplitSeq(strings.TrimSuffix(out, "\x00"), "\x00") {
				if name != "" {
					names = append(names, path.Join(s.Path, name))
				}
			}
			return names, err
		}
		// otherwise a file with another time is listed too
		if _, err := names("update-index", "-q", "--refresh"); err != nil && status(err) != 1 {
			return nil, nil, err
		}
		different, err := names("diff-files", "--name-only", "-z", "--ignore-submodules=all")
		if err != nil {
			return nil, nil, err
		}
		unknown, err := names("ls-files", "--others", "--exclude-standard", "-z")
		if err != nil {
			return nil, nil, err
		}
		changed, added = append(changed, different...), append(added, unknown...)
	}
	return changed, added, nil
}
