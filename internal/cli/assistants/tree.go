package assistants

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"signalbox"
	"signalbox/internal/cli"
	"signalbox/internal/oracle"
	"signalbox/internal/text"
	"signalbox/internal/tree"
	"signalbox/internal/tree/draw"
	"signalbox/internal/tree/luatree"
	"signalbox/internal/tree/runner"
)

// maxTree is the largest size of a tree's file.
const maxTree = 1 << 20

type TreeCommands struct {
	Check  treeCheckCommand  `cmd:"" help:"Check a tree for faults."`
	Render treeRenderCommand `cmd:"" help:"Draw a tree, or the state of a run."`
	Run    treeRunCommand    `cmd:"" help:"Run a tree, or resume a run."`
	Replay treeReplayCommand `cmd:"" help:"Repeat a recorded run and check that every status is the same."`
	Test   treeTestCommand   `cmd:"" help:"Run the tests of trees."`
}

func (TreeCommands) Help() string {
	return `A behaviour tree decides what an agent does next. Each turn is a tick that visits the nodes of the tree; conditions read the signals of the model. Trees are Lua files. A run writes its state to a journal, so that you can resume it after its process is killed. See docs/how-to/trees.md for a guide, docs/reference/tree-nodes.md for every node, and examples/trees for trees to start from.

Examples:

    signalbox tree check examples/trees/turn.lua
    signalbox tree render examples/trees/turn.lua
    signalbox tree run examples/trees/turn.lua --replies examples/trees/turn.replies
    signalbox tree test examples/trees`
}

// treeOptions let a tree call the functions of the oracle by name.
func treeOptions() *luatree.Options { return &luatree.Options{Functions: oracle.Functions()} }

// loadTree loads a tree. It prints the faults of the tree; the error summarizes them.
func loadTree(ctx context.Context, p *cli.Program, name string,
	source []byte) (*luatree.File, error) {
	file, err := luatree.Load(ctx, name, source, treeOptions())
	return file, treeError(p, name, err)
}

// refuseJournal returns an error if the file that should be a tree is a journal.
func refuseJournal(name string) error {
	if !runner.IsJournal(name) {
		return nil
	}
	return signalbox.CodeUsage.Errorf(
		"name the tree, and the journal with --journal; only tree replay and tree render take a journal", "%s is the journal of a run, not a tree", name)
}

func readTree(ctx context.Context, p *cli.Program, name string) (*luatree.File, error) {
	source, err := p.ReadAll(&name, maxTree)
	if err != nil {
		return nil, err
	}
	return loadTree(ctx, p, name, source)
}

// treeError prints the faults of a tree if there are several, and returns an error that summarizes
// them.
func treeError(p *cli.Program, name string, err error) error {
	faults := tree.Faults(err)
	switch {
	case err == nil:
		return nil
	case len(faults) == 0:
		if lua := (*luatree.Error)(nil); errors.As(err, &lua) {
			return &signalbox.Error{Code: signalbox.CodeUsage, Err: err,
				Hint: "docs/how-to/trees.md explains how to write trees"}
		}
		return err
	case len(faults) == 1:
		return &signalbox.Error{Code: signalbox.CodeUsage, Err: faults[0], Hint: faults[0].Hint}
	}
	for _, f := range faults {
		p.Say("signalbox", f.Error())
		if f.Hint != "" {
			p.Say("hint", f.Hint)
		}
	}
	return signalbox.CodeUsage.Errorf("correct them, then run signalbox tree check",
		"%s has %d faults", name, len(faults))
}

type treeCheckCommand struct {
	File string `arg:"" help:"The tree; - means standard input."`
	JSON bool   `name:"json" help:"Print one JSON object, even if the tree has faults."`
}

func (treeCheckCommand) Help() string {
	return `Loads a tree and prints how many nodes it has and which tools it calls. Faults are listed on standard error with file and line, and the exit status is 2. Loading runs only the file itself, in a sandbox with limits.

Examples:

    signalbox tree check examples/trees/turn.lua
    signalbox tree check --json examples/trees/turn.lua`
}

// checkedTree is the JSON answer of tree check.
type checkedTree struct {
	OK       bool        `json:"ok"`
	Tree     string      `json:"tree,omitempty"`
	Nodes    int         `json:"nodes"`
	Tools    []string    `json:"tools"`
	Model    bool        `json:"model"`
	Faults   []treeFault `json:"faults"`
	Warnings []treeFault `json:"doubts"`
}

type treeFault struct {
	File string `json:"file"`
	Line int    `json:"line"`
	Text string `json:"text"`
	Hint string `json:"hint,omitempty"`
}

func (c *treeCheckCommand) Run(p *cli.Program) error {
	if err := refuseJournal(c.File); err != nil {
		return err
	}
	source, err := p.ReadAll(&c.File, maxTree)
	if err != nil {
		return err
	}
	file, err := luatree.Load(context.Background(), c.File, source, treeOptions())
	if err == nil {
		defer file.Close()
	}
	answer := checkedTree{OK: err == nil, Tools: []string{}, Faults: treeFaults(err), Warnings: []treeFault{}}
	if err == nil {
		answer.describe(file.Tree())
	}
	if c.JSON {
		return errors.Join(p.PrintJSON(answer, ""), treeError(p, c.File, err))
	}
	if err != nil {
		return treeError(p, c.File, err)
	}
	_, err = fmt.Fprintln(p.Out, answer.summary())
	printWarnings(p, file.Tree())
	return err
}

func printWarnings(p *cli.Program, t *tree.Tree) {
	for _, w := range t.Warnings() {
		p.Warnf("%v", w)
		p.Say("hint", w.Hint)
	}
}

func treeFaults(err error) []treeFault {
	faults := []treeFault{}
	for _, f := range tree.Faults(err) {
		faults = append(faults, treeFault{f.At.File, f.At.Line, f.Msg, f.Hint})
	}
	if lua := (*luatree.Error)(nil); errors.As(err, &lua) {
		faults = append(faults, treeFault{lua.File, lua.Line, lua.Msg, ""})
	}
	return faults
}

func (a *checkedTree) describe(t *tree.Tree) {
	a.Tree, a.Nodes, a.Model = t.Name(), t.Len(), t.CallsModel()
	a.Tools = append(a.Tools, t.Tools()...)
	for _, w := range t.Warnings() {
		a.Warnings = append(a.Warnings, treeFault{w.At.File, w.At.Line, w.Msg, w.Hint})
	}
}

func (a *checkedTree) summary() string {
	line := fmt.Sprintf("ok: tree '%s', %s", a.Tree, text.Count(a.Nodes, "node"))
	if len(a.Tools) > 0 {
		line += "; calls the tools " + strings.Join(a.Tools, ", ")
	}
	if a.Model {
		line += "; calls a model"
	}
	return line
}

type treeRenderCommand struct {
	File   string `arg:"" help:"The tree, or the journal of a run."`
	Format string `enum:"text,dot,svg" default:"text" placeholder:"F" help:"The format: text, dot (for Graphviz) or svg. Default: text."`
	Tick   int    `placeholder:"N" help:"Draw a journal as of this tick. Default: the last."`
	ASCII  bool   `name:"ascii" help:"Use only ASCII characters in text."`
}

func (treeRenderCommand) Help() string {
	return `Draws a tree as text, for Graphviz, or as an SVG picture that is readable on light and dark backgrounds. Given the journal of a run, it draws the tree of that run with every node coloured by its status.

Examples:

    signalbox tree render examples/trees/turn.lua
    signalbox tree render --format svg examples/trees/turn.lua > turn.svg
    signalbox tree run examples/trees/turn.lua --replies examples/trees/turn.replies --journal turn.journal
    signalbox tree render --tick 1 turn.journal`
}

func (c *treeRenderCommand) Run(p *cli.Program) error {
	ctx := context.Background()
	opts := &draw.Options{ASCII: c.ASCII, Color: c.Format == "text" && p.Colors(p.Stdout)}
	var t *tree.Tree
	if runner.IsJournal(c.File) {
		r, err := replay(ctx, c.File, c.Tick, nil)
		if err != nil {
			return err
		}
		defer r.close()
		t, opts.Views = r.run.Tree(), r.run.Views()
	} else {
		if c.Tick != 0 {
			return signalbox.CodeUsage.Errorf("name the journal, not the tree",
				"--tick is for the journal of a run")
		}
		file, err := readTree(ctx, p, c.File)
		if err != nil {
			return err
		}
		defer file.Close()
		t = file.Tree()
	}
	picture := draw.Text
	switch c.Format {
	case "dot":
		picture = draw.Dot
	case "svg":
		picture = draw.SVG
	}
	_, err := io.WriteString(p.Styled(opts.Color), picture(t, opts))
	return err
}

// replayed is a run that was replayed from its journal.
type replayed struct {
	run     *tree.Run
	journal *runner.Journal
	file    *luatree.File
}

func (r *replayed) close() {
	if r.file != nil {
		r.file.Close()
	}
}

// replay replays a journal up to a tick, 0 for all of it, with the tree that the journal contains.
// It calls each after every tick.
func replay(ctx context.Context, name string, tick int,
	each func(*tree.Run) error) (*replayed, error) {
	r := &replayed{}
	var err error
	r.run, r.journal, err = runner.Replay(name, tick, func(h tree.Header) (*tree.Tree, error) {
		var err error
		if r.file, err = luatree.Load(ctx, h.File, []byte(h.Source), treeOptions()); err != nil {
			return nil, err
		}
		return r.file.Tree(), nil
	}, each)
	if err == nil && tick > r.run.Ticks() {
		err = signalbox.CodeNotFound.Errorf("", "%s has %s", name,
			text.Count(r.run.Ticks(), "tick"))
	}
	if err != nil {
		r.close()
		return nil, journalError(err)
	}
	return r, nil
}

// journalError adds the error code and a hint to an error about a journal.
func journalError(err error) error {
	diverged := (*tree.DivergenceError)(nil)
	switch {
	case errors.Is(err, tree.ErrChain), errors.As(err, &diverged),
		errors.Is(err, tree.ErrOtherTree):
		return &signalbox.Error{Code: signalbox.CodeUnverified, Err: err,
			Hint: "the journal was changed, or another version of signalbox wrote it"}
	case errors.Is(err, runner.ErrInUse):
		return &signalbox.Error{Code: signalbox.CodeConflict, Err: err,
			Hint: "wait until it has ended, or use another journal"}
	case errors.Is(err, os.ErrNotExist):
		return &signalbox.Error{Code: signalbox.CodeNotFound, Err: err}
	}
	return err
}
