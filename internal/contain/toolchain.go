package contain

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"signalbox/internal/durable"
	"signalbox/internal/process"
	"signalbox/internal/sandbox"
)

// toolchain is a folder of the home folder with programs that people install for themselves. If
// variable is not empty, it names the folder, and programs need it because their home folder is
// another one. parts are the only parts that may be read; none means all.
type toolchain struct {
	folder   string
	variable string
	parts    []string
}

// None of the toolchains may contain logins, except in the files that withoutLogins leaves out.
var toolchains = []toolchain{
	{".rustup", "RUSTUP_HOME", nil},
	{".cargo", "", []string{"bin", "env"}}, // it also has credentials
	{".nvm", "NVM_DIR", nil},
	{".pyenv", "PYENV_ROOT", nil},
	{".rbenv", "RBENV_ROOT", nil},
	{".nodenv", "NODENV_ROOT", nil},
	{".asdf", "ASDF_DATA_DIR", nil},
	{".tool-versions", "", nil},
	{".local/share/mise", "MISE_DATA_DIR", nil},
	{".volta", "VOLTA_HOME", nil},
	{".local/share/fnm", "FNM_DIR", nil},
	{".bun", "BUN_INSTALL", []string{"bin"}},
	{".deno", "DENO_INSTALL", []string{"bin"}},
	{".sdkman", "SDKMAN_DIR", nil},
	{".dotnet", "DOTNET_ROOT", []string{"dotnet", "host", "sdk", "sdk-manifests", "shared", "packs",
		"library-packs", "metadata", "store",
		"templates", "tools", "LICENSE.txt", "ThirdPartyNotices.txt"}}, // it also has key stores
	{".ghcup", "", []string{"bin", "ghc", "share"}},
	{".opam", "OPAMROOT", nil},
	{".elan", "ELAN_HOME", nil},
	{".juliaup", "", []string{"bin"}},
	{".julia/juliaup", "", nil},
	{".foundry", "", []string{"bin"}},
	{".nix-profile", "", nil},
	{".linuxbrew", "", []string{"bin", "sbin", "lib", "libexec", "include", "share", "opt",
		"Cellar", "Frameworks", "Homebrew",
		// it also has services
		"etc/ca-certificates", "etc/openssl@3/cert.pem", "etc/openssl@3/certs",
		"etc/openssl@3/openssl.cnf"}},
	{"miniconda3", "", nil},
	{"anaconda3", "", nil},
	{"miniforge3", "", nil},
	{"bin", "", nil},
	{"go", "", []string{"bin", "pkg/mod"}},
	{"sdk", "", nil}, // golang.org/dl
	{".local/bin", "", nil},
	{".local/lib", "", nil},
	{".local/share/pnpm", "PNPM_HOME", nil},
	{".local/share/uv", "", []string{"python", "tools"}}, // it also has credentials
	{".local/share/pipx", "", nil},
	{".local/share/claude", "", nil},
	{".opencode", "", []string{"bin"}},
}

// prefixMarks are what the prefix of a toolchain has beside its folder bin or shims. A folder that
// has none of them may hold anything, such as the settings and the login of the one program in it.
var prefixMarks = map[string][]string{
	"bin":   {"lib", "lib64", "libexec", "include", "conda-meta", "pyvenv.cfg"},
	"shims": {"versions", "installs", "toolchains"},
}

// prefixes returns the folders around a folder on PATH that its programs need, such as those of a
// virtual environment, with the interpreter that it uses, or of a version of a toolchain.
func (b *builder) prefixes(folder string) (found []string) {
	for i, at := range []string{folder, resolve(folder)} {
		prefix := filepath.Dir(at)
		if marks := prefixMarks[filepath.Base(at)]; (i == 0 || at != folder) &&
			b.isPrefix(prefix, marks) {
			found = append(found, prefixParts(prefix)...)
			found = append(found, b.interpreters(prefix)...)
		}
	}
	return found
}

// isPrefix reports whether a folder is the prefix of a toolchain, which may be read as a whole: not
// a folder that may be read only in parts, and not a project of the user, which may have a bin and
// a lib, too.
func (b *builder) isPrefix(prefix string, marks []string) bool {
	if real := resolve(prefix); b.isShared(prefix) || b.isShared(real) || within(real, b.Project) &&
		!hasAny(real, "pyvenv.cfg", "conda-meta") {
		return false
	}
	return hasAny(prefix, marks...) && !hasAny(prefix, ".git", ".hg", ".svn") && !b.isParted(prefix)
}

// isParted reports whether a folder is a toolchain that may be read only in parts.
func (b *builder) isParted(folder string) bool {
	return slices.ContainsFunc(toolchains, func(t toolchain) bool {
		return t.parts != nil && (sameFile(folder, filepath.Join(b.Home, t.folder)) ||
			sameFile(folder, b.folderOf(t)))
	})
}

// folderOf returns the folder of a toolchain.
func (b *builder) folderOf(t toolchain) string {
	if named := process.Getenv(b.Environ, t.variable); t.variable != "" && filepath.IsAbs(named) {
		return named
	}
	return filepath.Join(b.Home, t.folder)
}

// hasAny reports whether a folder has one of the names in it.
func hasAny(folder string, names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		_, err := os.Lstat(filepath.Join(folder, name))
		return err == nil
	})
}

// interpreters returns the installation of the Python that a virtual environment has a link to.
func (b *builder) interpreters(environment string) []string {
	file := filepath.Join(environment, "bin", "python")
	if real, err := filepath.EvalSymlinks(file); err != nil || within(real, resolve(environment)) {
		return nil
	}
	return b.installation(file, b.Environ, 0)
}

// useEnvironments makes the active environment of Python or Conda available.
func (b *builder) useEnvironments() {
	for _, e := range []struct{ variable, mark string }{{"VIRTUAL_ENV", "pyvenv.cfg"}, {"CONDA_PREFIX", "conda-meta"}} {
		folder := process.Getenv(b.Environ, e.variable)
		if !filepath.IsAbs(folder) || !b.isPrefix(folder, []string{e.mark}) {
			continue
		}
		b.read("toolchains", append(b.interpreters(folder), prefixParts(folder)...)...)
		b.p.Env = append(b.p.Env, e.variable+"="+folder)
	}
}

// useToolchains allows reading the toolchains in the user's home folder, and sets the variables
// that lead to them.
func (b *builder) useToolchains() {
	if b.Home == "" {
		return
	}
	for _, t := range toolchains {
		folder := b.folderOf(t)
		if _, err := os.Stat(folder); err != nil {
			continue
		}
		if t.variable != "" {
			b.p.Env = append(b.p.Env, t.variable+"="+folder)
		}
		parts := t.parts
		if parts == nil {
			parts = []string{"."}
		}
		logins := loginsIn(folder)
		for _, part := range parts {
			b.read("toolchains", partsWithout(filepath.Join(folder, part), logins, 0)...)
		}
	}
	if python, _ := filepath.Glob(filepath.Join(b.Home, ".local/lib/python3*")); len(python) > 0 {
		b.p.Env = append(b.p.Env, "PYTHONUSERBASE="+filepath.Join(b.Home, ".local"))
	}
	b.useEnvironments()
	b.useGo()
}

// goModules is where go keeps downloaded modules, in a home folder. modulesLink is the name under
// which all programs of a box find theirs, in its folder.
const (
	goModules   = "go/pkg/mod"
	modulesLink = "go-modules"
)

// useModules gives the downloaded modules of a home folder a path that is the same for all programs
// of the box. The path of a package is part of what go compiles, so it would compile every module
// again for each home folder. Without namespaces there is no such path.
func (b *builder) useModules(folder string) {
	const variable = "GOMODCACHE"
	passed := slices.ContainsFunc(b.pass,
		func(pattern string) bool { return matches(variable, pattern) })
	if b.Box == "" || passed || !process.Support().Namespaces {
		return
	}
	link := sandbox.Link{Path: filepath.Join(b.Box, modulesLink), Target: folder}
	b.p.Policy.Links = append(b.p.Policy.Links, link)
	b.p.Env = append(b.p.Env, variable+"="+link.Path)
}

// goSettings are the settings of the user for go that programs get besides GOPROXY and GOFLAGS.
// None of them names a program.
var goSettings = []string{"GOPRIVATE", "GONOPROXY", "GONOSUMDB", "GOSUMDB", "GOINSECURE", "GOVCS",
	"GOTOOLCHAIN", "GOEXPERIMENT", "CGO_ENABLED"}

// useGo passes on what go env -w has set, and makes the modules that the user has downloaded
// available: as a proxy, because a module cache that the program can change must be its own. go
// does not ask a proxy for private modules, and must not: with GONOPROXY=none it would ask the
// public ones for their names, too.
func (b *builder) useGo() {
	settings := process.Getenv(b.Environ, "GOENV")
	if settings == "" {
		settings = filepath.Join(cmp.Or(process.Getenv(b.Environ, "XDG_CONFIG_HOME"),
			filepath.Join(b.Home, ".config")), "go", "env")
	}
	written := readGoSettings(settings)
	value := func(name, standard string) string {
		return cmp.Or(process.Getenv(b.Environ, name), written[name], standard)
	}
	for _, name := range goSettings {
		// otherwise the program gets it anyway
		if process.Getenv(b.Environ, name) == "" && written[name] != "" {
			b.p.Env = append(b.p.Env, b.withoutPasswords([]string{name + "=" + written[name]})...)
		}
	}
	gopath, _, _ := strings.Cut(value("GOPATH", filepath.Join(b.Home, "go")),
		string(filepath.ListSeparator))
	cache := value("GOMODCACHE", filepath.Join(gopath, "pkg", "mod"))
	downloads := filepath.Join(cache, "cache", "download")
	proxy := strings.TrimPrefix(b.withoutPasswords([]string{"GOPROXY=" +
		value("GOPROXY", "https://proxy.golang.org,direct")})[0], "GOPROXY=")
	if _, err := os.Stat(downloads); err == nil && filepath.IsAbs(downloads) {
		b.read("toolchains", cache)
		proxy = "file://" + filepath.ToSlash(downloads) + "," + proxy
	}
	// so that it can be removed
	b.p.Env = append(b.p.Env, "GOPROXY="+proxy, "GOFLAGS="+
		strings.TrimSpace(value("GOFLAGS", "")+" -modcacherw"))
}

// maxGoSettings bounds the size of the file of go env -w.
const maxGoSettings = 1 << 20

// readGoSettings returns what go env -w has written to a file.
func readGoSettings(file string) map[string]string {
	text, err := durable.ReadRegular(file, maxGoSettings)
	if err != nil || !filepath.IsAbs(file) { // GOENV=off means none
		return nil
	}
	found := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), "="); ok {
			found[name] = value
		}
	}
	return found
}
