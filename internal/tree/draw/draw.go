// Package draw makes pictures of behaviour trees: text for a terminal, Graphviz dot, and SVG that stands alone.
//
// A picture shows the shape of a tree and, given what can be seen of a run, each node's status, how often it was
// ticked and why it failed. The nodes that are running, from the root down, are highlighted with the lines between
// them: there the run is at work.
//
// The same tree and views give the same bytes. Names, details, descriptions and errors may come from files that
// nobody checked: each is escaped for its format, control and direction characters are made visible, and what is
// too long for its place ends in an ellipsis. The time that a picture takes is linear in the number of nodes.
package draw

import (
	"fmt"
	"strings"

	"signalbox/internal/picture"
	"signalbox/internal/tree"
)

// Tree is what is drawn: nodes in preorder, the root first.
type Tree interface {
	Name() string
	Description() string
	Len() int
	Info(i int) tree.NodeInfo
}

// Options say what is drawn beside the tree's shape. Nil is the zero value.
type Options struct {
	// Views has one view for each node. Nil: the shape alone. A node without one is drawn as idle.
	Views []tree.View
	// Color has Text use ANSI colours.
	Color bool
	// ASCII has Text use no character beyond ASCII.
	ASCII bool
}

// drawing is what all formats draw from.
type drawing struct {
	name        string
	description string
	nodes       []tree.NodeInfo
	views       []tree.View // nil: the shape alone; otherwise as many as nodes
	live        []bool      // running, and so are all nodes above
}

func newDrawing(t Tree, o *Options) *drawing {
	p := &drawing{name: t.Name(), description: t.Description(), nodes: make([]tree.NodeInfo, t.Len())}
	p.live = make([]bool, len(p.nodes))
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

// view is what is seen of a node; all are idle in a picture of the shape alone.
func (p *drawing) view(i int) tree.View {
	if p.views == nil {
		return tree.View{}
	}
	return p.views[i]
}

// label is what a node is called: its name, or its kind if it has none.
func (p *drawing) label(i int) string {
	if n := &p.nodes[i]; n.Name != "" {
		return n.Name
	}
	return p.nodes[i].Kind.String()
}

// setting is what the label leaves out: the kind, a separator, and how the node is set.
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

// summary says how big the tree is, and with views how many nodes are in which status.
func (p *drawing) summary() string {
	s := fmt.Sprintf("%d nodes", len(p.nodes))
	if len(p.nodes) == 1 {
		s = "1 node"
	}
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

// visits is the mark of a node that was ticked more than once, or "". Big numbers are rounded down.
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

// Limits of the texts that are not cut to a place in the picture, in columns.
const (
	maxTip      = 400 // each line of a tooltip
	maxPathTail = 160 // of a path, whose end tells more than its beginning
)

// tip is what a node's tooltip says, a line for each thing.
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
	if at := n.At.String(); at != "" {
		lines = append(lines, picture.FitTail(at, maxPathTail))
	}
	return lines
}

// maxProse is more than what any place in a picture shows of a text.
const maxProse = 16 << 10

// fold puts prose on one line: line ends, tabs and runs of spaces become one space.
func fold(s string) string {
	return strings.Join(strings.Fields(s[:min(len(s), maxProse)]), " ")
}
