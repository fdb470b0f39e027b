package main

import (
	"context"
	"fmt"
	"slices"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/core/box"
)

type doctorCommand struct {
	boxFlag
	JSON bool `name:"json" help:"Print one JSON object."`
}

func (doctorCommand) Help() string {
	return `Looks at what signalbox needs here: the platform, git and the repository, the box and its configuration, the ledger, locks, disk, clock, key, checkpoint, the limit on open files, the commands and trees of the agents, models with their keys or servers, and the MCP servers of the oracle. Servers that have an address are connected to, and asked nothing. Each check is ok, a warning (it works, but not as well as it could) or a problem (something does not work), with what to do. It changes nothing, and does not replace signalbox ledger verify, which reads the whole ledger.

Exit status 1 means that there is a problem. Warnings do not count.

Examples:

    signalbox doctor
    signalbox doctor --json`
}

// diagnosis is the answer for programs.
type diagnosis struct {
	OK     bool        `json:"ok"`
	Checks []box.Check `json:"checks"`
}

func (c *doctorCommand) Run(p *program) error {
	var settings *config.Config
	opts := box.DoctorOptions{Options: *p.boxOptions(), Version: currentBuild().Version}
	opts.Dir, opts.FindError = p.findBox(c.boxFlag)
	if opts.FindError == nil {
		if configuration, err := config.Load(opts.Dir); err == nil { // else it is one of the findings
			settings, opts.Agents, opts.Slots = configuration, agentCommands(configuration), configuration.Slots
		}
	}
	checks := box.Doctor(context.Background(), opts)
	if settings != nil {
		refuseAgents(settings, checks)
		checks = append(checks, newCheckup(settings).checks(context.Background())...)
	}
	if settings != nil && len(settings.Checks) == 0 {
		checks = append(checks, box.Check{Name: "checks", Health: box.Warning, Detail: "none are configured: only critic and auditor stand between a developer and your branch",
			Fix: "name the commands that must pass under checks in " + config.FileName})
	}
	problems := 0
	for _, check := range checks {
		if check.Health == box.Problem {
			problems++
		}
	}
	if c.JSON {
		if err := p.printJSON(diagnosis{problems == 0, checks}, ""); err != nil {
			return err
		}
	} else if err := p.printChecks(checks); err != nil {
		return err
	}
	switch problems {
	case 0:
		return nil
	case 1:
		return &signalbox.Error{Code: signalbox.CodeFailed, Err: fmt.Errorf("there is a problem")}
	}
	return &signalbox.Error{Code: signalbox.CodeFailed, Err: fmt.Errorf("there are %d problems", problems)}
}

func (p *program) printChecks(checks []box.Check) error {
	for _, check := range checks {
		if _, err := fmt.Fprintf(p.out, "%-8s %-14s %s\n", check.Health, printable(check.Name), printable(check.Detail)); err != nil {
			return err
		}
		if check.Fix == "" {
			continue
		}
		if _, err := fmt.Fprintf(p.out, "%-8s %-14s to do: %s\n", "", "", printable(check.Fix)); err != nil {
			return err
		}
	}
	return nil
}

// playedAgent is an agent that plays a role.
type playedAgent struct {
	Name  string
	Agent config.Agent
}

// playedAgents are those that a run may start, each once.
func playedAgents(c *config.Config) []playedAgent {
	var agents []playedAgent
	add := func(role signalbox.Role, expert string) {
		name, agent := c.AgentFor(role, expert)
		if !slices.ContainsFunc(agents, func(known playedAgent) bool { return known.Name == name }) {
			agents = append(agents, playedAgent{name, agent})
		}
	}
	for _, role := range config.AgentRoles() {
		if role != signalbox.RoleBusinessAnalyst || c.Analyst() {
			add(role, "")
		}
	}
	for _, expert := range c.Experts {
		add(signalbox.RoleExpert, expert.Name)
	}
	return agents
}

// agentCommands returns the programs that the configuration starts as agents, each once.
func agentCommands(c *config.Config) []box.AgentCommand {
	var commands []box.AgentCommand
	for _, played := range playedAgents(c) {
		argv := played.Agent.Command
		switch {
		case played.Agent.Tree != "": // it is no program
			continue
		case len(argv) == 0:
			argv = []string{played.Agent.Preset} // the presets are named after their programs
		}
		commands = append(commands, box.AgentCommand{Name: played.Name, Argv: argv})
	}
	return commands
}
