package crew

import (
	"context"

	"signalbox/internal/core/rules"
	"signalbox/internal/run/conflicts"
	"signalbox/internal/run/workspace"
)

// conflicts returns what finds and reports the conflicts of the session's task.
func (s *session) conflicts() *conflicts.Resolver {
	return &conflicts.Resolver{Config: s.crew.box.Config, Repo: s.crew.project.Repo,
		Exchange: s.crew.exchange, Work: s.work, Put: s.put,
		Moved: s.recordMovedBranch, Report: func(found rules.Conflict) (rules.Answer, error) {
			answer, err := s.submit(rules.ReportConflict{Session: s.id, Epoch: s.epoch,
				Conflict: found})
			return answer, asLeaseLost(err)
		}}
}

// restoreBranch puts the branch of the session's task back on the commit that counts, and records
// if somebody moved it elsewhere. What counts is on the ledger, so a failure is only logged.
func (s *session) restoreBranch(ctx context.Context, commit string, expected ...string) {
	if !s.crew.exchange.HasLatest(s.workItem(), s.epoch) { // what is here, if anything, is old
		return
	}
	tree, err := s.crew.project.Repo.Open(ctx, s.work)
	if err == nil {
		found := ""
		found, err = tree.Restore(ctx, commit, expected...)
		s.recordMovedBranch(commit, found)
	}
	if err != nil && ctx.Err() == nil {
		s.crew.log.Warn("cannot restore the branch; its recorded commit counts", "work", s.work,
			"error", workspace.Explain(err))
	}
}

// recordMovedBranch records that the branch of the session's task was found at another commit than
// expected; "" means that it was not.
func (s *session) recordMovedBranch(expected, found string) {
	if found == "" {
		return
	}
	if _, err := s.submit(rules.ReportBranch{Session: s.id, Epoch: s.epoch, Expected: expected,
		Found: found}); err != nil && !isRefusal(err) {
		s.crew.log.Warn("cannot record that a branch was moved", "work", s.work, "error", err)
	}
}
