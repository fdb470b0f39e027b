package byhand

import (
	"context"
	"fmt"
	"time"

	"signalbox/internal/cli"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/agentsocket"
	"signalbox/internal/run/inspect"
	"signalbox/internal/run/inspect/render"
	"signalbox/internal/run/questions"
	"signalbox/internal/show"
)

type workListCommand struct {
	cli.BoxFlag
	JSON bool `name:"json" help:"Print a JSON array."`
}

func (workListCommand) Help() string {
	return `Lists all work items in the order in which they were opened, with phase, holder, expiry of the lease, and title.

Examples:

    signalbox work list
    signalbox work list --json`
}

type workShowCommand struct {
	cli.BoxFlag
	ID   string `arg:"" help:"The work item."`
	JSON bool   `name:"json" help:"Print one JSON object."`
}

func (workShowCommand) Help() string {
	return `Shows a work item: its phase, why it is blocked, who holds it, and all sessions that held it. It also shows the findings that must be fixed, and the checks that failed with the end of their output. For a task of a plan it shows the open questions, the agents, what they cost, the results of all checks, the branch and the commit too. signalbox logs shows what the agents wrote, and signalbox diff what they changed.

Examples:

    signalbox work show task-1
    signalbox work show task-1 --json`
}

func (c *workListCommand) Run(p *cli.Program) error {
	return p.WithReadOnlyBox(c.BoxFlag, func(_ context.Context, b *box.Box) error {
		list, now := []rules.WorkView{}, time.Now()
		b.Engine.View(func(s *rules.State) {
			for w := range s.Works() {
				list = append(list, w.View(now))
			}
		})
		if c.JSON {
			return p.PrintJSON(list, "")
		}
		if len(list) == 0 {
			p.Notef("there is no work yet; add a work item with signalbox work open")
			return nil
		}
		return printWorkList(p, list)
	})
}

func printWorkList(p *cli.Program, list []rules.WorkView) error {
	rows := [][]string{{"WORK", "PHASE", "HELD BY", "UNTIL", "TITLE"}}
	for _, w := range list {
		holder, until := "-", "-"
		if w.Lease != nil {
			holder = string(w.Lease.Role) + " " + w.Lease.Session
			until = w.Lease.Expires.Local().Format(time.DateTime)
		}
		phase := string(w.Phase)
		if w.BlockedFrom != nil {
			phase += " from " + string(*w.BlockedFrom)
		}
		rows = append(rows, []string{w.ID, phase, holder, until, show.OnScreen(w.Title)})
	}
	width := p.RenderOptions().Width
	lines := show.Table(rows, width)
	for i, line := range lines {
		if width > 0 { // ids and phases alone can be too long
			lines[i] = show.Cut(line, width)
		}
	}
	return printLines(p, lines)
}

func printLines(p *cli.Program, lines []string) error {
	for _, line := range lines {
		fmt.Fprintln(p.Out, line)
	}
	return nil // Main reports a write error
}

func (c *workShowCommand) Run(p *cli.Program) error {
	if p.Socket() != "" {
		return c.askRun(p)
	}
	return p.WithReadOnlyBox(c.BoxFlag, func(ctx context.Context, b *box.Box) error {
		var w *rules.Work
		var err error
		b.Engine.View(func(s *rules.State) { w, err = s.Find(c.ID) })
		if err != nil {
			return err
		}
		details, err := inspect.ReadDetails(ctx, b, w, time.Now())
		if err != nil {
			return err
		}
		if c.JSON {
			return p.PrintJSON(details, "")
		}
		return render.Details(p.Out, &details, p.RenderOptions())
	})
}

// askRun shows the work item of an agent of a run, which asks the run for it.
func (c *workShowCommand) askRun(p *cli.Program) error {
	request := p.SocketRequest(agentsocket.CallShow, p.Getenv(cli.SessionVariable), 0)
	request.Work = c.ID
	var details questions.WorkDetails
	if err := agentsocket.Invoke(context.Background(), p.Socket(), request, &details); err != nil {
		return err
	}
	if c.JSON {
		return p.PrintJSON(details, "")
	}
	return printWorkItem(p, details)
}

// printWorkItem prints what an agent may know of a work item.
func printWorkItem(p *cli.Program, w questions.WorkDetails) error {
	details := inspect.NewDetails(w)
	return render.Details(p.Out, &details, p.RenderOptions())
}
