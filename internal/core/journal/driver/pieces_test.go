package driver

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"testing"

	"signalbox"
	"signalbox/internal/core/journal"
)

// A blob may be changed or deleted between the moment it was verified and the end of reading it.
func TestPiecesChangeWhileRead(t *testing.T) {
	stored := []byte("evidence")
	digest := signalbox.Hash(sha256.Sum256(stored))
	blob := Pieces{Size: 8, ReadAt: func(_ context.Context, p []byte, offset int64) (int, error) {
		if offset >= int64(len(stored)) {
			return 0, fmt.Errorf("%w: number %d", ErrNoPiece, offset/3)
		}
		end := min(len(stored), int(offset/3+1)*3) // pieces of three bytes
		return copy(p, stored[offset:end]), nil
	}}
	log := New(Methods{Explain: func(err error) error { return err }, Follow: func() {}})
	if err := blob.Verify(t.Context(), digest); err != nil {
		t.Errorf("verify: %v", err)
	}
	if err := (Pieces{Size: -1}).Verify(t.Context(), digest); !errors.Is(err, journal.ErrDamaged) {
		t.Errorf("a negative size: %v", err)
	}
	for _, tt := range []struct {
		stored               string
		read, verify, readAt error
	}{
		{"evidence", nil, nil, nil},
		{"evidense", journal.ErrDamaged, journal.ErrDamaged, nil},
		{"eviden", journal.ErrNoBlob, journal.ErrDamaged, journal.ErrNoBlob},
	} {
		stored = []byte(tt.stored)
		r := blob.Reader(log, digest)
		if got, err := io.ReadAll(r); !errors.Is(err, tt.read) {
			t.Errorf("%s: read %q, %v, want %v", tt.stored, got, err, tt.read)
		}
		if err := blob.Verify(t.Context(), digest); !errors.Is(err, tt.verify) {
			t.Errorf("%s: verify: %v, want %v", tt.stored, err, tt.verify)
		}
		p := make([]byte, 6)
		if n, err := blob.Open(log).ReadAt(p, 2); !errors.Is(err, tt.readAt) ||
			err == nil && (n != 6 || !bytes.Equal(p, stored[2:])) {
			t.Errorf("%s: read at 2: %q, %v, want %v", tt.stored, p[:n], err, tt.readAt)
		}
		r.Close()
		if _, err := r.Read(p); err == nil || errors.Is(err, io.EOF) {
			t.Errorf("%s: read after closing: %v", tt.stored, err)
		}
	}
}
