package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"signalbox"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/workspace"
)

// uselessError means that a bundle is unusable, on any machine.
type uselessError struct {
	commit, fault string
}

func (e *uselessError) Error() string {
	return fmt.Sprintf("the bundle of the commit %.12s cannot be used: %s", e.commit, e.fault)
}

// unreadableError means that a bundle cannot be read on this machine now.
type unreadableError struct {
	commit string
	err    *workspace.UnreadableError
}

func (e *unreadableError) Error() string {
	return fmt.Sprintf("the bundle of the commit %.12s cannot be used: %v", e.commit, e.err)
}

func (e *unreadableError) Unwrap() error { return e.err }

// missingError means that no bundle that can be used has a commit.
type missingError struct {
	faults []error // of the bundles that should have it
}

func (e *missingError) Error() string {
	if len(e.faults) == 0 {
		return "no machine has published it"
	}
	texts := make([]string, len(e.faults))
	for i, fault := range e.faults {
		texts[i] = fault.Error()
	}
	return strings.Join(slices.Compact(texts), "; ")
}

func (e *missingError) Unwrap() []error { return e.faults }

func (t *bundles) obtain(ctx context.Context, work, commit string) error {
	err := t.get(ctx, work, commit, map[string]bool{})
	missing := (*missingError)(nil)
	if !errors.As(err, &missing) {
		return err
	}
	hint, unreadable := "start signalbox on the machine that made it", (*unreadableError)(nil)
	switch {
	case errors.As(err, &unreadable):
		hint = "see whether this machine has enough disk space and memory, and try again; or start signalbox on a machine that has the commit"
	case len(missing.faults) > 0:
		hint = "start signalbox on a machine that has the commit, with signalbox run or signalbox worker: it stores it again"
	}
	return &signalbox.Error{Code: signalbox.CodeNotFound, Err: err, Hint: hint}
}

// get obtains a commit. visited are the commits that it was called for: what another machine wrote
// into the ledger may form a circle.
func (t *bundles) get(ctx context.Context, work, commit string, visited map[string]bool) error {
	missing := &missingError{}
	if visited[commit] {
		return missing
	}
	visited[commit] = true
	chain, found := t.find(work, commit)
	for _, f := range found {
		err := t.getNeeds(ctx, work, f.StoredCommit, visited)
		if err == nil {
			err = t.read(ctx, f.work, f.StoredCommit)
		}
		if err == nil {
			return nil
		}
		if !isMissing(err) {
			return err
		}
		missing.faults = append(missing.faults, err)
	}
	// The commit was in the chain, and one of its bundles contains it.
	// first those that are not here; if git has removed something of the others, those too
	for _, all := range []bool{false, true} {
		faults, err := t.readChain(ctx, chain, all)
		if err != nil {
			return err
		}
		if shared, err := t.isShared(ctx, commit); shared || err != nil {
			return err
		}
		if all && len(missing.faults) == 0 {
			missing.faults = faults
		}
	}
	return missing
}

func (t *bundles) getNeeds(ctx context.Context, work string, stored rules.StoredCommit,
	visited map[string]bool) error {
	if fault := t.fault(stored); fault != "" {
		return &uselessError{stored.Commit, fault}
	}
	for _, commit := range stored.Needs {
		if shared, err := t.isShared(ctx, commit); err != nil {
			return err
		} else if shared {
			continue
		}
		if err := t.get(ctx, work, commit, visited); err != nil {
			return err
		}
	}
	return nil
}

// isMissing reports whether a commit could not be obtained because of what is, or is not, in the
// ledger. Then another bundle may have it.
func isMissing(err error) bool {
	useless, unreadable, missing := (*uselessError)(nil), (*unreadableError)(nil),
		(*missingError)(nil)
	return errors.As(err, &useless) || errors.As(err, &unreadable) || errors.As(err, &missing)
}

// readChain reads the bundles of the base: all of them, or those whose commits are not here.
// Usually each needs the one before it, but machines that store bundles at the same time can change
// that. What cannot be used is skipped, and returned.
func (t *bundles) readChain(ctx context.Context, chain []rules.StoredCommit,
	all bool) (faults []error, err error) {
	var left []rules.StoredCommit
	for _, stored := range chain {
		if fault := t.fault(stored); fault != "" {
			faults = append(faults, &uselessError{stored.Commit, fault})
		} else if here, err := t.repo.Has(ctx, stored.Commit); err != nil {
			return nil, err
		} else if all || !here {
			left = append(left, stored)
		}
	}
	for len(left) > 0 {
		var later []rules.StoredCommit
		for _, stored := range left {
			if ready, err := t.hasAll(ctx, stored.Needs); err != nil {
				return nil, err
			} else if !ready {
				later = append(later, stored)
			} else if err := t.read(ctx, "", stored); isMissing(err) {
				faults = append(faults, err)
			} else if err != nil {
				return nil, err
			}
		}
		if len(later) == len(left) {
			return append(faults,
				fmt.Errorf("the bundle of %.12s needs commits that no other bundle has",
					left[0].Commit)), nil
		}
		left = later
	}
	return faults, nil
}

func (t *bundles) hasAll(ctx context.Context, commits []string) (bool, error) {
	for _, commit := range commits {
		if shared, err := t.isShared(ctx, commit); !shared || err != nil {
			return false, err
		}
	}
	return true, nil
}

// isShared reports whether a commit is here, and not private: a person here may have made a commit
// that is neither in the base nor in what was published, and a bundle must not build on it, because
// whoever stores that bundle again would publish both.
func (t *bundles) isShared(ctx context.Context, commit string) (bool, error) {
	base := ""
	t.box.Engine.View(func(s *rules.State) { base = s.Base() })
	if base == "" && t.repo.Base != "" { // before the first checks
		var err error
		if base, err = t.repo.BaseCommit(ctx); err != nil {
			return false, err
		}
	}
	return t.repo.IsShared(ctx, commit, base)
}

// foundCommit is a stored commit of a task, or of the base if work is "".
type foundCommit struct {
	work string
	rules.StoredCommit
}

// find returns the chain of the base, and the bundles that were made for a commit. Those that were
// rejected come last: the machine that did it may be to blame.
func (t *bundles) find(work, commit string) (chain []rules.StoredCommit, found []foundCommit) {
	t.box.Engine.View(func(s *rules.State) {
		chain = s.StoredCommits("")
		works := []string{"", work}
		for w := range s.Works() { // tasks build on others
			works = append(works, w.ID)
		}
		var rejected []foundCommit
		for i, w := range works {
			if slices.Contains(works[:min(i, 2)], w) {
				continue
			}
			for _, stored := range s.StoredCommits(w) {
				switch {
				case stored.Commit != commit:
				case s.BundleFault(stored) != "":
					rejected = append(rejected, foundCommit{w, stored})
				default:
					found = append(found, foundCommit{w, stored})
				}
			}
		}
		found = append(found, rejected...)
	})
	return chain, found
}

// read adds the content of a bundle to this clone. If the bundle is unusable, it is rejected, and
// the error is a uselessError. If that is not certain, the error is an unreadableError, and the
// ledger records nothing.
func (t *bundles) read(ctx context.Context, work string, stored rules.StoredCommit) error {
	err := t.readBundle(ctx, stored, t.repo.ReadBundle)
	useless := (*uselessError)(nil)
	if !errors.As(err, &useless) || t.actor == "" {
		return err
	}
	reject := rules.RejectBundle{Work: work, Commit: stored.Commit, Bundle: stored.Bundle, Fault: useless.fault, Actor: t.actor}
	if answer, err := t.box.Engine.Do(ctx, reject); err != nil {
		return fmt.Errorf("%w, and it cannot be rejected: %w", useless, err)
	} else if !answer.Repeated {
		warn(t.repo, "%v; a machine that has the commit stores it again", useless)
	}
	return useless
}

// readBundle passes the content of a bundle to read: Repo.ReadBundle or Repo.CheckBundle. The error
// is a uselessError or an unreadableError if the bundle may be to blame.
func (t *bundles) readBundle(ctx context.Context, stored rules.StoredCommit,
	read func(context.Context, io.Reader, string, []string) error) error {
	key := bundleKey{stored.Commit, stored.Bundle}
	blob, err := t.box.Journal.GetBlob(ctx, stored.Bundle)
	if errors.Is(err, journal.ErrNoBlob) {
		// it may be there again
		return &uselessError{stored.Commit, "its blob is not in the ledger any more"}
	}
	if err == nil {
		content := &failing{r: io.LimitReader(blob, stored.Size)}
		err = read(ctx, content, stored.Commit, stored.Needs)
		if content.err != nil {
			err = content.err
		}
		err = errors.Join(err, blob.Close())
	}
	if ctx.Err() != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil {
		delete(t.unread, key)
		return nil
	}
	fault := ""
	content, unreadable := (*workspace.BundleError)(nil), (*workspace.UnreadableError)(nil)
	switch {
	case errors.As(err, &content):
		fault = content.Fault
	case errors.Is(err, journal.ErrDamaged):
		fault = "its blob is damaged"
	case errors.As(err, &unreadable):
		if t.unread == nil {
			t.unread = map[bundleKey]bool{}
		}
		t.unread[key] = true
		return &unreadableError{stored.Commit, unreadable}
	default:
		return err
	}
	if t.failed == nil {
		t.failed = map[bundleKey]string{}
	}
	t.failed[key] = fault
	return &uselessError{stored.Commit, fault}
}

// failing remembers the error with which reading ended: git only sees that nothing more comes.
type failing struct {
	r   io.Reader
	err error
}

func (f *failing) Read(p []byte) (int, error) {
	n, err := f.r.Read(p)
	if err != nil && err != io.EOF {
		f.err = err
	}
	return n, err
}
