package config

import (
	"fmt"
	"os"
	"path/filepath"
)

// findFiles makes the paths whole that begin at the folder of the box, or at the project that holds it, not in the folder
// that somebody happens to be in, and looks whether the files are there that must be.
func (c *Config) findFiles(dir string, all *faults) {
	f := finder{box: dir, project: filepath.Join(dir, ".."), faults: all}
	c.Checkpoint.File = whole(dir, c.Checkpoint.File)
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
	f.within(at.field("portfolio"), o.Portfolio, PortfolioFile, "make one with signalbox portfolio init")
	for _, name := range sortedKeys(o.Subagents) {
		sub := o.Subagents[name]
		f.file(at.field("subagents").field(name).field("tree"), &sub.Tree, "")
		o.Subagents[name] = sub
	}
}

// finder reports files that do not exist.
type finder struct {
	box, project string
	faults       *faults
}

func whole(dir, name string) string {
	if name == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(dir, name)
}

// file finds a file; without the line there is what is built in, if anything is.
func (f *finder) file(at settingPath, name *string, builtIn string) {
	*name = whole(f.box, *name)
	if *name == "" {
		return
	}
	if info, err := os.Stat(*name); err == nil && info.Mode().IsRegular() {
		return
	}
	hint := "write the path of a file, relative to the folder of the box"
	if builtIn != "" {
		hint += ", or remove the line for " + builtIn
	}
	f.faults.add(&settingError{at: at, fault: fmt.Sprintf("there is no file %s", *name), hint: hint})
}

func (f *finder) folder(at settingPath, name *string, from, what string) {
	*name = whole(from, *name)
	if *name == "" {
		return
	}
	if info, err := os.Stat(*name); err != nil || !info.IsDir() {
		f.faults.add(&settingError{at: at, fault: fmt.Sprintf("there is no folder %s", *name),
			hint: fmt.Sprintf("write the path of a folder, relative to %s, or remove the line", what)})
	}
}

// within looks for a file that a folder must have.
func (f *finder) within(at settingPath, dir, name, hint string) {
	if dir == "" {
		return
	}
	if info, err := os.Stat(filepath.Join(dir, name)); err != nil || !info.Mode().IsRegular() {
		f.faults.add(&settingError{at: at, fault: fmt.Sprintf("there is no %s in %s", name, dir), hint: hint + ", or write the path of a folder that has it"})
	}
}
