package nats

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/minio/highwayhash"
	"github.com/nats-io/nats-server/v2/server"

	"signalbox"
	"signalbox/ledger"
)

// A server stores the messages of a stream in the files 1.blk, 2.blk and so on, one record after
// the other. When it starts, it cuts a file off at the first record that it cannot read, and
// continues without what followed. So the files are read themselves, which needs no server. A
// record is
//
//	size (4 bytes; the highest bit is set if there are headers), sequence number (8), time (8),
//	size of the subject (2), subject, size of the headers (4; if there are any), headers, data,
//	HighwayHash-64 of the sequence number and all that follows, without the sizes (8)
//
// in little-endian order.
const (
	recordFixed = 4 + 8 + 8 + 2
	recordHash  = 8
	// recordHeaders is set in the size of a record that has headers.
	recordHeaders = 1 << 31
)

var (
	// errDamagedCopy means that the files of a node do not have what it has stored.
	errDamagedCopy = errors.New("the copy of the ledger on this machine is damaged")
	// errInvalidEvent means that an event was stored as it arrived, and is not valid.
	errInvalidEvent = errors.New(
		"the copy of the ledger on this machine has an event that is not valid")
	errShortRecord = errors.New("the file ends in the middle of it")
)

// copyReader reads the events of a stream from the files in a folder, and verifies them. It can
// read on when more were stored.
type copyReader struct {
	dir, stream, subject string
	// expect is an event that the copy must have, if its sequence number is not 0. The hash may be
	// zero, if it is not known.
	expect copyMark
	// replays means that a server will discard what follows that event, and store it again from the
	// log of its group. So it may be damaged.
	replays bool
	// pause, if not nil, is called from time to time.
	pause func() error

	block  uint32   // of the last event; 0 means that there is none
	offset int64    // after it
	last   copyMark // the last event
}

// copyMark identifies an event.
type copyMark struct {
	Seq  uint64         `json:"seq"`
	Hash signalbox.Hash `json:"hash"`
}

// blockNumbers returns the numbers of the files in a folder, sorted.
func blockNumbers(dir string) (numbers []uint32, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, entry := range entries {
		if text, found := strings.CutSuffix(entry.Name(), ".blk"); found {
			if number, err := strconv.ParseUint(text, 10, 32); err == nil && number > 0 {
				numbers = append(numbers, uint32(number))
			}
		}
	}
	slices.Sort(numbers)
	return numbers, err
}

func blockFile(dir string, number uint32) string {
	return filepath.Join(dir, strconv.FormatUint(uint64(number), 10)+".blk")
}

// advance reads the events after the last one. The last file may end with an incomplete record: it
// is being written, or the machine lost power at that moment and the server has it in its log. It
// returns errDamagedCopy, errInvalidEvent, or an error of the file system.
func (r *copyReader) advance() error {
	numbers, err := blockNumbers(r.dir)
	if err != nil {
		return err
	}
	for i, number := range numbers {
		if number < r.block {
			continue
		}
		if number > r.block {
			r.block, r.offset = number, 0
		}
		err := r.readBlock(i == len(numbers)-1)
		if r.replays && r.last.Seq >= r.expect.Seq && errors.Is(err, errDamagedCopy) {
			break
		}
		if err != nil {
			return err
		}
	}
	if r.last.Seq < r.expect.Seq {
		return fmt.Errorf("%w: it ends at event %d, and had event %d", errDamagedCopy, r.last.Seq,
			r.expect.Seq)
	}
	return nil
}

// readBlock reads what follows in a file.
func (r *copyReader) readBlock(last bool) error {
	file, err := os.OpenFile(blockFile(r.dir, r.block), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	end, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if end < r.offset {
		return fmt.Errorf("%w: %s was cut off before the end of event %d", errDamagedCopy,
			file.Name(), r.last.Seq)
	}
	data := make([]byte, end-r.offset) // at most 8 MiB, or one large event
	_, err = file.ReadAt(data, r.offset)
	switch {
	case errors.Is(err, syscall.EIO):
		return fmt.Errorf("%w: %w", errDamagedCopy, err)
	case err != nil && !errors.Is(err, io.EOF):
		return err
	}
	if len(data) > 0 {
		// What is verified stays: a server with replicas syncs its log, and these files only later.
		if err := file.Sync(); err != nil {
			return err
		}
	}
	key := sha256.Sum256(fmt.Appendf(nil, "%s-%d", r.stream, r.block))
	hash, err := highwayhash.New64(key[:])
	if err != nil {
		return err
	}
	for len(data) > 0 {
		record, rest, err := cutRecord(hash, data)
		if err != nil {
			if last && !r.hasRecord(hash, data) {
				return nil
			}
			return fmt.Errorf("%w: event %d: %w", errDamagedCopy, r.last.Seq+1, err)
		}
		if err := r.add(record); err != nil {
			return err
		}
		r.offset += int64(len(data) - len(rest))
		data = rest
	}
	if r.pause != nil {
		return r.pause()
	}
	return nil
}

// storedRecord is a record of a file.
type storedRecord struct {
	seq     uint64
	subject string
	data    []byte
}

// cutRecord returns the first record of some bytes, which it shares memory with.
func cutRecord(hash hash.Hash, b []byte) (r storedRecord, rest []byte, err error) {
	if len(b) < recordFixed {
		return r, nil, errShortRecord
	}
	size := binary.LittleEndian.Uint32(b)
	withHeaders := size&recordHeaders != 0
	size &^= recordHeaders
	subject := int(binary.LittleEndian.Uint16(b[recordFixed-2:]))
	fixed := recordFixed + subject
	if withHeaders {
		fixed += 4
	}
	if int64(size) < int64(fixed+recordHash) {
		return r, nil, errors.New("its size is wrong")
	}
	if int64(size) > int64(len(b)) {
		return r, nil, errShortRecord
	}
	record, rest := b[:size], b[size:]
	body := record[fixed : len(record)-recordHash]
	hash.Reset()
	hash.Write(record[4 : recordFixed-2])
	hash.Write(record[recordFixed : recordFixed+subject])
	hash.Write(body)
	if !bytes.Equal(hash.Sum(nil), record[len(record)-recordHash:]) {
		return r, nil, errors.New("wrong checksum")
	}
	if withHeaders {
		headers := binary.LittleEndian.Uint32(record[fixed-4:])
		if int64(headers) > int64(len(body)) {
			return r, nil, errors.New("the size of its headers is wrong")
		}
		body = body[headers:]
	}
	return storedRecord{binary.LittleEndian.Uint64(record[4:]),
		string(record[recordFixed : recordFixed+subject]), body}, rest, nil
}

// hasRecord reports whether a record follows after the start of some bytes.
func (r *copyReader) hasRecord(hash hash.Hash, b []byte) bool {
	for at := 1; ; at++ {
		i := bytes.Index(b[min(at+recordFixed, len(b)):], []byte(r.subject))
		if i < 0 {
			return false
		}
		at += i
		if _, _, err := cutRecord(hash, b[at:]); err == nil {
			return true
		}
	}
}

// add verifies the next record.
func (r *copyReader) add(record storedRecord) error {
	seq := r.last.Seq + 1
	if record.seq != seq || record.subject != r.subject {
		return fmt.Errorf("%w: event %d is missing", errDamagedCopy, seq)
	}
	e, _, err := decodeEvent(seq, record.data)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", errInvalidEvent, err)
	case e.Prev != r.last.Hash:
		return fmt.Errorf("%w: event %d does not continue event %d", errInvalidEvent, seq, seq-1)
	case e.Hash != ledger.Sum(&e):
		return fmt.Errorf("%w: event %d: wrong hash", errInvalidEvent, seq)
	case seq == r.expect.Seq && r.expect.Hash != (signalbox.Hash{}) && e.Hash != r.expect.Hash:
		return fmt.Errorf("%w: event %d is not the one that it had", errDamagedCopy, seq)
	}
	r.last = copyMark{seq, e.Hash}
	return nil
}

// readSnapshot returns the last event in the newest snapshot of a group, 0 if there is none. It is
// not ok if the group has no log either, so that a server would replay nothing. The folder of the
// group has snapshots in files snap.TERM.INDEX:
//
//	term (8 bytes), index (8), size of the list of servers (4), that list, the state of the stream,
//	HighwayHash-64 of all that (8)
func readSnapshot(dir, group string) (last uint64, ok bool, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "snapshots", "snap.*"))
	if err != nil {
		return 0, false, err
	}
	newest, term, index := "", uint64(0), uint64(0)
	for _, name := range files {
		var t, i uint64
		_, err := fmt.Sscanf(filepath.Base(name), "snap.%d.%d", &t, &i)
		// a file with more in its name was being written
		if err == nil && strings.HasSuffix(name, fmt.Sprintf(".%d.%d", t, i)) &&
			(t > term || t == term && i > index) {
			newest, term, index = name, t, i
		}
	}
	if newest == "" {
		log, err := blockNumbers(filepath.Join(dir, "msgs"))
		return 0, len(log) > 0, err
	}
	data, err := os.ReadFile(newest)
	if err != nil {
		return 0, false, err
	}
	key := sha256.Sum256([]byte(group))
	hash, err := highwayhash.New64(key[:])
	if err != nil {
		return 0, false, err
	}
	const fixed = 8 + 8 + 4
	body := data[:max(0, len(data)-recordHash)]
	hash.Write(body)
	if len(body) < fixed || !bytes.Equal(hash.Sum(nil), data[len(body):]) {
		return 0, false, fmt.Errorf("%s: wrong checksum", newest)
	}
	servers := binary.LittleEndian.Uint32(body[fixed-4:])
	if int64(fixed)+int64(servers) > int64(len(body)) {
		return 0, false, fmt.Errorf("%s: wrong size", newest)
	}
	state, err := server.DecodeStreamState(body[fixed+servers:])
	if err != nil {
		return 0, false, fmt.Errorf("%s: %w", newest, err)
	}
	return state.LastSeq, true, nil
}
