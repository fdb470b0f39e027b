package payload

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"signalbox"
)

// exitFields are the members that an exit signal may have, the required ones first.
var exitFields = [...]string{"protocol", "version", "phase_completed", "exit_reason",
	"pr_url", "evidence_bundle_ref", "notes"}

const requiredExitFields = 4

// exitReader parses the flat object of an exit signal. encoding/json would be shorter, but it
// accepts duplicate keys, keys in any case, lone surrogates and bytes that are not UTF-8, so
// another parser could read a different signal from the same bytes. It also reports no line and
// column. No value may be an object or a list, so nothing nests.
type exitReader struct {
	data  []byte
	pos   int
	field string // the member whose value is being read
}

// ReadExit parses an exit signal. It checks the syntax and the types of the members, not their
// values.
func ReadExit(data []byte) (*signalbox.ExitSignal, error) {
	r := exitReader{data: data}
	signal := new(signalbox.ExitSignal)
	if err := r.object(signal); err != nil {
		return nil, err
	}
	return signal, nil
}

func (r *exitReader) object(signal *signalbox.ExitSignal) error {
	if c, ok := r.peek(); !ok {
		return r.fault(r.pos, "EOF while parsing a value")
	} else if c != '{' {
		return r.wrongType("an exit signal object")
	}
	r.pos++
	var seen [len(exitFields)]bool
	more, err := r.firstKey()
	for more && err == nil {
		if err = r.member(signal, &seen); err == nil {
			more, err = r.nextKey()
		}
	}
	if err != nil {
		return err
	}
	for i, name := range exitFields[:requiredExitFields] {
		if !seen[i] {
			r.field = name
			return r.fault(r.pos, "missing field `"+name+"`")
		}
	}
	r.pos++
	if _, ok := r.peek(); ok {
		return r.fault(r.pos, "trailing characters")
	}
	return nil
}

// firstKey reports whether the object that was just opened has a member.
func (r *exitReader) firstKey() (bool, error) {
	c, err := r.peekInObject()
	return c != '}', err
}

// nextKey skips the comma after a member, if any, and reports whether another member follows.
func (r *exitReader) nextKey() (bool, error) {
	c, err := r.peekInObject()
	if err != nil || c == '}' {
		return false, err
	}
	if c != ',' {
		return false, r.fault(r.pos, "expected `,` or `}`")
	}
	r.pos++
	if c, err = r.peekInObject(); c == '}' {
		return false, r.fault(r.pos, "trailing comma")
	}
	return true, err
}

func (r *exitReader) member(signal *signalbox.ExitSignal, seen *[len(exitFields)]bool) error {
	start := r.pos
	if r.data[start] != '"' {
		return r.fault(start, "expected `\"`")
	}
	key, err := r.text()
	if err != nil {
		return err
	}
	field := 0
	for field < len(exitFields) && exitFields[field] != string(key) {
		field++
	}
	if field == len(exitFields) {
		return r.fault(start, fmt.Sprintf("unknown field `%s`, expected one of %s",
			signalbox.ExitExcerpt(string(key)), quotedList(exitFields[:])))
	}
	r.field = exitFields[field]
	if seen[field] {
		return r.fault(start, "duplicate field `"+r.field+"`")
	}
	seen[field] = true

	if c, err := r.peekInObject(); err != nil {
		return err
	} else if c != ':' {
		return r.fault(r.pos, "expected `:`")
	}
	r.pos++
	err = r.value(signal)
	r.field = ""
	return err
}

func (r *exitReader) value(signal *signalbox.ExitSignal) (err error) {
	switch r.field {
	case "protocol":
		signal.Protocol, err = r.string()
	case "version":
		signal.Version, err = r.string()
	case "phase_completed":
		signal.PhaseCompleted, err = oneOf(r, signalbox.Phases())
	case "exit_reason":
		signal.ExitReason, err = oneOf(r, signalbox.ExitReasons())
	case "pr_url":
		signal.PRURL, err = r.optional()
	case "evidence_bundle_ref":
		signal.EvidenceBundleRef, err = r.optional()
	case "notes":
		signal.Notes, err = r.optional()
	}
	return err
}

// string reads a value that must be a string.
func (r *exitReader) string() (string, error) {
	text, err := r.stringBytes()
	return string(text), err
}

// stringBytes does the same without a copy: the result may be a part of data.
func (r *exitReader) stringBytes() ([]byte, error) {
	if c, ok := r.peek(); !ok {
		return nil, r.fault(r.pos, "EOF while parsing a value")
	} else if c != '"' {
		return nil, r.wrongType("a string for `" + r.field + "`")
	}
	return r.text()
}

func (r *exitReader) optional() (*string, error) {
	r.peek()
	if bytes.HasPrefix(r.data[r.pos:], []byte("null")) {
		r.pos += len("null")
		return nil, nil
	}
	value, err := r.string()
	return &value, err
}

func oneOf[T ~string](r *exitReader, variants []T) (T, error) {
	r.peek()
	start := r.pos
	value, err := r.stringBytes()
	if err != nil {
		return "", err
	}
	for _, v := range variants {
		if string(v) == string(value) {
			return v, nil
		}
	}
	return "", r.fault(start, fmt.Sprintf("unknown variant `%s`, expected one of %s for `%s`",
		signalbox.ExitExcerpt(string(value)), quotedList(variants), r.field))
}

// text reads the string whose opening quote is at pos. The result may be a part of data.
func (r *exitReader) text() ([]byte, error) {
	r.pos++
	var decoded []byte // nil before the first escape
	plain := r.pos
	for r.pos < len(r.data) {
		switch c := r.data[r.pos]; {
		case c == '"':
			run := r.data[plain:r.pos]
			r.pos++
			if decoded == nil {
				return run, nil
			}
			return append(decoded, run...), nil
		case c == '\\':
			decoded = append(decoded, r.data[plain:r.pos]...)
			char, err := r.escape()
			if err != nil {
				return nil, err
			}
			decoded = utf8.AppendRune(decoded, char)
			plain = r.pos
		case c < ' ':
			return nil, r.fault(r.pos,
				`control character (\u0000-\u001F) found while parsing a string`)
		case c < utf8.RuneSelf:
			r.pos++
		default:
			char, size := utf8.DecodeRune(r.data[r.pos:])
			if char == utf8.RuneError && size == 1 {
				return nil, r.fault(r.pos, "invalid unicode code point")
			}
			r.pos += size
		}
	}
	return nil, r.fault(r.pos, "EOF while parsing a string")
}

// escape reads the escape whose backslash is at pos.
func (r *exitReader) escape() (rune, error) {
	start := r.pos
	r.pos++
	if r.pos == len(r.data) {
		return 0, r.fault(r.pos, "EOF while parsing a string")
	}
	c := r.data[r.pos]
	if c == 'u' {
		return r.unicodeEscape(start)
	}
	i := strings.IndexByte(`"\/bfnrt`, c)
	if i < 0 {
		return 0, r.fault(r.pos, "invalid escape")
	}
	r.pos++
	return rune("\"\\/\b\f\n\r\t"[i]), nil
}

// unicodeEscape reads the rest of an escape from its u on, and a second escape if the first is half
// of a pair.
func (r *exitReader) unicodeEscape(start int) (rune, error) {
	first, err := r.hex()
	if err != nil || !utf16.IsSurrogate(first) {
		return first, err
	}
	const firstTrailing = 0xDC00
	if first >= firstTrailing {
		return 0, r.fault(start, "lone trailing surrogate in hex escape")
	}
	if bytes.HasPrefix(r.data[r.pos:], []byte(`\u`)) {
		r.pos++
		second, err := r.hex()
		if err != nil {
			return 0, err
		}
		if char := utf16.DecodeRune(first, second); char != utf8.RuneError {
			return char, nil
		}
	}
	return 0, r.fault(start, "lone leading surrogate in hex escape")
}

// hex reads the u at pos and the four digits after it.
func (r *exitReader) hex() (rune, error) {
	r.pos++
	var char rune
	for end := r.pos + 4; r.pos < end; r.pos++ {
		if r.pos == len(r.data) {
			return 0, r.fault(r.pos, "EOF while parsing a string")
		}
		c := r.data[r.pos]
		switch lower := c | 0x20; {
		case '0' <= c && c <= '9':
			char = char<<4 | rune(c-'0')
		case 'a' <= lower && lower <= 'f':
			char = char<<4 | rune(lower-'a'+10)
		default:
			return 0, r.fault(r.pos, "invalid escape")
		}
	}
	return char, nil
}

// peek skips white space and returns the byte at pos, false at the end of the input.
func (r *exitReader) peek() (byte, bool) {
	for r.pos < len(r.data) {
		switch c := r.data[r.pos]; c {
		case ' ', '\t', '\n', '\r':
			r.pos++
		default:
			return c, true
		}
	}
	return 0, false
}

func (r *exitReader) peekInObject() (byte, error) {
	c, ok := r.peek()
	if !ok {
		return 0, r.fault(r.pos, "EOF while parsing an object")
	}
	return c, nil
}

// wrongType returns the error for the value at pos, which has the wrong type.
func (r *exitReader) wrongType(want string) error {
	rest := r.data[r.pos:]
	var found string
	switch c := rest[0]; {
	case c == '{':
		found = "map"
	case c == '[':
		found = "sequence"
	case c == '"':
		found = "string"
	case c == '-' || '0' <= c && c <= '9':
		number := rest[:len(rest)-len(bytes.TrimLeft(rest, "+-.0123456789eE"))]
		if !json.Valid(number) {
			return r.fault(r.pos, "invalid number")
		}
		found = "integer"
		if bytes.ContainsAny(number, ".eE") {
			found = "floating point"
		}
		found += " `" + signalbox.ExitExcerpt(string(number)) + "`"
	case bytes.HasPrefix(rest, []byte("null")):
		found = "null"
	case bytes.HasPrefix(rest, []byte("true")):
		found = "boolean `true`"
	case bytes.HasPrefix(rest, []byte("false")):
		found = "boolean `false`"
	default:
		return r.fault(r.pos, "expected value")
	}
	return r.fault(r.pos, "invalid type: "+found+", expected "+want)
}

// fault returns an error at pos. Line and column count from 1, the column in bytes.
func (r *exitReader) fault(pos int, what string) error {
	before := r.data[:pos]
	line := 1 + bytes.Count(before, []byte{'\n'})
	column := pos - bytes.LastIndexByte(before, '\n')
	return &signalbox.ExitSignalError{
		Field: r.field,
		Msg:   fmt.Sprintf("invalid JSON: %s at line %d column %d", what, line, column),
	}
}

func quotedList[T ~string](names []T) string {
	var b strings.Builder
	for i, name := range names {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString("`" + string(name) + "`")
	}
	return b.String()
}
