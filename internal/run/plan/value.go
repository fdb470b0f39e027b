package plan

import (
	"strings"

	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
)

// value is one entry of a section: a list item, or a block of its own.
type value struct {
	text   string
	line   int
	item   bool
	pieces []piece // what the commas and line ends divide, if the entry is plain inline text
}

// values reads a section's text as Markdown of its own, so that it makes no difference where its label stood.
func (m markdown) values(s section) []value {
	d := m.read([]byte(s.text))
	var found []value
	for n := d.root.FirstChild(); n != nil; n = n.NextSibling() {
		end := d.end(n, len(d.source))
		switch n.Kind() {
		case ast.KindList:
			for item := n.FirstChild(); item != nil; item = item.NextSibling() {
				found = append(found, d.item(item, d.end(item, end)))
			}
		case ast.KindThematicBreak, ast.KindLinkReferenceDefinition:
		case ast.KindHTMLBlock:
			if v := d.block(n, end); !strings.HasPrefix(v.text, "<!--") {
				found = append(found, v)
			}
		default:
			found = append(found, d.block(n, end))
		}
	}
	for i := range found {
		found[i].line += s.textLine - 1
		for j := range found[i].pieces {
			found[i].pieces[j].line += s.textLine - 1
		}
	}
	return found
}

func (d *document) block(n ast.Node, end int) value {
	start := d.lineStart(n.Pos())
	v := value{line: d.line(n.Pos())}
	v.text, _ = trim(string(d.source[start:max(start, end)]))
	if n.Kind() == ast.KindParagraph {
		v.pieces = d.pieces(n)
	}
	return v
}

func (d *document) item(n ast.Node, end int) value {
	v := value{line: d.line(n.Pos()), item: true}
	raw := string(d.source[n.Pos():max(n.Pos(), end)])
	raw = strings.TrimLeft(raw, "0123456789")[1:] // the list's mark
	block := n.FirstChild()
	if block != nil && block.FirstChild() != nil && block.FirstChild().Kind() == extast.KindTaskCheckBox {
		raw = strings.TrimLeft(raw, " \t")[len("[ ]"):]
	}
	v.text, _ = trim(dedent(raw, n.(*ast.ListItem).Offset))
	if block != nil && block.NextSibling() == nil && (block.Kind() == ast.KindTextBlock || block.Kind() == ast.KindParagraph) {
		v.pieces = d.pieces(block)
	}
	return v
}

// piece is a part of inline text, between commas or line ends.
type piece struct {
	source string // as it was written
	line   int
	sole   ast.Node // the code, link or address that the piece consists of, if it does
	doc    *document
}

// marked tells whether the piece is marked off as one, by backquotes or as a link, so that it may have spaces.
func (p piece) marked() bool { return p.sole != nil }

// name is what the piece points to: a link's destination, a code's text.
func (p piece) name() string {
	if link, ok := p.sole.(*ast.Link); ok {
		return string(link.Destination)
	}
	return p.text()
}

// text is what a reader sees. Other markup stays, since names may look like it: __init__.py.
func (p piece) text() string {
	if p.sole != nil {
		return p.doc.plain(p.sole)
	}
	return unescape(p.source)
}

func (d *document) pieces(block ast.Node) []piece {
	lines := block.Lines()
	first := block.FirstChild()
	if lines.Len() == 0 || first == nil {
		return nil
	}
	c := cutter{document: d, found: []piece{}, start: lines.At(0).Start}
	if first.Kind() == extast.KindTaskCheckBox {
		if first = first.NextSibling(); first == nil {
			return nil
		}
		c.start = first.Pos()
	}
	c.walk(first)
	c.cut(lines.At(lines.Len()-1).Stop, 0)
	return c.found
}

// cutter cuts inline text into pieces.
type cutter struct {
	*document
	found []piece
	start int        // of the current piece
	nodes []ast.Node // of the current piece, without texts
	words bool       // whether it has other text
}

func (c *cutter) cut(end, next int) {
	p := piece{source: strings.TrimSpace(string(c.source[c.start:end])), line: c.line(c.start), doc: c.document}
	if len(c.nodes) == 1 && !c.words {
		switch c.nodes[0].Kind() {
		case ast.KindCodeSpan, ast.KindLink, ast.KindAutoLink:
			p.sole = c.nodes[0]
		}
	}
	c.found = append(c.found, p)
	c.start, c.nodes, c.words = next, nil, false
}

// walk goes through siblings. It looks into emphasis, which may be an accident of two names: _a.py, b_.py.
func (c *cutter) walk(n ast.Node) {
	for ; n != nil; n = n.NextSibling() {
		switch n := n.(type) {
		case *ast.Emphasis:
			c.words = true
			c.walk(n.FirstChild())
		case *ast.Text:
			for i := n.Segment.Start; i < n.Segment.Stop; i++ {
				switch letter := c.source[i]; {
				case letter == ',':
					c.cut(i, i+1)
				case letter != ' ' && letter != '\t':
					c.words = true
				}
			}
			if n.SoftLineBreak() || n.HardLineBreak() {
				c.cut(n.Segment.Stop, c.lineEnd(n.Segment.Stop))
			}
		default:
			c.nodes = append(c.nodes, n)
		}
	}
}

// hasCheckbox tells whether a text has a task list.
func (m markdown) hasCheckbox(text string) bool {
	found := false
	_ = ast.Walk(m.read([]byte(text)).root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		found = found || n.Kind() == extast.KindTaskCheckBox
		return ast.WalkContinue, nil
	})
	return found
}
