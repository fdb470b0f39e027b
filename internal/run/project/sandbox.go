package project

import (
	"path/filepath"
	"slices"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/contain"
	"signalbox/internal/process"
	"signalbox/internal/run/agent"
	"signalbox/internal/run/workspace"
	"signalbox/internal/sandbox"
)

// ExampleSession is the session of a program that is only explained, and ExampleWork its task.
const (
	ExampleSession = "SESSION"
	ExampleWork    = "T1"
)

// ExampleFolder returns the folder that a program works in that is only explained.
func (p Project) ExampleFolder(site contain.Site) string {
	if p.Repo != nil {
		return filepath.Join(site.Box, workspace.TreesFolder, ExampleWork)
	}
	return p.Root
}

// ExplainAgent returns what an agent may do for a task: as its author, and in a role that judges if
// the agent has only such roles, or another network there.
func (p Project) ExplainAgent(site contain.Site, name string, s sandbox.Support) (
	all []contain.Explanation, err error) {
	configured := site.Config.AgentNamed(name)
	command, err := agent.CommandOf(configured)
	if err != nil {
		return nil, err
	}
	a := contain.Agent{Name: name, Config: configured, Work: ExampleWork,
		Dir: p.ExampleFolder(site), Argv: command.Argv, Env: command.Env}
	for _, e := range exampleAgents(site, a) {
		title := name
		if len(all) > 0 {
			title += " as " + string(e.role)
		}
		all = append(all, e.program.Explain(title, s))
	}
	return all, nil
}

// exampleAgent is what an agent gets in a role.
type exampleAgent struct {
	role    signalbox.Role
	program *contain.Program
}

// exampleAgents returns what an agent gets, for each network that it has in some role. An agent
// without a role could have any.
func exampleAgents(site contain.Site, a contain.Agent) (all []exampleAgent) {
	var author, judge signalbox.Role
	for name, role := range agent.Roles(site.Config) {
		switch {
		case name != a.Name:
		case role == signalbox.RoleDeveloper || role.IsAuthor() && author == "":
			author = role
		case role == signalbox.RoleCritic || !role.IsAuthor() && judge == "":
			judge = role
		}
	}
	if author == "" && judge == "" {
		author, judge = signalbox.RoleDeveloper, signalbox.RoleCritic
	}
	a.Temp = site.Temp(ExampleSession)
	for _, role := range []signalbox.Role{author, judge} {
		if role == "" {
			continue
		}
		a.Role = string(role)
		p := site.Agent(a)
		if len(all) == 0 || p.Policy.Network.String() != all[0].program.Policy.Network.String() {
			all = append(all, exampleAgent{role, p})
		}
	}
	return all
}

// ExplainCheck returns what a check may do in an environment.
func (p Project) ExplainCheck(site contain.Site, check config.Check, e config.Environment,
	s sandbox.Support) contain.Explanation {
	program := site.Check(contain.Check{Config: check, Work: ExampleWork, Session: ExampleSession,
		Dir: p.ExampleFolder(site), Environment: e})
	explained := program.Explain("check "+check.Name+" in "+e.Name, s)
	explained.Check, explained.Environment = check.Name, e.Name
	if len(e.Run) > 0 {
		explained.Note = "it runs in " + e.Run[0] + ", outside the sandbox"
	}
	return explained
}

// ExplainSetup returns what a setup command may do in the worktree of a developer.
func (p Project) ExplainSetup(site contain.Site, setup config.Setup,
	s sandbox.Support) contain.Explanation {
	name := site.Config.AgentsFor(signalbox.RoleDeveloper, "")[0]
	author := contain.Agent{Name: name, Role: string(signalbox.RoleDeveloper), Work: ExampleWork}
	program := site.Setup(contain.Setup{Config: setup, Work: ExampleWork, Author: &author,
		Session: ExampleSession, Dir: p.ExampleFolder(site)})
	return program.Explain("setup "+setup.Name, s)
}

// CheckSandboxes reports what the system cannot enforce: as an error if an agent, a check or a
// setup command could not start, and otherwise as notes.
func (p Project) CheckSandboxes(c *config.Config, dir string, support sandbox.Support) (
	notes []string, err error) {
	site, err := p.Site(c, dir)
	if err != nil {
		return nil, err
	}
	work := p.ExampleFolder(site)
	note := func(p *contain.Program) error {
		if err := support.Check(p.Policy); err != nil {
			return err
		}
		for _, missing := range support.Notes(p.Policy) {
			if !slices.Contains(notes, missing) {
				notes = append(notes, missing)
			}
		}
		return nil
	}
	for _, name := range agent.Names(c) {
		a := contain.Agent{Name: name, Config: c.AgentNamed(name), Work: ExampleWork, Dir: work}
		for _, e := range exampleAgents(site, a) {
			if err := note(e.program); err != nil {
				return nil, err
			}
		}
	}
	for _, check := range c.Checks {
		if err := note(site.Check(contain.Check{Config: check, Work: ExampleWork,
			Session: ExampleSession, Dir: work})); err != nil {
			return nil, err
		}
	}
	for _, setup := range c.Setup {
		if err := note(site.Setup(contain.Setup{Config: setup, Work: ExampleWork,
			Session: ExampleSession, Dir: work})); err != nil {
			return nil, err
		}
	}
	return append(notes, process.MissingLimits(c.Limits.Resources())...), nil
}
