// Package ofx reads OFX files: version 1, which is SGML, and version 2, which is XML. [Parse]
// returns the elements of a file as a tree; what they mean is up to the caller.
//
// OFX has two kinds of elements. Aggregates contain other elements and always have an end tag. Data
// elements contain text, and in version 1 their end tag may be missing: the next tag ends them. An
// element with text is a data element. So is an element without text that is still open when the
// element around it ends, unless it is one of the aggregates of investment statements: a file that
// lacks the end tag of one of those is refused.
//
// Parse takes time proportional to the size of the file. It refuses files with more than 2 million
// elements or with elements nested more than 100 deep, so a tree never takes more than a few
// hundred megabytes.
package ofx

import (
	"fmt"
	"html"
	"slices"
	"strings"

	"signalbox/internal/lazy"
	"signalbox/internal/text"
)

const (
	maxElements = 2 << 20
	maxDepth    = 100
)

// aggregates lists the aggregates of investment statements whose end tag is checked in version 1
// too. Without the end tag they would look like empty data elements, and what they contain would be
// missed.
var aggregates = []string{"OFX", "INVSTMTMSGSRSV1", "INVSTMTTRNRS", "INVSTMTRS", "INVACCTFROM",
	"INVTRANLIST", "INVTRAN", "INVBUY", "INVSELL",
	"SECID", "CURRENCY", "ORIGCURRENCY", "BUYDEBT", "BUYMF", "BUYOPT", "BUYOTHER", "BUYSTOCK",
	"CLOSUREOPT", "INCOME", "INVEXPENSE",
	"JRNLFUND", "JRNLSEC", "MARGININTEREST", "REINVEST", "RETOFCAP", "SELLDEBT", "SELLMF",
	"SELLOPT", "SELLOTHER", "SELLSTOCK", "SPLIT",
	"TRANSFER", "INVBANKTRAN", "STMTTRN", "SECLISTMSGSRSV1", "SECLIST", "SECINFO", "DEBTINFO",
	"MFINFO", "OPTINFO", "OTHERINFO", "STOCKINFO"}

// Element is an aggregate or a data element. The methods may be called on nil, which has no
// children.
type Element struct {
	Name string
	// Text is the content of a data element, without the space around it.
	Text string
	// Line and Column are the position of the start tag. They count from 1; Column counts bytes.
	Line, Column int32
	Children     []Element
}

// Child returns the last child with the given name, or nil.
func (e *Element) Child(name string) *Element {
	if e == nil {
		return nil
	}
	for i := len(e.Children) - 1; i >= 0; i-- {
		if e.Children[i].Name == name {
			return &e.Children[i]
		}
	}
	return nil
}

// Value returns the text of the last child with the given name, or "".
func (e *Element) Value(name string) string {
	if c := e.Child(name); c != nil {
		return c.Text
	}
	return ""
}

// SyntaxError reports text that is not OFX.
type SyntaxError struct {
	Line, Column int
	Message      string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Message)
}

// Parse returns the element OFX. The text is UTF-8, whatever its header says. Everything after the
// end tag of OFX is ignored. The error is a *[SyntaxError].
func Parse(text string) (*Element, error) {
	return (&parser{text: text, line: 1}).parse()
}

type parser struct {
	text string
	pos  int
	// line is the number of the current line, lineStart the position of its first byte.
	line, lineStart int
	// xml is set for version 2, in which every element has an end tag.
	xml bool
	// elements holds the elements that are not yet children of another one, in the order of their
	// start tags.
	elements []Element
	// open holds the indexes in elements of those that have not ended.
	open  []int
	count int
	// work counts bytes read, elements moved and open elements compared. A test checks that it is
	// linear.
	work int
}

func (p *parser) parse() (*Element, error) {
	if err := p.prolog(); err != nil {
		return nil, err
	}
	for {
		read := p.startTag
		if p.at("</") {
			read = p.endTag
		}
		if err := read(); err != nil {
			return nil, err
		}
		if len(p.open) == 0 {
			return &p.elements[0], nil
		}
	}
}

func (p *parser) errorf(format string, args ...any) error {
	return p.errorAt(p.line, p.pos-p.lineStart+1, format, args...)
}

func (p *parser) errorAt(line, column int, format string, args ...any) error {
	return &SyntaxError{Line: line, Column: column, Message: fmt.Sprintf(format, args...)}
}

func (p *parser) at(prefix string) bool { return strings.HasPrefix(p.text[p.pos:], prefix) }

// skip moves n bytes forward and returns them.
func (p *parser) skip(n int) string {
	s := p.text[p.pos : p.pos+n]
	if i := strings.LastIndexByte(s, '\n'); i >= 0 {
		p.line += strings.Count(s, "\n")
		p.lineStart = p.pos + i + 1
	}
	p.pos += n
	p.work += n
	return s
}

// skipPast moves past the next mark and returns the text before it.
func (p *parser) skipPast(mark string) (string, error) {
	n := strings.Index(p.text[p.pos:], mark)
	if n < 0 {
		return "", p.errorf(
			"the file ends before the %s that belongs to this place: it was cut off; download it again", mark)
	}
	s := p.skip(n)
	p.skip(len(mark))
	return s, nil
}

// prolog reads everything before the element OFX.
func (p *parser) prolog() error {
	header, err := p.content()
	if err != nil {
		return err
	}
	for _, h := range []struct{ key, value string }{{"DATA", "OFXSGML"}, {"COMPRESSION", "NONE"}} {
		if _, value, ok := strings.Cut(header, h.key+":"); ok &&
			!strings.HasPrefix(strings.TrimSpace(value), h.value) {
			return p.errorAt(1, 1,
				"%s in the header is not %s: export the file again, as plain OFX or QFX", h.key,
				h.value)
		}
	}
	p.xml = strings.Contains(p.text[:p.pos], "<?")
	if !p.at("<OFX>") && !p.at("<OFX ") {
		return p.errorf("expected <OFX>, the start of the data")
	}
	return nil
}

// entity matches the entities of OFX and XML. Any other & is text: few servers write AT&T as
// AT&amp;T.
var entity = lazy.Regexp(`&(?:lt|gt|amp|quot|apos|nbsp|#[0-9]{1,7}|#x[0-9a-fA-F]{1,6});`)

// content returns the text up to the next tag, without comments and processing instructions.
func (p *parser) content() (string, error) {
	var parts []string
	for {
		n := strings.IndexByte(p.text[p.pos:], '<')
		if n < 0 {
			p.skip(len(p.text) - p.pos)
			return "", p.errorf("the file ends before </OFX>: it was cut off; download it again")
		}
		part := p.skip(n)
		if strings.Contains(part, "&") {
			part = entity().ReplaceAllStringFunc(part, html.UnescapeString)
		}
		parts = append(parts, part)
		var err error
		switch {
		case p.at("<![CDATA["):
			p.skip(len("<![CDATA["))
			part, err = p.skipPast("]]>")
			parts = append(parts, part)
		case p.at("<!--"):
			_, err = p.skipPast("-->")
		case p.at("<?"):
			_, err = p.skipPast("?>")
		default:
			return strings.TrimSpace(strings.Join(parts, "")), nil
		}
		if err != nil {
			return "", err
		}
	}
}

// startTag reads a start tag and the text after it.
func (p *parser) startTag() error {
	if err := p.endData(); err != nil {
		return err
	}
	line, column := p.line, p.pos-p.lineStart+1
	p.skip(1)
	inside, err := p.skipPast(">")
	if err != nil {
		return err
	}
	name, empty := strings.CutSuffix(inside, "/")
	if i := strings.IndexAny(name, " \t\n"); i >= 0 {
		name = name[:i] // without attributes
	}
	if !isName(name) || strings.Contains(inside, "<") {
		return p.errorAt(line, column, "<%s> is not a tag: write < in a text as &lt;",
			text.Shorten(inside, 40))
	}
	e := Element{Name: name, Line: int32(line), Column: int32(column)}
	if p.count++; p.count > maxElements {
		return p.errorAt(line, column, "the file has more than %d elements: export it in parts",
			maxElements)
	}
	if empty {
		p.elements = append(p.elements, e)
		return p.noText()
	}
	if len(p.open) == maxDepth {
		return p.errorAt(line, column,
			"<%s> is inside %d other elements: end tags are missing before it", e.Name, maxDepth)
	}
	e.Text, err = p.content()
	p.open = append(p.open, len(p.elements))
	p.elements = append(p.elements, e)
	return err
}

func isName(s string) bool {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_"
	return s != "" && strings.Contains(letters, s[:1]) &&
		strings.Trim(s, letters+"0123456789.-") == ""
}

// endData ends a data element whose end tag is missing.
func (p *parser) endData() error {
	if len(p.open) == 0 {
		return nil
	}
	top := &p.elements[p.open[len(p.open)-1]]
	if top.Text == "" {
		return nil
	}
	if p.xml || len(p.open) == 1 {
		return p.errorf("expected </%s>, the end of line %d, column %d", top.Name, top.Line,
			top.Column)
	}
	p.open = p.open[:len(p.open)-1]
	return nil
}

// endTag reads an end tag. All elements since its start tag become its children. Those of them that
// are still open are data elements without an end tag.
func (p *parser) endTag() error {
	line, column := p.line, p.pos-p.lineStart+1
	p.skip(len("</"))
	inside, err := p.skipPast(">")
	if err != nil {
		return err
	}
	name := strings.TrimSpace(inside)
	n := len(p.open) - 1
	for n >= 0 && p.elements[p.open[n]].Name != name {
		n--
		p.work++
	}
	if n < 0 {
		return p.errorAt(line, column, "</%s> has no start tag", text.Shorten(name, 40))
	}
	for _, i := range p.open[n+1:] {
		if e := p.elements[i]; p.xml || slices.Contains(aggregates, e.Name) {
			return p.errorAt(line, column,
				"<%s> in line %d, column %d has no end tag: add </%s> before </%s>", e.Name, e.Line,
				e.Column, e.Name, name)
		}
	}
	e := p.open[n]
	p.work += len(p.elements) - e
	p.elements[e].Children = slices.Clone(p.elements[e+1:])
	p.elements, p.open = p.elements[:e+1], p.open[:n]
	if len(p.open) == 0 {
		return nil
	}
	return p.noText()
}

// noText reads up to the next tag, where no text may be.
func (p *parser) noText() error {
	if len(p.open) == 0 {
		return nil
	}
	line, column := p.line, p.pos-p.lineStart+1
	s, err := p.content()
	if err == nil && s != "" {
		err = p.errorAt(line, column, "the text %q belongs to no element", text.Shorten(s, 40))
	}
	return err
}
