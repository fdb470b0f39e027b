package config

import (
	"path"
	"path/filepath"
	"strings"
	"time"
)

// Setup is a command that makes a new worktree ready to work in.
type Setup struct {
	// Name is what people call it. The default is the command.
	Name string `yaml:"name"`
	// Command runs in a shell, in the root of the worktree.
	Command string `yaml:"command"`
	// Files are paths in the worktree. The command runs again in a worktree when one of them has
	// changed.
	Files   []string      `yaml:"files"`
	Timeout time.Duration `yaml:"timeout"`
	// EnvPass is added to Config.EnvPass.
	EnvPass []string `yaml:"env_pass"`
	Sandbox Sandbox  `yaml:"sandbox"`
}

// Cache is what build tools keep between two builds. What runs on the base fills it, and all
// programs begin with it. In the text it is a group of settings, or only the folders.
type Cache struct {
	// Folders are in a program's private home folder, besides those of the usual build tools.
	Folders []string `yaml:"folders"`
	// Fill are shell commands that run on the base after its checks, for what the cache must have
	// in addition. Whether they succeed does not matter.
	Fill []string `yaml:"fill"`
	// Developers reports whether programs that write begin with the cache, too.
	Developers bool `yaml:"developers"`
}

func (Cache) mainField() string { return "folders" }

// DefaultSetupTimeout is the timeout of a setup command without one.
const DefaultSetupTimeout = 10 * time.Minute

// maxPorts is how many ports a worktree may have.
const maxPorts = 1000

// defaultName returns the name of a setup command without one: the first line of the command.
func (s Setup) defaultName() string {
	line, _, _ := strings.Cut(strings.TrimSpace(s.Command), "\n")
	line = strings.Join(strings.Fields(line), " ")
	if len(line) > maxName {
		line = strings.ToValidUTF8(line[:maxName-len("…")], "") + "…"
	}
	return line
}

func (c *Config) fillSetup(set places) {
	for i := range c.Setup {
		s := &c.Setup[i]
		setUnless(set, setting("setup").item(i).field("timeout"), &s.Timeout, DefaultSetupTimeout)
		if !set.has(setting("setup").item(i).field("name")) {
			s.Name = s.defaultName()
		}
	}
}

func (c *Config) checkSetup(f *faults) {
	names := map[string]bool{}
	for i, s := range c.Setup {
		at := setting("setup").item(i)
		if strings.TrimSpace(s.Command) == "" {
			f.fail(at.field("command"), "write the line that a shell runs, such as npm ci",
				"must not be empty")
			continue
		}
		if s.Name != s.defaultName() {
			f.add(checkName(at, s.Name))
		}
		f.add(checkTwice(names, at, s.Name))
		f.add(checkTime(at.field("timeout"), s.Timeout))
		for j, name := range s.Files {
			f.add(checkSetupFile(at.field("files").item(j), name))
		}
	}
	for i, pattern := range c.Copy {
		if fault, hint := checkPattern(pattern); fault != "" {
			f.fail(setting("copy").item(i), strings.ReplaceAll(hint, ".github/** or go.mod",
				".env or .venv/**"), "%s", fault)
		}
	}
	for i, command := range c.Cache.Fill {
		if strings.TrimSpace(command) == "" {
			f.fail(setting("cache", "fill").item(i),
				"write the line that a shell runs, such as go vet ./...", "must not be empty")
		}
	}
	for i, name := range c.Cache.Folders {
		if name == "" || path.Clean(name) != name || !filepath.IsLocal(name) || name == "." ||
			strings.HasPrefix(name, "~") {
			f.fail(setting("cache", "folders").item(i),
				"write its path relative to the home folder, such as .m2/repository",
				"%q is not a folder in a home folder", name)
		}
	}
	if c.Ports < 0 || c.Ports > maxPorts {
		f.fail(setting("ports"), "write how many ports each worktree gets, such as 10",
			"%d is not between 0 and %d", c.Ports, maxPorts)
	}
}

// checkSetupFile reports a path that is not one of a file in the worktree.
func checkSetupFile(at settingPath, name string) *settingError {
	const hint = "write the path of a file, relative to the top of the repository, such as package-lock.json"
	switch {
	case name == "" || path.IsAbs(name) || path.Clean(name) != name || name == "." ||
		name == ".." || strings.HasPrefix(name, "../"):
		return faultAt(at, hint, "%q is not a plain path", name)
	case strings.ContainsAny(name, `*?[\`):
		return faultAt(at, hint+"; patterns are not supported here", "%q is a pattern", name)
	}
	return nil
}

// Copies reports whether a file, with slashes and relative to the top of the repository, is copied
// into worktrees because of the setting copy. A pattern that matches a folder stands for everything
// in it. Case counts.
func (c *Config) Copies(name string) bool {
	segments := strings.Split(name, "/")
	for _, pattern := range c.Copy {
		for i := range segments {
			if matches(strings.Split(pattern, "/"), segments[:i+1]) {
				return true
			}
		}
	}
	return false
}
