package transcript

import (
	"fmt"
	"math"
	"slices"
	"unicode/utf8"

	"signalbox"
	"signalbox/transcript/internal/lines"
	"signalbox/transcript/internal/payload"
)

// entry is a signal on its way out. Its body is read when it leaves, since a signal that is found late may still
// shorten it. An entry in the queue is replaced, not changed, for a marked state may hold it as well.
type entry struct {
	sig       signalbox.Signal
	open      bool   // its body still grows
	body      []byte // the bytes from bodyStart on
	bodyStart int64
	cut       bool // there was more than is kept
}

// bodyEnd is where the signal and what belongs to it ends.
func (e *entry) bodyEnd() int64 { return e.bodyStart + int64(len(e.body)) }

// tally counts the signals of one kind: taken, exit signals that were refused, and all else that was.
type tally struct{ queued, released int }

// mostQueued bounds the queue. Signals may be found a little out of order, so those beyond MaxSignals are dropped when
// they are settled, in order; but whatever is found after so many more cannot come among the first.
const mostQueued = MaxSignals + 16<<10

// settleAt is the length of the queue at which it is settled before the piece ends.
const settleAt = 1024

func (t *text) tallyOf(sig *signalbox.Signal) *tally {
	switch {
	case sig.Taken():
		return &t.taken
	case sig.Dialect == signalbox.DialectExit:
		return &t.brokenExits
	}
	return &t.refused
}

// add puts a signal in its place by offset, and reports whether it was kept.
func (t *text) add(sig signalbox.Signal) bool {
	tally := t.tallyOf(&sig)
	if tally.released == MaxSignals || tally.queued+tally.released == mostQueued {
		t.drop(&sig)
		return false
	}
	tally.queued++
	t.markedBytes += len(sig.Raw)
	i := len(t.queue)
	for i > 0 && t.queue[i-1].sig.Offset > sig.Offset {
		i--
	}
	t.queue = slices.Insert(t.queue, i, &entry{sig: sig})
	return true
}

// drop counts what could have decided the turn: signals, and exit signals that make others doubtful.
func (t *text) drop(sig *signalbox.Signal) {
	if sig.Taken() || sig.Dialect == signalbox.DialectExit {
		t.dropped++
	}
}

// release returns what has been settled since the last call.
func (t *text) release() []signalbox.Signal {
	t.settle()
	out := t.settled
	t.settled = nil
	return out
}

// settle moves the signals on, in order, before which nothing more can appear. While a text may have to be taken back
// nothing is settled.
func (t *text) settle() {
	if t.marked {
		return
	}
	barrier := t.barrier()
	n := 0
	for ; n < len(t.queue); n++ {
		e := t.queue[n]
		if e.open || e.sig.Offset >= barrier || e.bodyEnd() > barrier {
			break
		}
		t.tallyOf(&e.sig).queued--
		e.sig.Body = payload.Body(e.body)
		if t.keep(&e.sig) && e.cut {
			remark := e.sig
			remark.Body, remark.Refused = nil, signalbox.ReasonTooLarge
			remark.Detail = "the body is kept up to 65536 bytes; the signal counts"
			t.keep(&remark)
		}
	}
	t.queue = slices.Delete(t.queue, 0, n)
}

// keep releases a signal unless there have been too many.
func (t *text) keep(sig *signalbox.Signal) bool {
	tally := t.tallyOf(sig)
	if tally.released == MaxSignals {
		t.drop(sig)
		return false
	}
	tally.released++
	t.settled = append(t.settled, *sig)
	return true
}

// barrier is the offset of the first thing that is not settled.
func (t *text) barrier() int64 {
	barrier := int64(math.MaxInt64)
	for _, f := range []*blockFinder{&t.turns, &t.quoted} {
		if f.open() {
			barrier = min(barrier, f.at)
		}
	}
	if t.exits.active() {
		barrier = min(barrier, t.exits.from())
	}
	if len(t.carry) > 0 {
		barrier = min(barrier, t.lineOff)
	}
	if t.fenced.found {
		barrier = min(barrier, t.fenced.object.at)
	}
	return barrier
}

// droppedRemark says at the end of the stream that not all signals were kept.
func (t *text) droppedRemark() signalbox.Signal {
	return signalbox.Signal{Offset: t.off, Line: t.line, Refused: signalbox.ReasonTooLarge,
		Detail: fmt.Sprintf("%d signals more than the %d that are kept of a stream", t.dropped, MaxSignals)}
}

// body collects the text after a line signal. Its bytes are those from start on, without a gap; buf has those
// of earlier pieces, the present piece may have more. buf is made anew for each signal, so that a marked state
// stays whole.
type body struct {
	on     bool
	start  int64
	frozen int64 // where it ends at the latest, when its message is over; 0 before
	buf    []byte

	now    []byte // the present piece
	nowOff int64
}

func (b *body) piece(p []byte, off int64) { b.now, b.nowOff = p, off }

func (b *body) endPiece() {
	if b.on && b.frozen == 0 {
		b.extend(b.nowOff + int64(len(b.now)))
	}
	b.now = nil
}

func (b *body) freeze(end int64) {
	if b.on {
		b.frozen = end
	}
}

// extend makes buf reach to end, as far as the limit and the present piece allow.
func (b *body) extend(end int64) {
	end = min(end, b.start+MaxBody)
	from := b.start + int64(len(b.buf))
	if b.now == nil || end <= from {
		return
	}
	lo, hi := max(from-b.nowOff, 0), min(end-b.nowOff, int64(len(b.now)))
	if lo < hi {
		b.buf = append(b.buf, b.now[lo:hi]...)
	}
}

// openBody begins the body of the signal just added, which stands at offset at.
func (t *text) openBody(at, start int64) {
	for i, e := range slices.Backward(t.queue) {
		if e.sig.Offset == at {
			t.queue[i] = &entry{sig: e.sig, open: true, bodyStart: start}
			break
		}
	}
	t.body.on, t.body.start, t.body.frozen, t.body.buf = true, start, 0, nil
}

// mostMarkedBytes bounds the bodies of signals that may have to be taken back, and so cannot be released.
const mostMarkedBytes = 8 << 20

// closeBody ends the open body, if there is one, at the offset end at the latest.
func (t *text) closeBody(end int64) {
	b := &t.body
	if !b.on {
		return
	}
	if b.frozen != 0 {
		end = min(end, b.frozen)
	}
	b.extend(end)
	size := max(end-b.start, 0)
	if size < int64(len(b.buf)) {
		b.buf = b.buf[:size]
	}
	if t.marked && t.markedBytes+len(b.buf) > mostMarkedBytes {
		b.buf = nil
	}
	t.markedBytes += len(b.buf)
	for i, e := range slices.Backward(t.queue) {
		if e.open {
			t.queue[i] = &entry{sig: e.sig, body: wholeRunes(b.buf), bodyStart: e.bodyStart, cut: size > int64(len(b.buf))}
			break
		}
	}
	b.on, b.buf = false, nil
}

// wholeRunes cuts off a rune of which a limit has left the start only.
func wholeRunes(b []byte) []byte {
	if len(b) < MaxBody {
		return b
	}
	if end := lines.RuneStart(b, len(b)-1); !utf8.FullRune(b[end:]) {
		return b[:end]
	}
	return b
}

// shortenBody ends, at the offset end, the body of the signal before, which may be closed already.
func (t *text) shortenBody(end int64) {
	for i, e := range slices.Backward(t.queue) {
		if e.sig.Offset < end && e.bodyStart > 0 {
			if !e.open && e.bodyEnd() > end {
				t.queue[i] = &entry{sig: e.sig, body: e.body[:max(0, end-e.bodyStart)], bodyStart: e.bodyStart}
			}
			return
		}
	}
}

// closeFullBody ends a body that has reached its limit, once nothing can turn up any more that would have
// ended it before.
func (t *text) closeFullBody() {
	limit := t.body.start + MaxBody
	if !t.body.on || t.off <= limit || t.barrier() < limit {
		return
	}
	t.closeBody(t.off)
}
