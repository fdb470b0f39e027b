package contain

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/process"
	"signalbox/internal/sandbox"
	"signalbox/internal/testkit/must"
)

// machine is a user with a home folder and a project with a box, in temporary folders.
type machine struct {
	Site
	t    *testing.T
	root string
}

func newMachine(t *testing.T, settings string) *machine {
	t.Helper()
	root := t.TempDir()
	m := &machine{t: t, root: root}
	c, err := config.Parse([]byte(settings))
	must.Succeed(t, err)
	m.Host = Host{Home: filepath.Join(root, "home"),
		Environ: []string{"PATH=" + filepath.Join(root, "bin") + ":/usr/bin:relative", "HOME=" +
			filepath.Join(root, "home"),
			"LANG=C.UTF-8", "LC_ALL=C", "http_proxy=http://proxy", "TERM=dumb", "SECRET=1",
			"AWS_SECRET_ACCESS_KEY=2", "SSH_AUTH_SOCK=/run/agent",
			"ANTHROPIC_API_KEY=a", "OPENAI_API_KEY=o", "GEMINI_API_KEY=g", "MISTRAL_API_KEY=m",
			"GOOGLE_CLOUD_PROJECT=p", "CODEX_HOME=" + filepath.Join(root, "home/.codex")}}
	m.Config, m.Project, m.Box = c, filepath.Join(root, "project"),
		filepath.Join(root, "project", ".signalbox")
	m.Git = []string{filepath.Join(root, "project", ".git")}
	m.write("project/.signalbox/trees/T1/main.go", "")
	m.write("project/.signalbox/trees/T1/.git", "")
	m.write("project/.signalbox/ledger.db", "")
	m.write("project/.git/config", "")
	m.write("home/.ssh/id", "")
	m.write("bin/tool", "")
	return m
}

func (m *machine) path(name string) string { return filepath.Join(m.root, name) }

func (m *machine) write(name, text string) string {
	m.t.Helper()
	file := m.path(name)
	must.Succeed(m.t, os.MkdirAll(filepath.Dir(file), 0o700))
	must.Succeed(m.t, os.WriteFile(file, []byte(text), 0o700))
	return file
}

// agent returns what an agent named a gets for task T1.
func (m *machine) agent(a config.Agent, argv ...string) *Program {
	return m.Agent(Agent{Name: "a", Config: a, Role: "developer", Work: "T1",
		Temp: m.path("project/.signalbox/tmp/w-1.1"), Dir: m.path("project/.signalbox/trees/T1"),
		Argv: argv, Env: a.Env})
}

// relative returns the paths that are in the machine's folder, relative to it.
func (m *machine) relative(paths []string) (names []string) {
	for _, name := range paths {
		if rel, err := filepath.Rel(m.root, name); err == nil && filepath.IsLocal(rel) {
			names = append(names, rel)
		}
	}
	return names
}

func (m *machine) want(what string, got []string, want ...string) {
	m.t.Helper()
	if diff := cmp.Diff(want, m.relative(got)); diff != "" {
		m.t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// allows reports whether a policy allows reading a file.
func allows(p *sandbox.Policy, file string) bool {
	in := func(folder string) bool { return within(file, folder) }
	longest := func(all []string) (length int) {
		for _, folder := range all {
			if in(folder) {
				length = max(length, len(folder))
			}
		}
		return length
	}
	return longest(slices.Concat(p.Read, p.Write)) > longest(p.Hidden)
}

func names(environ []string) (all []string) {
	for _, entry := range environ {
		all = append(all, nameOf(entry))
	}
	return all
}

func TestAgentPolicy(t *testing.T) {
	m := newMachine(t, "limits: {memory: 1GB}\nsandbox: {network: [443]}")
	m.write("home/.cargo/bin/cargo", "")
	m.write("home/.cargo/credentials.toml", "")
	m.write("home/.rustup/toolchain", "")
	p := m.agent(config.Agent{Command: []string{"tool"}}, "tool", "--file="+
		m.write("scripts/play.txt", ""), m.path("home"), m.path("missing"))
	m.want("write", p.Policy.Write, "project/.signalbox/state/T1/developer-a",
		"project/.signalbox/trees/T1")
	m.want("read", p.Policy.Read, "bin", "home/.cargo/bin", "home/.rustup", "project/.git",
		"scripts/play.txt")
	m.want("fixed", p.Policy.Fixed, "project/.signalbox/trees/T1/.git")
	m.want("hidden", p.Policy.Hidden)
	m.want("temp", []string{p.Policy.Temp}, "project/.signalbox/tmp/w-1.1")
	if p.Policy.Mode != sandbox.Enforce || p.Policy.Limits.Memory != 1e9 ||
		!slices.Equal(p.Policy.Network.Ports, []uint16{443}) || p.Limit != 10e9 {
		t.Errorf("policy %+v, limit %d", p.Policy, p.Limit)
	}
	if !slices.Contains(p.Policy.Read, "/usr") {
		t.Errorf("the system cannot be read: %q", p.Policy.Read)
	}
	for _, private := range []string{"home/.ssh/id", "home/.cargo/credentials.toml",
		"project/.signalbox/ledger.db", "project/.signalbox/trees/T2/x", "project/main.go",
		"project/.signalbox/state/T1/critic-a/x", "project/.signalbox/state/T1/checks/x"} {
		if allows(p.Policy, m.path(private)) {
			t.Errorf("%s can be read", private)
		}
	}
	if process.Getenv(p.Env, "RUSTUP_HOME") != m.path("home/.rustup") ||
		process.Getenv(p.Env, "HOME") != m.path("project/.signalbox/state/T1/developer-a") {
		t.Errorf("environment %q", p.Env)
	}
}

// Each program has a home folder that no other program can change. An agent that judges reaches
// only the server in base_url, unless a setting says something else. One that writes keeps its
// network.
func TestModelNetwork(t *testing.T) {
	const server = "model server m.example:443 only"
	for _, tt := range []struct {
		general, own, baseURL string
		author, judge         string // the network of each
		isDefault             bool
	}{
		{"", "", "https://m.example/v1", "on", server, true},
		{"", "", "", "on", "on", false},
		{"", "model", "https://m.example/v1", server, server, false},
		{"", "on", "https://m.example/v1", "on", "on", false},
		{"", "none", "https://m.example/v1", "none", "none", false},
		{"", "443", "https://m.example/v1", "TCP ports [443]", "TCP ports [443]", false},
		{"on", "", "https://m.example/v1", "on", "on", false},
		{"none", "", "https://m.example/v1", "none", "none", false},
		{"[53, 443]", "", "https://m.example/v1", "TCP ports [53 443]", "TCP ports [53 443]",
			false},
		{"none", "model", "https://m.example/v1", server, server, false},
	} {
		settings := "sandbox: {network: " + tt.general + "}"
		if tt.general == "" {
			settings = ""
		}
		m := newMachine(t, settings)
		a := config.Agent{Preset: "claude", BaseURL: tt.baseURL}
		if tt.own != "" {
			a.Sandbox.Network = config.Network{tt.own}
		}
		for _, role := range signalbox.Roles() {
			p := m.Agent(Agent{Name: "a", Config: a, Role: string(role), Work: "T1",
				Dir: m.path("project/.signalbox/trees/T1")})
			want := tt.judge
			if role == signalbox.RoleDeveloper || role == signalbox.RoleRemediation {
				want = tt.author
			}
			network := p.Policy.Network
			if network.String() != want || network.Server != nil &&
				network.Server.Default != tt.isDefault {
				t.Errorf("%+v: %s has network %s (%+v), want %s", tt, role, network, network.Server,
					want)
			}
		}
	}
	m := newMachine(t, "sandbox: off")
	judge := Agent{Name: "a", Config: config.Agent{Preset: "claude", BaseURL: "http://m.example"},
		Role: "critic", Work: "T1", Dir: m.path("project/.signalbox/trees/T1")}
	if p := m.Agent(judge); p.Policy.Network.Server != nil {
		t.Errorf("without a sandbox: %+v", p.Policy.Network)
	}
	// The proxy is used outside, so the program does not get it where its connections are
	// forwarded.
	p := newMachine(t, "").Agent(judge)
	for namespaces, want := range map[bool]bool{true: false, false: true} {
		e := p.Explain("a", sandbox.Support{System: "linux", Landlock: 7, Seccomp: true,
			Namespaces: namespaces})
		if got := slices.Contains(e.Variables, "http_proxy"); got != want ||
			strings.HasPrefix(e.Network, "on (without namespaces") != want {
			t.Errorf("namespaces %v: network %s, variables %q", namespaces, e.Network, e.Variables)
		}
	}
}

func TestHomeFolders(t *testing.T) {
	m := newMachine(t, "")
	seen := map[string]string{}
	note := func(what string, p *Program) {
		home := process.Getenv(p.Env, "HOME")
		if other := seen[home]; home == "" || other != "" {
			t.Errorf("the home folder of %s is %q, like that of %s", what, home, other)
		}
		seen[home] = what
		if !slices.Contains(p.Policy.Write, home) ||
			!within(home, m.path("project/.signalbox/state")) {
			t.Errorf("%s: home %s, may write %q", what, home, p.Policy.Write)
		}
	}
	for _, name := range []string{"a", "b"} {
		for _, role := range []string{"developer", "critic"} {
			for _, work := range []string{"T1", "T2"} {
				note(name+role+work,
					m.Agent(Agent{Name: name, Role: role, Work: work,
						Dir: m.path("project/.signalbox/trees/T1")}))
			}
		}
	}
	note("check of T1", m.Check(Check{Work: "T1", Dir: m.path("project/.signalbox/trees/T1")}))
	note("check of T2", m.Check(Check{Work: "T2", Dir: m.path("project/.signalbox/trees/T1")}))
	note("tool", m.Tool(config.Sandbox{}, nil, m.path("project"), m.path("temp")))
}

func TestPolicyHidesTheBox(t *testing.T) {
	for name, tt := range map[string]struct {
		settings string
		dir      string // that the agent works in
		hidden   []string
	}{
		"shared": {"", "project", []string{"project/.signalbox"}},
		"configured": {"sandbox: {read: [ROOT/project]}", "project/.signalbox/trees/T1",
			[]string{"project/.signalbox"}},
		"box": {"sandbox: {write: [ROOT/project/.signalbox]}", "project/.signalbox/trees/T1",
			[]string{"project/.signalbox"}},
		"all": {"sandbox: {read: [ROOT]}", "project/.signalbox/trees/T1",
			[]string{"project/.signalbox"}},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t, "")
			c, err := config.Parse([]byte(strings.ReplaceAll(tt.settings, "ROOT", m.root)))
			must.Succeed(t, err)
			m.Config = c
			p := m.Agent(Agent{Name: "a", Role: "developer", Work: "T1",
				Temp: m.path("project/.signalbox/tmp/s"), Dir: m.path(tt.dir)})
			m.want("hidden", p.Policy.Hidden, tt.hidden...)
			if allows(p.Policy, m.path("project/.signalbox/ledger.db")) {
				t.Error("the ledger can be read")
			}
			for _, own := range []string{tt.dir + "/main.go",
				"project/.signalbox/state/T1/developer-a/x"} {
				if !allows(p.Policy, m.path(own)) {
					t.Errorf("%s cannot be read with %q, %q", own, p.Policy.Write, p.Policy.Hidden)
				}
			}
		})
	}
}

// A home folder in a folder of the system, or behind a link, is as private as any other.
func TestUnusualHome(t *testing.T) {
	m := newMachine(t, "")
	must.Succeed(t, os.Symlink(m.path("home"), m.path("link")))
	m.Home = m.path("link")
	m.Environ = append(m.Environ, "PATH="+m.path("home")+":"+m.root+":"+m.path("link")+":"+
		m.path("bin")+":/")
	p := m.agent(config.Agent{Command: []string{"tool"}}, "tool")
	m.want("read", p.Policy.Read, "bin", "project/.git")
	if slices.Contains(p.Policy.Read, "/") {
		t.Error("everything can be read")
	}
	m.Home = "/usr/local/lib"
	p = m.agent(config.Agent{Command: []string{"tool"}}, "tool")
	if !slices.Contains(p.Policy.Hidden, m.Home) {
		t.Errorf("hidden %q", p.Policy.Hidden)
	}
}

// Links in the working copy, which an agent may have made, give no access to what they lead to.
func TestLinksInTheWorkingCopy(t *testing.T) {
	m := newMachine(t, "")
	dir := m.path("project/.signalbox/trees/T1")
	must.Succeed(t, os.Remove(filepath.Join(dir, ".git")))
	for _, name := range []string{"agent.sh", ".git", "script"} {
		must.Succeed(t, os.Symlink(m.path("home/.ssh/id"), filepath.Join(dir, name)))
	}
	outside := m.write("project/agents.script", "")
	for _, argv := range [][]string{{"./agent.sh"}, {filepath.Join(dir, "agent.sh")},
		{"tool", filepath.Join(dir, "script"), "script", "../T1/script",
			"../../../agents.script"}} {
		p := m.agent(config.Agent{Command: argv}, argv...)
		for _, name := range slices.Concat(p.Policy.Read, p.Policy.Fixed) {
			if within(name, dir) || within(name, m.path("home/.ssh")) {
				t.Errorf("%q: %s can be read", argv, name)
			}
		}
		if argv[0] == "tool" && !slices.Contains(p.Policy.Read, outside) {
			t.Errorf("%s cannot be read", outside)
		}
	}
}

func TestInstallation(t *testing.T) {
	m := newMachine(t, "")
	link := func(to, name string) {
		t.Helper()
		must.Succeed(t, os.MkdirAll(filepath.Dir(m.path(name)), 0o700))
		must.Succeed(t, os.Symlink(m.path(to), m.path(name)))
	}
	m.write("node/bin/node", "")
	m.write("npm/lib/node_modules/@x/codex/bin/codex.js", "#!/usr/bin/env node\n")
	link("node/bin/node", "bin/node")
	link("npm/lib/node_modules/@x/codex/bin/codex.js", "bin/codex")
	m.write("home/tools/mine", "#!"+m.write("home/venv/bin/python", "")+" -u\n")
	m.write("home/alone", "")
	for program, want := range map[string][]string{
		"codex":                   {"bin", "node", "npm/lib/node_modules", "project/.git"},
		m.path("home/tools/mine"): {"bin", "home/tools", "home/venv", "project/.git"},
		m.path("home/alone"):      {"bin", "home/alone", "project/.git"},
		"missing":                 {"bin", "project/.git"},
	} {
		m.want(program, m.agent(config.Agent{Command: []string{program}}, program).Policy.Read,
			want...)
	}
}

func TestEnvironment(t *testing.T) {
	usual := []string{"PATH", "LANG", "LC_ALL", "http_proxy", "TERM"}
	for name, tt := range map[string]struct {
		settings string
		agent    config.Agent
		keys     []string
	}{
		"claude": {"", config.Agent{Preset: "claude"}, []string{"ANTHROPIC_API_KEY"}},
		"codex":  {"", config.Agent{Preset: "codex"}, []string{"OPENAI_API_KEY"}},
		"gemini": {"", config.Agent{Preset: "gemini"},
			[]string{"GEMINI_API_KEY", "GOOGLE_CLOUD_PROJECT"}},
		"opencode": {"", config.Agent{Preset: "opencode", Model: "mistral/large"},
			[]string{"MISTRAL_API_KEY"}},
		"known": {"", config.Agent{Preset: "opencode", Model: "anthropic/opus"},
			[]string{"ANTHROPIC_API_KEY"}},
		"any provider": {"", config.Agent{Preset: "opencode"},
			[]string{"ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"}},
		"other server": {"", config.Agent{Preset: "opencode", Model: "x", BaseURL: "http://h"},
			[]string{"OPENAI_API_KEY"}},
		"command": {"", config.Agent{Command: []string{"x"}}, nil},
		"passed": {"env_pass: [SECRET]",
			config.Agent{Command: []string{"x"}, EnvPass: []string{"AWS_*"}},
			[]string{"SECRET", "AWS_SECRET_ACCESS_KEY"}},
		"tree":          {"models: {m: {provider: openai, model: x}, n: {provider: anthropic, model: y}}\noracle: {model: m}", config.Agent{Tree: "x"}, []string{"OPENAI_API_KEY"}},
		"another model": {"models: {m: {provider: openai, model: x}, n: {provider: anthropic, model: y, key_env: SECRET}}\noracle: {model: m}", config.Agent{Tree: "x", Model: "n"}, []string{"SECRET"}},
		"server": {"models: {m: {provider: openai, model: x, key_env: NONE}}\noracle: {servers: {s: {command: [x], env: {A: '${SECRET}-${MISTRAL_API_KEY}'}}}}",
			config.Agent{Tree: "x"}, []string{"SECRET", "MISTRAL_API_KEY"}},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t, tt.settings)
			want := slices.Concat(usual, tt.keys)
			slices.SortStableFunc(want,
				func(a, b string) int { return slices.Index(names(m.Environ), a) - slices.Index(names(m.Environ), b) })
			if diff := cmp.Diff(want, names(m.agent(tt.agent).Base)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			// Without a sandbox the same variables are passed, and the home folder is the user's.
			// Temporary files are those of the session.
			tt.agent.Sandbox.Mode = sandbox.Off
			off, temp := m.agent(tt.agent),
				[]string{"TMPDIR=" + m.path("project/.signalbox/tmp/w-1.1")}
			kept := slices.DeleteFunc(names(off.Base),
				func(name string) bool { return name == "HOME" || name == "CODEX_HOME" })
			if diff := cmp.Diff(want, kept); diff != "" ||
				process.Getenv(off.Base, "HOME") != m.Home || !slices.Equal(off.Env, temp) ||
				off.Policy.Restricted() || len(off.Grants) > 0 {
				t.Errorf("without a sandbox: %q, %+v (-want +got):\n%s", off.Env, off.Policy, diff)
			}
		})
	}
}

func TestChecksGetNoKeys(t *testing.T) {
	m := newMachine(t, "checks: [{name: a, command: x, env_pass: [SECRET]}]")
	p := m.Check(Check{Config: m.Config.Checks[0], Work: "T1", Session: "c",
		Dir: m.path("project/.signalbox/trees/T1")})
	if diff := cmp.Diff([]string{"PATH", "LANG", "LC_ALL", "http_proxy", "TERM", "SECRET"},
		names(p.Base)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// A container runs outside, with the user's own settings.
	p = m.Check(Check{Config: m.Config.Checks[0], Work: "T1", Session: "c",
		Dir:         m.path("project/.signalbox/trees/T1"),
		Environment: config.Environment{Run: []string{"docker"}}})
	if p.Policy.Restricted() || process.Getenv(p.Base, "HOME") != m.Home ||
		process.Getenv(p.Base, "SSH_AUTH_SOCK") == "" ||
		process.Getenv(p.Base, "OPENAI_API_KEY") != "" {
		t.Errorf("policy %+v, environment %q", p.Policy, p.Base)
	}
}

// What the user sets under env counts, even if the sandbox would set it.
func TestConfiguredVariables(t *testing.T) {
	m := newMachine(t, "")
	p := m.agent(config.Agent{Preset: "codex", Env: map[string]string{"CODEX_HOME": "/x",
		"HOME": "/y"}})
	if process.Getenv(p.Env, "CODEX_HOME") != "" || process.Getenv(p.Env, "HOME") != "" {
		t.Errorf("environment %q", p.Env)
	}
}

func TestGoModules(t *testing.T) {
	m := newMachine(t, "")
	p := m.agent(config.Agent{})
	if got := process.Getenv(p.Env, "GOPROXY"); got != "https://proxy.golang.org,direct" ||
		process.Getenv(p.Env, "GONOPROXY") != "" {
		t.Errorf("without modules: GOPROXY=%s", got)
	}
	m.write("home/go/pkg/mod/cache/download/x", "")
	m.write("home/.config/go/env", "GOPROXY=https://mirror\nGOFLAGS=-mod=mod\n")
	p = m.agent(config.Agent{})
	if got, want := process.Getenv(p.Env, "GOPROXY"), "file://"+
		m.path("home/go/pkg/mod/cache/download")+",https://mirror"; got != want {
		t.Errorf("GOPROXY=%s, want %s", got, want)
	}
	if got := process.Getenv(p.Env, "GOFLAGS"); got != "-mod=mod -modcacherw" {
		t.Errorf("GOFLAGS=%s", got)
	}
	m.want("read", p.Policy.Read, "bin", "home/go/pkg/mod", "project/.git")
}

// A tool can write a file .git that names any folder. The next tool must not be allowed to read
// that folder.
func TestForgedGitFile(t *testing.T) {
	dir, secret := t.TempDir(), t.TempDir()
	forge := func(name, text string) {
		t.Helper()
		must.Succeed(t, os.MkdirAll(filepath.Dir(name), 0o700))
		must.Succeed(t, os.WriteFile(name, []byte(text), 0o600))
	}
	forge(filepath.Join(dir, ".git"), "gitdir: "+secret+"\n")
	if got := gitAround(dir); got != nil {
		t.Errorf("a folder of the user: %q", got)
	}
	// A worktree of a repository names it, and is named by it.
	repository := t.TempDir()
	own := filepath.Join(repository, ".git", "worktrees", "one")
	forge(filepath.Join(own, "gitdir"), filepath.Join(dir, ".git")+"\n")
	for _, name := range []string{"HEAD", "objects/x", "refs/x"} {
		forge(filepath.Join(repository, ".git", name), "")
	}
	forge(filepath.Join(dir, ".git"), "gitdir: "+own+"\n")
	if diff := cmp.Diff([]string{filepath.Join(repository, ".git")}, gitAround(dir)); diff != "" {
		t.Errorf("a worktree (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{filepath.Join(repository, ".git")},
		gitAround(repository)); diff != "" {
		t.Errorf("the repository (-want +got):\n%s", diff)
	}
}

// A variable alone does not switch the sandbox off.
func TestNestedVariableIsNotBelieved(t *testing.T) {
	t.Setenv(NestedVariable, "1")
	if ThisHost().Nested && !sandbox.Contained() {
		t.Error("the variable is believed")
	}
	if sandbox.Contained() {
		t.Skip("this test runs in a sandbox")
	}
}

// Only the preset for Claude Code gets the variable, and only if the sandbox is enforced.
func TestInSandboxVariable(t *testing.T) {
	for _, tt := range []struct {
		settings string
		agent    config.Agent
		want     string
	}{
		{"", config.Agent{Preset: "claude"}, "1"},
		{"sandbox: warn\n", config.Agent{Preset: "claude"}, ""},
		{"sandbox: off\n", config.Agent{Preset: "claude"}, ""},
		// set by the command
		{"", config.Agent{Preset: "claude", Env: map[string]string{InSandbox: "0"}}, ""},
		{"", config.Agent{Preset: "codex"}, ""},
		{"", config.Agent{Command: []string{"claude"}}, ""},
	} {
		if got := process.Getenv(newMachine(t, tt.settings).agent(tt.agent).Env,
			InSandbox); got != tt.want {
			t.Errorf("%q, %+v: %q, want %q", tt.settings, tt.agent, got, tt.want)
		}
	}
}

func TestGroupChecks(t *testing.T) {
	check := func(name, environment, network string) Explanation {
		return Explanation{Name: "check " + name + " in " + environment, Check: name,
			Environment: environment, Network: network}
	}
	agent := Explanation{Name: "claude", Network: "on"}
	var got []string
	for _, e := range GroupChecks([]Explanation{agent, agent, check("build", "local", "on"),
		check("build", "arm", "on"), check("fetch", "local", "none"),
		check("lint", "local", "on"), check("lint", "arm", "off")}) {
		got = append(got, e.Name+": "+e.Network)
	}
	want := []string{"claude: on", "claude: on", "checks build, lint in local; build in arm: on",
		"check fetch in local: none", "check lint in arm: off"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// In a shared folder, no program can change the team's configuration. The copies in a task's
// working copy have no effect.
func TestTeamFilesAreFixed(t *testing.T) {
	m := newMachine(t, "")
	m.write("project/signalbox.yaml", "")
	m.write("project/prompts/critic.md", "")
	m.write("project/.signalbox/trees/T1/signalbox.yaml", "")
	real, err := filepath.EvalSymlinks(m.Project)
	must.Succeed(t, err)
	m.Config.TeamFiles = []string{filepath.Join(real, "signalbox.yaml"),
		filepath.Join(real, "prompts/critic.md"), filepath.Join(real, "prompts/none.md")}
	link := m.path("link")
	must.Succeed(t, os.Symlink(m.Project, link))
	for _, dir := range []string{m.Project, link} {
		want := []string{filepath.Join(dir, ".git"), filepath.Join(dir, "signalbox.yaml"),
			filepath.Join(dir, "prompts/critic.md")}
		for name, p := range map[string]*Program{
			"agent": m.Agent(Agent{Name: "a", Role: "developer", Work: "T1",
				Temp: m.path("project/.signalbox/tmp/x"), Dir: dir, Argv: []string{"tool"}}),
			"check": m.Check(Check{Work: "T1", Session: "s", Dir: dir}),
			"tool":  m.Tool(config.Sandbox{}, nil, dir, m.path("tmp")),
		} {
			if !slices.Equal(p.Policy.Fixed, want) {
				t.Errorf("%s in %s: fixed %q, want %q", name, dir, p.Policy.Fixed, want)
			}
		}
	}
	tree := m.path("project/.signalbox/trees/T1")
	if p := m.Check(Check{Work: "T1", Session: "s", Dir: tree}); !slices.Equal(p.Policy.Fixed,
		[]string{filepath.Join(tree, ".git")}) {
		t.Errorf("in a working copy: fixed %q", p.Policy.Fixed)
	}
}
