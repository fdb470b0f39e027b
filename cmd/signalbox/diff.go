package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/crew"
	"signalbox/internal/run/inspect"
	"signalbox/internal/run/inspect/render"
	"signalbox/internal/run/workspace"
	"signalbox/internal/text"
)

type diffCommand struct {
	boxFlag
	pagerFlag
	Task    string `arg:"" help:"The task, or PLAN/TASK if several plans have it."`
	Stat    bool   `help:"List the files with the number of changed lines."`
	Working bool   `help:"Show what the agent has changed in its working copy and not saved yet."`
}

func (diffCommand) Help() string {
	return `Shows what would be merged: what the last saved commit of the task changes, compared with the commit of the base that it started from. For a merged task it shows what was merged. signalbox saves the work of an agent when its turn ends; --working shows what a running agent has changed since then.

On a terminal the text goes through the program that PAGER names, or less.

Examples:

    signalbox diff T1
    signalbox diff T1 --stat
    signalbox diff T1 --working`
}

func (c *diffCommand) Run(p *program) error {
	return p.withReadOnlyBox(c.boxFlag, func(ctx context.Context, b *box.Box) error {
		var w *rules.Work
		var err error
		base := ""
		b.Engine.View(func(s *rules.State) {
			w, err = s.Find(c.Task)
			base = s.Base()
		})
		switch {
		case err != nil:
			return err
		case b.Config.Workspace == config.WorkspaceShared:
			return &signalbox.Error{Code: signalbox.CodeFailed, Err: errors.New("all tasks work in one folder, so a task has no diff of its own"), Hint: "use git diff in the folder"}
		}
		details, err := inspect.ReadDetails(ctx, b, w, time.Now())
		if err != nil {
			return err
		}
		review, err := workspace.OpenReview(ctx, p.projectRoot(c.boxFlag, b.Dir), filepath.Join(b.Dir, crew.TreesFolder))
		if err != nil {
			return err
		}
		defer review.Close()
		d := taskDiff{c: c, p: p, review: review, details: &details, base: base}
		return d.show(ctx)
	})
}

// taskDiff shows the diff of a task.
type taskDiff struct {
	c       *diffCommand
	p       *program
	review  *workspace.Review
	details *inspect.Details
	base    string // the commit of the base, "" if it is not known
}

func (d *taskDiff) show(ctx context.Context) error {
	if d.c.Working {
		from, err := d.workingBase(ctx)
		if err != nil {
			return d.explain(err)
		}
		return d.print(func(w io.Writer, o workspace.DiffOptions) error {
			return d.review.DiffWorking(ctx, w, d.details.ID, from, o)
		})
	}
	from, to, err := d.commits(ctx)
	if err != nil {
		return err
	}
	d.noteUncommitted(ctx)
	return d.print(func(w io.Writer, o workspace.DiffOptions) error { return d.review.Diff(ctx, w, from, to, o) })
}

// print prints a diff through the pager.
func (d *taskDiff) print(diff func(io.Writer, workspace.DiffOptions) error) error {
	o := d.p.renderOptions()
	return d.p.page(d.c.pagerFlag, func(out io.Writer) error {
		w := render.NewDiff(out, o.Paint)
		if err := diff(w, workspace.DiffOptions{Stat: d.c.Stat, Width: o.Width}); err != nil {
			return err
		}
		if w.Empty() {
			d.p.notef("%s changes nothing", d.details.ID)
		}
		return w.Close()
	})
}

// commits returns the commits to compare.
func (d *taskDiff) commits(ctx context.Context) (from, to string, err error) {
	if m := d.details.Merged; m != nil && m.Commit != "" && m.Before != "" {
		return m.Before, m.Commit, nil
	}
	to = d.details.Commit
	if to == "" {
		return "", "", &signalbox.Error{Code: signalbox.CodeNotFound, Err: fmt.Errorf("nothing of %s is saved yet", d.details.ID),
			Hint: "signalbox diff " + d.details.ID + " --working shows what a running agent has changed"}
	}
	base, err := d.baseCommit(ctx)
	if err != nil {
		return "", "", err
	}
	from, err = d.review.MergeBase(ctx, base, to)
	return from, to, err
}

// baseCommit returns the commit of the base.
func (d *taskDiff) baseCommit(ctx context.Context) (string, error) {
	if d.base != "" {
		return d.base, nil
	}
	return d.review.Head(ctx)
}

// workingBase returns the commit that the working copy is compared with.
func (d *taskDiff) workingBase(ctx context.Context) (string, error) {
	if d.details.Commit != "" {
		return d.details.Commit, nil
	}
	head, err := d.review.TreeHead(ctx, d.details.ID)
	if err != nil {
		return "", err
	}
	base, err := d.baseCommit(ctx)
	if err != nil {
		return "", err
	}
	return d.review.MergeBase(ctx, base, head)
}

// noteUncommitted says that the diff does not have everything. It is best effort.
func (d *taskDiff) noteUncommitted(ctx context.Context) {
	files, err := d.review.Uncommitted(ctx, d.details.ID)
	if err != nil || len(files) == 0 {
		return
	}
	verb, whose := "are", ""
	if len(files) == 1 {
		verb = "is"
	}
	if t := d.details.Task; t != nil && t.Worker != nil {
		whose = "; " + text.WithArticle(t.Worker.Name()) + " is working on it"
	}
	d.p.notef("%s in the working copy of %s %s not saved%s: see signalbox diff %s --working", text.Count(len(files), "changed file"), d.details.ID, verb, whose, d.details.ID)
}

func (d *taskDiff) explain(err error) error {
	if errors.Is(err, workspace.ErrNoTree) {
		return &signalbox.Error{Code: signalbox.CodeNotFound, Err: fmt.Errorf("%s has no working copy on this machine", d.details.ID), Hint: "signalbox diff " + d.details.ID + " shows what was saved"}
	}
	return err
}
