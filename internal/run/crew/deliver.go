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
func (m *merge) deliver(ctx context.Context, how string) error {
	repo, w := m.crew.project.Repo, m.workItem()
	t := w.Task
	if err := m.crew.exchange.Obtain(ctx, m.work, t.Commit, t.Base); err != nil {
		return err
	}
	if changed, err := repo.Changed(ctx, t.Base, t.Commit); err != nil {
		return err
	} else if len(changed) == 0 {
		if _, err := m.submit(rules.ReportMerge{Session: m.id, Epoch: m.epoch,
			Unchanged: true}); err != nil {
			return asLeaseLost(err)
		}
		m.removeCompleted(ctx)
		return nil
	}
	refusal, err := m.crew.stack.Outdated(ctx, m.work, t.Commit)
	if err == nil && refusal == "" {
		refusal, err = m.crew.requests.MergedMeanwhile(ctx, m.work, t)
	}
	if err != nil {
		return err
	} else if refusal != "" {
		_, err := m.submit(rules.ReportMerge{Session: m.id, Epoch: m.epoch, Refusal: refusal})
		return asLeaseLost(err)
	}
	m.branch.restore(ctx, t.Commit, savedCommit(t)...)
	message, err := m.commitText(ctx, w)
	if err != nil {
		return err
	}
	d := rules.Delivery{Tip: t.Commit, Branch: workspace.Branch(w.ID)}
	if d.Commit, err = repo.DeliveryCommit(ctx, workspace.Delivery{Task: w.ID, Commit: t.Commit,
		Base: t.Base, Squash: m.crew.box.Config.Deliver.Squash, Message: message}); err != nil {
		return err
	}
	if err := m.crew.exchange.Publish(ctx, m.work, d.Commit); err != nil {
		return err
	}
	if how != rules.DeliverBranch {
		if err := m.crew.requests.Target.Push(ctx, m.work, t.Delivered, &d); err != nil {
			return err
		}
	}
	if how == rules.DeliverRequest {
		about, err := m.describeRequest(ctx, w, message)
		if err == nil {
			err = m.crew.requests.Target.Open(ctx, about, &d)
		}
		if err != nil {
			return err
		}
	}
	if _, err := m.submit(rules.ReportDelivery{Session: m.id, Epoch: m.epoch,
		Delivery: d}); err != nil {
		return asLeaseLost(err)
	}
	// the branch is where its author worked, and must be here too
	if !m.crew.exchange.HasLatest(m.workItem(), m.epoch) && how == rules.DeliverBranch {
		if err := repo.AddBranch(context.WithoutCancel(ctx), m.work, d.Commit); err != nil {
			m.crew.log.Warn("cannot create the branch of delivered work", "work", m.work, "error",
				workspace.Explain(err))
		}
	}
	m.removeCompleted(ctx)
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
func (m *merge) commitText(ctx context.Context, w *rules.Work) (string, error) {
	claim, err := stored.Blob(ctx, m.crew.box, w.Task.Claimed)
	if err != nil {
		return "", err
	}
	return workspace.CommitText(mergeMessage(w), body(stored.Body(claim)).first("Summary", "text")),
		nil
}

// removeCompleted removes the worktree of the session's work if it is completed.
func (m *merge) removeCompleted(ctx context.Context) {
	if m.workItem().Phase == signalbox.PhaseCompleted {
		m.crew.removeWorktree(context.WithoutCancel(ctx), m.work)
	}
}
