package nats

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"signalbox"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/journal/driver"
)

// An event is stored as
//
//	version (1 byte), number of the append (8), sequence number (8), time in nanoseconds since 1970 (8), prev (32), hash (32),
//	type, work, session, actor (each its length as a varint, then its bytes), data, CRC-32C of all that (4)
const (
	eventVersion = 1
	// eventFixed is the size of the fields of fixed size before the text fields.
	eventFixed = 1 + 8 + 8 + 8 + 32 + 32
	// maxEventMessage is the maximum size of a message with an event, with some space for headers.
	maxEventMessage = journal.MaxEventBytes + 4096
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// appendID identifies an append among all appends.
type appendID uint64

func encodeEvent(id appendID, e *signalbox.Event) []byte {
	b := make([]byte, 0, eventFixed+4*binary.MaxVarintLen32+driver.EventBytes(e)+4)
	b = append(b, eventVersion)
	b = binary.BigEndian.AppendUint64(b, uint64(id))
	b = binary.BigEndian.AppendUint64(b, e.Seq)
	b = binary.BigEndian.AppendUint64(b, uint64(e.Time.UnixNano()))
	b = append(b, e.Prev[:]...)
	b = append(b, e.Hash[:]...)
	for _, text := range [...]string{e.Type, e.Work, e.Session, e.Actor} {
		b = binary.AppendUvarint(b, uint64(len(text)))
		b = append(b, text...)
	}
	b = append(b, e.Data...)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// decodeEvent decodes the message with the sequence number seq. The result does not share memory
// with it.
func decodeEvent(seq uint64, message []byte) (e signalbox.Event, id appendID, err error) {
	fail := func(why error) (signalbox.Event, appendID, error) {
		return signalbox.Event{}, 0, driver.Damaged(fmt.Errorf("event %d: %w", seq, why))
	}
	if len(message) < eventFixed+4 || message[0] != eventVersion {
		return fail(errors.New("it is not an event"))
	}
	body := message[:len(message)-4]
	if crc32.Checksum(body, castagnoli) != binary.BigEndian.Uint32(message[len(body):]) {
		return fail(errors.New("wrong checksum"))
	}
	rest := body[1:]
	number := func() uint64 {
		n := binary.BigEndian.Uint64(rest)
		rest = rest[8:]
		return n
	}
	id = appendID(number())
	e.Seq = number()
	e.Time = time.Unix(0, int64(number())).UTC()
	rest = rest[copy(e.Prev[:], rest):]
	rest = rest[copy(e.Hash[:], rest):]
	for _, text := range [...]*string{&e.Type, &e.Work, &e.Session, &e.Actor} {
		n, size := binary.Uvarint(rest)
		if size <= 0 || n > uint64(len(rest)-size) {
			return fail(errors.New("a field is too long"))
		}
		*text = string(rest[size : size+int(n)])
		rest = rest[size+int(n):]
	}
	e.Data = append(e.Data, rest...)
	switch {
	case e.Seq != seq:
		return fail(fmt.Errorf("it is event %d", e.Seq))
	case driver.EventBytes(&e) > journal.MaxEventBytes:
		return fail(driver.ErrTooLarge)
	}
	return e, id, nil
}
