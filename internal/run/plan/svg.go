package plan

import (
	"fmt"
	"strings"

	"signalbox/internal/picture"
	"signalbox/internal/text"
)

// fixedRules are the rules of the style sheet that are the same for light and dark.
const fixedRules = `.plan .name{font-size:18px;font-weight:600}
.plan .sum,.plan .legend{font-size:13px}
.plan .box{stroke-width:1}
.plan .start .box{stroke-width:2}
.plan .draft .box{stroke-dasharray:5 4}
.plan .id{font-size:13px;font-weight:600}
.plan .mark{font-size:11px;text-anchor:end}
.plan .title{font-size:12px}
.plan .line{fill:none;stroke-width:1.5}
`

// coloredRules returns the rules that depend on the colours.
func coloredRules(c picture.Colors) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".plan .paper{fill:%s}\n", c.Paper)
	fmt.Fprintf(&b, ".plan .name,.plan .id{fill:%s}\n", c.Ink)
	fmt.Fprintf(&b, ".plan .sum,.plan .legend,.plan .mark,.plan .title{fill:%s}\n", c.Faint)
	fmt.Fprintf(&b, ".plan .box{fill:%s;stroke:%s}\n", c.Card, c.Edge)
	fmt.Fprintf(&b, ".plan .start .box{stroke:%s}.plan .start .mark{fill:%s}\n", c.Green, c.Green)
	fmt.Fprintf(&b, ".plan .line{stroke:%s}.plan .head{fill:%s}\n", c.Line, c.Line)
	for i, color := range phaseColors(c) {
		fmt.Fprintf(&b, ".plan .p%d{fill:%s}\n", i, color)
	}
	return b.String()
}

// phaseColors are the colours of the phases. A plan with more phases uses them again.
func phaseColors(c picture.Colors) []string {
	return []string{c.Blue, c.Purple, c.Orange, c.Teal, c.Pink, c.Olive}
}

// arrowHead is the end of every line.
const arrowHead = `<defs><marker id="plan-head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path class="head" d="M0 0 L8 4 L0 8 z"/></marker></defs>` + "\n"

// Sizes of the texts, in pixels, besides those of the layout.
const (
	minWidth  = 480
	textLeft  = 20 // in a box, after the colour of the phase
	textRight = 12
	maxLegend = 300 // of a phase
	legendRow = 22
)

// SVG returns the graph as a self-contained picture: tasks in layers from left to right, with lines
// from each task to those it unblocks. It follows the reader's choice of light or dark. Its
// description has everything in words.
func (p *Plan) SVG() []byte {
	net := p.network()
	l := newLayout(net)
	phases := p.Phases()
	const top = 76
	width := max(minWidth, 2*margin+len(l.layers)*(boxWidth+layerGap)-layerGap)
	legend := legendRows(phases, width)
	height := top + int(l.height) + margin + len(legend)*legendRow + margin/2

	var b strings.Builder
	fmt.Fprintf(&b, "<text class=\"name\" x=\"%d\" y=\"34\">%s</text>\n", margin,
		fitPixels(p.Name, width-2*margin, 18, picture.AdvanceBold))
	fmt.Fprintf(&b, "<text class=\"sum\" x=\"%d\" y=\"56\">%s</text>\n", margin,
		picture.Escape(p.Summary()))
	fmt.Fprintf(&b, "<g transform=\"translate(0 %d)\">\n", top)
	for _, line := range l.lines {
		b.WriteString(l.path(line))
	}
	color := map[string]int{}
	for i, phase := range phases {
		color[phase] = i % len(phaseColors(picture.Colors{}))
	}
	for i := range p.Tasks {
		p.drawTask(&b, &l.cells[i], color, net)
	}
	b.WriteString("</g>\n")
	for row, entries := range legend {
		y := top + int(l.height) + margin + row*legendRow
		for _, e := range entries {
			fmt.Fprintf(&b, "<rect class=\"p%d\" x=\"%d\" y=\"%d\" width=\"10\" height=\"10\" rx=\"2\"/><text class=\"legend\" x=\"%d\" y=\"%d\">%s</text>\n",
				color[e.phase], e.x, y, e.x+16, y+10, picture.Escape(e.text))
		}
	}
	doc := picture.Document{Class: "plan", Width: width, Height: height,
		Title: text.Printable(p.Name), Description: p.description(net),
		Style: picture.Style("plan", fixedRules, coloredRules), Defs: arrowHead}
	return []byte(doc.Render(b.String()))
}

// fitPixels returns text that is safe in an element and fits its place.
func fitPixels(s string, pixels, size int, width picture.Ruler) string {
	return picture.Escape(picture.FitPixels(s, pixels, size, width))
}

// path draws a line through cells.
func (l *layout) path(line []int) string {
	return fmt.Sprintf("<path class=\"line\" marker-end=\"url(#plan-head)\" d=\"%s\"/>\n",
		l.curve(line))
}

// curve returns the path data of a line through cells: a curve from each to the next, and straight
// across the layers that it passes.
func (l *layout) curve(line []int) string {
	var d strings.Builder
	from := &l.cells[line[0]]
	x, y := from.x()+boxWidth, from.middle()
	fmt.Fprintf(&d, "M%.1f %.1f", x, y)
	for i, at := range line[1:] {
		to := &l.cells[at]
		tx, ty := to.x(), to.middle()
		if i == len(line)-2 {
			tx -= 2 // the head ends at the box
		}
		bend := min((tx-x)/2, layerGap)
		fmt.Fprintf(&d, " C%.1f %.1f %.1f %.1f %.1f %.1f", x+bend, y, tx-bend, ty, tx, ty)
		x, y = tx, ty
		if to.task < 0 {
			x += boxWidth
			fmt.Fprintf(&d, " H%.1f", x)
		}
	}
	return d.String()
}

func (p *Plan) drawTask(b *strings.Builder, c *cell, color map[string]int, net *network) {
	t := p.Tasks[c.task]
	class, mark := "task", ""
	if t.Draft {
		class, mark = class+" draft", "draft"
	}
	if len(t.BlockedBy) == 0 {
		class, mark = class+" start", strings.TrimPrefix(mark+", can start", ", ")
	}
	fmt.Fprintf(b, "<g class=\"%s\" transform=\"translate(%.1f %.1f)\"><title>%s</title>\n", class,
		c.x(), c.y, picture.Escape(p.sentence(c.task, net)))
	fmt.Fprintf(b, "<rect class=\"box\" width=\"%d\" height=\"%d\" rx=\"8\"/>", boxWidth, boxHeight)
	if n, ok := color[t.Phase]; ok {
		fmt.Fprintf(b, "<rect class=\"p%d\" x=\"8\" y=\"10\" width=\"4\" height=\"%d\" rx=\"2\"/>",
			n, boxHeight-20)
	}
	room := boxWidth - textLeft - textRight
	idRoom := room
	if mark != "" {
		idRoom -= picture.Pixels(mark, 11, picture.Advance) + 6
	}
	fmt.Fprintf(b, "<text class=\"id\" x=\"%d\" y=\"24\">%s</text>", textLeft,
		fitPixels(t.ID, idRoom, 13, picture.AdvanceBold))
	if mark != "" {
		fmt.Fprintf(b, "<text class=\"mark\" x=\"%d\" y=\"24\">%s</text>", boxWidth-textRight, mark)
	}
	fmt.Fprintf(b, "<text class=\"title\" x=\"%d\" y=\"43\">%s</text></g>\n", textLeft,
		fitPixels(t.Title, room, 12, picture.Advance))
}

// description returns the whole graph in sentences.
func (p *Plan) description(net *network) string {
	sentences := []string{p.Summary() + "."}
	for i := range p.Tasks {
		sentences = append(sentences, p.sentence(i, net))
	}
	return strings.Join(sentences, " ")
}

func (p *Plan) sentence(task int, net *network) string {
	t := p.Tasks[task]
	s := fmt.Sprintf("%s: %s.", text.Printable(t.ID), title(t))
	if t.Phase != "" {
		s += fmt.Sprintf(" Phase %s.", text.Printable(t.Phase))
	}
	if len(net.before[task]) > 0 {
		s += " Waits for " + p.ids(net.before[task]) + "."
	}
	if len(net.after[task]) > 0 {
		s += " Unblocks " + p.ids(net.after[task]) + "."
	}
	return s
}

type legendEntry struct {
	phase, text string
	x           int
}

// legendRows arranges the names of the phases in as many rows as they need.
func legendRows(phases []string, width int) [][]legendEntry {
	var rows [][]legendEntry
	x := width
	for _, phase := range phases {
		label := picture.FitPixels("Phase "+phase, maxLegend, 13, picture.Advance)
		room := 16 + picture.Pixels(label, 13, picture.Advance) + 24
		if x+room > width-margin {
			rows, x = append(rows, nil), margin
		}
		rows[len(rows)-1] = append(rows[len(rows)-1], legendEntry{phase, label, x})
		x += room
	}
	return rows
}
