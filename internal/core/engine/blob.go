package engine

import (
	"context"
	"fmt"
	"io"

	"signalbox"
	"signalbox/internal/core/rules"
)

// PutBlob stores a blob before an event refers to it. A redacted blob is not stored again; PutBlob
// still returns its digest.
func (e *Engine) PutBlob(ctx context.Context, r io.Reader) (signalbox.Hash, error) {
	digest, err := e.journal.PutBlob(ctx, r)
	if err != nil {
		return digest, fmt.Errorf("store a blob: %w", err)
	}
	if err := e.Refresh(ctx); err != nil { // another process may have redacted it
		return digest, err
	}
	redacted := false
	e.View(func(s *rules.State) { _, redacted = s.Redaction(digest) })
	if !redacted {
		return digest, nil
	}
	if err := e.journal.DeleteBlob(ctx, digest); err != nil {
		return digest, fmt.Errorf(
			"the blob was redacted before, but its bytes could not be deleted: %w", err)
	}
	return digest, nil
}

// Redact records that a blob is redacted, then destroys its bytes. If it is interrupted, repeating
// it completes it.
func (e *Engine) Redact(ctx context.Context, c rules.RedactBlob) (rules.Answer, error) {
	answer, err := e.Do(ctx, c)
	if err != nil {
		return answer, err
	}
	if err := e.journal.DeleteBlob(ctx, c.Blob); err != nil {
		return answer, fmt.Errorf(
			"the redaction is recorded, but the bytes could not be deleted: %w", err)
	}
	return answer, nil
}
