package running

import (
	"context"
	"slices"

	"signalbox"
	"signalbox/internal/cli"
	"signalbox/internal/config"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/process"
	"signalbox/internal/run/agent"
	"signalbox/internal/run/crew"
	"signalbox/internal/run/progress"
	"signalbox/internal/team"
)

type WorkerCommand struct {
	cli.BoxFlag
	runFlags
	slotsFlag
	Roles []signalbox.Role `placeholder:"R,R" help:"The roles to work in: ci, merger, developer, critic, auditor, business-analyst, remediation, health-auditor, expert, expert-creator. Default: all."`
}

func (WorkerCommand) Help() string {
	return `Works on the plan of a box, in the roles that you name, until you stop it. Any number of workers can share a box; none of them is in charge. The limits on slots in the configuration apply to all workers together, --slots to this one. Workers on other machines need a ledger in a database or a cluster: see signalbox invite. While the ledger cannot be reached, a worker waits, and ends each agent before its lease can be granted to another machine.

In role ci, it also runs the configured checks on work that was opened by hand (signalbox work open) and is in CI_PENDING; this needs no plan. If the work names a branch, a tag or a commit, that commit is checked, otherwise the head of the base branch. Work that passes moves to READY_FOR_REVIEW; work that fails returns to IMPLEMENTATION. Without configured checks, the work stays where it is.

Examples:

    signalbox worker
    signalbox worker --roles developer,critic --plain
    signalbox worker --slots 2
    signalbox worker --roles ci`
}

func (c *WorkerCommand) Run(p *cli.Program) error {
	if err := p.OperatorOnly("work"); err != nil {
		return err
	}
	p.Quiet = c.JSON
	for _, role := range c.Roles {
		if !slices.Contains(rules.DispatchRoles(), role) {
			return signalbox.CodeUsage.Errorf("use one of: "+cli.CommaList(rules.DispatchRoles()),
				"no work is dispatched to role '%s'", string(role))
		}
	}
	ctx, stop := cli.UntilInterrupted()
	defer stop()
	roles := c.Roles
	if len(roles) == 0 {
		roles = rules.DispatchRoles()
	}
	// Opening may wait until the ledger is in the cluster. If this process ended after that, the
	// cluster might lose its majority right after a move.
	if err := c.checkAgents(ctx, p, roles); err != nil {
		return err
	}
	var shared *team.Shared
	o := p.BoxOptions()
	o.Host = true
	o.Load = func(ctx context.Context, dir string) (settings *config.Config, err error) {
		settings, shared, err = p.RunSettings(ctx, c.BoxFlag, p.ProjectRoot(c.BoxFlag, dir), dir)
		return settings, err
	}
	return cli.WithOpened(ctx, p, c.BoxFlag, box.Open, o, func(b *box.Box) error {
		noteShared(p, shared)
		in, err := findEdited(ctx, p, b.Config, p.ProjectRoot(c.BoxFlag, b.Dir), b.Dir,
			func(error) error { return nil }) // it begins no plan
		if err != nil {
			return err
		}
		missing, err := in.CheckSandboxes(b.Config, b.Dir, process.Support())
		if err != nil {
			return err
		}
		warnSandbox(p, missing)
		display := progress.Options{Title: "worker", JSON: c.JSON, Plain: c.Plain, From: b.Engine.Tail().Seq}
		return work(ctx, p, stop, b,
			job{in, display, crew.Options{Roles: roles, Slots: c.Slots, Stay: true, Team: shared},
				nil})
	})
}

// checkAgents returns an error if an agent that is needed is missing on this machine.
func (c *WorkerCommand) checkAgents(ctx context.Context, p *cli.Program,
	roles []signalbox.Role) error {
	dir, err := p.FindBox(c.BoxFlag)
	if err != nil {
		return err
	}
	// who owns the box is checked when it is opened
	settings, _, err := cli.LoadSettings(ctx, p.ProjectRoot(c.BoxFlag, dir), dir)
	if err != nil {
		return err
	}
	return agent.CheckRoles(settings, roles)
}
