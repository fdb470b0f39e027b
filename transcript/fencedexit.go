package transcript

import (
	"bytes"

	"signalbox"
	"signalbox/transcript/internal/lines"
)

// fencedExit tracks the one exit signal that may count although it is fenced: it must be alone in a
// fence of backquotes that is plain or marked json, and nothing but white space may follow until
// the turn ends. Each fence starts a new one.
type fencedExit struct {
	possible   bool // nothing in or after the fence rules it out yet
	fenceStart int64
	closed     bool // the fence is closed
	found      bool // object is set; implies possible
	object     exitObject
}

func newFencedExit(f lines.Fence, at int64) fencedExit {
	return fencedExit{possible: f.Mark == '`' && f.JSON, fenceStart: at}
}

// set records the exit signal in the fence. It returns false if the signal does not count: it is
// not the first in the fence, or the fence is not one for JSON.
func (f *fencedExit) set(o exitObject) bool {
	if !f.possible || f.found {
		return false
	}
	o.raw = bytes.Clone(o.raw)
	f.found, f.object = true, o
	return true
}

func (f *fencedExit) closeFence() {
	f.closed = true
	f.possible = f.found
}

// awaitsTurnEnd reports whether the signal counts if the turn ends now.
func (f *fencedExit) awaitsTurnEnd() bool { return f.possible && f.closed }

// fencedExitSignal returns an exit signal that is refused because it is fenced.
func fencedExitSignal(o exitObject) signalbox.Signal {
	sig := exitSignal(o, "")
	sig.Refused, sig.Detail = signalbox.ReasonFenced, ""
	return sig
}
