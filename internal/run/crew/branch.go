package crew

import (
	"context"

	"signalbox/internal/core/rules"
	"signalbox/internal/run/conflicts"
	"signalbox/internal/run/workspace"
)

// taskBranch is the branch of the task that a session works on.
type taskBranch struct{ *session }

// conflicts returns what finds and reports the conflicts of the task with the base.
func (b taskBranch) conflicts() *conflicts.Resolver {
	return &conflicts.Resolver{Config: b.crew.box.Config, Repo: b.crew.project.Repo,
		Exchange: b.crew.exchange, Work: b.work, Put: b.put,
		Moved: b.recordMoved, Report: func(found rules.Conflict) (rules.Answer, error) {
			answer, err := b.submit(rules.ReportConflict{Session: b.id, Epoch: b.epoch,
				Conflict: found})
			return answer, asLeaseLost(err)
		}}
}

// restore puts the branch back on the commit that counts, and records if somebody moved it
// elsewhere. What counts is on the ledger, so a failure is only logged.
func (b taskBranch) restore(ctx context.Context, commit string, expected ...string) {
	if !b.crew.exchange.HasLatest(b.workItem(), b.epoch) { // what is here, if anything, is old
		return
	}
	tree, err := b.crew.project.Repo.Open(ctx, b.work)
	if err == nil {
		found := ""
		found, err = tree.Restore(ctx, commit, expected...)
		b.recordMoved(commit, found)
	}
	if err != nil && ctx.Err() == nil {
		b.crew.log.Warn("cannot restore the branch; its recorded commit counts", "work", b.work,
			"error", workspace.Explain(err))
	}
}

// recordMoved records that the branch was found at another commit than expected; "" means that it
// was not.
func (b taskBranch) recordMoved(expected, found string) {
	if found == "" {
		return
	}
	if _, err := b.submit(rules.ReportBranch{Session: b.id, Epoch: b.epoch, Expected: expected,
		Found: found}); err != nil && !isRefusal(err) {
		b.crew.log.Warn("cannot record that a branch was moved", "work", b.work, "error", err)
	}
}
