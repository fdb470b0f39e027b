package crew

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"signalbox"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/planload"
	"signalbox/internal/run/workspace"
)

// checksByHand returns how many work items may be checked at once for work opened by hand to be
// among them. Without checks, no such work is claimed, because it would pass unchecked.
func (c *Crew) checksByHand() int {
	if len(c.box.Config.OnlyCommands()) == 0 {
		return 0
	}
	return planload.ChecksAtOnce(c.project.Repo == nil)
}

// warnUnchecked warns once about each work opened by hand that waits for checks, if there are none.
func (c *Crew) warnUnchecked() {
	if c.checksByHand() > 0 || !slices.Contains(c.opts.Roles, signalbox.RoleCI) {
		return
	}
	var waiting []string
	c.box.Engine.View(func(s *rules.State) { waiting = s.WaitingForChecks() })
	for _, work := range waiting {
		if !c.warned[work] {
			c.warned[work] = true
			c.log.Warn("no checks are configured, so the work stays in CI_PENDING: add checks to signalbox.yaml and start again, "+
				"or check it yourself and move it: signalbox work claim "+work+" --role ci", "work",
				work)
		}
	}
}

// checkByHand runs the checks on work that was opened by hand: on the commit that it names, or on
// the head of the base branch if it names none. It merges nothing into that commit.
func (r *checksRun) checkByHand(ctx context.Context) (err error) {
	repo, ref := r.crew.project.Repo, r.workItem().Ref
	report := rules.ReportChecks{Session: r.id, Epoch: r.epoch, Ref: ref, OnBase: repo != nil &&
		ref == ""}
	dir := r.crew.project.Root
	switch {
	case repo == nil && ref != "":
		report.Problem = fmt.Sprintf(
			"it names '%s', but workspace: shared has no branches and commits to check", ref)
	case repo != nil:
		if report.Base, err = r.crew.exchange.BaseHere(ctx); err != nil {
			return err
		}
		report.Commit = report.Base
		if ref != "" {
			report.Commit, err = repo.Resolve(ctx, ref)
		}
		if errors.Is(err, workspace.ErrNoCommit) {
			report.Problem, err = fmt.Sprintf(
				"it names '%s', but there is no such branch, tag or commit in the repository", ref),
				nil
		}
		if err != nil {
			return err
		}
	}
	if report.Problem == "" {
		if repo != nil {
			scratch, err := repo.OpenScratch(ctx, r.work, report.Commit)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, scratch.Close()) }()
			dir = scratch.Dir
		}
		if report.Rows, report.Body, err = r.job().Run(ctx, dir); err != nil {
			return err
		}
		if report.Protected, err = r.protectedEdits(ctx, report.Base, report.Commit); err != nil {
			return err
		}
	}
	_, err = r.submit(report)
	return asLeaseLost(err)
}
