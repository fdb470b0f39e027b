package toolbox

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// closedNames are names of files and folders that tools never read: a box holds its key, the others
// may hold passwords.
func closedNames() []string { return []string{".signalbox", ".git", ".hg", ".svn"} }

func isClosed(name string) bool { return slices.Contains(closedNames(), fold(name)) }

// allowed returns an error if tools must not read a relative path because of a name in it.
func allowed(name, local string) error {
	parent := ""
	for part := range strings.SplitSeq(filepath.ToSlash(local), "/") {
		if isClosed(part) {
			return fmt.Errorf("%.200q is not accessible to tools: nothing in %s can be read", name,
				part)
		}
		secret := isSecret(parent, part)
		parent = part
		if secret {
			return fmt.Errorf("%.200q is not accessible to tools: %.100s may hold passwords or keys; continue without it", name, part)
		}
	}
	return nil
}

// unignored returns an error if a .gitignore file excludes an existing path, which has slashes.
// What a search skips cannot be read by its name either.
func unignored(root *os.Root, name string, isFolder bool) error {
	var r *rules
	parts := strings.Split(name, "/")
	at := "."
	for i, part := range parts {
		r = r.below(root, at)
		at = join(at, part)
		if name != "." && r.exclude(at, part, isFolder || i < len(parts)-1) {
			return fmt.Errorf("%.200q is not accessible to tools: a .gitignore excludes %.200s; continue without it", name, at)
		}
	}
	return nil
}

// below returns r extended by the .gitignore of a folder, if it has one.
func (r *rules) below(root *os.Root, dir string) *rules {
	if text := readIgnoreFile(root, filepath.FromSlash(join(dir, ".gitignore"))); text != "" {
		return r.with(dir, text)
	}
	return r
}
