package contain

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// loginFiles are the places, below the folder that a toolchain is installed in, where its programs
// keep logins: tokens and addresses with passwords of package registries, keys, and variables that
// people set for an environment.
var loginFiles = []string{
	".condarc", "condarc", "condarc.d", ".mambarc", "pkgs/urls", "pkgs/urls.txt", // Conda
	"pkgs/cache", "conda-meta/state", "etc/conda/activate.d/env_vars.sh",
	"pip.conf", "etc/pip.conf", "pipx_metadata.json", "uv-receipt.toml", // Python
	"npmrc", ".npmrc", "etc/npmrc", ".npm/etc/npmrc", ".yarnrc", ".yarnrc.yml", // Node
	"rc", "auth.ini", // pnpm
	"hooks.json",                             // Volta: addresses of mirrors
	".gemrc", "etc/gemrc", ".gem", ".bundle", // Ruby
	"conf/settings.xml", "libexec/conf/settings.xml", // Maven
	"init.d", "libexec/init.d", "gradle.properties", // Gradle
	"credentials", "credentials.toml", // Cargo, where a version manager keeps its folder
	"auth.json", "composer/auth.json", // Composer
	".netrc", ".env",
}

// installedIn are the folders, below that of a version manager or of Conda, that toolchains and
// environments are installed in.
var installedIn = []string{
	".", "envs/*", "versions/*", "versions/*/*", "versions/*/envs/*", "installs/*/*",
	"candidates/*/*", "tools/image/*/*", "node-versions/*/installation", "python/*", "tools/*",
	"venvs/*", "shared", "nodejs/*", "global/*", "Cellar/*/*",
}

// harmlessFiles are patterns of files that a prefix may have at its top. Programs are harmless,
// too.
var harmlessFiles = []string{
	"pyvenv.cfg", "go.env", "VERSION", "release", ".gitignore", ".lock", "CACHEDIR.TAG",
	".nonadmin",
	"LICENSE*", "README*", "CHANGELOG*", "NOTICE*", "*.md", "*.txt",
}

// withoutLogins returns the parts of a folder that may be read: all but the files in which the
// programs there keep logins. If there are no such files, that is the folder itself.
func withoutLogins(folder string) []string { return partsWithout(folder, loginsIn(folder), 0) }

// prefixParts is withoutLogins for the prefix of a toolchain that no one has looked at: of the
// files at its top, such as settings with a login, only harmless ones may be read.
func prefixParts(prefix string) []string {
	logins := loginsIn(prefix)
	entries, _ := os.ReadDir(prefix) // what cannot be read is not shown either
	for _, entry := range entries {
		name := filepath.Join(prefix, entry.Name())
		harmless := func(pattern string) bool {
			matched, _ := filepath.Match(pattern, entry.Name())
			return matched
		}
		info, err := os.Stat(name)
		settings := err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 == 0 ||
			strings.HasPrefix(entry.Name(), ".")
		if settings && !slices.ContainsFunc(harmlessFiles, harmless) {
			logins = append(logins, realPlaces(name)...)
		}
	}
	return partsWithout(prefix, logins, 0)
}

// loginsIn returns the files and folders with logins in the folder of a toolchain, without links.
func loginsIn(folder string) (logins []string) {
	for _, pattern := range installedIn {
		prefixes := []string{folder}
		if pattern != "." {
			// Glob would take characters of the folder's own name for a pattern.
			prefixes, _ = fs.Glob(os.DirFS(folder), pattern)
			for i := range prefixes {
				prefixes[i] = filepath.Join(folder, prefixes[i])
			}
		}
		for _, prefix := range prefixes {
			logins = append(logins, loginsAt(prefix)...)
		}
	}
	return logins
}

// loginsAt is loginsIn for the folder of one toolchain. It looks at the folder once: every start of
// a program does this.
func loginsAt(prefix string) (logins []string) {
	entries, _ := os.ReadDir(prefix)
	has := map[string]bool{}
	for _, entry := range entries {
		has[entry.Name()] = true
	}
	for _, name := range loginFiles {
		if first, _, _ := strings.Cut(name, "/"); !has[first] {
			continue
		}
		name = filepath.Join(prefix, name)
		if _, err := os.Lstat(name); err == nil {
			logins = append(logins, realPlaces(name)...)
		}
	}
	return logins
}

// realPlaces returns where a file is, and what it is a link to.
func realPlaces(name string) []string {
	return []string{filepath.Join(resolve(filepath.Dir(name)), filepath.Base(name)), resolve(name)}
}

// maxParts bounds how deep partsWithout looks. What is deeper is left out.
const maxParts = 12

// partsWithout returns the path itself if it contains no path of leftOut, otherwise its parts that
// contain none. The paths in leftOut have no links. A link to a folder that contains such a path is
// followed, because a policy allows everything that a link leads to.
func partsWithout(name string, leftOut []string, depth int) (parts []string) {
	real := resolve(name)
	if !slices.ContainsFunc(leftOut, func(out string) bool { return within(out, real) }) {
		return []string{name}
	}
	if slices.Contains(leftOut, real) || depth == maxParts {
		return nil
	}
	entries, _ := os.ReadDir(real)
	for _, entry := range entries {
		parts = append(parts, partsWithout(filepath.Join(name, entry.Name()), leftOut, depth+1)...)
	}
	return parts
}
