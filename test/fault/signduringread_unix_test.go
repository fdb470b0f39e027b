//go:build unix

package fault

import (
	"bytes"
	"context"
	"os"
	"syscall"
	"testing"

	"signalbox/internal/core/rules"
	"signalbox/ledger"
)

// TestSignedMeanwhile lets another process append and sign at the worst moment: when whoever opens or verifies the box begins to read
// the checkpoint. What is newly signed must not be taken for cut off.
func TestSignedMeanwhile(t *testing.T) {
	for _, tt := range []struct {
		name string
		look func(ctx context.Context, s *site) error
	}{
		{"open", openBeside},
		{"verify", verifyBeside},
	} {
		t.Run(tt.name, func(t *testing.T) { signMeanwhile(t, tt.look) })
	}
}

// signMeanwhile makes the checkpoint a pipe, so that it is known when somebody begins to read it.
func signMeanwhile(t *testing.T, look func(ctx context.Context, s *site) error) {
	s := newSite(t)
	b := s.open(t)
	private, err := os.ReadFile(s.keyFile)
	check(t, err)
	check(t, os.Remove(s.file("checkpoint")))
	check(t, syscall.Mkfifo(s.file("checkpoint"), 0o600))
	looked := make(chan error, 1)
	go func() { looked <- look(t.Context(), s) }()
	pipe, err := os.OpenFile(s.file("checkpoint"), os.O_WRONLY, 0) // returns when somebody reads
	check(t, err)

	if _, err := b.Engine.Do(t.Context(), rules.OpenWork{Work: "meanwhile", Actor: "tester"}); err != nil {
		t.Fatal(err)
	}
	tail := b.Engine.Tail()
	signed, err := ledger.Sign(ledger.Checkpoint{Origin: "signalbox/" + b.ID(), Size: tail.Seq, Root: tail.Tree.Root()}, string(bytes.TrimSpace(private)))
	check(t, err)
	check(t, os.WriteFile(s.file("signed"), signed, 0o600))
	check(t, os.Rename(s.file("signed"), s.file("checkpoint"))) // for those who read it from now on
	_, err = pipe.Write(signed)
	check(t, err)
	check(t, pipe.Close())
	if err := <-looked; err != nil {
		t.Error(err)
	}
	s.mustVerify(t)
}
