package crew

import (
	"context"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/stored"
	"signalbox/internal/run/workspace"
)

// Work that is not merged here is delivered in steps that can all be repeated, so that another crew
// can continue after a kill at any moment:
//
//  1. The commit to deliver is the one that was checked, reviewed and audited, or one that is made
//     of it, which is the same each time.
//  2. It is pushed. What is there already is not pushed again.
//  3. A pull request is opened. The open one of the same branch is used again.
//  4. The delivery is recorded in the ledger.
//
// Package deliver knows where work is pushed to, and what happens with pull requests then.

// deliver delivers finished work in another way than merging it.
func (s *session) deliver(ctx context.Context, how string) error {
	repo, w := s.crew.project.Repo, s.workItem()
	t := w.Task
	if err := s.crew.exchange.Obtain(ctx, s.work, t.Commit, t.Base); err != nil {
		return err
	}
	if changed, err := repo.Changed(ctx, t.Base, t.Commit); err != nil {
		return err
	} else if len(changed) == 0 {
		if _, err := s.submit(rules.ReportMerge{Session: s.id, Epoch: s.epoch,
			Unchanged: true}); err != nil {
			return asLeaseLost(err)
		}
		s.removeCompleted(ctx)
		return nil
	}
	refusal, err := s.crew.stack.Outdated(ctx, s.work, t.Commit)
	if err == nil && refusal == "" {
		refusal, err = s.crew.requests.MergedMeanwhile(ctx, s.work, t)
	}
	if err != nil {
		return err
	} else if refusal != "" {
		_, err := s.submit(rules.ReportMerge{Session: s.id, Epoch: s.epoch, Refusal: refusal})
		return asLeaseLost(err)
	}
	s.restoreBranch(ctx, t.Commit, savedCommit(t)...)
	message, err := s.commitText(ctx, w)
	if err != nil {
		return err
	}
	d := rules.Delivery{Tip: t.Commit, Branch: workspace.Branch(w.ID)}
	if d.Commit, err = repo.DeliveryCommit(ctx, workspace.Delivery{Task: w.ID, Commit: t.Commit,
		Base: t.Base, Squash: s.crew.box.Config.Deliver.Squash, Message: message}); err != nil {
		return err
	}
	if err := s.crew.exchange.Publish(ctx, s.work, d.Commit); err != nil {
		return err
	}
	if how != rules.DeliverBranch {
		if err := s.crew.requests.Target.Push(ctx, s.work, t.Delivered, &d); err != nil {
			return err
		}
	}
	if how == rules.DeliverRequest {
		if err := s.crew.requests.Target.Open(ctx, s.work, message, s.crew.stack.On(s.work),
			&d); err != nil {
			return err
		}
	}
	if _, err := s.submit(rules.ReportDelivery{Session: s.id, Epoch: s.epoch,
		Delivery: d}); err != nil {
		return asLeaseLost(err)
	}
	// the branch is where its author worked, and must be here too
	if !s.crew.exchange.HasLatest(s.workItem(), s.epoch) && how == rules.DeliverBranch {
		if err := repo.AddBranch(context.WithoutCancel(ctx), s.work, d.Commit); err != nil {
			s.crew.log.Warn("cannot create the branch of delivered work", "work", s.work, "error",
				workspace.Explain(err))
		}
	}
	s.removeCompleted(ctx)
	return nil
}

// savedCommit returns what the branch of a task may be at before the base was merged into it for
// the checks.
func savedCommit(t *rules.Task) []string {
	if t.Saved == nil {
		return nil
	}
	return []string{t.Saved.Commit}
}

// commitText returns what a commit of finished work says: what the task is, and what its developer
// reported.
func (s *session) commitText(ctx context.Context, w *rules.Work) (string, error) {
	claim, err := stored.Blob(ctx, s.crew.box, w.Task.Claimed)
	if err != nil {
		return "", err
	}
	return workspace.CommitText(mergeMessage(w), body(stored.Body(claim)).first("Summary", "text")),
		nil
}

// removeCompleted removes the worktree of the session's work if it is completed.
func (s *session) removeCompleted(ctx context.Context) {
	if s.workItem().Phase == signalbox.PhaseCompleted {
		s.crew.removeWorktree(context.WithoutCancel(ctx), s.work)
	}
}
