package boundedlua

import "strings"

// matcher matches a Lua 5.1 pattern against a subject. The interpreter's own matcher cannot be
// stopped, and a short pattern may take exponential time, so this one counts its steps. It recurses
// once for each item of the pattern.
type matcher struct {
	src, pat string
	caps     []captured
	depth    int
	steps    int
	// spend is called with the number of steps since its last call, and may panic. fail is called
	// with an error in the pattern, and must panic.
	spend func(steps int)
	fail  func(msg string)
}

// captured is a captured part of the subject. Its size may also be captureOpen or capturePosition.
type captured struct{ start, size int }

const (
	captureOpen     = -1
	capturePosition = -2

	maxCaptures     = 32
	maxPatternDepth = 200
	stepsAtOnce     = 256
	noMatch         = -1
)

func (m *matcher) step() {
	if m.steps++; m.steps >= stepsAtOnce {
		m.spend(m.steps)
		m.steps = 0
	}
}

// find returns the start and end of the first match at or after an offset, or noMatch.
func (m *matcher) find(from int) (start, end int) {
	p := 0
	anchored := strings.HasPrefix(m.pat, "^")
	if anchored {
		p = 1
	}
	for i := from; i <= len(m.src); i++ {
		m.caps = m.caps[:0]
		if e := m.match(i, p); e != noMatch {
			return i, e
		}
		if anchored {
			break
		}
	}
	return noMatch, noMatch
}

// match matches the pattern from p against the subject at s. It returns the end of the match, or
// noMatch.
func (m *matcher) match(s, p int) int {
	if m.depth++; m.depth > maxPatternDepth {
		m.fail("pattern too complex")
	}
	defer func() { m.depth-- }()
	for p < len(m.pat) {
		m.step()
		switch c := m.pat[p]; {
		case c == '(' && strings.HasPrefix(m.pat[p:], "()"):
			return m.open(s, p+2, capturePosition)
		case c == '(':
			return m.open(s, p+1, captureOpen)
		case c == ')':
			return m.close(s, p+1)
		case c == '$' && p+1 == len(m.pat):
			if s == len(m.src) {
				return s
			}
			return noMatch
		case c == '%' && p+1 < len(m.pat) && m.pat[p+1] == 'b':
			if s = m.balanced(s, p+2); s == noMatch {
				return noMatch
			}
			p += 4
			continue
		case c == '%' && p+1 < len(m.pat) && m.pat[p+1] == 'f':
			end := m.classEnd(p + 2)
			if end == p+2 || m.pat[p+2] != '[' {
				m.fail("missing '[' after '%f' in pattern")
			}
			if m.inSet(m.before(s), p+2, end-1) || !m.inSet(m.at(s), p+2, end-1) {
				return noMatch
			}
			p = end
			continue
		case c == '%' && p+1 < len(m.pat) && isDigit(m.pat[p+1]):
			if s = m.backReference(s, m.pat[p+1]); s == noMatch {
				return noMatch
			}
			p += 2
			continue
		}
		end := m.classEnd(p)
		quantifier := byte(0)
		if end < len(m.pat) {
			quantifier = m.pat[end]
		}
		switch quantifier {
		case '?':
			if m.one(s, p, end) {
				if e := m.match(s+1, end+1); e != noMatch {
					return e
				}
			}
			p = end + 1
		case '*':
			return m.longest(s, s, p, end)
		case '+':
			if !m.one(s, p, end) {
				return noMatch
			}
			return m.longest(s, s+1, p, end)
		case '-':
			return m.shortest(s, p, end)
		default:
			if !m.one(s, p, end) {
				return noMatch
			}
			s, p = s+1, end
		}
	}
	return s
}

// longest matches as many characters as possible, at least up to least, before the rest of the
// pattern.
func (m *matcher) longest(s, least, p, end int) int {
	e := least
	for m.one(e, p, end) {
		e++
	}
	for ; e >= least; e-- {
		if r := m.match(e, end+1); r != noMatch {
			return r
		}
	}
	return noMatch
}

// shortest matches as few characters as possible before the rest of the pattern.
func (m *matcher) shortest(s, p, end int) int {
	for {
		if e := m.match(s, end+1); e != noMatch {
			return e
		}
		if !m.one(s, p, end) {
			return noMatch
		}
		s++
	}
}

func (m *matcher) open(s, p, size int) int {
	if len(m.caps) >= maxCaptures {
		m.fail("too many captures")
	}
	n := len(m.caps)
	m.caps = append(m.caps, captured{s, size})
	e := m.match(s, p)
	if e == noMatch {
		m.caps = m.caps[:n]
	}
	return e
}

func (m *matcher) close(s, p int) int {
	for i := len(m.caps) - 1; i >= 0; i-- {
		if m.caps[i].size != captureOpen {
			continue
		}
		m.caps[i].size = s - m.caps[i].start
		e := m.match(s, p)
		if e == noMatch {
			m.caps[i].size = captureOpen
		}
		return e
	}
	m.fail("invalid pattern capture")
	return noMatch
}

// backReference matches the text of an earlier capture.
func (m *matcher) backReference(s int, digit byte) int {
	i := int(digit) - '1'
	if i < 0 || i >= len(m.caps) || m.caps[i].size == captureOpen {
		m.fail("invalid capture index")
	}
	if m.caps[i].size == capturePosition {
		return noMatch
	}
	text := m.src[m.caps[i].start : m.caps[i].start+m.caps[i].size]
	m.steps += len(text) / 64
	if !strings.HasPrefix(m.src[s:], text) {
		return noMatch
	}
	return s + len(text)
}

func (m *matcher) balanced(s, p int) int {
	if p+1 >= len(m.pat) {
		m.fail("unbalanced pattern")
	}
	opens, closes := m.pat[p], m.pat[p+1]
	if s >= len(m.src) || m.src[s] != opens {
		return noMatch
	}
	deep := 1
	for i := s + 1; i < len(m.src); i++ {
		m.step()
		switch m.src[i] {
		case closes:
			if deep--; deep == 0 {
				return i + 1
			}
		case opens:
			deep++
		}
	}
	return noMatch
}

// classEnd returns the end of the character class at p.
func (m *matcher) classEnd(p int) int {
	if p >= len(m.pat) {
		return p
	}
	c := m.pat[p]
	p++
	switch c {
	case '%':
		if p >= len(m.pat) {
			m.fail("malformed pattern (ends with '%')")
		}
		return p + 1
	case '[':
		if p < len(m.pat) && m.pat[p] == '^' {
			p++
		}
		for first := true; first || m.pat[p] != ']'; first = false {
			if p >= len(m.pat) {
				m.fail("malformed pattern (missing ']')")
			}
			if m.pat[p] == '%' {
				p++
			}
			if p++; p >= len(m.pat) {
				m.fail("malformed pattern (missing ']')")
			}
			m.step()
		}
		return p + 1
	}
	return p
}

// one reports whether the character at s is in the class from p to end.
func (m *matcher) one(s, p, end int) bool {
	if s >= len(m.src) {
		return false
	}
	m.step()
	c := m.src[s]
	switch m.pat[p] {
	case '.':
		return true
	case '%':
		return inClass(c, m.pat[p+1])
	case '[':
		return m.inSet(c, p, end-1)
	}
	return m.pat[p] == c
}

// inSet reports whether c is in the set whose '[' is at p and whose ']' is at last.
func (m *matcher) inSet(c byte, p, last int) bool {
	in := true
	if m.pat[p+1] == '^' {
		in = false
		p++
	}
	for p++; p < last; p++ {
		m.step()
		switch {
		case m.pat[p] == '%':
			p++
			if inClass(c, m.pat[p]) {
				return in
			}
		case p+2 < last && m.pat[p+1] == '-':
			if m.pat[p] <= c && c <= m.pat[p+2] {
				return in
			}
			p += 2
		case m.pat[p] == c:
			return in
		}
	}
	return !in
}

// at and before return a zero byte beyond the ends of the subject, as %f requires.
func (m *matcher) at(s int) byte {
	if s < len(m.src) {
		return m.src[s]
	}
	return 0
}

func (m *matcher) before(s int) byte {
	if s > 0 {
		return m.src[s-1]
	}
	return 0
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
func isLower(c byte) bool { return 'a' <= c && c <= 'z' }
func isUpper(c byte) bool { return 'A' <= c && c <= 'Z' }

// inClass reports whether c matches the class after a '%': a letter names a class, its capital the
// complement, and any other character stands for itself.
func inClass(c, class byte) bool {
	in := false
	switch class | 0x20 {
	case 'a':
		in = isLower(c) || isUpper(c)
	case 'c':
		in = c < 0x20 || c == 0x7f
	case 'd':
		in = isDigit(c)
	case 'l':
		in = isLower(c)
	case 'p':
		in = c > 0x20 && c < 0x7f && !isLower(c) && !isUpper(c) && !isDigit(c)
	case 's':
		in = c == ' ' || '\t' <= c && c <= '\r'
	case 'u':
		in = isUpper(c)
	case 'w':
		in = isLower(c) || isUpper(c) || isDigit(c)
	case 'x':
		in = isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'f'
	case 'z':
		in = c == 0
	default:
		return class == c
	}
	if !isLower(class) && !isUpper(class) {
		return class == c
	}
	return in == isLower(class)
}
