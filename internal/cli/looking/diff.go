package looking

import (
	"context"
	"io"

	"signalbox/internal/cli"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/inspect"
	"signalbox/internal/run/inspect/render"
	"signalbox/internal/run/workspace"
)

type DiffCommand struct {
	cli.BoxFlag
	cli.PagerFlag
	Task    string `arg:"" help:"The task, or PLAN/TASK if several plans have it."`
	Stat    bool   `help:"List the files with the number of changed lines."`
	Working bool   `help:"Show what the agent has changed in its working copy and not saved yet."`
}

func (DiffCommand) Help() string {
	return `Shows what would be merged: what the last saved commit of the task changes, compared with the commit of the base that it started from. For a merged task it shows what was merged. Changes of files that steer agents, such as CLAUDE.md and .claude, come first. signalbox saves the work of an agent when its turn ends; --working shows what a running agent has changed since then.

On a terminal the text goes through the program that PAGER names, or less.

Examples:

    signalbox diff T1
    signalbox diff T1 --stat
    signalbox diff T1 --working`
}

func (c *DiffCommand) Run(p *cli.Program) error {
	return p.WithReadOnlyBox(c.BoxFlag, func(ctx context.Context, b *box.Box) error {
		var w *rules.Work
		var err error
		b.Engine.View(func(s *rules.State) { w, err = s.Find(c.Task) })
		if err != nil {
			return err
		}
		d, err := inspect.OpenDiff(ctx, b, p.ProjectRoot(c.BoxFlag, b.Dir), w, c.Working)
		if err != nil {
			return err
		}
		defer d.Close()
		if note := d.NotSaved(ctx); note != "" {
			p.Notef("%s", note)
		}
		hidden, err := d.Hidden(ctx)
		if err != nil {
			return err
		}
		o := p.RenderOptions()
		return p.Page(c.PagerFlag, func(out io.Writer) error {
			if hidden != "" {
				if _, err := io.WriteString(out, o.Paint.Warn("warning: "+hidden)+
					"\n\n"); err != nil {
					return err
				}
			}
			printed := render.NewDiff(out, o.Paint)
			if err := d.Print(ctx, printed,
				workspace.DiffOptions{Stat: c.Stat, Width: o.Width}); err != nil {
				return err
			}
			if printed.Empty() {
				p.Notef("%s", d.Empty())
			}
			return printed.Close()
		})
	})
}
