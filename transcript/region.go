package transcript

import (
	"signalbox"
	"signalbox/transcript/internal/lines"
)

// region tracks whether the text is in a code fence or in a delegation prompt, where signals do not count.
type region struct {
	fence     lines.Fence
	delegated bool
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
func (r *region) advance(line []byte) boundary {
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

// refusal returns why a line signal does not count here, "" if it does.
func (r *region) refusal() signalbox.Reason {
	switch {
	case r.inFence():
		return signalbox.ReasonFenced
	case r.delegated:
		return signalbox.ReasonDelegated
	}
	return ""
}
