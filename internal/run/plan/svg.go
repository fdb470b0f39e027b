package plan

import (
	"bytes"
	"fmt"
	"html"
	"strings"
)

// phaseColours is how many phases have colours of their own; further ones begin again.
const phaseColours = 6

const svgStyle = `<style>
  .plan { --paper: #ffffff; --box: #f6f8fa; --ink: #1f2328; --faint: #59636e; --line: #818b98; --edge: #d1d9e0; --go: #1a7f37;
    --p0: #0969da; --p1: #8250df; --p2: #bc4c00; --p3: #1b7c83; --p4: #bf3989; --p5: #6f5d00;
    font-family: system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
  @media (prefers-color-scheme: dark) {
    .plan { --paper: #0d1117; --box: #161b22; --ink: #f0f6fc; --faint: #9198a1; --line: #7d8590; --edge: #3d444d; --go: #3fb950;
      --p0: #4493f8; --p1: #ab7df8; --p2: #db6d28; --p3: #39c5cf; --p4: #db61a2; --p5: #d29922; }
  }
  .paper { fill: var(--paper); }
  .name { fill: var(--ink); font-size: 18px; font-weight: 600; }
  .sum, .legend { fill: var(--faint); font-size: 13px; }
  .box { fill: var(--box); stroke: var(--edge); stroke-width: 1; }
  .start .box { stroke: var(--go); stroke-width: 2; }
  .draft .box { stroke-dasharray: 5 4; }
  .id { fill: var(--ink); font-size: 13px; font-weight: 600; }
  .mark { fill: var(--faint); font-size: 11px; text-anchor: end; }
  .start .mark { fill: var(--go); }
  .title { fill: var(--faint); font-size: 12px; }
  .line { fill: none; stroke: var(--line); stroke-width: 1.5; }
  .head { fill: var(--line); }
  .p0 { fill: var(--p0); } .p1 { fill: var(--p1); } .p2 { fill: var(--p2); }
  .p3 { fill: var(--p3); } .p4 { fill: var(--p4); } .p5 { fill: var(--p5); }
</style>
`

// How much text fits, in letters.
const (
	idLetters     = 21 // less what stands to the right of it
	titleLetters  = 31
	legendLetters = 40
)

// SVG is the graph as a picture that stands alone: tasks in layers from left to right, with lines from each to those
// it unblocks. It follows the reader's choice of light or dark, and says everything in its description too.
func (p *Plan) SVG() []byte {
	net := p.network()
	l := newLayout(net)
	phases := p.Phases()
	const top = 76
	width := max(480, 2*margin+len(l.layers)*(boxWidth+layerGap)-layerGap)
	legend := legendRows(phases, width)
	height := top + int(l.height) + margin + len(legend)*22 + margin/2

	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" class="plan" role="img" aria-labelledby="plan-name plan-text" width="%d" height="%d" viewBox="0 0 %d %d">`+"\n",
		width, height, width, height)
	fmt.Fprintf(&b, "<title id=\"plan-name\">%s</title>\n<desc id=\"plan-text\">%s</desc>\n", escape(p.Name), p.description(net))
	b.WriteString(svgStyle)
	b.WriteString(`<defs><marker id="plan-head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path class="head" d="M0 0 L8 4 L0 8 z"/></marker></defs>` + "\n")
	fmt.Fprintf(&b, "<rect class=\"paper\" width=\"%d\" height=\"%d\"/>\n", width, height)
	fmt.Fprintf(&b, "<text class=\"name\" x=\"%d\" y=\"34\">%s</text>\n", margin, escape(shorten(p.Name, (width-2*margin)/10)))
	fmt.Fprintf(&b, "<text class=\"sum\" x=\"%d\" y=\"56\">%s</text>\n", margin, escape(p.Summary()))
	fmt.Fprintf(&b, "<g transform=\"translate(0 %d)\">\n", top)
	for _, line := range l.lines {
		b.WriteString(l.path(line))
	}
	colour := map[string]int{}
	for i, phase := range phases {
		colour[phase] = i % phaseColours
	}
	for i := range p.Tasks {
		p.drawTask(&b, &l.cells[i], colour, net)
	}
	b.WriteString("</g>\n")
	for row, entries := range legend {
		y := top + int(l.height) + margin + row*22
		for _, e := range entries {
			fmt.Fprintf(&b, "<rect class=\"p%d\" x=\"%d\" y=\"%d\" width=\"10\" height=\"10\" rx=\"2\"/><text class=\"legend\" x=\"%d\" y=\"%d\">%s</text>\n",
				e.colour, e.x, y, e.x+16, y+10, escape(e.text))
		}
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// path is a line through cells: a curve from each to the next, straight across the layers that it passes.
func (l *layout) path(line []int) string {
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
	return fmt.Sprintf("<path class=\"line\" marker-end=\"url(#plan-head)\" d=\"%s\"/>\n", d.String())
}

func (p *Plan) drawTask(b *bytes.Buffer, c *cell, colour map[string]int, net *network) {
	t := p.Tasks[c.task]
	class, mark := "task", ""
	if t.Draft {
		class, mark = class+" draft", "draft"
	}
	if len(t.BlockedBy) == 0 {
		class, mark = class+" start", strings.TrimPrefix(mark+", can start", ", ")
	}
	fmt.Fprintf(b, "<g class=\"%s\" transform=\"translate(%.1f %.1f)\"><title>%s</title>\n", class, c.x(), c.y, p.sentence(c.task, net))
	fmt.Fprintf(b, "<rect class=\"box\" width=\"%d\" height=\"%d\" rx=\"8\"/>", boxWidth, boxHeight)
	if n, ok := colour[t.Phase]; ok {
		fmt.Fprintf(b, "<rect class=\"p%d\" x=\"8\" y=\"10\" width=\"4\" height=\"%d\" rx=\"2\"/>", n, boxHeight-20)
	}
	fmt.Fprintf(b, "<text class=\"id\" x=\"20\" y=\"24\">%s</text>", escape(shorten(t.ID, idLetters-len(mark)*3/4)))
	if mark != "" {
		fmt.Fprintf(b, "<text class=\"mark\" x=\"%d\" y=\"24\">%s</text>", boxWidth-12, mark)
	}
	fmt.Fprintf(b, "<text class=\"title\" x=\"20\" y=\"43\">%s</text></g>\n", escape(shorten(t.Title, titleLetters)))
}

// description is the whole graph in sentences.
func (p *Plan) description(net *network) string {
	sentences := []string{escape(p.Summary()) + "."}
	for i := range p.Tasks {
		sentences = append(sentences, p.sentence(i, net))
	}
	return strings.Join(sentences, " ")
}

func (p *Plan) sentence(task int, net *network) string {
	t := p.Tasks[task]
	s := fmt.Sprintf("%s: %s.", printable(t.ID), title(t))
	if t.Phase != "" {
		s += fmt.Sprintf(" Phase %s.", printable(t.Phase))
	}
	if len(net.before[task]) > 0 {
		s += " Waits for " + p.ids(net.before[task]) + "."
	}
	if len(net.after[task]) > 0 {
		s += " Unblocks " + p.ids(net.after[task]) + "."
	}
	return html.EscapeString(s)
}

type legendEntry struct {
	text      string
	colour, x int
}

// legendRows names the colours of the phases, in as many rows as they need.
func legendRows(phases []string, width int) [][]legendEntry {
	var rows [][]legendEntry
	x := width
	for i, phase := range phases {
		text := shorten("Phase "+phase, legendLetters)
		wide := 16 + 8*len([]rune(printable(text))) + 24
		if x+wide > width-margin {
			rows, x = append(rows, nil), margin
		}
		rows[len(rows)-1] = append(rows[len(rows)-1], legendEntry{text, i % phaseColours, x})
		x += wide
	}
	return rows
}

// shorten cuts what is too long for its place. It counts what will be shown, escapes included.
func shorten(s string, letters int) string {
	shown := []rune(printable(s))
	if len(shown) <= letters {
		return string(shown)
	}
	return strings.TrimRight(string(shown[:letters-1]), " ") + "…"
}

// escape makes text safe inside an element.
func escape(s string) string { return html.EscapeString(printable(s)) }
