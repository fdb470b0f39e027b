package nats

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"signalbox"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/journal/driver"
)

// An upload stores the pieces of a file. A process may be killed at any moment of it, so before the
// first piece it stores a note, which it erases when the pieces are those of a blob, or are erased.
// Later uploads find old notes, and erase the pieces of those uploads (collectUploads).
//
// The data of a note is one of
//
//	""                 pieces are being stored
//	the digest         all are stored, and become those of the blob
//	"x" or "x"+digest  the upload is given up: its pieces are being erased, as far as the blob does not have them
//
// A process whose upload was given up notices that after it has made the pieces those of the blob,
// because its note has been replaced: then the blob may lack them, and is not reported as stored.
// So nothing depends on clocks, except how long an upload may pause.

// upload is an upload in progress.
type upload struct {
	file
	id    string    // "" if there are no pieces
	note  uint64    // sequence number of the note
	noted time.Time // when the note was stored

	unclear bool // a piece may be stored that is not among the pieces
}

const (
	// defaultUploadAge is the age of a note after which its upload is given up. An upload in
	// progress renews it in time.
	defaultUploadAge = 24 * time.Hour
	// renewNote is the age after which a note is renewed.
	renewNote = time.Hour
	// collectPause is the time between two searches of a process for old notes.
	collectPause = time.Hour
)

// errGivenUp means that another process has erased the pieces of an upload.
var errGivenUp = errors.New("the upload paused for too long, and its data was deleted: try again")

func (s *fileStore) noteSubject(upload string) string {
	return "signalbox." + s.name + ".upload." + upload
}

// upload stores the bytes of r in pieces. If it fails, it deletes what it stored.
func (s *fileStore) upload(ctx context.Context, r io.Reader) (u upload, err error) {
	defer func() {
		if err != nil {
			s.discard(ctx, u)
		}
	}()
	for buffer := make([]byte, pieceBytes); ; {
		if err := ctx.Err(); err != nil {
			return u, err
		}
		n, err := io.ReadFull(r, buffer)
		end := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !end {
			return u, err
		}
		u.size += int64(n)
		switch {
		case end && len(u.pieces) == 0:
			u.inline = append([]byte{}, buffer[:n]...)
		case n > 0:
			if err := s.addPiece(ctx, &u, buffer[:n]); err != nil {
				return u, err
			}
		}
		if end {
			return u, nil
		}
	}
}

// addPiece stores the next piece of an upload.
func (s *fileStore) addPiece(ctx context.Context, u *upload, data []byte) error {
	if u.id == "" {
		s.collectRegularly(ctx)
		u.id = newUploadID()
	}
	if u.note == 0 || time.Since(u.noted) > renewNote {
		if err := s.writeNote(ctx, u, nil); err != nil {
			return err
		}
	}
	seq, err := s.store(ctx, s.pieceSubject(u.id, len(u.pieces)), data, nil)
	if err != nil {
		u.unclear = true
		return err
	}
	u.pieces = append(u.pieces, seq)
	return nil
}

// writeNote replaces the note of an upload.
func (s *fileStore) writeNote(ctx context.Context, u *upload, data []byte) error {
	noted := time.Now()
	seq, err := s.store(ctx, s.noteSubject(u.id), data, &u.note)
	if isWrongSequence(err) {
		return errGivenUp
	}
	if err == nil {
		u.note, u.noted = seq, noted
	}
	return err
}

// finish ends an upload whose pieces are those of a blob. It returns an error if they may have been
// erased.
func (s *fileStore) finish(ctx context.Context, u upload) error {
	if u.id == "" {
		return nil
	}
	m, found, err := s.entry(ctx, s.noteSubject(u.id))
	if err != nil {
		return err
	}
	if !found || m.Seq != u.note {
		return errGivenUp
	}
	s.eraseSoon(ctx, func(ctx context.Context) error { return s.erase(ctx, u.note) })
	return nil
}

// discard erases the pieces of an upload that is not needed.
func (s *fileStore) discard(ctx context.Context, u upload) {
	if u.note == 0 {
		return
	}
	s.eraseSoon(ctx, func(ctx context.Context) error {
		if err := s.erasePieces(ctx, u.file); err != nil || u.unclear {
			return err
		}
		return s.erase(ctx, u.note)
	})
}

// eraseSoon calls f, which erases what is not needed, even if ctx is done, but not for longer than
// one attempt may take. What is left is collected when its note is old.
func (s *fileStore) eraseSoon(ctx context.Context, f func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.opts.attempt)
	defer cancel()
	if err := f(ctx); err != nil {
		s.log.Debug("what an upload left is deleted later", "stream", s.files(), "error", err)
	}
}

// collectRegularly calls collectUploads from time to time.
func (s *fileStore) collectRegularly(ctx context.Context) {
	s.collecting.Lock()
	due := s.collected.IsZero() || time.Since(s.collected) > collectPause
	if due {
		s.collected = time.Now()
	}
	s.collecting.Unlock()
	if due {
		s.eraseSoon(ctx, s.collectUploads)
	}
}

// collectUploads erases what uploads have left whose processes were killed.
func (s *fileStore) collectUploads(ctx context.Context) error {
	info, err := s.findSubjects(ctx, s.noteSubject("*"))
	if err != nil {
		return err
	}
	var failed []error
	for subject := range info.State.Subjects {
		m, found, err := s.entry(ctx, subject)
		if err == nil && found && (isGivenUp(m) || info.TimeStamp.Sub(m.Time) > s.opts.uploadAge) {
			err = s.collectUpload(ctx, m)
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", subject, err))
		}
	}
	return errors.Join(failed...)
}

// givenUp is how the data of a note begins whose upload is given up.
const givenUp = "x"

func isGivenUp(note message) bool { return strings.HasPrefix(string(note.Data), givenUp) }

// collectUpload gives up an upload, and erases its note and its pieces, except those that a blob
// has.
func (s *fileStore) collectUpload(ctx context.Context, note message) error {
	text, seq := strings.TrimPrefix(string(note.Data), givenUp), note.Seq
	if !isGivenUp(note) {
		var err error
		if seq, err = s.store(ctx, note.Subject, []byte(givenUp+text), &note.Seq); err != nil {
			if isWrongSequence(err) { // it continues, or another process was faster
				return nil
			}
			return err
		}
	}
	// From now on, a process that makes the pieces those of the blob finds the note replaced.
	var kept file
	if text != "" {
		var digest signalbox.Hash
		if copy(digest[:], text) != len(text) || len(text) != len(digest) {
			return driver.Damaged(errors.New("it has a note that cannot be read"))
		}
		var err error
		if kept, _, err = s.findBlob(ctx, digest); err != nil &&
			!errors.Is(err, journal.ErrNoBlob) {
			return err
		}
	}
	id := strings.TrimPrefix(note.Subject, s.noteSubject(""))
	info, err := s.findSubjects(ctx, "signalbox."+s.name+".piece."+id+".*")
	if err != nil {
		return err
	}
	for subject := range info.State.Subjects {
		m, found, err := s.entry(ctx, subject)
		if err == nil && found && !slices.Contains(kept.pieces, m.Seq) {
			err = s.erase(ctx, m.Seq)
		}
		if err != nil {
			return err
		}
	}
	return s.erase(ctx, seq)
}

// findSubjects returns which subjects that match a pattern have messages in the stream of files,
// from its leader.
func (s *fileStore) findSubjects(ctx context.Context,
	pattern string) (*jetstream.StreamInfo, error) {
	request := struct {
		Pattern string `json:"subjects_filter"`
	}{pattern}
	info := &jetstream.StreamInfo{}
	err := s.retry(ctx, func() error { return s.api(ctx, "STREAM.INFO."+s.files(), request, info) })
	return info, err
}
