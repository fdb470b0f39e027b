package config

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
)

// fileSetting is a setting that is the path of a file or a folder.
type fileSetting struct {
	at     settingPath
	name   string
	set    func(name string)
	folder bool
	// project means that it is not part of the configuration: it is relative to the project, not to
	// the folder of the configuration.
	project bool
	builtIn string // what is used without the setting, for the hint; "" if it is needed
}

// fileSettings returns the settings that are paths, except for those of sandboxes.
func (c *Config) fileSettings() (all []fileSetting) {
	for _, name := range sortedKeys(c.Roles) {
		all = append(all, fileSetting{at: setting("roles", string(name), "prompt"),
			name: c.Roles[name].Prompt, builtIn: "the built-in prompt",
			set: func(file string) { role := c.Roles[name]; role.Prompt = file; c.Roles[name] = role }})
	}
	for _, name := range sortedKeys(c.Agents) {
		all = append(all, fileSetting{at: setting("agents", name, "tree"),
			name: c.Agents[name].Tree,
			set:  func(file string) { agent := c.Agents[name]; agent.Tree = file; c.Agents[name] = agent }})
	}
	o, at := &c.Oracle, setting("oracle")
	variable := func(field string, name *string) fileSetting {
		return fileSetting{at: at.field(field), name: *name,
			set: func(file string) { *name = file }}
	}
	tree, words, prompts := variable("tree", &o.Tree), variable("words", &o.Words),
		variable("prompts", &o.Prompts)
	tree.builtIn, words.builtIn, prompts.folder = "the built-in tree", "the built-in words", true
	all = append(all, tree, words, prompts)
	for _, folder := range []fileSetting{variable("code", &o.Code), variable("notes", &o.Notes),
		variable("portfolio", &o.Portfolio)} {
		folder.folder, folder.project = true, true
		all = append(all, folder)
	}
	for _, name := range sortedKeys(o.Subagents) {
		all = append(all, fileSetting{at: at.field("subagents").field(name).field("tree"),
			name: o.Subagents[name].Tree,
			set:  func(file string) { sub := o.Subagents[name]; sub.Tree = file; o.Subagents[name] = sub }})
	}
	return all
}

// findFiles resolves paths, and reports files that do not exist. Paths in the file of the box are
// relative to its folder, or to the project that contains it. Paths in the team's file are relative
// to the top of the repository; team may be nil.
func (c *Config) findFiles(dir string, team *Team, set places, all *faults) {
	f := finder{box: dir, team: team, set: set, faults: all}
	c.Checkpoint.File = resolvePath(f.base(setting("checkpoint", "file"), dir), c.Checkpoint.File)
	c.Notify.Webhook.SecretFile = resolvePath(f.base(setting("notify", "webhook", "secret_file"),
		dir), c.Notify.Webhook.SecretFile)
	for i := range c.Webhooks {
		w := &c.Webhooks[i]
		w.SecretFile = resolvePath(f.base(setting("webhooks").item(i).field("secret_file"), dir),
			w.SecretFile)
	}
	c.resolveSandboxes(func(at settingPath) string { return f.base(at, f.project()) }, all)
	for _, s := range c.fileSettings() {
		if s.name == "" {
			continue
		}
		switch {
		case s.project:
			s.set(f.folder(s, f.base(s.at, f.project()), "the project"))
		case set[s.at].team:
			s.set(f.teamFile(s))
		case s.folder:
			s.set(f.folder(s, f.box, "the folder of the box"))
		default:
			s.set(f.file(s))
		}
	}
	f.within(setting("oracle", "portfolio"), c.Oracle.Portfolio, PortfolioFile,
		"create it with signalbox portfolio init")
}

// Files returns the files and folders that Load looked for, except for those of the sandbox
// settings.
func (c *Config) Files() (names []string) {
	add := func(name string) {
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	add(c.Team)
	for _, s := range c.fileSettings() {
		add(s.name)
	}
	return names
}

// OwnFiles returns the files, and the folders with Markdown files, that the text of a box's own
// configuration names as parts of it, with absolute paths. The text need not be valid.
func OwnFiles(dir string, text []byte) (named []TeamPath) {
	c := Default()
	read(text, c)
	for _, s := range c.fileSettings() {
		if s.name != "" && !s.project {
			named = append(named, TeamPath{resolvePath(dir, s.name), s.folder})
		}
	}
	return named
}

// finder resolves paths and reports files that do not exist.
type finder struct {
	box    string
	team   *Team
	set    places
	faults *faults
}

func (f *finder) project() string { return filepath.Join(f.box, "..") }

// base returns the folder that a path begins at: the top of the repository if the team set it, or
// else own.
func (f *finder) base(at settingPath, own string) string {
	if f.set[at].team {
		return f.team.Root
	}
	return own
}

func resolvePath(dir, name string) string {
	if name == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(dir, name)
}

// file returns the resolved path of a file.
func (f *finder) file(s fileSetting) string {
	name := resolvePath(f.box, s.name)
	if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() {
		return name
	}
	f.faults.fail(s.at, "write the path of a file, relative to the folder of the box"+s.otherwise(),
		"there is no file %s", name)
	return name
}

func (s fileSetting) otherwise() string {
	if s.builtIn == "" {
		return ""
	}
	return ", or remove the line to use " + s.builtIn
}

// teamFile returns the path of the copy of a file, or a folder, that the team's configuration
// names.
func (f *finder) teamFile(s fileSetting) string {
	name := path.Clean(filepath.ToSlash(s.name))
	isIt := func(file string) bool { return file == name || s.folder && path.Dir(file) == name }
	if !slices.ContainsFunc(f.team.Files, isIt) {
		what := "file"
		if s.folder {
			what = "Markdown file in the folder"
		}
		f.faults.fail(s.at, "commit it, or write the path of a committed file, relative to the top of the repository"+s.otherwise(), "there is no %s %s in the repository", what, name)
	}
	return filepath.Join(f.team.Dir, filepath.FromSlash(name))
}

func (f *finder) folder(s fileSetting, from, what string) string {
	name := resolvePath(from, s.name)
	if info, err := os.Stat(name); err != nil || !info.IsDir() {
		f.faults.fail(s.at, fmt.Sprintf(
			"write the path of a folder, relative to %s, or remove the line", what),
			"there is no folder %s", name)
	}
	return name
}

// within reports a file that is missing from a folder.
func (f *finder) within(at settingPath, dir, name, hint string) {
	if dir == "" {
		return
	}
	if info, err := os.Stat(filepath.Join(dir, name)); err != nil || !info.Mode().IsRegular() {
		f.faults.fail(at, hint+", or write the path of a folder that contains it",
			"there is no %s in %s", name, dir)
	}
}
