package boundedlua

import (
	"fmt"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// strFormat implements string.format. As in Lua, a width or a precision has at most two digits,
// which bounds the size of the result.
func (s *Runtime) strFormat(L *lua.LState) int {
	format := L.CheckString(1)
	s.Spend(L, len(format)/16)
	var out strings.Builder
	arg := 1
	for {
		text, rest, found := strings.Cut(format, "%")
		s.grow(L, &out, text)
		if !found {
			break
		}
		if strings.HasPrefix(rest, "%") {
			s.grow(L, &out, "%")
			format = rest[1:]
			continue
		}
		d, rest := s.directive(L, rest)
		arg++
		s.Spend(L, 1)
		s.grow(L, &out, s.formatted(L, d, arg))
		format = rest
	}
	s.checkString(L, out.Len())
	L.Push(lua.LString(out.String()))
	return 1
}

// directive is a parsed directive: "%-5.2f" has the flags "-", the size "5.2" and the verb 'f'.
type directive struct {
	flags, size string
	verb        byte
}

func (s *Runtime) directive(L *lua.LState, text string) (directive, string) {
	i := 0
	for i < len(text) && strings.IndexByte("-+ #0", text[i]) >= 0 {
		i++
	}
	d := directive{flags: text[:i]}
	from := i
	digits := func() {
		for start := i; i < len(text) && isDigit(text[i]); i++ {
			if i-start >= 2 {
				s.Raise(L, "invalid format (width or precision too long)")
			}
		}
	}
	if i > 5 {
		s.Raise(L, "invalid format (repeated flags)")
	}
	digits()
	if i < len(text) && text[i] == '.' {
		i++
		digits()
	}
	d.size = text[from:i]
	if i == len(text) {
		s.Raise(L, "invalid option '%%' to 'format'")
	}
	d.verb = text[i]
	return d, text[i+1:]
}

func (s *Runtime) formatted(L *lua.LState, d directive, arg int) string {
	goFormat := "%" + d.flags + d.size
	switch d.verb {
	case 'c':
		return fmt.Sprintf(goFormat+"s", string([]byte{byte(s.integer(L, arg))}))
	case 'd', 'i':
		return fmt.Sprintf(goFormat+"d", s.integer(L, arg))
	case 'u', 'o', 'x', 'X':
		verb := strings.ReplaceAll(string(d.verb), "u", "d")
		return fmt.Sprintf(goFormat+verb, uint64(int64(s.integer(L, arg))))
	case 'e', 'E', 'f', 'F', 'g', 'G':
		if (d.verb == 'g' || d.verb == 'G') && !strings.Contains(d.size, ".") {
			goFormat += ".6"
		}
		return formatInfinite(fmt.Sprintf(goFormat+string(d.verb), float64(L.CheckNumber(arg))))
	case 'q':
		return quote(L.CheckString(arg))
	case 's':
		text := s.Text(L.CheckAny(arg))
		if d.flags == "" && d.size == "" {
			return text
		}
		s.checkString(L, len(text)+100)
		return pad(text, d)
	}
	s.Raise(L, "invalid option '%%%s' to 'format'", Clean(string([]byte{d.verb})))
	return ""
}

// formatInfinite replaces Go's names for infinity and not-a-number with those of C.
func formatInfinite(text string) string {
	if !strings.ContainsAny(text, "IN") {
		return text
	}
	sign := ""
	if strings.Contains(text, "-Inf") {
		sign = "-"
	}
	word := "inf"
	if strings.Contains(text, "NaN") {
		word = "nan"
	}
	return fmt.Sprintf("%*s", len(text), sign+word)
}

// pad pads and truncates a string. It counts bytes, where Go counts characters.
func pad(text string, d directive) string {
	width, precision, cut := strings.Cut(d.size, ".")
	if cut {
		text = text[:min(len(text), atoi(precision))]
	}
	fill := strings.Repeat(" ", max(atoi(width)-len(text), 0))
	if strings.Contains(d.flags, "-") {
		return text + fill
	}
	return fill + text
}

func atoi(digits string) int {
	n := 0
	for _, c := range []byte(digits) {
		n = 10*n + int(c-'0')
	}
	return n
}

// quote formats a string as a Lua literal.
func quote(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range []byte(text) {
		switch c {
		case '"', '\\', '\n':
			b.WriteByte('\\')
			b.WriteByte(c)
		case '\r':
			b.WriteString(`\r`)
		case 0:
			b.WriteString(`\000`)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}
