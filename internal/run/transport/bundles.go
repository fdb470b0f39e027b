package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/workspace"
)

// bundles is the carrier that stores commits as git bundles in the blobs of the ledger.
//
// The base has a chain of bundles. The first has the whole history. The chain as a whole
// contains every commit that was ever in it. Its last bundles are combined before it gets long, so
// that a new clone needs only a few, and each object is stored again only now and then: see
// combined.
//
// A bundle can be useless: another machine wrote something else, or the blob is gone. A machine
// that cannot use one rejects it, which the ledger records, and tries to get the commits in another
// way. Nothing builds on it from then on, and a machine that has the commit stores it again: see
// repair.
type bundles struct {
	box  *box.Box
	repo *workspace.Repo
	// actor is who stores and rejects bundles; "" means that nothing is recorded.
	actor string
	// max is the size of the largest bundle.
	max int64

	mu     sync.Mutex
	failed map[bundleKey]string // bundles that were unusable here, and why; guarded by mu
	// bundles that git could not read here, and perhaps can later; nothing builds on them; guarded
	// by mu
	unread map[bundleKey]bool
	// unrepaired are unusable bundles that this machine could not replace, and verified those that
	// it has read although it had the commit; guarded by mu
	unrepaired, verified map[bundleKey]bool
}

// bundleKey identifies what the ledger says about a bundle.
type bundleKey struct {
	commit string
	bundle signalbox.Hash
}

// publishAttempts is how often a bundle is made again because another machine has changed the
// chain.
const publishAttempts = 10

func (t *bundles) publish(ctx context.Context, work, commit string) error {
	_, err := t.publishCommit(ctx, work, commit)
	return err
}

// publishCommit publishes a commit. recorded reports whether the ledger has a new bundle.
func (t *bundles) publishCommit(ctx context.Context, work, commit string) (recorded bool, _ error) {
	avoid := map[string]bool{}
	for attempt := 0; attempt < publishAttempts; {
		rejected, err := t.recoverable(ctx, work)
		if err != nil {
			return false, err
		}
		available, err := t.available(ctx)
		if err != nil {
			return false, err
		}
		contained, err := t.containedIn(ctx, available, commit)
		if err != nil {
			return false, err
		}
		var next rules.StoreCommits
		var done bool
		t.box.Engine.View(func(s *rules.State) {
			for _, c := range t.usable(s, s.StoredCommits("")) {
				avoid[c.Commit] = avoid[c.Commit] || !slices.Contains(available, c.Commit)
			}
			next, done = t.next(s, work, commit, rejected, avoid)
			done = done || contained && commit == s.Base() &&
				len(available) == len(s.StoredCommits(""))
		})
		if done {
			return false, nil
		}
		recorded, err = t.store(ctx, next)
		missing := (*missingPrerequisiteError)(nil)
		switch {
		case errors.As(err, &missing) && !avoid[missing.commit]:
			avoid[missing.commit] = true
		case signalbox.CodeOf(err) == signalbox.CodeConflict:
			attempt++
		default:
			return recorded, err
		}
	}
	return false, fmt.Errorf("other machines have changed what is stored %d times meanwhile",
		publishAttempts)
}

// available returns the commits in the chain of the base that other machines can obtain, as far as
// is known: their bundles are usable, and so are those that they build on. A bundle can replace
// another without containing it.
func (t *bundles) available(ctx context.Context) (commits []string, err error) {
	var left []rules.StoredCommit
	t.box.Engine.View(func(s *rules.State) { left = t.usable(s, s.StoredCommits("")) })
	for {
		var later []rules.StoredCommit
		for _, stored := range left {
			ready := true
			for _, need := range stored.Needs {
				if ready, err = t.containedIn(ctx, commits, need); err != nil {
					return nil, err
				} else if !ready {
					break
				}
			}
			if ready {
				commits = append(commits, stored.Commit)
			} else {
				later = append(later, stored)
			}
		}
		if len(later) == len(left) {
			return commits, nil
		}
		left = later
	}
}

// containedIn reports whether a commit is one of the given ones, or one of them contains it, as far
// as they are here.
func (t *bundles) containedIn(ctx context.Context, commits []string, commit string) (bool, error) {
	if slices.Contains(commits, commit) {
		return true, nil
	}
	if here, err := t.repo.Has(ctx, commit); !here || err != nil {
		return false, err
	}
	for _, other := range slices.Backward(commits) {
		here, err := t.repo.Has(ctx, other)
		if here && err == nil {
			here, err = t.repo.Contains(ctx, other, commit)
		}
		if here || err != nil {
			return here, err
		}
	}
	return false, nil
}

// missingPrerequisiteError means that a bundle cannot be made to build on a stored commit that this
// machine does not have and cannot obtain.
type missingPrerequisiteError struct {
	commit string
	err    error
}

func (e *missingPrerequisiteError) Error() string { return e.err.Error() }

func (e *missingPrerequisiteError) Unwrap() error { return e.err }

// next returns the command that stores a commit, without the bundle. done reports that it is stored
// already. rejected are the commits that the bundle contains too, because their own are unusable.
// It does not build on those in avoid.
func (t *bundles) next(s *rules.State, work, commit string, rejected []string,
	avoid map[string]bool) (next rules.StoreCommits, done bool) {
	next = rules.StoreCommits{Work: work, StoredCommit: rules.StoredCommit{Commit: commit},
		Replaces: rejected, Actor: t.actor}
	usable := func(list []rules.StoredCommit) []rules.StoredCommit {
		return slices.DeleteFunc(t.usable(s, list),
			func(c rules.StoredCommit) bool { return avoid[c.Commit] })
	}
	chain, own := usable(s.StoredCommits("")), []rules.StoredCommit(nil)
	if work != "" {
		own = usable(s.StoredCommits(work))
	}
	if isStored(chain, commit) || isStored(own, commit) {
		return next, true
	}
	if work == "" {
		next.Branch = t.repo.Base
		kept := len(chain) - combined(chain)
		for _, c := range chain[kept:] {
			next.Replaces = append(next.Replaces, c.Commit)
		}
		chain = chain[:kept]
	}
	if isStored(s.StoredCommits(work), commit) && !slices.Contains(next.Replaces, commit) {
		next.Replaces = append(next.Replaces, commit)
	}
	for _, list := range [][]rules.StoredCommit{chain, own} {
		if len(list) > 0 {
			next.Needs = append(next.Needs, list[len(list)-1].Commit)
		}
	}
	return next, false
}

func isStored(list []rules.StoredCommit, commit string) bool {
	return slices.ContainsFunc(list, func(c rules.StoredCommit) bool { return c.Commit == commit })
}

// usable returns the stored commits whose bundles, as far as is known, can be used.
func (t *bundles) usable(s *rules.State, list []rules.StoredCommit) (usable []rules.StoredCommit) {
	for _, stored := range list {
		if s.BundleFault(stored) == "" && t.fault(stored) == "" && !t.isUnread(stored) {
			usable = append(usable, stored)
		}
	}
	return usable
}

// fault returns why this machine cannot use a bundle, "" as long as no reason is known.
func (t *bundles) fault(stored rules.StoredCommit) string {
	for _, commit := range append([]string{stored.Commit}, stored.Needs...) {
		if err := signalbox.CheckCommit(commit); err != nil {
			return err.Error()
		}
	}
	if stored.Size > t.max {
		return fmt.Sprintf("it has %d bytes, limit %d", stored.Size, t.max)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failed[bundleKey{stored.Commit, stored.Bundle}]
}

func (t *bundles) isUnread(stored rules.StoredCommit) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.unread[bundleKey{stored.Commit, stored.Bundle}]
}

// combined returns how many bundles at the end of the chain the next one replaces. Each bundle of
// the chain is at least twice as large as the one after it, except for the last two; when they are
// not, they are combined with the next. So a chain is short, and an object is stored about as often
// as the size of the chain doubles.
func combined(chain []rules.StoredCommit) int {
	n := len(chain)
	if n < 2 || chain[n-2].Size >= 2*chain[n-1].Size {
		return 0
	}
	first, total := n-2, chain[n-2].Size+chain[n-1].Size
	for first > 0 && chain[first-1].Size < 2*total {
		first--
		total += chain[first].Size
	}
	return n - first
}

// store makes a bundle and records it.
func (t *bundles) store(ctx context.Context, next rules.StoreCommits) (recorded bool, err error) {
	others := slices.DeleteFunc(slices.Clone(next.Replaces),
		func(commit string) bool { return commit == next.Commit })
	content := workspace.Bundle{Commits: append([]string{next.Commit}, others...),
		Needs: next.Needs, Branch: t.repo.Base}
	// another machine may have made them
	for _, commit := range slices.Concat(content.Commits, content.Needs) {
		here, err := t.isShared(ctx, commit)
		if commit == next.Commit {
			here, err = t.repo.Has(ctx, commit)
		}
		if err == nil && !here {
			err = t.obtain(ctx, next.Work, commit)
		}
		if isMissing(err) && commit != next.Commit {
			return false, &missingPrerequisiteError{commit, err}
		} else if err != nil {
			return false, err
		}
	}
	digest, size, err := t.put(ctx, content)
	if err == nil {
		err = t.repo.KeepShared(ctx, next.Commit)
	}
	if err != nil {
		return false, err
	}
	next.Bundle, next.Size = digest, size
	answer, err := t.box.Engine.Do(ctx, next)
	return err == nil && !answer.Repeated, err
}

// put makes a bundle and stores it as a blob. Meanwhile it is read as other machines will do it: if
// git refuses it there, the author must know.
func (t *bundles) put(ctx context.Context, content workspace.Bundle) (digest signalbox.Hash,
	size int64, err error) {
	pipe, w := io.Pipe()
	checkPipe, checkW := io.Pipe()
	counted := &counter{r: pipe, max: t.max}
	written, checked := make(chan struct{}), make(chan error, 1)
	go func() {
		defer close(written)
		err := t.repo.WriteBundle(ctx, io.MultiWriter(w, checkW), content)
		w.CloseWithError(err)
		checkW.CloseWithError(err)
	}()
	go func() {
		err := t.repo.CheckBundle(ctx, checkPipe, content.Commits[0], content.Needs)
		if refused := (*workspace.BundleError)(nil); errors.As(err, &refused) {
			err = signalbox.CodeFailed.Errorf(
				"git fsck --strict names what is wrong; commit it again without that",
				"other machines would refuse the commit %.12s: %s",
				content.Commits[0], refused.Fault)
		}
		if err == nil {
			_, err = io.Copy(io.Discard, checkPipe)
		}
		checkPipe.CloseWithError(err) // ends git
		checked <- err
	}()
	digest, err = t.box.Engine.PutBlob(ctx, counted)
	pipe.CloseWithError(errors.Join(err, io.ErrClosedPipe)) // ends git if not everything was read
	<-written
	if checkErr := <-checked; err == nil {
		err = checkErr
	}
	return digest, counted.n, err
}

// counter counts the bytes that are read, up to a limit.
type counter struct {
	r      io.Reader
	n, max int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if c.n += int64(n); c.n > c.max {
		return n, signalbox.CodeFailed.Errorf(
			"set workspace.remote to a repository that all machines reach",
			"the repository is too large for the ledger: its bundle has more than %d bytes", c.max)
	}
	return n, err
}

func (t *bundles) base(context.Context) (branch, commit string, err error) {
	t.box.Engine.View(func(s *rules.State) {
		branch = s.BaseBranch()
		chain := s.StoredCommits("")
		if usable := t.usable(s, chain); len(usable) > 0 {
			chain = usable
		}
		if len(chain) > 0 {
			commit = chain[len(chain)-1].Commit
		}
	})
	return branch, commit, nil
}

// tidy forgets the commits that are in no bundle any more, so that git can remove what no branch
// contains.
func (t *bundles) tidy(ctx context.Context) error {
	shared, err := t.repo.SharedCommits(ctx)
	if err != nil {
		return err
	}
	t.box.Engine.View(func(s *rules.State) {
		stored := map[string]bool{s.Base(): true}
		for _, c := range s.StoredCommits("") {
			stored[c.Commit] = true
		}
		for w := range s.Works() {
			for _, c := range s.StoredCommits(w.ID) {
				stored[c.Commit] = true
			}
		}
		shared = slices.DeleteFunc(shared, func(commit string) bool { return stored[commit] })
	})
	return t.repo.DropShared(ctx, shared...)
}
