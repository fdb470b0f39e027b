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
		checkEnv(at.field("env"), a.Env, f)
	}
	c.checkAgentList(setting("agent"), c.Agent, f)
}

func (a Agent) checkPreset(at settingPath, f *faults) {
	if !slices.Contains(Presets(), a.Preset) {
		f.add(&settingError{at: at.field("preset"), fault: fmt.Sprintf("%q is not a preset",
			a.Preset), hint: "the presets are " + list(Presets())})
	}
	for _, other := range []struct {
		name string
		set  bool
		hint string
	}{
		{"command", len(a.Command) > 0,
			"keep one of them; args adds arguments to the command of a preset"},
		{"format", a.Format != "", "remove it: the preset sets it"},
		{"prompt", a.Prompt != "", "remove it: the preset sets it"},
		{"interactive", a.Interactive, "remove it: presets are not interactive"},
		{"tree", a.Tree != "", "keep one of them"},
		{"tools", len(a.Tools) > 0, "remove it: the program has its own tools"},
		{"resume", len(a.Resume.Args()) > 0,
			"remove the arguments: the preset has its own; resume: false turns it off"},
	} {
		if other.set {
			f.add(&settingError{at: at.field(other.name), fault: "not valid together with preset",
				hint: other.hint})
		}
	}
	f.add(checkAddress(at.field("base_url"), a.BaseURL))
}

// checkTree reports settings that an agent with a tree cannot have. checkModels checks its model.
func (a Agent) checkTree(at settingPath, f *faults) {
	const program = "remove it: an agent with a tree does not run a program"
	for _, other := range []struct {
		name string
		set  bool
		hint string
	}{
		{"command", len(a.Command) > 0, "keep one of them"},
		{"args", len(a.Args) > 0, program},
		{"format", a.Format != "", program},
		{"prompt", a.Prompt != "", program},
		{"interactive", a.Interactive, program},
		{"base_url", a.BaseURL != "", "set base_url under models instead"},
		{"resume", len(a.Resume) > 0, program},
	} {
		if other.set {
			f.add(&settingError{at: at.field(other.name), fault: "not valid together with tree",
				hint: other.hint})
		}
	}
}

func (a Agent) checkCommand(at settingPath, f *faults) {
	if len(a.Command) == 0 {
		f.add(&settingError{at: at, fault: "needs preset, command or tree",
			hint: fmt.Sprintf("add preset: with one of %s, or command: [program, argument], or tree: with a file", list(Presets()))})
	}
	f.add(checkProgram(at.field("command"), a.Command))
	if len(a.Args) > 0 {
		f.add(&settingError{at: at.field("args"), fault: "only valid with preset",
			hint: "put the arguments into command"})
	}
	if a.BaseURL != "" {
		f.add(&settingError{at: at.field("base_url"), fault: "only valid with preset",
			hint: "put the address into command or env"})
	}
	if len(a.Tools) > 0 {
		f.add(&settingError{at: at.field("tools"), fault: "only valid with tree",
			hint: "remove it: the program has its own tools"})
	}
	if a.Model != "" && !a.has(ModelMark) {
		f.add(&settingError{at: at.field("model"), fault: "the command has no " + ModelMark +
			" placeholder",
			hint: fmt.Sprintf("add %q, in quotes, to command", ModelMark)})
	}
	if !slices.Contains(signalbox.Formats(), a.Format) {
		f.add(&settingError{at: at.field("format"), fault: fmt.Sprintf("%q is not a format",
			a.Format), hint: "the formats are " + list(signalbox.Formats())})
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
		f.add(&settingError{at: at, fault: "there is no " + SessionMark + " placeholder",
			hint: fmt.Sprintf("list the arguments with which the program continues a session, such as [--resume, %q]", SessionMark)})
	case a.Format == signalbox.FormatPlain:
		f.add(&settingError{at: at, fault: "plain output does not name the session",
			hint: "set the format that the program writes, or remove resume"})
	}
}

// checkPrompt reports placeholders in the command that do not fit the way to pass the prompt.
func (a Agent) checkPrompt(at settingPath, f *faults) {
	ways := []string{PromptStdin, PromptArgument, PromptFile}
	if !slices.Contains(ways, a.Prompt) {
		f.add(&settingError{at: at.field("prompt"),
			fault: fmt.Sprintf("%q is not a way to pass the prompt", a.Prompt),
			hint:  "use one of " + list(ways)})
	}
	if a.has(PromptMark) && a.has(PromptFileMark) {
		f.add(&settingError{at: at.field("command"), fault: fmt.Sprintf("contains both %s and %s",
			PromptMark, PromptFileMark), hint: "keep one of them"})
	}
	for _, mark := range []struct{ text, way string }{{PromptMark, PromptArgument}, {PromptFileMark, PromptFile}} {
		has := a.has(mark.text)
		if has && a.Prompt != mark.way {
			f.add(&settingError{at: at.field("command"),
				fault: fmt.Sprintf("it has %s, but prompt is %s", mark.text, a.Prompt),
				hint:  "write prompt: " + mark.way + ", or remove the prompt: line"})
		}
		if !has && a.Prompt == mark.way {
			f.add(&settingError{at: at.field("command"),
				fault: fmt.Sprintf("prompt: %s requires %s in the command", mark.way, mark.text),
				hint:  fmt.Sprintf("add %q, in quotes", mark.text)})
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
		if slices.Contains(list[:i], name) {
			f.add(&settingError{at: where, fault: fmt.Sprintf("%q is named twice", name),
				hint: "keep one of them"})
		}
	}
}

// checkAgentName reports a name that is not of an agent.
func (c *Config) checkAgentName(at settingPath, name string) *settingError {
	if c.HasAgent(name) {
		return nil
	}
	known := append(sortedKeys(c.Agents), Presets()...)
	return &settingError{at: at, fault: fmt.Sprintf("there is no agent %q", name),
		hint: suggest(name, known, "add it under agents, or use one of")}
}

func (c *Config) checkRoles(f *faults) {
	for _, name := range sortedKeys(c.Roles) {
		at, role := setting("roles", string(name)), c.Roles[name]
		if !slices.Contains(AgentRoles(), name) {
			f.add(&settingError{at: at, onKey: true, bare: true,
				fault: fmt.Sprintf("unknown role %q", name), hint: "the roles are " +
					list(AgentRoles())})
		}
		c.checkCrew(at, role.Agent, role.Slots, role.Timeout, f)
		if role.Checkpoint != 0 {
			if fault := checkTime(at.field("checkpoint"), role.Checkpoint); fault != nil {
				fault.hint = "write 1s or more, or 0s to expect none"
				f.add(fault)
			}
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
			if strings.TrimSpace(word) == "" {
				f.add(&settingError{at: at.field("keywords").item(j), fault: "must not be empty",
					hint: "write a word that occurs in tasks, or remove it"})
			}
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
		f.add(&settingError{at: setting("environments"), fault: "the list is empty",
			hint: "remove it to use the default, which is this machine"})
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
		if strings.TrimSpace(check.Command) == "" {
			f.add(&settingError{at: at.field("command"), fault: "must not be empty",
				hint: "write the line that a shell runs, such as go test ./..."})
		}
		f.add(checkTime(at.field("timeout"), check.Timeout))
		for j, name := range check.Environments {
			if !slices.Contains(environments, name) {
				f.add(&settingError{at: at.field("environments").item(j),
					fault: fmt.Sprintf("there is no environment %q", name),
					hint:  suggest(name, environments, "add it under environments, or use one of")})
			}
			if slices.Contains(check.Environments[:j], name) {
				f.add(&settingError{at: at.field("environments").item(j),
					fault: fmt.Sprintf("%q is named twice", name), hint: "keep one of them"})
			}
		}
	}
}
