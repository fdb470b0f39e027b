package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"signalbox"
)

// Bounds of what can be set.
const (
	maxSlots   = 10_000
	maxLimit   = 1_000_000
	minTimeout = time.Second
	maxName    = 100 // bytes of the name of a check or an environment
)

func (c *Config) validate() *settingError {
	for _, check := range []func() *settingError{c.checkAgents, c.checkRoles, c.checkExperts, c.checkEnvironments, c.checkChecks,
		c.checkProtected, c.checkChoices, c.checkBudgets, c.Limits.check, c.checkTimes,
		c.checkModels, c.checkOracle} {
		if wrong := check(); wrong != nil {
			return wrong
		}
	}
	for _, out := range []struct {
		name    string
		webhook string
		command []string
	}{{"notify", c.Notify.Webhook, c.Notify.Command}, {"checkpoint", c.Checkpoint.Webhook, c.Checkpoint.Command}} {
		if wrong := checkWebhook(setting(out.name, "webhook"), out.webhook); wrong != nil {
			return wrong
		}
		if wrong := checkProgram(setting(out.name, "command"), out.command); wrong != nil {
			return wrong
		}
	}
	return nil
}

func (c *Config) checkAgents() *settingError {
	for _, name := range sortedKeys(c.Agents) {
		at := setting("agents", name)
		if wrong := checkID(at, name, true); wrong != nil {
			return wrong
		}
		a := c.Agents[name]
		check := a.checkCommand
		switch {
		case a.Preset != "":
			check = a.checkPreset
		case a.Tree != "":
			check = a.checkTree
		}
		if wrong := check(at); wrong != nil {
			return wrong
		}
		if wrong := checkEnv(at.field("env"), a.Env); wrong != nil {
			return wrong
		}
	}
	return c.checkAgentName(setting("agent"), c.Agent)
}

func (a Agent) checkPreset(at settingPath) *settingError {
	if !slices.Contains(Presets(), a.Preset) {
		return &settingError{at: at.field("preset"), fault: fmt.Sprintf("%q is not a preset", a.Preset), hint: "the presets are " + list(Presets())}
	}
	for _, other := range []struct {
		name string
		set  bool
		hint string
	}{
		{"command", len(a.Command) > 0, "keep one of them; args adds arguments to the command of a preset"},
		{"format", a.Format != "", "remove it: a preset knows its format"},
		{"prompt", a.Prompt != "", "remove it: a preset knows how it takes a prompt"},
		{"interactive", a.Interactive, "remove it: a preset reads its input to the end before it begins"},
		{"tree", a.Tree != "", "keep one of them"},
		{"tools", len(a.Tools) > 0, "remove it: the program has its own"},
	} {
		if other.set {
			return &settingError{at: at.field(other.name), fault: "it does not go with preset", hint: other.hint}
		}
	}
	return checkAddress(at.field("base_url"), a.BaseURL)
}

// checkTree checks an agent that is a tree; whether there is its model, checkModels does.
func (a Agent) checkTree(at settingPath) *settingError {
	const program = "remove it: a tree is no program of its own"
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
		{"base_url", a.BaseURL != "", "set it under models, for the model that the agent names"},
	} {
		if other.set {
			return &settingError{at: at.field(other.name), fault: "it does not go with tree", hint: other.hint}
		}
	}
	return nil
}

func (a Agent) checkCommand(at settingPath) *settingError {
	if len(a.Command) == 0 {
		return &settingError{at: at, fault: "it has neither preset nor command nor tree",
			hint: fmt.Sprintf("add preset: with one of %s, or command: [program, argument], or tree: with a file", list(Presets()))}
	}
	if wrong := checkProgram(at.field("command"), a.Command); wrong != nil {
		return wrong
	}
	if len(a.Args) > 0 {
		return &settingError{at: at.field("args"), fault: "it goes only with preset", hint: "put the arguments into command"}
	}
	if a.BaseURL != "" {
		return &settingError{at: at.field("base_url"), fault: "it goes only with preset", hint: "put the address into command or env"}
	}
	if len(a.Tools) > 0 {
		return &settingError{at: at.field("tools"), fault: "it goes only with tree", hint: "remove it: the program has its own"}
	}
	if a.Model != "" && !a.has(ModelMark) {
		return &settingError{at: at.field("model"), fault: "the command has no " + ModelMark + " in whose place it goes",
			hint: fmt.Sprintf("add %q, with the quotes, where it goes in command", ModelMark)}
	}
	if !slices.Contains(signalbox.Formats(), a.Format) {
		return &settingError{at: at.field("format"), fault: fmt.Sprintf("%q is not a format", a.Format), hint: "the formats are " + list(signalbox.Formats())}
	}
	return a.checkPrompt(at)
}

// checkPrompt holds that the prompt has one way into the command, and that it is the one that is set.
func (a Agent) checkPrompt(at settingPath) *settingError {
	ways := []string{PromptStdin, PromptArgument, PromptFile}
	if !slices.Contains(ways, a.Prompt) {
		return &settingError{at: at.field("prompt"), fault: fmt.Sprintf("%q is not a way to hand over a prompt", a.Prompt), hint: "the ways are " + list(ways)}
	}
	if a.has(PromptMark) && a.has(PromptFileMark) {
		return &settingError{at: at.field("command"), fault: fmt.Sprintf("it has both %s and %s", PromptMark, PromptFileMark), hint: "keep one of them"}
	}
	for _, mark := range []struct{ text, way string }{{PromptMark, PromptArgument}, {PromptFileMark, PromptFile}} {
		has := a.has(mark.text)
		if has && a.Prompt != mark.way {
			return &settingError{at: at.field("command"), fault: fmt.Sprintf("it has %s, but prompt is %s", mark.text, a.Prompt),
				hint: "write prompt: " + mark.way + ", or remove the prompt: line"}
		}
		if !has && a.Prompt == mark.way {
			return &settingError{at: at.field("command"), fault: fmt.Sprintf("%s is missing, which prompt: %s needs", mark.text, mark.way),
				hint: fmt.Sprintf("add %q, with the quotes, where it goes", mark.text)}
		}
	}
	return nil
}

// checkAgentName holds that a name, if there is one, names an agent.
func (c *Config) checkAgentName(at settingPath, name string) *settingError {
	if _, ok := c.Agents[name]; ok || name == "" || slices.Contains(Presets(), name) {
		return nil
	}
	known := append(sortedKeys(c.Agents), Presets()...)
	return &settingError{at: at, fault: fmt.Sprintf("there is no agent %q", name),
		hint: suggest(name, known, "configure it under agents, or name one of")}
}

func (c *Config) checkRoles() *settingError {
	for _, name := range sortedKeys(c.Roles) {
		at, role := setting("roles", string(name)), c.Roles[name]
		if !slices.Contains(AgentRoles(), name) {
			return &settingError{at: at, onKey: true, bare: true, fault: fmt.Sprintf("unknown role %q", name), hint: "the roles are " + list(AgentRoles())}
		}
		if wrong := c.checkCrew(at, role.Agent, role.Slots, role.Timeout); wrong != nil {
			return wrong
		}
		if role.Checkpoint != 0 {
			if wrong := checkTime(at.field("checkpoint"), role.Checkpoint); wrong != nil {
				wrong.hint = "write 1s or more, or 0s to expect none"
				return wrong
			}
		}
	}
	return nil
}

func (c *Config) checkExperts() *settingError {
	names := map[string]bool{}
	for i, e := range c.Experts {
		at := setting("experts").item(i)
		if wrong := checkID(at.field("name"), e.Name, false); wrong != nil {
			return wrong
		}
		if wrong := checkTwice(names, at, e.Name); wrong != nil {
			return wrong
		}
		if wrong := c.checkCrew(at, e.Agent, e.Slots, e.Timeout); wrong != nil {
			return wrong
		}
		for j, word := range e.Keywords {
			if strings.TrimSpace(word) == "" {
				return &settingError{at: at.field("keywords").item(j), fault: "it is empty", hint: "write a word that tasks have in them, or remove it"}
			}
		}
	}
	return nil
}

// checkCrew checks what roles and experts have alike.
func (c *Config) checkCrew(at settingPath, agent string, slots int, timeout time.Duration) *settingError {
	if wrong := c.checkAgentName(at.field("agent"), agent); wrong != nil {
		return wrong
	}
	if wrong := checkNumber(at.field("slots"), slots, maxSlots); wrong != nil {
		return wrong
	}
	return checkTime(at.field("timeout"), timeout)
}

func (c *Config) checkEnvironments() *settingError {
	if len(c.Environments) == 0 {
		return &settingError{at: setting("environments"), fault: "the list is empty", hint: "remove it for the default, which is this machine"}
	}
	names := map[string]bool{}
	for i, e := range c.Environments {
		at := setting("environments").item(i)
		if wrong := checkName(at, e.Name); wrong != nil {
			return wrong
		}
		if wrong := checkTwice(names, at, e.Name); wrong != nil {
			return wrong
		}
		if wrong := checkProgram(at.field("run"), e.Run); wrong != nil {
			return wrong
		}
		if wrong := checkEnv(at.field("env"), e.Env); wrong != nil {
			return wrong
		}
	}
	return nil
}

func (c *Config) checkChecks() *settingError {
	var environments []string
	for _, e := range c.Environments {
		environments = append(environments, e.Name)
	}
	names := map[string]bool{}
	for i, check := range c.Checks {
		at := setting("checks").item(i)
		if wrong := checkName(at, check.Name); wrong != nil {
			return wrong
		}
		if wrong := checkTwice(names, at, check.Name); wrong != nil {
			return wrong
		}
		if strings.TrimSpace(check.Command) == "" {
			return &settingError{at: at.field("command"), fault: "it is empty", hint: "write the line that a shell runs, such as go test ./..."}
		}
		if wrong := checkTime(at.field("timeout"), check.Timeout); wrong != nil {
			return wrong
		}
		for j, name := range check.Environments {
			if !slices.Contains(environments, name) {
				return &settingError{at: at.field("environments").item(j), fault: fmt.Sprintf("there is no environment %q", name),
					hint: suggest(name, environments, "configure it under environments, or name one of")}
			}
			if slices.Contains(check.Environments[:j], name) {
				return &settingError{at: at.field("environments").item(j), fault: fmt.Sprintf("%q is named twice", name), hint: "keep one of them"}
			}
		}
	}
	return nil
}
