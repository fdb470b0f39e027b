package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"signalbox"
	"signalbox/internal/sandbox"
)

// Agents that need no configuration.
const (
	PresetClaude   = "claude"
	PresetCodex    = "codex"
	PresetGemini   = "gemini"
	PresetOpencode = "opencode"
)

// Presets returns the names of the agents that need no configuration.
func Presets() []string { return []string{PresetClaude, PresetCodex, PresetGemini, PresetOpencode} }

// Ways to pass a prompt to an agent.
const (
	PromptStdin    = "stdin"
	PromptArgument = "argument" // replaces PromptMark in the command
	PromptFile     = "file"     // its path replaces PromptFileMark in the command
)

// Placeholders in the command of an agent.
const (
	PromptMark     = "{prompt}"
	PromptFileMark = "{prompt_file}"
	ModelMark      = "{model}"
)

// SessionMark is the placeholder in Resume for the session of the program.
const SessionMark = "{session}"

// Values of Config.Workspace and Config.Approve.
const (
	WorkspaceWorktree = "worktree"
	WorkspaceShared   = "shared"
	ApproveMerge      = "merge"
	ApproveSteering   = "steering"
	ApproveNever      = "never"
)

// Agent can play a role. Exactly one of Preset, Command and Tree is set.
type Agent struct {
	// Preset is one of Presets.
	Preset string `yaml:"preset"`
	// Command is the program and its arguments. It runs without a shell.
	Command []string `yaml:"command"`
	// Format is the format of the output. Presets have their own.
	Format signalbox.Format `yaml:"format"`
	// Prompt is PromptStdin, PromptArgument or PromptFile. By default it follows from the
	// placeholders in Command. Presets have their own.
	Prompt string `yaml:"prompt"`
	// Args are appended to the command of a preset.
	Args []string `yaml:"args"`
	// Env is added to the environment of the program. An empty value removes a variable.
	Env map[string]string `yaml:"env"`
	// EnvPass is added to Config.EnvPass.
	EnvPass []string `yaml:"env_pass"`
	Sandbox Sandbox  `yaml:"sandbox"`
	// Interactive reports whether the program keeps reading standard input, so that it can be asked
	// for a checkpoint.
	Interactive bool `yaml:"interactive"`
	// Model is the model for the preset, or replaces ModelMark in Command. Empty means the
	// program's default. With Tree it is a key of Config.Models; empty means the oracle's model.
	Model string `yaml:"model"`
	// Vendor is whose model it is, if that is not known otherwise; see VendorOf.
	Vendor string `yaml:"vendor" json:",omitempty"`
	// Tree is a file with a behaviour tree that runs instead of a program. It is relative to the
	// folder of the box in the text. Load resolves it.
	Tree string `yaml:"tree"`
	// BaseURL is the model server that the program of a preset uses. Empty means the program's
	// default.
	BaseURL string `yaml:"base_url"`
	// Resume is how the program continues its own session after an interruption.
	Resume Resume `yaml:"resume"`
	// Tools are the oracle's tools that an agent with a tree may use besides the read-only ones:
	// names, or SERVER__* for all tools of an MCP server.
	Tools []string `yaml:"tools"`
}

// AgentList has the names of agents, the preferred one first. The others take over while it is not
// available. In the text a single name need not be in a list.
type AgentList []string

// set returns the list, or nil if it is only an empty name.
func (l AgentList) set() AgentList {
	if len(l) == 0 || len(l) == 1 && l[0] == "" {
		return nil
	}
	return l
}

// Resume has the arguments that are appended to Agent.Command. One of them contains SessionMark.
// Presets have their own. In the text it may also be false, which means that each turn starts a new
// session, or true.
type Resume []string

// Values of Resume that are not arguments.
const (
	resumeOff = "false"
	resumeOn  = "true"
)

// Off reports whether each turn starts a new session.
func (r Resume) Off() bool { return len(r) == 1 && r[0] == resumeOff }

// Args returns the arguments, nil if there are none.
func (r Resume) Args() []string {
	if len(r) == 1 && (r[0] == resumeOff || r[0] == resumeOn) {
		return nil
	}
	return r
}

// Role configures a role.
type Role struct {
	// Agent are the agents. Empty means Config.Agent.
	Agent   AgentList     `yaml:"agent"`
	Slots   int           `yaml:"slots"` // for RoleExpert: of each expert
	Timeout time.Duration `yaml:"timeout"`
	// Prompt is a file with a template. Empty means the built-in one. It is relative to the folder
	// of the box in the text. Load resolves it.
	Prompt string `yaml:"prompt"`
	// Checkpoint is the expected time between checkpoints. Zero means none are expected.
	Checkpoint time.Duration `yaml:"checkpoint"`
	// Budget is for all agents of the role together.
	Budget Budget `yaml:"budget"`
}

// Expert is an agent that other agents can ask by name.
type Expert struct {
	Name string `yaml:"name"`
	// Agent are the agents. Empty means those of RoleExpert.
	Agent AgentList `yaml:"agent"`
	// Keywords are words that, if a task contains one, put the expert into its prompt.
	Keywords     []string      `yaml:"keywords"`
	Instructions string        `yaml:"instructions"`
	Slots        int           `yaml:"slots"`
	Timeout      time.Duration `yaml:"timeout"`
}

// Check is a command that must succeed in each of its environments. Its JSON is part of
// rules.Policy.CheckSet: what is added is left out while it is not set.
type Check struct {
	Name string `yaml:"name"`
	// Kind is KindCommand, which is the default, or KindMutation. The last fields are for that.
	Kind string `yaml:"kind" json:",omitempty"`
	// Command runs in a shell.
	Command string        `yaml:"command"`
	Timeout time.Duration `yaml:"timeout"`
	// Environments are names. Empty means all.
	Environments []string `yaml:"environments"`
	// EnvPass is added to Config.EnvPass.
	EnvPass []string `yaml:"env_pass"`
	Sandbox Sandbox  `yaml:"sandbox"`

	// Build is a shell command. A mutant for which it fails is discarded. Empty means that go build
	// decides about Go.
	Build string `yaml:"build" json:",omitempty"`
	// Mutants is how many are tried at most.
	Mutants int `yaml:"mutants" json:",omitempty"`
	// MaxSurvivors is how many of them the command may fail to notice.
	MaxSurvivors int `yaml:"max_survivors" json:",omitempty"`
	// Parallel is how many are tried at a time; zero means half of the processors, at most four.
	Parallel int `yaml:"parallel" json:",omitempty"`
	// Tests are patterns of files that are tests, besides those whose names say so.
	Tests []string `yaml:"tests" json:",omitempty"`
	// FailsOnBase is what follows from a change without a test that fails on the base.
	FailsOnBase string `yaml:"fails_on_base" json:",omitempty"`
}

// DefaultCheckTimeout is the timeout of a check without one.
const DefaultCheckTimeout = 10 * time.Minute

// Environment is a place where checks run.
type Environment struct {
	Name string `yaml:"name"`
	// Run is a program with arguments that is followed by sh, -c and the command of a check.
	// {workspace} in it is replaced by the folder of the task. Empty means that checks run on this
	// machine.
	Run []string          `yaml:"run"`
	Env map[string]string `yaml:"env"`
}

// Budgets limit spending. Role.Budget is that of a role.
type Budgets struct {
	Run  Budget `yaml:"run"`  // of the whole run
	Task Budget `yaml:"task"` // of each task
	Turn Budget `yaml:"turn"` // of each turn of an agent
	// Window limits the tokens in a time. Work waits for its end.
	Window TokenWindow `yaml:"window"`
}

// TokenWindow limits the tokens of all agents in a time that starts with the first use. Zero means
// no limit.
type TokenWindow struct {
	Tokens int64         `yaml:"tokens"`
	Every  time.Duration `yaml:"every"`
}

// Budget limits spending. Zero means no limit.
type Budget struct {
	Tokens     int64         `yaml:"tokens"`
	CostMicros int64         `yaml:"cost" unit:"dollars"` // millionths of a dollar
	Time       time.Duration `yaml:"time"`
}

// mainField makes a single value dollars: "run: 5".
func (Budget) mainField() string { return "cost" }

// Limits are how often or how long something may happen to a task before signalbox asks the
// operator or restarts the task.
type Limits struct {
	Reviews        int `yaml:"reviews"`         // failed reviews of a task
	Audits         int `yaml:"audits"`          // failed audits of a task
	Checks         int `yaml:"checks"`          // failed checks of a task
	Merges         int `yaml:"merges"`          // failed merges of a task
	Incompletes    int `yaml:"incompletes"`     // reports that a task is incomplete
	Timeouts       int `yaml:"timeouts"`        // timeouts and crashes in a role for a task
	Unknown        int `yaml:"unknown"`         // consecutive turns without a signal
	Waits          int `yaml:"waits"`           // waits of a task for another
	FileWaits      int `yaml:"file_waits"`      // waits of a task for a file
	Remediations   int `yaml:"remediations"`    // attempts of one remediation
	ExpertRequests int `yaml:"expert_requests"` // expert requests of a task

	Silence  time.Duration `yaml:"silence"`   // how long an agent at work may print nothing
	FileWait time.Duration `yaml:"file_wait"` // longest wait for a file
	// longest wait for a checkpoint that was asked for
	CheckpointAnswer time.Duration `yaml:"checkpoint_answer"`

	// What one agent, check or tool may use, with everything that it starts. Zero means no limit.
	Memory    Size  `yaml:"memory"`
	Processes int   `yaml:"processes"`
	CPU       Cores `yaml:"cpu"`
	// File is how large a file that a task adds may be. Zero means no limit.
	File Size `yaml:"file"`
	// Tree is how large the working copy of a task may become. Zero means no limit.
	Tree Size `yaml:"tree"`
}

func defaultLimits() Limits {
	return Limits{
		Reviews: 3, Audits: 3, Checks: 5, Merges: 3, Incompletes: 5, Timeouts: 3, Unknown: 3,
		Waits: 3, FileWaits: 3,
		Remediations: 10, ExpertRequests: 3,
		Silence: 10 * time.Minute, FileWait: 30 * time.Minute, CheckpointAnswer: 30 * time.Second,
		Processes: sandbox.DefaultProcesses, File: 50e6, Tree: 10e9,
	}
}

// AgentRoles returns all roles except the operator.
func AgentRoles() []signalbox.Role {
	return slices.DeleteFunc(signalbox.Roles(),
		func(r signalbox.Role) bool { return r == signalbox.RoleOperator })
}

// defaultTimeout ends an agent that never comes to an end. One that hangs is ended long before, by
// limits.silence.
const defaultTimeout = 2 * time.Hour

func defaultRole(role signalbox.Role) Role {
	switch role {
	case signalbox.RoleDeveloper:
		return Role{Slots: 3, Timeout: defaultTimeout, Checkpoint: 5 * time.Minute}
	case signalbox.RoleCritic, signalbox.RoleAuditor, signalbox.RoleExpert:
		return Role{Slots: 2, Timeout: defaultTimeout}
	}
	return Role{Slots: 1, Timeout: defaultTimeout}
}

// fill sets the defaults of members of lists and maps.
func (c *Config) fill(set places) {
	c.fillJournal(set)
	if c.Agent = c.Agent.set(); c.Agent == nil {
		c.Agent = AgentList{PresetClaude}
	}
	c.Sandbox.Mode = orDefault(c.Sandbox.Mode, sandbox.Enforce)
	c.Sandbox.Processes = orDefault(c.Sandbox.Processes, sandbox.EndProcesses)
	for name, agent := range c.Agents {
		if len(agent.Command) > 0 && agent.Preset == "" && agent.Tree == "" {
			agent.Format = orDefault(agent.Format, signalbox.FormatAuto)
			agent.Prompt = orDefault(agent.Prompt, agent.markedPrompt())
			c.Agents[name] = agent
		}
	}
	for name, role := range c.Roles {
		at, standard := setting("roles", string(name)), defaultRole(name)
		role.Agent = role.Agent.set()
		setUnless(set, at.field("slots"), &role.Slots, standard.Slots)
		setUnless(set, at.field("timeout"), &role.Timeout, standard.Timeout)
		setUnless(set, at.field("checkpoint"), &role.Checkpoint, standard.Checkpoint)
		c.Roles[name] = role
	}
	standard := c.RoleOf(signalbox.RoleExpert)
	for i := range c.Experts {
		at := setting("experts").item(i)
		c.Experts[i].Agent = c.Experts[i].Agent.set()
		setUnless(set, at.field("slots"), &c.Experts[i].Slots, standard.Slots)
		setUnless(set, at.field("timeout"), &c.Experts[i].Timeout, standard.Timeout)
	}
	for i := range c.Checks {
		setUnless(set, setting("checks").item(i).field("timeout"), &c.Checks[i].Timeout,
			DefaultCheckTimeout)
		c.Checks[i].fillMutation(setting("checks").item(i), set)
	}
	c.Notify.fill(set)
	c.fillSetup(set)
	c.fillOracle(set)
}

// markedPrompt returns the way to pass the prompt that the placeholders in the command imply.
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
	return slices.ContainsFunc(a.Command,
		func(arg string) bool { return strings.Contains(arg, mark) })
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

// RoleOf returns the configuration of a role with defaults. Agent is empty if the role does not
// name one.
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
	return set // a Checkpoint of zero is a valid setting
}

// Analyst reports whether a business analyst is configured.
func (c *Config) Analyst() bool {
	_, ok := c.Roles[signalbox.RoleBusinessAnalyst]
	return ok
}

// AgentsFor returns the names of the agents that play a role, the preferred one first. For
// RoleExpert, expert is the name of the expert, who need not be configured.
func (c *Config) AgentsFor(role signalbox.Role, expert string) AgentList {
	if role == signalbox.RoleExpert {
		if e, ok := c.ExpertNamed(expert); ok && len(e.Agent) > 0 {
			return e.Agent
		}
	}
	if own := c.Roles[role].Agent; len(own) > 0 {
		return own
	}
	return c.Agent
}

// HasAgent reports whether there is an agent with a name.
func (c *Config) HasAgent(name string) bool {
	_, ok := c.Agents[name]
	return ok || slices.Contains(Presets(), name)
}

// AgentNamed returns the agent with a name. For a preset that is not configured, only Preset is
// set.
func (c *Config) AgentNamed(name string) Agent {
	if a, ok := c.Agents[name]; ok {
		return a
	}
	return Agent{Preset: name}
}

// ExpertNamed returns the configured expert with a name.
func (c *Config) ExpertNamed(name string) (Expert, bool) {
	i := slices.IndexFunc(c.Experts, func(e Expert) bool { return e.Name == name })
	if i < 0 {
		return Expert{}, false
	}
	return c.Experts[i], true
}

// Notes returns warnings about settings that are valid but probably a mistake, one line each.
func (c *Config) Notes() []string {
	var notes []string
	note := func(at settingPath, slots, standard int) {
		if slots > c.Slots && slots != standard { // the user did not choose the default
			notes = append(notes,
				fmt.Sprintf("%s: %d is more than slots, which is %d for all agents", at, slots,
					c.Slots))
		}
	}
	for _, name := range sortedKeys(c.Roles) {
		note(setting("roles", string(name), "slots"), c.Roles[name].Slots, defaultRole(name).Slots)
	}
	for _, e := range c.Experts {
		note(setting("experts", e.Name, "slots"), e.Slots, c.RoleOf(signalbox.RoleExpert).Slots)
	}
	if c.Workspace.Shared() {
		for _, unused := range []struct {
			name string
			set  bool
		}{{"setup", len(c.Setup) > 0}, {"copy", len(c.Copy) > 0}} {
			if unused.set {
				notes = append(notes,
					fmt.Sprintf("%s: has no effect with workspace: shared, because there are no worktrees to prepare", setting(unused.name)))
			}
		}
	}
	for _, name := range sortedKeys(c.Agents) {
		a := c.Agents[name]
		end := a.BaseURL[strings.LastIndex(strings.TrimRight(a.BaseURL, "/"), "/")+1:]
		if version := strings.TrimRight(end, "/"); (a.Preset == PresetClaude ||
			a.Preset == PresetGemini) && (version == "v1" || version == "v1beta") {
			notes = append(notes,
				fmt.Sprintf("%s: %s adds the version: write the address without /%s",
					setting("agents", name, "base_url"), a.Preset, version))
		}
	}
	return notes
}

func sortedKeys[K ~string, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
