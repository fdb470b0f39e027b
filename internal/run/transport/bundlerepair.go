package transport

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"signalbox"
	"signalbox/internal/core/rules"
)

// recoverable returns the commits of a task, or of the base, that are in this clone and whose
// bundles are unusable. A commit that no bundle brought here, and that the base does not contain,
// is not the box's: a person here may have made it, and it must stay private.
func (t *bundles) recoverable(ctx context.Context, work string) (commits []string, err error) {
	var useless []string
	t.box.Engine.View(func(s *rules.State) {
		list := s.StoredCommits(work)
		usable := t.usable(s, list)
		for _, stored := range list {
			if !isStored(usable, stored.Commit) && signalbox.CheckCommit(stored.Commit) == nil {
				useless = append(useless, stored.Commit)
			}
		}
	})
	for _, commit := range useless {
		if shared, err := t.isShared(ctx, commit); err != nil {
			return nil, err
		} else if shared {
			commits = append(commits, commit)
		}
	}
	return commits, nil
}

// repair stores the commits again whose bundles are unusable, and the base if no bundle has it, as
// far as they are in this clone.
func (t *bundles) repair(ctx context.Context) error {
	if err := t.verify(ctx); err != nil {
		return err
	}
	type useless struct {
		work, fault string
		rules.StoredCommit
	}
	var found []useless
	t.box.Engine.View(func(s *rules.State) {
		for _, work := range allWorks(s) {
			for _, stored := range s.StoredCommits(work) {
				if fault := cmp.Or(s.BundleFault(stored), t.fault(stored)); fault != "" &&
					!t.isUnrepaired(stored) {
					found = append(found, useless{work, fault, stored})
				}
			}
		}
	})
	for _, f := range slices.Backward(found) { // the last one contains those before it
		recoverable, err := t.recoverable(ctx, f.work)
		if err != nil {
			return err
		}
		if !slices.Contains(recoverable, f.Commit) {
			continue
		}
		recorded, err := t.publishCommit(ctx, f.work, f.Commit)
		switch {
		case err != nil:
			return fmt.Errorf("store the commit %.12s again, whose bundle cannot be used (%s): %w",
				f.Commit, f.fault, err)
		case recorded:
			warn(t.repo, "the bundle of the commit %.12s could not be used (%s); this machine has stored the commit again", f.Commit, f.fault)
		default: // only this machine cannot use it, or the commit before it has replaced it
			t.mu.Lock()
			if t.unrepaired == nil {
				t.unrepaired = map[bundleKey]bool{}
			}
			t.unrepaired[bundleKey{f.Commit, f.Bundle}] = true
			t.mu.Unlock()
		}
	}
	return t.repairBase(ctx)
}

// repairBase publishes the base if it is in this clone and other machines cannot obtain it. As long
// as the ledger knows no base, any commit of it will do for them.
func (t *bundles) repairBase(ctx context.Context) error {
	base, published := "", false
	t.box.Engine.View(func(
		s *rules.State) {
		base, published = s.Base(), len(s.StoredCommits("")) > 0
	})
	if !published {
		return nil
	}
	obtainable := func() (bool, error) {
		available, err := t.available(ctx)
		if err != nil || base == "" {
			return len(available) > 0, err
		}
		return t.containedIn(ctx, available, base)
	}
	if base != "" {
		if here, err := t.repo.Has(ctx, base); !here || err != nil {
			return err
		}
		if found, err := obtainable(); found || err != nil {
			return err
		}
	}
	if err := t.obtainChain(ctx); err != nil { // what is not here may contain it
		return err
	}
	if found, err := obtainable(); found || err != nil {
		return err
	}
	if base == "" {
		var err error
		if base, err = t.repo.BaseCommit(ctx); err != nil {
			return err
		}
	}
	if err := t.rejectIncomplete(ctx, base); err != nil {
		return err
	}
	recorded, err := t.publishCommit(ctx, "", base)
	if err != nil {
		return fmt.Errorf("store the base %.12s again, which no bundle contains: %w", base, err)
	}
	if recorded {
		warn(t.repo, "no usable bundle contained the base %.12s; this machine has stored it again",
			base)
	}
	return nil
}

// obtainChain tries to obtain the commits of the chain that are not here.
func (t *bundles) obtainChain(ctx context.Context) error {
	available, err := t.available(ctx)
	if err != nil {
		return err
	}
	for _, commit := range available {
		here, err := t.repo.Has(ctx, commit)
		if err == nil && !here {
			err = t.obtain(ctx, "", commit)
		}
		if err != nil && !isMissing(err) {
			return err
		}
	}
	return nil
}

// rejectIncomplete rejects the bundle of a commit of the base if it builds on what no bundle
// contains.
func (t *bundles) rejectIncomplete(ctx context.Context, commit string) error {
	available, err := t.available(ctx)
	if err != nil || t.actor == "" {
		return err
	}
	var incomplete []rules.StoredCommit
	t.box.Engine.View(func(s *rules.State) {
		incomplete = slices.DeleteFunc(t.usable(s, s.StoredCommits("")),
			func(c rules.StoredCommit) bool { return c.Commit != commit || slices.Contains(available, c.Commit) })
	})
	for _, c := range incomplete {
		if _, err := t.box.Engine.Do(ctx, rules.RejectBundle{Commit: c.Commit, Bundle: c.Bundle,
			Fault: "it builds on a commit that no bundle contains", Actor: t.actor}); err != nil {
			return err
		}
	}
	return nil
}

// verify reads the bundles of commits that are here and whose bundles were rejected too often: the
// ledger records no more rejections, so other machines that find them unusable cannot say so.
func (t *bundles) verify(ctx context.Context) error {
	var often []rules.StoredCommit
	t.box.Engine.View(func(s *rules.State) {
		for _, work := range allWorks(s) {
			for _, stored := range s.StoredCommits(work) {
				if s.RejectedOften(stored.Commit) && s.BundleFault(stored) == "" &&
					t.fault(stored) == "" && !t.isVerified(stored) {
					often = append(often, stored)
				}
			}
		}
	})
	for _, stored := range often {
		if ready, err := t.hasAll(ctx,
			append([]string{stored.Commit}, stored.Needs...)); err != nil {
			return err
		} else if !ready {
			continue
		}
		err := t.readBundle(ctx, stored, t.repo.CheckBundle)
		if err != nil && !isMissing(err) {
			return err
		}
		if err == nil {
			t.mu.Lock()
			if t.verified == nil {
				t.verified = map[bundleKey]bool{}
			}
			t.verified[bundleKey{stored.Commit, stored.Bundle}] = true
			t.mu.Unlock()
		}
	}
	return nil
}

// allWorks returns the tasks, after "" for the base.
func allWorks(s *rules.State) []string {
	works := []string{""}
	for w := range s.Works() {
		works = append(works, w.ID)
	}
	return works
}

func (t *bundles) isUnrepaired(stored rules.StoredCommit) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.unrepaired[bundleKey{stored.Commit, stored.Bundle}]
}

func (t *bundles) isVerified(stored rules.StoredCommit) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.verified[bundleKey{stored.Commit, stored.Bundle}]
}
