package transcript

import (
	"reflect"
	"strings"

	"signalbox"
	"signalbox/transcript/internal/lines"
	"signalbox/transcript/internal/payload"
)

// judge looks at a line as a line: fences, delegation markers, line signals. Of a line that is longer than a
// signal may be it gets the first maxLine+1 bytes.
func (t *text) judge(line []byte) {
	if t.opaque = false; len(line) == 0 || line[0] == '{' || !suspicious(line) {
		return
	}
	// Not further than a Fencer sees it.
	fenceLine := line[:min(len(line), lines.MaxFenceLine+1)]
	if t.fence.IsOpen() {
		if t.fence.ClosedBy(fenceLine) {
			t.opaque = true
			t.exits.end(t.exitFound)
			t.quoted.end(t.quotedEvent)
			t.fenceClosed()
			return
		}
		t.judgeLine(line, signalbox.ReasonFenced)
		return
	}
	if f, ok := lines.OpenFence(fenceLine); ok {
		t.opaque = true
		t.exits.end(t.exitFound)
		t.refuseFencedExit()
		t.fence = f
		t.fenced = fencedExit{watched: mayHoldExit(f), fenceAt: t.lineOff}
		return
	}
	switch trimmed := lines.TrimEnd(line); {
	case string(trimmed) == lines.DelegationStart:
		t.delegated = true
	case string(trimmed) == lines.DelegationEnd:
		t.delegated = false
	case t.delegated:
		t.judgeLine(line, signalbox.ReasonDelegated)
	default:
		t.judgeLine(line, "")
	}
}

// judgeLine looks for a line signal; refused is the reason why one would not count here, if there is one.
func (t *text) judgeLine(line []byte, refused signalbox.Reason) {
	long := len(line) > maxLine
	m, ok := matchLine(line, t.key)
	if !ok {
		if refused == "" && !long {
			t.judgeNearMiss(line)
		}
		return
	}
	sig := signalbox.Signal{
		Dialect: signalbox.DialectLine, Name: m.row.Name, Handler: m.row.Handler,
		TaskID: lines.Valid(m.argument), Title: lines.Valid(m.title),
		Offset: t.lineOff, Line: t.line, Raw: lines.Valid(lines.TrimEnd(line)), Refused: refused,
	}
	if long {
		sig.Raw, sig.TaskID, sig.Title = lines.Excerpt(line), "", ""
	}
	switch {
	case refused != "":
	case long:
		sig.Refused = signalbox.ReasonTooLarge
		sig.Detail = "the line of a signal is at most 65536 bytes"
	case !m.keyed:
		sig.Refused = signalbox.ReasonWrongKey
		sig.Detail = "the session's key must follow, as key:<key>"
	}
	if t.take(sig) {
		t.openBody(sig.Offset, t.lineOff+int64(len(line))+1)
	}
}

func (t *text) judgeNearMiss(line []byte) {
	if t.refused.released == MaxSignals {
		return
	}
	if miss, ok := matchNearMiss(line); ok {
		t.add(signalbox.Signal{
			Dialect: signalbox.DialectLine, Name: miss.row.Name, Handler: miss.row.Handler, TaskID: lines.Valid(miss.argument),
			Offset: t.lineOff, Line: t.line, Raw: lines.Valid(lines.TrimEnd(line)),
			Refused: signalbox.ReasonNearMiss, Detail: miss.detail(t.key),
		})
	}
}

// feed gives a line's bytes to the finders of what is not bound to lines. b lies within one line and may end
// with its line end.
func (t *text) feed(b []byte, at int64) {
	if t.opaque {
		t.turns.opaque(b, t.turnEvent)
		return
	}
	if t.fenced.waiting() && !lines.Blank(b) {
		t.refuseFencedExit()
	}
	inFence := t.fence.IsOpen()
	if outside := t.exits.feed(b, at, t.line, exitContext{inFence, t.fenced.watched && inFence, t.delegated}, t.exitFound); outside && inFence {
		t.refuseFencedExit()
	}
	if inFence {
		t.turns.opaque(b, t.turnEvent)
		t.quoted.feed(b, at, t.line, t.delegated, t.quotedEvent)
	} else {
		t.turns.feed(b, at, t.line, t.delegated, t.turnEvent)
	}
}

// turnEvent takes what was found outside fences.
func (t *text) turnEvent(e blockEvent) {
	sig := signalbox.Signal{Dialect: signalbox.DialectTurn, Offset: e.at, Line: e.line}
	if e.kind != blockComplete && t.refused.released == MaxSignals {
		return
	}
	switch e.kind {
	case blockTooLarge:
		sig.Raw, sig.Refused = lines.Excerpt(e.raw), signalbox.ReasonTooLarge
		sig.Detail = "a turn signal is at most 16384 bytes"
		t.add(sig)
		return
	case blockUnterminated:
		sig.Raw, sig.Refused = lines.Excerpt(e.raw), signalbox.ReasonMalformed
		sig.Detail = "the block is not closed by </signal>"
		t.add(sig)
		return
	}
	sig.Raw = lines.Valid(e.raw)
	block, err := payload.ReadTurn(e.raw)
	if err != nil {
		sig.Refused, sig.Detail = signalbox.ReasonMalformed, err.Error()
		t.add(sig)
		return
	}
	sig.Name, sig.Turn = block.Type, &block.Signal
	_, known := TurnKindOf(block.Type)
	switch {
	case e.delegated:
		sig.Refused = signalbox.ReasonDelegated
	case !known:
		sig.Refused, sig.Detail = signalbox.ReasonUnknownType, "the types are "+turnTypeNames()
	case t.key != "" && block.Key != t.key:
		sig.Refused, sig.Detail = signalbox.ReasonWrongKey, `the session's key must be given, as attribute key="…"`
	case t.firstTurn != nil && sameTurn(t.firstTurn, &sig):
		sig.Refused = signalbox.ReasonDuplicate
	case t.firstTurn != nil:
		sig.Refused, sig.Detail = signalbox.ReasonSuperseded, "the first turn signal of a message stands"
	}
	t.take(sig)
	if sig.Taken() {
		t.firstTurn = &sig
		for _, problem := range block.Problems {
			t.add(signalbox.Signal{Dialect: signalbox.DialectTurn, Name: sig.Name, Offset: sig.Offset, Line: sig.Line,
				Raw: sig.Raw, Refused: signalbox.ReasonInvalidField, Detail: problem})
		}
	}
}

func turnTypeNames() string {
	var names []string
	for _, typ := range payload.TurnTypes() {
		names = append(names, typ.Name)
	}
	return strings.Join(names, ", ")
}

func sameTurn(a, b *signalbox.Signal) bool {
	return a.Name == b.Name && a.Turn.Confidence == b.Turn.Confidence && reflect.DeepEqual(a.Turn.Fields, b.Turn.Fields)
}

// quotedEvent takes what was found inside a fence: a whole block is worth a word, pieces of one are not.
func (t *text) quotedEvent(e blockEvent) {
	if e.kind != blockComplete {
		return
	}
	if block, err := payload.ReadTurn(e.raw); err == nil {
		t.add(signalbox.Signal{Dialect: signalbox.DialectTurn, Name: block.Type, Turn: &block.Signal,
			Offset: e.at, Line: e.line, Raw: lines.Valid(e.raw), Refused: signalbox.ReasonFenced})
	}
}

// exitFound takes a JSON object that may be an exit signal.
func (t *text) exitFound(o exitObject) {
	if !o.namesProtocol() {
		if o.inFence {
			t.refuseFencedExit()
		}
		return
	}
	if o.inFence {
		t.fencedExitFound(o)
		return
	}
	t.exitSeen = t.exitSeen || !o.delegated
	t.take(t.exitSignal(o))
}

// exitSignal reads an object that names the protocol.
func (t *text) exitSignal(o exitObject) signalbox.Signal {
	sig := signalbox.Signal{Dialect: signalbox.DialectExit, Name: signalbox.NameExit,
		Offset: o.at, Line: o.line, Raw: lines.Valid(o.raw)}
	exit, err := ParseExit(o.raw)
	switch {
	case o.tooLarge:
		sig.Raw, sig.Refused = lines.Excerpt(o.raw), signalbox.ReasonTooLarge
		sig.Detail = "an exit signal is at most 65536 bytes"
	case err != nil:
		sig.Refused, sig.Detail = signalbox.ReasonMalformed, err.Error()
	default:
		sig.Exit = exit
	}
	switch {
	case o.delegated:
		sig.Refused, sig.Detail = signalbox.ReasonDelegated, ""
	case t.key != "" && sig.Taken():
		sig.Refused = signalbox.ReasonWrongKey
		sig.Detail = "in a keyed session hand the exit signal in with signalbox work exit"
	}
	return sig
}

// take adds a signal and, if it counts, ends the body of the one before.
func (t *text) take(sig signalbox.Signal) bool {
	if !sig.Taken() {
		t.add(sig)
		return false
	}
	if sig.Offset >= t.body.start {
		t.closeBody(sig.Offset)
	}
	t.shortenBody(sig.Offset)
	return t.add(sig)
}

func (t *text) Remark(reason signalbox.Reason, raw, detail string) {
	t.add(signalbox.Signal{Offset: t.off, Line: t.line, Raw: raw, Refused: reason, Detail: detail})
}
