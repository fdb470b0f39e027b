// Package byhand has the commands that do one step of a run by hand: find the signals in the output
// of an agent, check an exit signal, and open, claim and move work.
package byhand

import (
	"signalbox"
	"signalbox/internal/cli"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
)

type WorkCommands struct {
	Open    workOpenCommand    `cmd:"" help:"Add a work item."`
	List    workListCommand    `cmd:"" help:"List all work."`
	Show    workShowCommand    `cmd:"" help:"Show a work item: its phase, its lease and its sessions."`
	Claim   workClaimCommand   `cmd:"" help:"Take the lease of a work item."`
	Renew   workRenewCommand   `cmd:"" help:"Extend a lease."`
	Release workReleaseCommand `cmd:"" help:"Return a lease, or revoke it."`
	Exit    workExitCommand    `cmd:"" help:"Submit an exit signal under a lease."`
	Unblock workUnblockCommand `cmd:"" help:"Return blocked work to its previous phase."`
}

func (WorkCommands) Help() string {
	return `A work item moves through phases, and one session at a time holds it. A session claims a work item, does the work, and submits an exit signal, which moves the work item to its next phase and ends the lease, in one step. docs/reference/state-machine.md lists the phases and the roles that may claim in each.

Examples:

    signalbox work open task-1 --title 'guard the counter'
    signalbox work claim task-1 --role developer
    signalbox work exit --session s-0123456789ab exit.json
    signalbox work list`
}

type workOpenCommand struct {
	cli.BoxFlag
	cli.AnswerFlag
	ID    string          `arg:"" help:"The id of the work item: at most 64 letters, digits, '.', '_' and '-'."`
	Title string          `placeholder:"TEXT" help:"The title of the work item; - reads it from standard input."`
	Phase signalbox.Phase `default:"IMPLEMENTATION" help:"The first phase: DRAFT, IMPLEMENTATION, CI_PENDING, READY_FOR_REVIEW, REVIEW or READY_FOR_MERGE."`
	Ref   cli.NonEmpty    `placeholder:"REF" help:"The branch, tag or commit that has the work, for its checks."`
	Actor cli.NonEmpty    `placeholder:"A" help:"Your name on the ledger. Default: SIGNALBOX_ACTOR, or else your user name."`
}

func (workOpenCommand) Help() string {
	return `Adds a work item in the phase IMPLEMENTATION, or in the phase that you name. In CI_PENDING, signalbox worker runs the configured checks on the branch, tag or commit that --ref names here or in signalbox work exit, or else on the head of the base branch.

Examples:

    signalbox work open task-1 --title 'guard the counter'
    signalbox work open task-1 --ref feature/counter
    signalbox work open task-2 --phase DRAFT`
}

// opened is the answer of open, unblock and release.
type opened struct {
	Work  string          `json:"work"`
	Phase signalbox.Phase `json:"phase"`
	Seq   uint64          `json:"seq"`
}

func (c *workOpenCommand) Run(p *cli.Program) error {
	if err := p.OperatorOnly("open work"); err != nil {
		return err
	}
	title, err := p.TextOf(c.Title)
	if err != nil {
		return err
	}
	return orderWork(p, c.BoxFlag, c.AnswerFlag, "", func(string) rules.Command {
		return rules.OpenWork{Work: c.ID, Title: title, Phase: c.Phase, Ref: string(c.Ref),
			Actor: p.ActorOf(c.Actor)}
	})
}

type workUnblockCommand struct {
	cli.BoxFlag
	cli.AnswerFlag
	ID    string       `arg:"" help:"The work item."`
	Note  *string      `placeholder:"TEXT" help:"What changed, recorded on the ledger; - reads it from standard input. On a terminal, your editor opens without it."`
	Actor cli.NonEmpty `placeholder:"A" help:"Your name on the ledger. Default: SIGNALBOX_ACTOR, or else your user name."`
}

func (workUnblockCommand) Help() string {
	return `Returns BLOCKED work to the phase in which it was blocked.

Examples:

    signalbox work unblock task-1 --note 'credentials are in the vault now'`
}

func (c *workUnblockCommand) Run(p *cli.Program) error {
	if err := p.OperatorOnly("unblock work"); err != nil {
		return err
	}
	note, err := p.RequireText(c.Note,
		cli.WantedText{Name: "the note", Missing: "missing flags: --note=TEXT",
			Usage: "signalbox work unblock " + c.ID + " --note TEXT"})
	if err != nil {
		return err
	}
	return orderWork(p, c.BoxFlag, c.AnswerFlag, c.ID,
		func(id string) rules.Command { return rules.Unblock{Work: id, Note: note, Actor: p.ActorOf(c.Actor)} })
}

// orderWork executes a command about the work item that the user named, and prints where it is
// then.
func orderWork(p *cli.Program, f cli.BoxFlag, answer cli.AnswerFlag, name string,
	build func(id string) rules.Command) error {
	return cli.OrderWork(p, f, name, build,
		func(_ *box.Box, a rules.Answer) error { return answer.Print(p, opened{a.Work, a.Phase, a.Seq}) })
}
