package contain

import (
	"path/filepath"
	"slices"
)

// always are folders that every sandbox has, with contents of its own.
var always = []string{"/", "/dev", "/proc", "/run", "/sys", "/tmp", "/var", "/var/tmp"}

// Shows reports whether the sandbox of a program shows a file or a folder of this machine. A nil
// program has no sandbox.
func (p *Program) Shows(name string) bool {
	if p == nil || !p.Policy.Restricted() {
		return true
	}
	real := resolve(name)
	if slices.Contains(always, real) || within(real, "/dev") || within(real, "/proc") {
		return true
	}
	allowed := slices.Concat(p.Policy.Read, p.Policy.Write, []string{p.Policy.Temp})
	if slices.ContainsFunc(allowed,
		func(folder string) bool { return folder != "" && within(resolve(folder), real) }) {
		return true // a folder that leads to something that is shown
	}
	return innermost(real, allowed) > innermost(real, p.Policy.Hidden)
}

// innermost returns the length of the longest of the folders that contain a path, 0 if none does.
func innermost(name string, folders []string) (length int) {
	for _, folder := range folders {
		if folder = resolve(folder); within(name, folder) {
			length = max(length, len(folder))
		}
	}
	return length
}

// resolve returns what a path leads to, or the path itself if there is nothing.
func resolve(name string) string {
	if name == "" {
		return ""
	}
	if real, err := filepath.EvalSymlinks(name); err == nil {
		return real
	}
	return filepath.Clean(name)
}

// Withholds reports whether a variable is in the environment of the user, but not in that of a
// program. A nil program gets all of them.
func (p *Program) Withholds(variable string) bool {
	return p != nil && slices.Contains(p.withheld, variable)
}

// InHome returns the path, relative to the program's own home folder, of a file there. ok is false
// for other files, and if the program uses the home folder of the user.
func (p *Program) InHome(name string) (rel string, ok bool) {
	if p == nil || p.home == "" || !within(name, p.home) {
		return "", false
	}
	rel, err := filepath.Rel(p.home, name)
	return rel, err == nil
}
