package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"signalbox"
	"signalbox/internal/core/box"
	"signalbox/internal/run/progress"
	"signalbox/internal/tree"
	"signalbox/internal/tree/command"
	"signalbox/internal/tree/draw"
	"signalbox/internal/tree/luatree"
	"signalbox/internal/tree/runner"
	"signalbox/internal/tree/turnlog"
)

const maxReplies = 16 << 20

type treeRunCommand struct {
	boxFlag
	File     string            `arg:"" help:"The tree."`
	Journal  string            `placeholder:"FILE" help:"Keep a journal, or go on with the run that is in it."`
	Set      map[string]string `placeholder:"KEY=VALUE" mapsep:"none" help:"Give a key of the blackboard a value: JSON, or else text. Can be repeated."`
	Tool     map[string]string `placeholder:"NAME=COMMAND" mapsep:"none" help:"What a tool of the tree is: a shell command that gets the arguments as JSON and prints the result. Can be repeated."`
	Model    string            `xor:"model" placeholder:"COMMAND" help:"What the model is: a shell command that gets the prompt and prints the reply."`
	Replies  string            `xor:"model" placeholder:"FILE" help:"A model's replies to be given in order, separated by lines of three dashes."`
	Runs     int               `default:"1" placeholder:"N" help:"Run that often, 0 is without end; a changed file is loaded anew between two runs. Default: 1."`
	MaxTicks int               `placeholder:"N" help:"End a run after so many ticks. Default: 100000."`
	Watchdog time.Duration     `placeholder:"D" help:"End a run in which nothing changes for so long, waits and timeouts of the tree aside. Default: 10m."`
	NoLedger bool              `help:"Record no signals in the box, also if there is one."`
	JSON     bool              `name:"json" help:"Print a JSON object for each tick and one for the end."`
}

func (treeRunCommand) Help() string {
	return `Runs a tree until its root succeeds (exit status 0) or fails (1). It is ticked when a timer or a tool or model call ends, and not before. With --journal, every tick is on disk before anything follows from it: killed at any moment, the same command goes on, with the tree as it was then. A run that ended is not repeated.

--runs and --journal exclude each other; the exit status of several runs is that of the last.

Turn signals that the tree logs are recorded in the box, if there is one (--box, SIGNALBOX_BOX, or .signalbox here or in a parent).

Examples:

    signalbox tree run examples/trees/turn.lua --replies examples/trees/turn.replies
    signalbox tree run examples/trees/release.lua --tool check='go test ./...' --tool publish=./publish.sh --tool roll-back=./roll-back.sh --journal release.journal
    signalbox tree run assistant.lua --model 'claude -p' --set 'question="What is new?"'`
}

func (c *treeRunCommand) Run(p *program) error {
	if err := p.operatorOnly("run a tree"); err != nil {
		return err
	}
	if c.Runs != 1 && c.Journal != "" {
		return &signalbox.Error{Code: signalbox.CodeUsage, Err: errors.New("a journal is for one run"), Hint: "leave out --runs or --journal"}
	}
	if err := wantTree(c.File); err != nil {
		return err
	}
	p.quiet = c.JSON
	ctx, stop := untilInterrupted()
	defer stop()
	services, err := c.services(p)
	if err != nil {
		return err
	}
	return p.withTreeBox(ctx, c, func(b *box.Box) error {
		begun, err := c.begun()
		switch {
		case err != nil:
			return err
		case begun != nil:
			return c.goOn(ctx, p, b, services, begun)
		}
		return c.runAll(ctx, p, b, services)
	})
}

// begun is what the journal has of a run, nil if there is none. A header that was never finished is none.
func (c *treeRunCommand) begun() (*runner.Journal, error) {
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

// withTreeBox opens the box in which signals are recorded, if there is one.
func (p *program) withTreeBox(ctx context.Context, c *treeRunCommand, do func(*box.Box) error) error {
	_, err := p.findBox(c.boxFlag)
	classed := (*signalbox.Error)(nil)
	named := c.Box != "" || p.getenv(boxVariable) != ""
	if c.NoLedger || !named && errors.As(err, &classed) && classed.Code == signalbox.CodeNotFound {
		return do(nil)
	}
	return p.withBox(ctx, c.boxFlag, do)
}

// services are the tools and the model that the flags give.
func (c *treeRunCommand) services(p *program) (*tree.Registry, error) {
	services := &tree.Registry{}
	for name, line := range c.Tool {
		services.Add(tree.Tool, name, command.Tool(name, line))
	}
	switch {
	case c.Model != "":
		services.Add(tree.LLMCall, "", command.Model(c.Model))
	case c.Replies != "":
		text, err := p.readAll(&c.Replies, maxReplies)
		if err != nil {
			return nil, err
		}
		services.Add(tree.LLMCall, "", command.Replies(command.SplitReplies(string(text))))
	}
	return services, nil
}

// inputs are the values that --set gives.
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

// goOn continues the run of a journal, with the tree and the inputs that are in it.
func (c *treeRunCommand) goOn(ctx context.Context, p *program, b *box.Box, services *tree.Registry, begun *runner.Journal) error {
	h := begun.Header
	inputs, _, err := h.ReadInputs()
	if err != nil {
		return err
	}
	if len(c.Set) > 0 && len(tree.Diff(inputs, c.inputs())) > 0 {
		return &signalbox.Error{Code: signalbox.CodeUsage, Err: fmt.Errorf("%s has a run that began with other values than --set gives", c.Journal),
			Hint: "leave out --set to go on with that run, or give another journal"}
	}
	source, err := p.readAll(&c.File, maxTree)
	if err != nil {
		return err
	}
	if string(source) != h.Source {
		if now, err := luatree.Load(ctx, c.File, source, treeOptions()); err == nil && now.Tree().Name() != h.Tree {
			return &signalbox.Error{Code: signalbox.CodeConflict, Err: fmt.Errorf("%s has a run of the tree '%s', and %s is '%s'", c.Journal, h.Tree, c.File, now.Tree().Name()),
				Hint: "give another journal"}
		}
		p.warnf("%s was changed; the run goes on with the tree that it began with", c.File)
	}
	file, err := p.loadTree(ctx, h.File, []byte(h.Source))
	if err != nil {
		return err
	}
	defer file.Close()
	if begun.Ended() {
		p.notef("run %s has ended, and is not repeated; to run the tree again, give another journal", h.Run)
	} else {
		p.notef("going on with run %s", h.Run)
	}
	_, err = c.run(ctx, p, b, file, tree.RunOptions{ID: h.Run, Services: services})
	return err
}

// runAll runs the tree as often as it is asked for, each time as its file is then. The error is that of the last run.
func (c *treeRunCommand) runAll(ctx context.Context, p *program, b *box.Box, services *tree.Registry) error {
	source, err := luatree.Open(ctx, c.File, treeOptions())
	if errors.Is(err, os.ErrNotExist) {
		return &signalbox.Error{Code: signalbox.CodeNotFound, Err: fmt.Errorf("%s: no such file", c.File), Hint: "check the path"}
	}
	if err != nil {
		return p.treeError(c.File, err)
	}
	var globals map[string]any
	for n := 1; ; n++ {
		file, reloaded, err := source.Next(ctx)
		switch {
		case err != nil:
			p.warnf("the tree before stays: %v", err)
		case reloaded:
			p.notef("%s was loaded anew", c.File)
		}
		run, err := c.run(ctx, p, b, file, tree.RunOptions{ID: newRunID(), Services: services, Inputs: c.inputs(), Globals: globals})
		if run == nil || ctx.Err() != nil || n == c.Runs {
			return err
		}
		if err != nil {
			p.warnf("run %d: %v", n, err)
		}
		globals = run.Board().Globals()
	}
}

func newRunID() string {
	random := make([]byte, 6)
	rand.Read(random) // never fails
	return "T-" + hex.EncodeToString(random)
}

// run runs the tree once.
func (c *treeRunCommand) run(ctx context.Context, p *program, b *box.Box, file *luatree.File, o tree.RunOptions) (*tree.Run, error) {
	o.Observe = true
	c.noteUnused(p, file.Tree())
	p.printWarnings(file.Tree())
	show := &treeTeller{p: p, json: c.JSON, to: p.stderr}
	if !c.JSON && isTerminal(p.stdout) && p.getenv("TERM") != "dumb" {
		show.live = progress.NewPicture(p.stdout)
	}
	opts := &runner.Options{Run: o, Journal: c.Journal, File: file.Name, Source: string(file.Source), MaxTicks: c.MaxTicks, Watchdog: c.Watchdog,
		Ticked: func(run *tree.Run) { show.tick(run, run.Transitions()) }}
	if show.live != nil {
		opts.Opened = show.draw
	}
	if b != nil {
		opts.Emitted = func(ctx context.Context, run *tree.Run, e tree.Emit) error {
			return turnlog.Record(ctx, b.Engine, run, e, p.actor(""))
		}
	}
	run, err := runner.Do(ctx, file.Tree(), opts)
	if show.live != nil {
		show.live.Close()
	}
	if run == nil {
		return nil, p.treeError(file.Name, journalError(startError(err)))
	}
	if c.JSON {
		return run, errors.Join(show.end(run, stopped(ctx, err)), c.outcome(ctx, run, err))
	}
	fmt.Fprint(p.out, draw.Text(run.Tree(), &draw.Options{Views: run.Views(), Color: p.colored()}))
	fmt.Fprintf(p.out, "%s after %s\n", run.Status(), tickCount(run.Ticks()))
	for _, key := range run.Tree().Keys() {
		if v, err := run.Board().Get(key.Name); err == nil && v != nil {
			fmt.Fprintf(p.out, "  %s = %s\n", key.Name, onOneLine(tree.FormatValue(v)))
		}
	}
	return run, c.outcome(ctx, run, err)
}

// noteUnused tells of tools that the tree does not call, which may be misspelled.
func (c *treeRunCommand) noteUnused(p *program, t *tree.Tree) {
	called := map[string]bool{}
	for i := range t.Len() {
		called[t.Calls(i)] = true
	}
	for _, name := range slices.Sorted(maps.Keys(c.Tool)) {
		if !called[name] {
			p.notef("the tree calls no tool '%s'", name)
		}
	}
}

// startError says what the flags have to do with an error that kept a run from beginning.
func startError(err error) error {
	for i, f := range tree.Faults(err) {
		switch name, unknown := strings.CutPrefix(f.Msg, "unknown tool "); {
		case unknown:
			tree.Faults(err)[i].Hint = "--tool " + strings.Trim(name, "'") + "=COMMAND says what it is"
		case strings.Contains(f.Msg, "calls a model"):
			tree.Faults(err)[i].Hint = "--model COMMAND says what it is, or --replies FILE what it answers"
		}
	}
	if errors.Is(err, tree.ErrUndeclared) || errors.Is(err, tree.ErrMistyped) {
		return &signalbox.Error{Code: signalbox.CodeUsage, Err: fmt.Errorf("--set: %w", err),
			Hint: "the tree's blackboard says which keys there are, and of which type; a value that is not valid JSON is text, and a number as text is written 'key=\"3\"'"}
	}
	return err
}

// stopped is how a run did not end, nil if it did, in the words of its journal.
func stopped(ctx context.Context, err error) *tree.Ending {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return &tree.Ending{End: runner.Interrupted}
	}
	return &tree.Ending{End: runner.Failed, Error: err.Error()}
}

// onOneLine is a value as people can take it in.
func onOneLine(text string) string {
	text = printable(text)
	if runes := []rune(text); len(runes) > 200 {
		return string(runes[:199]) + "…"
	}
	return text
}

// outcome is what the end of a run means for the program's exit status.
func (c *treeRunCommand) outcome(ctx context.Context, run *tree.Run, err error) error {
	switch {
	case err != nil && ctx.Err() != nil && c.Journal != "":
		return &signalbox.Error{Code: signalbox.CodeInterrupted, Err: errors.New("interrupted"), Hint: "the same command goes on from here"}
	case err != nil && ctx.Err() != nil:
		return &signalbox.Error{Code: signalbox.CodeInterrupted, Err: errors.New("interrupted"), Hint: "with --journal, a run can go on"}
	case errors.Is(err, runner.ErrTickBudget):
		return &signalbox.Error{Code: signalbox.CodeFailed, Err: err, Hint: "is there a repeat without a wait? --max-ticks allows more"}
	case errors.Is(err, runner.ErrNoProgress):
		return &signalbox.Error{Code: signalbox.CodeFailed, Err: err, Hint: "put a timeout around what may hang; --watchdog allows more"}
	case errors.Is(err, runner.ErrStuck):
		return &signalbox.Error{Code: signalbox.CodeFailed, Err: err, Hint: "a function that answers RUNNING says when to ask again: t:wake(seconds)"}
	case err != nil:
		return err
	case run.Status() != tree.Success:
		return errors.New("the tree failed" + why(run))
	}
	return nil
}

// why names the node that explains a failure: the last that failed with an error, or else the last leaf that failed.
func why(run *tree.Run) string {
	silent, text := "", ""
	for i, view := range run.Views() {
		info := run.Tree().Info(i)
		switch {
		case view.Status != tree.Failure:
		case view.Err != "":
			text = fmt.Sprintf(": %s: %s", info.Path, view.Err)
		case len(info.Children) == 0:
			silent = ": " + info.Path
		}
	}
	if text == "" {
		text = silent
	}
	return text
}

func tickCount(n int) string {
	if n == 1 {
		return "1 tick"
	}
	return fmt.Sprintf("%d ticks", n)
}

// treeTeller tells what a run does, tick by tick.
type treeTeller struct {
	p    *program
	json bool
	to   io.Writer
	// live is the picture on a terminal, or nil.
	live *progress.Picture
}

type toldTick struct {
	Tick        int        `json:"tick"`
	Status      string     `json:"status"`
	Transitions []toldMove `json:"transitions"`
	Emitted     []toldEmit `json:"emitted,omitempty"`
}

type toldMove struct {
	Path  string `json:"path"`
	From  string `json:"from"`
	To    string `json:"to"`
	Error string `json:"error,omitempty"`
}

type toldEmit struct {
	Seq   int    `json:"seq"`
	Path  string `json:"path"`
	Topic string `json:"topic"`
	Value any    `json:"value"`
}

func (t *treeTeller) tick(run *tree.Run, moves []tree.Transition) {
	switch {
	case t.live != nil:
		t.draw(run)
		return
	case !t.json:
		t.lines(run, moves)
		return
	}
	told := toldTick{run.Ticks(), run.Status().String(), []toldMove{}, nil}
	for _, m := range moves {
		told.Transitions = append(told.Transitions, toldMove{run.Tree().Info(m.Node).Path, m.From.String(), m.To.String(), m.Err})
	}
	for _, e := range run.Emitted() {
		told.Emitted = append(told.Emitted, toldEmit{e.Seq, run.Tree().Info(e.Node).Path, e.Topic, e.Value})
	}
	t.p.printJSON(told, "") // an error sticks to the answer
	t.p.out.Flush()
}

// draw shows the tree as it is, with a leaf that is running in sight.
func (t *treeTeller) draw(run *tree.Run) {
	text := draw.Text(run.Tree(), &draw.Options{Views: run.Views(), Color: t.p.getenv("NO_COLOR") == ""})
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	focus := 0
	for i := range run.Tree().Len() {
		if run.View(i).Status == tree.Running {
			focus = len(lines) - run.Tree().Len() + i
		}
	}
	status := fmt.Sprintf("tick %d", run.Ticks())
	if wake, timed := run.Wake(); timed {
		status += ", next at " + wake.Local().Format(time.DateTime)
	}
	t.live.Show(lines, focus, status)
}

// lines tells of leaves that do something, since what happens above follows from them, and of whatever says why it failed.
func (t *treeTeller) lines(run *tree.Run, moves []tree.Transition) {
	for _, m := range moves {
		info := run.Tree().Info(m.Node)
		if (len(info.Children) > 0 || info.Kind == tree.Condition) && m.Err == "" {
			continue
		}
		status := strings.ToLower(m.To.String())
		if m.To == tree.Idle {
			status = "halted"
		}
		line := fmt.Sprintf("tick %d: %-7s %s", run.Ticks(), status, info.Path)
		if m.Err != "" {
			line += ": " + m.Err
		}
		fmt.Fprintln(t.to, printable(line))
	}
	for _, e := range run.Emitted() {
		fmt.Fprintln(t.to, onOneLine(fmt.Sprintf("tick %d: %s %s", run.Ticks(), e.Topic, tree.FormatValue(e.Value))))
	}
}

// end is the last JSON object.
func (t *treeTeller) end(run *tree.Run, ending *tree.Ending) error {
	answer := struct {
		Run        string         `json:"run"`
		Tree       string         `json:"tree"`
		End        string         `json:"end"`
		Ticks      int            `json:"ticks"`
		Error      string         `json:"error,omitempty"`
		Blackboard map[string]any `json:"blackboard"`
	}{Run: run.ID(), Tree: run.Tree().Name(), End: run.Status().String(), Ticks: run.Ticks(), Blackboard: run.Board().Snapshot()}
	if ending != nil {
		answer.End, answer.Error = ending.End, ending.Error
	}
	if answer.End == tree.Failure.String() {
		answer.Error = strings.TrimPrefix(why(run), ": ")
	}
	return t.p.printJSON(answer, "")
}
