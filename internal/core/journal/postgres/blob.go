package postgres

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"time"

	"github.com/jackc/pgx/v5"

	"signalbox"
	"signalbox/internal/core/journal"
)

// pieceBytes is the size of the pieces in which blobs are stored. It is part of the format: where a
// byte of a blob is follows from it.
const pieceBytes = 1 << 20

// PutBlob stores the bytes of r in pieces, in one transaction.
func (j *Journal) PutBlob(ctx context.Context, r io.Reader) (digest signalbox.Hash, err error) {
	ctx, leave, err := j.calls.Begin(ctx)
	if err == nil {
		digest, err = j.putBlob(ctx, r)
		err = closedCause(ctx, err)
		leave()
	}
	if err != nil {
		return signalbox.Hash{}, fmt.Errorf("put a blob: %w", explain(err))
	}
	return digest, nil
}

// errKnown means that a blob is stored already.
var errKnown = errors.New("the blob is known")

func (j *Journal) putBlob(ctx context.Context, r io.Reader) (digest signalbox.Hash, err error) {
	b := storedBlob{upload: make([]byte, 16)}
	rand.Read(b.upload) // never fails
	select {
	case j.uploading <- struct{}{}:
		defer func() { <-j.uploading }()
	case <-ctx.Done():
		return digest, ctx.Err()
	}
	// What was read from r cannot be read again: only beginning the transaction is repeated.
	var tx pgx.Tx
	err = j.answer(ctx, func(ctx context.Context) (err error) {
		tx, err = j.pool.Begin(ctx)
		return err
	})
	if err != nil {
		return digest, err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		tx.Rollback(ctx) // closes the connection if it fails
	}()
	if digest, err = j.upload(ctx, tx, r, &b); err == nil {
		err = j.addBlob(ctx, tx, digest, b)
	}
	if err == nil {
		err = j.within(ctx, tx.Commit)
	}
	if errors.Is(err, errKnown) {
		return digest, nil
	}
	return digest, err
}

// upload stores the bytes of r.
func (j *Journal) upload(ctx context.Context, tx pgx.Tx, r io.Reader,
	b *storedBlob) (digest signalbox.Hash, err error) {
	hash := sha256.New()
	for buffer := make([]byte, pieceBytes); ; {
		n, readErr := io.ReadFull(contextReader{ctx, r}, buffer)
		if n > 0 {
			hash.Write(buffer[:n])
			err := j.within(ctx, func(ctx context.Context) error {
				_, err := tx.Exec(ctx,
					j.sql("INSERT INTO BOX.blob_pieces (upload, piece, data) VALUES ($1, $2, $3)"),
					b.upload, b.size/pieceBytes, buffer[:n])
				return err
			})
			if err != nil {
				return digest, err
			}
			b.size += int64(n)
		}
		if errors.Is(readErr, io.EOF) || errors.Is(readErr, io.ErrUnexpectedEOF) {
			return signalbox.Hash(hash.Sum(nil)), nil
		}
		if readErr != nil {
			return digest, readErr
		}
	}
}

// addBlob makes an upload the bytes of a blob. A blob that is known and undamaged stays as it is,
// with errKnown.
func (j *Journal) addBlob(ctx context.Context, tx pgx.Tx, digest signalbox.Hash,
	b storedBlob) error {
	known, err := j.insertBlob(ctx, tx, digest, b)
	if err != nil || !known {
		return err
	}
	// Reading a large blob over a slow link may take long, so the timeout is for each piece.
	if _, err := j.verifyBlob(ctx, tx, digest); !errors.Is(err, journal.ErrDamaged) &&
		!errors.Is(err, journal.ErrNoBlob) {
		if err == nil {
			err = errKnown
		}
		return err
	}
	if err := j.within(ctx,
		func(ctx context.Context) error { return j.removeBlob(ctx, tx, digest) }); err != nil {
		return err
	}
	_, err = j.insertBlob(ctx, tx, digest, b)
	return err
}

// insertBlob makes an upload the bytes of a blob, unless the blob is known.
func (j *Journal) insertBlob(ctx context.Context, tx pgx.Tx, digest signalbox.Hash,
	b storedBlob) (known bool, err error) {
	err = j.within(ctx, func(ctx context.Context) error {
		tag, err := tx.Exec(ctx,
			j.sql("INSERT INTO BOX.blobs (digest, upload, size) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING"), digest[:], b.upload, b.size)
		known = tag.RowsAffected() == 0
		return err
	})
	return known, err
}

// contextReader ends when its context does.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (r contextReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}

// queryer is a transaction or a pool.
type queryer interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// storedBlob is where the bytes of a blob are.
type storedBlob struct {
	upload []byte
	size   int64
}

// pieces returns the number of pieces.
func (b storedBlob) pieces() int { return int((b.size + pieceBytes - 1) / pieceBytes) }

// findBlob returns where the bytes of a blob are.
func (j *Journal) findBlob(ctx context.Context, q queryer,
	digest signalbox.Hash) (b storedBlob, err error) {
	err = q.QueryRow(ctx, j.sql("SELECT upload, size FROM BOX.blobs WHERE digest = $1"),
		digest[:]).Scan(&b.upload, &b.size)
	if errors.Is(err, pgx.ErrNoRows) {
		return b, &signalbox.Error{Code: signalbox.CodeNotFound, Err: journal.ErrNoBlob}
	}
	return b, err
}

// verifyBlob reads a blob and checks its digest.
func (j *Journal) verifyBlob(ctx context.Context, q queryer,
	digest signalbox.Hash) (b storedBlob, err error) {
	if b, err = j.findBlob(ctx, q, digest); err != nil {
		return b, err
	}
	hash := sha256.New()
	for piece := range b.pieces() {
		data, err := j.piece(ctx, q, b, piece)
		if err != nil {
			return b, err
		}
		hash.Write(data)
	}
	if signalbox.Hash(hash.Sum(nil)) != digest {
		return b, damaged(fmt.Errorf("its bytes have the digest %x", hash.Sum(nil)))
	}
	return b, nil
}

// piece returns a piece of a blob.
func (j *Journal) piece(ctx context.Context, q queryer, b storedBlob,
	piece int) (data []byte, err error) {
	err = j.within(ctx, func(ctx context.Context) error {
		return q.QueryRow(ctx,
			j.sql("SELECT data FROM BOX.blob_pieces WHERE upload = $1 AND piece = $2"), b.upload,
			piece).Scan(&data)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		err = damaged(fmt.Errorf("piece %d of it is missing", piece))
	}
	return data, err
}

// GetBlob reads the blob once to verify it, and returns it from the start. Its pieces are read when
// they are needed.
func (j *Journal) GetBlob(ctx context.Context, digest signalbox.Hash) (io.ReadCloser, error) {
	inner, leave, err := j.calls.Begin(ctx)
	if err != nil {
		return nil, fmt.Errorf("get blob %v: %w", digest, err)
	}
	defer leave()
	var b storedBlob
	err = j.retry(inner, func(ctx context.Context) error {
		b, err = j.verifyBlob(ctx, j.pool, digest)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("get blob %v: %w", digest, explain(closedCause(inner, err)))
	}
	return &blobReader{journal: j, blob: b, digest: digest, hash: sha256.New()}, nil
}

// blobReader reads the pieces of a blob. They may have been replaced after they were verified, so
// it verifies them again.
type blobReader struct {
	journal *Journal
	blob    storedBlob
	next    int
	rest    bytes.Reader
	digest  signalbox.Hash
	hash    hash.Hash // of what was read
	closed  bool
}

func (r *blobReader) Read(p []byte) (int, error) {
	for r.rest.Len() == 0 {
		if r.closed {
			return 0, errors.New("the blob is closed")
		}
		if r.next == r.blob.pieces() {
			if signalbox.Hash(r.hash.Sum(nil)) != r.digest {
				return 0, damaged(errors.New("the bytes of a blob were changed while it was read"))
			}
			return 0, io.EOF
		}
		ctx, leave, err := r.journal.calls.Begin(context.Background())
		if err != nil {
			return 0, err
		}
		var data []byte
		err = r.journal.retry(ctx, func(ctx context.Context) error {
			data, err = r.journal.piece(ctx, r.journal.pool, r.blob, r.next)
			return err
		})
		leave()
		if err != nil {
			return 0, explain(err)
		}
		r.next++
		r.hash.Write(data)
		r.rest.Reset(data)
	}
	return r.rest.Read(p)
}

func (r *blobReader) Close() error {
	r.closed = true
	r.rest.Reset(nil)
	return nil
}

// OpenBlob opens a blob for reading parts of it.
func (j *Journal) OpenBlob(ctx context.Context, digest signalbox.Hash) (journal.Blob, error) {
	inner, leave, err := j.calls.Begin(ctx)
	if err != nil {
		return nil, fmt.Errorf("open blob %v: %w", digest, err)
	}
	defer leave()
	var b storedBlob
	err = j.answer(inner, func(ctx context.Context) error {
		b, err = j.findBlob(ctx, j.pool, digest)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open blob %v: %w", digest, explain(closedCause(inner, err)))
	}
	return openBlob{j, b}, nil
}

// openBlob is an open blob. It has nothing to close.
type openBlob struct {
	journal *Journal
	blob    storedBlob
}

func (b openBlob) Size() int64 { return b.blob.size }

func (b openBlob) Close() error { return nil }

func (b openBlob) ReadAt(p []byte, offset int64) (n int, err error) {
	if offset < 0 {
		return 0, errors.New("negative offset")
	}
	ctx, leave, err := b.journal.calls.Begin(context.Background())
	if err != nil {
		return 0, err
	}
	defer leave()
	for n < len(p) && offset < b.blob.size {
		var read int
		err := b.journal.answer(ctx, func(ctx context.Context) (err error) {
			read, err = b.readPiece(ctx, p[n:], offset)
			return err
		})
		if err != nil {
			return n, fmt.Errorf("read a blob at %d: %w", offset, explain(closedCause(ctx, err)))
		}
		n, offset = n+read, offset+int64(read)
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// readPiece reads at most to the end of a piece. PostgreSQL does not read the rest of the piece.
func (b openBlob) readPiece(ctx context.Context, p []byte, offset int64) (int, error) {
	within := offset % pieceBytes
	want := min(int64(len(p)), pieceBytes-within, b.blob.size-offset)
	var data []byte
	err := b.journal.pool.QueryRow(ctx,
		b.journal.sql("SELECT substring(data FROM $3 FOR $4) FROM BOX.blob_pieces WHERE upload = $1 AND piece = $2"),
		b.blob.upload, offset/pieceBytes, within+1, want).Scan(&data)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return 0, fmt.Errorf("%w: it was deleted", journal.ErrNoBlob)
	case err != nil:
		return 0, err
	case int64(len(data)) != want:
		return 0, damaged(fmt.Errorf("piece %d of it is too short", offset/pieceBytes))
	}
	return copy(p, data), nil
}

// DeleteBlob destroys the bytes of a blob. PostgreSQL overwrites them when it next vacuums the
// table.
func (j *Journal) DeleteBlob(ctx context.Context, digest signalbox.Hash) error {
	ctx, leave, err := j.calls.Begin(ctx)
	if err == nil {
		err = closedCause(ctx,
			j.transact(ctx, func(ctx context.Context,
				tx pgx.Tx) error {
				return j.removeBlob(ctx, tx, digest)
			}))
		leave()
	}
	if err != nil {
		return fmt.Errorf("delete blob %v: %w", digest, explain(err))
	}
	return nil
}

func (j *Journal) removeBlob(ctx context.Context, tx pgx.Tx, digest signalbox.Hash) error {
	if _, err := tx.Exec(ctx,
		j.sql("DELETE FROM BOX.blob_pieces WHERE upload IN (SELECT upload FROM BOX.blobs WHERE digest = $1)"), digest[:]); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, j.sql("DELETE FROM BOX.blobs WHERE digest = $1"), digest[:])
	return err
}
