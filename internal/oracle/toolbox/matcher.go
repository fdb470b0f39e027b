package toolbox

import (
	"bytes"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode"
)

// matcher finds lines that match a query.
type matcher struct {
	// needles are texts; a matching line contains at least one of them. If there are none, every
	// line is tried.
	needles [][]byte
	// folded means that the needles are in lower case, and are searched in the text in lower case.
	folded bool
	// re decides whether a line matches. Nil means that every line with a needle does.
	re *regexp.Regexp
}

// newMatcher returns a matcher for a query. A text is case-sensitive only if it has capital
// letters; a regular expression is used as it is.
func newMatcher(query string, isPattern bool) (*matcher, error) {
	if isPattern {
		return compile(query)
	}
	if strings.ContainsFunc(query, unicode.IsUpper) {
		return &matcher{needles: [][]byte{[]byte(query)}}, nil
	}
	for _, r := range query {
		if r >= 0x80 {
			return compile("(?i)" + regexp.QuoteMeta(query))
		}
	}
	return &matcher{needles: [][]byte{[]byte(query)}, folded: true}, nil
}

func compile(query string) (*matcher, error) {
	re, err := regexp.Compile(query)
	if err != nil {
		return nil, fmt.Errorf(
			"the query is not a valid RE2 regular expression (%v): correct it, or leave out regexp to search for the text itself", err)
	}
	m := &matcher{re: re, folded: true}
	if parsed, err := syntax.Parse(query, syntax.Perl); err == nil {
		for _, needle := range needlesOf(parsed.Simplify()) {
			m.needles = append(m.needles, []byte(needle))
		}
	}
	return m, nil
}

// maxNeedles is how many needles a regular expression may have. Each costs a search of the whole
// text.
const maxNeedles = 8

// needlesOf returns texts in lower case. Every match of the expression contains at least one of
// them; without such texts the result is nil. They make a search for an expression nearly as fast
// as one for a text.
func needlesOf(re *syntax.Regexp) []string {
	switch re.Op {
	case syntax.OpLiteral:
		if word := safeRun(re); word != "" {
			return []string{word}
		}
	case syntax.OpCapture, syntax.OpPlus:
		return needlesOf(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min > 0 {
			return needlesOf(re.Sub[0])
		}
	case syntax.OpConcat:
		var best []string
		for _, sub := range re.Sub {
			if found := needlesOf(sub); shortest(found) > shortest(best) {
				best = found
			}
		}
		return best
	case syntax.OpAlternate:
		var all []string
		for _, sub := range re.Sub {
			found := needlesOf(sub)
			if found == nil {
				return nil
			}
			all = append(all, found...)
		}
		if len(all) <= maxNeedles {
			return all
		}
	}
	return nil
}

// safeRun returns the longest part of a literal that every match contains in lower case. Non-ASCII
// letters are left out, and so are k and s if case is ignored, because non-ASCII letters match them
// too.
func safeRun(re *syntax.Regexp) string {
	best, run := "", ""
	for _, r := range re.Rune {
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		if r >= 0x80 || re.Flags&syntax.FoldCase != 0 && (r == 'k' || r == 's') {
			run = ""
			continue
		}
		run += string(r)
		if len(run) > len(best) {
			best = run
		}
	}
	return best
}

func shortest(words []string) int {
	if len(words) == 0 {
		return 0
	}
	n := len(words[0])
	for _, w := range words {
		n = min(n, len(w))
	}
	return n
}

// line is a line of a text: its number, from 1, and its offsets, without the line ending.
type line struct{ number, from, to int }

// each calls found for each matching line, with the position of the first match in it. folded is
// the text in lower case.
func (m *matcher) each(text, folded []byte, found func(l line, at, length int)) {
	hay := text
	if m.folded {
		hay = folded
	}
	next := make([]int, len(m.needles)) // offset of the next occurrence of each needle
	for i := range next {
		next[i] = -1
	}
	number, counted := 1, 0
	for from := 0; from < len(text); {
		start := from
		if len(m.needles) > 0 {
			start = len(text)
			for i, needle := range m.needles {
				if next[i] < from {
					next[i] = len(text)
					if at := bytes.Index(hay[from:], needle); at >= 0 {
						next[i] = from + at
					}
				}
				start = min(start, next[i])
			}
			if start == len(text) {
				return
			}
		}
		begin := bytes.LastIndexByte(text[:start], '\n') + 1
		end := len(text)
		if i := bytes.IndexByte(text[start:], '\n'); i >= 0 {
			end = start + i
		}
		number += bytes.Count(text[counted:begin], []byte("\n"))
		counted = begin
		from = end + 1
		at, length := start-begin, 0
		content := bytes.TrimSuffix(text[begin:end], []byte("\r"))
		if m.re == nil {
			length = len(m.needles[0])
		} else if match := m.re.FindIndex(content); match != nil {
			at, length = match[0], match[1]-match[0]
		} else {
			continue
		}
		found(line{number, begin, end}, at, length)
	}
}
