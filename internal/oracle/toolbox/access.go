package toolbox

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// closedNames are names of files and folders that tools never read: a box holds its key, the others may hold passwords.
func closedNames() []string { return []string{".signalbox", ".git", ".hg", ".svn"} }

// secretNames are patterns for names of files and folders that usually hold passwords or keys. Tools never read them, because
// what a tool finds is sent to a model's server.
func secretNames() []string {
	return []string{".env", ".env.*", ".envrc", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*",
		".netrc", "_netrc", ".npmrc", ".pypirc", ".pgpass", ".git-credentials", ".htpasswd", ".ssh", ".gnupg", ".aws"}
}

// plainNames are patterns for names that match secretNames but hold no secrets.
func plainNames() []string {
	return []string{".env.example", ".env.sample", ".env.template", ".env.dist", "id_*.pub"}
}

// isSecret reports whether a name, without folders, usually holds secrets.
func isSecret(name string) bool {
	name = strings.ToLower(name)
	is := func(pattern string) bool { matched, _ := path.Match(pattern, name); return matched }
	return slices.ContainsFunc(secretNames(), is) && !slices.ContainsFunc(plainNames(), is)
}

// allowed returns an error if tools must not read a relative path because of a name in it.
func allowed(name, local string) error {
	for part := range strings.SplitSeq(filepath.ToSlash(local), "/") {
		if isOneOf(closedNames(), part) {
			return fmt.Errorf("%.200q is not accessible to tools: nothing in %s can be read", name, part)
		}
		if isSecret(part) {
			return fmt.Errorf("%.200q is not accessible to tools: %.100s may hold passwords or keys; continue without it", name, part)
		}
	}
	return nil
}

// unignored returns an error if a .gitignore file excludes an existing path, which has slashes. What a search skips cannot be
// read by its name either.
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
