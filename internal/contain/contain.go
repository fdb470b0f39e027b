// Package contain decides what the programs of a box may do: which files an agent, a check or a
// tool may read and change, which environment variables it gets, and where its home folder is.
// Package sandbox describes such a policy, and package process enforces it.
//
// A program has a home folder of its own, so that it cannot read the user's, and cannot leave
// anything there that would run outside the sandbox later. An author's home folder belongs to its
// task. All others have a new one at each start, because they run what authors wrote, and that must
// not reach the next one. A Cache keeps builds fast.
//
// Deciding changes nothing; Prepare creates the folders that a program needs.
package contain

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"signalbox/internal/config"
	"signalbox/internal/process"
	"signalbox/internal/sandbox"
)

// Folders of a box.
const (
	// StateFolder has the home folders of programs, in a folder for each task.
	StateFolder = "state"
	// TempFolder has temporary files, in a folder for each session. See Site.Temp.
	TempFolder = "tmp"
)

// NestedVariable is set in the environment of programs in a sandbox. The programs that such a
// program starts have its sandbox.
const NestedVariable = "SIGNALBOX_SANDBOX"

// Host is the machine and the user.
type Host struct {
	Home    string
	Environ []string // without signalbox's own variables
	// KeyFile is the file with the key that signs checkpoints, if the environment names one.
	KeyFile string
	// Own is the folder with signalbox's keys and what the user trusts; "" means that there is
	// none.
	Own string
	// Root reports whether the user is root. Then files that only root may read must be left out.
	Root bool
	// Nested reports whether this process is in a sandbox itself. The programs that it starts have
	// the same one.
	Nested bool
}

// ThisHost returns the machine and the user of this process.
func ThisHost() Host {
	home, _ := os.UserHomeDir() // without one, there is nothing in it
	own, _ := config.UserFolder()
	return Host{Home: home, Environ: process.Environ(), KeyFile: keyFile(), Own: own,
		Root: os.Geteuid() == 0, Nested: os.Getenv(NestedVariable) != "" && sandbox.Contained()}
}

// Site is where programs run.
type Site struct {
	Host
	Config *config.Config
	// Box is the folder of the box; "" means that there is none.
	Box string
	// Project is the folder that contains the box.
	Project string
	// Git are the folders of git that worktrees of the project need, which may be read.
	Git []string
	// Cache is the cache of the box, which OpenHomes uses; nil means none.
	Cache *Cache
}

// Program is what a program gets.
type Program struct {
	Policy *sandbox.Policy
	// Base is the environment that the program gets from this process, and Env what is added to it,
	// after the configured variables.
	Base, Env []string
	// Grants are what the policy allows, for people.
	Grants []Grant
	// Limit is how large the working copy may become, together with the private home folder and the
	// temporary files; 0 means any size.
	Limit int64

	home     string      // "" means the user's
	place    home        // how it is made
	cache    *Generation // that Finish releases; may be nil
	dir      string      // the folder that it works in
	temp     string      // its folder for temporary files, "" without one of its own
	box      string      // the folder of the box, which is not part of a working copy
	own      string      // signalbox's own folder, if it must exist so that it can be hidden
	copies   []copied
	logins   logins
	withheld []string // names of variables of the user that the program does not get
	stripped []string // names of variables that it gets without the password in them
}

// Home returns the program's own home folder, "" if it has the user's.
func (p *Program) Home() string { return p.home }

// Grant is a group of paths that a program may read or change.
type Grant struct {
	What  string   `json:"what"`
	Write bool     `json:"write,omitempty"`
	Paths []string `json:"paths"`
}

// builder collects what a program may do.
type builder struct {
	Site
	own  config.Sandbox // all settings that apply
	p    *Program
	pass []string // names of variables, which may end with a star
	// keepsProxies means that the program gets the passwords of the user's proxies.
	keepsProxies bool
	// private are the user's home folder and the box, also as what they are links to.
	private []string
}

// newProgram starts the description of a program. pass are lists of names of environment variables.
func (s Site) newProgram(own config.Sandbox, pass ...[]string) *builder {
	b := &builder{Site: s, own: s.Config.SandboxOf(own), pass: slices.Concat(slices.Concat(pass...),
		s.Config.EnvPass)}
	if s.Nested {
		b.own.Mode = sandbox.Off
	}
	b.p = &Program{Policy: &sandbox.Policy{Mode: b.own.Mode, Network: b.own.Network.Policy(), Processes: b.own.Processes, Limits: s.Config.Limits.Resources()},
		Limit: int64(s.Config.Limits.Tree), box: s.Box}
	for _, folder := range []string{s.Home, s.Box} {
		if folder == "" {
			continue
		}
		b.private = append(b.private, folder)
		if real, err := filepath.EvalSymlinks(folder); err == nil && real != folder {
			b.private = append(b.private, real)
		}
	}
	return b
}

// restricted reports whether there is a sandbox.
func (b *builder) restricted() bool { return b.p.Policy.Restricted() }

// read allows reading paths that the user did not name. Folders that contain something private are
// left out.
func (b *builder) read(what string, paths ...string) { b.grant(what, false, b.harmless(paths)) }

func (b *builder) write(what string, paths ...string) { b.grant(what, true, paths) }

func (b *builder) grant(what string, write bool, paths []string) {
	var found []string
	for _, name := range paths {
		if !filepath.IsAbs(name) {
			continue
		}
		name = filepath.Clean(name)
		if _, err := os.Lstat(name); err == nil && !slices.Contains(found, name) {
			found = append(found, name)
		}
	}
	if len(found) > 0 {
		b.p.Grants = append(b.p.Grants, Grant{what, write, found})
	}
}

// harmless leaves out folders that contain the user's home folder or the box.
func (b *builder) harmless(paths []string) []string {
	return slices.DeleteFunc(slices.Clone(paths), b.containsPrivate)
}

// containsPrivate reports whether a folder, or what it is a link to, is or contains the user's home
// folder or the box.
func (b *builder) containsPrivate(folder string) bool {
	real := resolve(folder)
	return slices.ContainsFunc(b.private,
		func(private string) bool { return within(private, folder) || within(private, real) })
}

// within reports whether a path is a folder, or is in it.
func within(name, folder string) bool {
	if name == "" || folder == "" {
		return false
	}
	rel, err := filepath.Rel(folder, name)
	return err == nil && filepath.IsLocal(rel)
}

// cleanWithin is within for absolute paths that are clean, and much faster: every start of a
// program compares thousands of them.
func cleanWithin(name, folder string) bool {
	rest, found := strings.CutPrefix(name, folder)
	return found && (rest == "" || os.IsPathSeparator(rest[0]) ||
		os.IsPathSeparator(folder[len(folder)-1]))
}

func cleanAll(paths []string) []string {
	clean := make([]string, 0, len(paths))
	for _, name := range paths {
		if name != "" {
			clean = append(clean, filepath.Clean(name))
		}
	}
	return clean
}

// finish returns the program.
func (b *builder) finish() *Program {
	b.decide()
	given := slices.Concat(b.p.Base, b.p.Env)
	for _, entry := range b.Environ {
		if name := nameOf(entry); !slices.ContainsFunc(given,
			func(entry string) bool { return nameOf(entry) == name }) {
			b.p.withheld = append(b.p.withheld, name)
		}
	}
	return b.p
}

// decide decides which paths and variables the program gets.
func (b *builder) decide() {
	b.write("named in the configuration", b.own.Write...)
	b.grant("named in the configuration", false, b.own.Read)
	p := b.p
	p.Base = b.withoutPasswords(b.withoutJournalSecrets(filterEnviron(b.Environ,
		slices.Concat(general, b.pass))))
	if !b.restricted() {
		p.Policy = &sandbox.Policy{Mode: sandbox.Off, Network: sandbox.Network{},
			Limits: p.Policy.Limits}
		p.Grants, p.home, p.place, p.copies, p.logins.all = nil, "", home{}, nil, nil
		p.Base = b.withoutPasswords(b.withoutJournalSecrets(filterEnviron(b.Environ,
			slices.Concat(general, places, b.pass))))
		return
	}
	// git status would like to change the index
	p.Env = append(p.Env, NestedVariable+"=1", "GIT_OPTIONAL_LOCKS=0")
	for _, g := range p.Grants {
		if g.Write {
			p.Policy.Write = append(p.Policy.Write, g.Paths...)
		}
	}
	for _, g := range p.Grants {
		if !g.Write {
			p.Policy.Read = append(p.Policy.Read, g.Paths...)
		}
	}
	p.Policy.Write = b.outermost(p.Policy.Write, nil)
	p.Policy.Read = b.outermost(p.Policy.Read, p.Policy.Write)
	b.hide()
	b.hideCredentials()
}

// outermost returns the paths in order, without those that are in another of them or in one of the
// others. What is in a private folder stays, because such a folder may have to be hidden.
func (b *builder) outermost(paths, others []string) (kept []string) {
	sorted := slices.Compact(slices.Sorted(slices.Values(cleanAll(paths))))
	others, privates := cleanAll(others), cleanAll(b.private)
	for _, name := range sorted {
		covers := func(folder string) bool {
			hidden := func(private string) bool { // from one who may use the folder
				return name != private && cleanWithin(name, private) &&
					(folder == private || !cleanWithin(folder, private))
			}
			return cleanWithin(name, folder) && !slices.ContainsFunc(privates, hidden)
		}
		if !slices.ContainsFunc(sorted,
			func(folder string) bool { return folder != name && covers(folder) }) &&
			!slices.ContainsFunc(others, covers) {
			kept = append(kept, name)
		}
	}
	return kept
}

// hide hides what is private in a folder that may be read or changed, such as the box of a project
// in /opt.
func (b *builder) hide() {
	policy := b.p.Policy
	all := slices.Concat(policy.Read, policy.Write)
	inside := func(name string) bool {
		return slices.ContainsFunc(all,
			func(folder string) bool { return folder != name && within(name, folder) })
	}
	named := slices.Concat(b.own.Read, b.own.Write, []string{b.Project})
	for _, private := range b.private {
		isBox := sameFile(private, b.Box)
		switch {
		case isBox && (inside(private) || slices.Contains(all, private)):
			policy.Hidden = append(policy.Hidden, private)
			for _, paths := range []*[]string{&policy.Read, &policy.Write} {
				*paths = slices.DeleteFunc(*paths,
					func(name string) bool { return name == private })
			}
		case !isBox && inside(private) &&
			!slices.ContainsFunc(named,
				func(folder string) bool { return within(private, folder) }):
			policy.Hidden = append(policy.Hidden, private)
		}
	}
}

func sameFile(a, b string) bool {
	if a == b {
		return true
	}
	first, err := os.Stat(a)
	second, err2 := os.Stat(b)
	return err == nil && err2 == nil && os.SameFile(first, second)
}

// useHome gives the program a home folder of its own.
func (b *builder) useHome(h home) {
	if h.folder == "" || !b.restricted() {
		return
	}
	folder := h.folder
	b.p.home, b.p.place = folder, h
	if h.layered {
		b.p.Policy.Layers = h.layers()
	}
	b.p.Grants = append(b.p.Grants, Grant{"a home folder of its own", true, []string{folder}})
	join := func(names ...string) string { return filepath.Join(append([]string{folder}, names...)...) }
	b.p.Env = append(b.p.Env, "HOME="+folder, "XDG_CONFIG_HOME="+join(".config"), "XDG_DATA_HOME="+
		join(".local", "share"),
		"XDG_STATE_HOME="+join(".local", "state"), "XDG_CACHE_HOME="+join(".cache"),
		// Otherwise pnpm notices that the home folder is on another file system than the working
		// copy, and keeps its packages there.
		"PNPM_CONFIG_STORE_DIR="+join(".local", "share", "pnpm", "store"))
	b.useModules(join(goModules))
	b.useToolchains()
}

// useTemp gives the program a folder for temporary files.
func (b *builder) useTemp(folder string) {
	if folder == "" {
		return
	}
	b.p.Policy.Temp, b.p.temp = folder, folder
	b.p.Env = append(b.p.Env, "TMPDIR="+folder)
}

// state returns a home folder in the box, "" without a box.
func (s Site) state(work, name string) string {
	if s.Box == "" {
		return ""
	}
	return filepath.Join(s.Box, StateFolder, work, name)
}

// Temp returns the folder for temporary files of a session, "" without a box.
func (s Site) Temp(session string) string {
	if s.Box == "" || session == "" {
		return ""
	}
	return filepath.Join(s.Box, TempFolder, session)
}
