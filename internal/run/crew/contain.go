package crew

import (
	"context"
	"errors"
	"fmt"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/contain"
	"signalbox/internal/run/agent"
)

// contain returns what the session's agent may do in its workspace. The caller finishes it.
func (s *session) contain(name string, configured config.Agent, command agent.Command,
	ws *sessionWorkspace) *contain.Program {
	p := s.crew.site.Agent(contain.Agent{Name: name, Config: configured, Role: string(s.role),
		Work: s.work, Temp: s.temp, Dir: ws.dir,
		Argv: command.Argv, Env: command.Env, Ports: s.crew.checks.Ports(ws.dir), Diff: ws.diff,
		Cache: s.crew.checks.Cache(s.role)})
	for ws.tooLarge && p.TreeExceeds() {
		p.Limit *= 2 // so that the agent has time to clean it up
	}
	return p
}

// errTooLarge means that a working copy is larger than limits.tree.
var errTooLarge = errors.New("the working copy is larger")

func tooLarge(c *config.Config) error {
	return fmt.Errorf("%w than %s (limits.tree)", errTooLarge, c.Limits.Tree)
}

// exceededSize describes what a program has written too much of, after it has ended, and removes it
// if that is its home folder.
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

// limitSize returns a function that saves a working copy only if it is not larger than limits.tree.
// Otherwise an agent must clean it up.
func (s *session) limitSize(dir string, save func(context.Context, string) (string,
	error)) func(context.Context, string) (string, error) {
	return func(ctx context.Context, message string) (string, error) {
		c := s.crew.box.Config
		if c.Limits.Tree > 0 && contain.Exceeds(dir, int64(c.Limits.Tree), s.crew.box.Dir) {
			return "", &signalbox.Error{Code: signalbox.CodeConflict, Err: tooLarge(c),
				Hint: "remove files that do not belong to the project"}
		}
		return save(ctx, message)
	}
}
