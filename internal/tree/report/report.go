// Package report describes what a run of a tree does, tick by tick: as JSON objects, as lines of
// text, or as a picture for a terminal.
package report

import (
	"fmt"
	"strings"
	"time"

	"signalbox/internal/text"
	"signalbox/internal/tree"
	"signalbox/internal/tree/draw"
)

// Tick describes one tick of a run in JSON.
type Tick struct {
	Tick        int          `json:"tick"`
	Status      string       `json:"status"`
	Transitions []Transition `json:"transitions"`
	Emitted     []Emit       `json:"emitted,omitempty"`
}

// Transition is a node that changed its status in a tick.
type Transition struct {
	Path  string `json:"path"`
	From  string `json:"from"`
	To    string `json:"to"`
	Error string `json:"error,omitempty"`
}

// Emit is a value that a node emitted in a tick.
type Emit struct {
	Seq   int    `json:"seq"`
	Path  string `json:"path"`
	Topic string `json:"topic"`
	Value any    `json:"value"`
}

// LastTick describes the last tick of a run.
func LastTick(run *tree.Run) Tick {
	t := Tick{run.Ticks(), run.Status().String(), []Transition{}, nil}
	for _, m := range run.Transitions() {
		t.Transitions = append(t.Transitions, Transition{run.Tree().Path(m.Node), m.From.String(),
			m.To.String(), m.Err})
	}
	for _, e := range run.Emitted() {
		t.Emitted = append(t.Emitted, Emit{e.Seq, run.Tree().Path(e.Node), e.Topic, e.Value})
	}
	return t
}

// Lines describes the last tick in lines of text. It leaves out conditions and inner nodes, whose
// statuses follow from the leaves, unless they failed with an error.
func Lines(run *tree.Run) []string {
	var lines []string
	for _, m := range run.Transitions() {
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
		lines = append(lines, text.Printable(line))
	}
	for _, e := range run.Emitted() {
		lines = append(lines,
			shortened(fmt.Sprintf("tick %d: %s %s", run.Ticks(), e.Topic,
				tree.FormatValue(e.Value))))
	}
	return lines
}

// Picture draws the tree of a run for a terminal. The line with index focus, a running leaf, should
// stay visible.
func Picture(run *tree.Run, color bool) (lines []string, focus int, status string) {
	picture := draw.Text(run.Tree(), &draw.Options{Views: run.Views(), Color: color})
	lines = strings.Split(strings.TrimRight(picture, "\n"), "\n")
	for i := range run.Tree().Len() {
		if run.View(i).Status == tree.Running {
			focus = len(lines) - run.Tree().Len() + i
		}
	}
	status = fmt.Sprintf("tick %d", run.Ticks())
	if wake, timed := run.Wake(); timed {
		status += ", next at " + wake.Local().Format(time.DateTime)
	}
	return lines, focus, status
}

// End describes the end of a run in JSON.
type End struct {
	Run        string         `json:"run"`
	Tree       string         `json:"tree"`
	End        string         `json:"end"`
	Ticks      int            `json:"ticks"`
	Error      string         `json:"error,omitempty"`
	Blackboard map[string]any `json:"blackboard"`
}

// NewEnd describes the end of a run. ending is how the run ended or was stopped; nil means that its
// status says so.
func NewEnd(run *tree.Run, ending *tree.Ending) End {
	e := End{Run: run.ID(), Tree: run.Tree().Name(), End: run.Status().String(), Ticks: run.Ticks(),
		Blackboard: run.Board().Snapshot()}
	if ending != nil {
		e.End, e.Error = ending.End, ending.Error
	}
	if e.End == tree.Failure.String() {
		e.Error = FailureCause(run)
	}
	return e
}

// FailureCause returns the node that explains the failure of a run: the last that failed with an
// error, followed by the error, or else the last leaf that failed. It returns "" if there is none.
func FailureCause(run *tree.Run) string {
	withError, leaf := "", ""
	for i, view := range run.Views() {
		info := run.Tree().Info(i)
		switch {
		case view.Status != tree.Failure:
		case view.Err != "":
			withError = info.Path + ": " + view.Err
		case len(info.Children) == 0:
			leaf = info.Path
		}
	}
	if withError != "" {
		return withError
	}
	return leaf
}

// Blackboard returns a line "key = value" for each key of the blackboard that has a value.
func Blackboard(run *tree.Run) []string {
	var lines []string
	for _, key := range run.Tree().Keys() {
		if v, err := run.Board().Get(key.Name); err == nil && v != nil {
			lines = append(lines, key.Name+" = "+shortened(tree.FormatValue(v)))
		}
	}
	return lines
}

// shortened returns a value in at most 200 printable characters.
func shortened(value string) string { return text.Shorten(text.Printable(value), 200) }
