//go:build unix

package durable

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"signalbox/internal/testkit/must"
)

// A pipe, a folder or a device in place of a file is refused at once, also behind a link.
func TestOpenRegular(t *testing.T) {
	dir := t.TempDir()
	name := func(base string) string { return filepath.Join(dir, base) }
	for _, err := range []error{
		os.WriteFile(name("file"), []byte("text"), 0o600), os.Mkdir(name("folder"), 0o700),
		syscall.Mkfifo(name("pipe"), 0o600),
		os.Symlink("pipe", name("link to a pipe")), os.Symlink("file", name("link to a file")),
		os.Symlink(os.DevNull, name("device")),
		os.Symlink("loop", name("loop")),
	} {
		must.Succeed(t, err)
	}
	for _, good := range []string{"file", "link to a file"} {
		if text, err := ReadRegular(name(good), 4); err != nil || string(text) != "text" {
			t.Errorf("%s: %q, %v", good, text, err)
		}
	}
	if _, err := ReadRegular(name("file"), 3); err == nil {
		t.Error("a file over the limit was read")
	}
	root, err := os.OpenRoot(dir)
	must.Succeed(t, err)
	defer root.Close()
	for _, bad := range []string{"folder", "pipe", "link to a pipe", "device"} {
		if _, err := OpenRegular(name(bad)); !errors.Is(err, ErrNotRegular) {
			t.Errorf("%s: %v", bad, err)
		}
	}
	for _, bad := range []string{"folder", "pipe", "link to a pipe"} {
		if _, err := OpenRegularIn(root, bad); !errors.Is(err, ErrNotRegular) {
			t.Errorf("%s in a root: %v", bad, err)
		}
	}
	for _, bad := range []string{"loop", "missing"} {
		if _, err := OpenRegular(name(bad)); err == nil {
			t.Errorf("%s was opened", bad)
		}
	}
}
