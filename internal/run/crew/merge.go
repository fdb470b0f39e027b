package crew

import (
	"context"
	"errors"
	"slices"
	"strings"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/workspace"
)

// merge brings the finished work of a session into the base branch, or delivers it otherwise.
type merge struct {
	*session
	branch taskBranch
}

func newMerge(s *session) *merge { return &merge{s, taskBranch{s}} }

// carryOut merges finished work into the base branch, unless the policy says to deliver it
// otherwise: exactly the commit that was checked, reviewed and audited, into exactly the base that
// the ledger knows. A previous merger may have crashed after the merge but before it was recorded,
// so it first asks git whether the merge that was prepared took place.
func (m *merge) carryOut(ctx context.Context) error {
	repo, w := m.crew.project.Repo, m.workItem()
	if repo == nil {
		return signalbox.CodeUsage.Errorf(
			"run the crew in a clone of the repository, or set workspace: shared in the box's configuration",
			"cannot merge: this machine uses a shared workspace, not a git repository")
	}
	if w.Task.Commit == "" {
		return errNoCommit
	}
	how := rules.DeliverMerge
	m.crew.box.Engine.View(func(state *rules.State) {
		policy, _ := state.Policy()
		how = policy.Deliver
	})
	switch {
	case how != rules.DeliverMerge:
		return m.deliver(ctx, how)
	case len(m.train) > 0:
		return m.runTrain(ctx)
	}
	command := rules.ReportMerge{Moves: m.crew.exchange.Shared()}
	merged, err := m.landed(ctx, w.Task)
	if err == nil && merged.Commit == "" {
		merged, err = m.commit(ctx, w, &command)
	}
	return m.settle(ctx, command, merged, err)
}

// settle reports the result of a merge. err is why the work was not merged.
func (m *merge) settle(ctx context.Context, command rules.ReportMerge,
	merged workspace.Merged, err error) error {
	command.Session, command.Epoch = m.id, m.epoch
	conflict, failed := (*workspace.ConflictError)(nil), (*failedChecksError)(nil)
	switch {
	case ctx.Err() != nil && err != nil:
		return context.Cause(ctx)
	case isBaseMoved(err):
		m.crew.follower.Observe(ctx, false)
		// it is merged when the checks have run on the new base
		m.release(ctx, "the base has moved")
		return nil
	case errors.Is(err, workspace.ErrUnchanged):
		command.Unchanged = true
	case errors.As(err, &conflict):
		found, err := m.branch.conflicts().Describe(ctx, conflict)
		if err == nil {
			_, err = m.branch.conflicts().Found(ctx, *found)
		}
		return err
	case errors.As(err, &failed):
		command.Refusal = failed.Error()
	case err != nil:
		return err
	default:
		command.Commit, command.Before = merged.Commit, merged.Before
	}
	_, err = m.submit(command)
	if command.Moves && (err == nil || isRefusal(err)) {
		m.crew.follower.Observe(context.WithoutCancel(ctx), false)
		if err != nil && command.Commit != "" && m.crew.exchange.KnownBase() != command.Before {
			m.release(ctx, "the base has moved")
			return nil
		}
	}
	if err != nil {
		return asLeaseLost(err)
	}
	m.removeCompleted(ctx)
	return nil
}

// landed returns the merge that a previous merger prepared, if it took place. Otherwise its
// Commit is "", and the commit of the task is in this clone.
func (m *merge) landed(ctx context.Context, t *rules.Task) (workspace.Merged, error) {
	prepared := t.Merge
	// if other machines share the ledger, the record is what moves the base
	if err := m.crew.exchange.Obtain(ctx, m.work, t.Commit); err != nil || prepared == nil ||
		m.crew.exchange.Shared() {
		return workspace.Merged{}, err
	}
	landed, err := m.crew.project.Repo.Landed(ctx, prepared.Commit)
	if err != nil || !landed {
		return workspace.Merged{}, err
	}
	return workspace.Merged{Commit: prepared.Commit, Before: prepared.Before}, nil
}

// errBaseMoved means that the ledger names another base than when the merge began.
var errBaseMoved = errors.New("the base has moved")

func isBaseMoved(err error) bool {
	moved := (*workspace.MovedError)(nil)
	return errors.As(err, &moved) || errors.Is(err, errBaseMoved)
}

// commit merges, and adds the results of the checks to the command that reports the merge.
func (m *merge) commit(ctx context.Context, w *rules.Work,
	command *rules.ReportMerge) (workspace.Merged, error) {
	request, err := m.request(ctx, w)
	if err != nil {
		return workspace.Merged{}, err
	}
	base := m.crew.exchange.KnownBase()
	if err := m.crew.exchange.Obtain(ctx, "", base); err != nil {
		return workspace.Merged{}, err
	}
	request.Base = base
	request.Check = func(ctx context.Context, dir string) error {
		return m.check(ctx, dir, command)
	}
	request.Prepared = func(commit string) error {
		if err := m.crew.exchange.Publish(ctx, "", commit); err != nil {
			return err
		}
		_, err := m.submit(rules.PrepareMerge{Session: m.id, Epoch: m.epoch, Commit: commit,
			Before: request.Base})
		if err != nil && m.crew.exchange.KnownBase() != request.Base {
			return errBaseMoved
		}
		return asLeaseLost(err)
	}
	if !m.crew.exchange.Shared() {
		return m.crew.project.Repo.Merge(ctx, request)
	}
	commit, err := m.crew.project.Repo.CreateMerge(ctx, request) // the record moves the base
	return workspace.Merged{Commit: commit, Before: base}, err
}

// request returns what to merge, and makes sure that the branch of the task is where it should
// be.
func (m *merge) request(ctx context.Context, w *rules.Work) (workspace.MergeRequest, error) {
	m.branch.restore(ctx, w.Task.Commit, savedCommit(w.Task)...)
	message, err := m.commitText(ctx, w)
	return workspace.MergeRequest{Task: w.ID, Commit: w.Task.Commit, Message: message,
		Squash: m.crew.box.Config.Deliver.Squash}, err
}

// check runs the checks on the result of a merge, and adds what they found to the command that
// reports it. It returns a *failedChecksError if they failed.
func (m *merge) check(ctx context.Context, dir string, command *rules.ReportMerge) error {
	rows, body, err := m.job().Run(ctx, dir)
	command.Rows, command.Body = rows, body
	if err != nil {
		return err
	}
	var accepted []string
	m.crew.box.Engine.View(func(state *rules.State) { accepted = state.AcceptedFailures() })
	return failedRows(rows, accepted)
}

func mergeMessage(w *rules.Work) string {
	if w.Title == "" {
		return w.ID
	}
	return w.ID + ": " + w.Title
}

// failedChecksError reports that the result of a merge fails its checks.
type failedChecksError struct{ names []string }

func (e *failedChecksError) Error() string {
	return "merged into the base it fails: " + strings.Join(e.names, ", ")
}

// failedRows returns a *failedChecksError if a check failed that the human has not accepted.
func failedRows(rows []rules.CheckRow, accepted []string) error {
	var names []string
	for _, r := range rows {
		if !r.Passed && !slices.Contains(accepted, r.Name()) {
			names = append(names, r.Check+" in "+r.Environment)
		}
	}
	if names == nil {
		return nil
	}
	return &failedChecksError{names}
}
