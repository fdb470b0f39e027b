package transcript

import (
	"bytes"
	"slices"

	"signalbox"
	"signalbox/transcript/internal/lines"
)

// text finds signals in the agent's own text. It walks lines: most are settled by their first bytes
// (suspicious) and the absence of "<si", and cost nothing more.
type text struct {
	key string

	off  int64 // of the next byte to be pushed
	line int   // number of the line that byte is in, from 1
	last byte  // the last byte pushed, '\n' at the start

	// A line whose end has not come yet.
	carry     []byte // its bytes, while it may still turn out to matter as a line
	lineOff   int64
	streaming bool // it has been judged: the rest goes straight to the finders
	opaque    bool // the line opens or closes a fence: there is nothing to find in it

	fence     lines.Fence
	delegated bool
	turns     blockFinder // blocks outside fences
	quoted    blockFinder // blocks inside the fence that is open
	exits     exitFinder

	firstTurn *signalbox.Signal // the turn signal that counts in this message
	exitSeen  bool              // this turn has had an exit signal outside a fence
	fenced    fencedExit

	body        body
	queue       []*entry
	settled     []signalbox.Signal // to be released
	taken       tally
	brokenExits tally
	refused     tally
	dropped     int  // signals beyond MaxSignals
	marked      bool // the text since the last mark may have to be taken back
	markedBytes int  // of signals found since
}

func newText(key string) *text {
	return &text{key: key, line: 1, last: '\n'}
}

func (t *text) Skip(n int) { t.off += int64(n) }

func (t *text) Push(p []byte) {
	if len(p) == 0 {
		return
	}
	t.body.piece(p, t.off)
	i := 0
	if t.midLine() {
		i = t.continueLine(p)
	}
	for i < len(p) {
		if t.quiet() {
			skipped, count := skipOrdinaryLines(p[i:])
			i += skipped
			t.line += count
		}
		n := bytes.IndexByte(p[i:], '\n')
		if n < 0 {
			t.beginLine(p[i:], t.off+int64(i))
			break
		}
		t.wholeLine(p[i:i+n+1], t.off+int64(i))
		i += n + 1
		if len(t.queue) >= settleAt {
			t.settle()
		}
	}
	t.off += int64(len(p))
	t.last = p[len(p)-1]
	t.body.endPiece()
	t.closeFullBody()
}

func (t *text) midLine() bool { return len(t.carry) > 0 || t.streaming }

// quiet reports whether a line matters only if it is suspicious or holds a "<si".
func (t *text) quiet() bool {
	return !t.turns.open() && !t.quoted.open() && !t.exits.active() && !t.fenced.watched
}

// wholeLine takes a line with its line end.
func (t *text) wholeLine(b []byte, at int64) {
	t.lineOff = at
	if line := b[:len(b)-1]; !t.dull(line) {
		t.judge(line[:min(len(line), maxLine+1)])
		t.feed(b, at)
	}
	t.line++
}

// dull reports whether a line is an object of its own that does not name the exit protocol, as in a log. An exit signal
// holds no other object, so a brace at the line's end closes it.
func (t *text) dull(line []byte) bool {
	return len(line) > 0 && len(line) <= maxLine && line[0] == '{' && t.quiet() &&
		bytes.HasSuffix(lines.TrimEnd(line), []byte("}")) && !mayName(line) && !hasTag(line)
}

// settled is how many bytes of a line tell whether it is suspicious.
const settled = maxDecoration + 64

// beginLine takes the start of a line that the piece does not end.
func (t *text) beginLine(b []byte, at int64) {
	if t.lineOff = at; len(b) > 0 {
		t.carryOn(b, at)
	}
}

// continueLine takes p's part of the line begun in an earlier piece and returns where the next line begins.
func (t *text) continueLine(p []byte) int {
	n := bytes.IndexByte(p, '\n')
	if n < 0 {
		t.carryOn(p, t.off)
		return len(p)
	}
	t.carryOn(p[:n], t.off)
	if t.streaming {
		t.feed(p[n:n+1], t.off+int64(n))
		t.streaming = false
		t.line++
	} else {
		line := append(t.carry, '\n')
		t.carry = line[:0]
		t.wholeLine(line, t.lineOff)
	}
	return n + 1
}

// carryOn takes more of a line that has not ended. A line that cannot matter, or is longer than any signal, is
// judged by what is there and not kept.
func (t *text) carryOn(p []byte, at int64) {
	if !t.streaming {
		n := min(len(p), maxLine+1-len(t.carry))
		t.carry = append(t.carry, p[:n]...)
		p, at = p[n:], at+int64(n)
		if len(t.carry) > maxLine || len(t.carry) >= settled && !suspicious(t.carry) {
			line := t.carry
			t.carry, t.streaming = nil, true
			t.judge(line)
			t.feed(line, t.lineOff)
			t.carry = line[:0]
		}
	}
	if len(p) > 0 {
		t.feed(p, at)
	}
}

// endLine ends a line at the end of a message, where no line end may have come.
func (t *text) endLine() {
	if len(t.carry) > 0 {
		line := t.carry
		t.carry = line[:0]
		if !t.dull(line) {
			t.judge(line)
			t.feed(line, t.lineOff)
		}
	}
	t.streaming = false
}

func (t *text) FreshLine() {
	if t.last != '\n' {
		t.Push([]byte{'\n'})
	}
}

func (t *text) EndSpeech() {
	t.FreshLine()
	if !t.fenced.waiting() {
		t.closeBody(t.off)
	}
}

func (t *text) BeginMessage() {
	t.EndMessage()
	if t.last != '\n' {
		t.off++
		t.line++
		t.last = '\n'
	}
}

func (t *text) EndMessage() {
	t.endLine()
	t.exits.end(t.exitFound)
	t.turns.end(t.turnEvent)
	t.quoted.end(t.quotedEvent)
	if t.fence.IsOpen() {
		t.refuseFencedExit()
		t.fence = lines.Fence{}
	}
	t.delegated = false
	t.firstTurn = nil
	if t.fenced.waiting() {
		t.body.freeze(t.off)
	} else {
		t.closeBody(t.off)
	}
}

func (t *text) EndTurn() {
	t.EndMessage()
	t.settleFencedExit()
	t.exitSeen = false
}

func (t *text) Mark() (restore func()) {
	t.settle() // so that there is little to copy
	saved := *t
	saved.carry = bytes.Clone(t.carry)
	saved.turns, saved.quoted, saved.exits = t.turns.clone(), t.quoted.clone(), t.exits.clone()
	saved.queue = slices.Clone(t.queue) // entries are never changed in place
	if !t.marked {
		t.marked, t.markedBytes = true, 0
	}
	return func() {
		settled := t.settled // of what was found before the mark; what has been released since is not released again
		*t = saved
		t.settled = settled
	}
}

func (t *text) Settle() { t.marked = false }
