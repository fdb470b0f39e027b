package transcript

import (
	"bytes"
	"slices"

	"signalbox"
	"signalbox/transcript/internal/lines"
)

// turnBlock is a block <signal …>…</signal>, or the start of one. raw is valid during the call
// only.
type turnBlock struct {
	kind    blockKind
	raw     []byte
	at      int64
	line    int
	refused signalbox.Reason // why it does not count where it is, "" if it does
}

type blockKind int

const (
	blockComplete     blockKind = iota
	blockUnterminated           // another block starts, or the text ends, before it is closed
	blockTooLarge               // not closed within MaxTurnBlock bytes
	blockQuoted                 // complete, and inside a code span
)

// turnFinder finds blocks in text that arrives in pieces. A new opening tag ends the block before
// it, so every byte is looked at a bounded number of times.
//
// A block after a backquote is doubtful: whether it is inside a code span is known only when the
// span is closed or the paragraph ends. Until then the block and the text after it are held back,
// at most MaxTurnBlock bytes. If that is not enough, the block is taken for quoted.
type turnFinder struct {
	stage turnStage
	// the text that is held back: doubtful blocks and what is between, then the current block
	buf     []byte
	block   int   // where in buf the current block starts
	scanned int   // how much of buf has been looked at
	at      int64 // of the current block, like line and refused
	line    int
	refused signalbox.Reason
	quote   byte         // inside an attribute's value: its quote
	other   func([]byte) // receives the text outside blocks; nil discards it

	fenced bool // the text is inside a fence, where there are no code spans
	spans  lines.CodeSpans
	depth  int     // how many spans may contain the current block
	doubts []doubt // the doubtful blocks, in order
}

// doubt is a doubtful block.
type doubt struct {
	turnBlock     // without raw
	from, to  int // where it is in buf
	depth     int // how many spans may contain it, at least 1
}

type turnStage int

const (
	stageSearch  turnStage = iota // outside blocks
	stageName                     // the block may become "<signal"
	stageOpening                  // inside the opening tag
	stageContent                  // between the tags
	stageClosing                  // after the name of the closing tag
)

const openingName, closingName = "<signal", "</signal"

// active reports whether a block may have started.
func (f *turnFinder) active() bool { return f.stage != stageSearch || len(f.doubts) > 0 }

// start returns the offset of the first block that may have started. It must be active.
func (f *turnFinder) start() int64 {
	if len(f.doubts) > 0 {
		return f.doubts[0].at
	}
	return f.at
}

func (f *turnFinder) clone() turnFinder {
	c := *f
	c.buf, c.doubts, c.spans = bytes.Clone(f.buf), slices.Clone(f.doubts), f.spans.Clone()
	return c
}

func (f *turnFinder) passOther(b []byte) {
	if f.other != nil && len(b) > 0 {
		f.other(b)
	}
}

// feed takes the next bytes of the text, which are in one line, and calls found for each block.
func (f *turnFinder) feed(b []byte, at int64, line int, refused signalbox.Reason,
	found func(turnBlock)) {
	for len(b) > 0 {
		n := 0
		switch f.stage {
		case stageSearch:
			n = f.search(b, at, line, refused, found)
		case stageName:
			n = f.readName(b)
		default:
			n = f.collect(b, at, line, refused, found)
		}
		b, at = b[n:], at+int64(n)
	}
}

// search looks for the start of an opening tag and returns how much of b it used.
func (f *turnFinder) search(b []byte, at int64, line int, refused signalbox.Reason,
	found func(turnBlock)) int {
	if len(f.doubts) > 0 {
		if len(f.buf) >= MaxTurnBlock {
			f.giveUp(found)
		} else {
			b = b[:min(len(b), MaxTurnBlock-len(f.buf), collectStep)]
		}
	}
	for i := 0; ; i++ {
		k := bytes.IndexByte(b[i:], '<')
		if k < 0 {
			f.text(b, found)
			return len(b)
		}
		i += k
		if head := b[i:min(i+len(openingName), len(b))]; isFoldedPrefix(head, openingName) {
			f.text(b[:i], found)
			f.advance(head[:1], found) // ends a run of backquotes before it, or starts a list item
			f.passDecided()
			f.startBlock(head, at+int64(i), line, refused)
			f.advance(head[1:], found)
			return i + len(head)
		}
	}
}

// text takes text outside blocks.
func (f *turnFinder) text(b []byte, found func(turnBlock)) {
	if len(f.doubts) == 0 {
		f.passOther(b)
	} else {
		f.buf = append(f.buf, b...)
	}
	f.advance(b, found)
	f.passDecided()
}

func (f *turnFinder) startBlock(head []byte, at int64, line int, refused signalbox.Reason) {
	f.block, f.depth = len(f.buf), f.spans.Depth()
	f.buf = append(f.buf, head...)
	f.at, f.line, f.refused, f.stage = at, line, refused, stageName
}

// readName completes the name of the opening tag and checks the byte after it. It returns how much
// of b it used.
func (f *turnFinder) readName(b []byte) int {
	if have := len(f.buf) - f.block; have < len(openingName) {
		if b[0]|0x20 != openingName[have] {
			f.abandon()
			return 0
		}
		f.buf = append(f.buf, b[0])
		f.advance(b[:1], nil) // a letter: nothing is found
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

// abandon takes the current block for text that is not a block.
func (f *turnFinder) abandon() {
	f.stage = stageSearch
	f.passDecided()
}

// passDecided passes on the held text before the current block if there is no doubt about it.
func (f *turnFinder) passDecided() {
	if len(f.doubts) > 0 {
		return
	}
	end := len(f.buf)
	if f.stage != stageSearch {
		end = f.block
	}
	f.passOther(f.buf[:end])
	f.drop(end)
}

// drop removes the first n bytes of buf.
func (f *turnFinder) drop(n int) {
	f.buf = f.buf[:copy(f.buf, f.buf[n:])]
	f.block, f.scanned = max(0, f.block-n), max(0, f.scanned-n)
}

// advance takes bytes that are already held or passed on, to find out which of the doubtful blocks
// are quoted.
func (f *turnFinder) advance(b []byte, found func(turnBlock)) {
	for len(b) > 0 && !f.fenced {
		n, event := f.spans.Next(b)
		b = b[n:]
		f.handle(event, found)
	}
}

// handle decides about doubtful blocks.
func (f *turnFinder) handle(event lines.SpanEvent, found func(turnBlock)) {
	switch event {
	case lines.SpanClosed:
		f.refuseQuoted(f.spans.Depth(), found)
	case lines.ParagraphEnded:
		f.acceptDoubtful(found)
	}
}

// refuseQuoted reports the blocks that are inside the span that has just been closed. depth is how
// many spans may contain that one.
func (f *turnFinder) refuseQuoted(depth int, found func(turnBlock)) {
	first := len(f.doubts)
	for first > 0 && f.doubts[first-1].depth > depth {
		first--
	}
	for _, d := range f.doubts[first:] {
		if d.kind == blockComplete {
			d.kind, d.raw = blockQuoted, f.buf[d.from:d.to]
			found(d.turnBlock)
		}
	}
	f.doubts = f.doubts[:first]
}

// acceptDoubtful reports the doubtful blocks as blocks, because no span contains them, and passes
// on the text between them.
func (f *turnFinder) acceptDoubtful(found func(turnBlock)) {
	f.depth = 0
	passed := 0
	for _, d := range f.doubts {
		f.passOther(f.buf[passed:d.from])
		d.raw = f.buf[d.from:d.to]
		found(d.turnBlock)
		if passed = d.to; d.kind != blockComplete {
			f.passOther(d.raw)
		}
	}
	f.doubts = f.doubts[:0]
	f.drop(passed)
	f.passDecided()
}

// giveUp takes the doubtful blocks for quoted, because too much text is held back for them.
func (f *turnFinder) giveUp(found func(turnBlock)) {
	f.refuseQuoted(0, found)
	f.passDecided()
}

// collectStep is how much is added to a block at once. Bytes after its end, or after the next
// opening tag, are copied in vain.
const collectStep = 256

// collect adds b to the block and looks for its end. It returns how much of b it used.
func (f *turnFinder) collect(b []byte, at int64, line int, refused signalbox.Reason,
	found func(turnBlock)) int {
	before := len(f.buf)
	n := min(len(b), MaxTurnBlock-before, collectStep)
	if n <= 0 {
		if len(f.doubts) > 0 {
			f.giveUp(found)
		} else {
			f.endTooLarge(line, refused, found)
		}
		return 0
	}
	f.buf = append(f.buf, b[:n]...)
	result := f.scan()
	used := n
	switch result {
	case scanEnd:
		used = f.scanned - before
	case scanOpening: // buf contains the whole tag, even if it started in an earlier piece
		used = f.scanned + len(openingName) - before
	}
	f.buf = f.buf[:before+used]
	if quoted := f.advanceBlock(b[:used], found); quoted >= 0 {
		return quoted
	}
	switch result {
	case scanEnd:
		f.endBlock(blockComplete, f.scanned, found)
		f.spans.Truncate(f.depth) // the content of a block opens no spans
		f.stage = stageSearch
	case scanOpening:
		f.endBlock(blockUnterminated, f.scanned, found)
		f.block, f.depth, f.stage = f.scanned, f.spans.Depth(), stageName
		f.at, f.line, f.refused = at+int64(used-len(openingName)), line, refused
	}
	return used
}

// advanceBlock is advance for the last bytes of buf, which are in the current block. If they show
// that the block is quoted, it ends the block there and returns how many of them it used, otherwise
// -1.
func (f *turnFinder) advanceBlock(b []byte, found func(turnBlock)) int {
	for i := 0; i < len(b) && !f.fenced; {
		n, event := f.spans.Next(b[i:])
		i += n
		f.handle(event, found)
		if event == lines.SpanClosed && f.spans.Depth() < f.depth {
			f.buf = f.buf[:len(f.buf)-(len(b)-i)]
			f.abandon()
			return i
		}
	}
	return -1
}

// endBlock ends the current block at the given index of buf.
func (f *turnFinder) endBlock(kind blockKind, end int, found func(turnBlock)) {
	b := turnBlock{kind: kind, at: f.at, line: f.line, refused: f.refused}
	if f.depth > 0 {
		f.doubts = append(f.doubts, doubt{b, f.block, end, f.depth})
		return
	}
	b.raw = f.buf[f.block:end]
	found(b)
	if kind != blockComplete {
		f.passOther(b.raw)
	}
	f.drop(end)
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

// tag looks at a '<'. If it is not the start of another opening tag, tag returns how many bytes to
// move on, 0 if more text is needed.
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

// closingByte takes a byte after the name of the closing tag and reports whether it ends the block.
// White space may precede the '>'.
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

// endTooLarge ends a block that is too large. The block contains no other opening tag, but its last
// bytes may start one.
func (f *turnFinder) endTooLarge(line int, refused signalbox.Reason, found func(turnBlock)) {
	tail := len(f.buf)
	if k := bytes.LastIndexByte(f.buf, '<'); k > 0 && len(f.buf)-k <= len(openingName) &&
		isFoldedPrefix(f.buf[k:], openingName) {
		tail = k
	}
	f.depth = 0 // it does not count, quoted or not
	f.endBlock(blockTooLarge, tail, found)
	f.at, f.line, f.refused = f.at+int64(tail), line, refused
	if f.stage, f.depth = stageName, f.spans.Depth(); len(f.buf) == 0 {
		f.stage = stageSearch
	}
}

// addOpaque adds text in which tags do not count, such as a fence, to the block that has started.
func (f *turnFinder) addOpaque(b []byte, found func(turnBlock)) {
	f.endParagraph(found)
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
		f.endBlock(blockTooLarge, len(f.buf), found)
		f.abandon()
		f.passOther(b[n:])
	}
}

// end ends the text.
func (f *turnFinder) end(found func(turnBlock)) {
	f.endParagraph(found)
	if f.stage > stageName {
		f.endBlock(blockUnterminated, len(f.buf), found)
	}
	f.abandon()
}

// endParagraph decides about the doubtful blocks, because the paragraph has ended.
func (f *turnFinder) endParagraph(found func(turnBlock)) {
	if f.fenced {
		return
	}
	if f.spans.End() {
		f.refuseQuoted(f.spans.Depth(), found)
		if f.stage != stageSearch && f.spans.Depth() < f.depth {
			f.abandon()
		}
	}
	f.acceptDoubtful(found)
	f.spans.Reset()
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

// skip takes text without tags, in any number of lines, while the finder is not active.
func (f *turnFinder) skip(text []byte) {
	for len(text) > 0 {
		n := bytes.IndexByte(text, '\n') + 1
		if n == 0 {
			n = len(text)
		}
		f.advance(text[:n], nil)
		text = text[n:]
	}
}
