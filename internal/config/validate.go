package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"signalbox"
)

// Limits of settings.
const (
	maxSlots   = 10_000
	maxLimit   = 1_000_000
	minTimeout = time.Second
	maxName    = 100 // bytes of the name of a check or an environment
)

// complete fills in what the text does not set, and adds what is wrong besides the faults of
// reading it. Where those leave something unknown, it is not judged: one mistake is one fault.
func (c *Config) complete(set places, f *faults) {
	var found faults
	c.fill(set)
	c.validate(&found)
	unread := slices.Clone(*f)
	for _, e := range found {
		if !e.follows(unread, set) {
			f.add(e)
		}
	}
}

func (c *Config) validate(f *faults) {
	c.checkJournal(f)
	c.checkCluster(f)
	c.checkAgents(f)
	c.checkRoles(f)
	c.checkExperts(f)
	c.checkEnvironments(f)
	c.checkChecks(f)
	c.checkSetup(f)
	c.checkProtected(f)
	c.checkWorkspace(f)
	c.checkChoices(f)
	c.checkDeliver(f)
	c.checkBudgets(f)
	c.checkSandboxes(f)
	c.checkPrices(f)
	c.Limits.check(f)
	c.checkTimes(f)
	c.checkMCP(f)
	c.checkModels(f)
	c.checkOracle(f)
	c.Notify.check(f)
	c.checkOutbound(f)
	f.add(checkWebhook(setting("checkpoint", "webhook"), c.Checkpoint.Webhook))
	f.add(checkProgram(setting("checkpoint", "command"), c.Checkpoint.Command))
}

func (c *Config) checkAgents(f *faults) {
	for _, name := range sortedKeys(c.Agents) {
		at := setting("agents", name)
		f.add(checkID(at, name, true))
		a := c.Agents[name]
		check := a.checkCommand
		switch {
		case a.Preset != "":
			check = a.checkPreset
		case a.Tree != "":
			check = a.checkTree
		}
		check(at, f)
		if a.Vendor != "" {
			f.add(checkID(at.field("vendor"), a.Vendor, true))
		}
		checkEnv(at.field("env"), a.Env, f)
	}
	c.checkAgentList(setting("agent"), c.Agent, f)
}

// exclusion is a setting that may not be set together with another one.
type exclusion struct {
	name string
	set  bool
	hint string
}

// exclude reports the settings of a group that are set, but not valid together with another one.
func (f *faults) exclude(at settingPath, with string, settings []exclusion) {
	for _, other := range settings {
		if other.set {
			f.fail(at.field(other.name), other.hint, "not valid together with %s", with)
		}
	}
}

func (a Agent) checkPreset(at settingPath, f *faults) {
	if !slices.Contains(Presets(), a.Preset) {
		f.fail(at.field("preset"), "the presets are "+list(Presets()), "%q is not a preset",
			a.Preset)
	}
	f.exclude(at, "preset", []exclusion{
		{"command", len(a.Command) > 0,
			"keep one of them; args adds arguments to the command of a preset"},
		{"format", a.Format != "", "remove it: the preset sets it"},
		{"prompt", a.Prompt != "", "remove it: the preset sets it"},
		{"interactive", a.Interactive, "remove it: presets are not interactive"},
		{"tree", a.Tree != "", "keep one of them"},
		{"tools", len(a.Tools) > 0, "remove it: the program has its own tools"},
		{"resume", len(a.Resume.Args()) > 0,
			"remove the arguments: the preset has its own; resume: false turns it off"},
	})
	f.add(checkAddress(at.field("base_url"), a.BaseURL))
}

// checkTree reports settings that an agent with a tree cannot have. checkModels checks its model.
func (a Agent) checkTree(at settingPath, f *faults) {
	const program = "remove it: an agent with a tree does not run a program"
	f.exclude(at, "tree", []exclusion{
		{"command", len(a.Command) > 0, "keep one of them"},
		{"args", len(a.Args) > 0, program},
		{"format", a.Format != "", program},
		{"prompt", a.Prompt != "", program},
		{"interactive", a.Interactive, program},
		{"base_url", a.BaseURL != "", "set base_url under models instead"},
		{"resume", len(a.Resume) > 0, program},
	})
}

func (a Agent) checkCommand(at settingPath, f *faults) {
	if len(a.Command) == 0 {
		f.fail(at, fmt.Sprintf(
			"add preset: with one of %s, or command: [program, argument], or tree: with a file",
			list(Presets())), "needs preset, command or tree")
	}
	f.add(checkProgram(at.field("command"), a.Command))
	if len(a.Args) > 0 {
		f.fail(at.field("args"), "put the arguments into command", "only valid with preset")
	}
	if a.BaseURL != "" {
		f.fail(at.field("base_url"), "put the address into command or env",
			"only valid with preset")
	}
	if len(a.Tools) > 0 {
		f.fail(at.field("tools"), "remove it: the program has its own tools",
			"only valid with tree")
	}
	if a.Model != "" && !a.has(ModelMark) {
		f.fail(at.field("model"), fmt.Sprintf("add %q, in quotes, to command", ModelMark),
			"the command has no %s placeholder", ModelMark)
	}
	if !slices.Contains(signalbox.Formats(), a.Format) {
		f.fail(at.field("format"), "the formats are "+list(signalbox.Formats()),
			"%q is not a format", a.Format)
	}
	a.checkResume(at.field("resume"), f)
	a.checkPrompt(at, f)
}

// checkResume reports arguments with which a program cannot continue its session.
func (a Agent) checkResume(at settingPath, f *faults) {
	args := a.Resume.Args()
	switch {
	case len(a.Resume) == 0 || a.Resume.Off():
	case !slices.ContainsFunc(args,
		func(arg string) bool { return strings.Contains(arg, SessionMark) }):
		f.fail(at, fmt.Sprintf(
			"list the arguments with which the program continues a session, such as [--resume, %q]",
			SessionMark), "there is no %s placeholder", SessionMark)
	case a.Format == signalbox.FormatPlain:
		f.fail(at, "set the format that the program writes, or remove resume",
			"plain output does not name the session")
	}
}

// checkPrompt reports placeholders in the command that do not fit the way to pass the prompt.
func (a Agent) checkPrompt(at settingPath, f *faults) {
	ways := []string{PromptStdin, PromptArgument, PromptFile}
	if !slices.Contains(ways, a.Prompt) {
		f.fail(at.field("prompt"), "use one of "+list(ways), "%q is not a way to pass the prompt",
			a.Prompt)
	}
	if a.has(PromptMark) && a.has(PromptFileMark) {
		f.fail(at.field("command"), "keep one of them", "contains both %s and %s", PromptMark,
			PromptFileMark)
	}
	for _, mark := range []struct{ text, way string }{{PromptMark, PromptArgument}, {PromptFileMark, PromptFile}} {
		has := a.has(mark.text)
		if has && a.Prompt != mark.way {
			f.fail(at.field("command"), "write prompt: "+mark.way+", or remove the prompt: line",
				"it has %s, but prompt is %s", mark.text, a.Prompt)
		}
		if !has && a.Prompt == mark.way {
			f.fail(at.field("command"), fmt.Sprintf("add %q, in quotes", mark.text),
				"prompt: %s requires %s in the command", mark.way, mark.text)
		}
	}
}

// checkAgentList reports names that are not of agents, and names that appear twice. An empty list
// is valid.
func (c *Config) checkAgentList(at settingPath, list AgentList, f *faults) {
	for i, name := range list {
		where := at
		if len(list) > 1 {
			where = at.item(i)
		}
		f.add(c.checkAgentName(where, name))
		f.add(checkRepeated(where, list, i))
	}
}

// checkAgentName reports a name that is not of an agent.
func (c *Config) checkAgentName(at settingPath, name string) *settingError {
	if c.HasAgent(name) {
		return nil
	}
	known := append(sortedKeys(c.Agents), Presets()...)
	fault := faultAt(at, suggest(name, known, "add it under agents, or use one of"),
		"there is no agent %q", name)
	fault.among = setting("agents")
	return fault
}

func (c *Config) checkRoles(f *faults) {
	for _, name := range sortedKeys(c.Roles) {
		at, role := setting("roles", string(name)), c.Roles[name]
		if !slices.Contains(AgentRoles(), name) {
			f.add(badName(at, suggest(string(name), AgentRoles(), "the roles are"),
				"unknown role %q", name))
		}
		c.checkCrew(at, role.Agent, role.Slots, role.Timeout, f)
		if fault := checkTimeOrNone(at.field("checkpoint"), role.Checkpoint); fault != nil {
			fault.hint = "write 1s or more, or 0s to expect none"
			f.add(fault)
		}
	}
}

func (c *Config) checkExperts(f *faults) {
	names := map[string]bool{}
	for i, e := range c.Experts {
		at := setting("experts").item(i)
		f.add(checkID(at.field("name"), e.Name, false))
		f.add(checkTwice(names, at, e.Name))
		c.checkCrew(at, e.Agent, e.Slots, e.Timeout, f)
		for j, word := range e.Keywords {
			f.add(checkText(at.field("keywords").item(j), word,
				"write a word that occurs in tasks, or remove it"))
		}
	}
}

// checkCrew checks the settings that roles and experts have in common.
func (c *Config) checkCrew(at settingPath, agents AgentList, slots int, timeout time.Duration,
	f *faults) {
	c.checkAgentList(at.field("agent"), agents, f)
	f.add(checkNumber(at.field("slots"), slots, maxSlots))
	f.add(checkTime(at.field("timeout"), timeout))
}

func (c *Config) checkEnvironments(f *faults) {
	if len(c.Environments) == 0 {
		f.fail(setting("environments"), "remove it to use the default, which is this machine",
			"the list is empty")
	}
	names := map[string]bool{}
	for i, e := range c.Environments {
		at := setting("environments").item(i)
		f.add(checkName(at, e.Name))
		f.add(checkTwice(names, at, e.Name))
		f.add(checkProgram(at.field("run"), e.Run))
		checkEnv(at.field("env"), e.Env, f)
	}
}

func (c *Config) checkChecks(f *faults) {
	var environments []string
	for _, e := range c.Environments {
		environments = append(environments, e.Name)
	}
	names := map[string]bool{}
	for i, check := range c.Checks {
		at := setting("checks").item(i)
		f.add(checkName(at, check.Name))
		f.add(checkTwice(names, at, check.Name))
		f.add(checkText(at.field("command"), check.Command,
			"write the line that a shell runs, such as go test ./..."))
		f.add(checkTime(at.field("timeout"), check.Timeout))
		c.checkMutation(at, check, f)
		for j, name := range check.Environments {
			if !slices.Contains(environments, name) {
				fault := faultAt(at.field("environments").item(j),
					suggest(name, environments, "add it under environments, or use one of"),
					"there is no environment %q", name)
				fault.among = setting("environments")
				f.add(fault)
			}
			f.add(checkRepeated(at.field("environments").item(j), check.Environments, j))
		}
	}
}
