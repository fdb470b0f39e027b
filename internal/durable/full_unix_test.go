//go:build unix

package durable

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"signalbox/internal/testkit/must"
)

// runOutOfRoom writes more than the process may, once with each operation.
func runOutOfRoom(dir string) error {
	signal.Ignore(syscall.SIGXFSZ)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE,
		&syscall.Rlimit{Cur: 10, Max: 10}); err != nil {
		return err
	}
	data := make([]byte, 1000)
	if err := Replace(filepath.Join(dir, "kept"), data, 0o600); !errors.Is(err, syscall.EFBIG) {
		return fmt.Errorf("replace: %v, want %w", err, syscall.EFBIG)
	}
	if err := Rewrite(filepath.Join(dir, "kept"), data); !errors.Is(err, syscall.EFBIG) {
		return fmt.Errorf("rewrite: %v, want %w", err, syscall.EFBIG)
	}
	if err := Create(filepath.Join(dir, "new"), data, 0o600); !errors.Is(err, syscall.EFBIG) {
		return fmt.Errorf("create: %v, want %w", err, syscall.EFBIG)
	}
	return nil
}

func TestFullDiskLeavesNothingBehind(t *testing.T) {
	dir := t.TempDir()
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "kept"), []byte("as it was"), 0o600))
	must.Succeed(t, child(t, "full", dir).Run())
	checkFolder(t, dir, map[string]string{"kept": "as it was"})
}
