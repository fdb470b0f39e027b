package nats

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"signalbox/internal/core/journal"
	"signalbox/internal/core/journal/driver"
)

// A file is a sequence of bytes in the stream NAME_files. A small file is one message. The message
// of a larger file lists the sequence numbers of the messages with its pieces, which are stored
// first. The message is
//
//	version (1 byte), size (varint), number of pieces (varint), the difference of each sequence number to the one before (varints), or the bytes
//	if there are no pieces
const (
	fileVersion = 1
	// pieceBytes is the size of every piece but the last.
	pieceBytes = journal.MaxEventBytes
)

// fileStore stores files: the blobs.
type fileStore struct {
	*client
	collecting sync.Mutex // guards collected
	collected  time.Time  // when old uploads were searched for
}

// file says where the bytes of a file are.
type file struct {
	size   int64
	pieces []uint64 // sequence numbers
	inline []byte   // the bytes if there are no pieces
}

func (f *file) encode(b []byte) []byte {
	b = append(b, fileVersion)
	b = binary.AppendUvarint(b, uint64(f.size))
	b = binary.AppendUvarint(b, uint64(len(f.pieces)))
	before := uint64(0)
	for _, seq := range f.pieces {
		b = binary.AppendUvarint(b, seq-before)
		before = seq
	}
	return append(b, f.inline...)
}

func decodeFile(b []byte) (f file, err error) {
	bad := errors.New("it is not the description of a file")
	if len(b) == 0 || b[0] != fileVersion {
		return f, bad
	}
	b = b[1:]
	number := func() (n uint64) {
		n, size := binary.Uvarint(b)
		if size <= 0 {
			err = bad
			return 0
		}
		b = b[size:]
		return n
	}
	size, pieces := number(), number()
	if err != nil || pieces > uint64(len(b)) || pieces != 0 &&
		pieces != (size+pieceBytes-1)/pieceBytes {
		return f, bad
	}
	f.size = int64(size)
	before := uint64(0)
	for range pieces {
		before += number()
		f.pieces = append(f.pieces, before)
	}
	if f.inline = b; err == nil && pieces == 0 && uint64(len(b)) != size {
		err = bad
	}
	return f, err
}

// newUploadID returns a random name.
func newUploadID() string {
	id := make([]byte, 12)
	rand.Read(id) // never fails
	return hex.EncodeToString(id)
}

// store stores a message in the stream of files, and returns its sequence number. If replaces is
// not nil, the last message of the subject must have that sequence number; 0 means that there must
// be none.
func (s *fileStore) store(ctx context.Context, subject string, data []byte,
	replaces *uint64) (uint64, error) {
	m := natsgo.NewMsg(subject)
	m.Data = data
	// The server recognises attempts of the same message, and answers as it did the first time.
	m.Header.Set(jetstream.MsgIDHeader, newUploadID())
	m.Header.Set(jetstream.ExpectedStreamHeader, s.files())
	if replaces != nil {
		m.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(*replaces, 10))
	}
	var ack pubAck
	err := s.retry(ctx, func() error {
		answer, err := s.request(ctx, m)
		if err == nil {
			err = decodeAnswer(answer, &ack)
		}
		return err
	})
	return ack.Seq, err
}

// pieces returns how to read a file.
func (s *fileStore) pieces(f file) driver.Pieces {
	return driver.Pieces{Size: f.size,
		ReadAt: func(ctx context.Context, p []byte, offset int64) (int, error) {
			if len(f.pieces) == 0 {
				return copy(p, f.inline[offset:]), nil
			}
			data, err := s.piece(ctx, &f, offset/pieceBytes)
			if err != nil {
				return 0, err
			}
			return copy(p, data[offset%pieceBytes:]), nil
		}}
}

// piece returns a piece of a file that has pieces.
func (s *fileStore) piece(ctx context.Context, f *file, i int64) ([]byte, error) {
	var m *message
	err := s.retry(ctx, func() error {
		a, err := s.getFile(ctx, question{After: f.pieces[i] - 1})
		if m = a.first(); err == nil && m == nil && !a.proven {
			err = fmt.Errorf("%w: piece %d is missing", errUnproven, i)
		}
		return err
	})
	switch want := min(pieceBytes, f.size-i*pieceBytes); {
	case err != nil:
		return nil, err
	case m == nil:
		return nil, fmt.Errorf("%w: number %d", driver.ErrNoPiece, i)
	case int64(len(m.Data)) != want:
		return nil, driver.Damaged(fmt.Errorf("piece %d of it has %d bytes, want %d", i, len(m.Data),
			want))
	}
	return m.Data, nil
}

// entry returns the last message of a subject in the stream of files, from its leader.
func (s *fileStore) entry(ctx context.Context, subject string) (m message, found bool, err error) {
	var last *message
	err = s.retry(ctx, func() error {
		a, err := s.getFile(ctx, question{Last: subject})
		last = a.first()
		return err
	})
	if err != nil || last == nil {
		return m, false, err
	}
	return *last, true, nil
}

// getFile asks the leader of the stream of files for one message. A server that was replaced as the
// leader, and does not know it yet, may say that there is none, so that is asked again with proof.
// It does not try again.
func (s *fileStore) getFile(ctx context.Context, q question) (answer, error) {
	m, found, err := s.getMessage(ctx, s.files(), q.request())
	switch {
	case err != nil:
		return answer{}, err
	case found:
		return answer{messages: []message{m}, proven: true}, nil
	}
	q.Stream, q.Count = s.files(), 1
	return s.ask(ctx, q)
}

// erase overwrites and deletes a message in the stream of files. It does nothing if there is none.
func (s *fileStore) erase(ctx context.Context, seq uint64) error {
	request := struct {
		Seq uint64 `json:"seq"`
	}{seq}
	return s.retry(ctx, func() error {
		err := s.api(ctx, "STREAM.MSG.DELETE."+s.files(), request, nil)
		code := apiCode(err)
		if code != codeSequenceNotFound && code != jetstream.JSErrCodeMessageNotFound &&
			code != codeDeleteFailed {
			return err
		}
		a, again := s.getFile(ctx, question{After: seq - 1})
		switch {
		case again != nil:
			return again
		case a.first() == nil:
			return nil
		case code == codeDeleteFailed:
			return err
		}
		return errNoLeader // another server said that there is none
	})
}

// erasePieces erases the pieces of a file.
func (s *fileStore) erasePieces(ctx context.Context, f file) error {
	for _, seq := range f.pieces {
		if err := s.erase(ctx, seq); err != nil {
			return err
		}
	}
	return nil
}
