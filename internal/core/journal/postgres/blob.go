package postgres

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5"

	"signalbox"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/journal/driver"
)

// pieceBytes is the size of the pieces in which blobs are stored. It is part of the format: where a
// byte of a blob is follows from it.
const pieceBytes = 1 << 20

// errKnown means that a blob is stored already.
var errKnown = errors.New("the blob is known")

// putBlob stores the bytes of r in pieces, in one transaction.
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
		n, readErr := io.ReadFull(r, buffer)
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
	stored, err := j.findBlob(ctx, tx, digest)
	if err == nil {
		// Reading a large blob over a slow link may take long, so the timeout is for each piece.
		err = j.pieces(stored, tx, j.within).Verify(ctx, digest)
	}
	if !errors.Is(err, journal.ErrDamaged) &&
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

// findBlob returns where the bytes of a blob are.
func (j *Journal) findBlob(ctx context.Context, q queryer,
	digest signalbox.Hash) (b storedBlob, err error) {
	err = q.QueryRow(ctx, j.sql("SELECT upload, size FROM BOX.blobs WHERE digest = $1"),
		digest[:]).Scan(&b.upload, &b.size)
	if errors.Is(err, pgx.ErrNoRows) {
		err = driver.ErrNoBlob
	}
	return b, err
}

// pieces returns how to read a blob. Each question to the database is asked with attempt.
func (j *Journal) pieces(b storedBlob, q queryer,
	attempt func(context.Context, func(context.Context) error) error) driver.Pieces {
	statement := j.sql(
		"SELECT substring(data FROM $3 FOR $4) FROM BOX.blob_pieces WHERE upload = $1 AND piece = $2")
	return driver.Pieces{Size: b.size,
		ReadAt: func(ctx context.Context, p []byte, offset int64) (int, error) {
			piece, within := offset/pieceBytes, offset%pieceBytes
			want := min(int64(len(p)), pieceBytes-within, b.size-offset)
			var data []byte
			err := attempt(ctx, func(ctx context.Context) error {
				return q.QueryRow(ctx, statement, b.upload, piece, within+1, want).Scan(&data)
			})
			switch {
			case errors.Is(err, pgx.ErrNoRows):
				return 0, fmt.Errorf("%w: number %d", driver.ErrNoPiece, piece)
			case err != nil:
				return 0, err
			case int64(len(data)) != want:
				return 0, driver.Damaged(fmt.Errorf("piece %d of it is too short", piece))
			}
			return copy(p, data), nil
		}}
}

// storedPieces returns how to read a blob that is known.
func (j *Journal) storedPieces(ctx context.Context, digest signalbox.Hash) (driver.Pieces, error) {
	var b storedBlob
	err := j.answer(ctx, func(ctx context.Context) (err error) {
		b, err = j.findBlob(ctx, j.pool, digest)
		return err
	})
	return j.pieces(b, j.pool, j.answer), err
}

func (j *Journal) getBlob(ctx context.Context, digest signalbox.Hash) (io.ReadCloser, error) {
	b, err := j.storedPieces(ctx, digest)
	if err == nil {
		err = b.Verify(ctx, digest)
	}
	return b.Reader(j.Log, digest), err
}

func (j *Journal) openBlob(ctx context.Context, digest signalbox.Hash) (journal.Blob, error) {
	b, err := j.storedPieces(ctx, digest)
	return b.Open(j.Log), err
}

// deleteBlob destroys the bytes of a blob. PostgreSQL overwrites them when it next vacuums the
// table.
func (j *Journal) deleteBlob(ctx context.Context, digest signalbox.Hash) error {
	return j.transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return j.removeBlob(ctx, tx, digest)
	})
}

func (j *Journal) removeBlob(ctx context.Context, tx pgx.Tx, digest signalbox.Hash) error {
	if _, err := tx.Exec(ctx,
		j.sql("DELETE FROM BOX.blob_pieces WHERE upload IN (SELECT upload FROM BOX.blobs WHERE digest = $1)"), digest[:]); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, j.sql("DELETE FROM BOX.blobs WHERE digest = $1"), digest[:])
	return err
}
