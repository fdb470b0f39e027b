package crew

import (
	"cmp"
	"context"
	"fmt"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/run/workspace"
)

// Obtain gets commits of a task, or of the base if work is "", that other machines have made, unless they are in the repository around root already. "" is skipped. The
// ledger records nothing, and no branch moves. If no other machine shares the ledger, it does nothing.
func Obtain(ctx context.Context, b *box.Box, root, work string, commits ...string) error {
	if !b.Config.ManyMachines() || b.Config.Workspace.Shared() {
		return nil
	}
	repo, done, err := workspace.Borrow(ctx, root)
	if err != nil {
		return err
	}
	defer done()
	t, err := newTransport(b, repo, "")
	if err != nil {
		return err
	}
	if commit, err := obtainMissing(ctx, t, repo, work, commits); err != nil {
		return &signalbox.Error{Code: cmp.Or(signalbox.CodeOf(err), signalbox.CodeFailed), Err: fmt.Errorf("the commit %.12s was made on another machine, and cannot be obtained: %w", commit, err), Hint: signalbox.HintOf(err)}
	}
	return nil
}
