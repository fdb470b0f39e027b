package boxes

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"signalbox"
	"signalbox/internal/cli"
	"signalbox/internal/config"
	"signalbox/internal/contain"
	"signalbox/internal/process"
	"signalbox/internal/run/agent"
	"signalbox/internal/run/project"
	"signalbox/internal/run/workspace"
	"signalbox/internal/sandbox"
)

type SandboxCommands struct {
	Explain sandboxExplainCommand `cmd:"" help:"Print what agents, checks and setup commands may do on this machine."`
}

func (SandboxCommands) Help() string {
	return `Agents, checks and tools run in a sandbox: what they may read, change and reach is limited by the system. docs/explanation/security.md describes it.

Examples:

    signalbox sandbox explain
    signalbox sandbox explain claude`
}

type sandboxExplainCommand struct {
	cli.BoxFlag
	JSON bool   `name:"json" help:"Print one JSON object."`
	Kind string `arg:"" optional:"" name:"agent" help:"An agent of the configuration, check, or setup. Default: all agents, checks and setup commands that are used."`
	Name string `arg:"" optional:"" name:"check" help:"After check or setup: the name of a check or a setup command."`
}

func (sandboxExplainCommand) Help() string {
	return `Prints what an agent, a check or a setup command may do on this machine, as for a task T1 with a developer, and for a role that judges where the network is another one: what it may change and read, its network, which environment variables it gets, what enforces that, and what remains possible on this system although it is not allowed. docs/reference/configuration.md describes the settings.

Examples:

    signalbox sandbox explain
    signalbox sandbox explain claude
    signalbox sandbox explain check tests --json`
}

// explained is the JSON answer.
type explained struct {
	Support  sandbox.Support       `json:"support"`
	Programs []contain.Explanation `json:"programs"`
}

func (c *sandboxExplainCommand) Run(p *cli.Program) error {
	dir, err := p.FindBox(c.BoxFlag)
	if err != nil {
		return err
	}
	settings, _, err := cli.LoadSettings(context.Background(), p.ProjectRoot(c.BoxFlag, dir), dir)
	if err != nil {
		return err
	}
	root, err := filepath.Abs(p.ProjectRoot(c.BoxFlag, dir))
	if err != nil {
		return err
	}
	in := project.Project{Root: root}
	if !settings.Workspace.Shared() {
		in, err = project.Find(context.Background(), settings, root, dir)
		if dirty, ok := errors.AsType[*workspace.UncommittedError](err); ok { // it matters to runs
			in, err = project.Find(context.Background(), settings, root, dir, dirty.Files...)
		}
		if err != nil {
			return err
		}
	}
	site, err := in.Site(settings, dir)
	if err != nil {
		return err
	}
	answer := explained{Support: process.Support()}
	if answer.Programs, err = c.programs(site, in, answer.Support); err != nil {
		return err
	}
	if c.JSON {
		return p.PrintJSON(answer, "")
	}
	for i, e := range contain.GroupChecks(answer.Programs) {
		if i > 0 {
			fmt.Fprintln(p.Out)
		}
		if _, err := fmt.Fprint(p.Out, e.Text()); err != nil {
			return err
		}
	}
	return nil
}

// programs explains the agents, checks and setup commands that the arguments name.
func (c *sandboxExplainCommand) programs(site contain.Site, in project.Project,
	s sandbox.Support) (all []contain.Explanation, err error) {
	settings := site.Config
	if c.Kind != "check" && c.Kind != "setup" {
		names := agent.Names(settings)
		if c.Kind != "" {
			if _, configured := settings.Agents[c.Kind]; !configured &&
				!slices.Contains(config.Presets(), c.Kind) {
				return nil, signalbox.CodeNotFound.Errorf("use one of: "+strings.Join(names, ", "),
					"there is no agent '%s'", c.Kind)
			}
			names = []string{c.Kind}
		}
		for _, name := range names {
			e, err := in.ExplainAgent(site, name, s)
			if err != nil {
				return nil, err
			}
			all = append(all, e...)
		}
		if c.Name != "" {
			return nil, signalbox.CodeUsage.Errorf(
				"name one agent, or a check after the word check, or a setup command after the word setup", "there are two names")
		}
		if c.Kind != "" {
			return all, nil
		}
	}
	found := false
	for _, check := range settings.Checks {
		if c.Kind == "setup" || c.Name != "" && check.Name != c.Name {
			continue
		}
		found = true
		for _, e := range settings.Environments {
			if len(check.Environments) == 0 || slices.Contains(check.Environments, e.Name) {
				all = append(all, in.ExplainCheck(site, check, e, s))
			}
		}
	}
	for _, setup := range settings.Setup {
		if c.Kind != "check" && (c.Name == "" || setup.Name == c.Name) {
			found = true
			all = append(all, in.ExplainSetup(site, setup, s))
		}
	}
	if c.Name != "" && !found {
		what, list := "check", "checks"
		if c.Kind == "setup" {
			what, list = "setup command", "setup"
		}
		return nil, signalbox.CodeNotFound.Errorf("see "+list+" in the configuration",
			"there is no %s '%s'", what, c.Name)
	}
	return all, nil
}
