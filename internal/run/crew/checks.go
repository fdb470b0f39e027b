package crew

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/core/rules"
	"signalbox/internal/process"
	"signalbox/internal/run/workspace"
)

// check runs the checks: on a task or a remediation, or on the base.
func (s *session) check(ctx context.Context) error {
	w := s.view()
	if s.crew.place.Repo == nil {
		return s.checkIn(ctx, w, s.crew.place.Root, "", nil)
	}
	if w.Task.Kind == rules.KindBaseline {
		commit, err := s.crew.place.Repo.BaseCommit(ctx)
		if err != nil {
			return err
		}
		if len(s.crew.box.Config.Checks) == 0 {
			return s.checkIn(ctx, w, s.crew.place.Root, commit, nil)
		}
		return s.crew.place.Repo.Scratch(ctx, w.ID, commit, func(dir string) error { return s.checkIn(ctx, w, dir, commit, nil) })
	}
	commit, changed, err := s.settled(ctx)
	if err != nil {
		return err
	}
	if len(s.crew.box.Config.Checks) == 0 {
		return s.checkIn(ctx, w, s.crew.place.Root, commit, changed)
	}
	return s.crew.place.Repo.Scratch(ctx, w.ID, commit, func(dir string) error { return s.checkIn(ctx, w, dir, commit, changed) })
}

// settled is the commit that is to be checked, with the base's latest in it, and what it changes.
func (s *session) settled(ctx context.Context) (commit string, changed []string, err error) {
	tree, err := s.crew.place.Repo.Open(ctx, s.work)
	if err != nil {
		return "", nil, err
	}
	_, _, err = tree.Keep(ctx, s.work+": left by a developer") // who was killed before it was kept
	if err == nil {
		_, err = tree.Refresh(ctx) // conflicts are for the merge to find
	}
	if err != nil && !workspace.Disorderly(err) { // else what was kept is what counts
		return "", nil, err
	}
	if commit, err = tree.Commit(ctx); err == nil {
		changed, err = tree.Changed(ctx)
	}
	return commit, changed, err
}

func (s *session) checkIn(ctx context.Context, w *rules.Work, dir, commit string, changed []string) error {
	rows, body, err := s.runChecks(ctx, dir)
	if err != nil {
		return err
	}
	command := rules.ReportChecks{Session: s.id, Epoch: s.epoch, Commit: commit, Rows: rows, Body: body}
	if w.Task.Kind == rules.KindTask {
		command.Differs = s.crew.differences(ctx, w.Task.Claimed, rows)
		if commit != "" && len(changed) == 0 {
			command.Differs = append(command.Differs, "it is said to be ready, but the branch changes nothing")
		}
	}
	command.Protected = slices.DeleteFunc(changed, func(file string) bool { return !s.crew.box.Config.Protects(file) })
	_, err = s.order(command)
	return lost(err)
}

// runChecks runs all checks in all environments, and stores what they printed. Body is what those printed that failed.
func (s *session) runChecks(ctx context.Context, dir string) (rows []rules.CheckRow, body signalbox.Hash, err error) {
	c := s.crew.box.Config
	env := []string{"SIGNALBOX_WORK=" + s.work}
	note := func(name string, id process.ID) (func(), error) {
		return func() { s.crew.owner.Forget(name) }, s.crew.owner.Note(name, id)
	}
	results, err := workspace.RunChecks(ctx, dir, checksOf(c), environmentsOf(c), env, note, func(r workspace.CheckResult) {
		if s.crew.opts.Live != nil {
			s.crew.opts.Live(Activity{s.work, s.id, s.role, fmt.Sprintf("%s: %s", r.Check, verdict(r.Passed))})
		}
	})
	if ctx.Err() != nil {
		return nil, body, context.Cause(ctx)
	}
	if err != nil {
		return nil, body, err
	}
	var failed strings.Builder
	for _, r := range results {
		output, err := s.crew.put(r.Output)
		if err != nil {
			return nil, body, err
		}
		rows = append(rows, rules.CheckRow{Check: r.Check, Environment: r.Environment, Exit: r.Exit, Passed: r.Passed,
			Millis: r.Duration.Milliseconds(), Output: output})
		if !r.Passed {
			fmt.Fprintf(&failed, "%s in %s: exit status %d after %s\n\n%s\n\n", r.Check, r.Environment, r.Exit, r.Duration.Round(time.Millisecond), indented(r.Output))
		}
	}
	if failed.Len() > 0 {
		body, err = s.crew.put([]byte(failed.String()))
	}
	return rows, body, err
}

func verdict(passed bool) string {
	if passed {
		return "PASS"
	}
	return "FAIL"
}

// maxShown is how much of a check's output a developer is shown.
const maxShown = 8 << 10

// indented shows output as a code block that nothing in it can end.
func indented(output []byte) string {
	if len(output) > maxShown {
		output = output[len(output)-maxShown:]
	}
	lines := strings.Split(strings.TrimRight(strings.ToValidUTF8(string(output), "\ufffd"), "\n"), "\n")
	return "    " + strings.Join(lines, "\n    ")
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

// differences compares what the developer said that the checks gave with what they gave.
func (c *Crew) differences(ctx context.Context, claimed signalbox.Hash, rows []rules.CheckRow) []string {
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
				differ = append(differ, fmt.Sprintf("%s in %s: said %s (%s), is %s (%d)", r.Check, r.Environment, field("Result"), field("Exit Code"), verdict(r.Passed), r.Exit))
			}
		}
	}
	return differ
}

// merge brings finished work into the base. After a crash it first asks git whether that was done.
func (s *session) merge(ctx context.Context) error {
	repo, w := s.crew.place.Repo, s.view()
	if repo == nil {
		return &signalbox.Error{Code: signalbox.CodeUsage, Err: errors.New("there is no repository to merge in: workspace is shared on this machine"),
			Hint: "run the crew in a clone of the repository, or write workspace: shared in the box's configuration"}
	}
	merged, landed, err := repo.Landed(ctx, w.ID)
	if err != nil {
		return err
	}
	command := rules.ReportMerge{Session: s.id, Epoch: s.epoch}
	if !landed {
		// What is merged is what was checked, reviewed and audited, whatever somebody did to the branch since.
		tree, err := repo.Open(ctx, w.ID)
		if err == nil {
			err = tree.Discard(ctx, w.Task.Commit)
		}
		if err != nil {
			return err
		}
	}
	if !landed {
		merged, err = repo.Merge(ctx, w.ID, mergeMessage(w), func(ctx context.Context, dir string) error {
			rows, body, err := s.runChecks(ctx, dir)
			command.Rows, command.Body = rows, body
			if err != nil {
				return err
			}
			return failure(rows)
		})
	}
	conflict, failed := (*workspace.ConflictError)(nil), (*failedChecks)(nil)
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
	if _, err := s.order(command); err != nil {
		return lost(err)
	}
	if command.Refusal == "" {
		s.tidy(context.WithoutCancel(ctx))
	}
	return nil
}

func mergeMessage(w *rules.Work) string {
	if w.Title == "" {
		return w.ID
	}
	return w.ID + ": " + w.Title
}

// failedChecks says that a merged result does not pass.
type failedChecks struct{ names []string }

func (e *failedChecks) Error() string {
	return "merged into the base it fails: " + strings.Join(e.names, ", ")
}

func failure(rows []rules.CheckRow) error {
	var names []string
	for _, r := range rows {
		if !r.Passed {
			names = append(names, r.Check+" in "+r.Environment)
		}
	}
	if names == nil {
		return nil
	}
	return &failedChecks{names}
}
