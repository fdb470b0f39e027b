package main

import (
	"context"
	"fmt"

	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/inspect/render"
	"signalbox/internal/run/steer"
)

// steerFlags are the flags and arguments of the commands that give words to agents.
type steerFlags struct {
	boxFlag
	answerFlag
	Task  string   `arg:"" help:"The task, or PLAN/TASK if several plans have it."`
	Text  *string  `arg:"" optional:"" help:"The text, or - to read it from standard input. On a terminal, your editor opens without it."`
	Actor nonEmpty `placeholder:"A" help:"Your name on the ledger. Default: SIGNALBOX_ACTOR, or else your user name."`
}

// decide asks for the text and carries out the decision. name is what the text is called, and done returns what the answer means.
func (f *steerFlags) decide(p *program, what rules.OrderKind, name string, done func(*box.Box, rules.Answer) string) error {
	if err := p.operatorOnly(string(what)); err != nil {
		return err
	}
	decision := steer.Decision{What: what, Actor: p.actor(f.Actor)}
	text, err := p.requireText(f.Text, wantedText{name: name, missing: name + " is missing", usage: fmt.Sprintf("signalbox %s %s TEXT", what, f.Task),
		about: func() (about string, err error) {
			err = p.withReadOnlyBox(f.boxFlag, func(ctx context.Context, b *box.Box) error {
				if decision.Work, err = findWork(b, f.Task); err != nil {
					return err
				}
				if err := decision.Refused(b); err != nil {
					return err
				}
				about, err = render.AboutTask(ctx, b, p.projectRoot(f.boxFlag, b.Dir), decision.Work)
				return err
			})
			return about, err
		}})
	if err != nil {
		return err
	}
	do := func(ctx context.Context, b *box.Box, id string) (rules.Answer, error) {
		decision.Work, decision.Text = id, text
		return decision.Do(ctx, b)
	}
	return p.doWorkIn(f.boxFlag, f.Task, do, func(b *box.Box, a rules.Answer) error {
		then := p.sequelOf(context.Background(), b)
		if f.JSON {
			return p.printJSON(ordered{Order: what, Work: &f.Task, Phase: a.Phase, Seq: a.Seq, Commit: a.Commit, Paused: a.Paused, Continue: then.command()}, "")
		}
		fmt.Fprintf(p.out, "%s: %s%s\n", f.Task, done(b, a), render.StillWaits(f.Task, a))
		then.note(p)
		return nil // run reports a write error
	})
}

type rejectCommand struct{ steerFlags }

func (rejectCommand) Help() string {
	return `Rejects the merge of a task that waits for your approval: the task goes back to the developer with your reason, which comes first in its prompt. The critic and the auditor see it too, to check that it is done. For a task that does not wait for approval, use signalbox rework.

Without a text, your editor opens (VISUAL or EDITOR), with the change and the findings so far as comments.

Examples:

    signalbox reject T3 'the message must name the file'
    signalbox reject T3 - < review.txt
    signalbox reject T3`
}

func (c *rejectCommand) Run(p *program) error {
	return c.decide(p, steer.Reject, "the reason", render.SentBack)
}

type reworkCommand struct{ steerFlags }

func (reworkCommand) Help() string {
	return `Sends a task back to the developer with what you want, in whatever phase it is, as long as it is not merged. It comes first in the developer's prompt, before the findings of critics and auditors, until the developer has delivered work that passes its checks. Critics and auditors see it too. An agent that works on the task is stopped; what a developer has changed stays. Open questions about it are withdrawn, and earlier failures no longer count.

Without a text, your editor opens (VISUAL or EDITOR), with the findings so far as comments.

Examples:

    signalbox rework T3 'use the parser in internal/text instead of a new one'
    signalbox rework T3 - < notes.txt
    signalbox rework T3`
}

func (c *reworkCommand) Run(p *program) error {
	return c.decide(p, steer.Rework, "what you want", render.SentBack)
}

type tellCommand struct{ steerFlags }

func (tellCommand) Help() string {
	return `Gives words to the agent whose turn on a task is next, whatever its role, once. It moves nothing and stops nobody. An agent that is configured with interactive: true gets them at once while it works; others do not read while they work, so the next agent has them in its prompt. To have something changed, use signalbox rework.

Without a text, your editor opens (VISUAL or EDITOR).

Examples:

    signalbox tell T3 'the test database is at db.test:5432 today'
    signalbox tell T3 - < notes.txt`
}

func (c *tellCommand) Run(p *program) error {
	return c.decide(p, steer.Tell, "the message", render.Told)
}
