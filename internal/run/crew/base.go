package crew

import (
	"context"
	"slices"

	"signalbox/internal/core/engine"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/workspace"
)

// knownBase returns the commit of the base branch as the ledger knows it, "" before the first checks on it.
func (c *Crew) knownBase() (commit string) {
	c.box.Engine.View(func(s *rules.State) { commit = s.Base() })
	return commit
}

// observeBase looks at the base branch, and records if something other than a merge of ours has moved it. Then the checks run on it
// before anything else is merged. start reports that the crew has not started to work. A failure is only logged: a merge does not
// rely on it.
func (c *Crew) observeBase(ctx context.Context, start bool) {
	if c.project.Repo == nil {
		return
	}
	c.baseMu.Lock()
	defer c.baseMu.Unlock()
	c.observe(ctx, rules.ObserveBase{Start: start})
}

// observe completes an observation of the base, and records it. The caller holds baseMu.
func (c *Crew) observe(ctx context.Context, seen rules.ObserveBase) {
	if c.transport != nil {
		if err := c.sync(ctx, seen); err != nil && ctx.Err() == nil && !engine.IsReported(err) {
			c.warnOnce("cannot synchronise the base branch with the ledger; trying again: " + workspace.Explain(err))
		}
		return
	}
	repo := c.project.Repo
	known := c.knownBase() // before looking, so that the rules can tell whether a merge was recorded meanwhile
	now, err := repo.BaseCommit(ctx)
	if err == nil {
		c.noteTeam(ctx, now)
	}
	if err == nil && now != known {
		seen.Known, seen.Commit, seen.Actor = known, now, c.opts.Actor
		if known != "" {
			seen.Added, seen.Dropped = repo.CommitsBetween(ctx, known, now)
		}
		_, err = c.box.Engine.Do(ctx, seen)
	}
	if err != nil && ctx.Err() == nil && !engine.IsReported(err) {
		c.log.Warn("cannot look at the base branch", "error", workspace.Explain(err))
	}
}

// noteTeam says, once, that the base branch has another version of the team's configuration than the one that the crew works with.
func (c *Crew) noteTeam(ctx context.Context, base string) {
	shared := c.opts.Team
	if shared == nil || shared.Commit == "" || shared.Commit == base || c.settled.Load() {
		return
	}
	changed, err := c.project.Repo.Differing(ctx, shared.Commit, base)
	if err != nil || !slices.ContainsFunc(changed, shared.Uses) || c.settled.Swap(true) {
		return
	}
	c.log.Warn("the team's configuration has changed on " + c.branch + "; this run keeps the one that it started with, and the next run uses the new one")
}

// restoreBranch puts the branch of the session's task back on the commit that counts, and records if somebody moved it elsewhere. What
// counts is on the ledger, so a failure is only logged.
func (s *session) restoreBranch(ctx context.Context, commit string, expected ...string) {
	if !s.hasLatest() { // what is here, if anything, is old
		return
	}
	tree, err := s.crew.project.Repo.Open(ctx, s.work)
	if err == nil {
		found := ""
		found, err = tree.Restore(ctx, commit, expected...)
		s.recordMovedBranch(commit, found)
	}
	if err != nil && ctx.Err() == nil {
		s.crew.log.Warn("cannot restore the branch; its recorded commit counts", "work", s.work, "error", workspace.Explain(err))
	}
}

// recordMovedBranch records that the branch of the session's task was found at another commit than expected; "" means that it was not.
func (s *session) recordMovedBranch(expected, found string) {
	if found == "" {
		return
	}
	if _, err := s.submit(rules.ReportBranch{Session: s.id, Epoch: s.epoch, Expected: expected, Found: found}); err != nil && !isRefusal(err) {
		s.crew.log.Warn("cannot record that a branch was moved", "work", s.work, "error", err)
	}
}
