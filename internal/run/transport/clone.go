package transport

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/workspace"
)

// cloneActor is recorded for the bundles that a new clone rejects.
const cloneActor = "crew"

// Clone creates a git repository in a new or empty folder from what other machines of a box have
// published, with the base branch checked out at the commit that the ledger names. It needs no
// network but the ledger's, unless the machines share a remote repository.
func Clone(ctx context.Context, b *box.Box, dir string) (err error) {
	_, statErr := os.Lstat(dir)
	base, sha256 := "", false
	b.Engine.View(func(s *rules.State) {
		base = s.Base()
		if stored := s.StoredCommits(""); len(stored) > 0 {
			sha256 = len(stored[0].Commit) == 64
		}
	})
	repo, err := workspace.NewClone(ctx, dir, sha256 || len(base) == 64)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil && errors.Is(statErr, os.ErrNotExist) {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	t, err := newCarrier(b, repo, cloneActor)
	if err != nil {
		return err
	}
	branch, first, err := t.base(ctx)
	if err != nil {
		return err
	}
	if branch == "" {
		return signalbox.CodeNotFound.Errorf(
			"run signalbox invite, run or worker on the machine that has the repository",
			"no machine has published its repository yet")
	}
	want := cmp.Or(base, first)
	err = t.obtain(ctx, "", want)
	for err != nil && base == "" { // before the first checks, an earlier commit will do
		_, earlier, lookErr := t.base(ctx)
		if lookErr != nil || earlier == want {
			break
		}
		want = earlier
		err = t.obtain(ctx, "", want)
	}
	if err != nil {
		return failed(fmt.Sprintf("get the commit %.12s from other machines", want), err)
	}
	return repo.CheckOut(ctx, branch, want)
}
