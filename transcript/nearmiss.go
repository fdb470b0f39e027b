package transcript

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode"
	"unicode/utf8"

	"signalbox/internal/lazy"

	"signalbox"
)

// NearMiss returns the last text that is almost a signal among what Options.Excerpt keeps of the
// end of the agent's own text. It is a refused signal whose Detail ends with the line to send. The
// text may also be inside a sentence, a table or tags, or have a misspelled name. NearMiss returns
// only signals that the role may send, and names the work in the line. An empty role may send
// everything; an empty work is not known.
//
// Use it if Resolve returns the unknown signal without a Detail. Push and Close do not report these
// near misses, because too much ordinary text mentions signals.
func (s *Scanner) NearMiss(role signalbox.Role, work string) (signalbox.Signal, bool) {
	_, tail := s.Excerpt()
	if s.text.region.isThinking() {
		return signalbox.Signal{}, false
	}
	// What comes before the end of what the agent thought is not advised, also if it was said.
	if said := s.text.lines.offset - s.text.thoughtUntil; s.text.thoughtUntil > 0 &&
		said < int64(len(tail)) {
		tail = strings.Repeat(" ", len(tail)-int(said)) + tail[len(tail)-int(said):]
	}
	f := nearMissFinder{role: role, work: work, key: s.text.key}
	sig, ok := f.find([]byte(tail))
	if ok {
		sig.Line = s.text.lines.number - strings.Count(tail[sig.Offset:], "\n")
		sig.Offset += s.text.lines.offset - int64(len(tail))
	}
	return sig, ok
}

// nearMissFinder finds what was meant as a signal in a whole text.
type nearMissFinder struct {
	role signalbox.Role
	work string
	key  string
}

// find returns the last near miss. Its offset is that in the text.
func (f *nearMissFinder) find(text []byte) (last signalbox.Signal, found bool) {
	var r region
	for at := 0; at < len(text); {
		line := text[at:]
		if n := bytes.IndexByte(line, '\n'); n >= 0 {
			line = line[:n+1]
		}
		start := at
		at += len(line)
		end := r.advance(bytes.TrimSuffix(line, []byte("\n"))) != noBoundary
		switch refused := r.refusal(); {
		case refused != "" && refused != signalbox.ReasonFenced:
			clear(line) // so that there is no exit signal in it
		case end:
		default:
			if sig, ok := f.findInLine(line, refused != ""); ok {
				last, found = sig, true
				last.Offset = int64(start)
			}
		}
	}
	if exit, ok := f.findExit(text); ok && (!found || exit.Offset > last.Offset) {
		return exit, true
	}
	return last, found
}

// findInLine returns the last near miss in a line.
func (f *nearMissFinder) findInLine(line []byte, fenced bool) (last signalbox.Signal, found bool) {
	for i, part := range bytes.Split(bytes.TrimRight(line, "\r\n"), []byte{'\r'}) {
		why := ""
		switch {
		case i > 0:
			why = "after a carriage return"
		case fenced:
			why = "inside a code block"
		}
		miss, ok := f.match(part, why)
		if ok && (f.role == "" || f.role.MaySend(miss.row.Name)) {
			last, found = miss.signal(part, f.key), true
			nameWork(&last, f.work)
		}
	}
	return last, found
}

// match returns the signal that a line was meant to be. why is what is wrong with the place of the
// line, "" if nothing is.
func (f *nearMissFinder) match(line []byte, why string) (nearMiss, bool) {
	if m, ok := matchLine(line, ""); ok {
		// Without a reason it either counts or was refused already.
		if f.work != "" && m.row.Argument == signalbox.TaskArgument &&
			string(m.argument) != f.work {
			why = "not about " + f.work
		}
		return nearMiss{m.row, m.argument, why}, why != ""
	}
	text := cleanText(string(line))
	var found nearMiss
	for i, cell := range strings.Split(text, "|") {
		miss, ok := f.matchText(cell)
		if !ok {
			continue
		}
		if found.why != "" && found.row.Name != miss.row.Name {
			return nearMiss{}, false // it speaks about signals
		}
		found = miss
		switch {
		case why != "":
			found.why = why
		case i > 0:
			found.why = "in a table"
		case bytes.IndexByte(line, escape) >= 0:
			found.why = "colour codes in it"
		case tags().Match(line):
			found.why = "tags around it"
		}
	}
	return found, found.why != ""
}

// Text that agents and terminals put around a signal.
var (
	escapes = lazy.Regexp(`\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|[^\[\]])`)
	tags    = lazy.Regexp(`</?[A-Za-z][^<>_]*>`) // an underscore may belong to a signal
	words   = lazy.Regexp(`[\pL\pN_]+`)
)

// cleanText returns a line without colour codes, tags and invisible characters, and with ASCII
// characters for those that look like them.
func cleanText(line string) string {
	line = tags().ReplaceAllString(escapes().ReplaceAllString(line, ""), " ")
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		switch {
		case '！' <= r && r <= '～':
			return r - '！' + '!'
		case strings.ContainsRune(colons, r):
			return ':'
		case '‐' <= r && r <= '–':
			return '-'
		case unicode.IsSpace(r):
			return ' '
		case unicode.In(r, unicode.Cf, unicode.Cc):
			return -1
		}
		return r
	}, line))
}

// matchText is like match for text that was cleaned.
func (f *nearMissFinder) matchText(text string) (nearMiss, bool) {
	text = strings.TrimSpace(text)
	if miss, ok := matchNearMiss([]byte(text)); ok {
		return miss, true
	}
	// At the start of a line the name may be in several words.
	start := text[decorationLen([]byte(text)):]
	if head, rest, ok := strings.Cut(start, ":"); ok {
		row, exact, ok := rowFor(head, rest)
		if ok && (exact || head == strings.ToUpper(head) || strings.Contains(head, "_")) {
			return nearMiss{row, argumentOf(row, rest), "misspelled"}, true
		}
	}
	return f.matchInside(text)
}

// matchInside finds the name of a signal in capitals, with an underscore, in a text. A colon, the
// id of the work or the end of the text must follow, unless the signal is a whole line. If the
// text names several signals, it speaks about them.
func (f *nearMissFinder) matchInside(text string) (found nearMiss, ok bool) {
	for _, at := range words().FindAllStringIndex(text, -1) {
		name := strings.Trim(strings.TrimSuffix(text[at[0]:at[1]], "_"+f.work), "_")
		if !strings.Contains(name, "_") || name != strings.ToUpper(name) {
			continue
		}
		rest := text[at[1]:min(len(text), at[1]+maxNear)]
		row, exact, known := rowFor(name, rest)
		switch {
		case !known, row.Argument != signalbox.NoArgument && !f.mayFollow(rest),
			row.Passing && denies(text[:at[0]]):
			continue
		}
		if ok && found.row.Name != row.Name {
			return nearMiss{}, false
		}
		found, ok = nearMiss{row, argumentOf(row, rest), "inside other text; if you mean it"}, true
		if !exact {
			found.why = "misspelled"
		}
	}
	return found, ok
}

// mayFollow reports whether a text may follow the name of a signal that is meant as one.
func (f *nearMissFinder) mayFollow(rest string) bool {
	next := strings.TrimLeft(rest, "*_`\"' ")
	word := strings.TrimLeftFunc(rest, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
	return word == "" || next[0] == ':' || f.work != "" && strings.HasPrefix(word, f.work) ||
		strings.HasPrefix(rest, `",`) || strings.HasPrefix(rest, `"}`) // a value in JSON
}

// maxNear is how many bytes before or after a name may belong to it. It keeps the time linear.
const maxNear = 256

// denies reports whether the words before the name of a signal, since the last punctuation mark,
// say that it is not meant.
func denies(before string) bool {
	before = before[max(0, len(before)-maxNear):]
	before = strings.ReplaceAll(strings.ToLower(before), "’", "'")
	before = before[strings.LastIndexAny(before, ".,;:!?")+1:]
	for _, word := range strings.Fields(before) {
		if word == "not" || word == "cannot" || word == "never" || strings.HasSuffix(word, "n't") {
			return true
		}
	}
	return false
}

// rowFor returns the signal that a name was meant to be, and whether all letters are right. rest
// is the text after the name.
func rowFor(name, rest string) (row signalbox.LineSignal, exact, ok bool) {
	name = letters(name)
	for i, row := range lineRows {
		want := nameLetters[i]
		verdict, health := strings.CutPrefix(row.Text, lineNames[i]+": ")
		switch {
		case health && name == want+verdict, name == want && (!health || hasVerdict(rest, verdict)):
			return row, true, true
		case (oneEdit(name, want) || name+"ED" == want) && (!health || hasVerdict(rest, verdict)):
			return row, false, true
		}
	}
	return signalbox.LineSignal{}, false, false
}

// nameLetters are the letters of lineNames.
var nameLetters = func() (names []string) {
	for _, name := range lineNames {
		names = append(names, letters(name))
	}
	return names
}()

// letters returns a name in capitals, without what separates its words.
func letters(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r == ' ' || r == '-' {
			return -1
		}
		return unicode.ToUpper(r)
	}, name)
}

// argumentOf guesses the argument of a near miss from the text after its name.
func argumentOf(row signalbox.LineSignal, rest string) []byte {
	switch row.Argument {
	case signalbox.NoArgument:
		return nil
	case signalbox.PathArgument:
		return nearPath([]byte(rest))
	}
	return nearArgument([]byte(rest))
}

// hasVerdict reports whether the text after HEALTH_AUDIT has a verdict: as the first word, or
// after the id of the work.
func hasVerdict(rest, verdict string) bool {
	rest = rest[:min(len(rest), maxNear)]
	words := strings.FieldsFunc(strings.ToUpper(rest), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '-'
	})
	for i, word := range words {
		word = strings.Trim(word, "-")
		switch {
		case word == "":
		case word[0] == verdict[0] && oneEdit(word, verdict):
			return true
		case i > 0 || !strings.ContainsAny(word, "0123456789"):
			return false
		}
	}
	return false
}

// oneEdit reports whether two words are equal, or become equal if a letter is dropped, inserted or
// replaced, or if two neighbours are swapped.
func oneEdit(a, b string) bool {
	if d := len(a) - len(b); d < -utf8.UTFMax || d > utf8.UTFMax { // most words
		return false
	}
	x, y := []rune(a), []rune(b)
	for len(x) > 0 && len(y) > 0 && x[0] == y[0] {
		x, y = x[1:], y[1:]
	}
	for len(x) > 0 && len(y) > 0 && x[len(x)-1] == y[len(y)-1] {
		x, y = x[:len(x)-1], y[:len(y)-1]
	}
	swapped := len(x) == 2 && len(y) == 2 && x[0] == y[1] && x[1] == y[0]
	return len(x) <= 1 && len(y) <= 1 || swapped
}

// nameWork makes the detail of a near miss name the work, "" if it is not known.
func nameWork(s *signalbox.Signal, work string) {
	row, ok := signalbox.LineSignalNamed(s.Name)
	why, line, near := strings.Cut(s.Detail, sendBare)
	if work == "" || !ok || !near || row.Argument != signalbox.TaskArgument {
		return
	}
	key := ""
	if strings.HasSuffix(line, keyHint) {
		key = keyHint
	}
	s.Detail = why + sendBare + row.Text + ": " + work + key
}

// maxLineBlock is the size of the largest block that may be a line signal in tags.
const maxLineBlock = 512

// lineInBlock returns the line signal that is the text in a block without a type.
func lineInBlock(b turnBlock, key string) (signalbox.Signal, bool) {
	if b.refused != "" || len(b.raw) > maxLineBlock {
		return signalbox.Signal{}, false
	}
	_, text, _ := bytes.Cut(b.raw[:max(0, bytes.LastIndexByte(b.raw, '<'))], []byte{'>'})
	miss, ok := matchNearMiss(bytes.TrimSpace(text))
	if !ok {
		return signalbox.Signal{}, false
	}
	miss.why = "in tags"
	sig := miss.signal(b.raw, key)
	sig.Offset, sig.Line = b.at, b.line
	return sig, true
}

// maxExitTries is how many braces are tried as the start of an exit signal.
const maxExitTries = 16

// exitReasonKey is in every exit signal, also if it names another protocol.
var exitReasonKey = []byte(`"exit_reason"`)

// findExit returns the last exit signal in a text that is not where exit signals count, or has
// another protocol. Its offset is that in the text.
func (f *nearMissFinder) findExit(text []byte) (signalbox.Signal, bool) {
	start := max(bytes.LastIndex(text, []byte(signalbox.ExitProtocol)),
		bytes.LastIndex(text, exitReasonKey))
	for range maxExitTries {
		if start = bytes.LastIndexByte(text[:max(start, 0)], '{'); start < 0 {
			break
		}
		var raw json.RawMessage
		err := json.NewDecoder(bytes.NewReader(text[start:])).Decode(&raw)
		if err == nil && (bytes.Contains(raw, []byte(signalbox.ExitProtocol)) ||
			bytes.Contains(raw, exitReasonKey)) {
			return f.exitSignal(exitObject{raw: raw, at: int64(start)}), true
		}
	}
	return signalbox.Signal{}, false
}

// exitSignal returns an object that is not where exit signals count as a refused signal.
func (f *nearMissFinder) exitSignal(o exitObject) signalbox.Signal {
	sig := exitSignal(o, f.key)
	if sig.Taken() {
		var line bytes.Buffer
		json.Compact(&line, o.raw) // it is valid
		sig.Exit, sig.Refused = nil, signalbox.ReasonMalformed
		sig.Detail = "the exit signal is not alone at column 0" + sendBare + line.String()
	}
	return sig
}
