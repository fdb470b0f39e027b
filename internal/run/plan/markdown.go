package plan

import (
	"bytes"
	"slices"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// document is Markdown with its syntax tree. Texts are taken from the source, not from the tree, so
// that they stay verbatim.
type document struct {
	source []byte
	root   ast.Node
	starts []int // offset of the beginning of each line
}

// markdown parses documents. It is shared, because creating a parser takes longer than parsing a
// section.
type markdown struct{ parser parser.Parser }

func newMarkdown() markdown {
	return markdown{goldmark.New(goldmark.WithExtensions(extension.TaskList,
		extension.Table)).Parser()}
}

func (m markdown) read(source []byte) *document {
	d := &document{source: source, root: m.parser.Parse(text.NewReader(source)), starts: []int{0}}
	for i, c := range source {
		if c == '\n' && i+1 < len(source) {
			d.starts = append(d.starts, i+1)
		}
	}
	return d
}

// line returns the number of the line that contains the offset, from 1.
func (d *document) line(offset int) int {
	i, found := slices.BinarySearch(d.starts, offset)
	if found {
		i++
	}
	return i
}

// lineStart returns the offset of the start of the line that contains the offset.
func (d *document) lineStart(offset int) int { return d.starts[d.line(offset)-1] }

func (d *document) lineEnd(offset int) int {
	if line := d.line(offset); line < len(d.starts) {
		return d.starts[line]
	}
	return len(d.source)
}

// end returns the offset of the end of a block: the start of its next sibling, or the end of its
// parent.
func (d *document) end(block ast.Node, parentEnd int) int {
	if next := block.NextSibling(); next != nil {
		return d.lineStart(next.Pos())
	}
	return parentEnd
}

// plain returns the text of an inline node without markup.
func (d *document) plain(n ast.Node) string {
	var b strings.Builder
	d.writePlain(&b, n)
	return strings.Join(strings.Fields(b.String()), " ")
}

func (d *document) writePlain(b *strings.Builder, n ast.Node) {
	switch n := n.(type) {
	case *ast.Text:
		value := string(n.Segment.Value(d.source))
		if n.Parent().Kind() != ast.KindCodeSpan {
			value = unescape(value)
		}
		b.WriteString(value)
		if n.SoftLineBreak() || n.HardLineBreak() {
			b.WriteByte(' ')
		}
	case *ast.AutoLink:
		b.Write(n.Label(d.source))
	case *ast.RawHTML:
		for i := range n.Segments.Len() {
			segment := n.Segments.At(i)
			b.Write(segment.Value(d.source))
		}
	}
	for child := n.FirstChild(); child != nil; child = child.NextSibling() {
		d.writePlain(b, child)
	}
}

// unescape resolves backslashes and character references, because the parser leaves them to
// renderers.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) && util.IsPunct(s[i+1]) {
			i++
		} else if s[i] == '&' {
			if end := strings.IndexByte(s[i:min(len(s), i+40)], ';'); end > 0 {
				reference := []byte(s[i : i+end+1])
				if resolved := util.ResolveEntityNames(
					util.ResolveNumericReferences(reference)); !bytes.Equal(resolved, reference) {
					b.Write(resolved)
					i += end
					continue
				}
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// heading returns the first heading inside a node whose text passes, or nil.
func (d *document) heading(below ast.Node, passes func(string) bool) ast.Node {
	var found ast.Node
	_ = ast.Walk(below, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch {
		case !entering:
		case n.Kind() == ast.KindHeading && passes(d.plain(n)):
			found = n
			return ast.WalkStop, nil
		case n.Type() == ast.TypeInline, n.Kind() == ast.KindBlockquote:
			return ast.WalkSkipChildren, nil
		}
		return ast.WalkContinue, nil
	})
	return found
}

// dedent removes up to n columns of indentation from all lines except the first.
func dedent(s string, n int) string {
	lines := strings.Split(s, "\n")
	for i := 1; i < len(lines); i++ {
		for column := 0; column < n && lines[i] != ""; {
			switch lines[i][0] {
			case ' ':
				column++
			case '\t':
				column += 4 - column%4
			default:
				column = n
				continue
			}
			lines[i] = lines[i][1:]
		}
	}
	return strings.Join(lines, "\n")
}

// trim removes blank lines and spaces around a text, but keeps the indentation of the first line if
// blank lines precede it. It also returns how many lines it removed at the top.
func trim(s string) (string, int) {
	s = strings.TrimRight(s, " \t\n")
	first, rest, more := strings.Cut(s, "\n")
	if strings.TrimSpace(first) != "" || !more {
		return strings.TrimLeft(s, " \t"), 0
	}
	dropped := 1
	for {
		first, after, more := strings.Cut(rest, "\n")
		if strings.TrimSpace(first) != "" || !more {
			return rest, dropped
		}
		rest = after
		dropped++
	}
}
