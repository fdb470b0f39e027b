package nats

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"

	"signalbox"
	"signalbox/internal/core/journal"
)

// PutBlob stores the bytes of r as a file.
func (j *Journal) PutBlob(ctx context.Context, r io.Reader) (digest signalbox.Hash, err error) {
	ctx, leave, err := j.calls.Begin(ctx)
	if err == nil {
		digest, err = j.putBlob(ctx, r)
		err = closedCause(ctx, err)
		leave()
	}
	if err != nil {
		return signalbox.Hash{}, fmt.Errorf("put a blob: %w", err)
	}
	return digest, nil
}

func (j *Journal) putBlob(ctx context.Context, r io.Reader) (digest signalbox.Hash, err error) {
	hash := sha256.New()
	u, err := j.upload(ctx, io.TeeReader(r, hash))
	if err != nil {
		return digest, err
	}
	digest = signalbox.Hash(hash.Sum(nil))
	if u.id != "" {
		if err := j.writeNote(ctx, &u, digest[:]); err != nil {
			j.discard(ctx, u)
			return digest, err
		}
	}
	// After an error the pieces may be those of the blob, and another process may rely on it: they
	// are left to collectUploads.
	added, err := j.addBlob(ctx, digest, u.file)
	switch {
	case err != nil:
		return digest, err
	case !added:
		j.discard(ctx, u)
		return digest, nil
	}
	return digest, j.finish(ctx, u)
}

// addBlob makes a file the bytes of a blob, and reports whether it did. A blob that is known and
// undamaged stays as it is.
func (j *Journal) addBlob(ctx context.Context, digest signalbox.Hash,
	f file) (added bool, err error) {
	// Usually it is new, and a server that is wrong about that does no harm: then the leader
	// rejects what is sent.
	found := false
	err = j.retry(ctx, func() (err error) {
		_, found, err = j.getMessage(ctx, j.files(), messageRequest{Last: j.blobSubject(digest)})
		return err
	})
	if err != nil {
		return false, err
	}
	for ; ; found = true {
		known, seq, err := file{}, uint64(0), journal.ErrNoBlob
		if found {
			known, seq, err = j.verifyBlob(ctx, digest)
		}
		if err == nil && len(f.pieces) > 0 && slices.Equal(known.pieces, f.pieces) {
			return true, nil // an earlier attempt was stored, and its answer was lost
		}
		if err == nil || !errors.Is(err, journal.ErrDamaged) && !errors.Is(err, journal.ErrNoBlob) {
			return false, err
		}
		if _, err := j.store(ctx, j.blobSubject(digest), f.encode(nil), &seq); err != nil {
			if isWrongSequence(err) { // another process has put or deleted it
				continue
			}
			return false, err
		}
		j.eraseSoon(ctx, func(ctx context.Context) error { return j.erasePieces(ctx, known) })
		return true, nil
	}
}

// findBlob returns where the bytes of a blob are, and the sequence number of the message that says
// so.
func (j *Journal) findBlob(ctx context.Context,
	digest signalbox.Hash) (f file, seq uint64, err error) {
	m, found, err := j.entry(ctx, j.blobSubject(digest))
	switch {
	case err != nil:
		return f, 0, err
	case !found:
		return f, 0, &signalbox.Error{Code: signalbox.CodeNotFound, Err: journal.ErrNoBlob}
	}
	if f, err = decodeFile(m.Data); err != nil {
		err = damaged(err)
	}
	return f, m.Seq, err
}

// verifyBlob finds a blob and checks its digest.
func (j *Journal) verifyBlob(ctx context.Context,
	digest signalbox.Hash) (f file, seq uint64, err error) {
	if f, seq, err = j.findBlob(ctx, digest); err != nil {
		return f, seq, err
	}
	hash := sha256.New()
	for i := range f.count() {
		data, err := j.piece(ctx, &f, i)
		if err != nil {
			return f, seq, err
		}
		hash.Write(data)
	}
	if signalbox.Hash(hash.Sum(nil)) != digest {
		return f, seq, damaged(fmt.Errorf("its bytes have the digest %x", hash.Sum(nil)))
	}
	return f, seq, nil
}

// GetBlob reads the blob once to verify it, and returns it from the start. Its pieces are read when
// they are needed.
func (j *Journal) GetBlob(ctx context.Context, digest signalbox.Hash) (io.ReadCloser, error) {
	inner, leave, err := j.calls.Begin(ctx)
	if err != nil {
		return nil, fmt.Errorf("get blob %v: %w", digest, err)
	}
	defer leave()
	f, _, err := j.verifyBlob(inner, digest)
	if err != nil {
		return nil, fmt.Errorf("get blob %v: %w", digest, closedCause(inner, err))
	}
	return &blobReader{journal: j, file: f, digest: digest, hash: sha256.New()}, nil
}

// blobReader reads the pieces of a blob. They may have been replaced after they were verified, so
// it verifies them again.
type blobReader struct {
	journal *Journal
	file    file
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
		if r.next == r.file.count() {
			if signalbox.Hash(r.hash.Sum(nil)) != r.digest {
				return 0, damaged(errors.New("the bytes of a blob were changed while it was read"))
			}
			return 0, io.EOF
		}
		ctx, leave, err := r.journal.calls.Begin(context.Background())
		if err != nil {
			return 0, err
		}
		data, err := r.journal.piece(ctx, &r.file, r.next)
		err = closedCause(ctx, err)
		leave()
		if err != nil {
			return 0, err
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
	f, _, err := j.findBlob(inner, digest)
	if err != nil {
		return nil, fmt.Errorf("open blob %v: %w", digest, closedCause(inner, err))
	}
	return openBlob{j, f}, nil
}

// openBlob is an open blob. It has nothing to close.
type openBlob struct {
	journal *Journal
	file    file
}

func (b openBlob) Size() int64 { return b.file.size }

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
	for n < len(p) && offset < b.file.size {
		piece, within := offset/pieceBytes, offset%pieceBytes
		if len(b.file.pieces) == 0 {
			piece, within = 0, offset
		}
		data, err := b.journal.piece(ctx, &b.file, int(piece))
		if err != nil {
			return n, fmt.Errorf("read a blob at %d: %w", offset, closedCause(ctx, err))
		}
		read := copy(p[n:], data[within:])
		n, offset = n+read, offset+int64(read)
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// DeleteBlob destroys the bytes of a blob: the servers overwrite them. The message that names the
// pieces goes last, so that a deletion that was interrupted can be repeated.
func (j *Journal) DeleteBlob(ctx context.Context, digest signalbox.Hash) error {
	ctx, leave, err := j.calls.Begin(ctx)
	if err == nil {
		err = closedCause(ctx, j.deleteBlob(ctx, digest))
		leave()
	}
	if err != nil {
		return fmt.Errorf("delete blob %v: %w", digest, err)
	}
	return nil
}

func (j *Journal) deleteBlob(ctx context.Context, digest signalbox.Hash) error {
	f, seq, err := j.findBlob(ctx, digest)
	switch {
	case errors.Is(err, journal.ErrNoBlob):
		return nil
	case err != nil && !errors.Is(err, journal.ErrDamaged):
		return err
	}
	if err := j.erasePieces(ctx, f); err != nil {
		return err
	}
	return j.erase(ctx, seq)
}
