package main

import (
	"bytes"
	"path/filepath"
	"testing"

	"signalbox/internal/cli"
)

// testBox is a new box for a test, with its key in the same folder.
type testBox struct {
	t   *testing.T
	dir string
	env map[string]string
}

func newTestBox(t *testing.T) *testBox {
	t.Helper()
	dir := t.TempDir()
	b := &testBox{t, filepath.Join(dir, ".signalbox"), map[string]string{
		cli.BoxVariable:               filepath.Join(dir, ".signalbox"),
		cli.KeyVariable:               filepath.Join(dir, "box.key"),
		"SIGNALBOX_ACTOR":             "ann",
		"AGENT_EXIT_PROTOCOL_ENABLED": "true",
	}}
	b.must("init", dir)
	return b
}

// program returns a program that uses the box.
func (b *testBox) program(args ...string) (p *cli.Program, stdout, stderr *bytes.Buffer) {
	p, stdout, stderr = start(args...)
	p.Getenv = func(name string) string { return b.env[name] }
	return p, stdout, stderr
}

// must runs a command that must succeed and print nothing on standard error. It returns its answer.
func (b *testBox) must(args ...string) string {
	b.t.Helper()
	p, stdout, stderr := b.program(args...)
	if status := execute(p); status != 0 || stderr.Len() > 0 {
		b.t.Fatalf("%q: status %d, stderr %s", args, status, stderr)
	}
	return stdout.String()
}
