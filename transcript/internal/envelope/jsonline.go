package envelope

import (
	"bytes"
	"unicode/utf8"
)

// jsonLine parses one JSON object that arrives in pieces and reports the values at the paths in a
// schema. It keeps only those, so the object may be of any size. It validates the structure, so
// that half an object is not taken for a whole one. It does not validate the content of strings and
// numbers that are not in the schema.
//
// encoding/json needs the whole object in memory, and agents write tool results of any size.
type jsonLine struct {
	schema *schema
	on     jsonHandler

	expect  expectation
	stack   []container
	key     int      // the node of the member whose value is expected or being read
	objects uint64   // how many objects have been opened
	seen    []uint64 // by node: the last object that has a member there

	str     stringMode
	escape  []byte // the start of an escape sequence that continues in the next piece
	escaped bool   // in a skipped string: the next byte is escaped
	high    rune   // the first half of a UTF-16 pair, or 0
	highAt  int64  // where that half is in the stream
	rune    []byte // scratch space for a decoded escape sequence
	scratch []byte // the key, literal or short value being read

	// Where things are in the stream.
	base     int64 // the piece being fed; the caller sets it
	escapeAt int64 // the escape sequence being read
	place    Place // the part of a text that is passed to textPart, without Text
}

// jsonHandler receives the values in the schema, in the order of the input.
type jsonHandler interface {
	// field is called for a complete value: the text of a string, or, with quoted false, a literal
	// as written, "{" for an object and "[" for an array.
	field(id fieldID, value []byte, quoted bool)
	// textBegin is called at the start of a streamed string. If it returns true, textPart is called
	// with the parts of the string, then textEnd.
	textBegin(id fieldID) bool
	textPart(part []byte)
	textEnd(id fieldID)
	// objectEnd is called at the end of an object in the schema.
	objectEnd(id fieldID)
	// unknownField is called for a top-level member that is not in the schema.
	unknownField(key []byte)
	// repeatedField is called for a member of the schema that its object already has, and for one
	// whose name differs from a member of the schema in case only. Other readers of the line may
	// see another value there.
	repeatedField(key []byte)
}

type expectation uint8

const (
	expectStart expectation = iota
	expectValue
	expectValueOrEnd // after '['
	expectKey
	expectKeyOrEnd // after '{'
	expectColon
	expectCommaOrEnd
	insideString
	insideLiteral
	expectNothing // the object is complete
	notJSON       // the line is not valid
)

type stringMode uint8

const (
	stringKey stringMode = iota
	stringField
	stringText
	stringSkip
)

type container struct {
	array  bool
	node   int
	object uint64 // its number, for an object
}

const (
	maxDepth   = 10_000
	maxScratch = 4 << 10
)

func newJSONLine(s *schema, on jsonHandler) *jsonLine {
	return &jsonLine{schema: s, on: on, seen: make([]uint64, len(s.nodes))}
}

func (j *jsonLine) reset() {
	j.expect, j.stack, j.key = expectStart, j.stack[:0], 0
	j.escape, j.escaped, j.scratch = j.escape[:0], false, j.scratch[:0]
}

// complete reports whether the line is one complete object.
func (j *jsonLine) complete() bool { return j.expect == expectNothing }

func (j *jsonLine) feed(b []byte) {
	for i := 0; i < len(b); {
		switch j.expect {
		case insideString:
			if j.str == stringSkip {
				i = j.skipString(b, i)
			} else {
				i = j.readString(b, i)
			}
		case insideLiteral:
			i = j.literal(b, i)
		case notJSON:
			return
		default:
			j.structure(b[i])
			i++
		}
	}
}

// structure handles a byte outside strings and literals.
func (j *jsonLine) structure(c byte) {
	switch c {
	case ' ', '\t', '\r', '\n':
		return
	case '"':
		j.beginString()
		return
	case '{', '[':
		j.open(c == '[')
		return
	case '}', ']':
		j.close(c == ']')
		return
	case ':':
		if j.expect == expectColon {
			j.expect = expectValue
			return
		}
	case ',':
		if j.expect == expectCommaOrEnd {
			if j.expect = expectKey; j.top().array {
				j.expect, j.key = expectValue, j.schema.elements(j.top().node)
			}
			return
		}
	default:
		if (j.expect == expectValue || j.expect == expectValueOrEnd) && isLiteralByte(c) {
			j.expect = insideLiteral
			j.scratch = append(j.scratch[:0], c)
			return
		}
	}
	j.expect = notJSON
}

func (j *jsonLine) top() container { return j.stack[len(j.stack)-1] }

func (j *jsonLine) open(array bool) {
	node := 0
	switch {
	case j.expect == expectStart && !array:
		node = rootNode
	case j.expect == expectValue || j.expect == expectValueOrEnd:
		node = j.key
	default:
		j.expect = notJSON
		return
	}
	if len(j.stack) == maxDepth {
		j.expect = notJSON
		return
	}
	if id := j.schema.field(node); id != 0 && (array || !j.schema.isObject(node)) {
		j.on.field(id, []byte{bracket(array)}, false)
	}
	j.objects++
	j.stack = append(j.stack, container{array, node, j.objects})
	if j.expect = expectKeyOrEnd; array {
		j.expect, j.key = expectValueOrEnd, j.schema.elements(node)
	}
}

func bracket(array bool) byte {
	if array {
		return '['
	}
	return '{'
}

func (j *jsonLine) close(array bool) {
	var ok bool
	if array {
		ok = j.expect == expectValueOrEnd || j.expect == expectCommaOrEnd
	} else {
		ok = j.expect == expectKeyOrEnd || j.expect == expectCommaOrEnd
	}
	if !ok || j.top().array != array {
		j.expect = notJSON
		return
	}
	if node := j.top().node; !array && j.schema.field(node) != 0 && j.schema.isObject(node) {
		j.on.objectEnd(j.schema.field(node))
	}
	j.stack = j.stack[:len(j.stack)-1]
	j.valueEnd()
}

func (j *jsonLine) valueEnd() {
	if j.expect = expectCommaOrEnd; len(j.stack) == 0 {
		j.expect = expectNothing
	}
}

func (j *jsonLine) beginString() {
	switch j.expect {
	case expectKey, expectKeyOrEnd:
		if j.str = stringKey; j.top().node == 0 {
			j.str = stringSkip
		}
		j.key = keyPending
	case expectValue, expectValueOrEnd:
		j.str = stringSkip
		if id := j.schema.field(j.key); id != 0 {
			if j.str = stringField; j.schema.isText(j.key) {
				if j.str = stringSkip; j.on.textBegin(id) {
					j.str = stringText
				}
			}
		}
	default:
		j.expect = notJSON
		return
	}
	j.expect = insideString
	j.scratch, j.escaped = j.scratch[:0], false
}

// endString is called at a string's closing quote.
func (j *jsonLine) endString() {
	if j.key == keyPending {
		j.key = 0
		if j.str == stringKey {
			j.member(j.top())
		}
		j.expect = expectColon
		return
	}
	switch j.str {
	case stringField:
		j.on.field(j.schema.field(j.key), j.scratch, true)
	case stringText:
		j.on.textEnd(j.schema.field(j.key))
	}
	j.valueEnd()
}

// member finds the node of the member whose key has been read.
func (j *jsonLine) member(object container) {
	j.key = j.schema.child(object.node, j.scratch)
	switch {
	case j.key == 0 && j.schema.hasFolded(object.node, j.scratch):
		j.on.repeatedField(j.scratch)
	case j.key == 0:
		if len(j.stack) == 1 {
			j.on.unknownField(j.scratch)
		}
	case j.seen[j.key] == object.object:
		j.on.repeatedField(j.scratch)
	default:
		j.seen[j.key] = object.object
	}
}

// literal reads a number, true, false or null.
func (j *jsonLine) literal(b []byte, i int) int {
	for ; i < len(b) && isLiteralByte(b[i]); i++ {
		if len(j.scratch) == maxScratch {
			j.expect = notJSON
			return i
		}
		j.scratch = append(j.scratch, b[i])
	}
	if i == len(b) {
		return i
	}
	if !isLiteral(j.scratch) {
		j.expect = notJSON
		return i
	}
	if id := j.schema.field(j.key); id != 0 {
		j.on.field(id, j.scratch, false)
	}
	j.valueEnd()
	return i
}

func isLiteralByte(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || c == '-' || c == '+' || c == '.' ||
		c == 'E'
}

func isLiteral(b []byte) bool {
	switch string(b) {
	case "true", "false", "null":
		return true
	}
	digits := 0
	for _, c := range b {
		if '0' <= c && c <= '9' {
			digits++
		} else if c != '-' && c != '+' && c != '.' && c|0x20 != 'e' {
			return false
		}
	}
	return digits > 0
}

// skipString skips a string that is not in the schema.
func (j *jsonLine) skipString(b []byte, i int) int {
	if j.escaped {
		j.escaped = false
		i++
	}
	for i < len(b) {
		n := bytes.IndexByte(b[i:], '"')
		end := i + n
		if n < 0 {
			end = len(b)
		}
		backslashes := 0
		for k := end - 1; k >= i && b[k] == '\\'; k-- {
			backslashes++
		}
		escaped := backslashes%2 == 1
		if n < 0 {
			j.escaped = escaped
			return len(b)
		}
		i = end + 1
		if !escaped {
			j.endString()
			break
		}
	}
	return i
}

// readString decodes a string.
func (j *jsonLine) readString(b []byte, i int) int {
	if j.str != stringText && len(j.escape) == 0 {
		if end := shortEnd(b, i); end >= 0 {
			j.emit(b[i:end], j.base+int64(i), 0)
			j.endString()
			return end + 1
		}
	}
	quote := -1 // the index of the next quote in b
	for i < len(b) {
		if len(j.escape) > 0 || b[i] == '\\' {
			if i = j.escapeSequence(b, i); j.expect == notJSON {
				return i
			}
			continue
		}
		if quote < i {
			if quote = bytes.IndexByte(b[i:], '"'); quote < 0 {
				quote = len(b)
			} else {
				quote += i
			}
		}
		end := quote
		if k := bytes.IndexByte(b[i:quote], '\\'); k >= 0 {
			end = i + k
		}
		if end > i {
			j.emit(b[i:end], j.base+int64(i), 0)
		}
		i = end
		if i < len(b) && b[i] == '"' {
			if j.str != stringText { // a text may continue in the next line
				j.flushHigh()
			}
			j.endString()
			return i + 1
		}
	}
	return i
}

// shortEnd returns the index of the quote that ends the string at b[i] if it is near and no escape
// precedes it, else -1. Most keys and values are so short that a loop is faster than
// bytes.IndexByte.
func shortEnd(b []byte, i int) int {
	for end := i; end < min(len(b), i+32); end++ {
		switch b[end] {
		case '"':
			return end
		case '\\':
			return -1
		}
	}
	return -1
}

// emit appends decoded text to the string being read. It is at the position at in the stream, and,
// if it was an escape sequence, of that size there.
func (j *jsonLine) emit(b []byte, at int64, size int) {
	j.flushHigh()
	if j.str == stringText {
		j.place = Place{At: at, Size: size}
		j.on.textPart(b)
		return
	}
	j.scratch = append(j.scratch, b[:min(len(b), maxScratch-len(j.scratch))]...)
}

// flushHigh emits U+FFFD for the first half of a UTF-16 pair without a second half.
func (j *jsonLine) flushHigh() {
	if j.high != 0 {
		j.high = 0
		j.emit([]byte(string(utf8.RuneError)), j.highAt, halfSize)
	}
}

// escapeSequence decodes an escape sequence, which may have started in the previous piece.
func (j *jsonLine) escapeSequence(b []byte, i int) int {
	if len(j.escape) == 0 && i+1 < len(b) { // nearly all of them
		if c := shortEscapes[b[i+1]]; c != 0 {
			j.rune = append(j.rune[:0], c)
			j.emit(j.rune, j.base+int64(i), len(`\n`))
			return i + 2
		}
	}
	if len(j.escape) == 0 {
		j.escapeAt = j.base + int64(i)
	}
	for i < len(b) {
		j.escape = append(j.escape, b[i])
		i++
		n := len(j.escape)
		if n == 1 || n < 6 && j.escape[1] == 'u' {
			continue
		}
		r, ok := unescape(j.escape)
		j.escape = j.escape[:0]
		if !ok {
			j.expect = notJSON
			return i
		}
		j.emitRune(r, j.escapeAt, n)
		return i
	}
	return i
}

// shortEscapes has the meaning of two-byte escape sequences by their second byte.
var shortEscapes = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n',
	'r': '\r', 't': '\t'}

func unescape(seq []byte) (rune, bool) {
	if seq[1] != 'u' {
		c := shortEscapes[seq[1]]
		return rune(c), c != 0
	}
	var r rune
	for _, c := range seq[2:] {
		switch {
		case '0' <= c && c <= '9':
			r = r<<4 | rune(c-'0')
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			r = r<<4 | rune(c|0x20-'a'+10)
		default:
			return 0, false
		}
	}
	return r, true
}

// halfSize is the size of an escape sequence for half of a UTF-16 pair.
const halfSize = len(`\ud83d`)

// emitRune emits the rune of an escape sequence at a position, joining the halves of UTF-16 pairs.
func (j *jsonLine) emitRune(r rune, at int64, size int) {
	const highStart, lowStart, lowEnd = 0xD800, 0xDC00, 0xE000
	switch {
	case highStart <= r && r < lowStart:
		j.flushHigh()
		j.high, j.highAt = r, at
		return
	case lowStart <= r && r < lowEnd && j.high != 0:
		r = (j.high-highStart)<<10 | (r - lowStart) + 0x10000
		at, size = j.highAt, int(at-j.highAt)+size
		j.high = 0
	case lowStart <= r && r < lowEnd:
		r = utf8.RuneError
	}
	j.rune = utf8.AppendRune(j.rune[:0], r)
	j.emit(j.rune, at, size)
}
