package durable

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/internal/testkit/must"
)

// checkFolder fails unless a folder has exactly these files.
func checkFolder(t *testing.T, dir string, want map[string]string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must.Succeed(t, err)
	got := map[string]string{}
	for _, entry := range entries {
		content := []byte("a folder")
		if !entry.IsDir() {
			if content, err = os.ReadFile(filepath.Join(dir, entry.Name())); err != nil {
				t.Fatal(err)
			}
		}
		got[entry.Name()] = string(content)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the folder (-want +got):\n%s", diff)
	}
}

func checkMode(t *testing.T, name string, want fs.FileMode) {
	t.Helper()
	info, err := os.Stat(name)
	must.Succeed(t, err)
	if got := info.Mode().Perm(); got != want && runtime.GOOS != "windows" {
		t.Errorf("%s has mode %o, want %o", name, got, want)
	}
}

func TestReplace(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "file")
	for _, step := range []struct {
		content string
		mode    fs.FileMode
	}{{"first", 0o600}, {"second, and longer", 0o644}, {"", 0o600}} {
		must.Succeed(t, Replace(name, []byte(step.content), step.mode))
		checkFolder(t, dir, map[string]string{"file": step.content})
		checkMode(t, name, step.mode)
	}
}

func TestFailedReplaceChangesNothing(t *testing.T) {
	dir := t.TempDir()
	must.Succeed(t, os.MkdirAll(filepath.Join(dir, "folder", "inner"), 0o700))
	if err := Replace(filepath.Join(dir, "folder"), []byte("x"), 0o600); err == nil {
		t.Error("a folder was replaced by a file")
	}
	if err := Replace(filepath.Join(dir, "gone", "file"), []byte("x"), 0o600); !errors.Is(err,
		fs.ErrNotExist) {
		t.Errorf("no such folder: %v", err)
	}
	checkFolder(t, dir, map[string]string{"folder": "a folder"})
}

// A reader sees the old or the new content, never a mixture.
func TestReplaceIsAtomic(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows does not replace a file that is open")
	}
	name := filepath.Join(t.TempDir(), "file")
	contents := [][]byte{bytes.Repeat([]byte("a"), 1<<16), bytes.Repeat([]byte("b"), 1<<17)}
	must.Succeed(t, Replace(name, contents[0], 0o600))
	done := make(chan struct{})
	var reader sync.WaitGroup
	reader.Go(func() {
		for {
			got, err := os.ReadFile(name)
			if err != nil || !bytes.Equal(got, contents[0]) && !bytes.Equal(got, contents[1]) {
				t.Errorf("read %d bytes, %v", len(got), err)
				return
			}
			select {
			case <-done:
				return
			default:
			}
		}
	})
	for i := range 50 {
		must.Succeed(t, Replace(name, contents[i%2], 0o600))
	}
	close(done)
	reader.Wait()
}

func TestCreate(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "key")
	must.Succeed(t, Create(name, []byte("secret"), 0o600))
	checkMode(t, name, 0o600)
	if err := Create(name, []byte("another"), 0o600); !errors.Is(err, fs.ErrExist) {
		t.Errorf("the second time: %v, want %v", err, fs.ErrExist)
	}
	if err := Create(filepath.Join(dir, "gone", "key"), nil, 0o600); !errors.Is(err,
		fs.ErrNotExist) {
		t.Errorf("no such folder: %v", err)
	}
	checkFolder(t, dir, map[string]string{"key": "secret"})
}

func TestOnlyOneCreates(t *testing.T) {
	dir := t.TempDir()
	created := make(chan string, 20)
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			content := string(rune('a' + i))
			if err := Create(filepath.Join(dir, "key"), []byte(content), 0o600); err == nil {
				created <- content
			} else if !errors.Is(err, fs.ErrExist) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if len(created) != 1 {
		t.Fatalf("%d have created it, want 1", len(created))
	}
	checkFolder(t, dir, map[string]string{"key": <-created})
}

func TestSyncFolder(t *testing.T) {
	dir := t.TempDir()
	if err := SyncFolder(dir); err != nil {
		t.Error(err)
	}
	if err := SyncFolder(filepath.Join(dir, "gone")); !errors.Is(err, fs.ErrNotExist) &&
		runtime.GOOS != "windows" {
		t.Errorf("no such folder: %v", err)
	}
}
