package plan

import (
	"strings"

	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
)

// value is one entry of a section: a list item or a block.
type value struct {
	text   string
	line   int
	item   bool
	pieces []piece // parts between commas and line ends, if the entry is inline text
}

// values parses the text of a section as a separate document, so that the position of its label
// makes no difference.
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
	raw = strings.TrimLeft(raw, "0123456789")[1:] // the list marker
	block := n.FirstChild()
	if block != nil && block.FirstChild() != nil &&
		block.FirstChild().Kind() == extast.KindTaskCheckBox {
		raw = strings.TrimLeft(raw, " \t")[len("[ ]"):]
	}
	v.text, _ = trim(dedent(raw, n.(*ast.ListItem).Offset))
	if block != nil && block.NextSibling() == nil &&
		(block.Kind() == ast.KindTextBlock || block.Kind() == ast.KindParagraph) {
		v.pieces = d.pieces(block)
	}
	return v
}

// piece is a part of inline text, between commas or line ends.
type piece struct {
	source string // verbatim
	line   int
	sole   ast.Node // the code span, link or address that is the whole piece, or nil
	doc    *document
}

// marked reports whether the piece is in backquotes or a link, so that it may contain spaces.
func (p piece) marked() bool { return p.sole != nil }

// name returns the destination of a link, or the text of any other piece.
func (p piece) name() string {
	if link, ok := p.sole.(*ast.Link); ok {
		return string(link.Destination)
	}
	return p.text()
}

// text returns the visible text. Other markup is kept, because names may look like markup:
// __init__.py.
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

// cutter splits inline text into pieces.
type cutter struct {
	*document
	found []piece
	start int        // of the current piece
	nodes []ast.Node // of the current piece, except text
	words bool       // the current piece has text besides nodes
}

func (c *cutter) cut(end, next int) {
	p := piece{source: strings.TrimSpace(string(c.source[c.start:end])), line: c.line(c.start),
		doc: c.document}
	if len(c.nodes) == 1 && !c.words {
		switch c.nodes[0].Kind() {
		case ast.KindCodeSpan, ast.KindLink, ast.KindAutoLink:
			p.sole = c.nodes[0]
		}
	}
	c.found = append(c.found, p)
	c.start, c.nodes, c.words = next, nil, false
}

// walk visits siblings. It descends into emphasis, which may come from two names by accident:
// _a.py, b_.py.
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

// hasCheckbox reports whether a text contains a task list.
func (m markdown) hasCheckbox(text string) bool {
	found := false
	_ = ast.Walk(m.read([]byte(text)).root, func(n ast.Node,
		entering bool) (ast.WalkStatus, error) {
		found = found || n.Kind() == extast.KindTaskCheckBox
		return ast.WalkContinue, nil
	})
	return found
}
