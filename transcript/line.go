package transcript

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"signalbox"
	"signalbox/transcript/internal/lines"
)

// maxDecoration is how many bytes of decoration before a name are ignored when looking for a near
// miss.
const maxDecoration = 32

type byteClass uint8

const (
	ordinary   byteClass = iota
	initial              // the first letter of a signal's name, in either case
	decoration           // what agents put before a signal: bullets, quotes, emphasis, emoji
	digit                // may start a numbered item
	brace                // may start an exit signal
)

// classes has the class of each byte at the start of a line.
var classes = func() (table [256]byteClass) {
	for c := 0x80; c <= 0xFF; c++ {
		table[c] = decoration
	}
	for _, c := range " \t*_~`>#-+.()[]\"'" {
		table[c] = decoration
	}
	for c := '0'; c <= '9'; c++ {
		table[c] = digit
	}
	for _, row := range lineRows {
		table[row.Text[0]] = initial
		table[row.Text[0]|0x20] = initial
	}
	table['{'] = brace
	return table
}()

// suspicious reports whether the first line of b may be a signal, a near miss, a fence, a
// delegation marker or the start of an object. It looks at the first bytes of the line only: a line
// end is an ordinary byte. Most lines of a transcript are dismissed by this check alone, so it must
// be fast.
func suspicious(b []byte) bool {
	if len(b) > 0 && classes[b[0]] == ordinary {
		return false
	}
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
		return i <= maxDecoration && startsWithName(b[i:])
	case brace:
		return i == 0
	case decoration:
		if len(b) > i+2 && b[i+1] == c && b[i+2] == c {
			if i <= 3 && (c == '`' || c == '~') || i == 0 && bytes.HasPrefix(b, []byte("---D")) {
				return true
			}
		}
	}
	i = decorationLen(b)
	return i < len(b) && classes[b[i]] == initial && startsWithName(b[i:])
}

// decorationLen returns how many bytes of decoration b starts with, at most maxDecoration:
// emphasis, bullets and quotes, and one number such as "12.".
func decorationLen(b []byte) int {
	i := 0
	for i < len(b) && i < maxDecoration && classes[b[i]] == decoration {
		i++
	}
	if i == len(b) || classes[b[i]] != digit {
		return i
	}
	end := i + 1
	for end < len(b) && end < maxDecoration && classes[b[end]] == digit {
		end++
	}
	if end == len(b) || b[end] != '.' && b[end] != ')' {
		return i
	}
	for end < len(b) && end < maxDecoration && classes[b[end]] == decoration {
		end++
	}
	return end
}

// startsWithName reports whether b starts with the name of a signal, in any case and with any
// separators.
func startsWithName(b []byte) bool {
	for _, name := range namesByInitial[b[0]|0x20] {
		if len(b) < 2 || b[1]|0x20 != name[1]|0x20 { // rules out most words
			continue
		}
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

// lineMatch is the parts of a line signal.
type lineMatch struct {
	row             signalbox.LineSignal
	argument, title []byte
	hasKey          bool // the line has the session's key, or the session has none
}

var lineRows = signalbox.LineSignals()

// lineNames are the texts in lineRows, up to the colon that some of them contain.
var lineNames = func() (names []string) {
	for _, row := range lineRows {
		name, _, _ := strings.Cut(row.Text, ":")
		names = append(names, name)
	}
	return names
}()

// lineSignal parses a line as a signal, without its position. refused is the reason why a signal
// does not count here, "" if it does. A line that is longer than maxLine is refused.
func lineSignal(line []byte, key string, refused signalbox.Reason) (signalbox.Signal, bool) {
	m, ok := matchLine(line, key)
	if !ok {
		return signalbox.Signal{}, false
	}
	sig := signalbox.Signal{
		Dialect: signalbox.DialectLine, Name: m.row.Name, Handler: m.row.Handler, Refused: refused,
		TaskID: lines.Valid(m.argument), Title: lines.Valid(m.title),
		Raw: lines.Valid(lines.TrimEnd(line)),
	}
	long := len(line) > maxLine
	if long {
		sig.Raw, sig.TaskID, sig.Title = lines.Excerpt(line), "", ""
	}
	switch {
	case refused != "":
	case long:
		sig.Refused = signalbox.ReasonTooLarge
		sig.Detail = fmt.Sprintf("a line signal is at most %d bytes", maxLine)
	case !m.hasKey:
		sig.Refused = signalbox.ReasonWrongKey
		sig.Detail = "the session's key is missing: append" + keyHint
	}
	return sig, true
}

// matchLine returns the parts of a line that is a signal.
func matchLine(line []byte, key string) (lineMatch, bool) {
	line = bytes.TrimRight(line, blanks+"\r")
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
		m := lineMatch{row: *row, hasKey: key == ""}
		if row.Argument == signalbox.NoArgument {
			if len(rest) == 0 {
				return m, true
			}
			word, after := token(rest)
			if key != "" && strings.IndexByte(blanks, rest[0]) >= 0 && len(after) == 0 &&
				bytes.HasPrefix(word, []byte("key:")) {
				m.hasKey = string(word[len("key:"):]) == key
				return m, true
			}
			continue
		}
		if len(rest) == 0 || rest[0] != ':' {
			continue
		}
		if m.argument, m.title, ok = argument(*row, rest[1:]); !ok {
			continue
		}
		if word, after := token(m.title); key != "" && string(word) == "key:"+key {
			m.hasKey, m.title = true, after
		}
		return m, true
	}
	return lineMatch{}, false
}

// blanks separate the words of a line signal. Other white space, such as a no-break space, looks
// the same and does not separate words for every reader, so that a line with it there is not a
// signal.
const blanks = " \t"

// escape starts a colour code. One that touches an argument, like the end of a tag, would become a
// part of the id.
const escape = 0x1b

// argument splits the text after a signal's colon into the argument and the title. It returns false
// if there is no valid argument.
func argument(row signalbox.LineSignal, b []byte) (arg, title []byte, ok bool) {
	arg, title = token(b)
	if row.Argument == signalbox.PathArgument && len(arg) > 0 && arg[0] == '"' {
		path, after, closed := bytes.Cut(bytes.TrimLeft(b, blanks)[1:], []byte{'"'})
		return path, bytes.Trim(after, blanks), closed && !lines.Blank(path)
	}
	return arg, title, len(arg) > 0 && !bytes.ContainsFunc(arg, unicode.IsSpace) &&
		bytes.IndexByte(arg, escape) < 0 && !bytes.Contains(arg, []byte("</"))
}

// token returns the first word of b and the rest.
func token(b []byte) (word, rest []byte) {
	b = bytes.TrimLeft(b, blanks)
	if i := bytes.IndexAny(b, blanks); i >= 0 {
		return b[:i], bytes.Trim(b[i:], blanks)
	}
	return b, nil
}

// nearMiss is a line that is almost a signal.
type nearMiss struct {
	row      signalbox.LineSignal
	argument []byte
	why      string
}

// nearMissSignal parses a line that resembles a signal as a refused signal, without its position.
func nearMissSignal(line []byte, key string) (signalbox.Signal, bool) {
	miss, ok := matchNearMiss(line)
	if !ok {
		return signalbox.Signal{}, false
	}
	return miss.signal(line, key), true
}

// signal returns the near miss, which is in a line, as a refused signal.
func (m nearMiss) signal(line []byte, key string) signalbox.Signal {
	return signalbox.Signal{
		Dialect: signalbox.DialectLine, Name: m.row.Name, Handler: m.row.Handler,
		TaskID: lines.Valid(m.argument),
		Raw:    lines.Valid(lines.TrimEnd(line)), Refused: signalbox.ReasonNearMiss,
		Detail: m.detail(key),
	}
}

// matchNearMiss returns the signal that a line would be without decoration before it, or with
// another case, other separators, another argument or other text after it.
func matchNearMiss(line []byte) (nearMiss, bool) {
	line = bytes.TrimRight(line, blanks+"\r")
	start := decorationLen(line)
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
		colon := startsWithColon(after)
		// Prose may contain a name. A near miss is in capitals, or has an underscore or a colon.
		if !colon && !bytes.Equal(written, bytes.ToUpper(written)) &&
			bytes.IndexByte(written, '_') < 0 {
			continue
		}
		word := nearArgument(after)
		if verdict, ok := strings.CutPrefix(row.Text, name+": "); ok &&
			!hasVerdict(string(after), verdict) {
			continue
		}
		miss := nearMiss{row: row, why: whyNear(line[:start], string(written) == name, colon, row,
			word, rest)}
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

// cutName splits b after a name written in any case, with underscores, spaces or dashes between its
// words.
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

// nearArgument guesses the argument of a near miss from the text after its name.
func nearArgument(after []byte) []byte {
	word := bytes.TrimLeftFunc(after, func(r rune) bool {
		return unicode.IsSpace(r) || strings.ContainsRune("=-–—>*_`\"'“‘«(;"+colons, r)
	})
	if i := bytes.IndexFunc(word,
		func(r rune) bool { return unicode.IsSpace(r) || r == escape || r == '<' }); i >= 0 {
		word = word[:i]
	}
	return bytes.TrimRight(word, "*_`~\"'”’».,;!)]}$。"+colons)
}

// colons are the colon and the characters that look like one.
const colons = ":：﹕︓∶꞉։׃"

func startsWithColon(b []byte) bool {
	r, _ := utf8.DecodeRune(b)
	return strings.ContainsRune(colons, r)
}

// nearPath is nearArgument for a path, which may contain spaces if it is quoted.
func nearPath(after []byte) []byte {
	if _, quoted, ok := bytes.Cut(after, []byte{'"'}); ok {
		path, _, _ := bytes.Cut(quoted, []byte{'"'})
		return bytes.TrimSpace(path)
	}
	return nearArgument(after)
}

// belowLine names the field for what agents write after signals that must be alone on their line.
// Many add the id of the task, as other signals have it.
var belowLine = map[string]string{signalbox.NameDivineClarification: "Question",
	signalbox.NameExpertRequest:       "Target Agent",
	signalbox.NameRemediationComplete: "Issues Fixed"}

// whyNear returns how a near miss differs from a signal. rest is the text after its name.
func whyNear(decoration []byte, exact, colon bool, row signalbox.LineSignal, word,
	rest []byte) string {
	switch {
	case bytes.ContainsAny(decoration, "*_"):
		return "emphasis or a bullet before it"
	case bytes.ContainsAny(decoration, "-+0123456789"):
		return "a bullet before it"
	case bytes.ContainsAny(decoration, "`"):
		return "backquotes around it"
	case len(lines.TrimEnd(decoration)) > 0:
		return "other characters before it"
	case len(decoration) > 0:
		return "indented"
	case !exact:
		return "other spelling"
	case hasOtherSpace(rest):
		return "white space that is not a space or tab"
	case belowLine[row.Name] != "":
		return "text after the signal, which must be alone on its line, with `" +
			belowLine[row.Name] + ": …` on the lines below"
	case row.Argument == signalbox.NoArgument:
		return "text after the signal, or another case"
	case len(word) == 0:
		return "no argument"
	case !colon:
		return "no colon after the name"
	case bytes.IndexByte(rest, ':') < 0:
		return "a character that looks like a colon"
	}
	return "not in the form of the signal"
}

// hasOtherSpace reports whether the text after a name has white space, up to the end of its first
// word, that is not a blank.
func hasOtherSpace(rest []byte) bool {
	for _, r := range string(bytes.TrimLeft(rest, ":"+blanks)) {
		if unicode.IsSpace(r) {
			return !strings.ContainsRune(blanks, r)
		}
	}
	return false
}

// sendBare separates how a near miss differs from a signal and the line to send instead.
const sendBare = ": send the line bare, at column 0: "

// keyHint stands for the session's key, which a detail does not reveal.
const keyHint = " key:<key>"

// missingArgument says what belongs where a near miss has no argument.
var missingArgument = map[signalbox.Argument]string{
	signalbox.NameArgument: "the name of the expert",
	signalbox.PathArgument: "the path of the file"}

// detail returns how the line differs from a signal, and the line to send instead.
func (m nearMiss) detail(key string) string {
	line, arg := m.row.Text, lines.Valid(m.argument)
	switch {
	case m.row.Argument == signalbox.NoArgument:
	case arg == "" && m.row.Argument == signalbox.TaskArgument: // nameWork replaces it
		line += ": and the id of the task"
	case arg == "": // in words that are not a signal
		line += ", a colon and " + missingArgument[m.row.Argument]
	case strings.ContainsFunc(arg, unicode.IsSpace):
		line += `: "` + arg + `"`
	default:
		line += ": " + arg
	}
	if key != "" {
		line += keyHint
	}
	return m.why + sendBare + line
}
