package transport

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"signalbox"
	"signalbox/internal/core/engine"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/workspace"
	"signalbox/internal/text"
)

// Follower keeps the base branch of this machine and the base of the ledger the same. If only this
// machine uses the ledger, the branch is right, and the ledger records its moves. Its methods may
// be called concurrently.
type Follower struct {
	exchange *Exchange
	log      *slog.Logger
	seen     func(ctx context.Context, commit string)

	mu sync.Mutex // held while the base branch is looked at, or moved
	// noFollow is until when the base branch is not moved to that of the ledger; guarded by mu.
	noFollow time.Time
	behind   string // why the base branch waits, as it was last logged; guarded by mu
}

// NewFollower returns a follower. seen is called with each commit at which the base branch is
// found.
func NewFollower(
	x *Exchange, log *slog.Logger, seen func(ctx context.Context, commit string),
) *Follower {
	return &Follower{exchange: x, log: log, seen: seen}
}

// Observe looks at the base branch, and records if something other than a merge of ours has moved
// it. Then the checks run on it before anything else is merged. start reports that the crew has not
// started to work. A failure is only logged: a merge does not rely on it.
func (f *Follower) Observe(ctx context.Context, start bool) {
	if f.exchange.repo == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.observe(ctx, rules.ObserveBase{Start: start})
}

// observe completes an observation of the base, and records it. The caller holds mu.
func (f *Follower) observe(ctx context.Context, seen rules.ObserveBase) {
	seen.Joined = f.settle(ctx)
	if f.exchange.Shared() {
		if err := f.sync(ctx, seen); err != nil && ctx.Err() == nil && !engine.IsReported(err) {
			warn(f.exchange.repo, "cannot synchronise the base branch with the ledger; "+
				"trying again: %s", workspace.Explain(err))
		}
		return
	}
	if err := f.recordMove(ctx, seen); err != nil && ctx.Err() == nil && !engine.IsReported(err) {
		f.log.Warn("cannot look at the base branch", "error", workspace.Explain(err))
	}
}

// settle makes the base branch follow the base, if it waits. It reports whether the branch waited
// and has followed. What is in the way is logged once.
func (f *Follower) settle(ctx context.Context) (followed bool) {
	behind, err := f.exchange.repo.Settle(ctx)
	text := ""
	switch {
	case ctx.Err() != nil:
		return false
	case err != nil:
		text = fmt.Sprintf("the branch %s waits, because it cannot be moved: %s",
			f.exchange.repo.Base, workspace.Explain(err))
	case behind != nil:
		text = behind.Text
	case f.behind != "":
		// a warning, because it replaces one on the screen
		f.log.Warn(fmt.Sprintf("the branch %s has all merged work again", f.exchange.repo.Base))
		followed = true
	}
	if text != "" && text != f.behind {
		f.log.Warn(text)
	}
	f.behind = text
	return followed
}

// Behind says why the base branch waits behind the base, "" if it does not.
func (f *Follower) Behind() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.behind
}

// recordMove records where the base branch is, if only this machine uses the ledger.
func (f *Follower) recordMove(ctx context.Context, seen rules.ObserveBase) error {
	// Before looking, so that the rules notice a merge that is recorded meanwhile.
	known := f.exchange.KnownBase()
	now, err := f.exchange.repo.BaseCommit(ctx)
	if err != nil {
		return err
	}
	f.seen(ctx, now)
	if now == known {
		return nil
	}
	return f.report(ctx, seen, known, now)
}

// report records that the base is at a commit. known is the one in the ledger.
func (f *Follower) report(ctx context.Context, seen rules.ObserveBase, known, commit string) error {
	seen.Known, seen.Commit, seen.Actor = known, commit, f.exchange.actor
	if known != "" {
		seen.Added, seen.Dropped = f.exchange.repo.CommitsBetween(ctx, known, commit)
	}
	_, err := f.exchange.box.Engine.Do(ctx, seen)
	return err
}

// syncAttempts is how often sync tries again because another machine was faster.
const syncAttempts = 10

// sync makes the base branch here and the base of the ledger the same. The caller holds mu. What is
// here is never lost:
//
//   - If only the ledger's base has moved, the branch here follows it.
//   - If only the branch here has moved, that is recorded.
//   - If both have moved, their merge is recorded, and the branch here follows. If they conflict, a
//     person here must merge them. Until then the crew works with the base of the ledger.
//
// Each step can be repeated, so another crew continues after a kill at any moment. The state before
// is in the ledger, in the branch, and in Repo.Synced.
func (f *Follower) sync(ctx context.Context, seen rules.ObserveBase) error {
	for range syncAttempts {
		if again, err := f.syncOnce(ctx, seen); !again || err != nil {
			return err
		}
	}
	return nil // the next look continues
}

func (f *Follower) syncOnce(ctx context.Context, seen rules.ObserveBase) (again bool, err error) {
	f.exchange.repair(ctx)
	repo := f.exchange.repo
	// Another process in this clone may record a merge, move the branch, and note that. Reading in
	// the opposite order, and the ledger last, never takes its move for that of a person.
	last, err := repo.Synced()
	if err != nil {
		return false, err
	}
	here, err := repo.BaseCommit(ctx)
	if err != nil {
		return false, err
	}
	f.seen(ctx, here)
	known := f.exchange.KnownBase()
	if known != here {
		if err := f.exchange.box.Engine.Refresh(ctx); err != nil {
			return false, err
		}
		known = f.exchange.KnownBase()
	}
	switch {
	case known == here && last == here:
		return false, nil
	case known == here:
		return false, repo.SetSynced(here)
	case known == "":
		return f.record(ctx, seen, known, here)
	}
	if err := f.exchange.Obtain(ctx, "", known); err != nil {
		return false, err
	}
	switch {
	case here == last:
		return f.follow(ctx, here, known)
	case known == last:
		return f.record(ctx, seen, known, here)
	}
	if behind, err := repo.Contains(ctx, known, here); err != nil {
		return false, err
	} else if behind {
		return f.follow(ctx, here, known)
	}
	if ahead, err := repo.Contains(ctx, here, known); err != nil {
		return false, err
	} else if ahead {
		return f.record(ctx, seen, known, here)
	}
	joined, err := repo.Join(ctx, known, here)
	if conflict := (*workspace.ConflictError)(nil); errors.As(err, &conflict) {
		warn(repo, "%s here conflicts with what other machines have merged, in %s; nothing is lost, "+
			"and the work continues without your commits. Merge the two: git merge %.12s, on %s",
			repo.Base, text.JoinSome(conflict.Files, 5), known, repo.Base)
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return f.record(ctx, seen, known, joined) // then the branch here is behind
}

// record publishes and records a new commit of the base. again means that sync must look again.
func (f *Follower) record(ctx context.Context, seen rules.ObserveBase, known, commit string) (
	again bool, err error,
) {
	if err := f.exchange.Publish(ctx, "", commit); err != nil {
		return false, err
	}
	if err := f.report(ctx, seen, known, commit); err != nil {
		return false, err
	}
	return f.exchange.KnownBase() != known, nil // otherwise the checks on the base will record it
}

// follow moves the base branch here to that of the ledger. again means that sync must look again.
func (f *Follower) follow(ctx context.Context, here, known string) (again bool, err error) {
	if time.Now().Before(f.noFollow) {
		return false, nil
	}
	err = f.exchange.repo.Follow(ctx, here, known)
	if moved := (*workspace.MovedError)(nil); errors.As(err, &moved) {
		return true, nil
	}
	// A person commits there, for example. Nothing needs the branch.
	if errors.Is(err, workspace.ErrLocked) {
		f.noFollow = time.Now().Add(followPause)
		return false, err
	}
	if err != nil {
		return false, err
	}
	return false, f.exchange.repo.SetSynced(known)
}

// followPause is how long a checkout that another git has locked is left alone.
const followPause = time.Minute

// Update moves the base branch here to that of a remote repository, and returns its commit. If
// merged is not "", the branch must contain that commit afterwards. work is the task that needs it.
func (f *Follower) Update(ctx context.Context, remote, work, merged string) (string, error) {
	repo := f.exchange.repo
	commit, err := repo.Fetch(ctx, remote)
	if err != nil {
		return "", err
	}
	if merged != "" {
		if contained, err := repo.Contains(ctx, commit, merged); err != nil {
			return "", err
		} else if !contained {
			return "", signalbox.CodeConflict.Errorf(
				"was it merged into another branch? Merge it into "+repo.Base+
					" there too",
				"it does not contain %.12s in the remote repository", merged)
		}
	}
	f.mu.Lock() // not while it talks to the remote repository: nothing starts while it is held
	defer f.mu.Unlock()
	if f.exchange.Shared() { // what other machines have merged comes first
		if err := f.sync(ctx, rules.ObserveBase{}); err != nil {
			return "", err
		}
	}
	err = repo.FastForward(ctx, work, commit)
	if errors.Is(err, workspace.ErrDiverged) {
		return "", signalbox.CodeConflict.Errorf("merge the two: git pull, on "+repo.Base,
			"it has commits that the remote repository has not")
	}
	if err != nil {
		return "", err
	}
	f.observe(ctx, rules.ObserveBase{Fetched: true})
	return commit, nil
}
