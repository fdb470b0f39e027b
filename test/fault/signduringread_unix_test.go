//go:build unix

package fault

import (
	"bytes"
	"context"
	"os"
	"syscall"
	"testing"

	"signalbox/ledger"
)

// TestSignDuringRead appends and signs at the worst moment: when another process that opens or
// verifies the box starts to read the checkpoint. The newly signed ledger must not be reported as
// truncated.
func TestSignDuringRead(t *testing.T) {
	for _, tt := range []struct {
		name string
		read func(ctx context.Context, s *site) error
	}{
		{"open", openOnce},
		{"verify", verifyOnce},
	} {
		t.Run(tt.name, func(t *testing.T) { signDuringRead(t, tt.read) })
	}
}

// signDuringRead replaces the checkpoint by a pipe, to learn when read opens it.
func signDuringRead(t *testing.T, read func(ctx context.Context, s *site) error) {
	s := newSite(t)
	b := s.open(t)
	private, err := os.ReadFile(s.keyFile)
	check(t, err)
	check(t, os.Remove(s.file("checkpoint")))
	check(t, syscall.Mkfifo(s.file("checkpoint"), 0o600))
	done := make(chan error, 1)
	go func() { done <- read(t.Context(), s) }()
	// returns when the other side opens it
	pipe, err := os.OpenFile(s.file("checkpoint"), os.O_WRONLY, 0)
	check(t, err)

	openWork(t, b, "meanwhile")
	tail := b.Engine.Tail()
	signed, err := ledger.Sign(ledger.Checkpoint{Origin: "signalbox/" + b.ID(), Size: tail.Seq,
		Root: tail.Tree.Root()}, string(bytes.TrimSpace(private)))
	check(t, err)
	check(t, os.WriteFile(s.file("signed"), signed, 0o600))
	check(t, os.Rename(s.file("signed"), s.file("checkpoint"))) // for later reads
	_, err = pipe.Write(signed)
	check(t, err)
	check(t, pipe.Close())
	if err := <-done; err != nil {
		t.Error(err)
	}
	s.mustVerify(t)
}
