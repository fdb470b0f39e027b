package transcript

import (
	"bytes"

	"signalbox/transcript/internal/lines"
)

type blockKind int

const (
	blockComplete     blockKind = iota
	blockUnterminated           // another block begins, or the text ends, before it is closed
	blockTooLarge               // not closed within MaxTurnBlock
)

// blockEvent is a turn signal's block, or what began like one.
type blockEvent struct {
	kind      blockKind
	raw       []byte // valid during the call
	at        int64
	line      int
	delegated bool
}

// blockFinder finds <signal …>…</signal> in text that comes in pieces. A new opener ends the block before, so
// every byte is looked at a bounded number of times.
type blockFinder struct {
	buf       []byte // the block so far, from its '<'
	scanned   int    // how much of buf has been looked at
	at        int64
	line      int
	delegated bool
	stage     blockStage
	quote     byte // inside an attribute's value: its quote
	plain     func([]byte)
}

type blockStage int

const (
	stageIdle   blockStage = iota
	stageName              // buf may become "<signal"
	stageOpener            // inside the opener's tag
	stageInside            // between opener and closer
	stageCloser            // past the closer's name
)

const openerName, closerName = "<signal", "</signal"

func (f *blockFinder) open() bool { return f.stage != stageIdle }

func (f *blockFinder) clone() blockFinder {
	c := *f
	c.buf = bytes.Clone(f.buf)
	return c
}

// release passes on text that is in no block, to whoever wants it.
func (f *blockFinder) release(b []byte) {
	if f.plain != nil && len(b) > 0 {
		f.plain(b)
	}
}

func (f *blockFinder) feed(b []byte, at int64, line int, delegated bool, found func(blockEvent)) {
	for len(b) > 0 {
		n := 0
		switch f.stage {
		case stageIdle:
			n = f.search(b, at, line, delegated)
		case stageName:
			n = f.name(b)
		default:
			n = f.collect(b, at, line, delegated, found)
		}
		b, at = b[n:], at+int64(n)
	}
}

// search looks for the start of an opener and returns how much of b it used.
func (f *blockFinder) search(b []byte, at int64, line int, delegated bool) int {
	for i := 0; ; {
		k := bytes.IndexByte(b[i:], '<')
		if k < 0 {
			f.release(b)
			return len(b)
		}
		i += k
		if head := b[i:min(i+len(openerName), len(b))]; hasFoldedPrefix(openerName, head) {
			f.release(b[:i])
			f.buf = append(f.buf[:0], head...)
			f.at, f.line, f.delegated, f.stage = at+int64(i), line, delegated, stageName
			return i + len(head)
		}
		i++
	}
}

// name completes the opener's name and the byte after it.
func (f *blockFinder) name(b []byte) int {
	if have := len(f.buf); have < len(openerName) {
		if b[0]|0x20 != openerName[have] {
			f.giveUp()
			return 0
		}
		f.buf = append(f.buf, b[0])
		return 1
	}
	if !endsName(b[0]) {
		f.giveUp()
		return 0
	}
	f.stage, f.scanned, f.quote = stageOpener, len(f.buf), 0
	return 0
}

// endsName reports whether c may follow a tag's name.
func endsName(c byte) bool { return c == '>' || c == '/' || lines.IsSpace(c) }

// giveUp lets go of what is no block.
func (f *blockFinder) giveUp() {
	f.release(f.buf)
	f.buf, f.stage = f.buf[:0], stageIdle
}

// collectStep is how much is added to a block at once: what lies behind its end, or the next opener, is added in vain.
const collectStep = 256

// collect adds b to the block and looks for its end. It returns how much of b it used.
func (f *blockFinder) collect(b []byte, at int64, line int, delegated bool, found func(blockEvent)) int {
	before := len(f.buf)
	n := min(len(b), MaxTurnBlock-before, collectStep)
	if n == 0 {
		f.tooLarge(line, delegated, found)
		return 0
	}
	f.buf = append(f.buf, b[:n]...)
	for f.scanned < len(f.buf) {
		switch f.next() {
		case foundNothing:
			return n
		case foundEnd:
			end := f.scanned
			f.emit(blockComplete, f.buf[:end], found)
			f.buf, f.stage = f.buf[:0], stageIdle
			return end - before
		case foundOpener:
			// The bytes before b hold no opener, and of one that straddles the two its start is still in buf.
			start := f.scanned
			f.emit(blockUnterminated, f.buf[:start], found)
			f.release(f.buf[:start])
			f.buf = append(f.buf[:0], f.buf[start:start+len(openerName)]...)
			f.at, f.line, f.delegated, f.stage = at+int64(start-before), line, delegated, stageName
			return start + len(openerName) - before
		}
	}
	return n
}

type foundWhat int

const (
	foundNothing foundWhat = iota // more text is needed
	foundEnd                      // the block ends at scanned
	foundOpener                   // another opener begins at scanned
)

// next looks on from scanned.
func (f *blockFinder) next() foundWhat {
	for f.scanned < len(f.buf) {
		rest := f.buf[f.scanned:]
		if f.stage == stageCloser && f.closerByte(rest[0]) {
			return foundEnd
		}
		if f.stage == stageCloser {
			continue
		}
		if f.stage == stageInside {
			k := bytes.IndexByte(rest, '<')
			if k < 0 {
				f.scanned = len(f.buf)
				return foundNothing
			}
			f.scanned += k
			rest = rest[k:]
		}
		if rest[0] == '<' {
			what, n := f.tag(rest)
			if what != foundNothing || n == 0 {
				return what
			}
			f.scanned += n
			continue
		}
		if f.scanned++; f.openerByte(rest[0]) {
			return foundEnd
		}
	}
	return foundNothing
}

// tag looks at a '<'. It returns foundNothing and 0 if more text is needed, foundNothing and how much to pass
// over if it is no tag of ours.
func (f *blockFinder) tag(rest []byte) (foundWhat, int) {
	head := rest[:min(len(rest), len(openerName))]
	if hasFoldedPrefix(openerName, head) {
		switch {
		case len(rest) <= len(openerName):
			return foundNothing, 0
		case endsName(rest[len(openerName)]):
			return foundOpener, 0
		}
		return foundNothing, 1
	}
	head = rest[:min(len(rest), len(closerName))]
	if f.stage != stageInside || !hasFoldedPrefix(closerName, head) {
		return foundNothing, 1
	}
	if len(head) < len(closerName) {
		return foundNothing, 0
	}
	f.stage = stageCloser
	return foundNothing, len(head)
}

// closerByte takes a byte after the closer's name and reports whether it ends the block. Any number of white
// space may stand before the '>'.
func (f *blockFinder) closerByte(c byte) bool {
	switch {
	case c == '>':
		f.scanned++
		return true
	case lines.IsSpace(c):
		f.scanned++
	default:
		f.stage = stageInside
	}
	return false
}

// openerByte takes a byte of the opener's tag and reports whether it ends a block without content.
func (f *blockFinder) openerByte(c byte) bool {
	switch {
	case f.quote != 0:
		if c == f.quote {
			f.quote = 0
		}
	case c == '"' || c == '\'':
		f.quote = c
	case c == '>':
		if f.buf[f.scanned-2] == '/' {
			return true
		}
		f.stage = stageInside
	}
	return false
}

// tooLarge gives the block up. It holds no other opener, but its last bytes may begin one.
func (f *blockFinder) tooLarge(line int, delegated bool, found func(blockEvent)) {
	tail := len(f.buf)
	if k := bytes.LastIndexByte(f.buf, '<'); k > 0 && len(f.buf)-k <= len(openerName) && hasFoldedPrefix(openerName, f.buf[k:]) {
		tail = k
	}
	f.emit(blockTooLarge, f.buf[:tail], found)
	f.release(f.buf[:tail])
	f.at += int64(tail)
	f.buf = append(f.buf[:0], f.buf[tail:]...)
	f.line, f.delegated, f.stage = line, delegated, stageIdle
	if len(f.buf) > 0 {
		f.stage = stageName
	}
}

func (f *blockFinder) emit(kind blockKind, raw []byte, found func(blockEvent)) {
	found(blockEvent{kind, raw, f.at, f.line, f.delegated})
}

// opaque adds text in which no tag is looked for, such as a fence, to the block that is open.
func (f *blockFinder) opaque(b []byte, found func(blockEvent)) {
	if f.stage == stageCloser {
		f.stage = stageInside
	}
	if f.stage == stageName {
		f.giveUp()
	}
	if f.stage == stageIdle {
		f.release(b)
		return
	}
	n := min(len(b), MaxTurnBlock-len(f.buf))
	f.buf = append(f.buf, b[:n]...)
	f.scanned = len(f.buf)
	if n < len(b) {
		f.emit(blockTooLarge, f.buf, found)
		f.giveUp()
		f.release(b[n:])
	}
}

// end ends the text.
func (f *blockFinder) end(found func(blockEvent)) {
	if f.stage > stageName {
		f.emit(blockUnterminated, f.buf, found)
	}
	if f.open() {
		f.giveUp()
	}
}

// hasFoldedPrefix reports whether head, in any case, is a prefix of the lower-case name.
func hasFoldedPrefix(name string, head []byte) bool {
	if len(head) > len(name) {
		return false
	}
	for i, c := range head {
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		if c != name[i] {
			return false
		}
	}
	return true
}
