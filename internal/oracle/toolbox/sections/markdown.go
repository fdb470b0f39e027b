// Package sections finds sections of Markdown notes by their words. It does no I/O, and an Index
// never changes, so that any number of goroutines may use it.
package sections

import (
	"path"
	"strings"
)

// Section is a heading of a note with the text below it, up to the next heading.
type Section struct {
	// Title is the heading, or the title of the note for the text before the first heading. Above
	// are the enclosing headings.
	Title string
	Above []string
	Line  int // of the heading, from 1
	Text  string

	textLine int // line number of the beginning of the text
}

// separator separates titles.
const separator = " › "

// FullTitle returns the title preceded by those above it, the note's title first.
func (s Section) FullTitle() string {
	return strings.Join(append(s.Above[:len(s.Above):len(s.Above)], s.Title), separator)
}

// Split splits a Markdown note into sections at its headings, written with # or underlined with =
// or -, except in code blocks. The title of the note is that in its front matter, or its first
// top-level heading, or its file name.
func Split(file, text string) []Section {
	text = strings.TrimPrefix(text, "\uFEFF")
	lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	first, title := frontMatter(lines)
	n := note{}
	for i := first; i < len(lines); i++ {
		line := lines[i]
		if n.inFence(line) {
			n.add(line, i+1)
			continue
		}
		if level, heading := heading(line); level > 0 {
			n.begin(level, heading, i+1)
			continue
		}
		if level := underline(line); level > 0 && len(n.body) > 0 && isText(n.body[len(n.body)-1]) {
			above := n.body[len(n.body)-1]
			n.body = n.body[:len(n.body)-1]
			n.begin(level, strings.TrimSpace(above), i)
			continue
		}
		n.add(line, i+1)
	}
	n.end()
	if title == "" {
		for _, s := range n.sections {
			if s.Title != "" && len(s.Above) == 0 {
				title = s.Title
				break
			}
		}
	}
	if title == "" {
		title = strings.TrimSuffix(path.Base(file), path.Ext(file))
	}
	for i := range n.sections {
		s := &n.sections[i]
		if s.Title == "" {
			s.Title, s.Line = title, s.textLine
		} else if len(s.Above) == 0 && s.Title != title {
			s.Above = []string{title}
		}
	}
	return n.sections
}

// note is a note that is being split.
type note struct {
	sections []Section
	fence    string // that ends the current code block, "" outside

	open   Section
	levels []int // of the headings in open.Above and of open itself
	titles []string
	body   []string
}

// add adds a line to the text of the open section, without leading blank lines.
func (n *note) add(line string, number int) {
	if len(n.body) == 0 {
		if strings.TrimSpace(line) == "" {
			return
		}
		n.open.textLine = number
	}
	n.body = append(n.body, line)
}

func (n *note) begin(level int, title string, line int) {
	n.end()
	for len(n.levels) > 0 && n.levels[len(n.levels)-1] >= level {
		n.levels, n.titles = n.levels[:len(n.levels)-1], n.titles[:len(n.titles)-1]
	}
	n.open = Section{Title: title, Above: append([]string(nil), n.titles...), Line: line}
	n.levels, n.titles = append(n.levels, level), append(n.titles, title)
}

func (n *note) end() {
	n.open.Text = strings.Trim(strings.Join(n.body, "\n"), "\n")
	if n.open.Title != "" || strings.TrimSpace(n.open.Text) != "" {
		n.sections = append(n.sections, n.open)
	}
	n.body, n.open = nil, Section{}
}

// inFence reports whether a line belongs to a code block, including its first and last line.
func (n *note) inFence(line string) bool {
	trimmed := strings.TrimLeft(line, " ")
	if len(line)-len(trimmed) > 3 {
		return n.fence != ""
	}
	if n.fence != "" {
		if strings.HasPrefix(trimmed, n.fence) && strings.Trim(trimmed, n.fence[:1]+" \t") == "" {
			n.fence = ""
		}
		return true
	}
	for _, sign := range []string{"`", "~"} {
		run := len(trimmed) - len(strings.TrimLeft(trimmed, sign))
		if run >= 3 && (sign == "~" || !strings.Contains(trimmed[run:], "`")) {
			n.fence = trimmed[:run]
			return true
		}
	}
	return false
}

// heading parses a heading with #. The level is 0 if the line is not a heading.
func heading(line string) (level int, title string) {
	trimmed := strings.TrimLeft(line, " ")
	rest := strings.TrimLeft(trimmed, "#")
	level = len(trimmed) - len(rest)
	if len(line)-len(trimmed) > 3 || level == 0 || level > 6 || rest != "" && rest[0] != ' ' &&
		rest[0] != '\t' {
		return 0, ""
	}
	title = strings.TrimSpace(rest)
	if bare := strings.TrimRight(title, "#"); bare == "" || strings.HasSuffix(bare, " ") {
		title = strings.TrimSpace(bare)
	}
	if title == "" {
		title = "(no title)"
	}
	return level, title
}

// underline returns the level of the heading that a line of = or - makes of the line above it, or
// 0.
func underline(line string) int {
	trimmed := strings.TrimRight(line, " \t")
	switch {
	case trimmed != "" && strings.Trim(trimmed, "=") == "":
		return 1
	case len(trimmed) > 1 && strings.Trim(trimmed, "-") == "":
		return 2
	}
	return 0
}

// isText reports whether the line below can make a line a heading.
func isText(line string) bool {
	trimmed := strings.TrimLeft(line, " ")
	return trimmed != "" && len(line)-len(trimmed) <= 3 &&
		!strings.ContainsAny(trimmed[:1], ">|-+*\t")
}

// frontMatter returns the number of lines of a note's front matter, and the title in it.
func frontMatter(lines []string) (end int, title string) {
	if len(lines) == 0 || strings.TrimRight(lines[0], " \t") != "---" {
		return 0, ""
	}
	for i, line := range lines[1:] {
		line = strings.TrimRight(line, " \t")
		if line == "---" || line == "..." {
			return i + 2, title
		}
		if value, ok := strings.CutPrefix(line, "title:"); ok {
			title = strings.Trim(strings.TrimSpace(value), `"'`)
		}
	}
	return 0, "" // without an end it is not front matter
}
