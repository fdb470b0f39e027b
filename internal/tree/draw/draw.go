// Package draw renders behaviour trees as text for a terminal, as a Graphviz graph, and as
// self-contained SVG.
//
// A picture shows the shape of a tree and, given the views of a run, the status of each node, how
// often it was ticked and why it failed. Live nodes, which are running and have only running
// ancestors, are highlighted with the lines between them.
//
// Output is deterministic. Names, details, descriptions and errors are untrusted: they are escaped
// for the format, control and direction characters are made visible, and text that is too long ends
// in an ellipsis. The time is linear in the number of nodes.
package draw

import (
	"fmt"
	"strings"

	"signalbox/internal/picture"
	"signalbox/internal/text"
	"signalbox/internal/tree"
)

// Tree is a tree to draw. Its nodes are in preorder, the root first.
type Tree interface {
	Name() string
	Description() string
	Len() int
	Info(i int) tree.NodeInfo
}

// Options configure a picture. Nil means the zero value.
type Options struct {
	// Views has one view for each node. Nil means that only the shape is drawn. A node without a
	// view is idle.
	Views []tree.View
	// Color makes Text use ANSI colours.
	Color bool
	// ASCII makes Text use only ASCII characters.
	ASCII bool
	// Embedded makes SVG leave out its style sheet and its heading, for a page that has them: see
	// StyleSheet.
	Embedded bool
	// Notes are short texts that an embedded picture shows at nodes, such as the signals of a tick.
	Notes map[int]string
}

// drawing is the input of all formats.
type drawing struct {
	name        string
	description string
	nodes       []tree.NodeInfo
	views       []tree.View // nil for the shape alone; otherwise one for each node
	live        []bool      // running, like all nodes above
	notes       map[int]string
}

func newDrawing(t Tree, o *Options) *drawing {
	p := &drawing{name: t.Name(), description: t.Description(),
		nodes: make([]tree.NodeInfo, t.Len())}
	p.live = make([]bool, len(p.nodes))
	if o != nil && o.Embedded {
		p.notes = o.Notes
	}
	if o != nil && o.Views != nil {
		p.views = make([]tree.View, len(p.nodes))
		copy(p.views, o.Views)
	}
	for i := range p.nodes {
		p.nodes[i] = t.Info(i)
		parent := p.nodes[i].Parent
		p.live[i] = p.view(i).Status == tree.Running && (parent < 0 || p.live[parent])
	}
	return p
}

// view returns the view of a node, which is idle in a picture of the shape alone.
func (p *drawing) view(i int) tree.View {
	if p.views == nil {
		return tree.View{}
	}
	return p.views[i]
}

// label returns the name of a node, or its kind if it has no name.
func (p *drawing) label(i int) string {
	if n := &p.nodes[i]; n.Name != "" {
		return n.Name
	}
	return p.nodes[i].Kind.String()
}

// setting returns what the label does not show: the kind, unless it is the label, and the detail.
func (p *drawing) setting(i int, separator string) string {
	n := &p.nodes[i]
	if n.Name == "" {
		return n.Detail
	}
	if n.Detail == "" {
		return n.Kind.String()
	}
	return n.Kind.String() + separator + n.Detail
}

// summary returns the number of nodes and, with views, the number in each status.
func (p *drawing) summary() string {
	s := text.Count(len(p.nodes), "node")
	if p.views == nil {
		return s
	}
	var counts [4]int
	for i := range p.views {
		if status := p.views[i].Status; int(status) < len(counts) {
			counts[status]++
		}
	}
	var parts []string
	for _, c := range []struct {
		status tree.Status
		word   string
	}{{tree.Running, "running"}, {tree.Success, "succeeded"}, {tree.Failure, "failed"}, {tree.Idle, "idle"}} {
		if counts[c.status] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[c.status], c.word))
		}
	}
	if len(parts) == 0 {
		return s
	}
	return s + ": " + strings.Join(parts, ", ")
}

// visits returns how often a node was ticked, such as "×12", or "" if at most once. Large numbers
// are rounded down.
func (p *drawing) visits(i int) string {
	n := p.view(i).Visits
	switch {
	case n < 2:
		return ""
	case n < 10_000:
		return fmt.Sprintf("×%d", n)
	case n < 10_000_000:
		return fmt.Sprintf("×%dk", n/1000)
	default:
		return fmt.Sprintf("×%dM", n/1_000_000)
	}
}

// Limits of tooltips, in columns.
const (
	maxTip      = 400 // of a line
	maxPathTail = 160 // of a path, whose end matters more than its start
)

// tip returns the lines of a tooltip.
func (p *drawing) tip(i int) []string {
	n, v := &p.nodes[i], p.view(i)
	lines := []string{picture.FitTail(n.Path, maxPathTail)}
	what := n.Kind.String()
	if n.Detail != "" {
		what += " " + n.Detail
	}
	lines = append(lines, picture.Fit(what, maxTip, picture.Columns))
	if n.Description != "" {
		lines = append(lines, picture.Fit(fold(n.Description), maxTip, picture.Columns))
	}
	if p.views != nil {
		status := v.Status.String()
		switch {
		case v.Visits == 1:
			status += ", ticked once"
		case v.Visits > 1:
			status += fmt.Sprintf(", ticked %d times", v.Visits)
		}
		lines = append(lines, status)
	}
	if v.Err != "" {
		lines = append(lines, "Error: "+picture.Fit(fold(v.Err), maxTip, picture.Columns))
	}
	if note := p.notes[i]; note != "" {
		lines = append(lines, picture.Fit(fold(note), maxTip, picture.Columns))
	}
	if at := n.At.String(); at != "" {
		lines = append(lines, picture.FitTail(at, maxPathTail))
	}
	return lines
}

// maxProse is more than any place in a picture shows of a text.
const maxProse = 16 << 10

// fold puts prose on one line: line ends, tabs and runs of spaces become one space.
func fold(s string) string {
	return strings.Join(strings.Fields(s[:min(len(s), maxProse)]), " ")
}
