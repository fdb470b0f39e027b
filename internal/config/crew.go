package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"signalbox"
)

// Agents that are known without being configured.
const (
	PresetClaude   = "claude"
	PresetCodex    = "codex"
	PresetGemini   = "gemini"
	PresetOpencode = "opencode"
)

// Presets returns the names of the agents that are known without being configured.
func Presets() []string { return []string{PresetClaude, PresetCodex, PresetGemini, PresetOpencode} }

// Ways of handing a prompt to an agent.
const (
	PromptStdin    = "stdin"
	PromptArgument = "argument" // in the place of PromptMark in the command
	PromptFile     = "file"     // whose path takes the place of PromptFileMark in the command
)

// Marks in the command of an agent.
const (
	PromptMark     = "{prompt}"
	PromptFileMark = "{prompt_file}"
	ModelMark      = "{model}"
)

// Values of Config.Workspace and Config.Approve.
const (
	WorkspaceWorktree = "worktree"
	WorkspaceShared   = "shared"
	ApproveMerge      = "merge"
)

// Agent is who can play a role. It has one of preset, command and tree.
type Agent struct {
	// Preset is one of Presets, or "".
	Preset string `yaml:"preset"`
	// Command is program and arguments, run without a shell; nil with a preset.
	Command []string `yaml:"command"`
	// Format is how the output is to be read; "" with a preset, which has its own.
	Format signalbox.Format `yaml:"format"`
	// Prompt is PromptStdin, PromptArgument or PromptFile; what is not set follows from the marks in the command. It is ""
	// with a preset, which has its own.
	Prompt string `yaml:"prompt"`
	// Args are appended to the command of a preset.
	Args []string `yaml:"args"`
	// Env is added to the environment of the program; an empty value takes a variable away.
	Env map[string]string `yaml:"env"`
	// Interactive says that the program goes on reading its standard input, so that it can be asked something.
	Interactive bool `yaml:"interactive"`
	// Model is the model that a preset is told to use, or that takes the place of ModelMark in the command; "" is the
	// program's own choice. With a tree it names one of Config.Models; "" is that of the oracle.
	Model string `yaml:"model"`
	// Tree is a file with a behaviour tree around a model, which plays in place of a program. It may be relative in the
	// text, to the folder of the box; Load makes it whole.
	Tree string `yaml:"tree"`
	// BaseURL is the address of the server that the program of a preset talks to; "" is the program's own choice.
	BaseURL string `yaml:"base_url"`
	// Tools are those of the oracle that an agent with a tree has beside the read-only ones: names, or SERVER__* for all of
	// an MCP server. Empty: the read-only ones.
	Tools []string `yaml:"tools"`
}

// Role is what is set for a role.
type Role struct {
	// Agent names the agent, or is "" for Config.Agent.
	Agent   string        `yaml:"agent"`
	Slots   int           `yaml:"slots"` // for experts, of each
	Timeout time.Duration `yaml:"timeout"`
	// Prompt is a file with the template that replaces the built-in one, or "". It may be relative in the text, to the
	// folder of the box; Load makes it whole.
	Prompt string `yaml:"prompt"`
	// Checkpoint is how often a checkpoint is expected; 0 is never.
	Checkpoint time.Duration `yaml:"checkpoint"`
}

// Expert is an agent that others can ask by name.
type Expert struct {
	Name string `yaml:"name"`
	// Agent names the agent, or is "" for that of the role expert.
	Agent string `yaml:"agent"`
	// Keywords found in a task put the expert in its prompt.
	Keywords     []string      `yaml:"keywords"`
	Instructions string        `yaml:"instructions"`
	Slots        int           `yaml:"slots"`
	Timeout      time.Duration `yaml:"timeout"`
}

// Check is a command that must succeed in every one of its environments.
type Check struct {
	Name string `yaml:"name"`
	// Command is a line for a shell.
	Command string        `yaml:"command"`
	Timeout time.Duration `yaml:"timeout"`
	// Environments are names; empty is all.
	Environments []string `yaml:"environments"`
}

// DefaultCheckTimeout is how long a check may take if it does not say.
const DefaultCheckTimeout = 10 * time.Minute

// Environment is a place where checks run.
type Environment struct {
	Name string `yaml:"name"`
	// Run is a program with arguments, after which sh, -c and the command of a check are put; {workspace} in it is the
	// folder of the task. Empty is this machine.
	Run []string          `yaml:"run"`
	Env map[string]string `yaml:"env"`
}

// Budgets limit what is spent.
type Budgets struct {
	Run  Budget `yaml:"run"`  // all together
	Task Budget `yaml:"task"` // each task
}

// Budget is what may be spent; zero is no limit.
type Budget struct {
	Tokens     int64         `yaml:"tokens"`
	CostMicros int64         `yaml:"cost" unit:"dollars"` // millionths of a dollar
	Time       time.Duration `yaml:"time"`
}

// Limits say how often, or how long, before somebody else decides.
type Limits struct {
	Reviews        int `yaml:"reviews"`         // failed reviews of a task
	Audits         int `yaml:"audits"`          // failed audits of a task
	Checks         int `yaml:"checks"`          // times that a task's checks fail
	Merges         int `yaml:"merges"`          // failed merges of a task
	Incompletes    int `yaml:"incompletes"`     // times that a task is handed in incomplete
	Timeouts       int `yaml:"timeouts"`        // timeouts and crashes in a role for a task
	Unknown        int `yaml:"unknown"`         // consecutive turns without a signal
	Waits          int `yaml:"waits"`           // times that a task waits on another
	FileWaits      int `yaml:"file_waits"`      // times that a task waits on a file
	Remediations   int `yaml:"remediations"`    // attempts of one remediation
	ExpertRequests int `yaml:"expert_requests"` // requests of a task

	CheckpointsMissed int           `yaml:"checkpoints_missed"` // in a row, of a running agent
	FileWait          time.Duration `yaml:"file_wait"`          // longest wait on a file
	CheckpointAnswer  time.Duration `yaml:"checkpoint_answer"`  // longest wait for a checkpoint that was asked for
}

func defaultLimits() Limits {
	return Limits{
		Reviews: 3, Audits: 3, Checks: 5, Merges: 3, Incompletes: 5, Timeouts: 3, Unknown: 3, Waits: 3, FileWaits: 3,
		Remediations: 10, ExpertRequests: 3,
		CheckpointsMissed: 3, FileWait: 30 * time.Minute, CheckpointAnswer: 30 * time.Second,
	}
}

// Notify says who is told of a question. Each may be zero.
type Notify struct {
	Webhook string   `yaml:"webhook"`
	Command []string `yaml:"command"`
}

// AgentRoles returns the roles that agents play: all but the operator.
func AgentRoles() []signalbox.Role {
	return slices.DeleteFunc(signalbox.Roles(), func(r signalbox.Role) bool { return r == signalbox.RoleOperator })
}

func defaultRole(role signalbox.Role) Role {
	switch role {
	case signalbox.RoleDeveloper:
		return Role{Slots: 3, Timeout: 15 * time.Minute, Checkpoint: 5 * time.Minute}
	case signalbox.RoleCritic, signalbox.RoleAuditor, signalbox.RoleExpert:
		return Role{Slots: 2, Timeout: 10 * time.Minute}
	case signalbox.RoleRemediation, signalbox.RoleHealthAuditor:
		return Role{Slots: 1, Timeout: 5 * time.Minute}
	}
	return Role{Slots: 1, Timeout: 10 * time.Minute}
}

// fill gives defaults to what was not set in the members of lists and maps.
func (c *Config) fill(set places) {
	if c.Agent == "" {
		c.Agent = PresetClaude
	}
	for name, agent := range c.Agents {
		if len(agent.Command) > 0 && agent.Preset == "" && agent.Tree == "" {
			agent.Format = orDefault(agent.Format, signalbox.FormatAuto)
			agent.Prompt = orDefault(agent.Prompt, agent.markedPrompt())
			c.Agents[name] = agent
		}
	}
	for name, role := range c.Roles {
		at, standard := setting("roles", string(name)), defaultRole(name)
		setUnless(set, at.field("slots"), &role.Slots, standard.Slots)
		setUnless(set, at.field("timeout"), &role.Timeout, standard.Timeout)
		setUnless(set, at.field("checkpoint"), &role.Checkpoint, standard.Checkpoint)
		c.Roles[name] = role
	}
	standard := c.RoleOf(signalbox.RoleExpert)
	for i := range c.Experts {
		at := setting("experts").item(i)
		setUnless(set, at.field("slots"), &c.Experts[i].Slots, standard.Slots)
		setUnless(set, at.field("timeout"), &c.Experts[i].Timeout, standard.Timeout)
	}
	for i := range c.Checks {
		setUnless(set, setting("checks").item(i).field("timeout"), &c.Checks[i].Timeout, DefaultCheckTimeout)
	}
	c.fillOracle(set)
}

// markedPrompt is how the prompt is handed over by the marks in the command.
func (a Agent) markedPrompt() string {
	switch {
	case a.has(PromptMark):
		return PromptArgument
	case a.has(PromptFileMark):
		return PromptFile
	}
	return PromptStdin
}

func (a Agent) has(mark string) bool {
	return slices.ContainsFunc(a.Command, func(arg string) bool { return strings.Contains(arg, mark) })
}

func setUnless[T any](set places, at settingPath, field *T, standard T) {
	if !set.has(at) {
		*field = standard
	}
}

func orDefault[T ~string](value, standard T) T {
	if value == "" {
		return standard
	}
	return value
}

// RoleOf returns what holds for a role: what is set, and the defaults. Agent stays "" if the role names none.
func (c *Config) RoleOf(role signalbox.Role) Role {
	standard := defaultRole(role)
	set, ok := c.Roles[role]
	if !ok {
		return standard
	}
	if set.Slots == 0 {
		set.Slots = standard.Slots
	}
	if set.Timeout == 0 {
		set.Timeout = standard.Timeout
	}
	return set // 0 for Checkpoint says that none is expected
}

// Analyst reports whether there is a business analyst: it plays only if it is configured.
func (c *Config) Analyst() bool {
	_, ok := c.Roles[signalbox.RoleBusinessAnalyst]
	return ok
}

// AgentFor returns the agent that plays a role; expert names the expert if that is the role, and may be one that is
// not configured. A preset that is not configured is an Agent with only Preset.
func (c *Config) AgentFor(role signalbox.Role, expert string) (name string, a Agent) {
	name = orDefault(c.Roles[role].Agent, c.Agent)
	if role == signalbox.RoleExpert {
		if e, ok := c.ExpertNamed(expert); ok {
			name = orDefault(e.Agent, name)
		}
	}
	if a, ok := c.Agents[name]; ok {
		return name, a
	}
	return name, Agent{Preset: name}
}

// ExpertNamed returns the configured expert of that name.
func (c *Config) ExpertNamed(name string) (Expert, bool) {
	i := slices.IndexFunc(c.Experts, func(e Expert) bool { return e.Name == name })
	if i < 0 {
		return Expert{}, false
	}
	return c.Experts[i], true
}

// Notes returns what is valid and yet probably not meant, a line each.
func (c *Config) Notes() []string {
	var notes []string
	note := func(at settingPath, slots, standard int) {
		if slots > c.Slots && slots != standard { // nobody asked for the default
			notes = append(notes, fmt.Sprintf("%s: %d is more than slots, which is %d for all agents together", at, slots, c.Slots))
		}
	}
	for _, name := range sortedKeys(c.Roles) {
		note(setting("roles", string(name), "slots"), c.Roles[name].Slots, defaultRole(name).Slots)
	}
	for _, e := range c.Experts {
		note(setting("experts", e.Name, "slots"), e.Slots, c.RoleOf(signalbox.RoleExpert).Slots)
	}
	for _, name := range sortedKeys(c.Agents) {
		a := c.Agents[name]
		end := a.BaseURL[strings.LastIndex(strings.TrimRight(a.BaseURL, "/"), "/")+1:]
		if version := strings.TrimRight(end, "/"); (a.Preset == PresetClaude || a.Preset == PresetGemini) && (version == "v1" || version == "v1beta") {
			notes = append(notes, fmt.Sprintf("%s: %s adds the version itself: write the address without /%s", setting("agents", name, "base_url"), a.Preset, version))
		}
	}
	return notes
}

func sortedKeys[K ~string, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
