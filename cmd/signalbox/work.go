package main

import (
	"context"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
)

type workCommands struct {
	Open    workOpenCommand    `cmd:"" help:"Add a work item."`
	List    workListCommand    `cmd:"" help:"List all work."`
	Show    workShowCommand    `cmd:"" help:"Show one work item: where it is, who holds it, who held it."`
	Claim   workClaimCommand   `cmd:"" help:"Take the lease of a work item."`
	Renew   workRenewCommand   `cmd:"" help:"Extend a lease."`
	Release workReleaseCommand `cmd:"" help:"Give a lease back, or take it away."`
	Exit    workExitCommand    `cmd:"" help:"Hand in an exit signal under a lease."`
	Unblock workUnblockCommand `cmd:"" help:"Return blocked work to where it was."`
}

func (workCommands) Help() string {
	return `Work goes through phases, and one session at a time holds it. A session claims work, does it, and hands in an exit signal; that moves the work to its next phase and frees it for the next session, in one step. docs/state-machine.md has the phases and who may claim in which.

Examples:

    signalbox work open task-1 --title 'guard the counter'
    signalbox work claim task-1 --role developer
    signalbox work exit --session s-0123456789ab exit.json
    signalbox work list`
}

type workOpenCommand struct {
	boxFlag
	answerFlag
	ID    string          `arg:"" help:"Letters, digits, '.', '_' and '-'; at most 64."`
	Title string          `placeholder:"TEXT" help:"What it is about."`
	Phase signalbox.Phase `default:"IMPLEMENTATION" help:"The phase it starts in: DRAFT, IMPLEMENTATION, CI_PENDING, READY_FOR_REVIEW, REVIEW or READY_FOR_MERGE."`
	Actor given           `placeholder:"A" help:"Who adds it; else SIGNALBOX_ACTOR, else your user name."`
}

func (workOpenCommand) Help() string {
	return `Adds a work item. It starts in IMPLEMENTATION, or in the phase that you name.

Examples:

    signalbox work open task-1 --title 'guard the counter'
    signalbox work open task-2 --phase DRAFT`
}

// opened is the answer to open and unblock.
type opened struct {
	Work  string          `json:"work"`
	Phase signalbox.Phase `json:"phase"`
	Seq   uint64          `json:"seq"`
}

func (c *workOpenCommand) Run(p *program) error {
	if err := p.operatorOnly("open work"); err != nil {
		return err
	}
	return p.order(c.boxFlag, rules.OpenWork{Work: c.ID, Title: c.Title, Phase: c.Phase, Actor: p.actor(c.Actor)},
		func(a rules.Answer) error { return c.print(p, opened{a.Work, a.Phase, a.Seq}) })
}

type workUnblockCommand struct {
	boxFlag
	answerFlag
	ID    string `arg:"" help:"The work item."`
	Note  string `required:"" placeholder:"TEXT" help:"What changed, for those who read the ledger later."`
	Actor given  `placeholder:"A" help:"Who says so; else SIGNALBOX_ACTOR, else your user name."`
}

func (workUnblockCommand) Help() string {
	return `Returns BLOCKED work to the phase that it was blocked in.

Examples:

    signalbox work unblock task-1 --note 'credentials are in the vault now'`
}

func (c *workUnblockCommand) Run(p *program) error {
	if err := p.operatorOnly("unblock work"); err != nil {
		return err
	}
	return p.order(c.boxFlag, rules.Unblock{Work: c.ID, Note: c.Note, Actor: p.actor(c.Actor)},
		func(a rules.Answer) error { return c.print(p, opened{a.Work, a.Phase, a.Seq}) })
}

// order gives one command to the box and shows the answer.
func (p *program) order(f boxFlag, command rules.Command, show func(rules.Answer) error) error {
	ctx := context.Background()
	return p.withBox(ctx, f, func(b *box.Box) error {
		answer, err := b.Engine.Do(ctx, command)
		if err != nil {
			return err
		}
		return show(answer)
	})
}
