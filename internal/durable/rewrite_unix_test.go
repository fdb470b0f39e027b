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

// A rewritten file keeps its mode, its owner and its group, and a link stays a link.
func TestRewrite(t *testing.T) {
	dir := t.TempDir()
	name, link := filepath.Join(dir, "real", "file"), filepath.Join(dir, "link")
	must.Succeed(t, errors.Join(os.Mkdir(filepath.Dir(name), 0o700),
		os.WriteFile(name, []byte("a long old text"), 0o600), os.Chmod(name, 0o640),
		os.Symlink("real/file", link)))
	if os.Geteuid() == 0 {
		must.Succeed(t, os.Chown(name, 12345, 23456))
	}
	before := owner(t, name)
	must.Succeed(t, Rewrite(link, []byte("new")))
	if text, err := os.ReadFile(name); string(text) != "new" {
		t.Errorf("the file has %q, %v", text, err)
	}
	if after := owner(t, name); after != before {
		t.Errorf("owner, group and mode are %v, were %v", after, before)
	}
	if to, err := os.Readlink(link); to != "real/file" {
		t.Errorf("the link is %q, %v", to, err)
	}
	if entries, err := os.ReadDir(filepath.Dir(name)); len(entries) != 1 {
		t.Errorf("beside it is %v, %v", entries, err)
	}
	if err := Rewrite(filepath.Join(dir, "missing"), nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}

func owner(t *testing.T, name string) [3]uint32 {
	t.Helper()
	info, err := os.Stat(name)
	must.Succeed(t, err)
	stat := info.Sys().(*syscall.Stat_t)
	return [3]uint32{stat.Uid, stat.Gid, uint32(info.Mode())}
}
