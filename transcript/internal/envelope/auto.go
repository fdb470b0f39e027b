package envelope

import (
	"bytes"
	"encoding/json"

	"signalbox"
	"signalbox/transcript/internal/lines"
)

// plain passes all text on.
type plain struct{ out Sink }

func (p *plain) Push(b []byte) { p.out.Push(b) }
func (p *plain) Close()        { p.out.EndTurn() }
func (p *plain) Report() signalbox.StreamReport {
	return signalbox.StreamReport{Format: signalbox.FormatPlain}
}
func (p *plain) Origin() (session, model string) { return "", "" }

// auto detects the format by the first line that is not blank, and holds the stream back until that
// line is complete. The decision is final: an agent that could change it later would decide which
// of its words count. If the stream continues in a way that contradicts the decision, it is mixed.
type auto struct {
	out     Sink
	locate  bool   // tell out where the text is in the stream
	chosen  Source // nil until the format is detected
	held    []byte
	skipped int    // bytes of a byte order mark before held
	start   int    // where in held the first line that is not blank starts
	scanned int    // held up to here has been scanned for the end of that line
	mixed   string // why the stream is mixed, besides what chosen reports

	// The first lines of plain text, as long as they are JSON objects.
	watching bool
	watched  int    // how many of them
	line     []byte // the current one
	number   int
}

const (
	autoBytes = 1 << 20 // the length of the longest line that is recognized
	autoLines = 256     // how many JSON objects at the start of plain text are looked at
)

func (a *auto) Push(p []byte) {
	if a.chosen != nil {
		a.watch(p)
		a.chosen.Push(p)
		return
	}
	a.held = append(a.held, p...)
	a.start = len(a.held) - len(bytes.TrimLeft(a.held[a.start:], lines.Space))
	a.scanned = max(a.start, a.scanned)
	n := bytes.IndexByte(a.held[a.scanned:], '\n')
	switch {
	case a.start > autoBytes:
		a.choosePlain()
	case a.start == len(a.held):
	case a.held[a.start] != '{':
		a.choosePlain()
	case n >= 0:
		a.detect(a.held[a.start : a.scanned+n])
	case len(a.held)-a.start > autoBytes:
		a.detect(a.held[a.start:])
	}
	a.scanned = len(a.held)
}

// detect chooses the format by the first line that is not blank.
func (a *auto) detect(line []byte) {
	if len(line) > autoBytes {
		a.mixed = "the first line is too long to detect the format"
		a.choosePlain()
		return
	}
	candidates, object := recognize(line)
	if len(candidates) == 0 {
		a.watching = object
		a.choosePlain()
		return
	}
	if len(candidates) > 1 {
		a.mixed = "the first line may be of the format " + string(candidates[0]) + " or " +
			string(candidates[1])
	}
	decoder := newDecoder(candidates[0], a.out, a.locate)
	decoder.detected = true
	decoder.skip(a.skipped)
	a.choose(decoder)
}

func (a *auto) choosePlain() {
	a.out.Skip(a.skipped)
	a.choose(&plain{a.out})
}

func (a *auto) choose(source Source) {
	held := a.held
	a.chosen, a.held = source, nil
	a.watch(held)
	a.chosen.Push(held)
}

// watch looks for an event of a known format after other JSON objects. The stream may then have a
// version of that format whose first event is unknown.
func (a *auto) watch(p []byte) {
	for a.watching && len(p) > 0 {
		n := bytes.IndexByte(p, '\n')
		if n < 0 {
			a.line = append(a.line, p[:min(len(p), autoBytes+1-len(a.line))]...)
			return
		}
		a.line = append(a.line, p[:min(n, autoBytes+1-len(a.line))]...)
		a.watchLine()
		p = p[n+1:]
	}
}

func (a *auto) watchLine() {
	a.number++
	line := a.line
	a.line = line[:0]
	if lines.Blank(line) {
		return
	}
	candidates, object := recognize(line)
	a.watched++
	a.watching = object && a.watched < autoLines
	if len(candidates) > 0 && a.mixed == "" {
		a.mixed = mixedDetail(signalbox.FormatPlain, a.number, "an event of "+string(candidates[0]))
		a.watching = false
	}
}

func (a *auto) Close() {
	if a.chosen == nil {
		a.detect(a.held[a.start:])
	}
	if a.watching {
		a.watchLine()
	}
	a.chosen.Close()
}

func (a *auto) Origin() (session, model string) {
	if a.chosen == nil {
		return "", ""
	}
	return a.chosen.Origin()
}

func (a *auto) Report() signalbox.StreamReport {
	if a.chosen == nil {
		return signalbox.StreamReport{Format: signalbox.FormatAuto}
	}
	report := a.chosen.Report()
	if a.mixed != "" {
		report.Mixed = a.mixed
	}
	return report
}

// recognize returns the formats that the line is an event of, and whether it is a JSON object at
// all.
func recognize(line []byte) (candidates []signalbox.Format, object bool) {
	line = bytes.TrimLeft(line, lines.Space)
	var event map[string]json.RawMessage
	if len(line) == 0 || line[0] != '{' || len(line) > autoBytes ||
		json.Unmarshal(line, &event) != nil {
		return nil, false
	}
	var typ string
	if json.Unmarshal(event["type"], &typ) != nil {
		return nil, true
	}
	for _, s := range shapes {
		if len(candidates) > 0 && candidates[len(candidates)-1] == s.format {
			continue
		}
		if s.matches(typ, func(member string) bool { _, ok := event[member]; return ok }) {
			candidates = append(candidates, s.format)
		}
	}
	return candidates, true
}
