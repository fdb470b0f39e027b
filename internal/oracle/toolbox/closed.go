package toolbox

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// closedNames are folders, and files, that no tool looks into: one holds a box with its key, the others may hold passwords.
func closedNames() []string { return []string{".signalbox", ".git", ".hg", ".svn"} }

// secretNames are names, of files and folders, of what holds passwords or keys by custom. No tool looks into them: what a
// tool finds goes to a model's server.
func secretNames() []string {
	return []string{".env", ".env.*", ".envrc", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*",
		".netrc", "_netrc", ".npmrc", ".pypirc", ".pgpass", ".git-credentials", ".htpasswd", ".ssh", ".gnupg", ".aws"}
}

// plainNames are names that look like those and hold none.
func plainNames() []string {
	return []string{".env.example", ".env.sample", ".env.template", ".env.dist", "id_*.pub"}
}

// isSecret reports whether a name, without folders, is one of them.
func isSecret(name string) bool {
	name = strings.ToLower(name)
	is := func(pattern string) bool { matched, _ := path.Match(pattern, name); return matched }
	return slices.ContainsFunc(secretNames(), is) && !slices.ContainsFunc(plainNames(), is)
}

// allowed reports whether a relative path may be looked at, by its name.
func allowed(name, local string) error {
	for part := range strings.SplitSeq(filepath.ToSlash(local), "/") {
		if isOneOf(closedNames(), part) {
			return fmt.Errorf("%.200q is closed to tools: nothing in %s can be read", name, part)
		}
		if isSecret(part) {
			return fmt.Errorf("%.200q is closed to tools: %.100s may hold passwords or keys; go on without it", name, part)
		}
	}
	return nil
}

// unignored reports whether a path that is there, with slashes, may be looked at by what .gitignore files say: what a
// search leaves out for them cannot be read by its name either.
func unignored(root *os.Root, name string, isFolder bool) error {
	var r *rules
	parts := strings.Split(name, "/")
	at := "."
	for i, part := range parts {
		r = r.below(root, at)
		at = join(at, part)
		if name != "." && r.exclude(at, part, isFolder || i < len(parts)-1) {
			return fmt.Errorf("%.200q is closed to tools: a .gitignore leaves %.200s out; go on without it", name, at)
		}
	}
	return nil
}

// below adds the rules of a folder's own .gitignore.
func (r *rules) below(root *os.Root, dir string) *rules {
	if text := readIgnoreFile(root, filepath.FromSlash(join(dir, ".gitignore"))); text != "" {
		return r.with(dir, text)
	}
	return r
}
