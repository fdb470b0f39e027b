package crew

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/core/engine"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/workspace"
)

// If machines share the ledger, each has a clone of the repository, and a transport brings commits from one clone to the others. Two rules make that
// enough:
//
//   - A commit is published before the ledger names it. So every commit that the ledger names can be obtained.
//   - The ledger says where the base is, and each machine makes its own base branch follow (see sync). A merge is recorded first.

// transport brings commits to the clones of other machines.
type transport interface {
	// publish makes a commit, and everything that it needs, available to the other machines. It belongs to a task, or to the base if work is "". When it
	// returns nil, other machines can obtain the commit, even if this one is gone. It may be repeated, and called concurrently.
	publish(ctx context.Context, work, commit string) error
	// obtain gets a commit that is not in this clone. It may be called concurrently.
	obtain(ctx context.Context, work, commit string) error
	// base returns the base branch of the machines that have published it, and a commit of it; "" if none has.
	base(ctx context.Context) (branch, commit string, err error)
	// repair restores what other machines cannot obtain, with what is in this clone.
	repair(ctx context.Context) error
	// tidy removes what completed tasks have published and no machine needs any more.
	tidy(ctx context.Context) error
}

// findTransport sets the transport, if machines share the ledger, and publishes what the ledger names and no machine has published yet: the ledger may have come
// from a box of this machine alone.
func (c *Crew) findTransport(ctx context.Context) error {
	repo := c.project.Repo
	if repo == nil || !c.opts.machines && !c.box.Config.ManyMachines() {
		return nil
	}
	if err := c.box.Engine.Refresh(ctx); err != nil {
		return err
	}
	var err error
	if c.transport, err = newTransport(c.box, repo, c.opts.Actor); err != nil {
		return err
	}
	branch, _, err := c.transport.base(ctx)
	if err != nil {
		return transportError("look at what other machines have published", err)
	}
	if branch != "" && branch != repo.Base {
		return &signalbox.Error{Code: signalbox.CodeUsage, Err: fmt.Errorf("the base branch of the box is %s, and %s has %s checked out", branch, repo.Root, repo.Base),
			Hint: fmt.Sprintf("git switch %s, or set deliver.target: %s", branch, branch)}
	}
	if branch == "" {
		base, err := c.base(ctx)
		if err == nil {
			err = c.publish(ctx, "", base)
		}
		if err != nil {
			return err
		}
	}
	c.repair(ctx)
	return c.publishNamed(ctx)
}

// repair restores what other machines cannot obtain. A failure is only logged, and the work continues without it.
func (c *Crew) repair(ctx context.Context) {
	if err := c.transport.repair(ctx); err != nil && ctx.Err() == nil && !engine.IsReported(err) {
		c.warnOnce("cannot repair what other machines need; trying again: " + workspace.Explain(err))
	}
}

// newTransport returns the transport that the configuration of a box names.
func newTransport(b *box.Box, repo *workspace.Repo, actor string) (transport, error) {
	name := b.Config.Workspace.Remote
	if name == "" {
		return &bundles{box: b, repo: repo, actor: actor, max: rules.MaxBundle}, nil
	}
	address, err := repo.Remote(name)
	if err != nil {
		return nil, err
	}
	return &sharedRemote{box: b, repo: repo, address: address}, nil
}

// publishNamed publishes the commits of unfinished work that are in this clone.
func (c *Crew) publishNamed(ctx context.Context) error {
	named := map[string][]string{}
	c.box.Engine.View(func(s *rules.State) {
		for w := range s.Works() {
			if w.Task != nil && w.Phase != signalbox.PhaseCompleted {
				named[w.ID] = namedCommits(w.Task)
			}
		}
	})
	for work, commits := range named {
		for _, commit := range commits {
			if here, err := c.project.Repo.Has(ctx, commit); err != nil {
				return err
			} else if !here {
				continue
			}
			if err := c.publish(ctx, work, commit); err != nil {
				return err
			}
		}
	}
	return nil
}

// namedCommits returns the commits of a task's work that the ledger names.
func namedCommits(t *rules.Task) (commits []string) {
	add := func(commit string) {
		if commit != "" {
			commits = append(commits, commit)
		}
	}
	if t.Saved != nil {
		add(t.Saved.Commit)
	}
	add(t.Commit)
	if t.Conflict != nil {
		add(t.Conflict.Commit)
		add(t.Conflict.Draft)
	}
	if t.Delivered != nil {
		add(t.Delivered.Commit)
	}
	return commits
}

// publish makes commits available to other machines, if there are any. They belong to a task, or to the base if work is "". "" is skipped.
func (c *Crew) publish(ctx context.Context, work string, commits ...string) error {
	if c.transport == nil {
		return nil
	}
	for _, commit := range commits {
		if commit == "" {
			continue
		}
		if err := c.transport.publish(ctx, work, commit); err != nil {
			return transportError(fmt.Sprintf("share the commit %.12s with other machines", commit), err)
		}
	}
	return nil
}

// obtain makes sure that commits are in this clone, if other machines may have made them. "" is skipped.
func (c *Crew) obtain(ctx context.Context, work string, commits ...string) error {
	if c.transport == nil {
		return nil
	}
	if commit, err := obtainMissing(ctx, c.transport, c.project.Repo, work, commits); err != nil {
		return transportError(fmt.Sprintf("get the commit %.12s from other machines", commit), err)
	}
	return nil
}

// obtainMissing obtains the commits that are not in a repository. If one cannot be obtained, it is returned with the error. "" is skipped.
func obtainMissing(ctx context.Context, t transport, repo *workspace.Repo, work string, commits []string) (failed string, err error) {
	for _, commit := range commits {
		if commit == "" {
			continue
		}
		here, err := repo.Has(ctx, commit)
		if err == nil && !here {
			err = t.obtain(ctx, work, commit)
		}
		if err != nil {
			return commit, err
		}
	}
	return "", nil
}

// transportError hides the code of an error: that of a conflict would mean that an agent has something to clean up.
func transportError(what string, err error) error {
	return &signalbox.Error{Code: signalbox.CodeFailed, Err: fmt.Errorf("%s: %w", what, err), Hint: signalbox.HintOf(err)}
}

// base returns the commit of the base, which is in this clone: that of the ledger or, as long as it knows none, the one here.
func (c *Crew) base(ctx context.Context) (string, error) {
	if base := c.knownBase(); base != "" {
		return base, c.obtain(ctx, "", base)
	}
	return c.project.Repo.BaseCommit(ctx)
}

// syncAttempts is how often sync tries again because another machine was faster.
const syncAttempts = 10

// sync makes the base branch here and the base of the ledger the same. The caller holds baseMu. What is here is never lost:
//
//   - If only the ledger's base has moved, the branch here follows it.
//   - If only the branch here has moved, that is recorded.
//   - If both have moved, their merge is recorded, and the branch here follows. If they conflict, a person here must merge them. Until then the crew works
//     with the base of the ledger.
//
// Each step can be repeated, so another crew continues after a kill at any moment. The state before is in the ledger, in the branch, and in Repo.Synced.
func (c *Crew) sync(ctx context.Context, seen rules.ObserveBase) error {
	for range syncAttempts {
		if again, err := c.syncOnce(ctx, seen); !again || err != nil {
			return err
		}
	}
	return nil // the next look continues
}

func (c *Crew) syncOnce(ctx context.Context, seen rules.ObserveBase) (again bool, err error) {
	c.repair(ctx)
	repo := c.project.Repo
	// Another process in this clone may record a merge, move the branch, and note that. Reading in the opposite order, and the
	// ledger last, never takes its move for that of a person.
	last, err := repo.Synced()
	if err != nil {
		return false, err
	}
	here, err := repo.BaseCommit(ctx)
	if err != nil {
		return false, err
	}
	c.noteTeam(ctx, here)
	known := c.knownBase()
	if known != here {
		if err := c.box.Engine.Refresh(ctx); err != nil {
			return false, err
		}
		known = c.knownBase()
	}
	switch {
	case known == here && last == here:
		return false, nil
	case known == here:
		return false, repo.SetSynced(here)
	case known == "":
		return c.recordBase(ctx, seen, known, here)
	}
	if err := c.obtain(ctx, "", known); err != nil {
		return false, err
	}
	switch {
	case here == last:
		return c.follow(ctx, here, known)
	case known == last:
		return c.recordBase(ctx, seen, known, here)
	}
	if behind, err := repo.Contains(ctx, known, here); err != nil {
		return false, err
	} else if behind {
		return c.follow(ctx, here, known)
	}
	if ahead, err := repo.Contains(ctx, here, known); err != nil {
		return false, err
	} else if ahead {
		return c.recordBase(ctx, seen, known, here)
	}
	joined, err := repo.Join(ctx, known, here)
	if conflict := (*workspace.ConflictError)(nil); errors.As(err, &conflict) {
		c.warnOnce(fmt.Sprintf("%s here conflicts with what other machines have merged, in %s; nothing is lost, and the work continues without your commits. Merge the two: git merge %.12s, on %s",
			c.branch, joinSome(conflict.Files), known, c.branch))
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return c.recordBase(ctx, seen, known, joined) // then the branch here is behind
}

// recordBase records a new commit of the base. again means that sync must look again.
func (c *Crew) recordBase(ctx context.Context, seen rules.ObserveBase, known, commit string) (again bool, err error) {
	if err := c.publish(ctx, "", commit); err != nil {
		return false, err
	}
	seen.Known, seen.Commit, seen.Actor = known, commit, c.opts.Actor
	if known != "" {
		seen.Added, seen.Dropped = c.project.Repo.CommitsBetween(ctx, known, commit)
	}
	if _, err := c.box.Engine.Do(ctx, seen); err != nil {
		return false, err
	}
	return c.knownBase() != known, nil // otherwise the checks on the base will record it
}

// follow moves the base branch here to that of the ledger. again means that sync must look again.
func (c *Crew) follow(ctx context.Context, here, known string) (again bool, err error) {
	if time.Now().Before(c.noFollow) {
		return false, nil
	}
	warning, err := c.project.Repo.Follow(ctx, here, known)
	if moved := (*workspace.MovedError)(nil); errors.As(err, &moved) {
		return true, nil
	}
	if errors.Is(err, workspace.ErrLocked) { // a person commits there, for example; nothing needs the branch
		c.noFollow = time.Now().Add(followPause)
		return false, err
	}
	if err != nil {
		return false, err
	}
	if warning != "" {
		c.log.Warn(warning)
	}
	return false, c.project.Repo.SetSynced(known)
}

// followPause is how long a checkout that another git has locked is left alone.
const followPause = time.Minute

// joinSome lists the first files.
func joinSome(files []string) string {
	const some = 5
	if len(files) > some {
		return fmt.Sprintf("%s and %d more", strings.Join(files[:some], ", "), len(files)-some)
	}
	return strings.Join(files, ", ")
}

// lastAuthor returns the epoch of the last lease under which an author had the work, 0 if none had it.
func lastAuthor(w *rules.Work) uint64 {
	for i := len(w.Past) - 1; i >= 0; i-- {
		if w.Past[i].Role.IsAuthor() {
			return w.Past[i].Epoch
		}
	}
	return 0
}

// hasLatest reports whether the worktree of the session's task on this machine is the one that its last author worked in. Those on other machines are older.
func (s *session) hasLatest() bool {
	if s.crew.transport == nil {
		return true
	}
	here := s.crew.project.Repo.LastAuthor(s.work)
	return here != 0 && (here == lastAuthor(s.workItem()) || here == s.epoch)
}

// latest returns the commit that the next author of a task continues from, "" if nothing was saved. It is in this clone then, and so are the commits of a conflict to
// resolve.
func (c *Crew) latest(ctx context.Context, w *rules.Work) (commit string, err error) {
	t := w.Task
	saved, savedAt := "", uint64(0)
	if t.Saved != nil {
		saved, savedAt = t.Saved.Commit, t.Saved.Epoch
	}
	switch found := t.Conflict; {
	case found != nil:
		if err := c.obtain(ctx, w.ID, found.Commit, found.Base, found.Draft, saved); err != nil {
			return "", err
		}
		resolving, err := c.project.Repo.Contains(ctx, saved, found.Draft)
		switch {
		case err != nil:
			return "", err
		case found.Draft == "": // it was found after the work was saved
			return found.Commit, nil
		case saved != "" && (resolving || savedAt == lastAuthor(w)):
			return saved, nil
		}
		return found.Draft, nil
	case t.Commit != "" && t.Checks > savedAt: // what was saved, with the base
		commit = t.Commit
	default:
		commit = saved
	}
	return commit, c.obtain(ctx, w.ID, commit)
}

// openTree opens the worktree of an author. first means that no author has worked on the task. here reports whether the last author worked in the same worktree,
// so that it may have changes that were not saved.
func (s *session) openTree(ctx context.Context, first bool) (tree *workspace.Tree, here bool, err error) {
	c, repo := s.crew, s.crew.project.Repo
	if c.transport == nil {
		open := repo.Open
		if first { // a branch of this name belongs to an earlier box
			open = repo.OpenNew
		}
		tree, err = open(ctx, s.work)
		return tree, true, err
	}
	w := s.workItem()
	latest := ""
	if here = s.hasLatest() && !first; !first {
		if latest, err = c.latest(ctx, w); err != nil {
			return nil, false, err
		}
	}
	switch {
	case here:
		tree, err = s.continueTree(ctx, latest)
	case latest != "":
		tree, err = repo.OpenAt(ctx, s.work, latest)
	default:
		if latest, err = c.base(ctx); err == nil {
			tree, err = repo.OpenNewAt(ctx, s.work, latest)
		}
	}
	if err == nil {
		err = repo.SetLastAuthor(s.work, s.epoch)
	}
	return tree, here, err
}

// continueTree opens the worktree of the last author. If nothing in it has changed since, but other machines have continued the work, it gets that.
func (s *session) continueTree(ctx context.Context, latest string) (*workspace.Tree, error) {
	tree, err := s.crew.project.Repo.Open(ctx, s.work)
	saved := s.workItem().Task.Saved
	if err != nil || saved == nil || latest == saved.Commit {
		return tree, err
	}
	tip, _, err := tree.Save(ctx, s.work+": changes of an interrupted agent")
	if err == nil && tip == saved.Commit {
		err = tree.Discard(ctx, latest)
	}
	if workspace.NeedsAgent(err) { // who is told when it is saved again
		err = nil
	}
	return tree, err
}

// publishTimeout bounds how long a commit is published after the session was told to end.
const publishTimeout = time.Minute

// publishSaved publishes what an author saved, even if the session is being ended.
func (s *session) publishSaved(ctx context.Context, commit string) error {
	if s.crew.transport == nil || commit == "" {
		return nil
	}
	publishing, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(publishTimeout, cancel) })()
	return s.crew.publish(publishing, s.work, commit)
}

// reportConflictFound publishes the commits of a conflict, and reports it.
func (s *session) reportConflictFound(ctx context.Context, found rules.Conflict) (rules.Answer, error) {
	if err := s.crew.publish(ctx, s.work, found.Commit, found.Base, found.Draft); err != nil {
		return rules.Answer{}, err
	}
	answer, err := s.submit(rules.ReportConflict{Session: s.id, Epoch: s.epoch, Conflict: found})
	return answer, asLeaseLost(err)
}

// tidy removes the worktrees of work that other machines have completed, and what it published.
func (c *Crew) tidy(ctx context.Context) {
	if c.transport == nil {
		return
	}
	completed := 0
	c.box.Engine.View(func(s *rules.State) {
		for w := range s.Works() {
			if w.Task != nil && w.Phase == signalbox.PhaseCompleted {
				completed++
			}
		}
	})
	if completed == c.completed {
		return
	}
	c.completed = completed
	if err := errors.Join(c.closeCompleted(ctx), c.transport.tidy(ctx)); err != nil && ctx.Err() == nil {
		c.log.Warn("cannot remove what completed work left", "error", workspace.Explain(err))
	}
}
