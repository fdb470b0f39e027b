package looking

import (
	"context"
	"strings"
	"time"

	"signalbox/internal/cli"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/history"
	"signalbox/internal/run/inspect"
)

type ExplainCommand struct {
	cli.BoxFlag
	Task string `arg:"" help:"The task, or PLAN/TASK if several plans have it."`
	JSON bool   `name:"json" help:"Print one JSON object."`
}

func (ExplainCommand) Help() string {
	return `Shows where the time and the money of a task went: development, checks, each review and what it found, rework, attempts that came to nothing, and what the task waited for: you, a slot, a limit of its agents, other tasks, or a machine on which nothing ran. Each line names the event that shows it. If nobody works on the task, the last line says why.

The times add up to the whole time of the task, and the costs to what the cost page has. A cost that no program reported is "unknown".

Examples:

    signalbox explain T3
    signalbox explain T3 --json | jq '.parts'`
}

func (c *ExplainCommand) Run(p *cli.Program) error {
	return p.WithReadOnlyBox(c.BoxFlag, func(ctx context.Context, b *box.Box) error {
		var w *rules.Work
		var err error
		b.Engine.View(func(s *rules.State) { w, err = inspect.FindWork(s, c.Task) })
		if err != nil {
			return err
		}
		x, err := new(history.Reader).Of(ctx, b, w, time.Now())
		if err != nil {
			return err
		}
		if c.JSON {
			return p.PrintJSON(x, "")
		}
		return printLines(p, x.Lines)
	})
}

type StatsCommand struct {
	cli.BoxFlag
	JSON bool `name:"json" help:"Print one JSON object."`
}

func (StatsCommand) Help() string {
	return `Shows what the ledger has learned about each agent, model and role: how often its work passed the first review, how many reviews it took, what it cost, and for critics and auditors how many of their findings were accepted, waived by you, or escaped: were found by others in work that they had passed. It is advice: nothing chooses an agent by it.

The last lines say what the next task will take, and how often such a range was right for the tasks before. signalbox run --dry-run uses them.

Examples:

    signalbox stats
    signalbox stats --json | jq '.agents[] | select(.role == "developer")'`
}

func (c *StatsCommand) Run(p *cli.Program) error {
	return p.WithLedger(c.BoxFlag, func(ctx context.Context, l *box.Ledger) error {
		head, err := l.Journal.Head(ctx)
		if err != nil {
			return err
		}
		st, err := new(history.Reader).Stats(ctx, l.Journal, head)
		if err != nil {
			return err
		}
		if c.JSON {
			return p.PrintJSON(st, "")
		}
		return printLines(p, st.Lines)
	})
}

func printLines(p *cli.Program, lines func(history.Options) []string) error {
	o := p.RenderOptions()
	_, err := p.Styled(p.Colors(p.Stdout)).Write([]byte(strings.Join(
		lines(history.Options{Width: o.Width, Paint: o.Paint, Zone: o.Zone}), "\n") + "\n"))
	return err
}
