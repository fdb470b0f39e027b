package crew

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/core/rules"
	"signalbox/internal/process"
	"signalbox/internal/run/contain"
	"signalbox/internal/run/prompts"
	"signalbox/internal/run/workspace"
	"signalbox/internal/text"
)

// check runs the checks on a task, on a remediation, or on the base branch, and reports the results.
func (s *session) check(ctx context.Context) (err error) {
	w, repo := s.workItem(), s.crew.project.Repo
	dir, commit, base, changed := s.crew.project.Root, "", "", []string(nil)
	if repo != nil {
		base, err = s.crew.exchange.Base(ctx)
		commit = base
	}
	if repo != nil && err == nil && w.Task.Kind != rules.KindBaseline {
		conflict := (*rules.Conflict)(nil)
		if base, err = s.crew.startOf(ctx, s.work, base); err != nil {
			return err
		}
		commit, changed, conflict, err = s.commitToCheck(ctx, base)
		if err == nil && conflict != nil {
			_, err := s.reportConflictFound(ctx, *conflict)
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
	rows, body, err := s.prepareAndCheck(ctx, dir)
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

// largeFiles returns the files that a commit adds to the base and that are larger than allowed, with their sizes and the limit.
func (s *session) largeFiles(ctx context.Context, base, commit string) (files []string, err error) {
	found, err := s.findLargeFiles(ctx, base, commit)
	for _, f := range found {
		if !f.Deleted && len(files) < maxLargeFiles { // those that are deleted need no author; see dropLargeFiles
			files = append(files, fmt.Sprintf("%s (%s bytes, limits.file is %s)", f.Path, text.Group(strconv.FormatInt(f.Size, 10)), s.crew.box.Config.Limits.File))
		}
	}
	return files, err
}

func (s *session) findLargeFiles(ctx context.Context, base, commit string) ([]workspace.LargeFile, error) {
	repo, limit := s.crew.project.Repo, int64(s.crew.box.Config.Limits.File)
	if commit == "" || limit == 0 {
		return nil, nil
	}
	return repo.LargeFiles(ctx, base, commit, limit)
}

// dropLargeFiles returns a commit without the commits before it, if large files are only in those: an author has deleted them, and a
// merge would bring them into the history anyway. Otherwise it returns the commit as it is.
func (s *session) dropLargeFiles(ctx context.Context, base, commit string) (string, error) {
	found, err := s.findLargeFiles(ctx, base, commit)
	if err != nil || len(found) == 0 || s.workItem().Task.KeepLarge || slices.ContainsFunc(found, func(f workspace.LargeFile) bool { return !f.Deleted }) {
		return commit, err
	}
	return s.crew.project.Repo.Squash(ctx, commit, base, s.work+": all changes, without large files that were deleted again\n")
}

// protectedEdits returns the protected files that a commit edits relative to the base.
func (s *session) protectedEdits(ctx context.Context, base, commit string) ([]string, error) {
	repo, c := s.crew.project.Repo, s.crew.box.Config
	if commit == "" {
		return nil, nil
	}
	return repo.ProtectedEdits(ctx, base, commit, c)
}

// steeringEdits returns the files with which a commit changes what steers agents, the first of them if there are many.
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

// commitToCheck returns the commit that the author saved, with the base merged into it, and the files it changes. From here on the
// task's branch is not read any more: this commit is checked, reviewed, audited and merged. If the two conflict, or if the author has
// not resolved an earlier conflict, it returns the conflict instead.
func (s *session) commitToCheck(ctx context.Context, base string) (commit string, changed []string, conflict *rules.Conflict, err error) {
	repo, t := s.crew.project.Repo, s.workItem().Task
	saved := ""
	if t.Saved == nil {
		saved, err = s.saveByHand(ctx)
	} else {
		saved = t.Saved.Commit
		err = s.crew.exchange.Obtain(ctx, s.work, saved)
	}
	if err == nil && t.Conflict != nil {
		err = s.crew.exchange.Obtain(ctx, s.work, t.Conflict.Commit, t.Conflict.Base, t.Conflict.Draft)
	}
	if err != nil {
		return "", nil, nil, err
	}
	resolved, unresolved := saved, []string(nil)
	if t.Conflict != nil {
		if resolved, unresolved, err = repo.ResolveConflict(ctx, s.work, namesOf(t.Conflict), saved, base); err != nil {
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
		conflict, err = s.describeConflict(ctx, found)
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

// saveByHand returns a commit of what is in the task's worktree, if no agent has saved it: a person may have done the work.
func (s *session) saveByHand(ctx context.Context) (string, error) {
	if !s.crew.project.Repo.HasTree(s.work) && s.crew.exchange.Shared() {
		return "", &signalbox.Error{Code: signalbox.CodeUsage, Err: errors.New("the work was done by hand on another machine, and is not saved"),
			Hint: "start signalbox there, with the role ci"}
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

// prepareAndCheck makes a temporary worktree ready, and runs all checks there. Without a repository or checks there is none. A setup command that fails
// because of the task is a check that fails, and the others are not run.
//
// The home folders are new, and removed at the end. Only a baseline, which runs nothing that a task wrote, fills the cache.
func (s *session) prepareAndCheck(ctx context.Context, dir string) (rows []rules.CheckRow, body signalbox.Hash, err error) {
	task := s.workItem().Task
	homes, err := s.crew.site.OpenHomes(s.work, contain.ChecksHome, task != nil && task.Kind == rules.KindBaseline)
	if err != nil {
		return nil, body, err
	}
	defer func() { err = errors.Join(err, homes.Close()) }()
	if len(s.crew.box.Config.Checks) > 0 {
		err = s.prepare(ctx, worktree{dir: dir, homes: homes})
	}
	if fault := (*setupFault)(nil); errors.As(err, &fault) {
		return []rules.CheckRow{fault.row}, fault.body, nil
	}
	if err == nil {
		err = homes.EndSetup()
	}
	if err != nil {
		return nil, body, err
	}
	if rows, body, err = s.runChecks(ctx, dir, homes); err != nil {
		return rows, body, err
	}
	if err := homes.Publish(); err != nil {
		s.crew.log.Warn("the cache is not filled", "work", s.work, "error", err)
	}
	return rows, body, nil
}

// runChecks runs all checks in all environments and stores their output. The blob body has the output of those that failed.
func (s *session) runChecks(ctx context.Context, dir string, homes *contain.Homes) (rows []rules.CheckRow, body signalbox.Hash, err error) {
	c, w := s.crew.box.Config, s.workItem()
	baseline := w.Task != nil && w.Task.Kind == rules.KindBaseline
	results, err := workspace.RunChecks(ctx, dir, checksOf(c), workspace.ChecksOptions{
		Environments: environmentsOf(c),
		Env:          []string{"SIGNALBOX_WORK=" + s.work},
		Contain:      s.containCheck(dir, homes),
		Grace:        s.crew.box.Config.Grace,
		Started:      s.endWithLease,
		Start:        s.crew.startCheck,
		Register: func(name string, id process.ID) (func(), error) {
			return func() { s.crew.owner.Remove(name) }, s.crew.owner.Add(name, id)
		},
		Each: func(r workspace.CheckResult) {
			if s.crew.opts.Live != nil {
				s.crew.opts.Live(Activity{s.work, s.id, s.role, fmt.Sprintf("%s: %s", r.Check, passOrFail(r.Passed))})
			}
		},
	})
	if ctx.Err() != nil && leftBy(err) == nil {
		return nil, body, context.Cause(ctx)
	}
	if err != nil {
		return nil, body, err
	}
	var failed strings.Builder
	for _, r := range results {
		output, err := s.put(r.Output)
		if err != nil {
			return nil, body, err
		}
		recorded, err := s.recordedPolicy(r.Sandbox)
		if err != nil {
			return nil, body, err
		}
		row := rules.CheckRow{Check: r.Check, Environment: r.Environment, Exit: r.Exit, Passed: r.Passed,
			Millis: r.Duration.Milliseconds(), Output: output, Sandbox: recorded}
		if !r.Passed {
			if baseline { // a task may have caused what a check of its own commit lacks
				row.Cause = failureCause(dir, c, s.containCheck(dir, homes), r)
			}
			fmt.Fprintf(&failed, "%s in %s: exit status %d after %s\n\n%s\n\n", r.Check, r.Environment, r.Exit, r.Duration.Round(time.Millisecond), quoteOutput(r.Output))
		}
		rows = append(rows, row)
	}
	if failed.Len() > 0 {
		body, err = s.put([]byte(failed.String()))
	}
	return rows, body, err
}

// failureCause returns why a check failed in a folder and what to do, if that is something that no agent should have to repair.
// contained returns what a check gets.
func failureCause(dir string, c *config.Config, contained func(workspace.Check, workspace.Environment, string) *contain.Program, r workspace.CheckResult) string {
	check := workspace.Check{}
	for _, known := range checksOf(c) {
		if known.Name == r.Check {
			check = known
		}
	}
	environment := workspace.Environment{}
	for _, known := range environmentsOf(c) {
		if known.Name == r.Environment {
			environment = known
		}
	}
	var causes []string
	for _, cause := range workspace.DiagnoseFailure(os.DirFS(dir), check, environment, contained(check, environment, exampleSession), r) {
		causes = append(causes, fmt.Sprintf("%s (%s)", cause.What, cause.Fix))
	}
	return strings.Join(causes, "; ")
}

// MissingForCheck is what a configured check needs and does not find.
type MissingForCheck struct {
	Check string
	workspace.Cause
}

// DiagnoseChecks returns what the configured checks of a project need and do not find, without running them. dir is the folder of the box,
// and files are those of the project that a check sees.
func DiagnoseChecks(c *config.Config, project Project, dir string, files fs.FS) (missing []MissingForCheck, err error) {
	site, err := SiteOf(c, project, dir)
	if err != nil {
		return nil, err
	}
	contained := containCheck(site, exampleWork, exampleFolder(site, project), nil, contain.Ports{})
	for _, check := range checksOf(c) {
		for _, environment := range environmentsOf(c) {
			if len(check.Environments) > 0 && !slices.Contains(check.Environments, environment.Name) {
				continue
			}
			for _, cause := range workspace.Diagnose(files, check, environment, contained(check, environment, exampleSession)) {
				if cause.File && (len(c.Setup) > 0 || len(c.Copy) > 0) {
					continue // the worktree may have it once it is prepared
				}
				if found := (MissingForCheck{check.Name, cause}); !slices.Contains(missing, found) {
					missing = append(missing, found)
				}
			}
		}
	}
	return missing, nil
}

func passOrFail(passed bool) string {
	if passed {
		return "PASS"
	}
	return "FAIL"
}

// maxShown bounds how much of a check's output is shown to a developer.
const maxShown = 8 << 10

// quoteOutput returns the end of a check's output as an indented block.
func quoteOutput(output []byte) string { return prompts.Indent(endOf(output)) }

// endOf returns the end of a check's output.
func endOf(output []byte) string {
	return strings.ToValidUTF8(string(output[max(0, len(output)-maxShown):]), "\ufffd")
}

func checksOf(c *config.Config) (checks []workspace.Check) {
	for _, check := range c.Checks {
		checks = append(checks, workspace.Check{Name: check.Name, Command: check.Command, Timeout: check.Timeout, Environments: check.Environments})
	}
	return checks
}

func environmentsOf(c *config.Config) (environments []workspace.Environment) {
	for _, e := range c.Environments {
		environments = append(environments, workspace.Environment{Name: e.Name, Run: e.Run, Env: e.Env})
	}
	return environments
}

// falseClaims compares the developer's table of check results with the real ones, and returns a line for each difference.
func (c *Crew) falseClaims(ctx context.Context, claimed signalbox.Hash, rows []rules.CheckRow) []string {
	text, err := c.blob(ctx, claimed)
	if err != nil {
		return nil
	}
	table, _ := storedBody(text)["Environment Verification Matrix"].([]any)
	var differ []string
	for _, line := range table {
		row, _ := line.(map[string]any)
		field := func(name string) string { text, _ := row[name].(string); return strings.TrimSpace(text) }
		for _, r := range rows {
			if !strings.EqualFold(field("Check"), r.Check) || field("Environment") != "" && !strings.EqualFold(field("Environment"), r.Environment) {
				continue
			}
			exit, err := strconv.Atoi(field("Exit Code"))
			passed := strings.EqualFold(field("Result"), "PASS")
			if err == nil && exit != r.Exit || field("Result") != "" && passed != r.Passed {
				differ = append(differ, fmt.Sprintf("%s in %s: reported %s (%s), was %s (%d)", r.Check, r.Environment, field("Result"), field("Exit Code"), passOrFail(r.Passed), r.Exit))
			}
		}
	}
	return differ
}
