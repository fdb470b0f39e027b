package orders

import (
	"context"
	"fmt"

	"signalbox/internal/cli"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/steer"
	"signalbox/internal/text"
)

type AddCommand struct {
	cli.BoxFlag
	cli.AnswerFlag
	Text      *string      `arg:"" optional:"" help:"What to do, or - to read it from standard input. On a terminal, your editor opens without it."`
	Title     string       `placeholder:"TEXT" help:"The title of the task. Default: the beginning of the text."`
	Review    string       `placeholder:"R" help:"Who judges the work besides your checks: full (critic and auditor, the default), critic, or checks (neither)."`
	BlockedBy []string     `placeholder:"T,T" help:"The tasks that must be completed first: the id, or PLAN/TASK if several plans have it."`
	Actor     cli.NonEmpty `placeholder:"A" help:"Your name on the ledger. Default: SIGNALBOX_ACTOR, or else your user name."`
}

func (AddCommand) Help() string {
	return `Adds a task to what the box works on. The text is its only acceptance criterion. A run that is active takes the task up; otherwise the answer names the command that starts one. A box without a plan gets one for such tasks, and signalbox run, without a file, works on it.

The task gets the id A-1, A-2, and so on, and is like any other task: it shows in status, and approve, rework, tell, pause and cancel know it. It is kept on the ledger, not written into the file of the plan. Loading that file again, or another plan, leaves the task as it is; signalbox cancel gives it up.

Without a text, your editor opens (VISUAL or EDITOR).

Examples:

    signalbox add 'fix the typo in README'
    signalbox add 'fix the typo in README' --review checks
    signalbox add 'describe --json in the manual' --blocked-by T3
    signalbox add - --title 'Handle empty input' < issue.txt
    signalbox add 'fix the typo in README' && signalbox run`
}

func (c *AddCommand) Run(p *cli.Program) error {
	if err := p.OperatorOnly("add a task"); err != nil {
		return err
	}
	words, err := p.RequireText(c.Text, cli.WantedText{Name: "the task",
		Missing: "the text of the task is missing", Usage: "signalbox add TEXT"})
	if err != nil {
		return err
	}
	ctx := context.Background()
	return p.WithBox(ctx, c.BoxFlag, func(b *box.Box) error {
		a, err := steer.NewTask{Text: words, Title: c.Title, Review: c.Review,
			BlockedBy: c.BlockedBy, Actor: p.ActorOf(c.Actor)}.Do(ctx, b)
		if err != nil {
			return err
		}
		then := sequelOf(ctx, p, b)
		if c.JSON {
			return p.PrintJSON(ordered{Order: steer.Add, Work: &a.Work, Phase: a.Phase, Seq: a.Seq,
				Continue: then.command()}, "")
		}
		var title string
		b.Engine.View(func(s *rules.State) {
			w, _ := s.Work(a.Work)
			title = text.OneLine(w.Title)
		})
		fmt.Fprintf(p.Out, "%s: added: %s\n", a.Work, title)
		then.note(p)
		return nil // Main reports a write error
	})
}
