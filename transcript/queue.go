package transcript

import (
	"fmt"
	"slices"
	"unicode/utf8"

	"signalbox"
	"signalbox/transcript/internal/lines"
	"signalbox/transcript/internal/payload"
)

// signalQueue orders signals by offset, collects the bodies of line signals and applies the limits
// of a stream.
//
// Signals are found a little out of order: an object or block that starts early may end late. So a
// signal waits in the queue until nothing can be found before it. The caller passes that offset,
// the barrier, to release.
type signalQueue struct {
	waiting  []*entry
	released []signalbox.Signal

	accepted, brokenExits, otherRefused counter
	dropped                             int // signals beyond MaxSignals

	body bodyCollector

	tentative      bool // signals since the first snapshot may be withdrawn, so none is released
	tentativeBytes int  // size of the signals and bodies since then
}

// entry is a signal that waits. Its body is parsed on release, because a signal that is found late
// may shorten it. An entry is replaced and never modified, because snapshots share it.
type entry struct {
	sig       signalbox.Signal
	open      bool   // the body may still grow
	body      []byte // the bytes from bodyStart on
	bodyStart int64
	truncated bool // the body was longer than body
}

// bodyEnd returns the offset at which the signal and its body end.
func (e *entry) bodyEnd() int64 { return e.bodyStart + int64(len(e.body)) }

// counter counts the signals of one kind: accepted ones, refused exit signals, other refused ones.
type counter struct{ waiting, released int }

const (
	// maxWaiting bounds the queue. The limit of MaxSignals is applied on release, in order; a
	// signal found after so many others cannot be among the first MaxSignals.
	maxWaiting = MaxSignals + 16<<10
	// releaseAt is the length of the queue at which signals are released before the piece of text
	// ends.
	releaseAt = 1024
	// maxTentativeBytes bounds the bodies of signals that cannot be released because they may be
	// withdrawn.
	maxTentativeBytes = 8 << 20
)

func (q *signalQueue) counter(sig *signalbox.Signal) *counter {
	switch {
	case sig.Taken():
		return &q.accepted
	case sig.Dialect == signalbox.DialectExit:
		return &q.brokenExits
	}
	return &q.otherRefused
}

// refusedFull reports whether the stream has released as many refused signals as it may, so that
// looking for more is pointless.
func (q *signalQueue) refusedFull() bool { return q.otherRefused.released == MaxSignals }

// add queues a signal and reports whether it was kept. An accepted signal ends the body of the
// signal before it.
func (q *signalQueue) add(sig signalbox.Signal) bool {
	if sig.Taken() {
		if sig.Offset >= q.body.start {
			q.closeBody(sig.Offset)
		}
		q.shortenBody(sig.Offset)
	}
	c := q.counter(&sig)
	if c.released == MaxSignals || c.waiting+c.released == maxWaiting {
		q.drop(&sig)
		return false
	}
	c.waiting++
	q.tentativeBytes += len(sig.Raw)
	i := len(q.waiting)
	for i > 0 && q.waiting[i-1].sig.Offset > sig.Offset {
		i--
	}
	q.waiting = slices.Insert(q.waiting, i, &entry{sig: sig})
	return true
}

// drop counts signals that could have decided the turn: accepted ones, broken exit signals, which
// make others ambiguous, and remarks that take signals back.
func (q *signalQueue) drop(sig *signalbox.Signal) {
	takesBack := sig.Dialect == "" && (sig.Refused == signalbox.ReasonTextAfter ||
		sig.Refused == signalbox.ReasonThinking)
	if sig.Taken() || sig.Dialect == signalbox.DialectExit || takesBack {
		q.dropped++
	}
}

// release releases, in order, the signals that end before the barrier.
func (q *signalQueue) release(barrier int64) {
	if q.tentative {
		return
	}
	n := 0
	for ; n < len(q.waiting); n++ {
		e := q.waiting[n]
		if e.open || e.sig.Offset >= barrier || e.bodyEnd() > barrier {
			break
		}
		q.counter(&e.sig).waiting--
		e.sig.Body = payload.Body(e.body)
		if q.releaseOne(&e.sig) && e.truncated {
			remark := e.sig
			remark.Body, remark.Refused = nil, signalbox.ReasonTooLarge
			remark.Detail = fmt.Sprintf("the body was cut after %d bytes; the signal counts",
				MaxBody)
			q.releaseOne(&remark)
		}
	}
	q.waiting = slices.Delete(q.waiting, 0, n)
}

// releaseOne releases a signal unless the limit is reached, and reports whether it did.
func (q *signalQueue) releaseOne(sig *signalbox.Signal) bool {
	c := q.counter(sig)
	if c.released == MaxSignals {
		q.drop(sig)
		return false
	}
	c.released++
	q.released = append(q.released, *sig)
	return true
}

// take returns the released signals and removes them from the queue.
func (q *signalQueue) take() []signalbox.Signal {
	out := q.released
	q.released = nil
	return out
}

// open returns the line signal whose body may still grow.
func (q *signalQueue) open() (signalbox.Signal, bool) {
	for _, e := range q.waiting {
		if e.open {
			return e.sig, true
		}
	}
	return signalbox.Signal{}, false
}

// found returns the signals that wait, at most MaxSignals.
func (q *signalQueue) found() (signals []signalbox.Signal) {
	for _, e := range q.waiting[:min(len(q.waiting), MaxSignals)] {
		signals = append(signals, e.sig)
	}
	return signals
}

// droppedRemark returns the remark, for the end of the stream, that signals were dropped.
func (q *signalQueue) droppedRemark(offset int64, line int) signalbox.Signal {
	return signalbox.Signal{Offset: offset, Line: line, Refused: signalbox.ReasonTooLarge,
		Detail: fmt.Sprintf("dropped %d signals: at most %d are kept of a stream", q.dropped,
			MaxSignals)}
}

// openBody starts the body of the signal just added at the offset at.
func (q *signalQueue) openBody(at, start int64) {
	for i, e := range slices.Backward(q.waiting) {
		if e.sig.Offset == at {
			q.waiting[i] = &entry{sig: e.sig, open: true, bodyStart: start}
			break
		}
	}
	q.body.open(start)
}

// closeBody ends the open body, if any, at the offset end or, if that is earlier, where its message
// ended.
func (q *signalQueue) closeBody(end int64) {
	if !q.body.isOpen {
		return
	}
	body, truncated := q.body.close(end)
	if q.tentative && q.tentativeBytes+len(body) > maxTentativeBytes {
		truncated = truncated || len(body) > 0
		body = nil
	}
	q.tentativeBytes += len(body)
	for i, e := range slices.Backward(q.waiting) {
		if e.open {
			q.waiting[i] = &entry{sig: e.sig, body: wholeRunes(body), bodyStart: e.bodyStart,
				truncated: truncated}
			break
		}
	}
}

// markFollowed notes that text follows the accepted signal at an offset, which waits.
func (q *signalQueue) markFollowed(offset int64) {
	for i, e := range slices.Backward(q.waiting) {
		if e.sig.Offset == offset && e.sig.Taken() {
			changed := *e
			changed.sig.Followed = true
			q.waiting[i] = &changed
			return
		}
	}
}

// shortenBody ends the last closed body before the offset end there, if it extends beyond.
func (q *signalQueue) shortenBody(end int64) {
	for i, e := range slices.Backward(q.waiting) {
		if e.sig.Offset < end && e.bodyStart > 0 {
			if !e.open && e.bodyEnd() > end {
				q.waiting[i] = &entry{sig: e.sig, body: e.body[:max(0, end-e.bodyStart)],
					bodyStart: e.bodyStart}
			}
			return
		}
	}
}

// closeFullBody ends a body that has reached its limit at the offset now, once nothing can be found
// any more that would have ended it earlier.
func (q *signalQueue) closeFullBody(now, barrier int64) {
	if limit := q.body.start + MaxBody; q.body.isOpen && now > limit && barrier >= limit {
		q.closeBody(now)
	}
}

func (q *signalQueue) clone() signalQueue {
	c := *q
	c.waiting = slices.Clone(q.waiting)
	return c
}

// bodyCollector collects the text after a line signal, from the offset start on and without gaps.
// buf has the bytes from earlier pieces of the text; the current piece may have more. Each body
// gets a new buf, because snapshots share it.
type bodyCollector struct {
	isOpen     bool
	start      int64
	messageEnd int64 // the offset at which its message ended, 0 before
	buf        []byte

	piece      []byte // the current piece
	pieceStart int64
}

func (b *bodyCollector) open(start int64) {
	b.isOpen, b.start, b.messageEnd, b.buf = true, start, 0, nil
}

// close returns the body up to the offset end, and whether it is longer than the result.
func (b *bodyCollector) close(end int64) (body []byte, truncated bool) {
	if b.messageEnd != 0 {
		end = min(end, b.messageEnd)
	}
	b.extend(end)
	size := max(end-b.start, 0)
	body = b.buf[:min(size, int64(len(b.buf)))]
	b.isOpen, b.buf = false, nil
	return body, size > int64(len(body))
}

func (b *bodyCollector) startPiece(p []byte, at int64) { b.piece, b.pieceStart = p, at }

func (b *bodyCollector) endPiece() {
	if b.isOpen && b.messageEnd == 0 {
		b.extend(b.pieceStart + int64(len(b.piece)))
	}
	b.piece = nil
}

func (b *bodyCollector) endMessage(at int64) {
	if b.isOpen {
		b.messageEnd = at
	}
}

// extend makes buf reach to the offset end, as far as the limit and the current piece allow.
func (b *bodyCollector) extend(end int64) {
	end = min(end, b.start+MaxBody)
	have := b.start + int64(len(b.buf))
	from, to := max(have-b.pieceStart, 0), min(end-b.pieceStart, int64(len(b.piece)))
	if from < to {
		b.buf = append(b.buf, b.piece[from:to]...)
	}
}

// wholeRunes removes a rune that the limit of a body has cut.
func wholeRunes(b []byte) []byte {
	if len(b) < MaxBody {
		return b
	}
	if end := lines.RuneStart(b, len(b)-1); !utf8.FullRune(b[end:]) {
		return b[:end]
	}
	return b
}
