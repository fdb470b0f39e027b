package running

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"signalbox"
	"signalbox/internal/cli"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/plan"
	"signalbox/internal/run/planload"
)

type planUpdateCommand struct {
	cli.BoxFlag
	File   string `arg:"" name:"plan" help:"The changed plan."`
	DryRun bool   `help:"Print what would change, and change nothing."`
	JSON   bool   `name:"json" help:"Print one JSON object."`
}

func (planUpdateCommand) Help() string {
	return `Loads a changed plan into the box, without working on it: a signalbox run or worker that is running continues with the new plan. It prints the tasks that are added, changed and removed, those in progress, and those whose new text is not used because they are completed.

The plan must have been run in this box before. The rules are those of running a changed plan; docs/reference/plans.md has them.

Examples:

    signalbox plan update plan.md --dry-run
    signalbox plan update plan.md
    signalbox plan update plan.md --json`
}

// planUpdated is the JSON answer.
type planUpdated struct {
	Plan    string   `json:"plan"`
	DryRun  bool     `json:"dry_run"`
	Added   []string `json:"added"`
	Changed []string `json:"changed"`
	Removed []string `json:"removed"`
	// Completed are the completed tasks that the plan now describes differently. They are not done
	// again.
	Completed []string `json:"completed"`
	// InWork are the changed or removed tasks that an agent, a check or a merge works on.
	InWork []taskInWork `json:"in_work"`
}

// taskInWork is a task that is worked on while its text changes.
type taskInWork struct {
	Task    string         `json:"task"`
	Role    signalbox.Role `json:"role"`
	Removed bool           `json:"removed"`
}

func (c *planUpdateCommand) Run(p *cli.Program) error {
	if err := p.OperatorOnly("change a plan"); err != nil {
		return err
	}
	p.Quiet = c.JSON
	text, err := p.ReadAll(&c.File, maxPlan)
	if err != nil {
		return err
	}
	ctx, stop := cli.UntilInterrupted()
	defer stop()
	if c.DryRun {
		return cli.WithOpened(ctx, p, c.BoxFlag, box.OpenReadOnly, p.WorkOptions(c.BoxFlag),
			func(b *box.Box) error { return c.update(ctx, p, b, text) })
	}
	return p.WithBox(ctx, c.BoxFlag, func(b *box.Box) error { return c.update(ctx, p, b, text) })
}

// update tries the change out on a copy of the box, and then carries it out.
func (c *planUpdateCommand) update(ctx context.Context, p *cli.Program, b *box.Box,
	text []byte) error {
	parsed, err := plan.Parse(c.File, text, &plan.Options{Drafts: b.Config.Analyst()})
	if err != nil {
		return planError(p, err)
	}
	root := p.ProjectRoot(c.BoxFlag, b.Dir)
	load := planload.Options{Actor: p.ActorOf(""), Shared: b.Config.Workspace.Shared()}
	load.Identify(parsed, c.File, root)
	tried, err := b.Fork(ctx)
	if err != nil {
		return err
	}
	defer tried.Close()
	change, err := planload.Load(ctx, tried, parsed, text, load)
	switch {
	case errors.Is(err, rules.ErrPlanFinished):
		return &signalbox.Error{Code: signalbox.CodeConflict, Err: err,
			Hint: "run it with signalbox run --new-plan or --same-plan"}
	case err != nil:
		return err
	case change.New:
		return signalbox.CodeNotFound.Errorf("start it with signalbox run "+c.File,
			"%s was never run in this box", filepath.Base(c.File))
	}
	// as it is before the change
	answer := planUpdated{Plan: change.ID, DryRun: c.DryRun, InWork: inWork(b, change)}
	if !c.DryRun {
		if change, err = planload.Load(ctx, b, parsed, text, load); err != nil {
			return err
		}
	}
	answer.Added, answer.Changed, answer.Removed, answer.Completed = orEmpty(change.Added),
		orEmpty(change.Changed), orEmpty(change.Removed), orEmpty(change.Stale)
	if c.JSON {
		return p.PrintJSON(answer, "")
	}
	return answer.print(p)
}

// orEmpty returns a list that is not null in JSON.
func orEmpty(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

// inWork returns which of the tasks that change are worked on.
func inWork(b *box.Box, change rules.PlanChange) []taskInWork {
	found := []taskInWork{}
	b.Engine.View(func(s *rules.State) {
		add := func(ids []string, removed bool) {
			for _, id := range ids {
				if w, known := s.Work(id); known && w.Lease != nil {
					found = append(found, taskInWork{id, w.Lease.Role, removed})
				}
			}
		}
		add(change.Changed, false)
		add(change.Removed, true)
	})
	return found
}

func (u *planUpdated) print(p *cli.Program) error {
	if len(u.Added)+len(u.Changed)+len(u.Removed)+len(u.Completed) == 0 {
		_, err := fmt.Fprintf(p.Out, "plan %s has not changed\n", u.Plan)
		return err
	}
	for _, part := range []struct {
		what string
		ids  []string
	}{{"added", u.Added}, {"changed", u.Changed}, {"removed", u.Removed}, {"completed, so its new text is not used; add a new task instead", u.Completed}} {
		for _, id := range part.ids {
			fmt.Fprintf(p.Out, "%s: %s\n", id, part.what)
		}
	}
	for _, t := range u.InWork {
		switch {
		case t.Removed:
			fmt.Fprintf(p.Out, "%s: in progress; its %s is stopped\n", t.Task, t.Role)
		case t.Role == signalbox.RoleDeveloper:
			fmt.Fprintf(p.Out, "%s: in progress; its developer finishes with the old text\n",
				t.Task)
		default:
			fmt.Fprintf(p.Out, "%s: in progress; if its text has changed, its %s is stopped and a developer starts again\n", t.Task, t.Role)
		}
	}
	if u.DryRun {
		p.Notef("nothing was changed; run it without --dry-run")
	}
	return nil // Main reports a write error
}
