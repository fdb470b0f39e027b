package crew

import (
	"context"
	"errors"
	"strings"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/workspace"
)

// merge merges finished work into the base branch. A previous merger may have crashed after the merge but before it was recorded,
// so it first asks git whether the work is already merged.
func (s *session) merge(ctx context.Context) error {
	repo, w := s.crew.project.Repo, s.workItem()
	if repo == nil {
		return &signalbox.Error{Code: signalbox.CodeUsage, Err: errors.New("cannot merge: this machine uses a shared workspace, not a git repository"),
			Hint: "run the crew in a clone of the repository, or set workspace: shared in the box's configuration"}
	}
	merged, landed, err := repo.Landed(ctx, w.ID)
	if err != nil {
		return err
	}
	command := rules.ReportMerge{Session: s.id, Epoch: s.epoch}
	if !landed {
		// Merge exactly the commit that was checked, reviewed and audited, even if the branch has changed since.
		tree, openErr := repo.Open(ctx, w.ID)
		if openErr != nil {
			return openErr
		}
		if err := tree.Discard(ctx, w.Task.Commit); err != nil {
			return err
		}
		merged, err = repo.Merge(ctx, w.ID, mergeMessage(w), func(ctx context.Context, dir string) error {
			rows, body, err := s.runChecks(ctx, dir)
			command.Rows, command.Body = rows, body
			if err != nil {
				return err
			}
			return failedRows(rows)
		})
	}
	conflict, failed := (*workspace.ConflictError)(nil), (*failedChecksError)(nil)
	switch {
	case ctx.Err() != nil && err != nil:
		return context.Cause(ctx)
	case errors.As(err, &conflict):
		command.Refusal = "it conflicts with the base in " + strings.Join(conflict.Files, ", ")
	case errors.As(err, &failed):
		command.Refusal = failed.Error()
	case err != nil:
		return err
	default:
		command.Commit, command.Before = merged.Commit, merged.Before
		if merged.Warning != "" {
			s.crew.log.Warn(merged.Warning)
		}
	}
	if _, err := s.submit(command); err != nil {
		return asLeaseLost(err)
	}
	if command.Refusal == "" {
		s.removeWorktree(context.WithoutCancel(ctx))
	}
	return nil
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

// failedRows returns a *failedChecksError if a check failed.
func failedRows(rows []rules.CheckRow) error {
	var names []string
	for _, r := range rows {
		if !r.Passed {
			names = append(names, r.Check+" in "+r.Environment)
		}
	}
	if names == nil {
		return nil
	}
	return &failedChecksError{names}
}
