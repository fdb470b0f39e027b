package toolbox

import (
	"bytes"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode"
)

// matcher finds lines.
type matcher struct {
	// needles: a line that matches has at least one of them. Without any, every line is tried.
	needles [][]byte
	// folded means that the needles are in small letters and looked for in the text in small letters.
	folded bool
	// re decides. Nil: a needle is a match.
	re *regexp.Regexp
}

// newMatcher returns the matcher of a query. Capitals count if the query has any; what is written as a regular
// expression is taken as it is.
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
		return nil, fmt.Errorf("the query is no regular expression of the kind RE2 (%v): correct it, or leave out regexp to look for the text as it stands", err)
	}
	m := &matcher{re: re, folded: true}
	if parsed, err := syntax.Parse(query, syntax.Perl); err == nil {
		for _, needle := range needlesOf(parsed.Simplify()) {
			m.needles = append(m.needles, []byte(needle))
		}
	}
	return m, nil
}

// maxNeedles is how many a regular expression may have: each is looked for in the whole text.
const maxNeedles = 8

// needlesOf returns words in small letters of which every match of an expression has one, nil if there are none such. They
// are what makes a search with an expression nearly as fast as one without.
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

// safeRun is the longest part of a literal that stands in every match when capitals are made small letters. Beyond ASCII
// it depends, and of the letters k and s there are forms beyond it.
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

// line is one of a text: its number, from 1, and where it stands, without its end.
type line struct{ number, from, to int }

// each goes through the lines of a text that match, with the place of the first match in the line. folded is the text in
// small letters if the matcher wants it.
func (m *matcher) each(text, folded []byte, yield func(l line, at, length int) bool) {
	hay := text
	if m.folded {
		hay = folded
	}
	next := make([]int, len(m.needles)) // where each needle comes next
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
		} else if found := m.re.FindIndex(content); found != nil {
			at, length = found[0], found[1]-found[0]
		} else {
			continue
		}
		if !yield(line{number, begin, end}, at, length) {
			return
		}
	}
}
