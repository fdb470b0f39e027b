package transcript

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"

	"signalbox"
	"signalbox/transcript/internal/lines"
)

// maxDecoration is how many bytes of marks before a name are looked past when a near miss is looked for.
const maxDecoration = 32

type byteClass uint8

const (
	ordinary byteClass = iota
	initial            // a letter with which a signal's name begins, in either case
	mark               // what agents put before a signal: bullets, quotes, emphasis, emoji
	digit              // may begin a numbered item
	brace              // may begin an exit signal
)

// classes tells of each byte what it may be at the start of a line.
var classes = func() (table [256]byteClass) {
	for c := 0x80; c <= 0xFF; c++ {
		table[c] = mark
	}
	for _, c := range " \t*_~`>#-+.()[]\"'" {
		table[c] = mark
	}
	for c := '0'; c <= '9'; c++ {
		table[c] = digit
	}
	for _, row := range signalbox.LineSignals() {
		table[row.Text[0]] = initial
		table[row.Text[0]|0x20] = initial
	}
	table['{'] = brace
	return table
}()

// suspicious reports whether a line may be a signal, a near miss, a fence, a delegation marker or the start of
// an object. It looks at the line's first bytes only, whether or not more lines follow in b: a line end is an
// ordinary byte. It is the one test that most lines of a transcript get.
func suspicious(b []byte) bool {
	if len(b) < 4 {
		return suspiciousMarks(b)
	}
	switch classes[b[0]] {
	case ordinary:
		return false
	case initial:
		return beginsName(b)
	}
	return suspiciousMarks(b)
}

// suspiciousMarks is suspicious for a line that begins with anything but a letter.
func suspiciousMarks(b []byte) bool {
	i := 0
	for i < len(b) && b[i] == ' ' {
		i++
	}
	if i == len(b) {
		return false
	}
	switch c := b[i]; classes[c] {
	case ordinary:
		return false
	case initial:
		return i <= maxDecoration && beginsName(b[i:])
	case brace:
		return i == 0
	case mark:
		if len(b) > i+2 && b[i+1] == c && b[i+2] == c {
			if i <= 3 && (c == '`' || c == '~') || i == 0 && c == '-' && bytes.HasPrefix(b, []byte("---D")) {
				return true
			}
		}
	}
	i = skipMarks(b)
	return i < len(b) && classes[b[i]] == initial && beginsName(b[i:])
}

// skipMarks returns how many bytes of marks b begins with, at most maxDecoration: emphasis, bullets and quotes, and one
// number such as "2.".
func skipMarks(b []byte) int {
	i := 0
	for i < len(b) && i < maxDecoration && classes[b[i]] == mark {
		i++
	}
	if i == len(b) || classes[b[i]] != digit {
		return i
	}
	end := i + 1
	if end == len(b) || b[end] != '.' && b[end] != ')' {
		return i
	}
	for end < len(b) && end < maxDecoration && classes[b[end]] == mark {
		end++
	}
	return end
}

// beginsName reports whether b begins with the name of a signal in any case and with any separators.
func beginsName(b []byte) bool {
	for _, name := range namesByInitial[b[0]|0x20] {
		if _, _, ok := cutName(b, name); ok {
			return true
		}
	}
	return false
}

// namesByInitial has the names of the line signals by their first letter, in lower case.
var namesByInitial = func() (names [256][]string) {
	for _, name := range lineNames {
		names[name[0]|0x20] = append(names[name[0]|0x20], name)
	}
	return names
}()

// lineMatch is a line signal as written.
type lineMatch struct {
	row             signalbox.LineSignal
	argument, title []byte
	keyed           bool // it carries the session's key, or the session has none
}

var lineRows = signalbox.LineSignals()

// lineNames are the names in lineRows up to the colon that some of them hold.
var lineNames = func() (names []string) {
	for _, row := range lineRows {
		name, _, _ := strings.Cut(row.Text, ":")
		names = append(names, name)
	}
	return names
}()

// matchLine recognises a line that is a signal.
func matchLine(line []byte, key string) (lineMatch, bool) {
	line = bytes.TrimRight(line, " \t\r")
	if len(line) == 0 {
		return lineMatch{}, false
	}
	for i := range lineRows {
		row := &lineRows[i]
		if row.Text[0] != line[0] {
			continue
		}
		rest, ok := bytes.CutPrefix(line, []byte(row.Text))
		if !ok {
			continue
		}
		m := lineMatch{row: *row, keyed: key == ""}
		if row.Argument == signalbox.NoArgument {
			if len(rest) == 0 {
				return m, true
			}
			word, after := token(rest)
			if key != "" && lines.IsSpace(rest[0]) && len(after) == 0 && bytes.HasPrefix(word, []byte("key:")) {
				m.keyed = string(word[len("key:"):]) == key
				return m, true
			}
			continue
		}
		if len(rest) == 0 || rest[0] != ':' {
			continue
		}
		if m.argument, m.title = argument(*row, rest[1:]); len(m.argument) == 0 {
			continue
		}
		if word, after := token(m.title); key != "" && string(word) == "key:"+key {
			m.keyed, m.title = true, after
		}
		return m, true
	}
	return lineMatch{}, false
}

// argument takes a signal's argument off the text after its colon.
func argument(row signalbox.LineSignal, b []byte) (arg, title []byte) {
	arg, title = token(b)
	if row.Argument == signalbox.PathArgument && len(arg) > 0 && arg[0] == '"' {
		path, after, closed := bytes.Cut(bytes.TrimLeftFunc(b, unicode.IsSpace)[1:], []byte{'"'})
		if !closed || lines.Blank(path) {
			return nil, nil
		}
		return path, bytes.TrimSpace(after)
	}
	return arg, title
}

// token returns the first word of b and what follows it.
func token(b []byte) (word, rest []byte) {
	b = bytes.TrimLeftFunc(b, unicode.IsSpace)
	if i := bytes.IndexFunc(b, unicode.IsSpace); i >= 0 {
		return b[:i], bytes.TrimSpace(b[i:])
	}
	return b, nil
}

// nearMiss is a line that is almost a signal.
type nearMiss struct {
	row      signalbox.LineSignal
	argument []byte
	why      string
}

// matchNearMiss recognises a line that begins with marks, or is a signal but for its case, its separators, its
// argument or what follows it.
func matchNearMiss(line []byte) (nearMiss, bool) {
	line = lines.TrimEnd(line)
	start := skipMarks(line)
	if start == len(line) || classes[line[start]] != initial {
		return nearMiss{}, false
	}
	for i, name := range lineNames {
		if name[0]|0x20 != line[start]|0x20 {
			continue
		}
		row := lineRows[i]
		written, rest, ok := cutName(line[start:], name)
		if !ok {
			continue
		}
		after := bytes.TrimLeft(rest, " \t*_`\"'")
		colon := len(after) > 0 && after[0] == ':'
		// A name in prose is no near miss: it must be written in capitals, or joined, or have a colon.
		if !colon && !bytes.Equal(written, bytes.ToUpper(written)) && bytes.IndexByte(written, '_') < 0 {
			continue
		}
		word := nearArgument(after)
		if verdict, ok := strings.CutPrefix(row.Text, name+": "); ok && !strings.EqualFold(string(word), verdict) {
			continue
		}
		miss := nearMiss{row: row, why: whyNear(line[:start], string(written) == name, colon, row, word)}
		switch row.Argument {
		case signalbox.NoArgument:
		case signalbox.PathArgument:
			miss.argument = nearPath(after)
		default:
			miss.argument = word
		}
		return miss, true
	}
	return nearMiss{}, false
}

// cutName takes a name off b, written in any case and with underscores, spaces or dashes between its words.
func cutName(b []byte, name string) (written, rest []byte, ok bool) {
	if len(b) < len(name) {
		return nil, nil, false
	}
	for i := range len(name) {
		c, want := b[i], name[i]
		switch {
		case want == '_' || want == ' ':
			if c != '_' && c != ' ' && c != '-' {
				return nil, nil, false
			}
		case c != want && c != want|0x20:
			return nil, nil, false
		}
	}
	written, rest = b[:len(name)], b[len(name):]
	if after := bytes.TrimLeft(rest, "_"); len(after) > 0 && isWordByte(after[0]) {
		return nil, nil, false
	}
	return written, rest, true
}

func isWordByte(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'
}

// nearArgument guesses the argument of a near miss from what follows the name.
func nearArgument(after []byte) []byte {
	word, _ := token(bytes.TrimLeft(after, " \t\u00a0:=-–—>*_`\"'“‘«"))
	return bytes.TrimRight(word, "*_`\"'”’».,:;!")
}

// nearPath is nearArgument for a path, which may hold spaces if it is quoted.
func nearPath(after []byte) []byte {
	if _, quoted, ok := bytes.Cut(after, []byte{'"'}); ok {
		path, _, _ := bytes.Cut(quoted, []byte{'"'})
		return bytes.TrimSpace(path)
	}
	return nearArgument(after)
}

func whyNear(marks []byte, exact, colon bool, row signalbox.LineSignal, word []byte) string {
	switch {
	case bytes.ContainsAny(marks, "*_"):
		return "emphasis or a bullet before it"
	case bytes.ContainsAny(marks, "-+0123456789"):
		return "a bullet before it"
	case bytes.ContainsAny(marks, "`"):
		return "code marks around it"
	case len(lines.TrimEnd(marks)) > 0:
		return "marks before it"
	case len(marks) > 0:
		return "indented"
	case !exact:
		return "not spelled as the signal"
	case row.Argument == signalbox.NoArgument:
		return "the line has more than the signal, or another case"
	case len(word) == 0:
		return "no argument"
	case !colon:
		return "no colon after the name"
	}
	return "not in the signal's form"
}

// detail says what to send instead.
func (m nearMiss) detail(key string) string {
	line := m.row.Text
	if m.row.Argument != signalbox.NoArgument {
		arg := lines.Valid(m.argument)
		if arg == "" {
			arg = map[signalbox.Argument]string{signalbox.TaskArgument: "<task id>",
				signalbox.NameArgument: "<name>", signalbox.PathArgument: "<path>"}[m.row.Argument]
		}
		if strings.ContainsFunc(arg, unicode.IsSpace) && m.row.Argument == signalbox.PathArgument {
			arg = `"` + arg + `"`
		}
		line += ": " + arg
	}
	if key != "" {
		line += " key:<key>"
	}
	return fmt.Sprintf("%s: send the line bare, at column 0: %s", m.why, line)
}
