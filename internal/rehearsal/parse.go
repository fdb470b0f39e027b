package rehearsal

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"signalbox"
)

// maxScript is the maximum size of a script, in bytes.
const maxScript = 4 << 20

// Parse parses a script. The name is only for messages.
func Parse(name string, text []byte) (*Script, error) {
	p := &parser{script: &Script{Name: name}}
	if len(text) > maxScript {
		return nil, p.fail(fmt.Errorf("the script has more than %d bytes", maxScript),
			"check that this is the right file")
	}
	if !utf8.Valid(text) {
		return nil, p.fail(errors.New("the script is not UTF-8 text"),
			"for arbitrary bytes, use the step: bytes HEX")
	}
	for line := range strings.Lines(string(text)) {
		p.lines = append(p.lines, strings.TrimRight(line, "\r\n"))
	}
	for p.at < len(p.lines) {
		if err := p.next(); err != nil {
			return nil, err
		}
	}
	if len(p.script.Sections) == 0 {
		return nil, p.fail(errors.New("the script has no section"),
			"begin one with: on developer T1:")
	}
	return p.script, nil
}

type parser struct {
	script *Script
	lines  []string
	at     int // the next line
	line   int // the line of errors, from 1
}

// call is the text of a step: its first word, the rest of the line, and the lines below it.
type call struct {
	line       int
	verb, rest string
	body       []string // the indented lines below
	document   *string  // the text between <<END and END
}

func (p *parser) fail(err error, hint string) error {
	where := p.script.Name
	if p.line > 0 {
		where += ":" + strconv.Itoa(p.line)
	}
	return signalbox.CodeFailed.Errorf(hint,
		"%s: %w", where, err)
}

// next parses the next line, which is empty, a comment, or begins a section or a step.
func (p *parser) next() error {
	text := p.lines[p.at]
	p.at++
	p.line = p.at
	trimmed := strings.TrimSpace(text)
	switch {
	case trimmed == "" || trimmed[0] == '#':
		return nil
	case indent(text) == 0:
		return p.section(text)
	case len(p.script.Sections) == 0:
		return p.fail(errors.New("a step before the first section"),
			"begin a section with: on developer T1:")
	}
	step, err := p.step(indent(text), trimmed)
	if err != nil {
		return err
	}
	section := &p.script.Sections[len(p.script.Sections)-1]
	section.Steps = append(section.Steps, step)
	return nil
}

func indent(line string) int { return len(line) - len(strings.TrimLeft(line, " \t")) }

const sectionForm = "on ROLE [TASK] [attempt N or N+]:"

func (p *parser) section(text string) error {
	head, comment, ok := strings.Cut(text, ":")
	comment = strings.TrimSpace(comment)
	words := strings.Fields(head)
	if !ok || len(words) == 0 || words[0] != "on" || comment != "" && comment[0] != '#' {
		return p.fail(fmt.Errorf("%q does not begin a section", text), "write "+sectionForm+
			" or indent the line to make it a step")
	}
	s := Section{Line: p.line, Tasks: []string{"*"}}
	words = words[1:]
	if n := slices.Index(words, "attempt"); n >= 0 {
		if len(words) != n+2 || !s.readAttempt(words[n+1]) {
			return p.fail(errors.New("attempt is not followed by a number"),
				`write attempt 1, or attempt 2+ for the second and all later ones`)
		}
		words = words[:n]
	}
	if len(words) < 1 || len(words) > 2 {
		return p.fail(fmt.Errorf("%q does not begin a section", text), "write "+sectionForm)
	}
	s.Roles = strings.Split(words[0], ",")
	if len(words) == 2 {
		s.Tasks = strings.Split(words[1], ",")
	}
	for _, pattern := range slices.Concat(s.Roles, s.Tasks) {
		if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
			return p.fail(fmt.Errorf("%q is not a pattern", pattern),
				"write a name, * for all, or a name with * in it, such as R-*")
		}
	}
	p.script.Sections = append(p.script.Sections, s)
	return nil
}

func (s *Section) readAttempt(text string) bool {
	digits, orLater := strings.CutSuffix(text, "+")
	n, err := strconv.Atoi(digits)
	s.Attempt, s.OrLater = n, orLater
	return err == nil && n > 0
}

func (p *parser) step(depth int, text string) (Step, error) {
	c := call{line: p.line, verb: text}
	if n := strings.IndexAny(text, " \t"); n >= 0 {
		c.verb, c.rest = text[:n], strings.TrimSpace(text[n:])
	}
	v, known := verbs[c.verb]
	if !known {
		return Step{}, p.fail(fmt.Errorf("unknown step %q", c.verb), "the steps are: "+
			strings.Join(Verbs(), ", "))
	}
	if mark := documentMark(c.rest); mark == "" {
		c.body = p.body(depth)
	} else if err := p.document(&c, mark); err != nil {
		return Step{}, err
	}
	hint := "write " + v.form
	if len(c.body) > 0 && !v.lines {
		return Step{}, p.fail(fmt.Errorf("%s takes no indented lines", c.verb), hint+
			", and indent the next step by the same amount")
	}
	if c.document != nil && !v.document {
		return Step{}, p.fail(fmt.Errorf("%s takes no <<text", c.verb), hint)
	}
	act, err := v.parse(c)
	if err != nil {
		if because := (*hintError)(nil); errors.As(err, &because) {
			hint = because.hint
		}
		return Step{}, p.fail(fmt.Errorf("%s: %w", c.verb, err), hint)
	}
	return Step{Line: c.line, Verb: c.verb, act: act}, nil
}

// hintError is an error in a step whose hint is not the form of the step.
type hintError struct {
	err  error
	hint string
}

func (e *hintError) Error() string { return e.err.Error() }

// body returns the following lines that are indented deeper than their step, without the
// indentation of the first one.
func (p *parser) body(depth int) (body []string) {
	base := -1
	for n := p.at; n < len(p.lines); n++ {
		text := p.lines[n]
		if strings.TrimSpace(text) == "" {
			continue // part of the body if more of it follows
		}
		own := indent(text)
		if own <= depth {
			break
		}
		if base < 0 {
			base = own
		}
		for ; p.at < n; p.at++ {
			body = append(body, "")
		}
		body = append(body, strings.TrimRight(text[min(base, own):], " \t"))
		p.at = n + 1
	}
	return body
}

// documentMark returns WORD if the step ends with <<WORD, and otherwise "".
func documentMark(rest string) string {
	n := strings.LastIndex(rest, "<<")
	if n < 0 || n > 0 && rest[n-1] != ' ' && rest[n-1] != '\t' ||
		strings.ContainsAny(rest[n:], " \t\"'") {
		return ""
	}
	return rest[n+2:]
}

// document reads the following lines, verbatim, up to a line with only the mark.
func (p *parser) document(c *call, mark string) error {
	var text strings.Builder
	for p.at < len(p.lines) {
		line := p.lines[p.at]
		p.at++
		if strings.TrimSpace(line) == mark {
			whole := text.String()
			c.document, c.rest = &whole, strings.TrimSpace(strings.TrimSuffix(c.rest, "<<"+mark))
			return nil
		}
		text.WriteString(line + "\n")
	}
	return p.fail(fmt.Errorf("no line %s ends the text", mark), "end the text with a line "+mark)
}
