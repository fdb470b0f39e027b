package agent

import (
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/contain"
	"signalbox/internal/core/rules"
)

// CommandOf returns the command of a configured agent, as an author runs it. The error reports that
// the settings of a preset could not be written.
func CommandOf(a config.Agent) (Command, error) { return CommandFor(signalbox.RoleDeveloper, a) }

// CommandFor returns the command of a configured agent in a role.
func CommandFor(role signalbox.Role, a config.Agent) (Command, error) {
	if a.Tree != "" {
		return treeCommand(a), nil
	}
	if a.Preset != "" {
		command, err := PresetAt(a.Preset, a.BaseURL, a.Model)
		if !role.IsAuthor() {
			command = command.WithoutProject()
		}
		end := len(command.Argv)
		if command.Argv[end-1] == "-" { // it says where the prompt comes from, and must be last
			end--
		}
		command.Argv = slices.Insert(slices.Clone(command.Argv), end, a.Args...)
		command.Env = mergeEnv(command.Env, a.Env)
		if a.Resume.Off() {
			command.Resume = nil
		}
		return command, err
	}
	if a.Interactive && (a.Format == "" || a.Format == signalbox.FormatAuto) {
		// before the format is recognised, the agent could not be answered
		a.Format = signalbox.FormatPlain
	}
	return Command{Argv: a.Command, Format: a.Format, Prompt: Delivery(a.Prompt), Env: a.Env,
		Interactive: a.Interactive, Resume: a.Resume.Args(), Linger: customLinger}, nil
}

// treeCommand returns the command that runs a behaviour tree as an agent: this program, in a
// process of its own, so that it is supervised and ended like any other agent.
func treeCommand(a config.Agent) Command {
	self, err := Executable()
	if err != nil {
		self = "signalbox" // look it up in PATH
	}
	argv := []string{self, "agent", "--tree", a.Tree, "--model", "{model}"}
	if len(a.Tools) > 0 {
		argv = append(argv, "--tools", strings.Join(a.Tools, ","))
	}
	return Command{Argv: argv, Format: signalbox.FormatOracle, Prompt: DeliverStdin, Env: a.Env,
		Linger: customLinger}
}

// customLinger is how long an agent without a preset may keep running after its turn has ended.
const customLinger = 10 * time.Second

func mergeEnv(a, b map[string]string) map[string]string {
	all := map[string]string{}
	maps.Copy(all, a)
	maps.Copy(all, b)
	return all
}

// CheckCommand reports whether the command of a configured agent can be started here.
func CheckCommand(c *config.Config, a config.Agent, command Command) error {
	return inSandbox(c, a, command).Check()
}

// inSandbox returns the command with the variable that its sandbox adds when it is started.
func inSandbox(c *config.Config, a config.Agent, command Command) Command {
	if contain.SetsInSandbox(a, c.SandboxOf(a.Sandbox).Mode) {
		command.Env = mergeEnv(command.Env, map[string]string{contain.InSandbox: "1"})
	}
	return command
}

// Fault is why a configured agent cannot be started here.
type Fault struct {
	Name string
	Err  error
	// Needed means that no other agent of some role can take over from it, so that no run starts.
	Needed bool
}

// Faults returns the agents of the given roles, and of experts, that cannot be started, each once.
func Faults(c *config.Config, roles []signalbox.Role) (faults []Fault) {
	checked := map[string]error{}
	check := func(name string) error {
		err, known := checked[name]
		if !known {
			configured := c.AgentNamed(name)
			var command Command
			if command, err = CommandOf(configured); err == nil {
				err = CheckCommand(c, configured, command)
			}
			checked[name] = err
		}
		return err
	}
	add := func(agents []string, needed bool) {
		usable := func(name string) bool { return check(name) == nil }
		needed = needed && !slices.ContainsFunc(agents, usable) // otherwise that takes over
		for _, name := range agents {
			i := slices.IndexFunc(faults, func(f Fault) bool { return f.Name == name })
			switch {
			case usable(name):
			case i >= 0:
				faults[i].Needed = faults[i].Needed || needed
			default:
				faults = append(faults, Fault{name, check(name), needed})
			}
		}
	}
	for _, role := range roles {
		if role == signalbox.RoleCI || role == signalbox.RoleMerger ||
			role == signalbox.RoleBusinessAnalyst && !c.Analyst() {
			continue
		}
		add(c.AgentsFor(role, ""), true)
	}
	for _, e := range c.Experts { // work continues without them, and the human is asked
		add(c.AgentsFor(signalbox.RoleExpert, e.Name), false)
	}
	return faults
}

// CheckRoles reports whether a program can be started for each of the given roles.
func CheckRoles(c *config.Config, roles []signalbox.Role) error {
	for _, f := range Faults(c, roles) {
		if f.Needed {
			return f.Err
		}
	}
	return nil
}

// Names returns the names of the agents that work in some role.
func Names(c *config.Config) (names []string) {
	for name := range Roles(c) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// Roles returns the agents with each role that they work in.
func Roles(c *config.Config) iter.Seq2[string, signalbox.Role] {
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

// CheckKeyed returns the error of CheckKey for the first agent of the roles that has one.
func CheckKeyed(c *config.Config, roles []signalbox.Role) error {
	check := func(role signalbox.Role, expert string) error {
		for _, name := range c.AgentsFor(role, expert) {
			command, err := CommandOf(c.AgentNamed(name))
			if err == nil {
				err = CheckKey(name, command)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	for _, role := range roles {
		if role == signalbox.RoleCI || role == signalbox.RoleMerger {
			continue
		}
		if err := check(role, ""); err != nil {
			return err
		}
	}
	if !slices.Contains(roles, signalbox.RoleExpert) {
		return nil
	}
	for _, e := range c.Experts {
		if err := check(signalbox.RoleExpert, e.Name); err != nil {
			return err
		}
	}
	return nil
}

// CheckKey reports that an agent cannot have a key, because other processes can read its prompt
// while it runs.
func CheckKey(name string, command Command) error {
	if command.Delivery() == DeliverStdin {
		return nil
	}
	return signalbox.CodeUsage.Errorf("pass the prompt on standard input, or do not use keys",
		"agent %s cannot have a key: its prompt is passed by %s, "+
			"which other processes can read", name, command.Delivery())
}
