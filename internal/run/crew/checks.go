package crew

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/checks"
	"signalbox/internal/run/stored"
	"signalbox/internal/run/workspace"
	"signalbox/internal/text"
)

// check runs the checks on a task, on a remediation, or on the base branch, and reports the
// results.
func (s *session) check(ctx context.Context) (err error) {
	w, repo := s.workItem(), s.crew.project.Repo
	dir, commit, base, changed := s.crew.project.Root, "", "", []string(nil)
	if repo != nil {
		base, err = s.crew.exchange.Base(ctx)
		commit = base
	}
	if repo != nil && err == nil && w.Task.Kind != rules.KindBaseline {
		conflict := (*rules.Conflict)(nil)
		if base, err = s.crew.stack.Start(ctx, s.work, base); err != nil {
			return err
		}
		commit, changed, conflict, err = s.commitToCheck(ctx, base)
		if err == nil && conflict != nil {
			_, err := s.conflicts().Found(ctx, *conflict)
			return err
		}
	}
	if err != nil {
		return err
	}
	owner := s.work
	if w.Task.Kind == rules.KindBaseline {
		owner = ""
	}
	if err := s.crew.exchange.Publish(ctx, owner, commit); err != nil {
		return err
	}
	if repo != nil && len(s.crew.box.Config.Checks) > 0 {
		scratch, openErr := repo.OpenScratch(ctx, w.ID, commit)
		if openErr != nil {
			return openErr
		}
		defer func() { err = errors.Join(err, scratch.Close()) }()
		dir = scratch.Dir
	}
	rows, body, err := s.job().Run(ctx, dir)
	if err != nil {
		return err
	}
	command := rules.ReportChecks{Session: s.id, Epoch: s.epoch, Commit: commit, Base: base, Rows: rows, Body: body}
	if w.Task.Kind == rules.KindTask {
		command.Differs = s.crew.falseClaims(ctx, w.Task.Claimed, rows)
		command.Unchanged = commit != "" && len(changed) == 0
	}
	if command.Protected, err = s.protectedEdits(ctx, base, commit); err != nil {
		return err
	}
	if command.Large, err = s.largeFiles(ctx, base, commit); err != nil {
		return err
	}
	if command.Steering, err = s.steeringEdits(ctx, base, commit); err != nil {
		return err
	}
	_, err = s.submit(command)
	return asLeaseLost(err)
}

// maxLargeFiles is how many large files are reported.
const maxLargeFiles = 50

// largeFiles returns the files that a commit adds to the base and that are larger than allowed,
// with their sizes and the limit.
func (s *session) largeFiles(ctx context.Context, base, commit string) (files []string, err error) {
	found, err := s.findLargeFiles(ctx, base, commit)
	for _, f := range found {
		// those that are deleted need no author; see dropLargeFiles
		if !f.Deleted && len(files) < maxLargeFiles {
			files = append(files, fmt.Sprintf("%s (%s bytes, limits.file is %s)", f.Path,
				text.Group(strconv.FormatInt(f.Size, 10)), s.crew.box.Config.Limits.File))
		}
	}
	return files, err
}

func (s *session) findLargeFiles(ctx context.Context, base,
	commit string) ([]workspace.LargeFile, error) {
	repo, limit := s.crew.project.Repo, int64(s.crew.box.Config.Limits.File)
	if commit == "" || limit == 0 {
		return nil, nil
	}
	return repo.LargeFiles(ctx, base, commit, limit)
}

// dropLargeFiles returns a commit without the commits before it, if large files are only in those:
// an author has deleted them, and a merge would bring them into the history anyway. Otherwise it
// returns the commit as it is.
func (s *session) dropLargeFiles(ctx context.Context, base, commit string) (string, error) {
	found, err := s.findLargeFiles(ctx, base, commit)
	if err != nil || len(found) == 0 || s.workItem().Task.KeepLarge ||
		slices.ContainsFunc(found, func(f workspace.LargeFile) bool { return !f.Deleted }) {
		return commit, err
	}
	return s.crew.project.Repo.Squash(ctx, commit, base, s.work+
		": all changes, without large files that were deleted again\n")
}

// protectedEdits returns the protected files that a commit edits relative to the base.
func (s *session) protectedEdits(ctx context.Context, base, commit string) ([]string, error) {
	repo, c := s.crew.project.Repo, s.crew.box.Config
	if commit == "" {
		return nil, nil
	}
	return repo.ProtectedEdits(ctx, base, commit, c)
}

// steeringEdits returns the files with which a commit changes what steers agents, the first of them
// if there are many.
func (s *session) steeringEdits(ctx context.Context, base, commit string) ([]string, error) {
	if commit == base { // also if there is no repository
		return nil, nil
	}
	files, err := s.crew.project.Repo.SteeringEdits(ctx, base, commit)
	return firstSteering(files), err
}

// firstSteering returns the first of many files, and how many more there are.
func firstSteering(files []string) []string {
	if more := len(files) - maxSteering; more > 0 {
		return append(files[:maxSteering:maxSteering], fmt.Sprintf("%d more", more))
	}
	return files
}

// commitToCheck returns the commit that the author saved, with the base merged into it, and the
// files it changes. From here on the task's branch is not read any more: this commit is checked,
// reviewed, audited and merged. If the two conflict, or if the author has not resolved an earlier
// conflict, it returns the conflict instead.
func (s *session) commitToCheck(ctx context.Context, base string) (commit string, changed []string,
	conflict *rules.Conflict, err error) {
	repo, t := s.crew.project.Repo, s.workItem().Task
	saved := ""
	if t.Saved == nil {
		saved, err = s.saveByHand(ctx)
	} else {
		saved = t.Saved.Commit
		err = s.crew.exchange.Obtain(ctx, s.work, saved)
	}
	if err == nil && t.Conflict != nil {
		err = s.crew.exchange.Obtain(ctx, s.work, t.Conflict.Commit, t.Conflict.Base,
			t.Conflict.Draft)
	}
	if err != nil {
		return "", nil, nil, err
	}
	resolved, unresolved := saved, []string(nil)
	if t.Conflict != nil {
		if resolved, unresolved, err = s.conflicts().Resolve(ctx, t.Conflict, saved,
			base); err != nil {
			return "", nil, nil, err
		}
	}
	if len(unresolved) > 0 {
		s.restoreBranch(ctx, saved, t.Commit)
		left := *t.Conflict
		left.Unresolved = unresolved
		return "", nil, &left, nil
	}
	commit, err = repo.Combine(ctx, s.work, resolved, base)
	if found := (*workspace.ConflictError)(nil); errors.As(err, &found) {
		s.restoreBranch(ctx, resolved, saved, t.Commit)
		conflict, err = s.conflicts().Describe(ctx, found)
		return "", nil, conflict, err
	}
	if err != nil {
		return "", nil, nil, err
	}
	if commit, err = s.dropLargeFiles(ctx, base, commit); err != nil {
		return "", nil, nil, err
	}
	s.restoreBranch(ctx, commit, resolved, saved, t.Commit)
	changed, err = repo.Changed(ctx, base, commit)
	return commit, changed, nil, err
}

// saveByHand returns a commit of what is in the task's worktree, if no agent has saved it: a person
// may have done the work.
func (s *session) saveByHand(ctx context.Context) (string, error) {
	if !s.crew.project.Repo.HasTree(s.work) && s.crew.exchange.Shared() {
		return "", signalbox.CodeUsage.Errorf("start signalbox there, with the role ci",
			"the work was done by hand on another machine, and is not saved")
	}
	tree, err := s.crew.project.Repo.Open(ctx, s.work)
	if err != nil {
		return "", err
	}
	commit, _, err := tree.Save(ctx, s.work+": changes that were not committed")
	if workspace.NeedsAgent(err) { // check what is committed
		return tree.Commit(ctx)
	}
	return commit, err
}

// falseClaims compares the developer's table of check results with the real ones, and returns a
// line for each difference.
func (c *Crew) falseClaims(ctx context.Context, claimed signalbox.Hash,
	rows []rules.CheckRow) []string {
	text, err := stored.Blob(ctx, c.box, claimed)
	if err != nil {
		return nil
	}
	table, _ := stored.Body(text)["Environment Verification Matrix"].([]any)
	var differ []string
	for _, line := range table {
		row, _ := line.(map[string]any)
		field := func(name string) string { text, _ := row[name].(string); return strings.TrimSpace(text) }
		for _, r := range rows {
			if !strings.EqualFold(field("Check"), r.Check) || field("Environment") != "" &&
				!strings.EqualFold(field("Environment"), r.Environment) {
				continue
			}
			exit, err := strconv.Atoi(field("Exit Code"))
			passed := strings.EqualFold(field("Result"), "PASS")
			if err == nil && exit != r.Exit || field("Result") != "" && passed != r.Passed {
				differ = append(differ, fmt.Sprintf("%s in %s: reported %s (%s), was %s (%d)",
					r.Check, r.Environment, field("Result"), field("Exit Code"),
					checks.PassOrFail(r.Passed), r.Exit))
			}
		}
	}
	return differ
}
