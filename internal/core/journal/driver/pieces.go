package driver

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"

	"signalbox"
	"signalbox/internal/core/journal"
)

// ErrNoPiece means that a piece of a blob is missing.
var ErrNoPiece = errors.New("a piece of it is missing")

// Pieces is a blob that a database stores in pieces.
type Pieces struct {
	Size int64
	// ReadAt reads at least one byte from an offset below Size, and at most to the end of a piece.
	ReadAt func(ctx context.Context, p []byte, offset int64) (int, error)
}

// readBuffer is how much of a blob is read at a time. It is a multiple of the size of a piece.
const readBuffer = 1 << 20

// Verify reads a blob and checks its digest.
func (b Pieces) Verify(ctx context.Context, digest signalbox.Hash) error {
	if b.Size < 0 {
		return Damaged(fmt.Errorf("its size is %d", b.Size))
	}
	sum, buffer := sha256.New(), make([]byte, min(b.Size, readBuffer))
	for offset := int64(0); offset < b.Size; {
		n, err := b.ReadAt(ctx, buffer, offset)
		if errors.Is(err, ErrNoPiece) {
			err = Damaged(err)
		}
		if err != nil {
			return err
		}
		sum.Write(buffer[:n])
		offset += int64(n)
	}
	if signalbox.Hash(sum.Sum(nil)) != digest {
		return Damaged(fmt.Errorf("its bytes have the digest %x", sum.Sum(nil)))
	}
	return nil
}

// Open returns a blob of the log. It has nothing to close.
func (b Pieces) Open(l *Log) journal.Blob { return openBlob{b, l} }

type openBlob struct {
	pieces Pieces
	log    *Log
}

func (b openBlob) Size() int64  { return b.pieces.Size }
func (b openBlob) Close() error { return nil }

func (b openBlob) ReadAt(p []byte, offset int64) (n int, err error) {
	if offset < 0 {
		return 0, errors.New("negative offset")
	}
	for n < len(p) && offset < b.pieces.Size {
		var read int
		err := b.log.Do(context.Background(), func(ctx context.Context) (err error) {
			read, err = b.pieces.ReadAt(ctx, p[n:], offset)
			if errors.Is(err, ErrNoPiece) {
				err = fmt.Errorf("%w: it was deleted", journal.ErrNoBlob)
			}
			return err
		}, "read a blob at %d", offset)
		if err != nil {
			return n, err
		}
		n, offset = n+read, offset+int64(read)
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// Reader returns the bytes of a blob of the log that was verified. They may be replaced after that,
// so it verifies them again.
func (b Pieces) Reader(l *Log, digest signalbox.Hash) io.ReadCloser {
	return &blobReader{digest: digest, sum: sha256.New(),
		rest: bufio.NewReaderSize(io.NewSectionReader(b.Open(l), 0, b.Size),
			int(min(b.Size, readBuffer)))}
}

type blobReader struct {
	digest signalbox.Hash
	sum    hash.Hash // of what was read
	rest   *bufio.Reader
	closed bool
}

func (r *blobReader) Read(p []byte) (int, error) {
	if r.closed {
		return 0, errors.New("the blob is closed")
	}
	n, err := r.rest.Read(p)
	r.sum.Write(p[:n])
	if errors.Is(err, io.EOF) && signalbox.Hash(r.sum.Sum(nil)) != r.digest {
		err = Damaged(errors.New("the bytes of a blob were changed while it was read"))
	}
	return n, err
}

func (r *blobReader) Close() error {
	r.closed = true
	return nil
}
