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

// checkSubmodules refuses a worktree in which an agent has made a repository of a submodule, and
// warns of changed files in one: neither can be saved.
func (t *Tree) checkSubmodules(ctx context.Context) error {
	list, err := readSubmodules(t.gitDir)
	if err != nil {
		return err
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
		out, err := t.repo.run(ctx, call{dir: t.Dir, env: s.environment(t.Dir),
			args: []string{"diff-files", "--name-only", "-z", "--ignore-submodules=all"}})
		if err != nil {
			return err
		}
		if out != "" {
			changed := strings.Split(strings.TrimSuffix(out, "\x00"), "\x00")
			t.repo.warn(fmt.Sprintf(
				"the work on %s changes files of the submodule %s, which cannot be saved: %s",
				t.Task, s.Path, listFiles(changed)))
		}
	}
	return nil
}
