package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// findFiles resolves paths relative to the folder of the box or to the project that contains it, and reports files that do not
// exist.
func (c *Config) findFiles(dir string, all *faults) {
	f := finder{box: dir, project: filepath.Join(dir, ".."), faults: all}
	c.Checkpoint.File = resolvePath(dir, c.Checkpoint.File)
	c.Notify.Webhook.SecretFile = resolvePath(dir, c.Notify.Webhook.SecretFile)
	c.resolveSandboxes(f.project, all)
	for _, name := range sortedKeys(c.Roles) {
		role := c.Roles[name]
		f.file(setting("roles", string(name), "prompt"), &role.Prompt, "the built-in prompt")
		c.Roles[name] = role
	}
	for _, name := range sortedKeys(c.Agents) {
		agent := c.Agents[name]
		f.file(setting("agents", name, "tree"), &agent.Tree, "")
		c.Agents[name] = agent
	}
	o, at := &c.Oracle, setting("oracle")
	f.file(at.field("tree"), &o.Tree, "the built-in tree")
	f.file(at.field("words"), &o.Words, "the built-in words")
	f.folder(at.field("prompts"), &o.Prompts, f.box, "the folder of the box")
	f.folder(at.field("code"), &o.Code, f.project, "the project")
	f.folder(at.field("notes"), &o.Notes, f.project, "the project")
	f.folder(at.field("portfolio"), &o.Portfolio, f.project, "the project")
	f.within(at.field("portfolio"), o.Portfolio, PortfolioFile, "create it with signalbox portfolio init")
	for _, name := range sortedKeys(o.Subagents) {
		sub := o.Subagents[name]
		f.file(at.field("subagents").field(name).field("tree"), &sub.Tree, "")
		o.Subagents[name] = sub
	}
}

// Files returns the files and folders that Load looked for, except for those of the sandbox settings.
func (c *Config) Files() (names []string) {
	add := func(name string) {
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, name := range sortedKeys(c.Roles) {
		add(c.Roles[name].Prompt)
	}
	for _, name := range sortedKeys(c.Agents) {
		add(c.Agents[name].Tree)
	}
	for _, name := range []string{c.Oracle.Tree, c.Oracle.Words, c.Oracle.Prompts, c.Oracle.Code, c.Oracle.Notes, c.Oracle.Portfolio} {
		add(name)
	}
	for _, name := range sortedKeys(c.Oracle.Subagents) {
		add(c.Oracle.Subagents[name].Tree)
	}
	return names
}

// finder resolves paths and reports files that do not exist.
type finder struct {
	box, project string
	faults       *faults
}

func resolvePath(dir, name string) string {
	if name == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(dir, name)
}

// file resolves the path of a file. builtIn is the default, for the hint; empty means that there is none.
func (f *finder) file(at settingPath, name *string, builtIn string) {
	*name = resolvePath(f.box, *name)
	if *name == "" {
		return
	}
	if info, err := os.Stat(*name); err == nil && info.Mode().IsRegular() {
		return
	}
	hint := "write the path of a file, relative to the folder of the box"
	if builtIn != "" {
		hint += ", or remove the line to use " + builtIn
	}
	f.faults.add(&settingError{at: at, fault: fmt.Sprintf("there is no file %s", *name), hint: hint})
}

func (f *finder) folder(at settingPath, name *string, from, what string) {
	*name = resolvePath(from, *name)
	if *name == "" {
		return
	}
	if info, err := os.Stat(*name); err != nil || !info.IsDir() {
		f.faults.add(&settingError{at: at, fault: fmt.Sprintf("there is no folder %s", *name),
			hint: fmt.Sprintf("write the path of a folder, relative to %s, or remove the line", what)})
	}
}

// within reports a file that is missing from a folder.
func (f *finder) within(at settingPath, dir, name, hint string) {
	if dir == "" {
		return
	}
	if info, err := os.Stat(filepath.Join(dir, name)); err != nil || !info.Mode().IsRegular() {
		f.faults.add(&settingError{at: at, fault: fmt.Sprintf("there is no %s in %s", name, dir), hint: hint + ", or write the path of a folder that contains it"})
	}
}
