package crew

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/checks"
	"signalbox/internal/run/plan"
	"signalbox/internal/run/stored"
	"signalbox/internal/run/workspace"
	"signalbox/internal/text"
)

// checksRun runs the checks on the work of a session.
type checksRun struct {
	*session
	branch taskBranch
}

func (r *checksRun) carryOut(ctx context.Context) error {
	if r.workItem().Task == nil {
		return r.checkByHand(ctx)
	}
	return r.check(ctx)
}

// check runs the checks on a task, on a remediation, or on the base branch, and reports the
// results.
func (r *checksRun) check(ctx context.Context) (err error) {
	w, repo := r.workItem(), r.crew.project.Repo
	dir, commit, base, change := r.crew.project.Root, "", "", signalbox.Hash{}
	if repo != nil {
		base, err = r.crew.exchange.Base(ctx)
		commit = base
	}
	if repo != nil && err == nil && w.Task.Kind != rules.KindBaseline {
		conflict := (*rules.Conflict)(nil)
		if base, err = r.crew.stack.Start(ctx, r.work, base); err != nil {
			return err
		}
		commit, change, conflict, err = r.commitToCheck(ctx, base)
		if err == nil && conflict != nil {
			_, err := r.branch.conflicts().Found(ctx, *conflict)
			return err
		}
	}
	if err != nil {
		return err
	}
	owner := r.work
	if w.Task.Kind == rules.KindBaseline {
		owner = ""
	}
	if err := r.crew.exchange.Publish(ctx, owner, commit); err != nil {
		return err
	}
	job := r.job()
	if repo != nil && job.NeedsFolder() {
		scratch, openErr := repo.OpenScratch(ctx, w.ID, commit)
		if openErr != nil {
			return openErr
		}
		defer func() { err = errors.Join(err, scratch.Close()) }()
		dir = scratch.Dir
	}
	rows, body, err := job.Run(ctx, dir)
	if err != nil {
		return err
	}
	command := rules.ReportChecks{Session: r.id, Epoch: r.epoch, Commit: commit, Base: base,
		Rows: rows, Body: body}
	if w.Task.Kind == rules.KindTask && change != (signalbox.Hash{}) {
		if err := r.mutate(ctx, job, &command); err != nil {
			return err
		}
	}
	if w.Task.Kind == rules.KindTask {
		command.Differs = r.crew.falseClaims(ctx, w.Task.Claimed, command.Rows)
		command.Unchanged, command.Change = commit != "" && change == (signalbox.Hash{}), change
	}
	if command.Protected, err = r.protectedEdits(ctx, base, commit); err != nil {
		return err
	}
	if command.Large, err = r.largeFiles(ctx, base, commit); err != nil {
		return err
	}
	if command.Steering, err = r.steeringEdits(ctx, base, commit); err != nil {
		return err
	}
	if command.EditsPlan, err = r.editsPlan(ctx, base, commit); err != nil {
		return err
	}
	_, err = r.submit(command)
	return asLeaseLost(err)
}

// mutate runs the mutation checks on work that has passed the others, and adds what they found to
// the command that reports it.
func (r *checksRun) mutate(ctx context.Context, job *checks.Job,
	command *rules.ReportChecks) error {
	var accepted []string
	r.crew.box.Engine.View(func(state *rules.State) { accepted = state.AcceptedFailures() })
	if failedRows(command.Rows, accepted) != nil {
		return nil
	}
	rows, found, body, err := job.RunMutations(ctx, checks.Change{Base: command.Base,
		Commit: command.Commit, Known: r.workItem().Task.CheckFindings()})
	if err != nil {
		return err
	}
	command.Rows, command.Findings = append(command.Rows, rows...), found
	if body != (signalbox.Hash{}) {
		command.Body = body
	}
	return nil
}

// maxLargeFiles is how many large files are reported.
const maxLargeFiles = 50

// largeFiles returns the files that a commit adds to the base and that are larger than allowed,
// with their sizes and the limit.
func (r *checksRun) largeFiles(ctx context.Context, base,
	commit string) (files []string, err error) {
	found, err := r.findLargeFiles(ctx, base, commit)
	for _, f := range found {
		// those that are deleted need no author; see dropLargeFiles
		if !f.Deleted && len(files) < maxLargeFiles {
			files = append(files, fmt.Sprintf("%s (%s bytes, limits.file is %s)", f.Path,
				text.Group(strconv.FormatInt(f.Size, 10)), r.crew.box.Config.Limits.File))
		}
	}
	return files, err
}

func (r *checksRun) findLargeFiles(ctx context.Context, base,
	commit string) ([]workspace.LargeFile, error) {
	repo, limit := r.crew.project.Repo, int64(r.crew.box.Config.Limits.File)
	if commit == "" || limit == 0 {
		return nil, nil
	}
	return repo.LargeFiles(ctx, base, commit, limit)
}

// dropLargeFiles returns a commit without the commits before it, if large files are only in those:
// an author has deleted them, and a merge would bring them into the history anyway. Otherwise it
// returns the commit as it is.
func (r *checksRun) dropLargeFiles(ctx context.Context, base, commit string) (string, error) {
	found, err := r.findLargeFiles(ctx, base, commit)
	if err != nil || len(found) == 0 || r.workItem().Task.KeepLarge ||
		slices.ContainsFunc(found, func(f workspace.LargeFile) bool { return !f.Deleted }) {
		return commit, err
	}
	return r.crew.project.Repo.Squash(ctx, commit, base, r.work+
		": all changes, without large files that were deleted again\n")
}

// protectedEdits returns the protected files that a commit edits relative to the base.
func (r *checksRun) protectedEdits(ctx context.Context, base, commit string) ([]string, error) {
	repo, c := r.crew.project.Repo, r.crew.box.Config
	if commit == "" {
		return nil, nil
	}
	return repo.ProtectedEdits(ctx, base, commit, c)
}

// steeringEdits returns the files with which a commit changes what steers agents, the first of them
// if there are many.
func (r *checksRun) steeringEdits(ctx context.Context, base, commit string) ([]string, error) {
	if commit == base { // also if there is no repository
		return nil, nil
	}
	files, err := r.crew.project.Repo.SteeringEdits(ctx, base, commit)
	return firstSteering(files), err
}

// editsPlan reports whether a commit changes a file that is a plan. The next run would do what it
// says then, and review it as it says.
func (r *checksRun) editsPlan(ctx context.Context, base, commit string) (bool, error) {
	if commit == base { // also if there is no repository
		return false, nil
	}
	texts, err := r.crew.project.Repo.ChangedTexts(ctx, base, commit, func(name string) bool {
		return slices.Contains([]string{".md", ".markdown", ".txt", ""},
			strings.ToLower(path.Ext(name)))
	})
	return slices.ContainsFunc(texts, func(text string) bool {
		_, err := plan.Parse("", []byte(text), &plan.Options{Drafts: true})
		return err == nil
	}), err
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
func (r *checksRun) commitToCheck(ctx context.Context, base string) (commit string,
	change signalbox.Hash, conflict *rules.Conflict, err error) {
	repo, t := r.crew.project.Repo, r.workItem().Task
	saved := ""
	if t.Saved == nil {
		saved, err = r.saveByHand(ctx)
	} else {
		saved = t.Saved.Commit
		err = r.crew.exchange.Obtain(ctx, r.work, saved)
	}
	if err == nil && t.Conflict != nil {
		err = r.crew.exchange.Obtain(ctx, r.work, t.Conflict.Commit, t.Conflict.Base,
			t.Conflict.Draft)
	}
	if err != nil {
		return "", change, nil, err
	}
	resolved, unresolved := saved, []string(nil)
	if t.Conflict != nil {
		if resolved, unresolved, err = r.branch.conflicts().Resolve(ctx, t.Conflict, saved,
			base); err != nil {
			return "", change, nil, err
		}
	}
	if len(unresolved) > 0 {
		r.branch.restore(ctx, saved, t.Commit)
		left := *t.Conflict
		left.Unresolved = unresolved
		return "", change, &left, nil
	}
	commit, err = repo.Combine(ctx, r.work, resolved, base)
	if found := (*workspace.ConflictError)(nil); errors.As(err, &found) {
		r.branch.restore(ctx, resolved, saved, t.Commit)
		conflict, err = r.branch.conflicts().Describe(ctx, found)
		return "", change, conflict, err
	}
	if err != nil {
		return "", change, nil, err
	}
	if commit, err = r.dropLargeFiles(ctx, base, commit); err != nil {
		return "", change, nil, err
	}
	r.branch.restore(ctx, commit, resolved, saved, t.Commit)
	change, err = repo.ChangeID(ctx, base, commit)
	return commit, change, nil, err
}

// saveByHand returns a commit of what is in the task's worktree, if no agent has saved it: a person
// may have done the work.
func (r *checksRun) saveByHand(ctx context.Context) (string, error) {
	if !r.crew.project.Repo.HasTree(r.work) && r.crew.exchange.Shared() {
		return "", signalbox.CodeUsage.Errorf("start signalbox there, with the role ci",
			"the work was done by hand on another machine, and is not saved")
	}
	tree, err := r.crew.project.Repo.Open(ctx, r.work)
	if err != nil {
		return "", err
	}
	commit, _, err := tree.Save(ctx, r.work+": changes that were not committed")
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
