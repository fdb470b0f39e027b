package applied

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"time"

	"signalbox"
)

// Size is the number of events that are remembered.
const Size = 256

// The layout of the file: a slot with the box's id, and Size slots with an event each. The event
// with sequence number n is in slot n modulo Size. Numbers are big-endian.
//
//	a header: 1 byte unused, magic, 1 byte length and up to 64 bytes of the box's id, 0 …, 4 bytes checksum
//	an event: 8 bytes sequence number, 8 bytes time in ns since 1970, 32 bytes hash, 1 byte length and up to 48 bytes of the type,
//	          1 byte length and up to 64 bytes of the work, 0 …, 4 bytes checksum
//
// The first byte is unused because Windows does not let other processes read a locked byte. The
// checksum of an event also covers the box's id, so an event of another box is never taken for one
// of this box.
const (
	slotSize = 192
	fileSize = (1 + Size) * slotSize

	magic   = "signalbox applied 1\n"
	maxID   = signalbox.MaxID
	maxType = 48
	sumSize = 4
)

// Event is what is remembered of an event.
type Event struct {
	Seq  uint64         `json:"seq"`
	Time time.Time      `json:"time"`
	Type string         `json:"type"`
	Work string         `json:"work,omitempty"`
	Hash signalbox.Hash `json:"hash"`
}

// String describes the event on one line. Its type and work are as they were in the log, so escape
// the line before showing it.
func (e Event) String() string {
	line := fmt.Sprintf("%d  %s  %s", e.Seq, e.Time.UTC().Format(time.RFC3339), e.Type)
	if e.Work != "" {
		line += "  " + e.Work
	}
	return line + "  " + e.Hash.String()[:16]
}

func remember(e *signalbox.Event) Event { return Event{e.Seq, e.Time, e.Type, e.Work, e.Hash} }

// ErrOtherEvent means that another event with the same sequence number is remembered: the log has
// two histories.
var ErrOtherEvent = errors.New("another event with this sequence number was applied before")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sum returns the checksum of a slot for a box.
func sum(box string, slot []byte) uint32 {
	return crc32.Update(crc32.Checksum([]byte(box), castagnoli), castagnoli,
		slot[:slotSize-sumSize])
}

func appendText(b []byte, text string, limit int) []byte {
	text = text[:min(len(text), limit)]
	return append(append(b, byte(len(text))), text...)
}

// cutText returns the text at the start of b, and the rest.
func cutText(b []byte, limit int) (text string, rest []byte, ok bool) {
	if len(b) == 0 || int(b[0]) > min(limit, len(b)-1) {
		return "", nil, false
	}
	n := 1 + int(b[0])
	return string(b[1:n]), b[n:], true
}

// finish fills a slot up and adds the checksum.
func finish(box string, slot []byte) []byte {
	slot = append(slot, make([]byte, slotSize-len(slot))...)
	binary.BigEndian.PutUint32(slot[slotSize-sumSize:], sum(box, slot))
	return slot
}

func encodeHeader(box string) []byte {
	return finish("", appendText(append([]byte{0}, magic...), box, maxID))
}

// decodeHeader returns the id of the box, or false if the header is damaged.
func decodeHeader(slot []byte) (box string, ok bool) {
	if len(slot) != slotSize || binary.BigEndian.Uint32(slot[slotSize-sumSize:]) != sum("", slot) {
		return "", false
	}
	text, ok := bytes.CutPrefix(slot[1:], []byte(magic))
	if !ok {
		return "", false
	}
	box, _, ok = cutText(text, maxID)
	return box, ok
}

func encodeEvent(box string, e *Event) []byte {
	slot := binary.BigEndian.AppendUint64(make([]byte, 0, slotSize), e.Seq)
	slot = binary.BigEndian.AppendUint64(slot, uint64(e.Time.UnixNano()))
	slot = append(slot, e.Hash[:]...)
	return finish(box, appendText(appendText(slot, e.Type, maxType), e.Work, signalbox.MaxID))
}

// decodeEvent returns the event in a slot, or false if there is none or it is damaged.
func decodeEvent(box string, slot []byte) (e Event, ok bool) {
	seq := binary.BigEndian.Uint64(slot)
	if seq == 0 || binary.BigEndian.Uint32(slot[slotSize-sumSize:]) != sum(box, slot) {
		return Event{}, false
	}
	e = Event{Seq: seq, Time: time.Unix(0, int64(binary.BigEndian.Uint64(slot[8:]))).UTC(), Hash: signalbox.Hash(slot[16:48])}
	rest := slot[48:]
	if e.Type, rest, ok = cutText(rest, maxType); ok {
		e.Work, _, ok = cutText(rest, signalbox.MaxID)
	}
	return e, ok
}

// decode returns the id of the box and the events in the bytes of a file, in their order. Damaged
// slots, and those that a truncated file lacks, are left out. The id is "" if the header is damaged
// and box, the expected id, is "".
func decode(box string, file []byte) (id string, events []Event) {
	id = box
	if found, ok := decodeHeader(file[:min(slotSize, len(file))]); ok {
		id = found
	}
	for i := 1; (i+1)*slotSize <= len(file); i++ {
		if e, ok := decodeEvent(id, file[i*slotSize:][:slotSize]); ok && int(e.Seq%Size) == i-1 {
			events = append(events, e)
		}
	}
	slices.SortFunc(events, func(a, b Event) int { return cmp.Compare(a.Seq, b.Seq) })
	return id, events
}

// encode returns the bytes of a file that remembers the last Size of the events.
func encode(box string, events []Event) []byte {
	file := append(encodeHeader(box), make([]byte, Size*slotSize)...)
	for _, e := range events[max(0, len(events)-Size):] {
		copy(file[offset(e.Seq):], encodeEvent(box, &e))
	}
	return file
}

// offset returns where in the file the slot of an event is.
func offset(seq uint64) int64 { return int64(1+seq%Size) * slotSize }

// merge adds consecutive events to slots, which are those of these events. A slot never steps back
// to an older event. It reports whether anything changed. The error is ErrOtherEvent; then nothing
// was changed.
func merge(box string, slots []byte, events []signalbox.Event) (changed bool, err error) {
	var add []int
	for i := range events {
		found, ok := decodeEvent(box, slots[i*slotSize:][:slotSize])
		switch {
		case !ok || found.Seq < events[i].Seq:
			add = append(add, i)
		case found.Seq == events[i].Seq && found.Hash != events[i].Hash:
			return false, fmt.Errorf("event %d: %w", found.Seq, ErrOtherEvent)
		}
	}
	for _, i := range add {
		e := remember(&events[i])
		copy(slots[i*slotSize:], encodeEvent(box, &e))
	}
	return len(add) > 0, nil
}
