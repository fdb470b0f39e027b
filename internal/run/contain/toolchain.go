package contain

import (
	"bufio"
	"cmp"
	"os"
	"path/filepath"
	"strings"

	"signalbox/internal/process"
)

// toolchains are folders of the home folder with programs that people install for themselves. If variable is not empty, it names the
// folder, and programs need it because their home folder is another one. parts are the only parts that may be read; none means all.
// None of them may contain logins.
var toolchains = []struct {
	folder   string
	variable string
	parts    []string
}{
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
	{".dotnet", "DOTNET_ROOT", nil},
	{".ghcup", "", []string{"bin", "ghc", "share"}},
	{".opam", "OPAMROOT", nil},
	{".elan", "ELAN_HOME", nil},
	{".juliaup", "", []string{"bin"}},
	{".julia/juliaup", "", nil},
	{".foundry", "", []string{"bin"}},
	{".nix-profile", "", nil},
	{".linuxbrew", "", nil},
	{"miniconda3", "", nil},
	{"anaconda3", "", nil},
	{"miniforge3", "", nil},
	{"bin", "", nil},
	{"go", "", []string{"bin", "pkg/mod"}},
	{"sdk", "", nil}, // golang.org/dl
	{".local/bin", "", nil},
	{".local/lib", "", nil},
	{".local/share/pnpm", "PNPM_HOME", nil},
	{".local/share/uv", "", nil},
	{".local/share/pipx", "", nil},
	{".local/share/claude", "", nil},
	{".opencode", "", []string{"bin"}},
}

// useToolchains allows reading the toolchains in the user's home folder, and sets the variables that lead to them.
func (b *builder) useToolchains() {
	if b.Home == "" {
		return
	}
	for _, t := range toolchains {
		folder := filepath.Join(b.Home, t.folder)
		if named := process.Getenv(b.Environ, t.variable); t.variable != "" && filepath.IsAbs(named) {
			folder = named
		}
		if _, err := os.Stat(folder); err != nil {
			continue
		}
		if t.variable != "" {
			b.p.Env = append(b.p.Env, t.variable+"="+folder)
		}
		paths := []string{folder}
		if t.parts != nil {
			paths = nil
			for _, part := range t.parts {
				paths = append(paths, filepath.Join(folder, part))
			}
		}
		b.read("toolchains", paths...)
	}
	if python, _ := filepath.Glob(filepath.Join(b.Home, ".local/lib/python3*")); len(python) > 0 {
		b.p.Env = append(b.p.Env, "PYTHONUSERBASE="+filepath.Join(b.Home, ".local"))
	}
	b.useGo()
}

// useGo makes the modules that the user has downloaded available: as a proxy, because a module cache that the program can change must be
// its own.
func (b *builder) useGo() {
	settings := process.Getenv(b.Environ, "GOENV")
	if settings == "" {
		settings = filepath.Join(cmp.Or(process.Getenv(b.Environ, "XDG_CONFIG_HOME"), filepath.Join(b.Home, ".config")), "go", "env")
	}
	value := func(name, standard string) string {
		return cmp.Or(process.Getenv(b.Environ, name), goSetting(settings, name), standard)
	}
	gopath, _, _ := strings.Cut(value("GOPATH", filepath.Join(b.Home, "go")), string(filepath.ListSeparator))
	cache := value("GOMODCACHE", filepath.Join(gopath, "pkg", "mod"))
	downloads := filepath.Join(cache, "cache", "download")
	proxy := value("GOPROXY", "https://proxy.golang.org,direct")
	if _, err := os.Stat(downloads); err == nil && filepath.IsAbs(downloads) {
		b.read("toolchains", cache)
		proxy = "file://" + filepath.ToSlash(downloads) + "," + proxy
		b.p.Env = append(b.p.Env, "GONOPROXY=none") // private modules, too
	}
	b.p.Env = append(b.p.Env, "GOPROXY="+proxy, "GOFLAGS="+strings.TrimSpace(value("GOFLAGS", "")+" -modcacherw")) // so that it can be removed
}

// goSetting returns a setting that go env -w has written to a file.
func goSetting(file, name string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if value, found := strings.CutPrefix(lines.Text(), name+"="); found {
			return value
		}
	}
	return ""
}
