package payload

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"signalbox"
	"signalbox/internal/lazy"
	"signalbox/transcript/internal/lines"
)

const (
	turnTag           = "signal"
	turnConfidence    = "confidence"
	defaultConfidence = 0.5
)

// Turn is the content of a block <signal type="…">…</signal>.
type Turn struct {
	Type string
	// Key is the attribute key, "" if absent.
	Key    string
	Signal signalbox.TurnSignal
	// Problems describes the invalid fields. The signal counts nevertheless.
	Problems []string
}

// ReadTurn parses one complete block. An unknown type is not an error.
func ReadTurn(raw []byte) (Turn, error) {
	if !startsWithTag(raw) {
		return Turn{}, errors.New("not a <signal> block")
	}
	end := openingEnd(raw)
	if end < 0 {
		return Turn{}, errors.New("the <signal> tag is not closed: a quote or the > is missing")
	}
	attributes, empty := strings.CutSuffix(lines.Valid(raw[1+len(turnTag):end-1]), "/")
	attrs, err := readAttributes(attributes)
	if err != nil {
		return Turn{}, err
	}
	inner, err := turnInner(lines.Valid(raw[end:]), empty)
	if err != nil {
		return Turn{}, err
	}
	block := Turn{Type: strings.TrimSpace(attrs["type"]), Key: attrs["key"]}
	if block.Type == "" {
		return Turn{}, errors.New(`the <signal> tag has no type: write <signal type="…">`)
	}
	block.readFields(inner, attrs)
	block.Signal.Raw = lines.Valid(raw)
	return block, nil
}

func startsWithTag(b []byte) bool {
	n := 1 + len(turnTag)
	return len(b) > n && b[0] == '<' && strings.EqualFold(string(b[1:n]), turnTag) &&
		strings.IndexByte(lines.Space+">/", b[n]) >= 0
}

// openingEnd returns the index after the '>' of the opening tag that b starts with, or -1. A quote
// starts only after '=', so that a stray apostrophe does not hide the '>'.
func openingEnd(b []byte) int {
	var quote byte
	afterEquals := false
	for i := 1 + len(turnTag); i < len(b); i++ {
		c := b[i]
		switch {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '>':
			return i + 1
		case afterEquals && (c == '"' || c == '\''):
			quote, afterEquals = c, false
		case strings.IndexByte(lines.Space, c) < 0:
			afterEquals = c == '='
		}
	}
	return -1
}

// readAttributes parses name="value" pairs.
func readAttributes(s string) (map[string]string, error) {
	attrs := map[string]string{}
	for s = strings.TrimLeft(s, lines.Space); s != ""; s = strings.TrimLeft(s, lines.Space) {
		end := strings.IndexAny(s, lines.Space+`=/<>"'`)
		if end == 0 {
			return nil, fmt.Errorf("the <signal> tag has a stray %q", s[0])
		}
		if end < 0 {
			end = len(s)
		}
		name := s[:end]
		value, found := strings.CutPrefix(strings.TrimLeft(s[end:], lines.Space), "=")
		value = strings.TrimLeft(value, lines.Space)
		if !found || value == "" || value[0] != '"' && value[0] != '\'' {
			return nil, fmt.Errorf("attribute %.40q has no value in quotes", name)
		}
		if _, twice := attrs[name]; twice {
			return nil, fmt.Errorf("attribute %.40q is repeated", name)
		}
		if value, s, found = strings.Cut(value[1:], value[:1]); !found {
			return nil, fmt.Errorf("the quote of attribute %.40q is not closed", name)
		}
		attrs[name] = decodeEntities(value)
	}
	return attrs, nil
}

// turnInner returns the text between the tags. rest is the text after the opening tag.
func turnInner(rest string, empty bool) (string, error) {
	if empty {
		if rest != "" {
			return "", errors.New("text follows the end of the <signal/> block")
		}
		return "", nil
	}
	inner := strings.LastIndex(rest, "</")
	if inner < 0 {
		return "", errors.New("</signal> is missing")
	}
	name, closed := strings.CutSuffix(rest[inner+len("</"):], ">")
	if !closed || !strings.EqualFold(strings.TrimRight(name, lines.Space), turnTag) {
		return "", errors.New("the block does not end with </signal>")
	}
	return rest[:inner], nil
}

func (t *Turn) readFields(inner string, attrs map[string]string) {
	texts := turnElements(inner)
	t.Signal.Confidence = defaultConfidence
	confidence, given := texts[turnConfidence]
	if !given {
		confidence, given = attrs[turnConfidence]
	}
	if given {
		var ok bool
		if t.Signal.Confidence, ok = readConfidence(strings.TrimSpace(confidence)); !ok {
			t.problem(turnConfidence, "a finite number from 0 to 1 or a percentage", "it is not")
		}
	}
	delete(texts, turnConfidence)
	t.Signal.Fields = make(map[string]any, len(texts))
	for name, text := range texts {
		t.Signal.Fields[name] = turnValue(name, text)
	}
	t.validate(texts)
}

func (t *Turn) problem(field, limit, fault string) {
	t.Problems = append(t.Problems, fmt.Sprintf("%.40s: %s must be %s; %s", t.Type, field, limit,
		fault))
}

var decimalNumber = lazy.Regexp(`^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$`)

// readConfidence parses a number or percentage. strconv accepts more: hexadecimals, underscores and
// infinities.
func readConfidence(text string) (float64, bool) {
	number, percent := strings.CutSuffix(text, "%")
	number = strings.TrimRight(number, lines.Space)
	if !decimalNumber().MatchString(number) {
		return defaultConfidence, false
	}
	value, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return defaultConfidence, false
	}
	if percent {
		value /= 100
	}
	if value <= 0 {
		return 0, true // max would keep -0
	}
	return min(value, 1), true
}

func turnValue(name, text string) any {
	if isTurnCount(name) {
		n, _ := readCount(text)
		return n
	}
	if strings.HasPrefix(text, "[") && strings.HasSuffix(text, "]") {
		var list []any
		if json.Unmarshal([]byte(text), &list) == nil {
			return list
		}
	}
	return text
}

// readCount parses ASCII digits. A number that is too large becomes the largest int.
func readCount(text string) (n int, ok bool) {
	if text == "" || strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return math.MaxInt, true
	}
	return n, true
}

// turnElements returns the text of each <name>…</name>, trimmed and decoded. The last of several
// with one name wins.
func turnElements(s string) map[string]string {
	lastCloser := map[string]int{}
	for tag := range turnTags(s) {
		if tag.closes {
			lastCloser[tag.name] = tag.start
		}
	}
	texts := map[string]string{}
	open, start := "", 0
	for tag := range turnTags(s) {
		switch {
		case tag.closes:
			if tag.name == open {
				texts[open] = decodeEntities(strings.TrimSpace(s[start:tag.start]))
				open = ""
			}
		case lastCloser[tag.name] < tag.end:
			// A tag that is never closed is text.
		case open == "" || isTurnField(tag.name):
			// A known field inside another means that the other one was not closed.
			open, start = tag.name, tag.end
		}
	}
	return texts
}

type turnTagAt struct {
	name       string
	closes     bool
	start, end int
}

// turnTags yields every <name> and </name>, in order.
func turnTags(s string) iter.Seq[turnTagAt] {
	return func(yield func(turnTagAt) bool) {
		for i := range len(s) {
			if s[i] != '<' {
				continue
			}
			tag := turnTagAt{start: i, end: i + 1}
			if tag.end < len(s) && s[tag.end] == '/' {
				tag.closes = true
				tag.end++
			}
			name := tag.end
			for tag.end < len(s) && isNameByte(s[tag.end]) {
				tag.end++
			}
			tag.name = s[name:tag.end]
			for tag.closes && tag.end < len(s) && strings.IndexByte(lines.Space, s[tag.end]) >= 0 {
				tag.end++
			}
			if tag.name == "" || tag.end == len(s) || s[tag.end] != '>' {
				continue
			}
			tag.end++
			if !yield(tag) {
				return
			}
		}
	}
}

func isNameByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_'
}

// decodeEntities decodes the five named entities of XML and numeric ones, once. Other text is
// unchanged.
func decodeEntities(s string) string {
	var out strings.Builder
	for {
		i := strings.IndexByte(s, '&')
		if i < 0 {
			out.WriteString(s)
			return out.String()
		}
		out.WriteString(s[:i])
		s = s[i:]
		if c, n := leadingEntity(s); n > 0 {
			out.WriteRune(c)
			s = s[n:]
		} else {
			out.WriteByte('&')
			s = s[1:]
		}
	}
}

var namedEntities = [...]struct {
	text string
	char rune
}{{"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&apos;", '\''}}

// leadingEntity returns the character of the entity that s starts with, and the length of the
// entity, 0 if there is none.
func leadingEntity(s string) (rune, int) {
	for _, e := range namedEntities {
		if strings.HasPrefix(s, e.text) {
			return e.char, len(e.text)
		}
	}
	digits, numeric := strings.CutPrefix(s, "&#")
	if !numeric {
		return 0, 0
	}
	base := 10
	if hex, ok := strings.CutPrefix(digits, "x"); ok {
		digits, base = hex, 16
	}
	n := strings.IndexFunc(digits, func(c rune) bool { return digitValue(c) >= base })
	if n <= 0 || digits[n] != ';' {
		return 0, 0
	}
	code := 0
	for _, c := range digits[:n] {
		code = min(code*base+digitValue(c), utf8.MaxRune+1)
	}
	length := len(s) - len(digits) + n + 1
	if code == 0 {
		code = utf8.RuneError
	}
	return rune(code), length // WriteRune replaces an invalid rune by U+FFFD
}

func digitValue(c rune) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return math.MaxInt
}

// TurnForm is the form of a field's value.
type TurnForm int

const (
	TurnText  TurnForm = iota // Min and Max limit the number of characters
	TurnCount                 // a whole number from Min to Max
	TurnList                  // a JSON list; Min and Max limit the number of elements
)

// TurnField is a field of a turn signal and its limits.
type TurnField struct {
	Name     string
	Required bool
	Form     TurnForm
	// Min and Max are inclusive. A Max of 0 means no limit.
	Min, Max int
}

// TurnType is a turn signal and its fields.
type TurnType struct {
	Name   string
	Fields []TurnField
}

var turnTable = [...]TurnType{
	{signalbox.NameNeedTurn, []TurnField{
		{Name: "reason", Required: true, Min: 1, Max: 500},
		{Name: "expected_turns", Form: TurnCount, Min: 1, Max: 10},
	}},
	{signalbox.NameContextSufficient, []TurnField{
		{Name: "sources_found", Required: true, Form: TurnCount},
		{Name: "source_types", Form: TurnList},
	}},
	{signalbox.NameStuck, []TurnField{
		{Name: "attempted", Required: true, Form: TurnList, Min: 1},
		{Name: "blocker", Required: true, Min: 1, Max: 500},
		{Name: "suggestions", Form: TurnList},
	}},
	{signalbox.NameNeedCapability, []TurnField{
		{Name: "capability", Required: true, Min: 1, Max: 100},
		{Name: "reason", Required: true, Min: 1, Max: 500},
		{Name: "workaround", Max: 500},
	}},
	{signalbox.NamePartialAnswer, []TurnField{
		{Name: "missing", Required: true, Min: 1, Max: 500},
		{Name: "caveat", Max: 500},
	}},
	{signalbox.NameDelegationRecommended, []TurnField{
		{Name: "reason", Required: true, Min: 1, Max: 500},
		{Name: "scope", Required: true, Min: 1, Max: 500},
		{Name: "estimated_tokens"},
		{Name: "subagent_type"},
	}},
}

// TurnTypes returns all turn signals. The caller must not modify the result.
func TurnTypes() []TurnType { return turnTable[:] }

func isTurnField(name string) bool {
	return name == turnConfidence || anyTurnField(func(f TurnField) bool { return f.Name == name })
}

func isTurnCount(name string) bool {
	return anyTurnField(func(f TurnField) bool { return f.Name == name && f.Form == TurnCount })
}

func anyTurnField(match func(TurnField) bool) bool {
	return slices.ContainsFunc(TurnTypes(),
		func(t TurnType) bool { return slices.ContainsFunc(t.Fields, match) })
}

// validate adds the problems of the fields if the type is known. A field that is a count in any
// type is parsed as a count in all of them, so it must be a number.
func (t *Turn) validate(texts map[string]string) {
	if !signalbox.IsTurnType(t.Type) {
		return
	}
	for _, row := range TurnTypes() {
		for _, f := range row.Fields {
			text, given := texts[f.Name]
			var fault string
			switch {
			case !given && row.Name == t.Type && f.Required:
				fault = "it is missing"
			case given && row.Name == t.Type:
				fault = f.fault(text, t.Signal.Fields[f.Name])
			case given && f.Form == TurnCount:
				fault = countFault(text)
			}
			if fault != "" {
				t.problem(f.Name, f.limit(), fault)
			}
		}
	}
}

func countFault(text string) string {
	if _, digits := readCount(text); !digits {
		return "it is not"
	}
	return ""
}

// fault returns how the value violates the limits of the field, "" if it does not.
func (f *TurnField) fault(text string, value any) string {
	size, what := 0, ""
	switch v := value.(type) {
	case int:
		if fault := countFault(text); fault != "" {
			return fault
		}
		size, what = v, "it is %d"
	case []any:
		if f.Form == TurnText && (f.Min > 0 || f.Max > 0) {
			return "it is a list"
		}
		size, what = len(v), "it has %d"
	case string:
		if f.Form == TurnList {
			if f.Min > 0 {
				return "it is not a list"
			}
			return ""
		}
		size, what = utf8.RuneCountInString(v), "it has %d"
	}
	if size < f.Min || f.Max > 0 && size > f.Max {
		return fmt.Sprintf(what, size)
	}
	return ""
}

// limit returns the limits of the field, to follow "must be".
func (f *TurnField) limit() string {
	span := fmt.Sprintf("%d to %d", f.Min, f.Max)
	switch {
	case f.Max == 0:
		span = fmt.Sprintf("at least %d", f.Min)
	case f.Min == 0:
		span = fmt.Sprintf("at most %d", f.Max)
	}
	switch f.Form {
	case TurnCount:
		return "digits for a number of " + span
	case TurnList:
		return "a JSON list of " + span
	}
	return "text of " + span + " characters"
}
