package team

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// checkBox refuses a box that came with the repository around it: its configuration would count without trust. r is the repository
// around the folder dir, or nil. It reports whether the box is at the top of a repository; a box that is not may have come with an archive.
func checkBox(ctx context.Context, r *repository, dir, box string) (atTop bool, err error) {
	box, err = filepath.Abs(box)
	if err != nil {
		return false, err
	}
	parent, err := filepath.EvalSymlinks(filepath.Dir(box))
	if err != nil {
		return false, err
	}
	if parent != dir {
		if r, err = openRepository(ctx, parent); r != nil {
			defer r.close()
		}
	}
	if err != nil || r == nil {
		return false, err
	}
	top, err := filepath.EvalSymlinks(r.Root)
	if err != nil {
		return false, err
	}
	below, err := filepath.Rel(top, filepath.Join(parent, filepath.Base(box)))
	if err != nil || !filepath.IsLocal(below) {
		return false, errors.Join(err, fmt.Errorf("the box %s is not in the repository %s", box, top))
	}
	tracked, err := r.findTracked(filepath.ToSlash(below))
	if err != nil || tracked == "" {
		return parent == top, err
	}
	return false, refuse("if you made it, remove it from git: git rm -r --cached "+filepath.ToSlash(below)+"; if not, look at it before you delete it",
		"the box %s came with the repository (git tracks %s), so it is not used: its configuration could run anything", box, tracked)
}

// findTracked returns a file at or below a path that is in the index or in the last commit, "" if there is none. In the index case is ignored, because
// on some systems two names that differ only in case are one file.
func (r *repository) findTracked(below string) (string, error) {
	out, err := r.run(nil, "", "ls-files", "-z", "--cached", "--", ":(top,icase,literal)"+below)
	if err != nil {
		return "", err
	}
	if out == "" {
		id, err := r.head()
		if err != nil || id == "" {
			return "", err
		}
		if out, err = r.git("", "ls-tree", "-r", "-z", "--name-only", "--full-tree", id, "--", below); err != nil {
			return "", err
		}
	}
	name, _, _ := strings.Cut(out, "\x00")
	return name, nil
}
