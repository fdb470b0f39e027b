package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"signalbox/internal/config"
	"signalbox/internal/core/box"
	"signalbox/internal/team"
)

// What configuration a command uses:
//
//   - Commands that start programs, or write to the ledger, use the team's configuration with the
//     box's own over it, and refuse to work if
//     the team's is not trusted. Orders that stop work are carried out in any case, except in a box that came with the repository.
//   - Commands that only read do not need a configuration, and ignore the team's.
//   - Processes of agents use the box's own. Their folder is a task's working copy, whose commits
//     do not count.

// LoadSettings returns the configuration for the box in dir and the project in root. dir need not
// exist.
func LoadSettings(ctx context.Context, root, dir string) (*config.Config, *team.Shared, error) {
	named := dir
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		named = ""
	}
	shared, err := team.Read(ctx, root, named)
	if err != nil {
		return nil, nil, err
	}
	c, err := shared.Load(team.Store{}, dir)
	return c, shared, err
}

// RunSettings is LoadSettings for commands that start programs. They refuse a box that may have
// come with an archive.
func (p *Program) RunSettings(ctx context.Context, f BoxFlag, root, dir string) (*config.Config,
	*team.Shared, error) {
	c, shared, err := LoadSettings(ctx, root, dir)
	if err == nil && f.Box == "" && p.Getenv(BoxVariable) == "" { // the user did not name it
		err = checkOwner(ctx, p, shared, dir)
	}
	return c, shared, err
}

// checkOwner refuses a box that is not at the top of a repository, and was neither created on this
// machine nor trusted.
func checkOwner(ctx context.Context, p *Program, shared *team.Shared, dir string) error {
	if !shared.LooseBox || p.OwnsBox(ctx, dir) {
		return nil
	}
	known, err := team.Store{}.Find(shared.Root, dir)
	if err != nil {
		return err
	}
	switch {
	case shared.TrustedBox(known):
		return nil
	case known != nil:
		return team.Untrusted(
			fmt.Sprintf("the box %s was not created on this machine, and its configuration has changed since you trusted it", dir))
	}
	return team.Untrusted(fmt.Sprintf("the box %s was not created on this machine", dir))
}

// OwnsBox reports whether a box was created on this machine. There is no key before the first
// event.
func (p *Program) OwnsBox(ctx context.Context, dir string) bool {
	l, err := box.OpenLedger(ctx, dir, p.BoxOptions())
	if err != nil {
		return false
	}
	defer l.Close()
	return l.IsOurs(ctx)
}

// WorkOptions returns the options to open a box for work.
func (p *Program) WorkOptions(f BoxFlag) *box.Options {
	o := p.BoxOptions()
	o.Load = func(ctx context.Context, dir string) (*config.Config, error) {
		if p.Getenv(SessionVariable) != "" {
			return ownSettings(ctx, p.ProjectRoot(f, dir), dir)
		}
		c, _, err := LoadSettings(ctx, p.ProjectRoot(f, dir), dir)
		if p.Stopping && err != nil && !errors.Is(err, team.ErrTracked) {
			p.Warnf("%v; only the box's own settings count", err)
			return ownSettings(ctx, p.ProjectRoot(f, dir), dir)
		}
		return c, err
	}
	return o
}

// RunOptions returns the options to open a box for a command that starts programs.
func (p *Program) RunOptions(f BoxFlag) *box.Options {
	o := p.BoxOptions()
	o.Load = func(ctx context.Context, dir string) (*config.Config, error) {
		c, _, err := p.RunSettings(ctx, f, p.ProjectRoot(f, dir), dir)
		return c, err
	}
	return o
}

// ReadOptions returns the options to open a box for reading.
func (p *Program) ReadOptions(f BoxFlag) *box.Options {
	o := p.BoxOptions()
	o.Load = func(ctx context.Context, dir string) (*config.Config, error) {
		return ownSettings(ctx, p.ProjectRoot(f, dir), dir)
	}
	return o
}

// ownSettings returns the box's own configuration. If it is not valid by itself but only together
// with the team's, it returns both, or the defaults if the team's is not trusted.
func ownSettings(ctx context.Context, root, dir string) (*config.Config, error) {
	own, err := config.Load(dir)
	if err == nil {
		return own, nil
	}
	shared, readErr := team.Read(ctx, root, "")
	if readErr != nil || shared.Files == nil {
		return nil, err
	}
	both, loadErr := shared.Load(team.Store{}, dir)
	if errors.Is(loadErr, team.ErrUntrusted) {
		return config.Default(), nil
	}
	return both, loadErr
}

// SettingsOfRun returns the configuration of the run that started this process as an agent: a copy
// of the team's, which agents cannot change, and the box's own.
func SettingsOfRun(p *Program) (*config.Config, error) {
	dir := p.Getenv(BoxVariable)
	copied := p.Getenv(team.Variable)
	if copied == "" {
		return config.Load(dir)
	}
	shared, err := team.FromCopy(copied)
	if err != nil {
		return nil, err
	}
	return config.LoadTeam(dir, shared)
}
