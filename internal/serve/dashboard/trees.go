package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"signalbox"
	"signalbox/internal/config"
	"signalbox/internal/durable"
	"signalbox/internal/oracle"
	"signalbox/internal/picture"
	"signalbox/internal/serve/access"
	"signalbox/internal/show"
	"signalbox/internal/text"
	"signalbox/internal/tree"
	"signalbox/internal/tree/blackboard"
	"signalbox/internal/tree/draw"
	"signalbox/internal/tree/luatree"
	"signalbox/internal/tree/report"
	"signalbox/internal/tree/runner"
	"signalbox/internal/tree/treeruns"
	"signalbox/internal/tree/turnsignal"
)

// Limits of the pages about trees.
const (
	runsOnPage    = 50
	runsOfTree    = 10
	maxDrawn      = 1500     // nodes of a picture
	maxSource     = 1 << 20  // bytes of a tree's file
	maxReply      = 64 << 10 // bytes of a reply
	maxCell       = 160      // characters of a value in the table of the blackboard
	maxCellAll    = 8 << 10  // bytes of a value that is opened
	maxKeys       = 300      // keys of a blackboard
	maxNews       = 200      // lines about a tick
	stepTimeout   = 20 * time.Second
	maxRecordings = 4 // that stay in memory
)

// definedTree is a tree that the configuration names.
type definedTree struct {
	// Kind is agent, oracle or sub-agent, and Path the address of its page.
	Kind, Name, Path string
	File             string
	Roles            []string
}

// Base returns the name of the file without its folder.
func (t definedTree) Base() string { return filepath.Base(t.File) }

// definedTrees returns the trees that a configuration names.
func definedTrees(c *config.Config) (all []definedTree) {
	if c == nil {
		return nil
	}
	for name, a := range c.Agents {
		if a.Tree == "" {
			continue
		}
		t := definedTree{Kind: "agent", Name: name, Path: "/trees/agents/" + name, File: a.Tree}
		for role := range c.Roles {
			if slices.Contains(c.AgentsFor(role, ""), name) {
				t.Roles = append(t.Roles, string(role))
			}
		}
		slices.Sort(t.Roles)
		all = append(all, t)
	}
	for name, sub := range c.Oracle.Subagents {
		all = append(all, definedTree{Kind: "sub-agent", Name: name, Path: "/trees/subagents/" +
			name, File: sub.Tree})
	}
	slices.SortFunc(all, func(a, b definedTree) int { return strings.Compare(a.Path, b.Path) })
	if len(c.Models) > 0 {
		file := c.Oracle.Tree
		if file == "" {
			file = oracle.TreeName
		}
		all = append(all, definedTree{Kind: "oracle", Name: "oracle", Path: "/trees/oracle",
			File: file})
	}
	return all
}

// showsTrees reports whether the caller may see the pages about trees, and there is something to
// show. They are private: conversations with the oracle are not part of the work, and an agent can
// connect to loopback.
func (d *Dashboard) showsTrees(caller access.Caller) bool {
	return caller.Name != "" && caller.Scope.Allows(access.Private) &&
		(len(definedTrees(d.box.Config)) > 0 || len(treeruns.List(d.box.Dir)) > 0)
}

// treeRun is a recorded run in a list.
type treeRun struct {
	treeruns.Run
	*runner.Summary
	// Problem is why its journal cannot be read; "" if it can.
	Problem string
}

// summarize returns a run with what its journal says.
func summarize(r treeruns.Run) treeRun {
	t := treeRun{Run: r}
	var err error
	if t.Summary, err = r.Summarize(); err != nil {
		t.Summary, t.Problem = &runner.Summary{}, err.Error()
		if errors.Is(err, fs.ErrNotExist) {
			t.Problem = "the journal was removed"
		}
	}
	return t
}

// Lamp returns the colour of the run's lamp.
func (t treeRun) Lamp() string { return lampOfRun(t.Running, t.Ending) }

// State returns what became of the run.
func (t treeRun) State() string { return stateOfRun(t.Running, t.Ending) }

func lampOfRun(running bool, e *tree.Ending) string {
	switch {
	case running:
		return "busy"
	case e == nil || e.End == runner.Interrupted:
		return "off"
	case e.End == tree.Success.String():
		return "good"
	}
	return "bad"
}

func stateOfRun(running bool, e *tree.Ending) string {
	switch {
	case running:
		return "running"
	case e == nil || e.End == runner.Interrupted:
		return "interrupted"
	case e.End == tree.Success.String():
		return "succeeded"
	case e.End == tree.Failure.String():
		return "failed"
	}
	return "stopped by an error"
}

// treesPage lists the trees that the box knows, and the recorded runs.
type treesPage struct {
	Defined     []definedTree
	Runs        []treeRun
	Newer, More int // for the links to other parts of the list; Newer is -1 for none, More 0
	Count       int
}

func (d *Dashboard) trees(ctx context.Context, r *http.Request) (view, error) {
	page := treesPage{Defined: definedTrees(d.box.Config), Newer: -1}
	all := treeruns.List(d.box.Dir)
	from, err := strconv.Atoi(r.URL.Query().Get("from"))
	if err != nil || from < 0 || from >= len(all) {
		from = 0
	}
	to := min(from+runsOnPage, len(all))
	for _, run := range all[from:to] {
		if ctx.Err() != nil {
			return view{}, ctx.Err()
		}
		page.Runs = append(page.Runs, summarize(run))
	}
	page.Count = len(all)
	if from > 0 {
		page.Newer = max(0, from-runsOnPage)
	}
	if to < len(all) {
		page.More = to
	}
	return view{template: "trees", title: "Trees", data: page}, nil
}

// treePage is a tree that the configuration names: the tree in its file or, while a run is active,
// the tree of that run.
type treePage struct {
	definedTree
	Live bool
	Step *stepPage
	Runs []treeRun
}

func (d *Dashboard) tree(ctx context.Context, r *http.Request) (view, error) {
	all := definedTrees(d.box.Config)
	i := slices.IndexFunc(all, func(t definedTree) bool { return t.Path == r.URL.Path })
	if i < 0 {
		return view{}, notFound("the configuration has no tree %.100s",
			strings.TrimPrefix(r.URL.Path, "/trees/"))
	}
	page := treePage{definedTree: all[i]}
	for _, run := range treeruns.List(d.box.Dir) {
		if len(page.Runs) == runsOfTree || ctx.Err() != nil {
			break
		}
		if s := summarize(run); s.Header.File == page.File {
			page.Runs = append(page.Runs, s)
		}
	}
	if len(page.Runs) > 0 && page.Runs[0].Running && d.checkRun(r, page.Runs[0].Run) == nil {
		var err error
		page.Live = true
		page.Step, err = d.step(ctx, page.Runs[0], latest)
		return view{template: "tree", title: "Tree of " + page.Name, data: page}, err
	}
	source := []byte(oracle.Tree)
	if page.File != oracle.TreeName {
		var err error
		if source, err = durable.ReadRegular(page.File, maxSource); err != nil {
			return view{}, err
		}
	}
	t, err := loadTree(ctx, page.File, source)
	if err != nil {
		return view{}, err
	}
	page.Step = &stepPage{Tree: t.Name(), Description: t.Description(), Nodes: t.Len(), Picture: pictureOf(t, &draw.Options{Embedded: true}), Latest: true, Shape: true}
	return view{template: "tree", title: "Tree of " + page.Name, data: page}, nil
}

// loadTree loads a tree for drawing and replaying it. Its functions are never called.
func loadTree(ctx context.Context, name string, source []byte) (*tree.Tree, error) {
	file, err := luatree.Load(ctx, name, source, &luatree.Options{Functions: oracle.Functions()})
	if err != nil {
		return nil, &signalbox.Error{Code: signalbox.CodeFailed, Err: err,
			Hint: "signalbox tree check shows what is wrong with the tree"}
	}
	file.Close()
	return file.Tree(), nil
}

// pictureOf draws a tree. It is empty if the tree is too large.
func pictureOf(t *tree.Tree, o *draw.Options) template.HTML {
	if t.Len() > maxDrawn {
		return ""
	}
	return template.HTML(draw.SVG(t, o)) // package draw escapes all texts, and its tests check that
}

// treeStyle serves the style sheet of the pictures, in the colours of the dashboard.
func (d *Dashboard) treeStyle(w http.ResponseWriter, _ *http.Request) {
	tint := func(colour string) string { return "color-mix(in srgb, var(--" + colour + ") 12%, var(--panel))" }
	edge := func(colour string) string { return "color-mix(in srgb, var(--" + colour + ") 55%, var(--panel))" }
	w.Header().Set("Content-Type", "text/css; charset=utf-8")
	fmt.Fprint(w, draw.StyleSheet(picture.Colors{
		Paper: "var(--panel)", Card: "var(--paper)", Ink: "var(--ink)", Faint: "var(--faint)",
		Line: "var(--off)", Edge: "var(--line)",
		Blue: "var(--busy)", Green: "var(--good)", Red: "var(--bad)", Purple: "var(--accent)",
		Orange: "var(--ask)", Teal: "var(--faint)",
		BlueTint: tint("busy"), GreenTint: tint("good"), RedTint: tint("bad"),
		PurpleTint: tint("accent"), OrangeTint: tint("ask"), TealTint: "var(--shade)",
		GreenEdge: edge("good"), RedEdge: edge("bad"), OnColor: "var(--panel)",
	}))
}

// stepPage is a run after one of its ticks.
type stepPage struct {
	treeRun
	Tree, Description string
	// Tick is that of the page, of Ticks. Latest means that the address names none: the page
	// follows the run.
	Tick, Ticks int
	Latest      bool
	At          time.Time
	Status      string
	// Turn is the number of the last reply before or in the tick, in tick TurnTick; 0 means none.
	// The others are the ticks of the turns before and after the tick; 0 means none.
	Turn, Turns, TurnTick, TurnBefore, TurnAfter int

	// Shape means that there is only the picture of the tree.
	Shape   bool
	Picture template.HTML
	Nodes   int
	Board   []cell
	More    int // keys that are not shown
	Reply   []replyPart
	Cut     bool
	Asking  bool // a model call is running
	Signals []heard
	News    []string
	Error   string // why the run failed, or why the journal cannot be read
}

// Back and Next return the ticks before and after the tick.
func (p *stepPage) Back() int { return p.Tick - 1 }
func (p *stepPage) Next() int { return p.Tick + 1 }

// cell is a key of the blackboard.
type cell struct {
	Key, Value string
	// All is the value if Value is only its beginning.
	All string
	// Changed means that the tick changed it, and Before is what it was; "" means that it was
	// absent.
	Changed, Removed bool
	Before           string
}

// replyPart is a part of a reply. Signal means that it is the markup of the signal.
type replyPart struct {
	Text   string
	Signal bool
}

// heard is a turn signal that a node published in the tick.
type heard struct {
	Node string
	turnsignal.Signal
	Why string
	// InReply means that the reply on the page shows where it was.
	InReply bool
}

// latest asks for the last tick so far.
const latest = -1

func (d *Dashboard) treeRun(ctx context.Context, r *http.Request) (view, error) {
	run, err := treeruns.Find(d.box.Dir, r.PathValue("run"))
	if err != nil {
		return view{}, err
	}
	tick := latest
	if given := r.URL.Query().Get("tick"); given != "" {
		if tick, err = strconv.Atoi(given); err != nil || tick < 0 {
			return view{}, notFound("there is no tick '%.20s'", given)
		}
	}
	if err := d.checkRun(r, run); err != nil {
		return view{}, err
	}
	page, err := d.step(ctx, summarize(run), tick)
	if err != nil {
		return view{}, err
	}
	return view{template: "treerun", title: "Run " + run.ID, data: page}, nil
}

// checkRun refuses callers who must not see what a run did: a conversation with the oracle is shown
// to those who can ask it.
func (d *Dashboard) checkRun(r *http.Request, run treeruns.Run) error {
	if run.Kind != treeruns.Oracle {
		return nil
	}
	_, err := d.guard.Check(r, access.Operate, false)
	return err
}

// step returns a run after a tick.
func (d *Dashboard) step(ctx context.Context, run treeRun, tick int) (*stepPage, error) {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	s, err := d.recordings.of(run.Run).At(ctx, tick)
	switch {
	case errors.Is(err, runner.ErrNoTick):
		return nil, &signalbox.Error{Code: signalbox.CodeNotFound, Err: err}
	case errors.Is(err, context.DeadlineExceeded):
		return nil, signalbox.CodeFailed.Errorf("reload the page: it continues where it was",
			"the run is long, and reading it takes a while")
	case err != nil:
		return nil, signalbox.CodeFailed.Errorf("", "the journal of the run cannot be read: %w",
			err)
	}
	now := s.Run.Board().Snapshot()
	page := &stepPage{treeRun: run, Tree: s.Run.Tree().Name(),
		Description: s.Run.Tree().Description(), Tick: s.Run.Ticks(), Ticks: s.Ticks,
		Latest: tick == latest,
		At:     s.Run.Now(), Status: strings.ToLower(s.Run.Status().String()),
		Nodes: s.Run.Tree().Len()}
	page.findTurns(s.Turns)
	page.Board, page.More = cells(s.Before, now)
	notes := map[int]string{}
	for _, e := range s.Run.Emitted() {
		if signal, ok := turnsignal.ParseSignal(e.Value); ok && e.Topic == turnsignal.Topic {
			page.Signals = append(page.Signals,
				heard{Node: s.Run.Tree().Path(e.Node), Signal: signal,
					Why: show.OneLine(signal.Reason())})
			notes[e.Node] = fmt.Sprintf("%s %.2f", signal.Type, signal.Confidence)
		}
	}
	page.Picture = pictureOf(s.Run.Tree(), &draw.Options{Views: s.Run.Views(), Embedded: true,
		Notes: notes})
	if page.Turn > 0 {
		page.readReply(now)
	}
	for i := range page.Signals {
		shown := replyPart{page.Signals[i].RawXML, true}
		page.Signals[i].InReply = slices.Contains(page.Reply, shown)
	}
	page.Asking = slices.ContainsFunc(s.Run.Pending(),
		func(p tree.Start) bool { return p.Request.Kind == tree.LLMCall })
	page.News = newsOf(s.Run)
	page.explain(s)
	return page, nil
}

// newsOf returns what changed in the last tick, in lines. Its signals are shown elsewhere.
func newsOf(run *tree.Run) (lines []string) {
	prefix := fmt.Sprintf("tick %d: ", run.Ticks())
	for _, line := range report.Lines(run) {
		if line = strings.TrimPrefix(line, prefix); !strings.HasPrefix(line, turnsignal.Topic+" ") {
			lines = append(lines, line)
		}
	}
	if len(lines) > maxNews {
		lines = append(lines[:maxNews], fmt.Sprintf("… and %d more", len(lines)-maxNews))
	}
	return lines
}

// explain says why the run failed, on its last step.
func (p *stepPage) explain(s *runner.Step) {
	if p.Tick < p.Ticks {
		return
	}
	switch {
	case s.Failed != nil:
		p.Error = s.Failed.Error()
	case s.Ending != nil && s.Ending.Error != "":
		p.Error = s.Ending.Error
	case s.Run.Status() == tree.Failure:
		p.Error = report.FailureCause(s.Run)
	}
}

// findTurns finds the turns around the tick.
func (p *stepPage) findTurns(turns []int) {
	p.Turns = len(turns)
	at, found := slices.BinarySearch(turns, p.Tick)
	if at > 0 {
		p.TurnBefore = turns[at-1]
	}
	if found {
		at++
	}
	if at < len(turns) {
		p.TurnAfter = turns[at]
	}
	if p.Turn = at; at > 0 {
		p.TurnTick = turns[at-1]
	}
}

// readReply splits the reply of the model at its signal.
func (p *stepPage) readReply(board map[string]any) {
	reply, _ := board[blackboard.KeyResponse].(string)
	if len(reply) > maxReply {
		reply, p.Cut = strings.ToValidUTF8(reply[:maxReply], ""), true
	}
	if reply == "" {
		return
	}
	if signal, ok := turnsignal.ParseSignal(board[blackboard.KeyLastSignal]); ok &&
		signal.RawXML != "" {
		if before, after, found := strings.Cut(reply, signal.RawXML); found {
			for _, part := range []replyPart{{before, false}, {signal.RawXML, true},
				{after, false}} {
				if part.Text != "" {
					p.Reply = append(p.Reply, part)
				}
			}
			return
		}
	}
	p.Reply = []replyPart{{Text: reply}}
}

// cells returns the keys of a blackboard, sorted, with what changed. Keys of the runtime, which
// begin with "_", come last.
func cells(before, now map[string]any) (all []cell, more int) {
	changed := map[string]tree.Change{}
	for _, c := range tree.Diff(before, now) {
		changed[c.Key] = c
	}
	names := slices.Collect(func(yield func(string) bool) {
		for key := range now {
			if !yield(key) {
				return
			}
		}
		for key := range changed {
			if _, has := now[key]; !has && !yield(key) {
				return
			}
		}
	})
	slices.SortFunc(names, func(a, b string) int {
		if hidden := strings.HasPrefix(a, "_"); hidden != strings.HasPrefix(b, "_") {
			if hidden {
				return 1
			}
			return -1
		}
		return strings.Compare(a, b)
	})
	more = max(0, len(names)-maxKeys)
	for _, key := range names[:len(names)-more] {
		v, has := now[key]
		change, is := changed[key]
		c := cell{Key: key, Changed: is, Removed: !has}
		if has {
			c.Value = shortValue(v, "", maxCell)
			if c.Value != shortValue(v, "", maxCellAll) {
				c.All = shortValue(v, "  ", maxCellAll)
			}
		}
		if is && change.From != nil {
			c.Before = shortValue(change.From, "", maxCell)
		}
		all = append(all, c)
	}
	return all, more
}

// shortValue formats a value: text as it is, and everything else as JSON, which the page escapes
// itself.
func shortValue(v any, indent string, limit int) string {
	s, is := v.(string)
	if !is {
		var b strings.Builder
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		e.SetIndent("", indent)
		if e.Encode(v) != nil {
			return "" // every value of a blackboard can be encoded
		}
		s = strings.TrimSuffix(b.String(), "\n")
	}
	return text.Shorten(s, limit)
}
