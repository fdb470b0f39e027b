// Package transport brings commits from the clone of one machine to those of others, and keeps
// their base branches the same.
//
// If machines share the ledger, each has a clone of the repository, and only the ledger joins them.
// Two rules make that enough:
//
//   - A commit is published before the ledger names it. So every commit that the ledger names can
//     be obtained.
//   - The ledger says where the base is, and each machine makes its own base branch follow. A merge
//     is recorded first.
//
// An Exchange publishes and obtains commits, a Follower keeps the base branch up to date, and Join
// makes a machine part of a box. A carrier moves the commits: bundles in the ledger, or a
// repository that all machines reach. If only one machine uses the ledger, an Exchange has no
// carrier: nothing is published, and every commit is here.
package transport

import (
	"context"
	"fmt"
	"time"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/core/engine"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/workspace"
)

// carrier brings commits to the clones of other machines.
type carrier interface {
	// publish makes a commit, and everything that it needs, available to the other machines. It
	// belongs to a task, or to the base if work is "". When it returns nil, other machines can
	// obtain the commit, even if this one is gone. It may be repeated, and called concurrently.
	publish(ctx context.Context, work, commit string) error
	// obtain gets a commit that is not in this clone. It may be called concurrently.
	obtain(ctx context.Context, work, commit string) error
	// base returns the base branch of the machines that have published it, and a commit of it; ""
	// if none has.
	base(ctx context.Context) (branch, commit string, err error)
	// repair restores what other machines cannot obtain, with what is in this clone.
	repair(ctx context.Context) error
	// tidy removes what completed tasks have published and no machine needs any more.
	tidy(ctx context.Context) error
}

// newCarrier returns the carrier that the configuration of a box names.
func newCarrier(b *box.Box, repo *workspace.Repo, actor string) (carrier, error) {
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

// Exchange shares the commits of a box between this machine's clone and those of other machines.
// Its methods may be called concurrently.
type Exchange struct {
	box     *box.Box
	repo    *workspace.Repo // nil means that there is no repository
	actor   string
	carrier carrier // nil if only this machine uses the ledger
}

// Open returns the exchange of a machine. shared means that other machines may use the ledger. Then
// Open publishes what the ledger names and no machine has published yet: the ledger may come from a
// box that one machine used alone. actor is recorded for that, and for what the exchange does
// later.
func Open(ctx context.Context, b *box.Box, repo *workspace.Repo, actor string, shared bool) (
	*Exchange, error,
) {
	x := &Exchange{box: b, repo: repo, actor: actor}
	if repo == nil || !shared {
		return x, nil
	}
	if err := b.Engine.Refresh(ctx); err != nil {
		return nil, err
	}
	var err error
	if x.carrier, err = newCarrier(b, repo, actor); err != nil {
		return nil, err
	}
	branch, _, err := x.carrier.base(ctx)
	if err != nil {
		return nil, failed("look at what other machines have published", err)
	}
	if branch != "" && branch != repo.Base {
		return nil, signalbox.CodeUsage.Errorf(
			fmt.Sprintf("git switch %s, or set deliver.target: %s", branch, branch),
			"the base branch of the box is %s, and %s has %s checked out",
			branch, repo.Root, repo.Base)
	}
	if branch == "" {
		base, err := x.Base(ctx)
		if err == nil {
			err = x.Publish(ctx, "", base)
		}
		if err != nil {
			return nil, err
		}
	}
	x.repair(ctx)
	return x, x.publishNamed(ctx)
}

// Shared reports whether other machines may use the ledger.
func (x *Exchange) Shared() bool { return x.carrier != nil }

// repair restores what other machines cannot obtain. A failure is only a warning, and the work
// continues without it.
func (x *Exchange) repair(ctx context.Context) {
	if err := x.carrier.repair(ctx); err != nil && ctx.Err() == nil && !engine.IsReported(err) {
		warn(x.repo, "cannot repair what other machines need; trying again: %s",
			workspace.Explain(err))
	}
}

func warn(repo *workspace.Repo, format string, args ...any) {
	if repo.Warn != nil {
		repo.Warn(fmt.Sprintf(format, args...))
	}
}

// publishNamed publishes the commits of unfinished work that are in this clone.
func (x *Exchange) publishNamed(ctx context.Context) error {
	named := map[string][]string{}
	x.box.Engine.View(func(s *rules.State) {
		for w := range s.Works() {
			if w.Task != nil && w.Phase != signalbox.PhaseCompleted {
				named[w.ID] = namedCommits(w.Task)
			}
		}
	})
	for work, commits := range named {
		for _, commit := range commits {
			if here, err := x.repo.Has(ctx, commit); err != nil {
				return err
			} else if !here {
				continue
			}
			if err := x.Publish(ctx, work, commit); err != nil {
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

// Publish makes commits available to other machines, if there are any. They belong to a task, or to
// the base if work is "". When it returns nil, the ledger may name them. "" is skipped.
func (x *Exchange) Publish(ctx context.Context, work string, commits ...string) error {
	if x.carrier == nil {
		return nil
	}
	for _, commit := range commits {
		if commit == "" {
			continue
		}
		if err := x.carrier.publish(ctx, work, commit); err != nil {
			return failed(fmt.Sprintf("share the commit %.12s with other machines", commit), err)
		}
	}
	return nil
}

// publishTimeout bounds how long a commit is published after ctx is done.
const publishTimeout = time.Minute

// PublishSaved publishes what an author saved, even if ctx is done: the commit is nowhere else.
func (x *Exchange) PublishSaved(ctx context.Context, work, commit string) error {
	publishing, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(publishTimeout, cancel) })()
	return x.Publish(publishing, work, commit)
}

// Obtain makes sure that commits are in this clone, if other machines may have made them. They
// belong to a task, or to the base if work is "". "" is skipped.
func (x *Exchange) Obtain(ctx context.Context, work string, commits ...string) error {
	if x.carrier == nil {
		return nil
	}
	if commit, err := obtainMissing(ctx, x.carrier, x.repo, work, commits); err != nil {
		return failed(fmt.Sprintf("get the commit %.12s from other machines", commit), err)
	}
	return nil
}

// failed hides the code of an error: that of a conflict would mean that an agent has something to
// clean up.
func failed(what string, err error) error {
	return signalbox.CodeFailed.Errorf(signalbox.HintOf(err),
		"%s: %w", what, err)
}

// KnownBase returns the commit of the base as the ledger knows it, "" before the first checks on
// it.
func (x *Exchange) KnownBase() (commit string) {
	x.box.Engine.View(func(s *rules.State) { commit = s.Base() })
	return commit
}

// Base returns the commit of the base, which is in this clone: that of the ledger or, as long as it
// knows none, the one here.
func (x *Exchange) Base(ctx context.Context) (string, error) {
	if base := x.KnownBase(); base != "" {
		return base, x.Obtain(ctx, "", base)
	}
	return x.repo.BaseCommit(ctx)
}

// BaseHere returns the commit of the base that people here expect: that of the base branch, unless
// other machines move the base too.
func (x *Exchange) BaseHere(ctx context.Context) (string, error) {
	if x.carrier == nil {
		return x.repo.BaseCommit(ctx)
	}
	return x.Base(ctx)
}

// Tidy removes what completed tasks have published and no machine needs any more.
func (x *Exchange) Tidy(ctx context.Context) error {
	if x.carrier == nil {
		return nil
	}
	return x.carrier.tidy(ctx)
}
