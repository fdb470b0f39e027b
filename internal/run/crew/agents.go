package crew

import (
	"context"
	"slices"
	"strings"
	"time"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/run/agent"
	"signalbox/internal/run/contain"
	"signalbox/internal/run/stored"
)

// CommandOf returns the command of a configured agent, as an author runs it. The error reports that the settings of a preset could not be written.
func CommandOf(a config.Agent) (agent.Command, error) { return commandFor(signalbox.RoleDeveloper, a) }

// commandFor returns the command of a configured agent in a role.
func commandFor(role signalbox.Role, a config.Agent) (agent.Command, error) {
	if a.Tree != "" {
		return treeCommand(a), nil
	}
	if a.Preset != "" {
		command, err := agent.PresetAt(a.Preset, a.BaseURL, a.Model)
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
		a.Format = signalbox.FormatPlain // before the format is recognised, the agent could not be answered
	}
	return agent.Command{Argv: a.Command, Format: a.Format, Prompt: agent.Delivery(a.Prompt), Env: a.Env, Interactive: a.Interactive, Resume: a.Resume.Args(), Linger: linger}, nil
}

// treeCommand returns the command that runs a behaviour tree as an agent: this program, in a process of its own, so that it is
// supervised and ended like any other agent.
func treeCommand(a config.Agent) agent.Command {
	self, err := agent.Executable()
	if err != nil {
		self = "signalbox" // look it up in PATH
	}
	argv := []string{self, "agent", "--tree", a.Tree, "--model", "{model}"}
	if len(a.Tools) > 0 {
		argv = append(argv, "--tools", strings.Join(a.Tools, ","))
	}
	return agent.Command{Argv: argv, Format: signalbox.FormatOracle, Prompt: agent.DeliverStdin, Env: a.Env, Linger: linger}
}

// linger is how long an agent without a preset may keep running after its turn has ended.
const linger = 10 * time.Second

func mergeEnv(a, b map[string]string) map[string]string {
	all := map[string]string{}
	for k, v := range a {
		all[k] = v
	}
	for k, v := range b {
		all[k] = v
	}
	return all
}

func (c *Crew) timeout(role signalbox.Role, expert string) time.Duration {
	if e, known := c.box.Config.ExpertNamed(expert); known && role == signalbox.RoleExpert && e.Timeout > 0 {
		return e.Timeout
	}
	return c.box.Config.RoleOf(role).Timeout
}

// CheckCommand reports whether the command of a configured agent can be started here.
func CheckCommand(c *config.Config, a config.Agent, command agent.Command) error {
	if contain.SetsInSandbox(a, c.SandboxOf(a.Sandbox).Mode) {
		command.Env = mergeEnv(command.Env, map[string]string{contain.InSandbox: "1"}) // as it will have
	}
	return command.Check()
}

// AgentFault is why a configured agent cannot be started here.
type AgentFault struct {
	Name string
	Err  error
	// Needed means that no other agent of some role can take over from it, so that no run starts.
	Needed bool
}

// AgentFaults returns the agents of the given roles, and of experts, that cannot be started, each once.
func AgentFaults(c *config.Config, roles []signalbox.Role) (faults []AgentFault) {
	checked := map[string]error{}
	check := func(name string) error {
		err, known := checked[name]
		if !known {
			configured := c.AgentNamed(name)
			var command agent.Command
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
			i := slices.IndexFunc(faults, func(f AgentFault) bool { return f.Name == name })
			switch {
			case usable(name):
			case i >= 0:
				faults[i].Needed = faults[i].Needed || needed
			default:
				faults = append(faults, AgentFault{name, check(name), needed})
			}
		}
	}
	for _, role := range roles {
		if role == signalbox.RoleCI || role == signalbox.RoleMerger || role == signalbox.RoleBusinessAnalyst && !c.Analyst() {
			continue
		}
		add(c.AgentsFor(role, ""), true)
	}
	for _, e := range c.Experts { // work continues without them, and the human is asked
		add(c.AgentsFor(signalbox.RoleExpert, e.Name), false)
	}
	return faults
}

// CheckAgents reports whether a program can be started for each of the given roles.
func CheckAgents(c *config.Config, roles []signalbox.Role) error {
	for _, f := range AgentFaults(c, roles) {
		if f.Needed {
			return f.Err
		}
	}
	return nil
}

// agentName returns the agent that the session runs. A policy of an older version does not name it, and that of another process may name one
// that this process does not have.
func (s *session) agentName() string {
	if c := s.crew.box.Config; s.agent == "" || !c.HasAgent(s.agent) {
		return c.AgentsFor(s.role, s.workItem().Task.Expert)[0]
	}
	return s.agent
}

// blob is [stored.Blob] of the crew's box.
func (c *Crew) blob(ctx context.Context, digest signalbox.Hash) ([]byte, error) {
	return stored.Blob(ctx, c.box, digest)
}

func storedBody(text []byte) map[string]any { return stored.Body(text) }
