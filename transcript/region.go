package transcript

import (
	"signalbox"
	"signalbox/transcript/internal/lines"
)

// region tracks whether the text is in a code fence, in a delegation prompt or in what the agent
// thinks, where signals do not count.
type region struct {
	fence     lines.Fence
	delegated bool
	thoughts  thinking
}

// boundary is what a line does to the region.
type boundary int

const (
	noBoundary boundary = iota
	fenceOpened
	fenceClosed
	delegationMarker
)

// advance takes the next line and returns whether it is a boundary. A boundary contains no signals.
// In what the agent thinks there are no boundaries.
func (r *region) advance(line []byte) boundary {
	if r.isThinking() {
		return noBoundary
	}
	fenceLine := line[:min(len(line), lines.MaxFenceLine+1)] // as much as a Fencer looks at
	if r.inFence() {
		if !r.fence.ClosedBy(fenceLine) {
			return noBoundary
		}
		r.fence = lines.Fence{}
		return fenceClosed
	}
	if fence, ok := lines.OpenFence(fenceLine); ok {
		r.fence = fence
		return fenceOpened
	}
	switch string(lines.TrimEnd(line)) {
	case lines.DelegationStart:
		r.delegated = true
		return delegationMarker
	case lines.DelegationEnd:
		r.delegated = false
		return delegationMarker
	}
	return noBoundary
}

func (r *region) inFence() bool { return r.fence.IsOpen() }

func (r *region) isThinking() bool { return r.thoughts.depth > 0 }

// advanceIn takes a part of a line, up to where thinking starts or ends, and returns how much it
// took. Tags in a fence or in a delegation prompt are text.
func (r *region) advanceIn(part []byte) int {
	if r.inFence() || r.delegated {
		return len(part)
	}
	return r.thoughts.advance(part)
}

// refusal returns why a signal does not count here, "" if it does.
func (r *region) refusal() signalbox.Reason {
	if r.inFence() {
		return signalbox.ReasonFenced
	}
	return r.textRefusal()
}

// textRefusal is refusal without fences, in which exit and turn signals have rules of their own.
func (r *region) textRefusal() signalbox.Reason {
	switch {
	case r.isThinking():
		return signalbox.ReasonThinking
	case r.delegated:
		return signalbox.ReasonDelegated
	}
	return ""
}
