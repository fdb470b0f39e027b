// Package doctor checks what a configuration needs besides the box: the programs and trees of the
// agents, the models, and the oracle with its MCP servers. signalbox doctor shows the results
// together with those of [box.Doctor].
package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/contain"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/oracle"
	"signalbox/internal/oracle/model"
	"signalbox/internal/oracle/setup"
	"signalbox/internal/process"
	"signalbox/internal/run/agent"
	"signalbox/internal/run/project"
	"signalbox/internal/run/turnprompt"
	"signalbox/internal/sandbox"
	"signalbox/internal/tree"
	"signalbox/internal/tree/luatree"
)

// Complete adds the checks of a configuration to those of [box.Doctor]. An agent whose program
// box.Doctor found becomes a problem if a run would refuse to start it. root is the folder of the
// project, and dir that of the box.
func Complete(ctx context.Context, c *config.Config, root, dir string,
	checks []box.Check) []box.Check {
	refuseAgents(c, checks)
	checks = append(checks, logins(c, contain.ThisHost(), checks)...)
	checks = append(checks, templates(c, dir)...)
	checks = append(checks, independence(c))
	checks = append(checks, sandboxes(ctx, c, root, dir, process.Support())...)
	checks = append(checks, newChecker(c).checks(ctx)...)
	if len(c.Checks) == 0 {
		checks = append(checks, box.Check{Name: "checks", Health: box.Warning,
			Detail: "none are configured: only the critic and the auditor review the work before it is merged",
			Fix:    "list the commands that must pass under checks in " + config.FileName})
	}
	return checks
}

// roleAgent is an agent that the configuration assigns to a role.
type roleAgent struct {
	name  string
	agent config.Agent
}

// roleAgents returns the agents that a run may start, each once.
func roleAgents(c *config.Config) []roleAgent {
	var agents []roleAgent
	add := func(role signalbox.Role, expert string) {
		for _, name := range c.AgentsFor(role, expert) {
			if !slices.ContainsFunc(agents,
				func(known roleAgent) bool { return known.name == name }) {
				agents = append(agents, roleAgent{name, c.AgentNamed(name)})
			}
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

// Commands returns the programs that a run may start as agents, each once. Agents with a tree have
// none.
func Commands(c *config.Config) []box.AgentCommand {
	var commands []box.AgentCommand
	for _, a := range roleAgents(c) {
		argv := a.agent.Command
		switch {
		case a.agent.Tree != "":
			continue
		case len(argv) == 0:
			argv = []string{a.agent.Preset} // presets are named after their programs
		}
		commands = append(commands, box.AgentCommand{Name: a.name, Argv: argv,
			Install: agent.InstallCommand(argv[0])})
	}
	return commands
}

// refuseAgents makes the checks of the agents agree with what a run does: an agent that cannot be
// started is a problem if a run would refuse to start, and only a warning if another agent takes
// over from it.
func refuseAgents(c *config.Config, checks []box.Check) {
	faults := agent.Faults(WithoutServers(c), rules.DispatchRoles())
	for i := range checks {
		name, isAgent := strings.CutPrefix(checks[i].Name, "agent ")
		if !isAgent {
			continue
		}
		at := slices.IndexFunc(faults, func(f agent.Fault) bool { return f.Name == name })
		if at < 0 {
			continue
		}
		if checks[i].Health == box.Healthy { // its program was found
			checks[i] = withError(checks[i], faults[at].Err)
		}
		if checks[i].Health = box.Problem; !faults[at].Needed {
			checks[i].Health, checks[i].Detail = box.Warning, checks[i].Detail+
				"; a run starts without it"
		}
	}
	if !c.Keyed {
		return
	}
	for _, r := range roleAgents(c) {
		i := slices.IndexFunc(checks,
			func(check box.Check) bool { return check.Name == "agent "+r.name && check.Health == box.Healthy })
		if i < 0 || r.agent.Tree != "" {
			continue
		}
		a := r.agent
		a.BaseURL = ""
		command, err := agent.CommandOf(a)
		if err == nil {
			err = agent.CheckKey(r.name, command)
		}
		if err != nil {
			checks[i].Health = box.Problem
			checks[i] = withError(checks[i], err)
		}
	}
}

// WithoutServers returns the configuration without the servers of agents: some presets write a
// settings file for them, and doctor writes nothing.
func WithoutServers(c *config.Config) *config.Config {
	without := *c
	without.Agents = maps.Clone(c.Agents)
	for name, a := range without.Agents {
		a.BaseURL = ""
		without.Agents[name] = a
	}
	return &without
}

// logins checks whether the agents with a preset that can be started have a login or a key. It asks
// no service.
func logins(c *config.Config, host contain.Host, checks []box.Check) (found []box.Check) {
	for _, r := range roleAgents(c) {
		installed := slices.ContainsFunc(checks,
			func(check box.Check) bool { return check.Name == "agent "+r.name && check.Health == box.Healthy })
		if r.agent.Preset == "" || !installed {
			continue
		}
		check := box.Check{Name: "login " + r.name, Health: box.Healthy, Detail: "none seems to be missing; only signalbox doctor --probe tries it"}
		if hint := host.MissingLogin(r.agent); hint != "" {
			check.Health, check.Detail, check.Fix = box.Warning, "no login and no key was found",
				hint
		}
		found = append(found, check)
	}
	return found
}

// sandboxes checks whether the system can enforce what the configuration allows agents and checks,
// and whether the paths that it names exist.
func sandboxes(ctx context.Context, c *config.Config, root, dir string,
	support sandbox.Support) []box.Check {
	check := box.Check{Name: "sandbox", Health: box.Healthy}
	missing, err := locateProject(ctx, c, root).CheckSandboxes(c, dir, support)
	mode, off := c.Sandbox.Mode, withoutSandbox(c)
	switch {
	case err != nil:
		check = withError(box.Check{Name: check.Name, Health: box.Problem}, err)
	case mode == sandbox.Off:
		check.Health, check.Detail, check.Fix = box.Warning,
			"off: agents and checks can read and change everything that you can",
			"remove sandbox: off from "+config.FileName
		if len(missing) > 0 {
			check.Detail += "; " + strings.Join(missing, "; ")
		}
	case len(missing) > 0:
		check.Health, check.Detail, check.Fix = box.Warning,
			fmt.Sprintf("%s, incomplete: %s", mode, strings.Join(missing, "; ")),
			"see what remains open with signalbox sandbox explain"
	case len(off) > 0:
		check.Health, check.Detail = box.Warning, fmt.Sprintf("%s, by %s", mode, support)
		check.Fix = "remove sandbox: off there from " + config.FileName +
			", unless the program needs it"
	default:
		check.Detail = fmt.Sprintf("%s, by %s", mode, support)
	}
	if len(off) > 0 && mode != sandbox.Off && err == nil {
		check.Detail += "; off for " + strings.Join(off, ", ")
	}
	checks := []box.Check{check}
	for _, p := range c.SandboxPaths() {
		if _, err := os.Lstat(p.Path); errors.Is(err, fs.ErrNotExist) {
			checks = append(checks, box.Check{Name: check.Name, Health: box.Warning,
				Detail: fmt.Sprintf("%s: %s does not exist", p.Setting, p.Path),
				Fix:    "create it, or correct it in " + config.FileName})
		}
	}
	return checks
}

// locateProject returns the project as a run would see it. Without a repository, which box.Doctor
// reports, it is only a folder.
func locateProject(ctx context.Context, c *config.Config, root string) project.Project {
	found, err := project.Locate(ctx, c, root)
	if err == nil {
		return found
	}
	if abs, err := filepath.Abs(root); err == nil {
		root = abs
	}
	return project.Project{Root: root}
}

// withoutSandbox returns the agents, checks and setup commands whose sandbox is off.
func withoutSandbox(c *config.Config) (names []string) {
	for _, a := range roleAgents(c) {
		if c.SandboxOf(a.agent.Sandbox).Mode == sandbox.Off {
			names = append(names, "agent "+a.name)
		}
	}
	for _, check := range c.Checks {
		if c.SandboxOf(check.Sandbox).Mode == sandbox.Off {
			names = append(names, "check "+check.Name)
		}
	}
	for _, setup := range c.Setup {
		if c.SandboxOf(setup.Sandbox).Mode == sandbox.Off {
			names = append(names, "setup "+setup.Name)
		}
	}
	return names
}

// templates checks the templates of the roles that have one.
func templates(c *config.Config, dir string) (checks []box.Check) {
	for _, role := range config.AgentRoles() {
		file := c.RoleOf(role).Prompt
		if file == "" {
			continue
		}
		check := box.Check{Name: "prompt " + string(role), Health: box.Healthy, Detail: file}
		if err := turnprompt.CheckTemplate(c, dir, role, c.Keyed); err != nil {
			check = withError(box.Check{Name: check.Name, Health: box.Problem}, err)
		}
		checks = append(checks, check)
	}
	return checks
}

// independence checks which agents may judge the work.
func independence(c *config.Config) box.Check {
	check := box.Check{Name: "independence", Health: box.Healthy}
	fails := false
	if check.Detail, check.Fix, fails = c.DescribeIndependence(); fails {
		check.Health = box.Problem
	}
	return check
}

// checker checks the models, the trees and the servers of a configuration.
type checker struct {
	config *config.Config
	dial   func(ctx context.Context, network, address string) (net.Conn, error)
	lookup func(string) (string, bool) // looks up an environment variable
	proxy  func(*http.Request) (*url.URL, error)
}

// dialTimeout is how long a server may take to accept a connection.
const dialTimeout = 2 * time.Second

func newChecker(c *config.Config) *checker {
	return &checker{config: c, dial: (&net.Dialer{Timeout: dialTimeout}).DialContext,
		lookup: os.LookupEnv, proxy: http.ProxyFromEnvironment}
}

// checks runs all checks concurrently, because connecting to an unreachable server takes until the
// timeout.
func (c *checker) checks(ctx context.Context) []box.Check {
	var pending []func() box.Check
	for _, name := range slices.Sorted(maps.Keys(c.config.Models)) {
		pending = append(pending, func() box.Check { return c.model(ctx, name) })
	}
	for _, name := range c.treeAgents() {
		pending = append(pending, func() box.Check { return c.treeAgent(ctx, name) })
	}
	if len(c.config.Models) > 0 {
		pending = append(pending, func() box.Check { return c.oracle(ctx) })
	}
	for _, name := range slices.Sorted(maps.Keys(c.config.Oracle.Servers)) {
		pending = append(pending, func() box.Check { return c.server(ctx, name) })
	}
	for _, a := range roleAgents(c.config) {
		if a.agent.BaseURL != "" {
			pending = append(pending, func() box.Check { return c.agentServer(ctx, a) })
		}
	}
	results := make([]box.Check, len(pending))
	var all sync.WaitGroup
	for i := range pending {
		all.Go(func() { results[i] = pending[i]() })
	}
	all.Wait()
	for _, note := range c.config.Notes() {
		results = append(results, box.Check{Name: "settings", Health: box.Warning, Detail: note})
	}
	return results
}

// treeAgents returns the names of the agents with a tree that the configuration assigns to a role.
func (c *checker) treeAgents() []string {
	var names []string
	for _, a := range roleAgents(c.config) {
		if a.agent.Tree != "" {
			names = append(names, a.name)
		}
	}
	return names
}

// model checks a model. A fault of a model that neither the oracle nor an agent uses is only a
// warning.
func (c *checker) model(ctx context.Context, name string) box.Check {
	m := c.config.Models[name]
	health := box.Warning
	if used, _, err := c.config.OracleModel(""); err == nil && used == name {
		health = box.Problem
	}
	for _, agent := range c.treeAgents() {
		if used, _, err := c.config.OracleModel(c.config.Agents[agent].Model); err == nil &&
			used == name {
			health = box.Problem
		}
	}
	check := box.Check{Name: "model " + name, Health: health}
	key, _ := c.lookup(m.KeyEnv)
	client, err := model.New(model.Provider(m.Provider), m.Model,
		&model.Options{Key: key, KeyName: m.KeyEnv, BaseURL: m.BaseURL})
	if err != nil {
		check.Detail, check.Fix = err.Error(), "correct models."+name+" in "+config.FileName
		if known := (*model.Error)(nil); errors.As(err, &known) && known.Hint != "" {
			check.Fix = known.Hint
		}
		return check
	}
	client.Close()
	if m.BaseURL == "" {
		return box.Check{Name: check.Name, Health: box.Healthy,
			Detail: fmt.Sprintf("%s of %s; %s is set", m.Model, m.Provider, m.KeyEnv)}
	}
	via, err := c.connect(ctx, m.BaseURL)
	if err != nil {
		check.Detail = fmt.Sprintf("cannot reach %s: %v", m.BaseURL, err)
		check.Fix = fmt.Sprintf("start the server, or correct models.%s.base_url in %s", name,
			config.FileName)
		return check
	}
	return box.Check{Name: check.Name, Health: box.Healthy,
		Detail: fmt.Sprintf("%s at %s%s", m.Model, m.BaseURL, via)}
}

// agentServer checks the server that the program of an agent uses. It is only a warning if each
// role has an agent that uses another one, and takes over.
func (c *checker) agentServer(ctx context.Context, a roleAgent) box.Check {
	check := box.Check{Name: "base_url " + a.name, Health: box.Warning}
	via, err := c.connect(ctx, a.agent.BaseURL)
	if err == nil {
		check.Health, check.Detail = box.Healthy, a.agent.BaseURL+via
		return check
	}
	setting := "agents." + a.name + ".base_url"
	check.Detail = fmt.Sprintf("nothing answers at %s, which %s names: %v", a.agent.BaseURL,
		setting, err)
	check.Fix = fmt.Sprintf("start the server, or correct %s in %s", setting, config.FileName)
	depends := func(role signalbox.Role) bool {
		agents := c.config.AgentsFor(role, "")
		return slices.Contains(agents, a.name) && !slices.ContainsFunc(agents,
			func(name string) bool { return c.config.AgentNamed(name).BaseURL != a.agent.BaseURL })
	}
	if slices.ContainsFunc(rules.DispatchRoles(), depends) {
		check.Health = box.Problem
	}
	return check
}

// connect opens a connection to a server and closes it again, without sending a request. It does
// not try a server behind a proxy, where a connection would only show that the proxy is running.
func (c *checker) connect(ctx context.Context, address string) (via string, err error) {
	target, err := url.Parse(address)
	if err != nil {
		return "", err
	}
	if proxy, err := c.proxy(&http.Request{URL: target}); err == nil && proxy != nil {
		return ", through the proxy " + proxy.Host, nil
	}
	port := target.Port()
	if port == "" {
		port = map[string]string{"http": "80"}[target.Scheme]
	}
	conn, err := c.dial(ctx, "tcp", net.JoinHostPort(target.Hostname(), cmp.Or(port, "443")))
	if err != nil {
		return "", err
	}
	return "", conn.Close()
}

func (c *checker) treeAgent(ctx context.Context, name string) box.Check {
	a := c.config.Agents[name]
	check := box.Check{Name: "agent " + name, Health: box.Problem}
	used, _, err := c.config.OracleModel(a.Model)
	if err == nil {
		err = checkTree(ctx, a.Tree)
	}
	if err == nil {
		_, err = setup.Prompts(c.config, true)
	}
	if err != nil {
		return withError(check, err)
	}
	tools := "read-only tools"
	if len(a.Tools) > 0 {
		tools += " and " + strings.Join(a.Tools, ", ")
	}
	return box.Check{Name: check.Name, Health: box.Healthy,
		Detail: fmt.Sprintf("tree %s, model %s, %s", filepath.Base(a.Tree), used, tools)}
}

func (c *checker) oracle(ctx context.Context) box.Check {
	o := c.config.Oracle
	used, _, err := c.config.OracleModel("")
	if err != nil { // only a warning, because signalbox oracle --model works
		return withError(box.Check{Name: "oracle", Health: box.Warning}, err)
	}
	check := box.Check{Name: "oracle", Health: box.Problem}
	if _, err := setup.Prompts(c.config, false); err != nil {
		return withError(check, err)
	}
	trees := []string{o.Tree}
	for _, name := range slices.Sorted(maps.Keys(o.Subagents)) {
		trees = append(trees, o.Subagents[name].Tree)
	}
	for _, name := range trees {
		if name == "" {
			continue
		}
		if err := checkTree(ctx, name); err != nil {
			return withError(check, err)
		}
	}
	detail := "model " + used
	for _, folder := range []struct{ name, dir string }{{"code", o.Code}, {"notes", o.Notes}, {"portfolio", o.Portfolio}} {
		if folder.dir != "" {
			detail += fmt.Sprintf(", %s in %s", folder.name, folder.dir)
		}
	}
	return box.Check{Name: check.Name, Health: box.Healthy, Detail: detail}
}

// server checks an MCP server without starting it, which could take long and have side effects. A
// server that is missing is only a warning, because the oracle works without it.
func (c *checker) server(ctx context.Context, name string) box.Check {
	check := box.Check{Name: "server " + name, Health: box.Problem}
	s, err := c.config.Oracle.Servers[name].Resolved(c.lookup)
	if err != nil {
		return withError(check, err)
	}
	check.Health = box.Warning
	if s.URL != "" {
		via, err := c.connect(ctx, s.URL)
		if err != nil {
			check.Detail = fmt.Sprintf("cannot reach %s: %v", s.URL, err)
			check.Fix = "start it, or correct oracle.servers." + name + " in " + config.FileName
			return check
		}
		return box.Check{Name: check.Name, Health: box.Healthy, Detail: s.URL + via}
	}
	file, err := process.Find(s.Command[0], c.config.Oracle.Code, nil)
	if err != nil {
		return withError(check, err)
	}
	return box.Check{Name: check.Name, Health: box.Healthy, Detail: file}
}

func withError(check box.Check, err error) box.Check {
	check.Detail, check.Fix = err.Error(), "correct it in "+config.FileName
	if hint := signalbox.HintOf(err); hint != "" {
		check.Fix = hint
	}
	return check
}

// checkTree loads a tree and returns its first fault.
func checkTree(ctx context.Context, name string) error {
	source, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	file, err := luatree.Load(ctx, name, source, &luatree.Options{Functions: oracle.Functions()})
	if err == nil {
		file.Close()
		return nil
	}
	if faults := tree.Faults(err); len(faults) > 0 {
		err = faults[0]
	}
	return &signalbox.Error{Code: signalbox.CodeUsage, Err: err, Hint: "run signalbox tree check " +
		name + " for a list of all faults"}
}
