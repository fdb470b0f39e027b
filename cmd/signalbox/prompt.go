package main

import (
	"context"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/run/crew"
)

type promptCommand struct {
	boxFlag
	rawFlag
	Role signalbox.Role `arg:"" help:"The role: developer, critic, auditor, business-analyst, remediation, health-auditor, expert or expert-creator."`
	Task string         `arg:"" help:"The task, or PLAN/TASK if several plans have it."`
}

func (promptCommand) Help() string {
	return `Prints the prompt that an agent in a role would get for a task now: the instructions of the role, the task, the findings to fix, answers and advice, and the exact signals that it may send. The configuration can name another template for a role (roles.ROLE.prompt); docs/prompts.md explains how to write one.

The prompt contains text of agents and of the plan. On a terminal its control characters are escaped; an agent gets the exact text.

Examples:

    signalbox prompt developer T1
    signalbox prompt critic T1 | less`
}

func (c *promptCommand) Run(p *program) error {
	return p.withReadOnlyBox(c.boxFlag, func(ctx context.Context, b *box.Box) error {
		task, err := findWork(b, c.Task)
		if err != nil {
			return err
		}
		text, err := crew.Prompt(ctx, b, c.Role, task)
		if err != nil {
			return err
		}
		_, err = p.exact(c.rawFlag).Write(text)
		return err
	})
}
