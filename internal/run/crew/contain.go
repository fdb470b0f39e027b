package crew

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"slices"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/core/rules"
	"signalbox/internal/process"
	"signalbox/internal/run/agent"
	"signalbox/internal/run/contain"
	"signalbox/internal/run/workspace"
	"signalbox/internal/sandbox"
)

// SiteOf returns where the programs of a box run. dir is the box's folder.
func SiteOf(c *config.Config, project Project, dir string) (contain.Site, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return contain.Site{}, err
	}
	site := contain.Site{Host: contain.ThisHost(), Config: c, Box: dir, Project: project.Root, Cache: contain.OpenCache(dir, c)}
	if project.Repo != nil {
		site.Git = project.Repo.GitFolders()
	}
	return site, nil
}

// AgentNames returns the names of the agents that work in some role.
func AgentNames(c *config.Config) (names []string) {
	for name := range agentRoles(c) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// agentRoles returns the agents with each role that they work in.
func agentRoles(c *config.Config) iter.Seq2[string, signalbox.Role] {
	return func(yield func(string, signalbox.Role) bool) {
		for _, role := range rules.DispatchRoles() {
			if role == signalbox.RoleCI || role == signalbox.RoleMerger {
				continue
			}
			for _, name := range c.AgentsFor(role, "") {
				if !yield(name, role) {
					return
				}
			}
		}
		for _, e := range c.Experts {
			for _, name := range c.AgentsFor(signalbox.RoleExpert, e.Name) {
				if !yield(name, signalbox.RoleExpert) {
					return
				}
			}
		}
	}
}

// exampleSession is the session of a program that is only explained, and exampleWork its task.
const (
	exampleSession = "SESSION"
	exampleWork    = "T1"
)

// exampleFolder returns the folder that a program works in that is only explained.
func exampleFolder(site contain.Site, project Project) string {
	if project.Repo != nil {
		return filepath.Join(site.Box, workspace.TreesFolder, exampleWork)
	}
	return project.Root
}

// ExplainAgent returns what an agent may do for a task in a folder: as its author, and in a role
// that judges if the agent has only such roles, or another network there.
func ExplainAgent(site contain.Site, name, work, dir string, s sandbox.Support) (
	all []contain.Explanation, err error) {
	configured := site.Config.AgentNamed(name)
	command, err := CommandOf(configured)
	if err != nil {
		return nil, err
	}
	a := contain.Agent{Name: name, Config: configured, Work: work, Dir: dir, Argv: command.Argv, Env: command.Env}
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
	for name, role := range agentRoles(site.Config) {
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
	a.Temp = site.Temp(exampleSession)
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
func ExplainCheck(site contain.Site, check config.Check, e config.Environment, work, dir string, s sandbox.Support) contain.Explanation {
	p := site.Check(contain.Check{Config: check, Work: work, Session: exampleSession, Dir: dir, Environment: e})
	explained := p.Explain("check "+check.Name+" in "+e.Name, s)
	explained.Check, explained.Environment = check.Name, e.Name
	if len(e.Run) > 0 {
		explained.Note = "it runs in " + e.Run[0] + ", outside the sandbox"
	}
	return explained
}

// ExplainSetup returns what a setup command may do in the worktree of a developer.
func ExplainSetup(site contain.Site, setup config.Setup, work, dir string, s sandbox.Support) contain.Explanation {
	name := site.Config.AgentsFor(signalbox.RoleDeveloper, "")[0]
	author := contain.Agent{Name: name, Role: string(signalbox.RoleDeveloper), Work: work}
	p := site.Setup(contain.Setup{Config: setup, Work: work, Author: &author, Session: exampleSession, Dir: dir})
	return p.Explain("setup "+setup.Name, s)
}

// CheckSandboxes reports what the system cannot enforce: as an error if an agent, a check or a setup command could not start, and otherwise as notes.
func CheckSandboxes(c *config.Config, project Project, dir string, support sandbox.Support) (notes []string, err error) {
	site, err := SiteOf(c, project, dir)
	if err != nil {
		return nil, err
	}
	work := exampleFolder(site, project)
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
	for _, name := range AgentNames(c) {
		a := contain.Agent{Name: name, Config: c.AgentNamed(name), Work: exampleWork, Dir: work}
		for _, e := range exampleAgents(site, a) {
			if err := note(e.program); err != nil {
				return nil, err
			}
		}
	}
	for _, check := range c.Checks {
		if err := note(site.Check(contain.Check{Config: check, Work: exampleWork, Session: exampleSession, Dir: work})); err != nil {
			return nil, err
		}
	}
	for _, setup := range c.Setup {
		if err := note(site.Setup(contain.Setup{Config: setup, Work: exampleWork, Session: exampleSession, Dir: work})); err != nil {
			return nil, err
		}
	}
	return append(notes, process.MissingLimits(c.Limits.Resources())...), nil
}

// contain returns what the session's agent may do in its workspace. The caller finishes it.
func (s *session) contain(name string, configured config.Agent, command agent.Command, ws *sessionWorkspace) *contain.Program {
	p := s.crew.site.Agent(contain.Agent{Name: name, Config: configured, Role: string(s.role), Work: s.work, Temp: s.temp, Dir: ws.dir,
		Argv: command.Argv, Env: command.Env, Ports: s.crew.checks.Ports(ws.dir), Diff: ws.diff, Cache: s.crew.checks.Cache()})
	for ws.tooLarge && p.TreeExceeds() {
		p.Limit *= 2 // so that the agent has time to clean it up
	}
	return p
}

// errTooLarge means that a working copy is larger than limits.tree.
var errTooLarge = errors.New("the working copy is larger")

func tooLarge(c *config.Config) error {
	return fmt.Errorf("%w than %s (limits.tree)", errTooLarge, c.Limits.Tree)
}

// exceededSize describes what a program has written too much of, after it has ended, and removes it if that is its home folder.
func (s *session) exceededSize(p *contain.Program) string {
	c := s.crew.box.Config
	if p.TreeExceeds() {
		return tooLarge(c).Error()
	}
	if err := p.EmptyHome(); err != nil {
		s.crew.log.Warn("cannot remove the home folder of an agent", "work", s.work, "error", err)
	}
	return fmt.Sprintf("its working copy, home folder and temporary files are larger than %s together (limits.tree)", c.Limits.Tree)
}

// limitSize returns a function that saves a working copy only if it is not larger than limits.tree. Otherwise an agent must clean it up.
func (s *session) limitSize(dir string, save func(context.Context, string) (string, error)) func(context.Context, string) (string, error) {
	return func(ctx context.Context, message string) (string, error) {
		c := s.crew.box.Config
		if c.Limits.Tree > 0 && contain.Exceeds(dir, int64(c.Limits.Tree), s.crew.box.Dir) {
			return "", &signalbox.Error{Code: signalbox.CodeConflict, Err: tooLarge(c), Hint: "remove files that do not belong to the project"}
		}
		return save(ctx, message)
	}
}
