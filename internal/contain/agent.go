package contain

import (
	"cmp"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/durable"
	"signalbox/internal/git"
	"signalbox/internal/process"
	"signalbox/internal/sandbox"
)

// Agent is an agent for which there is work.
type Agent struct {
	Name   string // in the configuration
	Config config.Agent
	Role   string
	Work   string
	// Temp is the folder for temporary files of its session.
	Temp string
	// Ports are those of the folder.
	Ports Ports
	// Diff is a file with the change that a reviewer judges; "" means none.
	Diff string
	// Cache is what the agent gets of the cache, nil if there is none. Program.Finish releases it.
	Cache *Generation
	// Dir is the folder that the agent works in, and Argv and Env its command, with placeholders.
	Dir  string
	Argv []string
	Env  map[string]string
}

// AgentHome returns the name of the home folder of an agent in a role. It is different for all
// pairs: the first dash ends the role.
func AgentHome(role, agent string) string {
	return strings.ReplaceAll(role, "-", "_") + "-" + url.PathEscape(agent)
}

// AgentOfHome returns the role and the agent whose home folder has a name, and whether it is that
// of an agent.
func AgentOfHome(name string) (role, agent string, ok bool) {
	role, escaped, ok := strings.Cut(name, "-")
	if agent, err := url.PathUnescape(escaped); err == nil {
		escaped = agent
	}
	return strings.ReplaceAll(role, "_", "-"), escaped, ok
}

// InSandbox is the variable that tells Claude Code that it is in a sandbox.
const InSandbox = "IS_SANDBOX"

// Agent returns what an agent gets.
func (s Site) Agent(a Agent) *Program {
	keys := s.keysOf(a.Config, slices.Concat(s.Environ, pairs(a.Env)))
	if a.Config.Tree != "" {
		keys = treeKeys(s.Config, a.Config)
	}
	b := s.newProgram(a.Config.Sandbox, a.Config.EnvPass, keys)
	b.keepsProxies = true
	b.p.dir = a.Dir
	b.useServer(a)
	b.usePorts(a.Ports)
	b.useTemp(a.Temp) // even without a sandbox, because its session removes the folder
	if b.restricted() {
		b.readSystem()
		b.work("its working copy", a.Dir)
		b.useHome(s.agentHome(a))
		b.read("the change to judge", a.Diff)
		environ := slices.Concat(s.Environ, pairs(a.Env))
		b.readProgram(a.Argv, a.Dir, environ)
		if a.Config.Tree != "" {
			b.read("the configuration of the box",
				slices.Concat([]string{filepath.Join(s.Box, config.FileName)}, s.Config.Files())...)
		}
		b.usePreset(a.Config, environ)
		if credentials := process.Getenv(environ,
			"GOOGLE_APPLICATION_CREDENTIALS"); a.Config.Preset == config.PresetGemini {
			b.read("its login", credentials)
		}
	}
	p := b.finish()
	p.cache = a.Cache
	// the user's choice counts
	p.Env = slices.DeleteFunc(p.Env, func(entry string) bool { return isSet(a.Config.Env, entry) })
	if SetsInSandbox(a.Config, p.Policy.Mode) {
		p.Env = append(p.Env, InSandbox+"=1")
	}
	return p
}

// useServer limits the network of an agent to its model server if a setting says so. Without any
// setting of the network it does so for a role that does not write: what it reads was written by
// others, and may tell its program to use another server. Who writes needs the network for
// packages.
func (b *builder) useServer(a Agent) {
	set := len(b.own.Network) > 0
	if set && b.own.Network[0] != config.NetworkModel || !set && signalbox.Role(a.Role).IsAuthor() {
		return
	}
	if server, ok := a.Config.Server(); ok {
		server.Default = !set
		b.p.Policy.Network = sandbox.Network{Server: &server}
	}
}

// SetsInSandbox reports whether an agent gets InSandbox: the preset for Claude Code, which
// otherwise does not bypass permissions for root.
func SetsInSandbox(a config.Agent, mode sandbox.Mode) bool {
	_, set := a.Env[InSandbox]
	return !set && mode == sandbox.Enforce && a.Preset == config.PresetClaude
}

// work allows changing a folder that a program works in, but not what git has there, and reading
// the repository.
func (b *builder) work(what, dir string) {
	b.p.Grants = append(b.p.Grants, Grant{what, true, []string{dir}})
	git := filepath.Join(dir, ".git")
	// what a link leads to could be read
	if info, err := os.Lstat(git); err != nil || info.Mode().Type() != fs.ModeSymlink {
		b.p.Policy.Fixed = append(b.p.Policy.Fixed, git)
	}
	// In a task's working copy the team's files are copies without effect. In the project itself
	// they count, if there is no commit.
	for _, name := range b.Config.TeamFiles {
		below, err := filepath.Rel(resolve(dir), name)
		if info, statErr := os.Lstat(name); err == nil && filepath.IsLocal(below) &&
			statErr == nil && info.Mode().IsRegular() {
			b.p.Policy.Fixed = append(b.p.Policy.Fixed, filepath.Join(dir, below))
		}
	}
	b.read("the repository's git folder",
		slices.DeleteFunc(slices.Clone(b.Git),
			func(folder string) bool { return within(folder, dir) })...)
}

func pairs(env map[string]string) (entries []string) {
	for _, name := range slices.Sorted(maps.Keys(env)) {
		entries = append(entries, name+"="+env[name])
	}
	return entries
}

// isSet reports whether an entry of an environment is for a variable that the configuration sets.
func isSet(env map[string]string, entry string) bool {
	for name := range env {
		if matches(nameOf(entry), name) {
			return true
		}
	}
	return false
}

// preset is where the program of a preset keeps its settings and its login.
type preset struct {
	// variable names the folder; the default is folder in the home folder. below is the part of the
	// path that the variable does not have.
	variable, folder, below string
	settings, logins        []string
}

var presets = map[string][]preset{
	config.PresetClaude: {{"CLAUDE_CONFIG_DIR", ".claude", "",
		[]string{"settings.json", "CLAUDE.md"}, []string{".credentials.json"}}},
	config.PresetCodex: {{"CODEX_HOME", ".codex", "", []string{"config.toml", "AGENTS.md"},
		[]string{"auth.json"}}},
	config.PresetGemini: {{"GEMINI_CLI_HOME", ".gemini", ".gemini",
		[]string{"settings.json", "GEMINI.md"},
		[]string{"oauth_creds.json", "google_accounts.json"}}},
	config.PresetOpencode: {
		{"XDG_CONFIG_HOME", ".config/opencode", "opencode",
			[]string{"opencode.json", "opencode.jsonc", "AGENTS.md"}, nil},
		{"XDG_DATA_HOME", ".local/share/opencode", "opencode", nil, []string{"auth.json"}},
	},
}

// folderOf returns the folder of the user with the settings and the login.
func (p preset) folderOf(home string, environ []string) string {
	if named := process.Getenv(environ, p.variable); named != "" {
		return filepath.Join(named, p.below)
	}
	return filepath.Join(home, p.folder)
}

// copied is a file that is copied into the home folder of a program. name is relative to the home
// folder.
type copied struct{ from, name string }

// tokenVariable has a token with which Claude Code needs no login, and that it does not renew.
const tokenVariable = "CLAUDE_CODE_OAUTH_TOKEN"

// usePreset gives the program of a preset copies of the user's settings and of the user's logins.
// environ is the environment that the program would have without a sandbox.
func (b *builder) usePreset(a config.Agent, environ []string) {
	for _, p := range presets[a.Preset] {
		from := p.folderOf(b.Home, environ)
		for _, name := range p.settings {
			b.p.copies = append(b.p.copies,
				copied{filepath.Join(from, name), filepath.Join(p.folder, name)})
		}
		for _, name := range p.logins {
			if a.BaseURL != "" || a.Preset == config.PresetClaude &&
				process.Getenv(environ, tokenVariable) != "" {
				continue // the login is for another server, or not needed
			}
			user := filepath.Join(from, name)
			b.p.logins.all = append(b.p.logins.all,
				&login{User: user, Lock: lockFor(b.Home, user),
					Name: filepath.Join(p.folder, name)})
		}
		// useHome sets these
		if b.p.home != "" && p.variable != "XDG_CONFIG_HOME" && p.variable != "XDG_DATA_HOME" {
			home := filepath.Join(b.p.home, p.folder)
			if p.below != "" {
				home = b.p.home
			}
			b.p.Env = append(b.p.Env, p.variable+"="+home)
		}
	}
}

// Check is a check that is due.
type Check struct {
	Config config.Check
	Work   string
	// Session is unique; "" for an explanation.
	Session     string
	Dir         string
	Ports       Ports
	Environment config.Environment
	// Homes are those that the setup commands had; nil for an explanation.
	Homes *Homes
}

// Names of home folders of a task that are not those of agents.
const (
	ChecksHome = "checks" // of checks, and of setup commands for them and for reviewers
	BaseHome   = "base"   // of setup commands that are only tried on the base
)

// Check returns what a check gets. A check whose environment has a program of its own, usually a
// container, runs outside the sandbox.
func (s Site) Check(c Check) *Program {
	if len(c.Environment.Run) > 0 {
		b := s.newProgram(config.Sandbox{Mode: sandbox.Off}, c.Config.EnvPass, containers)
		b.p.dir = c.Dir
		b.usePorts(c.Ports)
		return b.finish()
	}
	b := s.newProgram(c.Config.Sandbox, c.Config.EnvPass)
	b.p.dir = c.Dir
	b.usePorts(c.Ports)
	if b.restricted() {
		b.readSystem()
		b.work("the working copy", c.Dir)
		b.useHome(c.Homes.check(s, c.Work))
		b.useTemp(s.Temp(c.Session))
	}
	return b.finish()
}

// Setup is a setup command that is due.
type Setup struct {
	Config config.Setup
	Work   string
	// Author is the agent that will work in the folder, if it is an author: the command has its
	// home folder, so that it finds what the command puts there.
	Author *Agent
	// Homes are those of the command otherwise; nil for an explanation.
	Homes *Homes
	// Session is unique; "" for an explanation.
	Session string
	Dir     string
	Ports   Ports
}

// Setup returns what a setup command gets: what a check would get, with the home folder of the
// author for whom it runs.
func (s Site) Setup(c Setup) *Program {
	b := s.newProgram(c.Config.Sandbox, c.Config.EnvPass)
	b.p.dir = c.Dir
	b.usePorts(c.Ports)
	if b.restricted() {
		b.readSystem()
		b.work("the working copy", c.Dir)
		switch {
		case c.Author != nil:
			b.useHome(s.agentHome(*c.Author))
		case c.Homes != nil:
			b.useHome(c.Homes.setup())
		default:
			b.useHome(home{box: s.Box, folder: s.state(c.Work, ChecksHome)})
		}
		b.useTemp(s.Temp(c.Session))
	}
	if c.Author != nil {
		b.p.cache = c.Author.Cache
	}
	return b.finish()
}

// toolsHome is the folder, beside those of tasks, with the home folder of tools. Names of tasks do
// not begin with a dot.
const toolsHome = ".tools"

// Tool returns what a tool gets that is a shell command and works in a folder. temp is a folder for
// its temporary files, and for its home folder if there is no box.
func (s Site) Tool(own config.Sandbox, pass []string, dir, temp string) *Program {
	if s.Git == nil {
		s.Git = gitAround(dir)
	}
	b := s.newProgram(own, pass)
	b.p.dir = dir
	if b.restricted() {
		b.readSystem()
		b.work("the project", dir)
		b.useHome(home{folder: cmp.Or(s.state(toolsHome, "home"), filepath.Join(temp, "home"))})
		b.useTemp(temp)
	}
	return b.finish()
}

// gitAround returns the folders of git for a folder of the user, nil if it is not in a repository.
func gitAround(dir string) []string {
	for folder := dir; ; folder = filepath.Dir(folder) {
		if found, err := git.DirOf(folder); err == nil {
			if !isGitFolder(found, folder) {
				return nil
			}
			if worktrees := filepath.Dir(found); filepath.Base(worktrees) == "worktrees" {
				return []string{filepath.Dir(worktrees)}
			}
			return []string{found}
		}
		if folder == filepath.Dir(folder) {
			return nil
		}
	}
}

// isGitFolder reports whether a folder that a .git names is one of git's. A program could have
// written any name there, to be allowed to read it: a git folder elsewhere must name the worktree,
// too.
func isGitFolder(found, worktree string) bool {
	name := filepath.Join(worktree, ".git")
	if found != name {
		text, err := durable.ReadRegular(filepath.Join(found, "gitdir"), maxSettings)
		if err != nil || filepath.Clean(strings.TrimSpace(string(text))) != name {
			return false
		}
		found = filepath.Dir(filepath.Dir(found)) // of git/worktrees/NAME
	}
	for _, part := range []string{"HEAD", "objects", "refs"} {
		if _, err := os.Lstat(filepath.Join(found, part)); err != nil {
			return false
		}
	}
	return true
}
