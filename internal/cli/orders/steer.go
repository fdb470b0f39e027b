package orders

import (
	"context"
	"fmt"
	"time"

	"signalbox/internal/cli"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/crew"
	"signalbox/internal/run/inspect/render"
)

// steerFlags are the flags and arguments of the commands that give words to agents.
type steerFlags struct {
	cli.BoxFlag
	cli.AnswerFlag
	Task  string       `arg:"" help:"The task, or PLAN/TASK if several plans have it."`
	Text  *string      `arg:"" optional:"" help:"The text, or - to read it from standard input. On a terminal, your editor opens without it."`
	Actor cli.NonEmpty `placeholder:"A" help:"Your name on the ledger. Default: SIGNALBOX_ACTOR, or else your user name."`
}

// order asks for the text and gives the order. decide returns the order as a command of the rules.
func (f *steerFlags) order(p *cli.Program, name, what string, decide func(id, text string) rules.Command, do func(context.Context, *box.Box, rules.Command) error) error {
	if err := p.OperatorOnly(name); err != nil {
		return err
	}
	text, err := p.RequireText(f.Text, cli.WantedText{Name: what, Missing: what + " is missing", Usage: fmt.Sprintf("signalbox %s %s TEXT", name, f.Task),
		About: func() (about string, err error) {
			err = p.WithReadOnlyBox(f.BoxFlag, func(ctx context.Context, b *box.Box) error {
				about, err = describeForEditor(ctx, b, f.Task, p.ProjectRoot(f.BoxFlag, b.Dir), func(id string) rules.Command { return decide(id, "text") })
				return err
			})
			return about, err
		}})
	if err != nil {
		return err
	}
	ctx := context.Background()
	return p.WithBox(ctx, f.BoxFlag, func(b *box.Box) error {
		id, err := cli.FindWork(b, f.Task)
		if err != nil {
			return err
		}
		return do(ctx, b, decide(id, text))
	})
}

// describeForEditor returns what is known about a task. It fails if the order would be refused.
func describeForEditor(ctx context.Context, b *box.Box, task, root string, order func(id string) rules.Command) (string, error) {
	id, err := cli.FindWork(b, task)
	if err != nil {
		return "", err
	}
	b.Engine.View(func(s *rules.State) { err = rules.Decide(s, time.Now(), order(id)).Err })
	if err != nil {
		return "", err
	}
	return render.AboutTask(ctx, b, root, id)
}

// print prints the answer to an order.
func (f *steerFlags) print(ctx context.Context, p *cli.Program, b *box.Box, order rules.OrderKind, a rules.Answer, done string) error {
	then := sequelOf(ctx, p, b)
	if f.JSON {
		return p.PrintJSON(ordered{Order: order, Work: &f.Task, Phase: a.Phase, Seq: a.Seq, Commit: a.Commit, Paused: a.Paused, Continue: then.command()}, "")
	}
	fmt.Fprintf(p.Out, "%s: %s%s\n", f.Task, done, render.StillWaits(f.Task, a))
	then.note(p)
	return nil // Main reports a write error
}

// The orders that give words to agents, as JSON answers name them.
const (
	orderReject rules.OrderKind = "reject"
	orderRework rules.OrderKind = "rework"
	orderTell   rules.OrderKind = "tell"
)

// rework sends the task back.
func (f *steerFlags) rework(p *cli.Program, order rules.OrderKind, what string) error {
	decide := func(id, text string) rules.Command {
		return rules.Rework{Work: id, Text: text, Actor: p.ActorOf(f.Actor), Reject: order == orderReject}
	}
	return f.order(p, string(order), what, decide, func(ctx context.Context, b *box.Box, c rules.Command) error {
		a, err := crew.Rework(ctx, b, c.(rules.Rework))
		if err != nil {
			return err
		}
		return f.print(ctx, p, b, order, a, render.SentBack(b, a))
	})
}

type RejectCommand struct{ steerFlags }

func (RejectCommand) Help() string {
	return `Rejects the merge of a task that waits for your approval: the task goes back to the developer with your reason, which comes first in its prompt. The critic and the auditor see it too, to check that it is done. For a task that does not wait for approval, use signalbox rework.

Without a text, your editor opens (VISUAL or EDITOR), with the change and the findings so far as comments.

Examples:

    signalbox reject T3 'the message must name the file'
    signalbox reject T3 - < review.txt
    signalbox reject T3`
}

func (c *RejectCommand) Run(p *cli.Program) error { return c.rework(p, orderReject, "the reason") }

type ReworkCommand struct{ steerFlags }

func (ReworkCommand) Help() string {
	return `Sends a task back to the developer with what you want, in whatever phase it is, as long as it is not merged. It comes first in the developer's prompt, before the findings of critics and auditors, until the developer has delivered work that passes its checks. Critics and auditors see it too. An agent that works on the task is stopped; what a developer has changed stays. Open questions about it are withdrawn, and earlier failures no longer count.

Without a text, your editor opens (VISUAL or EDITOR), with the findings so far as comments.

Examples:

    signalbox rework T3 'use the parser in internal/text instead of a new one'
    signalbox rework T3 - < notes.txt
    signalbox rework T3`
}

func (c *ReworkCommand) Run(p *cli.Program) error {
	return c.rework(p, orderRework, "what you want")
}

type TellCommand struct{ steerFlags }

func (TellCommand) Help() string {
	return `Gives words to the agent whose turn on a task is next, whatever its role, once. It moves nothing and stops nobody. An agent that is configured with interactive: true gets them at once while it works; others do not read while they work, so the next agent has them in its prompt. To have something changed, use signalbox rework.

Without a text, your editor opens (VISUAL or EDITOR).

Examples:

    signalbox tell T3 'the test database is at db.test:5432 today'
    signalbox tell T3 - < notes.txt`
}

func (c *TellCommand) Run(p *cli.Program) error {
	decide := func(id, text string) rules.Command {
		return rules.Tell{Work: id, Text: text, Actor: p.ActorOf(c.Actor)}
	}
	return c.order(p, string(orderTell), "the message", decide, func(ctx context.Context, b *box.Box, command rules.Command) error {
		a, err := crew.Tell(ctx, b, command.(rules.Tell))
		if err != nil {
			return err
		}
		return c.print(ctx, p, b, orderTell, a, render.Told(b, a))
	})
}
