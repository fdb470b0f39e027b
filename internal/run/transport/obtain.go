package transport

import (
	"cmp"
	"context"
	"fmt"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/run/workspace"
)

// Obtain gets commits of a task, or of the base if work is "", that other machines have made,
// unless they are in the repository around root already. "" is skipped. The ledger records nothing,
// and no branch moves. If no other machine shares the ledger, it does nothing.
func Obtain(ctx context.Context, b *box.Box, root, work string, commits ...string) error {
	if !b.Config.ManyMachines() || b.Config.Workspace.Shared() {
		return nil
	}
	repo, done, err := workspace.Borrow(ctx, root)
	if err != nil {
		return err
	}
	defer done()
	t, err := newCarrier(b, repo, "")
	if err != nil {
		return err
	}
	if commit, err := obtainMissing(ctx, t, repo, work, commits); err != nil {
		return &signalbox.Error{Code: cmp.Or(signalbox.CodeOf(err), signalbox.CodeFailed),
			Err: fmt.Errorf("the commit %.12s was made on another machine, and cannot be obtained: %w",
				commit, err),
			Hint: signalbox.HintOf(err)}
	}
	return nil
}

// obtainMissing obtains the commits that are not in a repository. If one cannot be obtained, it is
// returned with the error. "" is skipped.
func obtainMissing(
	ctx context.Context, t carrier, repo *workspace.Repo, work string, commits []string,
) (failed string, err error) {
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
