package draw

import (
	"fmt"
	"strings"

	"signalbox/internal/picture"
	"signalbox/internal/tree"
)

// maxDotLabel limits names and settings, in columns.
const maxDotLabel = 48

// Dot returns the tree as a Graphviz graph. Boxes are composites, hexagons decorators, and ellipses
// leaves. The fill shows the status.
func Dot(t Tree, o *Options) string {
	p := newDrawing(t, o)
	var b strings.Builder
	title := picture.Fit(p.name, maxDotLabel, picture.Columns) + "\n" + p.summary()
	fmt.Fprintf(&b, "digraph \"tree\" {\n")
	fmt.Fprintf(&b, "  graph [rankdir=\"LR\", ordering=\"out\", splines=\"true\", nodesep=\"0.15\", ranksep=\"0.4\", labelloc=\"t\", labeljust=\"l\", fontname=\"Helvetica\", label=%s, tooltip=%s];\n",
		dotQuote(title), dotQuote(picture.Fit(fold(p.description), maxTip, picture.Columns)))
	b.WriteString("  node [fontname=\"Helvetica\", fontsize=\"11\", style=\"filled\", color=\"#818b98\", fillcolor=\"#f6f8fa\", fontcolor=\"#1f2328\", margin=\"0.12,0.06\"];\n")
	b.WriteString("  edge [color=\"#818b98\", arrowsize=\"0.6\"];\n")
	for i := range p.nodes {
		p.dotNode(&b, i)
	}
	for i := range p.nodes {
		for _, c := range p.nodes[i].Children {
			style := ""
			if p.live[c] {
				style = " [color=\"#0969da\", penwidth=\"2.5\"]"
			}
			fmt.Fprintf(&b, "  \"n%d\" -> \"n%d\"%s;\n", i, c, style)
		}
	}
	b.WriteString("}\n")
	return b.String()
}

func (p *drawing) dotNode(b *strings.Builder, i int) {
	n := &p.nodes[i]
	shape := map[string]string{"composite": "box", "decorator": "hexagon",
		"leaf": "ellipse"}[category(n.Kind)]
	label := kindGlyphs(n.Kind).text + " " + picture.Fit(p.label(i), maxDotLabel, picture.Columns)
	if visits := p.visits(i); visits != "" {
		label += " " + visits
	}
	if setting := p.setting(i, " · "); setting != "" {
		label += "\n" + picture.Fit(setting, maxDotLabel, picture.Columns)
	}
	fmt.Fprintf(b, "  \"n%d\" [shape=\"%s\", label=%s, tooltip=%s%s];\n", i, shape, dotQuote(label),
		dotQuote(strings.Join(p.tip(i), "\n")), p.dotStatus(i))
}

func (p *drawing) dotStatus(i int) string {
	if p.views == nil {
		return ""
	}
	switch p.view(i).Status {
	case tree.Success:
		return `, fillcolor="#dafbe1", color="#1a7f37"`
	case tree.Failure:
		return `, fillcolor="#ffebe9", color="#cf222e"`
	case tree.Running:
		width := "1.5"
		if p.live[i] {
			width = "3"
		}
		return fmt.Sprintf(`, fillcolor="#ddf4ff", color="#0969da", penwidth="%s"`, width)
	}
	return `, fontcolor="#59636e"`
}

// dotQuote returns a quoted string of the dot language. Graphviz interprets escapes and HTML
// entities in labels, so backslashes and ampersands are escaped too.
func dotQuote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "&", "&amp;").Replace(s) +
		`"`
}
