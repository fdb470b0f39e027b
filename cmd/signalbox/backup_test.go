package main

import (
	"io"
	"strings"
	"testing"
)

// A pipeline whose reader fails must not look like a complete backup.
func TestBackupWithoutAReader(t *testing.T) {
	b := newTestBox(t)
	p, _, stderr := b.program("backup", "-")
	reader, writer := io.Pipe()
	reader.Close()
	p.Stdout = writer
	if status := execute(p); status != 1 || !strings.Contains(stderr.String(), "ended too early") {
		t.Errorf("status %d, stderr %s", status, stderr)
	}
}

func TestFormatBytes(t *testing.T) {
	for n, want := range map[int64]string{0: "0 bytes", 9_999: "9999 bytes", 12_345: "12.3 kB", 5_000_000: "5.0 MB", 7_650_000_000_000_000: "7650.0 TB"} {
		if got := formatBytes(n); got != want {
			t.Errorf("%d is %s, want %s", n, got, want)
		}
	}
}
