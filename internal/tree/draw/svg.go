package draw

import (
	"fmt"
	"strings"

	"signalbox/internal/picture"
	"signalbox/internal/tree"
)

// Sizes of a card, in pixels.
const (
	nameSize   = 13
	smallSize  = 11
	noteSize   = 10
	maxText    = 264 // of the text of a card
	textLeft   = 42  // of the text, after the tile
	tileSize   = 26
	tileLeft   = 8
	iconSize   = 16
	markSize   = 16
	cardPad    = 12
	radius     = 9 // of corners of cards and lines
	minWidth   = 640
	headHeight = 84 // plus 20 for a description
	keyHeight  = 48
)

// maxSpoken is how many nodes the description of the picture lists. All nodes have tooltips.
const maxSpoken = 200

// card has the texts on the card of a node.
type card struct {
	name, sub, err, visits string
	rows                   int
	width                  int
}

// SVG returns the tree as a self-contained picture: cards from left to right. It follows the
// reader's choice of light or dark, and contains no references, no scripts and no style attributes.
func SVG(t Tree, o *Options) string {
	p := newDrawing(t, o)
	cards, boxes := make([]card, len(p.nodes)), make([]box, len(p.nodes))
	for i := range cards {
		cards[i] = p.card(i)
		boxes[i] = box{width: cards[i].width, height: cardHeight(cards[i].rows)}
	}
	p.align(boxes)
	width, height := p.arrange(boxes)
	embedded := o != nil && o.Embedded
	top := headHeight
	if p.description != "" {
		top += 20
	}
	if embedded {
		top = margin
	}
	for i := range boxes {
		boxes[i].x, boxes[i].y = boxes[i].x+margin, boxes[i].y+top
	}
	width, height = max(minWidth, width+2*margin), top+height+keyHeight+margin

	var b strings.Builder
	b.Grow(1024 * (len(cards) + 8))
	style := ""
	if !embedded {
		style = picture.Style("bt", fixedRules, coloredRules)
		p.heading(&b, width)
	}
	p.lines(&b, boxes)
	for i := range cards {
		p.drawCard(&b, i, &cards[i], &boxes[i])
	}
	p.key(&b, height-margin-14)
	doc := picture.Document{Class: "bt", Width: width, Height: height, Title: picture.Fit(p.name, maxTip, picture.Columns), Description: p.spoken(),
		Style: style, Defs: p.symbols()}
	return doc.Render(b.String())
}

// card returns the texts and the width of a card.
func (p *drawing) card(i int) card {
	v := p.view(i)
	c := card{
		name:   picture.FitPixels(p.label(i), maxText, nameSize, picture.AdvanceBold),
		sub:    picture.FitPixels(p.setting(i, " · "), maxText, smallSize, picture.Advance),
		err:    picture.FitPixels(fold(v.Err), maxText, smallSize, picture.Advance),
		visits: p.visits(i),
		rows:   1,
	}
	text := max(picture.Pixels(c.name, nameSize, picture.AdvanceBold),
		picture.Pixels(c.sub, smallSize, picture.Advance),
		picture.Pixels(c.err, smallSize, picture.Advance))
	if c.sub != "" || c.visits != "" {
		c.rows++
	}
	if c.err != "" {
		c.rows++
	}
	c.width = textLeft + text + cardPad
	if p.views != nil {
		c.width += max(markSize, picture.Pixels(c.visits, smallSize, picture.AdvanceBold)) + 8
	}
	return c
}

func cardHeight(rows int) int { return [...]int{0, 46, 46, 62}[rows] }

// align gives all cards of a column the same width.
func (p *drawing) align(boxes []box) {
	var widest []int
	for i := range boxes {
		depth := p.nodes[i].Depth
		for len(widest) <= depth {
			widest = append(widest, 0)
		}
		widest[depth] = max(widest[depth], boxes[i].width)
	}
	for i := range boxes {
		boxes[i].width = widest[p.nodes[i].Depth]
	}
}

// symbols returns the definitions of the icons of the tree's kinds and of the statuses.
func (p *drawing) symbols() string {
	var b strings.Builder
	symbol := func(name, path string) {
		fmt.Fprintf(&b, "<symbol id=\"bt-%s\" viewBox=\"0 0 16 16\"><path d=\"%s\"/></symbol>\n",
			name, path)
	}
	b.WriteString("<defs>\n")
	defined := map[string]bool{} // by name, because all unknown kinds have the same
	for i := range p.nodes {
		if kind := p.nodes[i].Kind; !defined[kind.String()] {
			defined[kind.String()] = true
			symbol(kind.String(), kindGlyphs(kind).path)
		}
	}
	if p.views != nil {
		for _, s := range []tree.Status{tree.Success, tree.Failure, tree.Running} {
			symbol(statusWord(s), statusGlyphs(s).path)
		}
	}
	b.WriteString("</defs>\n")
	return b.String()
}

func (p *drawing) heading(b *strings.Builder, width int) {
	room := width - 2*margin
	fmt.Fprintf(b, "<text class=\"title\" x=\"%d\" y=\"36\">%s</text>\n", margin,
		picture.Escape(picture.FitPixels(p.name, room, 18, picture.AdvanceBold)))
	y := 58
	if p.description != "" {
		fmt.Fprintf(b, "<text class=\"text\" x=\"%d\" y=\"%d\">%s</text>\n", margin, y,
			picture.Escape(picture.FitPixels(fold(p.description), room, 13, picture.Advance)))
		y += 20
	}
	fmt.Fprintf(b, "<text class=\"text\" x=\"%d\" y=\"%d\">%s</text>\n", margin, y,
		picture.Escape(p.summary()))
}

// lines draws the lines between cards. Those of live nodes are last, so that they are on top.
func (p *drawing) lines(b *strings.Builder, boxes []box) {
	for i := range p.nodes {
		children := p.nodes[i].Children
		if len(children) == 0 {
			continue
		}
		b.WriteString("<path class=\"line\" d=\"")
		elbow(b, &boxes[i], &boxes[children[0]])
		for j := 1; j < len(children)-1; j++ {
			to := &boxes[children[j]]
			if straight := to.middle() - boxes[i].middle(); straight >= -radius &&
				straight <= radius {
				// The line to this child is straight, so there is no vertical line that a stub
				// could begin at.
				elbow(b, &boxes[i], to)
				continue
			}
			fmt.Fprintf(b, "M%d %dH%d", to.x-columnGap/2, to.middle(), to.x)
		}
		if len(children) > 1 {
			elbow(b, &boxes[i], &boxes[children[len(children)-1]])
		}
		b.WriteString("\"/>\n")
	}
	for i := range p.nodes {
		if parent := p.nodes[i].Parent; p.live[i] && parent >= 0 {
			b.WriteString("<path class=\"way\" d=\"")
			elbow(b, &boxes[parent], &boxes[i])
			b.WriteString("\"/>\n")
		}
	}
}

// elbow draws a line from a card to a child, bent halfway.
func elbow(b *strings.Builder, from, to *box) {
	x, y1, y2 := to.x-columnGap/2, from.middle(), to.middle()
	fmt.Fprintf(b, "M%d %d", from.right(), y1)
	if y1 != y2 {
		bend := min(radius, max(y1-y2, y2-y1)/2)
		step := bend
		if y2 < y1 {
			step = -bend
		}
		fmt.Fprintf(b, "H%dQ%d %d %d %dV%dQ%d %d %d %d", x-bend, x, y1, x, y1+step, y2-step, x, y2,
			x+bend, y2)
	}
	fmt.Fprintf(b, "H%d", to.x)
}

func (p *drawing) drawCard(b *strings.Builder, i int, c *card, at *box) {
	kind, status := p.nodes[i].Kind, p.view(i).Status
	class := category(kind)
	if p.views != nil {
		class += " " + statusWord(status)
	}
	if p.live[i] {
		class += " live"
	}
	fmt.Fprintf(b, "<g class=\"%s\" transform=\"translate(%d %d)\"><title>%s</title>", class, at.x,
		at.y, picture.Escape(strings.Join(p.tip(i), "\n")))
	if p.live[i] {
		fmt.Fprintf(b, "<rect class=\"halo\" x=\"-3\" y=\"-3\" width=\"%d\" height=\"%d\" rx=\"%d\"/>", at.width+6, at.height+6, radius+3)
	}
	fmt.Fprintf(b, "<rect class=\"card\" width=\"%d\" height=\"%d\" rx=\"%d\"/>", at.width,
		at.height, radius)
	tileTop := (at.height - tileSize) / 2
	fmt.Fprintf(b, "<rect class=\"tile\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"6\"/>",
		tileLeft, tileTop, tileSize, tileSize)
	icon(b, "icon", kind.String(), tileLeft+(tileSize-iconSize)/2, tileTop+(tileSize-iconSize)/2)

	baseline := at.height/2 + 5
	for _, small := range []string{c.sub, c.err} {
		if small != "" {
			baseline -= 8
		}
	}
	fmt.Fprintf(b, "<text class=\"name\" x=\"%d\" y=\"%d\">%s</text>", textLeft, baseline,
		picture.Escape(c.name))
	for _, row := range []struct{ class, text string }{{"sub", c.sub}, {"err", c.err}} {
		if row.text != "" {
			baseline += 16
			fmt.Fprintf(b, "<text class=\"%s\" x=\"%d\" y=\"%d\">%s</text>", row.class, textLeft,
				baseline, picture.Escape(row.text))
		}
	}
	if p.views != nil {
		middle := at.height / 2
		if c.visits != "" {
			middle -= 7
			fmt.Fprintf(b, "<text class=\"visits end\" x=\"%d\" y=\"%d\">%s</text>",
				at.width-cardPad+2, at.height/2+15, picture.Escape(c.visits))
		}
		mark(b, status, at.width-cardPad-markSize/2+2, middle)
	}
	p.drawNote(b, i, at)
	b.WriteString("</g>\n")
}

// drawNote draws the note of a node on the upper edge of its card.
func (p *drawing) drawNote(b *strings.Builder, i int, at *box) {
	if p.notes[i] == "" {
		return
	}
	text := picture.FitPixels(fold(p.notes[i]), at.width-2*cardPad, noteSize, picture.AdvanceBold)
	width := picture.Pixels(text, noteSize, picture.AdvanceBold) + 12
	x := at.width - width - cardPad
	fmt.Fprintf(b, "<rect class=\"note\" x=\"%d\" y=\"-9\" width=\"%d\" height=\"17\" rx=\"8\"/><text class=\"noted\" x=\"%d\" y=\"3\">%s</text>", x, width, x+6, picture.Escape(text))
}

func icon(b *strings.Builder, class, name string, x, y int) {
	fmt.Fprintf(b, "<use class=\"%s\" href=\"#bt-%s\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>", class, name, x, y, iconSize, iconSize)
}

// mark draws a status: a disc with a sign, or a dashed ring for an idle node.
func mark(b *strings.Builder, status tree.Status, x, y int) {
	fmt.Fprintf(b, "<circle class=\"mark\" cx=\"%d\" cy=\"%d\" r=\"%d\"/>", x, y, markSize/2-1)
	if word := statusWord(status); word != "idle" {
		icon(b, "sign", word, x-iconSize/2, y-iconSize/2)
	}
}

// key explains the colours, below the tree.
func (p *drawing) key(b *strings.Builder, y int) {
	x := margin
	entry := func(class, word string, draw func()) {
		fmt.Fprintf(b, "<g class=\"%s\" transform=\"translate(%d %d)\">", class, x, y)
		draw()
		fmt.Fprintf(b, "<text class=\"key\" x=\"20\" y=\"12\">%s</text></g>\n", word)
		x += 20 + picture.Pixels(word, 12, picture.Advance) + 18
	}
	for _, class := range []string{"composite", "decorator", "leaf"} {
		entry(class, class, func() {
			b.WriteString(`<rect class="tile swatch" x="1" y="1" width="14" height="14" rx="4"/>`)
		})
	}
	if p.views == nil {
		return
	}
	x += 12
	for _, s := range []tree.Status{tree.Success, tree.Failure, tree.Running, tree.Idle} {
		entry(statusWord(s), statusWord(s), func() { mark(b, s, 8, 8) })
	}
}

// spoken returns the tree in sentences, for screen readers.
func (p *drawing) spoken() string {
	var sentences []string
	if p.description != "" {
		sentences = append(sentences,
			strings.TrimSuffix(picture.Fit(fold(p.description), maxTip, picture.Columns), "."))
	}
	sentences = append(sentences, p.summary())
	for i := range min(len(p.nodes), maxSpoken) {
		s := fmt.Sprintf("Level %d, %s", p.nodes[i].Depth+1,
			picture.Fit(p.label(i), maxLabel, picture.Columns))
		if setting := p.setting(i, " "); setting != "" {
			s += ", " + picture.Fit(setting, 2*maxLabel, picture.Columns)
		}
		if p.views != nil {
			s += ", " + statusWord(p.view(i).Status)
		}
		sentences = append(sentences, s)
	}
	if more := len(p.nodes) - maxSpoken; more > 0 {
		sentences = append(sentences, fmt.Sprintf("And %d more", more))
	}
	return strings.Join(sentences, ". ") + "."
}
