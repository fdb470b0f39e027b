package team

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"signalbox/internal/config"
	"signalbox/internal/durable"
)

// readOwn returns the text of a box's own configuration, and a digest of it and of the files that
// it names.
func readOwn(box string) (text []byte, digest string, err error) {
	box, err = realPath(box)
	if err != nil {
		return nil, "", err
	}
	files := map[string][]byte{}
	add := func(name string) error {
		if len(files) == maxFiles {
			return fmt.Errorf("the configuration of the box names more than %d files", maxFiles)
		}
		text, err := durable.ReadRegular(name, maxFile)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		files[name] = text
		return err
	}
	own := filepath.Join(box, config.FileName)
	if err := add(own); err != nil {
		return nil, "", err
	}
	for _, named := range config.OwnFiles(box, files[own]) {
		names := []string{named.Path}
		if named.Folder {
			entries, err := os.ReadDir(named.Path)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return files[own], "", err
			}
			names = nil
			for _, entry := range entries {
				if filepath.Ext(entry.Name()) == ".md" && !entry.IsDir() {
					names = append(names, filepath.Join(named.Path, entry.Name()))
				}
			}
		}
		for _, name := range names {
			if err := add(name); err != nil {
				return files[own], "", err
			}
		}
	}
	return files[own], digestOf(files), nil
}

// DigestWithBox is Digest with the box's own configuration, for a box that needs trust too.
func (s *Shared) DigestWithBox() string {
	return digestOf(map[string][]byte{"team": []byte(s.Digest()), "own": []byte(s.Own)})
}

// TrustedBox reports whether the user trusts the box's own configuration as it is. known is what
// Find returned.
func (s *Shared) TrustedBox(known *Record) bool {
	return known != nil && s.Own != "" && s.Own == known.Own
}

// checkBox refuses a box that came with the repository around it: its configuration would count
// without trust. r is the repository around the folder dir, or nil. It reports whether the box is
// at the top of a repository; a box that is not may have come with an archive.
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
		return false, errors.Join(err, fmt.Errorf("the box %s is not in the repository %s", box,
			top))
	}
	tracked, err := r.findTracked(filepath.ToSlash(below))
	if err != nil || tracked == "" {
		return parent == top, err
	}
	return false, refuse("if you made it, remove it from git: git rm -r --cached "+
		filepath.ToSlash(below)+"; if not, look at it before you delete it", "%w",
		kindError{ErrTracked, fmt.Sprintf(
			"the box %s came with the repository (git tracks %s), so it is not used: its configuration could run anything", box, tracked)})
}

// ErrTracked means that a box came with the repository around it. Nothing in that box is used.
var ErrTracked = errors.New("a box that came with the repository")

// kindError is an error of a kind that callers ask for: ErrTracked or ErrUntrusted.
type kindError struct {
	kind error
	text string
}

func (e kindError) Error() string { return e.text }
func (e kindError) Unwrap() error { return e.kind }

// findTracked returns a file at or below a path that is in the index or in the last commit, "" if
// there is none. In the index case is ignored, because on some systems two names that differ only
// in case are one file.
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
		if out, err = r.git("", "ls-tree", "-r", "-z", "--name-only", "--full-tree", id, "--",
			below); err != nil {
			return "", err
		}
	}
	name, _, _ := strings.Cut(out, "\x00")
	return name, nil
}
