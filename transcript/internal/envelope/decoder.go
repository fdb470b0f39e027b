package envelope

import (
	"bytes"
	"fmt"
	"strconv"

	"signalbox"
	"signalbox/transcript/internal/lines"
)

// decoder reads an envelope of JSON lines. The text of a line is the agent's own or not depending on members
// that may come after it, so it is held until the line is complete; a text too long to be held is passed on
// under a mark, and taken back if it was not the agent's.
type decoder struct {
	format signalbox.Format
	env    *envelope
	out    Sink
	json   jsonLine
	rep    signalbox.StreamReport
	turn   signalbox.Usage // of the turn that has not ended; rep.Usage has the others

	line   int    // number of the stream's line
	begun  bool   // the line has a byte that is not white space
	whole  bool   // the line is complete: what it has not said it does not say
	noise  bool   // the line is no JSON
	head   []byte // the line's first bytes, to show when it is broken
	values [fieldCount]fieldValue

	// The text of this line.
	text        []byte // what is not passed on yet
	keep        bool   // the text being read may be the agent's own
	quoted      bool   // it may tell of a failure
	hasText     bool
	said        bool   // it is not blank
	unmark      func() // takes back what was passed on of the line; nil if nothing was
	partHasText bool   // the content block has text
	partStart   int    // where in text it begins
	unmarkPart  func() // takes back what was passed on of it
	hasTool     bool   // the line calls a tool
	committed   bool   // the line's text was the agent's own
	result      []byte // the start of a text that may tell of a failure

	messageOpen bool   // the next own text may belong to the message of the last
	messageID   []byte // of that message
	spoke       bool   // the turn has own text
	high        rune   // half a UTF-16 pair at the end of a delta
	session     []byte // opencode's first session: others are sub-agents'
	counted     [rememberedMessages]messageUsage
	nextCounted int // the one to forget next

	// What the oracle says of a reply after it, and what is remembered of it until then.
	wentOn        bool     // the line's text was passed on as part of the message before
	unmarkMessage func()   // takes back what was passed on of a message that may still be void; nil if nothing was
	since         []remark // made while it might be
	failed        bool     // the turn has told of an error
	failure       []byte   // and which

	drift  map[string]bool
	drifts []remark // of this line
}

type fieldValue struct {
	set, quoted bool
	value       []byte
}

const (
	holdText   = 64 << 10
	headSize   = 128
	maxDrift   = 64
	maxMessage = 1 << 10 // bytes of an error message that are kept
)

func newDecoder(format signalbox.Format, out Sink) *decoder {
	d := &decoder{format: format, env: envelopes[format], out: out, line: 1, drift: map[string]bool{}}
	d.json.schema, d.json.on = d.env.schema, d
	return d
}

func (d *decoder) Report() signalbox.StreamReport {
	r := d.rep
	r.Format = d.format
	add(&r.Usage, d.turn)
	return r
}

func add(u *signalbox.Usage, v signalbox.Usage) {
	u.InputTokens += v.InputTokens
	u.CachedInputTokens += v.CachedInputTokens
	u.OutputTokens += v.OutputTokens
	u.CostUSD += v.CostUSD
}

func (d *decoder) Push(p []byte) {
	for len(p) > 0 {
		n := bytes.IndexByte(p, '\n')
		if n < 0 {
			d.part(p)
			return
		}
		d.part(p[:n])
		d.endLine()
		p = p[n+1:]
	}
}

// part takes a piece of a line.
func (d *decoder) part(p []byte) {
	if !d.begun {
		if p = bytes.TrimLeft(p, lines.Space); len(p) == 0 {
			return
		}
		d.begun, d.noise = true, p[0] != '{'
	}
	if d.noise {
		return
	}
	if room := headSize - len(d.head); room > 0 {
		d.head = append(d.head, p[:min(room, len(p))]...)
	}
	d.json.feed(p)
}

func (d *decoder) endLine() {
	switch {
	case !d.begun:
	case d.noise:
		d.rep.Noise++
	case d.json.complete():
		d.whole = true
		d.finish()
		d.whole = false
	default:
		d.discard()
		d.remark(remark{signalbox.ReasonMalformed, lines.Excerpt(d.head),
			fmt.Sprintf("line %d of the stream is not one whole JSON object", d.line)})
	}
	for _, r := range d.drifts {
		d.remark(r)
	}
	d.drifts = d.drifts[:0]
	d.line++
	d.begun, d.noise, d.hasTool, d.committed = false, false, false, false
	d.head, d.result = d.head[:0], d.result[:0]
	for i := range d.values {
		d.values[i].set, d.values[i].value = false, d.values[i].value[:0]
	}
	d.json.reset()
}

// finish acts on a complete line.
func (d *decoder) finish() {
	typ := d.values[fieldType].value
	if !d.values[fieldType].set {
		typ = nil
	}
	if !d.env.types[string(typ)] {
		d.drifted("type", typ)
	}
	if d.hasText && d.env.own(d) {
		d.commit()
	} else {
		d.discard()
	}
	d.env.event(d)
}

func (d *decoder) Close() {
	d.endLine()
	d.endMessage()
	d.out.EndTurn()
}

// drifted reports once that the envelope has something that is not known.
func (d *decoder) drifted(what string, name []byte) {
	if len(d.drift) >= maxDrift {
		return
	}
	raw := lines.Excerpt(name)
	kind := what + " " + strconv.Quote(raw)
	if !d.drift[kind] {
		d.drift[kind] = true
		d.drifts = append(d.drifts, remark{signalbox.ReasonDrift, raw, fmt.Sprintf("%s: unknown %s", d.format, kind)})
	}
}

// remark is a diagnostic about the stream. Drift is told when it is settled whose text the line holds.
type remark struct {
	reason      signalbox.Reason
	raw, detail string
}

func (d *decoder) remark(r remark) {
	if d.unmarkMessage != nil && len(d.since) < maxDrift {
		d.since = append(d.since, r)
	}
	d.out.Remark(r.reason, r.raw, r.detail)
}

func (d *decoder) field(id fieldID, value []byte, quoted bool) {
	v := &d.values[id]
	v.set, v.quoted, v.value = true, quoted, append(v.value[:0], value...)
}

// is reports whether a field has the string value, or the literal.
func (d *decoder) is(id fieldID, value string) bool {
	return d.values[id].set && string(d.values[id].value) == value
}

// not reports whether a field is known to have another value.
func (d *decoder) not(id fieldID, value string) bool {
	return d.values[id].set && string(d.values[id].value) != value
}

func (d *decoder) textBegin(id fieldID) bool {
	d.keep = d.env.wants(d, id)
	d.quoted = d.env.quotes != nil && d.env.quotes(d, id)
	if !d.keep {
		return d.quoted
	}
	switch {
	case len(d.text) > 0 && d.text[len(d.text)-1] != '\n':
		d.text = append(d.text, '\n') // another block of the same line
	case d.unmark != nil:
		d.out.FreshLine()
	}
	d.hasText, d.partHasText, d.partStart = true, true, len(d.text)
	d.json.high, d.high = d.high, 0
	return true
}

func (d *decoder) textPart(b []byte) {
	if d.quoted {
		d.result = append(d.result, b[:min(len(b), maxMessage-len(d.result))]...)
	}
	if !d.keep {
		return
	}
	d.said = d.said || !lines.Blank(b)
	if d.text = append(d.text, b...); len(d.text) >= holdText {
		d.flush()
	}
}

func (d *decoder) textEnd(fieldID) {
	if d.format == signalbox.FormatGemini {
		d.high, d.json.high = d.json.high, 0
	} else {
		d.json.flushHigh()
	}
}

// objectEnd is the end of a content block, which tells at last whether its text was text.
func (d *decoder) objectEnd(fieldID) {
	kind := &d.values[fieldPartType]
	if d.env.own(d) && !d.env.parts[string(kind.value)] {
		d.drifted("content type", kind.value)
	}
	d.hasTool = d.hasTool || d.is(fieldPartType, "tool_use")
	if d.partHasText && !d.is(fieldPartType, "text") {
		d.text = d.text[:d.partStart]
		if d.unmarkPart != nil {
			d.unmarkPart()
		}
	}
	kind.set, d.partHasText, d.unmarkPart = false, false, nil
}

func (d *decoder) unknownField(key []byte) { d.drifted("field", key) }

// flush passes on the text that is held, under marks as long as it may have to be taken back.
func (d *decoder) flush() {
	if d.unmark == nil {
		d.unmark = d.out.Mark()
		d.startMessage()
	}
	d.out.Push(d.text[:d.partStart])
	if d.partHasText && !d.values[fieldPartType].set && d.unmarkPart == nil {
		d.unmarkPart = d.out.Mark()
	}
	d.out.Push(d.text[d.partStart:])
	d.text, d.partStart = d.text[:0], 0
}

// commit settles that the line's text is the agent's own.
func (d *decoder) commit() {
	if d.unmark == nil {
		d.startMessage()
	}
	if d.env.voids {
		d.markMessage()
	}
	d.out.Push(d.text)
	if d.unmark != nil && d.unmarkMessage == nil {
		d.out.Settle()
	}
	d.committed, d.spoke, d.messageOpen, d.rep.Ended = true, d.spoke || d.said, true, false
	d.endText()
}

// discard settles that it is not.
func (d *decoder) discard() {
	if d.unmark != nil {
		d.unmark()
	}
	d.endText()
}

func (d *decoder) endText() {
	d.text, d.partStart = d.text[:0], 0
	d.hasText, d.said, d.partHasText, d.unmark, d.unmarkPart = false, false, false, nil, nil
}

func (d *decoder) startMessage() {
	if d.wentOn = d.messageOpen && d.env.continues(d); d.wentOn {
		if d.format == signalbox.FormatClaude {
			d.out.FreshLine()
		}
		return
	}
	if d.unmark == nil { // else the line may still turn out to be none that ends the message before
		d.settle()
	}
	d.out.BeginMessage()
}

func (d *decoder) endMessage() {
	d.settle()
	if d.high != 0 {
		d.high = 0
		d.out.Push([]byte("\uFFFD"))
	}
	if d.messageOpen {
		d.messageOpen = false
		d.out.EndMessage()
	}
}

// endTurn is what the envelope says at the end of a turn.
func (d *decoder) endTurn(failed bool, message []byte) {
	d.endMessage()
	d.out.EndTurn()
	d.ended(failed, message)
}

func (d *decoder) ended(failed bool, message []byte) {
	d.rep.Ended, d.rep.Failed, d.rep.Error = true, false, ""
	if failed {
		d.fail(message)
	}
	add(&d.rep.Usage, d.turn)
	d.turn, d.spoke = signalbox.Usage{}, false
	for i := range d.counted {
		d.counted[i].id = d.counted[i].id[:0]
	}
}

func (d *decoder) fail(message []byte) {
	d.rep.Failed, d.rep.Error = true, lines.Valid(message[:min(len(message), maxMessage)])
}

// tokens is the usage that the line tells, but for its cost.
func (d *decoder) tokens() signalbox.Usage {
	return signalbox.Usage{InputTokens: d.number(fieldInput), CachedInputTokens: d.number(fieldCached),
		OutputTokens: d.number(fieldOutput)}
}

// number reads a count; what is none is 0.
func (d *decoder) number(id fieldID) int64 {
	v := d.values[id]
	if !v.set || v.quoted {
		return 0
	}
	var n int64
	for _, c := range v.value {
		if c < '0' || c > '9' || n > 1<<53 {
			break
		}
		n = n*10 + int64(c-'0')
	}
	return n
}

// amount reads a decimal number; what is none is 0.
func (d *decoder) amount(id fieldID) float64 {
	if v := d.values[id]; v.set && !v.quoted {
		if f, err := strconv.ParseFloat(string(v.value), 64); err == nil {
			return f
		}
	}
	return 0
}
