package chat

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/testkit/must"
)

func reopen(t *testing.T, name string) *history {
	t.Helper()
	h, err := openHistory(name)
	must.Succeed(t, err)
	return h
}

func add(t *testing.T, h *history, entries ...string) {
	t.Helper()
	for _, entry := range entries {
		must.Succeed(t, h.Add(entry))
	}
}

func TestHistory(t *testing.T) {
	name := filepath.Join(t.TempDir(), "box", "history")
	h := reopen(t, name)
	other := reopen(t, name)
	add(t, h, "one", "one", "two\n\x1b lines", "", strings.Repeat("x", maxEntry+1))
	add(t, other, "from another chat")
	if diff := cmp.Diff([]string{"one", "two\n\x1b lines", "from another chat"},
		reopen(t, name).entries); diff != "" {
		t.Error(diff)
	}
	if len(h.entries) != 3 {
		t.Errorf("a long question is not in memory: %d entries", len(h.entries))
	}
	if info, err := os.Stat(name); err != nil || runtime.GOOS != "windows" &&
		info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if files, err := os.ReadDir(filepath.Dir(name)); err != nil || len(files) != 1 {
		t.Errorf("%v, %v", files, err)
	}
}

// A file that others could read becomes private.
func TestHistoryBecomesPrivate(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no modes")
	}
	name := filepath.Join(t.TempDir(), "history")
	must.Succeed(t, os.WriteFile(name, []byte("\"old\"\n"), 0o644))
	add(t, reopen(t, name), "new")
	if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

func TestHistoryIsBounded(t *testing.T) {
	name := filepath.Join(t.TempDir(), "history")
	h := reopen(t, name)
	for i := range 5 * maxEntries {
		add(t, h, fmt.Sprint("question ", i))
	}
	text, err := os.ReadFile(name)
	if n := strings.Count(string(text), "\n"); err != nil || n > 2*maxEntries {
		t.Errorf("%d lines, %v", n, err)
	}
	h = reopen(t, name)
	if n := len(h.entries); n != maxEntries || h.entries[n-1] != fmt.Sprint("question ",
		5*maxEntries-1) {
		t.Errorf("%d entries, the last is %q", n, h.entries[n-1])
	}
	if info, err := os.Stat(name); err != nil || runtime.GOOS != "windows" &&
		info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// Damage costs only the damaged lines, and something else in place of the file is left alone.
func TestDamagedHistory(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "history")
	must.Succeed(t, os.WriteFile(name, []byte("\"a\"\nnot JSON\n{}\n\"b\"\n\"incompl"),
		0o600))
	if diff := cmp.Diff([]string{"a", "b"}, reopen(t, name).entries); diff != "" {
		t.Error(diff)
	}
	folder := filepath.Join(dir, "folder")
	must.Succeed(t, os.Mkdir(folder, 0o700))
	h, err := openHistory(folder)
	if err == nil {
		t.Error("a folder was read as a history")
	}
	add(t, h, "only in memory")
	link := filepath.Join(dir, "link")
	if err := os.Symlink(filepath.Join(dir, "elsewhere"), link); err != nil {
		t.Skip(err)
	}
	if err := reopen(t, link).Add("secret"); err == nil {
		t.Error("a link was followed")
	}
}
