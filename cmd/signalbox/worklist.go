package main

import (
	"context"
	"fmt"
	"time"

	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/agentsocket"
	"signalbox/internal/run/inspect"
	"signalbox/internal/run/inspect/render"
	"signalbox/internal/run/questions"
	"signalbox/internal/run/show"
)

type workListCommand struct {
	boxFlag
	JSON bool `name:"json" help:"Print a JSON array."`
}

func (workListCommand) Help() string {
	return `Lists all work items in the order in which they were opened, with phase, holder, expiry of the lease, and title.

Examples:

    signalbox work list
    signalbox work list --json`
}

type workShowCommand struct {
	boxFlag
	ID   string `arg:"" help:"The work item."`
	JSON bool   `name:"json" help:"Print one JSON object."`
}

func (workShowCommand) Help() string {
	return `Shows a work item: its phase, why it is blocked, who holds it, and all sessions that held it. It also shows the findings that must be fixed, and the checks that failed with the end of their output. For a task of a plan it shows the open questions, the agents, what they cost, the results of all checks, the branch and the commit too. signalbox logs shows what the agents wrote, and signalbox diff what they changed.

Examples:

    signalbox work show task-1
    signalbox work show task-1 --json`
}

func (c *workListCommand) Run(p *program) error {
	return p.withReadOnlyBox(c.boxFlag, func(_ context.Context, b *box.Box) error {
		list, now := []rules.WorkView{}, time.Now()
		b.Engine.View(func(s *rules.State) {
			for w := range s.Works() {
				list = append(list, w.View(now))
			}
		})
		if c.JSON {
			return p.printJSON(list, "")
		}
		if len(list) == 0 {
			p.notef("there is no work yet; add a work item with signalbox work open")
			return nil
		}
		return p.printWorkList(list)
	})
}

func (p *program) printWorkList(list []rules.WorkView) error {
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
	width := p.renderOptions().Width
	lines := show.Table(rows, width)
	for i, line := range lines {
		if width > 0 { // ids and phases alone can be too long
			lines[i] = show.Cut(line, width)
		}
	}
	return p.printLines(lines)
}

func (p *program) printLines(lines []string) error {
	for _, line := range lines {
		fmt.Fprintln(p.out, line)
	}
	return nil // run reports a write error
}

func (c *workShowCommand) Run(p *program) error {
	if p.socket() != "" {
		return c.askRun(p)
	}
	return p.withReadOnlyBox(c.boxFlag, func(ctx context.Context, b *box.Box) error {
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
			return p.printJSON(details, "")
		}
		return render.Details(p.out, &details, p.renderOptions())
	})
}

// askRun shows the work item of an agent of a run, which asks the run for it.
func (c *workShowCommand) askRun(p *program) error {
	request := p.request(agentsocket.CallShow, p.getenv(sessionVariable), 0)
	request.Work = c.ID
	var details questions.WorkDetails
	if err := agentsocket.Invoke(context.Background(), p.socket(), request, &details); err != nil {
		return err
	}
	if c.JSON {
		return p.printJSON(details, "")
	}
	return p.printWorkItem(details)
}

// printWorkItem prints what an agent may know of a work item.
func (p *program) printWorkItem(w questions.WorkDetails) error {
	details := inspect.NewDetails(w)
	return render.Details(p.out, &details, p.renderOptions())
}
