package transcript

import (
	"bytes"
	"encoding/json"
	"slices"

	"signalbox"
	"signalbox/transcript/internal/lines"
)

// exitObject is a JSON object at the start of a line with balanced braces, or the start of one that
// never closes. raw is valid during the call only.
type exitObject struct {
	raw  []byte
	at   int64
	line int
	exitContext
	tooLarge bool
}

// end returns the offset after the object.
func (o *exitObject) end() int64 { return o.at + int64(len(o.raw)) }

// exitContext is where an object starts.
type exitContext struct {
	inFence   bool
	mayIndent bool             // the object may be indented
	refused   signalbox.Reason // why a signal does not count here, "" if it does
}

// exitFinder finds objects that start at the start of a line, in a fence that may contain an exit
// signal after indentation. A JSON string contains no line end, so quotes are matched within lines
// only. Therefore a stray brace or quote earlier in the text does not hide an object: all braces
// are matched in one pass with a stack, and an object inside one that never closes counts by
// itself.
type exitFinder struct {
	buf     []byte // the text from the offset base on
	base    int64
	openers []opener // objects that are not closed, outermost first
	closed  []span   // closed objects inside openers

	inLine   bool // the line is past its indentation
	inString bool
	escaped  bool
}

// opener is a brace at the start of a line.
type opener struct {
	at    int64
	line  int32
	inner int32 // open braces after it that are not at the start of a line
	exitContext
}

type span struct {
	opener
	end int64
}

// finderStep bounds how much a finder copies at once.
const finderStep = 32 << 10

// active reports whether an object has started.
func (f *exitFinder) active() bool { return len(f.openers) > 0 }

// start returns the offset of the first object that is not reported yet. The finder must be active.
func (f *exitFinder) start() int64 {
	if len(f.closed) > 0 {
		return min(f.openers[0].at, f.closed[0].at)
	}
	return f.openers[0].at
}

func (f *exitFinder) clone() exitFinder {
	c := *f
	c.buf, c.openers, c.closed = bytes.Clone(f.buf), slices.Clone(f.openers), slices.Clone(f.closed)
	return c
}

// feed takes the next bytes of the text, which are in one line, and calls found for each object. It
// reports whether there was text outside objects other than white space.
func (f *exitFinder) feed(b []byte, at int64, line int, ctx exitContext,
	found func(exitObject)) (other bool) {
	for len(b) > 0 {
		n := min(len(b), finderStep)
		if f.active() {
			other = f.scan(b[:n], at, line, ctx, found) || other
		} else if i := f.search(b[:n], ctx); i >= 0 {
			f.base, f.buf, f.inString, f.escaped = at+int64(i), f.buf[:0], false, false
			other = f.scan(b[i:n], f.base, line, ctx, found) || other
		} else {
			other = !lines.Blank(b[:n]) || other
		}
		b, at = b[n:], at+int64(n)
	}
	return other
}

// search returns the index at which an object may start in b, or -1.
func (f *exitFinder) search(b []byte, ctx exitContext) int {
	first := 0
	if ctx.mayIndent {
		first = len(b) - len(bytes.TrimLeft(b, " \t"))
	}
	if !f.inLine && first < len(b) && b[first] == '{' {
		f.inLine = false
		return first
	}
	f.inLine = b[len(b)-1] != '\n' && (f.inLine || first < len(b))
	return -1
}

// scan matches the braces in b while an object is open. It reports whether other text follows the
// last object.
func (f *exitFinder) scan(b []byte, at int64, line int, ctx exitContext,
	found func(exitObject)) (other bool) {
	f.buf = append(f.buf, b...)
	for i, c := range b {
		first := !f.inLine
		f.inLine = c != '\n' && (f.inLine || !ctx.mayIndent || c != ' ' && c != '\t')
		if f.inString {
			f.stringByte(c)
			continue
		}
		switch c {
		case '"':
			f.inString = true
		case '{':
			if first {
				f.openers = append(f.openers, opener{at: at + int64(i), line: int32(line),
					exitContext: ctx})
			} else {
				f.openers[len(f.openers)-1].inner++
			}
		case '}':
			if top := &f.openers[len(f.openers)-1]; top.inner > 0 {
				top.inner--
			} else if f.closeObject(at+int64(i)+1, found); !f.active() {
				rest := b[i+1:]
				f.inLine = len(rest) == 0 || rest[len(rest)-1] != '\n'
				return !lines.Blank(rest)
			}
		}
	}
	f.dropOld(at+int64(len(b)), found)
	return false
}

// stringByte takes a byte inside a string.
func (f *exitFinder) stringByte(c byte) {
	switch {
	case c == '\n':
		f.inString, f.escaped = false, false
	case f.escaped:
		f.escaped = false
	case c == '\\':
		f.escaped = true
	case c == '"':
		f.inString = false
	}
}

// closeObject matches a closing brace, which ends at the offset end, with the last opener.
func (f *exitFinder) closeObject(end int64, found func(exitObject)) {
	last := len(f.openers) - 1
	top := f.openers[last]
	if end-top.at > MaxExitBytes {
		f.reportTooLarge(last, found)
	} else {
		for len(f.closed) > 0 && f.closed[len(f.closed)-1].at > top.at {
			f.closed = f.closed[:len(f.closed)-1]
		}
		f.closed = append(f.closed, span{top, end})
	}
	if f.openers = f.openers[:last]; !f.active() {
		f.flush(end, found)
	}
}

// dropOld drops openers that are further back than an exit signal is long.
func (f *exitFinder) dropOld(now int64, found func(exitObject)) {
	old := 0
	for old < len(f.openers) && now-f.openers[old].at > MaxExitBytes {
		f.reportTooLarge(old, found)
		old++
	}
	if old == 0 {
		return
	}
	f.openers = f.openers[old:]
	if !f.active() {
		f.flush(now, found)
		f.buf = f.buf[:0]
		return
	}
	f.flush(f.openers[0].at, found)
	if waste := f.openers[0].at - f.base; waste > MaxExitBytes {
		f.buf = append(f.buf[:0], f.buf[waste:]...)
		f.base += waste
	}
}

// reportTooLarge reports an object that is too large, if it names the protocol. An exit signal
// contains no other object, so it looks only as far as the next opener. All calls together look at
// each byte once.
func (f *exitFinder) reportTooLarge(index int, found func(exitObject)) {
	o := f.openers[index]
	end := min(o.at+MaxExitBytes, f.base+int64(len(f.buf)))
	if index+1 < len(f.openers) {
		end = min(end, f.openers[index+1].at)
	}
	if object := f.object(o, end); namesProtocolAtTop(object.raw) {
		object.tooLarge = true
		found(object)
	}
}

// flush reports the closed objects before the offset end.
func (f *exitFinder) flush(end int64, found func(exitObject)) {
	n := 0
	for n < len(f.closed) && f.closed[n].at < end {
		found(f.object(f.closed[n].opener, f.closed[n].end))
		n++
	}
	f.closed = append(f.closed[:0], f.closed[n:]...)
}

func (f *exitFinder) object(o opener, end int64) exitObject {
	return exitObject{raw: f.buf[o.at-f.base : end-f.base], at: o.at, line: int(o.line),
		exitContext: o.exitContext}
}

// end ends the text, or the part of it inside or outside a fence. Objects that are not closed are
// reported too if they name the protocol, so that the agent learns why they do not count.
func (f *exitFinder) end(found func(exitObject)) {
	if f.active() {
		next := f.base + int64(len(f.buf))
		f.flush(next, found)
		for _, o := range slices.Backward(f.openers) {
			if object := f.object(o, next); namesProtocolAtTop(object.raw) {
				found(object)
			}
			next = o.at
		}
	}
	f.openers, f.closed = f.openers[:0], f.closed[:0]
	f.inLine, f.inString, f.escaped = false, false, false
}

// namesProtocol reports whether the object is meant as an exit signal. That includes text that
// names the protocol but is not JSON, so that the agent learns what is wrong with it.
func (o *exitObject) namesProtocol() bool {
	return mayNameProtocol(o.raw) && namesProtocolAtTop(o.raw) || namesProtocolLoosely(o.raw) &&
		!json.Valid(o.raw)
}

// namesProtocolLoosely reports whether raw contains protocol: apm2_agent_exit with any quotes or
// none.
func namesProtocolLoosely(raw []byte) bool {
	const around = " \t\r\n\"'`"
	for {
		before, after, found := bytes.Cut(raw, []byte(signalbox.ExitProtocol))
		if !found {
			return false
		}
		if key, ok := bytes.CutSuffix(bytes.TrimRight(before, around), []byte(":")); ok &&
			bytes.HasSuffix(bytes.TrimRight(key, around), []byte("protocol")) {
			return true
		}
		raw = after
	}
}

// mayNameProtocol is a quick check whether raw can name the protocol, in plain letters or in
// escapes. Transcripts with many JSON lines spend most of their time here. It searches for the
// rarest letter, which is ten times faster than searching for the word.
func mayNameProtocol(raw []byte) bool {
	const before = len(signalbox.ExitProtocol) - len("xit")
	for i := 0; ; i++ {
		n := bytes.IndexByte(raw[i:], 'x')
		if n < 0 {
			break
		}
		i += n
		if from := i - before; from >= 0 &&
			bytes.HasPrefix(raw[from:], []byte(signalbox.ExitProtocol)) {
			return true
		}
	}
	return bytes.IndexByte(raw, '\\') >= 0 && bytes.Contains(raw, []byte(`\u`))
}

// namesProtocolAtTop reports whether raw, read as the start of a JSON object, has a top-level
// member "protocol" with the protocol's name. It tolerates syntax errors elsewhere.
func namesProtocolAtTop(raw []byte) bool {
	depth := 0
	isKey, isValue := false, false // the last string was "protocol"; a colon has followed it
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case ':':
			isValue = isKey
		case ',':
			isKey, isValue = false, false
		case '"':
			end := stringEnd(raw, i)
			if depth == 1 {
				if isValue && isJSONString(raw[i:end], signalbox.ExitProtocol) {
					return true
				}
				isKey, isValue = isJSONString(raw[i:end], "protocol"), false
			}
			i = end - 1
		}
	}
	return false
}

// stringEnd returns the index after the string that starts at raw[i]. A line end ends it too.
func stringEnd(raw []byte, i int) int {
	for i++; i < len(raw) && raw[i] != '\n'; i++ {
		switch raw[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return min(i, len(raw))
}

// isJSONString reports whether b, a string with its quotes, has the value want.
func isJSONString(b []byte, want string) bool {
	if bytes.IndexByte(b, '\\') < 0 {
		return len(b) == len(want)+2 && string(b[1:len(b)-1]) == want
	}
	var s string
	return len(b) <= len(`\u0000`)*len(want)+2 && json.Unmarshal(b, &s) == nil && s == want
}
