package envelope

import (
	"bytes"
	"fmt"
	"strconv"

	"signalbox"
	"signalbox/transcript/agentformat"
	"signalbox/transcript/internal/lines"
)

// decoder reads the JSON lines of an agent program. Whether the text of a line is the agent's own
// may depend on members that follow it, so the text is held back until the line is complete. A text
// that is too long for that is passed on after a snapshot, which is restored if the text was not
// the agent's own.
type decoder struct {
	name     signalbox.Format
	format   *format
	detected bool // by auto, so that everything else makes the stream mixed
	out      Sink
	json     jsonLine
	report   signalbox.StreamReport
	usage    usageCounter
	model    string // that the stream named last

	locate bool    // tell out where the text is in the stream
	at     int64   // how many bytes of the stream were read
	lineAt int64   // where the line starts
	places []Place // of text

	// The current line of the stream.
	number   int    // from 1
	started  bool   // it has a byte that is not white space
	complete bool   // it has ended: members that are not set are absent
	noise    bool   // it is not JSON
	head     []byte // its first bytes, to show if it is broken
	values   [fieldCount]fieldValue
	repeated string           // a member that it has twice
	refused  signalbox.Reason // why it is not the agent's own
	// its members that its format does not have and another has, if detected
	unknown []string
	drifts  []remark

	// The text of the line.
	text        []byte // the part that is not passed on yet
	ownText     bool   // the string being read may be the agent's own text
	errorText   bool   // the string being read may be an error message
	hasText     bool
	notBlank    bool
	restoreLine func() // withdraws the text of the line that was passed on; nil if none was
	partHasText bool   // the content block has text
	partStart   int    // where the content block starts in text
	// withdraws the text of the content block that was passed on; nil if none was
	restorePart func()
	hasTool     bool   // the line calls a tool
	committed   bool   // the text was the agent's own
	joined      bool   // the text was passed on as part of the previous message
	result      []byte // the start of a text that may be an error message

	// The current message and turn.
	messageOpen bool   // the next text may belong to the same message as the last
	messageID   []byte // of that message
	hasSpoken   bool   // the turn has text of the agent's own
	high        rune   // half of a UTF-16 pair at the end of a delta
	highAt      int64  // where it is in the stream
	seenDrift   map[string]bool

	// Which lines are the agent's.
	session   []byte // the first session of the stream; others belong to somebody else
	elsewhere bool   // the last session that was announced is another one
	// lines of the stream name their parent, so that one without is not the agent's
	seenParent   bool
	texts        recentTexts
	seenRefusals map[signalbox.Reason]bool

	// An oracle may withdraw a reply until it is complete, and reports errors before the end of the
	// turn.
	restoreMessage func()   // withdraws the text of the message; nil if there is none to withdraw
	remarksSince   []remark // made since the snapshot of the message
	failed         bool     // the turn has reported an error
	failure        []byte   // its message
}

type fieldValue struct {
	set, quoted bool
	value       []byte
}

const (
	maxHeldText = 64 << 10
	headSize    = 128
	maxDrift    = 64
	maxMessage  = 1 << 10 // bytes of an error message that are kept
	maxStatus   = 999
)

// noModel is what claude writes as the model of messages that it makes up itself.
const noModel = "<synthetic>"

func newDecoder(name signalbox.Format, out Sink, locate bool) *decoder {
	d := &decoder{name: name, format: formats[name], out: out, locate: locate, number: 1,
		seenDrift: map[string]bool{}, seenRefusals: map[signalbox.Reason]bool{}}
	d.json = *newJSONLine(d.format.schema, d)
	return d
}

func (d *decoder) Report() signalbox.StreamReport {
	r := d.report
	r.Format, r.Usage = d.name, d.usage.total()
	return r
}

func (d *decoder) Origin() (session, model string) { return lines.Valid(d.session), d.model }

// skip is called when the stream starts with a byte order mark.
func (d *decoder) skip(n int) { d.at, d.lineAt = int64(n), int64(n) }

func (d *decoder) Push(p []byte) {
	for len(p) > 0 {
		n := bytes.IndexByte(p, '\n')
		if n < 0 {
			d.part(p)
			d.at += int64(len(p))
			return
		}
		d.part(p[:n])
		d.at += int64(n)
		d.endLine()
		d.at++
		d.lineAt = d.at
		p = p[n+1:]
	}
}

// part takes part of a line.
func (d *decoder) part(p []byte) {
	end := d.at + int64(len(p))
	if !d.started {
		if p = bytes.TrimLeft(p, lines.Space); len(p) == 0 {
			return
		}
		d.started, d.noise = true, p[0] != '{'
	}
	if d.noise {
		return
	}
	if room := headSize - len(d.head); room > 0 {
		d.head = append(d.head, p[:min(room, len(p))]...)
	}
	d.json.base = end - int64(len(p))
	d.json.feed(p)
}

func (d *decoder) endLine() {
	switch {
	case !d.started:
	case d.noise:
		d.report.Noise++
		d.mix("not JSON")
	case d.json.complete() && d.repeated != "":
		d.discard()
		d.mix("not a clear JSON object")
		d.remark(remark{signalbox.ReasonMalformed, lines.Excerpt(d.head),
			fmt.Sprintf("line %d of the stream has the member %q twice, or in another case",
				d.number, d.repeated)})
	case d.json.complete():
		d.complete = true
		d.handleLine()
		d.complete = false
	default:
		d.discard()
		d.mix("not a complete JSON object")
		d.remark(remark{signalbox.ReasonMalformed, lines.Excerpt(d.head),
			fmt.Sprintf("line %d of the stream is not a complete JSON object", d.number)})
	}
	for _, r := range d.drifts {
		d.remark(r)
	}
	d.drifts = d.drifts[:0]
	d.number++
	d.started, d.noise, d.hasTool, d.committed = false, false, false, false
	d.head, d.result, d.unknown, d.repeated = d.head[:0], d.result[:0], d.unknown[:0], ""
	for i := range d.values {
		d.values[i].set, d.values[i].value = false, d.values[i].value[:0]
	}
	d.json.reset()
}

// handleLine acts on a complete line.
func (d *decoder) handleLine() {
	typ := d.values[fieldType].value
	if !d.values[fieldType].set {
		typ = nil
	}
	if !d.format.types[string(typ)] {
		d.drifted("type", typ)
	}
	if d.detected {
		if other := d.otherFormat(); other != "" {
			d.mix("an event of " + string(other))
		}
	}
	if d.refused = d.refusal(); d.refused != "" {
		d.reportRefusal()
	}
	if d.hasText && d.refused == "" && d.format.isOwn(d) {
		d.commit()
	} else {
		d.discard()
	}
	if v := d.values[fieldModel]; d.refused == "" && v.set && v.quoted &&
		len(v.value) <= maxMessage && string(v.value) != noModel {
		d.model = lines.Valid(v.value)
	}
	if d.refused == "" || d.refused == signalbox.ReasonSubAgent {
		d.format.handle(d)
	}
}

func (d *decoder) Close() {
	d.endLine()
	d.endMessage()
	d.out.EndTurn()
}

// drifted reports, once, a type or field that is not known. The remark follows the text of the
// line.
func (d *decoder) drifted(what string, name []byte) {
	if len(d.seenDrift) >= maxDrift {
		return
	}
	raw := lines.Excerpt(name)
	kind := what + " " + strconv.Quote(raw)
	if !d.seenDrift[kind] {
		d.seenDrift[kind] = true
		d.drifts = append(d.drifts,
			remark{signalbox.ReasonDrift, raw, fmt.Sprintf("%s: unknown %s", d.name, kind)})
	}
}

// remark is a diagnostic about the stream.
type remark struct {
	reason      signalbox.Reason
	raw, detail string
}

func (d *decoder) remark(r remark) {
	if d.restoreMessage != nil && len(d.remarksSince) < maxDrift {
		d.remarksSince = append(d.remarksSince, r)
	}
	if d.locate {
		d.out.Locate([]Place{{At: d.lineAt, Size: int(d.at - d.lineAt)}})
	}
	d.out.Remark(r.reason, r.raw, r.detail)
}

// field implements jsonHandler.
func (d *decoder) field(id fieldID, value []byte, quoted bool) {
	v := &d.values[id]
	v.set, v.quoted, v.value = true, quoted, append(v.value[:0], value...)
}

// is reports whether a field has a value, a string or a literal.
func (d *decoder) is(id fieldID, value string) bool {
	return d.values[id].set && string(d.values[id].value) == value
}

// isLiteral reports whether a field is a literal such as true, and not a string.
func (d *decoder) isLiteral(id fieldID, value string) bool {
	return d.is(id, value) && !d.values[id].quoted
}

// isNot reports whether a field is set and has another value.
func (d *decoder) isNot(id fieldID, value string) bool {
	return d.values[id].set && string(d.values[id].value) != value
}

// textBegin implements jsonHandler.
func (d *decoder) textBegin(id fieldID) bool {
	d.ownText = d.format.mayBeOwn(d, id)
	d.errorText = d.format.mayBeError != nil && d.format.mayBeError(d, id)
	if !d.ownText {
		return d.errorText
	}
	switch {
	case len(d.text) > 0 && d.text[len(d.text)-1] != '\n':
		d.text = append(d.text, '\n') // another block of the same line
	case d.restoreLine != nil:
		d.out.StartLine()
	}
	d.hasText, d.partHasText, d.partStart = true, true, len(d.text)
	d.json.high, d.json.highAt, d.high = d.high, d.highAt, 0
	return true
}

// textPart implements jsonHandler.
func (d *decoder) textPart(b []byte) {
	if d.errorText {
		d.result = append(d.result, b[:min(len(b), maxMessage-len(d.result))]...)
	}
	if !d.ownText {
		return
	}
	d.notBlank = d.notBlank || !lines.Blank(b)
	if d.locate {
		d.addPlace(d.json.place)
	}
	if d.text = append(d.text, b...); len(d.text) >= maxHeldText {
		d.flush()
	}
}

// addPlace notes where the text that follows is in the stream. Text that arrives in several pieces
// has one place.
func (d *decoder) addPlace(p Place) {
	p.Text = len(d.text)
	if n := len(d.places); n > 0 && p.Size == 0 {
		if last := d.places[n-1]; last.Size == 0 && last.At+int64(p.Text-last.Text) == p.At {
			return
		}
	}
	d.places = append(d.places, p)
}

// push passes on the held text from an index to another.
func (d *decoder) push(from, to int) {
	if d.locate && from < to {
		first := 0 // the first place that does not start before from
		for first < len(d.places) && d.places[first].Text < from {
			first++
		}
		last := first
		for last < len(d.places) && d.places[last].Text < to {
			d.places[last].Text -= from
			last++
		}
		d.out.Locate(d.places[first:last])
	}
	d.out.Push(d.text[from:to])
}

// dropText drops the held text from an index on.
func (d *decoder) dropText(from int) {
	d.text = d.text[:from]
	for n := len(d.places); n > 0 && d.places[n-1].Text >= from; n-- {
		d.places = d.places[:n-1]
	}
}

// textEnd implements jsonHandler.
func (d *decoder) textEnd(fieldID) {
	if d.name == signalbox.FormatGemini {
		d.high, d.highAt, d.json.high = d.json.high, d.json.highAt, 0
	} else {
		d.json.flushHigh()
	}
}

// objectEnd implements jsonHandler. The object is a content block, and its type is known now.
func (d *decoder) objectEnd(fieldID) {
	kind := &d.values[fieldPartType]
	if d.format.isOwn(d) && !d.format.parts[string(kind.value)] {
		d.drifted("content type", kind.value)
	}
	d.hasTool = d.hasTool || d.is(fieldPartType, agentformat.ClaudeToolUse)
	if d.partHasText && !d.is(fieldPartType, agentformat.ClaudeText) {
		d.dropText(d.partStart)
		if d.restorePart != nil {
			d.restorePart()
		}
	}
	kind.set, d.partHasText, d.restorePart = false, false, nil
}

// repeatedField implements jsonHandler.
func (d *decoder) repeatedField(key []byte) {
	if d.repeated == "" {
		d.repeated = lines.Excerpt(key)
	}
}

// unknownField implements jsonHandler.
func (d *decoder) unknownField(key []byte) {
	d.drifted("field", key)
	if d.detected && identifying[string(key)] && len(d.unknown) < len(identifying) {
		d.unknown = append(d.unknown, string(key))
	}
}

// flush passes on the held text, with snapshots in case it must be withdrawn.
func (d *decoder) flush() {
	if d.restoreLine == nil {
		d.restoreLine = d.out.Snapshot()
		d.startMessage()
	}
	d.push(0, d.partStart)
	if d.partHasText && !d.values[fieldPartType].set && d.restorePart == nil {
		d.restorePart = d.out.Snapshot()
	}
	d.push(d.partStart, len(d.text))
	d.texts.add(d.text)
	d.dropText(0)
	d.partStart = 0
}

// commit passes on the line's text, which is the agent's own.
func (d *decoder) commit() {
	if d.restoreLine == nil {
		d.startMessage()
	}
	if d.format.mayWithdraw {
		d.snapshotMessage()
	}
	d.push(0, len(d.text))
	if d.restoreLine != nil && d.restoreMessage == nil {
		d.out.Commit()
	}
	d.committed, d.hasSpoken, d.messageOpen, d.report.Ended = true, d.hasSpoken || d.notBlank, true,
		false
	d.resetText()
}

// discard drops the line's text, which is not the agent's own.
func (d *decoder) discard() {
	if d.restoreLine != nil {
		d.restoreLine()
	}
	d.resetText()
}

func (d *decoder) resetText() {
	d.text, d.places, d.partStart = d.text[:0], d.places[:0], 0
	d.hasText, d.notBlank, d.partHasText, d.restoreLine, d.restorePart = false, false, false, nil,
		nil
	d.texts.reset()
}

func (d *decoder) startMessage() {
	if d.joined = d.messageOpen && d.format.continuesMessage(d); d.joined {
		if d.name == signalbox.FormatClaude {
			d.out.StartLine()
		}
		return
	}
	// otherwise the text may be withdrawn, and the previous message may continue
	if d.restoreLine == nil {
		d.commitMessage()
	}
	d.out.StartMessage()
}

func (d *decoder) endMessage() {
	d.commitMessage()
	if d.high != 0 {
		d.high = 0
		if d.locate {
			d.out.Locate([]Place{{At: d.highAt, Size: halfSize}})
		}
		d.out.Push([]byte("\uFFFD"))
	}
	if d.messageOpen {
		d.messageOpen = false
		d.out.EndMessage()
	}
}

// endTurn ends the turn and reports it as ended.
func (d *decoder) endTurn(failed bool, message []byte) {
	d.endMessage()
	d.out.EndTurn()
	d.reportEnd(failed, message)
}

// reportEnd reports that the turn has ended, with an error message if it failed.
func (d *decoder) reportEnd(failed bool, message []byte) {
	d.report.Ended, d.report.Failed, d.report.Error, d.report.ErrorStatus, d.report.Retrying = true,
		false, "", 0, ""
	if failed {
		d.reportFailure(message)
		d.report.ErrorStatus = int(min(d.count(fieldErrorStatus), maxStatus))
	}
	d.usage.endTurn()
	d.hasSpoken = false
}

func (d *decoder) reportFailure(message []byte) {
	d.report.Failed, d.report.Error = true, d.message(message)
}

// message returns the start of an error message.
func (d *decoder) message(
	text []byte) string {
	return lines.Valid(text[:min(len(text), maxMessage)])
}

// tokens returns the usage in the line, without its cost.
func (d *decoder) tokens() signalbox.Usage {
	return signalbox.Usage{InputTokens: d.count(fieldInput),
		CachedInputTokens: d.count(fieldCached),
		CacheWriteTokens:  d.count(fieldCacheWrite), OutputTokens: d.count(fieldOutput)}
}

// count returns a field's whole number, 0 if it has none.
func (d *decoder) count(id fieldID) int64 {
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

// amount returns a field's decimal number, 0 if it has none.
func (d *decoder) amount(id fieldID) float64 {
	if v := d.values[id]; v.set && !v.quoted {
		if f, err := strconv.ParseFloat(string(v.value), 64); err == nil {
			return f
		}
	}
	return 0
}
