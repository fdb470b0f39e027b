// Package running has the commands that carry out plans, or help to write them: run, demo, worker,
// watch, plan and prompt.
package running

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"signalbox"
	"signalbox/internal/cli"
	"signalbox/internal/cli/web"
	"signalbox/internal/config"
	"signalbox/internal/core/box"
	"signalbox/internal/core/rules"
	"signalbox/internal/process"
	"signalbox/internal/run/agent"
	"signalbox/internal/run/crew"
	"signalbox/internal/run/notify"
	"signalbox/internal/run/plan"
	"signalbox/internal/run/planload"
	"signalbox/internal/run/progress"
	"signalbox/internal/run/project"
	"signalbox/internal/run/publish"
	"signalbox/internal/run/questions"
	"signalbox/internal/run/traces"
	"signalbox/internal/run/workspace"
	"signalbox/internal/team"
	"signalbox/internal/text"
	"signalbox/transcript"
)

type RunCommand struct {
	cli.BoxFlag
	runFlags
	slotsFlag
	File     cli.NonEmpty `arg:"" optional:"" name:"plan" help:"The plan, a Markdown file. Default: what the box has: the plan that was run last, and the tasks of signalbox add."`
	Replace  bool         `help:"Replace an unfinished plan: cancel its tasks that are not in this one."`
	NewPlan  bool         `help:"The plan is finished and its file now has other tasks: run them as a new plan." xor:"finished"`
	SamePlan bool         `help:"The plan is finished and its file now has other tasks: run only those that were not completed." xor:"finished"`
	Keyed    bool         `help:"Give each agent a key that its signals must have, like keyed: true in the configuration."`
	NoWait   bool         `help:"Exit when everything waits for your answers or for pull requests, instead of waiting for them."`
	DryRun   bool         `help:"Show what the run would do and what it lacks, and change nothing."`
	listenFlag
	web.AccessFlags
}

// listenFlag serves the box of a run.
type listenFlag struct {
	Listen cli.NonEmpty `placeholder:"ADDR" help:"Serve the dashboard and the API meanwhile, as signalbox serve does, on this address, such as 127.0.0.1:7700."`
}

// serve serves the box of the project in the folder root if the flag is given. The caller must call
// the function that it returns.
func (l *listenFlag) serve(p *cli.Program, root, boxDir string, flags web.AccessFlags) (stop func(),
	err error) {
	if l.Listen == "" {
		return func() {}, nil
	}
	return web.ServeBeside(p, string(l.Listen), root, cli.BoxFlag{Box: cli.NonEmpty(boxDir)}, flags)
}

// runFlags are the flags for the output of a run.
type runFlags struct {
	JSON  bool `name:"json" help:"Stream the events of the ledger, one JSON object per line."`
	Plain bool `help:"Print plain lines, even on a terminal."`
}

// slotsFlag limits what this process does at once.
type slotsFlag struct {
	Slots uint `placeholder:"N" help:"The most agents, checks and merges that this process runs at once. Default: only the limits of the box apply."`
}

func (RunCommand) Help() string {
	return `Runs a plan until every task is complete. Without a file, it continues the plan that was run last, as it was loaded, with the tasks of signalbox add. Each task is developed in its own git worktree, checked, reviewed, audited and merged into your current branch, or delivered as the setting deliver says. .signalbox/signalbox.yaml configures the agents and the checks that must pass; if there is no box, one is created. docs/reference/configuration.md describes every setting.

Agents can ask you what only you can decide: signalbox questions shows the questions, signalbox answer answers one, and the rest of the plan continues meanwhile. On a terminal a screen shows the run, and you can do all this there: select a task with the arrow keys, Enter reads its transcript, d its diff, i its findings and checks; a answers or approves what waits for you, x rejects a merge, r sends a task back, t tells its agent something; ? shows all keys. Ctrl-C stops the agents and keeps their work; run the same command again to resume, also after a crash. A second signalbox run on the same box joins the first.

With --dry-run nothing is started or recorded. It shows in which order tasks would start, with which agents, prompts, checks and budgets, and what is missing: an agent program or its login, a clean working tree, a base that passes its checks. The exit status is then 0 if the run could start, and 1 if something is missing. With --json the answer is one object.

Exit status: 0 the plan is complete, 1 it is stuck, 130 you stopped it.

Examples:

    signalbox run plan.md
    signalbox run
    signalbox run plan.md --dry-run
    signalbox run plan.md --plain >run.log
    signalbox run plan.md --no-wait --json
    signalbox run plan.md --listen 127.0.0.1:7700`
}

// maxPlan is the largest size of a plan.
const maxPlan = 8 << 20

func (c *RunCommand) Run(p *cli.Program) error {
	if err := p.OperatorOnly("run a plan"); err != nil {
		return err
	}
	p.Quiet = c.JSON
	file := string(c.File)
	var text []byte
	switch {
	case file != "":
		var err error
		if text, err = p.ReadAll(&file, maxPlan); err != nil {
			return err
		}
	case c.Replace || c.NewPlan || c.SamePlan || c.DryRun:
		return signalbox.CodeUsage.Errorf("name the file: signalbox run plan.md",
			"--replace, --new-plan, --same-plan and --dry-run are about the file of a plan, and none is named")
	}
	if c.DryRun {
		return c.dryRun(p, file, text)
	}
	r := run{flags: c.runFlags, name: file, text: text, replace: c.Replace, finished: c.finished(), options: crew.Options{LeaveQuestions: c.NoWait, Keyed: c.Keyed, Slots: c.Slots}}
	if err := r.prepare(p, c.BoxFlag); err != nil {
		return err
	}
	stop, err := c.serve(p, r.project.Root, r.dir, c.AccessFlags)
	if err != nil {
		return err
	}
	defer stop()
	return r.run(p)
}

// finished returns what to do with a finished plan that now has other tasks.
func (c *RunCommand) finished() rules.FinishedPlan {
	switch {
	case c.NewPlan:
		return rules.FinishedRenew
	case c.SamePlan:
		return rules.FinishedUpdate
	}
	return rules.FinishedRefuse
}

// run is one run of a plan.
type run struct {
	flags runFlags
	// name is the file of the plan, and text its content. "" means that the run continues what the
	// box has.
	name       string
	text       []byte
	replace    bool
	finished   rules.FinishedPlan
	options    crew.Options
	background []func(context.Context, *box.Box) // run during the work, until their context is done

	dir      string // of the box
	root     string // of the project; "" means that prepare finds it
	settings *config.Config
	project  project.Project
	plan     *plan.Plan
	// unseen is why the run must not begin a new plan: files that its agents would not see, because
	// they are not committed. It is nil if there are none.
	unseen error
}

// prepare checks the plan, the configuration, the repository and the agents before anything starts.
// It creates a box if there is none, and a plan for it.
func (r *run) prepare(p *cli.Program, f cli.BoxFlag) error {
	ctx := context.Background()
	dir, err := p.FindBox(f)
	create := signalbox.CodeOf(err) == signalbox.CodeNotFound && f.Box == "" &&
		p.Getenv(cli.BoxVariable) == "" && r.name != ""
	if create {
		dir, err = filepath.Abs(box.FolderName)
	}
	if err != nil {
		return err
	}
	if r.root == "" {
		r.root = p.ProjectRoot(f, dir)
	}
	settings, shared, err := p.RunSettings(ctx, f, r.root, dir)
	if err != nil {
		return err
	}
	r.settings, r.options.Team = settings, shared
	if r.name != "" {
		if r.plan, err = plan.Parse(r.name, r.text,
			&plan.Options{Drafts: settings.Analyst()}); err != nil {
			return planError(p, err)
		}
	}
	r.project, err = findEdited(ctx, p, settings, r.root, dir, func(dirty error) error {
		if r.name == "" { // it begins no plan
			return nil
		}
		edited := r.edited()
		r.unseen = edited.explain(dirty)
		return edited.check(ctx, p, dir, create, dirty)
	})
	if err == nil {
		err = agent.CheckRoles(settings, rules.DispatchRoles())
	}
	var missing []string
	if err == nil {
		missing, err = r.project.CheckSandboxes(settings, dir, process.Support())
	}
	if err == nil && (settings.Keyed || r.options.Keyed) {
		err = agent.CheckKeyed(settings, rules.DispatchRoles())
	}
	if err != nil {
		if create { // leave nothing behind
			os.RemoveAll(filepath.Join(dir, workspace.TreesFolder))
			os.Remove(dir)
		}
		return err
	}
	noteShared(p, shared)
	for _, note := range settings.Notes() {
		p.Notef("%s", note)
	}
	warnSandbox(p, missing)
	if text, hint, fails := settings.DescribeIndependence(); fails {
		p.Warnf("independence is %s: %s", text, hint)
	}
	if len(settings.Checks) == 0 {
		p.Warnf("no checks are configured: only the critic and the auditor review the work before it is merged")
	}
	if r.project.Repo != nil {
		p.Notef("working in %s, on branch %s", r.project.Repo.Root, r.project.Repo.Base)
	}
	if create {
		if _, err := box.Init(ctx, dir, p.ActorOf(""), p.BoxOptions()); err != nil {
			return err
		}
		p.Notef("created a box in %s", dir)
	}
	r.dir = dir
	return nil
}

// findEdited is project.Find. If files are edited and not committed, it asks allow whether work may
// continue nevertheless, and warns.
func findEdited(ctx context.Context, p *cli.Program, settings *config.Config, root, dir string,
	allow func(dirty error) error) (project.Project, error) {
	found, err := project.Find(ctx, settings, root, dir)
	dirty, ok := errors.AsType[*workspace.UncommittedError](err)
	if !ok {
		return found, err
	}
	if err = allow(err); err != nil {
		return found, err
	}
	if found, err = project.Find(ctx, settings, root, dir, dirty.Files...); err == nil {
		p.Warnf("agents do not see changes that are not committed: %v", dirty)
	}
	return found, err
}

// warnSandbox warns of what the system cannot enforce.
func warnSandbox(p *cli.Program, missing []string) {
	if len(missing) > 0 {
		p.Warnf("the sandbox is incomplete: %s; signalbox sandbox explain says what remains open",
			strings.Join(missing, "; "))
	}
}

// run loads the plan, if it has one, and runs what the box has.
func (r *run) run(p *cli.Program) error {
	ctx, stop := cli.UntilInterrupted()
	defer stop()
	o := p.BoxOptions()
	o.Host = true
	o.Load = func(context.Context, string) (*config.Config, error) { return r.settings, nil }
	b, err := box.Open(ctx, r.dir, o)
	if err != nil {
		return cli.ExplainOpening(ctx, err)
	}
	defer b.Close()
	if b.RunsNode() {
		p.Notef("the node of this machine leaves the cluster when this run ends; signalbox worker, as a service, keeps it")
	}
	from := b.Engine.Tail().Seq
	title := ""
	if r.name == "" {
		title, err = planload.Continue(ctx, b, p.ActorOf(""), r.project.Repo == nil)
	} else {
		title, err = r.plan.Name, r.load(ctx, p, b)
	}
	if err != nil {
		return err
	}
	if !r.flags.JSON { // load has shown these events
		from = b.Engine.Tail().Seq
	}
	return work(ctx, p, stop, b,
		job{r.project, progress.Options{Title: title, JSON: r.flags.JSON,
			Plain: r.flags.Plain, From: from}, r.options, r.background})
}

// load loads the plan and prints what is different in it.
func (r *run) load(ctx context.Context, p *cli.Program, b *box.Box) error {
	load := planload.Options{Actor: p.ActorOf(""), Shared: r.project.Repo == nil, Replace: r.replace, Finished: r.finished}
	load.Identify(r.plan, r.name, r.root)
	change, err := planload.Load(ctx, b, r.plan, r.text, load)
	if errors.Is(err, rules.ErrPlanFinished) && !r.flags.JSON && cli.IsTerminal(p.Stdin) &&
		r.name != "-" {
		load.Finished, err = askFinished(p, r.name)
		if err == nil && load.Finished == rules.FinishedRenew {
			err = r.unseen
		}
		if err == nil {
			change, err = planload.Load(ctx, b, r.plan, r.text, load)
		}
	}
	if err != nil {
		return err
	}
	printPlanChange(p, b, change)
	return nil
}

// askFinished asks what to do with a finished plan that now has other tasks. The answers are words,
// so that an "n" that means no begins nothing.
func askFinished(p *cli.Program, file string) (rules.FinishedPlan, error) {
	fmt.Fprintf(p.Stderr,
		"%s was finished, and now has other tasks.\n  new   run them as a new plan\n  same  it is the same plan: run only what was not completed\nEverything else stops here. [new/same] ", cli.Printable(file))
	line, err := bufio.NewReader(p.Stdin).ReadString('\n')
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "new":
		return rules.FinishedRenew, nil
	case "same":
		return rules.FinishedUpdate, nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = &signalbox.Error{Code: signalbox.CodeConflict, Err: rules.ErrPlanFinished,
			Hint: "run it with --new-plan or --same-plan"}
	}
	return rules.FinishedRefuse, err
}

// printPlanChange prints what is different in a changed plan, and how to name the tasks of a new
// one if others have the same ids.
func printPlanChange(p *cli.Program, b *box.Box, c rules.PlanChange) {
	if c.New {
		var shared string
		b.Engine.View(func(s *rules.State) { shared = sharedName(s, c.ID) })
		if shared != "" {
			p.Notef("plan %s is new in this box, and there is another %s; write %s/%s for the one of this plan", c.ID, shared, c.ID, shared)
		}
		c.Added = nil // everything
	}
	for _, part := range []struct {
		what string
		ids  []string
	}{{"added", c.Added}, {"changed", c.Changed}, {"removed", c.Removed}, {"changed after it was completed, and not run again", c.Stale}} {
		if len(part.ids) > 0 {
			p.Notef("the plan has changed: %s: %s", part.what, strings.Join(part.ids, ", "))
		}
	}
}

// sharedName returns the first id of a task in a plan that alone does not identify the work,
// or "".
func sharedName(s *rules.State, plan string) string {
	uses := map[string]int{}
	for w := range s.Works() {
		uses[w.ID]++
		if w.Name() != w.ID {
			uses[w.Name()]++
		}
	}
	for w := range s.Works() {
		if w.Task != nil && w.Task.Plan == plan && uses[w.Name()] > 1 {
			return w.Name()
		}
	}
	return ""
}

// job is the work of a crew, and how it is shown.
type job struct {
	project    project.Project
	display    progress.Options
	crew       crew.Options
	background []func(context.Context, *box.Box)
}

// newDisplay returns the display of a run. From then on standard error goes through it, so call it
// before anything else uses the box.
func newDisplay(p *cli.Program, b *box.Box, o progress.Options) progress.Display {
	o.Out, o.Stderr, o.Getenv = text.NewEscaper(p.Answer()), progress.NewDeferredWriter(p.Stderr),
		p.Getenv
	if cli.IsTerminal(p.Stdout) {
		o.Terminal = p.Stdout
	}
	if cli.IsTerminal(p.Stdin) {
		o.Keys = p.Stdin
	}
	p.Stderr = o.Stderr
	return progress.New(b, o)
}

// work runs a crew on a box, shows what it does, and signs the ledger. It calls stop when a further
// interrupt should kill the program. While the ledger is away from a cluster, it only runs the node
// of this machine.
func work(ctx context.Context, p *cli.Program, stop context.CancelFunc, b *box.Box, j job) error {
	for {
		stderr := p.Stderr
		err := workHere(ctx, p, stop, b, j)
		if !errors.Is(err, rules.ErrMoved) {
			return err
		}
		p.Stderr = stderr
		if err := b.Resume(ctx, err); err != nil {
			return err
		}
		j.display.From = b.Engine.Tail().Seq
	}
}

// workHere is work until the ledger is moved away.
func workHere(ctx context.Context, p *cli.Program, stop context.CancelFunc, b *box.Box,
	j job) error {
	j.display.Stopping, j.display.Actor, j.display.Root = ctx.Done(), p.ActorOf(""), j.project.Root
	view := newDisplay(p, b, j.display)
	j.crew.Live, j.crew.Log, j.crew.Actor = view.Live, p.BoxOptions().Log, p.ActorOf("")
	j.crew.MCP = func(ctx context.Context, b *box.Box, agent crew.AgentSession,
		conn io.ReadWriter) error {
		return serveAgent(ctx, p, b, agent, conn)
	}
	j.crew.ExitSignals = transcript.ExitEnabled(p.Getenv(signalbox.ExitFlag))
	reports, err := newReports(p, b, j.project)
	if err != nil {
		return err
	}
	if reports.tracer != nil {
		j.crew.Tools = reports.tracer.Tools
	}
	c, err := crew.New(ctx, b, j.project, &j.crew)
	if err != nil {
		return err
	}
	defer func() { c.Close() }()
	var owner atomic.Pointer[crew.Crew] // of the sessions
	owner.Store(c)
	working, end := context.WithCancel(ctx)
	defer end()
	showing, hide := context.WithCancel(context.Background())
	var background sync.WaitGroup
	defer background.Wait()
	defer hide() // a panic must not leave the terminal as a screen needs it
	background.Go(func() { b.KeepSigned(showing, p.BoxOptions().Log) })
	var broken error // why the work can no longer be shown
	background.Go(func() {
		err := view.Show(showing)
		switch {
		case err == nil || working.Err() != nil ||
			showing.Err() != nil: // the work has ended, and says why
			return
		case errors.Is(err, rules.ErrMoved): // which the crew notices itself
			return
		case errors.Is(err, progress.ErrInterrupted):
			noteStopping(p, b)
		case !errors.Is(err, cli.ErrReaderClosed): // which is like an interrupt
			broken = err
		}
		end()
	})
	reports.start(showing, &background,
		func(session string) bool { return owner.Load().Owns(session) })
	for _, f := range j.background {
		background.Go(func() { f(showing, b) })
	}
	defer context.AfterFunc(working, func() {
		if ctx.Err() != nil {
			noteStopping(p, b)
			return
		}
		stop() // the user ended it on the screen
	})()
	started := time.Now()
	outcome, err := c.Run(working)
	for err == nil && working.Err() == nil && c.Close() == nil && c.HasMore(working) {
		var next *crew.Crew
		if next, err = crew.New(ctx, b, j.project, &j.crew); err != nil {
			return err
		}
		c = next
		owner.Store(c)
		outcome, err = c.Run(working)
	}
	hide()
	background.Wait()
	warnUndelivered(p, reports.undelivered)
	if broken != nil {
		return broken
	}
	if err != nil && working.Err() == nil {
		return err
	}
	showOutcome(p, b, j.display.JSON, outcome, started, working.Err() != nil)
	if behind := c.Behind(); behind != "" { // the warning during the run is far above
		p.Warnf("%s", behind)
	}
	return outcomeError(outcome, working.Err() != nil)
}

// reports tell others of the work while it is done: notifications, published events and traces.
type reports struct {
	notifications *notify.Sender
	publisher     *publish.Publisher
	tracer        *traces.Tracer // nil if there are no traces
	undelivered   []notify.Failure
}

func newReports(p *cli.Program, b *box.Box, in project.Project) (r *reports, err error) {
	name, log := filepath.Base(in.Root), p.BoxOptions().Log
	r = &reports{notifications: notify.New(b, notify.Options{Project: name, Getenv: p.Getenv,
		Environ: process.Environ(), Log: log})}
	if r.tracer, err = traces.New(b, traces.Options{Project: name, Version: p.Build().Version,
		Getenv: p.Getenv, Log: log}); err != nil {
		return nil, err
	}
	r.publisher, err = publish.New(b, publish.Options{Getenv: p.Getenv, Log: log})
	return r, err
}

// start sends reports on the work in the background until ctx is done. owns reports whether a
// session is one of this process.
func (r *reports) start(ctx context.Context, background *sync.WaitGroup,
	owns func(session string) bool) {
	background.Go(func() { r.undelivered = r.notifications.Run(ctx) })
	background.Go(func() { r.publisher.Run(ctx) })
	if r.tracer != nil {
		background.Go(func() { r.tracer.Run(ctx, owns) })
	}
}

// showOutcome prints how the work ended.
func showOutcome(p *cli.Program, b *box.Box, asJSON bool, outcome rules.Status, started time.Time,
	interrupted bool) {
	if asJSON {
		progress.OutcomeJSON(p.Out, b, outcome, interrupted)
		return
	}
	// Main reports a write error
	progress.Outcome(p.Out, b, outcome, started, p.RenderOptions().Width)
}

// noteStopping says what happens between an interrupt and the end.
func noteStopping(p *cli.Program, b *box.Box) {
	p.Notef("stopping: agents have %s to end; their work is kept", b.Config.Grace)
}

// warnUndelivered warns of notifications that could not be delivered.
func warnUndelivered(p *cli.Program, failures []notify.Failure) {
	for _, f := range failures {
		why := "there was no time"
		if f.Err != nil {
			why = f.Err.Error()
		}
		p.Warnf("%s could not be delivered to %s (%s); the next run or worker tries again",
			text.Count(f.Messages, "notification"), f.Target, why)
	}
}

func outcomeError(o rules.Status, interrupted bool) error {
	switch {
	case o.Standing == rules.StandingComplete:
		return nil
	case interrupted:
		return signalbox.CodeInterrupted.Errorf("run the same command again to resume",
			"interrupted")
	}
	hint := "restart a task with signalbox retry TASK, or change the plan and run it again"
	switch {
	case o.RunCancelled:
		hint = "undo the cancellation with signalbox retry"
	case o.Standing == rules.StandingWaiting:
		return signalbox.CodeFailed.Errorf("run the same command again when it is merged",
			"waiting: %s", strings.Join(o.Reasons, "; "))
	case o.Standing == rules.StandingPaused:
		hint = "end the pause with " + o.ResumeCommand() + ", and run the same command again"
	case len(o.Questions) > 0 && len(o.Approvals) > 0:
		hint = "see signalbox questions; answer with signalbox answer, and for merges: " +
			questions.ApprovalCommands("TASK")
	case len(o.Questions) > 0:
		hint = "see signalbox questions, and answer with signalbox answer"
	case len(o.Approvals) > 0:
		task := "TASK"
		if len(o.Approvals) == 1 {
			task = o.Approvals[0]
		}
		hint = questions.ApprovalCommands(task)
	}
	return signalbox.CodeFailed.Errorf(hint, "stuck: %s", strings.Join(o.Reasons, "; "))
}

// noteShared tells the user which version of the team's configuration counts, if that is not
// obvious.
func noteShared(p *cli.Program, shared *team.Shared) {
	if note := shared.ModifiedNote(); note != "" {
		p.Warnf("%s", note)
	}
	if shared.Files != nil && shared.Commit == "" {
		p.Notef("%s is used as it is, because there is no commit yet", shared.Name())
	}
}
