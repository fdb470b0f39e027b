package contain

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"signalbox/internal/config"
	"signalbox/internal/process"
	"signalbox/internal/testkit/must"
)

func (m *machine) link(to, name string) {
	m.t.Helper()
	must.Succeed(m.t, os.MkdirAll(filepath.Dir(m.path(name)), 0o700))
	must.Succeed(m.t, os.Symlink(m.path(to), m.path(name)))
}

// onPath puts folders first on PATH.
func (m *machine) onPath(folders ...string) {
	for i, name := range m.Environ {
		if path, is := strings.CutPrefix(name, "PATH="); is {
			for _, folder := range folders {
				path = m.path(folder) + ":" + path
			}
			m.Environ[i] = "PATH=" + path
		}
	}
}

// A toolchain on PATH needs the folder around its programs. Folders with more in them are not
// shown.
func TestPrefixesOfToolchains(t *testing.T) {
	for name, tt := range map[string]struct {
		files   []string
		path    string
		environ string
		want    string // may be read
		private string // may not
	}{
		"virtual environment": {[]string{"home/app/.venv/pyvenv.cfg", "home/app/.env"},
			"home/app/.venv/bin", "", "home/app/.venv/lib/x", "home/app/.env"},
		"of the project": {[]string{"project/.venv/pyvenv.cfg"}, "project/.venv/bin", "",
			"project/.venv/lib/x", "project/main.go"},
		"active environment": {[]string{"home/envs/a/pyvenv.cfg"}, "bin",
			"VIRTUAL_ENV=home/envs/a", "home/envs/a/lib/x", "home/envs/b"},
		"conda": {[]string{"home/mambaforge/conda-meta/history"},
			"home/mambaforge/bin", "", "home/mambaforge/lib/x", "home/mambaforge.yml"},
		"conda environment": {[]string{"home/m/envs/a/conda-meta/history"}, "bin",
			"CONDA_PREFIX=home/m/envs/a", "home/m/envs/a/lib/x", "home/m/x"},
		"version of node": {[]string{"home/tools/node/v20/lib/x"}, "home/tools/node/v20/bin",
			"", "home/tools/node/v20/lib/x", "home/tools/node/x"},
		"shims": {[]string{"home/.goenv/versions/1/x"}, "home/.goenv/shims", "",
			"home/.goenv/versions/1/x", "home/.other"},

		"the home folder": {[]string{"home/lib/x"}, "home/bin", "", "home/bin/x",
			"home/lib/x"},
		"local": {[]string{"home/.local/include/x"}, "home/.local/bin", "",
			"home/.local/bin/x", "home/.local/include/x"},
		"cargo": {[]string{"home/.cargo/lib/x", "home/.cargo/credentials.toml"},
			"home/.cargo/bin", "", "home/.cargo/bin/x", "home/.cargo/credentials.toml"},
		"a login": {[]string{"home/.cloud/credentials.json"}, "home/.cloud/bin", "",
			"home/.cloud/bin/x", "home/.cloud/credentials.json"},
		"another project": {[]string{"home/other/lib/x", "home/other/.git/config"},
			"home/other/bin", "", "home/other/bin/x", "home/other/lib/x"},
		"the project": {[]string{"project/lib/x"}, "project/bin", "", "project/bin/x",
			"project/lib/x"},
		"above the home folder": {[]string{"lib/x"}, "bin", "", "bin/tool", "lib/x"},
		"no environment": {[]string{"home/pyvenv.cfg"}, "bin", "VIRTUAL_ENV=home",
			"bin/tool", "home/pyvenv.cfg"},
		"a folder of keys": {[]string{"home/.ssh/known_hosts"}, "bin", "VIRTUAL_ENV=home/.ssh",
			"bin/tool", "home/.ssh/id"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t, "")
			for _, file := range tt.files {
				m.write(file, "")
			}
			m.write(tt.path+"/x", "")
			m.onPath(tt.path)
			variable, folder, _ := strings.Cut(tt.environ, "=")
			if variable != "" {
				m.Environ = append(m.Environ, variable+"="+m.path(folder))
			}
			p := m.agent(config.Agent{Command: []string{"tool"}}, "tool")
			if !allows(p.Policy, m.path(tt.want)) {
				t.Errorf("%s cannot be read: %q", tt.want, m.relative(p.Policy.Read))
			}
			if allows(p.Policy, m.path(tt.private)) {
				t.Errorf("%s can be read: %q", tt.private, m.relative(p.Policy.Read))
			}
			given := variable != "" && strings.HasSuffix(tt.want, "lib/x")
			if got := process.Getenv(p.Env, variable); variable != "" &&
				(got == m.path(folder)) != given {
				t.Errorf("%s=%s", variable, got)
			}
		})
	}
}

// Toolchains have logins in them: those are not shown, and the rest is.
func TestLoginsInToolchains(t *testing.T) {
	for name, tt := range map[string]struct {
		path    string   // on PATH; "" means none
		environ string   // a variable with a folder
		argv    string   // the program of the agent
		want    []string // may be read
		private []string // may not
	}{
		"uv": {want: []string{".local/share/uv/python/3.13/bin/python",
			".local/share/uv/tools/x/bin/x"}, private: []string{".local/share/uv/credentials/x",
			".local/share/uv/tools/x/uv-receipt.toml"}},
		"dotnet": {want: []string{".dotnet/dotnet", ".dotnet/sdk/9/x", ".dotnet/tools/x"},
			private: []string{".dotnet/corefx/cryptography/x509stores/my/key.pfx"}},
		"dotnet on PATH": {path: ".dotnet/bin", want: []string{".dotnet/shared/x"},
			private: []string{".dotnet/corefx/x", ".dotnet/lib/x"}},
		"miniconda": {want: []string{"miniconda3/bin/python", "miniconda3/envs/a/lib/x"},
			private: []string{"miniconda3/.condarc", "miniconda3/condarc.d/x.yml",
				"miniconda3/envs/a/.condarc", "miniconda3/conda-meta/state",
				"miniconda3/pkgs/urls.txt"}},
		"anaconda": {want: []string{"anaconda3/lib/x"},
			private: []string{"anaconda3/.condarc", "anaconda3/.mambarc"}},
		"mamba": {path: "mambaforge/bin",
			want: []string{"mambaforge/bin/x", "mambaforge/conda-meta/history"},
			private: []string{"mambaforge/.condarc", "mambaforge/envs/a/.condarc",
				"mambaforge/envs/a/etc/conda/activate.d/env_vars.sh"}},
		"active conda": {environ: "CONDA_PREFIX=m/envs/a",
			want:    []string{"m/envs/a/conda-meta/history", "m/envs/a/lib/x"},
			private: []string{"m/envs/a/.condarc", "m/envs/a/conda-meta/state"}},
		"venv": {environ: "VIRTUAL_ENV=v", want: []string{"v/pyvenv.cfg", "v/lib/x"},
			private: []string{"v/pip.conf", "v/.secrets"}},
		"npm": {path: ".npm-global/bin",
			want:    []string{".npm-global/bin/x", ".npm-global/lib/node_modules/x/y.js"},
			private: []string{".npm-global/etc/npmrc"}},
		"nvm": {path: ".nvm/versions/node/v20/bin",
			want:    []string{".nvm/nvm.sh", ".nvm/versions/node/v20/lib/x"},
			private: []string{".nvm/versions/node/v20/etc/npmrc", ".nvm/.npmrc"}},
		"nodenv": {want: []string{".nodenv/versions/20/bin/node"},
			private: []string{".nodenv/versions/20/etc/npmrc"}},
		"fnm": {want: []string{".local/share/fnm/node-versions/v20/installation/bin/node"},
			private: []string{".local/share/fnm/node-versions/v20/installation/etc/npmrc"}},
		"volta": {want: []string{".volta/bin/node", ".volta/tools/image/node/20/bin/node"},
			private: []string{".volta/hooks.json", ".volta/tools/image/node/20/etc/npmrc"}},
		"pnpm": {want: []string{".local/share/pnpm/pnpm",
			".local/share/pnpm/nodejs/20/bin/node"}, private: []string{".local/share/pnpm/rc",
			".local/share/pnpm/auth.ini", ".local/share/pnpm/nodejs/20/etc/npmrc"}},
		"pyenv": {want: []string{".pyenv/version", ".pyenv/versions/3.12/bin/python"},
			private: []string{".pyenv/versions/3.12/pip.conf",
				".pyenv/versions/3.12/envs/a/pip.conf", ".pyenv/versions/miniconda3/.condarc"}},
		"pipx": {want: []string{".local/share/pipx/venvs/a/bin/a"},
			private: []string{".local/share/pipx/venvs/a/pipx_metadata.json",
				".local/share/pipx/shared/pip.conf"}},
		"rbenv": {want: []string{".rbenv/versions/3/bin/ruby"},
			private: []string{".rbenv/versions/3/etc/gemrc"}},
		"asdf": {want: []string{".asdf/asdf.sh", ".asdf/installs/rust/1/bin/cargo"},
			private: []string{".asdf/installs/rust/1/credentials.toml",
				".asdf/installs/nodejs/20/.npm/etc/npmrc",
				".asdf/installs/maven/3/conf/settings.xml"}},
		"mise": {want: []string{".local/share/mise/installs/node/20/bin/node"},
			private: []string{".local/share/mise/installs/node/20/etc/npmrc",
				".local/share/mise/installs/python/3/pip.conf"}},
		"sdkman": {want: []string{".sdkman/candidates/maven/3/bin/mvn",
			".sdkman/candidates/maven/3/conf/logging/x"},
			private: []string{".sdkman/candidates/maven/3/conf/settings.xml",
				".sdkman/candidates/gradle/9/init.d/x.gradle"}},
		"homebrew": {path: ".linuxbrew/bin",
			want: []string{".linuxbrew/bin/x", ".linuxbrew/etc/ca-certificates/cert.pem"},
			private: []string{".linuxbrew/etc/npmrc", ".linuxbrew/var/postgres/x",
				".linuxbrew/Cellar/maven/3/libexec/conf/settings.xml"}},
		"unknown": {path: ".luarocks/bin",
			want:    []string{".luarocks/lib/x", ".luarocks/README.md"},
			private: []string{".luarocks/upload_config.lua", ".luarocks/.token"}},
		"the program": {argv: ".cargo/bin/agent", want: []string{".cargo/bin/agent"},
			private: []string{".cargo/credentials.toml", ".cargo/config.toml"}},
		"its prefix": {argv: "tools/agent/bin/agent",
			want:    []string{"tools/agent/bin/agent", "tools/agent/agent.json"},
			private: []string{"tools/agent/etc/npmrc"}},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t, "")
			for _, file := range slices.Concat(tt.want, tt.private) {
				must.Succeed(t, os.Chmod(m.write("home/"+file, ""), 0o600))
			}
			if tt.path != "" {
				m.write("home/"+tt.path+"/x", "")
				m.write("home/"+filepath.Dir(tt.path)+"/lib/x", "")
				m.onPath("home/" + tt.path)
			}
			if variable, folder, set := strings.Cut(tt.environ, "="); set {
				m.Environ = append(m.Environ, variable+"="+m.path("home/"+folder))
			}
			var argv []string
			if tt.argv != "" {
				argv = []string{m.path("home/" + tt.argv)}
				must.Succeed(t, os.Chmod(argv[0], 0o700))
			}
			p := m.agent(config.Agent{Command: argv}, argv...)
			for _, file := range tt.want {
				if !allows(p.Policy, m.path("home/"+file)) {
					t.Errorf("%s cannot be read: %q", file, m.relative(p.Policy.Read))
				}
			}
			for _, file := range tt.private {
				if allows(p.Policy, m.path("home/"+file)) {
					t.Errorf("%s can be read: %q", file, m.relative(p.Policy.Read))
				}
			}
			if len(p.Policy.Hidden) > 0 { // which needs namespaces
				t.Errorf("hidden: %q", p.Policy.Hidden)
			}
		})
	}
}

// A link to a version with a login, and a login that is a link, show nothing more.
func TestLinkedLoginsInToolchains(t *testing.T) {
	m := newMachine(t, "")
	m.write("home/.sdkman/candidates/maven/3/conf/settings.xml", "")
	m.write("home/.sdkman/candidates/maven/3/bin/mvn", "")
	m.link("home/.sdkman/candidates/maven/3", "home/.sdkman/candidates/maven/current")
	m.link("home/.sdkman/candidates/maven/3", "home/.sdkman/mine")
	m.write("home/.sdkman/etc/real", "")
	m.link("home/.sdkman/etc/real", "home/.sdkman/etc/npmrc")
	p := m.agent(config.Agent{})
	allowed := func(name string) bool {
		return slices.ContainsFunc(p.Policy.Read,
			func(folder string) bool { return within(m.path("home/"+name), resolve(folder)) })
	}
	for _, name := range []string{".sdkman/candidates/maven/3/conf/settings.xml",
		".sdkman/etc/npmrc", ".sdkman/etc/real"} {
		if allowed(name) {
			t.Errorf("%s can be read: %q", name, m.relative(p.Policy.Read))
		}
	}
	for _, folder := range []string{"3", "current"} {
		if name := m.path("home/.sdkman/candidates/maven/" + folder +
			"/bin"); !slices.Contains(p.Policy.Read, name) {
			t.Errorf("%s cannot be read: %q", name, m.relative(p.Policy.Read))
		}
	}
}

// Links on PATH are followed: to a prefix, to the interpreter of a virtual environment, and never
// to a folder that contains the home folder.
func TestLinkedToolchains(t *testing.T) {
	m := newMachine(t, "")
	m.write("versions/21/bin/java", "")
	m.write("versions/21/lib/x", "")
	m.link("versions/21", "home/candidates/current")
	m.write("pythons/3/bin/python3", "")
	m.write("pythons/3/lib/x", "")
	m.write("home/venv/pyvenv.cfg", "")
	m.link("pythons/3/bin/python3", "home/venv/bin/python")
	m.link("home", "link/bin")
	m.link(".", "outer/bin")
	m.onPath("home/candidates/current/bin", "home/venv/bin", "link/bin", "outer/bin", "outer")
	p := m.agent(config.Agent{Command: []string{"tool"}}, "tool")
	for _, file := range []string{"versions/21/lib/x", "pythons/3/lib/x"} {
		if !allows(p.Policy, m.path(file)) {
			t.Errorf("%s cannot be read: %q", file, m.relative(p.Policy.Read))
		}
	}
	for _, folder := range p.Policy.Read {
		if real := resolve(folder); within(m.Home, real) {
			t.Errorf("%s leads to %s", folder, real)
		}
	}
}

// Settings of go reach programs in a private home folder, and names of private modules do not reach
// a public proxy.
func TestGoSettings(t *testing.T) {
	m := newMachine(t, "")
	m.write("home/go/pkg/mod/cache/download/x", "")
	m.write("home/.config/go/env",
		"GOPRIVATE=corp.example\r\nGONOSUMDB=a,b\nGOSUMDB=off\nGOAUTH=git /x\nCC=evil\nGOBIN=/x\n")
	m.Environ = append(m.Environ, "GONOSUMDB=mine")
	p := m.agent(config.Agent{})
	all := slices.Concat(p.Base, p.Env)
	for name, want := range map[string]string{"GOPRIVATE": "corp.example", "GONOSUMDB": "mine",
		"GOSUMDB": "off", "GONOPROXY": "", "GOAUTH": "", "CC": "", "GOBIN": ""} {
		if got := process.Getenv(all, name); got != want {
			t.Errorf("%s=%q, want %q", name, got, want)
		}
	}
	m.Environ = append(m.Environ, "GONOPROXY=none", "GOENV=off")
	p = m.agent(config.Agent{})
	all = slices.Concat(p.Base, p.Env)
	if process.Getenv(all, "GONOPROXY") != "none" || process.Getenv(all, "GOPRIVATE") != "" {
		t.Errorf("environment %q", all)
	}
}

// The flags of a make that started signalbox are not for the programs of a run.
func TestMakeflags(t *testing.T) {
	for want, environ := range map[string][]string{
		"-j8": {"MAKEFLAGS=-j8"},
		"":    {"MAKEFLAGS= -j8 --jobserver-auth=fifo:/tmp/x"},
		" ":   {"MAKEFLAGS=kn", "MAKELEVEL=1"},
	} {
		m := newMachine(t, "")
		m.Environ = append(m.Environ, environ...)
		for _, mode := range []string{"", "sandbox: off"} {
			m.Config = newMachine(t, mode).Config
			if got := process.Getenv(m.agent(config.Agent{}).Base,
				"MAKEFLAGS"); got != strings.TrimSpace(want) {
				t.Errorf("%q, %s: MAKEFLAGS=%q", environ, mode, got)
			}
		}
	}
}

// Roles and agents with dashes in their names do not share a home folder, and names of agents do
// not lead elsewhere.
func TestHomeNames(t *testing.T) {
	seen := map[string]string{}
	for _, pair := range [][2]string{{"expert", "creator-x"}, {"expert-creator", "x"}, {"a", "b-c"},
		{"a-b", "c"}, {"a", "b/c"}, {"a", "../c"}, {"a", "b%2Fc"}} {
		name := AgentHome(pair[0], pair[1])
		if other := seen[name]; other != "" || filepath.Base(name) != name || name == ".." {
			t.Errorf("the folder of %q is %s, like that of %s", pair, name, other)
		}
		seen[name] = strings.Join(pair[:], " ")
	}
	if got := AgentHome("developer", "claude-2"); got != "developer-claude-2" {
		t.Errorf("got %s", got)
	}
}

// Without a model, opencode gets the keys that its settings name.
func TestKeysOfOpencode(t *testing.T) {
	for settings, want := range map[string][]string{
		`{"model": "mistral/large"}`:                                                   {"MISTRAL_API_KEY"},
		`{"agent": {"x": {"model" : "openai/x"}}, "small_model": "google/y"}`:          {"OPENAI_API_KEY", "GEMINI_API_KEY"},
		`{"provider": {"own": {"options": {"apiKey": "{env:SECRET}"}}}} // no "model"`: {"SECRET"},
		`{"theme": "x"}`: {"ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"},
	} {
		m := newMachine(t, "")
		m.write("home/.config/opencode/opencode.json", settings)
		got := slices.DeleteFunc(names(m.agent(config.Agent{Preset: "opencode"}).Base),
			func(name string) bool {
				return name != "SECRET" && !strings.HasSuffix(name, "_API_KEY")
			})
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", settings, got, want)
		}
	}
}
