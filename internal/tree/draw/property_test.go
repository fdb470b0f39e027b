package draw

import (
	"encoding/xml"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"signalbox/internal/picture"
	"signalbox/internal/testkit/property"
	"signalbox/internal/tree"
)

var _ Tree = (*tree.Tree)(nil)

// hostile are texts that would break a format if they were not escaped.
var hostile = []string{
	"", "plain", "<script>alert(1)</script>", `"]; evil [label="`, `back\slash\`, `\N\G\l`, "]]>",
	"&amp;&#x1b;", "-->", "'\"",
	"\x1b[2J\x1b[31mred", "line\nbreak\r\ttab", "\u202eright to left\u202c",
	"a\u200bb\u2066c\u2069", "\xff\xfe broken \xc3", "\x00\x01\x7f\u0085\u009b31m",
	"\ufffe\uffff\ufdd0", "日本語の名前日本語の名前日本語の名前日本語の名前", "🦀🦀🦀🦀🦀", "e" + strings.Repeat("\u0301", 500),
	strings.Repeat("wide ", 500),
	strings.Repeat("W", 300), strings.Repeat(" ", 300), "\u00a0\u3000", "$(id)`id`%s%d",
}

func drawText(t *rapid.T, label string) string {
	return rapid.OneOf(rapid.SampledFrom(hostile), rapid.String()).Draw(t, label)
}

// drawTree draws a tree of any shape. Some views are missing, and some statuses and kinds are
// unknown.
func drawTree(t *rapid.T) (*fake, *Options) {
	f := &fake{name: drawText(t, "tree"), description: drawText(t, "description")}
	last := -1
	for i := range rapid.IntRange(0, 50).Draw(t, "nodes") {
		parent := last
		for up := rapid.IntRange(0, 4).Draw(t, "up"); i > 0 && up > 0 &&
			f.nodes[parent].Parent >= 0; up-- {
			parent = f.nodes[parent].Parent
		}
		v := tree.View{Status: tree.Status(rapid.IntRange(0, 4).Draw(t, "status")), Visits: rapid.OneOf(rapid.IntRange(0, 3), rapid.Int()).Draw(t, "visits")}
		if rapid.Bool().Draw(t, "runs") {
			v.Status = tree.Running
		}
		if rapid.IntRange(0, 3).Draw(t, "errs") == 0 {
			v.Err = drawText(t, "err")
		}
		last = f.add(parent, tree.Kind(rapid.IntRange(0, int(tree.Tool)+2).Draw(t, "kind")),
			drawText(t, "name"), drawText(t, "detail"), v)
		f.nodes[last].Description = drawText(t, "about")
	}
	o := &Options{}
	if rapid.IntRange(0, 3).Draw(t, "views") > 0 {
		o.Views = f.views[:rapid.IntRange(0, len(f.views)).Draw(t, "some")]
	}
	return f, o
}

// shown is what an SVG picture contains.
type shown struct {
	box       box // of the picture
	cards     []box
	liveCards int
	ways      int
}

func readSVG(svg string) (*shown, error) {
	var s shown
	d := xml.NewDecoder(strings.NewReader(svg))
	var x, y int
	for {
		token, err := d.Token()
		if err == io.EOF {
			return &s, nil
		}
		if err != nil {
			return nil, err
		}
		e, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		a := map[string]string{}
		for _, at := range e.Attr {
			a[at.Name.Local] = at.Value
			if strings.HasPrefix(at.Name.Local, "on") || at.Name.Local == "href" &&
				!strings.HasPrefix(at.Value, "#bt-") {
				return nil, fmt.Errorf("<%s %s=%q>", e.Name.Local, at.Name.Local, at.Value)
			}
		}
		number := func(name string) int { n, _ := strconv.Atoi(a[name]); return n }
		switch e.Name.Local + "." + a["class"] {
		case "svg.bt":
			if _, err := fmt.Sscanf(a["viewBox"], "0 0 %d %d", &s.box.width,
				&s.box.height); err != nil {
				return nil, err
			}
		case "rect.card":
			s.cards = append(s.cards, box{x, y, number("width"), number("height")})
		case "rect.halo":
			s.liveCards++
		case "path.way":
			s.ways++
		}
		switch e.Name.Local {
		case "g":
			if _, err := fmt.Sscanf(a["transform"], "translate(%d %d)", &x, &y); err != nil {
				return nil, fmt.Errorf("transform %q: %w", a["transform"], err)
			}
		case "svg", "title", "desc", "style", "defs", "symbol", "path", "rect", "circle", "text",
			"use":
		default:
			return nil, fmt.Errorf("an element <%s>", e.Name.Local)
		}
	}
}

func TestSVGProperties(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		f, o := drawTree(t)
		svg := SVG(f, o)
		if svg != SVG(f, o) {
			t.Fatal("drawing twice gives different pictures")
		}
		s, err := readSVG(svg)
		if err != nil {
			t.Fatalf("%v in\n%s", err, svg)
		}
		if len(s.cards) != f.Len() {
			t.Fatalf("%d cards for %d nodes", len(s.cards), f.Len())
		}
		live := 0
		for i, c := range s.cards {
			if isLive(f, o, i) {
				live++
			}
			if c.x < margin || c.y < headHeight || c.right() > s.box.width-margin ||
				c.y+c.height > s.box.height-margin {
				t.Errorf("card %d at %v reaches over the picture's edge %v", i, c, s.box)
			}
			for j := range i {
				if d := s.cards[j]; c.x < d.right() && d.x < c.right() &&
					c.y < d.y+d.height+siblingGap && d.y < c.y+c.height+siblingGap {
					t.Errorf("cards %d %v and %d %v overlap", j, d, i, c)
				}
			}
			checkFamily(t, f, s.cards, i)
		}
		if s.liveCards != live || s.ways != max(0, live-1) {
			t.Errorf("%d cards and %d lines are highlighted, want %d and one less", s.liveCards,
				s.ways, live)
		}
	})
}

func isLive(f *fake, o *Options, i int) bool {
	return i < 0 || i < len(o.Views) && o.Views[i].Status == tree.Running &&
		isLive(f, o, f.nodes[i].Parent)
}

// checkFamily checks that a card is to the left of its children and centred, and that they are in
// order.
func checkFamily(t *rapid.T, f *fake, cards []box, i int) {
	children := f.nodes[i].Children
	for j, c := range children {
		if cards[c].x != cards[i].right()+columnGap {
			t.Errorf("card %d %v is not in the column after its parent %v", c, cards[c], cards[i])
		}
		if j > 0 && cards[c].y < cards[children[j-1]].y {
			t.Errorf("card %d is above the one before it", c)
		}
	}
	if n := len(children); n > 0 {
		middle := (cards[children[0]].middle() + cards[children[n-1]].middle()) / 2
		if d := cards[i].middle() - middle; d < -1 || d > 1 {
			t.Errorf("card %d is %d off the middle of its children", i, d)
		}
	}
}

var ansi = regexp.MustCompile("\x1b\\[[0-9;]+m")

func TestTextProperties(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		f, o := drawTree(t)
		o.ASCII = rapid.Bool().Draw(t, "ascii")
		plain := Text(f, o)
		want := 1 + f.Len()
		if f.description != "" {
			want++
		}
		if got := strings.Count(plain, "\n"); got != want || !strings.HasSuffix(plain, "\n") {
			t.Errorf("%d lines, want %d:\n%s", got, want, plain)
		}
		for line := range strings.Lines(plain) {
			line = strings.TrimSuffix(line, "\n")
			if n := picture.Measure(line, picture.Columns); n > textWidth {
				t.Errorf("a line has %d columns: %q", n, line)
			}
			if n := utf8.RuneCountInString(line); n > 3*textWidth {
				t.Errorf("a line has %d letters: %q", n, line)
			}
			for _, r := range line {
				if !strconv.IsPrint(r) || unicode.Is(unicode.Bidi_Control, r) || o.ASCII &&
					r >= utf8.RuneSelf {
					t.Errorf("a line has %U: %q", r, line)
				}
			}
		}
		o.Color = true
		if got := ansi.ReplaceAllString(Text(f, o), ""); got != plain {
			t.Errorf("colours change the text: %q, want %q", got, plain)
		}
	})
}

var (
	dotString = regexp.MustCompile(`"(?:[^"\\\n]|\\.)*"`)
	dotNode   = regexp.MustCompile(`^  S \[(?:[a-z]+=S(?:, )?)+\];$`)
	dotEdge   = regexp.MustCompile(`^  S -> S(?: \[color=S, penwidth=S\])?;$`)
	dotWord   = regexp.MustCompile(
		`^(?:digraph S \{|  (?:graph|node|edge) \[(?:[a-z]+=S(?:, )?)+\];|\})$`)
)

func TestDotProperties(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		f, o := drawTree(t)
		graph := Dot(f, o)
		nodes, edges, others := 0, 0, 0
		for line := range strings.Lines(graph) {
			for _, s := range dotString.FindAllString(line, -1) {
				if strings.Contains(strings.ReplaceAll(s, "&amp;", ""), "&") {
					t.Errorf("an entity in %s", s)
				}
				// Only these three escapes are used. Graphviz replaces others by names from the
				// graph.
				if strings.Contains(strings.NewReplacer(`\\`, "", `\"`, "", `\n`, "").Replace(s),
					`\`) {
					t.Errorf("an escape in %s", s)
				}
			}
			switch bare := strings.TrimSuffix(dotString.ReplaceAllString(line, "S"), "\n"); {
			case dotNode.MatchString(bare):
				nodes++
			case dotEdge.MatchString(bare):
				edges++
			case dotWord.MatchString(bare):
				others++
			default:
				t.Errorf("a line of neither a node nor an edge: %s", line)
			}
		}
		if nodes != f.Len() || edges != max(0, f.Len()-1) || others != 5 {
			t.Errorf("%d nodes, %d edges and %d other lines for a tree of %d nodes", nodes, edges,
				others, f.Len())
		}
	})
}
