// Package conflicts has authors resolve the conflicts of their work with the base.
//
// A conflict is found before the checks, when an author starts, or by the merger. Then:
//
//  1. The ledger gets the conflict: the two commits that conflict, and a draft, which is a merge of
//     them with conflict markers.
//  2. The task's branch and worktree move to the draft. After a crash this is done again from what
//     the ledger says.
//  3. The author edits the files. What it saves continues the draft.
//  4. Before the checks, the result becomes a merge commit of the two commits, unless conflict
//     markers are left.
package conflicts

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/transport"
	"signalbox/internal/run/workspace"
	"signalbox/internal/text"
)

// ErrAsked means that the human is asked about a conflict first, so the session has lost its lease.
var ErrAsked = errors.New("the human is asked first")

// Resolver finds and reports the conflicts of a task, for the session that has its lease.
type Resolver struct {
	Config   *config.Config
	Repo     *workspace.Repo
	Exchange *transport.Exchange
	Work     string
	// Put stores a blob.
	Put func(data []byte) (signalbox.Hash, error)
	// Report records a conflict. Its commits are published then.
	Report func(rules.Conflict) (rules.Answer, error)
	// Moved records that the branch of the task was found at another commit than expected; "" means
	// that it was not.
	Moved func(expected, found string)
}

// MergeBase merges a commit of the base into the branch of a task, which is at tip. If they
// conflict, the worktree has a draft afterwards, and the ledger the conflict.
func (r *Resolver) MergeBase(
	ctx context.Context, tree *workspace.Tree, t *rules.Task, tip, base string,
) error {
	c := t.Conflict
	if c != nil {
		tip, err := r.restoreLost(ctx, tree, t, tip)
		if err != nil {
			return err
		}
		if resolving, err := r.isResolving(ctx, tree, c, tip, base); resolving || err != nil {
			return err // if the base has moved since, that is merged before the checks
		}
	}
	conflict, err := tree.Refresh(ctx, base)
	switch {
	case err != nil || conflict == nil && c == nil:
		return err
	case conflict == nil:
		_, err := r.Found(ctx, rules.Conflict{Commit: c.Commit, Base: base})
		return err
	}
	found, err := r.Describe(ctx, conflict)
	if err != nil {
		return err
	}
	if found.Draft, err = r.Repo.Draft(ctx, conflict, r.Config); err != nil {
		return err
	}
	answer, err := r.Found(ctx, *found)
	switch {
	case err != nil:
		return err
	case answer.Lease == nil:
		return ErrAsked
	}
	return tree.Advance(ctx, found.Draft)
}

// restoreLost puts the branch back on the work that the ledger names, if the branch has lost it,
// and returns the commit of the branch. Something may have moved or removed the branch or the
// worktree. What it was moved to is kept under refs/signalbox/left/.
func (r *Resolver) restoreLost(
	ctx context.Context, tree *workspace.Tree, t *rules.Task, tip string,
) (string, error) {
	latest := t.Conflict.Commit
	if t.Saved != nil {
		if tip == t.Saved.Commit {
			return tip, nil // an author may undo its own work
		}
		later, err := r.Repo.Contains(ctx, t.Saved.Commit, t.Conflict.Draft)
		if err != nil {
			return "", err
		} else if later {
			latest = t.Saved.Commit
		}
	}
	if kept, err := r.Repo.Contains(ctx, tip, latest); kept || err != nil {
		return tip, err
	}
	if merged, err := r.isMerge(ctx, tip, t.Conflict); merged || err != nil {
		return tip, err // by a person
	}
	found, err := tree.Restore(ctx, latest, t.Conflict.Commit)
	if err != nil {
		return "", err
	}
	r.Moved(latest, found)
	return latest, nil
}

// isMerge reports whether a commit contains both sides of a conflict.
func (r *Resolver) isMerge(ctx context.Context, commit string, c *rules.Conflict) (bool, error) {
	if ours, err := r.Repo.Contains(ctx, commit, c.Commit); !ours || err != nil {
		return false, err
	}
	return r.Repo.Contains(ctx, commit, c.Base)
}

// isResolving reports whether the branch has a draft, or markers that the author left in another
// merge. A draft that no author has worked on is removed if the base has moved, so that the author
// gets one with the latest base.
func (r *Resolver) isResolving(
	ctx context.Context, tree *workspace.Tree, c *rules.Conflict, tip, base string,
) (bool, error) {
	if tip == c.Draft && base != c.Base {
		return false, tree.Discard(ctx, c.Commit)
	}
	if drafted, err := r.Repo.Contains(ctx, tip, c.Draft); drafted || err != nil {
		return drafted, err
	}
	_, unresolved, err := r.Resolve(ctx, c, tip, base)
	return len(unresolved) > 0, err
}

// Resolve returns the commit that takes the place of what an author saved, and the files that still
// have conflict markers: see Repo.ResolveConflict.
func (r *Resolver) Resolve(ctx context.Context, c *rules.Conflict, saved, base string) (
	resolved string, unresolved []string, err error,
) {
	named := workspace.Conflict{Commit: c.Commit, Base: c.Base, Draft: c.Draft}
	return r.Repo.ResolveConflict(ctx, r.Work, named, saved, base)
}

// Found publishes the commits of a conflict, and reports it.
func (r *Resolver) Found(ctx context.Context, found rules.Conflict) (rules.Answer, error) {
	err := r.Exchange.Publish(ctx, r.Work, found.Commit, found.Base, found.Draft)
	if err != nil {
		return rules.Answer{}, err
	}
	return r.Report(found)
}

// Describe returns a conflict as the ledger records it, with a description for the author and for
// people.
func (r *Resolver) Describe(ctx context.Context, e *workspace.ConflictError) (
	*rules.Conflict, error,
) {
	var b strings.Builder
	for _, note := range e.Notes {
		fmt.Fprintf(&b, "- %s\n", text.OneLine(note))
	}
	for _, name := range e.Protected(r.Config) {
		fmt.Fprintf(&b, "- %s: protected, so the version of %s is in place. Leave it\n",
			text.OneLine(name), e.Base)
	}
	if commits := r.Repo.CommitsOn(ctx, e); len(commits) > 0 {
		fmt.Fprintf(&b, "\nCommits of %s since then, newest first:\n", e.Base)
		for _, commit := range commits {
			fmt.Fprintf(&b, "- %s\n", text.OneLine(commit))
		}
	}
	body, err := r.Put([]byte(b.String()))
	return &rules.Conflict{Commit: e.Ours, Base: e.Theirs, Files: e.Files, Submodules: e.Submodules,
		Body: body}, err
}
