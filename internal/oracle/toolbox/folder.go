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

// folder is the only directory that a tool reads.
type folder struct{ dir string }

// skippedNames are folders of third-party code, which a search skips unless its path names them.
func skippedNames() []string { return []string{"node_modules", "vendor"} }

func isOneOf(names []string, name string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) })
}

func (f folder) open() (*os.Root, error) {
	root, err := os.OpenRoot(f.dir)
	if err != nil {
		return nil, fmt.Errorf(
			"cannot open the folder %s (%v): tell the user to correct it in the configuration",
			f.dir, cause(err))
	}
	return root, nil
}

// cause strips the operation and the path from an error.
func cause(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}

// inside returns the path that a model gave, relative to the folder, with slashes and with symbolic
// links resolved if it exists. It returns an error for a path that is outside or not accessible to
// tools. This check is for good error messages; what keeps a tool inside, even if files change in
// the meantime, is that everything is opened through an os.Root.
func (f folder) inside(name string) (string, error) {
	if strings.ContainsRune(name, 0) {
		return "", fmt.Errorf("%.200q is not a path: it has a zero byte", name)
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
		return filepath.ToSlash(local), nil // it does not exist; opening it returns the error
	}
	relative, ok := f.relative(real)
	if !ok {
		return "", fmt.Errorf("%.200q is a link to a file outside the folder", name)
	}
	if err := allowed(name, relative); err != nil {
		return "", err
	}
	return filepath.ToSlash(relative), nil
}

// relative returns an absolute path relative to the folder, and whether it is inside.
func (f folder) relative(name string) (string, bool) {
	dir, err := filepath.Abs(f.dir)
	if err != nil {
		return "", false
	}
	for _, from := range []func(string) (string,
		error){func(d string) (string, error) { return d, nil }, filepath.EvalSymlinks} {
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

// outside returns the error for a path outside the folder, with a suggestion if the same path
// exists inside.
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

// join joins two slash-separated paths.
func join(dir, name string) string {
	if dir == "." {
		return name
	}
	return dir + "/" + name
}
