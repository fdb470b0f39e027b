package deliver

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/transport"
	"signalbox/internal/run/workspace"
)

// Stack finds the work that a task builds on and that is delivered, but not on the base branch.
type Stack struct {
	Box      *box.Box
	Repo     *workspace.Repo
	Exchange *transport.Exchange
}

// On returns the deliveries that are not merged, of the tasks that a task depends on.
func (s *Stack) On(work string) (found []rules.Delivery) {
	s.Box.Engine.View(func(state *rules.State) {
		seen := map[string]bool{work: true}
		var walk func(id string)
		walk = func(id string) {
			w, known := state.Work(id)
			if !known || w.Task == nil {
				return
			}
			for _, blocker := range slices.Concat(w.Task.Blockers, w.Task.Waits) {
				if seen[blocker] {
					continue
				}
				seen[blocker] = true
				walk(blocker)
				b, known := state.Work(blocker)
				if !known || b.Task == nil || b.Task.Delivered == nil || b.Task.Cancelled != "" {
					continue
				}
				if b.Phase == signalbox.PhaseCompleted && b.Task.Delivered.Request != "" {
					continue // it was merged
				}
				found = append(found, b.Task.Delivered.Delivery)
			}
		}
		walk(work)
	})
	return found
}

// workOf returns the task whose work was delivered.
func workOf(d rules.Delivery) string { return strings.TrimPrefix(d.Branch, workspace.Branch("")) }

// Start returns what the work of a task starts from and is compared with: a commit of the base
// branch, with the work of the tasks that it depends on, if that was delivered and is not merged.
func (s *Stack) Start(ctx context.Context, work, base string) (string, error) {
	var commits []string
	for _, d := range s.On(work) {
		if err := s.Exchange.Obtain(ctx, workOf(d), d.Commit); err != nil {
			return "", err
		}
		commits = append(commits, d.Commit)
	}
	if base != "" {
		if err := s.Exchange.Obtain(ctx, "", base); err != nil {
			return "", err
		}
	}
	if base == "" || commits == nil {
		return base, nil
	}
	start, err := s.Repo.Stack(ctx, base, commits)
	if err != nil {
		// It hides a conflict, because its author cannot resolve that.
		return "", fmt.Errorf("combine what the tasks delivered that %s depends on: %v", work, err)
	}
	return start, nil
}

// Outdated returns why work must go back before it is delivered, "" if it need not: what it builds
// on has changed since the checks.
func (s *Stack) Outdated(ctx context.Context, work, commit string) (string, error) {
	for _, below := range s.On(work) {
		if err := s.Exchange.Obtain(ctx, workOf(below), below.Commit); err != nil {
			return "", err
		}
		if current, err := s.Repo.Contains(ctx, commit, below.Commit); err != nil {
			return "", err
		} else if !current {
			return fmt.Sprintf("it builds on an earlier version of %s, which has changed since "+
				"the checks; %.12s is merged into the branch now", below.Branch, below.Commit), nil
		}
	}
	return "", nil
}
