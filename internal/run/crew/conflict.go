package crew

import (
	"context"
	"fmt"
	"strings"

	"signalbox/internal/core/rules"
	"signalbox/internal/run/workspace"
	"signalbox/internal/text"
)

// A conflict with the base is found before the checks, when an author starts, or by the merger. The author resolves it:
//
//  1. The ledger gets the conflict: the two commits that conflict, and a draft, which is a merge of them with conflict markers.
//  2. The task's branch and worktree move to the draft. After a crash this is done again from what the ledger says.
//  3. The author edits the files. What it saves continues the draft.
//  4. Before the checks, the result becomes a merge commit of the two commits, unless conflict markers are left.

// mergeBase merges the base branch, as the ledger knows it, into a task's branch, which is at tip. If they conflict, the worktree has a
// draft afterwards, and the ledger the conflict.
func (s *session) mergeBase(ctx context.Context, tree *workspace.Tree, tip string) error {
	base, c := s.crew.exchange.KnownBase(), s.workItem().Task.Conflict
	if base == "" {
		return nil
	}
	base, err := s.crew.stack.Start(ctx, s.work, base)
	if err != nil {
		return err
	}
	if c != nil {
		tip, err := s.restoreLost(ctx, tree, tip)
		if err != nil {
			return err
		}
		if resolving, err := s.isResolving(ctx, tree, tip, base); resolving || err != nil {
			return err // if the base has moved since, that is merged before the checks
		}
	}
	conflict, err := tree.Refresh(ctx, base)
	switch {
	case err != nil || conflict == nil && c == nil:
		return err
	case conflict == nil:
		_, err := s.reportConflictFound(ctx, rules.Conflict{Commit: c.Commit, Base: base})
		return err
	}
	found, err := s.describeConflict(ctx, conflict)
	if err != nil {
		return err
	}
	if found.Draft, err = s.crew.project.Repo.Draft(ctx, conflict, s.crew.box.Config); err != nil {
		return err
	}
	answer, err := s.reportConflictFound(ctx, *found)
	switch {
	case err != nil:
		return err
	case answer.Lease == nil:
		return fmt.Errorf("%w: the human is asked first", errLeaseLost)
	}
	return tree.Advance(ctx, found.Draft)
}

// restoreLost puts the branch back on the work that the ledger names, if the branch has lost it, and returns the commit of the branch.
// Something may have moved or removed the branch or the worktree. What it was moved to is kept under refs/signalbox/left/.
func (s *session) restoreLost(ctx context.Context, tree *workspace.Tree, tip string) (string, error) {
	repo, t := s.crew.project.Repo, s.workItem().Task
	latest := t.Conflict.Commit
	if t.Saved != nil {
		if tip == t.Saved.Commit {
			return tip, nil // an author may undo its own work
		}
		if later, err := repo.Contains(ctx, t.Saved.Commit, t.Conflict.Draft); err != nil {
			return "", err
		} else if later {
			latest = t.Saved.Commit
		}
	}
	if kept, err := repo.Contains(ctx, tip, latest); kept || err != nil {
		return tip, err
	}
	if merged, err := s.isMerge(ctx, tip, t.Conflict); merged || err != nil {
		return tip, err // by a person
	}
	found, err := tree.Restore(ctx, latest, t.Conflict.Commit)
	if err != nil {
		return "", err
	}
	s.recordMovedBranch(latest, found)
	return latest, nil
}

// isMerge reports whether a commit contains both sides of a conflict.
func (s *session) isMerge(ctx context.Context, commit string, c *rules.Conflict) (bool, error) {
	repo := s.crew.project.Repo
	if ours, err := repo.Contains(ctx, commit, c.Commit); !ours || err != nil {
		return false, err
	}
	return repo.Contains(ctx, commit, c.Base)
}

// isResolving reports whether the branch has a draft, or markers that the author left in another merge. A draft that no author has worked
// on is removed if the base has moved, so that the author gets one with the latest base.
func (s *session) isResolving(ctx context.Context, tree *workspace.Tree, tip, base string) (bool, error) {
	repo, c := s.crew.project.Repo, s.workItem().Task.Conflict
	if tip == c.Draft && base != c.Base {
		return false, tree.Discard(ctx, c.Commit)
	}
	if drafted, err := repo.Contains(ctx, tip, c.Draft); drafted || err != nil {
		return drafted, err
	}
	_, unresolved, err := repo.ResolveConflict(ctx, s.work, namesOf(c), tip, base)
	return len(unresolved) > 0, err
}

func namesOf(c *rules.Conflict) workspace.Conflict {
	return workspace.Conflict{Commit: c.Commit, Base: c.Base, Draft: c.Draft}
}

// reportConflict sends work back that conflicts with the base.
func (s *session) reportConflict(ctx context.Context, conflict *workspace.ConflictError) error {
	found, err := s.describeConflict(ctx, conflict)
	if err != nil {
		return err
	}
	_, err = s.reportConflictFound(ctx, *found)
	return err
}

// describeConflict returns a conflict as the ledger records it, with a description for the author and for people.
func (s *session) describeConflict(ctx context.Context, e *workspace.ConflictError) (*rules.Conflict, error) {
	var b strings.Builder
	for _, note := range e.Notes {
		fmt.Fprintf(&b, "- %s\n", text.OneLine(note))
	}
	for _, name := range e.Files {
		if s.crew.box.Config.Protects(name) {
			fmt.Fprintf(&b, "- %s: protected, so the version of %s is in place. Leave it\n", text.OneLine(name), e.Base)
		}
	}
	if commits := s.crew.project.Repo.CommitsOn(ctx, e); len(commits) > 0 {
		fmt.Fprintf(&b, "\nCommits of %s since then, newest first:\n", e.Base)
		for _, commit := range commits {
			fmt.Fprintf(&b, "- %s\n", text.OneLine(commit))
		}
	}
	body, err := s.put([]byte(b.String()))
	return &rules.Conflict{Commit: e.Ours, Base: e.Theirs, Files: e.Files, Submodules: e.Submodules, Body: body}, err
}

// reportConflictFound publishes the commits of a conflict, and reports it.
func (s *session) reportConflictFound(ctx context.Context, found rules.Conflict) (rules.Answer, error) {
	if err := s.crew.exchange.Publish(ctx, s.work, found.Commit, found.Base, found.Draft); err != nil {
		return rules.Answer{}, err
	}
	answer, err := s.submit(rules.ReportConflict{Session: s.id, Epoch: s.epoch, Conflict: found})
	return answer, asLeaseLost(err)
}
