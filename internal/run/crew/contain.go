package crew

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/agent"
	"signalbox/internal/run/contain"
	"signalbox/internal/run/workspace"
	"signalbox/internal/sandbox"
)

// contain returns what the session's agent may do in its workspace. The caller finishes it.
func (s *session) contain(name string, configured config.Agent, command agent.Command, ws *sessionWorkspace) *contain.Program {
	p := s.crew.site.Agent(contain.Agent{Name: name, Config: configured, Role: string(s.role), Work: s.work, Temp: s.temp, Dir: ws.dir,
		Argv: command.Argv, Env: command.Env, Ports: s.crew.portsOf(ws.dir), Diff: ws.diff, Cache: s.crew.useCache()})
	for ws.tooLarge && p.TreeExceeds() {
		p.Limit *= 2 // so that the agent has time to clean it up
	}
	return p
}

// useCache returns what a program gets of the cache, nil if there is none. Without it programs are only slower.
func (c *Crew) useCache() *contain.Generation {
	cache, err := c.site.Cache.Use()
	if err != nil {
		c.warnOnce("programs start without the cache: " + detail(err))
	}
	return cache
}

// containCheck returns what a check of the session's work may do in a folder.
func (s *session) containCheck(dir string, homes *contain.Homes) func(workspace.Check, workspace.Environment, string) *contain.Program {
	return containCheck(s.crew.site, s.work, dir, homes, s.crew.portsOf(dir))
}

func containCheck(site contain.Site, work, dir string, homes *contain.Homes, ports contain.Ports) func(workspace.Check, workspace.Environment, string) *contain.Program {
	c := site.Config
	return func(check workspace.Check, environment workspace.Environment, session string) *contain.Program {
		due := contain.Check{Work: work, Session: session, Dir: dir, Homes: homes, Ports: ports, Environment: config.Environment{Run: environment.Run, Env: environment.Env}}
		if i := slices.IndexFunc(c.Checks, func(configured config.Check) bool { return configured.Name == check.Name }); i >= 0 {
			due.Config = c.Checks[i]
		}
		return site.Check(due)
	}
}

// recordedPolicy returns what the ledger records about a policy, and stores the policy.
func (s *session) recordedPolicy(p *sandbox.Policy) (rules.Sandbox, error) {
	if !p.Restricted() {
		return rules.Sandbox{Mode: string(sandbox.Off)}, nil
	}
	text, err := json.Marshal(p)
	if err != nil {
		return rules.Sandbox{}, err
	}
	digest, err := s.put(text)
	recorded := rules.Sandbox{Mode: string(p.Mode), Network: s.crew.support.Network(p), Layers: s.crew.support.String(), Policy: digest}
	if s.crew.support.Processes() == sandbox.WatchProcesses {
		recorded.Processes = string(sandbox.WatchProcesses)
	}
	return recorded, err
}

// errTooLarge means that a working copy is larger than limits.tree.
var errTooLarge = errors.New("the working copy is larger")

func tooLarge(c *config.Config) error {
	return fmt.Errorf("%w than %s (limits.tree)", errTooLarge, c.Limits.Tree)
}

// exceededSize describes what a program has written too much of, after it has ended, and removes it if that is its home folder.
func (s *session) exceededSize(p *contain.Program) string {
	c := s.crew.box.Config
	if p.TreeExceeds() {
		return tooLarge(c).Error()
	}
	if err := p.EmptyHome(); err != nil {
		s.crew.log.Warn("cannot remove the home folder of an agent", "work", s.work, "error", err)
	}
	return fmt.Sprintf("its working copy, home folder and temporary files are larger than %s together (limits.tree)", c.Limits.Tree)
}

// limitSize returns a function that saves a working copy only if it is not larger than limits.tree. Otherwise an agent must clean it up.
func (s *session) limitSize(dir string, save func(context.Context, string) (string, error)) func(context.Context, string) (string, error) {
	return func(ctx context.Context, message string) (string, error) {
		c := s.crew.box.Config
		if c.Limits.Tree > 0 && contain.Exceeds(dir, int64(c.Limits.Tree), s.crew.box.Dir) {
			return "", &signalbox.Error{Code: signalbox.CodeConflict, Err: tooLarge(c), Hint: "remove files that do not belong to the project"}
		}
		return save(ctx, message)
	}
}
