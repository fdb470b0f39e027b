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

func (j *Journal) noteSubject(upload string) string {
	return "signalbox." + j.name + ".upload." + upload
}

// upload stores the bytes of r in pieces. If it fails, it deletes what it stored.
func (j *Journal) upload(ctx context.Context, r io.Reader) (u upload, err error) {
	defer func() {
		if err != nil {
			j.discard(ctx, u)
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
			if err := j.addPiece(ctx, &u, buffer[:n]); err != nil {
				return u, err
			}
		}
		if end {
			return u, nil
		}
	}
}

// addPiece stores the next piece of an upload.
func (j *Journal) addPiece(ctx context.Context, u *upload, data []byte) error {
	if u.id == "" {
		j.collectRegularly(ctx)
		u.id = newUploadID()
	}
	if u.note == 0 || time.Since(u.noted) > renewNote {
		if err := j.writeNote(ctx, u, nil); err != nil {
			return err
		}
	}
	seq, err := j.store(ctx, j.pieceSubject(u.id, len(u.pieces)), data, nil)
	if err != nil {
		u.unclear = true
		return err
	}
	u.pieces = append(u.pieces, seq)
	return nil
}

// writeNote replaces the note of an upload.
func (j *Journal) writeNote(ctx context.Context, u *upload, data []byte) error {
	noted := time.Now()
	seq, err := j.store(ctx, j.noteSubject(u.id), data, &u.note)
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
func (j *Journal) finish(ctx context.Context, u upload) error {
	if u.id == "" {
		return nil
	}
	m, found, err := j.entry(ctx, j.noteSubject(u.id))
	if err != nil {
		return err
	}
	if !found || m.Seq != u.note {
		return errGivenUp
	}
	j.eraseSoon(ctx, func(ctx context.Context) error { return j.erase(ctx, u.note) })
	return nil
}

// discard erases the pieces of an upload that is not needed.
func (j *Journal) discard(ctx context.Context, u upload) {
	if u.note == 0 {
		return
	}
	j.eraseSoon(ctx, func(ctx context.Context) error {
		if err := j.erasePieces(ctx, u.file); err != nil || u.unclear {
			return err
		}
		return j.erase(ctx, u.note)
	})
}

// eraseSoon calls f, which erases what is not needed, even if ctx is done, but not for longer than
// one attempt may take. What is left is collected when its note is old.
func (j *Journal) eraseSoon(ctx context.Context, f func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), j.opts.attempt)
	defer cancel()
	if err := f(ctx); err != nil {
		j.log.Debug("what an upload left is deleted later", "stream", j.files(), "error", err)
	}
}

// collectRegularly calls collectUploads from time to time.
func (j *Journal) collectRegularly(ctx context.Context) {
	j.mu.Lock()
	due := j.collected.IsZero() || time.Since(j.collected) > collectPause
	if due {
		j.collected = time.Now()
	}
	j.mu.Unlock()
	if due {
		j.eraseSoon(ctx, j.collectUploads)
	}
}

// collectUploads erases what uploads have left whose processes were killed.
func (j *Journal) collectUploads(ctx context.Context) error {
	info, err := j.findSubjects(ctx, j.noteSubject("*"))
	if err != nil {
		return err
	}
	var failed []error
	for subject := range info.State.Subjects {
		m, found, err := j.entry(ctx, subject)
		if err == nil && found && (isGivenUp(m) || info.TimeStamp.Sub(m.Time) > j.opts.uploadAge) {
			err = j.collectUpload(ctx, m)
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
func (j *Journal) collectUpload(ctx context.Context, note message) error {
	text, seq := strings.TrimPrefix(string(note.Data), givenUp), note.Seq
	if !isGivenUp(note) {
		var err error
		if seq, err = j.store(ctx, note.Subject, []byte(givenUp+text), &note.Seq); err != nil {
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
		if kept, _, err = j.findBlob(ctx, digest); err != nil &&
			!errors.Is(err, journal.ErrNoBlob) {
			return err
		}
	}
	id := strings.TrimPrefix(note.Subject, j.noteSubject(""))
	info, err := j.findSubjects(ctx, "signalbox."+j.name+".piece."+id+".*")
	if err != nil {
		return err
	}
	for subject := range info.State.Subjects {
		m, found, err := j.entry(ctx, subject)
		if err == nil && found && !slices.Contains(kept.pieces, m.Seq) {
			err = j.erase(ctx, m.Seq)
		}
		if err != nil {
			return err
		}
	}
	return j.erase(ctx, seq)
}

// findSubjects returns which subjects that match a pattern have messages in the stream of files,
// from its leader.
func (j *Journal) findSubjects(ctx context.Context, pattern string) (*jetstream.StreamInfo, error) {
	request := struct {
		Pattern string `json:"subjects_filter"`
	}{pattern}
	info := &jetstream.StreamInfo{}
	err := j.retry(ctx, func() error { return j.api(ctx, "STREAM.INFO."+j.files(), request, info) })
	return info, err
}
