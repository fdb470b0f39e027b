package transcript

import (
	"bytes"

	"signalbox/transcript/internal/lines"
)

// turnBlock is a block <signal …>…</signal>, or the start of one. raw is valid during the call only.
type turnBlock struct {
	kind      blockKind
	raw       []byte
	at        int64
	line      int
	delegated bool
}

type blockKind int

const (
	blockComplete     blockKind = iota
	blockUnterminated           // another block starts, or the text ends, before it is closed
	blockTooLarge               // not closed within MaxTurnBlock bytes
)

// turnFinder finds blocks in text that arrives in pieces. A new opening tag ends the block before it, so every byte is
// looked at a bounded number of times.
type turnFinder struct {
	stage     turnStage
	buf       []byte // the block so far, from its '<'
	scanned   int    // how much of buf has been looked at
	start     int64
	line      int
	delegated bool
	quote     byte         // inside an attribute's value: its quote
	other     func([]byte) // receives the text outside blocks; nil discards it
}

type turnStage int

const (
	stageSearch  turnStage = iota // outside blocks
	stageName                     // buf may become "<signal"
	stageOpening                  // inside the opening tag
	stageContent                  // between the tags
	stageClosing                  // after the name of the closing tag
)

const openingName, closingName = "<signal", "</signal"

// active reports whether a block may have started.
func (f *turnFinder) active() bool { return f.stage != stageSearch }

func (f *turnFinder) clone() turnFinder {
	c := *f
	c.buf = bytes.Clone(f.buf)
	return c
}

func (f *turnFinder) passOther(b []byte) {
	if f.other != nil && len(b) > 0 {
		f.other(b)
	}
}

// feed takes the next bytes of the text, which are in one line, and calls found for each block.
func (f *turnFinder) feed(b []byte, at int64, line int, delegated bool, found func(turnBlock)) {
	for len(b) > 0 {
		n := 0
		switch f.stage {
		case stageSearch:
			n = f.search(b, at, line, delegated)
		case stageName:
			n = f.readName(b)
		default:
			n = f.collect(b, at, line, delegated, found)
		}
		b, at = b[n:], at+int64(n)
	}
}

// search looks for the start of an opening tag and returns how much of b it used.
func (f *turnFinder) search(b []byte, at int64, line int, delegated bool) int {
	for i := 0; ; i++ {
		k := bytes.IndexByte(b[i:], '<')
		if k < 0 {
			f.passOther(b)
			return len(b)
		}
		i += k
		if head := b[i:min(i+len(openingName), len(b))]; isFoldedPrefix(head, openingName) {
			f.passOther(b[:i])
			f.startBlock(head, at+int64(i), line, delegated)
			return i + len(head)
		}
	}
}

func (f *turnFinder) startBlock(head []byte, at int64, line int, delegated bool) {
	f.buf = append(f.buf[:0], head...)
	f.start, f.line, f.delegated, f.stage = at, line, delegated, stageName
}

// readName completes the name of the opening tag and checks the byte after it. It returns how much of b it used.
func (f *turnFinder) readName(b []byte) int {
	if have := len(f.buf); have < len(openingName) {
		if b[0]|0x20 != openingName[have] {
			f.abandon()
			return 0
		}
		f.buf = append(f.buf, b[0])
		return 1
	}
	if !endsName(b[0]) {
		f.abandon()
		return 0
	}
	f.stage, f.scanned, f.quote = stageOpening, len(f.buf), 0
	return 0
}

// endsName reports whether c may follow the name of a tag.
func endsName(c byte) bool { return c == '>' || c == '/' || lines.IsSpace(c) }

// abandon passes on the collected bytes as text that is not a block.
func (f *turnFinder) abandon() {
	f.passOther(f.buf)
	f.buf, f.stage = f.buf[:0], stageSearch
}

// collectStep is how much is added to a block at once. Bytes after its end, or after the next opening tag, are copied in
// vain.
const collectStep = 256

// collect adds b to the block and looks for its end. It returns how much of b it used.
func (f *turnFinder) collect(b []byte, at int64, line int, delegated bool, found func(turnBlock)) int {
	before := len(f.buf)
	n := min(len(b), MaxTurnBlock-before, collectStep)
	if n == 0 {
		f.endTooLarge(line, delegated, found)
		return 0
	}
	f.buf = append(f.buf, b[:n]...)
	switch f.scan() {
	case scanEnd:
		end := f.scanned
		f.report(blockComplete, f.buf[:end], found)
		f.buf, f.stage = f.buf[:0], stageSearch
		return end - before
	case scanOpening:
		// buf contains the whole tag, even if it started in an earlier piece.
		start := f.scanned
		f.report(blockUnterminated, f.buf[:start], found)
		f.passOther(f.buf[:start])
		f.startBlock(f.buf[start:start+len(openingName)], at+int64(start-before), line, delegated)
		return start + len(openingName) - before
	}
	return n
}

type scanResult int

const (
	scanMore    scanResult = iota // more text is needed
	scanEnd                       // the block ends at scanned
	scanOpening                   // another opening tag starts at scanned
)

// scan looks at the rest of buf.
func (f *turnFinder) scan() scanResult {
	for f.scanned < len(f.buf) {
		rest := f.buf[f.scanned:]
		switch f.stage {
		case stageClosing:
			if f.closingByte(rest[0]) {
				return scanEnd
			}
			continue
		case stageContent:
			k := bytes.IndexByte(rest, '<')
			if k < 0 {
				f.scanned = len(f.buf)
				return scanMore
			}
			f.scanned += k
			rest = rest[k:]
		}
		if rest[0] == '<' {
			result, n := f.tag(rest)
			if result != scanMore || n == 0 {
				return result
			}
			f.scanned += n
			continue
		}
		if f.scanned++; f.openingByte(rest[0]) {
			return scanEnd
		}
	}
	return scanMore
}

// tag looks at a '<'. If it is not the start of another opening tag, tag returns how many bytes to move on, 0 if more text
// is needed.
func (f *turnFinder) tag(rest []byte) (scanResult, int) {
	head := rest[:min(len(rest), len(openingName))]
	if isFoldedPrefix(head, openingName) {
		switch {
		case len(rest) <= len(openingName):
			return scanMore, 0
		case endsName(rest[len(openingName)]):
			return scanOpening, 0
		}
		return scanMore, 1
	}
	head = rest[:min(len(rest), len(closingName))]
	if f.stage != stageContent || !isFoldedPrefix(head, closingName) {
		return scanMore, 1
	}
	if len(head) < len(closingName) {
		return scanMore, 0
	}
	f.stage = stageClosing
	return scanMore, len(head)
}

// closingByte takes a byte after the name of the closing tag and reports whether it ends the block. White space may
// precede the '>'.
func (f *turnFinder) closingByte(c byte) bool {
	switch {
	case c == '>':
		f.scanned++
		return true
	case lines.IsSpace(c):
		f.scanned++
	default:
		f.stage = stageContent
	}
	return false
}

// openingByte takes a byte of the opening tag and reports whether it ends a block without content.
func (f *turnFinder) openingByte(c byte) bool {
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
		f.stage = stageContent
	}
	return false
}

// endTooLarge ends a block that is too large. The block contains no other opening tag, but its last bytes may start one.
func (f *turnFinder) endTooLarge(line int, delegated bool, found func(turnBlock)) {
	tail := len(f.buf)
	if k := bytes.LastIndexByte(f.buf, '<'); k > 0 && len(f.buf)-k <= len(openingName) && isFoldedPrefix(f.buf[k:], openingName) {
		tail = k
	}
	f.report(blockTooLarge, f.buf[:tail], found)
	f.passOther(f.buf[:tail])
	f.startBlock(f.buf[tail:], f.start+int64(tail), line, delegated)
	if len(f.buf) == 0 {
		f.stage = stageSearch
	}
}

func (f *turnFinder) report(kind blockKind, raw []byte, found func(turnBlock)) {
	found(turnBlock{kind, raw, f.start, f.line, f.delegated})
}

// addOpaque adds text in which tags do not count, such as a fence, to the block that has started.
func (f *turnFinder) addOpaque(b []byte, found func(turnBlock)) {
	switch f.stage {
	case stageClosing:
		f.stage = stageContent
	case stageName:
		f.abandon()
	}
	if f.stage == stageSearch {
		f.passOther(b)
		return
	}
	n := min(len(b), MaxTurnBlock-len(f.buf))
	f.buf = append(f.buf, b[:n]...)
	f.scanned = len(f.buf)
	if n < len(b) {
		f.report(blockTooLarge, f.buf, found)
		f.abandon()
		f.passOther(b[n:])
	}
}

// end ends the text.
func (f *turnFinder) end(found func(turnBlock)) {
	if f.stage > stageName {
		f.report(blockUnterminated, f.buf, found)
	}
	if f.active() {
		f.abandon()
	}
}

// isFoldedPrefix reports whether head is, in any case, a prefix of name, which is in lower case.
func isFoldedPrefix(head []byte, name string) bool {
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
