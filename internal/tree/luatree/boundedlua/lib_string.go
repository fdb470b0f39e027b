package boundedlua

import (
	"strings"

	lua "github.com/yuin/gopher-lua"
)

func (s *Runtime) stringLibrary() map[string]lua.LGFunction {
	return map[string]lua.LGFunction{
		"byte": s.strByte, "char": s.strChar, "find": s.strFind, "format": s.strFormat,
		"gmatch": s.strGmatch,
		"gsub":   s.strGsub, "lower": s.swapCase(isUpper), "match": s.strMatch, "rep": s.strRep,
		"upper": s.swapCase(isLower),
	}
}

// span converts the arguments first and last, which count from the end if negative, to
// offsets.
func span(size, first, last int) (int, int) {
	if first < 0 {
		first = size + first + 1
	}
	if last < 0 {
		last = size + last + 1
	}
	first, last = max(first, 1)-1, min(last, size)
	if first >= last {
		return 0, 0
	}
	return first, last
}

func (s *Runtime) strByte(L *lua.LState) int {
	str := L.CheckString(1)
	first := s.integerOr(L, 2, 1)
	from, to := span(len(str), first, s.integerOr(L, 3, first))
	if to-from > maxResults {
		s.Raise(L, "string slice too long")
	}
	s.Spend(L, (to-from)/8)
	for _, c := range []byte(str[from:to]) {
		L.Push(lua.LNumber(c))
	}
	return to - from
}

func (s *Runtime) strChar(L *lua.LState) int {
	n := L.GetTop()
	s.checkString(L, n)
	b := make([]byte, n)
	for i := range b {
		c := s.integer(L, i+1)
		if c < 0 || c > 255 {
			L.ArgError(i+1, "invalid value")
		}
		b[i] = byte(c)
	}
	L.Push(lua.LString(b))
	return 1
}

// swapCase returns a function that changes the case of the letters for which in is true.
func (s *Runtime) swapCase(in func(byte) bool) lua.LGFunction {
	return func(L *lua.LState) int {
		str := L.CheckString(1)
		s.checkString(L, len(str))
		b := []byte(str)
		for i, c := range b {
			if in(c) {
				b[i] = c ^ ('a' - 'A')
			}
		}
		L.Push(lua.LString(b))
		return 1
	}
}

func (s *Runtime) strRep(L *lua.LState) int {
	str, n := L.CheckString(1), s.integer(L, 2)
	if n <= 0 || str == "" {
		L.Push(lua.LString(""))
		return 1
	}
	s.checkString(L, len(str)*min(n, s.limits.StringSize/len(str)+1))
	L.Push(lua.LString(strings.Repeat(str, n)))
	return 1
}

func (s *Runtime) matcher(L *lua.LState, src, pat string) *matcher {
	return &matcher{
		src: src, pat: pat,
		spend: func(steps int) { s.Spend(L, steps/4) },
		fail:  func(msg string) { s.Raise(L, "%s", msg) },
	}
}

// capture returns capture i. Without captures, capture 0 is the whole match.
func (s *Runtime) capture(m *matcher, i, start, end int) lua.LValue {
	if i >= len(m.caps) {
		if i != 0 {
			m.fail("invalid capture index")
		}
		return lua.LString(m.src[start:end])
	}
	switch c := m.caps[i]; c.size {
	case capturePosition:
		return lua.LNumber(c.start + 1)
	case captureOpen:
		m.fail("unfinished capture")
		return lua.LNil
	default:
		return lua.LString(m.src[c.start : c.start+c.size])
	}
}

// pushCaptures pushes all captures, or the whole match if the pattern has none.
func (s *Runtime) pushCaptures(L *lua.LState, m *matcher, start, end int) int {
	n := max(len(m.caps), 1)
	for i := range n {
		L.Push(s.capture(m, i, start, end))
	}
	return n
}

func (s *Runtime) strFind(L *lua.LState) int  { return s.search(L, true) }
func (s *Runtime) strMatch(L *lua.LState) int { return s.search(L, false) }

func (s *Runtime) search(L *lua.LState, find bool) int {
	str, pat := L.CheckString(1), L.CheckString(2)
	from := s.integerOr(L, 3, 1)
	if from < 0 {
		from = len(str) + from + 1
	}
	from = min(max(from, 1)-1, len(str))
	if find && (lua.LVAsBool(L.Get(4)) || !strings.ContainsAny(pat, "^$*+?.([%-")) {
		s.Spend(L, len(str)/64)
		i := strings.Index(str[from:], pat)
		s.Check(L)
		if i < 0 {
			L.Push(lua.LNil)
			return 1
		}
		L.Push(lua.LNumber(from + i + 1))
		L.Push(lua.LNumber(from + i + len(pat)))
		return 2
	}
	m := s.matcher(L, str, pat)
	start, end := m.find(from)
	m.spend(m.steps)
	if start == noMatch {
		L.Push(lua.LNil)
		return 1
	}
	if !find {
		return s.pushCaptures(L, m, start, end)
	}
	L.Push(lua.LNumber(start + 1))
	L.Push(lua.LNumber(end))
	if len(m.caps) == 0 {
		return 2
	}
	return 2 + s.pushCaptures(L, m, start, end)
}

// strGmatch returns an iterator. It has state, so a call must not use one that was created while
// loading.
func (s *Runtime) strGmatch(L *lua.LState) int {
	str, pat := L.CheckString(1), L.CheckString(2)
	sealed, from := s.sealed, 0
	L.Push(L.NewFunction(func(L *lua.LState) int {
		if s.sealed != sealed {
			s.Raise(L, "an iterator that was created while loading is used in a call: %s",
				keepsNothing)
		}
		m := s.matcher(L, str, pat)
		for ; from <= len(str); from++ {
			m.caps = m.caps[:0]
			end := m.match(from, 0)
			if end == noMatch {
				continue
			}
			start := from
			from = end
			if start == end {
				from++
			}
			m.spend(m.steps)
			return s.pushCaptures(L, m, start, end)
		}
		m.spend(m.steps)
		L.Push(lua.LNil)
		return 1
	}))
	return 1
}

func (s *Runtime) strGsub(L *lua.LState) int {
	str, pat := L.CheckString(1), L.CheckString(2)
	repl := L.Get(3)
	switch repl.(type) {
	case lua.LString, lua.LNumber, *lua.LTable, *lua.LFunction:
	default:
		L.ArgError(3, "string, function or table expected")
	}
	limit := s.integerOr(L, 4, len(str)+1)
	m := s.matcher(L, str, pat)
	p, anchored := 0, strings.HasPrefix(pat, "^")
	if anchored {
		p = 1
	}
	var out strings.Builder
	count, from := 0, 0
	for count < limit {
		m.caps = m.caps[:0]
		end := m.match(from, p)
		if end != noMatch {
			count++
			s.Spend(L, 2)
			s.grow(L, &out, s.replacement(L, m, repl, from, end))
		}
		switch {
		case end != noMatch && end > from:
			from = end
		case from < len(str):
			s.grow(L, &out, str[from:from+1])
			from++
		default:
			from++
		}
		if from > len(str) || anchored {
			break
		}
	}
	m.spend(m.steps)
	if from < len(str) {
		s.grow(L, &out, str[from:])
	}
	s.checkString(L, out.Len())
	L.Push(lua.LString(out.String()))
	L.Push(lua.LNumber(count))
	return 2
}

// grow appends a piece, and raises an error if the string becomes too large.
func (s *Runtime) grow(L *lua.LState, out *strings.Builder, piece string) {
	if out.Len()+len(piece) > s.limits.StringSize {
		s.checkString(L, s.limits.StringSize+1)
	}
	out.WriteString(piece)
}

// replacement returns the replacement of a match.
func (s *Runtime) replacement(L *lua.LState, m *matcher, repl lua.LValue, start, end int) string {
	var v lua.LValue
	switch r := repl.(type) {
	case *lua.LTable:
		v = L.GetTable(r, s.capture(m, 0, start, end))
	case *lua.LFunction:
		L.Push(r)
		n := s.pushCaptures(L, m, start, end)
		L.Call(n, 1)
		v = L.Get(-1)
		L.Pop(1)
	default:
		return s.expand(L, m, lua.LVAsString(r), start, end)
	}
	switch v := v.(type) {
	case lua.LString:
		return string(v)
	case lua.LNumber:
		return NumberString(v)
	}
	if lua.LVAsBool(v) {
		s.Raise(L, "invalid replacement value (a %s)", v.Type())
	}
	return m.src[start:end]
}

// expand replaces %0 to %9 with captures.
func (s *Runtime) expand(L *lua.LState, m *matcher, repl string, start, end int) string {
	if !strings.Contains(repl, "%") {
		return repl
	}
	var out strings.Builder
	for i := 0; i < len(repl); i++ {
		m.step()
		if repl[i] != '%' || i+1 == len(repl) {
			out.WriteByte(repl[i])
			continue
		}
		i++
		switch c := repl[i]; {
		case c == '0':
			s.grow(L, &out, m.src[start:end])
		case isDigit(c):
			s.grow(L, &out, s.Text(s.capture(m, int(c)-'1', start, end)))
		default:
			out.WriteByte(c)
		}
	}
	return out.String()
}
