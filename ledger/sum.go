package ledger

import (
	"crypto/sha256"
	"encoding/binary"

	"signalbox"
)

// preimageHead is the start of every preimage, in which fields have fixed lengths: a tag, so that
// the hash of an event is never the hash of anything else, and then seq and time with placeholders.
const preimageHead = "signalbox/event/v1\n" +
	"\x00\x00\x00\x00\x00\x00\x00\x08" + "\x00\x00\x00\x00\x00\x00\x00\x00" +
	"\x00\x00\x00\x00\x00\x00\x00\x1e" + "0000-00-00T00:00:00.000000000Z"

const (
	timeAt = len(preimageHead) - len(signalbox.EventTime)
	seqAt  = timeAt - 8 - 8
)

// shortText is the maximum length of all variable fields together for which the preimage fits in a
// buffer of 512 bytes. Most events are shorter.
const shortText = 512 - len(preimageHead) - 5*8 - (8 + 32)

// Sum returns the hash of an event: SHA-256 over a tag and then every field except Hash, each as
// its length in 8 bytes, big-endian, followed by its bytes. It does not allocate. The time must be
// in the years 1 to 9999; otherwise the hash is that of a different time.
func Sum(e *signalbox.Event) signalbox.Hash {
	if len(e.Type)+len(e.Work)+len(e.Session)+len(e.Actor)+len(e.Data) > shortText {
		return sumLong(e)
	}
	var buf [512]byte
	copy(buf[:], preimageHead)
	putHead((*[len(preimageHead)]byte)(buf[:]), e)
	b := appendText(buf[:len(preimageHead)], e.Type)
	b = appendText(b, e.Work)
	b = appendText(b, e.Session)
	b = appendText(b, e.Actor)
	b = binary.BigEndian.AppendUint64(b, uint64(len(e.Data)))
	b = append(b, e.Data...)
	b = binary.BigEndian.AppendUint64(b, uint64(len(e.Prev)))
	b = append(b, e.Prev[:]...)
	return sha256.Sum256(b)
}

func appendText(b []byte, s string) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(len(s)))
	return append(b, s...)
}

// sumLong is Sum for events of any size.
func sumLong(e *signalbox.Event) signalbox.Hash {
	head := [len(preimageHead)]byte([]byte(preimageHead))
	putHead(&head, e)
	h := sha256.New()
	h.Write(head[:])
	var length [8]byte
	for _, s := range [...]string{e.Type, e.Work, e.Session, e.Actor} {
		binary.BigEndian.PutUint64(length[:], uint64(len(s)))
		h.Write(length[:])
		h.Write([]byte(s))
	}
	for _, b := range [...][]byte{e.Data, e.Prev[:]} {
		binary.BigEndian.PutUint64(length[:], uint64(len(b)))
		h.Write(length[:])
		h.Write(b)
	}
	var sum signalbox.Hash
	h.Sum(sum[:0])
	return sum
}

// putHead fills in the sequence number and the time. The time has the layout signalbox.EventTime;
// time.AppendFormat would take as long as hashing the event.
func putHead(b *[len(preimageHead)]byte, e *signalbox.Event) {
	binary.BigEndian.PutUint64(b[seqAt:], e.Seq)
	sinceFirst := uint64(e.Time.Unix() - firstSecond)
	year, month, day := date(uint32(sinceFirst / 86400))
	second := uint32(sinceFirst % 86400)
	nano := uint32(e.Time.Nanosecond())
	putTwo(b[timeAt:], year/100)
	putTwo(b[timeAt+2:], year%100)
	putTwo(b[timeAt+5:], month)
	putTwo(b[timeAt+8:], day)
	putTwo(b[timeAt+11:], second/3600)
	putTwo(b[timeAt+14:], second/60%60)
	putTwo(b[timeAt+17:], second%60)
	b[timeAt+20] = byte('0' + nano/1e8)
	putTwo(b[timeAt+21:], nano/1e6%100)
	putTwo(b[timeAt+23:], nano/1e4%100)
	putTwo(b[timeAt+25:], nano/100%100)
	putTwo(b[timeAt+27:], nano%100)
}

func putTwo(b []byte, n uint32) { b[0], b[1] = byte('0'+n/10), byte('0'+n%10) }

// date returns the date that is days after 0001-01-01. It counts years from March, so that the leap
// day is the last day of a year.
func date(days uint32) (year, month, day uint32) {
	const (
		fourCenturies  = 146097
		marchToNewYear = 306
	)
	days += marchToNewYear // from the first of March in the year 0
	century := (4*days + 3) / fourCenturies
	days -= century * fourCenturies / 4
	year = (4*days + 3) / 1461
	days -= year * 1461 / 4
	month = (5*days + 2) / 153 // 153 days in any five months from March on
	day = days - (153*month+2)/5 + 1
	year += 100 * century
	if month < 10 {
		return year, month + 3, day
	}
	return year + 1, month - 9, day
}
