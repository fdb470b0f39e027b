package box

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"signalbox"
	"signalbox/internal/core/journal"
	"signalbox/internal/core/rules"
)

// Blob returns the bytes of a blob. The caller closes it.
func (b *Box) Blob(ctx context.Context, digest signalbox.Hash) (io.ReadCloser, error) {
	r, err := b.Journal.GetBlob(ctx, digest)
	return r, b.explainNoBlob(digest, err)
}

// OpenBlob opens a blob for reading parts of it. It does not verify it. The caller closes it.
func (b *Box) OpenBlob(ctx context.Context, digest signalbox.Hash) (journal.Blob, error) {
	r, err := b.Journal.OpenBlob(ctx, digest)
	return r, b.explainNoBlob(digest, err)
}

// explainNoBlob returns the error of a call that got a blob, and says so if the blob was redacted.
func (b *Box) explainNoBlob(digest signalbox.Hash, err error) error {
	if !errors.Is(err, journal.ErrNoBlob) {
		return err
	}
	if redacted, ok := b.redactionOf(digest); ok {
		return signalbox.CodeNotFound.Errorf(
			fmt.Sprintf("its bytes were destroyed; event %d records it", redacted.Seq),
			"blob %s was redacted by %s at %s: %s", digest, redacted.Actor,
			redacted.At.Format(time.RFC3339), redacted.Reason)
	}
	return signalbox.CodeNotFound.Errorf(
		"the data of events has the digests of blobs: signalbox ledger tail --json",
		"there is no blob %s", digest)
}

// redactionOf returns the redaction of a blob, if there was one.
func (b *Box) redactionOf(blob signalbox.Hash) (r rules.Redaction, ok bool) {
	b.Engine.View(func(s *rules.State) { r, ok = s.Redaction(blob) })
	return r, ok
}

// Redact destroys the bytes of a blob and records it.
func (b *Box) Redact(ctx context.Context, c rules.RedactBlob) (rules.Answer, error) {
	if _, done := b.redactionOf(c.Blob); !done {
		r, err := b.Blob(ctx, c.Blob)
		if err != nil && !errors.Is(err, journal.ErrDamaged) { // a damaged blob may be redacted
			return rules.Answer{}, err
		}
		if r != nil {
			r.Close()
		}
	}
	return b.Engine.Redact(ctx, c)
}
