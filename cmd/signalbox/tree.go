package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"signalbox"
	"signalbox/internal/oracle"
	"signalbox/internal/tree"
	"signalbox/internal/tree/draw"
	"signalbox/internal/tree/luatree"
	"signalbox/internal/tree/runner"
)

// maxTree is the size of the largest file with a tree.
const maxTree = 1 << 20

type treeCommands struct {
	Check  treeCheckCommand  `cmd:"" help:"Say whether a tree can be run, and what is wrong with it."`
	Render treeRenderCommand `cmd:"" help:"Draw a tree, or how far a run of it got."`
	Run    treeRunCommand    `cmd:"" help:"Run a tree to its end, or go on with a run."`
	Replay treeReplayCommand `cmd:"" help:"Repeat a recorded run tick by tick, and check that it comes to the same."`
	Test   treeTestCommand   `cmd:"" help:"Run the tests beside a tree."`
}

func (treeCommands) Help() string {
	return `A behaviour tree decides what an agent does next: each turn is a tick that goes through the tree's nodes, and their conditions read what the model signalled. Trees are Lua files. A run keeps all it remembers in a journal, so that it goes on where it was when its process is killed. docs/trees.md explains trees, docs/trees-reference.md each node; examples/trees has some to begin with.

Examples:

    signalbox tree check examples/trees/turn.lua
    signalbox tree render examples/trees/turn.lua
    signalbox tree run examples/trees/turn.lua --replies examples/trees/turn.replies
    signalbox tree test examples/trees`
}

// treeOptions let trees call by name what those of the oracle may.
func treeOptions() *luatree.Options { return &luatree.Options{Functions: oracle.Functions()} }

// loadTree loads a file. What is wrong with it is said, and the error is what is left to say.
func (p *program) loadTree(ctx context.Context, name string, source []byte) (*luatree.File, error) {
	file, err := luatree.Load(ctx, name, source, treeOptions())
	return file, p.treeError(name, err)
}

// wantTree refuses the journal of a run in a tree's place.
func wantTree(name string) error {
	if !isJournal(name) {
		return nil
	}
	return &signalbox.Error{Code: signalbox.CodeUsage, Err: fmt.Errorf("%s is the journal of a run, not a tree", name),
		Hint: "give the tree, and the journal with --journal; tree replay and tree render take a journal alone"}
}

func (p *program) readTree(ctx context.Context, name string) (*luatree.File, error) {
	source, err := p.readAll(&name, maxTree)
	if err != nil {
		return nil, err
	}
	return p.loadTree(ctx, name, source)
}

// treeError says all that is wrong with a tree, one fault after the other, and returns what is left to say.
func (p *program) treeError(name string, err error) error {
	faults := tree.Faults(err)
	switch {
	case err == nil:
		return nil
	case len(faults) == 0:
		if lua := (*luatree.Error)(nil); errors.As(err, &lua) {
			return &signalbox.Error{Code: signalbox.CodeUsage, Err: err, Hint: "docs/trees.md says how trees are written"}
		}
		return err
	case len(faults) == 1:
		return &signalbox.Error{Code: signalbox.CodeUsage, Err: faults[0], Hint: faults[0].Hint}
	}
	for _, f := range faults {
		p.say("signalbox", f.Error())
		if f.Hint != "" {
			p.say("hint", f.Hint)
		}
	}
	return &signalbox.Error{Code: signalbox.CodeUsage, Err: fmt.Errorf("%s has %d faults", name, len(faults)),
		Hint: "correct them, and check the tree again with signalbox tree check"}
}

type treeCheckCommand struct {
	File string `arg:"" help:"The tree; - is standard input."`
	JSON bool   `name:"json" help:"Print one JSON object, also when the tree is refused."`
}

func (treeCheckCommand) Help() string {
	return `Loads a tree and says how many nodes it has and which tools it calls. If something is wrong, it is listed on standard error with file and line, and the exit status is 2. Nothing is run but the file itself, within limits, and it cannot reach anything outside.

Examples:

    signalbox tree check examples/trees/turn.lua
    signalbox tree check --json examples/trees/turn.lua`
}

// checkedTree is the answer for programs.
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

func (c *treeCheckCommand) Run(p *program) error {
	if err := wantTree(c.File); err != nil {
		return err
	}
	source, err := p.readAll(&c.File, maxTree)
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
		for _, d := range file.Tree().Warnings() {
			answer.Warnings = append(answer.Warnings, treeFault{d.At.File, d.At.Line, d.Msg, d.Hint})
		}
	}
	if c.JSON {
		return errors.Join(p.printJSON(answer, ""), p.treeError(c.File, err))
	}
	if err != nil {
		return p.treeError(c.File, err)
	}
	_, err = fmt.Fprintln(p.out, answer.summary())
	p.printWarnings(file.Tree())
	return err
}

// printWarnings prints the warnings about a tree.
func (p *program) printWarnings(t *tree.Tree) {
	for _, w := range t.Warnings() {
		p.warnf("%v", w)
		p.say("hint", w.Hint)
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
	a.Tree, a.Nodes = t.Name(), t.Len()
	for i := range t.Len() {
		switch info := t.Info(i); info.Kind {
		case tree.Tool:
			if name := t.Calls(i); !slices.Contains(a.Tools, name) {
				a.Tools = append(a.Tools, name)
			}
		case tree.LLMCall:
			a.Model = true
		}
	}
	slices.Sort(a.Tools)
}

func (a *checkedTree) summary() string {
	text := fmt.Sprintf("ok: tree '%s', %d nodes", a.Tree, a.Nodes)
	if a.Nodes == 1 {
		text = fmt.Sprintf("ok: tree '%s', 1 node", a.Tree)
	}
	if len(a.Tools) > 0 {
		text += "; calls the tools " + strings.Join(a.Tools, ", ")
	}
	if a.Model {
		text += "; calls a model"
	}
	return text
}

type treeRenderCommand struct {
	File   string `arg:"" help:"The tree, or the journal of a run."`
	Format string `enum:"text,dot,svg" default:"text" placeholder:"F" help:"text, dot (for Graphviz) or svg. Default: text."`
	Tick   int    `placeholder:"N" help:"Of a journal: as it was after that tick. Default: the last."`
	ASCII  bool   `name:"ascii" help:"Text without characters beyond ASCII."`
}

func (treeRenderCommand) Help() string {
	return `Draws a tree: as text, for Graphviz, or as a picture in SVG that stands alone and is readable in light and dark. Given the journal of a run, it draws that run's tree coloured by status.

Examples:

    signalbox tree render examples/trees/turn.lua
    signalbox tree render --format svg examples/trees/turn.lua > turn.svg
    signalbox tree run examples/trees/turn.lua --replies examples/trees/turn.replies --journal turn.journal
    signalbox tree render --tick 1 turn.journal`
}

func (c *treeRenderCommand) Run(p *program) error {
	ctx := context.Background()
	drawn := &draw.Options{ASCII: c.ASCII, Color: c.Format == "text" && p.colored()}
	var t *tree.Tree
	if isJournal(c.File) {
		run, close, err := p.replayUpTo(ctx, c.File, c.Tick, nil)
		if err != nil {
			return err
		}
		defer close()
		t, drawn.Views = run.Tree(), run.Views()
	} else {
		if c.Tick != 0 {
			return &signalbox.Error{Code: signalbox.CodeUsage, Err: errors.New("--tick is for the journal of a run"), Hint: "give the journal, not the tree"}
		}
		file, err := p.readTree(ctx, c.File)
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
	_, err := p.out.WriteString(picture(t, drawn))
	return err
}

// colored tells whether the answer goes to a terminal of somebody who wants colours.
func (p *program) colored() bool { return isTerminal(p.stdout) && p.getenv("NO_COLOR") == "" }

// isJournal tells the journal of a run from a tree by how it begins.
func isJournal(name string) bool {
	file, err := os.Open(name)
	if err != nil {
		return false
	}
	defer file.Close()
	begin := make([]byte, len(`{"format":`))
	n, _ := file.Read(begin)
	return bytes.Equal(begin[:n], []byte(`{"format":`))
}

// replayUpTo replays a journal, all of it or as far as a tick, and calls each after every tick. The tree is the one that the
// journal has.
func (p *program) replayUpTo(ctx context.Context, name string, tick int, each func(*tree.Run) error) (*tree.Run, func(), error) {
	var run *tree.Run
	var file *luatree.File
	closeFile := func() {
		if file != nil {
			file.Close()
		}
	}
	_, err := runner.ReadJournal(name, func(h tree.Header) (err error) {
		if file, err = luatree.Load(ctx, h.File, []byte(h.Source), treeOptions()); err != nil {
			return err
		}
		run, err = runner.StartReplay(file.Tree(), h)
		return err
	}, func(rec *tree.Record) error {
		if tick > 0 && rec.Tick > tick {
			return nil
		}
		if err := run.Replay(rec); err != nil || each == nil {
			return err
		}
		return each(run)
	})
	switch {
	case err != nil:
	case run == nil:
		err = fmt.Errorf("%s is empty", name)
	case tick > run.Ticks():
		err = &signalbox.Error{Code: signalbox.CodeNotFound, Err: fmt.Errorf("%s has %s", name, tickCount(run.Ticks()))}
	default:
		return run, closeFile, nil
	}
	closeFile()
	return nil, nil, journalError(err)
}

// journalError says what a journal's fault means.
func journalError(err error) error {
	diverged := (*tree.DivergenceError)(nil)
	switch {
	case errors.Is(err, tree.ErrChain), errors.As(err, &diverged), errors.Is(err, tree.ErrOtherTree):
		return &signalbox.Error{Code: signalbox.CodeUnverified, Err: err, Hint: "the journal is not what was written, or was written by another version of signalbox"}
	case errors.Is(err, runner.ErrInUse):
		return &signalbox.Error{Code: signalbox.CodeConflict, Err: err, Hint: "wait until it ended, or give another journal"}
	case errors.Is(err, os.ErrNotExist):
		return &signalbox.Error{Code: signalbox.CodeNotFound, Err: err}
	}
	return err
}
