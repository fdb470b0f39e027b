package draw

import (
	"strconv"
	"strings"

	"signalbox/internal/picture"
	"signalbox/internal/tree"
)

// Sizes of the text, in columns.
const (
	textWidth    = 120
	maxLabel     = 44 // of a name
	maxAligned   = 56 // the column of the settings, unless the names are longer
	minRest      = 8  // shorter settings and errors are not shown
	maxLevels    = 16 // of branches before a node; deeper nodes show their depth as a number
	levelColumns = 3
)

// ANSI sequences.
const (
	bold  = "1"
	dim   = "2"
	red   = "31"
	green = "32"
	blue  = "94"
)

// pen writes text with or without colours and non-ASCII characters.
type pen struct {
	*drawing
	color, ascii bool
	last         []bool // the node is its parent's last child
	liveBelow    []bool // a later child of its parent is live
}

// Text returns the tree for a terminal: the name and a summary, the description if there is one,
// and a line for each node, at most 120 columns wide.
func Text(t Tree, o *Options) string {
	w := &pen{drawing: newDrawing(t, o)}
	if o != nil {
		w.color, w.ascii = o.Color, o.ASCII
	}
	w.relate()

	var b strings.Builder
	summary := w.summary()
	b.WriteString(w.paint(bold, w.fit(w.name, textWidth-2-len(summary))) + "  " +
		w.paint(dim, summary) + "\n")
	if w.description != "" {
		b.WriteString(w.fit(fold(w.description), textWidth) + "\n")
	}

	heads := make([]head, len(w.nodes))
	aligned := 0
	for i := range w.nodes {
		heads[i] = w.head(i)
		if heads[i].width <= maxAligned {
			aligned = max(aligned, heads[i].width)
		}
	}
	for i := range w.nodes {
		b.WriteString(heads[i].text)
		b.WriteString(w.rest(i, heads[i].width, aligned))
		b.WriteByte('\n')
	}
	return b.String()
}

func (w *pen) relate() {
	w.last, w.liveBelow = make([]bool, len(w.nodes)), make([]bool, len(w.nodes))
	for i := range w.nodes {
		children := w.nodes[i].Children
		live := false
		for j := len(children) - 1; j >= 0; j-- {
			c := children[j]
			w.last[c], w.liveBelow[c] = j == len(children)-1, live
			live = live || w.live[c]
		}
	}
}

// head is the part of a line before the setting, and its width.
type head struct {
	text  string
	width int
}

func (w *pen) head(i int) head {
	v := w.view(i)
	var b strings.Builder
	width := 0
	if w.views != nil {
		b.WriteString(w.paint(statusColor(v.Status), w.glyph(statusGlyphs(v.Status))) + " ")
		width += 2
	}
	branches, n := w.branches(i)
	b.WriteString(branches)
	width += n

	glyph := w.glyph(kindGlyphs(w.nodes[i].Kind))
	name := w.fit(w.label(i), min(maxLabel, textWidth-width-maxVisits))
	style := ""
	switch {
	case w.live[i]:
		style = bold + ";" + blue
	case w.views != nil && v.Status == tree.Idle:
		style = dim
	}
	b.WriteString(w.paint(style, glyph+" "+name))
	width += picture.Measure(glyph, picture.Columns) + 1 + picture.Measure(name, picture.Columns)
	if visits := w.visits(i); visits != "" {
		if w.ascii {
			visits = strings.Replace(visits, "×", "x", 1)
		}
		b.WriteString(" " + visits)
		width += 1 + picture.Measure(visits, picture.Columns)
	}
	return head{b.String(), width}
}

// maxVisits is the width of a glyph and the number of visits, with spaces.
const maxVisits = 12

// rest returns the setting and the error of a node, as far as they fit on the line.
func (w *pen) rest(i, width, aligned int) string {
	gap := max(2, aligned-width+2)
	setting := w.setting(i, " ")
	room := textWidth - width - gap
	failure := fold(w.view(i).Err)
	if failure != "" {
		// Leave room for both.
		room = min(room, max(room/2, minRest))
	}
	var b strings.Builder
	if setting != "" && room >= minRest {
		setting = w.fit(setting, room)
		b.WriteString(strings.Repeat(" ", gap) + w.paint(dim, setting))
		width += gap + picture.Measure(setting, picture.Columns)
		gap = 2
	}
	if room = textWidth - width - gap; failure != "" && room >= minRest {
		dash := "— "
		if w.ascii {
			dash = "- "
		}
		b.WriteString(strings.Repeat(" ", gap) + w.paint(red, w.fit(dash+failure, room)))
	}
	return b.String()
}

// branches returns the lines before a node, and their width. Lines to live nodes are heavy.
func (w *pen) branches(i int) (string, int) {
	depth := w.nodes[i].Depth
	levels := min(depth, maxLevels)
	pieces := make([]string, levels)
	at := i
	for level := levels - 1; level >= 0; level-- {
		if at == i {
			pieces[level] = w.branch(i)
		} else {
			pieces[level] = w.bar(at)
		}
		at = w.nodes[at].Parent
	}
	text, width := strings.Join(pieces, ""), levels*levelColumns
	if depth > maxLevels {
		deep := "⋯" + strconv.Itoa(depth) + " "
		if w.ascii {
			deep = ".." + strconv.Itoa(depth) + " "
		}
		text, width = w.paint(dim, deep)+text, width+picture.Measure(deep, picture.Columns)
	}
	return text, width
}

// branch returns the line from the parent to a node.
func (w *pen) branch(i int) string {
	down := "├"
	switch live, below, last := w.live[i], w.liveBelow[i], w.last[i]; {
	case w.ascii && last:
		down = "`"
	case w.ascii:
		down = "|"
	case live && last:
		down = "┗"
	case live && below:
		down = "┣"
	case live:
		down = "┡"
	case below:
		down = "┠"
	case last:
		down = "└"
	}
	across := "─ "
	switch {
	case w.ascii && w.live[i]:
		across = "= "
	case w.ascii:
		across = "- "
	case w.live[i]:
		across = "━ "
	}
	return w.paint(liveColor(w.live[i] || w.liveBelow[i]), down) + w.paint(liveColor(w.live[i]),
		across)
}

// bar returns the line beside the descendants of a node that leads to its later siblings.
func (w *pen) bar(i int) string {
	switch {
	case w.last[i]:
		return "   "
	case w.ascii:
		return w.paint(liveColor(w.liveBelow[i]), "|  ")
	case w.liveBelow[i]:
		return w.paint(blue, "┃  ")
	}
	return w.paint(dim, "│  ")
}

func (w *pen) glyph(g glyphs) string {
	if w.ascii {
		return g.ascii
	}
	return g.text
}

func (w *pen) fit(s string, limit int) string {
	if w.ascii {
		return picture.FitASCII(s, limit)
	}
	return picture.Fit(s, limit, picture.Columns)
}

func (w *pen) paint(style, s string) string {
	if !w.color || style == "" || s == "" {
		return s
	}
	return "\x1b[" + style + "m" + s + "\x1b[0m"
}

func liveColor(live bool) string {
	if live {
		return blue
	}
	return dim
}

func statusColor(s tree.Status) string {
	switch s {
	case tree.Success:
		return green
	case tree.Failure:
		return red
	case tree.Running:
		return blue
	}
	return dim
}
