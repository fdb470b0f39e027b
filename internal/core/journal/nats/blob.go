package nats

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"slices"

	"signalbox"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/journal/driver"
)

// putBlob stores the bytes of r as a file.
func (s *fileStore) putBlob(ctx context.Context, r io.Reader) (digest signalbox.Hash, err error) {
	hash := sha256.New()
	u, err := s.upload(ctx, io.TeeReader(r, hash))
	if err != nil {
		return digest, err
	}
	digest = signalbox.Hash(hash.Sum(nil))
	if u.id != "" {
		if err := s.writeNote(ctx, &u, digest[:]); err != nil {
			s.discard(ctx, u)
			return digest, err
		}
	}
	// After an error the pieces may be those of the blob, and another process may rely on it: they
	// are left to collectUploads.
	added, err := s.addBlob(ctx, digest, u.file)
	switch {
	case err != nil:
		return digest, err
	case !added:
		s.discard(ctx, u)
		return digest, nil
	}
	return digest, s.finish(ctx, u)
}

// addBlob makes a file the bytes of a blob, and reports whether it did. A blob that is known and
// undamaged stays as it is.
func (s *fileStore) addBlob(ctx context.Context, digest signalbox.Hash,
	f file) (added bool, err error) {
	// Usually it is new, and a server that is wrong about that does no harm: then the leader
	// rejects what is sent.
	found := false
	err = s.retry(ctx, func() (err error) {
		_, found, err = s.getMessage(ctx, s.files(), messageRequest{Last: s.blobSubject(digest)})
		return err
	})
	if err != nil {
		return false, err
	}
	for ; ; found = true {
		known, seq, err := file{}, uint64(0), journal.ErrNoBlob
		if found {
			known, seq, err = s.verifyBlob(ctx, digest)
		}
		if err == nil && len(f.pieces) > 0 && slices.Equal(known.pieces, f.pieces) {
			return true, nil // an earlier attempt was stored, and its answer was lost
		}
		if err == nil || !errors.Is(err, journal.ErrDamaged) && !errors.Is(err, journal.ErrNoBlob) {
			return false, err
		}
		if _, err := s.store(ctx, s.blobSubject(digest), f.encode(nil), &seq); err != nil {
			if isWrongSequence(err) { // another process has put or deleted it
				continue
			}
			return false, err
		}
		s.eraseSoon(ctx, func(ctx context.Context) error { return s.erasePieces(ctx, known) })
		return true, nil
	}
}

// findBlob returns where the bytes of a blob are, and the sequence number of the message that says
// so.
func (s *fileStore) findBlob(ctx context.Context,
	digest signalbox.Hash) (f file, seq uint64, err error) {
	m, found, err := s.entry(ctx, s.blobSubject(digest))
	switch {
	case err != nil:
		return f, 0, err
	case !found:
		return f, 0, driver.ErrNoBlob
	}
	if f, err = decodeFile(m.Data); err != nil {
		err = driver.Damaged(err)
	}
	return f, m.Seq, err
}

// verifyBlob finds a blob and checks its digest.
func (s *fileStore) verifyBlob(ctx context.Context,
	digest signalbox.Hash) (f file, seq uint64, err error) {
	if f, seq, err = s.findBlob(ctx, digest); err == nil {
		err = s.pieces(f).Verify(ctx, digest)
	}
	return f, seq, err
}

func (j *Journal) getBlob(ctx context.Context, digest signalbox.Hash) (io.ReadCloser, error) {
	f, _, err := j.verifyBlob(ctx, digest)
	return j.pieces(f).Reader(j.Log, digest), err
}

func (j *Journal) openBlob(ctx context.Context, digest signalbox.Hash) (journal.Blob, error) {
	f, _, err := j.findBlob(ctx, digest)
	return j.pieces(f).Open(j.Log), err
}

// deleteBlob destroys the bytes of a blob: the servers overwrite them. The message that names the
// pieces goes last, so that a deletion that was interrupted can be repeated.
func (s *fileStore) deleteBlob(ctx context.Context, digest signalbox.Hash) error {
	f, seq, err := s.findBlob(ctx, digest)
	switch {
	case errors.Is(err, journal.ErrNoBlob):
		return nil
	case err != nil && !errors.Is(err, journal.ErrDamaged):
		return err
	}
	if err := s.erasePieces(ctx, f); err != nil {
		return err
	}
	return s.erase(ctx, seq)
}
