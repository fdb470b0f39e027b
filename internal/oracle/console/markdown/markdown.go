// Package markdown renders the Markdown of a model's reply as lines for a terminal.
//
// The text is hostile. Lines contain no control characters and no escape sequences, except those of
// the Theme, and are not wider than asked for, down to MinWidth columns. Nothing that the model
// wrote is hidden: links are followed by their target, HTML and definitions of links are shown as
// they are. The package does no I/O.
package markdown

import (
	"bytes"
	"html"
	"strconv"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	gmhtml "github.com/yuin/goldmark/renderer/html"
	gmtext "github.com/yuin/goldmark/text"

	"signalbox/internal/text"
)

const (
	// MinWidth is the smallest width that lines respect.
	MinWidth = 10
	// maxProse is the width of paragraphs on a wide terminal. Longer lines are hard to read. Code
	// and tables may be wider.
	maxProse = 100
	// maxDepth limits how deep lists and quotes are indented.
	maxDepth = 8
	// minRoom is the width below which nothing is indented further.
	minRoom = 20
)

// Render returns a whole text as lines.
func Render(source string, width int, theme Theme) []string {
	s := NewStream(theme)
	s.Write(source)
	return s.Close(width)
}

// newParser returns a parser without definitions of links, which would hide the targets from the
// reader.
func newParser() parser.Parser {
	p := parser.NewParser(parser.WithBlockParsers(parser.DefaultBlockParsers()...),
		parser.WithInlineParsers(parser.DefaultInlineParsers()...))
	return goldmark.New(goldmark.WithParser(p), goldmark.WithExtensions(extension.Table,
		extension.Strikethrough, extension.TaskList)).Parser()
}

// document is a parsed text.
type document struct {
	source []byte
	theme  Theme
}

func (t Theme) render(p parser.Parser, source string, width int) []string {
	d := document{source: []byte(source), theme: t}
	return d.blocks(p.Parse(gmtext.NewReader(d.source)), max(width, MinWidth), 0)
}

// blocks renders the blocks in a container, with an empty line between them.
func (d *document) blocks(parent ast.Node, width, depth int) []string {
	var lines []string
	for n := parent.FirstChild(); n != nil; n = n.NextSibling() {
		block := d.block(n, width, depth)
		if len(lines) > 0 && len(block) > 0 && d.apart(n) {
			lines = append(lines, "")
		}
		lines = append(lines, block...)
	}
	return lines
}

// apart reports whether an empty line precedes a block. In lists and their items the author
// decides.
func (d *document) apart(n ast.Node) bool {
	switch n.Parent().Kind() {
	case ast.KindList, ast.KindListItem:
		return n.HasBlankPreviousLines()
	}
	return true
}

func (d *document) block(n ast.Node, width, depth int) []string {
	switch n := n.(type) {
	case *ast.Heading:
		return d.wrapped(n, min(width, maxProse),
			style{bold: true, heading: true, underline: n.Level == 1})
	case *ast.Blockquote:
		return d.nested(n, d.theme.render1("│ ", style{faint: true}),
			d.theme.render1("│ ", style{faint: true}), width, depth)
	case *ast.List:
		return d.list(n, width, depth)
	case *ast.FencedCodeBlock, *ast.CodeBlock:
		return d.code(n, width)
	case *ast.HTMLBlock:
		lines := d.rawLines(n)
		if n.HasClosure() {
			lines = append(lines, strings.TrimRight(string(n.ClosureLine.Value(d.source)), "\n"))
		}
		return d.literal(lines, width, style{faint: true})
	case *ast.ThematicBreak:
		return []string{d.theme.render1(strings.Repeat("─", min(width, 40)), style{faint: true})}
	case *extast.Table:
		return d.table(n, width)
	}
	if n.Type() == ast.TypeBlock && n.HasChildren() && n.FirstChild().Type() == ast.TypeBlock {
		return d.blocks(n, width, depth)
	}
	return d.wrapped(n, min(width, maxProse), style{})
}

// wrapped renders the inline text of a block.
func (d *document) wrapped(n ast.Node, width int, base style) []string {
	return d.theme.lines(wrap(d.inline(n, base, nil), width))
}

// nested renders the blocks in n behind a mark on the first line and an indentation on the others.
// Both have the same width.
func (d *document) nested(n ast.Node, mark, indent string, width, depth int) []string {
	room := width - columns(mark)
	if depth >= maxDepth || room < min(minRoom, width/2) {
		mark, indent, room = "", "", width
		if depth > maxDepth*8 { // only a hostile text is nested as deep as this
			return d.literal(d.sourceLines(n), width, style{})
		}
	}
	lines := d.blocks(n, room, depth+1)
	if len(lines) == 0 {
		lines = []string{""}
	}
	for i, line := range lines {
		switch {
		case i == 0:
			lines[i] = mark + line
		case line == "":
			lines[i] = strings.TrimRight(indent, " ")
		default:
			lines[i] = indent + line
		}
	}
	return lines
}

var bullets = []string{"• ", "◦ ", "▪ "}

func (d *document) list(list *ast.List, width, depth int) []string {
	var lines []string
	level := 0
	for up := list.Parent(); up != nil && level < len(bullets)-1; up = up.Parent() {
		if _, ok := up.(*ast.List); ok {
			level++
		}
	}
	number := list.Start
	for item := list.FirstChild(); item != nil; item = item.NextSibling() {
		mark := bullets[level]
		if list.IsOrdered() {
			mark = strconv.Itoa(number) + string(list.Marker) + " "
			number++
		}
		if item.PreviousSibling() != nil && d.apart(item) {
			lines = append(lines, "")
		}
		lines = append(lines, d.nested(item, mark, strings.Repeat(" ", columns(mark)), width,
			depth)...)
	}
	return lines
}

// code renders a block of code, indented and otherwise as it is, so that it can be copied.
func (d *document) code(n ast.Node, width int) []string {
	const indent = "  "
	lines := d.literal(d.rawLines(n), width-len(indent), style{code: true})
	for i := range lines {
		if lines[i] != "" {
			lines[i] = indent + lines[i]
		}
	}
	return lines
}

func (d *document) rawLines(n ast.Node) []string {
	var lines []string
	for i := range n.Lines().Len() {
		segment := n.Lines().At(i)
		lines = append(lines, strings.TrimRight(string(segment.Value(d.source)), "\n"))
	}
	return lines
}

// sourceLines returns the text of all blocks in n without rendering it.
func (d *document) sourceLines(n ast.Node) []string {
	var lines []string
	ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // cannot fail
		if n.Type() == ast.TypeInline {
			return ast.WalkSkipChildren, nil
		}
		if entering {
			lines = append(lines, d.rawLines(n)...)
		}
		return ast.WalkContinue, nil
	})
	return lines
}

// literal renders lines as they are, in one style. Lines that are too long are broken anywhere.
func (d *document) literal(lines []string, width int, s style) []string {
	var all []string
	for _, line := range lines {
		line = clean(strings.ReplaceAll(line, "\t", "    "))
		for {
			first, rest := cut(line, width)
			all = append(all, d.theme.render1(first, s))
			if line = rest; line == "" {
				break
			}
		}
	}
	return all
}

// inline appends the inline text below n to spans. A span with the text "\n" ends the line.
func (d *document) inline(parent ast.Node, s style, spans []span) []span {
	for n := parent.FirstChild(); n != nil; n = n.NextSibling() {
		switch n := n.(type) {
		case *ast.Text:
			value := string(n.Value(d.source))
			if !n.IsRaw() {
				value = resolve(value)
			}
			spans = append(spans, span{oneLine(value), s})
			switch {
			case n.HardLineBreak():
				spans = append(spans, span{"\n", s})
			case n.SoftLineBreak():
				spans = append(spans, span{" ", s})
			}
		case *ast.String:
			spans = append(spans, span{oneLine(string(n.Value)), s})
		case *ast.CodeSpan:
			spans = d.inline(n, s.with(func(s *style) { s.code = true }), spans)
		case *ast.Emphasis:
			spans = d.inline(n, s.with(
				func(s *style) { s.bold, s.italic = s.bold || n.Level > 1, s.italic || n.Level == 1 }), spans)
		case *extast.Strikethrough:
			spans = d.inline(n, s.with(func(s *style) { s.strike = true }), spans)
		case *extast.TaskCheckBox:
			box := "[ ] "
			if n.IsChecked {
				box = "[x] "
			}
			spans = append(spans, span{box, s})
		case *ast.AutoLink:
			spans = append(spans, span{oneLine(string(n.Label(d.source))),
				s.with(func(s *style) { s.underline = true })})
		case *ast.Link:
			spans = d.link(n, string(n.Destination), "", s, spans)
		case *ast.Image:
			spans = d.link(n, string(n.Destination), "image: ", s, spans)
		case *ast.RawHTML:
			for i := range n.Segments.Len() {
				segment := n.Segments.At(i)
				spans = append(spans, span{oneLine(string(segment.Value(d.source))),
					s.with(func(s *style) { s.faint = true })})
			}
		default:
			spans = d.inline(n, s, spans)
		}
	}
	return spans
}

// link renders the text of a link and its target, unless they are the same.
func (d *document) link(n ast.Node, target, kind string, s style, spans []span) []span {
	target = oneLine(resolve(target))
	label := d.inline(n, s.with(func(s *style) { s.underline = true }), nil)
	var shown strings.Builder
	for _, part := range label {
		shown.WriteString(part.text)
	}
	if kind != "" {
		spans = append(spans, span{kind, s.with(func(s *style) { s.faint = true })})
	}
	spans = append(spans, label...)
	if shown.String() == target || target == "" {
		return spans
	}
	if shown.Len() > 0 {
		spans = append(spans, span{" ", s})
	}
	return append(spans, span{"(" + target + ")", s.with(func(s *style) { s.link = true })})
}

// resolve returns text without the backslashes of escaped punctuation, and with characters in place
// of entities.
func resolve(source string) string {
	if !strings.ContainsAny(source, `\&`) {
		return source
	}
	var b bytes.Buffer
	w := bufWriter{&b}
	gmhtml.DefaultWriter.Write(w, []byte(source)) // escapes the result for HTML
	return html.UnescapeString(b.String())
}

type bufWriter struct{ *bytes.Buffer }

func (bufWriter) Available() int { return 0 }
func (bufWriter) Buffered() int  { return 0 }
func (bufWriter) Flush() error   { return nil }

// oneLine returns printable text without line ends and tabs.
func oneLine(s string) string { return clean(spaces.Replace(s)) }

var spaces = strings.NewReplacer("\n", " ", "\t", " ")

// clean escapes everything that a terminal may obey or hide.
func clean(s string) string {
	var b strings.Builder
	e := text.NewEscaper(&b)
	e.Write([]byte(strings.ReplaceAll(s, "\n", " "))) // cannot fail: it writes to memory
	e.Close()
	return b.String()
}
