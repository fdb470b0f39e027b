package box

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"signalbox/internal/core/rules"
	"signalbox/internal/testkit/must"
)

// KeepSigned signs and publishes everything that is written before it is stopped.
func TestKeepSigned(t *testing.T) {
	b := newKit(t).open(t)
	b.Config.Checkpoint.File = filepath.Join(t.TempDir(), "published")
	var log bytes.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() {
		defer close(over)
		b.KeepSigned(ctx, slog.New(slog.NewTextHandler(&log, nil)))
	}()
	write(t, b, "T1")
	cancel()
	<-over
	published, err := os.ReadFile(b.Config.Checkpoint.File)
	must.Succeed(t, err)
	lines := strings.Split(string(published), "\n")
	if want := strconv.FormatUint(b.Engine.Tail().Seq, 10); len(lines) < 2 || lines[1] != want {
		t.Errorf("the checkpoint is %q, want one of size %s", lines, want)
	}
	if log.Len() > 0 {
		t.Errorf("log: %s", &log)
	}
}

// KeepSigned ends without a warning when the ledger is moved, because the run says that.
func TestKeepSignedOfMovedLedger(t *testing.T) {
	b := newKit(t).open(t)
	move := rules.MoveLedger{Journal: "postgres://db.example.com/shop", Host: "desk", Move: "m-1",
		Actor: "me"}
	if _, err := b.Engine.Do(t.Context(), move); err != nil {
		t.Fatal(err)
	}
	if err := b.Engine.Follow(t.Context()); !errors.Is(err, rules.ErrMoved) {
		t.Fatalf("error %v, want %v", err, rules.ErrMoved)
	}
	var log bytes.Buffer
	b.KeepSigned(t.Context(), slog.New(slog.NewTextHandler(&log, nil)))
	if log.Len() > 0 {
		t.Errorf("log: %s", &log)
	}
}

// The warning distinguishes a checkpoint that could not be published from one that could not be
// signed.
func TestSignWarning(t *testing.T) {
	b := newKit(t).open(t)
	b.Config.Checkpoint.File = filepath.Join(t.TempDir(), "no", "such", "folder")
	write(t, b, "T1")
	err := b.signNow()
	if err == nil || signWarning(err) != "a checkpoint is signed, but could not be published" {
		t.Errorf("%v: %s", err, signWarning(err))
	}
	if got := signWarning(ErrNoKey); got != "events are recorded, but cannot be signed" {
		t.Error(got)
	}
}
