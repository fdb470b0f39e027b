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
