package assistants

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"signalbox"
	"signalbox/internal/cli"
	"signalbox/internal/config"
	"signalbox/internal/contain"
	"signalbox/internal/core/box"
	"signalbox/internal/process"
	"signalbox/internal/run/progress"
	"signalbox/internal/sandbox"
	"signalbox/internal/text"
	"signalbox/internal/tree"
	"signalbox/internal/tree/command"
	"signalbox/internal/tree/draw"
	"signalbox/internal/tree/luatree"
	"signalbox/internal/tree/report"
	"signalbox/internal/tree/runner"
	"signalbox/internal/tree/treeruns"
	"signalbox/internal/tree/turnlog"
)

const maxReplies = 16 << 20

type treeRunCommand struct {
	cli.BoxFlag
	File     string            `arg:"" help:"The tree."`
	Journal  string            `placeholder:"FILE" help:"Write a journal, or resume the run in it."`
	Set      map[string]string `placeholder:"KEY=VALUE" mapsep:"none" help:"Set a key of the blackboard. The value is JSON if it parses as JSON, and text otherwise. Can be repeated."`
	Tool     map[string]string `placeholder:"NAME=COMMAND" mapsep:"none" help:"The shell command for a tool of the tree. It gets the arguments as JSON and prints the result. Can be repeated."`
	Sandbox  string            `enum:",enforce,warn,off" default:"" placeholder:"MODE" help:"The sandbox of the tools: enforce, warn or off. Default: as in the configuration of the box, or else enforce."`
	Model    string            `xor:"model" placeholder:"COMMAND" help:"The shell command for the model. It gets the prompt and prints the reply."`
	Replies  string            `xor:"model" placeholder:"FILE" help:"A file with replies of the model, used in order, separated by lines of three dashes."`
	Runs     int               `default:"1" placeholder:"N" help:"Run the tree this many times; 0 means forever. A changed file is reloaded between runs. Default: 1."`
	MaxTicks int               `placeholder:"N" help:"Stop a run after this many ticks. Default: 100000."`
	Watchdog time.Duration     `placeholder:"D" help:"Stop a run in which nothing changes for this long, not counting waits and timeouts of the tree. Default: 10m."`
	NoLedger bool              `help:"Do not record signals in the box."`
	JSON     bool              `name:"json" help:"Print a JSON object for each tick and one for the end."`
}

func (treeRunCommand) Help() string {
	return `Runs a tree until its root succeeds (exit status 0) or fails (1). The tree is ticked when a timer, a tool call or a model call ends. With --journal, every tick is on disk before anything depends on it. If the run is killed, the same command resumes it, with the tree as it was when the run started. A run that has ended is not repeated.

--runs and --journal cannot be combined. With several runs, the exit status is that of the last.

Turn signals that the tree logs are recorded in the box, if there is one (--box, SIGNALBOX_BOX, or .signalbox in this folder or a parent). The dashboard of the box shows runs with a journal, live and tick by tick.

Examples:

    signalbox tree run examples/trees/turn.lua --replies examples/trees/turn.replies
    signalbox tree run examples/trees/release.lua --tool check='go test ./...' --tool publish=./publish.sh --tool roll-back=./roll-back.sh --journal release.journal
    signalbox tree run assistant.lua --model 'claude -p' --set 'question="What is new?"'`
}

func (c *treeRunCommand) Run(p *cli.Program) error {
	if err := p.OperatorOnly("run a tree"); err != nil {
		return err
	}
	if c.Runs != 1 && c.Journal != "" {
		return signalbox.CodeUsage.Errorf("leave out --runs or --journal",
			"a journal is for one run")
	}
	if err := refuseJournal(c.File); err != nil {
		return err
	}
	p.Quiet = c.JSON
	ctx, stop := cli.UntilInterrupted()
	defer stop()
	programs, end, err := c.contain(p)
	if err != nil {
		return err
	}
	defer end()
	services, err := c.services(p, programs)
	if err != nil {
		return err
	}
	return withTreeBox(ctx, p, c, func(b *box.Box) error {
		journal, err := c.readJournal()
		switch {
		case err != nil:
			return err
		case journal != nil:
			return c.resume(ctx, p, b, services, journal)
		}
		return c.runAll(ctx, p, b, services)
	})
}

// readJournal reads the journal of the run to resume. It returns nil if there is none, or if not
// even its header is complete.
func (c *treeRunCommand) readJournal() (*runner.Journal, error) {
	if c.Journal == "" {
		return nil, nil
	}
	j, err := runner.ReadJournal(c.Journal, nil, nil)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, journalError(err)
	case j.Header.Format == 0:
		return nil, nil
	}
	return j, nil
}

// withTreeBox opens the box to record signals in. The box is nil if there is none and none was
// named.
func withTreeBox(ctx context.Context, p *cli.Program, c *treeRunCommand,
	do func(*box.Box) error) error {
	_, err := p.FindBox(c.BoxFlag)
	named := c.Box != "" || p.Getenv(cli.BoxVariable) != ""
	if c.NoLedger || !named && signalbox.CodeOf(err) == signalbox.CodeNotFound {
		return do(nil)
	}
	return p.WithBox(ctx, c.BoxFlag, do)
}

// contain returns what runs the tools: in a sandbox, in which they can change this folder. end
// removes their temporary files.
func (c *treeRunCommand) contain(p *cli.Program) (tools command.Runner, end func(), err error) {
	end = func() {}
	if len(c.Tool) == 0 {
		return tools, end, nil
	}
	if err := process.Conceal(); err != nil { // keys of an agent that runs this command, from tools
		return tools, end, err
	}
	site := contain.Site{Host: contain.ThisHost(), Config: config.Default()}
	if dir, err := p.FindBox(c.BoxFlag); err == nil {
		if site.Config, _, err = p.RunSettings(context.Background(), c.BoxFlag,
			p.ProjectRoot(c.BoxFlag, dir), dir); err != nil {
			return tools, end, err
		}
		if site.Box, err = filepath.Abs(dir); err != nil {
			return tools, end, err
		}
	}
	if site.Project, err = os.Getwd(); err != nil {
		return tools, end, err
	}
	opened, err := site.OpenTools(site.Project)
	if err != nil {
		return tools, end, err
	}
	end = func() { _ = opened.Close() } // the next process that runs tools removes files that stay
	contained, err := opened.Prepare(config.Sandbox{Mode: sandbox.Mode(c.Sandbox)}, nil)
	if err != nil {
		end()
		return tools, func() {}, err
	}
	return command.Runner{Env: slices.Concat(contained.Base, contained.Env),
		Sandbox: contained.Policy}, end, nil
}

// services returns the tools and the model that the flags define. The model is a program of the
// user that needs the user's login, so it is not in a sandbox.
func (c *treeRunCommand) services(p *cli.Program, tools command.Runner) (*tree.Registry, error) {
	services := &tree.Registry{}
	for name, line := range c.Tool {
		services.Add(tree.Tool, name, tools.Tool(name, line))
	}
	switch {
	case c.Model != "":
		services.Add(tree.LLMCall, "", command.Runner{}.Model(c.Model))
	case c.Replies != "":
		text, err := p.ReadAll(&c.Replies, maxReplies)
		if err != nil {
			return nil, err
		}
		services.Add(tree.LLMCall, "", command.Replies(command.SplitReplies(string(text))))
	}
	return services, nil
}

// inputs returns the values of --set.
func (c *treeRunCommand) inputs() map[string]any {
	inputs := map[string]any{}
	for key, text := range c.Set {
		v, err := tree.ParseValue(text)
		if err != nil {
			v = text
		}
		inputs[key] = v
	}
	return inputs
}

// resume continues the run of a journal with the tree and the inputs in the journal.
func (c *treeRunCommand) resume(ctx context.Context, p *cli.Program, b *box.Box,
	services *tree.Registry, journal *runner.Journal) error {
	h := journal.Header
	inputs, _, err := h.ReadInputs()
	if err != nil {
		return err
	}
	if len(c.Set) > 0 && len(tree.Diff(inputs, c.inputs())) > 0 {
		return signalbox.CodeUsage.Errorf(
			"leave out --set to resume that run, or use another journal",
			"the run in %s started with other values than those of --set", c.Journal)
	}
	source, err := p.ReadAll(&c.File, maxTree)
	if err != nil {
		return err
	}
	if string(source) != h.Source {
		if now, err := luatree.Load(ctx, c.File, source, treeOptions()); err == nil &&
			now.Tree().Name() != h.Tree {
			return signalbox.CodeConflict.Errorf("use another journal",
				"%s has a run of the tree '%s', but %s is the tree '%s'", c.Journal, h.Tree, c.File,
				now.Tree().Name())
		}
		p.Warnf("%s was changed; the run continues with the tree that it started with", c.File)
	}
	file, err := loadTree(ctx, p, h.File, []byte(h.Source))
	if err != nil {
		return err
	}
	defer file.Close()
	if journal.Ended() {
		p.Notef("run %s has ended and is not repeated; to run the tree again, use another journal",
			h.Run)
	} else {
		p.Notef("resuming run %s", h.Run)
	}
	_, err = c.run(ctx, p, b, file, tree.RunOptions{ID: h.Run, Services: services})
	return err
}

// runAll runs the tree c.Runs times and reloads its file before each run. It returns the error of
// the last run.
func (c *treeRunCommand) runAll(ctx context.Context, p *cli.Program, b *box.Box,
	services *tree.Registry) error {
	source, err := luatree.Open(ctx, c.File, treeOptions())
	if errors.Is(err, os.ErrNotExist) {
		return signalbox.CodeNotFound.Errorf("check the path", "%s: no such file", c.File)
	}
	if err != nil {
		return treeError(p, c.File, err)
	}
	var globals map[string]any
	for n := 1; ; n++ {
		file, reloaded, err := source.Next(ctx)
		switch {
		case err != nil:
			p.Warnf("the changed tree cannot be used, so the previous one is: %v", err)
		case reloaded:
			p.Notef("%s was reloaded", c.File)
		}
		run, err := c.run(ctx, p, b, file, tree.RunOptions{ID: box.NewID("T"), Services: services,
			Inputs: c.inputs(), Globals: globals})
		if run == nil || ctx.Err() != nil || n == c.Runs {
			return err
		}
		if err != nil {
			p.Warnf("run %d: %v", n, err)
		}
		globals = run.Board().Globals()
	}
}

// run runs the tree once. It returns no run if the run could not be started.
func (c *treeRunCommand) run(ctx context.Context, p *cli.Program, b *box.Box, file *luatree.File,
	o tree.RunOptions) (*tree.Run, error) {
	o.Observe = true
	c.noteUnusedTools(p, file.Tree())
	printWarnings(p, file.Tree())
	opts := &runner.Options{Run: o, Journal: c.Journal, File: file.Name,
		Source: string(file.Source), MaxTicks: c.MaxTicks, Watchdog: c.Watchdog}
	hide := c.show(p, opts)
	if b != nil {
		if c.Journal != "" {
			if err := treeruns.Note(b.Dir, o.ID, c.Journal); err != nil {
				p.Warnf("the dashboard cannot show the run: %v", err)
			}
		}
		opts.Emitted = func(ctx context.Context, run *tree.Run, e tree.Emit) error {
			return turnlog.Record(ctx, b.Engine, run, e, p.ActorOf(""))
		}
	}
	run, err := runner.Do(ctx, file.Tree(), opts)
	hide()
	if run == nil {
		return nil, treeError(p, file.Name, journalError(startError(err)))
	}
	outcome := c.outcome(ctx, run, err)
	if c.JSON {
		return run, errors.Join(p.PrintJSON(report.NewEnd(run, stopped(ctx, err)), ""), outcome)
	}
	colors := p.Colors(p.Stdout)
	fmt.Fprint(p.Styled(colors),
		draw.Text(run.Tree(), &draw.Options{Views: run.Views(), Color: colors}))
	fmt.Fprintf(p.Out, "%s after %s\n", run.Status(), text.Count(run.Ticks(), "tick"))
	for _, line := range report.Blackboard(run) {
		fmt.Fprintf(p.Out, "  %s\n", line)
	}
	return run, outcome
}

// show makes a run show its ticks: as JSON objects, as a picture on a terminal, or as lines on
// standard error.
func (c *treeRunCommand) show(p *cli.Program, opts *runner.Options) (hide func()) {
	switch {
	case c.JSON:
		opts.Ticked = func(run *tree.Run) { printTick(p, run) }
	case cli.IsTerminal(p.Stdout) && p.Getenv("TERM") != "dumb":
		picture := progress.NewPicture(p.Stdout)
		opts.Opened = func(run *tree.Run) { picture.Show(report.Picture(run, p.Getenv("NO_COLOR") == "")) }
		opts.Ticked = opts.Opened
		return picture.Close
	default:
		opts.Ticked = func(run *tree.Run) {
			for _, line := range report.Lines(run) {
				fmt.Fprintln(p.Stderr, line)
			}
		}
	}
	return func() {}
}

// printTick prints the last tick of a run as a JSON object. A write error is reported at the end of
// the command.
func printTick(p *cli.Program, run *tree.Run) {
	p.PrintJSON(report.LastTick(run), "")
	p.Out.Flush()
}

// noteUnusedTools prints a note for each --tool that the tree does not call. Its name may be
// misspelled.
func (c *treeRunCommand) noteUnusedTools(p *cli.Program, t *tree.Tree) {
	called := t.Tools()
	for _, name := range slices.Sorted(maps.Keys(c.Tool)) {
		if !slices.Contains(called, name) {
			p.Notef("the tree calls no tool '%s'", name)
		}
	}
}

// startError adds a hint about flags to the error of a run that could not be started.
func startError(err error) error {
	for i, f := range tree.Faults(err) {
		switch name, unknown := strings.CutPrefix(f.Msg, "unknown tool "); {
		case unknown:
			tree.Faults(err)[i].Hint = "define it with --tool " + strings.Trim(name, "'") +
				"=COMMAND"
		case strings.Contains(f.Msg, "calls a model"):
			tree.Faults(err)[i].Hint = "define the model with --model COMMAND, or its replies with --replies FILE"
		}
	}
	if errors.Is(err, tree.ErrUndeclared) || errors.Is(err, tree.ErrMistyped) {
		return signalbox.CodeUsage.Errorf(
			"the blackboard of the tree declares the keys and their types; a value that is not valid JSON is text, and to pass a number as text write 'key=\"3\"'", "--set: %w", err)
	}
	return err
}

// stopped returns how a run was stopped, as its journal records it. It returns nil if the run ended
// by itself.
func stopped(ctx context.Context, err error) *tree.Ending {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return &tree.Ending{End: runner.Interrupted}
	}
	return &tree.Ending{End: runner.Failed, Error: err.Error()}
}

// outcome returns the error for the end of a run, nil if the tree succeeded.
func (c *treeRunCommand) outcome(ctx context.Context, run *tree.Run, err error) error {
	switch {
	case err != nil && ctx.Err() != nil && c.Journal != "":
		return signalbox.CodeInterrupted.Errorf("run the same command again to resume",
			"interrupted")
	case err != nil && ctx.Err() != nil:
		return signalbox.CodeInterrupted.Errorf("use --journal to be able to resume a run",
			"interrupted")
	case errors.Is(err, runner.ErrTickBudget):
		return &signalbox.Error{Code: signalbox.CodeFailed, Err: err,
			Hint: "look for a repeat without a wait, or raise --max-ticks"}
	case errors.Is(err, runner.ErrNoProgress):
		return &signalbox.Error{Code: signalbox.CodeFailed, Err: err,
			Hint: "put a timeout around what may hang, or raise --watchdog"}
	case errors.Is(err, runner.ErrStuck):
		return &signalbox.Error{Code: signalbox.CodeFailed, Err: err,
			Hint: "a function that returns RUNNING must set when it is called again: t:wake(seconds)"}
	case err != nil:
		return err
	case run.Status() != tree.Success:
		if cause := report.FailureCause(run); cause != "" {
			return errors.New("the tree failed: " + cause)
		}
		return errors.New("the tree failed")
	}
	return nil
}
