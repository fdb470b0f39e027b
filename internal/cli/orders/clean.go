package orders

import (
	"context"
	"fmt"
	"path/filepath"

	"signalbox"
	"signalbox/internal/cli"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/agent"
	"signalbox/internal/run/workspace"
	"signalbox/internal/text"
)

type CleanCommand struct {
	cli.BoxFlag
	Yes bool `short:"y" help:"Do not ask."`
}

func (CleanCommand) Help() string {
	return `Removes the worktrees and branches of tasks that you cancelled or removed from the plan. It lists them, and asks first. What was not merged stays in git, with changes that were not committed, but without files that git ignores: the command prints the ref, and how to get the work back. If you retry such a task, it starts again from the base.

It is safe during a run: a task that somebody works on is left out.

Examples:

    signalbox clean
    signalbox clean --yes
    git for-each-ref refs/signalbox/left/`
}

func (c *CleanCommand) Run(p *cli.Program) error {
	if err := p.OperatorOnly("clean"); err != nil {
		return err
	}
	return p.WithReadOnlyBox(c.BoxFlag, func(ctx context.Context, b *box.Box) error {
		if b.Config.Workspace.Shared() {
			return signalbox.CodeUsage.Errorf("there is nothing to remove",
				"all tasks work in one folder, so none has a worktree")
		}
		repo, err := workspace.Reopen(ctx, p.ProjectRoot(c.BoxFlag, b.Dir),
			filepath.Join(b.Dir, workspace.TreesFolder), b.Config.Deliver.Target)
		if err != nil {
			return err
		}
		tasks, err := repo.Tasks(ctx)
		if err != nil {
			return err
		}
		var ended []string
		for _, task := range tasks {
			if hasEnded(b, task) {
				ended = append(ended, task)
			}
		}
		if len(ended) == 0 {
			fmt.Fprintln(p.Out, "no ended task has a worktree or a branch")
			return nil
		}
		for _, task := range ended {
			fmt.Fprintf(p.Out, "%s  %s, branch %s\n", task, repo.TreeDir(task),
				workspace.Branch(task))
		}
		p.Out.Flush()
		if !c.Yes {
			yes, err := p.Confirm("Remove "+text.Count(len(ended), "worktree")+
				", and keep what was not merged?", "add --yes")
			if !yes || err != nil {
				return err
			}
		}
		return clean(ctx, p, b, repo, ended)
	})
}

// hasEnded reports whether a task was cancelled or removed from the plan, and no agent works on it.
func hasEnded(b *box.Box, task string) (ended bool) {
	b.Engine.View(func(s *rules.State) {
		w, known := s.Work(task)
		ended = known && w.Task != nil && w.Task.Cancelled != "" && w.Lease == nil
	})
	return ended
}

// clean removes what tasks have here. One that cannot be saved stays.
func clean(ctx context.Context, p *cli.Program, b *box.Box, repo *workspace.Repo,
	tasks []string) error {
	for _, task := range tasks {
		lock, err := agent.TryLockWork(b.Dir, task)
		if err != nil {
			return err
		}
		if lock == nil {
			p.Warnf("%s stays, because a process works on it", task)
			continue
		}
		if err = b.Engine.Refresh(ctx); err == nil && hasEnded(b, task) {
			err = retire(ctx, p, repo, task)
		}
		lock.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

func retire(ctx context.Context, p *cli.Program, repo *workspace.Repo, task string) error {
	ref, err := repo.Retire(ctx, task)
	switch {
	case workspace.NeedsAgent(err):
		p.Warnf("%s stays, because it cannot be saved: %s", task, workspace.Explain(err))
		return nil
	case err != nil:
		return err
	case ref == "":
		fmt.Fprintf(p.Out, "%s  removed\n", task)
	default:
		fmt.Fprintf(p.Out, "%s  removed; get it back with: git branch %s %s\n", task, task, ref)
	}
	return nil
}
