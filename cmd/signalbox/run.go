package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/run/crew"
	"signalbox/internal/run/plan"
	"signalbox/internal/run/progress"
	"signalbox/internal/run/workspace"
	"signalbox/transcript"
)

type runCommand struct {
	boxFlag
	runFlags
	File    string `arg:"" name:"plan" help:"The plan, a Markdown file."`
	Replace bool   `help:"Give up a plan that is not finished and has no task in common with this one."`
	NoWait  bool   `help:"End when nothing can go on before you answer a question, instead of waiting for the answer."`
}

// runFlags are about what a run shows.
type runFlags struct {
	JSON  bool `name:"json" help:"Stream the events of the ledger, one JSON object a line."`
	Plain bool `help:"Show plain lines, also on a terminal."`
}

func (runCommand) Help() string {
	return `Runs a plan until every task is completed: developed in a git worktree of its own, checked, reviewed, audited and merged into the branch you are on. Which agents do that, and which checks must pass, is in .signalbox/signalbox.yaml; without a box one is made. docs/configuration.md has every setting.

What only you can decide becomes a question: signalbox questions shows them, signalbox answer answers; the rest of the plan goes on meanwhile. Ctrl-C stops: agents are ended, what they did is kept, and the same command goes on from there, also after a crash. A second signalbox run on the same box joins in.

Exit status: 0 when the plan is complete, 1 when it is stuck, 130 when you stopped it.

Examples:

    signalbox run plan.md
    signalbox run plan.md --plain >run.log
    signalbox run plan.md --no-wait --json`
}

// maxPlan is the size of the largest plan that is read.
const maxPlan = 8 << 20

func (c *runCommand) Run(p *program) error {
	if err := p.operatorOnly("run a plan"); err != nil {
		return err
	}
	p.quiet = c.JSON
	text, err := p.readAll(&c.File, maxPlan)
	if err != nil {
		return err
	}
	r := run{flags: c.runFlags, name: c.File, text: text, replace: c.Replace, options: crew.Options{LeaveQuestions: c.NoWait}}
	if err := r.prepare(p, c.boxFlag); err != nil {
		return err
	}
	return r.run(p)
}

// run is one run of a plan.
type run struct {
	flags   runFlags
	name    string
	text    []byte
	replace bool
	options crew.Options
	beside  []func(context.Context, *box.Box) // done beside the work, until their context ends

	dir   string // of the box
	root  string // of the project; "" is to be found
	place crew.Project
	plan  *plan.Plan
}

// prepare finds all that is wrong before anything starts: the plan, the configuration, the repository, the agents.
func (r *run) prepare(p *program, f boxFlag) error {
	dir, err := p.findBox(f)
	made := codeOf(err) == signalbox.CodeNotFound && f.Box == "" && p.getenv(boxVariable) == ""
	settings := config.Default()
	if err == nil {
		settings, err = config.Load(dir)
	}
	if err != nil && !made {
		return err
	}
	if r.plan, err = plan.Parse(r.name, r.text, &plan.Options{Drafts: settings.Analyst()}); err != nil {
		return p.planError(err)
	}
	ctx := context.Background()
	if made {
		root, err := filepath.Abs(".")
		if err != nil {
			return err
		}
		dir = filepath.Join(root, box.FolderName)
	}
	if r.root == "" {
		r.root = p.workRoot(f, dir)
	}
	if r.place, err = findPlace(ctx, settings, r.root, dir); err == nil {
		err = crew.CheckAgents(settings, rules.DispatchRoles())
	}
	if err != nil {
		if made { // nothing was started, so nothing is left
			os.RemoveAll(filepath.Join(dir, crew.TreesFolder))
			os.Remove(dir)
		}
		return err
	}
	for _, note := range settings.Notes() {
		p.notef("%s", note)
	}
	if len(settings.Checks) == 0 {
		p.warnf("no checks are configured: nothing but critic and auditor stands between a developer and your branch")
	}
	if r.place.Repo != nil {
		p.notef("working in %s, on branch %s", r.place.Repo.Root, r.place.Repo.Base)
	}
	if made {
		if _, err := box.Init(ctx, dir, p.actor(""), p.boxOptions()); err != nil {
			return err
		}
		p.notef("made a box in %s", dir)
	}
	r.dir = dir
	return nil
}

func codeOf(err error) signalbox.Code {
	classed := (*signalbox.Error)(nil)
	if errors.As(err, &classed) {
		return classed.Code
	}
	return 0
}

// workRoot is the project's folder: where the box lies, or where one stands if the box was named.
func (p *program) workRoot(f boxFlag, dir string) string {
	if f.Box == "" && p.getenv(boxVariable) == "" {
		return filepath.Dir(dir)
	}
	return "."
}

// findPlace returns where the work is done: in trees of a git repository, or all in one folder.
func findPlace(ctx context.Context, c *config.Config, root, dir string) (crew.Project, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return crew.Project{}, err
	}
	if c.Workspace == config.WorkspaceShared {
		return crew.Project{Root: root}, nil
	}
	repo, err := workspace.Find(ctx, root, filepath.Join(dir, crew.TreesFolder))
	if err != nil {
		return crew.Project{}, err
	}
	return crew.Project{Root: root, Repo: repo}, nil
}

// run loads the plan and works on it.
func (r *run) run(p *program) error {
	ctx, stop := untilInterrupted()
	defer stop()
	b, err := box.Open(ctx, r.dir, p.boxOptions())
	if err != nil {
		return err
	}
	defer b.Close()
	from := b.Engine.Tail().Seq
	change, err := crew.Load(ctx, b, r.plan, r.text, p.actor(""), r.place.Repo == nil, r.replace)
	if err != nil {
		return err
	}
	p.noteChange(change)
	if !r.flags.JSON { // people have been told
		from = b.Engine.Tail().Seq
	}
	return p.work(ctx, stop, b, job{r.place, progress.Options{Title: r.plan.Name, JSON: r.flags.JSON, Plain: r.flags.Plain, From: from}, r.options, r.beside})
}

// noteChange says what a plan that was changed brings.
func (p *program) noteChange(c rules.PlanChange) {
	if len(c.Changed) == 0 && len(c.Removed) == 0 && len(c.Stale) == 0 {
		return
	}
	for _, part := range []struct {
		what string
		ids  []string
	}{{"added", c.Added}, {"changed", c.Changed}, {"removed", c.Removed}, {"changed after it was completed, and not done again", c.Stale}} {
		if len(part.ids) > 0 {
			p.notef("the plan has changed: %s: %s", part.what, strings.Join(part.ids, ", "))
		}
	}
}

// job is what a crew is to do, and how that is shown.
type job struct {
	place  crew.Project
	shown  progress.Options
	crew   crew.Options
	beside []func(context.Context, *box.Box)
}

// newDisplay is called before anything else uses the box: from here on standard error is shared.
func (p *program) newDisplay(b *box.Box, o progress.Options) progress.Display {
	o.Out, o.Stderr, o.Getenv = answer{p.stdout}, progress.NewDeferredWriter(p.stderr), p.getenv
	if isTerminal(p.stdout) {
		o.Terminal = p.stdout
	}
	if isTerminal(p.stdin) {
		o.Keys = p.stdin
	}
	p.stderr = o.Stderr
	return progress.New(b, o)
}

// work has a crew work on a box, shows what it does, and signs what is written. It calls stop when a further interrupt is to
// end the program at once.
func (p *program) work(ctx context.Context, stop context.CancelFunc, b *box.Box, j job) error {
	view := p.newDisplay(b, j.shown)
	j.crew.Live, j.crew.Log, j.crew.Actor = view.Live, p.boxOptions().Log, p.actor("")
	j.crew.ExitSignals = transcript.ExitEnabled(p.getenv(signalbox.ExitFlag))
	c, err := crew.New(ctx, b, j.place, &j.crew)
	if err != nil {
		return err
	}
	defer c.Close()
	working, end := context.WithCancel(ctx)
	defer end()
	showing, hide := context.WithCancel(context.Background())
	var beside sync.WaitGroup
	beside.Go(func() { crew.Sign(showing, b, p.boxOptions().Log) })
	beside.Go(func() {
		if err := view.Show(showing); err != nil {
			end()
		}
	})
	for _, other := range j.beside {
		beside.Go(func() { other(showing, b) })
	}
	go func() {
		<-working.Done()
		if ctx.Err() != nil {
			p.notef("stopping: agents have %s to end; what they did is kept", b.Config.Grace)
			return
		}
		stop() // somebody ended it from the screen
	}()
	began := time.Now()
	outcome, err := c.Run(working)
	hide()
	beside.Wait()
	if err != nil && working.Err() == nil {
		return err
	}
	if j.shown.JSON {
		progress.OutcomeJSON(p.out, b, outcome, working.Err() != nil)
	} else {
		progress.Outcome(p.out, b, outcome, began) // an error of standard output sticks
	}
	return outcomeError(outcome, working.Err() != nil)
}

func outcomeError(o crew.Outcome, interrupted bool) error {
	switch {
	case o.Standing == rules.StandingComplete:
		return nil
	case interrupted:
		return &signalbox.Error{Code: signalbox.CodeInterrupted, Err: errors.New("interrupted"), Hint: "the same command goes on from here"}
	}
	hint := "signalbox retry TASK begins a task anew; a change in the plan counts with the next run"
	switch {
	case o.RunCancelled:
		hint = "signalbox retry undoes that"
	case o.Standing == rules.StandingPaused:
		hint = "signalbox resume ends a pause"
	case len(o.Questions) > 0 && len(o.Approvals) > 0:
		hint = "see signalbox questions; signalbox answer and signalbox approve give what is waited for"
	case len(o.Questions) > 0:
		hint = "see signalbox questions, and answer with signalbox answer"
	case len(o.Approvals) > 0:
		hint = "say yes with signalbox approve TASK"
	}
	return &signalbox.Error{Code: signalbox.CodeFailed, Err: fmt.Errorf("stuck: %s", strings.Join(o.Reasons, "; ")), Hint: hint}
}
