package transcript

import (
	"bytes"

	"signalbox"
)

// fence is a CommonMark code fence. The zero value is none.
type fence struct {
	mark byte // '`' or '~'
	size int
	info string
}

func (f fence) isOpen() bool { return f.size > 0 }

// fenceRun measures the run of fence characters at the start of line, after at most three spaces.
func fenceRun(line []byte) (mark byte, size int, rest []byte) {
	i := 0
	for i < len(line) && i < 3 && line[i] == ' ' {
		i++
	}
	if i == len(line) || line[i] != '`' && line[i] != '~' {
		return 0, 0, nil
	}
	end := i
	for end < len(line) && line[end] == line[i] {
		end++
	}
	return line[i], end - i, line[end:]
}

func openFence(line []byte) (fence, bool) {
	mark, size, rest := fenceRun(line)
	if size < 3 || mark == '`' && bytes.IndexByte(rest, '`') >= 0 {
		return fence{}, false
	}
	return fence{mark: mark, size: size, info: excerpt(bytes.Trim(rest, asciiSpace))}, true
}

func (f fence) closedBy(line []byte) bool {
	mark, size, rest := fenceRun(line)
	return mark == f.mark && size >= f.size && blank(rest)
}

// mayHoldExit reports whether an exit signal that stands alone in the fence may count.
func (f fence) mayHoldExit() bool {
	return f.mark == '`' && (f.info == "" || f.info == "json")
}

// fencedExit follows the one exit signal that may count although it is fenced: alone in its fence, at the end
// of the turn. A new one begins with each fence.
type fencedExit struct {
	watched bool  // the fence is of the right kind, and nothing but one exit signal has been seen in it
	fenceAt int64 // where the fence begins
	closed  bool  // the fence is closed
	found   bool  // only while watched
	object  exitObject
}

// waiting reports whether only the end of the turn is missing.
func (f *fencedExit) waiting() bool { return f.watched && f.closed }

func (t *text) fenceClosed() {
	t.fence = fence{}
	t.fenced.closed = true
	t.fenced.watched = t.fenced.found
}

func (t *text) fencedExitFound(o exitObject) {
	if !t.fenced.watched || t.fenced.found {
		t.refuseFencedExit()
		t.addFencedExit(o)
		return
	}
	o.raw = bytes.Clone(o.raw)
	t.fenced.found, t.fenced.object = true, o
}

// refuseFencedExit settles that no exit signal in the last fence counts.
func (t *text) refuseFencedExit() {
	if t.fenced.found {
		t.addFencedExit(t.fenced.object)
	}
	t.fenced = fencedExit{}
	if t.body.frozen != 0 {
		t.closeBody(t.body.frozen)
	}
}

func (t *text) addFencedExit(o exitObject) {
	sig := t.exitSignal(o)
	sig.Refused, sig.Detail = signalbox.ReasonFenced, ""
	t.add(sig)
}

// settleFencedExit decides at the end of the turn.
func (t *text) settleFencedExit() {
	if t.exitSeen || !t.fenced.waiting() {
		t.refuseFencedExit()
		return
	}
	sig := t.exitSignal(t.fenced.object)
	if sig.Taken() {
		t.closeBody(t.fenced.fenceAt)
	}
	t.fenced = fencedExit{}
	t.add(sig)
	t.closeBody(t.off)
}
