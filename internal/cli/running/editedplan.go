package running

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"signalbox"
	"signalbox/internal/cli"
	"signalbox/internal/config"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/plan"
	"signalbox/internal/run/planload"
	"signalbox/internal/run/workspace"
	"signalbox/internal/text"
)

// editedPlan is the plan of a run in a repository with uncommitted changes. A run that begins a plan
// is refused then, because its agents would not see them. One that continues is not: you may edit
// files while a run works, so also while it does not. If the plan itself is changed, it need not be
// committed: agents get their tasks from the ledger.
type editedPlan struct {
	file     string
	text     []byte
	plan     *plan.Plan
	load     planload.Options
	settings *config.Config
}

func (r *run) edited() *editedPlan {
	e := &editedPlan{file: r.name, text: r.text, plan: r.plan, settings: r.settings,
		load: planload.Options{Shared: r.settings.Workspace.Shared(), Replace: r.replace,
			Finished: r.finished}}
	e.load.Identify(r.plan, r.name, r.root)
	return e
}

// check returns nil if the run may start although files are not committed, which the error dirty
// says. dir is the folder of the box, which does not exist yet if isNew.
func (e *editedPlan) check(ctx context.Context, p *cli.Program, dir string, isNew bool,
	dirty error) error {
	if isNew {
		return e.explain(dirty)
	}
	o := p.BoxOptions()
	o.Load = func(context.Context, string) (*config.Config, error) { return e.settings, nil }
	b, err := box.OpenReadOnly(ctx, dir, o)
	if err != nil {
		return cli.ExplainOpening(ctx, err)
	}
	defer b.Close()
	return e.checkIn(ctx, p, b, dirty, p.Quiet || !cli.IsTerminal(p.Stdin))
}

// checkIn is check for an open box. Unless silent, it asks the user whether a change of the plan
// counts.
func (e *editedPlan) checkIn(ctx context.Context, p *cli.Program, b *box.Box, dirty error,
	silent bool) error {
	tried, err := b.Fork(ctx)
	if err != nil {
		return err
	}
	defer tried.Close()
	e.load.Actor = p.ActorOf("")
	change, err := planload.Load(ctx, tried, e.plan, e.text, e.load)
	switch {
	case errors.Is(err, rules.ErrPlanFinished):
		return nil // the run asks, or refuses it; see run.unseen
	case err != nil || change.New:
		return e.explain(dirty)
	case len(change.Added)+len(change.Changed)+len(change.Removed) == 0:
		return nil // it is loaded already
	case !e.isIn(dirty):
		return nil // the change of the plan is committed
	}
	update := "signalbox plan update " + e.file
	if silent {
		return signalbox.CodeConflict.Errorf("load the changes with "+update+
			", or commit them, and run it again", "%s was changed after it was loaded: %s",
			e.file, describeChange(change))
	}
	yes, err := p.Confirm(fmt.Sprintf(
		"%s was changed after it was loaded: %s.\nContinue with the changed plan, as %s does?",
		cli.Printable(e.file), cli.Printable(describeChange(change)), cli.Printable(update)), "")
	if err == nil && !yes {
		err = signalbox.CodeConflict.Errorf("to continue with the changed plan: "+update,
			"nothing was started")
	}
	return err
}

// describeChange returns what is different in a changed plan.
func describeChange(c rules.PlanChange) string {
	return fmt.Sprintf("%s added, %d changed, %d removed", text.Count(len(c.Added), "task"),
		len(c.Changed), len(c.Removed))
}

// isIn reports whether the plan is one of the files that are not committed.
func (e *editedPlan) isIn(dirty error) bool {
	d, ok := errors.AsType[*workspace.UncommittedError](dirty)
	return ok && slices.ContainsFunc(d.Files, func(name string) bool {
		return e.is(filepath.Join(d.Root, filepath.FromSlash(name)))
	})
}

func (e *editedPlan) is(name string) bool {
	var o planload.Options
	o.Identify(&plan.Plan{}, e.file, filepath.Dir(name))
	return e.file != "-" && o.Source == filepath.Base(name)
}

// explain returns the error for a plan that the box does not have, with the command that commits
// it if nothing else is missing.
func (e *editedPlan) explain(dirty error) error {
	d, ok := errors.AsType[*workspace.UncommittedError](dirty)
	if !ok || len(d.Files) > 1 || !e.isIn(dirty) {
		return dirty
	}
	return signalbox.CodeFailed.Errorf("commit it: git commit -m plan "+e.file, "%w", dirty)
}
