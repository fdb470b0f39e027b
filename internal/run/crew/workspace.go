package crew

import (
	"context"
	"errors"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/workspace"
)

// sessionWorkspace is the folder that a session works in.
type sessionWorkspace struct {
	dir string
	// cleanupNote tells the agent what a previous agent left that only an agent can clean up, or "".
	cleanupNote string
	// save commits what an author changed, and returns the commit; "" if the workspace has no branch.
	save  func(ctx context.Context, message string) (string, error)
	close func() error
	// commit is what the task's own branch has when the session starts; "" if it has none, if the base was merged into it just now, or if the last author worked
	// on another machine.
	commit string
	// tooLarge reports that a previous agent left it larger than limits.tree.
	tooLarge bool
}

// newWorkspace returns a workspace whose changes are not saved.
func newWorkspace(dir string) *sessionWorkspace {
	return &sessionWorkspace{dir: dir, save: func(context.Context, string) (string, error) { return "", nil }, close: func() error { return nil }}
}

// openWorkspace opens the folder for the session's role. The caller closes it.
func (s *session) openWorkspace(ctx context.Context) (*sessionWorkspace, error) {
	if s.crew.project.Repo == nil {
		return newWorkspace(s.crew.project.Root), nil
	}
	switch s.role {
	case signalbox.RoleDeveloper, signalbox.RoleRemediation:
		return s.openAuthorWorkspace(ctx)
	case signalbox.RoleExpert, signalbox.RoleExpertCreator, signalbox.RoleBusinessAnalyst:
		return s.openAdvisorWorkspace(ctx)
	}
	return s.openReviewWorkspace(ctx)
}

// openAuthorWorkspace opens the task's own worktree and merges the base branch into it.
func (s *session) openAuthorWorkspace(ctx context.Context) (*sessionWorkspace, error) {
	task := s.workItem().Task
	first := task.Starts[s.role] == 0 && task.Conflict == nil
	tree, here, err := s.openTree(ctx, first)
	if err != nil {
		return nil, err
	}
	ws := newWorkspace(tree.Dir)
	ws.save = s.limitSize(tree.Dir, func(ctx context.Context, message string) (string, error) {
		commit, _, err := tree.Save(ctx, message)
		return commit, err
	})
	if first {
		err = s.startStacked(ctx, tree)
	} else {
		// Uncommitted changes of an agent that was ended would block the merge of the base branch.
		tip := ""
		if tip, err = ws.save(ctx, s.work+": changes of an interrupted agent"); err == nil {
			err = s.mergeBase(ctx, tree, tip)
		}
		if head, headErr := tree.Commit(ctx); err == nil && headErr == nil && head == tip && here {
			ws.commit = tip
		}
	}
	ws.tooLarge = errors.Is(err, errTooLarge)
	if workspace.NeedsAgent(err) {
		ws.cleanupNote, err = "A previous agent left the folder in a state that you must clean up first: "+detail(err)+".", nil
	}
	if err == nil {
		err = s.setupWorkspace(ctx, ws, tree)
	}
	if err != nil {
		return nil, err
	}
	return ws, nil
}

// startStacked puts a new worktree on the work that it builds on, if that is not on the base branch.
func (s *session) startStacked(ctx context.Context, tree *workspace.Tree) error {
	base := s.crew.knownBase()
	start, err := s.crew.startOf(ctx, s.work, base)
	if err != nil || start == base {
		return err
	}
	conflict, err := tree.Refresh(ctx, start)
	if conflict != nil { // it has nothing of its own yet
		err = conflict
	}
	return err
}

// openReviewWorkspace checks out the commit that passed the checks. The author's worktree is not used, because its files, and
// what the author told git about them, may differ from what will be merged.
func (s *session) openReviewWorkspace(ctx context.Context) (*sessionWorkspace, error) {
	commit := s.workItem().Task.Commit
	if commit == "" {
		return nil, errNoCommit
	}
	if err := s.crew.obtain(ctx, s.work, commit); err != nil {
		return nil, err
	}
	return s.openScratch(ctx, commit)
}

// errNoCommit is permanent: the branch must not be reviewed or merged instead, because its content is not known.
var errNoCommit = &signalbox.Error{Code: signalbox.CodeUsage, Err: errors.New("the work was checked in a shared folder, so there is no commit to review or merge"),
	Hint: "set workspace: shared again until it is completed, or change its text in the plan, which starts it again"}

// openAdvisorWorkspace checks out what the asking task has committed, or else the base branch.
func (s *session) openAdvisorWorkspace(ctx context.Context) (*sessionWorkspace, error) {
	c := s.crew
	commit, err := "", error(nil)
	if asker := s.workItem().Task.Asker; asker != "" {
		commit, err = c.committed(ctx, asker)
	}
	switch {
	case err == nil && commit == "" && c.transport == nil:
		commit, err = c.project.Repo.BaseCommit(ctx)
	case err == nil && commit == "":
		commit, err = c.base(ctx)
	}
	if err != nil {
		return nil, err
	}
	return s.openScratch(ctx, commit)
}

// committed returns what a task has committed, "" if it has nothing.
func (c *Crew) committed(ctx context.Context, work string) (commit string, err error) {
	if c.transport == nil {
		return c.project.Repo.BranchCommit(ctx, work)
	}
	var w *rules.Work
	c.box.Engine.View(func(s *rules.State) { w, _ = s.Work(work) })
	if w == nil || w.Task == nil {
		return "", nil
	}
	return c.latest(ctx, w)
}

func (s *session) openScratch(ctx context.Context, commit string) (*sessionWorkspace, error) {
	scratch, err := s.crew.project.Repo.OpenScratch(ctx, s.work, commit)
	if err != nil {
		return nil, err
	}
	ws := newWorkspace(scratch.Dir)
	ws.close = scratch.Close
	if err := s.setupWorkspace(ctx, ws, nil); err != nil {
		return nil, errors.Join(err, scratch.Close())
	}
	return ws, nil
}

// removeWorktree removes the worktree of completed work, and what its agents and checks have kept.
func (c *Crew) removeWorktree(ctx context.Context, work string) {
	if err := c.closeWork(ctx, work); err != nil {
		c.log.Warn("cannot remove the worktree of completed work", "work", work, "error", err)
	}
	if err := c.removeState(work); err != nil {
		c.log.Warn("cannot remove the files of agents of completed work", "work", work, "error", err)
	}
}

// closeWork removes the worktree of completed work, and its branch unless it was delivered there.
func (c *Crew) closeWork(ctx context.Context, work string) error {
	var d *rules.DeliveredTask
	c.box.Engine.View(func(s *rules.State) {
		if w, known := s.Work(work); known && w.Task != nil {
			d = w.Task.Delivered
		}
	})
	if d != nil && d.Request == "" {
		if err := c.obtain(ctx, work, d.Tip, d.Commit); err != nil {
			return err
		}
		return c.project.Repo.CloseDelivered(ctx, work, d.Tip, d.Commit)
	}
	return c.project.Repo.Close(ctx, work)
}
