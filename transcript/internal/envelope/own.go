package envelope

import (
	"bytes"
	"fmt"
	"hash/maphash"

	"signalbox"
)

// sessionRule is how the lines of a format show the session that they belong to; zero means that no
// line shows it. The first session of a stream is the agent's.
type sessionRule int

const (
	// sessionInEveryLine: a line without a session, in a stream that has one, is not the agent's.
	sessionInEveryLine sessionRule = iota + 1
	// sessionAnnounced: an event shows it for the lines that follow.
	sessionAnnounced
)

// refusal returns why the complete line is not the agent's own, "" if it is.
func (d *decoder) refusal() signalbox.Reason {
	if d.isForeign() {
		return signalbox.ReasonForeignSession
	}
	if d.format.refuse != nil {
		return d.format.refuse(d)
	}
	return ""
}

// isForeign reports whether the line belongs to another session. It remembers the session of the
// first line that has one.
func (d *decoder) isForeign() bool {
	v := d.values[fieldSession]
	named := v.set && v.quoted && len(v.value) > 0
	if len(d.session) == 0 && named && d.format.types[string(d.values[fieldType].value)] {
		d.session = append(d.session, v.value...)
	}
	if len(d.session) == 0 {
		return false
	}
	same := named && bytes.Equal(v.value, d.session)
	switch d.format.session {
	case sessionInEveryLine:
		part := d.values[fieldPartSession]
		return !same || part.set && !(part.quoted && bytes.Equal(part.value, d.session))
	case sessionAnnounced:
		if d.format.announces(d) {
			d.elsewhere = !same
		}
		return d.elsewhere || v.set && !same
	}
	return false
}

// reportRefusal reports that a line is not the agent's own, once for each reason. A sub-agent that
// names its parent as usual is not worth reporting.
func (d *decoder) reportRefusal() {
	typ := d.values[fieldType].value
	ordinary := d.refused == signalbox.ReasonSubAgent && d.values[fieldParent].quoted &&
		len(d.values[fieldParent].value) > 0
	if ordinary || !d.format.speaks[string(typ)] || d.seenRefusals[d.refused] {
		return
	}
	d.seenRefusals[d.refused] = true
	what := map[signalbox.Reason]string{
		signalbox.ReasonForeignSession: "is not of the agent's session",
		signalbox.ReasonSubAgent:       "is not of the agent itself, but of a sub-agent",
		signalbox.ReasonReplayed:       "repeats an earlier one",
	}[d.refused]
	d.drifts = append(d.drifts, remark{d.refused, string(typ),
		fmt.Sprintf("%s: line %d of the stream, of the type %s, %s; nothing in such lines counts",
			d.name, d.number, typ, what)})
}

// recentTexts remembers the texts of recent lines, to recognize a line that is written again: a
// replayed draft must not replace the verdict that followed it.
type recentTexts struct {
	hash   maphash.Hash
	known  map[uint64]struct{}
	ring   []uint64
	oldest int
}

const maxRecentTexts = 512

// add adds the start of the text of the current line, if it is too long to be held.
func (r *recentTexts) add(p []byte) { r.hash.Write(p) }

// reset starts the next line.
func (r *recentTexts) reset() { r.hash.Reset() }

// isRepeated remembers the text of the current line under an id, and reports whether it is known
// under that id. rest is what was not added of the text.
func (r *recentTexts) isRepeated(rest, id []byte) bool {
	r.hash.Write(rest)
	r.hash.WriteByte(0)
	r.hash.Write(id)
	sum := r.hash.Sum64()
	if _, ok := r.known[sum]; ok {
		return true
	}
	if r.known == nil {
		r.known = make(map[uint64]struct{}, maxRecentTexts+1)
	}
	r.known[sum] = struct{}{}
	if len(r.ring) < maxRecentTexts {
		r.ring = append(r.ring, sum)
		return false
	}
	delete(r.known, r.ring[r.oldest])
	r.ring[r.oldest] = sum
	r.oldest = (r.oldest + 1) % maxRecentTexts
	return false
}
