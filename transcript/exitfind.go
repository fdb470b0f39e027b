package transcript

import (
	"bytes"
	"encoding/json"
	"slices"

	"signalbox"
	"signalbox/transcript/internal/lines"
)

// exitObject is a balanced JSON object at the start of a line, or the start of one that never closed.
type exitObject struct {
	raw  []byte // valid during the call
	at   int64
	line int
	exitContext
	tooLarge bool
}

type exitContext struct {
	inFence   bool
	indented  bool // it may be indented
	delegated bool
}

// exitFinder finds balanced objects that begin at the start of a line (in a fence that may hold an exit signal: after
// indentation). Since a JSON string never holds a line end, quotes are matched within lines only, so a stray brace or
// quote earlier in the text does not hide an object that follows: all braces are matched in one pass with a stack, and an
// object nested in one that turns out never to close stands for itself.
type exitFinder struct {
	buf     []byte // the text from offset base on
	base    int64
	openers []opener // objects that are not closed yet, outermost first
	done    []span   // objects that are closed, inside openers that are not

	within   bool // a line has begun and is past its indentation
	inString bool
	escaped  bool
}

// opener is a brace at the start of a line.
type opener struct {
	at    int64
	line  int32
	inner int32 // braces after it, not at the start of a line, that are not closed yet
	exitContext
}

type span struct {
	opener
	end int64
}

// finderStep bounds how much a finder copies at once, whatever the size of the piece.
const finderStep = 32 << 10

func (f *exitFinder) active() bool { return len(f.openers) > 0 }

// from is the offset of the first brace that is not settled.
func (f *exitFinder) from() int64 {
	if len(f.done) > 0 {
		return min(f.openers[0].at, f.done[0].at)
	}
	return f.openers[0].at
}

func (f *exitFinder) clone() exitFinder {
	c := *f
	c.buf, c.openers, c.done = bytes.Clone(f.buf), slices.Clone(f.openers), slices.Clone(f.done)
	return c
}

// feed takes bytes within one line. It reports whether any were not blank and belong to no object that may be an exit
// signal.
func (f *exitFinder) feed(b []byte, at int64, line int, ctx exitContext, found func(exitObject)) (outside bool) {
	for len(b) > 0 {
		n := min(len(b), finderStep)
		if f.active() {
			outside = f.scan(b[:n], at, line, ctx, found) || outside
		} else if i := f.begin(b[:n], ctx); i >= 0 {
			f.base, f.buf, f.inString, f.escaped = at+int64(i), f.buf[:0], false, false
			outside = f.scan(b[i:n], f.base, line, ctx, found) || outside
		} else {
			outside = !lines.Blank(b[:n]) || outside
		}
		b, at = b[n:], at+int64(n)
	}
	return outside
}

// begin returns where an object may begin in b, -1 if nowhere.
func (f *exitFinder) begin(b []byte, ctx exitContext) int {
	start := 0
	if ctx.indented {
		start = len(b) - len(bytes.TrimLeft(b, " \t"))
	}
	at := -1
	if !f.within && start < len(b) && b[start] == '{' {
		at = start
	}
	f.within = b[len(b)-1] != '\n' && (f.within || start < len(b))
	if at >= 0 {
		f.within = false
	}
	return at
}

func (f *exitFinder) scan(b []byte, at int64, line int, ctx exitContext, found func(exitObject)) (outside bool) {
	f.buf = append(f.buf, b...)
	for i, c := range b {
		first := !f.within
		f.within = c != '\n' && (f.within || !ctx.indented || c != ' ' && c != '\t')
		if f.inString {
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
			continue
		}
		switch c {
		case '"':
			f.inString = true
		case '{':
			if first {
				f.openers = append(f.openers, opener{at: at + int64(i), line: int32(line), exitContext: ctx})
			} else {
				f.openers[len(f.openers)-1].inner++
			}
		case '}':
			if top := &f.openers[len(f.openers)-1]; top.inner > 0 {
				top.inner--
			} else if f.closeObject(at+int64(i)+1, found); !f.active() {
				rest := b[i+1:]
				f.within = len(rest) > 0 && rest[len(rest)-1] != '\n' || len(rest) == 0
				return !lines.Blank(rest)
			}
		}
	}
	f.dropOld(at+int64(len(b)), found)
	return false
}

// closeObject matches a closing brace that ends at the offset end.
func (f *exitFinder) closeObject(end int64, found func(exitObject)) {
	last := len(f.openers) - 1
	top := f.openers[last]
	if end-top.at > MaxExitBytes {
		f.reportTooLarge(last, found)
	} else {
		for len(f.done) > 0 && f.done[len(f.done)-1].at > top.at {
			f.done = f.done[:len(f.done)-1]
		}
		f.done = append(f.done, span{top, end})
	}
	if f.openers = f.openers[:last]; !f.active() {
		f.flush(end, found)
	}
}

// dropOld gives up openers that lie further back than an exit signal is long.
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

// reportTooLarge reports an object that is too long, if it is meant as an exit signal. An exit signal holds no other
// object, so it is enough to look as far as the next one, and all looks together pass over the text once.
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
	for n < len(f.done) && f.done[n].at < end {
		found(f.object(f.done[n].opener, f.done[n].end))
		n++
	}
	f.done = append(f.done[:0], f.done[n:]...)
}

func (f *exitFinder) object(o opener, end int64) exitObject {
	return exitObject{raw: f.buf[o.at-f.base : end-f.base], at: o.at, line: int(o.line), exitContext: o.exitContext}
}

// end ends the text, or the part of it that fences bound. What is not closed is reported too: if it names the
// protocol the agent should hear why it does not count.
func (f *exitFinder) end(found func(exitObject)) {
	if f.active() {
		f.endOpen(found)
	}
	f.openers, f.done = f.openers[:0], f.done[:0]
	f.within, f.inString, f.escaped = false, false, false
}

func (f *exitFinder) endOpen(found func(exitObject)) {
	next := f.base + int64(len(f.buf))
	f.flush(next, found)
	for i := len(f.openers) - 1; i >= 0; i-- {
		o := f.openers[i]
		if object := f.object(o, next); namesProtocolAtTop(object.raw) {
			found(object)
		}
		next = o.at
	}
}

// namesProtocol reports whether the object is meant as an exit signal. One that is no JSON but names the protocol in its
// way is: the agent should be told what is wrong with it.
func (o *exitObject) namesProtocol() bool {
	return mayName(o.raw) && namesProtocolAtTop(o.raw) || namesProtocolLoosely(o.raw) && !json.Valid(o.raw)
}

// namesProtocolLoosely finds protocol: apm2_agent_exit with whatever quotes.
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

// mayName is a quick look whether raw can name the protocol: in plain letters, or in escapes. It looks for the rarest of
// the letters, which is ten times quicker than looking for the word.
func mayName(raw []byte) bool {
	const before = len(signalbox.ExitProtocol) - len("xit")
	for i := 0; ; i++ {
		n := bytes.IndexByte(raw[i:], 'x')
		if n < 0 {
			break
		}
		i += n
		if from := i - before; from >= 0 && bytes.HasPrefix(raw[from:], []byte(signalbox.ExitProtocol)) {
			return true
		}
	}
	return bytes.IndexByte(raw, '\\') >= 0 && bytes.Contains(raw, []byte(`\u`))
}

// namesProtocolAtTop reports whether raw, read as the start of a JSON object, has a top-level member "protocol" of the
// protocol's value. It tolerates syntax errors elsewhere.
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

// stringEnd returns the index after the string that begins at raw[i]; a line end closes it too.
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

// isJSONString reports whether b, a string with its quotes, says want.
func isJSONString(b []byte, want string) bool {
	if bytes.IndexByte(b, '\\') < 0 {
		return len(b) == len(want)+2 && string(b[1:len(b)-1]) == want
	}
	var s string
	return len(b) <= len(`\u0000`)*len(want)+2 && json.Unmarshal(b, &s) == nil && s == want
}
