package orders

import (
	"context"
	"fmt"

	"signalbox"
	"signalbox/internal/cli"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/inspect/render"
	"signalbox/internal/run/steer"
	"signalbox/internal/text"
)

// steerFlags are the flags and arguments of the commands that give words to agents.
type steerFlags struct {
	cli.BoxFlag
	cli.AnswerFlag
	Task  string       `arg:"" help:"The task, or PLAN/TASK if several plans have it."`
	Text  *string      `arg:"" optional:"" help:"The text, or - to read it from standard input. On a terminal, your editor opens without it."`
	Actor cli.NonEmpty `placeholder:"A" help:"Your name on the ledger. Default: SIGNALBOX_ACTOR, or else your user name."`
}

// decide asks for the text and carries out the decision. name is what the text is called, and done
// returns what the answer means.
func (f *steerFlags) decide(p *cli.Program, decision steer.Decision, name string,
	done func(*box.Box, rules.Answer) string) error {
	what := decision.What
	if err := p.OperatorOnly(string(what)); err != nil {
		return err
	}
	decision.Actor = p.ActorOf(f.Actor)
	about := f.Task
	if decision.Finding != "" {
		about += "/" + decision.Finding
	}
	words, err := p.RequireText(f.Text, cli.WantedText{Name: name, Missing: name + " is missing",
		Usage: fmt.Sprintf("signalbox %s %s TEXT", what, about),
		About: func() (about string, err error) {
			err = p.WithReadOnlyBox(f.BoxFlag, func(ctx context.Context, b *box.Box) error {
				if decision.Work, err = cli.FindWork(b, f.Task); err != nil {
					return err
				}
				if err := decision.Refused(b); err != nil {
					return err
				}
				about, err = render.AboutTask(ctx, b, p.ProjectRoot(f.BoxFlag, b.Dir),
					decision.Work)
				return err
			})
			return about, err
		}})
	if err != nil {
		return err
	}
	do := func(ctx context.Context, b *box.Box, id string) (rules.Answer, error) {
		decision.Work, decision.Text = id, words
		return decision.Do(ctx, b)
	}
	return cli.DoWork(p, f.BoxFlag, f.Task, do, func(b *box.Box, a rules.Answer) error {
		then := sequelOf(context.Background(), p, b)
		if f.JSON {
			return p.PrintJSON(ordered{Order: what, Work: &f.Task, Phase: a.Phase, Seq: a.Seq,
				Commit: a.Commit, Paused: a.Paused, Continue: then.command()}, "")
		}
		fmt.Fprintf(p.Out, "%s: %s%s\n", f.Task, done(b, a), render.StillWaits(f.Task, a))
		then.note(p)
		return nil // Main reports a write error
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

func (c *RejectCommand) Run(p *cli.Program) error {
	return c.decide(p, steer.Decision{What: steer.Reject}, "the reason", render.SentBack)
}

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
	return c.decide(p, steer.Decision{What: steer.Rework}, "what you want", render.SentBack)
}

type TellCommand struct {
	steerFlags
	Role signalbox.Role `placeholder:"ROLE" help:"Whom the words are for, such as developer or critic. Default: whoever works on the task now, or else its developer."`
	Now  bool           `help:"Interrupt the agent at work, if it has that role. It reads the words and continues."`
}

func (TellCommand) Help() string {
	return `Gives words to whoever works on a task now, or else to its developer, or to the role that you name, once. It moves nothing, and stops no agent without --now. An agent that is configured with interactive: true gets them at once while it works; others do not read while they work, so the next agent of the role has them in its prompt. With --now the agent at work is interrupted, if it has that role: a developer continues its conversation with your words, a reviewer starts again with them. To have something changed, use signalbox rework.

Without a text, your editor opens (VISUAL or EDITOR).

Examples:

    signalbox tell T3 'the test database is at db.test:5432 today'
    signalbox tell T3 --now 'stop: the schema has changed, read it again'
    signalbox tell T3 --role critic 'the deprecated call is allowed here'
    signalbox tell T3 - < notes.txt`
}

func (c *TellCommand) Run(p *cli.Program) error {
	return c.decide(p, steer.Decision{What: steer.Tell, Role: c.Role, Now: c.Now}, "the message", render.Told)
}

type WaiveCommand struct{ steerFlags }

func (WaiveCommand) Help() string {
	return `Says that a finding may stay: it no longer keeps its task from passing. The reason is recorded with your name, reviewers are told not to raise it again, and work that came back unchanged is reviewed again. signalbox work show T3 lists the findings of a task. Notes keep nothing from passing, so they cannot be waived.

Without a text, your editor opens (VISUAL or EDITOR).

Examples:

    signalbox waive T3/F2 'the old name stays until version 2'
    signalbox waive T3/F2`
}

func (c *WaiveCommand) Run(p *cli.Program) error {
	task, finding, ok := cli.CutFinding(c.Task)
	if !ok {
		return signalbox.CodeUsage.Errorf("name the task and its finding: signalbox waive T3/F2 TEXT",
			"'%s' does not name a finding", text.Printable(text.Shorten(c.Task, 100)))
	}
	c.Task = task
	return c.decide(p, steer.Decision{What: steer.Waive, Finding: finding}, "the reason",
		func(*box.Box, rules.Answer) string { return finding + " is waived" })
}
