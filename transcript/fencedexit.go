package transcript

import (
	"bytes"

	"signalbox"
	"signalbox/transcript/internal/lines"
)

// mayHoldExit reports whether an exit signal that stands alone in the fence may count.
func mayHoldExit(f lines.Fence) bool {
	return f.Mark == '`' && f.JSON
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
	t.fence = lines.Fence{}
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
