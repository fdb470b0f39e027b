package transport

import (
	"context"
	"slices"
	"sync"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/workspace"
)

// sharedRemote is the carrier that puts commits into a git repository that all machines reach,
// under refs/signalbox/BOX/.
type sharedRemote struct {
	box     *box.Box
	repo    *workspace.Repo
	address string

	mu sync.Mutex
	// the refs when this process first listed them; nil before that; guarded by mu
	known *workspace.Shared
}

func (t *sharedRemote) ref(work, commit string) workspace.SharedRef {
	return workspace.SharedRef{Remote: t.address, Box: t.box.ID(), Work: work, Commit: commit}
}

// look lists the refs once. Other machines remove only those that no machine needs any more.
func (t *sharedRemote) look(ctx context.Context) (*workspace.Shared, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known != nil {
		return t.known, nil
	}
	found, err := t.repo.ListShared(ctx, t.address, t.box.ID())
	if err == nil {
		t.known = found
	}
	return found, err
}

func (t *sharedRemote) publish(ctx context.Context, work, commit string) error {
	found, err := t.look(ctx)
	if err != nil || found.Has(t.ref(work, commit)) {
		return err
	}
	return t.repo.PushShared(ctx, t.ref(work, commit))
}

func (t *sharedRemote) obtain(ctx context.Context, work, commit string) error {
	base := ""
	t.box.Engine.View(func(s *rules.State) { base = s.Base() })
	refs := []workspace.SharedRef{t.ref(work, commit), t.ref("", commit)}
	if base != "" { // which contains earlier ones
		refs = append(refs, t.ref("", base))
	}
	err := error(nil)
	for _, ref := range slices.Compact(refs) {
		if err = t.repo.FetchShared(ctx, ref); err != nil &&
			signalbox.CodeOf(err) != signalbox.CodeNotFound {
			return err
		}
		if here, lookErr := t.repo.Has(ctx, commit); here || lookErr != nil {
			return lookErr
		}
	}
	return err
}

func (t *sharedRemote) base(ctx context.Context) (branch, commit string, err error) {
	found, err := t.look(ctx)
	if err != nil {
		return "", "", err
	}
	return found.Branch, found.Commit, nil
}

// repair does nothing: git checks what is pushed.
func (t *sharedRemote) repair(context.Context) error { return nil }

func (t *sharedRemote) tidy(ctx context.Context) error {
	shared, err := t.repo.SharedCommits(ctx)
	if err != nil {
		return err
	}
	base, completed := "", map[string]bool{}
	t.box.Engine.View(func(s *rules.State) {
		base = s.Base()
		needed := map[string]bool{base: true}
		for w := range s.Works() {
			if w.Task == nil {
				continue
			}
			// Work that was delivered and not merged is nowhere else.
			if d := w.Task.Delivered; w.Phase == signalbox.PhaseCompleted &&
				(d == nil || d.Request != "") {
				completed[w.ID] = true
				continue
			}
			for _, commit := range namedCommits(w.Task) {
				needed[commit] = true
			}
		}
		shared = slices.DeleteFunc(shared, func(commit string) bool { return needed[commit] })
	})
	if err := t.repo.DropShared(ctx, shared...); err != nil || base == "" {
		return err
	}
	if here, err := t.repo.Has(ctx, base); !here || err != nil {
		return err // another machine tidies up
	}
	return t.repo.PruneShared(ctx, t.address, t.box.ID(), base,
		func(work string) bool { return completed[work] })
}
