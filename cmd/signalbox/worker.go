package main

import (
	"errors"
	"slices"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/crew"
	"signalbox/internal/run/progress"
)

type workerCommand struct {
	boxFlag
	runFlags
	Roles []signalbox.Role `placeholder:"R,R" help:"The roles to fill: ci, merger, developer, critic, auditor, business-analyst, remediation, health-auditor, expert, expert-creator; none is all."`
}

func (workerCommand) Help() string {
	return `Joins a box as a worker: it does what is to be done by the roles it fills, for whatever plan the box has, until you stop it. Any number of workers share a box; none is in charge. Limits on slots hold for all of them together.

Examples:

    signalbox worker
    signalbox worker --roles developer,critic --plain`
}

func (c *workerCommand) Run(p *program) error {
	if err := p.operatorOnly("work"); err != nil {
		return err
	}
	p.quiet = c.JSON
	for _, role := range c.Roles {
		if !slices.Contains(rules.DispatchRoles(), role) {
			return &signalbox.Error{Code: signalbox.CodeUsage, Err: errors.New("nothing is dispatched to role '" + string(role) + "'"),
				Hint: "these may be named: " + commaList(rules.DispatchRoles())}
		}
	}
	ctx, stop := untilInterrupted()
	defer stop()
	return opening(ctx, p, c.boxFlag, box.Open, func(b *box.Box) error {
		place, err := findPlace(ctx, b.Config, p.workRoot(c.boxFlag, b.Dir), b.Dir)
		if err != nil {
			return err
		}
		roles := c.Roles
		if len(roles) == 0 {
			roles = rules.DispatchRoles()
		}
		if err := crew.CheckAgents(b.Config, roles); err != nil {
			return err
		}
		shown := progress.Options{Title: "worker", JSON: c.JSON, Plain: c.Plain, From: b.Engine.Tail().Seq}
		return p.work(ctx, stop, b, job{place, shown, crew.Options{Roles: roles, Stay: true}, nil})
	})
}
