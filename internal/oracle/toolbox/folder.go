package toolbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// folder is where a tool reads, and nowhere else.
type folder struct{ dir string }

// skippedNames are folders that a search passes over unless it is told to look there: they are written by others.
func skippedNames() []string { return []string{"node_modules", "vendor"} }

func isOneOf(names []string, name string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) })
}

func (f folder) open() (*os.Root, error) {
	root, err := os.OpenRoot(f.dir)
	if err != nil {
		return nil, fmt.Errorf("the folder %s cannot be opened (%v): tell the user to correct it in the configuration", f.dir, cause(err))
	}
	return root, nil
}

// cause is an error without the operation and the path, which the text around it names.
func cause(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}

// inside returns the path of what a model named, relative to the folder, with slashes and without links on the way where
// it exists. What is outside, or closed to tools, is an error. The check makes good errors; what keeps a tool inside,
// whatever changes meanwhile, is that all is opened through an os.Root.
func (f folder) inside(name string) (string, error) {
	if strings.ContainsRune(name, 0) {
		return "", fmt.Errorf("%.200q is no path: it has a zero byte", name)
	}
	if name == "" {
		return ".", nil
	}
	local := filepath.FromSlash(name)
	if filepath.IsAbs(local) {
		relative, ok := f.relative(local)
		if !ok {
			return "", f.outside(name)
		}
		local = relative
	}
	local = filepath.Clean(local)
	if !filepath.IsLocal(local) {
		return "", f.outside(name)
	}
	if err := allowed(name, local); err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(filepath.Join(f.dir, local))
	if err != nil {
		return filepath.ToSlash(local), nil // it is not there, which whoever opens it will say
	}
	relative, ok := f.relative(real)
	if !ok {
		return "", fmt.Errorf("%.200q is a link that leads out of the folder: it cannot be read", name)
	}
	if err := allowed(name, relative); err != nil {
		return "", err
	}
	return filepath.ToSlash(relative), nil
}

// relative is a whole path as seen from the folder, if it is in it.
func (f folder) relative(name string) (string, bool) {
	dir, err := filepath.Abs(f.dir)
	if err != nil {
		return "", false
	}
	for _, from := range []func(string) (string, error){func(d string) (string, error) { return d, nil }, filepath.EvalSymlinks} {
		base, err := from(dir)
		if err != nil {
			continue
		}
		if !filepath.IsAbs(name) {
			if name, err = filepath.Abs(name); err != nil {
				return "", false
			}
		}
		if relative, err := filepath.Rel(base, name); err == nil && filepath.IsLocal(relative) {
			return relative, true
		}
	}
	return "", false
}

// outside is the error about a path out of the folder, with what was perhaps meant.
func (f folder) outside(name string) error {
	within := strings.TrimPrefix(path.Clean("/"+filepath.ToSlash(name)), "/")
	if filepath.IsLocal(filepath.FromSlash(within)) && allowed(name, within) == nil {
		if root, err := f.open(); err == nil {
			defer root.Close()
			if _, err := root.Lstat(filepath.FromSlash(within)); err == nil {
				return fmt.Errorf("%.200q is outside the folder: paths are relative to it, did you mean %s?", name, within)
			}
		}
	}
	return fmt.Errorf("%.200q is outside the folder: paths are relative to it, such as . or docs/guide.md", name)
}

// join is a path below a folder, both with slashes.
func join(dir, name string) string {
	if dir == "." {
		return name
	}
	return dir + "/" + name
}
